//! The solver: one graph of driver, GPUs, libc, CUDA, cuDNN, framework builds and the whole Python
//! closure.
//!
//! [`solve`] is a function of values. It never fetches: when it must know a page or a METADATA that
//! the [`Universe`] does not hold, it answers [`Answer::NeedMetadata`], the caller fetches the list
//! and calls again. `benches/solve.rs` says what a solve costs.
//!
//! How it works (measured choices: see `docs/architecture.md`):
//! * every candidate of a package is an ordinal, and requirements are turned into sets of ordinals
//!   by PEP 440's own `contains` (`tables`);
//! * a framework is split into its plain version, its CUDA flavour and its build, so that "this
//!   version with that CUDA" fails with three facts instead of one per build;
//! * the order of preference is ours (`rank`), pubgrub only searches (`provider`);
//! * when nothing fits, an unranked pass finds the shortest proof (`conflict`) and one relaxation
//!   per request and host fact finds the ways out (`relax`).

mod alike;
mod answer;
mod closure;
mod conflict;
mod envelope;
mod explain;
mod newer;
mod node;
mod plan;
mod provider;
mod rank;
mod relax;
mod runtime;
mod search;
mod tables;
#[cfg(test)]
mod tests;
mod together;
mod universe;

use std::cmp::Reverse;
use std::rc::Rc;

use pep440_rs::Version;

use crate::model::conflict::Conflict;
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::request::{Preferences, PythonAllowed, Request};
use crate::model::solution::{Answer, Level, Need, Solution};
use crate::model::wheel::Python;
use crate::registry::Registry;

pub use newer::{NewerStacks, Upgrade, driver_for_gpus, newer_stacks, upgrades};
pub use plan::{Plan, PlanOut, PlanRow, plan};
pub use tables::STACK_PACKAGES;
pub use together::newest_common;
pub use universe::Universe;

use rank::StackQuality;
use search::Found;
use tables::{Problem, Tables};

/// How much of the graph to solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Hardware, CUDA, cuDNN, builds and companions: from the registry alone.
    Stack,
    /// The whole Python closure too.
    Full,
}

/// The registry's candidates for one platform, numbered once for all solves of a command.
#[derive(Debug)]
pub struct Catalogue<'r> {
    registry: &'r Registry,
    platform: Platform,
    tables: Rc<Tables<'r>>,
}

impl<'r> Catalogue<'r> {
    /// Numbers what the registry has for a platform.
    pub fn new(registry: &'r Registry, platform: Platform) -> Catalogue<'r> {
        Catalogue { registry, platform, tables: Tables::new(registry, platform) }
    }
}

/// Everything a solve looks at.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The compatibility data, for the host's platform.
    pub catalogue: &'a Catalogue<'a>,
    /// Pages and metadata fetched so far.
    pub universe: &'a Universe,
    /// The machine to solve for.
    pub host: &'a Host,
    /// What is asked.
    pub request: &'a Request,
    /// What an earlier lock holds.
    pub preferences: &'a Preferences,
}

