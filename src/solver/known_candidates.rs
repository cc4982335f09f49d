//! What is known of the candidates of an ordinary package: a search asks the same of them at each of its decisions.

use std::cell::Cell;

use super::tables::Set;
use crate::model::project::Release;

/// The candidates of a package by kind, and which of them can be used, as far as it was asked.
#[derive(Debug)]
pub(super) struct KnownCandidates {
    /// Those that have a wheel or a source distribution.
    pub with_files: Set,
    /// Those that were yanked.
    pub yanked: Set,
    /// Those that are no pre-releases.
    pub finals: Set,
    /// By candidate: two bits for each of the questions below, whether it is known, and the answer.
    answers: Vec<Cell<u8>>,
}

impl KnownCandidates {
    /// Sorts the releases of a package, in the order of its candidates.
    pub fn new<'r>(releases: impl ExactSizeIterator<Item = &'r Release> + Clone) -> KnownCandidates {
        let of = |is_one: &dyn Fn(&Release) -> bool| -> Set {
            (0..).zip(releases.clone()).filter(|(_, release)| is_one(release)).map(|(i, _)| i).collect()
        };
        KnownCandidates {
            with_files: of(&|release| release.has_wheel || release.has_source),
            yanked: of(&|release| release.yanked),
            finals: of(&|release| !release.version.any_prerelease()),
            answers: vec![Cell::new(0); releases.len()],
        }
    }

    /// The number of candidates.
    pub fn count(&self) -> usize {
        self.answers.len()
    }

    /// Whether a candidate has a file for one of the Pythons.
    pub fn is_usable(&self, candidate: u32, find: impl FnOnce() -> bool) -> bool {
        self.answer(candidate, 0, find)
    }

    /// Whether the machine and the constraints allow it.
    pub fn is_possible(&self, candidate: u32, find: impl FnOnce() -> bool) -> bool {
        self.answer(candidate, 2, find)
    }

    fn answer(&self, candidate: u32, shift: u8, find: impl FnOnce() -> bool) -> bool {
        let known = &self.answers[candidate as usize];
        if known.get() >> shift & 1 == 0 {
            let answer = u8::from(find());
            known.set(known.get() | (1 | answer << 1) << shift);
        }
        known.get() >> (shift + 1) & 1 == 1
    }
}
