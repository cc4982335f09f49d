//! Remembers for which Python series a release has a fitting wheel.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::platform::{Libc, Platform};
use super::wheel::Python;

/// The answers for the first platform and C library that were asked for, which are those of nearly all questions. A
/// solve asks the same thousands of times.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    of_machine: OnceLock<Answers>,
    of_any_libc: OnceLock<Answers>,
}

#[derive(Debug)]
struct Answers {
    platform: Platform,
    libc: Option<Libc>,
    /// Bit `n`: Python 3.n was asked for.
    known: AtomicU64,
    /// Bit `n`: Python 3.n has a fitting wheel.
    fits: AtomicU64,
}

impl Fitting {
    /// The remembered answer, else that of `find`.
    pub(super) fn of(
        &self,
        python: Python,
        platform: Platform,
        libc: Option<&Libc>,
        find: impl FnOnce() -> bool,
    ) -> bool {
        if python.patch.is_some() || python.minor >= u64::BITS {
            return find();
        }
        let place = if libc.is_some() { &self.of_machine } else { &self.of_any_libc };
        let answers = place.get_or_init(|| Answers {
            platform,
            libc: libc.cloned(),
            known: AtomicU64::new(0),
            fits: AtomicU64::new(0),
        });
        if answers.platform != platform || answers.libc.as_ref() != libc {
            return find();
        }
        let bit = 1 << python.minor;
        // `known` is written last and read first, so that a known bit is never read before its answer.
        if answers.known.load(Ordering::Acquire) & bit != 0 {
            return answers.fits.load(Ordering::Acquire) & bit != 0;
        }
        let found = find();
        if found {
            answers.fits.fetch_or(bit, Ordering::AcqRel);
        }
        answers.known.fetch_or(bit, Ordering::AcqRel);
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
        let ask = |python: Python, libc: Option<&Libc>, answer| fitting.of(python, linux, libc, || answer);
        assert!(ask(Python::new(12), Some(&glibc), true));
        assert!(ask(Python::new(12), Some(&glibc), false), "the first answer is kept");
        assert!(!ask(Python::new(12), Some(&older), false), "another libc is asked anew");
        assert!(!ask(Python::new(12), None, false), "any libc is another question");
        assert!(!ask(Python::new(13), Some(&glibc), false));
        assert!(
            !ask(Python { minor: 12, patch: Some(3) }, Some(&glibc), false),
            "patch releases are not kept"
        );
    }
}
