//! Notes from the detection of a machine, in addition to its facts.

use std::fmt;

use super::version::DottedVersion;

/// A note about a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostNote {
    /// WSL: the driver is the Windows driver.
    Wsl,
    /// An NVIDIA GPU is on the PCI bus, but no driver is loaded.
    DriverNotLoaded,
    /// The machine has GPUs, but this process has no access to them: a device cgroup, a Slurm step without GPUs.
    NoAccess {
        /// The number of GPUs on the machine.
        here: usize,
    },
    /// A GPU of another vendor.
    OtherVendor(&'static str),
    /// An Apple GPU.
    AppleGpu,
    /// The effect of `CUDA_VISIBLE_DEVICES`.
    VisibleDevices {
        /// The variable's value, cleaned.
        value: String,
        /// Its effect.
        effect: VisibleDevices,
    },
    /// `CONDA_OVERRIDE_CUDA` is set and empty.
    CudaOverrideEmpty,
    /// `CONDA_OVERRIDE_CUDA` is not a valid version.
    OverrideInvalid(String),
    /// A source of facts failed, with the reason.
    NoAnswer(String),
    /// NVML could not count the GPUs.
    NotCounted,
    /// NVML could not open a GPU, by its index.
    NotOpened(u32),
    /// A GPU, by NVML's index, is in MIG mode.
    Mig(u32),
    /// A GPU is left out because the manifest's `ignore-gpus` names it.
    Ignored(String),
    /// A driver branch was given; its oldest known release is used.
    BranchResolved {
        /// The branch.
        branch: u32,
        /// Its oldest release in the registry.
        release: DottedVersion,
    },
    /// A cuda-compat package was found that does not support the machine.
    CompatUnsupported {
        /// Its release.
        release: DottedVersion,
        /// What it does not support.
        what: UnsupportedBy,
    },
}

/// The effect of `CUDA_VISIBLE_DEVICES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisibleDevices {
    /// It hides every GPU.
    HidesAll,
    /// It selects MIG instances.
    MigInstances,
    /// It has indexes in CUDA's default order, which NVML does not report.
    OrderUnknown,
    /// It selects some of the GPUs.
    Leaves {
        /// The number of selected GPUs.
        kept: usize,
        /// The number of all GPUs.
        of: usize,
    },
}

/// What a cuda-compat package does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsupportedBy {
    /// Kernel drivers of this branch.
    Branch(u32),
    /// A product, by name.
    Product(String),
}

impl fmt::Display for HostNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostNote::Wsl => f.write_str("WSL: using the Windows driver through /usr/lib/wsl/lib"),
            HostNote::DriverNotLoaded => {
                f.write_str("an NVIDIA GPU is on the PCI bus, but its driver is not loaded")
            }
            HostNote::NoAccess { here: 1 } => {
                f.write_str("this machine has 1 NVIDIA GPU, but this process has no access to it")
            }
            HostNote::NoAccess { here } => {
                write!(f, "this machine has {here} NVIDIA GPUs, but this process has no access to them")
            }
            HostNote::OtherVendor(maker) => {
                write!(f, "found a GPU by {maker}; envlock does not support {maker} GPUs")
            }
            HostNote::AppleGpu => {
                f.write_str("found an Apple GPU: torch uses it through MPS, envlock does not support it")
            }
            HostNote::VisibleDevices { value, effect } => {
                write!(f, "CUDA_VISIBLE_DEVICES=`{value}` ")?;
                match effect {
                    VisibleDevices::HidesAll => f.write_str("hides every GPU"),
                    VisibleDevices::MigInstances => {
                        f.write_str("selects MIG instances; the compute capability of their GPU is used")
                    }
                    VisibleDevices::OrderUnknown => f.write_str(
                        "uses CUDA's device order, which NVML does not report: all GPUs are kept (set CUDA_DEVICE_ORDER=PCI_BUS_ID, or select GPUs by UUID)",
                    ),
                    VisibleDevices::Leaves { kept, of } => write!(f, "selects {kept} of {of} GPUs"),
                }
            }
            HostNote::CudaOverrideEmpty => {
                f.write_str("CONDA_OVERRIDE_CUDA is empty: solving as if there were no NVIDIA driver")
            }
            HostNote::OverrideInvalid(value) => {
                write!(f, "CONDA_OVERRIDE_CUDA=`{value}` is not a valid version; ignored")
            }
            HostNote::NoAnswer(why) => f.write_str(why),
            HostNote::NotCounted => f.write_str("NVML could not count the GPUs"),
            HostNote::NotOpened(index) => write!(f, "NVML could not open GPU {index}"),
            HostNote::Mig(index) => write!(f, "GPU {index} is in MIG mode"),
            HostNote::Ignored(gpu) => write!(f, "{gpu} is ignored (`ignore-gpus` in envlock.toml)"),
            HostNote::BranchResolved { branch, release } => {
                write!(f, "driver branch {branch}: using its oldest known release, {release}")
            }
            HostNote::CompatUnsupported { release, what } => match what {
                UnsupportedBy::Branch(branch) => {
                    write!(f, "cuda-compat {release} is not listed for driver branch {branch}")
                }
                UnsupportedBy::Product(name) => {
                    write!(f, "cuda-compat {release} does not support {name}")
                }
            },
        }
    }
}
