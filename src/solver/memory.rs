//! Searches that ended, so that later rounds do not repeat them.
//!
//! A solve stops as soon as it needs a page or METADATA that is not in the universe, and starts again from the
//! beginning when it was fetched. A ranked search that came to its end has looked only at data that was there. Data is
//! added and never changed, so the result stays true and is kept.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use super::node::{Node, Selected};
use super::tables::Set;
use crate::model::cutoff::ExcludeNewer;
use crate::model::host::Host;
use crate::model::metadata::CoreMetadata;
use crate::model::platform::Platform;
use crate::model::request::{Preferences, Request};
use crate::model::wheel::Python;

/// The results of searches of the whole closure, over one catalogue and one growing universe.
#[derive(Debug, Default)]
pub struct Memory {
    subjects: RefCell<Vec<(Subject<'static>, Known)>>,
    /// Sets of candidates, by what leaves releases out.
    sets: RefCell<Vec<(ExcludeNewer, Sets)>>,
    /// Requirements that apply, by what they apply on.
    applying: RefCell<Vec<(Platform, Vec<Python>, Applying)>>,
    searched: Cell<Option<Python>>,
    left_out: Cell<Doubtful>,
    prereleases: RefCell<BTreeSet<String>>,
    steps: Cell<u64>,
    limit_of_explanation: Cell<Option<u64>>,
}

/// What is known about one subject.
#[derive(Debug, Default)]
struct Known {
    results: Vec<(Question, Ended)>,
    admitted: Vec<(Question, Rc<Admitted>)>,
}

/// For each requirement of a package outside the stack, the newest releases that it admits and that some Python could
/// have, newest first.
pub(super) type Admitted = Vec<(Arc<str>, Vec<u32>)>;

/// What is solved, for whom.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject<'s> {
    pub request: Cow<'s, Request>,
    pub host: Cow<'s, Host>,
    pub preferences: Cow<'s, Preferences>,
}

/// How much of the graph to solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Hardware, CUDA, cuDNN, builds and companions, from the registry alone.
    Stack,
    /// The whole Python closure too.
    Full,
}

/// What distinguishes the searches about one subject.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    pub depth: Depth,
    pub series: Vec<Python>,
    pub wish: Wish,
    pub admits: Doubtful,
    /// How much of what a search uses besides was at hand: the number of known pages of triton, whose candidates are
    /// collected from all of them; for the stack alone, how many versions of it requested packages avoid.
    pub at_hand: usize,
}

/// What an answer has only where there is no other answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Doubtful {
    /// An old release is built although another allowed Python has a newer one as a wheel.
    pub needless_builds: bool,
    /// The libraries of a package link the CUDA runtime of another major version than torch brings.
    pub other_cuda: bool,
    /// A package is selected beside a release of another with which it is known to fail (see [`Effect::Avoid`]).
    pub known_failures: bool,
}

impl Doubtful {
    /// All of it.
    pub const ALL: Doubtful = Doubtful { needless_builds: true, other_cuda: true, known_failures: true };

    /// Whether all that another names is in this one.
    pub fn has_all_of(self, other: Doubtful) -> bool {
        (self.needless_builds || !other.needless_builds)
            && (self.other_cuda || !other.other_cuda)
            && (self.known_failures || !other.known_failures)
    }
}

/// What a search wants beyond the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Wish {
    #[default]
    Nothing,
    /// Requested packages outside the stack at the newest release that any of these series could have.
    Newest(Vec<Python>),
    /// To be better than another answer, as far as the requested packages alone say: one of these at least, and none
    /// of these older.
    Better { alternatives: Vec<(Node, Set)>, not_older: Vec<(Node, u32)> },
    /// One of these at least, in a whole answer.
    OneOf(Vec<(Node, Set)>),
}

impl Wish {
    /// Those of which the search wants one.
    pub(super) fn alternatives(&self) -> Option<&[(Node, Set)]> {
        match self {
            Wish::Better { alternatives, .. } | Wish::OneOf(alternatives) => Some(alternatives),
            Wish::Nothing | Wish::Newest(_) => None,
        }
    }
}

/// How a ranked search ended.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    Selected(Rc<Selected>),
    Impossible,
    /// The step limit was reached.
    TooLong,
}

impl Subject<'_> {
    fn into_owned(self) -> Subject<'static> {
        use Cow::Owned;
        Subject {
            request: Owned(self.request.into_owned()),
            host: Owned(self.host.into_owned()),
            preferences: Owned(self.preferences.into_owned()),
        }
    }
}

/// Sets of candidates that requirements admit.
#[derive(Debug, Default)]
pub(super) struct KnownSets {
    /// By package, specifiers, and what the request admits of the package beside them.
    pub of_specifiers: HashMap<(Arc<str>, String), Set>,
    /// By the address of a requirement in METADATA, which is kept, so that the address stays its own.
    pub of_requirements: HashMap<usize, (Arc<CoreMetadata>, Set)>,
}

/// Sets of candidates, shared by problems.
pub(super) type Sets = Rc<RefCell<KnownSets>>;

/// The numbers of the requirements that apply, by metadata and extra. The metadata is kept, so that its address stays its
/// own.
pub(super) type Applying = Rc<RefCell<HashMap<(usize, Option<String>), (Arc<CoreMetadata>, Applied)>>>;

