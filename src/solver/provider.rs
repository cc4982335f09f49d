//! Implements pubgrub's `DependencyProvider` for a problem.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use pubgrub::{Dependencies, DependencyProvider, PackageResolutionStatistics};

use super::budget::Share;
use super::closure::{Missing, Unusable};
use super::inputs::Depth;
use super::memory::Wish;
use super::node::Node;
use super::problem::Problem;
use super::tables::{Set, TRITON_PACKAGE, fact, is_stack_package, ordinals};
use crate::model::request::PythonAllowed;
use crate::model::solution::Need;

/// The maximum number of older releases whose metadata is prefetched for a package with conflicts.
const LOOK_AHEAD: u32 = 16;

/// The dependency provider: ranked for the answer, unranked for a short proof.
pub(super) struct Provider<'p, 'a> {
    pub problem: &'p Problem<'a>,
    pub ranked: bool,
    steps: Cell<u32>,
    limit: u32,
    /// How many candidates of a package were looked at.
    tried: RefCell<HashMap<Node, u32>>,
}

/// Why the search stopped without an answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Stop {
    #[error("metadata must be fetched first")]
    Missing,
    #[error("the search exceeded its limit of steps")]
    TooLong,
}

impl From<Missing> for Stop {
    fn from(_: Missing) -> Self {
        Stop::Missing
    }
}

/// The reason for an unusable candidate, as pubgrub's custom incompatibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Why(pub Unusable);

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.of(false))
    }
}

impl<'p, 'a> Provider<'p, 'a> {
    pub fn new(problem: &'p Problem<'a>, ranked: bool) -> Self {
        let requested = problem.asked.request.requirements.len() as u32;
        let of_wish = match problem.asked.wish {
            Wish::Better { .. } => Share::Sparing(requested),
            // Of several series: see `Choosing::none_is_newest`.
            Wish::Newest(_) if problem.pythons.series.len() > 1 => Share::Sparing(requested),
            Wish::OneOf(_) => Share::Another,
            Wish::Nothing | Wish::Newest(_) => Share::Answer,
        };
        let share = problem.asked.share.unwrap_or(of_wish);
        Provider { problem, ranked, steps: Cell::new(0), limit: share.steps(), tried: RefCell::default() }
    }

    /// The steps that the search has taken.
    pub fn steps(&self) -> u32 {
        self.steps.get()
    }

    /// Records the metadata that is needed next, so that one round fetches a whole level of the graph. For packages
    /// of which candidates were dropped, the next ones are recorded too; otherwise each would take a round.
    fn look_ahead(&self, node: &Node, set: &Set, conflicts: u32) {
        let Node::Package(name) = node else { return };
        let dropped = conflicts.max(self.tried.borrow().get(node).copied().unwrap_or(0));
        let more = dropped.min(LOOK_AHEAD) as usize;
        if is_stack_package(name) {
            self.look_at_older_builds(name, set, more);
            return;
        }
        let Ok(Some(choice)) = self.problem.choose(node, set, self.ranked) else {
            return;
        };
        if let Ok(candidates) = self.problem.candidates(name) {
            let next = (0..=choice).rev().filter(|i| set.contains(i)).take(1 + more);
            for i in next {
                self.problem.read_ahead(&candidates[i as usize], name);
            }
        }
    }

    /// Whether a search looks at a node. One for something better than another answer looks at the requested packages
    /// only: what they require of each other often excludes it, and their METADATA is few.
    fn is_looked_at(&self, node: &Node) -> bool {
        let p = self.problem;
        !matches!(p.asked.wish, Wish::Better { .. })
            || node.package_name().is_none_or(|name| is_stack_package(name) || p.is_requested(name))
    }

    /// Records the metadata of the best builds of a stack package's next versions.
    fn look_at_older_builds(&self, name: &str, set: &Set, count: usize) {
        let p = self.problem;
        let table = &p.stack[name];
        let best_of = |version: u32| {
            let builds = table.spans[version as usize].clone().filter(|build| {
                let row = &table.builds[*build as usize];
                p.index_allowed(&p.indexes[row.index as usize]) && (name != "torch" || p.machine_allows(row))
            });
            builds.max_by_key(|build| p.build_rank(name, *build))
        };
        let versions = (0..table.versions.len() as u32).rev().filter(|version| set.contains(version));
        for build in versions.filter_map(best_of).take(count) {
            if let Ok(Some(candidate)) = p.build_candidate(name, build as usize) {
                p.read_ahead(&candidate, name);
            }
        }
    }

