//! What `init --from` and `-r` import.

use std::path::Path;

use super::clock;
use super::disk::Disk;
use super::failure::Failure;
use super::settings;
use crate::formats::{self, Context, Imported, Optional};
use crate::model::text::clean;
use crate::registry::Registry;

/// What a file requires, in the terms of the envlock.toml in a folder.
///
/// # Errors
/// When it cannot be read, or lacks an extra or group that is asked for.
pub(crate) fn import(
    file: &Path,
    folder: &Path,
    optional: &Optional,
    registry: &Registry,
) -> Result<Imported, Failure> {
    let alias = settings::conda_channel_alias();
    let context = Context { files: &Disk, now: clock::now(), channel_alias: &alias };
    let mut imported = formats::import(context, file, folder, optional)?;
    // A list that was made for Python 2 names modules that every Python has had for years. Beside those, some do harm.
    let Imported { requirements, left_out, .. } = &mut imported;
    requirements.retain(|(text, user)| match registry.backport(user.name()).filter(|row| !row.is_harmless) {
        Some(row) => {
            let text = clean(text, 60);
            left_out.push(format!("{text} (Python {} and newer have `{}`)", row.python, row.module));
            false
        }
        None => true,
    });
    Ok(imported)
}
