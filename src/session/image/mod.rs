//! What is read of a container image and judged of it.

pub(crate) mod program;
pub(crate) mod whole;
