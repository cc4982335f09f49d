//! uv's files: `uv.lock`, `[tool.uv.sources]`, and workspaces.

mod lock;
mod sources;
mod workspace;

pub(super) use lock::{Graph, parse};
pub(super) use sources::reference;
pub use sources::{Redirected, redirect, relative};
pub use workspace::Workspace;
