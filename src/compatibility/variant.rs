//! Whether a machine can run builds of a CUDA variant at all: its CUDA decides before anything is known of a build.

use std::fmt;

use semver::Version as Semver;

use super::code::{compiles_for, targets_of_toolkit};
use super::driver::{DriverFit, Policy, Sourced, first_driver, required_driver};
use crate::model::host::Host;
use crate::model::variant::Variant;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::Registry;

/// Why a machine runs no build of a variant, whatever builds there are.
#[derive(Debug, Clone, PartialEq)]
pub enum ImpossibleVariant<'r> {
    /// Its CUDA, or a GPU of the machine, needs at least this driver.
    Driver(Semver, Sourced<'r, DottedVersion>),
    /// Its CUDA does not compile for a GPU; the GPU for a message: `NVIDIA V100 (7.0)`.
    Code(Semver, Sourced<'r, String>),
    /// It is not for NVIDIA's GPUs: `rocm7.0`.
    Vendor(String),
}

impl<'r> ImpossibleVariant<'r> {
    /// Why a machine runs no build of a variant; `None` if it may run one.
    pub fn of(registry: &'r Registry, host: &Host, variant: &str) -> Option<ImpossibleVariant<'r>> {
        let (major, minor) = match Variant::of(variant) {
            Variant::Cuda(major, minor) => (major, minor),
            Variant::Other(name) => {
                let has_gpu = host.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
                return has_gpu.then_some(ImpossibleVariant::Vendor(name));
            }
            Variant::Cpu => return None,
        };
        let cuda = Semver::new(major, minor, 0);
        let gpus = || host.gpus.iter().flatten().filter_map(|gpu| Some((gpu, gpu.capability?)));
        let fit = DriverFit::of(registry, host, Some(&cuda), Policy::Minor);
        let floor = required_driver(registry, &cuda, host.system.platform.os, Policy::Minor);
        if let Some(floor) = floor.filter(|_| !fit.suffices) {
            let of_gpus = gpus().filter_map(|(_, capability)| first_driver(registry, capability));
            let floor = of_gpus.chain([floor]).max_by(|a, b| a.value.cmp(&b.value))?;
            return Some(ImpossibleVariant::Driver(cuda, floor));
        }
        let source = &targets_of_toolkit(registry, &cuda)?.source;
        let (gpu, _) = gpus().find(|(_, one)| compiles_for(registry, &cuda, *one) == Some(false))?;
        Some(ImpossibleVariant::Code(cuda, Sourced { value: gpu.label(), source }))
    }

    /// What is wrong with its builds, as a predicate: `needs driver >= 580.65.06`.
    pub fn predicate(&self) -> String {
        match self {
            ImpossibleVariant::Driver(_, floor) => format!("needs driver >= {}", floor.value),
            ImpossibleVariant::Code(_, gpu) => format!("has no code for {}", gpu.value),
            ImpossibleVariant::Vendor(_) => "is not for NVIDIA's GPUs".to_owned(),
        }
    }

    /// Ids of the sources of the rule.
    pub fn source(&self) -> &'r [String] {
        match self {
            ImpossibleVariant::Driver(_, floor) => floor.source,
            ImpossibleVariant::Code(_, gpu) => gpu.source,
            ImpossibleVariant::Vendor(_) => &[],
        }
    }
}

/// `CUDA 13.0 needs driver >= 580.65.06`.
impl fmt::Display for ImpossibleVariant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImpossibleVariant::Driver(cuda, _) | ImpossibleVariant::Code(cuda, _) => {
                write!(f, "CUDA {} {}", cuda_short(cuda), self.predicate())
            }
            ImpossibleVariant::Vendor(name) => write!(f, "{name} {}", self.predicate()),
        }
    }
}
