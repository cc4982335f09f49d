//! One proof that a request has no solution: the smallest that is found, for all Pythons where there is one.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::budget::Share;
use super::conflict;
use super::edit::Edit;
use super::explain::python_series;
use super::inputs::{self, Depth, Inputs};
use super::problem::{Candidate, EquivalentVersions, Problem};
use super::search::{self, Found};
use super::tables::{Tables, is_stack_package};
use crate::model::conflict::{Conflict, Party, Reason, ReasonKind};
use crate::model::level::Level;
use crate::model::request::UserRequirement;
use crate::model::solution::Answer;
use crate::model::wheel::Python;

/// At most this many requested packages of a proof are tried without: each costs a search.
const MAX_CORE: usize = 8;

/// A proof that there is no solution, in words.
pub(super) struct Cause {
    pub conflict: Conflict,
    pub level: Level,
    /// The packages that the proof rests on, if it holds for every Python.
    pub core: Option<BTreeSet<String>>,
    /// The Pythons that it holds for.
    series: Vec<Python>,
    /// Whether it rests on requirements that are not known.
    rests_on_unknown: bool,
}

impl Problem<'_> {
    /// How many of the requested packages outside the stack have an admitted release with a wheel for a Python series, and how
    /// many have one that may be built for it.
    fn requested_with_files(&self, python: Python) -> (usize, usize) {
        let has = |user: &UserRequirement, is_wanted: &dyn Fn(&Candidate<'_>) -> bool| {
            let name = user.name();
            let admitted = self.matching(name, user.specifiers());
            let (Ok(candidates), Ok(admitted)) = (self.candidates(name), admitted) else { return false };
            candidates.iter().enumerate().any(|(i, own)| admitted.contains(&(i as u32)) && is_wanted(own))
        };
        let others: Vec<&UserRequirement> = self.user_requirements().collect();
        let others = others.into_iter().filter(|user| !is_stack_package(user.name()));
        let usable = others.clone().filter(|user| has(user, &|own| self.has_wheel(own, python)));
        (usable.count(), others.filter(|user| has(user, &|own| self.has_usable(own, python))).count())
    }
}

/// One proof that there is no solution, of the fewest requested packages: a search ends at the first contradiction it meets, which
/// may rest on packages that are not at fault.
pub(super) fn cause<'a>(inputs: &Inputs<'a>, tables: &Rc<Tables<'a>>, depth: Depth) -> Result<Cause, Answer> {
    let mut smallest = proof(inputs, tables, depth, true)?;
    let Some(core) = smallest.core.clone() else { return Ok(smallest) };
    let all: BTreeSet<String> =
        inputs.question.request.requirements.iter().map(|user| user.name().to_owned()).collect();
    let mut left_out: BTreeSet<String> = all.difference(&core).cloned().collect();
    let mut order: Vec<String> = core.intersection(&all).cloned().collect();
    if order.len() < 2 || order.len() > MAX_CORE {
        return Ok(smallest);
    }
    // What an environment is for is more often at fault than what goes with it.
    order.sort_by_key(|name| name == "torch");
    for name in order {
        if inputs.budget.is_explained() {
            break;
        }
        let fewer: BTreeSet<String> = left_out.iter().cloned().chain([name]).collect();
        let question = inputs.question.with(&Edit::WithoutPackages(fewer.clone()));
        if question.request.requirements.is_empty() {
            continue;
        }
        if let Ok(found) = proof(&inputs.about(&question), tables, depth, false)
            && found.core.is_some()
            && (smallest.rests_on_unknown || !found.rests_on_unknown)
        {
            smallest = found;
            left_out = fewer;
        }
    }
    Ok(smallest)
}

/// The first proof that a search finds, and where it rests on requirements that are not known, one that does not: they are
/// seldom at fault. `each_python`: a proof for one Python will do where there is none for all.
fn proof<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    depth: Depth,
    each_python: bool,
) -> Result<Cause, Answer> {
    let pythons = inputs::allowed_pythons(inputs.catalogue.registry, &inputs.question.request);
    // Try the shortest proofs first: the stack alone, then the closure; all Python series at once, then each. The
    // graph of all series is slightly too permissive (a requirement that does not apply on each of them that its release is
    // for counts as absent); if it has no conflict, the proof is reported for the series that most requested packages have a file for,
    // the best of those: that one of them has none for the newest Python is no reason against an older one.
    let mut one_by_one: Vec<Python> = inputs::preferred_pythons(inputs.catalogue.registry, inputs.question);
    if depth == Depth::Full && each_python {
        let problem = Problem::new(inputs, tables, depth, pythons.clone());
        one_by_one.sort_by_key(|python| Reverse(problem.requested_with_files(*python)));
    }
    let mut series: Vec<Vec<Python>> = vec![pythons.clone()];
    series.extend(one_by_one.into_iter().filter(|_| each_python).map(|python| vec![python]));
    let mut tries = vec![(Level::Stack, pythons.clone())];
    match depth {
        Depth::Stack => tries = series.into_iter().map(|one| (Level::Stack, one)).collect(),
        Depth::Full => tries.extend(series.into_iter().map(|one| (Level::Full, one))),
    }
    for (level, series) in tries {
        let mut prover =
            Prover { inputs, tables, level, series, pythons: &pythons, takes_unknown_as_none: false };
        let Some(found) = prover.search()? else { continue };
        if !found.rests_on_unknown {
            return Ok(found);
        }
        prover.takes_unknown_as_none = true;
        return Ok(match prover.search() {
            Err(Answer::NeedMetadata(needs)) => return Err(Answer::NeedMetadata(needs)),
            Ok(Some(other)) => other,
            Ok(None) | Err(_) => found,
        });
    }
    Err(Answer::TooLong)
}

