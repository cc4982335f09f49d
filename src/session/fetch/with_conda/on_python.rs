//! Both halves for one Python series. A record that PyPI's half excludes is left out, and conda's half solved again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::channels::unread_records;
use super::conflict_text::{named_by, names_all, rests_on_tried, tell_of_conda, without_pythons};
use super::fitting::{Admitted, AtHand, excluded_by};
use super::requests::{
    Provided, applicable, does_not_fit, excluding, installed_twice, of_python, provided, question,
    refuse_what_conda_lacks, unsolved, widen, without_keys,
};
use super::{Half, MAX_ROUNDS, OfPython, Session};
use crate::conda::{CondaError, Records, Solved};
use crate::model::conflict::Conflict;
use crate::model::request::{STACK_PACKAGES, UserRequirement};
use crate::model::solution::{Answer, Note, Solution};
use crate::model::source::CondaPackage;
use crate::model::wheel::Python;
use crate::session::failure::Failure;
use crate::solver::Question;

/// Records by file, and why they are left out.
type Files = BTreeMap<String, String>;

/// What all Pythons of a question share.
#[derive(Default)]
pub(super) struct Tally {
    /// How often conda's half was solved again.
    pub rounds: usize,
    /// What was left out because it does not fit PyPI's half.
    pub left_out: Files,
}

impl Tally {
    pub fn is_over(&self) -> bool {
        self.rounds >= MAX_ROUNDS
    }
}

/// What comes after conda's half.
enum Next {
    /// The halves fit so far.
    Goes(Vec<CondaPackage>),
    /// Something else is left out: conda's half is solved again.
    Again,
    Ended(OfPython),
}

/// The state of the search on one Python.
struct OnPython<'o> {
    records: &'o Records,
    asked: &'o Question<'o>,
    python: Python,
    half: Option<&'o Half>,
    /// What is left out from the start, whatever the request says.
    others: &'o Files,
    constraints: Vec<&'o UserRequirement>,
    requirements: Vec<&'o UserRequirement>,
    by_constraints: Files,
    by_requirements: Files,
    /// What is left out now.
    excluded: Files,
    /// Whether the requirements of the request bound conda's half.
    is_within: bool,
    /// The conflict of PyPI's half that is told where there is no answer.
    first: Option<Box<Conflict>>,
    admitted: Admitted,
    is_cut: bool,
    /// What conda's half installed last.
    last: Vec<CondaPackage>,
    /// What else may be left out, the next last: of packages that do not go together, each is tried.
    open: Vec<Files>,
    stepped_back: BTreeSet<String>,
}

