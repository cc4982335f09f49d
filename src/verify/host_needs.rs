//! Whether a machine has what is locked or installed needs: platform, C library, driver, GPUs.

use super::facts::Facts;
use super::findings::{self, DriverTooNew, NotCovered, NotJudged, Relock, WrongPlatform};
use super::locked::{Locked, NoCuda, WithoutCuda, WrittenBy};
use super::{Area, AreaKind};
use crate::compatibility::{
    AskedDriver, ImpossibleVariant, Needs, Policy, UnknownFloor, UnknownGpu, both, glibc_suffices,
    knows_capability, required_driver, with_runtime_of,
};
use crate::formats::CondaRecord;
use crate::model::capability::ComputeCapability;
use crate::model::finding::{Code, Finding};
use crate::model::host::Host;
use crate::model::host_note::HostNote;
use crate::model::installed::Installed;
use crate::model::nvidia::is_cuda_runtime;
use crate::model::platform::{Libc, Platform};
use crate::model::solution::{Coverage, Envelope};
use crate::model::variant::{CPU, is_cuda};
use crate::model::version::{DottedVersion, cuda_short, public};
use crate::registry::{CudaFrom, Registry};

/// What something needs from a machine.
struct MachineNeeds<'n> {
    envelope: &'n Envelope,
    uses_cuda: bool,
    /// Whether the compute capabilities in the envelope are those that the code supports. If they are not known, only the driver
    /// is checked.
    code_is_known: bool,
    /// The first driver that also runs the PTX of its toolkits.
    native: Option<&'n DottedVersion>,
    /// The newest driver that a package asks for beyond that.
    asked: Option<&'n AskedDriver>,
    /// Of which CUDA in it no row says how old a driver may be.
    unknown_floor: Option<&'n UnknownFloor>,
    /// The cuDNN that is locked beside it, and the lowest compute capability that it supports.
    cudnn_floor: Option<&'n (DottedVersion, ComputeCapability)>,
    /// Whether rows are about a compute capability: else the envelope cannot name it.
    is_known: &'n dyn Fn(ComputeCapability) -> bool,
    /// Whether a GPU has to be there.
    gpu_is_required: bool,
    /// Whether it is for machines without a GPU.
    is_for_no_gpu: bool,
    /// How it is locked for another machine.
    relock: Relock,
}

/// Checks the machine against what is locked; without a lock, against what is installed.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let machine = facts.machine?;
    match (facts.stack, facts.contents) {
        (Some(locked), _) => Some(of_locked(locked, machine, facts.registry, facts.demands.gpu)),
        (None, Some(contents)) => {
            of_installed(contents.installed, machine, facts.registry, facts.demands.gpu)
        }
        (None, None) => None,
    }
}

/// Programs of another root file system that are for another platform than the machine's.
pub(super) fn root(facts: &Facts<'_>) -> Option<Area> {
    let (programs, here) = (facts.machine?.system.platform, facts.role.of_root?);
    let wrong = (programs != here).then(|| findings::wrong_platform(WrongPlatform::Root(programs, here)))?;
    Some(Area { findings: vec![wrong], ..Area::of(AreaKind::Host) })
}

/// Why a lock cannot be installed on a machine.
pub(super) fn installable(facts: &Facts<'_>) -> Option<Area> {
    let (locked, host) = (facts.stack?, facts.machine?);
    // What is installed could be.
    if facts.has(super::Need::Contents) {
        return None;
    }
    let refused = locked.excluded.iter().chain(&locked.impossible);
    let no_file = refused.map(|text| WrongPlatform::NoFile(text.clone()));
    let asks_for_driver =
        |record: &&CondaRecord| record.requires.iter().any(|spec| spec.starts_with("__cuda"));
    let no_driver = (host.has_no_gpu() && host.driver.is_none())
        .then(|| locked.conda.iter().find(asks_for_driver))
        .flatten()
        .map(|record| WrongPlatform::NoDriver(record.is_package().then(|| record.name.clone())));
    let found: Vec<Finding> = no_file.chain(no_driver).map(findings::wrong_platform).collect();
    (!found.is_empty()).then(|| Area { findings: found, ..Area::of(AreaKind::Host) })
}

