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
    /// A part of the work is done: a line of the result, where that is text.
    fn done(&self, text: &str);
    /// Whether nothing but the verdict is to be said.
    fn is_quiet(&self) -> bool;
    /// Whether programs that are started may show their progress.
    fn shows_progress(&self) -> bool;
    /// Whether more is to be said than usual: variables that are not passed on, commands that are run.
    fn is_verbose(&self) -> bool;
    /// A bar for work that takes long; hidden where nobody sees it.
    fn progress(&self, what: &str) -> ProgressBar;
    /// Asks for a secret, which is not shown while it is typed; `None` where nobody can be asked.
    fn secret(&self, _prompt: &str) -> Option<String> {
        None
    }
}

/// Drops everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Interface for Silent {
    fn note(&self, _text: &str) {}
    fn warning(&self, _text: &str) {}
    fn hint(&self, _text: &str) {}

    fn done(&self, _text: &str) {}

    fn is_quiet(&self) -> bool {
        true
    }

    fn shows_progress(&self) -> bool {
        false
    }

    fn is_verbose(&self) -> bool {
        false
    }

    fn progress(&self, _what: &str) -> ProgressBar {
        ProgressBar::hidden()
    }
}
