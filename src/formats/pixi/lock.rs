//! `pixi.lock`, formats 4 to 7: environments with the addresses of their packages, and the packages once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use crate::formats::conda::{CondaRecord, PLATFORM, other_platforms, platform, python};
use crate::formats::document::{
    file_name, format_version, git, index, name, text_of, url, version, wheel, yaml,
};
use crate::formats::error::{ForeignError, MAX_PACKAGES};
use crate::formats::types::{Environment, Fixed, Package, SourceArchive};
use crate::model::solution::Edge;
use crate::model::source::Source;
use crate::model::text::{clean, requirement_name};

#[derive(Deserialize)]
struct RawLock {
    #[serde(default)]
    platforms: Vec<RawPlatform>,
    environments: BTreeMap<String, RawEnvironment>,
    #[serde(default)]
    packages: Vec<RawPackage>,
}

/// A platform of format 7; its name may be an alias.
#[derive(Deserialize)]
struct RawPlatform {
    name: String,
    subdir: Option<String>,
    #[serde(default, rename = "virtual-packages")]
    virtual_packages: Vec<String>,
}

#[derive(Deserialize)]
struct RawEnvironment {
    #[serde(default)]
    indexes: Vec<String>,
    #[serde(default)]
    packages: BTreeMap<String, Vec<RawReference>>,
}

#[derive(Deserialize)]
struct RawReference {
    conda: Option<String>,
    pypi: Option<String>,
}

#[derive(Deserialize)]
struct RawPackage {
    conda: Option<String>,
    pypi: Option<String>,
    /// Of formats 4 and 5: `conda` or `pypi`, with the address in `url` or `path`.
    kind: Option<String>,
    url: Option<String>,
    path: Option<String>,
    name: Option<String>,
    version: Option<serde_json::Value>,
    build: Option<String>,
    #[serde(default)]
    depends: Vec<String>,
    #[serde(default)]
    constrains: Vec<String>,
    #[serde(default)]
    requires_dist: Vec<String>,
    sha256: Option<String>,
}

pub(in crate::formats) fn parse(text: &str) -> Result<Vec<Fixed>, ForeignError> {
    let version = format_version(text)?;
    if !(4..=7).contains(&version) {
        return Err(ForeignError::Version(version.to_string(), "4 to 7"));
    }
    let raw: RawLock = yaml(text)?;
    let count: usize = raw.environments.values().flat_map(|e| e.packages.values()).map(Vec::len).sum();
    if raw.packages.len().max(count) > MAX_PACKAGES {
        return Err(ForeignError::TooLarge(MAX_PACKAGES));
    }
    let mut by_address: HashMap<&str, &RawPackage> = HashMap::new();
    for package in &raw.packages {
        let address = package.conda.as_ref().or(package.pypi.as_ref());
        // Without `kind`, `url` belongs to something else.
        let address =
            address.or_else(|| package.kind.as_ref().and(package.url.as_ref().or(package.path.as_ref())));
        if let Some(address) = address {
            by_address.insert(address, package);
        }
    }
    let mut out = Vec::new();
    let mut others: BTreeSet<&str> = BTreeSet::new();
    for (environment, content) in &raw.environments {
        // torch's own index says which build is meant.
        let own = content.indexes.iter().find(|address| address.contains("/whl/"));
        let from =
            own.or(content.indexes.first()).map_or(Source::Index(String::new()), |address| index(address));
        for (alias, references) in &content.packages {
            let row = raw.platforms.iter().find(|row| row.name == *alias);
            let subdir = row.and_then(|row| row.subdir.as_deref()).unwrap_or(alias);
            // A platform that envlock does not know is one that nobody can ask for.
            let Some(platform) = platform(subdir) else {
                others.insert(subdir);
                continue;
            };
            let mut one = environment_of(references, &by_address, &from)?;
            one.name = match alias == subdir {
                true => clean(environment, 80),
                // Two platforms of a lock may be of one kind, with and without a GPU.
                false => format!("{} ({})", clean(environment, 80), clean(alias, 40)),
            };
            one.options.push(("environment", clean(environment, 80)));
            let asked = row.map(|row| row.virtual_packages.as_slice()).unwrap_or_default();
            one.conda.extend(of_platform(asked));
            out.push(Fixed { platform, environment: one });
        }
    }
    if out.is_empty() && !others.is_empty() {
        return Err(other_platforms(others));
    }
    // `default` is what pixi installs when no name is given.
    out.sort_by_key(|fixed| {
        !(fixed.environment.name == "default" || fixed.environment.name.starts_with("default ("))
    });
    Ok(out)
}

