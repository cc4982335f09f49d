//! `run --monitor`: samples the GPUs once a second while the command runs, and prints a summary at the end.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::samples::{as_csv, as_json, summary};
use super::signals::Signals;
use crate::cli::printer::Printer;
use crate::probe::Sample;
use crate::session::Interface as _;
use crate::session::write;
use crate::session::{chosen_host, exit};

/// The time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often to check whether the command still runs.
const TICK: Duration = Duration::from_millis(50);
/// Above this number, every second sample is dropped.
const MAX_SAMPLES: usize = 100_000;

/// Runs a command and monitors the GPUs.
pub(super) fn run(mut command: Command, out: Option<&Path>, printer: &Printer) -> std::io::Result<u8> {
    // Write an empty file first, so that a write error is reported before hours of training, not after.
    if let Some(path) = out {
        write::replace(path, "").map_err(|error| std::io::Error::other(error.message))?;
    }
    let sampler = chosen_host::sampler();
    if sampler.is_none() {
        printer.warning("NVML is not available: the GPUs are not monitored");
    }
    let mut signals = Signals::new();
    let mut child = command.spawn()?;
    let start = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    let mut next = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        signals.pass_on(&child);
        if Instant::now() >= next {
            next += INTERVAL;
            if let Some(sampler) = &sampler {
                samples.extend(sampler.sample(start.elapsed().as_secs_f64()));
            }
            if samples.len() > MAX_SAMPLES {
                let mut keep = false;
                samples.retain(|_| {
                    keep = !keep;
                    keep
                });
            }
        }
        std::thread::sleep(TICK);
    };
    for line in summary(&samples, start.elapsed()) {
        printer.note(&line);
    }
    if let Some(path) = out {
        let text =
            if path.extension().is_some_and(|e| e == "json") { as_json(&samples) } else { as_csv(&samples) };
        if let Err(error) = write::replace(path, &text) {
            printer.failure(&error);
        }
    }
    end_as(status);
    Ok(code(status))
}

/// Ends with the signal that ended the command, if one did, so that the parent process sees the same status.
#[cfg(unix)]
fn end_as(status: std::process::ExitStatus) {
    use std::os::unix::process::ExitStatusExt as _;
    let Some(signal) = status.signal() else { return };
    // A core file of this program would not help.
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: takes a number and a value that lives through the call.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

#[cfg(not(unix))]
fn end_as(_status: std::process::ExitStatus) {}

#[cfg(unix)]
fn code(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    // As a shell reports it: 128 plus the signal number.
    let signal = status.signal().and_then(|signal| u8::try_from(128 + signal).ok());
    status.code().and_then(|code| u8::try_from(code).ok()).or(signal).unwrap_or(exit::NO)
}

#[cfg(not(unix))]
fn code(status: std::process::ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::NO)
}
