//! Whether what may run on a machine does: the targets of a lock, or the environments of another tool's.

use std::cmp::Reverse;

use crate::formats::ForeignLock;
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::{Gpu, Host};
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::chosen_host;
use crate::session::failure::Failure;
use crate::session::project_lock::{self, AnyLock};
use crate::verify::findings::{self, DriverTooNew, WrongPlatform};
use crate::verify::{self, Area, AreaKind, CodePath, Facts, Locked, Verdict};

/// What may run on a machine.
pub(crate) enum Candidates<'l> {
    /// Targets of a lock, whose project replaces the requirements on these packages.
    Targets(Vec<&'l Target>, Vec<String>),
    /// The environments of another tool's lock, or the one of this name.
    Foreign(&'l ForeignLock, Option<&'l str>),
}

/// What was chosen of the candidates, and how it fares.
pub(crate) struct OnMachine {
    pub areas: Vec<Area>,
    pub verdict: Verdict,
    /// By which code and driver it runs, where it does.
    pub path: Option<CodePath>,
}

impl<'l> Candidates<'l> {
    /// What a lock has for machines: the target or environment of this name; without one, any may fit.
    ///
    /// # Errors
    /// When the lock has no target of that name.
    pub fn of(
        lock: &'l AnyLock,
        name: Option<&'l str>,
        require_gpu: bool,
    ) -> Result<Candidates<'l>, Failure> {
        match lock {
            AnyLock::Own(lock) => Candidates::of_own(lock, name, require_gpu),
            AnyLock::Foreign(lock) => Ok(Candidates::Foreign(lock, name)),
        }
    }

    /// The targets of envlock's own lock, likewise.
    ///
    /// # Errors
    /// When the lock has no target of that name.
    pub fn of_own(
        lock: &'l Lockfile,
        target: Option<&str>,
        require_gpu: bool,
    ) -> Result<Candidates<'l>, Failure> {
        let targets = match target {
            Some(name) => vec![project_lock::target(lock, Some(name))?],
            None => verify::candidates(lock, require_gpu),
        };
        Ok(Candidates::Targets(targets, project_lock::overridden(lock)))
    }

    /// What is locked of each for a machine.
    pub fn locked(&self, machine: &Host, registry: &Registry) -> Vec<Locked<'l>> {
        match self {
            Candidates::Targets(targets, overridden) => {
                let of = |target: &&'l Target| Locked::own(target, registry).replacing(overridden.clone());
                targets.iter().map(of).collect()
            }
            Candidates::Foreign(lock, name) => {
                let platform = machine.system.platform;
                let mut all = lock.environments(platform, None);
                all.retain(|environment| name.is_none_or(|name| environment.name == name));
                all.iter().map(|environment| Locked::of_tool(environment, platform, registry)).collect()
            }
        }
    }
}

/// Whether a machine's C library is of another operating system.
pub(crate) fn has_other_libc(host: &Host) -> bool {
    host.system.libc.as_ref().is_some_and(|libc| libc.os() != host.system.platform.os)
}

/// A machine that cannot be: its C library is of another system, or its driver is too new for a GPU.
fn impossible(has_other_libc: bool, error: Failure) -> Finding {
    match has_other_libc {
        true => findings::wrong_platform(WrongPlatform::NoFile(error.message)),
        false => findings::driver_too_new(&DriverTooNew::Described(error.message)),
    }
}

/// A single finding about a machine.
fn only(finding: Finding) -> Vec<Area> {
    vec![Area { findings: vec![finding], ..Area::of(AreaKind::Host) }]
}

/// How the best of the candidates fares on a machine, of which the registry may know more. `base`: what is known besides the lock
/// and the machine.
pub(crate) fn on_machine(described: &Host, candidates: &Candidates<'_>, base: &Facts<'_>) -> OnMachine {
    judged(described, &candidates.locked(described, base.registry), base)
}

