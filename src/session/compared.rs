//! The two locks of `diff`: files, or the project's lock at a revision of git.

use std::path::Path;

use super::failure::Failure;
use super::files;
use super::options::Global;
use super::settings::Project;
use crate::git::{self, GitError};
use crate::lockfile::{self, Lockfile};
use crate::model::text::clean;

/// The lock before and after; `None` where there was none.
pub(crate) type Compared = (Option<Lockfile>, Option<Lockfile>);

/// Two locks, each named by a file or by a revision; by default that of the last commit and the one in the project's folder.
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
            files::read(&path)?.map(|text| parsed(&text, &path.display().to_string())).transpose()?
        }
    };
    if old.is_none() && new.is_none() {
        return Err(Failure::lock("there is no envlock.lock, neither before nor after").hint(
            "run it in the project's folder, or name two locks: `envlock diff OLD.lock envlock.lock`",
        ));
    }
    Ok((old, new))
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

fn named(global: &Global, name: &Path) -> Result<Option<Lockfile>, Failure> {
    if name.exists() {
        return file(name);
    }
    let project = Project::find(global, true)?;
    let shown = clean(&name.display().to_string(), 200);
    let text = git::file_at(&project.folder, &shown, files::LOCK).map_err(|error| {
        let message = match error {
            GitError::Failed { why, .. } => {
                format!("`{shown}` is neither a file nor a revision of git: {why}")
            }
            GitError::NoGit(_) => {
                format!("`{shown}` is no file, and to read a commit there is no `git` on the PATH")
            }
        };
        Failure::input(message).hint("name two locks: `envlock diff OLD.lock envlock.lock`")
    })?;
    text.map(|text| parsed(&text, &format!("{shown}:{}", files::LOCK))).transpose()
}

fn parsed(text: &str, shown: &str) -> Result<Lockfile, Failure> {
    lockfile::parse(text).map_err(|error| {
        let error = Failure::from(error);
        Failure { message: format!("`{shown}`: {}", error.message), ..error }
    })
}
