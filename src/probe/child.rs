//! Asks a program, and waits for its answer no longer than a limit.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The limit of one answer.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// The limit of an answer's size, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silent {
    /// It cannot be started.
    NotStarted,
    /// It did not end, or left a process behind that keeps its output open.
    Late,
}

/// Whether the program succeeded, and what it wrote to its standard output.
pub(super) fn answer(mut command: Command) -> Result<(bool, String), Silent> {
    let mut child = command
        // What these name could have been planted.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("LD_PRELOAD")
        .env_remove("LD_AUDIT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_| Silent::NotStarted)?;
    let mut out = child.stdout.take().expect("piped above");
    // Not joined: a process that it left behind may keep its output open.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = out.by_ref().take(MAX_OUTPUT).read_to_end(&mut text);
        let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
    });
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let left = LIMIT.saturating_sub(start.elapsed());
                let text = receiver.recv_timeout(left).map_err(|_| Silent::Late)?;
                return Ok((status.success(), text));
            }
            Ok(None) if start.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Silent::Late);
            }
        }
    }
}
