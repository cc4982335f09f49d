//! What was seen while looking at a machine and is worth saying beside its facts.

use std::fmt;

use super::version::DottedVersion;

/// Something worth saying about a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostNote {
    /// Windows' Linux: the driver is Windows' own.
    Wsl,
    /// An NVIDIA GPU is on the PCI bus and no driver is loaded.
    DriverNotLoaded,
    /// GPUs are on the machine, and the driver shows none of them to this process: a device cgroup, a Slurm step
    /// without GPUs.
    NotGranted {
        /// How many are on the machine.
        here: usize,
    },
    /// A GPU of another maker.
    OtherMaker(&'static str),
    /// An Apple GPU.
    AppleGpu,
    /// What `CUDA_VISIBLE_DEVICES` does.
    VisibleDevices {
        /// The variable's value, cleaned.
        value: String,
        /// What it does.
        effect: VisibleDevices,
    },
    /// `CONDA_OVERRIDE_CUDA` is set and empty.
    OverriddenAway,
    /// `CONDA_OVERRIDE_CUDA` is not a version.
    OverrideInvalid(String),
    /// A source of facts could not answer: why.
    NoAnswer(String),
    /// NVML could not count the GPUs.
    NotCounted,
    /// NVML could not open a GPU, by its index.
    NotOpened(u32),
    /// A GPU, by NVML's index, is in MIG mode.
    Mig(u32),
    /// A GPU is left out because the manifest's `ignore-gpus` names it.
    Ignored(String),
    /// A driver branch was named, and its oldest known release is meant.
    BranchMeans {
        /// The branch.
        branch: u32,
        /// Its oldest release in the registry.
        release: DottedVersion,
    },
    /// A cuda-compat package was found that is known not to serve the machine.
    CompatDoesNotServe {
        /// Its release.
        release: DottedVersion,
        /// What it does not serve.
        what: NotServed,
    },
}

/// What `CUDA_VISIBLE_DEVICES` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisibleDevices {
    /// It hides every GPU.
    HidesAll,
    /// It names MIG instances.
    MigInstances,
    /// It counts unlike GPUs in an order that NVML does not tell.
    OrderUnknown,
    /// It leaves some GPUs of all.
    Leaves {
        /// How many are left.
        kept: usize,
        /// Of how many.
        of: usize,
    },
}

/// What a cuda-compat package does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotServed {
    /// Kernel drivers of a branch.
    Branch(u32),
    /// A product, by name.
    Product(String),
}

impl fmt::Display for HostNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostNote::Wsl => f.write_str("WSL: the driver is the Windows one, seen through /usr/lib/wsl/lib"),
            HostNote::DriverNotLoaded => {
                f.write_str("an NVIDIA GPU is on the PCI bus, but its driver is not loaded")
            }
            HostNote::NotGranted { here: 1 } => {
                f.write_str("1 NVIDIA GPU is on this machine, and it is not granted to this process")
            }
            HostNote::NotGranted { here } => {
                write!(f, "{here} NVIDIA GPUs are on this machine, none granted to this process")
            }
            HostNote::OtherMaker(maker) => {
                write!(f, "a GPU by {maker} was seen; envlock does not handle {maker} GPUs")
            }
            HostNote::AppleGpu => f.write_str(
                "an Apple GPU: torch's macOS builds use it through MPS, envlock does not handle it",
            ),
            HostNote::VisibleDevices { value, effect } => {
                write!(f, "CUDA_VISIBLE_DEVICES=`{value}` ")?;
                match effect {
                    VisibleDevices::HidesAll => f.write_str("hides every GPU"),
                    VisibleDevices::MigInstances => {
                        f.write_str("names MIG instances; their GPU's capability decides")
                    }
                    VisibleDevices::OrderUnknown => f.write_str(
                        "counts unlike GPUs in CUDA's order, which NVML does not tell: all are kept (set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID)",
                    ),
                    VisibleDevices::Leaves { kept, of } => write!(f, "leaves {kept} of {of} GPUs"),
                }
            }
            HostNote::OverriddenAway => {
                f.write_str("CONDA_OVERRIDE_CUDA is empty: solving as if there were no NVIDIA driver")
            }
            HostNote::OverrideInvalid(value) => {
                write!(f, "CONDA_OVERRIDE_CUDA=`{value}` is no version; ignored")
            }
            HostNote::NoAnswer(why) => f.write_str(why),
            HostNote::NotCounted => f.write_str("NVML could not count the GPUs"),
            HostNote::NotOpened(index) => write!(f, "NVML could not open GPU {index}"),
            HostNote::Mig(index) => write!(f, "GPU {index} is in MIG mode"),
            HostNote::Ignored(gpu) => write!(f, "{gpu} is ignored, as envlock.toml asks"),
            HostNote::BranchMeans { branch, release } => {
                write!(f, "driver branch {branch}: its oldest release, {release}, is meant")
            }
            HostNote::CompatDoesNotServe { release, what } => match what {
                NotServed::Branch(branch) => {
                    write!(f, "the cuda-compat of {release} is not listed for drivers of branch {branch}")
                }
                NotServed::Product(name) => {
                    write!(f, "the cuda-compat of {release} does not serve {name}")
                }
            },
        }
    }
}
