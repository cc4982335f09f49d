//! Where control goes after a statement.

use super::value::Value;

/// How a statement ends.
pub(super) enum Flow {
    Next,
    Return(Value),
    Break,
    Continue,
    /// It raises, or the limits are reached: nothing after it is evaluated.
    Stop,
    /// It may have left the block.
    Unsure,
}
