//! Verify: compares the environment and the machine with the lock, or with each other.
//!
//! Each check is a pure function that returns findings; `inspect` and `probe` read the files before.

mod conda;
mod drift;
mod driver_library;
mod files;
pub mod findings;
mod foreign;
mod gpu_code;
mod host;
mod install;
mod libraries;
mod machine;
mod packages;
mod paths;
mod requested;
pub mod selftest;
pub mod smoke;
mod unloadable;
mod without_lock;

pub use conda::{Locked, add_conda_files, conda_here, locked_packages};
pub use foreign::{against_foreign, foreign_host, locked_records};
pub use packages::installed_parts;
pub use requested::{Requested, requested};

use std::fmt;

use serde::Serialize;

use crate::compatibility::{Needs, Policy, asked_driver, both, required_driver, unknown_cuda_user};
use crate::formats::{ForeignLock, other_builds};
use crate::lockfile::{Lockfile, PREINSTALLED_PACKAGES, Target};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::host::Host;
use crate::model::installed::{Installed, Traces};
use crate::model::level::Level;
use crate::model::machine_state::MachineState;
use crate::model::native::Native;
use crate::model::nvidia::is_cuda_runtime;
use crate::model::owner::PackageLock;
use crate::model::platform::Platform;
use crate::model::solution::Envelope;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::{CudaFrom, Registry};

/// The subject of a part of the report, in the order of the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AreaKind {
    /// The machine's hardware and software: platform, driver, GPUs.
    Host,
    /// The machine's current state.
    Machine,
    /// Installed packages.
    Packages,
    /// Files that RECORD lists.
    Files,
    /// How the environment was installed.
    Install,
    /// Libraries that the loader would take.
    Libraries,
    /// Code for the machine's GPUs.
    GpuCode,
    /// A container image as a whole.
    Image,
    /// What changed since the lock was made.
    Drift,
    /// The smoke test.
    Smoke,
    /// A machine that a host file describes; the file's path.
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
            AreaKind::Image => "image",
            AreaKind::Drift => "drift",
            AreaKind::Smoke => "smoke",
            AreaKind::HostFile(file) => file,
        })
    }
}

/// The answer to a question about a machine or an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Yes.
    Ok,
    /// No: there is an error.
    Differs,
    /// A fact is missing.
    Unknown,
}

impl Verdict {
    /// The verdict that findings about a machine give. What cannot be judged because the machine has no GPU leaves it alone.
    pub fn of<'f>(findings: impl IntoIterator<Item = &'f Finding>, has_no_gpu: bool) -> Verdict {
        let (mut any_error, mut any_unknown) = (false, false);
        for finding in findings {
            any_error |= finding.severity == Severity::Error;
            any_unknown |= finding.code == Code::NotJudged && !has_no_gpu;
        }
        match (any_error, any_unknown) {
            (true, _) => Verdict::Differs,
            (_, true) => Verdict::Unknown,
            _ => Verdict::Ok,
        }
    }
}

/// The findings about one subject: one line of the report.
#[derive(Debug, Clone)]
pub struct Area {
    /// The subject.
    pub kind: AreaKind,
    /// The findings.
    pub findings: Vec<Finding>,
    /// A summary for the line in the report.
    pub summary: String,
    /// How many of how many locked packages are installed as locked; for the packages only.
    pub as_locked: Option<(usize, usize)>,
}

/// Libraries that are not found may be in a locked package that is not installed: that is to be repaired first.
pub fn what_follows(areas: &mut [Area]) {
    let of = |code: Code| move |found: &&Finding| found.code == code && found.severity == Severity::Error;
    let findings = areas.iter().flat_map(|area| &area.findings);
    let Some(fix) = findings.clone().find(of(Code::MissingPackage)).and_then(|found| found.fix.clone())
    else {
        return;
    };
    let libraries = areas.iter_mut().flat_map(|area| &mut area.findings);
    for found in
        libraries.filter(|found| found.code == Code::MissingLibrary && found.severity == Severity::Error)
    {
        if found.r#where.as_deref() != Some(findings::DRIVER_LIBRARY) {
            found.message.push_str("; a locked package that is not installed may have it");
            found.fix = Some(fix.clone());
        }
    }
}

/// The findings in the order in which they are told: without an interpreter, no other fix can be made.
pub fn in_order(areas: &[Area]) -> impl Iterator<Item = &Finding> {
    let all = || areas.iter().flat_map(|area| &area.findings);
    let is_first = |found: &&Finding| found.code == Code::MissingInterpreter;
    all().filter(is_first).chain(all().filter(move |found| !is_first(found)))
}

impl Area {
    /// An area without findings.
    pub fn of(kind: AreaKind) -> Area {
        Area { kind, findings: Vec::new(), summary: String::new(), as_locked: None }
    }

    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }
}

