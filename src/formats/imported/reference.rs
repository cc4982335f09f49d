//! Direct references in imported files: paths are relative to the file, and a folder is named after its project.

use std::path::{Path, PathBuf};

use crate::model::direct::{Direct, shown_repository};
use crate::model::text::without_logins;

use super::{Context, ImportError, Imported};

/// The extras of a dependency's table, in brackets: `[a,b]`; empty without extras.
pub(in crate::formats) fn extras_of(table: &toml::Value) -> String {
    let extras = table.get("extras").and_then(toml::Value::as_array).into_iter().flatten();
    let extras: Vec<&str> = extras.filter_map(toml::Value::as_str).collect();
    if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) }
}

/// Imports a line that may be a direct reference; `false` if it is none. `base` is the folder of the imported file.
///
/// # Errors
/// If it is a URL or repository that cannot be read.
pub(in crate::formats) fn push(
    out: &mut Imported,
    context: Context<'_>,
    line: &str,
    (base, origin): (&Path, &str),
) -> Result<bool, ImportError> {
    let line = line.trim();
    let bare = line.strip_prefix("-e").or_else(|| line.strip_prefix("--editable")).unwrap_or(line);
    let is_option = bare.len() != line.len();
    let bare = bare.trim_start_matches('=').trim();
    let unquoted = ['"', '\''].iter().find_map(|quote| bare.strip_prefix(*quote)?.strip_suffix(*quote));
    let bare = unquoted.unwrap_or(bare);
    let (head, marker) = match bare.split_once(" ;").or_else(|| bare.split_once("; ")) {
        Some((head, marker)) => (head.trim(), format!(" ; {}", marker.trim())),
        None => (bare, String::new()),
    };
    let (name, reference) = match head.split_once('@') {
        Some((name, reference)) if Direct::is_one(reference) && !name.contains([':', '/']) => {
            (Some(name.trim()), reference.trim())
        }
        _ => (None, head),
    };
    let (path, extras) = match reference.split_once('[') {
        Some((path, extras)) if reference.ends_with(']') => (path, format!("[{extras}")),
        _ => (reference, String::new()),
    };
    // No name has a slash: it is a path, whether or not the folder is there (a submodule that was not fetched).
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    let is_there = |path: &Path| context.files.is_file(path) || context.files.is_folder(path);
    let is_folder = || path.contains('/') && (path.chars().all(is_part) || is_there(&base.join(path)));
    if !(is_option || Direct::is_one(reference) || is_folder()) {
        return Ok(false);
    }
    if reference.contains("${") {
        out.leave_out_because(bare, "it has an environment variable");
        return Ok(true);
    }
    let path = match Direct::parse(path) {
        Ok(Direct::Path(path)) => path,
        Ok(_) => {
            // The user of ssh is no secret, and needed.
            let kept = match reference.strip_prefix("git+ssh://") {
                Some(rest) => format!("git+{}", shown_repository(&format!("ssh://{rest}"))),
                None => without_logins(reference),
            };
            out.has_login |= kept != reference;
            // A marker and a name are part of the line.
            out.push(&bare.replace(reference, &kept), origin)?;
            return Ok(true);
        }
        Err(why) => {
            out.leave_out_because(bare, &why.to_string());
            return Ok(true);
        }
    };
    let place = base.join(&path);
    // `demo[extra]`: as written, also before the `@`.
    let stated = name.map_or_else(|| project_name(context, &place), |name| Ok(name.to_owned()));
    match stated {
        Ok(project) => {
            let path = context.path_from(&place, &out.folder);
            out.push(&format!("{project}{extras} @ {path}{marker}"), origin)?;
        }
        Err(why) => out.leave_out_because(bare, &why),
    }
    Ok(true)
}

/// The name of the project in a folder or archive.
fn project_name(context: Context<'_>, place: &Path) -> Result<String, String> {
    if context.files.is_file(place) {
        let file = place.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = file.split('-').next().filter(|name| !name.is_empty());
        return stem.map(str::to_owned).ok_or_else(|| "its name is not stated".to_owned());
    }
    if !context.files.is_folder(place) {
        return Err(
            "there is no such folder; a submodule of git is fetched by `git submodule update --init`"
                .to_owned(),
        );
    }
    context.files.name_of(place)
}

/// The folder of a file.
pub(in crate::formats) fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("."),
    }
}
