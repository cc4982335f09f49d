//! Formats sets of candidates for messages: `torch 2.6.0 to 2.15.0`, `CUDA 12.4 to 13.2`.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::node::Node;
use super::problem::{Candidate, Problem};
use super::tables::{Set, is_stack_package};
use crate::compatibility::{Policy, required_driver};
use crate::model::platform::Libc;
use crate::model::version::{DottedVersion, cuda_short};
use crate::model::wheel::Python;

/// A list as `first to last`, or all members if there are at most two.
pub(super) fn span<T: ToString>(items: &[T]) -> String {
    match items {
        [] => "nothing".to_owned(),
        [one] => one.to_string(),
        [a, b] => format!("{} and {}", a.to_string(), b.to_string()),
        [first, .., last] => format!("{} to {}", first.to_string(), last.to_string()),
    }
}

/// The series of Python 3 with these minor versions, every run of its own: `3.6 to 3.9, 3.11`.
pub(super) fn python_series(minors: &BTreeSet<u32>) -> String {
    let mut runs: Vec<Vec<u32>> = Vec::new();
    for minor in minors {
        match runs.last_mut().filter(|run| run.last().is_some_and(|last| last + 1 == *minor)) {
            Some(run) => run.push(*minor),
            None => runs.push(vec![*minor]),
        }
    }
    if let [run] = runs.as_slice() {
        return span(&run.iter().map(|minor| format!("3.{minor}")).collect::<Vec<_>>());
    }
    let shown = runs.iter().map(|run| match run.as_slice() {
        [first, .., last] => format!("3.{first} to 3.{last}"),
        one => one.iter().map(|minor| format!("3.{minor}")).collect(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The releases of glibc are 2.0 to below this one.
const MAX_GLIBC: u32 = 100;

/// The maximum number of runs of versions in a message.
const MAX_RUNS: usize = 3;

/// A package with some of its versions, as the subject of a sentence that is true of these versions and of no other:
/// `torch 2.6.0 to 2.7.1, 2.9.0`. `a to b` stands for all versions between `a` and `b` in `all`, apart from
/// pre-releases.
pub(super) fn phrase(name: &str, versions: &[Version], all: &[Version]) -> String {
    let mut runs: Vec<Vec<&Version>> = Vec::new();
    let mut is_open = false;
    for version in all {
        if versions.contains(version) {
            match runs.last_mut().filter(|_| is_open) {
                Some(run) => run.push(version),
                None => runs.push(vec![version]),
            }
            is_open = true;
        } else if !version.any_prerelease() {
            is_open = false;
        }
    }
    match (runs.as_slice(), versions) {
        ([run], _) => format!("{name} {}", span(run)),
        ([], _) => format!("{name} {}", span(versions)),
        (_, [a, b]) => format!("{name} {a} and {b}"),
        (many, [first, .., last]) if many.len() > MAX_RUNS => {
            format!("{} versions of {name} from {first} to {last}", versions.len())
        }
        (few, _) => {
            let few: Vec<String> = few.iter().map(|run| span(run)).collect();
            format!("{name} {}", few.join(", "))
        }
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
            Node::Patch => self.patch_count(),
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

    /// Whether the releases of a node come from a conda channel: those of the stack, where it is taken from there.
    pub fn is_of_channels(&self, node: &Node) -> bool {
        let is_of_stack = matches!(node, Node::Build(name) | Node::Package(name) if is_stack_package(name));
        is_of_stack && self.registry.has_stack_of_channels()
    }

    /// The oldest glibc that one of a node's candidates runs on; `None` where that is not known, or another C library is
    /// needed.
    pub fn glibc_floor(&self, node: &Node, set: &Set) -> Option<DottedVersion> {
        let members = self.members(node, set);
        let Node::Package(name) = node else {
            let Node::Build(name) = node else { return None };
            let builds = members.iter().map(|i| &self.stack[name.as_ref()].builds[*i as usize]);
            return builds.filter_map(|build| build.torch?.glibc.clone()).min();
        };
        // A wheel for musl may do as well on a machine that has it.
        if is_stack_package(name) || !matches!(self.machine.libc, Some(Libc::Glibc(_))) {
            return None;
        }
        let candidates = self.candidates(name).unwrap_or_default();
        let runs = |libc: &Libc| {
            let is_usable = |candidate: &Candidate<'_>, python: &Python| {
                candidate.page.has_usable(candidate.release, *python, self.machine.platform, Some(libc))
            };
            let mut own = members.iter().map(|i| &candidates[*i as usize]);
            own.any(|candidate| self.pythons.series.iter().any(|python| is_usable(candidate, python)))
        };
        let releases = (0..MAX_GLIBC).filter_map(|minor| format!("2.{minor}").parse::<DottedVersion>().ok());
        releases.into_iter().find(|release| runs(&Libc::Glibc(release.clone())))
    }

    /// `torch 2.6.0 to 2.15.0`.
    pub fn name_versions(&self, node: &Node, set: &Set) -> String {
        let name = match node {
            Node::Build(name) | Node::Package(name) => name.to_string(),
            Node::Extra(name, extra) => format!("{name}[{extra}]"),
            other => other.to_string(),
        };
        let versions = self.versions(node, set);
        if versions.is_empty() { name } else { phrase(&name, &versions, &self.all_versions(node)) }
    }

    /// All versions of a node's package that the problem knows, oldest first.
    pub fn all_versions(&self, node: &Node) -> Vec<Version> {
        let (Node::Build(name) | Node::Package(name) | Node::Extra(name, _)) = node else {
            return Vec::new();
        };
        let mut versions: Vec<Version> = match self.stack.get(name.as_ref()) {
            Some(table) => table.versions.clone(),
            None => {
                let candidates = self.candidates(name).unwrap_or_default();
                candidates.iter().map(|c| c.release.version.clone()).collect()
            }
        };
        versions.sort();
        versions.dedup();
        versions
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_pythons() {
        for (minors, expected) in [
            (&[12][..], "3.12"),
            (&[12, 13], "3.12 and 3.13"),
            (&[6, 7, 8, 9], "3.6 to 3.9"),
            (&[6, 7, 8, 9, 11], "3.6 to 3.9, 3.11"),
            (&[6, 7, 9, 11, 12], "3.6 to 3.7, 3.9, 3.11 to 3.12"),
        ] {
            assert_eq!(python_series(&minors.iter().copied().collect()), expected);
        }
    }

    #[test]
    fn a_phrase_covers_exactly_its_versions() {
        let list = |text: &str| -> Vec<Version> { text.split(' ').map(|v| v.parse().unwrap()).collect() };
        let all = list("1.0 1.1 2.0rc1 2.0 2.1 2.2 3.0 3.1");
        for (versions, expected) in [
            ("1.0", "a 1.0"),
            ("1.0 1.1", "a 1.0 and 1.1"),
            ("1.0 1.1 2.0", "a 1.0 to 2.0"),
            ("1.0 3.1", "a 1.0 and 3.1"),
            ("1.0 1.1 2.1 2.2 3.0", "a 1.0 and 1.1, 2.1 to 3.0"),
            ("1.0 2.0 2.2 3.1", "4 versions of a from 1.0 to 3.1"),
        ] {
            assert_eq!(phrase("a", &list(versions), &all), expected);
        }
    }
}
