//! poetry's `[tool.poetry]` of a pyproject.toml.

mod project;
mod specifier;

pub(super) use project::Poetry;
pub use specifier::specifier;
