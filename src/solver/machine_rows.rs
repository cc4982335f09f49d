//! The machine in a solve: its facts, and its compatibility with the rows of the tables.

use super::tables::{Tables, VariantRow};
use crate::compatibility::{self, DriverFit, DriverSpan, Policy, cudnn_drops, required_driver, served};
use crate::model::capability::{ComputeCapability, Via};
use crate::model::host::{Gpu, Host};
use crate::model::platform::{Libc, Os, Platform};
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// A machine with its compatibility with the rows of the tables.
pub(super) struct Machine<'a> {
    registry: &'a Registry,
    pub host: &'a Host,
    pub platform: Platform,
    pub libc: Option<Libc>,
    /// GPUs with a known capability.
    pub gpus: Vec<(&'a Gpu, ComputeCapability)>,
    /// The driver policy of the request.
    pub policy: Policy,
    /// The compatibility of the driver with each CUDA variant.
    drivers: Vec<DriverFit>,
    /// How each list of targets supports each GPU: by machine code or PTX.
    pub coverage: Vec<Vec<Option<Via>>>,
}

impl<'a> Machine<'a> {
    /// Checks a machine against the rows of `tables`.
    pub fn new(registry: &'a Registry, host: &'a Host, policy: Policy, tables: &Tables<'a>) -> Machine<'a> {
        let gpus: Vec<(&Gpu, ComputeCapability)> =
            host.gpus.iter().flatten().filter_map(|g| Some((g, g.capability?))).collect();
        let fit = |v: &VariantRow| DriverFit::of(registry, host, v.cuda.as_ref(), policy);
        let cover = |kind| gpus.iter().map(|(_, c)| served(registry, kind, *c)).collect();
        Machine {
            registry,
            host,
            platform: host.system.platform,
            libc: host.system.libc.clone(),
            policy,
            drivers: tables.variants.iter().map(fit).collect(),
            coverage: tables.kinds.iter().map(cover).collect(),
            gpus,
        }
    }

    /// The host's operating system.
    pub fn os(&self) -> Os {
        self.platform.os
    }

    /// Whether the host's driver runs machine code of a variant.
    pub fn driver_suffices(&self, variant: u32) -> bool {
        self.drivers[variant as usize].suffices
    }

    /// Whether the host's driver supports a variant natively, so that its PTX runs too. An unknown driver counts as
    /// native.
    pub fn is_native(&self, variant: u32) -> bool {
        self.drivers[variant as usize].native
    }

    /// Whether every driver that a CUDA release needs is too new for a GPU. Only asked where the driver is open: else the
    /// machine itself is impossible.
    pub fn cuda_too_new_for_gpu(&self, cuda: &semver::Version, capability: ComputeCapability) -> bool {
        if self.host.driver.is_some() {
            return false;
        }
        let floor = required_driver(self.registry, cuda, self.os(), self.policy);
        floor.is_some_and(|floor| DriverSpan::of(self.registry, capability).ends_before(&floor.value))
    }

    /// Whether a cuDNN release supports a compute capability.
    pub fn cudnn_supports(&self, cudnn: Option<&DottedVersion>, capability: ComputeCapability) -> bool {
        cudnn_drops(self.registry, cudnn, capability).is_none()
    }

    /// Whether the host's glibc is at least `need`; true if the libc is unknown or not glibc.
    pub fn glibc_suffices(&self, need: &DottedVersion) -> bool {
        compatibility::glibc_suffices(self.libc.as_ref(), need)
    }
}