/// The numbers of requirements, or the text of a line that cannot be parsed.
pub(super) type Applied = Rc<Result<Vec<usize>, String>>;

impl Memory {
    /// The requirements that are known to apply on all of these Python series.
    pub(super) fn applying(&self, platform: Platform, series: &[Python]) -> Applying {
        let mut known = self.applying.borrow_mut();
        if let Some((.., applying)) = known.iter().find(|(on, of, _)| *on == platform && of == series) {
            return applying.clone();
        }
        let applying = Applying::default();
        known.push((platform, series.to_vec(), applying.clone()));
        applying
    }

    /// The sets of candidates that are known for a request.
    pub(super) fn sets(&self, request: &Request) -> Sets {
        let mut known = self.sets.borrow_mut();
        if let Some((_, sets)) = known.iter().find(|(of, _)| *of == request.exclude_newer) {
            return sets.clone();
        }
        let sets = Sets::default();
        known.push((request.exclude_newer.clone(), sets.clone()));
        sets
    }

    /// The Python series of the search that needed more data.
    pub fn searched(&self) -> Option<Python> {
        self.searched.get()
    }

    /// What some search left out.
    pub(super) fn left_out(&self) -> Doubtful {
        self.left_out.get()
    }

    /// Notes that a search leaves out a release that would be built only because of its Python.
    pub(super) fn leave_out_builds(&self) {
        self.left_out.set(Doubtful { needless_builds: true, ..self.left_out.get() });
    }

    /// Notes that a search leaves out builds of torch whose CUDA a package does not link.
    pub(super) fn leave_out_other_cuda(&self) {
        self.left_out.set(Doubtful { other_cuda: true, ..self.left_out.get() });
    }

    /// Notes that a search leaves out releases with which a package is known to fail.
    pub(super) fn leave_out_known_failures(&self) {
        self.left_out.set(Doubtful { known_failures: true, ..self.left_out.get() });
    }

    /// The number of packages whose pre-releases are candidates, because a requirement admits nothing else.
    pub(super) fn prereleases(&self) -> usize {
        self.prereleases.borrow().len()
    }

    /// Whether the pre-releases of a package are candidates.
    pub(super) fn has_prereleases(&self, name: &str) -> bool {
        self.prereleases.borrow().contains(name)
    }

    /// Notes that a requirement admits pre-releases of a package alone: they are candidates for its other requirements
    /// too. What was found without them is no longer true.
    pub(super) fn add_prereleases(&self, name: &str) {
        if self.prereleases.borrow_mut().insert(name.to_owned()) {
            self.subjects.borrow_mut().clear();
            for (_, sets) in self.sets.borrow().iter() {
                let KnownSets { of_specifiers, of_requirements } = &mut *sets.borrow_mut();
                of_specifiers.retain(|(of, _), _| **of != *name);
                of_requirements.clear();
            }
        }
    }

    /// The steps of all searches so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// The steps at which a conflict is explained as far as it is: `more` than at the first call, whatever the rounds.
    pub(super) fn limit_of_explanation(&self, more: u64) -> u64 {
        let limit = self.limit_of_explanation.get().unwrap_or(self.steps() + more);
        self.limit_of_explanation.set(Some(limit));
        limit
    }

    /// Counts the steps of a search.
    pub(super) fn count(&self, steps: u32) {
        self.steps.set(self.steps.get() + u64::from(steps));
    }

    /// Notes the search that needs more data.
    pub(super) fn needs_more(&self, question: &Question) {
        self.searched.set(match question.series[..] {
            [python] => Some(python),
            _ => None,
        });
    }

    /// The result of a search that already ended.
    pub(super) fn find(&self, subject: &Subject<'_>, question: &Question) -> Option<Ended> {
        let subjects = self.subjects.borrow();
        let (_, known) = subjects.iter().find(|(known, _)| known == subject)?;
        known.results.iter().find(|(asked, _)| asked == question).map(|(_, ended)| ended.clone())
    }

    /// Keeps the result of a search that needed no more data.
    pub(super) fn keep(&self, subject: Subject<'_>, question: Question, ended: Ended) {
        self.with(subject, |known| known.results.push((question, ended)));
    }

    /// The releases that the requirements of a problem admit.
    pub(super) fn admitted(&self, subject: &Subject<'_>, question: &Question) -> Option<Rc<Admitted>> {
        let subjects = self.subjects.borrow();
        let (_, known) = subjects.iter().find(|(known, _)| known == subject)?;
        known.admitted.iter().find(|(asked, _)| asked == question).map(|(_, admitted)| admitted.clone())
    }

    /// Keeps the releases that the requirements of a problem admit.
    pub(super) fn keep_admitted(&self, subject: Subject<'_>, question: Question, admitted: Rc<Admitted>) {
        self.with(subject, |known| known.admitted.push((question, admitted)));
    }

    fn with(&self, subject: Subject<'_>, add: impl FnOnce(&mut Known)) {
        let mut subjects = self.subjects.borrow_mut();
        match subjects.iter_mut().find(|(known, _)| *known == subject) {
            Some((_, known)) => add(known),
            None => {
                let mut known = Known::default();
                add(&mut known);
                subjects.push((subject.into_owned(), known));
            }
        }
    }
}
