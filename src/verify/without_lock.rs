//! Checks installed packages against each other: unmet requirements and known incompatibilities.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use version_ranges::Ranges;

use super::{Area, AreaKind, findings};
use crate::model::finding::{Finding, Severity};
use crate::model::fix::Fix;
use crate::model::host::Host;
use crate::model::installed::{Distribution, Installed};
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::requirement::parse_requirement;
use crate::model::text::{shell_word, without_logins};
use crate::model::variant::cuda_of_variant;
use crate::registry::{CudaPart, Registry, SameCuda, SameRelease};

pub(super) fn check(registry: &Registry, installed: &Installed, platform: Platform, host: &Host) -> Area {
    let mut found = super::packages::duplicates(installed);
    let active = active_requirements(installed, platform);
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
        found.push(findings::broken_requirement(&broken, (name, versions.get(name).copied()), fix));
    }
    let capabilities = || host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
    for advisory in registry.advisories().iter().filter(|row| row.applies_to(platform, capabilities())) {
        let Some(requirement) = advisory.effect.requirement() else { continue };
        let name: &str = requirement.name.as_ref();
        let applies = versions.get(advisory.package.as_str()).is_some_and(|v| advisory.versions.contains(v));
        let Some(VersionOrUrl::VersionSpecifier(specifiers)) = &requirement.version_or_url else { continue };
        let have = versions.get(name);
        let fails = match have {
            Some(have) => !specifiers.contains(have),
            None => advisory.needed && !is_unclear(installed, name),
        };
        if applies && fails {
            let found_is = have.map_or("is not installed".to_owned(), |have| format!("{have} is installed"));
            let text = format!("{}; {name} {found_is}", advisory.text);
            let fix = Fix::command(findings::install(installed, [requirement.to_string().as_str()]));
            found.push(findings::known_incompatible(text, name, fix));
        }
    }
    found.extend(registry.same_cuda().iter().filter_map(|row| other_cuda(row, installed)));
    found.extend(registry.same_releases().iter().filter_map(|row| other_release(row, installed)));
    let agree = if found.is_empty() { ", their requirements agree" } else { "" };
    let summary = format!("{} installed{agree}", installed.distributions.len());
    Area { kind: AreaKind::Packages, findings: found, summary, as_locked: None }
}

/// What packages that are installed beside a lock require and do not find. The lock decides what is installed: these packages
/// were built for something else.
pub(super) fn beside(
    installed: &Installed,
    platform: Platform,
    is_locked: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let mut active = active_requirements(installed, platform);
    active.retain(|(distribution, _, requirement)| {
        // conda installs what its own records require.
        let is_of_conda = distribution.installer.as_deref() == Some("conda");
        !is_of_conda
            && !is_locked(&distribution.name)
            && !installed.overridden.iter().any(|name| name == requirement.name.as_ref())
    });
    let versions = versions(installed);
    let of = |(name, broken): (&str, Vec<(&str, String)>)| {
        let (by, line) = broken.first().map_or((name, name), |(by, line)| (*by, line.as_str()));
        let fix = Fix::advice(format!(
            "run `envlock resolve` if the manifest requires it, or `envlock add {}` if it should; `envlock sync --group NAME` or `--extra NAME` if it belongs to one; else change what {by} requires",
            shell_word(&without_logins(line))
        ));
        let found = findings::broken_requirement(&broken, (name, versions.get(name).copied()), fix);
        Finding { severity: Severity::Warning, ..found }
    };
    broken(installed, &active).into_iter().map(of).collect()
}

/// The versions of what can be imported, where they can be compared.
fn versions(installed: &Installed) -> BTreeMap<&str, &Version> {
    let own = installed.distributions.iter().map(|d| (d.name.as_str(), &d.version));
    let visible = installed.visible.iter().map(|v| (v.name.as_str(), &v.version));
    own.chain(visible).filter_map(|(name, version)| Some((name, version.valid()?))).collect()
}

/// Anything fulfils a requirement whose version cannot be compared.
fn is_unclear(installed: &Installed, name: &str) -> bool {
    let own = installed.distributions.iter().map(|d| (&d.name, &d.version));
    let mut all = own.chain(installed.visible.iter().map(|v| (&v.name, &v.version)));
    all.any(|(own, version)| own == name && version.valid().is_none())
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
            (None, _) => !is_unclear(installed, name),
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

/// The requirements of installed packages that apply without extras: the package, the line and its parsed form.
fn active_requirements(installed: &Installed, platform: Platform) -> Vec<Active<'_>> {
    let environment = marker_environment(installed.marker_python(), platform);
    let mut out = Vec::new();
    for distribution in &installed.distributions {
        for line in &distribution.requires {
            let Ok(requirement) = parse_requirement(line) else { continue };
            // Without the patch release such a marker cannot be evaluated.
            if installed.marker_python().patch.is_none() && line.contains("python_full_version") {
                continue;
            }
            if requirement.marker.evaluate(&environment, &[]) {
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

/// A package beside another release of the package that it works with. `0.6.0` and `0.6.0.post1` are one release.
fn other_release(row: &SameRelease, installed: &Installed) -> Option<Finding> {
    let of = |name: &str| installed.distributions.iter().find(|d| d.name == name);
    let (own, other) = (of(&row.package)?, of(&row.r#as)?);
    let differs = own.version.valid()?.release() != other.version.valid()?.release();
    let text = format!(
        "{} {} and {} {} are of different releases: {}",
        row.package, own.version, row.r#as, other.version, row.effect
    );
    let command = findings::install(installed, [format!("{}=={}", row.package, other.version).as_str()]);
    differs.then(|| findings::known_incompatible(text, &row.package, Fix::command(command)))
}

/// A package that is built for another CUDA version than torch, and whose import raises for it.
fn other_cuda(row: &SameCuda, installed: &Installed) -> Option<Finding> {
    let of = |name: &str| installed.distributions.iter().find(|d| d.name == name);
    let (torch, other) = (of("torch")?, of(&row.package)?);
    let (own, its) =
        (cuda_of_variant(torch.variant.as_deref()?)?, cuda_of_variant(other.variant.as_deref()?)?);
    let differs = match row.part {
        CudaPart::Major => own.0 != its.0,
        CudaPart::Minor => own != its,
    };
    let text = format!(
        "{} {} is built for CUDA {}.{}, torch {} for CUDA {}.{}: importing {0} raises an error",
        row.package, other.version, its.0, its.1, torch.version, own.0, own.1
    );
    let fix = format!("install torch and {} built for the same CUDA version, or uninstall {0}", row.package);
    differs.then(|| findings::known_incompatible(text, &row.package, Fix::advice(fix)))
}