/// Makes packages that are not locked an error. `fix` is the command that removes them, if one is known.
pub fn exactly(areas: &mut [Area], fix: Option<&str>) {
    for found in areas.iter_mut().flat_map(|area| &mut area.findings) {
        if found.code == Code::ExtraPackage {
            found.severity = Severity::Error;
            found.fix = found.fix.take().or_else(|| fix.map(Fix::command));
        }
    }
}

/// Compares an environment and a machine with a target of a lock.
pub fn against_lock(
    target: &Target,
    host: &Host,
    (installed, traces): (&Installed, &Traces),
    registry: &Registry,
    require_gpu: bool,
) -> Vec<Area> {
    let mut packages = packages::check(target, installed);
    if target.level == Level::Full {
        let is_locked = |name: &str| target.package(name).is_some() || PREINSTALLED_PACKAGES.contains(&name);
        packages.findings.extend(without_lock::beside(installed, target.platform, &is_locked));
    }
    if !target.conda.is_empty() {
        // conda's own records say what it installed of Python's packages too.
        let is_of_conda = |name: &str| {
            let own = installed.distributions.iter().find(|own| own.name == name);
            own.is_some_and(|own| own.installer.as_deref() == Some("conda"))
        };
        packages.findings.retain(|finding| {
            finding.code != Code::ExtraPackage || !finding.r#where.as_deref().is_some_and(is_of_conda)
        });
        let locked = conda::locked_packages(&target.conda);
        let (same, all) = foreign::conda_packages(&locked, installed, traces, &mut packages.findings);
        if let Some((as_locked, total)) = &mut packages.as_locked {
            (*as_locked, *total) = (*as_locked + same, *total + all);
            packages.summary = format!("{as_locked} of {total} as locked");
        }
    }
    vec![
        check_host(target, host, registry, require_gpu),
        packages,
        files::check(installed, &|name| target.package(name).is_some()),
    ]
}

/// Judges the machine by the stack that was chosen, in place of what the lock of the tool that holds the packages says.
pub fn add_stack(areas: &mut [Area], target: &Target, host: &Host, registry: &Registry, require_gpu: bool) {
    // Without a stack, what is installed of an extra is judged.
    if target.stack.is_none() && target.frameworks.is_empty() {
        return;
    }
    let chosen = check_host(target, host, registry, require_gpu);
    if let Some(area) = areas.iter_mut().find(|area| area.kind == chosen.kind) {
        *area = chosen;
    }
}

/// Adds that the lock of the tool that holds the packages is another one than the stack was chosen for.
pub fn add_changes(
    areas: &mut [Area],
    lock: &Lockfile,
    target: &Target,
    (current, state): (&ForeignLock, &PackageLock),
    registry: &Registry,
) {
    if lock.packages_in.as_ref() == Some(state) {
        return;
    }
    let others = other_builds(current, target, registry);
    if let Some(area) = areas.iter_mut().find(|area| area.kind == AreaKind::Packages) {
        area.findings.push(findings::package_lock_changed(state.owner, others.first()));
    }
}

/// Checks the environment's libraries: which ones would be loaded, and whether they have code for the GPUs.
///
/// `expect_driver_library`: whether `libcuda.so.1` must be found. False for a described machine and for a container without
/// GPUs.
pub fn native(
    native: &Native,
    installed: &Installed,
    host: &Host,
    expect_driver_library: bool,
    registry: &Registry,
) -> Vec<Area> {
    let areas = [
        libraries::check(native, installed, host, expect_driver_library, registry),
        gpu_code::check(native, installed, host, registry),
    ];
    // Without a framework there may be nothing to say.
    let has_content = |area: &Area| !area.findings.is_empty() || !area.summary.is_empty();
    areas.into_iter().filter(|area| native.process.is_some() || has_content(area)).collect()
}

/// Checks how the environment was installed. `locked`: whether a package is in the lock.
pub fn install(
    installed: &Installed,
    traces: &Traces,
    registry: &Registry,
    locked: &dyn Fn(&str) -> bool,
) -> Area {
    let torch = installed.distributions.iter().find(|d| d.name == "torch");
    // Maps `cu128` to CUDA 12.8; a variant that the registry does not know is not compared.
    let cuda = torch.and_then(|d| {
        let variant = d.variant.as_deref()?;
        let build = registry.builds().iter().find(|b| b.variant == variant)?;
        build.cuda.clone()
    });
    install::check(installed, traces, cuda.as_ref(), locked)
}

/// The version of the driver's library that would be loaded, from its file name.
pub fn driver_release(native: &Native) -> Option<DottedVersion> {
    let mut objects = native.process.iter().flat_map(|process| &process.objects);
    let driver = objects.find(|object| paths::file_name(&object.path).starts_with("libcuda.so"))?;
    crate::model::host::Driver::release_of_library(&paths::file_name(&driver.file))
}

