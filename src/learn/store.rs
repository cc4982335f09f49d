//! Stores rows that were read from wheels in a folder, so that each wheel is read once.
//!
//! The folder is untrusted: a file is used only if it contains exactly the row of the release in its name.

use std::path::PathBuf;

use pep440_rs::Version;

use super::kept_file;
use crate::model::index_owner::local_of;
use crate::model::platform::Platform;
use crate::model::solution::ChosenPackage;
use crate::registry::{LearnedRow, Registry, STACK_PACKAGES};

/// Limit on the size of a kept row, in bytes.
const MAX_ROW: u64 = 64 << 10;
/// Content of the file for a wheel without GPU code.
const NO_CODE: &str = "# no code for GPUs\n";

/// The folder with stored rows.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// The stored file of one release on one platform.
#[derive(Debug, Clone)]
pub struct Place<'r> {
    name: &'r str,
    version: &'r Version,
    platform: Platform,
    path: PathBuf,
}

/// What is stored for a release.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// Its row.
    Row(LearnedRow),
    /// Its wheel was read and has no GPU code.
    NoCode,
    /// Nothing valid.
    Nothing,
}

impl Store {
    /// A store in a folder, which may not exist yet.
    pub fn new(folder: PathBuf) -> Store {
        Store { folder }
    }

    /// The stored file of a release.
    pub fn place<'r>(&self, name: &'r str, version: &'r Version, platform: Platform) -> Place<'r> {
        let path = self.folder.join(format!("{name}-{version}-{platform}.toml"));
        Place { name, version, platform, path }
    }

    /// Stored rows of locked packages that the registry does not have, so that queries about a lock use the data with
    /// which it was made.
    pub fn rows_of(
        &self,
        packages: &[ChosenPackage],
        platform: Platform,
        registry: &Registry,
    ) -> Vec<LearnedRow> {
        let mut rows: Vec<LearnedRow> = Vec::new();
        for package in packages {
            let name = package.name.as_str();
            let plain = package.version.clone().without_local();
            // A build of the pytorch index has a row of its own.
            let version = if name == "torch" { package.version.clone() } else { plain.clone() };
            let is_unknown = match name {
                "torch" => !registry.builds().iter().any(|b| {
                    b.version == plain
                        && b.platform == platform
                        && if version.is_local() { b.variant == local_of(&version) } else { b.on_pypi }
                }),
                // Other packages have a row only if their GPU code was read, or if they belong to the torch stack.
                _ if package.targets.is_some() || STACK_PACKAGES.contains(&name) => {
                    !registry.companions().iter().any(|row| row.package == name && row.version == version)
                        && !registry.builds().iter().any(|b| b.companion(name) == Some(&version))
                }
                _ => false,
            };
            if is_unknown
                && let Some(row) = self.place(name, &version, platform).row()
                && !rows.contains(&row)
            {
                rows.push(row);
            }
        }
        rows
    }
}

impl Place<'_> {
    /// Reads the file.
    pub fn read(&self) -> Kept {
        match kept_file::read(&self.path, MAX_ROW) {
            Some(text) if text == NO_CODE => Kept::NoCode,
            Some(text) => match LearnedRow::parse(self.name, text) {
                Ok(row) if row.is_of(self.version, self.platform) => Kept::Row(row),
                // An invalid file is as good as none: the wheel is read again.
                Ok(_) | Err(_) => Kept::Nothing,
            },
            None => Kept::Nothing,
        }
    }

    /// The row, if one is stored.
    pub fn row(&self) -> Option<LearnedRow> {
        match self.read() {
            Kept::Row(row) => Some(row),
            Kept::NoCode | Kept::Nothing => None,
        }
    }

    /// Stores a row, or that the wheel has no GPU code. Write errors are ignored: the next run is only slower.
    pub fn keep(&self, row: Option<&LearnedRow>) {
        let _ = kept_file::write(&self.path, row.map_or(NO_CODE, LearnedRow::text).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_row_of_the_named_release_counts() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("learned"));
        let version: Version = "0.0.35".parse().unwrap();
        let place = store.place("xformers", &version, Platform::LINUX_X86_64);
        assert_eq!(place.read(), Kept::Nothing);
        let row = "[[companion]]\npackage = \"xformers\"\nversion = \"0.0.35\"\n\
                   targets = [\"9.0\"]\nplatform = \"linux-x86_64\"\n\
                   evidence = \"measured\"\nsource = [\"fatbin-scan\"]\n";
        place.keep(Some(&LearnedRow::parse("xformers", row.to_owned()).unwrap()));
        assert_eq!(place.row().unwrap().text(), row, "{:?}", place.read());
        for broken in [row.replace("0.0.35", "0.0.36"), "not toml [".to_owned(), row.repeat(2)] {
            std::fs::write(&place.path, broken).unwrap();
            assert_eq!(place.read(), Kept::Nothing);
        }
        place.keep(None);
        assert_eq!(place.read(), Kept::NoCode);
    }
}
