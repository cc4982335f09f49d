//! What `init --from` and `-r` import.

use std::path::Path;

use super::clock;
use super::disk::Disk;
use super::failure::Failure;
use super::settings;
use crate::formats::{self, Context, Imported, Optional};

/// What a file requires, in the terms of the envlock.toml in a folder.
///
/// # Errors
/// When it cannot be read, or lacks an extra or group that is asked for.
pub(crate) fn import(file: &Path, folder: &Path, optional: &Optional) -> Result<Imported, Failure> {
    let alias = settings::conda_channel_alias();
    let context = Context { files: &Disk, now: clock::now(), channel_alias: &alias };
    Ok(formats::import(context, file, folder, optional)?)
}
