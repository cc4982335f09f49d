//! A lock in formats that are only written: Dockerfile, workflows, a preflight snippet, graphs; and the reports of `verify`.
//! Formats that are read too are in `formats`.

mod ci;
mod dockerfile;
pub mod graph;
mod guard;
pub mod reports;
pub mod schedule;

pub use ci::{
    DEVCONTAINER_MARK, GITHUB_MARK, PRE_COMMIT_MARK, devcontainer, for_a_runner, github, is_edited,
    pre_commit,
};
pub use dockerfile::{BundleInContext, dockerfile};
pub use guard::guard;

/// The start of every Dockerfile that envlock writes.
pub const DOCKERFILE_MARK: &str = "# Written by envlock as Dockerfile";

/// The start of every preflight snippet that envlock writes.
pub const GUARD_MARK: &str = "# envlock guard:";
