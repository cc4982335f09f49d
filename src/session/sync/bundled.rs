//! What `sync --bundle` does before anything else: the bundle is held against the lock, and its files are laid out.

use super::types::SyncOptions;
use crate::lockfile::{Lockfile, Target};
use crate::session::bundle::{OpenBundle, Wheelhouse, lock_of};
use crate::session::failure::Failure;
use crate::session::settings::Project;
use crate::session::{Interface, files, lock, write};

/// Takes the lock out of a bundle, in a folder that has none.
///
/// # Errors
/// When it cannot be read or written.
pub(super) fn take_lock(
    project: &Project,
    bundle: &OpenBundle,
    options: &SyncOptions,
    interface: &dyn Interface,
) -> Result<Lockfile, Failure> {
    if options.dry_run {
        return Err(lock::missing());
    }
    write::write(&project.lock_path(), &lock_of(bundle)?)?;
    interface.note(&format!("wrote {}, which is the bundle's", files::LOCK));
    lock::read(project)?.ok_or_else(lock::missing)
}

/// Refuses a bundle that is not whole, or not this lock's, and lays out the files of a target.
///
/// # Errors
/// The faults of the bundle, with exit code 1; files that cannot be read.
pub(super) fn opened(
    bundle: &OpenBundle,
    (project, own): (&Project, &Lockfile),
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
    let text = fs_err::read(project.lock_path())?;
    bundle.whole((own, &text), &[&target.name])?;
    Wheelhouse::of(bundle, target)
}
