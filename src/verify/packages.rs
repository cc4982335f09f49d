//! Installed packages against the locked ones: versions, flavours, missing, extra, metadata.

use std::collections::BTreeMap;

use pep440_rs::Version;

use super::{Area, finding};
use crate::lockfile::Target;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::installed::{Distribution, Installed, InstalledVersion};
use crate::model::solution::Level;
use crate::model::text::shell_word;

/// Packages that come with an environment and are nobody's mistake.
pub const FURNITURE: [&str; 4] = ["pip", "setuptools", "wheel", "uv"];

/// What mends packages that are not the locked ones.
const INSTALL_THE_LOCK: &str =
    "envlock export requirements.txt -o r.txt && pip install --require-hashes -r r.txt";

/// The command that installs a package anew as it is recorded.
pub(super) fn reinstall(installed: &Installed, name: &str) -> String {
    let version = installed.distributions.iter().find(|d| d.name == name);
    let version = version.map(|d| format!("=={}", d.version)).unwrap_or_default();
    format!("pip install --force-reinstall --no-deps {}", shell_word(&format!("{name}{version}")))
}

pub(super) fn check(target: &Target, installed: &Installed) -> Area {
    let mut findings = Vec::new();
    if let Some(python) = installed.python
        && python.minor != target.python.minor
    {
        findings.push(finding(
            Code::WrongPython,
            Severity::Error,
            format!("the environment has Python {python}, the lock is for {}", target.python),
        ));
        if let Some(finding) = findings.last_mut() {
            finding.fix = Some(format!("make the environment anew with Python {}", target.python));
        }
    }
    if target.level == Level::Stack {
        findings.push(finding(
            Code::StackOnlyLock,
            Severity::Warning,
            "the lock was made with `--stack-only`: only the stack is compared".to_owned(),
        ));
    }
    let mut by_name: BTreeMap<&str, Vec<&Distribution>> = BTreeMap::new();
    for distribution in &installed.distributions {
        by_name.entry(&distribution.name).or_default().push(distribution);
    }
    for (name, list) in &by_name {
        if list.len() > 1 {
            let versions: Vec<String> = list.iter().map(|d| d.version.to_string()).collect();
            findings.push(at(
                name,
                finding(
                    Code::DuplicatePackage,
                    Severity::Error,
                    format!("{name} is installed {} times: {}", list.len(), versions.join(", ")),
                ),
            ));
        }
    }
    let mut as_locked = 0;
    for package in &target.packages {
        let Some(found) = by_name.get(package.name.as_str()).and_then(|l| l.first()) else {
            findings.push(at(
                &package.name,
                Finding {
                    fix: Some(INSTALL_THE_LOCK.to_owned()),
                    ..finding(
                        Code::MissingPackage,
                        Severity::Error,
                        format!("{} {} is not installed", package.name, package.version),
                    )
                },
            ));
            continue;
        };
        let before = findings.len();
        if !same_version(&package.version, &found.version) {
            findings.push(at(
                &package.name,
                Finding {
                    fix: Some(INSTALL_THE_LOCK.to_owned()),
                    ..finding(
                        Code::WrongVersion,
                        Severity::Error,
                        format!(
                            "{} {} is installed, {} is locked",
                            package.name, found.version, package.version
                        ),
                    )
                },
            ));
        } else if let (Some(expected), Some(found_digest)) =
            (&package.metadata_sha256, &found.metadata_sha256)
            && expected != found_digest
        {
            findings.push(at(
                &package.name,
                finding(
                    Code::WrongMetadata,
                    Severity::Error,
                    format!(
                        "{} {} is installed from another file than the locked one: its METADATA differs",
                        package.name, found.version
                    ),
                ),
            ));
        }
        if let (Some(expected), Some(variant)) = (&package.variant, &found.variant)
            && expected != variant
        {
            findings.push(at(
                &package.name,
                Finding {
                    fix: Some(INSTALL_THE_LOCK.to_owned()),
                    ..finding(
                        Code::WrongVariant,
                        Severity::Error,
                        format!(
                            "{} is built for {variant}, {expected} is locked (its version.py says so)",
                            package.name
                        ),
                    )
                },
            ));
        }
        if findings.len() == before {
            as_locked += 1;
        }
    }
    for name in by_name.keys() {
        if target.package(name).is_none() && !FURNITURE.contains(name) && target.level == Level::Full {
            findings.push(at(
                name,
                finding(Code::ExtraPackage, Severity::Warning, format!("{name} is installed and not locked")),
            ));
        }
    }
    Area {
        name: "packages".into(),
        findings,
        summary: format!("{as_locked} of {} as locked", target.packages.len()),
    }
}

fn at(name: &str, finding: Finding) -> Finding {
    Finding { r#where: Some(name.to_owned()), ..finding }
}

/// How many packages of a target are installed in its version and flavour, and its Python as one more.
pub(super) fn count_as_locked(target: &Target, installed: &Installed) -> usize {
    let found: BTreeMap<&str, &Distribution> =
        installed.distributions.iter().map(|d| (d.name.as_str(), d)).collect();
    let packages = target.packages.iter().filter(|package| {
        found.get(package.name.as_str()).is_some_and(|d| {
            same_version(&package.version, &d.version)
                && (package.variant.is_none() || d.variant.is_none() || package.variant == d.variant)
        })
    });
    packages.count() + usize::from(installed.python.is_some_and(|p| p.minor == target.python.minor))
}

/// Equal as PEP 440 has it; a local version counts only where the lock names one.
fn same_version(locked: &Version, installed: &InstalledVersion) -> bool {
    installed.valid().is_some_and(|installed| {
        locked == installed || (!locked.is_local() && *locked == installed.clone().without_local())
    })
}

#[cfg(test)]
mod tests {
    use super::same_version;

    #[test]
    fn a_local_version_counts_only_where_the_lock_has_one() {
        for (locked, installed, same) in [
            ("2.9.1", "2.9.1", true),
            ("2.9.1", "2.9.1+cu128", true),
            ("2.9.1+cu126", "2.9.1", false),
            ("1.0", "1.0.0", true),
            ("1.0", "1.1", false),
            ("1.0", "not a version", false),
        ] {
            assert_eq!(
                same_version(&locked.parse().unwrap(), &installed.into()),
                same,
                "{locked} {installed}"
            );
        }
    }
}