/// The same, of what is locked for machines of this platform.
pub(crate) fn judged(described: &Host, locked: &[Locked<'_>], base: &Facts<'_>) -> OnMachine {
    let (areas, path) = match chosen_host::finish(described.clone(), base.registry) {
        Ok(machine) => best_on(&machine, locked, base),
        Err(error) => {
            let is_of_libc = has_other_libc(described);
            let runs = if is_of_libc { None } else { without_gpu(described, locked, base) };
            runs.unwrap_or_else(|| (only(impossible(is_of_libc, error)), None))
        }
    };
    let verdict = Verdict::of(areas.iter().flat_map(|area| &area.findings), described.has_no_gpu());
    OnMachine { areas, verdict, path: path.filter(|_| verdict == Verdict::Ok) }
}

/// What runs on a machine whose driver does not support its GPU: what uses none. `None` where nothing does.
fn without_gpu(
    described: &Host,
    locked: &[Locked<'_>],
    base: &Facts<'_>,
) -> Option<(Vec<Area>, Option<CodePath>)> {
    let others: Vec<Locked<'_>> =
        locked.iter().filter(|locked| !locked.target.uses_cuda()).cloned().collect();
    let machine = chosen_host::filled(described.clone(), base.registry).ok()?;
    let best = (!others.is_empty()).then(|| best_on(&machine, &others, base))?;
    (!verify::has_errors(&best.0)).then_some(best)
}

/// The verdict of the best candidate: the first one without errors, else the one that lacks least.
fn best_on(machine: &Host, locked: &[Locked<'_>], base: &Facts<'_>) -> (Vec<Area>, Option<CodePath>) {
    if locked.is_empty() {
        let text = format!("the lock has no environment for {}", machine.system.platform);
        return (only(findings::wrong_platform(WrongPlatform::NoFile(text))), None);
    }
    let judged = locked.iter().map(|locked| {
        let (stack, packages) = (Some(locked), Some(locked));
        let areas = verify::judge(&Facts { stack, packages, machine: Some(machine), ..*base });
        (rank(locked, machine, &areas), locked, areas)
    });
    let mut all: Vec<_> = judged.collect();
    all.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let several = all.len() > 1;
    let (_, best, mut areas) = all.swap_remove(0);
    if several {
        areas.iter_mut().for_each(|area| area.name_target(&best.target.name));
    }
    (areas, CodePath::of(best, machine, several))
}

/// Of those that run, and of those that do not, the one for this system comes first, then the one for such GPUs; then, a driver is
/// easier to change than a GPU or a system, and an older one than a newer; then the one for the nearest driver.
fn rank(locked: &Locked<'_>, machine: &Host, areas: &[Area]) -> impl Ord + use<> {
    let errors = || {
        let all = areas.iter().flat_map(|area| &area.findings);
        all.filter(|finding| finding.severity == Severity::Error)
    };
    let other = errors().filter(|finding| finding.code != Code::DriverTooOld).count();
    let (other_gpus, newer, older): (bool, bool, Reverse<Option<DottedVersion>>) =
        locked.target.host.distance(machine);
    let refused = errors().count() > 0;
    let of_other_system = errors().any(|finding| finding.code == Code::WrongPlatform);
    let driver = needed_driver(&locked.target, machine);
    // What runs needs nothing.
    let needs = refused.then(|| (other, driver.is_none(), driver));
    (refused, of_other_system, other_gpus, needs, newer, older)
}

/// The lowest driver with which a target would run on a machine's GPUs: of those whose capability is not known, the lowest
/// with which it runs on any. `None` if no driver would do, or none is needed.
pub(crate) fn needed_driver(target: &Target, machine: &Host) -> Option<DottedVersion> {
    let of_gpu = |gpu: &Gpu| match gpu.capability {
        None => target.envelope.driver.clone(),
        Some(capability) => {
            let row = target.envelope.coverage.iter().find(|row| row.compute_capability == capability)?;
            row.driver_min.clone()
        }
    };
    let rows = machine.gpus.iter().flatten().map(of_gpu);
    rows.collect::<Option<Vec<_>>>()?.into_iter().max()
}