/// Holds a machine against what is locked.
fn of_locked(locked: &Locked<'_>, host: &Host, registry: &Registry, require_gpu: bool) -> Area {
    let target = &locked.target;
    let uses_cuda = target.uses_cuda();
    let is_for_no_gpu = target.host.has_no_gpu();
    // A target for machines without a GPU requires none: a lock for the CPU runs on such a node.
    let gpu_is_required = require_gpu && !is_for_no_gpu;
    let mut area = meets(
        &MachineNeeds {
            envelope: &target.envelope,
            uses_cuda,
            code_is_known: locked.code_is_known,
            native: locked.native_driver(),
            asked: locked.asked_driver.as_ref(),
            unknown_floor: locked.unknown_floor.as_ref(),
            cudnn_floor: locked.cudnn_floor.as_ref(),
            is_known: &|capability| knows_capability(registry, capability),
            gpu_is_required,
            is_for_no_gpu,
            relock: match locked.by {
                WrittenBy::Envlock => Relock::Own,
                WrittenBy::OtherTool => {
                    Relock::OfTool { has_torch: target.stack.is_some(), has_cuda: locked.has_cuda() }
                }
            },
        },
        host,
    );
    // With a framework that uses the GPU, a CPU build beside it is meant so.
    if let Some(gpu) = host.gpus.iter().flatten().next().filter(|_| !locked.has_cuda()) {
        let told = locked.without_cuda.iter().map(NotCovered::WithoutCuda);
        let relock = Relock::OfTool { has_torch: target.stack.is_some(), has_cuda: false };
        area.findings.extend(told.map(|why| findings::gpu_not_covered(&gpu.label(), why, relock)));
    }
    let says_no = says_no(&area);
    area.findings.extend(of_unread_build(locked, host, registry).filter(|_| !says_no));
    // Without a GPU it does not matter which ones the code is for.
    if !host.has_no_gpu() {
        let unknown = locked.unknown.iter().map(|text| NotJudged::Locked(text.clone()));
        area.findings.extend(unknown.map(|text| findings::not_judged(text, false)));
    }
    let unlisted = locked.unlisted.iter().map(|text| NotJudged::Release(text.clone()));
    area.findings.extend(unlisted.map(|what| findings::not_judged(what, false)));
    area
}

/// Whether a fault of the machine is among what was found.
fn says_no(area: &Area) -> bool {
    area.findings.iter().any(|found| [Code::DriverTooOld, Code::GpuNotCovered].contains(&found.code))
}

/// What stands against a torch of which no row has the code: its CUDA alone.
fn of_unread_build(locked: &Locked<'_>, host: &Host, registry: &Registry) -> Option<Finding> {
    let torch = locked.target.package("torch")?;
    let is_read = locked.code_is_known && locked.target.stack.is_some();
    let variant = torch.variant.as_deref().filter(|_| !is_read)?;
    let relock = match locked.by {
        WrittenBy::Envlock => Relock::Own,
        WrittenBy::OtherTool => Relock::OfTool { has_torch: true, has_cuda: true },
    };
    match ImpossibleVariant::of(registry, host, variant)? {
        ImpossibleVariant::Driver(cuda, floor) => {
            let driver = host.driver.as_ref()?.user_mode();
            let needs = format!("CUDA {}", cuda_short(&cuda));
            Some(findings::driver_too_old(driver, &floor.value, &needs, None, relock))
        }
        ImpossibleVariant::Code(cuda, gpu) => {
            let cuda = cuda_short(&cuda);
            Some(findings::gpu_not_covered(&gpu.value, NotCovered::Toolkit(&cuda), relock))
        }
        ImpossibleVariant::Vendor(_) => None,
    }
}

