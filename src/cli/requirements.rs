//! Requirements files as the request of a folder without a manifest: those of `resolve -r`, and afterwards those that the lock was
//! made from, which its first line names.

use std::path::{Component, Path, PathBuf};

use super::error::CliError;
use super::files;
use super::import::{self, Imported, Optional, manifest_text};
use super::manifest;
use super::printer::Printer;
use super::settings::{self, Project};
use crate::lockfile::{self, Lockfile};
use crate::model::text::shell_word;
use crate::registry::Registry;

/// A project whose manifest is the files' content. Nothing of it is written: the lock holds the request. `packages`: what is
/// asked for besides. `printer`: what is left out of the files is told, if there is one.
///
/// # Errors
/// When there is a manifest, or a file cannot be read.
pub(super) fn project(
    project: Project,
    (files, packages): (&[PathBuf], &[String]),
    printer: Option<&Printer>,
) -> Result<Project, CliError> {
    let Some(first) = files.first() else { return Ok(project) };
    if project.manifest.is_some() {
        return Err(CliError::usage("`-r` cannot be given if there is an envlock.toml").hint(format!(
            "import the file instead: `envlock init --force --from {}`, which keeps the other tables",
            shell_word(&first.display().to_string())
        )));
    }
    let mut all = Imported { folder: project.folder.clone(), ..Imported::default() };
    for file in files {
        let one = import::read(file, &project.folder, &Optional::default())?;
        all.join(one);
    }
    for text in packages {
        all.requirements.push((text.clone(), settings::requirement(text)?));
    }
    if let Some(printer) = printer {
        manifest_text::warn(&all, printer);
    }
    let text = manifest_text::of(all, &project.folder, &manifest_text::Own::default());
    let name = first.file_name().map_or(PathBuf::new(), PathBuf::from).display().to_string();
    let manifest = manifest::parse(&text, &name)?;
    // With more than the files, they do not state the request.
    let is_all = packages.is_empty();
    Ok(Project { manifest: Some(manifest), reads: files.to_vec(), is_all_read: is_all, ..project })
}

/// The files that the lock of a folder without a manifest was made from, where all of them are still there.
pub(super) fn remembered(folder: &Path) -> Vec<PathBuf> {
    if files::manifest_in(folder).is_some() {
        return Vec::new();
    }
    let text = files::read(&folder.join(files::LOCK)).ok().flatten().unwrap_or_default();
    let names = lockfile::stated_in(&text).unwrap_or_default();
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let paths: Vec<PathBuf> = names.split(" and ").map(|name| folder.join(name)).collect();
    // What a lock names is read only in its folder, and only if it is such a file.
    let is_list = |path: &PathBuf| {
        let inside = path.strip_prefix(&folder).is_ok_and(|own| own.components().all(is_plain));
        inside && path.extension().is_some_and(|own| own == "txt" || own == "in") && path.is_file()
    };
    if !paths.iter().all(is_list) {
        return Vec::new();
    }
    // As a person in this folder names them.
    let here = std::env::current_dir().unwrap_or_default();
    let shown = |path: PathBuf| path.strip_prefix(&here).map(Path::to_path_buf).unwrap_or(path);
    paths.into_iter().map(shown).collect()
}

fn is_plain(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(_))
}

/// Where the request of a project is stated: `pyproject.toml`, `requirements.txt`; `the request` if it is on the command line.
pub(super) fn stated_in(project: &Project) -> String {
    let of_files = match project.is_all_read {
        true => names_in(&project.folder, &project.reads),
        false => None,
    };
    match (of_files, &project.manifest) {
        (Some(names), _) => names,
        (None, Some(_)) if project.reads.is_empty() => project.manifest_name().to_owned(),
        (None, _) => "the request".to_owned(),
    }
}

/// The names of files in a folder, for the first line of a lock; `None` if one is elsewhere.
pub(super) fn names_in(folder: &Path, files: &[PathBuf]) -> Option<String> {
    let folder = std::path::absolute(folder).ok()?;
    let name = |file: &PathBuf| {
        let path = std::path::absolute(file).ok()?;
        let own = path.strip_prefix(&folder).ok()?;
        let shown = own.to_str()?.to_owned();
        let is_name = !shown.contains(" and ") && !shown.contains(char::is_control) && shown.len() <= 100;
        (is_name && own.components().all(is_plain)).then_some(shown)
    };
    Some(files.iter().map(name).collect::<Option<Vec<String>>>()?.join(" and "))
}

/// The first difference between a lock and what files ask for; `None` if there is none. The error: they cannot be read.
pub(super) fn difference(
    folder: &Path,
    files: &[PathBuf],
    (lock, registry): (&Lockfile, &Registry),
) -> Result<Option<String>, CliError> {
    let empty =
        Project { folder: folder.to_path_buf(), manifest: None, reads: Vec::new(), is_all_read: false };
    let Some(manifest) = project(empty, (files, &[]), None)?.manifest else { return Ok(None) };
    let before = lockfile::read_request(&lock.request)?;
    let (request, _) = manifest.request.keeping_options_of(&before);
    Ok(lockfile::stale(lock, &request, registry).first().map(ToString::to_string))
}
