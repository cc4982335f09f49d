//! Finds files and reads them with a size limit.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::model::owner::Owner;
use crate::model::text::clean;
use crate::session::options::Global;
use crate::session::variables;

/// The manifest's name.
pub(crate) const MANIFEST: &str = "envlock.toml";
/// The manifest of Python projects, which is used if it has a `[tool.envlock]` table.
pub(crate) const PYPROJECT: &str = "pyproject.toml";
/// Where uv and pyenv read the Python of a folder.
pub(crate) const PYTHON_VERSION: &str = ".python-version";
/// pixi's manifest, which is envlock's too if it has a `[tool.envlock]` table.
pub(crate) const PIXI: &str = "pixi.toml";
/// pip's list of requirements.
pub(crate) const REQUIREMENTS: &str = "requirements.txt";
/// The lock's name.
pub(crate) const LOCK: &str = crate::lockfile::FILE;
/// The conda environment file.
pub(crate) const ENVIRONMENT: &str = "environment.yml";

/// Size limit of input files, in bytes.
const MAX_INPUT: u64 = 64 << 20;

/// The user's home folder.
pub(crate) fn home() -> Option<PathBuf> {
    let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    variables::path(name)
}

/// The project's folder: `--project`, else the nearest folder upward with a manifest (or, with
/// `by_lock`, a lock), else the current one.
pub(crate) fn project_folder(flag: Option<&Path>, by_lock: bool) -> Result<PathBuf, Failure> {
    if let Some(folder) = flag {
        if !folder.is_dir() {
            return Err(Failure::usage(format!("`{}` is not a folder", folder.display())));
        }
        return Ok(folder.to_path_buf());
    }
    let here = std::env::current_dir()?;
    let names = |folder: &Path| {
        manifest_in(folder).or_else(|| (by_lock && folder.join(LOCK).is_file()).then_some(LOCK))
    };
    for folder in here.ancestors() {
        let Some(name) = names(folder) else { continue };
        if folder != here {
            // The lock beside a manifest has a say too.
            for name in [name, LOCK] {
                let file = folder.join(name);
                if fs_err::symlink_metadata(&file).is_ok() {
                    check_owner(&file)?;
                }
            }
        }
        return Ok(folder.to_path_buf());
    }
    Ok(here)
}

/// The project's folder for a message about it: where there is none, the current one.
pub(crate) fn folder_of(global: &Global) -> PathBuf {
    project_folder(global.project.as_deref(), true).unwrap_or_else(|_| PathBuf::from("."))
}

/// Refuses a file found by searching upward that another user may have put there. Who runs a command in their own
/// folder does not expect that of a stranger above it to have a say. The rule is that of git's `safe.directory`: it
/// must belong to the user, to root, or to the user who called `sudo`.
#[cfg(unix)]
pub(crate) fn check_owner(file: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let sudo = variables::text("SUDO_UID").and_then(|uid| uid.parse::<u32>().ok());
    let belongs =
        |owner: u32| owner == 0 || owner == rustix::process::geteuid().as_raw() || Some(owner) == sudo;
    // A link and what it leads to.
    if belongs(fs_err::symlink_metadata(file)?.uid()) && belongs(fs_err::metadata(file)?.uid()) {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(file).display();
    let hint = match file.is_dir() {
        true => format!("if you trust it, name it: `--prefix {}`", file.display()),
        false => format!("if this is the project that you mean, name it: `--project {folder}`"),
    };
    Err(Failure::files(format!("`{}` belongs to another user", file.display())).hint(hint))
}

#[cfg(not(unix))]
pub(crate) fn check_owner(_file: &Path) -> Result<(), Failure> {
    Ok(())
}

/// Whether the manifest of the project that `--project` names is another tool's file, which has envlock's tables below
/// `[tool.envlock]`.
pub(crate) fn has_shared_manifest(project: Option<&Path>) -> bool {
    let folder = project_folder(project, true).ok();
    folder.and_then(|folder| manifest_in(&folder)).is_some_and(|name| name != MANIFEST)
}

/// The name of a folder's manifest: `envlock.toml`, else a `pyproject.toml` or `pixi.toml` with `[tool.envlock]`.
pub(crate) fn manifest_in(folder: &Path) -> Option<&'static str> {
    if folder.join(MANIFEST).is_file() {
        return Some(MANIFEST);
    }
    let has_tables = |name: &&str| {
        let path = folder.join(name);
        // Of a file that cannot be read it is not known; who reads it as the manifest says why it cannot be.
        path.is_file() && read(&path).map_or(true, |text| text.is_some_and(|text| has_own_tables(&text)))
    };
    [PYPROJECT, PIXI].into_iter().find(has_tables)
}

