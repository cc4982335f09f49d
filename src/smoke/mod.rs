//! The smoke test: a convolution that really runs, in a child process of the environment's Python.
//!
//! A crash, a hang or a missing torch is an outcome, never this program's own failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The test itself, run in the environment.
const SCRIPT: &str = include_str!("conv.py");
/// No more of the child's error output is kept.
const MAX_OUTPUT: usize = 16 << 10;

/// Which devices to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// Every GPU, or the CPU where there is none.
    Auto,
    /// The CPU.
    Cpu,
    /// Every GPU.
    Cuda,
}

/// One check that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// `import`, `conv-fp32`, `conv-tf32`.
    pub name: String,
    /// The layer it belongs to.
    pub layer: String,
    /// `cpu`, `cuda:0`.
    pub device: String,
    /// Whether it passed.
    pub passed: bool,
    /// Figures.
    pub detail: String,
}

/// What the smoke test came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmokeOutcome {
    /// The checks that ran, in order.
    pub checks: Vec<Check>,
    /// How it ended.
    pub end: End,
}

/// How the child process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It ran through.
    Done,
    /// It stopped in a layer: an exception (the last line of the traceback) or a signal.
    Crashed {
        /// The layer that was reached.
        layer: String,
        /// What was seen.
        what: String,
    },
    /// It did not end in time.
    TimedOut {
        /// The layer that was reached.
        layer: String,
        /// The limit in seconds.
        seconds: u64,
    },
    /// Python could not be started.
    NotStarted(String),
}

#[derive(Deserialize)]
struct Document {
    checks: Vec<Check>,
    reached: Reached,
}

#[derive(Deserialize)]
struct Reached {
    layer: String,
    device: Option<String>,
}

/// The Python of an environment.
pub fn interpreter(prefix: &Path) -> Option<PathBuf> {
    ["bin/python", "bin/python3", "python.exe", "Scripts/python.exe"]
        .iter()
        .map(|p| prefix.join(p))
        .find(|p| p.exists())
}

/// Runs the test. `minor` is the environment's Python series, where known.
pub fn run(prefix: &Path, minor: Option<u32>, devices: Devices, limit: Duration) -> SmokeOutcome {
    let failed = |why: String| SmokeOutcome { checks: Vec::new(), end: End::NotStarted(why) };
    // Made absolute: the test runs in a folder of its own, where a relative prefix leads nowhere.
    let python = std::path::absolute(prefix).ok().and_then(|prefix| interpreter(&prefix));
    let Some(python) = python else {
        return failed(format!("`{}` has no Python", prefix.display()));
    };
    // A fresh folder: nothing of the current one can shadow torch.
    let folder = match tempfile::Builder::new().prefix("envlock-smoke-").tempdir() {
        Ok(folder) => folder,
        Err(error) => return failed(error.to_string()),
    };
    let script = folder.path().join("envlock_smoke.py");
    let out = folder.path().join("out.json");
    let errors = folder.path().join("stderr");
    if let Err(error) = fs_err::write(&script, SCRIPT) {
        return failed(error.to_string());
    }
    let stderr = match fs_err::File::create(&errors) {
        Ok(file) => Stdio::from(file.into_parts().0),
        Err(error) => return failed(error.to_string()),
    };
    let mut command = Command::new(&python);
    // -P keeps the script's folder off sys.path; Pythons before 3.11 do not have it, and the folder
    // holds nothing else.
    if minor.is_none_or(|m| m >= 11) {
        command.arg("-P");
    }
    command
        .arg(&script)
        .arg(&out)
        .arg(match devices {
            Devices::Auto => "auto",
            Devices::Cpu => "cpu",
            Devices::Cuda => "cuda",
        })
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(format!("cannot start `{}`: {error}", python.display())),
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let document = fs_err::read(&out)
        .ok()
        .filter(|b| b.len() < 1 << 20)
        .and_then(|b| serde_json::from_slice::<Document>(&b).ok());
    let layer = document.as_ref().map_or("start".to_owned(), |d| match &d.reached.device {
        Some(device) => format!("{} on {device}", d.reached.layer),
        None => d.reached.layer.clone(),
    });
    let done = document.as_ref().is_some_and(|d| d.reached.layer == "done");
    let checks = document.map(|d| d.checks).unwrap_or_default();
    let end = match status {
        None => End::TimedOut { layer, seconds: limit.as_secs() },
        Some(status) if status.success() && done => End::Done,
        Some(status) => {
            End::Crashed { layer, what: last_words(&errors).unwrap_or_else(|| format!("{status}")) }
        }
    };
    SmokeOutcome { checks, end }
}

/// The last line of the child's error output.
fn last_words(path: &Path) -> Option<String> {
    let bytes = fs_err::read(path).ok()?;
    let tail = &bytes[bytes.len().saturating_sub(MAX_OUTPUT)..];
    let text = String::from_utf8_lossy(tail);
    text.lines().rev().find(|l| !l.trim().is_empty()).map(|l| crate::model::text::clean(l.trim(), 200))
}

impl SmokeOutcome {
    /// Whether everything ran and passed.
    pub fn passed(&self) -> bool {
        self.end == End::Done && self.checks.iter().all(|c| c.passed)
    }
}