/// Adds the findings about GPUs that programs do not see to the host area. Creates that area if it is missing.
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

/// What changed on the machine since a target was locked. `host`: this machine, `None` where the manifest describes the
/// target's machine.
pub fn drift(target: &Target, host: Option<&Host>, native: &Native) -> Option<Area> {
    drift::check(target, host, loaded_versions(native).0.as_deref())
}

/// What changed on the machine since a target was locked, without an environment.
pub fn machine_drift(target: &Target, host: &Host) -> Option<Area> {
    drift::check(target, Some(host), None)
}

/// Checks the current state of the machine; `None` if there are neither NVIDIA GPUs nor findings. `needs_gpu`:
/// whether something installed or locked uses a GPU.
pub fn machine(state: &MachineState, needs_gpu: bool, require_gpu: bool) -> Option<Area> {
    let area = machine::check(state, needs_gpu, require_gpu);
    (!state.cards.is_empty() || !area.findings.is_empty()).then_some(area)
}

/// Checks whether a machine is sound, whatever runs on it: the driver is loaded, its halves agree, every GPU answers, and none
/// waits for a reset. Only this may take a machine out of service.
pub fn sound(state: &MachineState, host: &Host, require_gpu: bool) -> Area {
    machine::sound(state, host, require_gpu)
}

/// What is not known of the GPUs and the driver that a target needs, as a sentence: no driver is known for its CUDA, or packages
/// use CUDA without a framework.
pub fn unknown_need(target: &Target, registry: &Registry) -> Option<String> {
    let os = target.platform.os;
    let cuda = target.stack.iter().filter_map(|stack| stack.cuda.as_ref());
    let cuda = cuda.chain(target.frameworks.iter().map(|framework| &framework.cuda));
    let without_floor =
        |cuda: &&semver::Version| required_driver(registry, cuda, os, Policy::Minor).is_none();
    let unknown = cuda.clone().find(without_floor).map(|cuda| {
        format!(
            "which driver CUDA {} needs on {} is not in envlock's data",
            cuda_short(cuda),
            target.platform
        )
    });
    let user = || unknown_cuda_user(registry, &target.packages).filter(|_| !target.has_framework());
    unknown.or_else(user)
}

/// Checks a machine against the envelope of a target.
pub fn check_host(target: &Target, host: &Host, registry: &Registry, require_gpu: bool) -> Area {
    // Below the driver of the newest toolkit, some part runs by minor-version compatibility.
    let toolkits = target.frameworks.iter().filter_map(|x| x.native_driver.as_ref());
    let native = target.stack.iter().filter_map(|s| s.native_driver.as_ref()).chain(toolkits).max();
    let unknown = unknown_need(target, registry);
    let code = match target.envelope.coverage.is_empty() && (!target.has_framework() || unknown.is_some()) {
        true => host::GpuCode::Unknown,
        false => host::GpuCode::Known,
    };
    let uses_cuda = target.uses_cuda();
    // A target for machines without a GPU requires none: a lock for the CPU runs on such a node.
    let require_gpu = require_gpu && !target.host.has_no_gpu();
    let specs = target.conda.iter().flat_map(|package| {
        let all = package.depends.iter().chain(&package.constrains);
        all.map(move |spec| (format!("{} {}", package.name, package.version), spec.as_str()))
    });
    let asked = asked_driver(registry, target.platform.os, specs);
    // Where the frameworks need that driver too, they are what to change.
    let of_stack = target.stack.iter().filter_map(|stack| stack.cuda.as_ref());
    let cuda = of_stack.chain(target.frameworks.iter().map(|framework| &framework.cuda)).max();
    let floor = cuda.and_then(|cuda| required_driver(registry, cuda, target.platform.os, Policy::Minor));
    let asked = asked.filter(|asked| floor.as_ref().is_none_or(|floor| asked.driver > floor.value));
    let drivers = host::Drivers { native, asked: asked.as_ref() };
    let mut area = host::check(&target.envelope, uses_cuda, drivers, code, host, require_gpu);
    // A machine without a GPU is what such a target is for.
    if target.host.has_no_gpu() && host.has_no_gpu() {
        area.findings.retain(|found| found.code != Code::NotJudged || found.severity != Severity::Info);
    }
    // Without a GPU it does not matter which ones the code is for.
    if !host.has_no_gpu() {
        let unknown = unknown.map(|text| findings::not_judged(findings::NotJudged::Locked(text), false));
        area.findings.extend(unknown);
    }
    if require_gpu && !uses_cuda {
        area.findings.extend(host::required_gpu(host));
    }
    area
}

