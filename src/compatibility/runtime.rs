//! Packages that use CUDA without a framework: the CUDA runtime that PyPI's packages bring, and packages with GPU code.

use pep440_rs::Version;
use semver::Version as Semver;

use super::code::{known_capabilities, served};
use super::driver::{DriverSpan, Policy, required_driver};
use crate::model::built_for::BuiltFor;
use crate::model::capability::Via;
use crate::model::nvidia::is_of_nvidia;
use crate::model::platform::Platform;
use crate::model::solution::{ChosenPackage, Coverage, Envelope};
use crate::registry::{Registry, STACK_PACKAGES};

/// The CUDA that a package brings or was built for: NVIDIA's runtime, or what the version says of a package that is no framework.
pub fn cuda_of_package(registry: &Registry, name: &str, version: &Version) -> Option<Semver> {
    let stated = || stated_cuda(version).filter(|_| !STACK_PACKAGES.contains(&name));
    registry.cuda_of_runtime(name, version).or_else(stated)
}

/// The CUDA that a version says its build is for: 13.0 of `1.4.0+cu130`, 12.0 of `2.8.3+cu12torch2.9`.
pub fn stated_cuda(version: &Version) -> Option<Semver> {
    let local = version.local().iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    let (major, minor) = BuiltFor::cuda_in(&local)?;
    Some(Semver::new(major, minor, 0))
}

/// The newest CUDA runtime among some packages, and the package.
pub fn cuda_runtime<'p>(
    registry: &Registry,
    packages: &'p [ChosenPackage],
) -> Option<(&'p ChosenPackage, Semver)> {
    let of = |package: &'p ChosenPackage| {
        Some((package, cuda_of_package(registry, &package.name, &package.version)?))
    };
    packages.iter().filter_map(of).max_by(|a, b| a.1.cmp(&b.1))
}

/// An envelope with the driver that packages need which are the CUDA runtime, or say in their version which CUDA they are built
/// for.
pub fn with_runtime_of<'p>(
    registry: &Registry,
    mut envelope: Envelope,
    packages: impl Iterator<Item = (&'p str, &'p Version)>,
) -> Envelope {
    let all = packages.filter_map(|(name, version)| cuda_of_package(registry, name, version));
    let Some(cuda) = all.max() else { return envelope };
    let required = required_driver(registry, &cuda, envelope.platform.os, Policy::Minor);
    let floor = required.map(|driver| driver.value);
    for row in &mut envelope.coverage {
        row.driver_min = row.driver_min.take().max(floor.clone());
    }
    let ends = |row: &Coverage| matches!((&row.driver_min, &row.driver_below), (Some(min), Some(below)) if min >= below);
    envelope.coverage.retain(|row| !ends(row));
    envelope.driver = envelope.driver.take().max(floor);
    envelope
}

/// The GPUs that packages with known code support where no framework is among them, with the driver of the CUDA runtime
/// that they bring; empty if it or the code is not known. The CUDA of their PTX is not known, so PTX counts like machine
/// code.
pub(super) fn coverage_without_framework(
    registry: &Registry,
    packages: &[ChosenPackage],
    platform: Platform,
) -> Vec<Coverage> {
    let code = || packages.iter().filter_map(|package| package.targets.as_ref()).map(|(targets, _)| targets);
    let Some((_, cuda)) = cuda_runtime(registry, packages).filter(|_| code().next().is_some()) else {
        return Vec::new();
    };
    let floor = required_driver(registry, &cuda, platform.os, Policy::Minor).map(|driver| driver.value);
    let of = |capability| {
        let ways: Option<Vec<Via>> = code().map(|targets| served(registry, targets, capability)).collect();
        let via = if ways?.contains(&Via::Ptx) { Via::Ptx } else { Via::Sass };
        let span = DriverSpan::of(registry, capability);
        let driver_min = floor.clone().max(span.from);
        Some(Coverage { compute_capability: capability, via, driver_min, driver_below: span.below })
    };
    known_capabilities(registry, platform).into_iter().filter_map(of).collect()
}

