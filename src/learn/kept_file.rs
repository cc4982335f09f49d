//! The files of the stores: small, written as a whole, and from outside when they are read.

use std::io::Write as _;
use std::path::Path;

/// The text of a file; `None` if there is none, it is empty, larger than `limit` bytes, or no regular file.
pub(super) fn read(path: &Path, limit: u64) -> Option<String> {
    let about = std::fs::metadata(path).ok().filter(|about| about.is_file() && about.len() <= limit)?;
    (about.len() > 0).then(|| std::fs::read_to_string(path).ok())?
}

/// Writes a file into a folder, which is made if need be: to a temporary file that is renamed, so that readers never see a part.
pub(super) fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".envlock-").tempfile_in(folder)?;
    file.write_all(text)?;
    file.persist(path)?;
    Ok(())
}
