//! A machine: driver, GPUs, platform, C library; detected or described by the user.

use std::fmt;

use serde::Serialize;

use super::capability::ComputeCapability;
use super::host_note::HostNote;
use super::platform::{Libc, Platform};
use super::version::DottedVersion;

/// A machine. `None` means that a fact is unknown; a host without GPUs has `gpus: Some(vec![])`.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// The NVIDIA driver, when known.
    pub driver: Option<Driver>,
    /// The NVIDIA GPUs: `None` if unknown, empty if there are none.
    pub gpus: Option<Vec<Gpu>>,
    /// Operating system, processor, C library.
    pub system: System,
    /// Notes from the detection (an AMD GPU, a filter by `CUDA_VISIBLE_DEVICES`).
    pub notes: Vec<HostNote>,
}

/// How a fact of a machine was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// A named source: `nvml`, `nvidia-smi`, `/proc/driver/nvidia/version`, `--driver`, a file.
    Source(String),
    /// `CONDA_OVERRIDE_CUDA`.
    CondaOverride,
    /// Only the CUDA version was known: the driver is the first that supports it natively.
    InferredFromCuda {
        /// The CUDA version, `12.2`.
        cuda: DottedVersion,
        /// How the CUDA version was found.
        of: Box<FoundBy>,
    },
}

impl FoundBy {
    /// The form in a lock: `nvml`, or `cuda-12.2:nvidia-smi` for an inferred driver.
    pub fn code(&self) -> String {
        match self {
            FoundBy::InferredFromCuda { cuda, of } => format!("cuda-{cuda}:{}", of.code()),
            other => other.to_string(),
        }
    }

    /// Parses the form in a lock. Older locks have sentences, which are kept as is.
    pub fn of_code(code: &str) -> FoundBy {
        let inferred = || {
            let (cuda, of) = code.strip_prefix("cuda-")?.split_once(':')?;
            Some(FoundBy::InferredFromCuda { cuda: cuda.parse().ok()?, of: Box::new(FoundBy::of_code(of)) })
        };
        inferred().unwrap_or_else(|| code.into())
    }
}

impl From<&str> for FoundBy {
    fn from(source: &str) -> Self {
        FoundBy::Source(source.to_owned())
    }
}

impl From<String> for FoundBy {
    fn from(source: String) -> Self {
        FoundBy::Source(source)
    }
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoundBy::Source(source) => f.write_str(source),
            FoundBy::CondaOverride => f.write_str("CONDA_OVERRIDE_CUDA"),
            FoundBy::InferredFromCuda { cuda, of } => write!(f, "inferred from CUDA {cuda} of {of}"),
        }
    }
}

/// The NVIDIA driver of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Driver {
    /// The kernel module's version, `535.129.03`.
    pub version: DottedVersion,
    /// The newest CUDA that the user-mode driver supports natively, `12.2`.
    pub cuda: Option<DottedVersion>,
    /// The version of an active cuda-compat package.
    pub compat: Option<DottedVersion>,
    /// How it was found: `nvml`, `nvidia-smi`, `/proc/driver/nvidia/version`, `--driver`.
    pub found_by: FoundBy,
}

impl Driver {
    /// The version of the user-mode driver, which determines the supported CUDA: that of an active cuda-compat
    /// package if it is newer than the kernel module.
    pub fn user_mode(&self) -> &DottedVersion {
        self.compat.as_ref().filter(|compat| **compat > self.version).unwrap_or(&self.version)
    }

    /// Whether the user-mode driver is at least `floor`. `None` if only its branch is known, and the floor is a release of that
    /// branch.
    pub fn reaches(&self, floor: &DottedVersion) -> Option<bool> {
        let own = self.user_mode();
        let is_branch = !own.as_str().contains('.');
        match own >= floor {
            true => Some(true),
            false if is_branch && own.major() == floor.major() => None,
            false => Some(false),
        }
    }

    /// The driver release in a library's file name: `libcuda.so.535.129.03`. `None` for names without a release, such as
    /// `libcuda.so.1` and WSL's `libcuda.so.1.1`: driver branches have three digits.
    pub fn release_of_library(name: &str) -> Option<DottedVersion> {
        let version: DottedVersion = name.strip_prefix("libcuda.so.")?.parse().ok()?;
        (version.major() >= 100 && version.as_str().contains('.')).then_some(version)
    }

    /// The placeholder version of a driver of which only the CUDA version is known.
    pub fn unknown_version() -> DottedVersion {
        "0".parse().expect("a constant")
    }
}

/// One NVIDIA GPU of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// The NVML index (not CUDA's).
    pub index: u32,
    /// The product name, `NVIDIA A100-SXM4-80GB`.
    pub name: Option<String>,
    /// The compute capability, when known.
    pub capability: Option<ComputeCapability>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// NVML's `GPU-...` identifier.
    pub uuid: Option<String>,
    /// PCI device id of vendor 10de, `2335`.
    pub pci_id: Option<String>,
    /// How it was found.
    pub found_by: FoundBy,
}