    fn root(&self) -> Result<Vec<(Node, Set)>, Stop> {
        let p = self.problem;
        let request = p.asked.request;
        let mut out = Vec::new();
        let mut missing = false;
        for user in p.user_requirements() {
            match p.requirement(&user.requirement) {
                Ok(Ok(more)) => {
                    out.extend(more);
                    if let Wish::Newest(pythons) = &p.asked.wish {
                        out.extend(super::newest::only_newest(p, user, pythons));
                    }
                }
                // Invalid requirements were rejected before the search.
                Ok(Err(_)) => {}
                Err(Missing) => missing = true,
            }
        }
        if p.asked.depth == Depth::Stack && !p.asked.admits.known_failures {
            let avoided = p.avoided_of_the_stack()?;
            if !avoided.is_empty() {
                p.memory.leave_out_known_failures();
            }
            out.extend(avoided);
        }
        if missing {
            return Err(Stop::Missing);
        }
        out.push((Node::Python, Set::full()));
        if let Some(PythonAllowed::Range(range)) = request.python.as_ref().map(|python| &python.allowed) {
            out.extend(p.patches_allowed(|_| Some(range)).map(|set| (Node::Patch, set)));
        }
        if let Some(alternatives) = p.asked.wish.alternatives() {
            out.push((Node::Better, Set::strictly_lower_than(alternatives.len() as u32)));
        }
        if let Wish::Better { not_older, .. } = &p.asked.wish {
            out.extend(not_older.iter().map(|(node, oldest)| (node.clone(), Set::higher_than(*oldest))));
        }
        let stack = out.iter().any(|(n, _)| matches!(n, Node::Package(name) if is_stack_package(name)));
        if stack && self.ranked {
            // Companions require torch, and its version is decided before theirs.
            out.push((Node::package("torch"), Set::full()));
        }
        if let Some(alike) = &p.alike {
            out.push((Node::package("torch"), alike.representatives()));
        }
        if stack {
            if let Some(limit) = &request.cuda {
                let set = ordinals(p.variants.len(), |i| {
                    p.variants[i].cuda.as_ref().is_some_and(|c| limit.value.contains(c))
                });
                out.push((Node::Variant, set));
            }
            if let Some(limit) = &request.variant {
                let set = ordinals(p.variants.len(), |i| p.variants[i].name == limit.value);
                out.push((Node::Variant, set));
            }
            if let Some(limit) = &request.cudnn {
                let set =
                    ordinals(p.cudnn.len(), |i| p.cudnn[i].as_ref().is_some_and(|v| limit.value.contains(v)));
                out.push((Node::Cudnn, set));
            }
            if let Some(limit) = &request.nccl {
                let builds = &p.stack["torch"].builds;
                let set = ordinals(builds.len(), |i| {
                    builds[i].torch.and_then(|t| t.nccl.as_ref()).is_some_and(|v| limit.value.contains(v))
                });
                out.push((Node::build("torch"), set));
            }
        }
        if request.only_index.is_some() {
            let set = ordinals(p.indexes.len(), |i| p.index_allowed(&p.indexes[i]));
            out.push((Node::StackIndex, set));
        }
        Ok(out)
    }

    /// The dependencies of a stack package's public version: its builds, and redundant facts about all of them, which
    /// shorten proofs.
    fn stack_version(&self, name: &str, version: u32) -> Vec<(Node, Set)> {
        let p = self.problem;
        let table = &p.stack[name];
        let own = || table.builds_of(version).iter();
        let mut out = Vec::new();
        let union = |sets: &mut dyn Iterator<Item = Set>| sets.fold(Set::empty(), |a, b| a.union(&b));
        if name == "torch" {
            for i in 0..p.machine.gpus.len() {
                out.push((Node::Gpu(i), fact(own().any(|b| !p.gpu_excludes(b, i)))));
            }
            let pythons = union(&mut own().map(|b| p.build_pythons(b)));
            if pythons != Set::full() {
                out.push((Node::Python, pythons));
            }
        }
        out.push((Node::Variant, union(&mut own().map(|b| Set::singleton(b.variant)))));
        let span = &table.spans[version as usize];
        let builds = if self.ranked && name == "torch" {
            span.clone()
                .filter(|i| p.machine_allows(&table.builds[*i as usize]))
                .fold(Set::empty(), |set, i| set.union(&Set::singleton(i)))
        } else {
            Set::between(span.start, span.end)
        };
        out.push((Node::build(name), builds));
        p.advisory_dependencies(name, &table.versions[version as usize], &mut out);
        if let Some(set) = p.bound(name, &table.versions[version as usize]) {
            out.push((Node::Bound(name.into()), set));
        }
        out
    }

