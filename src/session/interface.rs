//! What a session says while it works.

use indicatif::ProgressBar;

/// Takes what is said besides the result: a terminal shows it, a program that uses the library may keep or drop it.
pub trait Interface {
    /// What is worth knowing.
    fn note(&self, text: &str);
    /// What may be wrong.
    fn warning(&self, text: &str);
    /// What helps.
    fn hint(&self, text: &str);
    /// Whether more is to be said than usual: variables that are not passed on, commands that are run.
    fn is_verbose(&self) -> bool;
    /// A bar for work that takes long; hidden where nobody sees it.
    fn progress(&self, what: &str) -> ProgressBar;
}

/// Drops everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Interface for Silent {
    fn note(&self, _text: &str) {}
    fn warning(&self, _text: &str) {}
    fn hint(&self, _text: &str) {}

    fn is_verbose(&self) -> bool {
        false
    }

    fn progress(&self, _what: &str) -> ProgressBar {
        ProgressBar::hidden()
    }
}
