//! How much searching a command may do.
//!
//! Steps decide, and each search counts once: when it has ended, whatever had to be fetched for it. So the answer, and what is
//! said to be not known, depend neither on the machine's load nor on what the cache holds.

use std::cell::{Cell, RefCell};

use super::question::Question;

/// The steps of all searches of a command. A request of 229 packages of an ML team takes 41,196 (counted on 2026-11-28).
const ANSWERS: u64 = 5_000_000;
/// The steps of one search. Real requests take far fewer; it guards against hostile metadata.
const ONE_SEARCH: u32 = 200_000;
/// The steps of one search that can only spare another one: a proof that a series has nothing better is short where there is
/// one, and a longer search costs more than the one it would spare.
const SPARING: u32 = 200;
/// The steps of one search for another answer, in which a package is newer. In the requests of 40 public projects such a
/// search ended after at most 432 steps.
const ANOTHER: u32 = 3000;
/// The steps of the searches for newer releases of the requested packages, after the first answer to a question.
const IMPROVING: u64 = 150_000;
/// The steps of the searches for more causes of a conflict and for ways out: a few seconds.
const EXPLAINING: u64 = 300_000;

/// What one search may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// As much as an answer is worth.
    Answer,
    /// A search for another answer.
    Another,
    /// A search that can only spare another one, over so many requested packages.
    Sparing(u32),
    /// A search that is about as long as one that took so many steps.
    Like(u32),
}

impl Share {
    /// Its steps.
    pub fn steps(self) -> u32 {
        match self {
            Share::Answer => ONE_SEARCH,
            Share::Another => ANOTHER,
            // Each of them is decided at least once.
            Share::Sparing(requested) => SPARING + 4 * requested,
            Share::Like(steps) => SPARING + 2 * steps,
        }
    }
}

/// The steps that the searches of one command may take, handed down to all of them.
#[derive(Debug, Default)]
pub struct Budget {
    taken: Cell<u64>,
    /// The question that is being answered.
    question: RefCell<Option<Question<'static>>>,
    improved_until: Cell<Option<u64>>,
    explained_until: Cell<Option<u64>>,
}

impl Budget {
    /// Begins with a question, or goes on with it. Each has its own share for improving and explaining its answer.
    pub(super) fn begin(&self, question: &Question<'_>) {
        let mut current = self.question.borrow_mut();
        if current.as_ref() != Some(question) {
            *current = Some(question.by_ref().into_owned());
            self.improved_until.set(None);
            self.explained_until.set(None);
        }
    }

    /// Counts the steps of a search that has ended.
    pub(super) fn count(&self, steps: u32) {
        self.taken.set(self.taken.get() + u64::from(steps));
    }

    /// Whether nothing more is searched for, neither an answer nor a better one.
    pub(super) fn is_spent(&self) -> bool {
        self.taken.get() >= ANSWERS
    }

    /// Whether a conflict is explained as far as it is. The explanation begins with the first call.
    pub(super) fn is_explained(&self) -> bool {
        self.is_over(&self.explained_until, EXPLAINING)
    }

    /// Whether the answer is not improved any further. Improving begins with the first call.
    pub(super) fn is_improved(&self) -> bool {
        self.is_over(&self.improved_until, IMPROVING)
    }

    fn is_over(&self, until: &Cell<Option<u64>>, share: u64) -> bool {
        let end = until.get().unwrap_or(self.taken.get() + share);
        until.set(Some(end));
        self.taken.get() >= end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::host::Host;
    use crate::model::platform::Platform;
    use crate::model::request::{Preferences, Request};

    #[test]
    fn each_question_has_its_own_share() {
        let (host, nothing) = (Host::open(Platform::LINUX_X86_64, "test"), Preferences::default());
        let (one, other) = (Request::default(), Request { same_torch: Some(true), ..Request::default() });
        let (one, other) = (Question::new(&host, &one, &nothing), Question::new(&host, &other, &nothing));
        let budget = Budget::default();
        budget.begin(&one);
        budget.count(1000);
        assert!(!budget.is_explained());
        budget.count(ONE_SEARCH);
        budget.begin(&one);
        assert!(!budget.is_explained() && !budget.is_improved());
        budget.count(ONE_SEARCH);
        assert!(budget.is_explained() && budget.is_improved() && !budget.is_spent());
        budget.begin(&other);
        assert!(!budget.is_explained() && !budget.is_improved());
        (0..100).for_each(|_| budget.count(ONE_SEARCH));
        assert!(budget.is_spent());
    }
}
