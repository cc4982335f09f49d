//! Verify: what is installed and the machine, held against the lock, or against each other.
//!
//! Each check is a function of values that returns findings; files were read before, by `inspect`.

mod drift;
mod driver_library;
mod environment;
mod files;
pub mod findings;
mod gpu_code;
mod host;
mod install;
mod libraries;
mod machine;
mod packages;
mod paths;
pub mod smoke;

pub use packages::FURNITURE;

use std::fmt;

use crate::compatibility::{Needs, Policy, both, is_cuda, required_driver};
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::{Finding, Severity};
use crate::model::host::Host;
use crate::model::installed::{Installed, Traces};
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::platform::Platform;
use crate::model::solution::Envelope;
use crate::model::version::DottedVersion;
use crate::registry::{CudaFrom, Registry};

/// What a part of the report is about, in the order of the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AreaKind {
    /// What the machine is: platform, driver, GPUs.
    Host,
    /// What the machine is doing.
    Machine,
    /// Installed packages.
    Packages,
    /// Recorded files.
    Files,
    /// How the environment was installed.
    Install,
    /// What the loader would pick.
    Libraries,
    /// Machine code for the GPUs.
    GpuCode,
    /// What changed since the lock was made.
    Drift,
    /// What really ran.
    Smoke,
    /// A machine that a file describes, by the file.
    HostFile(String),
}

impl fmt::Display for AreaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AreaKind::Host => "host",
            AreaKind::Machine => "machine",
            AreaKind::Packages => "packages",
            AreaKind::Files => "files",
            AreaKind::Install => "install",
            AreaKind::Libraries => "libraries",
            AreaKind::GpuCode => "gpu code",
            AreaKind::Drift => "drift",
            AreaKind::Smoke => "smoke",
            AreaKind::HostFile(file) => file,
        })
    }
}

/// The findings of one area, for the report's lines.
#[derive(Debug, Clone)]
pub struct Area {
    /// What it is about.
    pub kind: AreaKind,
    /// What was found.
    pub findings: Vec<Finding>,
    /// One phrase about what is well.
    pub summary: String,
}

impl Area {
    /// An area in which nothing was found yet.
    pub fn of(kind: AreaKind) -> Area {
        Area { kind, findings: Vec::new(), summary: String::new() }
    }

    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }
}

/// Holds an environment and a machine against a target of a lock.
pub fn against_lock(target: &Target, host: &Host, installed: &Installed, require_gpu: bool) -> Vec<Area> {
    vec![
        check_host(target, host, require_gpu),
        packages::check(target, installed),
        files::check(installed, &|name| target.package(name).is_some()),
    ]
}

/// Holds the environment's libraries against the machine: what would be loaded, and whether it has code for the
/// GPUs.
///
/// `driver_is_due` tells whether a driver's library has to be found: the host is the machine that the files were read on,
/// and no container that was given no GPU.
pub fn native(
    native: &Native,
    installed: &Installed,
    host: &Host,
    driver_is_due: bool,
    registry: &Registry,
) -> Vec<Area> {
    // An environment without a framework has no process to speak of.
    if native.process.is_none()
        && native.not_done.is_none()
        && native.unreadable.is_empty()
        && !native.interpreter_gone
    {
        return Vec::new();
    }
    vec![
        libraries::check(native, installed, host, driver_is_due, registry),
        gpu_code::check(native, host, registry),
    ]
}

/// Judges how the environment was installed. `locked` tells whether a package is in the lock.
pub fn install(
    installed: &Installed,
    traces: &Traces,
    registry: &Registry,
    locked: &dyn Fn(&str) -> bool,
) -> Area {
    let torch = installed.distributions.iter().find(|d| d.name == "torch");
    // `cu128` is CUDA 12.8; what the registry does not know has no build of its own.
    let cuda = torch.and_then(|d| {
        let variant = d.variant.as_deref()?;
        let build = registry.builds().iter().find(|b| b.variant == variant)?;
        build.cuda.clone()
    });
    install::check(installed, traces, cuda.as_ref(), locked)
}

/// The release of the driver's library that would be loaded, where its file's name says one.
pub fn driver_release(native: &Native) -> Option<DottedVersion> {
    let mut objects = native.process.iter().flat_map(|process| &process.objects);
    let driver = objects.find(|object| paths::file_name(&object.path).starts_with("libcuda.so"))?;
    crate::model::host::Driver::release_of_library(&paths::file_name(&driver.file))
}