impl<'o> OnPython<'o> {
    fn new(
        records: &'o Records,
        asked: &'o Question<'o>,
        python: Python,
        (half, others): (Option<&'o Half>, &'o Files),
    ) -> OnPython<'o> {
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
        OnPython {
            records,
            asked,
            python,
            half,
            others,
            constraints,
            requirements,
            by_constraints,
            by_requirements,
            excluded,
            is_within: true,
            first: None,
            admitted: Admitted::default(),
            is_cut: false,
            last: Vec::new(),
            open: Vec::new(),
            stepped_back: BTreeSet::new(),
        }
    }

    /// There is no answer.
    fn impossible(&mut self, is_cut: bool) -> OfPython {
        match self.first.take() {
            None => OfPython::NoConda { is_cut },
            Some(conflict) => OfPython::Conflict { conflict, is_cut },
        }
    }

    /// What conda's packages are to PyPI's half. Builds of a stack from the channels are known to the solver by the registry.
    fn provided<'p>(&self, packages: &'p [CondaPackage]) -> Provided<'p> {
        let mut all = provided(packages);
        if self.half.is_some() {
            all.retain(|name, _| !STACK_PACKAGES.contains(&name.as_str()));
        }
        all
    }

    /// Leaves out records that do not fit.
    fn leave_out(&mut self, files: Files, tally: &mut Tally) {
        tally.left_out.extend(files.clone());
        self.excluded.extend(files);
        tally.rounds += 1;
    }

    /// Where conda's half has no answer: without the bounds of the request, the conflict of PyPI's half tells who stands against
    /// them; else what is left to be left out is tried.
    fn without_conda(&mut self, tally: &mut Tally) -> Next {
        let has_bounds = !self.by_constraints.is_empty() || !self.by_requirements.is_empty();
        if self.is_within && has_bounds && self.first.is_none() {
            self.is_within = false;
            tally.left_out.extend(self.by_constraints.clone());
            let is_kept =
                |file: &String| self.others.contains_key(file) || self.by_constraints.contains_key(file);
            self.excluded.retain(|file, _| is_kept(file));
            return Next::Again;
        }
        match self.open.pop() {
            Some(next) if !tally.is_over() => {
                self.excluded = next;
                tally.rounds += 1;
                Next::Again
            }
            next => {
                let is_cut = self.is_cut || next.is_some();
                Next::Ended(self.impossible(is_cut))
            }
        }
    }

    /// After a conflict that names no package of conda's half.
    fn without_names(
        &mut self,
        conflict: Box<Conflict>,
        packages: &[CondaPackage],
        tally: &mut Tally,
    ) -> Option<OfPython> {
        // Another release of what was left out may go with packages that this one does not bring.
        let again: Vec<&CondaPackage> =
            packages.iter().filter(|package| self.stepped_back.contains(&package.name)).collect();
        if !again.is_empty() && !tally.is_over() {
            self.excluded.extend(again.into_iter().map(does_not_fit));
            tally.rounds += 1;
            return None;
        }
        let rests_on_tried = rests_on_tried(&conflict);
        if self.first.is_none() {
            self.first = Some(without_pythons(conflict));
        }
        if again.is_empty() && rests_on_tried && !tally.is_over() {
            // Another patch release of Python may be one that the package takes.
            let release = packages.iter().find(|package| package.name == "python");
            let is_same =
                |record: &&CondaPackage| release.is_some_and(|release| record.version == release.version);
            self.excluded.extend(self.records.of("python").iter().filter(is_same).map(does_not_fit));
            tally.rounds += 1;
            return None;
        }
        match self.open.pop().filter(|_| !tally.is_over()) {
            Some(next) => self.excluded = next,
            None => {
                let is_cut = self.is_cut;
                return Some(self.impossible(is_cut));
            }
        }
        tally.rounds += 1;
        None
    }

    /// Each of some packages is admitted, and not all together: one has to be another release.
    fn leave_out_one_of(&mut self, packages: &[&CondaPackage]) {
        let without = |package: &CondaPackage| {
            let same =
                self.records.of(&package.name).into_iter().filter(|own| own.version == package.version);
            let mut out = self.excluded.clone();
            out.extend(same.map(|own| does_not_fit(&own)));
            out
        };
        let more: Vec<Files> = packages.iter().rev().copied().map(without).collect();
        self.open.extend(more);
        if let Some(next) = self.open.pop() {
            self.excluded = next;
        }
    }

    /// Records that PyPI's half cannot take: a constraint excludes the version of one that was chosen, and of others of its
    /// name.
    fn unfit(&self, packages: &[CondaPackage]) -> Files {
        let why = |package: &CondaPackage| {
            let bound = excluding(&self.constraints, package)?;
            let text = format!("{} {} is excluded by `{}`", package.name, package.version, bound.line());
            Some((package.file.clone(), text))
        };
        let chosen = packages.iter().filter(|package| excluding(&self.constraints, package).is_some());
        chosen.flat_map(|package| self.records.of(&package.name)).filter_map(|record| why(&record)).collect()
    }

    /// Both halves together.
    fn joined(
        &self,
        mut solution: Box<Solution>,
        packages: Vec<CondaPackage>,
        registry: &crate::registry::Registry,
    ) -> Box<Solution> {
        let provided = self.provided(&packages);
        solution.packages.retain(|package| {
            let is_of_stack = self.half.is_some() && STACK_PACKAGES.contains(&package.name.as_str());
            !provided.contains_key(&package.name) && !is_of_stack
        });
        widen(&mut solution, &packages, registry);
        solution.python = Python::new(self.python.minor);
        if self.asked.request.exclude_newer.general.is_some() {
            let text = "`exclude-newer` does not bound conda packages".to_owned();
            solution.notes.push(Note { text, source: None });
        }
        solution.notes.extend(unread_records(&self.asked.request, self.records));
        solution.conda = packages;
        solution
    }
}

