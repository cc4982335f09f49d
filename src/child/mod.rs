//! Asks a program, and waits for its answer no longer than a limit.
//!
//! What a program leaves behind is not waited for: a process that keeps its output open (an ssh master connection, a
//! daemon), or the program itself where the kernel does not let it end (`nvidia-smi` on a broken driver).

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// How long output is read after the program ended: it is in a pipe already, of 64 KiB at most.
const REST: Duration = Duration::from_secs(2);
/// How long a program may take to end when it is asked to, and when it is killed.
const ENDING: Duration = Duration::from_secs(2);
/// How often to look whether it ended.
const TICK: Duration = Duration::from_millis(5);

/// What is read of a program's answer.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may run.
    pub time: Duration,
    /// How much of its standard output is kept, in bytes. The rest is read and dropped, so that the program ends.
    pub out: u64,
    /// The same for its standard error; with 0 it is discarded.
    pub errors: u64,
}

/// The limits of a short question: 10 s, 1 MiB, its errors discarded.
pub const SHORT: Limits = Limits { time: Duration::from_secs(10), out: 1 << 20, errors: 0 };

/// What a program answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Whether it succeeded.
    pub is_success: bool,
    /// Its standard output.
    pub out: Vec<u8>,
    /// Its standard error.
    pub errors: Vec<u8>,
}

impl Output {
    /// Its standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Its standard error as text.
    pub fn error_text(&self) -> String {
        String::from_utf8_lossy(&self.errors).into_owned()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Silent {
    /// It cannot be started.
    NotStarted(std::io::Error),
    /// It did not end in time; what it wrote until then.
    Late(Output),
}

/// Runs a program, without standard input, and reads what it writes.
///
/// # Errors
/// When it cannot be started or does not end in time.
pub fn answer(mut command: Command, limits: Limits) -> Result<Output, Silent> {
    let errors = if limits.errors == 0 { Stdio::null() } else { Stdio::piped() };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().map_err(Silent::NotStarted)?;
    let out = child.stdout.take().map(|stream| Reader::start(stream, limits.out));
    let errors = child.stderr.take().map(|stream| Reader::start(stream, limits.errors));
    let success = wait(&mut child, limits.time);
    if success.is_none() {
        end(&mut child);
    }
    let until = Instant::now() + REST;
    let text = |reader: Option<Reader>| reader.map(|reader| reader.text(until)).unwrap_or_default();
    let answer = Output { is_success: success.unwrap_or(false), out: text(out), errors: text(errors) };
    if success.is_some() { Ok(answer) } else { Err(Silent::Late(answer)) }
}

/// Waits until it ended: whether it succeeded. `None` when it still runs.
fn wait(child: &mut Child, limit: Duration) -> Option<bool> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(TICK),
            _ => return None,
        }
    }
}

/// Ends a program: it is asked first, so that it can end its own (`srun` its tasks, `git` its transfer).
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(id) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        if wait(child, ENDING).is_some() {
            return;
        }
    }
    kill(child);
}

/// Kills a program. One that hangs in the kernel is left: it ends when the driver lets it.
pub fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = wait(child, ENDING);
}

/// Reads a stream in the background.
struct Reader {
    text: Arc<Mutex<Vec<u8>>>,
    ended: mpsc::Receiver<()>,
}

impl Reader {
    fn start(mut stream: impl Read + Send + 'static, limit: u64) -> Reader {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (sender, ended) = mpsc::channel();
        let into = Arc::clone(&text);
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(n @ 1..) = stream.read(&mut piece) {
                let mut text = into.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(text.len());
                text.extend_from_slice(&piece[..n.min(room)]);
            }
            let _ = sender.send(());
        });
        Reader { text, ended }
    }

    /// What was read until the stream ended, or until this moment.
    fn text(self, until: Instant) -> Vec<u8> {
        let _ = self.ended.recv_timeout(until.saturating_duration_since(Instant::now()));
        std::mem::take(&mut self.text.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str, limits: Limits) -> Result<Output, Silent> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        answer(command, limits)
    }

    #[test]
    fn what_it_wrote_and_how_it_ended() {
        let limits = Limits { errors: 4, ..SHORT };
        let said = sh("printf 'abc\\ndef'; echo no good >&2; exit 3", limits).unwrap();
        assert_eq!(
            (said.is_success, said.text().as_str(), said.error_text().as_str()),
            (false, "abc\ndef", "no g")
        );
    }

    #[test]
    fn more_than_the_limit_is_read_and_dropped() {
        let said =
            sh("head -c 3000000 /dev/zero; echo end >&2", Limits { out: 10, errors: 10, ..SHORT }).unwrap();
        assert_eq!((said.is_success, said.out.len(), said.error_text().as_str()), (true, 10, "end\n"));
    }

    #[test]
    fn a_process_left_behind_that_keeps_the_output_open_is_not_waited_for() {
        let start = Instant::now();
        let said = sh("sleep 60 & echo here", Limits { errors: 10, ..SHORT }).unwrap();
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!((said.is_success, said.text().as_str()), (true, "here\n"));
    }

    #[test]
    fn one_that_does_not_end_is_ended() {
        let start = Instant::now();
        let limits = Limits { time: Duration::from_millis(500), ..SHORT };
        let late = sh("trap '' TERM; echo so far; while :; do sleep 1; done", limits);
        assert!(matches!(&late, Err(Silent::Late(answer)) if answer.text() == "so far\n"), "{late:?}");
        assert!(start.elapsed() < Duration::from_secs(30));
        assert!(matches!(answer(Command::new("/nowhere/x"), limits), Err(Silent::NotStarted(_))));
    }
}
