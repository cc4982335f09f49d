//! What is locked for one environment: a target of envlock's own lock, or an environment of another tool's lock as such a target.
//! What is not known of it stands beside it, so that one list of checks judges both.

mod of_conda;
mod of_frameworks;
mod of_torch;

use std::borrow::Cow;

use pep440_rs::Version;

use crate::compatibility::{
    AskedDriver, Policy, UnknownFloor, asked_driver, both, command_to_learn, cuda_runtime, required_driver,
    unknown_cuda_user, with_code_of,
};
use crate::formats::{CondaRecord, Environment};
use crate::lockfile::Target;
use crate::model::capability::ComputeCapability;
use crate::model::host::Host;
use crate::model::installed::CondaPackage;
use crate::model::level::Level;
use crate::model::patches::Patches;
use crate::model::platform::{Os, Platform};
use crate::model::solution::{ChosenPackage, Envelope};
use crate::model::version::{DottedVersion, public};
use crate::model::wheel::WheelName;
use crate::registry::Registry;

/// Who wrote a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenBy {
    /// envlock, for machines that it states.
    Envlock,
    /// Another tool, which says nothing of machines.
    OtherTool,
}

/// What is locked for one environment, and what is not known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Locked<'l> {
    /// The target. The host of another tool's is open.
    pub target: Cow<'l, Target>,
    /// Who wrote the lock.
    pub by: WrittenBy,
    /// What is not known of it, one sentence each: whether it runs cannot be said without.
    pub unknown: Vec<String>,
    /// Of which CUDA in it no row says how old a driver may be.
    pub unknown_floor: Option<UnknownFloor>,
    /// Releases of which neither a row nor a file of the lock says anything, one sentence each: they may not be for this Python and
    /// system, with or without a GPU.
    pub unlisted: Vec<String>,
    /// What makes it impossible to install on its platform, one sentence each.
    pub impossible: Vec<String>,
    /// Why its tool refuses it on this machine, as a sentence.
    pub excluded: Option<String>,
    /// Whether the compute capabilities of the target's envelope are those of the code.
    pub code_is_known: bool,
    /// Frameworks that it has without CUDA.
    pub without_cuda: Vec<WithoutCuda>,
    /// Its conda packages, where another tool locked them.
    pub conda: Vec<CondaRecord>,
    /// Packages that it has without a version: from a repository or a folder.
    pub unversioned: Vec<String>,
    /// What it has without saying the package.
    pub unnamed: Vec<String>,
    /// Packages whose requirements the project replaces by its own.
    pub overridden: Vec<String>,
    /// The cuDNN that is locked beside conda's torch, and the lowest compute capability that it supports.
    pub cudnn_floor: Option<(DottedVersion, ComputeCapability)>,
    /// The newest driver that a conda package asks for, if it is newer than the one that the frameworks need.
    pub asked_driver: Option<AskedDriver>,
}

/// A framework without CUDA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutCuda {
    /// The framework: `torch`, `tensorflow`, `jax`.
    pub name: String,
    /// What is locked of it, with the version: `jaxlib 0.5.3`.
    pub framework: String,
    /// Why it does not use an NVIDIA GPU.
    pub why: NoCuda,
}

/// Why a framework does not use an NVIDIA GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCuda {
    /// It is a CPU build.
    CpuBuild,
    /// It is a build for another vendor's GPUs, this variant: `rocm6.4`.
    OtherVendor(String),
    /// Its part for CUDA is a package of its own, which the lock does not have: this requirement brings it.
    NoPlugin {
        /// `jax[cuda12]`.
        ask: String,
    },
    /// It can use CUDA of this version, but the lock has no CUDA packages: this requirement brings them.
    NoPackages {
        /// Major and minor, `12.5`.
        cuda: String,
        /// `tensorflow[and-cuda]`.
        ask: String,
    },
}

