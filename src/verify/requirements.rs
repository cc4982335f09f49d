//! What installed packages require of each other, by their METADATA.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pep440_rs::Version;
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use version_ranges::Ranges;

use super::facts::{Facts, Need};
use super::findings::Have;
use super::locked::WrittenBy;
use super::{Area, AreaKind, findings, incompatible};
use crate::lockfile::PREINSTALLED_PACKAGES;
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::model::installed::{Distribution, Installed, Visible};
use crate::model::level::Level;
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::requirement::parse_requirement;
use crate::model::text::{shell_word, without_logins};
use crate::model::version::public;
use crate::registry::Registry;

/// Checks installed packages against each other. With a lock, the lock decides.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let installed = facts.contents?.installed;
    if facts.has(Need::Lock) {
        return None;
    }
    let mut found = super::packages::duplicates(installed);
    let active = active_requirements(installed, facts.platform()?, facts.registry);
    let versions = versions(installed);
    for (name, broken) in broken(installed, &active) {
        // All requirements on the package together, so that the command does not break another one.
        let of_name = || active.iter().map(|(.., other)| other).filter(|other| other.name.as_ref() == name);
        let asked: BTreeSet<String> = of_name().map(|one| without_logins(&without_marker(one))).collect();
        let fix = match can_all_be_met(of_name()) {
            true => Fix::command(findings::install(installed, asked.iter().map(String::as_str))),
            false => {
                let asked: Vec<String> = asked.into_iter().collect();
                Fix::advice(format!(
                    "no version of {name} fulfils all requirements ({}): uninstall one of the packages, or install other releases of them",
                    asked.join(", ")
                ))
            }
        };
        found.push(findings::broken_requirement(
            &broken,
            (name, versions.get(name).copied()),
            Have::Installed,
            fix,
        ));
    }
    let count = installed.distributions.len();
    let agree = if found.is_empty() { ", their requirements agree" } else { "" };
    let summary = format!("{count} installed{}{agree}", outside(installed));
    Some(Area { findings: found, summary, ..Area::of(AreaKind::Packages) })
}

/// How many packages Python finds outside the environment, for display: `, 27 visible in /usr/lib/python3/dist-packages`.
fn outside(installed: &Installed) -> String {
    let prefix = Path::new(&installed.prefix);
    let is_outside = |one: &&Visible| !one.folder.starts_with(prefix);
    let mut all = installed.visible.iter().filter(is_outside).peekable();
    let Some(folder) = all.peek().map(|first| first.folder.display().to_string()) else {
        return String::new();
    };
    format!(", {} visible in {}", all.count(), crate::model::text::clean(&folder, 100))
}

/// What locked packages require, as they are installed, and do not find. envlock's own lock says what replaces requirements; another
/// tool may have been told to.
pub(super) fn of_locked(facts: &Facts<'_>) -> Option<Area> {
    let (locked, contents) = (facts.packages?, facts.contents?);
    let (target, installed) = (&locked.target, contents.installed);
    if target.level != Level::Full {
        return None;
    }
    let versions = versions(installed);
    let is_overridden =
        |name: &str| installed.overridden.iter().chain(&locked.overridden).any(|own| own == name);
    let mut active = active_requirements(installed, target.platform, facts.registry);
    active.retain(|(distribution, _, requirement)| {
        let (by, name): (&str, &str) = (&distribution.name, requirement.name.as_ref());
        // What the rows of the registry say of a package is held against those.
        let is_a_pair = incompatible::is_judged(facts.registry, distribution, name);
        // What is locked and missing is said as that.
        let is_missed = !versions.contains_key(name) && target.package(name).is_some();
        let is_of_conda = distribution.installer.as_deref() == Some("conda");
        let is_locked = target.package(by).is_some();
        let is_told = is_a_pair || is_missed || is_of_conda || is_overridden(name) || is_overridden(by);
        is_locked && !is_told
    });
    let have = match locked.by {
        WrittenBy::Envlock => Have::Installed,
        WrittenBy::OtherTool => Have::InstalledByTool,
    };
    // What the lock has of both agrees where the environment has another release of one.
    let is_changed = |name: &str| {
        let own = target.package(name);
        own.is_some_and(|own| versions.get(name).is_some_and(|have| public(have) != public(&own.version)))
    };
    let of = |(name, broken): (&str, Vec<(&str, String)>)| {
        let fix = match locked.by {
            _ if is_changed(name) || broken.iter().any(|(by, _)| is_changed(by)) => {
                Fix::command(findings::install_lock(installed))
            }
            WrittenBy::Envlock => Fix::command("envlock resolve"),
            WrittenBy::OtherTool => Fix::advice(
                "lock again with the tool that wrote the lock; if it was told to replace the requirement, this is as intended",
            ),
        };
        findings::broken_requirement(&broken, (name, versions.get(name).copied()), have, fix)
    };
    let found: Vec<Finding> = broken(installed, &active).into_iter().map(of).collect();
    (!found.is_empty()).then(|| Area { findings: found, ..Area::of(AreaKind::Packages) })
}

