//! Requests with conda packages: conda's half is solved first, and PyPI's on top of it, with what conda installs as fixed
//! packages. Python is chosen over both.

mod asked;
mod causes;
mod channels;
mod checked;
mod code;
mod conflict;
mod linked;
mod purpose;
mod stack;
mod stepping;
mod told;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use self::asked::{
    applicable, does_not_fit, excluding, installed_twice, of_python, provided, question,
    refuse_what_conda_lacks, series, unsolved, widen, without_keys,
};
pub(super) use self::channels::Reach;
use self::channels::{other_interpreters, unread_records};
pub(super) use self::code::CodeOfWheels;
use self::conflict::{
    cut_off, named_by, names_all, rests_on_tried, tell_of_conda, tell_tried, without_pythons,
};
pub(super) use self::purpose::Purpose;
use self::purpose::explained_until;
use self::stack::ChosenStack;
use self::stepping::{Admitted, AtHand, excluded_by};
use super::{Asked, Session};
use crate::conda::{CondaError, Records, Solved};
use crate::model::conflict::Conflict;
use crate::model::request::{STACK_PACKAGES, UserRequirement};
use crate::model::solution::{Answer, Note, Solution};
use crate::model::source::CondaPackage;
use crate::model::wheel::Python;
use crate::session::failure::Failure;
use crate::solver::allowed_pythons;

/// How often a conda package that PyPI's half excludes is left out and conda's half is solved again.
const MAX_ROUNDS: usize = 20;

/// The build of the stack that conda's half installs, if it comes from the channels.
struct Half {
    /// What is asked of conda's half besides.
    specs: Vec<String>,
    stack: ChosenStack,
}

/// What PyPI's half came to for one Python.
enum OfPython {
    Solved(Box<Solution>),
    /// There is no answer of conda's half, and whether the search ended at its limit.
    NoConda {
        is_cut: bool,
    },
    /// The conflict of PyPI's half, and whether the search ended at its limit.
    Conflict {
        conflict: Box<Conflict>,
        is_cut: bool,
    },
    Open(Answer),
}

