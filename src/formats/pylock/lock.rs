//! `pylock.toml` (PEP 751): packages with markers, nothing to resolve.

use pep440_rs::VersionSpecifiers;
use pep508_rs::{MarkerEnvironment, MarkerTree};
use serde::Deserialize;

use crate::formats::document::of_toml;
use crate::formats::document::{
    file_name, git, holds, index, index_of_file, invalid, marker, name, url, version, wheel,
};
use crate::formats::error::{ForeignError, MAX_PACKAGES};
use crate::formats::types::{Environment, Package, SourceArchive, python_for};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::project::specifiers_allow;
use crate::model::source::Source;
use crate::model::wheel::Python;

/// Maximum number of extras and groups that become environments.
const MAX_CHOICES: usize = 128;
/// Limit of the markers on extras and groups in bytes, each counted for every environment in which it is evaluated.
const MAX_EVALUATED: usize = 4 << 20;
/// Maximum number of packages, each counted for every environment.
const MAX_TIMES: usize = 500_000;
/// Length limit of a marker in bytes, as of a requirement.
const MAX_MARKER: usize = 16 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RawLock {
    lock_version: String,
    requires_python: Option<String>,
    #[serde(default)]
    environments: Vec<String>,
    #[serde(default)]
    extras: Vec<String>,
    #[serde(default)]
    dependency_groups: Vec<String>,
    #[serde(default)]
    default_groups: Vec<String>,
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
pub(in crate::formats) struct Pylock {
    requires_python: Option<VersionSpecifiers>,
    supported: Vec<MarkerTree>,
    extras: Vec<String>,
    groups: Vec<String>,
    default_groups: Vec<String>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    /// `None` without a version.
    package: Option<Package>,
    condition: Condition,
    requires_python: Option<VersionSpecifiers>,
}

/// A marker.
#[derive(Debug, Clone)]
enum Condition {
    Fixed(MarkerTree),
    /// As written; conditions on extras and groups are not of PEP 508.
    OnChoices(String),
}

impl Condition {
    fn of(package: &str, text: &str) -> Result<Condition, ForeignError> {
        // Checked once, so that it can be evaluated for every choice.
        let plain = with_choices(text, &[], &[]);
        let fixed = marker(package, Some(&plain))?;
        Ok(if plain == text { Condition::Fixed(fixed) } else { Condition::OnChoices(text.to_owned()) })
    }

    fn holds(&self, machine: &MarkerEnvironment, extras: &[String], groups: &[String]) -> bool {
        match self {
            Condition::Fixed(tree) => holds(tree, machine, &[]),
            Condition::OnChoices(text) => {
                let text = with_choices(text, extras, groups);
                marker("", Some(&text)).is_ok_and(|tree| holds(&tree, machine, &[]))
            }
        }
    }
}

pub(in crate::formats) fn parse(text: &str) -> Result<Pylock, ForeignError> {
    let raw: RawLock = of_toml(text)?;
    if raw.lock_version.split('.').next() != Some("1") {
        let found = crate::model::text::clean(&raw.lock_version, 20);
        return Err(ForeignError::Version(found, "1"));
    }
    if raw.packages.len() > MAX_PACKAGES {
        return Err(ForeignError::TooLarge(MAX_PACKAGES));
    }
    let on_choices = |marker: &&String| marker.contains("extras") || marker.contains("dependency_groups");
    let markers = raw.packages.iter().filter_map(|package| package.marker.as_ref()).filter(on_choices);
    let environments = (1 + raw.extras.len() + raw.dependency_groups.len()).min(MAX_CHOICES);
    if markers.map(String::len).sum::<usize>().saturating_mul(environments) > MAX_EVALUATED {
        return Err(ForeignError::TooManyChoices(MAX_EVALUATED >> 20));
    }
    if raw.packages.len() * environments > MAX_TIMES {
        return Err(ForeignError::TooManyTimes(MAX_TIMES));
    }
    let supported = raw.environments.iter().map(|text| marker("environments", Some(text)));
    Ok(Pylock {
        requires_python: specifiers("requires-python", raw.requires_python.as_deref())?,
        supported: supported.collect::<Result<_, _>>()?,
        entries: raw.packages.iter().map(entry).collect::<Result<_, _>>()?,
        extras: raw.extras,
        groups: raw.dependency_groups,
        default_groups: raw.default_groups,
    })
}

#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn specifiers(key: &str, text: Option<&str>) -> Result<Option<VersionSpecifiers>, ForeignError> {
    text.map(|text| text.parse().map_err(|_| invalid(key, text))).transpose()
}