/// The reasons of a conflict of which a proof is known for one Python alone, with those that exclude the other Pythons; `None` if
/// they are not known. Neighbouring Pythons that one proof excludes are one group.
pub(super) fn of_each_python<'a>(
    inputs: &Inputs<'a>,
    tables: &Rc<Tables<'a>>,
    first: &Cause,
) -> Option<Vec<Reason>> {
    let pythons = inputs::allowed_pythons(inputs.catalogue.registry, &inputs.question.request);
    let prove = |series: Vec<Python>| {
        let level = first.level;
        let prover =
            Prover { inputs, tables, level, series, pythons: &pythons, takes_unknown_as_none: false };
        match inputs.budget.is_explained() {
            true => None,
            false => prover.search().ok().flatten(),
        }
    };
    let mut groups: Vec<(Vec<Python>, Vec<Reason>)> = Vec::new();
    for python in &pythons {
        if let Some((series, reasons)) = groups.last_mut() {
            let wider: Vec<Python> = series.iter().copied().chain([*python]).collect();
            if let Some(found) = prove(wider) {
                (*series, *reasons) = (found.series, found.conflict.reasons);
                continue;
            }
        }
        let own = match first.series == [*python] {
            true => first.conflict.reasons.clone(),
            false => prove(vec![*python])?.conflict.reasons,
        };
        groups.push((vec![*python], own));
    }
    // What a person meets first comes first.
    groups.sort_by_key(|(series, _)| !first.series.iter().any(|own| series.contains(own)));
    let is_of_all = |reason: &Reason| groups.iter().all(|(_, reasons)| reasons.contains(reason));
    let mut all: Vec<Reason> = Vec::new();
    for (series, reasons) in &groups {
        let minors: BTreeSet<u32> = series.iter().map(|python| python.minor).collect();
        for reason in reasons {
            let names_python = reason.parties.contains(&Party::Python);
            let is_asked = matches!(reason.kind, ReasonKind::Asked { .. });
            let mut told = reason.clone();
            if !names_python && !is_asked && !is_of_all(reason) {
                told.text = format!("on Python {}, {}", python_series(&minors), reason.text);
            }
            if !all.iter().any(|known| known.text == told.text) {
                all.push(told);
            }
        }
    }
    all.sort_by_key(|reason| matches!(reason.kind, ReasonKind::Asked { .. }));
    Some(conflict::shortened(all))
}

/// One search for a proof.
struct Prover<'p, 'i, 'a> {
    inputs: &'i Inputs<'a>,
    tables: &'i Rc<Tables<'a>>,
    level: Level,
    /// The Pythons that it holds for.
    series: Vec<Python>,
    /// All that the request allows.
    pythons: &'p [Python],
    takes_unknown_as_none: bool,
}

impl Prover<'_, '_, '_> {
    /// The proof; `None` if there is none. The error is the answer if that is not known.
    fn search(&self) -> Result<Option<Cause>, Answer> {
        let depth = if self.level == Level::Stack { Depth::Stack } else { Depth::Full };
        let mut problem = Problem::new(self.inputs, self.tables, depth, self.series.clone());
        problem.asked.is_permissive = self.series.len() > 1;
        problem.asked.takes_unknown_as_none = self.takes_unknown_as_none;
        // One that is only better is worth less.
        problem.asked.share = self.takes_unknown_as_none.then_some(Share::Another);
        if depth == Depth::Stack {
            problem.alike = EquivalentVersions::of(&problem);
        }
        match search::unranked(&problem) {
            Found::Need(needs) => Err(Answer::NeedMetadata(needs)),
            Found::TooLong => Err(Answer::TooLong),
            Found::Selected(_) => Ok(None),
            Found::Impossible(tree) => Ok(Some(Cause {
                conflict: conflict::describe(&problem, &tree),
                level: self.level,
                series: self.series.clone(),
                core: (self.series == self.pythons).then(|| conflict::core(&tree)),
                rests_on_unknown: conflict::rests_on_unknown(&tree),
            })),
        }
    }
}
