//! Compatibility queries about the facts, used by rules and mechanics: whether torch's build has code for the GPUs, and
//! which other variants exist.

use semver::Version as Semver;

use super::facts::{Facts, Said};
use crate::compatibility::{Policy, driver_of_cuda, required_driver, served};
use crate::model::capability::ComputeCapability;
use crate::model::host::{Driver, Gpu, Host};
use crate::model::nvidia::is_of_nvidia;
use crate::model::platform::{Arch, Os, Platform};
use crate::model::surroundings::Surrounding;
use crate::model::version::{DottedVersion, cuda_short, cuda_version};
use crate::model::wheel::Python;
use crate::registry::{Build, Cited, Registry, ToolkitTargets};

/// The maximum number of words of a product name, and of attempts to find it with fewer words.
const MAX_NAME_WORDS: usize = 8;

/// Facts with the registry.
pub(super) struct Situation<'a> {
    pub facts: &'a Facts,
    pub registry: &'a Registry,
    /// URL of the pytorch index.
    pub pytorch_index: &'a str,
    /// The GPUs of the facts that are in the registry, with their capabilities. Looked up once.
    gpus: Vec<(Option<String>, ComputeCapability)>,
}

impl<'a> Situation<'a> {
    /// Facts with a registry.
    pub fn new(facts: &'a Facts, registry: &'a Registry, pytorch_index: &'a str) -> Situation<'a> {
        Situation { facts, registry, pytorch_index, gpus: gpus(facts, registry) }
    }

    /// The platform that the text indicates; Linux on x86_64 by default.
    pub fn platform(&self) -> Platform {
        if let Some(platform) = self.facts.platform {
            return platform;
        }
        if self.facts.is_in(Surrounding::Macos) {
            let is_intel = self.facts.os.as_ref().is_some_and(|os| os.contains("x86_64"));
            return Platform { os: Os::Macos, arch: if is_intel { Arch::X86_64 } else { Arch::Aarch64 } };
        }
        let os = if self.facts.is_in(Surrounding::Windows) { Os::Windows } else { Os::Linux };
        let is_arm = self.facts.os.as_ref().is_some_and(|os| os.contains("aarch64"));
        Platform { os, arch: if is_arm { Arch::Aarch64 } else { Arch::X86_64 } }
    }

    /// The machine that the facts describe, without GPUs that are not in the registry.
    pub fn host(&self) -> Host {
        let mut host = Host::open(self.platform(), "the text");
        let gpus: Vec<Gpu> = self
            .gpus
            .iter()
            .cloned()
            .enumerate()
            .map(|(i, (name, capability))| Gpu {
                index: i as u32,
                name,
                capability: Some(capability),
                memory_mib: None,
                uuid: None,
                pci_id: None,
                found_by: "the text".into(),
            })
            .collect();
        host.gpus = (!gpus.is_empty()).then_some(gpus);
        let by_cuda = || {
            let cuda = crate::model::version::cuda_version(self.facts.driver_cuda.as_deref()?).ok()?;
            driver_of_cuda(self.registry, &cuda)
        };
        let version = self.facts.driver.as_ref().and_then(|v| v.parse().ok()).or_else(by_cuda);
        host.driver =
            version.map(|version| Driver { version, cuda: None, compat: None, found_by: "the text".into() });
        host
    }

    /// The CUDA that torch was built with, the oldest driver that runs it, and the driver of the facts.
    pub fn driver_floor(&self) -> Option<(Semver, DottedVersion, DottedVersion)> {
        self.driver_floor_of(cuda_version(&self.facts.build_cuda()?).ok()?, Policy::Minor)
    }

    /// The same for another CUDA: the one that an installer's command asks for.
    pub fn driver_floor_of(
        &self,
        cuda: Semver,
        policy: Policy,
    ) -> Option<(Semver, DottedVersion, DottedVersion)> {
        let host = self.host();
        let floor = required_driver(self.registry, &cuda, host.system.platform.os, policy)?.value;
        Some((cuda, floor, host.driver?.version))
    }

    /// Whether the driver is of the newest CUDA major version, or of the one before.
    pub fn has_recent_driver(&self) -> bool {
        let newest = self.registry.branches().iter().map(|branch| branch.cuda.major).max();
        let own = self.host().driver.and_then(|driver| self.registry.cuda_of_driver(&driver.version));
        own.zip(newest).is_some_and(|(own, newest)| own.cuda.major + 1 >= newest)
    }

    /// The GPUs with their capabilities.
    pub fn gpus(&self) -> &[(Option<String>, ComputeCapability)] {
        &self.gpus
    }

    /// The line that names a GPU, by the registry's name of it.
    pub fn said_of_gpu(&self, name: &str) -> Option<&'a Said> {
        let is_it = |written: &&String| {
            let found = known_gpu(written, self.registry);
            found.is_some_and(|found| found.0.as_deref() == Some(name))
        };
        self.facts.said_of_gpus.get(self.facts.gpus.iter().find(is_it)?)
    }

