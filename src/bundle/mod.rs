//! A bundle: everything that a lock's targets need, in a folder, for machines without a network.
//!
//! `bundle.toml` lists the files ([`Manifest`]); each lies in `files/HASH/NAME`, so that a file of several targets is there once
//! and another release never takes its place. The lock's digest anchors the packages: a bundle is held against the lock that is
//! here ([`check`]), whose hashes are those of the packages. What the lock does not state, the installer above all, has its hash in
//! the manifest alone, which a signature can cover.

mod check;
mod manifest;
mod wanted;

pub use check::{Content, Fault, There, check};
pub use manifest::{BundledFile, MANIFEST, Manifest, ManifestError, Role, SIGNATURE, is_hash};
pub use wanted::{Commit, From, Needs, NotBundled, Wanted, commits, from_one_folder, is_source, is_wheel_of};

/// The folder of the files.
pub const FILES: &str = "files";

/// The copy of the lock.
pub const LOCK: &str = "envlock.lock";
