//! Direct references in imported files: paths are relative to the file, and a folder is named after its project.

use std::path::{Component, Path, PathBuf};

use crate::cli::error::CliError;
use crate::model::direct::Direct;
use crate::sdist::{self, Contents};

use super::Imported;

/// Imports a line that may be a direct reference; `false` if it is none. `base` is the folder of the imported file.
///
/// # Errors
/// If it is a URL or repository that cannot be read.
pub(super) fn push(out: &mut Imported, line: &str, base: &Path, origin: &str) -> Result<bool, CliError> {
    let line = line.trim();
    let bare = line.strip_prefix("-e").or_else(|| line.strip_prefix("--editable")).unwrap_or(line);
    let bare = bare.trim_start_matches('=').trim();
    let is_option = bare.len() != line.len();
    let (name, reference) = match bare.split_once('@') {
        Some((name, reference)) if Direct::is_one(reference) && !name.contains([':', '/']) => {
            (Some(name.trim()), reference.trim())
        }
        _ => (None, bare),
    };
    let first = reference.split([';', ' ']).next().unwrap_or_default();
    let (path, extras) = match first.split_once('[') {
        Some((path, extras)) if first.ends_with(']') => (path, format!("[{extras}")),
        _ => (first, String::new()),
    };
    let is_folder = || path.contains('/') && base.join(path).exists();
    if !(is_option || Direct::is_one(reference) || is_folder()) {
        return Ok(false);
    }
    if reference.contains("${") {
        out.leave_out_because(bare, "it has an environment variable");
        return Ok(true);
    }
    let Ok(Direct::Path(path)) = Direct::parse(path) else {
        // A marker and a name are part of the line.
        out.push(bare, origin)?;
        return Ok(true);
    };
    let place = base.join(&path);
    let stated = match name {
        Some(name) => Ok(name.split('[').next().unwrap_or(name).trim().to_owned()),
        None => project_name(&place),
    };
    match stated {
        Ok(project) => {
            let path = from_folder(&place, &out.folder);
            out.push(&format!("{project}{extras} @ {path}"), origin)?;
        }
        Err(why) => out.leave_out_because(bare, &why),
    }
    Ok(true)
}

/// The name of the project in a folder or archive.
fn project_name(place: &Path) -> Result<String, String> {
    if place.is_file() {
        let file = place.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = file.split('-').next().filter(|name| !name.is_empty());
        return stem.map(str::to_owned).ok_or_else(|| "its name is not stated".to_owned());
    }
    if !place.is_dir() {
        return Err("there is no such folder".to_owned());
    }
    let contents = Contents::of_folder(place).map_err(|e| e.to_string())?;
    let tree = sdist::read(&contents).map_err(|e| e.to_string())?;
    let name = tree.headers.lines().find_map(|line| line.strip_prefix("Name: "));
    name.map(|name| name.trim().to_owned()).ok_or_else(|| "its name is not stated".to_owned())
}

/// A path relative to a folder, with `/` as separator: `./libs/demo`, `../demo`.
fn from_folder(place: &Path, folder: &Path) -> String {
    let plain = |path: &Path| -> Vec<String> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut parts = Vec::new();
        for part in absolute.components() {
            match part {
                Component::ParentDir => {
                    parts.pop();
                }
                Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
                _ => {}
            }
        }
        parts
    };
    let (place, folder) = (plain(place), plain(folder));
    let common = place.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let up = folder.len() - common;
    let mut parts = vec![if up == 0 { ".".to_owned() } else { vec![".."; up].join("/") }];
    parts.extend(place[common..].iter().cloned());
    parts.join("/")
}

/// The folder of a file.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_manifest() {
        for (place, folder, expected) in [
            ("/a/b/c", "/a/b", "./c"),
            ("/a/b", "/a/b", "."),
            ("/a/x/../d", "/a/b", "../d"),
            ("/c", "/a/b", "../../c"),
        ] {
            assert_eq!(from_folder(Path::new(place), Path::new(folder)), expected, "{place}");
        }
    }
}
