//! The verdict on each class of nodes, for each lock.

use super::Named;
use crate::compatibility::DriverSpan;
use crate::fleet::Class;
use crate::model::finding::Finding;
use crate::model::host::Host;
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::chosen_host;
use crate::session::failure::Failure;
use crate::session::verify::{Candidates, OnMachine, needed_driver, on_machine};
use crate::verify::{self, CodePath, Facts, Verdict};

/// The verdict on one class.
pub(crate) struct OfClass {
    pub verdict: Verdict,
    /// One line: why, or what is well.
    pub line: String,
    pub findings: Vec<Finding>,
    /// By which code and driver it runs, where it does.
    pub path: Option<CodePath>,
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

pub(crate) fn all(locks: &[Named], classes: &[Class], registry: &Registry) -> Result<Vec<OfLock>, Failure> {
    let of = |Named { shown, lock, .. }: &Named| {
        let candidates = Candidates::of(lock, None, false)?;
        let verdicts = classes.iter().map(|class| of_class(&candidates, &class.host, registry)).collect();
        Ok(OfLock { file: shown.clone(), verdicts })
    };
    locks.iter().map(of).collect()
}

fn of_class(candidates: &Candidates<'_>, host: &Host, registry: &Registry) -> OfClass {
    let OnMachine { areas, verdict, path } = on_machine(host, candidates, &Facts::none(registry));
    let line = verify::line(verdict, &areas);
    let driver =
        (verdict == Verdict::Differs).then(|| driver_that_helps(candidates, host, registry)).flatten();
    let findings = areas.into_iter().flat_map(|area| area.findings).collect();
    OfClass { verdict, line, findings, path, driver }
}

/// The lowest driver of a target with which a machine that cannot run the lock would run it.
fn driver_that_helps(candidates: &Candidates<'_>, host: &Host, registry: &Registry) -> Option<Drivers> {
    // A host file may name a GPU without its capability.
    let known = chosen_host::filled(host.clone(), registry).ok()?;
    let have = &known.driver.as_ref()?.version;
    let locked = candidates.locked(&known, registry);
    let mut drivers: Vec<DottedVersion> = locked
        .iter()
        .filter_map(|locked| needed_driver(&locked.target, &known))
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
        on_machine(&updated, candidates, &Facts::none(registry)).verdict == Verdict::Ok
    })?;
    let capabilities = known.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
    let below = capabilities.filter_map(|capability| DriverSpan::of(registry, capability).below).min();
    Some(Drivers { min, below })
}
