//! What a machine is doing now: not what it is ([`super::host::Host`]) but what may keep a program from running
//! on it today.

/// The state of a machine. A fact that could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineState {
    /// The GPUs, by NVML's index.
    pub cards: Vec<CardState>,
    /// The driver's library and its kernel module disagree, and NVML says so.
    pub library_and_module_disagree: bool,
    /// Whether the device files are there; nothing where no driver is loaded.
    pub device_files: Option<DeviceFiles>,
    /// NVSwitches are in the machine, and whether their manager runs.
    pub fabric: Option<Fabric>,
    /// In a container: what it says of GPUs.
    pub container: Option<Container>,
    /// On a host with Docker: whether it can hand GPUs to containers.
    pub docker_sees_gpus: Option<bool>,
}

impl MachineState {
    /// Whether the files are there through which a program reaches the driver, or no driver is loaded that would make
    /// them (WSL has others).
    pub fn has_device_files(&self) -> bool {
        self.device_files.is_none_or(|files| files.control && files.unified_memory && files.cards > 0)
    }

    /// Whether this is a container on a host with a driver, and has none of the files through which a program reaches
    /// a GPU.
    pub fn was_given_no_gpu(&self) -> bool {
        let none = DeviceFiles { control: false, unified_memory: false, cards: 0 };
        self.container.is_some() && self.device_files == Some(none)
    }
}

/// The files through which a program reaches the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFiles {
    /// `/dev/nvidiactl`.
    pub control: bool,
    /// `/dev/nvidia-uvm`: CUDA does not start without it.
    pub unified_memory: bool,
    /// How many of `/dev/nvidia0`, `/dev/nvidia1`, ...
    pub cards: usize,
}

/// NVSwitches and their manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fabric {
    /// Whether `nv-fabricmanager` runs; nothing where other processes cannot be seen.
    pub manager_runs: Option<bool>,
}

/// A container that this program is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// `NVIDIA_VISIBLE_DEVICES`, which the container toolkit goes by.
    pub visible_devices: Option<String>,
}

/// One card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CardState {
    /// NVML's index.
    pub index: u32,
    /// The product name.
    pub name: Option<String>,
    /// Whether it is split into MIG instances.
    pub mig: Option<bool>,
    /// Uncorrected memory errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// Memory pages or rows wait for a reset to be taken out of use.
    pub retirement_pending: Option<bool>,
    /// Whether spare rows ran out: the card has to be replaced. Nothing where the card (before Ampere) has none.
    pub remapping_failed: Option<bool>,
    /// Whether the driver stays loaded without a program.
    pub persistence: Option<bool>,
    /// Free and total memory in MiB.
    pub memory_mib: Option<(u64, u64)>,
    /// Who may use it.
    pub compute_mode: Option<ComputeMode>,
    /// How many programs use it now.
    pub processes: Option<usize>,
    /// The first of them by name and process id, `python (4711)`.
    pub programs: Vec<String>,
    /// Whether one of them is, or may be, the server of MPS, which shares a card in an exclusive mode.
    pub may_be_mps: bool,
}

/// Who may use a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of programs.
    Default,
    /// One program at a time.
    Exclusive,
    /// None.
    Prohibited,
}
