//! What a solve over both halves is for, and how long it may take.

use std::time::{Duration, Instant};

use super::Session;

/// Seconds that all solves of conda's half may take together, explanations apart. A clock ends a search and never chooses an
/// answer.
const SOLVING: u64 = 60;
/// Seconds in which the causes of a conflict of both halves and its ways out are looked for.
const EXPLAINING: u64 = 30;

/// A time on this machine: a build without optimization is slower by an order of magnitude.
const fn seconds(number: u64) -> Duration {
    Duration::from_secs(if cfg!(debug_assertions) { number * 10 } else { number })
}

/// When an explanation ends that starts now.
pub(super) fn explained_until() -> Instant {
    Instant::now() + seconds(EXPLAINING)
}

/// What a solve over both halves is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session::fetch) enum Purpose {
    /// The answer.
    Answer,
    /// Another cause of a conflict: large wheels are not read, and taken for ones that fit.
    Cause,
    /// A way out of a conflict: large wheels are not read, and are not offered.
    Way,
}

impl Session<'_> {
    /// Says that what is solved is offered as a way out of a conflict.
    pub(crate) fn is_for_a_way_out(&mut self) {
        self.purpose = Purpose::Way;
    }

    /// Does something for another purpose.
    pub(super) fn for_purpose<T>(&mut self, purpose: Purpose, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.purpose, purpose);
        let out = act(self);
        self.purpose = before;
        out
    }

    /// How long a solve of conda's half may take that starts now.
    pub(super) fn time_left(&self) -> Duration {
        match self.explains_until {
            Some(until) => until.saturating_duration_since(Instant::now()),
            None => seconds(SOLVING).saturating_sub(self.solved_for),
        }
    }
}
