//! Whether another tool's lock has the builds of a stack that was chosen for it.

use std::collections::BTreeSet;

use super::foreign_lock::ForeignLock;
use super::types::Package;
use crate::lockfile::Target;
use crate::model::version::public;
use crate::registry::Registry;

/// A package of the stack that a lock has in another build.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherBuild {
    /// Its name.
    pub package: String,
    /// What the lock has: `2.10.0+cpu`; `None` if it has none.
    pub theirs: Option<String>,
    /// What was chosen: `2.10.0+cu128`.
    pub ours: String,
}

/// The packages of a target that a lock has in a version which is known to fail beside another one of its packages, where
/// the target's version does not: extensions that were compiled before another package changed its C interface, and what
/// advisories exclude.
pub fn failing(lock: &ForeignLock, target: &Target, registry: &Registry) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for environment in lock.environments(target.platform, Some(target.python)) {
        let theirs = |name: &str| environment.packages.iter().find(|package| package.name == name);
        for row in registry.abi_breaks() {
            let (Some(theirs), Some(ours)) = (theirs(&row.package), target.package(&row.package)) else {
                continue;
            };
            // The target has an older one only where something beside it needs that.
            if theirs.version >= row.from && ours.version < row.from {
                out.insert(row.package.clone());
            }
        }
        for row in registry.advisories() {
            let (Some(package), Some(requirement)) = (theirs(&row.package), row.effect.requirement()) else {
                continue;
            };
            let other: &str = requirement.name.as_ref();
            let Some(other) = theirs(other) else { continue };
            if !row.excludes(&public(&package.version), &other.name, &public(&other.version)) {
                continue;
            }
            let ours = |theirs: &Package| target.package(&theirs.name).map(|own| public(&own.version));
            let (Some(our_package), Some(our_other)) = (ours(package), ours(other)) else { continue };
            if row.excludes(&our_package, &other.name, &our_other) {
                continue;
            }
            for (theirs, ours) in [(package, our_package), (other, our_other)] {
                if public(&theirs.version) != ours {
                    out.insert(theirs.name.clone());
                }
            }
        }
    }
    out
}

/// Where the environments of a lock for a target's platform and Python differ from the target's stack. A package that none
/// of them has is told only of torch: others are in the stack because of packages that the lock need not have.
pub fn other_builds(lock: &ForeignLock, target: &Target, registry: &Registry) -> Vec<OtherBuild> {
    let environments = lock.environments(target.platform, Some(target.python));
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut out = BTreeSet::new();
    for theirs in environments.iter().flat_map(|environment| &environment.packages) {
        let Some(ours) = target.package(&theirs.name) else { continue };
        let their_variant = theirs.variant(target.python, registry, target.platform);
        let is_variant = match (&their_variant, &ours.variant) {
            (Some(theirs), Some(ours)) => theirs == ours,
            // The build of an index that is not known; the chosen one says its variant in its version.
            (None, Some(_)) => !ours.version.is_local(),
            _ => true,
        };
        let version = public(&theirs.version);
        let shown = match (&their_variant, theirs.version.is_local()) {
            (Some(variant), false) => format!("{version}+{variant}"),
            _ => theirs.version.to_string(),
        };
        if version != public(&ours.version) || !is_variant {
            out.insert(OtherBuild {
                package: ours.name.clone(),
                theirs: Some(shown),
                ours: ours.version_with_variant(),
            });
        }
        found.insert(&ours.name);
    }
    if let (Some(torch), false) = (target.package("torch"), found.contains("torch")) {
        out.insert(OtherBuild {
            package: torch.name.clone(),
            theirs: None,
            ours: torch.version_with_variant(),
        });
    }
    out.into_iter().collect()
}
