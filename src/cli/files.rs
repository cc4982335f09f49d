//! Finds files, reads them with a size limit, and writes them atomically.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use super::error::CliError;
use super::exit;

/// The manifest's name.
pub(super) const MANIFEST: &str = "envlock.toml";
/// The manifest of Python projects, which is used if it has a `[tool.envlock]` table.
pub(super) const PYPROJECT: &str = "pyproject.toml";
/// The lock's name.
pub(super) const LOCK: &str = "envlock.lock";
/// The conda environment file.
pub(super) const ENVIRONMENT: &str = "environment.yml";

/// Size limit of input files, in bytes.
const MAX_INPUT: u64 = 64 << 20;

/// The project's folder: `--project`, else the nearest folder upward with a manifest (or, with
/// `by_lock`, a lock), else the current one.
pub(super) fn project_folder(flag: Option<&Path>, by_lock: bool) -> Result<PathBuf, CliError> {
    if let Some(folder) = flag {
        if !folder.is_dir() {
            return Err(CliError::usage(format!("`{}` is not a folder", folder.display())));
        }
        return Ok(folder.to_path_buf());
    }
    let here = std::env::current_dir()?;
    let found = here.ancestors().find(|f| manifest_in(f).is_some() || (by_lock && f.join(LOCK).is_file()));
    Ok(found.map_or_else(|| here.clone(), Path::to_path_buf))
}

/// The name of a folder's manifest: `envlock.toml`, else a `pyproject.toml` with `[tool.envlock]`.
pub(super) fn manifest_in(folder: &Path) -> Option<&'static str> {
    if folder.join(MANIFEST).is_file() {
        return Some(MANIFEST);
    }
    let text = read(&folder.join(PYPROJECT)).ok()??;
    text.contains("[tool.envlock").then_some(PYPROJECT)
}

/// A text file; `None` when it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, CliError> {
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| CliError::input(format!("`{}` is not UTF-8 text", path.display())))
}

/// The bytes of a file; `None` if it does not exist.
pub(super) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, CliError> {
    match fs_err::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(metadata) if metadata.len() > MAX_INPUT => return Err(too_large(path)),
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

fn too_large(path: &Path) -> CliError {
    CliError::input(format!("`{}` is larger than {} MB", path.display(), MAX_INPUT >> 20))
}

/// Whether the path is neither a regular file nor a folder: a terminal, a pipe, `/dev/stdout`.
fn is_device(path: &Path) -> bool {
    fs_err::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Refuses to replace a file that envlock did not write.
pub(super) fn refuse_foreign(path: &Path, mark: &str, force: bool) -> Result<(), CliError> {
    if force || is_device(path) {
        return Ok(());
    }
    match read(path) {
        Ok(None) => Ok(()),
        Ok(Some(text)) if text.starts_with(mark) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(foreign(path)),
    }
}

/// The error for a file that envlock did not write.
pub(super) fn foreign(path: &Path) -> CliError {
    CliError::files(format!("`{}` exists and was not written by envlock", path.display()))
        .hint("move it away, or pass `--force` to replace it")
}

/// Writes a file atomically; an interrupt waits until it is written.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    uninterrupted(|| replace(path, text))
}

/// Writes files that belong together, in order; an interrupt waits until all are written.
pub(super) fn write_all(files: &[(PathBuf, String)]) -> Result<(), CliError> {
    uninterrupted(|| files.iter().try_for_each(|(path, text)| replace(path, text)))
}

/// Delays an interrupt during a write, which would otherwise leave a temporary file, or a new lock with an old
/// environment.yml. Before the first write no handler is installed, and an interrupt ends the program at once.
fn uninterrupted<T>(write: impl FnOnce() -> T) -> T {
    static WRITING: Mutex<()> = Mutex::new(());
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // If no handler can be installed, an interrupt keeps its default action.
        let _ = ctrlc::set_handler(|| {
            let _wait = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
            std::process::exit(exit::INTERRUPTED.into());
        });
    });
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    write()
}

/// Writes a temporary file in the same folder, then renames it.
fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |error: &dyn std::fmt::Display| {
        CliError::files(format!("cannot write `{}`: {error}", path.display()))
            .hint("nothing was changed; check that the folder is writable and the disk has space")
    };
    if is_device(path) {
        return fs_err::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut device| device.write_all(text.as_bytes()))
            .map_err(|e| failed(&e));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".envlock-");
    #[cfg(unix)]
    {
        // Temporary files are private by default, but the result is an ordinary, shared file.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(|e| failed(&e))?;
    file.write_all(text.as_bytes()).map_err(|e| failed(&e))?;
    file.as_file().sync_all().map_err(|e| failed(&e))?;
    file.persist(path).map_err(|e| failed(&e.error))?;
    Ok(())
}

/// A path relative to a folder, with `/` as separator: `./libs/demo`, `../demo`.
pub(super) fn path_from(place: &Path, folder: &Path) -> String {
    let plain = |path: &Path| -> Vec<String> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut parts = Vec::new();
        for part in absolute.components() {
            match part {
                std::path::Component::ParentDir => {
                    parts.pop();
                }
                std::path::Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
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
            assert_eq!(path_from(Path::new(place), Path::new(folder)), expected, "{place}");
        }
    }
}
