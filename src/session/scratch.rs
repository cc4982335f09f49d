//! Folders for what a command needs only while it runs. They are removed at its end, also where a signal ends it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::signals;
use crate::model::text::clean;

/// A folder of this run.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes a folder `envlock-PURPOSE-...` below `TMPDIR`.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn new(purpose: &str) -> Result<Scratch, Failure> {
        let prefix = format!("envlock-{purpose}-");
        let make = || Ok(tempfile::Builder::new().prefix(&prefix).tempdir()?.keep());
        let folder = signals::with_folder(make).map_err(|error| failed(&std::env::temp_dir(), &error))?;
        Ok(Scratch { folder })
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The error of what could not be written into it.
    pub fn failed(&self, error: &std::io::Error) -> Failure {
        failed(self.path(), error)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        signals::remove_folder(&self.folder);
    }
}

/// The error of a folder for temporary files, with its place: fs-err's message names the file in it.
fn failed(folder: &Path, error: &std::io::Error) -> Failure {
    let folder = clean(&folder.display().to_string(), 200);
    let why = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "no space is left".to_owned(),
        _ => error.to_string(),
    };
    Failure::files(format!("`{folder}`, for temporary files, cannot be written: {why}")).hint(INSTEAD)
}

/// What helps where the folder for temporary files cannot be used.
pub(super) const INSTEAD: &str =
    "name a folder on a disk with room, whose programs may run: `mkdir -p ~/tmp && export TMPDIR=~/tmp`";

/// Whether a program lies in the folder for temporary files, where a system may let none run (`noexec`).
pub(super) fn has(program: &Path) -> bool {
    program.starts_with(std::env::temp_dir())
}
