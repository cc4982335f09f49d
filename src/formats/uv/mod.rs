//! uv's files: its settings, `uv.lock`, `[tool.uv.sources]`, and workspaces.

mod lock;
mod settings;
mod sources;
mod tables;
mod workspace;
mod write;

pub(super) use lock::{Graph, parse};
pub use settings::{DefaultGroups, Settings, pinned_python};
pub use sources::Sources;
pub(super) use sources::redirect;
pub(super) use sources::reference;
pub use tables::{Scope, UvError, UvTables};
pub use workspace::Workspace;
pub use write::{UV_MARK, uv};