    /// The registry row of torch's build, on the platform of the facts.
    pub fn build(&self) -> Option<&'a Cited<Build>> {
        let version = self.facts.plain_torch()?.parse().ok()?;
        self.registry.build(&version, &self.facts.variant()?, self.platform())
    }

    fn has_code_for_all(&self, build: &Cited<Build>) -> Option<bool> {
        let targets = build.targets.as_ref()?;
        let gpus = self.gpus();
        let covered = |capability| served(self.registry, targets, capability).is_some();
        (!gpus.is_empty()).then(|| gpus.iter().all(|(_, c)| covered(*c)))
    }

    /// Whether torch's own kernels have code for every GPU; `None` if unknown.
    pub fn covers(&self) -> Option<bool> {
        match self.build() {
            Some(build) => self.has_code_for_all(build),
            // What the toolkit cannot compile for, no build of it has.
            None => self.beyond_toolkit().map(|_| false),
        }
    }

    /// For a build that the registry does not have: what its CUDA compiles code for, and a GPU beyond that.
    pub fn beyond_toolkit(&self) -> Option<(&'a ToolkitTargets, &(Option<String>, ComputeCapability))> {
        let cuda = cuda_version(&self.facts.build_cuda()?).ok()?;
        let same =
            |row: &&Cited<ToolkitTargets>| (row.cuda.major, row.cuda.minor) == (cuda.major, cuda.minor);
        let row = self.registry.toolkit_targets().iter().find(same)?;
        let is_beyond = |gpu: &&(Option<String>, ComputeCapability)| gpu.1 < row.min || gpu.1 > row.max;
        Some((row, self.gpus().iter().find(is_beyond)?))
    }

    /// The builds of other variants of torch's series, `2.9`, for the same platform.
    fn other_variants(&self, build: &Cited<Build>) -> impl Iterator<Item = &'a Cited<Build>> {
        let series = |b: &Cited<Build>| b.version.release().iter().take(2).copied().collect::<Vec<u64>>();
        let (own, platform, variant) = (series(build), build.platform, build.variant.clone());
        self.registry
            .builds()
            .iter()
            .filter(move |b| series(b) == own && b.platform == platform && b.variant != variant)
    }

    /// Whether torch's build has no code for a newer GPU, and another variant of its series has code for all GPUs.
    pub fn other_variant_has_code(&self) -> bool {
        let Some(build) = self.build() else { return false };
        let newest = newest_target(build);
        self.covers() == Some(false)
            && self.gpus().iter().any(|(_, capability)| Some(*capability) > newest)
            && self.other_variants(build).any(|other| self.has_code_for_all(other) == Some(true))
    }

    /// Whether another variant of torch's series has code for newer GPUs than the installed one.
    pub fn other_variant_is_newer(&self) -> bool {
        let Some(build) = self.build() else { return false };
        let newest = newest_target(build);
        build.cuda.is_some()
            && newest.is_some()
            && self.other_variants(build).any(|other| newest_target(other) > newest)
    }

    /// Whether a library that is reported missing has an absolute path elsewhere in the text.
    pub fn library_is_there(&self) -> bool {
        let says =
            |text: &str| ["cannot open", "not found", "ould not load"].iter().any(|word| text.contains(word));
        let mut missing = self.facts.events.iter().map(|event| &event.text).filter(|text| says(text));
        missing.any(|text| self.facts.libraries.iter().any(|name| text.contains(name.as_str())))
    }

    /// The newest CUDA that the driver supports, `12.2`: as the text says, or by its version.
    pub fn driver_cuda(&self) -> Option<String> {
        let by_version = || {
            let version = self.facts.driver.as_ref()?.parse().ok()?;
            self.registry.cuda_of_driver(&version).map(|row| cuda_short(row.cuda))
        };
        self.facts.driver_cuda.clone().or_else(by_version)
    }

    /// Whether the text has the folder of a toolkit of torch's CUDA.
    pub fn toolkit_is_there(&self) -> bool {
        self.facts.build_cuda().is_some_and(|cuda| self.facts.toolkits.contains(&cuda))
    }

    /// The release of a package that goes with the torch in the text: the newest that the data pair with it, else the series that
    /// they do: `torchcodec==0.7.*`.
    pub fn pin_for_torch(&self, package: &str) -> Option<String> {
        let torch = self.facts.plain_torch()?.parse().ok()?;
        let newest = self.registry.newest_for_torch(package, &torch);
        let series = || self.registry.series_for_torch(package, &torch);
        let pin = newest.map(|newest| format!("=={newest}"));
        pin.or_else(|| Some(series()?.to_string())).map(|pin| format!("{package}{pin}"))
    }

    /// Whether a package other than torch and its companions is a build for torch's CUDA, by its label (`+cu130`).
    pub fn others_of_torchs_cuda(&self) -> bool {
        let Some(label) = self.facts.variant().filter(|variant| crate::model::variant::is_cuda(variant))
        else {
            return false;
        };
        let is_other = |name: &str| !crate::registry::STACK_PACKAGES.contains(&name);
        let is_of = |version: &str| version.split_once('+').is_some_and(|(_, local)| local == label);
        self.facts.packages.iter().any(|(name, (version, _))| is_other(name) && is_of(version))
    }

    /// Whether NVIDIA's packages for two CUDA majors are installed.
    pub fn has_two_cuda_majors(&self) -> bool {
        let has =
            |end: &str| self.facts.packages.keys().any(|name| is_of_nvidia(name) && name.ends_with(end));
        has("-cu11") && has("-cu12") || has("-cu12") && has("-cu13")
    }
}

