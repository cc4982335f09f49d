//! The state of the machine: what would keep a program from running on it today.

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;

/// What gives a container its GPUs.
pub(super) const GIVE_THE_CONTAINER_GPUS: &str =
    "start the container with `--gpus all` (or the CDI device `nvidia.com/gpu=all`)";
/// That a container has none of its host's GPUs.
pub(super) const NO_GPU_GIVEN: &str =
    "the host has a driver, and this container was given no GPU: there is no /dev/nvidia* in it";

/// How the driver's library and its kernel module differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// NVML says so.
    SaidByNvml,
    /// The library is cuda-compat's of a release, and does not serve a product.
    CompatOnConsumer {
        /// The library's release.
        release: String,
        /// The product.
        gpu: String,
        /// What takes the library off the loader's path.
        take_out: String,
    },
    /// The library is cuda-compat's of a release that is not listed for the kernel module's branch.
    CompatNotListed {
        /// The library's release.
        release: String,
        /// The module's branch.
        branch: u32,
        /// What takes the library off the loader's path.
        take_out: String,
    },
    /// The library and the module are of two releases.
    Releases {
        /// The library's.
        library: String,
        /// The module's.
        module: String,
    },
}

/// The driver's library and its kernel module are of different releases.
pub fn driver_mismatch(mismatch: Mismatch) -> Finding {
    let (severity, text, fix) = match mismatch {
        Mismatch::SaidByNvml => (
            Severity::Error,
            "the driver's library and its kernel module are of different releases: NVML and CUDA do not start"
                .to_owned(),
            "reboot, or unload and load the nvidia modules; in a container use the host's library".to_owned(),
        ),
        Mismatch::CompatOnConsumer { release, gpu, take_out } => (
            Severity::Error,
            format!(
                "the driver's library is cuda-compat's, of release {release}: it does not serve {gpu}, and CUDA does not start (error 804)"
            ),
            format!("{take_out}, and update the driver itself"),
        ),
        Mismatch::CompatNotListed { release, branch, take_out } => (
            Severity::Warning,
            format!(
                "the driver's library is cuda-compat's, of release {release}, which NVIDIA does not list for drivers of branch {branch}: CUDA may end with error 803"
            ),
            take_out,
        ),
        Mismatch::Releases { library, module } => (
            Severity::Error,
            format!(
                "the driver's library is of release {library}, its kernel module of {module}: CUDA does not start (error 803)"
            ),
            "reboot after a driver update, or reload the module; in a container use the host's library"
                .to_owned(),
        ),
    };
    finding(Code::DriverMismatch, severity, text).fixed_by(Fix::advice(fix))
}

/// How the files are missing through which a program reaches the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceFilesGone {
    /// A container was given none of its host's GPUs.
    ContainerGivenNone,
    /// A container was started with `NVIDIA_VISIBLE_DEVICES` set to this.
    SwitchedOff(String),
    /// Some of them are not there.
    Some {
        /// Their names.
        missing: Vec<&'static str>,
        /// Whether this is a container.
        in_container: bool,
    },
}

/// The files through which a program reaches the driver are missing.
pub fn no_device_files(gone: DeviceFilesGone) -> Finding {
    let (severity, text, fix) = match gone {
        DeviceFilesGone::ContainerGivenNone => {
            (Severity::Error, NO_GPU_GIVEN.to_owned(), GIVE_THE_CONTAINER_GPUS)
        }
        DeviceFilesGone::SwitchedOff(devices) => (
            Severity::Warning,
            format!("the container was started with NVIDIA_VISIBLE_DEVICES={devices}: it is given no GPU"),
            "start it with `--gpus all`",
        ),
        DeviceFilesGone::Some { missing, in_container } => (
            Severity::Error,
            format!("the driver is loaded, and {} is not there: CUDA sees no GPU", missing.join(", ")),
            match in_container {
                true => GIVE_THE_CONTAINER_GPUS,
                false => "run `nvidia-modprobe -u -c 0`, or start `nvidia-persistenced`",
            },
        ),
    };
    finding(Code::NoDeviceFiles, severity, text).fixed_by(Fix::advice(fix))
}

/// NVSwitches are there and their manager does not run.
pub fn fabric_manager() -> Finding {
    let text = "the machine has NVSwitches, and nv-fabricmanager does not run: CUDA ends with error 802";
    let fix = "systemctl start nvidia-fabricmanager (of the driver's own version)";
    finding(Code::FabricManager, Severity::Error, text).fixed_by(Fix::advice(fix))
}

