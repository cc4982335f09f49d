//! Container images: which one a name means, what is inside, and whether a machine can run it.

mod name;

use pep440_rs::Version;
use semver::Version as Semver;
use serde::Serialize;

use crate::compatibility::{Policy, envelope_of, envelope_of_framework, required_driver};
use crate::model::host::{Gpu, Host};
use crate::model::platform::Platform;
use crate::model::solution::Envelope;
use crate::model::version::{DottedVersion, cuda_version};
use crate::registry::{Image, Registry};

pub use name::{NameError, find};

/// Whether a machine can run an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Everything that is known says yes.
    Runs,
    /// Something says no.
    DoesNotRun,
    /// Too little is known of the image or the machine.
    Unknown,
}

/// What is to be said of an image on a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// Why, a sentence each, the decisive ones first.
    pub reasons: Vec<String>,
}

/// Judges an image for a machine.
pub fn judge(registry: &Registry, image: &Image, host: &Host) -> Judgement {
    let mut judge = Judge { registry, image, host, no: Vec::new(), yes: Vec::new(), open: Vec::new() };
    if host.system.platform != Platform::LINUX_X86_64 {
        let platform = host.system.platform;
        judge.open.push(format!("what the image has for {platform} is not known: rows are of linux-x86_64"));
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
    image: &'a Image,
    host: &'a Host,
    no: Vec<String>,
    yes: Vec<String>,
    open: Vec<String>,
}

impl Judge<'_> {
    fn cuda(&self) -> Option<Semver> {
        cuda_version(self.image.cuda.as_ref()?.as_str()).ok()
    }

    /// The envelope of the framework inside, where it is a build that the registry knows.
    fn envelope(&self) -> Option<Envelope> {
        let version: Version = self.image.version.as_ref()?.parse().ok()?;
        if self.image.framework != "torch" {
            let row = self.registry.framework(&self.image.framework, &version, Platform::LINUX_X86_64)?;
            return Some(envelope_of_framework(self.registry, row));
        }
        let cuda = self.cuda()?;
        let variant = format!("cu{}{}", cuda.major, cuda.minor);
        let build = self.registry.build(&version, &variant, Platform::LINUX_X86_64)?;
        build.targets.as_ref()?;
        Some(envelope_of(self.registry, build))
    }

    fn driver(&mut self, envelope: Option<&Envelope>) {
        let Some(driver) = &self.host.driver else {
            if self.host.has_no_gpu() {
                self.open.push(
                    "there is no GPU here: the image runs on the CPU, its CUDA is not judged".to_owned(),
                );
            } else {
                self.open.push("the driver is not known".to_owned());
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
            None => self.open.push("the lowest driver of the image is not known".to_owned()),
            Some(floor) if *have < floor => {
                self.no.push(format!("it needs driver >= {floor}, and the driver here is {have}"));
            }
            Some(floor) => self.yes.push(format!("driver {have} >= {floor}")),
        }
    }

    /// By the release notes: a branch on every GPU, older drivers on data-centre GPUs.
    fn by_branch(&mut self, have: &DottedVersion, branch: u32) {
        if have.major() >= branch {
            self.yes.push(format!("driver {have} is of branch {branch} or newer"));
            return;
        }
        let is_data_centre =
            |gpu: &Gpu| gpu.name.as_ref().is_some_and(|name| self.registry.is_data_centre(name));
        let gpus = self.host.gpus.as_deref().unwrap_or_default();
        let allowed = &self.image.data_centre_drivers;
        let fits = allowed.iter().any(|lowest| lowest.major() == have.major() && have >= lowest);
        if fits && !gpus.is_empty() && gpus.iter().all(is_data_centre) {
            self.yes.push(format!(
                "driver {have} is older than branch {branch}; on data-centre GPUs forward compatibility makes up for it"
            ));
            return;
        }
        let mut text =
            format!("its release notes demand driver branch {branch}, and the driver here is {have}");
        if !allowed.is_empty() {
            let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            text.push_str(&format!("; older ones are allowed on data-centre GPUs: {}", list.join(", ")));
        }
        self.no.push(text);
    }

    fn gpus(&mut self, envelope: Option<&Envelope>) {
        for gpu in self.host.gpus.iter().flatten() {
            let label = gpu.label();
            let Some(capability) = gpu.capability else {
                self.open.push(format!("the compute capability of {label} is not known"));
                continue;
            };
            let covered = envelope
                .filter(|envelope| !envelope.coverage.is_empty())
                .map(|envelope| envelope.coverage.iter().any(|row| row.compute_capability == capability));
            let above = self.image.capability_min.map(|min| capability >= min);
            match (covered, above) {
                (Some(false), _) => {
                    self.no.push(format!("{} in it has no code for {label}", self.image.framework))
                }
                (_, Some(false)) => self.no.push(format!(
                    "its release notes begin at compute capability {}; {label} is below",
                    self.image.capability_min.map(|c| c.to_string()).unwrap_or_default()
                )),
                (Some(true), _) => {
                    self.yes.push(format!("{} in it has code for {label}", self.image.framework))
                }
                (None, _) => {
                    self.open.push(format!("which GPUs it has code for was not read: {label} is not judged"))
                }
            }
        }
        if self.host.gpus.is_none() {
            self.open.push("the GPUs are not known".to_owned());
        }
    }
}
