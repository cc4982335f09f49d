//! What `sync` is asked and what it answers.

use std::path::PathBuf;

use crate::model::installed::Installed;
use crate::model::wheel::Python;
use crate::session::Interface;
use crate::session::options::Parts;
use crate::sync::Changes;

/// What is to be installed, and where.
#[derive(Debug, Clone, Default)]
pub struct SyncOptions {
    /// The environment's folder, made if it does not exist; else the active environment, or `.venv` beside the lock, `.envlock/env`
    /// for conda packages.
    pub prefix: Option<PathBuf>,
    /// The Python to make the environment with.
    pub python: Option<PathBuf>,
    /// Whether uv installs the locked Python where it is not here.
    pub install_python: bool,
    /// Whether nothing is changed, and the answer is a plan.
    pub dry_run: bool,
    /// Whether packages that are not locked are removed, also from an environment that `sync` did not make.
    pub exact: bool,
    /// Whether packages that exist only as source are built, which runs their code.
    pub build: bool,
    /// Whether the project itself is left out.
    pub no_project: bool,
    /// The target of the lock.
    pub target: Option<String>,
    /// The extras and groups.
    pub parts: Parts,
    /// The URL of the index `pypi`.
    pub index_url: Option<String>,
    /// The bundle that all files come from, without a network.
    pub bundle: Option<PathBuf>,
    /// The public key that must have signed the bundle.
    pub pubkey: Option<PathBuf>,
}

/// What was done, or is to be done.
#[derive(Debug)]
pub enum Outcome {
    /// The environment is as the lock says.
    Synced(Synced),
    /// The answer of a dry run.
    Planned(Plan),
}

/// An environment that is as the lock says.
#[derive(Debug)]
pub struct Synced {
    /// Its folder.
    pub prefix: PathBuf,
    /// The target that was installed.
    pub target: String,
    /// Whether its code may be run without being asked: it was named, is active, or this run made it.
    pub runs_its_code: bool,
    /// What is installed, where that was looked at last and nothing was changed since.
    pub installed: Option<Installed>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// The program that installs; `None` if there is nothing to do.
    pub installer: Option<&'static str>,
    /// The environment's folder.
    pub prefix: PathBuf,
    /// The Python that the environment is made with, if it is.
    pub made_with: Option<MadeWith>,
    /// The commands, in order.
    pub commands: Vec<Vec<String>>,
    /// Whether more commands follow, which are known when these have run.
    pub is_begun: bool,
    /// What they change.
    pub changes: Changes,
    /// What is written before they run, as a phrase.
    pub writes: Option<String>,
}

/// The Python that an environment is made with.
#[derive(Debug)]
pub struct MadeWith {
    /// Its version.
    pub version: Python,
    /// The program.
    pub path: PathBuf,
    /// Whether an environment of the same name is replaced.
    pub again: bool,
}

/// What was done, in numbers: `installed 3`, `removed 1`.
pub(super) fn counted(changes: &Changes) -> Vec<String> {
    let Changes { install, replace, remove, .. } = changes;
    let parts = [("installed", install.len()), ("replaced", replace.len()), ("removed", remove.len())];
    parts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {n}")).collect()
}

/// Names what is removed from an environment whose other packages stay.
pub(super) fn in_the_way(changes: &Changes, interface: &dyn Interface) {
    if !changes.remove.is_empty() {
        let (verb, owns) = if changes.remove.len() == 1 { ("is", "owns") } else { ("are", "own") };
        interface.note(&format!(
            "`{}` {verb} removed: not locked, and {owns} libraries or modules of locked packages with other contents",
            changes.remove.join("`, `")
        ));
    }
}
