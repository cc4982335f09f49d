//! How much is in the disk cache, and what of it nobody reads any more.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::cache::Cache;

/// What was not written or confirmed for this time is pruned. A page is written again whenever its server confirms it.
const KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Files and their size.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Their number.
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Cache {
    /// What is in the cache, that of other versions too.
    ///
    /// # Errors
    /// A folder of it cannot be read.
    pub fn amount(&self) -> std::io::Result<Amount> {
        let mut amount = Amount::default();
        each_file(self.folder(), &mut |_, metadata| {
            amount.files += 1;
            amount.bytes += metadata.len();
            Ok(())
        })?;
        Ok(amount)
    }

    /// Removes what other versions of the layout wrote, and what is older than 90 days; what it removed.
    ///
    /// # Errors
    /// A folder of it cannot be read, or a file cannot be removed.
    pub fn prune(&self) -> std::io::Result<Amount> {
        let mut removed = Amount::default();
        let now = SystemTime::now();
        each_file(self.folder(), &mut |path, metadata| {
            let age = metadata.modified().ok().and_then(|written| now.duration_since(written).ok());
            if self.is_of_this_layout(path) && age.is_none_or(|age| age < KEPT) {
                return Ok(());
            }
            match fs_err::remove_file(path) {
                // Another process was faster.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            removed.files += 1;
            removed.bytes += metadata.len();
            Ok(())
        })?;
        Ok(removed)
    }
}

/// Calls for each file below a folder; links are not followed. A folder that is not there has none.
fn each_file(
    folder: &Path,
    call: &mut dyn FnMut(&Path, &std::fs::Metadata) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let entries = match fs_err::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        match metadata.is_dir() {
            true => each_file(&entry.path(), call)?,
            false => call(&entry.path(), &metadata)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_layouts_and_old_entries_go() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        assert_eq!(cache.amount().unwrap(), Amount::default());
        let root = cache.folder();
        let write = |name: &str, days: u64| {
            let path = root.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(&path, "12345").unwrap();
            let file = fs_err::File::options().write(true).open(&path).unwrap();
            let written = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
            file.file().set_modified(written).unwrap();
            path
        };
        let own = |name: &str| format!("{}/{name}", Cache::LAYOUT);
        let kept = write(&own("pages/a"), 1);
        let gone = [write(&own("pages/b"), 91), write("v1/pages/a", 1), write("v1/sources/7/a", 1)];
        assert_eq!(cache.amount().unwrap(), Amount { files: 4, bytes: 20 });
        assert_eq!(cache.prune().unwrap(), Amount { files: 3, bytes: 15 });
        assert!(kept.exists() && gone.iter().all(|path| !path.exists()));
    }
}
