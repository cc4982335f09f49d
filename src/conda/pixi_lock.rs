//! The format of pixi.lock that pixi writes now, by the crate that pixi writes it with.

use rattler_lock::LockFile;

use crate::model::text::clean;

/// A pixi.lock that rattler_lock does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rattler_lock does not accept the lock: {0}")]
pub struct InvalidPixiLock(String);

/// A pixi.lock of an older format, in the newest one: format 7, which pixi reads from 0.68 on.
///
/// # Errors
/// When the text is none.
pub fn in_newest_format(text: &str) -> Result<String, InvalidPixiLock> {
    let invalid = |why: String| InvalidPixiLock(clean(&why, 300));
    let lock =
        LockFile::from_str_with_base_directory(text, None).map_err(|error| invalid(error.to_string()))?;
    lock.render_to_string().map_err(|error| invalid(error.to_string()))
}
