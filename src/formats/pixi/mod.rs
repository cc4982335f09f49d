//! pixi's files: `pixi.toml`, `[tool.pixi]` of a pyproject.toml, and `pixi.lock`.

mod features;
mod lock;
mod machines;
mod project;
mod write;
mod write_lock;

pub(super) use lock::parse;
pub use machines::{Machine, PixiError, with_machines};
pub(super) use project::{add_of_pyproject, is_in, read};
pub use write::{PIXI_MARK, pixi};
pub use write_lock::{PIXI_LOCK_MARK, Places, pixi_lock};
