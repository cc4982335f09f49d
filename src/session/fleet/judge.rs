//! The verdict on each class of nodes, for each lock.

use super::Named;
use crate::compatibility::DriverSpan;
use crate::fleet::Class;
use crate::formats;
use crate::lockfile::Target;
use crate::model::finding::{Code, Finding};
use crate::model::host::Host;
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::chosen_host;
use crate::session::lock::AnyLock;
use crate::session::verify::{Candidates, best_on, has_other_libc, impossible, needed_driver};
use crate::verify::{Area, AreaKind, Verdict};

/// The verdict on one class.
pub(crate) struct OfClass {
    pub verdict: Verdict,
    /// One line: why, or what is well.
    pub line: String,
    pub findings: Vec<Finding>,
    /// The drivers with which the nodes would run the lock, where a newer one is all that they lack.
    pub driver: Option<Drivers>,
}

/// The drivers that help.
pub(crate) struct Drivers {
    /// The lowest.
    pub min: DottedVersion,
    /// The first that no longer supports a GPU.
    pub below: Option<DottedVersion>,
}

/// A lock's verdicts, in the order of the classes.
pub(crate) struct OfLock {
    pub file: String,
    pub verdicts: Vec<OfClass>,
}

pub(crate) fn all(locks: &[Named], classes: &[Class], registry: &Registry) -> Vec<OfLock> {
    let of = |Named { shown, lock, .. }: &Named| {
        let candidates = match lock {
            AnyLock::Own(lock) => Candidates::Targets(lock.targets.iter().collect()),
            AnyLock::Foreign(lock) => Candidates::Foreign(lock, None),
        };
        let verdicts = classes.iter().map(|class| of_class(&candidates, &class.host, registry)).collect();
        OfLock { file: shown.clone(), verdicts }
    };
    locks.iter().map(of).collect()
}

fn of_class(candidates: &Candidates<'_>, host: &Host, registry: &Registry) -> OfClass {
    let area = on(candidates, host, registry);
    let verdict = Verdict::of(&area.findings, host.has_no_gpu());
    let worst = area.findings.iter().max_by_key(|finding| match verdict {
        Verdict::Unknown => (finding.code == Code::NotJudged, finding.severity),
        _ => (true, finding.severity),
    });
    let line = match (verdict, worst) {
        (Verdict::Ok, _) if !area.summary.is_empty() => area.summary.clone(),
        (_, Some(finding)) => finding.message.clone(),
        (_, None) => area.summary.clone(),
    };
    let driver =
        (verdict == Verdict::Differs).then(|| driver_that_helps(candidates, host, registry)).flatten();
    OfClass { verdict, line, findings: area.findings, driver }
}

fn on(candidates: &Candidates<'_>, described: &Host, registry: &Registry) -> Area {
    match chosen_host::finish(described.clone(), registry) {
        Ok(machine) => best_on(&machine, candidates, registry, false),
        Err(error) => {
            let finding = impossible(has_other_libc(described), error);
            Area { findings: vec![finding], ..Area::of(AreaKind::Host) }
        }
    }
}

/// The lowest driver of a target with which a machine that cannot run the lock would run it.
fn driver_that_helps(candidates: &Candidates<'_>, host: &Host, registry: &Registry) -> Option<Drivers> {
    let foreign: Vec<Target> = match candidates {
        Candidates::Targets(_) => Vec::new(),
        Candidates::Foreign(lock, _) => {
            let platform = host.system.platform;
            let environments = lock.environments(platform, None);
            environments.iter().map(|one| formats::judge(one, platform, registry).target).collect()
        }
    };
    let targets: Vec<&Target> = match candidates {
        Candidates::Targets(targets) => targets.clone(),
        Candidates::Foreign(..) => foreign.iter().collect(),
    };
    // A host file may name a GPU without its capability.
    let known = chosen_host::filled(host.clone(), registry).ok()?;
    let have = &known.driver.as_ref()?.version;
    let mut drivers: Vec<DottedVersion> = targets
        .iter()
        .filter_map(|target| needed_driver(target, &known))
        .filter(|driver| driver > have)
        .collect();
    drivers.sort();
    let min = drivers.into_iter().find(|version| {
        let mut updated = host.clone();
        if let Some(driver) = &mut updated.driver {
            driver.version = version.clone();
            (driver.cuda, driver.compat) = (None, None);
        }
        // What stays unknown with it is no promise.
        let findings = on(candidates, &updated, registry).findings;
        Verdict::of(&findings, updated.has_no_gpu()) == Verdict::Ok
    })?;
    let capabilities = known.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
    let below = capabilities.filter_map(|capability| DriverSpan::of(registry, capability).below).min();
    Some(Drivers { min, below })
}
