//! How much of the graph was solved.

use serde::Serialize;

/// How much of the graph was solved for a lock or a suggested change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Driver, GPU, CUDA, cuDNN, framework builds and companions.
    Stack,
    /// Also the whole Python closure.
    Full,
}