/// Puts what there is to say of the GPUs that programs see here where it belongs: to the host, which is an area of its
/// own even where nothing else was judged of it.
pub fn add_notes(areas: &mut Vec<Area>, host: &Host) {
    let notes = host::notes(host);
    if notes.is_empty() {
        return;
    }
    match areas.iter_mut().find(|area| area.kind == AreaKind::Host) {
        Some(area) => area.findings.extend(notes),
        None => areas.push(Area { findings: notes, ..Area::of(AreaKind::Host) }),
    }
}

/// What changed since the lock was made; nothing where nothing did.
/// `loaded_cudnn` is the release that would be loaded, `9.10.2`.
pub fn drift(target: &Target, host: &Host, native: &Native) -> Option<Area> {
    let objects = native.process.iter().flat_map(|process| &process.objects).zip(&native.versions);
    let of_cudnn = objects.filter(|(object, _)| {
        object.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcudnn"))
    });
    let release = of_cudnn
        .filter_map(|(_, version)| version.as_ref())
        .map(|version| version.text.split('.').take(3).collect::<Vec<_>>().join("."));
    drift::check(target, host, release.into_iter().next().as_deref())
}

/// Judges what the machine is doing now; nothing where nothing of NVIDIA's is there. `needs_gpu` tells whether anything
/// here would use a GPU.
pub fn machine(state: &MachineState, needs_gpu: bool, require_gpu: bool) -> Option<Area> {
    let area = machine::check(state, needs_gpu, require_gpu);
    (!state.cards.is_empty() || !area.findings.is_empty()).then_some(area)
}

/// Holds a machine against the envelope of a target.
pub fn check_host(target: &Target, host: &Host, require_gpu: bool) -> Area {
    // The newest of the toolkits: below its driver some part runs in compatibility mode.
    let toolkits = target.frameworks.iter().filter_map(|x| x.native_driver.as_ref());
    let native = target.stack.iter().filter_map(|s| s.native_driver.as_ref()).chain(toolkits).max();
    let by_torch = target.stack.as_ref().is_some_and(|s| is_cuda(&s.variant));
    let uses_cuda = by_torch || !target.frameworks.is_empty();
    host::check(&target.envelope, uses_cuda, native, host, require_gpu)
}

/// The target that an environment was most probably installed from: the first with the most packages
/// as they are installed.
pub fn installed_target<'l>(lock: &'l Lockfile, installed: &Installed) -> Option<&'l Target> {
    // Of equals, `max_by_key` takes the last.
    lock.targets.iter().rev().max_by_key(|target| packages::count_as_locked(target, installed))
}

/// Holds an environment against the machine and itself, without a lock.
pub fn without_lock(registry: &Registry, host: &Host, installed: &Installed, require_gpu: bool) -> Vec<Area> {
    let platform = host.system.platform;
    let (envelopes, toolkits): (Vec<_>, Vec<_>) = needs_of_installed(registry, installed, platform)
        .map(|needs| (Envelope { glibc: needs.glibc.cloned(), ..needs.envelope(registry) }, needs.cuda))
        .unzip();
    let uses_cuda = toolkits.iter().any(Option::is_some);
    let native = toolkits.into_iter().flatten();
    let native = native.filter_map(|cuda| required_driver(registry, cuda, platform.os, Policy::Native));
    let native = native.map(|driver| driver.value).max();
    let mut areas = Vec::new();
    if let Some(envelope) = envelopes.into_iter().reduce(both) {
        areas.push(host::check(&envelope, uses_cuda, native.as_ref(), host, require_gpu));
    }
    areas.push(environment::check(registry, installed, platform));
    areas.push(files::check(installed, &|_| true));
    areas
}

/// What the installed frameworks need of a machine, as far as the registry knows their builds and their files say that
/// CUDA is used.
fn needs_of_installed<'r>(
    registry: &'r Registry,
    installed: &'r Installed,
    platform: Platform,
) -> impl Iterator<Item = Needs<'r>> {
    let brings_cuda = installed.distributions.iter().any(|d| d.name.starts_with("nvidia-cuda-runtime"));
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
            // It runs on the CPU where the system has no CUDA, and that is as meant.
            CudaFrom::System => false,
        };
        uses_cuda.then(|| Needs::of_framework(row))
    })
}
