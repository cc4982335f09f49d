//! The cache folder: `--cache-dir`, `ENVLOCK_CACHE_DIR`, else the user's. What others can write to is not used: they
//! could plant answers of an index in it.

use std::path::{Path, PathBuf};

use super::Interface;
use super::failure::Failure;
use super::files::home;
use crate::session::options::Global;
use crate::session::variables;

/// No cache: nothing can be read from it or written to it.
const NONE: &str = "/dev/null";

/// Chooses the folder and puts it into the arguments.
///
/// # Errors
/// A folder that the user names and that others can write to.
pub(crate) fn choose(global: &mut Global, interface: &dyn Interface) -> Result<(), Failure> {
    if let Some(named) = named(global) {
        if let Err(why) = check_all(&named) {
            return Err(Failure::usage(format!("the cache folder `{}` {why}", named.display()))
                .hint("name a folder of your own, or leave out `--cache-dir` and `ENVLOCK_CACHE_DIR`"));
        }
        global.cache_dir = Some(named);
        return Ok(());
    }
    let chosen = match of_user() {
        Some(folder) => check_all(&folder).map(|()| folder.clone()).map_err(|why| {
            interface.warning(&format!("the cache folder `{}` {why}: it is not used", folder.display()));
        }),
        None => private().ok_or(()),
    };
    global.cache_dir = Some(chosen.unwrap_or_else(|()| PathBuf::from(NONE)));
    Ok(())
}

/// For a command that needs no cache: it works whatever the folder is, and reads what is in one that can be trusted.
pub(crate) fn if_trusted(global: &mut Global) {
    let folder = named(global).or_else(of_user).filter(|folder| check_all(folder).is_ok());
    global.cache_dir = Some(folder.unwrap_or_else(|| PathBuf::from(NONE)));
}

/// The folder that the user names.
fn named(global: &mut Global) -> Option<PathBuf> {
    global.cache_dir.take().or_else(|| variables::path("ENVLOCK_CACHE_DIR"))
}

/// The folder among the user's caches.
fn of_user() -> Option<PathBuf> {
    variables::path("XDG_CACHE_HOME")
        // A relative folder is invalid, by the XDG base directory specification.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("envlock"))
        .or_else(|| home().map(|home| home.join(".cache/envlock")))
}

/// Why a folder cannot be trusted; a phrase that follows its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untrusted {
    #[error("belongs to another user")]
    OtherUser,
    #[error("can be written by every user")]
    Everybody,
    #[error("can be written by a group")]
    Group,
}

/// Whether a folder, those above it and those in it can be trusted. Who can write above it puts another one in its place.
fn check_all(folder: &Path) -> Result<(), String> {
    check(folder).map_err(|why| why.to_string())?;
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let real = fs_err::canonicalize(&absolute).unwrap_or_else(|_| absolute.clone());
    for above in
        absolute.ancestors().chain(real.ancestors()).filter(|above| *above != absolute && *above != real)
    {
        check_above(above).map_err(|why| format!("lies in `{}`, which {why}", above.display()))?;
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_file()));
    for inside in folders.map(|entry| entry.path()) {
        check(&inside).map_err(|why| format!("contains `{}`, which {why}", inside.display()))?;
    }
    Ok(())
}

/// Whether nobody else can rename what is in a folder: everybody, unless it has the sticky bit, or another user. root is in
/// containers whose home is another user's.
#[cfg(unix)]
fn check_above(folder: &Path) -> Result<(), Untrusted> {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(metadata) = fs_err::metadata(folder) else { return Ok(()) };
    let (owner, mode, own) = (metadata.uid(), metadata.mode(), rustix::process::geteuid().as_raw());
    if mode & 0o002 != 0 && mode & 0o1000 == 0 {
        return Err(Untrusted::Everybody);
    }
    // As root's files appear in a user namespace.
    const OVERFLOW: u32 = 65534;
    if own != 0 && ![own, 0, OVERFLOW].contains(&owner) { Err(Untrusted::OtherUser) } else { Ok(()) }
}

#[cfg(not(unix))]
fn check_above(_folder: &Path) -> Result<(), Untrusted> {
    Ok(())
}

/// Whether a folder can be trusted, or does not exist yet.
#[cfg(unix)]
pub(crate) fn check(folder: &Path) -> Result<(), Untrusted> {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(metadata) = fs_err::metadata(folder) else { return Ok(()) };
    let (owner, mode) = (metadata.uid(), metadata.mode());
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        return if is_read_only(folder) { Ok(()) } else { Err(Untrusted::OtherUser) };
    }
    if mode & 0o002 != 0 {
        return Err(Untrusted::Everybody);
    }
    // Many systems give each user a group of their own.
    let is_own_group = metadata.gid() == rustix::process::getegid().as_raw();
    if mode & 0o020 != 0 && !is_own_group { Err(Untrusted::Group) } else { Ok(()) }
}

#[cfg(not(unix))]
pub(crate) fn check(_folder: &Path) -> Result<(), Untrusted> {
    Ok(())
}

/// A folder in the system's folder for temporary files that only this user can read.
#[cfg(unix)]
fn private() -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let folder = std::env::temp_dir().join(format!("envlock-{}", rustix::process::geteuid().as_raw()));
    // An error may mean that it exists already; whose it is, is asked next.
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    let metadata = fs_err::symlink_metadata(&folder).ok()?;
    (metadata.is_dir()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & 0o077 == 0)
        .then_some(folder)
}

#[cfg(not(unix))]
fn private() -> Option<PathBuf> {
    Some(std::env::temp_dir().join("envlock"))
}

/// Whether the folder's file system is mounted read-only.
#[cfg(unix)]
fn is_read_only(folder: &Path) -> bool {
    let read_only = rustix::fs::StatVfsMountFlags::RDONLY;
    rustix::fs::statvfs(folder).is_ok_and(|system| system.f_flag.contains(read_only))
}
