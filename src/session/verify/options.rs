//! What `verify` is asked.

use std::path::{Path, PathBuf};

use crate::session::options::Parts;

/// The part that is checked alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// Is this machine sound? The driver, its two halves, every GPU; no lock, no environment
    Machine,
    /// Is the environment as locked? Nothing about driver and GPUs
    Environment,
}

/// Where the smoke test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SmokeChoice {
    /// On every GPU, or on the CPU if there is none
    #[default]
    Auto,
    /// On the CPU
    Cpu,
    /// On every GPU
    Cuda,
    /// Do not run it
    Off,
}

/// The machine that a lock is judged for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// This machine, without an environment.
    ThisMachine,
    /// The machine that a host file describes, or those of a folder.
    Described(PathBuf),
}

/// The options of `verify`.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// Environment folder; else the active environment, or the one beside the lock.
    pub prefix: Option<PathBuf>,
    /// Folder with the root file system that the environment lies in.
    pub root: Option<PathBuf>,
    /// A bundle, which is checked in place of an environment.
    pub bundle: Option<PathBuf>,
    /// The public key that must have signed it.
    pub pubkey: Option<PathBuf>,
    /// The machine, if it is not this one with an environment.
    pub host: Option<On>,
    /// Only this is checked.
    pub only: Option<Only>,
    /// Where the smoke test runs.
    pub smoke: SmokeChoice,
    /// Every file is hashed.
    pub deep: bool,
    /// A package that is not locked is an error.
    pub exact: bool,
    /// A missing GPU is an error.
    pub require_gpu: bool,
    /// The lock; else the project's.
    pub lock: Option<PathBuf>,
    /// The target of the lock.
    pub target: Option<String>,
    /// Extras and groups.
    pub parts: Parts,
    /// Whether `prefix` was found, and not named.
    pub is_found: bool,
}

impl VerifyOptions {
    /// The machine that is described; `None` for this machine.
    pub fn described(&self) -> Option<&Path> {
        match &self.host {
            Some(On::Described(path)) => Some(path),
            _ => None,
        }
    }

    /// Whether the question is about this machine, and not about an environment.
    pub fn asks_this_machine(&self) -> bool {
        self.only == Some(Only::Machine) || (self.host == Some(On::ThisMachine) && self.prefix.is_none())
    }
}
