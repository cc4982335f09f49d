//! uv's files: `uv.lock`, `[tool.uv.sources]`, and workspaces.

mod lock;
mod sources;
mod tables;
mod workspace;
mod write;

pub(super) use lock::{Graph, parse};
pub(super) use sources::reference;
pub use sources::{Redirected, paths_of_sources, redirect, relative};
pub use tables::{Scope, UvError, UvTables};
pub use workspace::Workspace;
pub use write::{UV_MARK, uv};
