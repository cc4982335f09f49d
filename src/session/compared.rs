//! The two locks of `diff`: files, or the project's lock at a revision of git.

use std::path::Path;

use super::failure::Failure;
use super::options::Global;
use super::settings::{self, Project};
use super::{files, owner};
use crate::git::{self, GitError};
use crate::lockfile::{self, Lockfile};
use crate::model::level::Level;
use crate::model::owner::{Owner, PackageLock};
use crate::model::text::clean;

/// The lock before and after; `None` where there was none.
pub(crate) type Compared = (Option<Lockfile>, Option<Lockfile>);

/// Two locks, each named by a file or by a revision; by default that of the last commit and the one in the project's folder.
/// Where uv holds the packages, they are those of the `uv.lock` of the revision, or of the one beside the file.
///
/// # Errors
/// What is named is neither a file nor a revision, or is no lock.
pub(crate) fn locks(global: &Global, old: Option<&Path>, new: Option<&Path>) -> Result<Compared, Failure> {
    let head = Path::new("HEAD");
    let old = named(global, old.unwrap_or(head))?;
    let new = match new {
        Some(new) => named(global, new)?,
        None => {
            let path = Project::find(global, true)?.lock_path();
            match files::read(&path)? {
                None => None,
                Some(text) => {
                    let lock = parsed(&text, &path.display().to_string())?;
                    let of_tool = files::read(&path.with_file_name(Owner::Uv.file()))?;
                    Some(with_packages(global, lock, of_tool.as_deref())?)
                }
            }
        }
    };
    if old.is_none() && new.is_none() {
        return Err(Failure::lock("there is no envlock.lock, neither before nor after").hint(
            "run it in the project's folder, or name two locks: `envlock diff OLD.lock envlock.lock`",
        ));
    }
    Ok(alike(old, new))
}

/// Whether another tool holds the packages of a lock and they were not read from its lock.
pub(crate) fn is_unread(lock: &Lockfile) -> bool {
    lock.packages_in.is_some() && lock.targets.iter().all(|target| target.level != Level::Full)
}

/// Both with the packages that uv holds, or both without.
fn alike(old: Option<Lockfile>, new: Option<Lockfile>) -> Compared {
    if ![&old, &new].into_iter().flatten().any(is_unread) {
        return (old, new);
    }
    (old.map(without_packages), new.map(without_packages))
}

/// A lock with its stacks alone.
pub(crate) fn without_packages(mut lock: Lockfile) -> Lockfile {
    for target in &mut lock.targets {
        target.packages.clear();
        target.level = Level::Stack;
    }
    lock
}

/// The lock of a file.
///
/// # Errors
/// There is no such file, or it is no lock.
pub(crate) fn file(path: &Path) -> Result<Option<Lockfile>, Failure> {
    // git passes this for a missing file.
    if path == Path::new("/dev/null") {
        return Ok(None);
    }
    let shown = clean(&path.display().to_string(), 200);
    let text = files::read(path)?.ok_or_else(|| Failure::input(format!("`{shown}` does not exist")))?;
    parsed(&text, &shown).map(Some)
}

/// The lock of a file, or of a revision of git; `None` where the revision has none.
///
/// # Errors
/// The name is neither a file nor a revision, or is of no lock.
pub(crate) fn named(global: &Global, name: &Path) -> Result<Option<Lockfile>, Failure> {
    if name.exists() {
        let Some(lock) = file(name)? else { return Ok(None) };
        // Another lock of uv than the one that it was made beside says nothing of it.
        let of_tool = files::read(&name.with_file_name(Owner::Uv.file()))?;
        let is_its_own = |text: &String| lock.packages_in == Some(PackageLock::of(Owner::Uv, text));
        return with_packages(global, lock.clone(), of_tool.filter(is_its_own).as_deref()).map(Some);
    }
    let project = Project::find(global, true)?;
    let shown = clean(&name.display().to_string(), 200);
    let at_revision = |file: &str| {
        git::file_at(&project.folder, &shown, file).map_err(|error| {
            let message = match error {
                GitError::Failed { why, .. } => {
                    format!("`{shown}` is neither a file nor a revision of git: {why}")
                }
                other @ GitError::Submodules { .. } => other.to_string(),
                GitError::NoGit(_) => {
                    format!("`{shown}` is no file, and to read a commit there is no `git` on the PATH")
                }
            };
            Failure::input(message).hint("name two locks: `envlock diff OLD.lock envlock.lock`")
        })
    };
    let Some(text) = at_revision(files::LOCK)? else { return Ok(None) };
    let lock = parsed(&text, &format!("{shown}:{}", files::LOCK))?;
    let of_tool = at_revision(Owner::Uv.file())?;
    with_packages(global, lock, of_tool.as_deref()).map(Some)
}

/// A lock with the packages that uv's lock of the same time holds for it.
fn with_packages(global: &Global, lock: Lockfile, of_tool: Option<&str>) -> Result<Lockfile, Failure> {
    let is_of_uv = lock.packages_in.as_ref().is_some_and(|held| held.owner == Owner::Uv);
    let Some(text) = of_tool.filter(|_| is_of_uv) else { return Ok(lock) };
    let registry = settings::registry_here(global)?;
    let current = owner::parsed(Owner::Uv.file().into(), Owner::Uv, text)?;
    Ok(owner::filled(lock, &current, &registry))
}

fn parsed(text: &str, shown: &str) -> Result<Lockfile, Failure> {
    lockfile::parse(text).map_err(|error| {
        let error = Failure::from(error);
        Failure { message: format!("`{shown}`: {}", error.message), ..error }
    })
}