    fn stack_build(&self, name: &str, ordinal: u32) -> Result<Result<Vec<(Node, Set)>, Unusable>, Stop> {
        let p = self.problem;
        let build = &p.stack[name].builds[ordinal as usize];
        let mut out = vec![
            (Node::package(name), Set::singleton(build.version_ordinal)),
            (Node::Variant, Set::singleton(build.variant)),
            (Node::StackIndex, Set::singleton(build.index)),
        ];
        if let Some(set) = p.bound_of_build(name, build) {
            out.push((Node::Bound(name.into()), set));
        }
        for i in 0..p.machine.gpus.len() {
            if p.gpu_excludes(build, i) {
                out.push((Node::Gpu(i), Set::empty()));
            }
        }
        if p.wants_gpu_build()
            && p.machine.gpus.is_empty()
            && p.variants[build.variant as usize].cuda.is_none()
        {
            // A driver implies a GPU, so a CPU build is not acceptable.
            out.push((Node::Driver, Set::empty()));
        }
        // A companion needs a torch, if nobody knows which.
        if build.torch.is_none() {
            out.push((Node::package("torch"), build.torch_set.clone().unwrap_or_else(Set::full)));
        }
        if let Some(torch) = build.torch {
            if !p.outside_limits(build).is_empty() {
                // If torch is required, the limits are in the root's dependencies. Here torch is a dependency of
                // another package.
                out.push((Node::Variant, Set::empty()));
            }
            out.push((Node::Cudnn, Set::singleton(build.cudnn)));
            if let Some(need) = &torch.glibc
                && !p.machine.glibc_suffices(need)
            {
                out.push((Node::Glibc, Set::empty()));
            }
            let pythons = p.build_pythons(build);
            if pythons != Set::full() {
                out.push((Node::Python, pythons));
            }
        }
        // A build from an index that is not allowed already conflicts; do not fetch its page.
        if p.asked.depth == Depth::Full && p.index_allowed(&p.indexes[build.index as usize]) {
            let Some(candidate) = p.build_candidate(name, ordinal as usize)? else {
                return Ok(Err(Unusable::NotOnIndex(p.indexes[build.index as usize].clone())));
            };
            if let Some(cut) = p.cut(&candidate, name) {
                return Ok(Err(cut));
            }
            let pythons = p.candidate_pythons(&candidate);
            if pythons != Set::full() {
                out.push((Node::Python, pythons));
            }
            if build.index != 0 && build.torch.is_some_and(|t| t.cuda.is_some()) {
                // triton comes from the same sub-index: its page must be known before the
                // requirement is turned into candidates.
                let index = &p.indexes[build.index as usize];
                if p.universe.known_page(index, TRITON_PACKAGE).is_none() {
                    p.memo
                        .needs
                        .borrow_mut()
                        .insert(Need::Page { index: index.clone(), project: TRITON_PACKAGE.to_owned() });
                    return Err(Stop::Missing);
                }
            }
            match p.required_by(&candidate, name, None)? {
                Ok(more) => out.extend(more),
                Err(unusable) => return Ok(Err(unusable)),
            }
        }
        Ok(Ok(out))
    }

    fn stack_extra(
        &self,
        name: &str,
        extra: &str,
        ordinal: u32,
    ) -> Result<Result<Vec<(Node, Set)>, Unusable>, Stop> {
        let p = self.problem;
        let mut out = vec![(Node::build(name), Set::singleton(ordinal))];
        let index = &p.indexes[p.stack[name].builds[ordinal as usize].index as usize];
        if !p.index_allowed(index) {
            // The build conflicts for the same reason; do not fetch its page.
            return Ok(Err(Unusable::IndexNotAllowed(index.clone())));
        }
        if p.asked.depth == Depth::Full {
            let Some(candidate) = p.build_candidate(name, ordinal as usize)? else {
                let index = p.stack[name].builds[ordinal as usize].index;
                return Ok(Err(Unusable::NotOnIndex(p.indexes[index as usize].clone())));
            };
            match p.required_by(&candidate, name, Some(extra))? {
                Ok(more) => out.extend(more),
                Err(unusable) => return Ok(Err(unusable)),
            }
        }
        Ok(Ok(out))
    }

