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
mod choices;
mod closure;
mod conflict;
mod envelope;
mod explain;
mod inputs;
mod joint;
mod machine;
mod newer;
mod node;
mod plan;
mod problem;
mod provider;
mod pythons;
mod rank;
mod relax;
mod runtime;
mod search;
mod series;
mod tables;
#[cfg(test)]
mod tests;
mod together;
mod universe;

use std::rc::Rc;

use crate::model::conflict::Conflict;
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{Answer, Need};
use crate::model::wheel::Python;
use crate::registry::Registry;

pub use inputs::{Catalogue, Depth, Inputs};
pub use joint::{Joint, JointAnswer, Member};
pub use newer::{NewerStacks, Upgrade, driver_for_gpus, newer_stacks, upgrades};
pub use plan::{Plan, PlanOut, PlanRow, plan};
pub use series::{NoSeries, newest_series};
pub use together::newest_common;
pub use universe::Universe;

use problem::{Alike, Problem};
use pythons::Outcome;
use search::Found;
use tables::Tables;

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
    match pythons::attempt(inputs, tables, depth) {
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
    let pythons = pythons::allowed(inputs.catalogue.registry, inputs.request);
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
            problem.alike = Alike::of(&problem);
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
