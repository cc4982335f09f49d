//! Makes a lock target of an environment, with what the registry knows of its frameworks.

use pep440_rs::Version;
use semver::Version as Semver;

use super::conda::CondaRecord;
use super::document::is_pypi;
use super::types::{Environment, Package};
use crate::compatibility::{
    AskedDriver, Needs, Policy, UnreadSpec, asked_driver, both, envelope_of, envelope_of_framework,
    required_driver, unknown_cuda_user, with_code_of, with_machine_specs,
};
use crate::lockfile::Target;
use crate::model::capability::ComputeCapability;
use crate::model::conda::CUDNN;
use crate::model::evidence::Evidence;
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::nvidia::{is_cublas, is_cuda_runtime, is_cudnn};
use crate::model::patches::Patches;
use crate::model::platform::{Os, Platform};
use crate::model::solution::{ChosenPackage, Envelope, Framework, Stack};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::model::variant::{CPU, is_cuda};
use crate::model::version::{DottedVersion, public};
use crate::model::wheel::{Python, WheelName};
use crate::registry::conda_names::{OfFramework, framework_packages};
use crate::registry::{Build, COMPANIONS, Cited, CudaFrom, Registry};

/// An environment of another tool's lock, as a target that can be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The target. Its host is open: another tool's lock says nothing of a machine.
    pub target: Target,
    /// What is not known of it, one sentence each: whether it runs cannot be said without.
    pub unknown: Vec<String>,
    /// What makes it impossible to install on its platform, one sentence each.
    pub impossible: Vec<String>,
    /// Why its tool refuses it on this machine, as a sentence.
    pub excluded: Option<String>,
    /// Whether the compute capabilities of the target's envelope are those of the code.
    pub code_is_known: bool,
    /// Frameworks that it has without CUDA.
    pub without_cuda: Vec<WithoutCuda>,
    /// Its conda packages.
    pub conda: Vec<CondaRecord>,
    /// Packages that it has without a version: from a repository or a folder.
    pub unversioned: Vec<String>,
    /// What it has without saying the package.
    pub unnamed: Vec<String>,
    /// The cuDNN that is locked beside conda's torch, and the lowest compute capability that it supports.
    pub cudnn_floor: Option<(DottedVersion, ComputeCapability)>,
    /// The newest driver that a conda package asks for.
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

/// Makes a target of an environment on a platform.
pub fn judge(environment: &Environment, platform: Platform, registry: &Registry) -> Judged {
    let python = environment.python;
    let mut judged = Judged {
        target: Target {
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
        },
        excluded: environment.excluded.clone(),
        code_is_known: true,
        unknown: Vec::new(),
        impossible: Vec::new(),
        without_cuda: Vec::new(),
        conda: environment.conda.clone(),
        unversioned: environment.unversioned.clone(),
        unnamed: environment.unnamed.clone(),
        cudnn_floor: None,
        asked_driver: None,
    };
    let mut envelopes: Vec<Envelope> = Vec::new();
    judged.installable(environment, platform);
    for package in &mut judged.target.packages {
        let variant = package.variant.as_deref();
        package.targets = registry.targets_of(&package.name, &public(&package.version), variant, platform);
    }
    envelopes.extend(judged.torch(environment, registry, platform));
    envelopes.extend(judged.other_frameworks(environment, registry, platform));
    judged.without_row(registry, platform);
    envelopes.extend(judged.conda_frameworks(registry, platform));
    judged.without_framework(registry);
    let empty = judged.target.envelope.clone();
    let envelope = envelopes.into_iter().reduce(both).unwrap_or(empty);
    let envelope = with_code_of(registry, envelope, &judged.target.packages);
    let glibc = judged.target.packages.iter().filter_map(|package| glibc_need(package, platform)).max();
    judged.target.envelope = Envelope { glibc: glibc.max(envelope.glibc.clone()), ..envelope };
    judged.machine_specs(registry);
    judged.is_as_built(environment);
    judged
}

/// The lowest glibc that any of the usable wheels of a package needs.
fn glibc_need(package: &ChosenPackage, platform: Platform) -> Option<DottedVersion> {
    // Wheels for macOS state a release of macOS in its place.
    let files = package.files.iter().filter(|_| platform.os == Os::Linux);
    let wheels = files.filter_map(|file| file.name.parse::<WheelName>().ok());
    wheels.filter_map(|wheel| wheel.libc_need(platform, None)).min().flatten()
}