impl Session<'_> {
    /// Both halves for one Python series.
    pub(super) fn on_python(
        &mut self,
        records: &Records,
        asked: &Question<'_>,
        python: Python,
        tally: &mut Tally,
        of_stack: (Option<&Half>, &Files),
    ) -> Result<OfPython, Failure> {
        let mut on = OnPython::new(records, asked, python, of_stack);
        loop {
            let packages = match self.of_conda(&mut on, tally)? {
                Next::Goes(packages) => packages,
                Next::Again => continue,
                Next::Ended(ended) => return Ok(ended),
            };
            let unfit = on.unfit(&packages);
            if !unfit.is_empty() {
                if tally.is_over() {
                    return Ok(on.impossible(true));
                }
                on.leave_out(unfit, tally);
                continue;
            }
            if let Some(ended) = self.of_pypi(&mut on, packages, tally)? {
                return Ok(ended);
            }
        }
    }

    /// Solves conda's half.
    fn of_conda(&mut self, on: &mut OnPython<'_>, tally: &mut Tally) -> Result<Next, Failure> {
        let mut left = on.excluded.clone();
        left.extend(on.admitted.others(on.records));
        let has_pip = !on.records.of("pip").is_empty();
        let question = question(on.asked, Some(on.python), &left, (self, has_pip), on.half);
        let start = Instant::now();
        let solved = on.records.solve(&question, self.time_left());
        let is_explaining = self.explains_until.is_some();
        if !is_explaining {
            self.solved_for += start.elapsed();
        }
        Ok(match solved {
            Err(CondaError::TooLong) if is_explaining => Next::Ended(on.impossible(true)),
            // The next Python is not tried: how fast the machine is would choose it.
            Err(CondaError::TooLong) => Next::Ended(OfPython::Open(Answer::TooLong)),
            Err(error) => return Err(unsolved(error)),
            Ok(Solved::Packages(packages)) => Next::Goes(packages),
            Ok(Solved::Impossible) if !tally.is_over() && self.admits_others(on)? => {
                tally.rounds += 1;
                Next::Again
            }
            Ok(Solved::Impossible) => on.without_conda(tally),
        })
    }

    /// Solves PyPI's half beside what conda's half installs. `None`: something else is left out, and conda's half is solved
    /// again.
    fn of_pypi(
        &mut self,
        on: &mut OnPython<'_>,
        packages: Vec<CondaPackage>,
        tally: &mut Tally,
    ) -> Result<Option<OfPython>, Failure> {
        refuse_what_conda_lacks(&on.requirements, &provided(&packages))?;
        let present = on.provided(&packages);
        let request = of_python(&on.asked.request, on.half, &packages, on.python);
        let alone = on.asked.with_request(&request);
        let conflict = match self.beside(on.half, &present, &BTreeMap::new())?.solve(&alone)? {
            Answer::Solution(solution) => {
                let twice = installed_twice(&packages, &solution);
                if twice.is_empty() {
                    let joined = on.joined(solution, packages, self.registry);
                    return Ok(Some(OfPython::Solved(joined)));
                }
                on.leave_out(twice, tally);
                return Ok(tally.is_over().then(|| on.impossible(true)));
            }
            Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => conflict,
            open => return Ok(Some(OfPython::Open(open))),
        };
        let named = named_by(&conflict, &present);
        if named.is_empty() {
            return Ok(on.without_names(conflict, &packages, tally));
        }
        let told = tell_of_conda(without_pythons(conflict), &named, &present, (on.asked, &packages));
        if on.first.is_none() {
            on.first = Some(told);
        }
        tally.rounds += 1;
        if !on.is_within || tally.is_over() {
            let is_cut = on.is_cut;
            return Ok(Some(on.impossible(is_cut)));
        }
        let names: Vec<&String> = named.iter().map(|(name, _)| *name).collect();
        // What the request excludes is PyPI's half to tell.
        let left = without_keys(&on.excluded, [&on.by_requirements, &on.by_constraints]);
        let at = AtHand {
            records: on.records,
            excluded: &left,
            python: on.python,
            half: on.half,
            provided: &present,
        };
        let (is_new, conflict) = self.admit(&alone, at, &names, &mut on.admitted)?;
        // It may have another one at fault, who needs another release.
        let told = conflict.map(|conflict| {
            let named = named_by(&conflict, &present);
            tell_of_conda(without_pythons(conflict), &named, &present, (on.asked, &packages))
        });
        let says_more = |told: &Conflict| on.first.as_ref().is_none_or(|first| !names_all(first, told));
        if let Some(told) = told.filter(|told| says_more(told)) {
            on.first = Some(told);
        }
        on.stepped_back.extend(named.iter().map(|(_, (_, package))| package.name.clone()));
        on.is_cut |= on.admitted.is_cut;
        if !is_new {
            let named: Vec<&CondaPackage> = named.iter().map(|(_, (_, package))| *package).collect();
            on.leave_out_one_of(&named);
        }
        on.last = packages;
        Ok(None)
    }

    /// Looks for more releases that PyPI's half admits, beside what conda's half installed last.
    fn admits_others(&self, on: &mut OnPython<'_>) -> Result<bool, Failure> {
        let last = std::mem::take(&mut on.last);
        let provided = on.provided(&last);
        let request = of_python(&on.asked.request, on.half, &last, on.python);
        let at = AtHand {
            records: on.records,
            excluded: &on.excluded,
            python: on.python,
            half: on.half,
            provided: &provided,
        };
        let is_any = self.admit_others(&on.asked.with_request(&request), at, &mut on.admitted);
        on.last = last;
        is_any
    }
}
