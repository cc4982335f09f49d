//! Groups of equivalent torch versions.
//!
//! The search for a proof visits candidates one by one. Most torch releases are equivalent in a solve from the
//! registry alone: they have the same variants on the same indexes for the same GPUs and Pythons. Only the newest
//! version of each group is visited; the result holds for the whole group, and the messages name the whole group.

use std::collections::HashMap;

use pep508_rs::VersionOrUrl;

use super::node::Node;
use super::problem::{EquivalentVersions, Problem};
use super::tables::{BuildRow, Set, is_stack_package};
use crate::registry::STACK_PACKAGES;

/// The properties of a build that a solve from the registry alone uses.
#[derive(PartialEq, Eq, Hash)]
struct BuildKey {
    variant: u32,
    index: u32,
    cudnn: u32,
    /// Bit `n` is set if the build does not support GPU number `n`.
    excluded: u64,
    /// Bit `n` is set if Python 3.n has a wheel.
    pythons: u64,
    glibc: bool,
    nccl: bool,
}

/// The properties of a version that a solve from the registry alone uses.
#[derive(PartialEq, Eq, Hash)]
struct VersionKey {
    builds: Vec<BuildKey>,
    /// Whether each requirement in the problem admits it.
    admitted: Vec<bool>,
    /// Whether the user's constraints exclude it; `None` without constraints.
    bound: Option<bool>,
    /// The advisories that apply, each with its side (see [`Node::Advisory`]).
    advisories: Vec<(Node, bool)>,
}

impl EquivalentVersions {
    /// Groups the torch versions of a problem. `None` if grouping is not sound, or if torch itself is not required:
    /// then the proof is about other packages.
    pub fn of(problem: &Problem<'_>) -> Option<EquivalentVersions> {
        let p = problem;
        p.asked.request.find("torch")?;
        let asked: Vec<_> = p
            .asked
            .request
            .requirements
            .iter()
            .filter(|r| is_stack_package(r.name()))
            .filter_map(|r| match &r.requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some((&r.requirement, specifiers)),
                _ => None,
            })
            .collect();
        // Not sound for `torch==2.9.1+cu128` and for Python patch releases: they use more than the keys contain.
        let bounds = p.bounds_on("torch").map(|(_, specifiers)| specifiers);
        if asked
            .iter()
            .map(|(_, specifiers)| *specifiers)
            .chain(bounds)
            .any(|s| s.iter().any(|s| s.version().is_local()))
            || p.pythons.series.iter().any(|python| python.patch.is_some())
            || p.machine.gpus.len() > 64
        {
            return None;
        }
        let torch = p.stack.get("torch")?;
        let mut sets: Vec<Set> = asked
            .iter()
            .filter(|(requirement, _)| requirement.name.as_ref() as &str == "torch")
            .filter_map(|(_, specifiers)| p.matching("torch", Some(specifiers)).ok())
            .collect();
        for companion in STACK_PACKAGES.iter().filter(|name| **name != "torch") {
            if p.asked.request.find(companion).is_some() {
                sets.extend(p.stack[companion].builds.iter().filter_map(|b| b.torch_set.clone()));
            }
        }
        sets.sort_by_key(ToString::to_string);
        sets.dedup();
        let mut newest: HashMap<VersionKey, u32> = HashMap::new();
        let mut representative_of = vec![0; torch.versions.len()];
        for version in (0..torch.versions.len() as u32).rev() {
            let number = &torch.versions[version as usize];
            let mut advisories = Vec::new();
            p.advisory_dependencies("torch", number, &mut advisories);
            let key = VersionKey {
                builds: torch.builds_of(version).iter().map(|b| p.build_key(b)).collect(),
                admitted: sets.iter().map(|set| set.contains(&version)).collect(),
                bound: p.bound("torch", number).map(|set| set.is_empty()),
                advisories: advisories.into_iter().map(|(node, side)| (node, side.contains(&1))).collect(),
            };
            representative_of[version as usize] = *newest.entry(key).or_insert(version);
        }
        Some(EquivalentVersions { representative_of })
    }
}

impl Problem<'_> {
    fn build_key(&self, build: &BuildRow<'_>) -> BuildKey {
        let excluded = |bits: u64, gpu: usize| bits | u64::from(self.gpu_excludes(build, gpu)) << gpu;
        let torch = build.torch;
        BuildKey {
            variant: build.variant,
            index: build.index,
            cudnn: build.cudnn,
            excluded: (0..self.machine.gpus.len()).fold(0, excluded),
            pythons: build.pythons,
            glibc: torch.and_then(|t| t.glibc.as_ref()).is_none_or(|need| self.machine.glibc_suffices(need)),
            nccl: self.asked.request.nccl.as_ref().is_none_or(|limit| {
                torch.and_then(|t| t.nccl.as_ref()).is_some_and(|v| limit.value.contains(v))
            }),
        }
    }
}
