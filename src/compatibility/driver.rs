//! The drivers that a CUDA release requires, and the drivers that support a GPU.

use std::fmt;

use semver::Version as Semver;

use crate::model::capability::ComputeCapability;
use crate::model::host::{Driver, Host};
use crate::model::platform::{Os, Platform};
use crate::model::request::Request;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::Registry;

/// The first CUDA major with minor-version compatibility.
const FIRST_WITH_FLOOR: u64 = 11;

/// How new a driver has to be for a CUDA release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Minor-version compatibility: the floor of the CUDA major. Machine code runs, PTX of the toolkit does not.
    Minor,
    /// The toolkit's own driver or a newer one: machine code and PTX run.
    Native,
}

impl Policy {
    /// The policy of a request: `driver-policy = "native"` refuses minor-version compatibility.
    pub fn of(request: &Request) -> Policy {
        if request.native_driver_only.is_some() { Policy::Native } else { Policy::Minor }
    }
}

/// A value and the ids of its sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced<'r, T> {
    /// The value.
    pub value: T,
    /// Ids in sources.toml.
    pub source: &'r [String],
}

/// The lowest driver that runs programs of a CUDA release under a policy; `None` if no row has one.
pub fn required_driver<'r>(
    registry: &'r Registry,
    cuda: &Semver,
    os: Os,
    policy: Policy,
) -> Option<Sourced<'r, DottedVersion>> {
    let row = match policy {
        Policy::Minor => driver_floor(registry, cuda, os),
        Policy::Native => native_driver(registry, cuda, os),
    };
    row.map(|(value, source)| Sourced { value, source })
}

/// The lowest driver that runs machine code built with a toolkit, and its sources: the minor-version compatibility
/// floor of the major, or the toolkit's own driver if there is none or it is older (CUDA 11.0 came before the floor).
fn driver_floor<'r>(registry: &'r Registry, cuda: &Semver, os: Os) -> Option<(DottedVersion, &'r [String])> {
    let by_major = registry.minor_version_compatibility().iter().find(|row| row.cuda_major == cuda.major);
    let by_major = by_major.and_then(|row| {
        let driver = if os == Os::Windows { row.windows.clone() } else { Some(row.linux.clone()) };
        Some((driver?, row.source.as_slice()))
    });
    match (by_major, native_driver(registry, cuda, os)) {
        (Some(floor), Some(own)) => Some(if own.0 < floor.0 { own } else { floor }),
        // From CUDA 11 on each major has a floor. Where no row states it, the toolkit's own driver suffices, and whether an
        // older one does is not known.
        (None, Some(_)) if cuda.major >= FIRST_WITH_FLOOR => None,
        (floor, own) => floor.or(own),
    }
}

/// The first driver of a toolkit series (`12.8`), the lowest that also runs its PTX, and its sources. Where no row states
/// one for the system, the first branch whose own CUDA is as new: a driver is native for every CUDA up to its own.
fn native_driver<'r>(registry: &'r Registry, cuda: &Semver, os: Os) -> Option<(DottedVersion, &'r [String])> {
    let series = |version: &Semver| (version.major, version.minor);
    let toolkits = registry.toolkits().iter().filter(|t| series(&t.version) == series(cuda));
    let stated = toolkits.min_by(|a, b| a.version.cmp(&b.version)).and_then(|t| {
        let driver = if os == Os::Windows { &t.windows } else { &t.linux };
        driver.clone().map(|v| (v, t.source.as_slice()))
    });
    let of_branch = || {
        let first = registry.branches().iter().find(|branch| series(&branch.cuda) >= series(cuda))?;
        // Before CUDA 11 toolkits and branches were not released together.
        (cuda.major >= FIRST_WITH_FLOOR).then_some(())?;
        Some((first.branch.to_string().parse().ok()?, first.source.as_slice()))
    };
    stated.or_else(of_branch)
}

/// A CUDA release of which no row says how old a driver may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFloor {
    /// The release.
    pub cuda: Semver,
    /// For which platform.
    pub platform: Platform,
    /// The driver that is known to suffice, if one is: the toolkit's own.
    pub own: Option<DottedVersion>,
}

impl UnknownFloor {
    /// The first of some CUDA releases that is one.
    pub fn of<'c>(
        registry: &Registry,
        mut cuda: impl Iterator<Item = &'c Semver>,
        platform: Platform,
    ) -> Option<UnknownFloor> {
        let driver = |cuda: &Semver, policy| required_driver(registry, cuda, platform.os, policy);
        let cuda = cuda.find(|cuda| driver(cuda, Policy::Minor).is_none())?;
        let own = driver(cuda, Policy::Native).map(|own| own.value);
        Some(UnknownFloor { cuda: cuda.clone(), platform, own })
    }
}

/// `which driver CUDA 14.0 needs on linux-x86_64 is not in envlock's data`.
impl fmt::Display for UnknownFloor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cuda, platform) = (cuda_short(&self.cuda), self.platform);
        match &self.own {
            Some(own) => write!(
                f,
                "whether CUDA {cuda} runs on drivers below {own}, its own, on {platform} is not in envlock's data"
            ),
            None => write!(f, "which driver CUDA {cuda} needs on {platform} is not in envlock's data"),
        }
    }
}

