//! Finds changes that resolve a conflict: relaxes each requirement and each host fact in turn and solves again.
//! Only changes that were solved are offered.

mod driver;
mod edits;
mod machine;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pep508_rs::{ExtraName, Requirement, VerbatimUrl};

use super::inputs::{Depth, Inputs};
use super::pythons::{Outcome, attempt};
use super::tables::Tables;
use crate::compatibility::cuda_runtime;
use crate::model::capability::ComputeCapability;
use crate::model::conflict::{Change, Party, WayOut};
use crate::model::count::Count;
use crate::model::evidence::Evidence;
use crate::model::host::{Gpu, Host};
use crate::model::level::Level;
use crate::model::request::{Origin, Request, STACK_PACKAGES, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::solution::{Need, Solution};
use crate::model::version::cuda_short;
use edits::{Edit, constraint_edits, limit_edits, other_version};
pub(super) use machine::{REPLACEABLE, let_go};

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

/// Solves each relaxation, as long as the searches of the memory have not taken `limit` steps.
///
/// `level`: that of the proof. A change that removes a proof about the stack alone is solved to the depth `asked`; where that needs metadata that cannot be had, it is offered as one for the stack.
///
/// `core`: the packages of the request that the proof rests on, if it holds for every Python. A change of another
/// requirement leaves the proof as it is, so it cannot be a way out and is not tried.
pub(super) fn ways_out<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    level: Level,
    asked: Depth,
    core: Option<BTreeSet<String>>,
    limit: u64,
) -> Ways {
    let mut relaxer = Relaxer::new(inputs, tables, level, asked, core, limit);
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
    limit: u64,
) -> Ways {
    let level = if asked == Depth::Stack { Level::Stack } else { Level::Full };
    let mut relaxer = Relaxer::new(inputs, tables, level, asked, core, limit);
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
    /// The depth of the proof.
    depth: Depth,
    /// The depth of the question.
    asked: Depth,
    /// How much of the graph the last change was solved for.
    level: Level,
    /// The steps after which nothing more is tried.
    limit: u64,
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
        limit: u64,
    ) -> Relaxer<'i, 'a> {
        Relaxer {
            inputs,
            tables,
            core,
            depth: if level == Level::Stack { Depth::Stack } else { Depth::Full },
            asked,
            level,
            limit,
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
        self.ways.found.extend(of_limits);
        self.gpus();
        self.libc();
    }

    /// Whether every way out found so far is another GPU.
    fn has_only_gpus(&self) -> bool {
        self.ways.found.iter().all(|way| way.party == Party::Gpu)
    }

    fn ways(self) -> Ways {
        let mut ways = self.ways;
        ways.needs.sort();
        ways.needs.dedup();
        ways
    }

    fn solve(&mut self, host: &Host, request: &Request) -> Option<Box<Solution>> {
        self.is_open = true;
        if self.inputs.memory.steps() >= self.limit {
            self.ways.cut = true;
            return None;
        }
        let inputs = Inputs {
            catalogue: self.inputs.catalogue,
            universe: self.inputs.universe,
            memory: self.inputs.memory,
            host,
            request,
            preferences: self.inputs.preferences,
        };
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
        let only = self.inputs.request.only_index.as_ref();
        let admitted = |need: &Need| only.is_none_or(|only| only.value.admits(need.index()));
        self.ways.needs.extend(needs.into_iter().filter(admitted));
    }

    fn offer(&mut self, change: Change, party: Party, solution: &Solution) {
        let mut stack = BTreeMap::new();
        let mut gives = String::new();
        if let Some(s) = &solution.stack {
            stack.insert(s.framework.clone(), s.version.to_string());
            stack.insert("variant".to_owned(), s.variant.clone());
            if let Some(cuda) = &s.cuda {
                stack.insert("cuda".to_owned(), cuda_short(cuda));
            }
            if let Some(cudnn) = &s.cudnn {
                stack.insert("cudnn".to_owned(), cudnn.to_string());
            }
            stack.extend(s.companions.iter().map(|(name, version)| (name.clone(), version.to_string())));
            gives = format!("{} {} {}", s.framework, s.version, s.variant);
            if s.evidence == Evidence::Inferred {
                gives.push_str(" (inferred: not read from the wheel)");
            }
        }
        for x in &solution.frameworks {
            stack.insert(x.package.clone(), x.version.to_string());
            if solution.stack.is_none() {
                stack.insert("cuda".to_owned(), cuda_short(&x.cuda));
            }
            if !gives.is_empty() {
                gives.push_str(", ");
            }
            gives.push_str(&format!("{} {} with CUDA {}", x.package, x.version, cuda_short(&x.cuda)));
        }
        stack.insert("python".to_owned(), solution.python.to_string());
        if gives.is_empty() {
            let count = solution.packages.len();
            gives = format!("{} on Python {}", Count(count).of("package"), solution.python);
            if let Some((_, cuda)) = cuda_runtime(self.inputs.catalogue.registry, &solution.packages) {
                gives.push_str(&format!(", CUDA {}", cuda_short(&cuda)));
            }
        }
        // With a GPU or a driver, a framework without CUDA is less than what was requested.
        let wants_gpu = self.inputs.host.driver.is_some() && !self.inputs.host.has_no_gpu();
        let has_framework = solution.stack.is_some() || !solution.frameworks.is_empty();
        if wants_gpu && !has_framework && solution.envelope.driver.is_none() {
            gives.push_str(", without CUDA");
        }
        let release = match &party {
            Party::Package(name) => {
                solution.packages.iter().find(|p| p.name == *name).map(|p| p.version.clone())
            }
            _ => None,
        };
        self.ways.found.push(WayOut {
            change,
            party,
            release,
            level: self.level,
            stack,
            gives,
            set: None,
            is_provisional: false,
        });
    }

    fn requirements(&mut self) {
        for (i, user) in self.inputs.request.requirements.iter().enumerate() {
            // What is asked about is not let go of.
            if !self.may_help(user) || user.origin == Origin::Question {
                continue;
            }
            let mut request = self.inputs.request.clone();
            let name = user.name().to_owned();
            let first = self.ways.found.len();
            let mut is_open = false;
            if user.requirement.version_or_url.is_some() {
                request.requirements[i].requirement.version_or_url = None;
                if let Some(solution) = self.solve(self.inputs.host, &request) {
                    let change = other_version(&name, user.requirement.version_or_url.as_ref(), &solution);
                    self.offer(change, Party::package(&name), &solution);
                    continue;
                }
                is_open = self.is_open;
            }
            for other in self.other_extras(&user.requirement) {
                let mut request = self.inputs.request.clone();
                request.requirements[i].requirement.extras.clone_from(&other);
                if let Some(solution) = self.solve(self.inputs.host, &request) {
                    let extras = other.iter().map(ToString::to_string).collect();
                    let change = Change::Extras { package: name.clone(), extras };
                    self.offer(change, Party::package(&name), &solution);
                }
            }
            for extra in user.requirement.extras.clone() {
                let mut request = self.inputs.request.clone();
                request.requirements[i].requirement.extras.retain(|e| *e != extra);
                if let Some(solution) = self.solve(self.inputs.host, &request) {
                    let change = Change::WithoutExtra { package: name.clone(), extra: extra.to_string() };
                    self.offer(change, Party::package(&name), &solution);
                }
            }
            if self.inputs.request.requirements.len() > 1 {
                let mut request = self.inputs.request.clone();
                request.requirements.remove(i);
                // At stack depth, a solution without a stack is not useful; nor is one without the only framework.
                if let Some(solution) = self.solve(self.inputs.host, &request)
                    && (self.depth == Depth::Full || solution.stack.is_some())
                    && !(self.is_framework(&name)
                        && solution.stack.is_none()
                        && solution.frameworks.is_empty())
                {
                    self.offer(Change::WithoutRequest(name.clone()), Party::package(&name), &solution);
                }
            }
            for way in &mut self.ways.found[first..] {
                way.is_provisional = is_open;
            }
        }
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
        for (bound, edit) in self.inputs.request.constraints.iter().zip(constraint_edits(self.inputs.request))
        {
            if self.may_help(bound) {
                self.try_edit(edit);
            }
        }
    }

    fn limits(&mut self) {
        for edit in limit_edits(self.inputs.request) {
            self.try_edit(edit);
        }
    }

    fn try_edit(&mut self, edit: Edit) {
        let mut request = self.inputs.request.clone();
        (edit.apply)(&mut request);
        if let Some(solution) = self.solve(self.inputs.host, &request)
            && let Some(change) = edit.change(&solution)
        {
            self.offer(change, edit.party, &solution);
        }
    }

    /// With several compute capabilities, offers the largest subsets of GPUs that work together. With one, offers the
    /// capabilities that would work.
    fn gpus(&mut self) {
        let Some(gpus) = &self.inputs.host.gpus else {
            return;
        };
        // GPUs of the same capability have the same support.
        let mut kinds: Vec<Option<ComputeCapability>> = gpus.iter().map(|g| g.capability).collect();
        kinds.sort();
        kinds.dedup();
        match kinds.len() {
            0 => {}
            1 => self.another_gpu(),
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
        let mut host = self.inputs.host.clone();
        let kept: Vec<Gpu> = host.gpus.iter().flatten().filter(|g| keep(g)).cloned().collect();
        host.gpus = Some(kept.clone());
        let Some(solution) = self.solve(&host, self.inputs.request) else {
            return false;
        };
        let mut labels: Vec<String> = kept.iter().map(Gpu::label).collect();
        labels.dedup();
        let indexes = kept.iter().map(|g| g.index).collect();
        self.offer(Change::OnlyGpus { indexes, labels }, Party::Gpu, &solution);
        // By UUID: CUDA and NVML can number GPUs differently.
        let uuids: Option<Vec<&str>> = kept.iter().map(|g| g.uuid.as_deref()).collect();
        if let (Some(uuids), Some(way)) = (uuids, self.ways.found.last_mut()) {
            way.set = Some(format!("CUDA_VISIBLE_DEVICES={}", uuids.join(",")));
        }
        true
    }

    fn another_gpu(&mut self) {
        let mut host = self.inputs.host.clone();
        host.gpus = None;
        if let Some(solution) = self.solve(&host, self.inputs.request) {
            // Only capabilities that this driver runs: PTX may need a newer driver.
            let driver = self.inputs.host.driver.as_ref().map(crate::model::host::Driver::user_mode);
            let runs = |c: &&crate::model::solution::Coverage| match (driver, &c.driver_min, &c.driver_below)
            {
                (Some(have), min, below) => {
                    min.as_ref().is_none_or(|min| have >= min)
                        && below.as_ref().is_none_or(|below| have < below)
                }
                (None, ..) => true,
            };
            let covered = solution.envelope.coverage.iter().filter(runs).map(|c| c.compute_capability);
            let covered: Vec<_> = covered.collect();
            if !covered.is_empty() {
                self.offer(Change::OtherGpu(covered), Party::Gpu, &solution);
            }
        }
    }

    fn libc(&mut self) {
        if self.inputs.host.system.libc.is_none() {
            return;
        }
        let mut host = self.inputs.host.clone();
        host.system.libc = None;
        if let Some(solution) = self.solve(&host, self.inputs.request)
            && let Some(need) = &solution.envelope.glibc
        {
            self.offer(Change::Glibc(need.clone()), Party::Glibc, &solution);
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