/// The Python series of `3.11.4` or `3.8 (64-bit runtime)`.
pub(super) fn series(text: &str) -> Option<Python> {
    let mut parts = text.split('.');
    let digits = |part: &str| -> Option<u32> {
        part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    (parts.next()?.trim() == "3").then_some(())?;
    Some(Python::new(digits(parts.next()?)?))
}

/// Whether the registry has a CUDA major.
pub(super) fn is_cuda_major(registry: &Registry, major: u32) -> bool {
    registry.minor_version_compatibility().iter().any(|row| row.cuda_major == u64::from(major))
}

fn newest_target(build: &Cited<Build>) -> Option<ComputeCapability> {
    build.targets.iter().flat_map(|t| &t.sass).map(|t| t.capability).max()
}

/// The registry's name of a GPU and its capability.
fn known_gpu(name: &str, registry: &Registry) -> Option<(Option<String>, ComputeCapability)> {
    // `NVIDIA GeForce RTX 3090 Laptop GPU`, `Tesla V100-SXM2-32GB`: retry without the last words.
    let mut words: Vec<&str> = name.split(' ').take(MAX_NAME_WORDS).collect();
    while !words.is_empty() {
        if let Some(Ok(found)) = registry.known_gpu(&words.join(" ")) {
            return Some((Some(found.name), found.capability));
        }
        words.pop();
    }
    None
}

fn gpus(facts: &Facts, registry: &Registry) -> Vec<(Option<String>, ComputeCapability)> {
    let mut out: Vec<(Option<String>, ComputeCapability)> = Vec::new();
    for name in &facts.gpus {
        out.extend(known_gpu(name, registry));
    }
    if out.is_empty()
        && let Some(capability) = facts.capability.as_ref().and_then(|c| c.parse().ok())
    {
        out.push((None, capability));
    }
    out
}
