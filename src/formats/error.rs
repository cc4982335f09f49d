//! How much of a lock is read, and why one is refused.

use crate::model::requirement::InvalidRequirement;

/// Why a file is not a lock that can be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// It is not the syntax of its format: the reader's message.
    #[error("{0}")]
    Syntax(String),
    /// A format version that is not read: found, read.
    #[error("its format is version {0}; envlock reads {1}")]
    Version(String, &'static str),
    /// A value that is not what its key must have: the key with its package, the value.
    #[error("`{0}` is `{1}`")]
    Value(String, String),
    /// A package that another one requires, and that the lock does not have: that one, the package.
    #[error("`{0}` requires `{1}`, which is not in it")]
    Absent(String, String),
    /// A requirement or marker that is none: its place, the text, what is wrong with it.
    #[error("`{0}` is `{1}`: {2}")]
    Requirement(String, String, InvalidRequirement),
    /// A requirement without an exact version, so that the file locks nothing.
    #[error("line {0}: `{1}` has no exact version, so the file locks nothing")]
    NotExact(usize, String),
    /// A requirements file that includes another one: the line.
    #[error("line {0}: `{1}` includes another file: compile both into one")]
    Includes(usize, String),
    /// Its packages are for platforms that envlock does not know, in conda's words: `linux-ppc64le`.
    #[error("its packages are for {0}, which envlock does not know")]
    OtherPlatforms(String),
    /// It locks more than envlock reads.
    #[error("it has more than {0} packages")]
    TooLarge(usize),
    /// Its packages have more requirements and files than envlock reads.
    #[error("it has more than {0} requirements and files of packages")]
    TooManyParts(usize),
    /// It has more values and lines than envlock reads.
    #[error("it has more than {0} values and lines")]
    TooManyValues(usize),
    /// It is longer than envlock reads, in MiB.
    #[error("it is larger than {0} MiB")]
    TooLong(usize),
    /// Its packages, once for each extra and group, are more than envlock reads.
    #[error("its packages, once for each extra and group, are more than {0}")]
    TooManyTimes(usize),
    /// Its markers on extras and groups are too long for all environments; the limit in MiB.
    #[error("its markers on extras and groups, once for each of them, have more than {0} MiB")]
    TooManyChoices(usize),
}

/// Maximum number of packages of a lock. The largest public ones have some thousand.
pub(super) const MAX_PACKAGES: usize = 50_000;

/// Maximum number of requirements and files of a TOML lock, each an inline table. They are counted before they are read: a lock
/// of 64 MiB can have three million, which took 4.8 GB.
pub(super) const MAX_PARTS: usize = 400_000;

/// Maximum size of a TOML lock in bytes. The largest public ones have some 10 MB.
pub(super) const MAX_TOML: usize = 24 << 20;
