//! Findings about the current state of the machine, which may prevent a program from running.

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;

/// Advice: how to give a container access to GPUs.
pub(super) const GIVE_THE_CONTAINER_GPUS: &str =
    "start the container with `--gpus all` (or the CDI device `nvidia.com/gpu=all`)";
/// Message: the container has no access to its host's GPUs.
pub(super) const NO_GPU_GIVEN: &str =
    "the host has an NVIDIA driver, but this container was given no GPU: it has no /dev/nvidia*";

/// A mismatch between `libcuda.so.1` and the kernel module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// NVML reports it.
    ReportedByNvml,
    /// The library comes from a cuda-compat package that does not support the GPU.
    CompatOnConsumer {
        /// The library's version.
        release: String,
        /// The GPU's product name.
        gpu: String,
        /// How to remove the library from the loader's search.
        take_out: String,
    },
    /// The library comes from a cuda-compat package that NVIDIA does not list for the kernel module's branch.
    CompatNotListed {
        /// The library's version.
        release: String,
        /// The branch of the kernel module.
        branch: u32,
        /// How to remove the library from the loader's search.
        take_out: String,
    },
    /// The versions of library and kernel module differ.
    Releases {
        /// The version of the library.
        library: String,
        /// The version of the kernel module.
        module: String,
        /// How to remove the library from the loader's search, if a variable names it.
        take_out: Option<String>,
    },
}

/// The versions of `libcuda.so.1` and the kernel module differ.
pub fn driver_mismatch(mismatch: Mismatch) -> Finding {
    let (severity, text, fix) = match mismatch {
        Mismatch::ReportedByNvml => (
            Severity::Error,
            "the versions of the driver's libraries and kernel module differ: NVML and CUDA do not start"
                .to_owned(),
            "reboot, or reload the nvidia kernel modules; in a container, use the host's library".to_owned(),
        ),
        Mismatch::CompatOnConsumer { release, gpu, take_out } => (
            Severity::Error,
            format!(
                "libcuda.so.1 comes from cuda-compat {release}, which does not support {gpu}: CUDA does not start (error 804)"
            ),
            format!("{take_out}, and update the driver itself"),
        ),
        Mismatch::CompatNotListed { release, branch, take_out } => (
            Severity::Warning,
            format!(
                "libcuda.so.1 comes from cuda-compat {release}, which NVIDIA does not list for driver branch {branch}: CUDA may fail with error 803"
            ),
            take_out,
        ),
        Mismatch::Releases { library, module, take_out } => (
            Severity::Error,
            format!(
                "libcuda.so.1 has version {library}, the kernel module {module}: CUDA does not start (error 803)"
            ),
            take_out.unwrap_or_else(|| {
                "reboot after a driver update, or reload the kernel module; in a container, use the host's library"
                    .to_owned()
            }),
        ),
    };
    finding(Code::DriverMismatch, severity, text).fixed_by(Fix::advice(fix))
}

/// What NVIDIA's kernel module does not drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDriver {
    /// Any GPU: the module is not loaded. `required`: whether this is an error, not a warning.
    Loaded {
        /// Whether the machine is asked whether it is sound.
        required: bool,
    },
    /// Some of the GPUs: it is loaded, and has not claimed these.
    ForSome,
}

/// GPUs, by PCI address, that NVIDIA's kernel module does not drive.
pub fn driver_not_loaded(gpus: &[String], what: NoDriver) -> Finding {
    let (several, verb) = if gpus.len() == 1 { ("", "is") } else { ("s", "are") };
    let named = gpus.join(", ");
    let (severity, text, fix) = match what {
        NoDriver::Loaded { required } => (
            if required { Severity::Error } else { Severity::Warning },
            format!("no NVIDIA driver is loaded; the GPU{several} at {named} {verb} on the PCI bus"),
            "load it with `modprobe nvidia`; `dmesg` says why that fails: a missing module, Secure Boot, nouveau",
        ),
        NoDriver::ForSome => (
            Severity::Warning,
            format!("the NVIDIA driver has not claimed the GPU{several} at {named}"),
            "`dmesg | grep -i nvrm` says why: the driver may not support the GPU, or the GPU may have failed",
        ),
    };
    finding(Code::DriverNotLoaded, severity, text).at(named).fixed_by(Fix::advice(fix))
}

