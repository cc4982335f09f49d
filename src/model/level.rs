//! How much of the graph was solved.

use serde::Serialize;

/// How much of the graph a lock or a way out was solved against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Driver, GPU, CUDA, cuDNN, framework builds and companions.
    Stack,
    /// The whole Python closure too.
    Full,
}
