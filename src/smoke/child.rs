//! Runs one layer in a child process with a time limit and reads its result, however it ended.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Document;
use super::speed::Compared;
use crate::model::kernel_outcome::DriverDevice;
use crate::model::smoke_test::{Check, End};

/// Maximum size of the kept error output of the child, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Maximum size of the child's JSON document, in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// Watches for signals that end this program, so that the child is killed first. The child has its own process group:
/// it does not receive Ctrl-C from the terminal and would keep using the GPU.
pub(super) struct Interrupts {
    #[cfg(unix)]
    seen: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    #[cfg(unix)]
    watched: Vec<i32>,
}

impl Interrupts {
    /// Watches until dropped. Signals that are already ignored (`nohup`) stay ignored.
    #[cfg(unix)]
    pub fn watch() -> Interrupts {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let watch = |signal: &i32| {
            let value = usize::try_from(*signal).ok()?;
            // If registering fails, the signal keeps its action.
            signal_hook::flag::register_usize(*signal, std::sync::Arc::clone(&seen), value).ok()
        };
        let mut watched = vec![SIGHUP, SIGINT, SIGTERM];
        watched.retain(|signal| !is_ignored(*signal) && watch(signal).is_some());
        Interrupts { seen, watched }
    }

    #[cfg(not(unix))]
    pub fn watch() -> Interrupts {
        Interrupts {}
    }

    /// The signal received, if any.
    pub fn came(&self) -> Option<i32> {
        #[cfg(unix)]
        {
            let signal = self.seen.load(std::sync::atomic::Ordering::Relaxed);
            i32::try_from(signal).ok().filter(|signal| *signal != 0)
        }
        #[cfg(not(unix))]
        None
    }
}

#[cfg(unix)]
impl Drop for Interrupts {
    fn drop(&mut self) {
        for signal in &self.watched {
            // SAFETY: restores the default action of a signal.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}

/// Whether a signal is ignored by this process, as `nohup` does with SIGHUP.
#[cfg(unix)]
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: a null new action only queries; the old one is written to `now`, for which all zeros is a valid value.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// The result of a child.
pub(super) struct Left {
    pub checks: Vec<Check>,
    pub compared: Vec<Compared>,
    pub devices: Vec<DriverDevice>,
    pub end: End,
    /// The tail of its error output.
    pub stderr: String,
}

/// Runs a command in `folder` for at most `limit` and reads the checks that it writes to `out`.
pub(super) fn run(
    mut command: Command,
    folder: &Path,
    out: &Path,
    limit: Duration,
    interrupts: &Interrupts,
) -> Left {
    let failed = |why: String| Left {
        checks: Vec::new(),
        compared: Vec::new(),
        devices: Vec::new(),
        end: End::NotStarted(why),
        stderr: String::new(),
    };
    let errors = folder.join("stderr");
    let stderr = match fs_err::File::create(&errors) {
        Ok(file) => Stdio::from(file.into_parts().0),
        Err(error) => return failed(error.to_string()),
    };
    let _ = std::fs::remove_file(out);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let program = command.get_program().to_string_lossy().into_owned();
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(format!("cannot start `{program}`: {error}")),
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < limit && interrupts.came().is_none() => {
                std::thread::sleep(Duration::from_millis(5))
            }
            _ => {
                // Kills the whole process group.
                #[cfg(unix)]
                if let Ok(group) = i32::try_from(child.id()) {
                    // SAFETY: the group belongs to this child, whose id is not reused before `wait`.
                    unsafe { libc::kill(-group, libc::SIGKILL) };
                }
                crate::child::kill(&mut child);
                break None;
            }
        }
    };
    let document = ends(out, MAX_DOCUMENT).and_then(|bytes| serde_json::from_slice::<Document>(&bytes).ok());
    let reached = document.as_ref().map_or("start".to_owned(), |d| match &d.reached.device {
        Some(device) => format!("{} on {device}", d.reached.layer),
        None => d.reached.layer.clone(),
    });
    let done = document.as_ref().is_some_and(|d| d.reached.layer == "done");
    let (checks, compared, devices) = document.map(|d| (d.checks, d.compared, d.devices)).unwrap_or_default();
    let stderr = tail(&errors);
    let end = match status {
        None if interrupts.came().is_some() => End::Interrupted(interrupts.came().unwrap_or_default()),
        None => End::TimedOut { layer: reached, seconds: limit.as_secs() },
        Some(status) if status.success() && done => End::Done,
        Some(status) => {
            let what = last_nonblank_line(&stderr).unwrap_or_else(|| format!("{status}"));
            End::Crashed { layer: reached, what }
        }
    };
    Left { checks, compared, devices, end, stderr }
}

fn tail(path: &Path) -> String {
    String::from_utf8_lossy(&ends(path, MAX_OUTPUT).unwrap_or_default()).into_owned()
}

/// The last `limit` bytes of a file.
fn ends(path: &Path, limit: usize) -> Option<Vec<u8>> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    // What the child left in its place may block whoever opens it.
    std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit as u64))).ok()?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The last line that is not blank.
fn last_nonblank_line(text: &str) -> Option<String> {
    text.lines().rev().find(|l| !l.trim().is_empty()).map(|l| crate::model::text::clean(l.trim(), 200))
}