fn entry(raw: &RawPackage) -> Result<Entry, ForeignError> {
    let package = name(&raw.name)?;
    let condition = Condition::of(&package, raw.marker.as_deref().unwrap_or_default())?;
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
    let version = raw.version.as_deref().map(|text| version(&package, text)).transpose()?;
    let found = version.map(|version| Package {
        version,
        archive: match raw.sdist.is_some() || (source.is_direct() && raw.wheels.is_empty()) {
            true => SourceArchive::Named,
            false => SourceArchive::Absent,
        },
        wheels: raw.wheels.iter().filter_map(of_files).collect(),
        requires: Vec::new(),
        source,
        name: package.clone(),
    });
    let requires_python = specifiers("requires-python", raw.requires_python.as_deref())?;
    Ok(Entry { name: package, package: found, condition, requires_python })
}

/// A marker with its conditions on extras and groups (`'gpu' in extras`) replaced by what they are for a choice.
fn with_choices(marker: &str, extras: &[String], groups: &[String]) -> String {
    let mut out = marker.to_owned();
    // The parser refuses a longer one; each replacement copies the text.
    if out.len() > MAX_MARKER {
        return out;
    }
    for (set, chosen) in [("extras", extras), ("dependency_groups", groups)] {
        for (operator, wanted) in [(format!(" not in {set}"), false), (format!(" in {set}"), true)] {
            while let Some(at) = out.find(&operator) {
                let head = out[..at].trim_end();
                let Some(quote) = head.chars().last().filter(|c| matches!(c, '"' | '\'')) else { break };
                let Some(start) = head[..head.len() - 1].rfind(quote) else { break };
                let name = head[start + 1..head.len() - 1].to_owned();
                let holds = chosen.contains(&name) == wanted;
                let value = if holds { "python_version >= '0'" } else { "python_version < '0'" };
                out.replace_range(start..at + operator.len(), value);
            }
        }
    }
    out
}

impl Pylock {
    pub fn mentions(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// What is installed without options, then with each extra, then of each group that is no default.
    pub fn environments(&self, platform: Platform, python: Option<Python>) -> Vec<Environment> {
        let mut choices = vec![("default".to_owned(), Vec::new(), self.default_groups.clone())];
        for extra in &self.extras {
            choices.push((format!("extra {extra}"), vec![extra.clone()], self.default_groups.clone()));
        }
        for group in self.groups.iter().filter(|group| !self.default_groups.contains(group)) {
            let groups = self.default_groups.iter().chain([group]).cloned().collect();
            choices.push((format!("group {group}"), Vec::new(), groups));
        }
        let of = |(name, extras, groups): &(String, Vec<String>, Vec<String>)| {
            let at = |python| self.environment(platform, python, extras, groups);
            let allowed = |python: Python| {
                let fits = |allowed: &VersionSpecifiers| specifiers_allow(allowed, python);
                self.requires_python.as_ref().is_none_or(fits).then(|| at(python))
            };
            let name = crate::model::text::clean(name, 80);
            Environment { name, ..at(python_for(python, platform, allowed)) }
        };
        choices.iter().take(MAX_CHOICES).map(of).collect()
    }

    fn environment(
        &self,
        platform: Platform,
        python: Python,
        extras: &[String],
        groups: &[String],
    ) -> Environment {
        let machine = marker_environment(python, platform);
        let here = |entry: &&Entry| {
            entry.condition.holds(&machine, extras, groups)
                && entry.requires_python.as_ref().is_none_or(|allowed| specifiers_allow(allowed, python))
        };
        let mut out = Environment::new("default", python);
        for entry in self.entries.iter().filter(here) {
            match &entry.package {
                Some(package) => out.packages.push(package.clone()),
                None => out.unversioned.push(entry.name.clone()),
            }
        }
        out.packages.sort_by(|a, b| a.name.cmp(&b.name));
        let refused = self.requires_python.as_ref().filter(|allowed| !specifiers_allow(allowed, python));
        let is_supported =
            self.supported.is_empty() || self.supported.iter().any(|one| holds(one, &machine, &[]));
        out.excluded = match refused {
            Some(allowed) => Some(format!("the lock requires Python {allowed}, not {python}")),
            None => (!is_supported)
                .then(|| format!("the lock does not support Python {python} on {platform} (`environments`)")),
        };
        out
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
extras = ["test"]
dependency-groups = ["default", "late"]
default-groups = ["default"]
[[packages]]
name = "Torch"
version = "2.9.1+cu128"
marker = "sys_platform == 'linux' and 'default' in dependency_groups"
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
        let environments = lock.environments(Platform::LINUX_X86_64, Some(Python::new(12)));
        let environment = &environments[0];
        let names: Vec<&str> = environment.packages.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            (names, environment.unversioned.as_slice()),
            (vec!["torch"], ["own".to_owned()].as_slice())
        );
        let chosen: Vec<String> =
            environments.iter().map(|one| format!("{} {}", one.name, one.packages.len())).collect();
        assert_eq!(chosen, ["default 1", "extra test 2", "group late 1"]);
        assert_eq!(environment.packages[0].source, Source::Index("whl/cu128".to_owned()));
        assert_eq!(environment.packages[0].wheels.len(), 1);
        assert!(parse("lock-version = \"2.0\"\n").is_err() && parse("lock-version = 1\n").is_err());
    }
}
