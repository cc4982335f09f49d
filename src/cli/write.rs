//! Writes files: each atomically, files that belong together all or none, and never half because of a signal.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use super::error::CliError;
use super::exit;
use super::files;

/// The names of temporary files: `.envlock-2f81.tmp`.
const TEMPORARY: (&str, &str) = (".envlock-", ".tmp");
/// A temporary file of this age was left by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(600);

/// The mode of files that others may read, before the umask.
const SHARED: u32 = 0o666;
/// The mode of files for this user only.
const PRIVATE: u32 = 0o600;

/// Writes a file atomically; a signal waits until it is written.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if files::is_device(path) {
        // Opening a pipe may wait for its reader: a signal ends that.
        return write_to_device(path, text);
    }
    uninterrupted(|| replace(path, text))
}

/// Writes a file atomically, in a program that handles signals itself.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    if files::is_device(path) {
        return write_to_device(path, text);
    }
    Staged::new(path, text, SHARED)?.publish().map_err(|error| failed(path, &error))
}

/// [`replace`], for a file that only this user may read.
pub(super) fn replace_private(path: &Path, text: &str) -> Result<(), CliError> {
    Staged::new(path, text, PRIVATE)?.publish().map_err(|error| failed(path, &error))
}

/// Writes files that belong together, in order: each is complete on disk before the first one is replaced, and a
/// signal waits until all are. After a power failure or SIGKILL between two of them the last one is still the old
/// one, so that the file that is compared with the others comes last.
pub(super) fn write_all(files: &[(PathBuf, String)]) -> Result<(), CliError> {
    uninterrupted(|| {
        let staged: Vec<Staged<'_>> =
            files.iter().map(|(path, text)| Staged::new(path, text, SHARED)).collect::<Result<_, _>>()?;
        for (place, file) in staged.into_iter().enumerate() {
            let path = file.path.clone();
            file.publish().map_err(|error| match place {
                0 => failed(&path, &error),
                _ => CliError::files(format!("cannot write `{}`: {error}", path.display()))
                    .hint("files were written before it: run the command again when it can be written"),
            })?;
        }
        Ok(())
    })
}

/// Delays signals that end the program during a write. Before the first write no handler is installed, and a signal
/// has its default action.
fn uninterrupted<T>(write: impl FnOnce() -> T) -> T {
    static WRITING: Mutex<()> = Mutex::new(());
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| end_after(&WRITING));
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    write()
}

/// Ends the program at a signal as soon as nothing is being written. A signal that is ignored, as `nohup` does with
/// SIGHUP, stays ignored.
#[cfg(unix)]
fn end_after(writing: &'static Mutex<()>) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !crate::smoke::is_ignored(*signal));
    // Where no handler can be installed, signals keep their default action.
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _wait = writing.lock().unwrap_or_else(PoisonError::into_inner);
            if signal != SIGINT {
                // Who waits for this process sees the signal.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            std::process::exit(exit::INTERRUPTED.into());
        }
    });
}

#[cfg(not(unix))]
fn end_after(_writing: &'static Mutex<()>) {}

/// A complete file that has not got its name yet.
struct Staged<'t> {
    path: PathBuf,
    text: &'t str,
    mode: u32,
    content: Content,
}

enum Content {
    /// A file without a name: it disappears with the process.
    #[cfg(target_os = "linux")]
    Unnamed(fs_err::File),
    /// Where the file system has no such files.
    Named(tempfile::NamedTempFile),
}

impl<'t> Staged<'t> {
    fn new(path: &Path, text: &'t str, mode: u32) -> Result<Staged<'t>, CliError> {
        if files::is_device(path) {
            return Err(CliError::files(format!("`{}` is not a regular file", path.display()))
                .hint("move it away: envlock replaces this file as a whole"));
        }
        let folder = folder_of(path);
        remove_abandoned(folder);
        let mode = mode_of(path).unwrap_or(mode);
        let content = Content::new(folder, text, mode).map_err(|error| failed(path, &error))?;
        Ok(Staged { path: path.to_owned(), text, mode, content })
    }

    fn publish(self) -> std::io::Result<()> {
        let named = match self.content {
            #[cfg(target_os = "linux")]
            Content::Unnamed(file) => match name_it(&file, &self.path) {
                // Without /proc, a file without a name cannot get one.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Content::named(folder_of(&self.path), self.text, self.mode)?
                }
                result => return result,
            },
            Content::Named(file) => file,
        };
        named.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

impl Content {
    fn new(folder: &Path, text: &str, mode: u32) -> std::io::Result<Content> {
        #[cfg(target_os = "linux")]
        {
            use fs_err::os::unix::fs::OpenOptionsExt as _;
            let mut options = fs_err::OpenOptions::new();
            let opened = options.write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder);
            if let Ok(mut file) = opened {
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                return Ok(Content::Unnamed(file));
            }
        }
        Content::named(folder, text, mode).map(Content::Named)
    }

    fn named(folder: &Path, text: &str, mode: u32) -> std::io::Result<tempfile::NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
        #[cfg(unix)]
        {
            // Temporary files are private by default, but the result is an ordinary, shared file.
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(std::fs::Permissions::from_mode(mode));
        }
        let mut file = builder.tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    }
}

/// Gives a file without a name its name. A link cannot replace a file, so the file gets a temporary name first.
#[cfg(target_os = "linux")]
fn name_it(file: &fs_err::File, path: &Path) -> std::io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = rustix::fs::AtFlags::SYMLINK_FOLLOW;
    // Process ids repeat in containers, and another user may have taken a name.
    let nanoseconds = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.subsec_nanos());
    let mut attempts = 0;
    let temporary = loop {
        let name = format!("{}{:x}-{:x}{}", TEMPORARY.0, std::process::id(), nanoseconds(), TEMPORARY.1);
        let temporary = folder_of(path).join(name);
        match rustix::fs::linkat(rustix::fs::CWD, open.as_str(), rustix::fs::CWD, &temporary, flags) {
            Ok(()) => break temporary,
            Err(rustix::io::Errno::EXIST) if attempts < 16 => attempts += 1,
            Err(error) => return Err(error.into()),
        }
    };
    fs_err::rename(&temporary, path).inspect_err(|_| {
        let _ = fs_err::remove_file(&temporary);
    })
}

/// The mode of a file that is there: who made a lock private keeps it private.
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
fn write_to_device(path: &Path, text: &str) -> Result<(), CliError> {
    let is_link = fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let is_of_system =
        ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)) && !path.starts_with("/dev/shm");
    if is_link && !is_of_system {
        return Err(CliError::files(format!("`{}` is a link to a device or a pipe", path.display()))
            .hint("name the device itself, or remove the link"));
    }
    let opened = fs_err::OpenOptions::new().write(true).open(path);
    opened.and_then(|mut device| device.write_all(text.as_bytes())).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> CliError {
    CliError::files(format!("cannot write `{}`: {error}", path.display()))
        .hint("nothing was changed; check that the folder is writable and the disk has space")
}