/// Holds a machine against the frameworks that are installed; `None` without one that the registry knows.
fn of_installed(installed: &Installed, host: &Host, registry: &Registry, require_gpu: bool) -> Option<Area> {
    let platform = host.system.platform;
    let needs: Vec<Needs<'_>> = needs_of_installed(registry, installed, platform).collect();
    // The libraries themselves are read where they are installed; what the registry does not know is no fault.
    let is_unread = |needs: &Needs<'_>| needs.cuda.is_some() && needs.targets.is_none();
    let toolkits = || needs.iter().filter_map(|needs| needs.cuda);
    let native = toolkits().filter_map(|cuda| required_driver(registry, cuda, platform.os, Policy::Native));
    let native = native.map(|driver| driver.value).max();
    let of_frameworks = envelope_of_installed(registry, installed, platform);
    let has_framework = of_frameworks.is_some();
    let open = Envelope { driver: None, coverage: Vec::new(), glibc: None, platform };
    let all =
        installed.distributions.iter().filter_map(|own| Some((own.name.as_str(), own.version.valid()?)));
    let asked = AskedDriver::of_packages(registry, platform.os, all.clone());
    let floors = toolkits().filter_map(|cuda| required_driver(registry, cuda, platform.os, Policy::Minor));
    let asked = AskedDriver::newest(asked, floors.map(|driver| driver.value).max().as_ref());
    let envelope = with_runtime_of(registry, of_frameworks.unwrap_or(open), all);
    let has_torch = installed.distributions.iter().any(|own| own.name == "torch");
    let relock = Relock::Installed { has_torch, gpu_is_required: require_gpu };
    let without_cuda = without_cuda(installed);
    // With a framework that uses the GPU, a CPU build beside it is meant so.
    let gpu = host.gpus.iter().flatten().next().filter(|_| toolkits().next().is_none());
    let not_used = without_cuda
        .as_ref()
        .zip(gpu)
        .map(|(own, gpu)| findings::gpu_not_covered(&gpu.label(), NotCovered::WithoutCuda(own), relock));
    if !has_framework && envelope.driver.is_none() {
        let required = required_gpu(host).filter(|_| require_gpu);
        let findings: Vec<Finding> = required.into_iter().chain(not_used).collect();
        return (!findings.is_empty()).then(|| Area { findings, ..Area::of(AreaKind::Host) });
    }
    let mut area = meets(
        &MachineNeeds {
            envelope: &envelope,
            uses_cuda: toolkits().next().is_some() || envelope.driver.is_some(),
            code_is_known: has_framework && !needs.iter().any(is_unread),
            native: native.as_ref(),
            asked: asked.as_ref(),
            unknown_floor: UnknownFloor::of(registry, toolkits(), platform).as_ref(),
            cudnn_floor: None,
            is_known: &|capability| knows_capability(registry, capability),
            gpu_is_required: require_gpu,
            is_for_no_gpu: false,
            relock,
        },
        host,
    );
    area.findings.extend(not_used);
    Some(area)
}

/// The torch that is installed, if it is a build without CUDA.
fn without_cuda(installed: &Installed) -> Option<WithoutCuda> {
    let torch = installed.distributions.iter().find(|own| own.name == "torch")?;
    let variant = torch.variant.as_deref().filter(|variant| !is_cuda(variant))?;
    let version = public(torch.version.valid()?);
    Some(WithoutCuda {
        name: "torch".to_owned(),
        framework: format!("torch {version}+{variant}"),
        why: if variant == CPU { NoCuda::CpuBuild } else { NoCuda::OtherVendor(variant.to_owned()) },
    })
}

/// What the installed frameworks together need from a machine; `None` without a build that the registry knows.
pub fn envelope_of_installed(
    registry: &Registry,
    installed: &Installed,
    platform: Platform,
) -> Option<Envelope> {
    let needs = needs_of_installed(registry, installed, platform);
    needs.map(|needs| needs.envelope(registry)).reduce(both)
}

/// What the installed frameworks need from a machine. Skips builds that the registry does not know and builds that do
/// not use CUDA.
fn needs_of_installed<'r>(
    registry: &'r Registry,
    installed: &'r Installed,
    platform: Platform,
) -> impl Iterator<Item = Needs<'r>> {
    let brings_cuda = installed.distributions.iter().any(|d| is_cuda_runtime(&d.name));
    installed.distributions.iter().filter_map(move |distribution| {
        let version = distribution.version.valid()?.clone().without_local();
        if distribution.name == "torch" {
            let build = registry.build(&version, distribution.variant.as_deref()?, platform)?;
            return Some(Needs::of_torch(build));
        }
        let row = registry.framework(&distribution.name, &version, platform)?;
        let uses_cuda = match row.cuda_from {
            CudaFrom::Packages => true,
            CudaFrom::Extra(_) => brings_cuda,
            // Without CUDA on the system it runs on the CPU, as intended.
            CudaFrom::System => false,
        };
        uses_cuda.then(|| Needs::of_framework(row))
    })
}

