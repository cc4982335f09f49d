//! Detects the machine: driver, GPUs, platform, C library, each fact with its source.
//!
//! Sources for NVIDIA, in order: NVML (also in WSL's folder), `/sys/module/nvidia` and `/proc/driver/nvidia`
//! (containers), the PCI bus (GPUs without a loaded driver), and `nvidia-smi` where these do not answer. Only programs
//! and libraries that the administrator installed are used (`trusted.rs`). A fact that could not be read is unknown,
//! never "none": a machine has no GPU only if there is no trace of an NVIDIA GPU or driver.

mod compat;
pub mod conda_client;
pub mod host_file;
mod nvidia_smi;
mod nvml;
mod overrides;
mod procfs;
pub mod pythons;
mod sampler;
mod state;
mod system;
mod trusted;

use std::path::PathBuf;
use std::process::Command;

use crate::child::{self, Silent};
use crate::model::host::{Driver, Gpu, Host};
use crate::model::host_note::HostNote;

pub use sampler::{Sample, Sampler};
pub use state::{modes, state};
pub use system::system;

/// The file system and environment that the probe reads; tests pass their own.
pub struct Surroundings<'a> {
    /// The root of the file system, `/`.
    pub root: PathBuf,
    /// Reads one environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Asks a program: whether it succeeded, and what it wrote.
fn ask(mut command: Command) -> Result<(bool, String), Silent> {
    // What these name could have been planted.
    for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"] {
        command.env_remove(variable);
    }
    child::answer(command, child::SHORT).map(|answer| (answer.is_success, answer.text()))
}

/// Detects the machine.
pub fn probe(around: &Surroundings<'_>) -> Host {
    let mut host = Host { driver: None, gpus: None, system: system(), notes: Vec::new() };
    let wsl = procfs::is_wsl(around);
    if wsl {
        host.notes.push(HostNote::Wsl);
    }
    let mut failures = Vec::new();
    match nvml::look(around) {
        Ok(found) => take(&mut host, found),
        Err(why) => failures.push(why),
    }
    if host.driver.is_none() {
        host.driver = procfs::driver(around);
    }
    let in_proc = procfs::gpus(around);
    let on_bus = procfs::pci_gpus(around);
    // nvidia-smi runs without `LD_LIBRARY_PATH`.
    let is_refused = !trusted::nvml_is_trusted(around);
    let is_silent = is_refused
        || host.driver.is_none()
        || [&host.gpus, &in_proc, &on_bus].into_iter().all(Option::is_none);
    if is_silent {
        match nvidia_smi::look(around) {
            Ok(found) => take(&mut host, found),
            Err(why) => failures.push(why),
        }
    }
    if let Some(driver) = &mut host.driver {
        driver.compat = compat::release(around).filter(|release| *release > driver.version);
    }
    // NVML counts only GPUs that this process may open; /proc and the PCI bus may show more.
    if host.has_no_gpu()
        && let Some(here) = [&in_proc, &on_bus].into_iter().flatten().find(|list| !list.is_empty())
    {
        host.notes.push(HostNote::NoAccess { here: here.len() });
        host.gpus = Some(here.clone());
    }
    if host.gpus.is_none() {
        host.gpus = in_proc;
    }
    if host.gpus.is_none() {
        match on_bus {
            Some(list) if list.is_empty() && host.driver.is_none() && !wsl => host.gpus = Some(Vec::new()),
            Some(list) if !list.is_empty() => {
                if host.driver.is_none() {
                    host.notes.push(HostNote::DriverNotLoaded);
                }
                host.gpus = Some(list);
            }
            None if host.driver.is_none() && !wsl && !around.root.join("proc/driver/nvidia").exists() => {
                // No PCI bus (macOS, some virtual machines) and no trace of a driver.
                host.gpus = Some(Vec::new());
            }
            _ => {}
        }
    }
    if host.gpus.as_ref().is_none_or(|g| !g.is_empty()) {
        host.notes.extend(failures.into_iter().filter(|f| !f.is_empty()).map(HostNote::NoAnswer));
    }
    host.notes.extend(procfs::other_gpus(around));
    overrides::apply(around, &mut host);
    host
}

/// What each source that answers says of the driver and the GPUs, by its name; [`probe`] takes the first that knows a
/// fact.
pub fn each_source(around: &Surroundings<'_>) -> Vec<(&'static str, Option<Driver>, Vec<Gpu>)> {
    let found = [("NVML", nvml::look(around)), ("nvidia-smi", nvidia_smi::look(around))];
    let answers = found.into_iter().filter_map(|(name, found)| Some((name, found.ok()?)));
    answers.map(|(name, found)| (name, found.driver, found.gpus.unwrap_or_default())).collect()
}

/// Takes over what a source found and no better one has.
fn take(host: &mut Host, found: NvidiaFacts) {
    host.driver = host.driver.take().or(found.driver);
    host.gpus = host.gpus.take().or(found.gpus);
    host.notes.extend(found.notes);
}

/// Facts from one source about NVIDIA's driver and GPUs.
#[derive(Debug, Default, PartialEq)]
struct NvidiaFacts {
    driver: Option<Driver>,
    gpus: Option<Vec<Gpu>>,
    notes: Vec<HostNote>,
}
