//! `sync`: what an environment lacks of a lock, and the commands that change it. Nothing is run here.

mod changes;
mod conda_records;
pub mod env_allowlist;
mod steps;

pub use changes::{Changes, changes, needs_permission};
pub use conda_records::{conda_changes, conda_steps, put_over};
pub use steps::{Installer, Interpreter, Lists, Place, Purpose, Step, Talk, steps};
