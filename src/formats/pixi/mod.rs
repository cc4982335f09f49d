//! pixi's files: `pixi.toml`, `[tool.pixi]` of a pyproject.toml, and `pixi.lock`.

mod lock;
mod project;

pub(super) use lock::parse;
pub(super) use project::{add_of_pyproject, is_in, read};
