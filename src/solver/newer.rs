//! Newer stacks and packages than those in a lock.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{Operator, Version};
use pep508_rs::VersionOrUrl;

use serde::{Serialize, Serializer};

use super::edit::{Edit, HostFact, Limited};
use super::question::Question;
use super::solve_stack;
use super::tables::is_stack_package;
use crate::model::host::Host;
use crate::model::request::{Origin, Preferences, Request, STACK_PACKAGES, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::solution::{Answer, ChosenPackage, Solution, Stack};
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// Stacks newer than the locked one, from the registry alone. A field is `None` if the result is already the locked
/// stack or an earlier field.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewerStacks {
    /// Satisfies the request and runs on the machine.
    #[serde(rename = "allowed_by_request", serialize_with = "version_and_variant")]
    pub allowed: Option<Solution>,
    /// Runs on the machine, with any version, CUDA and index.
    #[serde(serialize_with = "version_and_variant")]
    pub on_this_machine: Option<Solution>,
    /// Runs on the machine's GPUs with a newer driver.
    #[serde(serialize_with = "version_and_variant")]
    pub with_newer_driver: Option<Solution>,
}

/// Writes the torch of a solution: `{"torch": "2.9.1", "variant": "cu128"}`.
fn version_and_variant<S: Serializer>(found: &Option<Solution>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Torch<'s> {
        torch: &'s Version,
        variant: &'s str,
    }
    let stack = found.as_ref().and_then(|solution| solution.stack.as_ref());
    stack.map(|stack| Torch { torch: &stack.version, variant: &stack.variant }).serialize(serializer)
}

impl NewerStacks {
    /// Whether there is no newer stack.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_none() && self.on_this_machine.is_none() && self.with_newer_driver.is_none()
    }
}

/// Finds stacks newer than `locked` for a machine. Another variant of the same version also counts.
pub fn newer_stacks(registry: &Registry, host: &Host, request: &Request, locked: &Stack) -> NewerStacks {
    let (request, nothing_kept) = (with_torch(request), Preferences::default());
    let question = Question::new(host, &request, &nothing_kept);
    let newest = |edit: &Edit| -> Option<Solution> {
        let Question { host, request, preferences } = question.with(edit);
        match solve_stack(registry, &host, &request, &preferences) {
            Answer::Solution(solution) => Some(*solution),
            _ => None,
        }
    };
    let limits = [Limited::Cuda, Limited::Cudnn, Limited::Nccl, Limited::Variant, Limited::Index];
    let mut lifted: Vec<Edit> = limits.into_iter().map(Edit::Unlimited).collect();
    lifted.push(Edit::AnyVersionOf(STACK_PACKAGES.into_iter().map(str::to_owned).collect()));
    let free = Edit::Together(lifted);
    let any_driver = Edit::Together(vec![free.clone(), Edit::Unknown(HostFact::Driver)]);
    let mut told = vec![(locked.version.clone(), locked.variant.clone())];
    let mut once = |found: Option<Solution>| {
        // The lock may contain a release that is not in this registry: skip older stacks.
        let found = found.filter(|solution| {
            let stack = solution.stack.as_ref();
            stack.is_some_and(|s| {
                s.version >= locked.version && !told.contains(&(s.version.clone(), s.variant.clone()))
            })
        });
        told.extend(
            found.iter().filter_map(|s| s.stack.as_ref()).map(|s| (s.version.clone(), s.variant.clone())),
        );
        found
    };
    NewerStacks {
        allowed: once(newest(&Edit::Together(Vec::new()))),
        on_this_machine: once(newest(&free)),
        with_newer_driver: once(host.driver.as_ref().and_then(|_| newest(&any_driver))),
    }
}

/// The request with torch as a requirement: it may be there only for another package.
fn with_torch(request: &Request) -> Request {
    let mut out = request.clone();
    let has_stack = request.requirements.iter().any(|user| is_stack_package(user.name()));
    if let (false, Ok(requirement)) = (has_stack, parse_requirement("torch")) {
        out.requirements.push(UserRequirement { requirement, origin: Origin::Question, part: None });
    }
    out
}

/// The lowest driver that runs a stack on all GPUs of a machine.
pub fn driver_for_gpus(solution: &Solution, host: &Host) -> Option<DottedVersion> {
    let coverage = &solution.envelope.coverage;
    let gpus = host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
    let floors = gpus.filter_map(|capability| {
        coverage.iter().find(|c| c.compute_capability == capability)?.driver_min.clone()
    });
    floors.max().or_else(|| solution.envelope.driver.clone())
}

/// A package of which there is a newer version than the locked one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Upgrade {
    /// The package.
    #[serde(rename = "what")]
    pub name: String,
    /// The locked version.
    #[serde(rename = "old")]
    pub locked: Version,
    /// The version in a solve without the lock's preferences; the locked one if nothing newer fits.
    #[serde(rename = "new")]
    pub available: Version,
    /// The newest final release that its index has, whether it fits or not; `None` where that is not known.
    pub latest: Option<Version>,
    /// Whether the newer version has to be built from source, and the locked one does not.
    pub source: bool,
}

