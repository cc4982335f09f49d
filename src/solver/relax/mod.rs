//! Finds changes that resolve a conflict: relaxes each requirement and each host fact in turn and solves again.
//! Only changes that were solved are offered.

mod cluster;
mod newer_driver;
mod sets;

use std::collections::BTreeSet;
use std::rc::Rc;

use pep508_rs::{ExtraName, Requirement, VerbatimUrl};

use super::edit::{self, Edit, HostFact};
use super::inputs::{Depth, Inputs};
use super::pythons::{Outcome, attempt};
use super::tables::{BuildRow, Tables};
use crate::compatibility::cuda_runtime;
use crate::model::capability::ComputeCapability;
use crate::model::conflict::{Change, Party, WayOut};
use crate::model::host::Gpu;
use crate::model::level::Level;
use crate::model::request::{Origin, STACK_PACKAGES, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::solution::{ChosenPackage, Need, Solution};
use crate::model::version::cuda_short;
pub(super) use cluster::REPLACEABLE;

/// What the search for changes came to.
#[derive(Default)]
pub(super) struct Ways {
    /// Those that work.
    pub found: Vec<WayOut>,
    /// The metadata that must be fetched to check the others.
    pub needs: Vec<Need>,
    /// Whether some were not tried, because the search was at its limit.
    pub cut: bool,
}

/// Solves each relaxation, as long as the budget for explanations lasts.
///
/// `level`: that of the proof. A change that removes a proof about the stack alone is solved to the depth `asked`; where that needs metadata that cannot be had, it is offered as one for the stack.
///
/// `core`: the packages of the request that the proof rests on, if it holds for every Python. A change of another
/// requirement leaves the proof as it is, so it cannot be a way out and is not tried. `is_part`: whether the question is a part
/// of the request, whose other causes are out of the way.
pub(super) fn ways_out<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    level: Level,
    asked: Depth,
    (core, is_part): (Option<BTreeSet<String>>, bool),
) -> Ways {
    let mut relaxer = Relaxer::new(inputs, tables, level, asked, core);
    relaxer.is_part = is_part;
    relaxer.single();
    // Another GPU is seldom what can be changed.
    if relaxer.has_only_gpus() {
        relaxer.sets();
    }
    if relaxer.has_only_gpus() {
        relaxer.driver_and_request();
    }
    relaxer.ways()
}

/// The changes of a request that has several causes which remove all of them: single ones, and sets. `facts`: those of the
/// machine that the causes rest on. The other parameters are those of [`ways_out`].
pub(super) fn ways_out_of_all<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    asked: Depth,
    (core, facts): (Option<BTreeSet<String>>, &BTreeSet<Party>),
) -> Ways {
    let level = if asked == Depth::Stack { Level::Stack } else { Level::Full };
    let mut relaxer = Relaxer::new(inputs, tables, level, asked, core);
    relaxer.single();
    relaxer.sets();
    if relaxer.has_only_gpus() {
        relaxer.driver_and_request();
    }
    if facts.len() > 1 {
        relaxer.machine(facts);
    }
    relaxer.ways()
}

struct Relaxer<'i, 'a> {
    inputs: &'i Inputs<'a>,
    tables: &'i Rc<Tables<'a>>,
    core: Option<BTreeSet<String>>,
    /// Whether the question is a part of the request.
    is_part: bool,
    /// The depth of the proof.
    depth: Depth,
    /// The depth of the question.
    asked: Depth,
    /// How much of the graph the last change was solved for.
    level: Level,
    /// Whether the last change is neither known to work nor known not to.
    is_open: bool,
    ways: Ways,
}

impl<'i, 'a> Relaxer<'i, 'a> {
    fn new(
        inputs: &'i Inputs<'a>,
        tables: &'i Rc<Tables<'a>>,
        level: Level,
        asked: Depth,
        core: Option<BTreeSet<String>>,
    ) -> Relaxer<'i, 'a> {
        Relaxer {
            inputs,
            tables,
            core,
            is_part: false,
            depth: if level == Level::Stack { Depth::Stack } else { Depth::Full },
            asked,
            level,
            is_open: false,
            ways: Ways::default(),
        }
    }
}

impl Relaxer<'_, '_> {
    /// Tries each change by itself: the limits first, because one of them, such as a cutoff, is often what all causes share, and the
    /// search may end before the last change is tried.
    fn single(&mut self) {
        self.limits();
        let of_limits = std::mem::take(&mut self.ways.found);
        self.driver();
        self.forward_compatibility();
        self.requirements();
        self.constraints();
        self.overrides();
        self.ways.found.extend(of_limits);
        self.cpu_build();
        self.gpus();
        self.libc();
    }

