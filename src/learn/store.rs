//! Stores rows that were read from wheels in a folder, so that each wheel is read once.
//!
//! The folder is untrusted: a file is used only if it contains exactly the row of the release in its name.

use std::path::PathBuf;

use pep440_rs::Version;

use super::kept_file;
use crate::model::index_owner::local_of;
use crate::model::platform::Platform;
use crate::registry::{LearnedRow, Registry};

/// Limit on the size of a kept row, in bytes.
const MAX_ROW: u64 = 64 << 10;
/// Limit on the number of files that are looked at.
const MAX_ROWS: usize = 10_000;
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

    /// Stored rows, which the registry does not have, of the packages that are asked for: the data with which a lock of them
    /// was made, or would be.
    pub fn rows_of(&self, is_asked: &dyn Fn(&str) -> bool, registry: &Registry) -> Vec<LearnedRow> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let names = entries.flatten().take(MAX_ROWS).filter_map(|entry| entry.file_name().into_string().ok());
        let row = |file: String| {
            let (name, version, platform) = release_of(&file)?;
            (is_asked(name) && is_unknown(name, &version, platform, registry))
                .then(|| self.place(name, &version, platform).row())?
        };
        names.filter_map(row).collect()
    }
}

/// The release in the name of a stored file: `flash-attn-2.8.3-linux-x86_64.toml`.
fn release_of(file: &str) -> Option<(&str, Version, Platform)> {
    let (rest, arch) = file.strip_suffix(".toml")?.rsplit_once('-')?;
    let (release, os) = rest.rsplit_once('-')?;
    let (name, version) = release.rsplit_once('-')?;
    Some((name, version.parse().ok()?, format!("{os}-{arch}").parse().ok()?))
}

/// Whether no row of the registry has the data of a release: none is about it, or it lacks the code of a CUDA build.
fn is_unknown(name: &str, version: &Version, platform: Platform, registry: &Registry) -> bool {
    let plain = version.clone().without_local();
    match name {
        // A build of the pytorch index has a row of its own.
        "torch" => !registry.builds().iter().any(|b| {
            b.version == plain
                && b.platform == platform
                && (b.targets.is_some() || b.cuda.is_none())
                && if version.is_local() { b.variant == local_of(version) } else { b.on_pypi }
        }),
        _ if registry.is_unread_framework(name, &plain, platform) => true,
        _ => {
            !registry.companions().iter().any(|row| row.package == name && row.version == *version)
                && !registry.builds().iter().any(|b| b.companion(name) == Some(version))
        }
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
        let _ = self.write(row.map_or(NO_CODE, LearnedRow::text));
    }

    /// Stores a row for other commands.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn share(&self, row: &LearnedRow) -> std::io::Result<()> {
        self.write(row.text())
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        kept_file::write(&self.path, text.as_bytes())
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

    /// What the registry says of a build stands, unless it lacks its GPU code.
    #[test]
    fn rows_join_where_the_registry_lacks_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let registry = crate::registry::frozen();
        let arm: Platform = "linux-aarch64".parse().unwrap();
        for (version, variant, platform) in [
            ("2.9.1+cu128", "cu128", arm),
            ("2.9.1+cu128", "cu128", Platform::LINUX_X86_64),
            ("2.99.0+cu128", "cu128", arm),
        ] {
            let version: Version = version.parse().unwrap();
            let plain = version.clone().without_local();
            let row = format!(
                "[[build]]\nversion = \"{plain}\"\nvariant = \"{variant}\"\nplatform = \"{platform}\"\n\
                 index = \"pytorch\"\ncuda = \"12.8\"\ntargets = [\"9.0\"]\ntargets_evidence = \"measured\"\n\
                 evidence = \"measured\"\nsource = [\"learned-wheel\"]\n"
            );
            let row = LearnedRow::parse("torch", row).unwrap();
            store.place("torch", &version, platform).keep(Some(&row));
        }
        std::fs::write(folder.path().join("torch-linux-x86_64.toml"), "").unwrap();
        let rows = store.rows_of(&|name| name == "torch", &registry);
        let mut joined: Vec<String> = rows.iter().map(|row| row.torch().unwrap().to_string()).collect();
        joined.sort();
        assert_eq!(joined, ["2.9.1", "2.99.0"]);
        assert!(store.rows_of(&|_| false, &registry).is_empty());
        let more = registry.with_rows(&rows);
        let version = "2.9.1".parse().unwrap();
        let build = |registry: &Registry| registry.build(&version, "cu128", arm).unwrap().clone();
        let (before, after) = (build(&registry), build(&more));
        assert!(before.targets.is_none() && after.targets.is_some());
        assert!(after.torchvision.is_some() && after.torchvision == before.torchvision);
    }
}