/// What does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAnswering<'a> {
    /// These GPUs, by PCI address or index.
    Gpus(&'a [String]),
    /// NVIDIA's management library does not start: why.
    NotStarting(&'a str),
    /// NVIDIA's management library did not answer in time: the limit in words.
    Hangs(&'a str),
}

/// GPUs do not answer: those that are named, or all, because NVIDIA's management library does not.
pub fn gpu_not_answering(what: NotAnswering<'_>) -> Finding {
    let named = |gpu: &String| if gpu.starts_with("GPU") { gpu.clone() } else { format!("the GPU at {gpu}") };
    let text = match what {
        NotAnswering::NotStarting(why) => format!("the driver is loaded, and NVML does not start: {why}"),
        NotAnswering::Hangs(why) => format!("NVML hangs: {why}"),
        NotAnswering::Gpus([gpu]) => {
            format!("{} does not answer: the driver lists it, and cannot open it", named(gpu))
        }
        NotAnswering::Gpus(gpus) => format!(
            "{} do not answer: the driver lists them, and cannot open them",
            gpus.iter().map(named).collect::<Vec<_>>().join(", ")
        ),
    };
    let fix = "`dmesg | grep -i xid` names the error; reset the GPU (`nvidia-smi -r`) or reboot; a GPU that is lost again is defective";
    finding(Code::GpuNotAnswering, Severity::Error, text).fixed_by(Fix::advice(fix))
}

/// Which of the driver's device files are missing, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceFilesGone {
    /// A container has no access to its host's GPUs.
    ContainerGivenNone,
    /// A container was started with `NVIDIA_VISIBLE_DEVICES` set to this value.
    SwitchedOff(String),
    /// Some device files are missing.
    Some {
        /// Their names.
        missing: Vec<&'static str>,
        /// Whether this is a container.
        in_container: bool,
    },
}

/// Device files of the driver are missing.
pub fn no_device_files(gone: DeviceFilesGone) -> Finding {
    let (severity, text, fix) = match gone {
        DeviceFilesGone::ContainerGivenNone => {
            (Severity::Error, NO_GPU_GIVEN.to_owned(), GIVE_THE_CONTAINER_GPUS)
        }
        DeviceFilesGone::SwitchedOff(devices) => (
            Severity::Warning,
            format!("the container was started with NVIDIA_VISIBLE_DEVICES={devices}: it gets no GPU"),
            "start it with `--gpus all`",
        ),
        DeviceFilesGone::Some { missing, in_container } => (
            Severity::Error,
            format!(
                "the driver is loaded, but device files are missing ({}): CUDA sees no GPU",
                missing.join(", ")
            ),
            match in_container {
                true => GIVE_THE_CONTAINER_GPUS,
                false => "run `nvidia-modprobe -u -c 0`, or start `nvidia-persistenced`",
            },
        ),
    };
    finding(Code::NoDeviceFiles, severity, text).fixed_by(Fix::advice(fix))
}

/// The machine has NVSwitches, and the fabric manager is not running.
pub fn fabric_manager() -> Finding {
    let text = "the machine has NVSwitches, but nv-fabricmanager is not running: CUDA fails with error 802";
    let fix = "systemctl start nvidia-fabricmanager (its version must match the driver)";
    finding(Code::FabricManager, Severity::Error, text).fixed_by(Fix::advice(fix))
}

/// Docker cannot give containers access to GPUs.
pub fn containers_without_gpus() -> Finding {
    let text = "Docker has neither the NVIDIA runtime nor a CDI specification: containers get no GPU";
    let fix = "install nvidia-container-toolkit, then run `nvidia-ctk runtime configure --runtime=docker`";
    finding(Code::ContainersWithoutGpus, Severity::Info, text).fixed_by(Fix::advice(fix))
}

/// A GPU's compute mode refuses programs. `exclusive`: the mode is exclusive and a program uses the GPU; otherwise
/// the mode is prohibited.
pub fn compute_mode(card: &str, exclusive: bool) -> Finding {
    let (text, fix) = match exclusive {
        true => (
            "is in exclusive compute mode and in use: CUDA refuses another program (error 46)",
            Fix::advice("wait for the other program, or run `nvidia-smi -c DEFAULT`"),
        ),
        false => {
            ("is in compute mode `prohibited`: no program can use it", Fix::command("nvidia-smi -c DEFAULT"))
        }
    };
    finding(Code::ComputeMode, Severity::Error, format!("{card} {text}")).at(card).fixed_by(fix)
}

/// A fault of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFault {
    /// Row remapping failed: no spare rows are left.
    NoSpareRows,
    /// Uncorrectable ECC errors.
    Uncorrected {
        /// Number of errors.
        errors: u64,
        /// Whether an error ends only the affected program, because the row is remapped.
        contained: bool,
    },
    /// Pages or rows are retired at the next GPU reset. `required`: whether this is an error, not a warning.
    RetirementPending {
        /// Whether the machine is asked whether it is sound.
        required: bool,
    },
}

