//! `pyproject.toml`: PEP 621 and PEP 735, with the tables of uv, poetry and pdm.

mod about;
pub mod parts;
mod project;

pub use about::{About, about};
pub(super) use project::read;
