//! The reliability of a fact.

use serde::{Deserialize, Serialize};

/// The evidence for a registry row, weakest first.
///
/// ```
/// use envlock::model::evidence::Evidence;
/// assert!(Evidence::Inferred < Evidence::Measured);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Concluded from other facts, without examining the file itself.
    Inferred,
    /// Documented by the publisher (release notes, build scripts, support matrices).
    Documented,
    /// Read from the file itself.
    Measured,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Evidence::Inferred => "inferred",
            Evidence::Documented => "documented",
            Evidence::Measured => "measured",
        })
    }
}
