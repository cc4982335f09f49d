//! What a build requires of a machine, and which of these requirements a machine violates.

use semver::Version as Semver;

use super::code::{compiles_for, cudnn_drops, knows_capability, served};
use super::driver::{DriverFit, DriverSpan, Policy, first_driver, required_driver};
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::{Gpu, Host};
use crate::model::platform::{Libc, Platform};
use crate::model::version::DottedVersion;
use crate::registry::{Build, Cited, FrameworkBuild, Registry};

/// What a build requires of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// The CUDA that it was built with; `None` for a CPU build.
    pub cuda: Option<&'a Semver>,
    /// The cuDNN that it runs with.
    pub cudnn: Option<&'a DottedVersion>,
    /// The code targets of its own kernels; `None` if they were not read.
    pub targets: Option<&'a CodeTargets>,
    /// The lowest glibc that its wheels need.
    pub glibc: Option<&'a DottedVersion>,
    /// Its platform.
    pub platform: Platform,
    /// Ids of the sources of its row.
    pub source: &'a [String],
}

/// Why a machine cannot run a build.
#[derive(Debug, Clone, PartialEq)]
pub enum Violation<'a> {
    /// It is for another platform.
    Platform,
    /// It is a CPU build, and the machine has a GPU.
    CpuBuild,
    /// Its code targets are unknown.
    CodeUnknown(&'a Gpu),
    /// It has no code for a GPU.
    NoCode(&'a Gpu),
    /// It has only PTX for a GPU, and the driver is older than its toolkit's own.
    PtxTooNew(&'a Gpu),
    /// Its cuDNN does not support a GPU; the lowest capability that it supports.
    CudnnDropsGpu(&'a Gpu, ComputeCapability, &'a [String]),
    /// Every driver that is new enough for it no longer supports a GPU.
    NoDriverForGpu(&'a Gpu),
    /// The driver is below the floor.
    DriverTooOld(DottedVersion, &'a [String]),
    /// The registry does not say which driver its CUDA needs.
    DriverUnknown(Semver),
    /// The C library is older than the wheels need.
    LibcTooOld(DottedVersion),
}

impl Violation<'_> {
    /// Whether only a fact is missing: the machine may run the build.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Violation::CodeUnknown(_) | Violation::DriverUnknown(_))
    }
}

/// Whether a C library is at least glibc `need`; musl never is. An unknown C library and that of another system pass.
pub fn glibc_suffices(libc: Option<&Libc>, need: &DottedVersion) -> bool {
    match libc {
        Some(Libc::Glibc(have)) => have >= need,
        Some(Libc::Musl(_)) => false,
        _ => true,
    }
}

impl<'a> Needs<'a> {
    /// What a build of torch requires.
    pub fn of_torch(build: &'a Cited<Build>) -> Needs<'a> {
        Needs {
            cuda: build.cuda.as_ref(),
            cudnn: build.cudnn.as_ref(),
            targets: build.targets.as_ref(),
            glibc: build.glibc.as_ref(),
            platform: build.platform,
            source: &build.source,
        }
    }

    /// What releases of a framework other than torch require.
    pub fn of_framework(build: &'a Cited<FrameworkBuild>) -> Needs<'a> {
        Needs {
            cuda: Some(&build.cuda),
            cudnn: build.cudnn.as_ref(),
            targets: Some(&build.targets),
            glibc: None,
            platform: build.platform,
            source: &build.source,
        }
    }

    /// How its code supports a GPU; `None` if it does not, as far as is known.
    pub fn serves(&self, registry: &Registry, gpu: ComputeCapability) -> Option<Via> {
        served(registry, self.targets?, gpu)
    }

    /// Every reason why a machine cannot run it: for each GPU the code, the cuDNN and the drivers that support the
    /// GPU, then the driver and the C library. Unspecified parts of the machine violate nothing.
    pub fn violations(&self, registry: &'a Registry, host: &'a Host, policy: Policy) -> Vec<Violation<'a>> {
        let mut found = Vec::new();
        if self.platform != host.system.platform {
            found.push(Violation::Platform);
        }
        let gpus = || host.gpus.iter().flatten().filter_map(|gpu| Some((gpu, gpu.capability?)));
        match self.cuda {
            None if gpus().next().is_some() || (host.driver.is_some() && !host.has_no_gpu()) => {
                found.push(Violation::CpuBuild);
            }
            None => {}
            Some(cuda) => {
                let os = host.system.platform.os;
                let fit = DriverFit::of(registry, host, Some(cuda), policy);
                let required = required_driver(registry, cuda, os, policy);
                let unnamed = host.gpus.iter().flatten().filter(|gpu| gpu.capability.is_none());
                found.extend(unnamed.map(Violation::CodeUnknown));
                for (gpu, capability) in gpus() {
                    let is_excluded = compiles_for(registry, cuda, capability) == Some(false);
                    match self.serves(registry, capability) {
                        _ if !knows_capability(registry, capability) && !is_excluded => {
                            found.push(Violation::CodeUnknown(gpu));
                        }
                        Some(Via::Ptx) if !fit.native => found.push(Violation::PtxTooNew(gpu)),
                        Some(_) => {}
                        None if self.targets.is_none()
                            && !registry.tegra().without_wheels.contains(&capability)
                            && !is_excluded =>
                        {
                            found.push(Violation::CodeUnknown(gpu));
                        }
                        None => found.push(Violation::NoCode(gpu)),
                    }
                    if let Some(floor) = cudnn_drops(registry, self.cudnn, capability) {
                        found.push(Violation::CudnnDropsGpu(gpu, floor.min, &floor.source));
                    }
                    // If the driver is known, `check_host` has rejected an impossible machine before.
                    let ends =
                        |floor: &DottedVersion| DriverSpan::of(registry, capability).ends_before(floor);
                    if host.driver.is_none() && required.as_ref().is_some_and(|floor| ends(&floor.value)) {
                        found.push(Violation::NoDriverForGpu(gpu));
                    }
                }
                if !fit.suffices {
                    // The GPU may need a newer driver than the CUDA does.
                    let first = gpus().filter_map(|(_, capability)| first_driver(registry, capability));
                    let first = first.max_by(|a, b| a.value.cmp(&b.value));
                    found.push(match required {
                        Some(floor) => match first.filter(|first| first.value > floor.value) {
                            Some(first) => Violation::DriverTooOld(first.value, first.source),
                            None => Violation::DriverTooOld(floor.value, floor.source),
                        },
                        // A driver below the toolkit's own may do, but not one that the GPU does not run with.
                        None => {
                            let own =
                                required_driver(registry, cuda, os, Policy::Native).map(|own| own.value);
                            match first.filter(|first| own.is_some_and(|own| first.value > own)) {
                                Some(first) => Violation::DriverTooOld(first.value, first.source),
                                None => Violation::DriverUnknown(cuda.clone()),
                            }
                        }
                    });
                }
            }
        }
        if let Some(need) = self.glibc.filter(|need| !glibc_suffices(host.system.libc.as_ref(), need)) {
            found.push(Violation::LibcTooOld(need.clone()));
        }
        found
    }
}
