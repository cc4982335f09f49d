//! `pylock.toml` (PEP 751): packages with markers, nothing to resolve.

use pep440_rs::VersionSpecifiers;
use pep508_rs::MarkerTree;
use serde::Deserialize;

use super::document::{
    file_name, git, holds, index, index_of_file, invalid, marker, name, url, version, wheel,
};
use super::{Environment, ForeignError, MAX_PACKAGES, Package};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::project::specifiers_allow;
use crate::model::source::Source;
use crate::model::wheel::Python;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawLock {
    lock_version: String,
    requires_python: Option<String>,
    #[serde(default)]
    packages: Vec<RawPackage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawPackage {
    name: String,
    version: Option<String>,
    marker: Option<String>,
    requires_python: Option<String>,
    index: Option<String>,
    vcs: Option<RawPlace>,
    directory: Option<RawPlace>,
    archive: Option<RawPlace>,
    sdist: Option<toml::Value>,
    #[serde(default)]
    wheels: Vec<RawWheel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawPlace {
    url: Option<String>,
    path: Option<String>,
    commit_id: Option<String>,
}

#[derive(Deserialize)]
struct RawWheel {
    name: Option<String>,
    url: Option<String>,
    path: Option<String>,
    size: Option<u64>,
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
}

/// The packages of a `pylock.toml`, each with the condition under which it is installed.
#[derive(Debug, Clone)]
pub(super) struct Pylock {
    requires_python: Option<VersionSpecifiers>,
    packages: Vec<(Package, MarkerTree, Option<VersionSpecifiers>)>,
}

pub(super) fn parse(text: &str) -> Result<Pylock, ForeignError> {
    let raw: RawLock =
        toml::from_str(text).map_err(|error| ForeignError::Syntax(error.message().to_owned()))?;
    if raw.lock_version.split('.').next() != Some("1") {
        let found = crate::model::text::clean(&raw.lock_version, 20);
        return Err(ForeignError::Version(found, "1"));
    }
    if raw.packages.len() > MAX_PACKAGES {
        return Err(ForeignError::TooLarge(MAX_PACKAGES));
    }
    let mut packages = Vec::new();
    for raw in &raw.packages {
        packages.extend(package(raw)?);
    }
    Ok(Pylock { requires_python: specifiers("requires-python", raw.requires_python.as_deref())?, packages })
}

fn specifiers(key: &str, text: Option<&str>) -> Result<Option<VersionSpecifiers>, ForeignError> {
    text.map(|text| text.parse().map_err(|_| invalid(key, text))).transpose()
}

/// `None` for a package of an extra or a group, which no plain installation has, and for a folder without a version.
fn package(
    raw: &RawPackage,
) -> Result<Option<(Package, MarkerTree, Option<VersionSpecifiers>)>, ForeignError> {
    let package = name(&raw.name)?;
    let is_chosen = |text: &String| text.contains("extras") || text.contains("dependency_groups");
    let Some(text) = &raw.version else { return Ok(None) };
    if raw.marker.as_ref().is_some_and(is_chosen) {
        return Ok(None);
    }
    let condition = marker(&package, raw.marker.as_deref())?;
    let of_files = |raw: &RawWheel| {
        let named = raw.name.clone().or_else(|| raw.url.as_deref().or(raw.path.as_deref()).map(file_name))?;
        wheel(named, raw.hashes.get("sha256").map(String::as_str), raw.size)
    };
    let address = |place: &RawPlace| place.url.clone().or_else(|| place.path.clone()).unwrap_or_default();
    let source = match (&raw.vcs, &raw.directory, &raw.archive) {
        (Some(vcs), ..) => git(&format!("{}#{}", address(vcs), vcs.commit_id.as_deref().unwrap_or_default())),
        (_, Some(folder), _) => Source::Path(crate::model::text::clean(&address(folder), 200)),
        (.., Some(archive)) => url(&address(archive)),
        // The file's address says which index it is from, where `index` does not.
        _ => match (&raw.index, raw.wheels.first().and_then(|wheel| wheel.url.as_deref())) {
            (Some(address), _) => index(address),
            (None, Some(file)) => index_of_file(file),
            (None, None) => Source::Index(String::new()),
        },
    };
    let found = Package {
        version: version(&package, text)?,
        has_source: raw.sdist.is_some() || source.is_direct(),
        wheels: raw.wheels.iter().filter_map(of_files).collect(),
        requires: Vec::new(),
        source,
        name: package,
    };
    Ok(Some((found, condition, specifiers("requires-python", raw.requires_python.as_deref())?)))
}

impl Pylock {
    pub fn allows(&self, python: Python) -> bool {
        self.requires_python.as_ref().is_none_or(|allowed| specifiers_allow(allowed, python))
    }

    pub fn environment(&self, platform: Platform, python: Python) -> Environment {
        let machine = marker_environment(python, platform);
        let here = |(_, condition, allowed): &&(Package, MarkerTree, Option<VersionSpecifiers>)| {
            holds(condition, &machine, &[])
                && allowed.as_ref().is_none_or(|allowed| specifiers_allow(allowed, python))
        };
        let mut packages: Vec<Package> =
            self.packages.iter().filter(here).map(|(package, ..)| package.clone()).collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Environment { name: "default".to_owned(), python, packages, conda: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_whose_markers_hold() {
        let text = r#"
lock-version = "1.0"
created-by = "x"
requires-python = ">=3.12"
[[packages]]
name = "Torch"
version = "2.9.1+cu128"
index = "https://wheels.example/whl/cu128"
wheels = [{ url = "https://wheels.example/whl/cu128/torch-2.9.1%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl", hashes = { sha256 = "00" } }]
[[packages]]
name = "colorama"
version = "0.4"
marker = "sys_platform == 'win32'"
[[packages]]
name = "pytest"
version = "9"
marker = "'test' in extras"
[[packages]]
name = "own"
directory = { path = "." }
"#;
        let lock = parse(text).unwrap();
        let environment = lock.environment(Platform::LINUX_X86_64, Python::new(12));
        let names: Vec<&str> = environment.packages.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["torch"]);
        assert_eq!(environment.packages[0].source, Source::Index("whl/cu128".to_owned()));
        assert_eq!(environment.packages[0].wheels.len(), 1);
        assert!(parse("lock-version = \"2.0\"\n").is_err() && parse("lock-version = 1\n").is_err());
    }
}
