//! `conda-lock.yml`, format 1: one list of packages for all platforms.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::record::{CondaRecord, other_platforms, platform, python};
use crate::formats::document::{file_name, format_version, index, name, text_of, version, wheel, yaml};
use crate::formats::error::{ForeignError, MAX_PACKAGES};
use crate::formats::types::{Environment, Fixed, Package, SourceArchive};
use crate::model::source::Source;
use crate::model::text::clean;

/// Maximum number of packages of all categories and platforms with those that they are installed with.
const MAX_EXPANDED: usize = 4 * MAX_PACKAGES;

/// The category that is installed when none is named.
const MAIN: &str = "main";

#[derive(Deserialize)]
struct RawLock {
    #[serde(default)]
    package: Vec<RawPackage>,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    version: serde_json::Value,
    manager: String,
    platform: String,
    #[serde(default)]
    dependencies: BTreeMap<String, serde_json::Value>,
    url: String,
    #[serde(default)]
    hash: BTreeMap<String, Option<String>>,
    category: Option<String>,
}

pub(in crate::formats) fn parse(text: &str) -> Result<Vec<Fixed>, ForeignError> {
    let version = format_version(text)?;
    if version != 1 {
        return Err(ForeignError::Version(version.to_string(), "1"));
    }
    let raw: RawLock = yaml(text)?;
    if raw.package.len() > MAX_PACKAGES {
        return Err(ForeignError::TooLarge(MAX_PACKAGES));
    }
    let mut by_place: BTreeMap<(String, String), (Vec<Package>, Vec<CondaRecord>)> = BTreeMap::new();
    for raw in &raw.package {
        let category = raw.category.clone().unwrap_or_else(|| MAIN.to_owned());
        let place = by_place.entry((raw.platform.clone(), category)).or_default();
        match raw.manager.as_str() {
            "conda" => place.1.push(record(raw)?),
            _ => place.0.push(package(raw)?),
        }
    }
    // Another category is installed with the main one, and has a copy of its packages.
    let mains = by_place.iter().filter(|((_, category), _)| category == MAIN);
    let largest = mains.map(|(_, (packages, conda))| packages.len() + conda.len()).max().unwrap_or_default();
    if largest.saturating_mul(by_place.len()) > MAX_EXPANDED {
        return Err(ForeignError::TooLarge(MAX_EXPANDED));
    }
    let mut out = Vec::new();
    for ((subdir, category), (packages, conda)) in &by_place {
        let Some(platform) = platform(subdir) else { continue };
        let (mut packages, mut conda) = (packages.clone(), conda.clone());
        if category != MAIN
            && let Some(main) = by_place.get(&(subdir.clone(), MAIN.to_owned()))
        {
            packages.extend(main.0.iter().cloned());
            conda.extend(main.1.iter().cloned());
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        conda.sort_by(|a, b| a.name.cmp(&b.name));
        let name =
            if category == MAIN { "default".to_owned() } else { format!("category {}", clean(category, 40)) };
        out.push(Fixed {
            platform,
            environment: Environment {
                python: python(&conda),
                packages,
                conda,
                ..Environment::new(&name, crate::formats::document::NEWEST)
            },
        });
    }
    if out.is_empty() && !by_place.is_empty() {
        return Err(other_platforms(by_place.keys().map(|(subdir, _)| subdir.as_str()).collect()));
    }
    out.sort_by_key(|fixed| fixed.environment.name != "default");
    Ok(out)
}

fn record(raw: &RawPackage) -> Result<CondaRecord, ForeignError> {
    let requires: Vec<String> =
        raw.dependencies.iter().map(|(name, spec)| format!("{name} {}", text_of(spec))).collect();
    let version = text_of(&raw.version);
    CondaRecord::new(&raw.url, (Some(&raw.name), Some(&version), None), &requires, &[])
}

fn package(raw: &RawPackage) -> Result<Package, ForeignError> {
    let package = name(&raw.name)?;
    let file = wheel(file_name(&raw.url), raw.hash.get("sha256").and_then(Option::as_deref), None);
    let own_index = raw.url.contains("/whl/");
    Ok(Package {
        version: version(&package, &text_of(&raw.version))?,
        source: match own_index {
            true => index(raw.url.rsplit_once('/').map_or(&raw.url, |(folder, _)| folder)),
            false => Source::Index(String::new()),
        },
        archive: file.as_ref().map_or(SourceArchive::Named, |_| SourceArchive::Absent),
        wheels: file.into_iter().collect(),
        requires: Vec::new(),
        name: package,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_and_platforms() {
        let text = "version: 1\nmetadata: {}\npackage:\n- name: python\n  version: 3.11.7\n  manager: conda\n  platform: linux-64\n  dependencies:\n    __glibc: '>=2.17,<3.0.a0'\n    openssl: '>=3'\n  url: https://x/linux-64/python-3.11.7-hab00c5b_1_cpython.conda\n  hash:\n    md5: aa\n  category: main\n  optional: false\n- name: torch\n  version: '2.1'\n  manager: pip\n  platform: linux-64\n  dependencies: {}\n  url: https://f/torch-2.1.0-cp311-cp311-manylinux1_x86_64.whl\n  hash:\n    sha256: bb\n  category: train\n- name: python\n  version: 3.11.7\n  manager: conda\n  platform: plan9-64\n  url: https://x/python-3.11.7-0.conda\n";
        let all = parse(text).unwrap();
        let names: Vec<String> =
            all.iter().map(|f| format!("{} {}", f.environment.name, f.environment.packages.len())).collect();
        assert_eq!(names, ["default 0", "category train 1"]);
        assert_eq!(all[1].environment.conda[0].requires, ["__glibc >=2.17,<3.0.a0"]);
        assert_eq!(all[1].environment.conda[0].build, "hab00c5b_1_cpython");
        let other = text.replace("platform: linux-64", "platform: linux-ppc64le");
        let why = parse(&other).unwrap_err().to_string();
        assert_eq!(why, "its packages are for linux-ppc64le, plan9-64, which envlock does not know");
        assert!(parse("version: 2\n").is_err() && parse("package: []\n").is_err());
    }
}
