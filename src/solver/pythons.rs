//! Chooses the Python series: the one with the best stack on which no requested package falls back to an older release.

use std::cmp::Reverse;
use std::rc::Rc;

use super::best::{Tried, best};
use super::budget::Share;
use super::inputs::{Depth, Inputs, Standing, allowed_pythons, preferred_pythons};
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
/// only because of this Python, how few releases the requested packages fall back, how few of the extras that are asked for
/// are empty on it, the Python.
type Quality = (Option<StackQuality>, bool, Reverse<usize>, Reverse<usize>, Reverse<usize>, Standing);

/// The answer with every requested package, apart from the stack, at the newest release that any Python could have.
pub(super) enum Newest {
    /// With the best stack that the machine allows.
    Best(Box<Solution>),
    /// With an older stack.
    OlderStack(Box<Solution>),
    None,
}

/// Solves Python series by series with every requested package at its newest release, whatever the stack.
pub(super) fn with_all_newest<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>) -> Result<Newest, Vec<Need>> {
    let choosing = Choosing::new(inputs, tables, Depth::Full, Doubtful::default(), &[]);
    let Ok(ceiling) = choosing.promise(choosing.pythons.clone()) else { return Ok(Newest::None) };
    choosing.newest(ceiling.as_ref(), |_| true)
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
pub(super) fn attempt_with<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    depth: Depth,
    admits: Doubtful,
    hopeless: &[Python],
) -> Outcome {
    let choosing = Choosing::new(inputs, tables, depth, admits, hopeless);
    let Ok(ceiling) = choosing.promise(choosing.pythons.clone()) else {
        return Outcome::Impossible;
    };
    let newest = match depth {
        Depth::Stack => Ok(Newest::None),
        // A series that cannot have the best stack is not looked at.
        Depth::Full => choosing.newest(ceiling.as_ref(), |bound| bound >= ceiling.as_ref()),
    };
    let found = newest.map_err(Open::Need).and_then(|newest| match newest {
        Newest::Best(solution) => Ok(Some(solution)),
        Newest::OlderStack(_) | Newest::None => choosing.best(ceiling.as_ref()),
    });
    match found {
        Ok(Some(solution)) => Outcome::Solved(solution),
        Ok(None) => Outcome::Impossible,
        Err(Open::Need(needs)) => Outcome::Need(needs),
        Err(Open::TooLong) => Outcome::TooLong,
    }
}

/// Why the choice of a series is open.
enum Open {
    Need(Vec<Need>),
    TooLong,
}

impl From<Vec<Need>> for Open {
    fn from(needs: Vec<Need>) -> Open {
        Open::Need(needs)
    }
}

/// No stack exists on a series, whatever the rest of the closure is.
struct NoStack;

/// The choice of the Python series for one question.
///
/// A solve from the registry alone gives a cheap upper bound for the build of a series. The series with the best bound
/// are tried first, the locked one before the newest; most requests end with the first.
struct Choosing<'i, 'a> {
    inputs: &'i Inputs<'a>,
    tables: &'i Rc<Tables<'a>>,
    depth: Depth,
    admits: Doubtful,
    /// The series that the request allows, oldest first.
    pythons: Vec<Python>,
    /// Those that are tried, in this order.
    order: Vec<Python>,
    asks_for_stack: bool,
}

/// What the search on one series came to.
enum OnSeries<'a> {
    Found(Box<Best<'a>>),
    /// There is no answer; the proof took so many steps.
    Impossible(u32),
    /// There is none that is better than the one of another series, or none was found.
    NotBetter,
}

impl<'i, 'a> Choosing<'i, 'a> {
    fn new(
        inputs: &'i Inputs<'a>,
        tables: &'i Rc<Tables<'a>>,
        depth: Depth,
        admits: Doubtful,
        hopeless: &[Python],
    ) -> Choosing<'i, 'a> {
        let pythons = allowed_pythons(inputs.catalogue.registry, &inputs.question.request);
        let asks_for_stack =
            inputs.question.request.requirements.iter().any(|user| is_stack_package(user.name()));
        let mut order = preferred_pythons(inputs.catalogue.registry, inputs.question);
        order.retain(|python| !hopeless.contains(python));
        Choosing { inputs, tables, depth, admits, order, pythons, asks_for_stack }
    }

    fn is_locked(&self, python: Python) -> bool {
        self.inputs.question.preferences.python.is_some_and(|locked| locked.minor == python.minor)
    }

    /// The order of series that differ in nothing else.
    fn standing(&self, python: Python) -> Standing {
        Standing::of(self.inputs.catalogue.registry, &self.inputs.question.preferences, python)
    }

