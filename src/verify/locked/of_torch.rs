//! torch in another tool's lock: which build it is, and what that build needs.

use pep440_rs::Version;

use super::{Locked, NoCuda, unread_code, with_command};
use crate::compatibility::{Policy, envelope_of, required_driver};
use crate::formats::{Environment, Package, is_pypi};
use crate::model::platform::Platform;
use crate::model::solution::{Envelope, Stack};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::model::variant::{CPU, is_cuda};
use crate::model::version::public;
use crate::registry::{Build, COMPANIONS, Registry};

impl Locked<'_> {
    /// The stack of torch and its envelope.
    pub(super) fn torch(
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
        if torch.is_none() {
            self.without_torch(environment, registry);
        }
        let torch = torch?;
        let version = public(&torch.version);
        let Some(variant) = torch.variant(environment.python, registry, platform) else {
            self.of_unknown_variant(torch, environment, registry, platform);
            return None;
        };
        self.label_variants(&variant);
        if variant == CPU {
            self.no_cuda("torch", format!("torch {version}"), NoCuda::CpuBuild);
        } else if !is_cuda(&variant) {
            // With an NVIDIA GPU it is known not to use it.
            self.unlisted.push(unknown_build(registry, &version, &variant, platform));
            self.no_cuda("torch", format!("torch {version}+{variant}"), NoCuda::OtherVendor(variant));
            return None;
        }
        let Some(build) = registry.build(&version, &variant, platform) else {
            let unknown = unknown_build(registry, &version, &variant, platform);
            match registry.has_release("torch", &version, platform) {
                // A CPU build needs nothing that the registry would have to know.
                true if variant == CPU => {}
                true => self.unknown.push(unknown),
                false => self.unlisted.push(unknown),
            }
            return None;
        };
        if build.cuda.is_some() && build.targets.is_none() {
            self.code_is_known = false;
            let known = unread_code("torch", &version, &variant);
            self.unknown.push(known + &with_command("torch", &format!("{version}+{variant}"), platform));
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
        self.target.to_mut().stack = Some(Stack {
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
        self.companions(environment, registry);
        build.cuda.is_some().then(|| envelope_of(registry, build))
    }

    /// That nobody knows which build of torch is locked.
    fn of_unknown_variant(
        &mut self,
        torch: &Package,
        environment: &Environment,
        registry: &Registry,
        platform: Platform,
    ) {
        let version = public(&torch.version);
        // A release that no row is about is not known without a GPU either.
        let mut is_listed = registry.has_release("torch", &version, platform);
        let unknown = match &torch.source {
            _ if torch.is_built(environment.python, platform) => built("torch", &version),
            _ if torch.version.is_local() => {
                format!("which build torch {} is, is not in envlock's data", torch.version)
            }
            Source::Index(address) if is_pypi(address) => {
                is_listed &= !torch.wheels.is_empty();
                unknown_torch(registry, &version, "", platform)
            }
            other => format!("torch {version} is from `{other}`: which build that is is not known"),
        };
        match is_listed {
            true => self.unknown.push(unknown),
            false => self.unlisted.push(unknown),
        }
    }

    /// Gives torch its variant, and its companions that of their label.
    fn label_variants(&mut self, variant: &str) {
        let of_stack = |name: &str| name == "torch" || COMPANIONS.contains(&name);
        for package in self.target.to_mut().packages.iter_mut().filter(|package| of_stack(&package.name)) {
            package.variant = (package.name == "torch" || package.version.is_local()).then(|| {
                let local: Vec<String> = package.version.local().iter().map(ToString::to_string).collect();
                if local.is_empty() { variant.to_owned() } else { local.join(".") }
            });
        }
    }

    /// Notes that pins alone lack the torch that a package of theirs requires.
    fn without_torch(&mut self, environment: &Environment, registry: &Registry) {
        let links_torch = |name: &str| registry.companions().iter().any(|row| row.package == name);
        let mut alone = environment.packages.iter().filter(|package| package.requires.is_empty());
        let alone = alone.find(|package| links_torch(&package.name));
        if let Some(package) = alone.filter(|_| environment.conda.is_empty()) {
            self.unlisted.push(format!(
                "{} {} requires torch, which is not in the lock: which build is installed is not known",
                package.name, package.version
            ));
        }
    }

    /// Notes companions of which no row says with which torch they go.
    fn companions(&mut self, environment: &Environment, registry: &Registry) {
        let of_torch =
            environment.packages.iter().filter(|package| COMPANIONS.contains(&package.name.as_str()));
        for package in of_torch {
            let version = public(&package.version);
            let torch = environment.packages.iter().find(|own| own.name == "torch");
            let torch = torch.map(|torch| public(&torch.version));
            if !has_companion(registry, &package.name, &version, torch.as_ref()) {
                let named = format!("{} {version}", package.name);
                let command = with_command(&package.name, &version.to_string(), self.target.platform);
                self.unlisted.push(format!("which torch {named} requires is not in envlock's data{command}"));
            }
        }
        // Where a lock has pins alone, rows say what they require.
        let pins = environment.packages.iter().filter(|package| package.requires.is_empty());
        for package in pins.filter(|package| registry.is_newer_than_pairs(&package.name, &package.version)) {
            let named = format!("{} {}", package.name, package.version);
            self.unlisted.push(format!("which torch {named} requires is not in envlock's data"));
        }
    }
}

/// Whether a row says that a release of a companion goes with a torch, or with which it goes. That a build of torch names it says
/// nothing of other ones.
fn has_companion(registry: &Registry, name: &str, version: &Version, torch: Option<&Version>) -> bool {
    let is_named = |build: &Build| {
        build.companion(name) == Some(version) && torch.is_none_or(|torch| build.version == *torch)
    };
    registry.companions().iter().any(|row| row.package == name && row.version == *version)
        || registry.builds().iter().any(|build| is_named(build))
}

/// That a build of torch is not in the registry, and which builds of the release are.
fn unknown_build(registry: &Registry, version: &Version, variant: &str, platform: Platform) -> String {
    let of_release = registry.builds().iter().filter(|b| b.platform == platform && b.version == *version);
    let known: Vec<&str> = of_release.map(|build| build.variant.as_str()).collect();
    match known.is_empty() {
        true => unknown_torch(registry, version, &format!("+{variant}"), platform),
        false => format!(
            "torch {version}+{variant} for {platform} is not in envlock's data, which has {} of it{}",
            known.join(", "),
            with_command("torch", &format!("{version}+{variant}"), platform)
        ),
    }
}

/// That a framework is not its published build.
pub(super) fn built(name: &str, version: &Version) -> String {
    format!("{name} {version} is built from source: which CUDA and GPUs the build is for is not known")
}

/// That a torch is not in the registry, and which are.
fn unknown_torch(registry: &Registry, version: &Version, local: &str, platform: Platform) -> String {
    let of_platform = || registry.builds().iter().filter(|build| build.platform == platform);
    let oldest = of_platform().map(|build| &build.version).min();
    let newest = of_platform().map(|build| &build.version).max();
    let command = || with_command("torch", &format!("{version}{local}"), platform);
    match oldest.zip(newest) {
        Some(_) if registry.has_release("torch", version, platform) => {
            format!("PyPI's build of torch {version} for {platform} is not in envlock's data{}", command())
        }
        Some((oldest, newest)) => {
            let command = command();
            format!(
                "torch {version} is not in envlock's data, which has {oldest} to {newest} for {platform}{command}"
            )
        }
        None => format!("torch {version} is not in envlock's data, which has no build for {platform}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{ForeignLock, Tool};

    fn judged(index: &str, name: &str, version: &str) -> Locked<'static> {
        let text = format!(
            "lock-version = \"1.0\"\n[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\nindex = \"{index}\"\n"
        );
        let lock = ForeignLock::parse(Tool::Pylock, &text).unwrap();
        let environment = &lock.environments(Platform::LINUX_X86_64, None)[0];
        Locked::of_tool(environment, Platform::LINUX_X86_64, &Registry::embedded())
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
            let unknown = [judged.unknown, judged.unlisted].concat();
            assert_eq!(unknown.is_empty(), variant.is_some(), "{index} {version}: {unknown:?}");
        }
    }

    /// A build string of conda's that names no CUDA, and a line that does not say which package it is.
    #[test]
    fn what_is_not_named_is_unknown() {
        let environment = |tool, text: &str| {
            let lock = ForeignLock::parse(tool, text).unwrap();
            let environment = lock.environments(Platform::LINUX_X86_64, None).remove(0);
            Locked::of_tool(&environment, Platform::LINUX_X86_64, &Registry::embedded())
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
