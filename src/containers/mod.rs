//! Container images: finds an image by name, and checks whether a machine can run it.

mod name;
mod require;

use pep440_rs::Version;
use semver::Version as Semver;
use serde::Serialize;

use crate::compatibility::{
    Policy, UnknownGpu, envelope_of, envelope_of_framework, knows_capability, required_driver,
};
use crate::model::host::{Gpu, Host};
use crate::model::platform::Platform;
use crate::model::solution::Envelope;
use crate::model::variant::Variant;
use crate::model::version::{DottedVersion, cuda_version};
use crate::registry::{Cited, Image, Registry};

pub use name::{NameError, find};
pub use require::{Demand, demands};

/// Whether a machine can run an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All checks pass.
    Runs,
    /// A check fails.
    DoesNotRun,
    /// No check fails, but data about the image or the machine is missing.
    Unknown,
}

/// The verdict on an image and a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons, one sentence each, the decisive ones first.
    pub reasons: Vec<String>,
}

/// Checks whether a machine can run an image.
pub fn judge(registry: &Registry, image: &Cited<Image>, host: &Host) -> Judgement {
    let mut judge = Judge { registry, image, host, no: Vec::new(), yes: Vec::new(), open: Vec::new() };
    if host.system.platform != Platform::LINUX_X86_64 {
        let platform = host.system.platform;
        judge.open.push(format!("the registry has image data only for linux-x86_64, not for {platform}"));
        return Judgement { verdict: Verdict::Unknown, reasons: judge.open };
    }
    let envelope = judge.envelope();
    judge.driver(envelope.as_ref());
    judge.gpus(envelope.as_ref());
    let verdict = match (judge.no.is_empty(), judge.open.is_empty()) {
        (false, _) => Verdict::DoesNotRun,
        (true, true) => Verdict::Runs,
        (true, false) => Verdict::Unknown,
    };
    let reasons = judge.no.into_iter().chain(judge.open).chain(judge.yes).collect();
    Judgement { verdict, reasons }
}

struct Judge<'a> {
    registry: &'a Registry,
    image: &'a Cited<Image>,
    host: &'a Host,
    no: Vec<String>,
    yes: Vec<String>,
    open: Vec<String>,
}

impl Judge<'_> {
    fn cuda(&self) -> Option<Semver> {
        cuda_version(self.image.cuda.as_ref()?.as_str()).ok()
    }

    /// The envelope of the framework in the image, if the registry knows the build.
    fn envelope(&self) -> Option<Envelope> {
        let version: Version = self.image.version.as_ref()?.parse().ok()?;
        if self.image.framework != "torch" {
            let row = self.registry.framework(&self.image.framework, &version, Platform::LINUX_X86_64)?;
            return Some(envelope_of_framework(self.registry, row));
        }
        let cuda = self.cuda()?;
        let variant = Variant::Cuda(cuda.major, cuda.minor).to_string();
        let build = self.registry.build(&version, &variant, Platform::LINUX_X86_64)?;
        build.targets.as_ref()?;
        Some(envelope_of(self.registry, build))
    }

    fn driver(&mut self, envelope: Option<&Envelope>) {
        let Some(driver) = &self.host.driver else {
            if self.host.has_no_gpu() {
                self.open.push(
                    "the machine has no GPU: the image runs on the CPU, and its CUDA is not checked"
                        .to_owned(),
                );
            } else {
                self.open.push("the driver is unknown".to_owned());
            }
            return;
        };
        let have = driver.user_mode();
        if let Some(branch) = self.image.driver_branch {
            self.by_branch(have, branch);
            return;
        }
        let by_cuda = || {
            let os = self.host.system.platform.os;
            required_driver(self.registry, &self.cuda()?, os, Policy::Minor).map(|driver| driver.value)
        };
        let floor = self.image.driver_min.clone().or_else(|| envelope?.driver.clone()).or_else(by_cuda);
        match floor {
            None => self.open.push("the minimum driver of the image is unknown".to_owned()),
            Some(floor) if *have < floor => {
                self.no.push(format!("it needs driver >= {floor}, but the driver is {have}"));
            }
            Some(floor) => self.yes.push(format!("driver {have} >= {floor}")),
        }
    }

    /// Checks the driver by the image's release notes: a branch for every GPU, older drivers for data-centre GPUs.
    fn by_branch(&mut self, have: &DottedVersion, branch: u32) {
        let is_data_centre =
            |gpu: &Gpu| gpu.name.as_ref().is_some_and(|name| self.registry.is_data_centre(name));
        let gpus = self.host.gpus.as_deref().unwrap_or_default();
        if have.major() >= branch {
            // Release notes name a branch below the minimum of the CUDA major where cuda-compat makes up for it, which
            // works on data-centre GPUs only.
            let os = self.host.system.platform.os;
            let floor = self.cuda().and_then(|cuda| required_driver(self.registry, &cuda, os, Policy::Minor));
            match (floor, &self.image.cuda) {
                (Some(floor), Some(cuda)) if *have < floor.value && !gpus.iter().all(is_data_centre) => {
                    self.no.push(format!(
                        "its CUDA {cuda} needs driver >= {}, but the driver is {have}; its release notes allow branch {branch}, which needs forward compatibility, on data-centre GPUs only",
                        floor.value
                    ));
                }
                _ => self.yes.push(format!("driver {have} is of branch {branch} or newer")),
            }
            return;
        }
        let allowed = &self.image.data_centre_drivers;
        let fits = allowed.iter().any(|lowest| lowest.major() == have.major() && have >= lowest);
        if fits && !gpus.is_empty() && gpus.iter().all(is_data_centre) {
            self.yes.push(format!(
                "driver {have} is older than branch {branch}; on data-centre GPUs, forward compatibility allows it"
            ));
            return;
        }
        let mut text = format!("its release notes require driver branch {branch}, but the driver is {have}");
        if !allowed.is_empty() {
            let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            text.push_str(&format!("; older drivers are allowed on data-centre GPUs: {}", list.join(", ")));
        }
        self.no.push(text);
    }

    fn gpus(&mut self, envelope: Option<&Envelope>) {
        for gpu in self.host.gpus.iter().flatten() {
            let label = gpu.label();
            let Some(capability) = gpu.capability else {
                self.open.push(format!("the compute capability of {label} is unknown"));
                continue;
            };
            if !knows_capability(self.registry, capability) {
                self.open.push(UnknownGpu { label, capability: Some(capability) }.to_string());
                continue;
            }
            let covered = envelope
                .filter(|envelope| !envelope.coverage.is_empty())
                .map(|envelope| envelope.coverage.iter().any(|row| row.compute_capability == capability));
            let above = self.image.capability_min.map(|min| capability >= min);
            match (covered, above) {
                (Some(false), _) => {
                    self.no.push(format!("its {} has no code for {label}", self.image.framework))
                }
                (_, Some(false)) => self.no.push(format!(
                    "its release notes require compute capability >= {}; the GPU is {label}",
                    self.image.capability_min.map(|c| c.to_string()).unwrap_or_default()
                )),
                (Some(true), _) => {
                    self.yes.push(format!("its {} has code for {label}", self.image.framework))
                }
                (None, _) => self.open.push(format!("its GPU code was not read, so {label} is not checked")),
            }
        }
        if self.host.gpus.is_none() {
            self.open.push("the GPUs are unknown".to_owned());
        }
    }
}
