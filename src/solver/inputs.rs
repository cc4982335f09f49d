//! The inputs of a solve.

use std::cmp::Reverse;
use std::rc::Rc;

use super::budget::Budget;
pub use super::memory::Depth;
use super::memory::Memory;
use super::question::Question;
use super::tables::Tables;
use super::universe::Universe;
use crate::model::platform::Platform;
use crate::model::request::{Preferences, Request};
use crate::model::wheel::Python;
use crate::registry::Registry;

/// The registry's candidates for one platform, numbered once for all solves of a command.
#[derive(Debug)]
pub struct Catalogue<'r> {
    pub(super) registry: &'r Registry,
    pub(super) platform: Platform,
    pub(super) tables: Rc<Tables<'r>>,
}

impl<'r> Catalogue<'r> {
    /// Numbers the registry's candidates for a platform.
    pub fn new(registry: &'r Registry, platform: Platform) -> Catalogue<'r> {
        Catalogue { registry, platform, tables: Tables::new(registry, platform) }
    }
}

/// The inputs of a solve.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The compatibility data, for the host's platform.
    pub catalogue: &'a Catalogue<'a>,
    /// The pages and metadata that are known or at hand.
    pub universe: &'a Universe<'a>,
    /// What earlier rounds and questions found with the same catalogue and universe.
    pub memory: &'a Memory,
    /// What the searches of the command may take.
    pub budget: &'a Budget,
    /// The question.
    pub question: &'a Question<'a>,
}

impl<'a> Inputs<'a> {
    /// The same with another question.
    pub fn about<'b>(&self, question: &'b Question<'b>) -> Inputs<'b>
    where
        'a: 'b,
    {
        Inputs { question, ..*self }
    }
}

/// The Python series that the request allows, oldest first.
pub fn allowed_pythons(registry: &Registry, request: &Request) -> Vec<Python> {
    request.pythons(registry.pythons())
}

/// How good a Python series is by itself, greater is better: installed here, and then the newest of those that were released at
/// least two years before the registry's date; a newer one, the oldest first, is for what needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    is_installed: bool,
    is_settled: bool,
    rank: i64,
    pub python: Python,
}

impl Standing {
    pub fn of(registry: &Registry, preferences: &Preferences, python: Python) -> Standing {
        let is_settled = registry.is_settled(python);
        let minor = i64::from(python.minor);
        Standing {
            is_installed: preferences.installed.contains(&python.minor),
            is_settled,
            rank: if is_settled { minor } else { -minor },
            python,
        }
    }
}

/// The Python series that a question allows, the best first: the locked one before all others.
pub fn preferred_pythons(registry: &Registry, question: &Question<'_>) -> Vec<Python> {
    let mut pythons = allowed_pythons(registry, &question.request);
    let locked = question.preferences.python;
    let is_locked = |python: &Python| locked.is_some_and(|locked| locked.minor == python.minor);
    pythons.sort_by_key(|python| {
        Reverse((is_locked(python), Standing::of(registry, &question.preferences, *python)))
    });
    pythons
}
