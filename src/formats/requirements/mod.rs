//! Requirements files of pip: with the files that they include as what a project requires, with exact versions as a lock.

mod builds;
mod lock;
mod project;
mod write;

pub use builds::{build_constraints, build_requirements, requirements_to_build};
pub use lock::requirement_lines;
pub(super) use lock::{Pinned, environment, has_hashes, mentions, parse};
pub(super) use project::{include, read, without_options};
pub use write::{packages, requirements, same_requirements};
