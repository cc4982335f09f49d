//! The current state of a machine that can prevent programs from running, in contrast to its fixed facts
//! ([`super::host::Host`]).

/// The state of a machine. A fact that could not be read is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineState {
    /// The GPUs, by NVML index.
    pub cards: Vec<CardState>,
    /// NVML reports a version mismatch between the driver's library and its kernel module.
    pub library_and_module_disagree: bool,
    /// Whether NVIDIA's management library answers.
    pub management: Management,
    /// GPUs that the driver lists and this process may use, but that do not answer: by PCI address, `0000:3b:00.0`, or by
    /// NVML's index, `GPU 3`.
    pub silent: Vec<String>,
    /// NVIDIA GPUs on the PCI bus that NVIDIA's kernel module has not claimed, by PCI address. GPUs that are reserved for
    /// virtual machines are not among them.
    pub unclaimed: Vec<String>,
    /// The device files; `None` if no driver is loaded.
    pub device_files: Option<DeviceFiles>,
    /// Whether the first CUDA program makes missing device files: `nvidia-modprobe` is installed setuid root
    /// (nvidia-modprobe(1)).
    pub device_files_on_demand: bool,
    /// The state of the NVSwitch fabric; `None` without NVSwitches.
    pub fabric: Option<Fabric>,
    /// The GPU configuration of the container; `None` outside a container.
    pub container: Option<Container>,
    /// Whether Docker can pass GPUs to containers; `None` without Docker.
    pub docker_sees_gpus: Option<bool>,
}

impl MachineState {
    /// Whether the driver's device files exist or will be made, or no driver is loaded that would create them (WSL uses
    /// others).
    pub fn has_device_files(&self) -> bool {
        self.device_files_on_demand
            || self.device_files.is_none_or(|files| files.control && files.unified_memory && files.cards > 0)
    }

    /// Whether this is a container on a host with a driver, without any of the driver's device files.
    pub fn container_has_no_devices(&self) -> bool {
        let none = DeviceFiles { control: false, unified_memory: false, cards: 0 };
        self.container.is_some() && self.device_files == Some(none)
    }
}

/// Whether NVIDIA's management library (NVML) answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Management {
    /// It is not installed, or no driver is loaded.
    #[default]
    NotThere,
    /// It does.
    Answers,
    /// It was not asked, or does not answer this process; why.
    NotAsked(String),
    /// It does not start, although the driver is loaded; why.
    Fails(String),
    /// It did not answer in time; the limit in words.
    Hangs(String),
}

/// The driver's device files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFiles {
    /// `/dev/nvidiactl`.
    pub control: bool,
    /// `/dev/nvidia-uvm`: CUDA does not start without it.
    pub unified_memory: bool,
    /// The number of `/dev/nvidia0`, `/dev/nvidia1`, ...
    pub cards: usize,
}

/// The NVSwitch fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fabric {
    /// Whether `nv-fabricmanager` is running; `None` if other processes are not visible.
    pub manager_runs: Option<bool>,
}

/// The container that envlock runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// `NVIDIA_VISIBLE_DEVICES`, which the container toolkit reads.
    pub visible_devices: Option<String>,
}

/// The state of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CardState {
    /// The NVML index.
    pub index: u32,
    /// The product name.
    pub name: Option<String>,
    /// Whether it is split into MIG instances.
    pub mig: Option<bool>,
    /// Uncorrected memory errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// Whether memory pages or rows are pending retirement until a GPU reset.
    pub retirement_pending: Option<bool>,
    /// Whether row remapping failed, so that the GPU must be replaced. `None` for GPUs without it (before Ampere).
    pub remapping_failed: Option<bool>,
    /// Whether persistence mode is on.
    pub persistence: Option<bool>,
    /// Free and total memory in MiB.
    pub memory_mib: Option<(u64, u64)>,
    /// The compute mode.
    pub compute_mode: Option<ComputeMode>,
    /// The number of processes that use it.
    pub processes: Option<usize>,
    /// Name and process id of the first few: `python (4711)`.
    pub programs: Vec<String>,
    /// Whether one of them is, or may be, the MPS server, which shares a GPU in exclusive mode.
    pub may_be_mps: bool,
}

/// The compute mode of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of programs.
    Default,
    /// One program at a time.
    Exclusive,
    /// No program.
    Prohibited,
}