/// The variant of torch or a package beside it: the local part of its version, or the sub-index of the pytorch index that
/// it comes from. A version without either is PyPI's build. `None` if that is not known, and for what is built from source.
pub(super) fn variant(
    package: &Package,
    python: Python,
    registry: &Registry,
    platform: Platform,
) -> Option<String> {
    if package.is_built(python, platform) {
        return None;
    }
    let is_variant =
        |name: &str| name == CPU || is_cuda(name) || name.starts_with("rocm") || name.starts_with("xpu");
    let local = package.version.local().iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    if !local.is_empty() {
        // A file elsewhere may be of another build, whatever it is called.
        let is_published = match &package.source {
            Source::Index(_) => true,
            Source::Url(address) => address.contains("/whl/"),
            Source::Git { .. } | Source::Path(_) => false,
        };
        return (is_variant(&local) && (is_published || local == CPU)).then_some(local);
    }
    let Source::Index(address) = &package.source else { return None };
    let last = address.rsplit('/').next().unwrap_or_default();
    if is_variant(last) {
        return Some(last.to_owned());
    }
    if !is_pypi(address) {
        return None;
    }
    let of_pypi = |build: &&Cited<Build>| {
        build.version == package.version && build.platform == platform && build.on_pypi
    };
    registry.builds().iter().find(of_pypi).map(|build| build.variant.clone())
}

impl Judged {
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

    fn no_cuda(&mut self, name: &str, framework: String, why: NoCuda) {
        self.without_cuda.push(WithoutCuda { name: name.to_owned(), framework, why });
    }

    /// The stack of torch and its envelope.
    fn torch(
        &mut self,
        environment: &Environment,
        registry: &Registry,
        platform: Platform,
    ) -> Option<Envelope> {
        if environment.unversioned.iter().any(|name| name == "torch") {
            self.unknown.push("torch is locked without a version".to_owned());
        }
        let torch = environment.packages.iter().find(|package| package.name == "torch");
        if let (None, Some(unnamed)) = (torch, environment.unnamed.first()) {
            self.unknown.push(format!("whether `{}` is a framework is not known", clean(unnamed, 80)));
        }
        let torch = torch?;
        let version = public(&torch.version);
        let Some(variant) = variant(torch, environment.python, registry, platform) else {
            self.unknown.push(match &torch.source {
                _ if torch.is_built(environment.python, platform) => built("torch", &version),
                Source::Index(address) if is_pypi(address) => unknown_torch(registry, &version, platform),
                other => format!("torch {version} is from `{other}`: which build that is is not known"),
            });
            return None;
        };
        for package in self
            .target
            .packages
            .iter_mut()
            .filter(|package| package.name == "torch" || COMPANIONS.contains(&package.name.as_str()))
        {
            package.variant = (package.name == "torch" || package.version.is_local()).then(|| {
                let local =
                    package.version.local().iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
                if local.is_empty() { variant.clone() } else { local }
            });
        }
        if variant == CPU {
            self.no_cuda("torch", format!("torch {version}"), NoCuda::CpuBuild);
        } else if !is_cuda(&variant) {
            self.no_cuda("torch", format!("torch {version}+{variant}"), NoCuda::OtherVendor(variant));
            return None;
        }
        let Some(build) = registry.build(&version, &variant, platform) else {
            // A CPU build needs nothing that the registry would have to know.
            if variant != CPU {
                self.unknown.push(unknown_build(registry, &version, &variant, platform));
            }
            return None;
        };
        if build.cuda.is_some() && build.targets.is_none() {
            self.code_is_known = false;
            self.unknown.push(format!(
                "which GPUs the code of torch {version}+{variant} is for is not in envlock's data"
            ));
        }
        if let Some(pythons) = build.pythons.as_ref().filter(|_| !environment.is_open)
            && torch.wheels.is_empty()
            && torch.source.index().is_some()
            && !pythons.contains(&environment.python.minor)
        {
            let python = environment.python;
            self.impossible.push(format!("torch {version}+{variant} has no wheel for Python {python}"));
        }
        let native =
            build.cuda.as_ref().and_then(|cuda| required_driver(registry, cuda, platform.os, Policy::Native));
        self.target.stack = Some(Stack {
            framework: "torch".to_owned(),
            version,
            variant,
            cuda: build.cuda.clone(),
            cudnn: build.cudnn.clone(),
            nccl: build.nccl.clone(),
            triton: build.triton.clone(),
            companions: Default::default(),
            index: torch.source.to_string(),
            evidence: build.targets_evidence.unwrap_or(build.evidence),
            driver_mode: None,
            native_driver: native.map(|driver| driver.value),
            wheel_bytes: None,
        });
        build.cuda.is_some().then(|| envelope_of(registry, build))
    }

