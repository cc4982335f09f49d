//! Signals: one that ends the program waits until nothing is being written, and takes the folders of the run along.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use super::exit;

/// Held while something is written.
static WRITING: Mutex<()> = Mutex::new(());

/// The folders that are there while the program runs.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Delays signals that end the program during a write. Before the first write no handler is installed, and a signal
/// has its default action.
pub(crate) fn uninterrupted<T>(write: impl FnOnce() -> T) -> T {
    handle();
    let _writing = held(&WRITING);
    write()
}

/// Makes a folder that a signal removes.
pub(super) fn with_folder<E>(make: impl FnOnce() -> Result<PathBuf, E>) -> Result<PathBuf, E> {
    handle();
    // A signal waits until it is known.
    let mut folders = held(&FOLDERS);
    let folder = make()?;
    folders.insert(folder.clone());
    Ok(folder)
}

/// Removes a folder; a signal that comes meanwhile removes what is left.
pub(super) fn remove_folder(folder: &Path) {
    let _ = fs_err::remove_dir_all(folder);
    held(&FOLDERS).remove(folder);
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on a signal ends the program as soon as nothing is being written. A signal that is ignored, as `nohup` does with
/// SIGHUP, stays ignored.
fn handle() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(wait_for_signals);
}

#[cfg(unix)]
fn wait_for_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !crate::smoke::is_ignored(*signal));
    // Where no handler can be installed, signals keep their default action.
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _wait = held(&WRITING);
            // None is made from then on.
            let folders = held(&FOLDERS);
            for folder in folders.iter() {
                let _ = fs_err::remove_dir_all(folder);
            }
            if signal != SIGINT {
                // Who waits for this process sees the signal.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            std::process::exit(exit::INTERRUPTED.into());
        }
    });
}

#[cfg(not(unix))]
fn wait_for_signals() {}

/// Writing beyond the limit of `ulimit -f` is an error of the file with a name, not the end of the program. A handler, since
/// it ends with `exec`: what envlock starts has the default action.
#[cfg(unix)]
pub(crate) fn limits_are_errors() {
    // Where no handler can be installed, the default action stays.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

#[cfg(not(unix))]
pub(crate) fn limits_are_errors() {}
