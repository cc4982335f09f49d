//! The facts in a text: versions, GPUs, drivers, packages, surroundings, and lines that match rules.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use crate::model::platform::Platform;
use crate::model::surroundings::Surrounding;
use crate::model::variant::{CPU, Variant, cuda_of_variant};

/// The facts in a text. A fact that is not in the text is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// torch's version as written, `2.9.1+cu128`. A collector's `N/A` sets [`Facts::torch_not_importable`] instead.
    pub torch: Option<String>,
    /// The CUDA that torch was built with, `12.8`; empty if the collector reports none.
    pub torch_cuda: Option<String>,
    /// The collector ran and could not import torch.
    pub torch_not_importable: bool,
    /// The cuDNN version at run time.
    pub cudnn: Option<String>,
    /// GPU product names.
    pub gpus: Vec<String>,
    /// A compute capability in a message.
    pub capability: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// The newest CUDA that the driver supports, `12.2`.
    pub driver_cuda: Option<String>,
    /// The collector found no driver or no GPU.
    pub no_driver_seen: bool,
    /// `torch.cuda.is_available()`.
    pub available: Option<bool>,
    /// The Python series or version.
    pub python: Option<String>,
    /// The releases of torch that pip found a wheel of, where it did not find the one that was asked for.
    pub offered_torch: Vec<pep440_rs::Version>,
    /// The Python series of folders that torch was imported from.
    pub torch_pythons: BTreeSet<String>,
    /// The operating system as written.
    pub os: Option<String>,
    /// The platform that the releases which an installer sees have wheels for.
    pub platform: Option<Platform>,
    /// Packages by normalized name: version, and conda's build string.
    pub packages: BTreeMap<String, (String, String)>,
    /// The lines that name GPUs, by the name as written.
    pub said_of_gpus: BTreeMap<String, Said>,
    /// The package whose name `pip show` has just said.
    pub(super) shown_package: Option<String>,
    /// The packages of the line that is being read.
    pub(super) new_packages: Vec<String>,
    /// The lines that packages were read from.
    pub said_of: BTreeMap<String, Said>,
    /// The packages with their own GPU code that the text names.
    pub extensions: BTreeSet<String>,
    /// The torch build, release and variant, that an extension says it was built for: `2.1.2`, `cu121`.
    pub built_for: Option<(pep440_rs::Version, String)>,
    /// Whether torch and Python are those that an extension says it was built for, as far as it was read.
    pub is_as_built_for: Option<bool>,
    /// The surroundings that the text indicates.
    pub surroundings: BTreeSet<Surrounding>,
    /// CUDA variants in index URLs: `cu114`.
    pub index_variants: Vec<String>,
    /// The CUDA releases (major, minor) that commands of installers asked for: `pytorch-cuda=11.8`, an index's `cu118`.
    pub asked_cuda: Vec<(u64, u64)>,
    /// The CUDA releases of toolkits whose folders are in the text, `12.5` of `/usr/local/cuda-12.5`.
    pub toolkits: BTreeSet<String>,
    /// The CUDA releases that nvcc says it is of, `12.1`.
    pub compilers: BTreeSet<String>,
    /// Shared libraries with an absolute path in the text, or one from `.`, which therefore exist.
    pub libraries: Vec<String>,
    /// The Python series of the folders that the modules of one traceback are in, where there are two: the one that runs, and
    /// another one.
    pub two_pythons: Option<(String, String)>,
    /// Lines that match a rule.
    pub events: Vec<Event>,
    /// Somebody says that a run is slow or stands still.
    pub complains: bool,
    /// A line does not only describe the machine or the environment, or is too long to be read whole.
    pub has_other_lines: bool,
    /// Lines that report an error and match no rule: the first few and the last.
    pub unexplained: Vec<Said>,
    /// The lines that facts were read from.
    pub said: BTreeMap<Fact, Said>,
}