    /// TensorFlow, JAX and others from PyPI.
    fn other_frameworks(
        &mut self,
        environment: &Environment,
        registry: &Registry,
        platform: Platform,
    ) -> Vec<Envelope> {
        let has = |is: fn(&str) -> bool| self.target.packages.iter().any(|package| is(&package.name));
        let (brings_cuda, brings_cublas) = (has(is_cuda_runtime), has(is_cublas));
        let mut envelopes = Vec::new();
        let packages = self.target.packages.clone();
        for package in &packages {
            let version = public(&package.version);
            let Some(row) = registry.framework(&package.name, &version, platform) else { continue };
            let theirs = environment.packages.iter().find(|theirs| theirs.name == package.name);
            if theirs.is_some_and(|theirs| theirs.is_built(environment.python, platform)) {
                self.unknown.push(built(&package.name, &version));
                continue;
            }
            let uses_cuda = match row.cuda_from {
                CudaFrom::Packages => true,
                CudaFrom::Extra(_) => brings_cuda,
                CudaFrom::System => true,
            };
            if !uses_cuda {
                let ask = row.ask.clone().unwrap_or_else(|| package.name.clone());
                let cuda = format!("{}.{}", row.cuda.major, row.cuda.minor);
                self.no_cuda(
                    &row.framework,
                    format!("{} {version}", package.name),
                    NoCuda::NoPackages { cuda, ask },
                );
                continue;
            }
            let from_system = row.cuda_from == CudaFrom::System;
            let by_conda =
                self.conda.iter().any(|record| record.name == "cudatoolkit" || record.name == "cuda-version");
            // JAX's plugin is also installed for a CUDA of the machine.
            let is_local = row.cuda_from == CudaFrom::Packages && !brings_cublas;
            if (from_system || is_local) && !by_conda {
                let (cuda, cudnn) = (&row.cuda, row.cudnn.as_ref());
                let cudnn = cudnn.map(|cudnn| format!(" and cuDNN {cudnn}")).unwrap_or_default();
                self.unknown.push(format!(
                    "{} {version} uses the CUDA {}.{}{cudnn} of the machine: whether they are installed is not known",
                    package.name, cuda.major, cuda.minor
                ));
            }
            self.target.frameworks.push(framework(
                (&row.framework, &package.name, version),
                &row.cuda,
                (row.cudnn.clone(), from_system),
                row.evidence,
                (registry, platform),
            ));
            envelopes.push(envelope_of_framework(registry, row));
        }
        envelopes
    }

    /// TensorFlow and JAX that no row is about: builds for the CPU, or releases that are not known.
    fn without_row(&mut self, registry: &Registry, platform: Platform) {
        let packages = self.target.packages.clone();
        let of = |name: &str| packages.iter().find(|package| package.name == name);
        if let Some(cpu) = of("tensorflow-cpu").or_else(|| of("tensorflow-intel")) {
            self.no_cuda("tensorflow", format!("{} {}", cpu.name, cpu.version), NoCuda::CpuBuild);
        }
        if let Some(package) = of("tensorflow")
            && registry.framework("tensorflow", &public(&package.version), platform).is_none()
        {
            self.unknown
                .push(format!("tensorflow {} for {platform} is not in envlock's data", package.version));
        }
        let is_plugin = |package: &&ChosenPackage| package.name.starts_with("jax-cuda");
        if let Some(jax) = of("jaxlib")
            && packages.iter().find(is_plugin).is_none()
        {
            match jax.version.is_local() {
                true => self.unknown.push(format!("jaxlib {} is not in envlock's data", jax.version)),
                false => {
                    let ask = "jax[cuda12]".to_owned();
                    self.no_cuda("jax", format!("jaxlib {}", jax.version), NoCuda::NoPlugin { ask });
                }
            }
        }
        let known = |name: &str| self.target.frameworks.iter().any(|framework| framework.package == name);
        let unknown = packages
            .iter()
            .find(|package| is_plugin(package) && package.name.contains("plugin") && !known(&package.name));
        if let Some(plugin) = unknown {
            self.unknown
                .push(format!("{} {} for {platform} is not in envlock's data", plugin.name, plugin.version));
        }
    }

