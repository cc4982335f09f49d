//! Rows of the registry that `resolve` read out of wheels and kept: `learned/` in the cache.
//!
//! What lies there may be anything; a text counts only where it is the one row of the release that it is named for.

use std::path::{Path, PathBuf};

use pep440_rs::Version;

use super::args::GlobalArgs;
use super::{files, settings};
use crate::learn;
use crate::lockfile::Target;
use crate::model::platform::Platform;
use crate::registry::{self, Registry};
use crate::solver::STACK_PACKAGES;

/// A row that was kept is no larger, in bytes.
const MAX_ROW: u64 = 64 << 10;
/// What is kept of a wheel without code for GPUs.
const NO_CODE: &str = "# no code for GPUs\n";

/// The place of one release on one platform.
pub(super) struct Place<'r> {
    name: &'r str,
    version: &'r Version,
    platform: Platform,
    path: PathBuf,
}

/// What lies there.
#[derive(Debug, PartialEq)]
pub(super) enum Kept {
    /// A row, with the file of the registry that it belongs to.
    Row((String, String)),
    /// That its wheel was read and has no code for GPUs.
    NoCode,
    /// Nothing, or nothing of this release.
    Nothing,
}

impl<'r> Place<'r> {
    /// Where the row of a release is kept.
    pub fn of(global: &GlobalArgs, name: &'r str, version: &'r Version, platform: Platform) -> Place<'r> {
        let folder = settings::cache_dir(global).join("learned");
        Place { name, version, platform, path: folder.join(format!("{name}-{version}-{platform}.toml")) }
    }

    /// Reads it.
    pub fn read(&self) -> Kept {
        match text(&self.path) {
            Some(text) if text == NO_CODE => Kept::NoCode,
            Some(text) if registry::is_row_of(&text, self.name, self.version, self.platform) => {
                Kept::Row((learn::file_of_release(self.name, self.version), text))
            }
            _ => Kept::Nothing,
        }
    }

    /// The row, where there is one.
    pub fn row(&self) -> Option<(String, String)> {
        match self.read() {
            Kept::Row(row) => Some(row),
            Kept::NoCode | Kept::Nothing => None,
        }
    }

    /// Keeps a row, or that there is no code to speak of.
    pub fn keep(&self, row: Option<&str>) {
        if let Some(folder) = self.path.parent()
            && std::fs::create_dir_all(folder).is_ok()
        {
            // That it cannot be kept only makes the next run slower.
            let _ = files::write(&self.path, row.unwrap_or(NO_CODE));
        }
    }
}

fn text(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok().filter(|m| m.is_file() && m.len() <= MAX_ROW)?;
    (metadata.len() > 0).then(|| std::fs::read_to_string(path).ok())?
}

/// The registry with the rows that were kept of what these targets of a lock have and it has not. A question about a
/// lock is answered with what the lock was made with.
pub(super) fn with_rows_of(global: &GlobalArgs, registry: Registry, targets: &[&Target]) -> Registry {
    let mut rows: Vec<(String, String)> = Vec::new();
    for target in targets {
        let platform = target.host.system.platform;
        for package in &target.packages {
            let name = package.name.as_str();
            let version = package.version.clone().without_local();
            let is_unknown = match name {
                "torch" => !registry.builds().iter().any(|b| b.version == version && b.platform == platform),
                // Of others only what was read is in the lock, or what belongs to torch.
                _ if package.targets.is_some() || STACK_PACKAGES.contains(&name) => {
                    !registry.companions().iter().any(|row| row.package == name && row.version == version)
                        && !registry.builds().iter().any(|b| b.companion(name) == Some(&version))
                }
                _ => false,
            };
            if is_unknown
                && let Some(row) = Place::of(global, name, &version, platform).row()
                && !rows.contains(&row)
            {
                rows.push(row);
            }
        }
    }
    if rows.is_empty() {
        return registry;
    }
    registry.with_rows(&rows).unwrap_or(registry)
}
