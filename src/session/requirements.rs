//! Requirements files as the request of a folder without a manifest: those of `resolve -r`, and afterwards those that the lock was
//! made from, which its first line names.

use std::path::{Component, Path, PathBuf};

use super::Interface;
use super::failure::Failure;
use super::files;
use super::importing::import;
use super::manifest;
use super::manifest_text;
use super::settings::{self, Project};
use crate::formats::{Imported, Optional};
use crate::lockfile::{self, Lockfile};
use crate::model::request::{Request, UserRequirement};
use crate::model::text::{is_line, shell_word};
use crate::registry::Registry;

/// A project whose manifest is the files' content. Nothing of it is written: the lock holds the request. `packages`: what is
/// asked for besides. `interface`: what is left out of the files is told, if there is one.
///
/// # Errors
/// When there is a manifest, or a file cannot be read.
pub(crate) fn project(
    project: Project,
    (files, packages): (&[PathBuf], &[String]),
    registry: &Registry,
    interface: Option<&dyn Interface>,
) -> Result<Project, Failure> {
    let Some(first) = files.first() else { return Ok(project) };
    if project.manifest.is_some() {
        let name = project.manifest_name();
        let file = shell_word(&first.display().to_string());
        let error = Failure::usage(format!("`-r` cannot be given if there is a manifest: {name}"));
        return Err(match name {
            files::MANIFEST => error.hint(format!(
                "import the file instead: `envlock init --force --from {file}`, which keeps the other tables"
            )),
            files::PYPROJECT => error.hint(format!(
                "add what it requires with `envlock add`; `uv add -r {file}` does where uv holds the packages"
            )),
            _ => error,
        });
    }
    let mut all = Imported::into_folder(&project.folder);
    for file in files {
        let one = import(file, &project.folder, &Optional::default(), registry)?;
        all.join(one);
    }
    for text in packages {
        all.requirements.push((text.clone(), settings::requirement(text)?));
    }
    if let Some(interface) = interface {
        manifest_text::warn(&all, interface);
    }
    let places = Places::of(&all);
    let text = manifest_text::of(all, &project.folder, &manifest_text::Own::default());
    let name = first.file_name().map_or(PathBuf::new(), PathBuf::from).display().to_string();
    let mut manifest = manifest::parse(&text, &name)?;
    places.name(&mut manifest.request);
    // With more than the files, they do not state the request.
    let is_all = packages.is_empty();
    Ok(Project { manifest: Some(manifest), reads: files.to_vec(), is_all_read: is_all, ..project })
}

/// Where each line of requirements files is.
struct Places {
    requirements: Vec<UserRequirement>,
    constraints: Vec<UserRequirement>,
}

impl Places {
    fn of(all: &Imported) -> Places {
        let of_constraint = |text: &String| {
            let place = all.places.get(text)?;
            UserRequirement::parse(text, place.as_str().into()).ok()
        };
        Places {
            requirements: all.requirements.iter().map(|(_, user)| user.clone()).collect(),
            constraints: all.constraints.iter().filter_map(of_constraint).collect(),
        }
    }

    /// Names the file and line of each requirement and constraint of a request as its origin.
    fn name(&self, request: &mut Request) {
        for (users, known) in
            [(&mut request.requirements, &self.requirements), (&mut request.constraints, &self.constraints)]
        {
            for user in users {
                let of_name = || known.iter().filter(|own| own.name() == user.name());
                let same = of_name().find(|own| own.requirement == user.requirement);
                // What a manifest states in another form, as `torch` under `[stack]`.
                let only = || of_name().next().filter(|_| of_name().count() == 1);
                if let Some(own) = same.or_else(only) {
                    user.origin = own.origin.clone();
                }
            }
        }
    }
}

/// The files that the lock of a folder without a manifest was made from, where all of them are still there.
pub(crate) fn remembered(folder: &Path, lock: &Lockfile) -> Vec<PathBuf> {
    if lock.files.is_empty() || files::manifest_in(folder).is_some() {
        return Vec::new();
    }
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    // What a lock names is read only in its folder, and only if it is such a file.
    let is_list = |name: &String| {
        let name = Path::new(name);
        let is_text = name.extension().is_some_and(|own| own == "txt" || own == "in");
        is_text && name.components().all(is_plain) && folder.join(name).is_file()
    };
    if !lock.files.iter().all(is_list) {
        return Vec::new();
    }
    // As a person in this folder names them.
    let here = std::env::current_dir().unwrap_or_default();
    let shown = |path: PathBuf| path.strip_prefix(&here).map(Path::to_path_buf).unwrap_or(path);
    lock.files.iter().map(|name| shown(folder.join(name))).collect()
}

fn is_plain(part: Component<'_>) -> bool {
    matches!(part, Component::Normal(_))
}

/// The files that state the whole request of a project, relative to its folder; none if one is elsewhere.
pub(crate) fn that_state(project: &Project) -> Vec<String> {
    let Ok(folder) = std::path::absolute(&project.folder) else { return Vec::new() };
    let name = |file: &PathBuf| {
        let path = std::path::absolute(file).ok()?;
        let own = path.strip_prefix(&folder).ok().filter(|own| own.components().all(is_plain))?;
        own.to_str().filter(|name| is_line(name)).map(str::to_owned)
    };
    let names: Option<Vec<String>> = project.reads.iter().filter(|_| project.is_all_read).map(name).collect();
    names.unwrap_or_default()
}

/// Where the request of a project is stated, for people: `pyproject.toml`, `requirements.txt`; `the request` if it is on the
/// command line.
pub(crate) fn stated_in(project: &Project) -> String {
    match (that_state(project), &project.manifest) {
        (names, Some(_)) if names.is_empty() && project.reads.is_empty() => {
            project.manifest_name().to_owned()
        }
        (names, _) if names.is_empty() => "the request".to_owned(),
        (names, _) => names.join(" and "),
    }
}

/// The first difference between a lock and what files ask for; `None` if there is none. The error: they cannot be read.
pub(crate) fn difference(
    folder: &Path,
    files: &[PathBuf],
    (lock, registry): (&Lockfile, &Registry),
) -> Result<Option<String>, Failure> {
    let empty = Project {
        folder: folder.to_path_buf(),
        manifest: None,
        reads: Vec::new(),
        is_all_read: false,
        is_beside: false,
    };
    let Some(manifest) = project(empty, (files, &[]), registry, None)?.manifest else {
        return Ok(None);
    };
    let before = lockfile::read_request(&lock.request)?;
    let (request, _) = manifest.request.keeping_options_of(&before);
    Ok(lockfile::stale(lock, &request, registry).first().map(ToString::to_string))
}
