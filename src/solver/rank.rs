//! The order of preference of candidates, and the order of decisions. Which file of a release is taken, by its tags, is
//! decided in `model/wheel.rs`.

use super::candidates::ordinal_of;
use super::closure::Missing;
use super::inputs::Depth;
use super::node::Node;
use super::problem::{Candidate, Problem};
use super::tables::{Set, is_stack_package};
use crate::model::variant::CPU;
use crate::model::version::public;

/// The rank of a build among the builds of one version, greater is better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BuildRank {
    /// It has the locked variant.
    locked: bool,
    /// It is a CPU build if the machine has no GPU, a CUDA build otherwise.
    fits_machine: bool,
    /// It is on PyPI, so no second index is needed.
    on_pypi: bool,
    /// The driver supports the toolkit natively.
    native: bool,
    /// The CUDA version, newer is better.
    cuda: Option<semver::Version>,
}

/// The rank of a solution's framework build, greater is better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StackQuality {
    /// It has the locked version.
    pub locked: bool,
    /// Newer is better.
    pub version: u32,
    /// The rank among the builds of the version.
    pub build: BuildRank,
}

impl Problem<'_> {
    pub fn build_rank(&self, name: &str, ordinal: u32) -> BuildRank {
        let build = &self.stack[name].builds[ordinal as usize];
        let variant = &self.variants[build.variant as usize];
        BuildRank {
            locked: self.asked.preferences.variant.as_ref() == Some(&variant.name),
            fits_machine: (variant.name == CPU) == self.prefers_cpu(),
            on_pypi: build.on_pypi,
            native: self.machine.is_native(build.variant),
            cuda: variant.cuda.clone(),
        }
    }

    /// The preferred candidate of a node within a set. With `possible`, versions that the machine cannot run, and those
    /// that a constraint excludes, are skipped. That is for the answer; a proof has to state these facts one by one.
    pub fn choose(&self, node: &Node, set: &Set, possible: bool) -> Result<Option<u32>, Missing> {
        let contained = |count: usize| within(set, count);
        Ok(match node {
            Node::Root | Node::Driver | Node::Gpu(_) | Node::Glibc | Node::Bound(_) => {
                set.contains(&0).then_some(0)
            }
            Node::Python => contained(self.pythons.series.len()).next(),
            Node::Patch => contained(self.patch_count()).next(),
            Node::Variant => contained(self.variants.len()).next(),
            Node::Cudnn => contained(self.cudnn.len()).next(),
            // PyPI is number 0.
            Node::StackIndex => contained(self.indexes.len()).next_back(),
            Node::Advisory(_) => contained(2).next_back(),
            Node::Better => contained(usize::MAX).next_back(),
            Node::Runtime(_) => contained(self.runtimes.len()).next(),
            Node::SameFile(i) => contained(self.registry.same_files()[*i].packages.len()).next(),
            Node::Build(name) => {
                let table = &self.stack[name.as_ref()];
                contained(table.builds.len()).max_by_key(|i| {
                    let build = &table.builds[*i as usize];
                    (build.version_ordinal, self.build_rank(name, *i))
                })
            }
            Node::Package(name) | Node::Extra(name, _) if is_stack_package(name) => {
                let table = &self.stack[name.as_ref()];
                let count =
                    if matches!(node, Node::Extra(..)) { table.builds.len() } else { table.versions.len() };
                let torch = matches!(node, Node::Package(_)) && name.as_ref() == "torch";
                let allowed = |version: &u32| {
                    !(possible && torch) || table.builds_of(*version).iter().any(|b| self.machine_allows(b))
                };
                if let (Node::Package(_), Some(locked)) =
                    (node, self.asked.preferences.versions.get(name.as_ref()))
                    && let Some(i) = table.versions.iter().position(|v| *v == public(locked))
                    && set.contains(&(i as u32))
                    && allowed(&(i as u32))
                {
                    return Ok(Some(i as u32));
                }
                contained(count).find(allowed)
            }
            Node::Package(name) | Node::Extra(name, _) => {
                let candidates = self.candidates(name)?;
                let known = self.known_candidates(name, &candidates);
                let usable = |i: &u32| {
                    known.is_usable(*i, || self.is_usable(&candidates[*i as usize]))
                        && (!possible
                            || known.is_possible(*i, || {
                                let version = &candidates[*i as usize].release.version;
                                self.bound(name, version).is_none_or(|set| !set.is_empty())
                                    && self.machine_allows_runtime(name, version, None)
                            }))
                };
                let near = self.asked.near.and_then(|near| near.get(name.as_ref()));
                for wished in self.asked.preferences.versions.get(name.as_ref()).into_iter().chain(near) {
                    if let Some(i) = ordinal_of(&candidates, wished)
                        && set.contains(&i)
                        && usable(&i)
                    {
                        return Ok(Some(i));
                    }
                }
                let usable = || contained(candidates.len()).filter(usable);
                self.wheel_before_source(name, &candidates, || finals_first(&candidates, usable))?
            }
        })
    }

    /// Whether a release has a file for one of the Pythons.
    fn is_usable(&self, candidate: &Candidate<'_>) -> bool {
        (candidate.release.has_wheel || candidate.release.has_source)
            && self.pythons.series.iter().any(|python| self.has_usable(candidate, *python))
    }

    /// The priority class of a node: greater is decided first.
    pub fn class(&self, node: &Node) -> u8 {
        match node {
            Node::Root => 12,
            Node::Driver | Node::Gpu(_) | Node::Glibc | Node::Bound(_) | Node::Better => 11,
            Node::Python => {
                if self.pythons.series.len() == 1 {
                    11
                } else {
                    6
                }
            }
            Node::Package(name) if name.as_ref() == "torch" => 10,
            // Before the variant: which variant is best depends on the index of the build.
            Node::Build(name) if name.as_ref() == "torch" => 9,
            Node::Variant | Node::Cudnn | Node::StackIndex | Node::Runtime(_) => 8,
            Node::Build(_) => 6,
            Node::Package(name) if is_stack_package(name) => 6,
            Node::Package(name) if self.is_requested(name) => 5,
            Node::Package(_) | Node::Extra(..) => 4,
            // Decided last: which side of an advisory holds follows from the two packages.
            Node::Advisory(_) | Node::SameFile(_) | Node::Patch => 0,
        }
    }

    pub fn is_requested(&self, name: &str) -> bool {
        debug_assert!(self.asked.depth == Depth::Full || is_stack_package(name));
        self.named().requested.contains(name)
    }

    /// The text of a constraining advisory's requirement.
    pub fn advisory_requirement(&self, i: usize) -> String {
        self.advisories[i].effect.requirement().map(ToString::to_string).unwrap_or_default()
    }
}

/// Candidates, newest first, with pre-releases behind all others: a requirement that names one (`>=1.10.0rc0`) does not
/// ask for the pre-releases of later versions.
pub(super) fn finals_first<'c, I: Iterator<Item = u32> + 'c>(
    candidates: &'c [Candidate<'_>],
    newest_first: impl Fn() -> I,
) -> impl Iterator<Item = u32> + 'c {
    let is_final = |i: &u32| !candidates[*i as usize].release.version.any_prerelease();
    newest_first().filter(is_final).chain(newest_first().filter(move |i| !is_final(i)))
}

/// The ordinals below `count` that are in a set, greatest first.
fn within(set: &Set, count: usize) -> impl DoubleEndedIterator<Item = u32> {
    set.below(u32::try_from(count).unwrap_or(u32::MAX)).rev()
}
