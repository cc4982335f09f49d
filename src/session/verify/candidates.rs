//! Whether what may run on a machine does: the targets of a lock, or the environments of another tool's.

use std::cmp::Reverse;

use crate::formats::{self, ForeignLock};
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::{Gpu, Host};
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::lock;
use crate::verify::findings::{self, DriverTooNew, WrongPlatform};
use crate::verify::{self, Area, AreaKind};

/// What may run on a machine.
pub(crate) enum Candidates<'l> {
    Targets(Vec<&'l Target>),
    /// The environments of another tool's lock, or the one of this name.
    Foreign(&'l ForeignLock, Option<&'l str>),
}

impl<'l> Candidates<'l> {
    /// The target that `--target` names; without it, any target of the lock may fit the node.
    ///
    /// # Errors
    /// When the lock has no target of that name.
    pub fn of_own(
        lock: &'l Lockfile,
        target: Option<&str>,
        require_gpu: bool,
    ) -> Result<Candidates<'l>, Failure> {
        Ok(Candidates::Targets(match target {
            Some(name) => vec![lock::target(lock, Some(name))?],
            None => verify::candidates(lock, require_gpu),
        }))
    }
}

/// Whether a machine's C library is of another operating system.
pub(crate) fn has_other_libc(host: &Host) -> bool {
    host.system.libc.as_ref().is_some_and(|libc| libc.os() != host.system.platform.os)
}

/// A machine that cannot be: its C library is of another system, or its driver is too new for a GPU.
pub(crate) fn impossible(has_other_libc: bool, error: Failure) -> Finding {
    match has_other_libc {
        true => findings::wrong_platform(WrongPlatform::NoFile(error.message)),
        false => findings::driver_too_new(&DriverTooNew::Described(error.message)),
    }
}

/// The verdict of the best target for a node: the first one without errors, else the one that lacks least.
pub(crate) fn best_on(
    machine: &Host,
    candidates: &Candidates<'_>,
    registry: &Registry,
    require_gpu: bool,
) -> Area {
    let checked = |name: &str, target: &Target, area: Area| Checked {
        name: name.to_owned(),
        driver: needed_driver(target, machine),
        distance: target.host.distance(machine),
        area,
    };
    let mut all: Vec<Checked> = match candidates {
        Candidates::Targets(targets) => {
            let check = |target: &&Target| {
                checked(&target.name, target, verify::check_host(target, machine, registry, require_gpu))
            };
            targets.iter().map(check).collect()
        }
        Candidates::Foreign(lock, name) => {
            let platform = machine.system.platform;
            let mut all = lock.environments(platform, None);
            all.retain(|environment| name.is_none_or(|name| environment.name == name));
            let check = |environment: &formats::Environment| {
                let judged = formats::judge(environment, platform, registry);
                checked(
                    &environment.name,
                    &judged.target,
                    verify::foreign_host(&judged, machine, require_gpu),
                )
            };
            all.iter().map(check).collect()
        }
    };
    let several = all.len() > 1;
    if all.is_empty() {
        let text = format!("the lock has no environment for {}", machine.system.platform);
        let finding = findings::wrong_platform(WrongPlatform::NoFile(text));
        return Area { findings: vec![finding], ..Area::of(AreaKind::Host) };
    }
    // Of those that run, and of those that do not, the one for this system, then the one for such GPUs; then, a driver is
    // easier to change than a GPU or a system, and an older one than a newer; then the one for the nearest driver.
    let lacks = |one: &Checked| {
        let errors = || one.area.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let other = errors().filter(|finding| finding.code != Code::DriverTooOld).count();
        let (other_gpus, newer, older) = one.distance.clone();
        let refused = errors().count() > 0;
        let of_other_system = errors().any(|finding| finding.code == Code::WrongPlatform);
        // What runs needs nothing.
        let needs = refused.then(|| (other, one.driver.is_none(), one.driver.clone()));
        (refused, of_other_system, other_gpus, needs, newer, older)
    };
    all.sort_by_cached_key(lacks);
    let Checked { name, area, .. } = all.swap_remove(0);
    if !several {
        return area;
    }
    let summary = match area.summary.is_empty() {
        true => name.clone(),
        false => format!("{name}: {}", area.summary),
    };
    let named =
        |finding: Finding| Finding { message: format!("target {name}: {}", finding.message), ..finding };
    let findings = area.findings.into_iter().map(named).collect();
    Area { summary, findings, ..area }
}

/// A target, held against a machine.
struct Checked {
    name: String,
    area: Area,
    /// How far the machine is from the one that it is for.
    distance: (bool, bool, Reverse<Option<DottedVersion>>),
    /// The driver that it needs there.
    driver: Option<DottedVersion>,
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
