//! Versions of torch that a proof cannot tell apart.
//!
//! The search for a proof takes up candidates one by one, and most releases of torch differ from their
//! neighbours in nothing that a solve from the registry alone looks at: the same flavours on the same
//! indexes for the same GPUs and Pythons. Of such versions only the newest is taken up; what holds of it
//! holds of all, and the sentences speak of all.

use std::collections::HashMap;

use pep508_rs::VersionOrUrl;

use super::node::Node;
use super::problem::{Alike, Problem};
use super::tables::{BuildRow, Set, is_stack_package};
use crate::registry::STACK_PACKAGES;

/// All that a solve from the registry alone looks at in a build.
#[derive(PartialEq, Eq, Hash)]
struct BuildKey {
    variant: u32,
    index: u32,
    cudnn: u32,
    /// Bit `n` is set where GPU number `n` is not served.
    excluded: u64,
    /// Bit `n` is set where Python 3.n has a wheel.
    pythons: u64,
    glibc: bool,
    nccl: bool,
}

/// All that it looks at in a version.
#[derive(PartialEq, Eq, Hash)]
struct VersionKey {
    builds: Vec<BuildKey>,
    /// Whether each requirement in the problem admits it.
    admitted: Vec<bool>,
    /// The user's bounds.
    bound: Option<bool>,
    /// The sides of advisories that it is on.
    advisories: Vec<(Node, bool)>,
}

impl Alike {
    /// Compares the versions of torch in a problem; `None` where that is not sound, or where torch is not
    /// asked for itself: then it is others that the proof must speak of.
    pub fn of(problem: &Problem<'_>) -> Option<Alike> {
        let p = problem;
        p.asked.request.find("torch")?;
        let asked: Vec<_> = p
            .asked
            .request
            .requirements
            .iter()
            .filter(|r| is_stack_package(r.requirement.name.as_ref()))
            .filter_map(|r| match &r.requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some((&r.requirement, specifiers)),
                _ => None,
            })
            .collect();
        // `torch==2.9.1+cu128` and patch releases of Python look at more than the keys hold.
        if asked.iter().any(|(_, specifiers)| specifiers.iter().any(|s| s.version().is_local()))
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
        let mut stands_for = vec![0; torch.versions.len()];
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
            stands_for[version as usize] = *newest.entry(key).or_insert(version);
        }
        Some(Alike { stands_for })
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
