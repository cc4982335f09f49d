//! Chooses the Python series: the one with the best stack on which no requested package falls back to an older release.

use std::cmp::Reverse;
use std::rc::Rc;

use version_ranges::Ranges;

use super::inputs::{Depth, Inputs, allowed_pythons};
use super::memory::{Ended, Wish};
use super::node::{Node, Selected};
use super::problem::Problem;
use super::rank::StackQuality;
use super::tables::{Set, Tables, is_stack_package};
use super::{answer, closure, search};
use crate::model::solution::{Need, Solution};
use crate::model::wheel::Python;

/// The result of one attempt, without a proof.
pub(super) enum Outcome {
    Solved(Box<Solution>),
    Need(Vec<Need>),
    TooLong,
    Impossible,
}

/// The quality of a solution, greater is better: the stack, whether Python is the locked one, how few packages are built
/// only because of this Python, how few releases the requested packages fall back, the newest Python.
type Quality = (Option<StackQuality>, bool, Reverse<usize>, Reverse<usize>, Python);

/// The answer with every requested package, apart from the stack, at the newest release that any Python could have.
pub(super) enum Newest {
    /// With the best stack that the machine allows.
    Best(Box<Solution>),
    /// With an older stack.
    OlderStack(Box<Solution>),
    Need(Vec<Need>),
    None,
}

/// Solves Python series by series with every requested package at its newest release, whatever the stack.
pub(super) fn with_all_newest<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>) -> Newest {
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    let is_locked = |p: &Python| inputs.preferences.python.is_some_and(|q| q.minor == p.minor);
    let mut order = pythons.clone();
    order.sort_by_key(|p| Reverse((is_locked(p), *p)));
    let ceiling = {
        let problem = Problem::new(inputs, tables, Depth::Stack, pythons.clone());
        match search::ranked(&problem) {
            Ok(Ended::Selected(selected)) => answer::stack_quality(&problem, &selected),
            _ => return Newest::None,
        }
    };
    let mut best: Option<(Option<StackQuality>, Box<Solution>)> = None;
    for python in order {
        let mut problem = Problem::new(inputs, tables, Depth::Full, vec![python]);
        problem.asked.wish = Wish::Newest(pythons.clone());
        match search::ranked(&problem) {
            Err(needs) => return Newest::Need(needs),
            Ok(Ended::TooLong | Ended::Impossible) => {}
            Ok(Ended::Selected(selected)) if problem.needless_builds(&selected) > 0 => {}
            Ok(Ended::Selected(selected)) => {
                let stack = answer::stack_quality(&problem, &selected);
                let solution = Box::new(answer::solution(&problem, &selected));
                if stack >= ceiling {
                    return Newest::Best(solution);
                }
                if best.as_ref().is_none_or(|(quality, _)| stack > *quality) {
                    best = Some((stack, solution));
                }
            }
        }
    }
    best.map_or(Newest::None, |(_, solution)| Newest::OlderStack(solution))
}

