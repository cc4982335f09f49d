//! `pyproject.toml`: PEP 621 and PEP 735, with the tables of uv, poetry and pdm.

pub mod parts;
mod project;

pub(super) use project::read;
