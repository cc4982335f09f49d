//! A machine as `probe --save` keeps it: its facts, what its loader finds, and an environment.

use std::collections::BTreeMap;

use super::host::Host;

/// Variables that decide which libraries, GPUs and packages programs find.
pub const VARIABLES: [&str; 11] = [
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
];

/// A machine, and what was kept beside its facts. What is `None` was not kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedHost {
    /// The machine.
    pub host: Host,
    /// What programs on it find.
    pub loader: Option<LoaderFacts>,
    /// An environment on it.
    pub environment: Option<EnvironmentFacts>,
    /// How its GPUs are set, by NVML index.
    pub modes: BTreeMap<u32, GpuMode>,
    /// Which facts of the host are defaults that nobody stated.
    pub unstated: Unstated,
}

/// Facts that a host file does not state, although [`Host`] has a value for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unstated {
    /// Whether a cuda-compat package is active.
    pub compat: bool,
    /// Operating system and processor.
    pub platform: bool,
}

/// How an administrator has set a GPU. `None` means unknown, or that the GPU does not have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuMode {
    /// Whether it corrects memory errors (ECC).
    pub ecc: Option<bool>,
    /// Whether it is split into MIG instances.
    pub mig: Option<bool>,
}

impl From<Host> for SavedHost {
    fn from(host: Host) -> SavedHost {
        SavedHost {
            host,
            loader: None,
            environment: None,
            modes: BTreeMap::new(),
            unstated: Unstated::default(),
        }
    }
}

/// What programs find besides their environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoaderFacts {
    /// Those of [`VARIABLES`] that are set.
    pub variables: BTreeMap<String, String>,
    /// The libraries of the driver, CUDA and cuDNN in the loader's cache: by name the file that it leads to.
    pub libraries: BTreeMap<String, String>,
}

/// What is installed in an environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentFacts {
    /// Its folder.
    pub prefix: String,
    /// The digest of its packages with their files, `sha256:...`.
    pub digest: String,
    /// The versions of its packages.
    pub packages: BTreeMap<String, String>,
}
