//! One layer in a process of its own: started, watched, and read afterwards, however it ended.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Document;
use super::speed::Compared;
use crate::model::smoke::{Check, End};

/// No more of the child's error output is kept, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// No list of checks is longer, in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// The signals that end this program: while a child runs, they end it first. A child in a group of its own does not get
/// what is typed at the terminal, and would hold the card.
pub(super) struct Interrupts {
    #[cfg(unix)]
    seen: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    #[cfg(unix)]
    watched: Vec<i32>,
}

impl Interrupts {
    /// Watches from now on, until this is dropped. What whoever started us has us ignore (`nohup`) stays ignored.
    #[cfg(unix)]
    pub fn watch() -> Interrupts {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let watch = |signal: &i32| {
            let value = usize::try_from(*signal).ok()?;
            // Where it cannot be watched the signal does what it did.
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

    /// The signal that came, if one did.
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
            // SAFETY: sets a signal back to what it does by itself.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}

#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    // SAFETY: asks only: the new action is none, and the old one is written into a value of ours, made of zeros as C does.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// What a child left behind.
pub(super) struct Left {
    pub checks: Vec<Check>,
    pub compared: Vec<Compared>,
    pub end: End,
    /// The tail of its error output.
    pub stderr: String,
}

/// Runs a command that writes its checks to `out`, in `folder`, for no longer than `limit`.
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
                // With all that it started itself.
                #[cfg(unix)]
                if let Ok(group) = i32::try_from(child.id()) {
                    // SAFETY: a signal to the group that was made for this child, which was not waited for yet.
                    unsafe { libc::kill(-group, libc::SIGKILL) };
                }
                let _ = child.kill();
                let _ = child.wait();
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
    let (checks, compared) = document.map(|d| (d.checks, d.compared)).unwrap_or_default();
    let stderr = tail(&errors);
    let end = match status {
        None if interrupts.came().is_some() => End::Interrupted(interrupts.came().unwrap_or_default()),
        None => End::TimedOut { layer: reached, seconds: limit.as_secs() },
        Some(status) if status.success() && done => End::Done,
        Some(status) => {
            let what = last_words(&stderr).unwrap_or_else(|| format!("{status}"));
            End::Crashed { layer: reached, what }
        }
    };
    Left { checks, compared, end, stderr }
}

fn tail(path: &Path) -> String {
    String::from_utf8_lossy(&ends(path, MAX_OUTPUT).unwrap_or_default()).into_owned()
}

/// The end of a file, whatever its size.
fn ends(path: &Path, limit: usize) -> Option<Vec<u8>> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit as u64))).ok()?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The last line that says something.
fn last_words(text: &str) -> Option<String> {
    text.lines().rev().find(|l| !l.trim().is_empty()).map(|l| crate::model::text::clean(l.trim(), 200))
}
