//! Remembers which wheel of a release fits best.

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::platform::{Libc, Platform};
use super::wheel::Python;

/// The answers for the first platform and C library that were asked for, which are those of nearly all questions. A
/// solve asks the same thousands of times.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    of_machine: OnceLock<Answers>,
    of_any_libc: OnceLock<Answers>,
}

/// A line among those of a release: its number, and its place in the lines of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub number: usize,
    pub place: Range<usize>,
}

#[derive(Debug)]
struct Answers {
    platform: Platform,
    libc: Option<Libc>,
    /// The lines of the wheels for this machine, whatever their Python.
    lines: Vec<Line>,
    /// The Python series that were asked for, by their minor number, and the file that fits best.
    best: Mutex<Vec<(u32, Option<usize>)>>,
}

impl Fitting {
    /// The remembered file, else the one that `find` gives. `lines` are those of the wheels for the machine.
    pub(super) fn best(
        &self,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
        lines: impl Fn() -> Vec<Line>,
        find: impl FnOnce(&[Line]) -> Option<usize>,
    ) -> Option<usize> {
        let place = if libc.is_some() { &self.of_machine } else { &self.of_any_libc };
        let answers = place.get_or_init(|| {
            let (lines, libc) = (lines(), libc.cloned());
            Answers { platform, libc, lines, best: Mutex::default() }
        });
        if answers.platform != platform || answers.libc.as_ref() != libc {
            return find(&lines());
        }
        if python.patch.is_some() {
            return find(&answers.lines);
        }
        let mut best = answers.best.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = best.iter().find(|(minor, _)| *minor == python.minor) {
            return *known;
        }
        let found = find(&answers.lines);
        best.push((python.minor, found));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_one_machine_and_not_given_to_another() {
        let fitting = Fitting::default();
        let (linux, glibc) = (Platform::LINUX_X86_64, Libc::Glibc("2.35".parse().unwrap()));
        let older = Libc::Glibc("2.17".parse().unwrap());
        let ask = |python: Python, libc: Option<&Libc>, file| {
            fitting.best(python, linux, libc, Vec::new, |_: &[Line]| file)
        };
        assert_eq!(ask(Python::new(12), Some(&glibc), Some(3)), Some(3));
        assert_eq!(ask(Python::new(12), Some(&glibc), None), Some(3), "the first answer is kept");
        assert_eq!(ask(Python::new(12), Some(&older), None), None, "another libc is asked anew");
        assert_eq!(ask(Python::new(12), None, None), None, "any libc is another question");
        assert_eq!(ask(Python::new(13), Some(&glibc), None), None);
        let patch = Python { minor: 12, patch: Some(3) };
        assert_eq!(ask(patch, Some(&glibc), None), None, "patch releases are not kept");
    }
}
