//! Files: found, read with a size limit, written whole or not at all.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use super::error::CliError;
use super::exit;

/// The manifest's name.
pub(super) const MANIFEST: &str = "envlock.toml";
/// The manifest of Python projects, which is ours too where it has a `[tool.envlock]`.
pub(super) const PYPROJECT: &str = "pyproject.toml";
/// The lock's name.
pub(super) const LOCK: &str = "envlock.lock";
/// conda's file.
pub(super) const ENVIRONMENT: &str = "environment.yml";

/// Input files larger than this are refused.
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

/// The name of a folder's manifest: `envlock.toml`, else a `pyproject.toml` that speaks of envlock.
pub(super) fn manifest_in(folder: &Path) -> Option<&'static str> {
    if folder.join(MANIFEST).is_file() {
        return Some(MANIFEST);
    }
    let text = read(&folder.join(PYPROJECT)).ok()??;
    text.contains("[tool.envlock").then_some(PYPROJECT)
}

/// A text file; `None` when it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, CliError> {
    match fs_err::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(metadata) if metadata.len() > MAX_INPUT => return Err(too_large(path)),
        Ok(_) => {}
    }
    // A device or a pipe states no size: no more than the limit is read of it.
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(MAX_INPUT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(too_large(path));
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| CliError::input(format!("`{}` is not UTF-8 text", path.display())))
}

fn too_large(path: &Path) -> CliError {
    CliError::input(format!("`{}` is larger than {} MB", path.display(), MAX_INPUT >> 20))
}

/// Whether something is there that is no file: a terminal, a pipe, `/dev/stdout`.
fn is_device(path: &Path) -> bool {
    fs_err::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Refuses to replace a file that envlock did not write.
pub(super) fn guard(path: &Path, mark: &str, force: bool) -> Result<(), CliError> {
    if force || is_device(path) {
        return Ok(());
    }
    match read(path) {
        Ok(None) => Ok(()),
        Ok(Some(text)) if text.starts_with(mark) => Ok(()),
        Ok(Some(_)) | Err(_) => {
            Err(CliError::files(format!("`{}` exists and was not written by envlock", path.display()))
                .hint("move it away, or pass `--force` to replace it"))
        }
    }
}

/// Writes a file whole or not at all; an interrupt waits until it is there.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    uninterrupted(|| replace(path, text))
}

/// Writes files that belong together, in order; an interrupt waits until all are there.
pub(super) fn write_all(files: &[(PathBuf, String)]) -> Result<(), CliError> {
    uninterrupted(|| files.iter().try_for_each(|(path, text)| replace(path, text)))
}

/// Holds an interrupt back for the moment that a write takes: killed there, it would leave its temporary
/// file behind, or a new lock beside an old environment.yml. Before the first write nothing is handled,
/// and an interrupt ends the program at once.
fn uninterrupted<T>(write: impl FnOnce() -> T) -> T {
    static WRITING: Mutex<()> = Mutex::new(());
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // Without a handler the interrupt does what it always did.
        let _ = ctrlc::set_handler(|| {
            let _wait = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
            std::process::exit(exit::INTERRUPTED.into());
        });
    });
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    write()
}

/// To a temporary file beside it, then renamed.
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
        // Temporary files are private; the result is committed and shared like any other.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(|e| failed(&e))?;
    file.write_all(text.as_bytes()).map_err(|e| failed(&e))?;
    file.as_file().sync_all().map_err(|e| failed(&e))?;
    file.persist(path).map_err(|e| failed(&e.error))?;
    Ok(())
}
