//! The envelope: what a build, or several together, require of any machine.

use super::code::{cudnn_drops, known_capabilities, served};
use super::driver::{DriverSpan, Policy, required_driver};
use super::needs::Needs;
use super::runtime::{coverage_without_framework, with_runtime_of};
use crate::model::capability::{ComputeCapability, Via};
use crate::model::solution::{ChosenPackage, Coverage, Envelope};
use crate::model::version::DottedVersion;
use crate::registry::{Build, Cited, FrameworkBuild, Registry};

/// Restricts an envelope to the GPUs that all packages with known code support, and to the drivers that the CUDA runtime
/// among them runs on. Packages whose code was not read restrict nothing.
pub fn with_code_of(registry: &Registry, envelope: Envelope, packages: &[ChosenPackage]) -> Envelope {
    let mut coverage = match envelope.coverage.is_empty() {
        true => coverage_without_framework(registry, packages, envelope.platform),
        false => envelope.coverage,
    };
    // The locked cuDNN may support fewer GPUs than the one that a framework was built with.
    for floor in packages.iter().filter_map(|package| cudnn_floor(registry, package)) {
        coverage.retain(|row| row.compute_capability >= floor);
    }
    for (targets, _) in packages.iter().filter_map(|package| package.targets.as_ref()) {
        coverage.retain(|row| served(registry, targets, row.compute_capability).is_some());
    }
    let driver = coverage.iter().filter_map(|c| c.driver_min.clone()).min().or(envelope.driver);
    let all = packages.iter().map(|package| (package.name.as_str(), &package.version));
    with_runtime_of(registry, Envelope { driver, coverage, ..envelope }, all)
}

/// The lowest compute capability that a locked cuDNN package supports.
fn cudnn_floor(registry: &Registry, package: &ChosenPackage) -> Option<ComputeCapability> {
    package.name.strip_prefix("nvidia-cudnn-cu")?;
    let version: DottedVersion = DottedVersion::of_release(&package.version)?;
    registry.cudnn_floor(&version).map(|floor| floor.min)
}

/// The envelope of two parts together. A part without coverage (its code was not read) does not restrict the other.
pub fn both(a: Envelope, b: Envelope) -> Envelope {
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
    Envelope { driver: lowest.max(a.driver).max(b.driver), coverage, glibc: a.glibc.max(b.glibc), ..a }
}

/// What a torch build requires of any machine: for each compute capability that its code and its cuDNN
/// support, the lowest driver and, if documented, the first branch that no longer supports it.
pub fn envelope_of(registry: &Registry, build: &Cited<Build>) -> Envelope {
    Needs::of_torch(build).envelope(registry)
}

/// What releases of a framework other than torch require of any machine.
pub fn envelope_of_framework(registry: &Registry, build: &Cited<FrameworkBuild>) -> Envelope {
    Needs::of_framework(build).envelope(registry)
}

impl Needs<'_> {
    /// Checks every compute capability that a machine of the platform can have. Unread code covers none, and neither
    /// does a CUDA version without a known driver floor.
    pub fn envelope(&self, registry: &Registry) -> Envelope {
        let mut coverage: Vec<Coverage> = Vec::new();
        if let (Some(cuda), Some(targets)) = (self.cuda, self.targets) {
            let driver = |policy| required_driver(registry, cuda, self.platform.os, policy).map(|d| d.value);
            let native = driver(Policy::Native);
            // Where the floor of a CUDA major is not known, the toolkit's own driver is what is known to suffice.
            let floor = driver(Policy::Minor).or_else(|| native.clone());
            let known =
                if floor.is_some() { known_capabilities(registry, self.platform) } else { Vec::new() };
            for capability in known {
                let Some(via) = served(registry, targets, capability) else { continue };
                if cudnn_drops(registry, self.cudnn, capability).is_some() {
                    continue;
                }
                let by_code = if via == Via::Ptx { native.clone() } else { floor.clone() };
                let span = DriverSpan::of(registry, capability);
                let driver_min = by_code.max(span.from.clone());
                if driver_min.as_ref().is_some_and(|min| span.ends_before(min)) {
                    continue;
                }
                let driver_below = span.below;
                coverage.push(Coverage { compute_capability: capability, via, driver_min, driver_below });
            }
        }
        // Without known code there is no coverage, but the driver floor is still known.
        let floor = || {
            let cuda = self.cuda.filter(|_| self.targets.is_none())?;
            let driver = |policy| required_driver(registry, cuda, self.platform.os, policy).map(|d| d.value);
            driver(Policy::Minor).or_else(|| driver(Policy::Native))
        };
        Envelope {
            driver: coverage.iter().filter_map(|c| c.driver_min.clone()).min().or_else(floor),
            coverage,
            glibc: self.glibc.cloned(),
            platform: self.platform,
        }
    }
}
