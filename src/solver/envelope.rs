//! The envelope: what a stack needs of any machine, and whether a machine can exist at all.

use super::node::Node;
use super::search::Selected;
use super::tables::Problem;
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::Host;
use crate::model::platform::{Arch, Platform};
use crate::model::solution::{ChosenPackage, Coverage, Envelope};
use crate::model::version::DottedVersion;
use crate::registry::{Build, FrameworkBuild, Registry};

/// The envelope of the chosen torch build and of the frameworks beside it, or of neither.
pub(super) fn of_selection(
    problem: &Problem<'_>,
    selected: &Selected,
    glibc: Option<DottedVersion>,
) -> Envelope {
    let torch =
        selected.get(&Node::build("torch")).and_then(|i| problem.stack["torch"].builds[*i as usize].torch);
    let torch = torch.filter(|build| build.cuda.is_some()).map(|build| envelope_of(problem.registry, build));
    let frameworks = selected.iter().filter_map(|(node, row)| match node {
        Node::Runtime(_) => {
            Some(envelope_of_framework(problem.registry, problem.runtimes[*row as usize].build))
        }
        _ => None,
    });
    let nothing = Envelope { driver: None, coverage: Vec::new(), glibc: None, platform: problem.platform };
    let together = torch.into_iter().chain(frameworks).reduce(both).unwrap_or(nothing);
    Envelope { glibc, ..together }
}

/// What is left of an envelope beside packages whose code was read: a GPU that one of them has none for is not
/// served whole. What nobody read is not judged.
pub(super) fn with_code_of(registry: &Registry, envelope: Envelope, packages: &[ChosenPackage]) -> Envelope {
    let mut coverage = envelope.coverage;
    // The cuDNN that is locked may serve fewer than the one that a framework was built with.
    for floor in packages.iter().filter_map(|package| cudnn_floor(registry, package)) {
        coverage.retain(|row| row.compute_capability >= floor);
    }
    for (targets, _) in packages.iter().filter_map(|package| package.targets.as_ref()) {
        coverage.retain(|row| targets.covers(row.compute_capability, |c| registry.is_tegra(c)).is_some());
    }
    let driver = coverage.iter().filter_map(|c| c.driver_min.clone()).min().or(envelope.driver);
    Envelope { driver, coverage, ..envelope }
}

/// The lowest capability that a locked package of cuDNN serves.
fn cudnn_floor(registry: &Registry, package: &ChosenPackage) -> Option<ComputeCapability> {
    package.name.strip_prefix("nvidia-cudnn-cu")?;
    let version: DottedVersion = DottedVersion::of_release(&package.version)?;
    registry.cudnn_floor(&version).map(|floor| floor.min)
}

/// What two parts need together. A part whose code was not read leaves the other's coverage as it is.
fn both(a: Envelope, b: Envelope) -> Envelope {
    let coverage: Vec<Coverage> = match (a.coverage.is_empty(), b.coverage.is_empty()) {
        (true, _) => b.coverage,
        (_, true) => a.coverage,
        _ => {
            let of_b = |c: ComputeCapability| b.coverage.iter().find(|row| row.compute_capability == c);
            let pairs = a.coverage.iter().filter_map(|x| Some((x, of_b(x.compute_capability)?)));
            pairs
                .map(|(x, y)| Coverage {
                    compute_capability: x.compute_capability,
                    via: if x.via == Via::Ptx { x.via } else { y.via },
                    driver_min: x.driver_min.clone().max(y.driver_min.clone()),
                    driver_below: x.driver_below.clone().or_else(|| y.driver_below.clone()),
                })
                .filter(
                    |c| !matches!((&c.driver_min, &c.driver_below), (Some(min), Some(below)) if min >= below),
                )
                .collect()
        }
    };
    let lowest = coverage.iter().filter_map(|c| c.driver_min.clone()).min();
    Envelope { driver: lowest.max(a.driver).max(b.driver), coverage, ..a }
}

/// What a torch build needs of any machine: for each compute capability that its code and its
/// cuDNN serve, the lowest driver and, where documented, the first branch that no longer knows it.
pub fn envelope_of(registry: &Registry, build: &Build) -> Envelope {
    let needs = Needs {
        cuda: build.cuda.as_ref(),
        cudnn: build.cudnn.as_ref(),
        targets: build.targets.as_ref(),
        platform: build.platform,
    };
    Envelope { glibc: build.glibc.clone(), ..needs.envelope(registry) }
}

/// What releases of a framework beside torch need of any machine.
pub fn envelope_of_framework(registry: &Registry, build: &FrameworkBuild) -> Envelope {
    let needs = Needs {
        cuda: Some(&build.cuda),
        cudnn: build.cudnn.as_ref(),
        targets: build.targets.as_ref(),
        platform: build.platform,
    };
    let envelope = needs.envelope(registry);
    // Code that was not read covers nothing knowingly; the driver's floor is known all the same.
    let floor = || registry.driver_floor(&build.cuda, build.platform.os).map(|(v, _)| v);
    Envelope { driver: envelope.driver.clone().or_else(floor), ..envelope }
}

/// What decides an envelope.
struct Needs<'a> {
    cuda: Option<&'a semver::Version>,
    cudnn: Option<&'a DottedVersion>,
    targets: Option<&'a CodeTargets>,
    platform: Platform,
}

impl Needs<'_> {
    fn envelope(&self, registry: &Registry) -> Envelope {
        let mut coverage: Vec<Coverage> = Vec::new();
        if let (Some(cuda), Some(targets)) = (self.cuda, self.targets) {
            let os = self.platform.os;
            let floor = registry.driver_floor(cuda, os).map(|(v, _)| v);
            let native = registry.native_driver(cuda, os).map(|(v, _)| v);
            // A CUDA whose driver nobody states promises nothing.
            let known =
                if floor.is_some() { known_capabilities(registry, self.platform) } else { Vec::new() };
            for capability in known {
                let Some(via) = targets.covers(capability, |c| registry.is_tegra(c)) else {
                    continue;
                };
                let cudnn = self.cudnn.and_then(|v| registry.cudnn_floor(v));
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
            glibc: None,
            platform: self.platform,
        }
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
