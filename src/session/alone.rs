//! One command at a time in a folder.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Interface;
use super::failure::{Failure, FailureKind};
use crate::model::text::clean;

/// How long another command is waited for.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The time between two looks.
const TICK: Duration = Duration::from_millis(100);

/// Waits until no other command is at work in a folder; none begins while the value lives. The folder itself is locked, so that no
/// file is left. Where that cannot be done (some network file systems), nobody waits. `command`: `envlock sync`.
///
/// # Errors
/// When another one is at work for very long.
pub(crate) fn alone(
    folder: &Path,
    command: &str,
    interface: &dyn Interface,
) -> Result<Option<File>, Failure> {
    let Ok(file) = File::open(folder) else { return Ok(None) };
    let begun = Instant::now();
    let at_work = || {
        let folder = clean(&folder.display().to_string(), 200);
        format!("another `{command}` is at work in `{folder}`")
    };
    loop {
        match file.try_lock() {
            Ok(()) => {
                stays_locked_for_children(&file);
                return Ok(Some(file));
            }
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                return Err(Failure::new(FailureKind::Installer, at_work())
                    .hint("end it, or wait until it ends: it may be downloading"));
            }
            Err(TryLockError::WouldBlock) if begun.elapsed() < TICK => {
                interface.note(&format!("{}: waiting", at_work()));
            }
            Err(TryLockError::WouldBlock) => {}
        }
        std::thread::sleep(TICK);
    }
}

/// Lets the installer inherit the lock: one that goes on after the command was killed ends before another one begins.
fn stays_locked_for_children(file: &File) {
    #[cfg(unix)]
    let _ = rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty());
    #[cfg(not(unix))]
    let _ = file;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::interface::Silent;

    /// An installer that goes on after `sync` has the lock of the folder.
    #[cfg(unix)]
    #[test]
    fn a_child_keeps_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let lock = alone(folder.path(), "envlock sync", &Silent).unwrap().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(lock);
        let again = File::open(folder.path()).unwrap().try_lock();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(again, Err(TryLockError::WouldBlock)), "{again:?}");
    }
}
