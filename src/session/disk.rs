//! The files beside those of other tools, as they are on disk.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::files;
use crate::formats::{Files, ImportError};
use crate::model::metadata::SourceRequirements;
use crate::sdist::{self, Contents};

/// The files on this machine.
pub(crate) struct Disk;

impl Files for Disk {
    fn bytes(&self, file: &Path) -> Result<Option<Vec<u8>>, ImportError> {
        files::read_bytes(file)
            .map_err(|failure| ImportError { hint: failure.hint, ..ImportError::input(failure.message) })
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn folders_in(&self, folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }

    fn requirements_of(&self, folder: &Path) -> Result<SourceRequirements, String> {
        let contents = Contents::of_folder(folder).map_err(|error| error.to_string())?;
        sdist::stated(&contents)
    }

    fn name_of(&self, folder: &Path) -> Result<String, String> {
        let contents = Contents::of_folder(folder).map_err(|error| error.to_string())?;
        sdist::name(&contents).ok_or_else(|| "its name is not stated".to_owned())
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        let failure = match error.is_usage {
            true => Failure::usage(error.message),
            false => Failure::input(error.message),
        };
        Failure { hint: error.hint, ..failure }
    }
}
