//! Requirements files of pip: with the files that they include as what a project requires, with exact versions as a lock.

mod lock;
mod project;

pub use lock::requirement_lines;
pub(super) use lock::{Pinned, environment, has_hashes, mentions, parse};
pub(super) use project::{include, read, without_options};