/// Whether a TOML file has envlock's tables, in whatever form; a file with a mistake, whether it looks like that.
fn has_own_tables(text: &str) -> bool {
    if !text.contains("envlock") {
        return false;
    }
    match text.parse::<toml::Table>() {
        Ok(table) => table.get("tool").is_some_and(|tool| tool.get("envlock").is_some()),
        Err(_) => text.contains("[tool.envlock"),
    }
}

/// The tool that holds the packages of the project in a folder: the one whose manifest has envlock's tables, if its lock
/// is there.
pub(crate) fn owner_in(folder: &Path) -> Option<Owner> {
    let manifest = manifest_in(folder)?;
    let is_there = |owner: &Owner| folder.join(owner.file()).is_file();
    let text = || read(&folder.join(PYPROJECT)).ok().flatten().unwrap_or_default();
    let possible: &[Owner] = match manifest {
        PYPROJECT if text().contains("[tool.pixi") => &[Owner::Uv, Owner::Pixi],
        PYPROJECT => &[Owner::Uv],
        PIXI => &[Owner::Pixi],
        _ => &[],
    };
    possible.iter().copied().find(is_there)
}

/// The manifest of a tool that holds the packages of a folder that is no project of envlock's yet, and the tool.
pub(crate) fn owned_manifest(folder: &Path) -> Option<(&'static str, Owner)> {
    let is_there = |name: &str| folder.join(name).is_file();
    let pairs = [(PYPROJECT, Owner::Uv), (PIXI, Owner::Pixi)];
    let found = pairs.into_iter().find(|(name, owner)| is_there(name) && is_there(owner.file()));
    found.filter(|_| manifest_in(folder).is_none())
}

/// Where a folder is in its git repository, with `/`; `None` at its root, and outside of any.
pub(crate) fn in_repository(folder: &Path) -> Option<String> {
    let folder = std::path::absolute(folder).ok()?;
    let root = folder.ancestors().find(|above| above.join(".git").exists())?;
    let below = folder.strip_prefix(root).ok()?;
    let parts: Vec<String> =
        below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The path of a folder's file in its git repository.
pub(crate) fn path_in_repository(folder: &Path, file: &str) -> String {
    in_repository(folder).map_or_else(|| file.to_owned(), |below| format!("{below}/{file}"))
}

/// The path of a folder's lock in its git repository.
pub(crate) fn lock_in_repository(folder: &Path) -> String {
    path_in_repository(folder, LOCK)
}

/// Whether a folder has a pyproject.toml whose `[project]` states the packages, or that is the root of a workspace of
/// packages. A build backend computes those that `dynamic` names.
pub(crate) fn states_packages(folder: &Path) -> bool {
    let text = read(&folder.join(PYPROJECT)).ok().flatten().unwrap_or_default();
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let Some(project) = table.get("project").and_then(toml::Value::as_table) else {
        let uv = table.get("tool").and_then(|tool| tool.get("uv"));
        return uv.is_some_and(|uv| uv.get("workspace").is_some());
    };
    let dynamic = project.get("dynamic").and_then(toml::Value::as_array);
    !dynamic.is_some_and(|names| names.iter().any(|name| name.as_str() == Some("dependencies")))
}

/// The file of a folder that states packages and that `init --from` reads, if it has one.
pub(crate) fn requirements_in(folder: &Path) -> Option<&'static str> {
    const NAMES: [&str; 9] = [
        "uv.lock",
        "poetry.lock",
        "pixi.toml",
        PYPROJECT,
        "requirements.txt",
        ENVIRONMENT,
        "environment.yaml",
        "setup.py",
        "setup.cfg",
    ];
    NAMES.into_iter().find(|name| folder.join(name).is_file())
}

