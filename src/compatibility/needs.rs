//! What a build asks of a machine, and what a machine does not have of it.

use semver::Version as Semver;

use super::code::{cudnn_drops, served};
use super::driver::{DriverFit, DriverSpan, Policy, required_driver};
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::{Gpu, Host};
use crate::model::platform::{Libc, Platform};
use crate::model::version::DottedVersion;
use crate::registry::{Build, FrameworkBuild, Registry};

/// What a build asks of a machine.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// The CUDA it was built with; nothing for the CPU.
    pub cuda: Option<&'a Semver>,
    /// The cuDNN it runs with.
    pub cudnn: Option<&'a DottedVersion>,
    /// The code of its own kernels; nothing where it was not read.
    pub targets: Option<&'a CodeTargets>,
    /// Whether targets that were not read count as none: a framework whose own kernels are unknown serves no GPU
    /// knowingly, a library beside it is not judged.
    pub unknown_code_serves_none: bool,
    /// The lowest glibc of its wheels.
    pub glibc: Option<&'a DottedVersion>,
    /// Its platform.
    pub platform: Platform,
    /// Ids of the sources of its row.
    pub source: &'a [String],
}

/// Why a machine does not run a build.
#[derive(Debug, Clone, PartialEq)]
pub enum Violation<'a> {
    /// It is for another platform.
    Platform,
    /// A GPU is there, and it is a build for the CPU.
    CpuBuild,
    /// Which code it has is not known.
    CodeUnknown(&'a Gpu),
    /// It has no code for a GPU.
    NoCode(&'a Gpu),
    /// It has PTX alone for a GPU, and the driver is older than its toolkit's own.
    PtxTooNew(&'a Gpu),
    /// Its cuDNN no longer serves a GPU; the lowest capability that it serves.
    CudnnDropsGpu(&'a Gpu, ComputeCapability, &'a [String]),
    /// Every driver that it needs is too new for a GPU.
    NoDriverForGpu(&'a Gpu),
    /// The driver is below the floor.
    DriverTooOld(DottedVersion, &'a [String]),
    /// No row says which driver its CUDA needs.
    DriverUnknown(Semver),
    /// The C library is older than the wheels need.
    LibcTooOld(DottedVersion),
}

/// Whether a C library is at least `need`. One that is not known, or not glibc, limits nothing.
pub fn glibc_suffices(libc: Option<&Libc>, need: &DottedVersion) -> bool {
    match libc {
        Some(Libc::Glibc(have)) => have >= need,
        _ => true,
    }
}

impl<'a> Needs<'a> {
    /// What a build of torch asks.
    pub fn of_torch(build: &'a Build) -> Needs<'a> {
        Needs {
            cuda: build.cuda.as_ref(),
            cudnn: build.cudnn.as_ref(),
            targets: build.targets.as_ref(),
            unknown_code_serves_none: true,
            glibc: build.glibc.as_ref(),
            platform: build.platform,
            source: &build.source,
        }
    }

    /// What releases of a framework beside torch ask.
    pub fn of_framework(build: &'a FrameworkBuild) -> Needs<'a> {
        Needs {
            cuda: Some(&build.cuda),
            cudnn: build.cudnn.as_ref(),
            targets: build.targets.as_ref(),
            unknown_code_serves_none: false,
            glibc: None,
            platform: build.platform,
            source: &build.source,
        }
    }

    /// How its code serves a GPU; nothing where it does not knowingly.
    pub fn serves(&self, registry: &Registry, gpu: ComputeCapability) -> Option<Via> {
        match self.targets {
            Some(targets) => served(registry, targets, gpu),
            // Code that was not read is not judged.
            None if self.unknown_code_serves_none => None,
            None => Some(Via::Sass),
        }
    }

    /// Everything that keeps a machine from running it: GPU by GPU its code, its cuDNN and the drivers that know the
    /// GPU, then the driver and the C library. What is open about the machine limits nothing.
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
                for (gpu, capability) in gpus() {
                    match self.serves(registry, capability) {
                        Some(Via::Ptx) if !fit.native => found.push(Violation::PtxTooNew(gpu)),
                        Some(_) => {}
                        None if self.targets.is_none() => found.push(Violation::CodeUnknown(gpu)),
                        None => found.push(Violation::NoCode(gpu)),
                    }
                    if let Some(floor) = cudnn_drops(registry, self.cudnn, capability) {
                        found.push(Violation::CudnnDropsGpu(gpu, floor.min, &floor.source));
                    }
                    // Where the driver is known, a machine that cannot be was refused before.
                    let ends =
                        |floor: &DottedVersion| DriverSpan::of(registry, capability).ends_before(floor);
                    if host.driver.is_none() && required.as_ref().is_some_and(|floor| ends(&floor.value)) {
                        found.push(Violation::NoDriverForGpu(gpu));
                    }
                }
                if !fit.suffices {
                    found.push(match required {
                        Some(floor) => Violation::DriverTooOld(floor.value, floor.source),
                        None => Violation::DriverUnknown(cuda.clone()),
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