    /// Without a framework, other packages may use CUDA.
    fn without_framework(&mut self, registry: &Registry) {
        let has_framework = self.target.stack.is_some()
            || !self.target.frameworks.is_empty()
            || !self.without_cuda.is_empty()
            || !self.unknown.is_empty();
        if !has_framework {
            self.unknown.extend(unknown_cuda_user(registry, &self.target.packages));
        }
    }

    /// Whether the CUDA libraries that are locked beside torch are those that it was built with, as far as their major
    /// version says. An override can replace them.
    fn is_as_built(&mut self, environment: &Environment) {
        let Some(stack) = &self.target.stack else { return };
        let Some(cudnn) = stack.cudnn.as_ref().filter(|_| stack.cuda.is_some()) else { return };
        let locked = environment.packages.iter().find(|package| is_cudnn(&package.name));
        if let Some(other) = locked.filter(|package| {
            package.version.release().first().is_some_and(|major| *major != u64::from(cudnn.major()))
        }) {
            self.impossible.push(format!(
                "{} {} is locked, torch {} was built with cuDNN {}",
                other.name,
                other.version,
                stack.version,
                cudnn.major()
            ));
        }
    }

    /// Frameworks that are conda packages. Which GPUs their code is for is not in the registry.
    fn conda_frameworks(&mut self, registry: &Registry, platform: Platform) -> Vec<Envelope> {
        let toolkit = self.conda.iter().find(|record| record.name == "cuda-version");
        let toolkit = toolkit.and_then(|record| {
            let mut parts = record.version.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        });
        let mut envelopes = Vec::new();
        let with_code = framework_packages().filter(|one| one.has_code);
        for OfFramework { name, framework: framework_name, .. } in with_code {
            let Some(record) = self.conda.iter().find(|record| record.name == name) else { continue };
            let known = format!("{framework_name} {} (conda, {})", record.version, record.build);
            if self.target.frameworks.iter().any(|framework| framework.name == framework_name)
                || self.without_cuda.iter().any(|known| known.name == framework_name)
            {
                continue;
            }
            let cuda = record.cuda().or_else(|| toolkit.filter(|_| !record.is_for_cpu()));
            let Some((major, minor)) = cuda else {
                if record.is_for_cpu() {
                    self.no_cuda(framework_name, known, NoCuda::CpuBuild);
                } else if record.build.is_empty() {
                    let version = &record.version;
                    self.unknown.push(format!("the lock does not state the build of {name} {version}"));
                } else if platform.os != Os::Macos {
                    self.unknown
                        .push(format!("which CUDA {known} is built for, if any, its build does not say"));
                }
                continue;
            };
            let cuda = Semver::new(major, minor, 0);
            let version = record.version.parse().unwrap_or_else(|_| Version::new([0]));
            let from = (framework_name, name, version);
            self.target.frameworks.push(framework(
                from,
                &cuda,
                (None, false),
                Evidence::Documented,
                (registry, platform),
            ));
            let row = record.recipe_build().and_then(|number| {
                registry.conda_build("pytorch", &record.version, &cuda, (number, platform))
            });
            // conda-forge's libtorch and pytorch are built together.
            if let Some(row) = row.filter(|_| framework_name == "torch") {
                let cudnn = self.conda.iter().find(|record| CUDNN.contains(&record.name.as_str()));
                let cudnn: Option<DottedVersion> = cudnn.and_then(|record| record.version.parse().ok());
                let floor = cudnn.as_ref().and_then(|cudnn| registry.cudnn_floor(cudnn));
                self.cudnn_floor = cudnn.clone().zip(floor.map(|floor| floor.min));
                let needs = Needs {
                    cuda: Some(&row.cuda),
                    cudnn: cudnn.as_ref(),
                    targets: Some(&row.targets),
                    unread_code_covers_none: true,
                    glibc: row.glibc.as_ref(),
                    platform,
                    source: &row.source,
                };
                envelopes.push(needs.envelope(registry));
                let major = |version: &DottedVersion| u64::from(version.major());
                if let (Some(locked), Some(own)) = (&cudnn, row.cudnn)
                    && major(locked) != own
                {
                    self.impossible
                        .push(format!("cuDNN {locked} is locked, {known} was built with cuDNN {own}"));
                }
                continue;
            }
            let floor =
                required_driver(registry, &cuda, platform.os, Policy::Minor).map(|driver| driver.value);
            envelopes.push(Envelope { driver: floor, coverage: Vec::new(), glibc: None, platform });
            self.unknown.push(format!("which GPUs the code of {known} is for is not in envlock's data"));
        }
        self.conda_users_of_cuda();
        envelopes
    }

