//! Why a lockfile cannot be used, and how to fix it.

/// A lockfile that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Made by a newer program.
    #[error("the lock has format {found}, but this version of envlock reads {understood}")]
    Newer {
        /// Its format.
        found: String,
        /// What this program reads.
        understood: String,
    },
    /// It contains conflict markers of a merge.
    #[error("the lock contains a merge conflict (line {line})")]
    MergeConflict {
        /// Line of the first marker.
        line: usize,
    },
    /// Not a lockfile, or a damaged one.
    #[error("the lock cannot be read: {0}")]
    Malformed(String),
    /// A part of the request that this program does not know.
    #[error("the lock's request has the unknown line `{0}`")]
    RequestLine(String),
    /// The checksum differs.
    #[error("the lock was changed by hand or by a merge: its checksum does not match")]
    Edited,
}

impl LockError {
    /// The command or step that fixes it.
    pub fn hint(&self) -> &'static str {
        match self {
            LockError::RequestLine(_) => {
                "write an envlock.toml with `envlock init`, or restore the committed lock with `git checkout envlock.lock`"
            }
            LockError::Newer { .. } => "update envlock, or recreate the lock with `envlock resolve --force`",
            LockError::MergeConflict { .. } => {
                "`envlock resolve` solves again and keeps the versions of both sides where they fit"
            }
            LockError::Malformed(_) | LockError::Edited => {
                "restore the lock of before the edit (`git checkout envlock.lock`, or `git checkout REVISION envlock.lock` where the edit was committed), or make it again: `envlock resolve --force`"
            }
        }
    }
}
