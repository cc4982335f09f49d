//! What `sync --bundle` does before anything else: the bundle is held against the lock, and its files are laid out.

use std::path::PathBuf;

use super::target_environment;
use super::types::SyncOptions;
use crate::lockfile::{Lockfile, Target};
use crate::probe::pythons;
use crate::session::bundle::{OpenBundle, Wheelhouse, unpacked_python};
use crate::session::failure::Failure;
use crate::session::settings::Project;
use crate::session::{Interface, files, write};

/// Refuses a bundle that is not whole, or not this lock's, and lays out the files of a target. `of_bundle`: the text of the lock,
/// where it is the bundle's: a folder without one gets it, once the bundle is known to be whole.
///
/// # Errors
/// The faults of the bundle, with exit code 1; files that cannot be read.
pub(super) fn opened(
    bundle: &OpenBundle,
    project: &Project,
    (own, of_bundle): (&Lockfile, Option<&[u8]>),
    target: &Target,
    (options, interface): (&SyncOptions, &dyn Interface),
) -> Result<Wheelhouse, Failure> {
    if let Some(held) = &own.packages_in {
        return Err(Failure::usage(format!(
            "`{}` holds the packages, and a bundle has none of them",
            held.owner.file()
        ))
        .hint("leave out `--bundle`"));
    }
    if let Some(name) = project.package().filter(|_| !options.no_project) {
        interface.note(&format!(
            "`{name}`, the project itself, is not installed: its build requires what no bundle has"
        ));
    }
    let text = match of_bundle {
        Some(text) => text.to_vec(),
        None => fs_err::read(project.lock_path())?,
    };
    bundle.whole((own, &text), &[&target.name])?;
    if of_bundle.is_some() && !options.dry_run {
        write::write_bytes(&project.lock_path(), &text)?;
        interface.note(&format!("wrote {}, which is the bundle's", files::LOCK));
    }
    Wheelhouse::of(bundle, target, &project.folder)
}

/// The bundle's Python for a new environment, unpacked; where nothing is to be changed, the archive. `None` if the bundle has none, or
/// the environment has a Python that is locked.
///
/// # Errors
/// When it cannot be unpacked.
pub(super) fn python(
    own: &Wheelhouse,
    target: &Target,
    options: &SyncOptions,
    project: &Project,
) -> Result<Option<PathBuf>, Failure> {
    let Some((archive, file)) = &own.python else { return Ok(None) };
    let prefix = target_environment::chosen(options, project, false)?.prefix;
    let there = pythons::who(&pythons::interpreter(&prefix));
    if there.is_some_and(|there| target.wanted_python().allows(there.version)) {
        return Ok(None);
    }
    if options.dry_run {
        return Ok(Some(archive.clone()));
    }
    unpacked_python(archive, &file.sha256, &file.name).map(Some)
}