/// Whether a package is known to have a build for CUDA: by its name, its version, its GPU code or what it opens.
pub fn is_built_for_cuda(registry: &Registry, package: &ChosenPackage) -> bool {
    let in_version = || BuiltFor::of(&package.version).is_some_and(|built| built.cuda_major.is_some());
    let opens = || registry.providers().iter().any(|provider| provider.package == package.name);
    is_named_for_cuda(&package.name) || package.targets.is_some() || in_version() || opens()
}

/// Whether a package's name states a CUDA: `cupy-cuda12x`, `faiss-gpu-cu12`.
fn is_named_for_cuda(package: &str) -> bool {
    package.split('-').any(|part| {
        let digits = part.strip_prefix("cuda").or_else(|| part.strip_prefix("cu"));
        digits.is_some_and(|digits| {
            let digits = digits.strip_suffix('x').unwrap_or(digits);
            digits.len() >= 2 && digits.bytes().all(|b| b.is_ascii_digit())
        })
    })
}

/// What is not known of packages that use CUDA where no framework is among them, as a sentence; `None` if none of them is
/// known to use CUDA.
pub fn unknown_cuda_user(registry: &Registry, packages: &[ChosenPackage]) -> Option<String> {
    let runtime = cuda_runtime(registry, packages);
    // A framework without its CUDA packages does not.
    let is_framework = |name: &str| registry.frameworks().iter().any(|row| row.package == name);
    let uses_cuda = |package: &&ChosenPackage| {
        if is_framework(&package.name) {
            return false;
        }
        let brings = || {
            let runtime = runtime.as_ref().map(|(runtime, _)| runtime.name.as_str());
            package.requires.iter().any(|edge| Some(edge.to.as_str()) == runtime)
        };
        is_built_for_cuda(registry, package) || brings()
    };
    // NVIDIA's libraries are there because another package uses them.
    let is_library = |package: &&ChosenPackage| is_of_nvidia(&package.name);
    let user = packages.iter().filter(|package| !is_library(package)).find(uses_cuda);
    let user = user.or_else(|| packages.iter().find(uses_cuda)).or(runtime.as_ref().map(|(one, _)| *one))?;
    let what = match (runtime.is_some(), user.targets.is_some()) {
        (false, false) => "which driver and GPUs",
        (false, true) => "which driver",
        (true, false) => "which GPUs",
        (true, true) => return None,
    };
    Some(format!("{what} {} {} needs is not in envlock's data", user.name, user.version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::choice::Choice;
    use crate::model::source::Source;

    fn package(name: &str, version: &str) -> ChosenPackage {
        ChosenPackage {
            name: name.to_owned(),
            version: version.parse().unwrap(),
            source: Source::Index("pypi".to_owned()),
            build: None,
            groups: Vec::new(),
            files: Vec::new(),
            metadata_sha256: None,
            requires: Vec::new(),
            reason: Choice::Newest,
            targets: None,
            variant: None,
        }
    }

    #[test]
    fn what_is_known_of_packages_without_a_framework() {
        let registry = Registry::embedded();
        let told = |packages: &[(&str, &str)]| {
            let packages: Vec<_> = packages.iter().map(|(name, version)| package(name, version)).collect();
            let cuda = cuda_runtime(&registry, &packages).map(|(_, cuda)| cuda.to_string());
            (cuda, unknown_cuda_user(&registry, &packages))
        };
        assert_eq!(told(&[("numpy", "2.0")]), (None, None));
        assert_eq!(told(&[("cuda-python-x", "1"), ("cu-build", "1"), ("accurate", "1")]), (None, None));
        let of = |text: &str| Some(format!("{text} needs is not in envlock's data"));
        assert_eq!(told(&[("cupy-cuda12x", "13.0")]), (None, of("which driver and GPUs cupy-cuda12x 13.0")));
        let brings = [("nvidia-cuda-runtime-cu12", "12.8.90"), ("faiss-gpu-cu12", "1.9")];
        assert_eq!(told(&brings), (Some("12.8.0".to_owned()), of("which GPUs faiss-gpu-cu12 1.9")));
        let opens = [("onnxruntime-gpu", "1.26.0")];
        assert_eq!(told(&opens), (None, of("which driver and GPUs onnxruntime-gpu 1.26.0")));
        // A stub that reserves the name.
        assert_eq!(told(&[("nvidia-cuda-runtime", "0.0.1")]), (None, None));
    }
}