/// Solves a request for a host.
///
/// The order of preference: what the old lock holds if it still fits; newest torch; at equal torch
/// the build that PyPI carries, then native before compatibility mode, then the newest CUDA; the
/// newest Python on which no requested package has to step back for want of a wheel; the newest of
/// the rest.
///
/// ```
/// use envlock::model::{host::Host, platform::Platform, request::*, solution::Answer};
/// use envlock::registry::Registry;
/// use envlock::solver::{solve, Catalogue, Depth, Inputs, Universe};
///
/// let registry = Registry::embedded();
/// let mut host = Host::open(Platform::LINUX_X86_64, "example");
/// host.driver = Some(envlock::model::host::Driver {
///     version: "535.54.03".parse().unwrap(), cuda: None, compat: None, found_by: "example".into(),
/// });
/// let request = Request {
///     requirements: vec![UserRequirement {
///         requirement: "torch>=2.5".parse().unwrap(), origin: "example".into(),
///     }],
///     ..Request::default()
/// };
/// let catalogue = Catalogue::new(&registry, host.system.platform);
/// let inputs = Inputs {
///     catalogue: &catalogue, universe: &Universe::default(), host: &host,
///     request: &request, preferences: &Preferences::default(),
/// };
/// let Answer::Solution(solution) = solve(&inputs, Depth::Stack) else { panic!() };
/// // Driver 535 runs any CUDA 12 build; CUDA 13 needs 580.
/// assert!(solution.stack.unwrap().variant.starts_with("cu12"));
/// ```
pub fn solve(inputs: &Inputs<'_>, depth: Depth) -> Answer {
    let other;
    let tables = if inputs.catalogue.platform == inputs.host.system.platform {
        &inputs.catalogue.tables
    } else {
        // Never the case in this program; then the catalogue is only a shortcut that does not apply.
        other = Tables::new(inputs.catalogue.registry, inputs.host.system.platform);
        &other
    };
    match attempt(inputs, tables, depth) {
        Outcome::Solved(solution) => Answer::Solution(solution),
        Outcome::Need(needs) => Answer::NeedMetadata(needs),
        Outcome::TooLong => Answer::TooLong,
        Outcome::Impossible => match explain_failure(inputs, tables, depth) {
            Ok((conflict, needs)) if needs.is_empty() => Answer::Conflict(Box::new(conflict)),
            Ok((conflict, needs)) => Answer::ConflictSoFar(Box::new(conflict), needs),
            Err(answer) => answer,
        },
    }
}

/// Solves the stack of a request from the registry alone: no page and no METADATA is asked for.
pub fn solve_stack(registry: &Registry, host: &Host, request: &Request, preferences: &Preferences) -> Answer {
    let inputs = Inputs {
        catalogue: &Catalogue::new(registry, host.system.platform),
        universe: &Universe::default(),
        host,
        request,
        preferences,
    };
    solve(&inputs, Depth::Stack)
}

/// What one attempt came to, without a proof.
enum Outcome {
    Solved(Box<Solution>),
    Need(Vec<Need>),
    TooLong,
    Impossible,
}

/// How good a solution is, before the newest of the rest: greater is better. The locked Python comes
/// before the steps that requested packages had to take back, the newest Python after them.
type Quality = (Option<StackQuality>, bool, Reverse<usize>, Python);

/// Solves Python series by series and keeps the best.
///
/// The registry alone tells cheaply what build a series can have at most. The series that can have the
/// best one are tried first, the locked one before the newest; most requests end with the first.
fn attempt<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth) -> Outcome {
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    let is_locked = |p: &Python| inputs.preferences.python.is_some_and(|q| q.minor == p.minor);
    let mut order = pythons.clone();
    order.sort_by_key(|p| Reverse((is_locked(p), *p)));
    let asks_for_stack =
        inputs.request.requirements.iter().any(|r| tables::is_stack_package(r.requirement.name.as_ref()));
    // `None`: no stack is asked for. An error: nothing fits, whatever the rest of the closure says.
    let promise = |series: Vec<Python>| -> Result<Option<StackQuality>, ()> {
        if !asks_for_stack {
            return Ok(None);
        }
        let problem = Problem::new(inputs, tables, Depth::Stack, series);
        match search::ranked(&problem) {
            Found::Selected(selected) => Ok(answer::stack_quality(&problem, &selected)),
            _ => Err(()),
        }
    };
    let Ok(ceiling) = promise(pythons.clone()) else {
        return Outcome::Impossible;
    };
    // First with every requested package at its newest: a series on which that holds and the build is
    // the best possible is the answer, and one on which it does not is left without walking through
    // years of old releases.
    if depth == Depth::Full {
        for python in &order {
            if promise(vec![*python]).is_ok_and(|bound| bound >= ceiling) {
                let mut problem = Problem::new(inputs, tables, depth, vec![*python]);
                problem.newest_on = Some(&pythons);
                match search::ranked(&problem) {
                    Found::Need(needs) => return Outcome::Need(needs),
                    Found::TooLong => return Outcome::TooLong,
                    Found::Selected(selected) if answer::stack_quality(&problem, &selected) >= ceiling => {
                        return Outcome::Solved(Box::new(answer::solution(&problem, &selected)));
                    }
                    Found::Selected(_) | Found::Impossible(_) => {}
                }
            }
        }
    }
    let mut best: Option<(Quality, Box<Solution>)> = None;
    let mut later: Vec<(Option<StackQuality>, Python)> = Vec::new();
    let mut queue = order.into_iter();
    loop {
        let (bound, python) = match queue.next() {
            Some(python) => match promise(vec![python]) {
                Err(()) => continue,
                Ok(bound) if bound < ceiling => {
                    later.push((bound, python));
                    continue;
                }
                Ok(bound) => (bound, python),
            },
            // The series that promise less, best promise first.
            None => {
                later.sort();
                match later.pop() {
                    Some(next) => next,
                    None => break,
                }
            }
        };
        if best.as_ref().is_some_and(|(quality, _)| quality.0 > bound) {
            // Neither this series nor a later one can reach the build that was found.
            break;
        }
        let problem = Problem::new(inputs, tables, depth, vec![python]);
        let selected = match search::ranked(&problem) {
            Found::Need(needs) => return Outcome::Need(needs),
            Found::TooLong => return Outcome::TooLong,
            Found::Impossible(_) => continue,
            Found::Selected(selected) => selected,
        };
        let mut steps = 0;
        if depth == Depth::Full {
            let missing;
            (steps, missing) = closure::steps_back(&problem, &selected, &pythons);
            if !missing.is_empty() {
                return Outcome::Need(missing);
            }
        }
        let locked = is_locked(&python);
        let quality: Quality = (answer::stack_quality(&problem, &selected), locked, Reverse(steps), python);
        let final_word = (steps == 0 || locked) && quality.0 >= ceiling;
        if best.as_ref().is_none_or(|(b, _)| quality > *b) {
            best = Some((quality, Box::new(answer::solution(&problem, &selected))));
        }
        if final_word {
            break;
        }
    }
    match best {
        Some((_, solution)) => Outcome::Solved(solution),
        None => Outcome::Impossible,
    }
}

