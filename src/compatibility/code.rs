//! Whether machine code, PTX and cuDNN support a GPU.

use std::fmt;

use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::{Gpu, Host};
use crate::model::library::{DeviceCode, Served};
use crate::model::platform::{Arch, Platform};
use crate::model::version::DottedVersion;
use crate::registry::{Cited, CudnnFloor, Registry, ToolkitTargets};

/// Whether nvcc of a CUDA release compiles for a compute capability; `None` if no row says it. No build has code that its
/// toolkit cannot make.
pub fn compiles_for(
    registry: &Registry,
    cuda: &semver::Version,
    capability: ComputeCapability,
) -> Option<bool> {
    let row = targets_of_toolkit(registry, cuda)?;
    // Code of a lower minor version of the same major serves a GPU above the range.
    let compiles = capability >= row.min;
    // A toolkit that no row is about compiles for no GPU that an older one had given up.
    (!compiles || is_series(&row.cuda, cuda)).then_some(compiles)
}

/// Whether nvcc of a CUDA release makes machine code that a GPU runs; `None` if no row says it.
pub(super) fn made_for(registry: &Registry, cuda: &semver::Version, gpu: ComputeCapability) -> Option<bool> {
    let row = targets_of_toolkit(registry, cuda).filter(|row| is_series(&row.cuda, cuda));
    match row {
        // Code of a lower minor version of the same major serves a GPU above the range.
        Some(row) => Some(gpu >= row.min && gpu.major <= row.max.major),
        None => compiles_for(registry, cuda, gpu),
    }
}

/// What nvcc of a CUDA release compiles for; else what the newest older one does.
pub(super) fn targets_of_toolkit<'r>(
    registry: &'r Registry,
    cuda: &semver::Version,
) -> Option<&'r Cited<ToolkitTargets>> {
    let rows = registry.toolkit_targets().iter();
    rows.filter(|row| row.cuda <= *cuda || is_series(&row.cuda, cuda)).max_by(|a, b| a.cuda.cmp(&b.cuda))
}

fn is_series(one: &semver::Version, other: &semver::Version) -> bool {
    (one.major, one.minor) == (other.major, other.minor)
}

/// How a library's code supports a GPU: by machine code, by PTX that the driver compiles, or not at all.
pub fn served(registry: &Registry, targets: &CodeTargets, gpu: ComputeCapability) -> Option<Via> {
    targets.covers(gpu, |capability| registry.is_tegra(capability))
}

/// How many of a library's containers have code for a GPU, as SASS and as PTX.
pub fn containers_serving(registry: &Registry, code: &DeviceCode, gpu: ComputeCapability) -> Served {
    code.serves(gpu, &|capability| registry.is_tegra(capability))
}

/// The row by which a cuDNN release does not support a GPU; `None` if it does, or if no cuDNN is used.
pub fn cudnn_drops<'r>(
    registry: &'r Registry,
    cudnn: Option<&DottedVersion>,
    gpu: ComputeCapability,
) -> Option<&'r Cited<CudnnFloor>> {
    registry.cudnn_floor(cudnn?).filter(|floor| gpu < floor.min)
}

/// Whether rows are about GPUs of a compute capability, or it is older than all that they are about.
pub fn knows_capability(registry: &Registry, capability: ComputeCapability) -> bool {
    let all = || registry.architectures().iter().flat_map(|a| a.capabilities.iter());
    let tegra = registry.tegra().capabilities.iter();
    all().chain(tegra).any(|known| *known == capability)
        || all().min().is_some_and(|oldest| capability < *oldest)
}

/// A GPU whose compute capability is unknown, or one that no row is about: what runs on it is not known, whatever code there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownGpu {
    /// The GPU for a message: `NVIDIA H100 (9.0)`.
    pub label: String,
    /// Its compute capability, if known.
    pub capability: Option<ComputeCapability>,
}

impl UnknownGpu {
    /// Such a GPU of a machine.
    pub fn of(registry: &Registry, host: &Host) -> Option<UnknownGpu> {
        let is_unknown =
            |gpu: &&Gpu| gpu.capability.is_none_or(|capability| !knows_capability(registry, capability));
        let gpu = host.gpus.iter().flatten().find(is_unknown)?;
        Some(UnknownGpu { label: gpu.label(), capability: gpu.capability })
    }

    /// What helps, as a hint.
    pub fn what_helps(&self) -> &'static str {
        match self.capability {
            Some(_) => {
                "`envlock registry update` looks for newer data; `--gpu` with a GPU that it resembles locks for that one"
            }
            None => {
                "pass its compute capability, as in `--gpu 8.6`: on its machine `nvidia-smi --query-gpu=compute_cap --format=csv` prints it"
            }
        }
    }
}

impl fmt::Display for UnknownGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownGpu { label, capability } = self;
        match capability {
            Some(capability) => write!(
                f,
                "GPUs of compute capability {capability} are not in envlock's data: whether the code runs on {label} is not known"
            ),
            None => write!(f, "the compute capability of {label} is unknown"),
        }
    }
}

/// The compute capabilities that a machine of a platform can have: Tegra GPUs exist only on 64-bit Arm.
pub(super) fn known_capabilities(registry: &Registry, platform: Platform) -> Vec<ComputeCapability> {
    let mut all: Vec<ComputeCapability> =
        registry.architectures().iter().flat_map(|a| a.capabilities.iter().copied()).collect();
    if platform.arch == Arch::Aarch64 {
        all.extend(&registry.tegra().capabilities);
    }
    all.sort();
    all.dedup();
    all
}
