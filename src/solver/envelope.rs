//! The envelope: what a stack needs of any machine, and whether a machine can exist at all.

use super::node::Node;
use super::search::Selected;
use super::tables::Problem;
use crate::model::capability::{ComputeCapability, Via};
use crate::model::host::Host;
use crate::model::platform::{Arch, Platform};
use crate::model::solution::{Coverage, Envelope};
use crate::model::version::DottedVersion;
use crate::registry::{Build, Registry};

/// The envelope of the chosen torch build, or of no build.
pub(super) fn of_selection(
    problem: &Problem<'_>,
    selected: &Selected,
    glibc: Option<DottedVersion>,
) -> Envelope {
    let torch =
        selected.get(&Node::build("torch")).and_then(|i| problem.stack["torch"].builds[*i as usize].torch);
    match torch {
        Some(build) => Envelope { glibc, ..envelope_of(problem.registry, build) },
        None => Envelope { driver: None, coverage: Vec::new(), glibc, platform: problem.platform },
    }
}

/// What a torch build needs of any machine: for each compute capability that its code and its
/// cuDNN serve, the lowest driver and, where documented, the first branch that no longer knows it.
pub fn envelope_of(registry: &Registry, build: &Build) -> Envelope {
    let mut coverage: Vec<Coverage> = Vec::new();
    if let (Some(cuda), Some(targets)) = (&build.cuda, &build.targets) {
        let os = build.platform.os;
        let floor = registry.driver_floor(cuda, os).map(|(v, _)| v);
        let native = registry.native_driver(cuda, os).map(|(v, _)| v);
        for capability in known_capabilities(registry, build.platform) {
            let Some(via) = targets.covers(capability, |c| registry.is_tegra(c)) else {
                continue;
            };
            let cudnn = build.cudnn.as_ref().and_then(|v| registry.cudnn_floor(v));
            if cudnn.is_some_and(|f| capability < f.min) {
                continue;
            }
            let by_code = if via == Via::Ptx { native.clone() } else { floor.clone() };
            let by_gpu = registry
                .architecture(capability)
                .and_then(|a| a.first_branch)
                .and_then(|b| b.to_string().parse::<DottedVersion>().ok());
            let driver_below = registry.driver_below(capability);
            let driver_min = by_code.max(by_gpu);
            if let (Some(min), Some(below)) = (&driver_min, &driver_below)
                && min >= below
            {
                continue;
            }
            coverage.push(Coverage { compute_capability: capability, via, driver_min, driver_below });
        }
    }
    Envelope {
        driver: coverage.iter().filter_map(|c| c.driver_min.clone()).min(),
        coverage,
        glibc: build.glibc.clone(),
        platform: build.platform,
    }
}

/// The capabilities that a machine of a platform can have: Tegra parts sit on 64-bit Arm alone.
fn known_capabilities(registry: &Registry, platform: Platform) -> Vec<ComputeCapability> {
    let mut all: Vec<ComputeCapability> =
        registry.architectures().iter().flat_map(|a| a.capabilities.iter().copied()).collect();
    if platform.arch == Arch::Aarch64 {
        all.extend(&registry.tegra().capabilities);
    }
    all.sort();
    all.dedup();
    all
}

/// Whether a machine can be as described: a C library belongs to one operating system, and a GPU whose last
/// driver branch is documented cannot run on a newer one.
///
/// # Errors
/// One sentence for the first contradiction.
pub fn check_host(registry: &Registry, host: &Host) -> Result<(), String> {
    let platform = host.system.platform;
    if let Some(libc) = &host.system.libc
        && libc.os() != platform.os
    {
        return Err(format!("a machine of {platform} has no {}", libc.key()));
    }
    let Some(driver) = &host.driver else {
        return Ok(());
    };
    for gpu in host.gpus.iter().flatten() {
        let Some(capability) = gpu.capability else {
            continue;
        };
        let Some(architecture) = registry.architecture(capability) else {
            continue;
        };
        if let (Some(last), Some(below)) = (architecture.last_branch, registry.driver_below(capability))
            && driver.version >= below
        {
            return Err(format!(
                "driver {} does not know {}: {} ended with driver branch {last} ({})",
                driver.version,
                gpu.label(),
                architecture.name,
                registry.source_text(&architecture.source),
            ));
        }
    }
    Ok(())
}