/// Checks whether a machine has what is needed.
fn meets(needs: &MachineNeeds<'_>, host: &Host) -> Area {
    let MachineNeeds { envelope, uses_cuda, .. } = needs;
    let mut found = Vec::new();
    let mut well = Vec::new();
    if envelope.platform != host.system.platform {
        found.push(findings::wrong_platform(WrongPlatform::Locked(envelope.platform, host.system.platform)));
    }
    if let (Some(need), None) = (&envelope.glibc, &host.system.libc) {
        well.push(format!("glibc unknown, >= {need} is needed"));
    }
    if let (Some(need), Some(have @ (Libc::Glibc(_) | Libc::Musl(_)))) = (&envelope.glibc, &host.system.libc)
    {
        if glibc_suffices(Some(have), need) {
            well.push(format!("{have} >= {need}"));
        } else {
            found.push(findings::libc_too_old(have, need));
        }
    }
    if *uses_cuda {
        gpus(needs, host, &mut found, &mut well);
        found.extend(compat(host));
    } else if needs.gpu_is_required {
        found.extend(required_gpu(host));
    }
    Area { findings: found, summary: well.join(", "), ..Area::of(AreaKind::Host) }
}

fn gpus(needs: &MachineNeeds<'_>, host: &Host, found: &mut Vec<Finding>, well: &mut Vec<String>) {
    let require_gpu = needs.gpu_is_required;
    let gpus = match &host.gpus {
        None => {
            found.push(findings::not_judged(NotJudged::GpusUnknown, require_gpu));
            return;
        }
        Some(gpus) if gpus.is_empty() => {
            // A machine without a GPU is what such a target is for.
            if require_gpu || !needs.is_for_no_gpu {
                found.push(findings::not_judged(NotJudged::NoGpu, require_gpu));
            }
            if require_gpu {
                well.insert(0, "no NVIDIA GPU".to_owned());
            }
            return;
        }
        Some(gpus) => gpus,
    };
    let mut check = GpuCheck { needs, host, found, well };
    if host.driver.is_none() {
        check.found.push(findings::not_judged(NotJudged::DriverUnknown, require_gpu));
    }
    let floor = needs.unknown_floor.filter(|floor| floor.own.is_none());
    check.found.extend(floor.map(|floor| check.not_known(floor)));
    if !needs.code_is_known {
        return check.driver_alone();
    }
    // Equal GPUs get one finding.
    let mut judged: Vec<(String, Option<ComputeCapability>)> = Vec::new();
    for gpu in gpus {
        let own = (gpu.label(), gpu.capability);
        if !judged.contains(&own) {
            check.gpu(own.0.clone(), own.1);
            judged.push(own);
        }
    }
    check.native_driver();
}

/// What a machine with GPUs is judged by, and what was found.
struct GpuCheck<'c, 'n> {
    needs: &'c MachineNeeds<'n>,
    host: &'c Host,
    found: &'c mut Vec<Finding>,
    well: &'c mut Vec<String>,
}