impl Gpu {
    /// A GPU of which only the compute capability is known.
    pub fn of_capability(capability: ComputeCapability, found_by: &str) -> Gpu {
        Gpu {
            index: 0,
            name: None,
            capability: Some(capability),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: found_by.into(),
        }
    }

    /// The GPU for messages: `NVIDIA A100 (8.0)`.
    pub fn label(&self) -> String {
        match (&self.name, self.capability) {
            (Some(name), Some(capability)) => format!("{name} ({capability})"),
            (Some(name), None) => name.clone(),
            (None, Some(capability)) => format!("a GPU with compute capability {capability}"),
            (None, None) => "an unknown GPU".to_owned(),
        }
    }
}

/// Operating system, processor and C library.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Operating system and processor architecture.
    pub platform: Platform,
    /// The C library, when known.
    pub libc: Option<Libc>,
    /// How it was found.
    pub found_by: FoundBy,
}

impl Host {
    /// A host with only a platform; all other facts are unknown.
    pub fn open(platform: Platform, found_by: &str) -> Host {
        Host {
            driver: None,
            gpus: None,
            system: System { platform, libc: None, found_by: found_by.into() },
            notes: Vec::new(),
        }
    }

    /// The compute capabilities of its GPUs, each once; `None` stands for a GPU whose capability is not known.
    pub fn capabilities(&self) -> Vec<Option<ComputeCapability>> {
        let mut all: Vec<_> = self.gpus.iter().flatten().map(|gpu| gpu.capability).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// How far a machine is from being of this kind, the nearest first: GPUs of other compute capabilities, then a newer
    /// driver here than there, then an older one here, the oldest last.
    pub fn distance(&self, machine: &Host) -> (bool, bool, std::cmp::Reverse<Option<DottedVersion>>) {
        let driver = |host: &Host| host.driver.as_ref().map(|driver| driver.version.clone());
        let (own, there) = (driver(self), driver(machine));
        let is_newer = own.is_some() && there.is_some() && own > there;
        (self.capabilities() != machine.capabilities(), is_newer, std::cmp::Reverse(own))
    }

    /// Whether the host is known to have no NVIDIA GPU.
    pub fn has_no_gpu(&self) -> bool {
        self.gpus.as_ref().is_some_and(Vec::is_empty)
    }

    /// The names of the facts that are unknown, as `probe --json` lists them.
    pub fn unknown(&self) -> Vec<&'static str> {
        let mut unknown = Vec::new();
        if self.driver.is_none() && !self.has_no_gpu() {
            unknown.push("driver");
        }
        if self.gpus.is_none() {
            unknown.push("gpus");
        }
        if self.system.libc.is_none() {
            unknown.push("libc");
        }
        unknown
    }
}

/// A host as JSON (`probe --json`).
#[derive(Debug, Serialize)]
pub struct HostJson {
    driver: Option<DriverJson>,
    gpus: Vec<GpuJson>,
    system: SystemJson,
    unknown: Vec<&'static str>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DriverJson {
    version: String,
    cuda: Option<String>,
    compat: Option<String>,
    found_by: String,
}

#[derive(Debug, Serialize)]
struct GpuJson {
    index: u32,
    name: Option<String>,
    compute_capability: Option<ComputeCapability>,
    memory_mib: Option<u64>,
    uuid: Option<String>,
    found_by: String,
}

#[derive(Debug, Serialize)]
struct SystemJson {
    os: &'static str,
    arch: &'static str,
    glibc: Option<String>,
    musl: Option<String>,
    macos: Option<String>,
    found_by: String,
}

impl From<&Host> for HostJson {
    fn from(host: &Host) -> Self {
        let libc =
            |key: &str| host.system.libc.as_ref().filter(|l| l.key() == key).map(|l| l.version().to_string());
        HostJson {
            driver: host.driver.as_ref().map(|d| DriverJson {
                version: d.version.to_string(),
                cuda: d.cuda.as_ref().map(ToString::to_string),
                compat: d.compat.as_ref().map(ToString::to_string),
                found_by: d.found_by.to_string(),
            }),
            gpus: host
                .gpus
                .iter()
                .flatten()
                .map(|g| GpuJson {
                    index: g.index,
                    name: g.name.clone(),
                    compute_capability: g.capability,
                    memory_mib: g.memory_mib,
                    uuid: g.uuid.clone(),
                    found_by: g.found_by.to_string(),
                })
                .collect(),
            system: SystemJson {
                os: host.system.platform.os_name(),
                arch: host.system.platform.arch_name(),
                glibc: libc("glibc"),
                musl: libc("musl"),
                macos: libc("macos"),
                found_by: host.system.found_by.to_string(),
            },
            unknown: host.unknown(),
            notes: host.notes.iter().map(ToString::to_string).collect(),
        }
    }
}