    fn problem(&self, depth: Depth, series: Vec<Python>) -> Problem<'a> {
        let mut problem = Problem::new(self.inputs, self.tables, depth, series);
        problem.asked.admits = self.admits;
        problem
    }

    /// The best stack that some series can have; `None` if none is required.
    fn promise(&self, series: Vec<Python>) -> Result<Option<StackQuality>, NoStack> {
        if !self.asks_for_stack {
            return Ok(None);
        }
        let problem = self.problem(Depth::Stack, series);
        match search::ranked(&problem) {
            Ok(Ended::Selected(selected)) => Ok(answer::stack_quality(&problem, &selected)),
            _ => Err(NoStack),
        }
    }

    /// A series with every requested package at its newest release.
    fn newest_on(&self, python: Python) -> Problem<'a> {
        let mut problem = self.problem(Depth::Full, vec![python]);
        problem.asked.wish = Wish::Newest(self.pythons.clone());
        problem
    }

    /// Whether the packages that are requested cannot all be at their newest releases on any Python: what all series
    /// together exclude, each one does.
    fn none_is_newest(&self) -> Result<bool, Vec<Need>> {
        let mut problem = self.problem(Depth::Full, self.pythons.clone());
        problem.asked.is_permissive = true;
        problem.asked.wish = Wish::Newest(self.pythons.clone());
        Ok(matches!(search::ranked(&problem)?, Ended::Impossible(_)))
    }

    /// Whether no series has an answer: a proof over all of them is about as long as that for the first one.
    fn is_impossible(&self, steps: u32) -> Result<bool, Vec<Need>> {
        let mut problem = self.problem(self.depth, self.pythons.clone());
        problem.asked.is_permissive = true;
        problem.asked.share = Some(Share::Like(steps));
        Ok(matches!(search::ranked(&problem)?, Ended::Impossible(_)))
    }

    /// The answer with every requested package at its newest release, of the series whose best stack `is_looked_at`: with the
    /// best possible stack, if a series has that. One that has no such answer is skipped without searching through years of
    /// old releases.
    fn newest(
        &self,
        ceiling: Option<&StackQuality>,
        is_looked_at: impl Fn(Option<&StackQuality>) -> bool,
    ) -> Result<Newest, Vec<Need>> {
        let found = best(self.order.iter().enumerate(), |(i, python), found| {
            if i == 1 && found.is_none() && self.none_is_newest()? {
                return Ok(Tried::Over);
            }
            if !self.promise(vec![*python]).is_ok_and(|bound| is_looked_at(bound.as_ref())) {
                return Ok(Tried::NotBetter);
            }
            let problem = self.newest_on(*python);
            let Ended::Selected(selected) = search::ranked(&problem)? else { return Ok(Tried::NotBetter) };
            if problem.needless_builds(&selected) > 0 {
                return Ok(Tried::NotBetter);
            }
            let empty = Reverse(problem.empty_extras(&selected).len());
            // One that nobody asked for decides nothing.
            let stack = if self.asks_for_stack { answer::stack_quality(&problem, &selected) } else { None };
            let solution = Box::new(answer::solution(&problem, &selected));
            Ok::<_, Vec<Need>>(match stack.as_ref() >= ceiling && empty == Reverse(0) {
                true => Tried::Last((stack, empty), solution),
                false => Tried::Answer((stack, empty), solution),
            })
        })?;
        Ok(match found {
            Some(((stack, _), solution)) if stack.as_ref() >= ceiling => Newest::Best(solution),
            Some((_, solution)) => Newest::OlderStack(solution),
            None => Newest::None,
        })
    }

    /// The best answer of all series.
    fn best(&self, ceiling: Option<&StackQuality>) -> Result<Option<Box<Solution>>, Open> {
        let mut solved: Vec<Quality> = Vec::new();
        let found = best(self.by_promise(ceiling).enumerate(), |(i, (bound, python)), found| {
            if found.is_some_and(|(quality, _): &(Quality, Box<Best<'_>>)| quality.0 > bound) {
                // Neither this series nor a later one can have the build that was found.
                return Ok(Tried::Over);
            }
            let found = match self.on_series(python, bound.as_ref(), found.map(|(_, best)| &**best))? {
                OnSeries::Found(found) => found,
                OnSeries::Impossible(steps)
                    if i == 0 && self.order.len() > 1 && self.is_impossible(steps)? =>
                {
                    return Ok(Tried::Over);
                }
                OnSeries::Impossible(_) | OnSeries::NotBetter => return Ok(Tried::NotBetter),
            };
            let quality = found.quality.clone();
            solved.push(quality.clone());
            let (stack, locked, Reverse(builds), Reverse(steps), Reverse(empty), _) = &quality;
            let is_final =
                ((*steps == 0 && *builds == 0 && *empty == 0) || *locked) && stack.as_ref() >= ceiling;
            Ok::<_, Open>(match is_final {
                true => Tried::Last(quality, found),
                false => Tried::Answer(quality, found),
            })
        })?;
        Ok(found.map(|((stack, locked, builds, _, _, Standing { python, .. }), best)| {
            let mut solution = answer::solution(&best.problem, &best.selected);
            let differs_in_releases =
                |other: &&Quality| (&other.0, &other.1, &other.2) == (&stack, &locked, &builds);
            let others = solved.iter().filter(differs_in_releases);
            solution.newer_python = others.map(|other| other.5.python).max().filter(|other| *other > python);
            Box::new(solution)
        }))
    }

    /// The series with the best stack that each can have: those that can have the best of all in their order, then the
    /// others, the best first.
    fn by_promise(
        &self,
        ceiling: Option<&StackQuality>,
    ) -> impl Iterator<Item = (Option<StackQuality>, Python)> {
        let promised = self.order.iter().filter_map(|python| {
            let bound = self.promise(vec![*python]).ok()?;
            Some((bound, *python))
        });
        let (best, mut later): (Vec<_>, Vec<_>) = promised.partition(|(bound, _)| bound.as_ref() >= ceiling);
        later.sort();
        best.into_iter().chain(later.into_iter().rev())
    }

    /// The answer of one series, where there may be one that is better than the `best` so far.
    fn on_series(
        &self,
        python: Python,
        bound: Option<&StackQuality>,
        best: Option<&Best<'_>>,
    ) -> Result<OnSeries<'a>, Open> {
        let mut problem = self.problem(self.depth, vec![python]);
        let (locked, standing) = (self.is_locked(python), self.standing(python));
        if let Some(best) = best.filter(|best| best.can_be_compared(&problem, locked, standing)) {
            let Some(better) = best.better(&problem, bound) else { return Ok(OnSeries::NotBetter) };
            problem.asked.wish = better;
            match search::ranked(&problem)? {
                Ended::Impossible(_) => return Ok(OnSeries::NotBetter),
                Ended::Selected(_) | Ended::TooLong => problem.asked.wish = Wish::Nothing,
            }
        }
        let selected = match search::ranked(&problem)? {
            Ended::Selected(selected) => selected,
            Ended::TooLong if best.is_none() => return Err(Open::TooLong),
            Ended::Impossible(steps) => return Ok(OnSeries::Impossible(steps)),
            Ended::TooLong => return Ok(OnSeries::NotBetter),
        };
        let releases = match self.depth {
            Depth::Full => Releases::of(&problem, &selected, &self.pythons)?,
            Depth::Stack => Releases::default(),
        };
        let steps = releases.steps_back(&selected);
        let builds = problem.needless_builds(&selected);
        let stack = if self.asks_for_stack { answer::stack_quality(&problem, &selected) } else { None };
        let empty = match self.depth {
            Depth::Full => problem.empty_extras(&selected).len(),
            Depth::Stack => 0,
        };
        let quality: Quality = (stack, locked, Reverse(builds), Reverse(steps), Reverse(empty), standing);
        Ok(OnSeries::Found(Box::new(Best { quality, problem, selected, releases })))
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
    fn can_be_compared(&self, other: &Problem<'_>, is_locked: bool, python: Standing) -> bool {
        let (_, _, Reverse(builds), _, Reverse(empty), own) = &self.quality;
        let asks_the_same = self.problem.user_requirements().eq(other.user_requirements())
            && self.problem.user_constraints().eq(other.user_constraints());
        *empty == 0 && *builds == 0 && !is_locked && python < *own && asks_the_same
    }

    /// What the answer of another series, whose build is at most `bound`, needs to be better: a newer torch or a better
    /// build of it; or with the same, fewer steps back. `None` if nothing is better.
    ///
    /// A proof that this does not exist is cheaper than the closure of the series.
    fn better(&self, other: &Problem<'_>, bound: Option<&StackQuality>) -> Option<Wish> {
        let (stack, _, _, Reverse(steps), _, _) = &self.quality;
        let chosen = |name: &str| Some((Node::package(name), *self.selected.get(&Node::package(name))?));
        let newer = |(node, ordinal)| (node, Set::strictly_higher_than(ordinal));
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
            let better = better.fold(Set::empty(), |set, build| set.union(&Set::singleton(build)));
            alternatives.push(newer(torch.clone()));
            alternatives.push((Node::build("torch"), better));
            not_older.push(torch);
        }
        Some(Wish::Better { alternatives, not_older })
    }
}
