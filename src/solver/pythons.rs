//! Chooses the Python series: the one with the best stack on which no requested package falls back to an older release.

use std::cmp::Reverse;
use std::rc::Rc;

use version_ranges::Ranges;

use super::inputs::{Depth, Inputs, allowed_pythons};
use super::memory::{Doubtful, Ended, Wish};
use super::newest::Releases;
use super::node::{Node, Selected};
use super::problem::Problem;
use super::rank::StackQuality;
use super::tables::{Set, Tables, is_stack_package};
use super::{answer, search};
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
/// only because of this Python, how few releases the requested packages fall back, whether Python is installed, the newest
/// Python.
type Quality = (Option<StackQuality>, bool, Reverse<usize>, Reverse<usize>, (bool, Python));

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
    let is_installed = |p: &Python| inputs.preferences.installed.contains(&p.minor);
    let mut order = pythons.clone();
    order.sort_by_key(|p| Reverse((is_locked(p), is_installed(p), *p)));
    let ceiling = {
        let mut problem = Problem::new(inputs, tables, Depth::Stack, pythons.clone());
        problem.asked.admits = Doubtful::default();
        match search::ranked(&problem) {
            Ok(Ended::Selected(selected)) => answer::stack_quality(&problem, &selected),
            _ => return Newest::None,
        }
    };
    let mut best: Option<(Option<StackQuality>, Box<Solution>)> = None;
    for (i, python) in order.into_iter().enumerate() {
        if i == 1 && best.is_none() {
            match none_is_newest(inputs, tables, Doubtful::default()) {
                Err(needs) => return Newest::Need(needs),
                Ok(true) => return Newest::None,
                Ok(false) => {}
            }
        }
        let mut problem = Problem::new(inputs, tables, Depth::Full, vec![python]);
        problem.asked.wish = Wish::Newest(pythons.clone());
        problem.asked.admits = Doubtful::default();
        match search::ranked(&problem) {
            Err(needs) => return Newest::Need(needs),
            Ok(Ended::TooLong | Ended::Impossible) => {}
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

/// Whether the packages that are requested cannot all be at their newest releases on any Python: what all series together
/// exclude, each one does.
fn none_is_newest<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    admits: Doubtful,
) -> Result<bool, Vec<Need>> {
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    let mut problem = Problem::new(inputs, tables, Depth::Full, pythons.clone());
    problem.asked.wish = Wish::Newest(pythons);
    problem.asked.admits = admits;
    Ok(matches!(search::ranked(&problem)?, Ended::Impossible))
}

/// Solves Python series by series and keeps the best. What is doubtful is admitted only where there is no other answer: first
/// packages that are known to fail beside another one, then those that link another CUDA, whose GPU libraries cannot be
/// loaded, then needless builds.
pub(super) fn attempt<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth) -> Outcome {
    let mut outcome = attempt_with(inputs, tables, depth, Doubtful::default(), &[]);
    // How many requested packages are far behind; none of an answer that there is not.
    let far_behind = |outcome: &Outcome| match outcome {
        Outcome::Solved(solution) => Some(solution.behind.len()),
        _ => None,
    };
    let failures = Doubtful { known_failures: true, ..Doubtful::default() };
    let other_cuda = Doubtful { other_cuda: true, ..Doubtful::default() };
    let both = Doubtful { known_failures: true, ..other_cuda };
    for admits in [failures, other_cuda, both] {
        // An old release that works is better than a new one that is known to fail.
        let is_doubtful = matches!(outcome, Outcome::Impossible)
            || !admits.known_failures && far_behind(&outcome).is_some_and(|count| count > 0);
        if !is_doubtful || !inputs.memory.left_out().has_all_of(admits) {
            continue;
        }
        // A package whose GPU library is not loaded is told; one of years ago helps nobody.
        let other = attempt_with(inputs, tables, depth, admits, &[]);
        let is_better = match (far_behind(&outcome), far_behind(&other)) {
            (Some(strict), Some(lax)) => lax < strict,
            (Some(_), None) => matches!(other, Outcome::Need(_)),
            (None, _) => true,
        };
        if is_better {
            outcome = other;
        }
    }
    if matches!(outcome, Outcome::Impossible) && inputs.memory.left_out().needless_builds {
        outcome = attempt_with(inputs, tables, depth, Doubtful::ALL, &[]);
    }
    outcome
}