/// Solves Python series by series and keeps the best.
///
/// A solve from the registry alone gives a cheap upper bound for the build of a series. The series with the best bound
/// are tried first, the locked one before the newest; most requests end with the first.
pub(super) fn attempt<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth) -> Outcome {
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    let is_locked = |p: &Python| inputs.preferences.python.is_some_and(|q| q.minor == p.minor);
    let mut order = pythons.clone();
    order.sort_by_key(|p| Reverse((is_locked(p), *p)));
    let asks_for_stack =
        inputs.request.requirements.iter().any(|r| is_stack_package(r.requirement.name.as_ref()));
    // `None`: no stack is required. An error: no stack exists, whatever the rest of the closure is.
    let promise = |series: Vec<Python>| -> Result<Option<StackQuality>, ()> {
        if !asks_for_stack {
            return Ok(None);
        }
        let problem = Problem::new(inputs, tables, Depth::Stack, series);
        match search::ranked(&problem) {
            Ok(Ended::Selected(selected)) => Ok(answer::stack_quality(&problem, &selected)),
            _ => Err(()),
        }
    };
    let Ok(ceiling) = promise(pythons.clone()) else {
        return Outcome::Impossible;
    };
    // First require every requested package at its newest release. A series that satisfies this with the best
    // possible build is the answer. One that does not is skipped without searching through years of old releases.
    if depth == Depth::Full {
        for python in &order {
            if promise(vec![*python]).is_ok_and(|bound| bound >= ceiling) {
                let mut problem = Problem::new(inputs, tables, depth, vec![*python]);
                problem.asked.wish = Wish::Newest(pythons.clone());
                match search::ranked(&problem) {
                    Err(needs) => return Outcome::Need(needs),
                    Ok(Ended::TooLong) => return Outcome::TooLong,
                    Ok(Ended::Selected(selected))
                        if answer::stack_quality(&problem, &selected) >= ceiling
                            && problem.needless_builds(&selected) == 0 =>
                    {
                        return Outcome::Solved(Box::new(answer::solution(&problem, &selected)));
                    }
                    Ok(Ended::Selected(_) | Ended::Impossible) => {}
                }
            }
        }
    }
    let mut best: Option<Best> = None;
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
            // Then the series with a lower bound, the best bound first.
            None => {
                later.sort();
                match later.pop() {
                    Some(next) => next,
                    None => break,
                }
            }
        };
        if best.as_ref().is_some_and(|best| best.quality.0 > bound) {
            // Neither this series nor a later one can have the build that was found.
            break;
        }
        let mut problem = Problem::new(inputs, tables, depth, vec![python]);
        if let Some(best) = &best
            && best.states_what_is_better(python, is_locked(&python))
        {
            // A proof that nothing is better here is cheaper than the whole closure.
            problem.asked.wish = best.better.clone();
            match search::ranked(&problem) {
                Err(needs) => return Outcome::Need(needs),
                Ok(Ended::Impossible) => continue,
                Ok(Ended::Selected(_) | Ended::TooLong) => problem.asked.wish = Wish::Nothing,
            }
        }
        let selected = match search::ranked(&problem) {
            Err(needs) => return Outcome::Need(needs),
            Ok(Ended::TooLong) => return Outcome::TooLong,
            Ok(Ended::Impossible) => continue,
            Ok(Ended::Selected(selected)) => selected,
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
        let builds = problem.needless_builds(&selected);
        let stack = if asks_for_stack { answer::stack_quality(&problem, &selected) } else { None };
        let quality: Quality = (stack, locked, Reverse(builds), Reverse(steps), python);
        let final_word = ((steps == 0 && builds == 0) || locked) && quality.0 >= ceiling;
        if best.as_ref().is_none_or(|best| quality > best.quality) {
            let solution = Box::new(answer::solution(&problem, &selected));
            best = Some(Best { quality, solution, better: better(&problem, &selected, asks_for_stack) });
        }
        if final_word {
            break;
        }
    }
    match best {
        Some(best) => Outcome::Solved(best.solution),
        None => Outcome::Impossible,
    }
}

/// The best answer so far.
struct Best {
    quality: Quality,
    solution: Box<Solution>,
    /// What the answer of another series needs to be better.
    better: Wish,
}

impl Best {
    /// Whether the answer of an older series is better only if it has what [`Best::better`] says.
    fn states_what_is_better(&self, python: Python, is_locked: bool) -> bool {
        let (_, _, Reverse(builds), _, own) = &self.quality;
        *builds == 0 && !is_locked && python < *own
    }
}

/// A newer torch or a better build of it, or, with a torch that is not older, a newer release of another requested
/// package.
fn better(problem: &Problem<'_>, selected: &Selected, asks_for_stack: bool) -> Wish {
    let chosen = |name: &str| Some((Node::package(name), *selected.get(&Node::package(name))?));
    let newer = |(node, ordinal)| (node, Ranges::strictly_higher_than(ordinal));
    let names = problem.user_requirements().map(|user| user.requirement.name.as_ref() as &str);
    let mut alternatives: Vec<(Node, Set)> =
        names.filter(|name| !is_stack_package(name)).filter_map(chosen).map(newer).collect();
    let torch = chosen("torch").filter(|_| asks_for_stack);
    let build = selected.get(&Node::build("torch")).filter(|_| asks_for_stack);
    if let (Some((node, version)), Some(build)) = (&torch, build) {
        let table = &problem.stack["torch"];
        let rank = problem.build_rank("torch", *build);
        let others = table.spans[*version as usize].clone();
        let better = others.filter(|other| problem.build_rank("torch", *other) > rank);
        let better = better.fold(Set::empty(), |set, other| set.union(&Ranges::singleton(other)));
        alternatives.push(newer((node.clone(), *version)));
        alternatives.push((Node::build("torch"), better));
    }
    Wish::Better { alternatives, torch: torch.map(|(_, version)| version) }
}