/// The targets that a machine is held against where none is named. Where a GPU is required, those for machines without one
/// are left out, if the lock has others.
pub fn candidates(lock: &Lockfile, require_gpu: bool) -> Vec<&Target> {
    let is_for_gpus = |target: &&Target| !target.host.has_no_gpu();
    match require_gpu && lock.targets.iter().any(|target| is_for_gpus(&target)) {
        true => lock.targets.iter().filter(is_for_gpus).collect(),
        false => lock.targets.iter().collect(),
    }
}

/// The target that an environment was most likely installed from: the first one with the most matching packages.
pub fn installed_target<'l>(
    lock: &'l Lockfile,
    installed: &Installed,
    require_gpu: bool,
) -> Option<&'l Target> {
    // `max_by_key` returns the last maximum, hence `rev`.
    candidates(lock, require_gpu)
        .into_iter()
        .rev()
        .max_by_key(|target| packages::count_as_locked(target, installed))
}

/// Whether an environment has any package of a target as it is locked.
pub fn has_packages_of(target: &Target, installed: &Installed) -> bool {
    packages::count_as_locked(target, installed) > 0
}

/// Checks an environment against the machine, and its packages against each other, without a lock.
pub fn without_lock(registry: &Registry, host: &Host, installed: &Installed, require_gpu: bool) -> Vec<Area> {
    let platform = host.system.platform;
    let needs: Vec<Needs<'_>> = needs_of_installed(registry, installed, platform).collect();
    // The libraries themselves are read where they are installed; what the registry does not know is no fault.
    let is_unread = |needs: &Needs<'_>| needs.cuda.is_some() && needs.targets.is_none();
    let code = if needs.iter().any(is_unread) { host::GpuCode::Unknown } else { host::GpuCode::Known };
    let toolkits: Vec<_> = needs.iter().map(|needs| needs.cuda).collect();
    let uses_cuda = toolkits.iter().any(Option::is_some);
    let native = toolkits.into_iter().flatten();
    let native = native.filter_map(|cuda| required_driver(registry, cuda, platform.os, Policy::Native));
    let native = native.map(|driver| driver.value).max();
    let mut areas = Vec::new();
    if let Some(envelope) = envelope_of_installed(registry, installed, platform) {
        let drivers = host::Drivers { native: native.as_ref(), asked: None };
        areas.push(host::check(&envelope, uses_cuda, drivers, code, host, require_gpu));
    }
    if require_gpu && !uses_cuda {
        let found = host::required_gpu(host).into_iter();
        match areas.first_mut() {
            Some(area) => area.findings.extend(found),
            None => areas.push(Area { findings: found.collect(), ..Area::of(AreaKind::Host) }),
        }
    }
    areas.push(without_lock::check(registry, installed, platform, host));
    areas.push(files::check(installed, &|_| true));
    areas
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

/// The version of cuDNN that the frameworks load, of three numbers, and the one of CUDA's runtime, of two.
pub fn loaded_versions(native: &Native) -> (Option<String>, Option<String>) {
    let objects = native.process.iter().flat_map(|process| &process.objects).zip(&native.versions);
    let of = |start: &str, numbers: usize| {
        let mut known = objects.clone().filter(|(object, _)| {
            object.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
        });
        let text = known.find_map(|(_, version)| Some(version.as_ref()?.text.clone()))?;
        Some(text.split('.').take(numbers).collect::<Vec<_>>().join("."))
    };
    (of("libcudnn", 3), of("libcudart.so", 2))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fix::Fix;

    #[test]
    fn a_missing_package_is_repaired_before_a_missing_library() {
        let found = |code, place: &str, fix: &str| Finding {
            code,
            severity: Severity::Error,
            message: "said".to_owned(),
            fix: Some(Fix::command(fix)),
            r#where: Some(place.to_owned()),
        };
        let area = |kind, findings| Area { findings, ..Area::of(kind) };
        let libraries = vec![
            found(Code::MissingLibrary, "torch/lib/libtorch_cuda.so", "apt install x"),
            found(Code::MissingLibrary, findings::DRIVER_LIBRARY, "install the driver"),
        ];
        let mut areas = vec![area(AreaKind::Libraries, libraries)];
        let fixes = |areas: &[Area]| -> Vec<String> {
            in_order(areas).filter_map(|found| Some(found.fix.as_ref()?.to_string())).collect()
        };
        what_follows(&mut areas);
        assert_eq!(fixes(&areas), ["apt install x", "install the driver"], "nothing else is missing");
        areas.push(area(
            AreaKind::Packages,
            vec![found(Code::MissingPackage, "nvidia-nvtx-cu12", "envlock sync")],
        ));
        areas.push(area(AreaKind::Install, vec![found(Code::MissingInterpreter, "bin/python", "make it")]));
        what_follows(&mut areas);
        assert_eq!(fixes(&areas), ["make it", "envlock sync", "install the driver", "envlock sync"]);
        assert!(areas[0].findings[0].message.ends_with("a locked package that is not installed may have it"));
    }
}
