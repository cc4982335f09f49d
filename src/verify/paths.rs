//! Paths for messages. File names in an environment are untrusted.

use std::path::Path;

use crate::model::text::clean;

/// The last part of a path.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A path, for a message.
pub(super) fn shown(path: &Path) -> String {
    clean(&path.display().to_string(), 200)
}

/// The folder of a file, for a message.
pub(super) fn folder(path: &Path) -> String {
    path.parent().map(shown).unwrap_or_default()
}