fn environment_of(
    references: &[RawReference],
    by_address: &HashMap<&str, &RawPackage>,
    from: &Source,
) -> Result<Environment, ForeignError> {
    let mut packages: Vec<Package> = Vec::new();
    let mut conda: Vec<CondaRecord> = Vec::new();
    let mut unversioned: Vec<String> = Vec::new();
    for reference in references {
        if let Some(address) = &reference.conda {
            conda.push(match by_address.get(address.as_str()) {
                Some(raw) => record(address, raw)?,
                None => CondaRecord::new(address, (None, None, None), &[], &[])?,
            });
        }
        if let Some((address, raw)) =
            reference.pypi.as_ref().and_then(|address| Some((address, by_address.get(address.as_str())?)))
        {
            match package(address, raw, from)? {
                Some(package) => packages.push(package),
                None => unversioned.extend(raw.name.as_deref().map(name).transpose()?),
            }
        }
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    conda.sort_by(|a, b| a.name.cmp(&b.name));
    let python = python(&conda);
    Ok(Environment { packages, conda, unversioned, ..Environment::new("", python) })
}

fn record(address: &str, raw: &RawPackage) -> Result<CondaRecord, ForeignError> {
    let version = raw.version.as_ref().map(text_of);
    let stated = (raw.name.as_deref(), version.as_deref(), raw.build.as_deref());
    CondaRecord::new(address, stated, &raw.depends, &raw.constrains)
}

/// A package of PyPI; `None` for a folder whose version is dynamic.
fn package(address: &str, raw: &RawPackage, from: &Source) -> Result<Option<Package>, ForeignError> {
    let Some(package) = raw.name.as_deref().map(name).transpose()? else { return Ok(None) };
    let file = wheel(file_name(address), raw.sha256.as_deref(), None);
    let is_file = address.starts_with("http");
    let source = match () {
        () if address.starts_with("git+") => git(address),
        () if !is_file => Source::Path(clean(address, 200)),
        // The file's own address says more than the list of indexes does.
        () if address.contains("/whl/") => {
            index(address.rsplit_once('/').map_or(address, |(folder, _)| folder))
        }
        () if file.is_some() || matches!(from, Source::Index(_)) => from.clone(),
        () => url(address),
    };
    // Formats without a version have it in the name of the wheel.
    let of_file =
        || file.as_ref()?.name.parse::<crate::model::wheel::WheelName>().ok().map(|w| w.version.to_string());
    let Some(text) = raw.version.as_ref().map(text_of).or_else(of_file) else { return Ok(None) };
    let edge = |line: &String| {
        let to = requirement_name(line);
        Edge { to: to.clone(), requirement: clean(line.split(';').next().unwrap_or(line).trim(), 120) }
    };
    Ok(Some(Package {
        version: version(&package, &text)?,
        source,
        archive: file.as_ref().map_or(SourceArchive::Named, |_| SourceArchive::Absent),
        wheels: file.into_iter().collect(),
        requires: raw.requires_dist.iter().map(edge).collect(),
        name: package,
    }))
}

/// What the platform itself must have, as a record: pixi refuses a machine without it.
fn of_platform(virtual_packages: &[String]) -> Option<CondaRecord> {
    let spec = |text: &String| {
        let mut parts = text.split('=');
        let (name, version) = (parts.next()?, parts.next()?);
        (name == "__cuda" || name == "__glibc").then(|| format!("{name} >={version}"))
    };
    let requires: Vec<String> =
        virtual_packages.iter().filter_map(spec).map(|spec| clean(&spec, 120)).collect();
    (!requires.is_empty()).then(|| CondaRecord {
        channel: String::new(),
        name: PLATFORM.to_owned(),
        version: String::new(),
        build: String::new(),
        requires,
        constrains: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::Python;

    const V6: &str = r#"
version: 6
environments:
  default:
    channels:
    - url: https://channels.example/conda-forge/
    indexes:
    - https://index.example/simple
    packages:
      linux-64:
      - conda: https://channels.example/conda-forge/linux-64/python-3.12.7-hc5c86c4_0_cpython.conda
      - conda: https://channels.example/conda-forge/noarch/cuda-version-12.9-h4f385c5_3.conda
      - pypi: https://files.example/aa/torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl
      - pypi: .
      win-64:
      - conda: https://channels.example/conda-forge/win-64/python-3.11.7-h_0_cpython.conda
  cpu:
    channels: []
    packages:
      linux-64: []
packages:
- conda: https://channels.example/conda-forge/linux-64/python-3.12.7-hc5c86c4_0_cpython.conda
  sha256: aa
  depends:
  - __glibc >=2.17,<3.0.a0
  - openssl >=3
- conda: https://channels.example/conda-forge/noarch/cuda-version-12.9-h4f385c5_3.conda
  constrains:
  - cudatoolkit 12.9|12.9.*
  - __cuda >=12
- conda: https://channels.example/conda-forge/win-64/python-3.11.7-h_0_cpython.conda
- pypi: https://files.example/aa/torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl
  name: torch
  version: 2.9.1
  requires_dist:
  - filelock
  - setuptools ; python_full_version >= '3.12'
- pypi: .
  name: own
  version: 0.1.0
  editable: true
"#;

    #[test]
    fn environments_by_platform() {
        let all = parse(V6).unwrap();
        let names: Vec<String> =
            all.iter().map(|f| format!("{} {}", f.environment.name, f.platform)).collect();
        assert_eq!(names, ["default linux-x86_64", "default windows-x86_64", "cpu linux-x86_64"]);
        let linux = &all[0].environment;
        assert_eq!(linux.python, Python::new(12));
        let python: Vec<String> =
            linux.packages.iter().map(|p| format!("{} {} {}", p.name, p.version, p.source)).collect();
        assert_eq!(python, ["own 0.1.0 .", "torch 2.9.1 simple"]);
        assert_eq!(linux.packages[1].requires[1].to, "setuptools");
        assert_eq!(linux.conda[0].constrains, ["__cuda >=12"]);
        assert_eq!(linux.conda[1].requires, ["__glibc >=2.17,<3.0.a0"]);
    }

    #[test]
    fn older_and_newer_formats() {
        let five = "version: 5\nenvironments:\n  default:\n    channels: []\n    packages:\n      linux-64:\n      - conda: https://x/linux-64/numpy-1.26.4-py311_0.conda\n      - pypi: https://f/six-1.16.0-py2.py3-none-any.whl\npackages:\n- kind: conda\n  name: numpy\n  version: 1.26.4\n  build: py311_0\n  subdir: linux-64\n  url: https://x/linux-64/numpy-1.26.4-py311_0.conda\n- kind: pypi\n  name: six\n  version: '1.16.0'\n  url: https://f/six-1.16.0-py2.py3-none-any.whl\n";
        let all = parse(five).unwrap();
        assert_eq!((all[0].environment.conda.len(), all[0].environment.packages.len()), (1, 1));
        let seven = "version: 7\nplatforms:\n- name: p1\n  subdir: linux-64\n  virtual-packages:\n  - __unix=0=0\n  - __cuda=12.8\n- name: linux-64\nenvironments:\n  default:\n    channels: []\n    packages:\n      p1:\n      - conda: https://x/linux-64/a-1.0-0.conda\n      - conda_source: 'b[12] @ .'\n      linux-64: []\npackages:\n- conda: https://x/linux-64/a-1.0-0.conda\n";
        let all = parse(seven).unwrap();
        let names: Vec<&str> = all.iter().map(|f| f.environment.name.as_str()).collect();
        assert_eq!(names, ["default", "default (p1)"]);
        assert_eq!(all[1].environment.conda.last().unwrap().requires, ["__cuda >=12.8"]);
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        assert_eq!(
            parse("version: 3\npackage: []\n").unwrap_err().to_string(),
            "its format is version 3; envlock reads 4 to 7"
        );
        assert!(matches!(parse("version: 6\nenvironments: 3\n"), Err(ForeignError::Syntax(_))));
        assert!(parse("a: [\n").is_err() && parse("").is_err());
    }
}