    /// conda packages that are built for CUDA where the lock has no framework: what they run on is not known.
    fn conda_users_of_cuda(&mut self) {
        if self.target.stack.is_some() || !self.target.frameworks.is_empty() || !self.without_cuda.is_empty()
        {
            return;
        }
        let built: Vec<&CondaRecord> = self.conda.iter().filter(|record| record.cuda().is_some()).collect();
        let Some(first) = built.first() else { return };
        let more = match built.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        self.unknown.push(format!(
            "which GPUs the code of {} {} (conda, {}){more} is for is not in envlock's data",
            first.name, first.version, first.build
        ));
    }

    /// What conda packages ask of the machine.
    fn machine_specs(&mut self, registry: &Registry) {
        let of = |get: fn(&CondaRecord) -> &Vec<String>| {
            let all = self.conda.iter();
            all.flat_map(move |record| get(record).iter().map(|spec| (record.name.as_str(), spec.as_str())))
        };
        let named = self.conda.iter().flat_map(|record| {
            let all = record.requires.iter().chain(&record.constrains);
            all.map(move |spec| (format!("{} {}", record.name, record.version), spec.as_str()))
        });
        // Where the frameworks need that driver too, they are what to change.
        let of_frameworks = self.target.envelope.driver.clone();
        self.asked_driver = asked_driver(registry, self.target.platform.os, named)
            .filter(|asked| of_frameworks.as_ref().is_none_or(|driver| asked.driver > *driver));
        let specs = of(|record| &record.requires).chain(of(|record| &record.constrains));
        let unread = with_machine_specs(registry, &mut self.target.envelope, specs);
        self.unknown.extend(unread.into_iter().map(|spec| match spec {
            UnreadSpec::Cuda { package, cuda } => {
                format!("{package} needs a driver for CUDA {cuda}, which is not in envlock's data")
            }
            UnreadSpec::Processor(level) => {
                format!("its packages need a processor of level {level}, which a host file does not state")
            }
        }));
    }
}

fn framework(
    (name, package, version): (&str, &str, Version),
    cuda: &Semver,
    (cudnn, cuda_from_system): (Option<DottedVersion>, bool),
    evidence: Evidence,
    (registry, platform): (&Registry, Platform),
) -> Framework {
    Framework {
        name: name.to_owned(),
        package: package.to_owned(),
        version,
        cuda: cuda.clone(),
        cudnn,
        cuda_from_system,
        conda: Vec::new(),
        evidence,
        driver_mode: None,
        native_driver: required_driver(registry, cuda, platform.os, Policy::Native)
            .map(|driver| driver.value),
    }
}

/// That a build of torch is not in the registry, and which builds of the release are.
fn unknown_build(registry: &Registry, version: &Version, variant: &str, platform: Platform) -> String {
    let of_release = registry.builds().iter().filter(|b| b.platform == platform && b.version == *version);
    let known: Vec<&str> = of_release.map(|build| build.variant.as_str()).collect();
    match known.is_empty() {
        true => unknown_torch(registry, version, platform),
        false => format!(
            "torch {version}+{variant} for {platform} is not in envlock's data, which has {} of it",
            known.join(", ")
        ),
    }
}

/// That a framework is not its published build.
fn built(name: &str, version: &Version) -> String {
    format!("{name} {version} is built from source: which CUDA and GPUs the build is for is not known")
}