/// Solves Python series by series and keeps the best. On the `hopeless` series the request is known to have no answer.
///
/// A solve from the registry alone gives a cheap upper bound for the build of a series. The series with the best bound
/// are tried first, the locked one before the newest; most requests end with the first.
pub(super) fn attempt_with<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    depth: Depth,
    admits: Doubtful,
    hopeless: &[Python],
) -> Outcome {
    let pythons = allowed_pythons(inputs.catalogue.registry, inputs.request);
    let is_locked = |p: &Python| inputs.preferences.python.is_some_and(|q| q.minor == p.minor);
    let is_installed = |p: &Python| inputs.preferences.installed.contains(&p.minor);
    let mut order = pythons.clone();
    order.retain(|python| !hopeless.contains(python));
    order.sort_by_key(|p| Reverse((is_locked(p), is_installed(p), *p)));
    let asks_for_stack = inputs.request.requirements.iter().any(|r| is_stack_package(r.name()));
    // `None`: no stack is required. An error: no stack exists, whatever the rest of the closure is.
    let promise = |series: Vec<Python>| -> Result<Option<StackQuality>, ()> {
        if !asks_for_stack {
            return Ok(None);
        }
        let mut problem = Problem::new(inputs, tables, Depth::Stack, series);
        problem.asked.admits = admits;
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
        for (i, python) in order.iter().enumerate() {
            if i == 1 {
                match none_is_newest(inputs, tables, admits) {
                    Err(needs) => return Outcome::Need(needs),
                    Ok(true) => break,
                    Ok(false) => {}
                }
            }
            if promise(vec![*python]).is_ok_and(|bound| bound >= ceiling) {
                let mut problem = Problem::new(inputs, tables, depth, vec![*python]);
                problem.asked.wish = Wish::Newest(pythons.clone());
                problem.asked.admits = admits;
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
    let mut solved: Vec<Quality> = Vec::new();
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
        problem.asked.admits = admits;
        if let Some(best) = &best
            && best.can_be_compared(&problem, is_locked(&python), (is_installed(&python), python))
        {
            let Some(better) = best.better(&problem, bound.as_ref()) else { continue };
            problem.asked.wish = better;
            match search::ranked(&problem) {
                Err(needs) => return Outcome::Need(needs),
                Ok(Ended::Impossible) => continue,
                Ok(Ended::Selected(_) | Ended::TooLong) => problem.asked.wish = Wish::Nothing,
            }
        }
        let selected = match search::ranked(&problem) {
            Err(needs) => return Outcome::Need(needs),
            Ok(Ended::TooLong) if best.is_some() => continue,
            Ok(Ended::TooLong) => return Outcome::TooLong,
            Ok(Ended::Impossible) => continue,
            Ok(Ended::Selected(selected)) => selected,
        };
        let releases = match depth {
            Depth::Full => Releases::of(&problem, &selected, &pythons),
            Depth::Stack => Ok(Releases::default()),
        };
        let releases = match releases {
            Ok(releases) => releases,
            Err(needs) => return Outcome::Need(needs),
        };
        let steps = releases.steps_back(&selected);
        let locked = is_locked(&python);
        let builds = problem.needless_builds(&selected);
        let stack = if asks_for_stack { answer::stack_quality(&problem, &selected) } else { None };
        let quality: Quality =
            (stack, locked, Reverse(builds), Reverse(steps), (is_installed(&python), python));
        solved.push(quality.clone());
        let final_word = ((steps == 0 && builds == 0) || locked) && quality.0 >= ceiling;
        if best.as_ref().is_none_or(|best| quality > best.quality) {
            best = Some(Best { quality, problem, selected, releases });
        }
        if final_word {
            break;
        }
    }
    match best {
        Some(best) => {
            let mut solution = answer::solution(&best.problem, &best.selected);
            let (stack, locked, builds, _, (_, python)) = &best.quality;
            let differs_in_releases =
                |other: &&Quality| (&other.0, &other.1, &other.2) == (stack, locked, builds);
            let others = solved.iter().filter(differs_in_releases);
            solution.newer_python = others.map(|other| other.4.1).max().filter(|other| other > python);
            Outcome::Solved(Box::new(solution))
        }
        None => Outcome::Impossible,
    }
}

/// The best answer so far.
struct Best<'a> {
    quality: Quality,
    problem: Problem<'a>,
    selected: Rc<Selected>,
    releases: Releases,
}

impl Best<'_> {
    /// Whether the answer of an older series is better only if it has what [`Best::better`] says.
    fn can_be_compared(&self, other: &Problem<'_>, is_locked: bool, python: (bool, Python)) -> bool {
        let (_, _, Reverse(builds), _, own) = &self.quality;
        let asks_the_same = self.problem.user_requirements().eq(other.user_requirements())
            && self.problem.user_constraints().eq(other.user_constraints());
        *builds == 0 && !is_locked && python < *own && asks_the_same
    }

    /// What the answer of another series, whose build is at most `bound`, needs to be better: a newer torch or a better
    /// build of it; or with the same, fewer steps back. `None` if nothing is better.
    ///
    /// A proof that this does not exist is cheaper than the closure of the series.
    fn better(&self, other: &Problem<'_>, bound: Option<&StackQuality>) -> Option<Wish> {
        let (stack, _, _, Reverse(steps), _) = &self.quality;
        let chosen = |name: &str| Some((Node::package(name), *self.selected.get(&Node::package(name))?));
        let newer = |(node, ordinal)| (node, Ranges::strictly_higher_than(ordinal));
        let mut alternatives: Vec<(Node, Set)> =
            self.releases.names().filter_map(chosen).map(newer).collect();
        let mut not_older = Vec::new();
        if bound <= stack.as_ref() {
            not_older = self.releases.within(other, *steps)?;
        }
        if let Some(stack) = stack {
            let torch = (Node::package("torch"), stack.version);
            let table = &self.problem.stack["torch"];
            let others = table.spans[stack.version as usize].clone();
            let better = others.filter(|build| self.problem.build_rank("torch", *build) > stack.build);
            let better = better.fold(Set::empty(), |set, build| set.union(&Ranges::singleton(build)));
            alternatives.push(newer(torch.clone()));
            alternatives.push((Node::build("torch"), better));
            not_older.push(torch);
        }
        Some(Wish::Better { alternatives, not_older })
    }
}
