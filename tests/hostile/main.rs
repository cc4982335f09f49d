//! Attempts from outside, and what has to happen instead: README.md lists them.

#[path = "../common/mod.rs"]
mod common;
mod files;
mod forged;
mod full_disk;
#[cfg(unix)]
mod handed_on;
mod images;
#[cfg(unix)]
mod installed;
#[cfg(unix)]
mod installers;
#[cfg(unix)]
mod killed;
mod limits;
#[cfg(unix)]
mod outside;
mod parsers;

use common::{context, tools, wheels};