/// That a torch is not in the registry, and which are.
fn unknown_torch(registry: &Registry, version: &Version, platform: Platform) -> String {
    let of_platform = || registry.builds().iter().filter(|build| build.platform == platform);
    let oldest = of_platform().map(|build| &build.version).min();
    let newest = of_platform().map(|build| &build.version).max();
    match oldest.zip(newest) {
        Some((oldest, newest)) => {
            format!("torch {version} is not in envlock's data, which has {oldest} to {newest} for {platform}")
        }
        None => format!("torch {version} is not in envlock's data, which has no build for {platform}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{ForeignLock, Tool};
    use crate::registry::Registry;

    fn judged(index: &str, name: &str, version: &str) -> Judged {
        let text = format!(
            "lock-version = \"1.0\"\n[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\nindex = \"{index}\"\n"
        );
        let lock = ForeignLock::parse(Tool::Pylock, &text).unwrap();
        let environment = &lock.environments(Platform::LINUX_X86_64, None)[0];
        judge(environment, Platform::LINUX_X86_64, &Registry::embedded())
    }

    #[test]
    fn the_build_is_known_or_said_to_be_unknown() {
        for (index, version, variant) in [
            ("https://index.example/simple", "2.9.1", Some("cu128")),
            ("https://mirror.example/pypi/simple/", "2.9.1", Some("cu128")),
            ("https://wheels.example/whl/cu126", "2.9.1", Some("cu126")),
            ("https://wheels.example/whl/cpu", "2.9.1", Some("cpu")),
            ("https://wheels.example/whl", "2.9.1+cu126", Some("cu126")),
            ("https://vendor.example/cuda13.0-ubi9/simple", "2.9.1", None),
            ("https://vendor.example/", "2.9.1", None),
            ("https://index.example/simple", "99.0", None),
        ] {
            let judged = judged(index, "torch", version);
            let found = judged.target.stack.as_ref().map(|stack| stack.variant.as_str());
            assert_eq!(found, variant, "{index} {version}");
            assert_eq!(
                judged.unknown.is_empty(),
                variant.is_some(),
                "{index} {version}: {:?}",
                judged.unknown
            );
        }
    }

    /// A build string of conda's that names no CUDA, and a line that does not say which package it is.
    #[test]
    fn what_is_not_named_is_unknown() {
        let environment = |tool, text: &str| {
            let lock = ForeignLock::parse(tool, text).unwrap();
            let environment = lock.environments(Platform::LINUX_X86_64, None).remove(0);
            judge(&environment, Platform::LINUX_X86_64, &Registry::embedded())
        };
        for (build, is_known) in [("custom_0", false), ("cpu_mkl_py312_h1_100", true)] {
            let address = format!("https://conda.example/conda-forge/linux-64/pytorch-2.9.1-{build}.conda");
            let text = format!(
                "version: 6\nenvironments:\n  default:\n    channels: []\n    packages:\n      linux-64:\n      - conda: {address}\npackages:\n- conda: {address}\n"
            );
            let judged = environment(Tool::Pixi, &text);
            assert_eq!(judged.unknown.is_empty(), is_known, "{build}: {:?}", judged.unknown);
        }
        for (name, version) in [("torch", "2.9.1"), ("jax-cuda12-plugin", "0.7.2"), ("tensorflow", "2.9.3")] {
            let files = [
                (
                    format!(
                        "wheels = [{{ name = \"{}-{version}-cp312-cp312-manylinux_2_28_x86_64.whl\", url = \"https://f.example/a.whl\" }}]\n",
                        name.replace('-', "_")
                    ),
                    false,
                ),
                (
                    format!(
                        "[packages.sdist]\nname = \"{name}-{version}.tar.gz\"\nurl = \"https://f.example/a.tar.gz\"\nhashes = {{ sha256 = \"00\" }}\n"
                    ),
                    true,
                ),
            ];
            for (file, is_built) in files {
                let text = format!(
                    "lock-version = \"1.0\"\n[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\nindex = \"https://index.example/simple\"\n{file}"
                );
                let judged = environment(Tool::Pylock, &text);
                let is_said = judged.unknown.iter().any(|said| said.contains("is built from source"));
                assert_eq!(is_said, is_built, "{text}: {:?}", judged.unknown);
            }
        }
        let judged = environment(Tool::Requirements, "-e git+https://host.example/pytorch.git#egg=torch\n");
        assert!(judged.unknown[0].contains("is a framework is not known"), "{:?}", judged.unknown);
    }

    #[test]
    fn a_framework_without_its_cuda() {
        let of = |version: &str| judged("https://index.example/simple", "tensorflow", version);
        let extra = of("2.18.0");
        assert!(matches!(extra.without_cuda[0].why, NoCuda::NoPackages { .. }), "{:?}", extra.without_cuda);
        let system = of("2.9.3");
        assert!(system.unknown[0].contains("of the machine"), "{:?}", system.unknown);
        let rocm = judged("https://wheels.example/whl/rocm6.4", "torch", "2.9.1+rocm6.4");
        assert_eq!(rocm.without_cuda[0].why, NoCuda::OtherVendor("rocm6.4".to_owned()));
    }
}
