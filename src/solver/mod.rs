//! The solver: one graph of driver, GPUs, libc, CUDA, cuDNN, framework builds and the whole Python
//! closure.
//!
//! [`solve`] is a pure function. It never fetches: if it needs a page or METADATA that is not in the
//! [`Universe`], it returns [`Answer::NeedMetadata`]; the caller fetches the list and calls again.
//! `benches/solve.rs` measures a solve.
//!
//! How it works (see `docs/architecture.md` for the measurements):
//! * every candidate of a package is an ordinal, and requirements become sets of ordinals by PEP 440's
//!   `contains` (`tables`);
//! * a framework is split into its public version, its CUDA variant and its build, so that "this
//!   version with that CUDA" fails with three facts instead of one per build;
//! * the order of preference is defined in `rank`; pubgrub only searches (`provider`);
//! * if there is no solution, an unranked pass finds a short proof (`conflict`), and relaxing each
//!   requirement and host fact in turn finds changes that work (`relax`).

mod answer;
mod behind;
mod best;
mod budget;
mod candidates;
mod cap;
mod causes;
mod choices;
mod closure;
mod conflict;
mod deciding;
mod edit;
mod empty_extras;
mod envelope;
mod equivalent;
mod explain;
mod failures;
mod groups;
mod inputs;
mod joint;
mod joint_python;
mod joint_ways;
mod known_candidates;
mod machine_rows;
mod memory;
mod newer;
mod newest;
mod node;
mod open;
mod part_members;
mod patches;
mod plan;
mod problem;
mod prove;
mod provider;
mod pythons;
mod question;
mod rank;
mod relax;
mod release;
mod requested;
mod requested_packages;
mod runtime;
mod search;
mod series;
mod set;
mod sources;
mod tables;
#[cfg(test)]
mod tests;
mod together;
mod universe;

use std::rc::Rc;

use crate::model::host::Host;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{Answer, Solution};
use crate::registry::Registry;

pub use budget::Budget;
pub use edit::{Edit, HostFact, Limited};
pub use inputs::{Catalogue, Depth, Inputs, allowed_pythons, preferred_pythons};
pub use joint::{Joint, JointAnswer, Member, SolveOne};
pub use memory::Memory;
pub use newer::{NewerStacks, Upgrade, driver_for_gpus, newer_stacks, upgrades};
pub use open::open_question;
pub use plan::{Plan, PlanOut, PlanRow, plan};
pub use question::Question;
pub use series::{NoSeries, newest_series};
pub use sources::source_build;
pub use together::newest_common;
pub use universe::{AtHand, DIRECT, Universe};

use pythons::Outcome;
use tables::Tables;

/// Solves a request for a host.
///
/// The order of preference: locked versions if they are still compatible; the requested packages, those that depend on
/// others first (`requested.rs`); the newest torch; for equal torch versions the build on PyPI, then native before
/// compatibility mode, then the newest CUDA; the newest Python on which no requested package falls back to an older
/// release because of a missing wheel; the newest release of all other packages.
///
/// ```
/// use envlock::model::{host::Host, platform::Platform, request::*, solution::Answer};
/// use envlock::registry::Registry;
/// use envlock::solver::{solve, Budget, Catalogue, Depth, Inputs, Memory, Question, Universe};
///
/// let registry = Registry::embedded();
/// let mut host = Host::open(Platform::LINUX_X86_64, "example");
/// host.driver = Some(envlock::model::host::Driver {
///     version: "535.54.03".parse().unwrap(), cuda: None, compat: None, found_by: "example".into(),
/// });
/// let request = Request {
///     requirements: vec![UserRequirement::parse("torch>=2.5", "example".into()).unwrap()],
///     ..Request::default()
/// };
/// let catalogue = Catalogue::new(&registry, host.system.platform);
/// let preferences = Preferences::default();
/// let inputs = Inputs {
///     catalogue: &catalogue, universe: &Universe::default(), memory: &Memory::default(),
///     budget: &Budget::default(), question: &Question::new(&host, &request, &preferences),
/// };
/// let Answer::Solution(solution) = solve(&inputs, Depth::Stack) else { panic!() };
/// // Driver 535 runs any CUDA 12 build; CUDA 13 needs 580.
/// assert!(solution.stack.unwrap().variant.starts_with("cu12"));
/// ```
pub fn solve(inputs: &Inputs<'_>, depth: Depth) -> Answer {
    let other;
    let tables = if inputs.catalogue.platform == inputs.question.host.system.platform {
        &inputs.catalogue.tables
    } else {
        // Does not happen in envlock itself: the catalogue is for another platform, so build the tables again.
        other = Tables::new(inputs.catalogue.registry, inputs.question.host.system.platform);
        &other
    };
    inputs.budget.begin(inputs.question);
    let prereleases = inputs.memory.prereleases();
    let answer = solve_with(inputs, tables, depth);
    match inputs.memory.prereleases() > prereleases {
        // The first searches did not know of them.
        true => solve(inputs, depth),
        false => answer,
    }
}

fn solve_with<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth) -> Answer {
    match requested::attempt_fairly(inputs, tables, depth) {
        Outcome::Solved(solution) => Answer::Solution(solution),
        Outcome::Need(needs) => Answer::NeedMetadata(needs),
        Outcome::TooLong => Answer::TooLong,
        Outcome::Impossible => match causes::explain(inputs, tables, depth) {
            Ok((conflict, needs)) if needs.is_empty() => Answer::Conflict(Box::new(conflict)),
            Ok((conflict, needs)) => Answer::ConflictSoFar(Box::new(conflict), needs),
            Err(answer) => answer,
        },
    }
}

/// Solves the stack of a request from the registry alone, without pages and METADATA.
pub fn solve_stack(registry: &Registry, host: &Host, request: &Request, preferences: &Preferences) -> Answer {
    about_stack(registry, &Question::new(host, request, preferences), |inputs| solve(inputs, Depth::Stack))
}

/// The answer of [`solve_stack`] if it is a solution: why there is none costs more than to find that out.
fn find_stack(registry: &Registry, question: &Question<'_>) -> Option<Box<Solution>> {
    about_stack(registry, question, |inputs| {
        inputs.budget.begin(inputs.question);
        match requested::attempt_fairly(inputs, &inputs.catalogue.tables, Depth::Stack) {
            Outcome::Solved(solution) => Some(solution),
            Outcome::Need(_) | Outcome::TooLong | Outcome::Impossible => None,
        }
    })
}

/// Asks about the stack from the registry alone.
fn about_stack<A>(registry: &Registry, question: &Question<'_>, ask: impl FnOnce(&Inputs<'_>) -> A) -> A {
    ask(&Inputs {
        catalogue: &Catalogue::new(registry, question.host.system.platform),
        universe: &Universe::default(),
        memory: &Memory::default(),
        budget: &Budget::default(),
        question,
    })
}