impl<'l> Locked<'l> {
    /// A target of envlock's own lock.
    pub fn own(target: &'l Target, registry: &Registry) -> Locked<'l> {
        let unknown: Vec<String> = unknown_need(target, registry).into_iter().collect();
        let unknown_floor = unknown_floor(target, registry);
        let is_unread = target.envelope.coverage.is_empty()
            && (!target.has_framework() || !unknown.is_empty() || unknown_floor.is_some());
        let specs = target.conda.iter().flat_map(|package| {
            let all = package.depends.iter().chain(&package.constrains);
            all.map(move |spec| (format!("{} {}", package.name, package.version), spec.as_str()))
        });
        let os = target.platform.os;
        let of_specs = asked_driver(registry, os, specs);
        let of_packages = AskedDriver::of_packages(registry, os, named(target));
        // Where the frameworks need that driver too, they are what to change.
        let floor = framework_floor(target, registry);
        let asked = AskedDriver::newest(of_specs.into_iter().chain(of_packages), floor.as_ref());
        Locked {
            target: Cow::Borrowed(target),
            by: WrittenBy::Envlock,
            unknown,
            unknown_floor,
            unlisted: Vec::new(),
            impossible: Vec::new(),
            excluded: None,
            code_is_known: !is_unread,
            without_cuda: Vec::new(),
            conda: Vec::new(),
            unversioned: Vec::new(),
            unnamed: Vec::new(),
            overridden: Vec::new(),
            cudnn_floor: None,
            asked_driver: asked,
        }
    }

    /// The driver of the newest toolkit in it. Below that, some part runs by minor-version compatibility.
    pub fn native_driver(&self) -> Option<&DottedVersion> {
        let toolkits = self.target.frameworks.iter().filter_map(|framework| framework.native_driver.as_ref());
        let stack = self.target.stack.iter().filter_map(|stack| stack.native_driver.as_ref());
        stack.chain(toolkits).max()
    }

    /// The same, of a lock whose project replaces the requirements on these packages.
    #[must_use]
    pub fn replacing(self, overridden: Vec<String>) -> Locked<'l> {
        Locked { overridden, ..self }
    }

    /// An environment of another tool's lock on a platform, with what the registry knows of its frameworks.
    pub fn of_tool(environment: &Environment, platform: Platform, registry: &Registry) -> Locked<'static> {
        let python = environment.python;
        let target = Target {
            name: environment.name.clone(),
            python,
            patches: Patches::default(),
            platform,
            level: Level::Full,
            stack: None,
            frameworks: Vec::new(),
            envelope: Envelope { driver: None, coverage: Vec::new(), glibc: None, platform },
            host: Host::open(platform, "another tool's lock"),
            image: None,
            packages: environment.packages.iter().map(|package| package.chosen(python, platform)).collect(),
            conda: Vec::new(),
        };
        let mut locked = Locked {
            target: Cow::Owned(target),
            by: WrittenBy::OtherTool,
            excluded: environment.excluded.clone(),
            code_is_known: true,
            unknown: Vec::new(),
            unknown_floor: None,
            unlisted: Vec::new(),
            impossible: Vec::new(),
            without_cuda: Vec::new(),
            conda: environment.conda.clone(),
            unversioned: environment.unversioned.clone(),
            unnamed: environment.unnamed.clone(),
            overridden: environment.overridden.clone(),
            cudnn_floor: None,
            asked_driver: None,
        };
        locked.installable(environment, platform);
        let mut envelopes: Vec<Envelope> = Vec::new();
        envelopes.extend(locked.torch(environment, registry, platform));
        // Which build of torch it is, is known now.
        for package in &mut locked.target.to_mut().packages {
            let variant = package.variant.as_deref();
            package.targets =
                registry.targets_of(&package.name, &public(&package.version), variant, platform);
        }
        envelopes.extend(locked.other_frameworks(environment, registry, platform));
        locked.without_row(environment, registry, platform);
        envelopes.extend(locked.conda_frameworks(registry, platform));
        locked.without_framework(registry);
        let empty = locked.target.envelope.clone();
        let envelope = envelopes.into_iter().reduce(both).unwrap_or(empty);
        let envelope = with_code_of(registry, envelope, &locked.target.packages);
        if locked.unknown.is_empty() {
            locked.unknown_floor = unknown_floor(&locked.target, registry);
        }
        let glibc = locked.target.packages.iter().filter_map(|package| glibc_need(package, platform)).max();
        locked.target.to_mut().envelope = Envelope { glibc: glibc.max(envelope.glibc.clone()), ..envelope };
        locked.machine_specs(registry);
        let of_packages = AskedDriver::of_packages(registry, platform.os, named(&locked.target));
        let floor = framework_floor(&locked.target, registry);
        let of_packages = AskedDriver::newest(of_packages, floor.as_ref());
        locked.asked_driver =
            AskedDriver::newest(locked.asked_driver.take().into_iter().chain(of_packages), None);
        // The code of a conda package is in no registry; what it asks of the driver is in its lock.
        let has_coverage = !locked.target.envelope.coverage.is_empty();
        locked.code_is_known = has_coverage || (locked.code_is_known && locked.target.stack.is_some());
        locked
    }

    /// Whether it has a framework that uses CUDA.
    pub fn has_cuda(&self) -> bool {
        let of_torch = self.target.stack.as_ref().is_some_and(|stack| stack.cuda.is_some());
        of_torch || !self.target.frameworks.is_empty()
    }

    /// Its conda packages.
    pub fn conda_pins(&self) -> Vec<CondaPin<'_>> {
        let own = self.target.conda.iter();
        let own = own.map(|own| CondaPin { name: &own.name, version: &own.version, build: &own.build });
        let of_tool = self.conda.iter().filter(|record| record.is_package());
        own.chain(of_tool.map(|own| CondaPin { name: &own.name, version: &own.version, build: &own.build }))
            .collect()
    }

    /// Whether each package has a file for the platform and the Python.
    fn installable(&mut self, environment: &Environment, platform: Platform) {
        let python = environment.python;
        let without: Vec<String> = environment
            .packages
            .iter()
            .filter(|package| !package.installs(python, platform))
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        if let Some(first) = without.first() {
            let more = match without.len() {
                1 => String::new(),
                n => format!(" (and {} more packages)", n - 1),
            };
            self.impossible
                .push(format!("the lock has no file of {first}{more} for Python {python} on {platform}"));
        }
    }

    /// Notes a framework that does not use CUDA.
    fn no_cuda(&mut self, name: &str, framework: String, why: NoCuda) {
        self.without_cuda.push(WithoutCuda { name: name.to_owned(), framework, why });
    }
}

