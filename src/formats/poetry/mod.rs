//! poetry's `[tool.poetry]` of a pyproject.toml.

mod metadata;
mod project;
mod specifier;

pub use metadata::requirements;
pub(super) use project::Poetry;
use specifier::specifier;