/// Docker cannot hand GPUs to containers.
pub fn containers_without_gpus() -> Finding {
    let text = "Docker is here without NVIDIA's runtime or a CDI description: containers get no GPU";
    let fix = "install nvidia-container-toolkit, then `nvidia-ctk runtime configure --runtime=docker`";
    finding(Code::ContainersWithoutGpus, Severity::Info, text).fixed_by(Fix::advice(fix))
}

/// A card's compute mode keeps programs away: `exclusive` where a program has it, else it is prohibited to all.
pub fn compute_mode(card: &str, exclusive: bool) -> Finding {
    let (text, fix) = match exclusive {
        true => (
            "is in an exclusive compute mode and a program has it: the next one is refused (error 46)",
            Fix::advice("wait for the other program, or nvidia-smi -c DEFAULT"),
        ),
        false => (
            "is in the compute mode `prohibited`: no program may use it",
            Fix::command("nvidia-smi -c DEFAULT"),
        ),
    };
    finding(Code::ComputeMode, Severity::Error, format!("{card} {text}")).at(card).fixed_by(fix)
}

/// What became of a card's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFault {
    /// No spare rows are left.
    NoSpareRows,
    /// Errors that could not be corrected; the row of each is replaced where `contained`.
    Uncorrected {
        /// How many.
        errors: u64,
        /// Whether an error ends only the program that had it.
        contained: bool,
    },
    /// Memory waits for a reset to be taken out of use.
    RetirementPending,
}

/// A card's memory has had errors that could not be corrected.
pub fn memory_errors(card: &str, fault: MemoryFault) -> Finding {
    let (severity, text, fix) = match fault {
        MemoryFault::NoSpareRows => (
            Severity::Error,
            "has no spare memory rows left for those that went bad: it has to be replaced".to_owned(),
            "take it out of service (`nvidia-smi -q -d ROW_REMAPPER`)",
        ),
        MemoryFault::Uncorrected { errors, contained } => (
            if contained { Severity::Warning } else { Severity::Error },
            format!(
                "has had {errors} uncorrected memory {} since the driver was loaded",
                if errors == 1 { "error" } else { "errors" }
            ),
            "reset it (`nvidia-smi -r`); if they come back it is broken",
        ),
        MemoryFault::RetirementPending => (
            Severity::Warning,
            "has memory that waits for a reset to be taken out of use".to_owned(),
            "nvidia-smi -r, when no program uses it",
        ),
    };
    finding(Code::MemoryErrors, severity, format!("{card} {text}")).at(card).fixed_by(Fix::advice(fix))
}

/// A card is split into MIG instances.
pub fn mig_enabled(card: &str) -> Finding {
    let text = format!("{card} is split into MIG instances: a program sees one of them, by its UUID");
    let fix = "CUDA_VISIBLE_DEVICES=MIG-... (`nvidia-smi -L` lists them)";
    finding(Code::MigEnabled, Severity::Info, text).at(card).fixed_by(Fix::advice(fix))
}

/// A card's memory is nearly full: free and all of it in MiB, how many programs use it where that is known, and the
/// names of those that could be read.
pub fn little_memory(
    card: &str,
    (free, total): (u64, u64),
    processes: Option<usize>,
    programs: &[String],
) -> Finding {
    let users = match (processes, programs) {
        (Some(n), programs) if programs.len() == n && n > 0 => format!("; {} use it", programs.join(", ")),
        (Some(n), programs) if !programs.is_empty() => {
            format!("; {n} programs use it, {} among them", programs.join(", "))
        }
        (Some(n), _) => format!("; {n} programs use it"),
        (None, _) => String::new(),
    };
    let text = format!("{card} has {free} of {total} MiB free{users}");
    finding(Code::LittleMemory, Severity::Warning, text).at(card)
}

/// The driver is loaded anew for each program.
pub fn persistence_off(card: &str) -> Finding {
    let text = format!(
        "{card} is not in persistence mode: the driver loads anew for each program, which takes seconds"
    );
    let fix = Fix::command("systemctl enable --now nvidia-persistenced");
    finding(Code::PersistenceOff, Severity::Info, text).at(card).fixed_by(fix)
}
