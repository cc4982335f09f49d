//! Files of other tools, one folder for each: what a project requires (`pyproject.toml` with the tables of uv, poetry and pixi,
//! `pixi.toml`, `environment.yml`, `setup.py`, requirements), and what a lock fixes (`uv.lock`, `pylock.toml`, `pixi.lock`,
//! `conda-lock.yml`, requirements with hashes).
//!
//! [`import`] reads requirements, in the terms of envlock.toml. [`ForeignLock`] reads a lock into the [`Environment`]s that it
//! can install on a platform, which `verify` judges as it judges envlock's own lock. Nothing is resolved. Nothing is read from disk
//! either: other files are asked for by [`Files`].

mod conda;
mod document;
mod error;
mod foreign_lock;
mod import;
mod imported;
mod lock_pins;
mod other_builds;
mod own_entries;
mod pixi;
mod poetry;
mod pylock;
pub mod pyproject;
mod requirements;
mod setup;
mod types;
pub mod uv;
mod written;
pub(crate) mod yaml;

pub use conda::CondaRecord;
pub use document::{is_pypi, own_name};
pub use error::ForeignError;
pub use foreign_lock::ForeignLock;
pub use import::{import, is_of_conda};
pub use imported::{CondaPart, Context, Files, ImportError, Imported, Optional, path_from};
pub use other_builds::{OtherBuild, failing, other_builds};
pub(crate) use own_entries::{Entries, in_its_form};
pub use pixi::{Machine as PixiMachine, PixiError, with_machines};
pub use poetry::requirements as requirements_of_poetry;
pub use requirements::requirement_lines;
pub use types::{Environment, Package, Tool};

/// A lock in the formats that installers read.
pub mod write {
    pub use super::conda::{
        EXPLICIT_MARK, conda_environment, conda_explicit, environment_name, same_environment,
    };
    pub use super::pixi::{PIXI_LOCK_MARK, PIXI_MARK, Places, pixi, pixi_lock};
    pub use super::pylock::pylock;
    pub use super::requirements::{
        build_constraints, build_requirements, packages, requirements, requirements_to_build,
        same_requirements,
    };
    pub use super::uv::{UV_MARK, uv};
    pub use super::written::*;
}