    /// Builds that use no GPU, where the releases that the request admits have no others: elsewhere it is not what is meant.
    fn cpu_build(&mut self) {
        let request = &self.inputs.question.request;
        let Some(table) = self.tables.stack.get("torch") else { return };
        let Some(user) = request.find("torch").filter(|_| request.variant.is_none()) else { return };
        let admits = |build: &&BuildRow<'_>| user.specifiers().is_none_or(|own| own.contains(&build.version));
        let mut admitted = table.builds.iter().filter(admits).peekable();
        let has_any = admitted.peek().is_some();
        if has_any && admitted.all(|build| self.tables.variants[build.variant as usize].cuda.is_none()) {
            self.offer_if_solved(&Edit::CpuBuild);
        }
    }

    /// Whether every way out found so far is another GPU.
    fn has_only_gpus(&self) -> bool {
        self.ways.found.iter().all(|way| way.party == Party::Gpu)
    }

    fn ways(self) -> Ways {
        let mut ways = self.ways;
        ways.found.sort_by_key(|way| (way.is_less, way.is_far_behind));
        ways.needs.sort();
        ways.needs.dedup();
        ways
    }

    /// The solution after an edit, if there is one.
    fn solve(&mut self, edit: &Edit) -> Option<Box<Solution>> {
        self.is_open = true;
        if self.inputs.budget.is_explained() {
            self.ways.cut = true;
            return None;
        }
        let question = self.inputs.question.with(edit);
        let inputs = self.inputs.about(&question);
        let level = |depth| if depth == Depth::Stack { Level::Stack } else { Level::Full };
        self.level = level(self.depth);
        let solution = match attempt(&inputs, self.tables, self.depth) {
            Outcome::Solved(solution) => solution,
            Outcome::Need(needs) => {
                self.need(needs);
                return None;
            }
            Outcome::TooLong => {
                self.ways.cut = true;
                return None;
            }
            Outcome::Impossible => {
                self.is_open = false;
                return None;
            }
        };
        if self.depth == Depth::Full || self.asked == Depth::Stack {
            return Some(solution);
        }
        match attempt(&inputs, self.tables, self.asked) {
            Outcome::Solved(solution) => {
                self.level = level(self.asked);
                Some(solution)
            }
            Outcome::Need(needs) => {
                self.need(needs);
                Some(solution)
            }
            Outcome::TooLong => Some(solution),
            Outcome::Impossible => {
                self.is_open = false;
                None
            }
        }
    }

    /// Notes what must be fetched, from indexes that may be asked: `only-index` opens no other, not even for a way out.
    fn need(&mut self, needs: Vec<Need>) {
        let only = self.inputs.question.request.only_index.as_ref();
        let admitted = |need: &Need| only.is_none_or(|only| only.value.admits(need.index()));
        self.ways.needs.extend(needs.into_iter().filter(admitted));
    }

    fn offer(&mut self, change: Change, party: Party, solution: &Solution) {
        // Whether the machine runs a framework that nobody read is not known.
        let registry = self.inputs.catalogue.registry;
        let is_unread =
            |own: &ChosenPackage| registry.is_unread_framework(&own.name, &own.version, solution.platform);
        if self.wants_gpu() && solution.packages.iter().any(is_unread) {
            return;
        }
        let mut way = solution.reached_by(change, party, self.level);
        let has_framework = solution.stack.is_some() || !solution.frameworks.is_empty();
        if !has_framework
            && let Some((_, cuda)) = cuda_runtime(self.inputs.catalogue.registry, &solution.packages)
        {
            way.gives.push_str(&format!(", CUDA {}", cuda_short(&cuda)));
        }
        // With a GPU or a driver, a framework without CUDA is less than what was requested.
        if self.wants_gpu() && !has_framework && solution.envelope.driver.is_none() {
            way.gives.push_str(", without CUDA");
        }
        for name in self.without_cuda(solution) {
            way.gives.push_str(&format!(", {name} without CUDA"));
            way.is_less = true;
        }
        if let (Change::Below { package, .. }, Some(version)) = (&way.change, &way.release) {
            let is_told = way.stack.contains_key(package);
            way.gives = if is_told { way.gives } else { format!("{package} {version}, {}", way.gives) };
        }
        self.ways.found.push(way);
    }

