//! `run --monitor`: samples the GPUs once a second while the command runs, and prints a summary at the end.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::printer::Printer;
use crate::cli::write;
use crate::cli::{exit, host};
use crate::probe::Sample;

/// The time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often to check whether the command still runs.
const TICK: Duration = Duration::from_millis(50);
/// Above this number, every second sample is dropped.
const MAX_SAMPLES: usize = 100_000;
/// A GPU whose memory is at least this full, in percent, while its SM utilization is below [`IDLE`], gets a hint.
const FULL: u64 = 90;
const IDLE: f64 = 10.0;

/// Runs a command and monitors the GPUs.
pub(super) fn run(mut command: Command, out: Option<&Path>, printer: &Printer) -> std::io::Result<u8> {
    // Write an empty file first, so that a write error is reported before hours of training, not after.
    if let Some(path) = out {
        write::replace(path, "").map_err(|error| std::io::Error::other(error.message))?;
    }
    let sampler = host::sampler();
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
            error.print(printer);
        }
    }
    end_as(status);
    Ok(code(status, &child))
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

/// Forwards signals to the command. An interrupt from the terminal is not forwarded: the command is in the same
/// process group and has received it already.
#[cfg(unix)]
struct Signals(Option<signal_hook::iterator::Signals>);

#[cfg(unix)]
impl Signals {
    fn new() -> Signals {
        use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
        // If no handler can be installed, signals keep their default action.
        Signals(
            signal_hook::iterator::Signals::new([
                SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT,
            ])
            .ok(),
        )
    }

    fn pass_on(&mut self, child: &Child) {
        use signal_hook::consts::{SIGINT, SIGQUIT};
        let Ok(id) = i32::try_from(child.id()) else { return };
        for signal in self.0.iter_mut().flat_map(signal_hook::iterator::Signals::pending) {
            if !([SIGINT, SIGQUIT].contains(&signal) && from_terminal()) {
                // SAFETY: the child has not been waited for yet, so its process id is not reused.
                unsafe { libc::kill(id, signal) };
            }
        }
    }
}

/// Whether this process is in the foreground of a terminal. Then Ctrl-C reaches the whole process group.
#[cfg(unix)]
fn from_terminal() -> bool {
    // SAFETY: both functions take and return integers.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Signals {
        Signals
    }

    fn pass_on(&mut self, _child: &Child) {}
}

#[cfg(unix)]
fn code(status: std::process::ExitStatus, _child: &Child) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    // As a shell reports it: 128 plus the signal number.
    let signal = status.signal().and_then(|signal| u8::try_from(128 + signal).ok());
    status.code().and_then(|code| u8::try_from(code).ok()).or(signal).unwrap_or(exit::NO)
}

#[cfg(not(unix))]
fn code(status: std::process::ExitStatus, _child: &Child) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::NO)
}

/// One line for each GPU, and a hint if it was idle with its memory full.
fn summary(samples: &[Sample], elapsed: Duration) -> Vec<String> {
    let mut out = Vec::new();
    let mut cards: Vec<u32> = samples.iter().map(|sample| sample.gpu).collect();
    cards.sort_unstable();
    cards.dedup();
    for card in cards {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.gpu == card).collect();
        let mean = |value: &dyn Fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = own.iter().filter_map(|sample| value(sample)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let sm = mean(&|s| s.sm_percent.map(f64::from));
        let watts = mean(&|s| s.power_watts);
        let used = own.iter().filter_map(|s| s.memory_used_mib).max();
        let total = own.iter().filter_map(|s| s.memory_total_mib).max();
        let mut text = format!("GPU {card}, {:.0} s:", elapsed.as_secs_f64());
        if let Some(sm) = sm {
            text.push_str(&format!(" SM {sm:.0} % on average,"));
        }
        if let Some(memory) = mean(&|s| s.memory_percent.map(f64::from)) {
            text.push_str(&format!(" memory {memory:.0} %,"));
        }
        if let (Some(used), Some(total)) = (used, total) {
            text.push_str(&format!(" at most {used} of {total} MiB,"));
        }
        if let Some(watts) = watts {
            text.push_str(&format!(" {watts:.0} W,"));
        }
        if let Some(sm) = mean(&|s| s.sm_mhz.map(f64::from)) {
            text.push_str(&format!(" {sm:.0} MHz,"));
        }
        let mut reasons: Vec<&str> =
            own.iter().flat_map(|s| s.throttled_by.iter().map(String::as_str)).collect();
        reasons.sort_unstable();
        reasons.dedup();
        if !reasons.is_empty() {
            text.push_str(&format!(" throttled by {},", reasons.join(", ")));
        }
        let errors = own.iter().filter_map(|s| s.uncorrected_errors).max().unwrap_or_default();
        if errors > 0 {
            text.push_str(&format!(" {errors} uncorrected memory errors,"));
        }
        out.push(text.trim_end_matches([',', ':']).to_owned());
        if let (Some(sm), Some(used), Some(total)) = (sm, used, total)
            && total > 0
            && used * 100 / total >= FULL
            && sm < IDLE
        {
            out.push(format!(
                "GPU {card} was idle while its memory was full: the program waits for something else, most often for data"
            ));
        }
    }
    out
}

fn as_json(samples: &[Sample]) -> String {
    format!("{:#}\n", json!({ "samples": samples }))
}

fn as_csv(samples: &[Sample]) -> String {
    let mut out = String::from(
        "seconds,gpu,sm_percent,memory_percent,memory_used_mib,memory_total_mib,power_watts,sm_mhz,memory_mhz,uncorrected_errors,throttled_by\n",
    );
    let text = |value: Option<String>| value.unwrap_or_default();
    for s in samples {
        out.push_str(&format!(
            "{:.1},{},{},{},{},{},{},{},{},{},{}\n",
            s.seconds,
            s.gpu,
            text(s.sm_percent.map(|v| v.to_string())),
            text(s.memory_percent.map(|v| v.to_string())),
            text(s.memory_used_mib.map(|v| v.to_string())),
            text(s.memory_total_mib.map(|v| v.to_string())),
            text(s.power_watts.map(|v| format!("{v:.1}"))),
            text(s.sm_mhz.map(|v| v.to_string())),
            text(s.memory_mhz.map(|v| v.to_string())),
            text(s.uncorrected_errors.map(|v| v.to_string())),
            s.throttled_by.join(" ")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_when_a_card_waited() {
        let sample = |seconds: f64, sm| Sample {
            seconds,
            gpu: 0,
            sm_percent: Some(sm),
            memory_used_mib: Some(79_000),
            memory_total_mib: Some(81_920),
            power_watts: Some(100.0),
            throttled_by: vec!["power cap".to_owned()],
            ..Sample::default()
        };
        let told = summary(&[sample(0.0, 4), sample(1.0, 6)], Duration::from_secs(2));
        assert_eq!(
            told[0],
            "GPU 0, 2 s: SM 5 % on average, at most 79000 of 81920 MiB, 100 W, throttled by power cap"
        );
        assert!(told[1].contains("waits for something else"));
        assert_eq!(summary(&[sample(0.0, 90)], Duration::from_secs(1)).len(), 1);
        assert!(as_csv(&[sample(0.0, 4)]).ends_with("0.0,0,4,,79000,81920,100.0,,,,power cap\n"));
        assert!(as_json(&[sample(0.0, 4)]).contains("\"sm_percent\": 4"));
    }
}
