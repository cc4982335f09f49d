//! Writes files: each atomically, files that belong together all or none, and never half because of a signal.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::failure::Failure;
use super::files;
use super::signals::uninterrupted;

/// The names of temporary files: `.envlock-2f81.tmp`.
const TEMPORARY: (&str, &str) = (".envlock-", ".tmp");
/// A temporary file of this age was left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(600);

/// The mode of files that others may read, before the umask.
const SHARED: u32 = 0o666;
/// The mode of files for this user only.
const PRIVATE: u32 = 0o600;

/// Writes a file atomically; a signal waits until it is written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if files::is_device(path) {
        // Opening a pipe may wait for its reader: a signal ends that.
        return write_to_device(path, text);
    }
    uninterrupted(|| replace(path, text))
}

/// Writes a file atomically, in a program that handles signals itself.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    if files::is_device(path) {
        return write_to_device(path, text);
    }
    Staged::new(path, text.as_bytes(), SHARED)?.publish().map_err(|error| failed(path, &error))
}

/// [`replace`], for a file that only this user may read.
pub(crate) fn replace_private(path: &Path, text: &str) -> Result<(), Failure> {
    Staged::new(path, text.as_bytes(), PRIVATE)?.publish().map_err(|error| failed(path, &error))
}

/// [`write_bytes`], for a file that only this user may read, whatever mode the one before had.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    uninterrupted(|| {
        remove_abandoned(folder_of(path));
        Staged::of_mode(path, bytes, PRIVATE)?.publish().map_err(|error| failed(path, &error))
    })
}

/// Writes a file of any bytes atomically; a signal waits until it is written. Removes what killed processes left beside it.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    uninterrupted(|| {
        remove_abandoned(folder_of(path));
        Staged::new(path, bytes, SHARED)?.publish().map_err(|error| failed(path, &error))
    })
}

/// Writes files that belong together, in order: each is complete on disk before the first one is replaced, and a
/// signal waits until all are. After a power failure or SIGKILL between two of them the last one is still the old
/// one, so that the file that is compared with the others comes last.
pub(crate) fn write_all(files: &[(PathBuf, String)]) -> Result<(), Failure> {
    uninterrupted(|| {
        if let Some((path, _)) = files.first() {
            remove_abandoned(folder_of(path));
        }
        let staged: Vec<Staged<'_>> = files
            .iter()
            .map(|(path, text)| Staged::new(path, text.as_bytes(), SHARED))
            .collect::<Result<_, _>>()?;
        for (place, file) in staged.into_iter().enumerate() {
            let path = file.path.clone();
            file.publish().map_err(|error| match place {
                0 => failed(&path, &error),
                _ => Failure::files(format!("cannot write `{}`: {error}", path.display()))
                    .hint("files were written before it: run the command again when it can be written"),
            })?;
        }
        Ok(())
    })
}

/// A complete file that has not got its name yet.
struct Staged<'t> {
    path: PathBuf,
    text: &'t [u8],
    mode: u32,
    /// The file, without a name: it disappears with the process. `None` where the file system has no such files.
    unnamed: Option<fs_err::File>,
}

impl<'t> Staged<'t> {
    fn new(path: &Path, text: &'t [u8], mode: u32) -> Result<Staged<'t>, Failure> {
        if files::is_device(path) {
            return Err(Failure::files(format!("`{}` is not a regular file", path.display()))
                .hint("move it away: envlock replaces this file as a whole"));
        }
        Staged::of_mode(path, text, mode_of(path).map_or(mode, |there| there & mode))
    }

    fn of_mode(path: &Path, text: &'t [u8], mode: u32) -> Result<Staged<'t>, Failure> {
        let unnamed = unnamed(folder_of(path), text, mode).map_err(|error| failed(path, &error))?;
        Ok(Staged { path: path.to_owned(), text, mode, unnamed })
    }

    /// Gives the file its name. Neither a link nor a new file can replace another atomically, so it gets a temporary
    /// name first.
    fn publish(self) -> std::io::Result<()> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
        let folder = folder_of(&self.path);
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.unnamed {
            use std::os::fd::AsRawFd as _;
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            let flags = rustix::fs::AtFlags::SYMLINK_FOLLOW;
            let here = rustix::fs::CWD;
            let link = |name: &Path| Ok(rustix::fs::linkat(here, open.as_str(), here, name, flags)?);
            match builder.make_in(folder, link) {
                // Without /proc, a file without a name cannot get one.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                linked => return linked?.persist(&self.path).map_err(|error| error.error),
            }
        }
        #[cfg(unix)]
        {
            // Temporary files are private by default, but the result is an ordinary, shared file.
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(std::fs::Permissions::from_mode(self.mode));
        }
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(self.text)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

/// A file without a name with a text in it, complete on disk; `None` where the file system has no such files.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path, text: &[u8], mode: u32) -> std::io::Result<Option<fs_err::File>> {
    use fs_err::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs_err::OpenOptions::new();
    let opened = options.write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder);
    let Ok(mut file) = opened else { return Ok(None) };
    file.write_all(text)?;
    file.sync_all()?;
    Ok(Some(file))
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_folder: &Path, _text: &[u8], _mode: u32) -> std::io::Result<Option<fs_err::File>> {
    Ok(None)
}

/// The mode of a file that is there: what was made private stays private.
fn mode_of(path: &Path) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = fs_err::symlink_metadata(path).ok()?;
        metadata.is_file().then(|| metadata.permissions().mode() & 0o777)
    }
    #[cfg(not(unix))]
    None
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes the temporary files of processes that were killed. Failures are ignored: the files harm nobody.
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs_err::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|n| n.starts_with(TEMPORARY.0) && n.ends_with(TEMPORARY.1));
        let is_old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().map(|age| age > ABANDONED);
        if ours && is_old() == Some(true) {
            let _ = fs_err::remove_file(entry.path());
        }
    }
}

/// Writes to a terminal, a pipe or a device that the user named. A link elsewhere that leads to one is refused.
fn write_to_device(path: &Path, text: &str) -> Result<(), Failure> {
    let is_link = fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let is_of_system =
        ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)) && !path.starts_with("/dev/shm");
    if is_link && !is_of_system {
        return Err(Failure::files(format!("`{}` is a link to a device or a pipe", path.display()))
            .hint("name the device itself, or remove the link"));
    }
    let opened = fs_err::OpenOptions::new().write(true).open(path);
    opened.and_then(|mut device| device.write_all(text.as_bytes())).map_err(|error| failed(path, &error))
}

/// Makes the folder of a file that the user named: `nodes/a.toml` in a project without `nodes`.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn folder_for(path: &Path) -> Result<(), Failure> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    fs_err::create_dir_all(folder).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::files(format!("cannot write `{}`: {error}", path.display()))
        .hint("nothing was changed; check that the folder is writable and the disk has space")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_was_private_stays_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mode = || fs_err::metadata(&path).unwrap().permissions().mode() & 0o777;
        let set = |mode| fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        replace(&path, "a").unwrap();
        set(0o600);
        replace(&path, "b").unwrap();
        assert_eq!(mode(), 0o600);
        set(0o644);
        replace_private(&path, "c").unwrap();
        assert_eq!((mode(), fs_err::read_to_string(&path).unwrap()), (0o600, "c".to_owned()));
        assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
