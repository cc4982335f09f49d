//! Why a lockfile cannot be used, and what helps.

/// A lockfile that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Made by a newer program.
    #[error("the lock has format {found}, this envlock reads {understood}")]
    Newer {
        /// Its format.
        found: String,
        /// What this program reads.
        understood: String,
    },
    /// Conflict markers of a merge.
    #[error("the lock holds a merge conflict (line {line})")]
    MergeConflict {
        /// Line of the first marker.
        line: usize,
    },
    /// No lockfile, or a broken one.
    #[error("the lock cannot be read: {0}")]
    Malformed(String),
    /// A part of the request that this program does not know.
    #[error("the lock's request has the line `{0}`, which is not understood")]
    RequestLine(String),
    /// The checksum differs.
    #[error("the lock was changed by hand or by a merge: its checksum does not match")]
    Edited,
}

impl LockError {
    /// The command or step that helps.
    pub fn hint(&self) -> &'static str {
        match self {
            LockError::RequestLine(_) => {
                "write an envlock.toml with `envlock init`, or take the committed lock back with `git checkout envlock.lock`"
            }
            LockError::Newer { .. } => "update envlock, or make the lock again with `envlock resolve`",
            LockError::MergeConflict { .. } => {
                "`envlock resolve` solves it anew and keeps both sides' versions where they fit"
            }
            LockError::Malformed(_) | LockError::Edited => {
                "take the committed one back with `git checkout envlock.lock`, or make it again: `envlock resolve --redetect` for this machine, or with `--gpu` and `--driver`"
            }
        }
    }
}