impl Session<'_> {
    /// Solves both halves. A conflict has the ways out that lie between them.
    ///
    /// # Errors
    /// When a channel does not answer or is not there, and those of PyPI's half.
    pub(super) fn solve_both(&mut self, asked: &Asked<'_>) -> Result<Answer, Failure> {
        let conflict = match self.both(asked)? {
            Answer::Conflict(conflict) => conflict,
            answer => return Ok(answer),
        };
        let until = explained_until();
        self.explains_until = Some(until);
        let mut conflict = self.for_purpose(Purpose::Cause, |session| session.every_cause(conflict, asked));
        self.explains_until = None;
        conflict.cut |= Instant::now() >= until;
        Ok(Answer::Conflict(conflict))
    }

    /// Solves both halves.
    fn both(&mut self, asked: &Asked<'_>) -> Result<Answer, Failure> {
        if self.explains_until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Answer::TooLong);
        }
        match asked.request.conda.stack.is_some() {
            true => self.solve_with_stack(asked),
            false => self.solve_beside_stack(asked),
        }
    }

    /// Solves both halves where the stack, if there is one, is PyPI's.
    fn solve_beside_stack(&mut self, asked: &Asked<'_>) -> Result<Answer, Failure> {
        let platform = asked.host.system.platform;
        let records = self.records(asked.request, platform)?;
        let others = other_interpreters(&records);
        let mut first: Option<(Python, Box<Conflict>)> = None;
        let mut is_cut = false;
        let mut rounds = 0;
        let mut unfit: BTreeMap<String, String> = BTreeMap::new();
        for python in self.pythons(asked, &records)? {
            match self.on_python(&records, asked, python, (&mut rounds, &mut unfit), (None, &others))? {
                OfPython::Solved(solution) => return Ok(Answer::Solution(solution)),
                OfPython::Open(answer) => return Ok(answer),
                OfPython::NoConda { is_cut: is_cut_here } => is_cut |= is_cut_here,
                OfPython::Conflict { conflict, is_cut: is_cut_here } => {
                    is_cut |= is_cut_here;
                    // One that another Python has too says more than that this Python does not fit.
                    let is_worse = |(_, before): &(Python, Box<Conflict>)| {
                        rests_on_tried(before) && !rests_on_tried(&conflict)
                    };
                    if first.as_ref().is_none_or(is_worse) {
                        first = Some((python, conflict));
                    }
                }
            }
        }
        if let Some((python, conflict)) = first {
            let conflict = tell_tried(conflict, python);
            return Ok(Answer::Conflict(match is_cut || rounds >= MAX_ROUNDS {
                true => Box::new(cut_off(*conflict)),
                false => conflict,
            }));
        }
        let conflict = self.conflict_of_conda(&records, asked, unfit, (None, &others))?;
        Ok(Answer::Conflict(Box::new(if is_cut { cut_off(conflict) } else { conflict })))
    }

    /// The Pythons to try: that of PyPI's half alone, then the others, the newest first.
    fn pythons(&mut self, asked: &Asked<'_>, records: &Records) -> Result<Vec<Python>, Failure> {
        let mut out = allowed_pythons(self.registry, asked.request);
        let of_channels: BTreeSet<u32> =
            records.of("python").iter().filter_map(|python| series(&python.version)).collect();
        out.retain(|python| of_channels.contains(&python.minor));
        out.sort_unstable();
        out.reverse();
        let kept = asked.preferences.python;
        let wished = match kept {
            Some(python) => Some(python),
            None if asked.request.requirements.is_empty() => None,
            None => {
                let alone = asked.request.of_indexes();
                match self.solve(asked.host, &alone, asked.preferences)? {
                    Answer::Solution(solution) => Some(solution.python),
                    // It has no answer with conda's packages either, and says better why.
                    _ => None,
                }
            }
        };
        if let Some(at) = wished.and_then(|wished| out.iter().position(|python| python.minor == wished.minor))
        {
            let wished = out.remove(at);
            out.insert(0, wished);
        }
        Ok(out)
    }

    /// Both halves for one Python series. A record that PyPI's half excludes is left out, and conda's half solved again.
    fn on_python(
        &mut self,
        records: &Records,
        asked: &Asked<'_>,
        python: Python,
        (rounds, left_out): (&mut usize, &mut BTreeMap<String, String>),
        (half, others): (Option<&Half>, &BTreeMap<String, String>),
    ) -> Result<OfPython, Failure> {
        // What the request says of conda's packages bounds them from the start.
        let platform = asked.host.system.platform;
        let channels = &asked.request.conda.channels;
        let constraints = applicable(&asked.request.constraints, &[python], platform);
        let requirements = applicable(&asked.request.requirements, &[python], platform);
        let by_constraints = excluded_by(records, &constraints, channels, python);
        let by_requirements = excluded_by(records, &requirements, channels, python);
        let mut excluded = others.clone();
        excluded.extend(by_constraints.clone());
        excluded.extend(by_requirements.clone());
        let has_bounds = !by_constraints.is_empty() || !by_requirements.is_empty();
        let mut is_within = true;
        let mut first: Option<Box<Conflict>> = None;
        let mut admitted = Admitted::default();
        let mut is_cut = false;
        let mut last: Vec<CondaPackage> = Vec::new();
        // What else may be left out, the next last: of packages that do not go together, each is tried.
        let mut open: Vec<BTreeMap<String, String>> = Vec::new();
        let mut stepped_back: BTreeSet<String> = BTreeSet::new();
        let impossible = |first: Option<Box<Conflict>>, is_cut: bool| match first {
            None => OfPython::NoConda { is_cut },
            Some(conflict) => OfPython::Conflict { conflict, is_cut },
        };
        loop {
            let mut left = excluded.clone();
            left.extend(admitted.others(records));
            let question = question(asked, Some(python), &left, (self, !records.of("pip").is_empty()), half);
            let start = Instant::now();
            let solved = records.solve(&question, self.time_left());
            let is_explaining = self.explains_until.is_some();
            if !is_explaining {
                self.solved_for += start.elapsed();
            }
            let solved = match solved {
                Err(CondaError::TooLong) if is_explaining => return Ok(impossible(first, true)),
                // The next Python is not tried: how fast the machine is would choose it.
                Err(CondaError::TooLong) => return Ok(OfPython::Open(Answer::TooLong)),
                solved => solved.map_err(unsolved)?,
            };
            let packages = match solved {
                Solved::Packages(packages) => packages,
                Solved::Impossible
                    if *rounds < MAX_ROUNDS
                        && self.admits_others(
                            &last,
                            (asked, python),
                            (records, &excluded, half),
                            &mut admitted,
                        )? =>
                {
                    *rounds += 1;
                    continue;
                }
                // Without the bounds, the conflict of PyPI's half tells who stands against them.
                Solved::Impossible if is_within && has_bounds && first.is_none() => {
                    is_within = false;
                    left_out.extend(by_constraints.clone());
                    excluded.retain(|file, _| others.contains_key(file) || by_constraints.contains_key(file));
                    continue;
                }
                Solved::Impossible if *rounds < MAX_ROUNDS && !open.is_empty() => {
                    excluded = open.pop().unwrap_or(excluded);
                    *rounds += 1;
                    continue;
                }
                Solved::Impossible => return Ok(impossible(first, is_cut || !open.is_empty())),
            };
            let unfit = self.unfit(&packages, records, &constraints);
            if !unfit.is_empty() {
                if *rounds >= MAX_ROUNDS {
                    return Ok(impossible(first, true));
                }
                left_out.extend(unfit.clone());
                excluded.extend(unfit);
                *rounds += 1;
                continue;
            }
            let mut provided = provided(&packages);
            refuse_what_conda_lacks(&requirements, &provided)?;
            if half.is_some() {
                // These are builds, which the solver knows by the registry.
                provided.retain(|name, _| !STACK_PACKAGES.contains(&name.as_str()));
            }
            let request = of_python(asked.request, half, &packages, python);
            let alone = Asked { request: &request, ..*asked };
            let answer = self.beside(half, &provided, &BTreeMap::new())?.solve(
                asked.host,
                &request,
                asked.preferences,
            )?;
            let conflict = match answer {
                Answer::Solution(mut solution) => {
                    let twice = installed_twice(&packages, &solution);
                    if !twice.is_empty() {
                        left_out.extend(twice.clone());
                        excluded.extend(twice);
                        *rounds += 1;
                        if *rounds >= MAX_ROUNDS {
                            return Ok(impossible(first, true));
                        }
                        continue;
                    }
                    solution.packages.retain(|package| {
                        let is_of_stack = half.is_some() && STACK_PACKAGES.contains(&package.name.as_str());
                        !provided.contains_key(&package.name) && !is_of_stack
                    });
                    widen(&mut solution, &packages, self.registry);
                    solution.python = Python::new(python.minor);
                    if asked.request.exclude_newer.general.is_some() {
                        let text = "`exclude-newer` does not bound conda packages".to_owned();
                        solution.notes.push(Note { text, source: None });
                    }
                    solution.notes.extend(unread_records(asked.request, records));
                    solution.conda = packages;
                    return Ok(OfPython::Solved(solution));
                }
                Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => conflict,
                open => return Ok(OfPython::Open(open)),
            };
            let named = named_by(&conflict, &provided);
            if named.is_empty() {
                // Another release of what was left out may go with packages that this one does not bring.
                let again: Vec<&CondaPackage> =
                    packages.iter().filter(|package| stepped_back.contains(&package.name)).collect();
                // Another patch release of Python may be one that the package takes.
                let release = packages.iter().find(|package| package.name == "python");
                let is_same =
                    |record: &&CondaPackage| release.is_some_and(|release| record.version == release.version);
                if again.is_empty() && rests_on_tried(&conflict) && *rounds < MAX_ROUNDS {
                    first = first.or(Some(without_pythons(conflict)));
                    excluded.extend(records.of("python").iter().filter(is_same).map(does_not_fit));
                    *rounds += 1;
                    continue;
                }
                if again.is_empty() || *rounds >= MAX_ROUNDS {
                    first = first.or(Some(without_pythons(conflict)));
                    match open.pop().filter(|_| *rounds < MAX_ROUNDS) {
                        Some(next) => excluded = next,
                        None => return Ok(impossible(first, is_cut)),
                    }
                    *rounds += 1;
                    continue;
                }
                excluded.extend(again.into_iter().map(does_not_fit));
                *rounds += 1;
                continue;
            }
            let told = tell_of_conda(without_pythons(conflict), &named, &provided, (asked, &packages));
            first = first.or(Some(told));
            *rounds += 1;
            if !is_within || *rounds >= MAX_ROUNDS {
                return Ok(impossible(first, is_cut));
            }
            let names: Vec<&String> = named.iter().map(|(name, _)| *name).collect();
            // What the request excludes is PyPI's half to tell.
            let left = without_keys(&excluded, [&by_requirements, &by_constraints]);
            let at = AtHand { records, excluded: &left, python, half, provided: &provided };
            let (is_new, conflict) = self.admit(&alone, at, &names, &mut admitted)?;
            // It may have another one at fault, who needs another release.
            let told = conflict.map(|conflict| {
                let named = named_by(&conflict, &provided);
                tell_of_conda(without_pythons(conflict), &named, &provided, (asked, &packages))
            });
            let says_more = |told: &Conflict| first.as_ref().is_none_or(|first| !names_all(first, told));
            if let Some(told) = told.filter(|told| says_more(told)) {
                first = Some(told);
            }
            for (_, (_, package)) in &named {
                stepped_back.insert(package.name.clone());
            }
            is_cut |= admitted.is_cut;
            // Each of them is admitted, and not all together: one has to be another release.
            if !is_new {
                let without = |package: &CondaPackage| {
                    let same =
                        records.of(&package.name).into_iter().filter(|own| own.version == package.version);
                    let mut out = excluded.clone();
                    out.extend(same.map(|own| does_not_fit(&own)));
                    out
                };
                open.extend(named.iter().rev().map(|(_, (_, package))| without(package)));
                excluded = open.pop().unwrap_or(excluded);
            }
            last = packages;
        }
    }

    /// Looks for more releases that PyPI's half admits, beside what conda's half installed last.
    fn admits_others(
        &self,
        last: &[CondaPackage],
        (asked, python): (&Asked<'_>, Python),
        (records, excluded, half): (&Records, &BTreeMap<String, String>, Option<&Half>),
        admitted: &mut Admitted,
    ) -> Result<bool, Failure> {
        let mut provided = provided(last);
        if half.is_some() {
            provided.retain(|name, _| !STACK_PACKAGES.contains(&name.as_str()));
        }
        let request = of_python(asked.request, half, last, python);
        let at = AtHand { records, excluded, python, half, provided: &provided };
        self.admit_others(&Asked { request: &request, ..*asked }, at, admitted)
    }

    /// Records that PyPI's half cannot take: a constraint excludes the version of one that was chosen, and of others of its name.
    fn unfit(
        &self,
        packages: &[CondaPackage],
        records: &Records,
        constraints: &[&UserRequirement],
    ) -> BTreeMap<String, String> {
        let why = |package: &CondaPackage| {
            let bound = excluding(constraints, package)?;
            let text = format!("{} {} is excluded by `{}`", package.name, package.version, bound.line());
            Some((package.file.clone(), text))
        };
        let chosen = packages.iter().filter(|package| excluding(constraints, package).is_some());
        chosen.flat_map(|package| records.of(&package.name)).filter_map(|record| why(&record)).collect()
    }
}
