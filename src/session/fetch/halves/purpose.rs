//! What a solve over both halves is for, and how long it may take.

use std::time::{Duration, Instant};

use super::Session;

/// How long a solve of conda's half may take.
const SOLVE: Duration = Duration::from_secs(60);
/// How long the causes of a conflict of both halves and its ways out are looked for. A build without optimization is slower by an
/// order of magnitude.
pub(super) const EXPLAINING: Duration = Duration::from_secs(if cfg!(debug_assertions) { 300 } else { 30 });

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

    /// The time that is left for one solve of conda's half.
    pub(super) fn time_left(&self) -> Duration {
        let left = self.explains_until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(SOLVE, |left| left.clamp(Duration::from_secs(1), SOLVE))
    }
}
