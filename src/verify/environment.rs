//! Checks installed packages against each other: unmet requirements and known incompatibilities.

use std::collections::BTreeMap;

use pep440_rs::Version;
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use super::{Area, AreaKind, findings};
use crate::model::installed::Installed;
use crate::model::metadata::marker_environment;
use crate::model::platform::Platform;
use crate::model::wheel::Python;
use crate::registry::{Effect, Registry};

pub(super) fn check(registry: &Registry, installed: &Installed, platform: Platform) -> Area {
    let mut found = Vec::new();
    let versions: BTreeMap<&str, &Version> =
        installed.distributions.iter().filter_map(|d| Some((d.name.as_str(), d.version.valid()?))).collect();
    let environment = marker_environment(installed.python.unwrap_or(Python::new(12)), platform);
    for distribution in &installed.distributions {
        for line in &distribution.requires {
            let Ok(requirement) = line.parse::<Requirement<VerbatimUrl>>() else { continue };
            if !requirement.marker.evaluate(&environment, &[]) {
                continue;
            }
            let name: &str = requirement.name.as_ref();
            let shown = crate::model::text::clean(line.split(';').next().unwrap_or(line).trim(), 80);
            let have = versions.get(name).copied();
            let broken = match (have, &requirement.version_or_url) {
                (None, _) => true,
                (Some(have), Some(VersionOrUrl::VersionSpecifier(specifiers))) => !specifiers.contains(have),
                _ => false,
            };
            if broken {
                let have = have.map(|version| (name, version));
                found.push(findings::broken_requirement(&distribution.name, &shown, have));
            }
        }
    }
    for advisory in registry.advisories() {
        let Effect::Constrain(requirement) = &advisory.effect else { continue };
        let name: &str = requirement.name.as_ref();
        let applies = versions.get(advisory.package.as_str()).is_some_and(|v| advisory.versions.contains(v));
        let Some(VersionOrUrl::VersionSpecifier(specifiers)) = &requirement.version_or_url else { continue };
        if let Some(have) = versions.get(name)
            && applies
            && !specifiers.contains(have)
        {
            let required = requirement.to_string();
            found.push(findings::known_incompatible(&advisory.text, name, have, &required));
        }
    }
    let agree = if found.is_empty() { ", their requirements agree" } else { "" };
    let summary = format!("{} installed{agree}", installed.distributions.len());
    Area { kind: AreaKind::Packages, findings: found, summary }
}