impl Upgrade {
    /// Whether a newer version fits.
    pub fn is_possible(&self) -> bool {
        self.available > self.locked
    }
}

/// The packages that are newer in a solve without the lock's preferences, or of which the index has a newer release
/// (`latest`, by name). Stack packages, and packages that they pin, are excluded: they change only with the stack.
pub fn upgrades(
    locked: &[ChosenPackage],
    available: &[ChosenPackage],
    latest: &BTreeMap<String, Version>,
) -> Vec<Upgrade> {
    let pinned: BTreeSet<String> = locked
        .iter()
        .chain(available)
        .filter(|package| is_stack_package(&package.name))
        .flat_map(|package| &package.requires)
        .filter(|edge| pins(&edge.requirement))
        .map(|edge| edge.to.clone())
        .collect();
    let newer = |package: &ChosenPackage| {
        let old = locked.iter().find(|old| old.name == package.name)?;
        let upgrade = Upgrade {
            name: package.name.clone(),
            locked: old.version.clone(),
            available: package.version.clone().max(old.version.clone()),
            latest: latest.get(&package.name).cloned(),
            source: package.build.is_some() && old.build.is_none(),
        };
        let is_behind = upgrade.latest.as_ref().is_some_and(|latest| *latest > old.version);
        (upgrade.is_possible() || is_behind).then_some(upgrade)
    };
    available
        .iter()
        .filter(|package| !is_stack_package(&package.name) && !pinned.contains(&package.name))
        .filter_map(newer)
        .collect()
}

/// Whether a requirement pins one release or one series: `triton==3.5.1`, `triton~=3.9.0`.
fn pins(requirement: &str) -> bool {
    let Ok(requirement) = parse_requirement(requirement) else { return false };
    match requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers
            .iter()
            .any(|s| matches!(s.operator(), Operator::Equal | Operator::ExactEqual | Operator::TildeEqual)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::choice::Choice;
    use crate::model::host::{Driver, Gpu};
    use crate::model::platform::Platform;
    use crate::model::request::UserRequirement;
    use crate::model::solution::Edge;

    fn package(name: &str, version: &str, requires: &[&str]) -> ChosenPackage {
        ChosenPackage {
            name: name.to_owned(),
            version: version.parse().unwrap(),
            source: crate::model::source::Source::Index("pypi".to_owned()),
            build: None,
            groups: Vec::new(),
            files: Vec::new(),
            metadata_sha256: None,
            requires: requires
                .iter()
                .map(|text| Edge {
                    to: crate::model::text::requirement_name(text),
                    requirement: (*text).to_owned(),
                })
                .collect(),
            reason: Choice::Newest,
            targets: None,
            variant: None,
        }
    }

    #[test]
    fn what_the_stack_pins_is_no_upgrade() {
        let locked = [
            package("torch", "2.9.1", &["triton==3.5.1", "filelock"]),
            package("triton", "3.5.1", &[]),
            package("filelock", "3.9.0", &[]),
            package("idna", "3.11", &[]),
        ];
        let available = [
            package("torch", "2.15.0", &["triton~=3.9.0", "filelock"]),
            package("triton", "3.9.0", &[]),
            package("filelock", "3.20.0", &[]),
            package("idna", "3.10", &[]),
        ];
        let newer = upgrades(&locked, &available, &BTreeMap::new());
        let names: Vec<&str> = newer.iter().map(|u| u.name.as_str()).collect();
        assert_eq!(names, ["filelock"]);
    }

    #[test]
    fn a_newer_release_with_a_two_digit_minor_is_newer() {
        let registry = crate::registry::frozen();
        let mut host = Host::open(Platform::LINUX_X86_64, "test");
        host.driver = Some(Driver {
            version: "580.159.04".parse().unwrap(),
            cuda: None,
            compat: None,
            found_by: "test".into(),
        });
        host.gpus = Some(vec![Gpu {
            index: 0,
            name: Some("NVIDIA H200".into()),
            capability: Some("9.0".parse().unwrap()),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "test".into(),
        }]);
        let ask = |text: &str| Request {
            requirements: vec![UserRequirement::new(text.parse().unwrap(), "test".into())],
            ..Request::default()
        };
        let Answer::Solution(old) =
            solve_stack(&registry, &host, &ask("torch==2.9.1"), &Preferences::default())
        else {
            panic!("2.9.1 runs there")
        };
        let newer = newer_stacks(&registry, &host, &ask("torch"), old.stack.as_ref().unwrap());
        let found = newer.allowed.and_then(|s| s.stack).unwrap().version;
        assert!(found >= "2.15.0".parse().unwrap(), "{found}");
    }
}
