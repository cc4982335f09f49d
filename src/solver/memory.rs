//! Searches that ended, so that later rounds do not repeat them.
//!
//! A solve stops as soon as it needs a page or METADATA that is not in the universe, and starts again from the
//! beginning when it was fetched. A ranked search that came to its end has looked only at data that was there. Data is
//! added and never changed, so the result stays true and is kept.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::known_candidates::KnownCandidates;
use super::node::{Node, Selected};
use super::question::Question;
use super::tables::Set;
use crate::model::cutoff::ExcludeNewer;
use crate::model::metadata::CoreMetadata;
use crate::model::platform::Platform;
use crate::model::project::Release;
use crate::model::request::Request;
use crate::model::wheel::Python;

/// The results of searches of the whole closure, over one catalogue and one growing universe.
#[derive(Debug, Default)]
pub struct Memory {
    questions: RefCell<Vec<(Question<'static>, Known)>>,
    /// Sets of candidates, by what leaves releases out.
    sets: RefCell<Vec<(ExcludeNewer, Sets)>>,
    /// Requirements that apply, by what they apply on.
    applying: RefCell<Vec<(Platform, Vec<Python>, Applying)>>,
    searched: Cell<Option<Python>>,
    left_out: Cell<Doubtful>,
    prereleases: RefCell<BTreeSet<String>>,
    /// Releases whose METADATA is at hand or that have none, by their addresses in the pages of the universe, which stay. On
    /// each Python another file may stand for a release; `None`: on several.
    at_hand: RefCell<HashSet<(*const Release, Option<Python>)>>,
}

/// What is known about one question.
#[derive(Debug, Default)]
struct Known {
    results: Vec<(Search, Ended)>,
    admitted: Vec<(Search, Rc<Admitted>)>,
    candidates: Vec<(Search, KnownOf)>,
}

/// For each requirement of a package outside the stack, the newest releases that it admits and that some Python could
/// have, newest first.
pub(super) type Admitted = Vec<(Arc<str>, Vec<u32>)>;

/// How much of the graph to solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Hardware, CUDA, cuDNN, builds and companions, from the registry alone.
    Stack,
    /// The whole Python closure too.
    Full,
}

/// What distinguishes the searches about one question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Search {
    pub depth: Depth,
    pub series: Vec<Python>,
    pub wish: Wish,
    pub admits: Doubtful,
    /// See [`Asked::is_permissive`](super::problem::Asked).
    pub is_permissive: bool,
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
    /// There is none; a proof was found in so many steps.
    Impossible(u32),
    /// The step limit was reached.
    TooLong,
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

/// What is known of candidates, by package, shared by problems that differ in nothing but what they wish.
pub(super) type KnownOf = Rc<RefCell<HashMap<String, Rc<KnownCandidates>>>>;

/// The numbers of requirements, or the text of a line that cannot be parsed.
pub(super) type Applied = Rc<Result<Vec<usize>, String>>;

/// The series of a search over one alone.
pub(super) fn only_one(series: &[Python]) -> Option<Python> {
    match *series {
        [python] => Some(python),
        _ => None,
    }
}

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

    /// Whether the METADATA of a release is known to be at hand.
    pub(super) fn is_release_at_hand(&self, release: *const Release, on: Option<Python>) -> bool {
        self.at_hand.borrow().contains(&(release, on))
    }

    /// Notes that the METADATA of a release is at hand.
    pub(super) fn note_at_hand(&self, release: *const Release, on: Option<Python>) {
        self.at_hand.borrow_mut().insert((release, on));
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

    /// Forgets which pre-releases are candidates: another question's requirements decide that anew.
    pub fn forget_prereleases(&self) {
        let names = self.prereleases.take();
        if !names.is_empty() {
            self.questions.borrow_mut().clear();
            names.iter().for_each(|name| self.forget_sets(name));
        }
    }

    /// Whether the pre-releases of a package are candidates.
    pub(super) fn has_prereleases(&self, name: &str) -> bool {
        self.prereleases.borrow().contains(name)
    }

    /// Notes that a requirement admits pre-releases of a package alone: they are candidates for its other requirements
    /// too. What was found without them is no longer true.
    pub(super) fn add_prereleases(&self, name: &str) {
        if self.prereleases.borrow_mut().insert(name.to_owned()) {
            self.questions.borrow_mut().clear();
            self.forget_sets(name);
        }
    }

    fn forget_sets(&self, name: &str) {
        for (_, sets) in self.sets.borrow().iter() {
            let KnownSets { of_specifiers, of_requirements } = &mut *sets.borrow_mut();
            of_specifiers.retain(|(of, _), _| **of != *name);
            of_requirements.clear();
        }
    }

    /// Notes the search that needs more data.
    pub(super) fn needs_more(&self, search: &Search) {
        self.searched.set(only_one(&search.series));
    }

    /// What is known of the candidates of a search, whatever it wishes.
    pub(super) fn candidates(&self, question: Question<'_>, search: Search) -> KnownOf {
        let mut found = None;
        self.with(question, |known| {
            let own = known.candidates.iter().find(|(of, _)| *of == search);
            found = Some(own.map(|(_, own)| own.clone()).unwrap_or_else(|| {
                let own = KnownOf::default();
                known.candidates.push((search, own.clone()));
                own
            }));
        });
        found.unwrap_or_default()
    }

    /// The result of a search that already ended.
    pub(super) fn find(&self, question: &Question<'_>, search: &Search) -> Option<Ended> {
        let questions = self.questions.borrow();
        let (_, known) = questions.iter().find(|(known, _)| known == question)?;
        known.results.iter().find(|(asked, _)| asked == search).map(|(_, ended)| ended.clone())
    }

    /// Keeps the result of a search that needed no more data.
    pub(super) fn keep(&self, question: Question<'_>, search: Search, ended: Ended) {
        self.with(question, |known| known.results.push((search, ended)));
    }

    /// The releases that the requirements of a problem admit.
    pub(super) fn admitted(&self, question: &Question<'_>, search: &Search) -> Option<Rc<Admitted>> {
        let questions = self.questions.borrow();
        let (_, known) = questions.iter().find(|(known, _)| known == question)?;
        known.admitted.iter().find(|(asked, _)| asked == search).map(|(_, admitted)| admitted.clone())
    }

    /// Keeps the releases that the requirements of a problem admit.
    pub(super) fn keep_admitted(&self, question: Question<'_>, search: Search, admitted: Rc<Admitted>) {
        self.with(question, |known| known.admitted.push((search, admitted)));
    }

    fn with(&self, question: Question<'_>, add: impl FnOnce(&mut Known)) {
        let mut questions = self.questions.borrow_mut();
        match questions.iter_mut().find(|(known, _)| *known == question) {
            Some((_, known)) => add(known),
            None => {
                let mut known = Known::default();
                add(&mut known);
                questions.push((question.into_owned(), known));
            }
        }
    }
}