/// The Python series that the request allows, oldest first.
fn allowed_pythons(registry: &Registry, request: &Request) -> Vec<Python> {
    let known = registry.pythons().iter().map(|minor| Python::new(*minor));
    match request.python.as_ref().map(|p| &p.allowed) {
        None => known.collect(),
        Some(PythonAllowed::Exact(python)) => vec![*python],
        Some(PythonAllowed::Range(range)) => {
            known.filter(|p| crate::model::project::specifiers_allow(range, *p)).collect()
        }
    }
}

/// The shortest proof that nothing fits, the ways out, and what must be known to check more of them.
/// The error is the answer where there is no proof to tell.
fn explain_failure<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    depth: Depth,
) -> Result<(Conflict, Vec<Need>), Answer> {
    // An old lock says what is kept where it can be; it must not decide what counts as a way out.
    let nothing_kept = Preferences::default();
    let inputs = &Inputs { preferences: &nothing_kept, ..*inputs };
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    // The shortest first: the stack alone, then the closure; all series at once, then each. The graph
    // of all series is a little too permissive (a marker that differs between them counts as absent);
    // then the proof for the newest series that fails speaks for all.
    let mut series: Vec<Vec<Python>> = vec![pythons.clone()];
    series.extend(pythons.iter().rev().map(|p| vec![*p]));
    let mut tries = vec![(Level::Stack, Depth::Stack, pythons.clone())];
    match depth {
        Depth::Stack => tries = series.into_iter().map(|s| (Level::Stack, Depth::Stack, s)).collect(),
        Depth::Full => tries.extend(series.into_iter().map(|s| (Level::Full, Depth::Full, s))),
    }
    for (level, depth, series) in tries {
        let mut problem = Problem::new(inputs, tables, depth, series);
        if depth == Depth::Stack {
            problem.alike = alike::Alike::of(&problem);
        }
        match search::unranked(&problem) {
            Found::Need(needs) => return Err(Answer::NeedMetadata(needs)),
            Found::TooLong => return Err(Answer::TooLong),
            Found::Selected(_) => {}
            Found::Impossible(tree) => {
                let mut conflict = conflict::describe(&problem, &tree);
                let (ways, needs) = relax::ways_out(inputs, tables, level);
                conflict.would_work_if = ways;
                return Ok((conflict, needs));
            }
        }
    }
    Err(Answer::TooLong)
}

/// The plain part of a version: without a local segment.
pub(crate) fn public(version: &Version) -> Version {
    version.clone().without_local()
}