    /// The frameworks of a solution for a GPU that it has without CUDA, beside one that it has with it.
    fn without_cuda<'s>(&self, solution: &'s Solution) -> Vec<&'s str> {
        let has_cuda = solution.stack.is_some() || !solution.frameworks.is_empty();
        if !self.wants_gpu() || !has_cuda {
            return Vec::new();
        }
        let rows = self.inputs.catalogue.registry.frameworks();
        let is_without = |own: &&ChosenPackage| {
            let mut of_framework = rows.iter().filter(|row| row.framework == own.name).peekable();
            of_framework.peek().is_some()
                && !of_framework.any(|row| solution.frameworks.iter().any(|have| have.package == row.package))
        };
        solution.packages.iter().filter(is_without).map(|own| own.name.as_str()).collect()
    }

    fn wants_gpu(&self) -> bool {
        let host = &self.inputs.question.host;
        host.driver.is_some() && !host.has_no_gpu()
    }

    /// Solves after an edit, and offers it if there is a solution. Returns whether there is one.
    fn offer_if_solved(&mut self, edit: &Edit) -> bool {
        let Some(solution) = self.solve(edit) else { return false };
        if let Some(change) = edit.change(self.inputs.question, &solution) {
            self.offer(change, edit.party(), &solution);
        }
        true
    }

    /// Changes of the required packages that the proof rests on: another version; where none helps, other extras, one extra
    /// less, or without the package.
    fn requirements(&mut self) {
        let question = self.inputs.question;
        // What is asked about is not let go of.
        let is_open = |user: &&UserRequirement| user.origin != Origin::Question && self.may_help(user);
        let requirements: Vec<&UserRequirement> =
            question.request.requirements.iter().filter(is_open).collect();
        for user in requirements {
            // An extra less is the cheapest change: it is tried before the search may be at its limit.
            let mut of_user = self.offered(|own| own.extras(user));
            let mut is_provisional = false;
            if user.requirement.version_or_url.is_some() {
                let of_versions = self.offered(|own| own.versions(user));
                // All of what was asked for, in another version, says more.
                if !of_versions.is_empty() {
                    self.ways.found.extend(of_versions);
                    continue;
                }
                is_provisional = self.is_open;
            }
            if question.request.requirements.len() > 1 {
                of_user.extend(self.offered(|own| own.without(user)));
            } else if self.is_part && of_user.is_empty() && !self.is_framework(user.name()) {
                // Nothing of this part is left, so there is nothing to solve.
                let change = Change::WithoutRequest(user.name().to_owned());
                of_user.push(WayOut::new(change, Party::package(user.name()), self.level, ""));
            }
            of_user.iter_mut().for_each(|way| way.is_provisional = is_provisional);
            self.ways.found.extend(of_user);
        }
    }

    /// What is offered meanwhile.
    fn offered(&mut self, offer: impl FnOnce(&mut Self)) -> Vec<WayOut> {
        let before = std::mem::take(&mut self.ways.found);
        offer(self);
        std::mem::replace(&mut self.ways.found, before)
    }

    /// Other extras, or one less.
    fn extras(&mut self, user: &UserRequirement) {
        // Beside another line about the package, that line may be the one.
        let of_package = self.inputs.question.request.requirements.iter().filter(|u| u.name() == user.name());
        if of_package.count() > 1 {
            return;
        }
        for other in self.other_extras(&user.requirement) {
            self.offer_if_solved(&Edit::Extras(user.clone(), other));
        }
        for extra in &user.requirement.extras {
            self.offer_if_solved(&Edit::WithoutExtra(user.clone(), extra.clone()));
        }
    }

    /// Of a pin, a release near it; of bounds that exclude each other, each without one of them; then any release.
    fn versions(&mut self, user: &UserRequirement) {
        let mut is_near = false;
        // Of the stack the releases are known before an index is asked.
        let table = self.tables.stack.get(user.name());
        let known = table.map(|table| table.versions.as_slice()).unwrap_or_default();
        for near in edit::near(user, known) {
            is_near |= self.offer_if_solved(&near);
            if is_near && !user.is_contradiction() {
                break;
            }
        }
        let is_any = self.offer_if_solved(&Edit::AnyVersion(user.clone()));
        if is_near && is_any {
            self.ways.found.dedup_by(|a, b| a.change == b.change);
        }
    }

    /// Offers the request without a package, if what is left is worth something: at stack depth a stack, and a framework where
    /// the package is one.
    fn without(&mut self, user: &UserRequirement) {
        let edit = Edit::Without(user.clone());
        let Some(solution) = self.solve(&edit) else { return };
        let has_framework = solution.stack.is_some() || !solution.frameworks.is_empty();
        let is_stack_alone = self.depth == Depth::Stack && solution.stack.is_none();
        if is_stack_alone || (self.is_framework(user.name()) && !has_framework) {
            return;
        }
        let text = edit::without(user, &self.inputs.question.request);
        self.offer(Change::WithoutRequest(text), edit.party(), &solution);
    }

    /// Whether a package is a framework, or a part of one.
    fn is_framework(&self, name: &str) -> bool {
        let mut rows = self.inputs.catalogue.registry.frameworks().iter();
        STACK_PACKAGES.contains(&name) || rows.any(|row| row.framework == name || row.package == name)
    }

    /// The extras that select a different CUDA than the requested ones: `jax[cuda12]` for `jax[cuda13]`.
    fn other_extras(&self, requirement: &Requirement<VerbatimUrl>) -> Vec<Vec<ExtraName>> {
        let name: &str = requirement.name.as_ref();
        let rows = self.inputs.catalogue.registry.frameworks().iter().filter(|row| row.framework == name);
        let mut asks: Vec<&str> = rows.filter_map(|row| row.ask.as_deref()).collect();
        asks.sort_unstable();
        asks.dedup();
        let parsed = asks.into_iter().filter_map(|ask| parse_requirement(ask).ok());
        parsed
            .filter(|ask| !requirement.extras.is_empty() && ask.extras != requirement.extras)
            .map(|ask| ask.extras)
            .collect()
    }

    /// Whether a change of a requirement or constraint can remove the proof.
    fn may_help(&self, user: &UserRequirement) -> bool {
        let name = user.name();
        self.core.as_ref().is_none_or(|core| core.contains(name))
    }

    fn constraints(&mut self) {
        for bound in self.inputs.question.request.constraints.iter() {
            if self.may_help(bound) {
                self.offer_if_solved(&Edit::WithoutConstraint(bound.clone()));
            }
        }
    }

    fn overrides(&mut self) {
        for edit in edit::overrides(&self.inputs.question.request) {
            self.offer_if_solved(&edit);
        }
    }

    fn limits(&mut self) {
        for edit in edit::limits(&self.inputs.question.request) {
            self.offer_if_solved(&edit);
        }
    }

    /// With several compute capabilities, offers the largest subsets of GPUs that work together. With one, offers the
    /// capabilities that would work.
    fn gpus(&mut self) {
        let Some(gpus) = &self.inputs.question.host.gpus else {
            return;
        };
        // GPUs of the same capability have the same support.
        let mut kinds: Vec<Option<ComputeCapability>> = gpus.iter().map(|g| g.capability).collect();
        kinds.sort();
        kinds.dedup();
        match kinds.len() {
            0 => {}
            1 => {
                self.offer_if_solved(&Edit::Unknown(HostFact::Gpus));
            }
            n => {
                let mut found: Vec<u32> = Vec::new();
                for set in subsets(n.min(MAX_GPU_KINDS)) {
                    if found.iter().any(|larger| larger & set == set) {
                        continue;
                    }
                    if self.only_gpus(|gpu| {
                        kinds.iter().position(|k| *k == gpu.capability).is_some_and(|i| set >> i & 1 == 1)
                    }) {
                        found.push(set);
                    }
                }
            }
        }
    }

    /// Solves with a subset of the GPUs only. Returns whether that works, and offers it if so.
    fn only_gpus(&mut self, keep: impl Fn(&Gpu) -> bool) -> bool {
        let gpus = self.inputs.question.host.gpus.iter().flatten();
        let kept: Vec<Gpu> = gpus.filter(|gpu| keep(gpu)).cloned().collect();
        // By UUID: CUDA and NVML can number GPUs differently.
        let uuids: Option<Vec<String>> = kept.iter().map(|gpu| gpu.uuid.clone()).collect();
        let works = self.offer_if_solved(&Edit::OnlyGpus(kept));
        if let (true, Some(uuids), Some(way)) = (works, uuids, self.ways.found.last_mut()) {
            way.set = Some(format!("CUDA_VISIBLE_DEVICES={}", uuids.join(",")));
        }
        works
    }

    fn libc(&mut self) {
        if self.inputs.question.host.system.libc.is_some() {
            self.offer_if_solved(&Edit::Unknown(HostFact::Glibc));
        }
    }
}

/// The maximum number of compute capabilities in a machine for which subsets are tried.
const MAX_GPU_KINDS: usize = 10;

/// The non-empty proper subsets of `n` items as bit masks, the largest first.
fn subsets(n: usize) -> Vec<u32> {
    let mut sets: Vec<u32> = (1..(1u32 << n) - 1).collect();
    sets.sort_by_key(|set| (std::cmp::Reverse(set.count_ones()), *set));
    sets
}
