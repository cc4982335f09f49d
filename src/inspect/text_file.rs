//! Reads text files of an environment, under a limit.

use std::path::Path;

/// The text of a regular file; `None` if it is larger than `limit` bytes or cannot be read. Invalid UTF-8 is replaced.
pub(super) fn text_file(path: &Path, limit: u64) -> Option<String> {
    // Checked before opening: opening a named pipe would block.
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > limit {
        return None;
    }
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