/// The facts that an answer names; the others only serve the rules.
impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Named<'f> {
            torch: Option<&'f str>,
            torch_cuda: Option<&'f str>,
            cudnn: Option<&'f str>,
            gpus: &'f [String],
            driver: Option<&'f str>,
            python: Option<&'f str>,
            os: Option<&'f str>,
        }
        let cuda = self.build_cuda();
        Named {
            torch: self.torch.as_deref(),
            torch_cuda: cuda.as_deref(),
            cudnn: self.cudnn.as_deref(),
            gpus: &self.gpus,
            driver: self.driver.as_deref(),
            python: self.python.as_deref(),
            os: self.os.as_deref(),
        }
        .serialize(serializer)
    }
}

/// A fact whose line is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// torch's version.
    Torch,
    /// The CUDA that torch was built with.
    TorchCuda,
    /// The collector could not import torch.
    NotImportable,
    /// cuDNN at run time.
    Cudnn,
    /// The first GPU.
    Gpu,
    /// A compute capability.
    Capability,
    /// The driver.
    Driver,
    /// The newest CUDA that the driver supports.
    DriverCuda,
    /// The collector found no driver.
    NoDriver,
    /// Whether CUDA is available.
    Available,
    /// torchvision's version.
    Torchvision,
    /// TensorFlow's version.
    Tensorflow,
    /// jaxlib's version.
    Jaxlib,
    /// The version of JAX's CUDA plugin.
    JaxPlugin,
    /// An NVIDIA package with cuDNN or NCCL.
    NvidiaPackage,
    /// A CUDA variant in an index URL.
    IndexVariant,
    /// The CUDA that an installer was asked for.
    AskedCuda,
    /// Modules of two Python series in one traceback.
    TwoPythons,
}

impl Fact {
    /// All of them.
    pub(super) const ALL: [Fact; 18] = [
        Fact::Torch,
        Fact::TorchCuda,
        Fact::NotImportable,
        Fact::Cudnn,
        Fact::Gpu,
        Fact::Capability,
        Fact::Driver,
        Fact::DriverCuda,
        Fact::NoDriver,
        Fact::Available,
        Fact::Torchvision,
        Fact::Tensorflow,
        Fact::Jaxlib,
        Fact::JaxPlugin,
        Fact::NvidiaPackage,
        Fact::IndexVariant,
        Fact::AskedCuda,
        Fact::TwoPythons,
    ];
}

/// A line that a fact was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Line number, from 1.
    pub line: usize,
    /// The line, cleaned, with secrets masked.
    pub text: String,
}

/// A line that matches a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The index of the rule in the registry.
    pub rule: usize,
    /// Line number, from 1.
    pub line: usize,
    /// The line, cleaned.
    pub text: String,
    /// The import statement that the traceback shows just above, cleaned; empty if there is none.
    pub statement: String,
    /// The installed module that the traceback just above ends in, `vllm`; empty if there is none.
    pub frame: String,
}

impl Facts {
    /// Whether the text indicates these surroundings.
    pub fn is_in(&self, surrounding: Surrounding) -> bool {
        self.surroundings.contains(&surrounding)
    }

    /// Whether the facts show that nothing is wrong: torch is known and uses its GPU, or is a CPU build on a machine
    /// without GPU, or the environment was verified; and nothing reports an error or a slow run.
    pub(super) fn show_health(&self, was_verified: bool) -> bool {
        let without_gpu = || self.gpus.is_empty() && self.driver.is_none() && self.available != Some(true);
        let runs = was_verified
            || self.available == Some(true)
            || (self.variant().as_deref() == Some(CPU) && without_gpu());
        self.torch.is_some()
            && runs
            && self.unexplained.is_empty()
            && !self.complains
            && !self.has_other_lines
    }