/// The requirements files in a folder by name, `requirements.txt` first.
pub(crate) fn requirements_files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.contains("requirements") && name.ends_with(".txt")).take(50).collect();
    names.sort_by_key(|name| (name != REQUIREMENTS, name.clone()));
    names
}

/// A text file; `None` when it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Failure> {
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|e| Failure::input(format!("`{}` is not UTF-8 text: {}", path.display(), e.utf8_error())))
}

/// The bytes of a file; `None` if it does not exist.
pub(crate) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match fs_err::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(metadata) if metadata.len() > MAX_INPUT => return Err(too_large(path)),
        // Opening a pipe that nobody writes to waits for ever. A shell's `<(...)` is below /dev or /proc.
        Ok(metadata)
            if !metadata.is_file()
                && !metadata.is_dir()
                && !["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)) =>
        {
            return Err(Failure::input(format!("`{}` is not a regular file", path.display())));
        }
        Ok(_) => {}
    }
    // A device or a pipe has no size, so the limit also applies to the bytes that are read.
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(MAX_INPUT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(too_large(path));
    }
    Ok(Some(bytes))
}

fn too_large(path: &Path) -> Failure {
    Failure::input(format!("`{}` is larger than {} MB", path.display(), MAX_INPUT >> 20))
}

/// Whether the path is neither a regular file nor a folder: a terminal, a pipe, `/dev/stdout`.
pub(crate) fn is_device(path: &Path) -> bool {
    fs_err::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Refuses to replace a file that envlock did not write.
pub(crate) fn refuse_foreign(path: &Path, mark: &str, force: bool) -> Result<(), Failure> {
    match is_own(path, mark, force)? {
        true => Ok(()),
        false => Err(foreign(path)),
    }
}

/// [`refuse_foreign`], for files that are not recognized by their first line.
pub(crate) fn refuse_others(path: &Path, is_own: &dyn Fn(&str) -> bool, force: bool) -> Result<(), Failure> {
    match may_replace(path, is_own, force)? {
        true => Ok(()),
        false => Err(foreign(path)),
    }
}

/// Whether a file is absent, envlock's by its first line, or to be replaced anyway.
///
/// # Errors
/// It is a folder.
pub(crate) fn is_own(path: &Path, mark: &str, force: bool) -> Result<bool, Failure> {
    // An editor may have put a byte order mark before it.
    may_replace(path, &|text| text.trim_start_matches('\u{feff}').starts_with(mark), force)
}

fn may_replace(path: &Path, is_own: &dyn Fn(&str) -> bool, force: bool) -> Result<bool, Failure> {
    if path.is_dir() {
        let shown = clean(&path.display().to_string(), 200);
        return Err(Failure::files(format!("`{shown}` is a folder")).hint("name a file in it"));
    }
    if force || is_device(path) {
        return Ok(true);
    }
    Ok(match read(path) {
        Ok(None) => true,
        // Nothing is lost with an empty file, which `mktemp` makes.
        Ok(Some(text)) => text.is_empty() || is_own(&text),
        Err(_) => false,
    })
}

/// The error for a file that envlock did not write.
pub(crate) fn foreign(path: &Path) -> Failure {
    Failure::files(format!("`{}` exists and was not written by envlock", path.display()))
        .hint("move it away, or pass `--force` to replace it")
}

/// The path of a place from a folder: `./libs/own`, `../own`.
pub(crate) fn path_from(place: &Path, folder: &Path) -> String {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    crate::formats::path_from(&absolute(place), &absolute(folder))
}