/// A driver that reports this CUDA version: the first driver of the toolkit series.
pub fn driver_of_cuda(registry: &Registry, cuda: &Semver) -> Option<DottedVersion> {
    native_driver(registry, cuda, Os::Linux).map(|(v, _)| v).or_else(|| {
        registry
            .branches()
            .iter()
            .find(|b| (b.cuda.major, b.cuda.minor) == (cuda.major, cuda.minor))
            .and_then(|b| b.branch.to_string().parse().ok())
    })
}

/// The drivers that support a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverSpan {
    /// The first branch that supports it, if known.
    pub from: Option<DottedVersion>,
    /// The first branch that no longer supports it, if a last branch is documented.
    pub below: Option<DottedVersion>,
}

impl DriverSpan {
    /// The drivers that support GPUs of a compute capability.
    pub fn of(registry: &Registry, gpu: ComputeCapability) -> DriverSpan {
        let first = registry.architecture(gpu).and_then(|architecture| architecture.first_branch);
        DriverSpan {
            from: first.and_then(|branch| branch.to_string().parse().ok()),
            below: registry.driver_below(gpu),
        }
    }

    /// Whether no driver at or above `floor` supports the GPU.
    pub fn ends_before(&self, floor: &DottedVersion) -> bool {
        self.below.as_ref().is_some_and(|below| floor >= below)
    }
}

/// The first driver branch that supports GPUs of a compute capability.
pub(super) fn first_driver(
    registry: &Registry,
    gpu: ComputeCapability,
) -> Option<Sourced<'_, DottedVersion>> {
    let value = DriverSpan::of(registry, gpu).from?;
    Some(Sourced { value, source: &registry.architecture(gpu)?.source })
}

/// How a machine's driver fits a CUDA release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverFit {
    /// It runs programs of the release under the policy, on every GPU of the machine.
    pub suffices: bool,
    /// It is the toolkit's own driver or newer: PTX runs too. An unspecified driver counts as native.
    pub native: bool,
}

impl DriverFit {
    /// Checks the driver of a machine. A build without CUDA, an unspecified driver and a machine without a GPU always
    /// suffice. A release for which no row has a floor never does.
    pub fn of(registry: &Registry, host: &Host, cuda: Option<&Semver>, policy: Policy) -> DriverFit {
        let (Some(cuda), Some(driver)) = (cuda, &host.driver) else {
            return DriverFit { suffices: true, native: true };
        };
        let os = host.system.platform.os;
        let meets = |policy| {
            let required = required_driver(registry, cuda, os, policy);
            // A driver of which only the branch is known is open within it.
            required.is_some_and(|required| driver.reaches(&required.value) != Some(false))
        };
        let native = meets(Policy::Native);
        DriverFit {
            suffices: host.has_no_gpu() || (knows_gpus(registry, host, driver) && (native || meets(policy))),
            native,
        }
    }
}

/// Whether a driver's branch is not older than the first branch of any of the GPUs, where that is known.
fn knows_gpus(registry: &Registry, host: &Host, driver: &Driver) -> bool {
    let capabilities = host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
    capabilities
        .filter_map(|capability| DriverSpan::of(registry, capability).from)
        .all(|first| driver.version.major() >= first.major())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_majors_and_the_native_driver_the_toolkits() {
        let registry = crate::registry::frozen();
        let driver = |cuda: &str, policy| {
            let cuda = crate::model::version::cuda_version(cuda).unwrap();
            required_driver(&registry, &cuda, Os::Linux, policy).map(|driver| driver.value.to_string())
        };
        for (cuda, minor, native) in [
            ("12.8", Some("525.60.13"), Some("570.26")),
            ("13.0", Some("580.65.06"), Some("580.65.06")),
            ("11.8", Some("450.80.02"), Some("520.61.05")),
            // Its own driver is older than the floor that came later.
            ("11.0", Some("450.36.06"), Some("450.36.06")),
            // Before CUDA 11 each toolkit needs its own.
            ("10.1", Some("418.39"), Some("418.39")),
            ("99.0", None, None),
        ] {
            let found = (driver(cuda, Policy::Minor), driver(cuda, Policy::Native));
            assert_eq!((found.0.as_deref(), found.1.as_deref()), (minor, native), "{cuda}");
        }
    }

    #[test]
    fn a_gpu_may_end_before_a_driver() {
        let registry = crate::registry::frozen();
        let volta = DriverSpan::of(&registry, "7.0".parse().unwrap());
        assert!(volta.ends_before(&"595.45.04".parse().unwrap()));
        assert!(!volta.ends_before(&"580.65.06".parse().unwrap()));
        let ada = DriverSpan::of(&registry, "8.9".parse().unwrap());
        assert!(!ada.ends_before(&"999.1".parse().unwrap()), "no last branch is documented");
    }
}
