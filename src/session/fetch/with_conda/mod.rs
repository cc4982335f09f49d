//! Requests with conda packages: conda's half is solved first, and PyPI's on top of it, with what conda installs as fixed
//! packages. Python is chosen over both.

mod causes;
mod channels;
mod checked;
mod code;
mod conflict_text;
mod fitting;
mod machine_code;
mod messages;
mod on_python;
mod purpose;
mod requests;
mod stack;
mod ways;

use std::collections::BTreeSet;
use std::time::Instant;

pub(super) use self::channels::Reach;
use self::channels::other_interpreters;
pub(super) use self::code::CodeOfWheels;
use self::conflict_text::{cut_off, rests_on_tried, tell_tried};
use self::on_python::Tally;
pub(super) use self::purpose::Purpose;
use self::purpose::explained_until;
use self::requests::series;
use self::stack::ChosenStack;
use super::Session;
use crate::conda::Records;
use crate::model::conflict::Conflict;
use crate::model::solution::{Answer, Solution};
use crate::model::wheel::Python;
use crate::session::failure::Failure;
use crate::solver::{Question, preferred_pythons};

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
    pub(super) fn solve_both(&mut self, asked: &Question<'_>) -> Result<Answer, Failure> {
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
    fn both(&mut self, asked: &Question<'_>) -> Result<Answer, Failure> {
        if self.explains_until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Answer::TooLong);
        }
        match asked.request.conda.stack.is_some() {
            true => self.solve_with_stack(asked),
            false => self.solve_beside_stack(asked),
        }
    }

    /// Solves both halves where the stack, if there is one, is PyPI's.
    fn solve_beside_stack(&mut self, asked: &Question<'_>) -> Result<Answer, Failure> {
        let platform = asked.host.system.platform;
        let records = self.records(&asked.request, platform)?;
        let others = other_interpreters(&records);
        let mut first: Option<(Python, Box<Conflict>)> = None;
        let mut is_cut = false;
        let mut tally = Tally::default();
        for python in self.pythons(asked, &records)? {
            match self.on_python(&records, asked, python, &mut tally, (None, &others))? {
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
            return Ok(Answer::Conflict(match is_cut || tally.is_over() {
                true => Box::new(cut_off(*conflict)),
                false => conflict,
            }));
        }
        let conflict = self.conflict_of_conda(&records, asked, tally.left_out, (None, &others))?;
        Ok(Answer::Conflict(Box::new(if is_cut { cut_off(conflict) } else { conflict })))
    }

    /// The Pythons to try: that of PyPI's half alone, then the others, the best first.
    fn pythons(&mut self, asked: &Question<'_>, records: &Records) -> Result<Vec<Python>, Failure> {
        let mut out = preferred_pythons(self.registry, asked);
        let of_channels: BTreeSet<u32> =
            records.of("python").iter().filter_map(|python| series(&python.version)).collect();
        out.retain(|python| of_channels.contains(&python.minor));
        let kept = asked.preferences.python;
        let wished = match kept {
            Some(python) => Some(python),
            None if asked.request.requirements.is_empty() => None,
            None => {
                let alone = asked.request.of_indexes();
                match self.solve(&asked.with_request(&alone))? {
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
}
