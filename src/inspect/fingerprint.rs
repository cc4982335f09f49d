//! Fingerprints of files and folders, to detect changes without reading them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// File timestamps may lag behind the clock by up to two kernel ticks.
const CLOCK_STEP: Duration = Duration::from_millis(50);

/// Size, mtime and ctime (in ns since 1970) and inode of files and folders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// By path; `None` if the file does not exist.
    files: BTreeMap<PathBuf, Option<Look>>,
}

/// Size, mtime, ctime and inode of a file.
type Look = (u64, i128, i128, u64);

impl Fingerprint {
    /// The current fingerprint of files.
    pub fn of(paths: impl IntoIterator<Item = PathBuf>) -> Fingerprint {
        let files = paths.into_iter().map(|path| (path.clone(), look(&path))).collect();
        Fingerprint { files }
    }

    /// Whether no file changed since the fingerprint was taken.
    pub fn holds(&self) -> bool {
        self.files.iter().all(|(path, then)| look(path) == *then)
    }

    /// Whether the fingerprint includes a path.
    pub fn includes(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// Whether a file was changed at or after `moment`. Ignores `/proc` and `/sys`, whose timestamps are meaningless.
    pub fn changed_since(&self, moment: SystemTime) -> bool {
        let since_1970 = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let moment = i128::try_from(since_1970.saturating_sub(CLOCK_STEP).as_nanos()).unwrap_or(i128::MAX);
        let stamped = self.files.iter().filter(|(path, _)| !is_of_kernel(path));
        stamped.filter_map(|(_, look)| *look).any(|(_, modified, changed, _)| modified.max(changed) >= moment)
    }
}

/// Whether the kernel generates the file's content on read.
fn is_of_kernel(path: &Path) -> bool {
    path.starts_with("/sys") || path.starts_with("/proc")
}

fn look(path: &Path) -> Option<Look> {
    let metadata = std::fs::metadata(path).ok()?;
    // Its timestamps are meaningless: compare the content.
    if is_of_kernel(path) {
        let text = std::fs::read(path).unwrap_or_default();
        let digest = Sha256::digest(&text);
        return Some((text.len() as u64, i128::from(i64::from_be_bytes(*digest.first_chunk()?)), 0, 0));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let time = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        // Unlike mtime, ctime cannot be set back by a copy that preserves times.
        Some((
            metadata.len(),
            time(metadata.mtime(), metadata.mtime_nsec()),
            time(metadata.ctime(), metadata.ctime_nsec()),
            metadata.ino(),
        ))
    }
    #[cfg(not(unix))]
    {
        let time = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some((metadata.len(), i128::try_from(time.as_nanos()).ok()?, 0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_seen_and_dated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libcudnn.so.9");
        let begun = SystemTime::now();
        std::fs::write(&file, "as installed").unwrap();
        let absent = folder.path().join("absent");
        let paths = [file.clone(), PathBuf::from("/proc/sys/kernel/hostname"), absent.clone()];
        let print = Fingerprint::of(paths);
        assert!(print.holds());
        assert!(print.includes(&absent));
        assert!(print.changed_since(begun));
        assert!(!print.changed_since(begun + Duration::from_secs(60)));
        std::fs::write(&absent, "appeared").unwrap();
        assert!(!print.holds());
    }
}
