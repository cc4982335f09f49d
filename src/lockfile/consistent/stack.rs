//! The stack and the frameworks of a target against the request, the locked packages and the registry: whoever forges a lock
//! writes them too.

use super::{Checked, Inconsistency, shown};
use crate::compatibility::{
    UnknownFloor, both, envelope_of, envelope_of_framework, knows_capability, with_code_of,
};
use crate::model::conda::{CUDNN, NCCL};
use crate::model::platform::Os;
use crate::model::solution::{ChosenPackage, Coverage, Envelope, Stack};
use crate::model::source::CondaPackage;
use crate::model::variant::CPU;
use crate::model::version::{DottedVersion, public};
use crate::model::wheel::WheelName;
use crate::registry::Build;
use crate::registry::conda_builds::{CondaBuildOf, PYTORCH};

impl Checked<'_> {
    /// The limits on variant, CUDA, cuDNN and NCCL.
    pub(super) fn limits(&self, out: &mut Vec<Inconsistency>) {
        let Some(stack) = &self.target.stack else { return };
        let mut check = |limit: Option<String>, is_met: bool, locked: String| {
            if let Some(limit) = limit.filter(|_| !is_met) {
                out.push(Inconsistency::Limit { limit, locked });
            }
        };
        let none = || "none".to_owned();
        if let Some(limit) = &self.request.variant {
            let is_met = limit.value == stack.variant;
            check(Some(format!("variant {}", limit.value)), is_met, stack.variant.clone());
        }
        if let Some(limit) = &self.request.cuda {
            let is_met = stack.variant != CPU && stack.cuda.as_ref().is_some_and(|v| limit.value.contains(v));
            let locked = format!("CUDA {}", stack.cuda.as_ref().map_or_else(none, ToString::to_string));
            check(Some(format!("cuda {}", limit.value)), is_met, locked);
        }
        if let Some(limit) = &self.request.cudnn {
            let is_met = stack.cudnn.as_ref().is_some_and(|v| limit.value.contains(v));
            let locked = format!("cuDNN {}", stack.cudnn.as_ref().map_or_else(none, ToString::to_string));
            check(Some(format!("cudnn {}", limit.value)), is_met, locked);
        }
        if let Some(limit) = &self.request.nccl {
            let is_met = stack.nccl.as_ref().is_some_and(|v| limit.value.contains(v));
            let locked = format!("NCCL {}", stack.nccl.as_ref().map_or_else(none, ToString::to_string));
            check(Some(format!("nccl {}", limit.value)), is_met, locked);
        }
    }

    /// The stack and the frameworks are those of the locked packages, as the registry knows them.
    pub(super) fn stack(&self, out: &mut Vec<Inconsistency>) {
        let torch = self.target.stack.iter();
        let torch = torch.flat_map(|s| std::iter::once((&s.framework, &s.version)).chain(&s.companions));
        let others = self.target.frameworks.iter().map(|f| (&f.package, &f.version));
        for (name, version) in torch.chain(others) {
            if let Some(package) = self.target.package(name)
                && public(&package.version) != public(version)
            {
                let stated = format!("{name} {version}");
                out.push(Inconsistency::OtherStack { stated, locked: shown(package) });
            }
        }
        self.build(out);
        self.frameworks(out);
    }

    /// The stack is that of the locked torch: its variant, and what the registry says of the build.
    fn build(&self, out: &mut Vec<Inconsistency>) {
        let Some(package) = self.target.package("torch") else {
            if let Some(stack) = &self.target.stack {
                self.conda_stack(stack, out);
            }
            return;
        };
        let Some(stack) = &self.target.stack else {
            let stated = "nothing of torch".to_owned();
            out.push(Inconsistency::OtherStack { stated, locked: shown(package) });
            return;
        };
        if let Some(variant) = package.variant.as_ref().filter(|variant| **variant != stack.variant) {
            out.push(Inconsistency::OtherStack {
                stated: format!("torch {}", stack.variant),
                locked: format!("torch {variant}"),
            });
        }
        let Some(row) = self.registry.build(&stack.version, &stack.variant, self.target.platform) else {
            return;
        };
        let mut differ = |part: &str, is_same: bool, stated: Option<String>, known: Option<String>| {
            let text = |value: Option<String>| format!("{part} {}", value.as_deref().unwrap_or("none"));
            if !is_same {
                let stated = format!("{} for torch {}+{}", text(stated), stack.version, stack.variant);
                out.push(Inconsistency::OtherBuild { stated, known: text(known) });
            }
        };
        fn told<T: ToString>(value: &Option<T>) -> Option<String> {
            value.as_ref().map(ToString::to_string)
        }
        differ("CUDA", stack.cuda == row.cuda, told(&stack.cuda), told(&row.cuda));
        differ("cuDNN", stack.cudnn == row.cudnn, told(&stack.cudnn), told(&row.cudnn));
        differ("NCCL", stack.nccl == row.nccl, told(&stack.nccl), told(&row.nccl));
    }

    /// The stack is that of conda's packages.
    fn conda_stack(&self, stack: &Stack, out: &mut Vec<Inconsistency>) {
        let of = |name: &str| self.target.conda.iter().find(|package| package.name == name);
        let stated = |what: String| format!("{what} with torch {}+{}", stack.version, stack.variant);
        let Some(pytorch) = of(PYTORCH).filter(|_| self.request.conda.stack.is_some()) else {
            let stated = format!("torch {}+{}", stack.version, stack.variant);
            out.push(Inconsistency::OtherStack { stated, locked: "none".to_owned() });
            return;
        };
        let shown = || format!("conda's {} {} {}", pytorch.name, pytorch.version, pytorch.build);
        let is_same = match self.registry.build_of_conda(pytorch, self.target.platform) {
            CondaBuildOf::Known(build) => {
                (&build.version, &build.variant, &build.cuda) == (&stack.version, &stack.variant, &stack.cuda)
            }
            // A registry of another date may not have it.
            CondaBuildOf::UnknownCode => pytorch.version == stack.version.to_string(),
            CondaBuildOf::Other => false,
        };
        if !is_same || stack.index != pytorch.channel {
            let stated = format!("torch {}+{} of {}", stack.version, stack.variant, stack.index);
            out.push(Inconsistency::OtherStack { stated, locked: shown() });
        }
        let cudnn = CUDNN.iter().find_map(|name| of(name)).filter(|_| stack.cuda.is_some());
        let nccl = of(NCCL).filter(|_| stack.cuda.is_some());
        let parts = [
            ("cuDNN", stack.cudnn.as_ref().map(ToString::to_string), cudnn),
            ("NCCL", stack.nccl.as_ref().map(ToString::to_string), nccl),
        ];
        for (name, own, package) in parts {
            let locked = package.map(|package| package.version.clone());
            if own != locked {
                let none = || "none".to_owned();
                out.push(Inconsistency::OtherStack {
                    stated: stated(format!("{name} {}", own.unwrap_or_else(none))),
                    locked: locked.unwrap_or_else(none),
                });
            }
        }
        let triton = of("triton").map(|package| format!("triton=={}", package.version));
        if stack.triton != triton {
            let none = || "none".to_owned();
            let stated = stated(stack.triton.clone().unwrap_or_else(none));
            out.push(Inconsistency::OtherStack { stated, locked: triton.unwrap_or_else(none) });
        }
        self.gpus_of_conda(pytorch, stack, out);
        for (name, version) in &stack.companions {
            if of(name).is_none_or(|package| package.version != version.to_string()) {
                let locked = of(name).map_or_else(|| "none".to_owned(), |package| package.version.clone());
                out.push(Inconsistency::OtherStack { stated: stated(format!("{name} {version}")), locked });
            }
        }
    }

    /// The GPUs that the lock names are those that the build and the locked cuDNN have code for.
    fn gpus_of_conda(&self, pytorch: &CondaPackage, stack: &Stack, out: &mut Vec<Inconsistency>) {
        let CondaBuildOf::Known(build) = self.registry.build_of_conda(pytorch, self.target.platform) else {
            return;
        };
        if build.cuda.is_none() {
            return;
        }
        let known = envelope_of(self.registry, &build.map(|row| Build { cudnn: stack.cudnn.clone(), ..row }));
        for row in self.known_coverage() {
            let of_build =
                known.coverage.iter().find(|other| other.compute_capability == row.compute_capability);
            let is_same =
                of_build.is_some_and(|other| row.driver_min >= other.driver_min && row.via == other.via);
            if !is_same {
                let capability = row.compute_capability;
                let driver =
                    row.driver_min.as_ref().map_or(String::new(), |min| format!(" with driver >= {min}"));
                let needed = match of_build.map(|other| &other.driver_min) {
                    None => "another GPU".to_owned(),
                    Some(Some(min)) => format!("driver >= {min} there"),
                    Some(None) => "other code there".to_owned(),
                };
                let stated = format!("compute capability {capability}{driver}");
                out.push(Inconsistency::OtherEnvelope { stated, needed });
                return;
            }
        }
    }

    /// The GPUs that the lock names and that the data know: of others they say nothing.
    fn known_coverage(&self) -> impl Iterator<Item = &Coverage> {
        let is_known = |row: &&Coverage| knows_capability(self.registry, row.compute_capability);
        self.target.envelope.coverage.iter().filter(is_known)
    }

    /// The lock claims no machine that its packages of PyPI do not run on: no older driver or C library, no other GPU.
    pub(super) fn machine_of_pypi(&self, out: &mut Vec<Inconsistency>) {
        let own = &self.target.envelope;
        let need = |package: &ChosenPackage| {
            let wheels = package.files.iter().filter_map(|file| file.name.parse::<WheelName>().ok());
            wheels.filter_map(|wheel| wheel.libc_need(self.target.platform, None)).min().flatten()
        };
        let glibc = self.target.packages.iter().filter_map(need).max();
        let is_linux = self.target.platform.os == Os::Linux;
        if let Some(needed) =
            glibc.filter(|needed| is_linux && own.glibc.as_ref().is_none_or(|own| own < needed))
        {
            let stated = own.glibc.as_ref().map_or("any glibc".to_owned(), |own| format!("glibc >= {own}"));
            out.push(Inconsistency::OtherEnvelope { stated, needed: format!("glibc >= {needed}") });
        }
        let Some(known) = self.envelope_of_packages() else { return };
        let driver = |min: &Option<DottedVersion>| match min {
            Some(min) => format!("driver >= {min}"),
            None => "any driver".to_owned(),
        };
        for row in self.known_coverage() {
            let capability = row.compute_capability;
            let of_packages = known.coverage.iter().find(|other| other.compute_capability == capability);
            let needed = match of_packages {
                Some(other) if row.driver_min >= other.driver_min => continue,
                Some(other) => driver(&other.driver_min),
                None => "another GPU".to_owned(),
            };
            let stated = format!("compute capability {capability} with {}", driver(&row.driver_min));
            out.push(Inconsistency::OtherEnvelope { stated, needed });
            return;
        }
        if own.driver < known.driver {
            let (stated, needed) = (driver(&own.driver), driver(&known.driver));
            out.push(Inconsistency::OtherEnvelope { stated, needed });
        }
    }

    /// What the registry says that the locked packages need of a machine; `None` if it does not know one of their builds, or how
    /// old a driver may be for one.
    fn envelope_of_packages(&self) -> Option<Envelope> {
        let platform = self.target.platform;
        let torch = match (self.target.package("torch"), &self.target.stack) {
            (Some(_), Some(stack)) => Some(self.registry.build(&stack.version, &stack.variant, platform)?),
            // The stack of channels is judged by itself.
            (Some(_), None) | (None, Some(_)) => return None,
            (None, None) => None,
        };
        let of_frameworks = self.target.frameworks.iter().map(|framework| &framework.cuda);
        let cuda = torch.and_then(|build| build.cuda.as_ref());
        if UnknownFloor::of(self.registry, cuda.into_iter().chain(of_frameworks), platform).is_some() {
            return None;
        }
        let torch = torch.filter(|build| build.cuda.is_some()).map(|build| envelope_of(self.registry, build));
        let frameworks = self.target.frameworks.iter();
        let rows: Option<Vec<_>> =
            frameworks.map(|one| self.registry.framework(&one.package, &one.version, platform)).collect();
        let frameworks = rows?.into_iter().map(|row| envelope_of_framework(self.registry, row));
        let nothing = Envelope { driver: None, coverage: Vec::new(), glibc: None, platform };
        let together = torch.into_iter().chain(frameworks).reduce(both).unwrap_or(nothing);
        Some(with_code_of(self.registry, together, &self.target.packages))
    }

    /// The frameworks are what the registry says of their releases.
    fn frameworks(&self, out: &mut Vec<Inconsistency>) {
        for framework in &self.target.frameworks {
            let row = self.registry.framework(&framework.package, &framework.version, self.target.platform);
            let is_known = row.is_some_and(|row| {
                row.framework == framework.name && row.cuda == framework.cuda && row.conda == framework.conda
            });
            if !is_known {
                let stated = format!(
                    "{} {} as {} with CUDA {}",
                    framework.package, framework.version, framework.name, framework.cuda
                );
                out.push(Inconsistency::OtherBuild { stated, known: "no such release".to_owned() });
            }
        }
    }
}
