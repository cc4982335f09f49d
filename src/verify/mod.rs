//! Verify: whether what is locked, what is installed and the machine agree.
//!
//! An ordered list of checks over [`Facts`], of which each part may be absent. A check is a pure function: `inspect` and
//! `probe` read what it needs beforehand. Everything that envlock judges is judged here: a lock of any tool, an environment,
//! an image, this machine, a node of a cluster.

mod code_path;
mod conda_records;
mod driver_library;
mod facts;
pub mod findings;
mod gpu_code;
mod host_needs;
mod image;
mod incompatible;
mod install;
mod libraries;
mod locked;
mod machine;
mod packages;
mod paths;
mod record_files;
mod requested;
mod requirements;
pub mod selftest;
mod since_lock;
pub mod smoke;
mod types;
mod unloadable;

pub use code_path::CodePath;
pub use conda_records::conda_here;
pub use facts::{Contents, Demands, Facts, ImageFacts, LockFacts, MachineRole, Need};
pub use host_needs::envelope_of_installed;
pub use locked::{CondaPin, Locked, NoCuda, WithoutCuda, WrittenBy};
pub use packages::{candidates, has_packages_of, installed_parts, installed_target};
pub use paths::{driver_release, loaded_versions};
pub use requested::{Requested, requested};
pub use types::{Area, AreaKind, Verdict, another_lock, has_errors, in_order, is_folded, line};

/// A check: what it is about, what it needs, and what it finds. `None`: it has nothing to say.
struct Check {
    area: AreaKind,
    needs: &'static [Need],
    run: fn(&Facts<'_>) -> Option<Area>,
}

const fn check(area: AreaKind, needs: &'static [Need], run: fn(&Facts<'_>) -> Option<Area>) -> Check {
    Check { area, needs, run }
}

/// All checks of what is read without running anything, in the order of the report.
static CHECKS: [Check; 22] = {
    use AreaKind::{Drift, Files, GpuCode, Host, Image, Install, Libraries, Machine, Packages};
    use Need::{Contents, Lock, State};
    const MACHINE: Need = Need::Machine;
    [
        check(Host, &[MACHINE], host_needs::check),
        check(Host, &[MACHINE, Lock], host_needs::installable),
        check(Host, &[MACHINE], host_needs::root),
        check(Host, &[MACHINE, Contents], host_needs::notes),
        check(Machine, &[State, Contents], machine::check),
        check(Machine, &[State, MACHINE], machine::sound),
        check(Packages, &[Contents], packages::stale),
        check(Packages, &[Contents, Lock], packages::check),
        check(Packages, &[Contents], requirements::check),
        check(Packages, &[Contents, Lock], requirements::of_locked),
        check(Packages, &[Contents, Lock], requirements::beside),
        check(Packages, &[], incompatible::check),
        check(Packages, &[], packages::changed),
        check(Packages, &[Contents], packages::outside),
        check(Files, &[Contents], record_files::check),
        check(Files, &[Contents], conda_records::files_of_records),
        check(Install, &[Contents], install::check),
        check(Install, &[Contents], conda_records::check),
        check(Libraries, &[Contents], libraries::check),
        check(GpuCode, &[Contents, MACHINE], gpu_code::check),
        check(Image, &[Need::Image], image::check),
        check(Drift, &[MACHINE, Lock], since_lock::check),
    ]
};

/// Runs every check whose facts are there. What several say about one subject is one area.
pub fn judge(facts: &Facts<'_>) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    let possible = CHECKS.iter().filter(|check| check.needs.iter().all(|part| facts.has(*part)));
    for area in
        possible.filter_map(|check| (check.run)(facts).map(|said| Area { kind: check.area.clone(), ..said }))
    {
        match areas.last_mut().filter(|last| last.kind == area.kind) {
            Some(last) => last.add(area),
            None => areas.push(area),
        }
    }
    areas
}
