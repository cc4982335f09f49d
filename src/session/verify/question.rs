//! What an environment is checked against, and how.

use std::path::Path;

use super::place::Place;
use crate::formats::ForeignLock;
use crate::lockfile::Lockfile;
use crate::model::installed::Installed;
use crate::model::text::shell_word;
use crate::session::options::Parts;
use crate::session::settings::Project;

/// What to check.
pub(crate) struct Question<'q> {
    /// The file system that the environment lies in.
    pub place: &'q Place<'q>,
    pub prefix: &'q Path,
    /// What was just read of the environment, with the sizes of its files.
    pub read: Option<&'q Installed>,
    /// A host file that describes another machine than this one.
    pub host: Option<&'q Path>,
    pub target: Option<&'q str>,
    /// Every file is hashed.
    pub deep: bool,
    pub require_gpu: bool,
    /// The extras and groups that must be installed of what another tool holds.
    pub parts: Option<&'q Parts>,
    /// Driver and GPUs play no part.
    pub without_machine: bool,
    /// A package that is not locked is an error.
    pub exact: bool,
    /// Why the lock is not that of the manifest.
    pub stale: Option<&'q str>,
}

impl Question<'_> {
    /// The target and the parts as options of a command about the same.
    pub fn options(&self) -> String {
        let target = self.target.map(|name| format!(" --target {}", shell_word(name))).unwrap_or_default();
        format!("{target}{}", self.parts.map(Parts::options).unwrap_or_default())
    }
}

/// What an environment and a machine are held against.
#[derive(Clone, Copy)]
pub(crate) enum Against<'l> {
    /// Only against each other.
    Nothing,
    Lock(&'l Lockfile),
    /// Another tool's lock, with its path.
    Foreign(&'l ForeignLock, &'l Path),
}

impl<'l> From<Option<&'l Lockfile>> for Against<'l> {
    fn from(lock: Option<&'l Lockfile>) -> Against<'l> {
        lock.map_or(Against::Nothing, Against::Lock)
    }
}

/// The GPUs that the manifest ignores.
pub(crate) fn ignored(project: &Project) -> Vec<String> {
    project.manifest.as_ref().map(|m| m.request.ignored_gpus.clone()).unwrap_or_default()
}