    fn dependencies(&self, node: &Node, version: u32) -> Result<Result<Vec<(Node, Set)>, Unusable>, Stop> {
        let p = self.problem;
        Ok(Ok(match node {
            Node::Root => self.root()?,
            Node::Variant => {
                let mut out = Vec::new();
                if !p.machine.driver_suffices(version) {
                    out.push((Node::Driver, Set::empty()));
                }
                for (i, (_, capability)) in p.machine.gpus.iter().enumerate() {
                    if p.driver_too_new_for_gpu(version, *capability) {
                        out.push((Node::Gpu(i), Set::empty()));
                    }
                }
                out
            }
            Node::Cudnn => (0..p.machine.gpus.len())
                .filter(|i| {
                    !p.machine.cudnn_supports(p.cudnn[version as usize].as_ref(), p.machine.gpus[*i].1)
                })
                .map(|i| (Node::Gpu(i), Set::empty()))
                .collect(),
            Node::Runtime(_) => p.row_dependencies(version),
            Node::Package(name) if is_stack_package(name) => self.stack_version(name, version),
            Node::Build(name) => return self.stack_build(name, version),
            Node::Extra(name, extra) if is_stack_package(name) => {
                return self.stack_extra(name, extra, version);
            }
            Node::Package(name) => return Ok(p.release_dependencies(name, version)?),
            Node::Extra(name, extra) => return Ok(p.package_dependencies(name, version, Some(extra))?),
            Node::Better => {
                let alternatives = p.asked.wish.alternatives().unwrap_or_default();
                alternatives.get(version as usize).into_iter().cloned().collect()
            }
            Node::Python => p.patches_of_series(version).into_iter().map(|set| (Node::Patch, set)).collect(),
            Node::Driver
            | Node::Gpu(_)
            | Node::Glibc
            | Node::Patch
            | Node::StackIndex
            | Node::Bound(_)
            | Node::SameFile(_)
            | Node::Advisory(_) => Vec::new(),
        }))
    }
}

impl DependencyProvider for Provider<'_, '_> {
    type P = Node;
    type V = u32;
    type VS = Set;
    type M = Why;
    type Err = Stop;
    type Priority = (u8, u32, Reverse<usize>, Reverse<Node>);

    fn prioritize(&self, package: &Node, range: &Set, stats: &PackageResolutionStatistics) -> Self::Priority {
        if self.problem.asked.depth == Depth::Full {
            self.look_ahead(package, range, stats.conflict_count());
        }
        let conflicts = stats.conflict_count();
        let left = range.spans();
        if !self.ranked {
            // Decide a requirement without candidates first: it ends the search at once.
            let dead = matches!(self.problem.choose(package, range, false), Ok(None));
            return (if dead { 255 } else { 0 }, conflicts, Reverse(left), Reverse(package.clone()));
        }
        (self.problem.class(package), conflicts, Reverse(left), Reverse(package.clone()))
    }

    fn choose_version(&self, package: &Node, range: &Set) -> Result<Option<u32>, Stop> {
        Ok(self.problem.choose(package, range, self.ranked)?)
    }

    fn get_dependencies(&self, package: &Node, version: &u32) -> Result<Dependencies<Node, Set, Why>, Stop> {
        *self.tried.borrow_mut().entry(package.clone()).or_default() += 1;
        match self.dependencies(package, *version)? {
            Err(unusable) => Ok(Dependencies::Unavailable(Why(unusable))),
            Ok(list) => {
                let mut constraints: BTreeMap<Node, Set> = BTreeMap::new();
                for (node, set) in list {
                    // A package can require itself through an extra (`pkg[all]`).
                    if node == *package || !self.is_looked_at(&node) {
                        continue;
                    }
                    constraints.entry(node).and_modify(|s| *s = s.intersection(&set)).or_insert(set);
                }
                Ok(Dependencies::Available(constraints.into_iter().collect()))
            }
        }
    }

    fn should_cancel(&self) -> Result<(), Stop> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > self.limit {
            return Err(Stop::TooLong);
        }
        Ok(())
    }
}