impl<'c> GpuCheck<'c, '_> {
    /// The user-mode driver determines the CUDA version, the kernel module which GPUs are supported.
    fn driver(&self) -> Option<&'c DottedVersion> {
        self.host.driver.as_ref().map(crate::model::host::Driver::user_mode)
    }

    /// Whether the driver is at least this one; `None` where only its branch is known.
    fn reaches(&self, floor: &DottedVersion) -> Option<bool> {
        self.host.driver.as_ref().and_then(|driver| driver.reaches(floor))
    }

    fn not_known(&self, floor: &UnknownFloor) -> Finding {
        findings::not_judged(NotJudged::Locked(floor.to_string()), self.needs.gpu_is_required)
    }

    fn too_old(&self, driver: &DottedVersion, min: &DottedVersion, gpu: &str) -> Finding {
        // A driver below the toolkit's own may do. One that the GPU needs decides.
        let is_of_toolkit = |floor: &&UnknownFloor| floor.own.as_ref().is_some_and(|own| own >= min);
        match self.needs.unknown_floor.filter(is_of_toolkit) {
            Some(floor) => self.not_known(floor),
            None => findings::driver_too_old(driver, min, gpu, self.needs.asked, self.needs.relock),
        }
    }

    /// The driver, where the code is not known.
    fn driver_alone(&mut self) {
        let (Some(driver), Some(lowest)) = (self.driver(), &self.needs.envelope.driver) else { return };
        match self.reaches(lowest) {
            Some(true) => self.well.insert(0, format!("driver {driver} >= {lowest}")),
            Some(false) => self.found.push(self.too_old(driver, lowest, "CUDA")),
            None => self.found.push(open_branch(driver, lowest, self.needs.gpu_is_required)),
        }
    }

    /// One GPU.
    fn gpu(&mut self, label: String, capability: Option<ComputeCapability>) {
        let envelope = self.needs.envelope;
        let row = capability
            .and_then(|own| envelope.coverage.iter().find(|covered| covered.compute_capability == own));
        match (row, capability) {
            (Some(row), _) => self.driver_for(label, row),
            (None, Some(capability)) if (self.needs.is_known)(capability) => {
                self.not_covered(&label, capability);
                self.too_old_for_all();
            }
            (None, capability) => {
                let unknown = NotJudged::UnknownGpu(UnknownGpu { label, capability });
                self.found.push(findings::not_judged(unknown, self.needs.gpu_is_required));
                self.too_old_for_all();
            }
        }
    }

    fn not_covered(&mut self, label: &str, capability: ComputeCapability) {
        let covered = self.needs.envelope.coverage.iter();
        let covered: Vec<String> = covered.map(|c| c.compute_capability.to_string()).collect();
        // Where cuDNN leaves a GPU out, the build itself may have code for it.
        let why = match self.needs.cudnn_floor {
            Some((version, min)) if capability < *min => NotCovered::Cudnn(version, *min),
            _ => NotCovered::Code(&covered),
        };
        self.found.push(findings::gpu_not_covered(label, why, self.needs.relock));
    }

    /// Below the lowest minimum no GPU would do.
    fn too_old_for_all(&mut self) {
        if let (Some(driver), Some(lowest)) = (self.driver(), &self.needs.envelope.driver)
            && self.reaches(lowest) == Some(false)
            && !self.found.iter().any(|f| f.code == Code::DriverTooOld)
        {
            self.found.push(self.too_old(driver, lowest, "every GPU"));
        }
    }

    /// The driver for a GPU that there is code for.
    fn driver_for(&mut self, label: String, row: &Coverage) {
        let Some(driver) = self.driver() else { return };
        let kernel = self.host.driver.as_ref().map(|driver| &driver.version);
        let reached = row.driver_min.as_ref().map(|min| (min, self.reaches(min)));
        if let Some((min, Some(false))) = reached {
            self.found.push(self.too_old(driver, min, &label));
        } else if let Some((min, None)) = reached {
            self.found.push(open_branch(driver, min, self.needs.gpu_is_required));
        } else if let (Some(below), Some(kernel)) = (&row.driver_below, kernel)
            && kernel >= below
        {
            let relock = self.needs.relock;
            let beyond =
                DriverTooNew::Envelope { driver: kernel.clone(), below: below.clone(), gpu: label, relock };
            self.found.push(findings::driver_too_new(&beyond));
        } else {
            let min = row.driver_min.as_ref().map(|m| format!(", driver {driver} >= {m}"));
            self.well.insert(0, format!("{label}{}", min.unwrap_or_default()));
        }
    }

    /// Whether it runs by minor-version compatibility.
    fn native_driver(&mut self) {
        if let (Some(driver), Some(native)) = (self.driver(), self.needs.native)
            && self.reaches(native) == Some(false)
            && !self.found.iter().any(|f| [Code::DriverTooOld, Code::NotJudged].contains(&f.code))
        {
            self.found.push(findings::compatibility_mode(driver, native));
        }
    }
}

/// That a GPU is required and the machine has none, or whether it has is not known.
fn required_gpu(host: &Host) -> Option<Finding> {
    match &host.gpus {
        None => Some(findings::not_judged(NotJudged::GpusUnknown, true)),
        Some(gpus) if gpus.is_empty() => Some(findings::not_judged(NotJudged::NoGpu, true)),
        Some(_) => None,
    }
}

/// Only the branch of a driver is known, and a release of that branch is needed.
fn open_branch(driver: &DottedVersion, need: &DottedVersion, require_gpu: bool) -> Finding {
    findings::not_judged(NotJudged::DriverBranch(driver.clone(), need.clone()), require_gpu)
}

/// A cuda-compat that is installed and does not work there: whether programs load it is not known of a described machine.
fn compat(host: &Host) -> impl Iterator<Item = Finding> {
    let notes = host.notes.iter().filter(|note| matches!(note, HostNote::CompatUnsupported { .. }));
    notes.map(|note| findings::not_judged(NotJudged::Note(note.clone()), false))
}