/// What packages that are installed beside a lock require and do not find. The lock decides what is installed: these packages
/// were built for something else.
pub(super) fn beside(facts: &Facts<'_>) -> Option<Area> {
    let (locked, installed) = (facts.packages?, facts.contents?.installed);
    let target = &locked.target;
    // What another tool leaves out, it may have been told to.
    if target.level != Level::Full || locked.by == WrittenBy::OtherTool {
        return None;
    }
    let is_locked = |name: &str| target.package(name).is_some() || PREINSTALLED_PACKAGES.contains(&name);
    let versions = versions(installed);
    let mut active = active_requirements(installed, target.platform, facts.registry);
    active.retain(|(distribution, _, requirement)| {
        let name = requirement.name.as_ref();
        // What is locked and missing is said as that: it is installed again, and not added.
        if !versions.contains_key(name) && target.package(name).is_some() {
            return false;
        }
        // conda installs what its own records require.
        let is_of_conda = distribution.installer.as_deref() == Some("conda");
        !is_of_conda && !is_locked(&distribution.name) && !installed.overridden.iter().any(|own| own == name)
    });
    let of = |(name, broken): (&str, Vec<(&str, String)>)| {
        let (by, line) = broken.first().map_or((name, name), |(by, line)| (*by, line.as_str()));
        let fix = Fix::advice(format!(
            "run `envlock resolve` if the manifest requires it, or `envlock add {}` if it should; `envlock sync --group NAME` or `--extra NAME` if it belongs to one; else change what {by} requires",
            shell_word(&without_logins(line))
        ));
        findings::broken_requirement(&broken, (name, versions.get(name).copied()), Have::Beside, fix)
    };
    let found: Vec<Finding> = broken(installed, &active).into_iter().map(of).collect();
    (!found.is_empty()).then(|| Area { findings: found, ..Area::of(AreaKind::Packages) })
}

/// The versions of what can be imported, where they can be compared.
fn versions(installed: &Installed) -> BTreeMap<&str, &Version> {
    let own = installed.distributions.iter().map(|d| (d.name.as_str(), &d.version));
    let visible = installed.visible.iter().map(|v| (v.name.as_str(), &v.version));
    own.chain(visible).filter_map(|(name, version)| Some((name, version.valid()?))).collect()
}

/// The requirements that are not met, by the package that does not meet them: one cause, one finding.
fn broken<'i>(
    installed: &'i Installed,
    active: &'i [Active<'i>],
) -> BTreeMap<&'i str, Vec<(&'i str, String)>> {
    let versions = versions(installed);
    let mut broken_by_name: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    for (distribution, line, requirement) in active {
        let name: &str = requirement.name.as_ref();
        let shown = crate::model::text::clean(line.split(';').next().unwrap_or(line).trim(), 80);
        let is_broken = match (versions.get(name).copied(), &requirement.version_or_url) {
            (None, _) => !installed.has_unclear_version(name),
            (Some(have), Some(VersionOrUrl::VersionSpecifier(specifiers))) => !specifiers.contains(have),
            _ => false,
        };
        if is_broken {
            broken_by_name.entry(name).or_default().push((&distribution.name, shown));
        }
    }
    broken_by_name
}

type Line = Requirement<VerbatimUrl>;
/// A package, one line of its requirements, and its parsed form.
type Active<'i> = (&'i Distribution, &'i str, Line);

/// The requirements of installed packages that apply without extras: the package, the line and its parsed form. A backport that
/// Python has as a module is not missed.
fn active_requirements<'i>(
    installed: &'i Installed,
    platform: Platform,
    registry: &Registry,
) -> Vec<Active<'i>> {
    let environment = marker_environment(installed.marker_python(), platform);
    let mut out = Vec::new();
    for distribution in &installed.distributions {
        for line in &distribution.requires {
            let Ok(requirement) = parse_requirement(line) else { continue };
            // Without the patch release such a marker cannot be evaluated.
            if installed.marker_python().patch.is_none() && line.contains("python_full_version") {
                continue;
            }
            let is_of_python = registry.is_of_python(requirement.name.as_ref(), installed.marker_python());
            if !is_of_python && requirement.marker.evaluate(&environment, &[]) {
                out.push((distribution, line.as_str(), requirement));
            }
        }
    }
    out
}

/// Whether some version could fulfil all of these requirements on one package.
fn can_all_be_met<'r>(requirements: impl Iterator<Item = &'r Line>) -> bool {
    let specifiers = requirements.filter_map(|requirement| match &requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(Ranges::from(specifiers.clone())),
        _ => None,
    });
    !specifiers.fold(Ranges::full(), |all, one| all.intersection(&one)).is_empty()
}

/// A requirement as an installer takes it: `numpy[x]>=2`.
fn without_marker(requirement: &Line) -> String {
    let plain = Requirement { marker: Default::default(), ..requirement.clone() };
    plain.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_outside_the_environment_are_counted() {
        let of = |folders: &[&str]| {
            let visible = |folder: &&str| Visible {
                name: "six".into(),
                version: "1.0".into(),
                folder: (*folder).into(),
                dist_info: None,
            };
            let visible = folders.iter().map(visible).collect();
            outside(&Installed { prefix: "/env".into(), visible, ..Installed::default() })
        };
        assert_eq!(of(&["/env/lib/python3.12/site-packages"]), "");
        let system = "/usr/lib/python3/dist-packages";
        assert_eq!(of(&[system, "/env/lib", system]), format!(", 2 visible in {system}"));
    }
}
