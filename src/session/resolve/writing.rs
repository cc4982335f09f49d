//! Writes the lock, its conda environment files and a changed manifest together.

use std::path::PathBuf;

use crate::formats;
use crate::lockfile::{self, Lockfile};
use crate::session::Interface;
use crate::session::failure::Failure;
use crate::session::options::SolveOptions;
use crate::session::settings::{self, Project};
use crate::session::{files, project_lock, requirements, write};

/// A manifest to write if there is a solution.
pub(crate) struct NewManifest {
    /// Its path.
    pub path: PathBuf,
    /// The text that was read and changed.
    pub before: String,
    /// The text to write.
    pub after: String,
}

/// The environment files to write: those that are not there, or that envlock wrote. Of another one a note says that it is left
/// alone.
///
/// # Errors
/// One cannot be a file.
pub(super) fn own_environments(
    project: &Project,
    files: impl Iterator<Item = String>,
    options: &SolveOptions,
    interface: &dyn Interface,
) -> Result<Vec<Option<String>>, Failure> {
    let own = |name: String| {
        let path = project.folder.join(&name);
        if files::is_own(&path, formats::write::ENVIRONMENT_MARK, options.force)? {
            return Ok(Some(name));
        }
        if !options.dry_run {
            interface.note(&format!(
                "`{name}` was not written by envlock and stays as it is; `--force` replaces it, and \
                 `[export] environment-yml = false` drops this note"
            ));
        }
        Ok(None)
    };
    files.map(own).collect()
}

/// Writes the manifest if it changed, the lock and, for a full lock, the conda environment files: all or none, as
/// far as the file system allows (see [`write::write_all`]). A lock with the same answer keeps its bytes, even if
/// another version of envlock wrote it. Returns the names of the lock and its environment files, and of those that changed.
pub(crate) fn write(
    project: &Project,
    lock: &Lockfile,
    environments: &[Option<String>],
    manifest: Option<NewManifest>,
    args: &SolveOptions,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let there = files::read(&project.folder.join(files::LOCK)).ok().flatten();
    let kept = there.filter(|text| lockfile::parse(text).is_ok_and(|old| lockfile::same_answer(&old, lock)));
    let (addresses, _) = settings::indexes(project, args.index_url.as_deref());
    let mut texts = Vec::new();
    for (file, target) in environments.iter().zip(&lock.targets) {
        let Some(file) = file else { continue };
        let name = project_lock::environment_name(project, lock, target);
        let text = formats::write::conda_environment(target, &name, &addresses, false)?;
        // A name that the folder gives is not that of another clone.
        let is_named = project.manifest.as_ref().is_some_and(|manifest| manifest.name.is_some());
        let there = files::read(&project.folder.join(file)).ok().flatten();
        let there = there.filter(|there| !is_named && formats::write::same_environment(there, &text));
        texts.push((file.clone(), there.unwrap_or(text)));
    }
    let lock_text = match kept {
        Some(text) => text,
        None => {
            let text = lockfile::render(lock, &requirements::stated_in(project));
            // What an index states is refused here, before every other command refuses the lock.
            lockfile::parse(&text).map_err(|error| {
                Failure::input(format!("the answer cannot be written as a lock that can be read: {error}"))
                    .hint(
                        "name another version of that package, or another index; the files are as they were",
                    )
            })?;
            text
        }
    };
    let written: Vec<String> =
        std::iter::once(files::LOCK.to_owned()).chain(environments.iter().flatten().cloned()).collect();
    // The lock last: `--locked` compares manifest and environment files with it.
    texts.push((files::LOCK.to_owned(), lock_text));
    let ours = texts.into_iter().map(|(name, text)| (project.folder.join(name), text));
    if let Some(manifest) = &manifest
        && files::read(&manifest.path)?.as_deref() != Some(manifest.before.as_str())
    {
        let name = manifest.path.display();
        return Err(Failure::files(format!("`{name}` was changed while the packages were resolved"))
            .hint("nothing was changed; run the command again"));
    }
    // An unchanged file is not rewritten, because build tools compare modification times.
    let changed: Vec<_> = manifest
        .map(|manifest| (manifest.path, manifest.after))
        .into_iter()
        .chain(ours)
        .filter(|(path, text)| files::read(path).ok().flatten().as_deref() != Some(text.as_str()))
        .collect();
    write::write_all(&changed)?;
    let is_changed = |name: &&String| changed.iter().any(|(path, _)| *path == project.folder.join(name));
    let changed = written.iter().filter(is_changed).cloned().collect();
    Ok((written, changed))
}

/// Reports the environment files of removed targets, and those of a project that has none any more. They are not deleted.
pub(crate) fn report_stale_environment_files(
    project: &Project,
    old: Option<&Lockfile>,
    written: &[String],
    interface: &dyn Interface,
) {
    if written.is_empty() {
        return;
    }
    let before = old.iter().flat_map(|lock| lock.targets.iter().enumerate());
    let are_written = super::writes_environments(project);
    for file in before.map(|(i, target)| project_lock::environment_file(i == 0, &target.name)) {
        let path = project.folder.join(&file);
        let is_ours = || files::is_own(&path, formats::write::ENVIRONMENT_MARK, false).is_ok_and(|own| own);
        if !are_written && path.is_file() && is_ours() {
            interface.note(&format!("`{file}` is of an earlier lock and is not written any more; delete it"));
        } else if are_written && !written.contains(&file) && path.is_file() && file != files::ENVIRONMENT {
            // Its target is gone, or has become the first, whose file is environment.yml.
            interface
                .note(&format!("`{file}` is stale: its target was removed or is now the first; delete it"));
        }
    }
}