/// Findings for the probe's notes about hidden or unusable GPUs.
pub(super) fn notes(facts: &Facts<'_>) -> Option<Area> {
    let host = facts.machine.filter(|_| facts.has(super::Need::Contents) && facts.uses_cuda())?;
    let of = |note: &HostNote| match note {
        HostNote::VisibleDevices { .. } => Some(findings::hidden_gpus(note, host.has_no_gpu())),
        HostNote::NoAccess { .. } => Some(findings::hidden_gpus(note, true)),
        HostNote::DriverNotLoaded => Some(findings::not_judged(NotJudged::Note(note.clone()), false)),
        _ => None,
    };
    let found: Vec<Finding> = host.notes.iter().filter_map(of).collect();
    (!found.is_empty()).then(|| Area { findings: found, ..Area::of(AreaKind::Host) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::capability::Via;
    use crate::model::host::{Driver, Gpu};

    fn envelope() -> Envelope {
        let row = |major, minor, below: Option<&str>| Coverage {
            compute_capability: ComputeCapability::new(major, minor),
            via: Via::Sass,
            driver_min: Some("525.60.13".parse().unwrap()),
            driver_below: below.map(|b| b.parse().unwrap()),
        };
        Envelope {
            driver: Some("525.60.13".parse().unwrap()),
            coverage: vec![row(7, 0, Some("590")), row(8, 0, None)],
            glibc: Some("2.28".parse().unwrap()),
            platform: Platform::LINUX_X86_64,
        }
    }

    fn host(driver: Option<&str>, gpu: Option<Option<(u8, u8)>>, glibc: &str) -> Host {
        let mut host = Host::open(Platform::LINUX_X86_64, "t");
        host.system.libc = Some(Libc::Glibc(glibc.parse().unwrap()));
        host.driver = driver.map(|v| Driver {
            version: v.parse().unwrap(),
            cuda: None,
            compat: None,
            found_by: "t".into(),
        });
        host.gpus = gpu.map(|g| {
            g.map(|(major, minor)| Gpu {
                index: 0,
                name: None,
                capability: Some(ComputeCapability::new(major, minor)),
                memory_mib: None,
                uuid: None,
                pci_id: None,
                found_by: "t".into(),
            })
            .into_iter()
            .collect()
        });
        host
    }

    fn needs<'n>(envelope: &'n Envelope, native: Option<&'n DottedVersion>, gpu: bool) -> MachineNeeds<'n> {
        MachineNeeds {
            envelope,
            uses_cuda: true,
            code_is_known: true,
            native,
            asked: None,
            unknown_floor: None,
            cudnn_floor: None,
            is_known: &|capability| capability.to_string() != "9.9",
            gpu_is_required: gpu,
            is_for_no_gpu: false,
            relock: Relock::Own,
        }
    }

    #[test]
    fn verdicts() {
        type Row = (Option<&'static str>, Option<Option<(u8, u8)>>, &'static str, &'static [Code]);
        let table: &[Row] = &[
            (Some("570.26"), Some(Some((8, 0))), "2.35", &[]),
            (Some("535.54.03"), Some(Some((8, 0))), "2.35", &[Code::CompatibilityMode]),
            (Some("470.57.02"), Some(Some((8, 0))), "2.35", &[Code::DriverTooOld]),
            (Some("595.45.04"), Some(Some((7, 0))), "2.35", &[Code::DriverTooNew]),
            (Some("570.26"), Some(Some((9, 0))), "2.35", &[Code::GpuNotCovered]),
            (Some("470.57.02"), Some(Some((9, 0))), "2.35", &[Code::GpuNotCovered, Code::DriverTooOld]),
            // A capability that no row is about is not one that the code leaves out.
            (Some("570.26"), Some(Some((9, 9))), "2.35", &[Code::NotJudged]),
            (Some("570.26"), Some(Some((8, 0))), "2.17", &[Code::LibcTooOld]),
            (None, Some(None), "2.35", &[Code::NotJudged]),
            (None, None, "2.35", &[Code::NotJudged]),
            (None, Some(Some((8, 0))), "2.35", &[Code::NotJudged]),
        ];
        let native = "570.26".parse().unwrap();
        for (driver, gpu, glibc, expected) in table {
            let area = meets(&needs(&envelope(), Some(&native), false), &host(*driver, *gpu, glibc));
            let codes: Vec<Code> = area.findings.iter().map(|f| f.code).collect();
            assert_eq!(codes, *expected, "{driver:?} {gpu:?} {glibc}");
        }
        let no_gpu = host(None, Some(None), "2.35");
        assert!(meets(&needs(&envelope(), None, true), &no_gpu).has_errors());
        let envelope = envelope();
        let of_cpu = MachineNeeds { uses_cuda: false, ..needs(&envelope, None, false) };
        assert!(meets(&of_cpu, &no_gpu).findings.is_empty());
    }
}
