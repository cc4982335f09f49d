//! Rows that were read from wheels, kept in a folder so that a wheel is read once.
//!
//! The folder may hold anything: a text counts only where it is the one row of the release that its name states.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use pep440_rs::Version;

use super::row::file_of_release;
use crate::model::platform::Platform;
use crate::model::solution::ChosenPackage;
use crate::registry::{self, Registry, STACK_PACKAGES};

/// Limit on the size of a kept row, in bytes.
const MAX_ROW: u64 = 64 << 10;
/// What is kept for a wheel that was read and has no GPU code.
const NO_CODE: &str = "# no code for GPUs\n";

/// A row, with the file of the registry that it belongs to.
pub type Row = (String, String);

/// The folder of kept rows.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// The place of one release on one platform.
#[derive(Debug, Clone)]
pub struct Place<'r> {
    name: &'r str,
    version: &'r Version,
    platform: Platform,
    path: PathBuf,
}

/// What is kept of a release.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// Its row.
    Row(Row),
    /// Its wheel was read and has no GPU code.
    NoCode,
    /// Nothing, or nothing valid.
    Nothing,
}

impl Store {
    /// A store in a folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Store {
        Store { folder }
    }

    /// The place of a release.
    pub fn place<'r>(&self, name: &'r str, version: &'r Version, platform: Platform) -> Place<'r> {
        let path = self.folder.join(format!("{name}-{version}-{platform}.toml"));
        Place { name, version, platform, path }
    }

    /// The kept rows of locked packages that the registry does not have: a question about a lock is answered with the
    /// data that the lock was made with.
    pub fn rows_of(&self, packages: &[ChosenPackage], platform: Platform, registry: &Registry) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for package in packages {
            let name = package.name.as_str();
            let version = package.version.clone().without_local();
            let is_unknown = match name {
                "torch" => !registry.builds().iter().any(|b| b.version == version && b.platform == platform),
                // Others have a row only where their code was read, or where they belong to torch.
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
    /// Reads it.
    pub fn read(&self) -> Kept {
        match text(&self.path) {
            Some(text) if text == NO_CODE => Kept::NoCode,
            Some(text) if registry::is_row_of(&text, self.name, self.version, self.platform) => {
                Kept::Row((file_of_release(self.name, self.version), text))
            }
            _ => Kept::Nothing,
        }
    }

    /// The row, where there is one.
    pub fn row(&self) -> Option<Row> {
        match self.read() {
            Kept::Row(row) => Some(row),
            Kept::NoCode | Kept::Nothing => None,
        }
    }

    /// Keeps a row, or that the wheel has no GPU code. A failure to write only makes the next run slower.
    pub fn keep(&self, row: Option<&str>) {
        let _ = self.write(row.unwrap_or(NO_CODE));
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs_err::create_dir_all(folder)?;
        // A name of its own, then renamed: a reader sees all of it or nothing.
        let mut file = tempfile::Builder::new().prefix(".envlock-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist(&self.path)?;
        Ok(())
    }
}

fn text(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok().filter(|m| m.is_file() && m.len() <= MAX_ROW)?;
    (metadata.len() > 0).then(|| std::fs::read_to_string(path).ok())?
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
        place.keep(Some(row));
        assert_eq!(place.row(), Some(("companions.toml".to_owned(), row.to_owned())), "{:?}", place.read());
        place.keep(Some(&row.replace("0.0.35", "0.0.36")));
        assert_eq!(place.read(), Kept::Nothing);
        place.keep(Some("not toml ["));
        assert_eq!(place.read(), Kept::Nothing);
        place.keep(None);
        assert_eq!(place.read(), Kept::NoCode);
    }
}
