//! The machine: platform, C library, driver, GPUs, and what changed since the lock was made.

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::host_note::HostNote;
use crate::model::platform::Platform;
use crate::model::version::DottedVersion;
use crate::model::wheel::Python;

/// The platform differs from the locked one.
pub fn wrong_platform(locked: Platform, here: Platform) -> Finding {
    let text = format!("the lock is for {locked}, this machine is {here}");
    finding(Code::WrongPlatform, Severity::Error, text)
}

/// The Python series differs from the locked one.
pub fn wrong_python(installed: Python, locked: Python) -> Finding {
    let text = format!("the environment has Python {installed}, the lock is for {locked}");
    finding(Code::WrongPython, Severity::Error, text)
        .fixed_by(Fix::advice(format!("make the environment anew with Python {locked}")))
}

/// The C library is older than the wheels need.
pub fn libc_too_old(have: &DottedVersion, need: &DottedVersion) -> Finding {
    let text = format!("glibc {have} is older than the {need} that the wheels need");
    finding(Code::LibcTooOld, Severity::Error, text)
}

/// The driver is below the floor for a GPU.
pub fn driver_too_old(driver: &DottedVersion, floor: &DottedVersion, gpu: &str) -> Finding {
    let text = format!("driver {driver} is below {floor}, which {gpu} needs for this stack");
    let fix =
        format!("update the NVIDIA driver on the host to {floor} or newer, or `envlock resolve --redetect`");
    finding(Code::DriverTooOld, Severity::Error, text).fixed_by(Fix::advice(fix))
}

/// How it is known that a driver no longer knows a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverTooNew {
    /// By the envelope of the stack.
    Envelope {
        /// The kernel module's release.
        driver: DottedVersion,
        /// The first branch without the GPU.
        below: DottedVersion,
        /// The GPU.
        gpu: String,
    },
    /// By the description of a machine, which cannot be: why.
    Described(String),
}

/// The driver no longer knows a GPU.
pub fn driver_too_new(what: &DriverTooNew) -> Finding {
    let text = match what {
        DriverTooNew::Envelope { driver, below, gpu } => {
            format!("driver {driver} no longer knows {gpu}: it needs a driver before {below}")
        }
        DriverTooNew::Described(why) => why.clone(),
    };
    finding(Code::DriverTooNew, Severity::Error, text)
}

/// The driver runs the stack in compatibility mode.
pub fn compatibility_mode(driver: &DottedVersion, native: &DottedVersion) -> Finding {
    let text = format!(
        "compatibility mode: driver {driver} is below {native}; machine code runs, PTX of this toolkit does not"
    );
    finding(Code::CompatibilityMode, Severity::Info, text)
}

/// The stack has no code for a GPU of the machine; `covered` are the compute capabilities that it serves.
pub fn gpu_not_covered(gpu: &str, covered: &[String]) -> Finding {
    let text = format!("{gpu} is not covered: the stack serves {}", covered.join(" "));
    finding(Code::GpuNotCovered, Severity::Error, text)
        .at(gpu)
        .fixed_by(Fix::command("envlock resolve --redetect"))
}

/// A variable, a filter or a limit of the process hides GPUs from programs.
pub fn hidden_gpus(note: &HostNote, hides_all: bool) -> Finding {
    let severity = if hides_all { Severity::Warning } else { Severity::Info };
    finding(Code::HiddenGpus, severity, note.to_string())
}

/// What could not be judged on this machine, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotJudged {
    /// Which GPUs the machine has is not known.
    GpusUnknown,
    /// The machine has no NVIDIA GPU.
    NoGpu,
    /// The driver is not known.
    DriverUnknown,
    /// The compute capability of a GPU is not known.
    CapabilityUnknown(String),
    /// The machine is a container on a host with GPUs, and has none of them.
    ContainerWithoutGpus,
    /// What the probe saw of the machine.
    Note(HostNote),
    /// The libraries could not be read: why.
    Libraries(String),
    /// A host file cannot be read: why.
    HostFile(String),
}

/// Something could not be judged. `required` tells whether that is a fault.
pub fn not_judged(what: NotJudged, required: bool) -> Finding {
    let severity = if required { Severity::Error } else { Severity::Info };
    let text = match &what {
        NotJudged::GpusUnknown => {
            "the GPUs of this machine are unknown, so neither they nor the driver could be judged".to_owned()
        }
        NotJudged::NoGpu => "no NVIDIA GPU here: driver and GPU code could not be judged".to_owned(),
        NotJudged::DriverUnknown => "the driver is unknown, so it could not be judged".to_owned(),
        NotJudged::CapabilityUnknown(gpu) => format!("the compute capability of {gpu} is unknown"),
        NotJudged::ContainerWithoutGpus => super::machine::NO_GPU_GIVEN.to_owned(),
        NotJudged::Note(note) => note.to_string(),
        NotJudged::Libraries(why) | NotJudged::HostFile(why) => why.clone(),
    };
    let found = finding(Code::NotJudged, severity, text);
    match what {
        NotJudged::ContainerWithoutGpus => {
            found.fixed_by(Fix::advice(super::machine::GIVE_THE_CONTAINER_GPUS))
        }
        _ => found,
    }
}

/// The machine changed since the lock was made: what of it, then and now.
pub fn drift(change: impl Into<String>) -> Finding {
    finding(Code::Drift, Severity::Info, change)
}
