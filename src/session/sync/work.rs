//! What is to be done.

use std::path::{Path, PathBuf};

use super::target_environment::ChosenEnvironment;
use crate::index::locate::Located;
use crate::lockfile::Target;
use crate::session::bundle::Wheelhouse;
use crate::sync::{Changes, Installer, Talk};

/// What is to be done, and with what.
pub(super) struct Work<'w> {
    pub installer: Installer,
    /// The URLs of all indexes, and where the one of `pypi` was found.
    pub addresses: (Vec<(String, String)>, Option<Located>),
    pub talk: Talk,
    pub target: &'w Target,
    pub found: &'w ChosenEnvironment,
    pub changes: &'w Changes,
    /// The project itself, if it is to be installed.
    pub project: Option<PathBuf>,
    /// The variables that the project lets reach the installer besides the usual ones.
    pub passed: &'w [String],
    /// The folder of the lock.
    pub folder: &'w Path,
    /// All files, out of a bundle.
    pub wheelhouse: Option<&'w Wheelhouse>,
}
