//! Formats sets of candidates for messages: `torch 2.6.0 to 2.15.0`, `CUDA 12.4 to 13.2`.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::node::Node;
use super::problem::Problem;
use super::tables::{Set, is_stack_package};
use crate::compatibility::{Policy, required_driver};
use crate::model::version::{DottedVersion, cuda_short};

/// A list as `first to last`, or all members if there are at most two.
pub(super) fn span<T: ToString>(items: &[T]) -> String {
    match items {
        [] => "nothing".to_owned(),
        [one] => one.to_string(),
        [a, b] => format!("{} and {}", a.to_string(), b.to_string()),
        [first, .., last] => format!("{} to {}", first.to_string(), last.to_string()),
    }
}

fn sorted(ordinals: impl Iterator<Item = u32>) -> Vec<u32> {
    ordinals.collect::<BTreeSet<u32>>().into_iter().collect()
}

impl Problem<'_> {
    /// The ordinals of a node's candidates in a set, including the versions that a representative stands for.
    pub fn members(&self, node: &Node, set: &Set) -> Vec<u32> {
        let count = match node {
            Node::Python => self.pythons.series.len(),
            Node::Variant => self.variants.len(),
            Node::Cudnn => self.cudnn.len(),
            Node::StackIndex => self.indexes.len(),
            Node::Runtime(_) => self.runtimes.len(),
            Node::Build(name) => self.stack.get(name.as_ref()).map_or(0, |t| t.builds.len()),
            Node::Package(name) | Node::Extra(name, _) if is_stack_package(name) => {
                let table = &self.stack[name.as_ref()];
                if matches!(node, Node::Extra(..)) { table.builds.len() } else { table.versions.len() }
            }
            Node::Package(name) | Node::Extra(name, _) => self.candidates(name).map_or(0, |c| c.len()),
            _ => 1,
        };
        let members: Vec<u32> = (0..count as u32).filter(|i| set.contains(i)).collect();
        match (&self.alike, node) {
            (Some(alike), Node::Package(name)) if name.as_ref() == "torch" => {
                sorted(members.into_iter().flat_map(|v| alike.all(v)))
            }
            (Some(alike), Node::Build(name)) if name.as_ref() == "torch" => {
                let torch = &self.stack["torch"];
                sorted(members.into_iter().flat_map(|i| {
                    let like = &torch.builds[i as usize];
                    let spans = alike.all(like.version_ordinal).flat_map(|v| torch.spans[v as usize].clone());
                    spans.filter(|i| {
                        let build = &torch.builds[*i as usize];
                        (build.variant, build.index) == (like.variant, like.index)
                    })
                }))
            }
            _ => members,
        }
    }

    /// The versions of a package that are in a set, oldest first.
    pub fn versions(&self, node: &Node, set: &Set) -> Vec<Version> {
        let members = self.members(node, set);
        let mut versions: Vec<Version> = match node {
            Node::Build(name) => {
                let table = &self.stack[name.as_ref()];
                members.iter().map(|i| table.builds[*i as usize].version.clone()).collect()
            }
            Node::Package(name) if is_stack_package(name) => {
                let table = &self.stack[name.as_ref()];
                members.iter().map(|i| table.versions[*i as usize].clone()).collect()
            }
            Node::Extra(name, _) if is_stack_package(name) => {
                let table = &self.stack[name.as_ref()];
                members.iter().map(|i| table.builds[*i as usize].version.clone()).collect()
            }
            Node::Package(name) | Node::Extra(name, _) => {
                let candidates = self.candidates(name).unwrap_or_default();
                members.iter().map(|i| candidates[*i as usize].release.version.clone()).collect()
            }
            _ => Vec::new(),
        };
        versions.sort();
        versions.dedup();
        versions
    }

    /// `torch 2.6.0 to 2.15.0`.
    pub fn name_versions(&self, node: &Node, set: &Set) -> String {
        let name = match node {
            Node::Build(name) | Node::Package(name) => name.to_string(),
            Node::Extra(name, extra) => format!("{name}[{extra}]"),
            other => other.to_string(),
        };
        let versions = self.versions(node, set);
        if versions.is_empty() { name } else { format!("{name} {}", span(&versions)) }
    }

    /// The CUDA versions of a set of variants, oldest first.
    pub fn cuda_versions(&self, set: &Set) -> Vec<String> {
        self.members(&Node::Variant, set)
            .iter()
            .map(|i| match &self.variants[*i as usize].cuda {
                Some(cuda) => cuda_short(cuda),
                None => "none (cpu)".to_owned(),
            })
            .collect()
    }

    /// The minimum drivers of CUDA releases as text, grouped by driver (`CUDA 12 needs driver >= ...`), and the source.
    pub fn driver_floors(&self, releases: &[&semver::Version]) -> (String, String) {
        let mut floors: BTreeMap<DottedVersion, Vec<String>> = BTreeMap::new();
        let mut source = String::new();
        let native_only = self.machine.policy == Policy::Native;
        for cuda in releases {
            if let Some(floor) = required_driver(self.registry, cuda, self.machine.os(), self.machine.policy)
            {
                source = self.registry.source_text(floor.source);
                let by_major = !native_only
                    && self.registry.minor_version_compatibility().iter().any(|m| m.cuda_major == cuda.major);
                let label = if by_major { cuda.major.to_string() } else { cuda_short(cuda) };
                let labels = floors.entry(floor.value).or_default();
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
        }
        let text = floors
            .iter()
            .enumerate()
            .map(|(n, (floor, labels))| {
                let verb = if n == 0 { " needs driver" } else { "" };
                format!("CUDA {}{verb} >= {floor}", labels.join(", "))
            })
            .collect::<Vec<_>>()
            .join(", ");
        (text, source)
    }
}