/// A GPU's memory had uncorrected errors.
pub fn memory_errors(card: &str, fault: MemoryFault) -> Finding {
    let (severity, text, fix) = match fault {
        MemoryFault::NoSpareRows => (
            Severity::Error,
            "has no spare rows left to remap bad memory: it must be replaced".to_owned(),
            "take it out of service (`nvidia-smi -q -d ROW_REMAPPER`)",
        ),
        MemoryFault::Uncorrected { errors, contained } => (
            if contained { Severity::Warning } else { Severity::Error },
            format!(
                "has had {errors} uncorrected memory {} since the driver was loaded",
                if errors == 1 { "error" } else { "errors" }
            ),
            "reset the GPU (`nvidia-smi -r`); if the errors come back, it is defective",
        ),
        MemoryFault::RetirementPending { required } => (
            if required { Severity::Error } else { Severity::Warning },
            "has bad memory that is retired at the next GPU reset".to_owned(),
            "run `nvidia-smi -r` when no program uses the GPU",
        ),
    };
    finding(Code::MemoryErrors, severity, format!("{card} {text}")).at(card).fixed_by(Fix::advice(fix))
}

/// A GPU is split into MIG instances.
pub fn mig_enabled(card: &str) -> Finding {
    let text =
        format!("{card} is split into MIG instances: a program sees one instance, selected by its UUID");
    let fix = "set CUDA_VISIBLE_DEVICES=MIG-... (`nvidia-smi -L` lists the UUIDs)";
    finding(Code::MigEnabled, Severity::Info, text).at(card).fixed_by(Fix::advice(fix))
}

/// A GPU's memory is nearly full: free and total memory in MiB, the number of programs that use the GPU, if known,
/// and the names of those that could be read.
pub fn little_memory(
    card: &str,
    (free, total): (u64, u64),
    processes: Option<usize>,
    programs: &[String],
) -> Finding {
    let users = match (processes, programs) {
        (Some(n), programs) if programs.len() == n && n > 0 => format!("; {} use it", programs.join(", ")),
        (Some(n), programs) if !programs.is_empty() => {
            format!("; {n} programs use it, including {}", programs.join(", "))
        }
        (Some(n), _) => format!("; {n} programs use it"),
        (None, _) => String::new(),
    };
    let text = format!("{card} has {free} of {total} MiB free{users}");
    finding(Code::LittleMemory, Severity::Warning, text).at(card)
}

/// Persistence mode is off: the driver initializes the GPU for each program.
pub fn persistence_off(card: &str) -> Finding {
    let text = format!(
        "{card} is not in persistence mode: the driver initializes it for each program, which takes seconds"
    );
    let fix = Fix::command("systemctl enable --now nvidia-persistenced");
    finding(Code::PersistenceOff, Severity::Info, text).at(card).fixed_by(fix)
}