    /// The facts known so far, one bit each.
    pub(super) fn known(&self) -> u32 {
        let has = |name: &str| self.packages.contains_key(name);
        let starts = |prefix: &str| {
            let mut from = self.packages.range(prefix.to_owned()..);
            from.next().is_some_and(|(name, _)| name.starts_with(prefix))
        };
        let all = [
            (Fact::Torch, self.torch.is_some()),
            (Fact::TorchCuda, self.torch_cuda.is_some()),
            (Fact::NotImportable, self.torch_not_importable),
            (Fact::Cudnn, self.cudnn.is_some()),
            (Fact::Gpu, !self.gpus.is_empty()),
            (Fact::Capability, self.capability.is_some()),
            (Fact::Driver, self.driver.is_some()),
            (Fact::DriverCuda, self.driver_cuda.is_some()),
            (Fact::NoDriver, self.no_driver_seen),
            (Fact::Available, self.available.is_some()),
            (Fact::Torchvision, has("torchvision")),
            (Fact::Tensorflow, has("tensorflow")),
            (Fact::Jaxlib, has("jaxlib")),
            (Fact::JaxPlugin, has("jax-cuda12-plugin") || has("jax-cuda13-plugin")),
            (Fact::NvidiaPackage, starts("nvidia-cudnn-") || starts("nvidia-nccl-")),
            (Fact::IndexVariant, !self.index_variants.is_empty()),
            (Fact::AskedCuda, !self.asked_cuda.is_empty()),
            (Fact::TwoPythons, self.two_pythons.is_some()),
        ];
        all.into_iter().filter(|(_, known)| *known).fold(0, |bits, (fact, _)| bits | 1 << fact as u32)
    }

    /// The variant of torch's build, `cu128` or `cpu`: from its version, its CUDA, or conda's build string.
    pub fn variant(&self) -> Option<String> {
        let by_version = self
            .torch
            .as_ref()
            .and_then(|v| v.split_once('+'))
            .map(|(_, local)| local.split(['.', '_']).next().unwrap_or(local).to_owned());
        let known = |name: &String| !matches!(Variant::of(name), Variant::Other(_));
        by_version.filter(known).or_else(|| match self.torch_cuda.as_deref() {
            Some("") => Some(CPU.to_owned()),
            Some(cuda) => Some(Variant::of_cuda(cuda)?.to_string()),
            None => {
                let build = self.packages.get("pytorch").map(|(_, build)| build.as_str())?;
                if build.contains("cpu") {
                    return Some("cpu".to_owned());
                }
                let at = build.find("cuda")? + 4;
                let digits = build[at..]
                    .chars()
                    .take_while(|c| c.is_ascii_digit() || *c == '.')
                    .filter(char::is_ascii_digit);
                Some(format!("cu{}", digits.collect::<String>()))
            }
        })
    }

    /// The CUDA that torch was built with, `12.8`.
    pub fn build_cuda(&self) -> Option<String> {
        let by_variant = self.variant().and_then(|v| {
            let (major, minor) = cuda_of_variant(&v)?;
            Some(format!("{major}.{minor}"))
        });
        by_variant.or_else(|| self.torch_cuda.clone().filter(|c| !c.is_empty()))
    }

    /// torch's version without the variant.
    pub fn plain_torch(&self) -> Option<&str> {
        self.torch.as_deref().map(|v| v.split('+').next().unwrap_or(v))
    }
}

impl Facts {
    /// Fills in facts of a machine that are not in the text.
    pub(super) fn take_from(&mut self, host: &crate::model::host::Host) {
        if self.driver.is_none() {
            self.driver = host.driver.as_ref().map(|d| d.version.to_string());
        }
        if self.gpus.is_empty() {
            self.gpus = host.gpus.iter().flatten().filter_map(|gpu| gpu.name.clone()).collect();
        }
        if self.capability.is_none() {
            self.capability =
                host.gpus.iter().flatten().find_map(|gpu| gpu.capability).map(|c| c.to_string());
        }
    }
}