/// The packages of a target by name.
fn named(target: &Target) -> impl Iterator<Item = (&str, &Version)> {
    target.packages.iter().map(|package| (package.name.as_str(), &package.version))
}

/// The driver that the CUDA of the frameworks needs.
fn framework_floor(target: &Target, registry: &Registry) -> Option<DottedVersion> {
    let of_stack = target.stack.iter().filter_map(|stack| stack.cuda.as_ref());
    let cuda = of_stack.chain(target.frameworks.iter().map(|framework| &framework.cuda)).max();
    Some(required_driver(registry, cuda?, target.platform.os, Policy::Minor)?.value)
}

/// The lowest glibc that any of the usable wheels of a package needs.
fn glibc_need(package: &ChosenPackage, platform: Platform) -> Option<DottedVersion> {
    // Wheels for macOS state a release of macOS in its place.
    let files = package.files.iter().filter(|_| platform.os == Os::Linux);
    let wheels = files.filter_map(|file| file.name.parse::<WheelName>().ok());
    wheels.filter_map(|wheel| wheel.libc_need(platform, None)).min().flatten()
}

/// That nobody read which GPUs a build has code for, as a sentence.
fn unread_code(name: &str, version: &Version, variant: &str) -> String {
    format!("which GPUs the code of {name} {version}+{variant} is for is not in envlock's data")
}

/// The command that reads a release of a framework or a companion, or a build (`2.15.0+cu130`), as the end of a sentence. Empty for what
/// is on no index.
fn with_command(name: &str, version: &str, platform: Platform) -> String {
    let is_released = version.parse::<Version>().is_ok_and(|version| !version.any_prerelease());
    match is_released {
        true => format!("; {} asks its index", command_to_learn(&format!("{name}=={version}"), platform)),
        false => String::new(),
    }
}

/// What is not known of the GPUs that a target needs, as a sentence: the code of its torch was not read, or packages use CUDA
/// without a framework.
fn unknown_need(target: &Target, registry: &Registry) -> Option<String> {
    let unread = || {
        let stack = target.stack.as_ref().filter(|stack| stack.cuda.is_some())?;
        let torch = target.package("torch").filter(|torch| torch.targets.is_none())?;
        Some(unread_code(&torch.name, &stack.version, &stack.variant))
    };
    unread().or_else(|| unknown_cuda_user(registry, &target.packages).filter(|_| !target.has_framework()))
}

/// The CUDA of a target of which no row says how old a driver may be: that of its frameworks, or the runtime among its packages.
fn unknown_floor(target: &Target, registry: &Registry) -> Option<UnknownFloor> {
    let of_frameworks = target.frameworks.iter().map(|framework| &framework.cuda);
    let of_stack = target.stack.iter().filter_map(|stack| stack.cuda.as_ref());
    let runtime = cuda_runtime(registry, &target.packages).map(|(_, cuda)| cuda);
    UnknownFloor::of(registry, of_stack.chain(of_frameworks).chain(&runtime), target.platform)
}

/// A conda package as a lock has it.
#[derive(Debug, Clone, Copy)]
pub struct CondaPin<'l> {
    /// Its name.
    pub name: &'l str,
    /// Its version.
    pub version: &'l str,
    /// Its build; empty where the lock does not state it.
    pub build: &'l str,
}

impl CondaPin<'_> {
    /// Whether an installed package is this one.
    pub fn is(&self, own: &CondaPackage) -> bool {
        own.version == self.version && (self.build.is_empty() || own.build == self.build)
    }
}
