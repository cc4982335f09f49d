//! Compares a machine and an environment with another tool's lock.

use super::conda::Locked;
use super::findings::{self, NotCovered, NotJudged, WrongPlatform};
use super::host::{self, GpuCode};
use super::{Area, files, packages};
use crate::formats::{CondaRecord, Judged};
use crate::model::finding::{Code, Finding};
use crate::model::fix::Fix;
use crate::model::host::Host;
use crate::model::installed::{Installed, Traces};
use crate::model::text::clean;

/// Whether a machine can install the lock's environment, and run its frameworks.
pub fn foreign_host(judged: &Judged, host: &Host, require_gpu: bool) -> Area {
    let mut area = check_host(judged, host, require_gpu);
    let refused = judged.excluded.iter().chain(&judged.impossible);
    let no_file = refused.map(|text| WrongPlatform::NoFile(text.clone()));
    let asks_for_driver =
        |record: &&CondaRecord| record.requires.iter().any(|spec| spec.starts_with("__cuda"));
    let no_driver = (host.has_no_gpu() && host.driver.is_none())
        .then(|| judged.conda.iter().find(asks_for_driver))
        .flatten()
        .map(|record| WrongPlatform::NoDriver(record.is_package().then(|| record.name.clone())));
    area.findings.extend(no_file.chain(no_driver).map(findings::wrong_platform));
    area
}

/// Whether a machine can run the frameworks of an environment.
fn check_host(judged: &Judged, host: &Host, require_gpu: bool) -> Area {
    let target = &judged.target;
    let toolkits = target.frameworks.iter().filter_map(|framework| framework.native_driver.as_ref());
    let native = target.stack.iter().filter_map(|stack| stack.native_driver.as_ref()).chain(toolkits).max();
    let uses_cuda =
        target.stack.as_ref().is_some_and(|stack| stack.cuda.is_some()) || !target.frameworks.is_empty();
    // conda packages can ask for a driver without a framework.
    let asks_for_driver = target.envelope.driver.is_some();
    // The code of a conda package is in no registry; what it asks of the driver is in its lock.
    let is_unread = target.envelope.coverage.is_empty() && target.stack.is_none();
    let code = if is_unread || !judged.code_is_known { GpuCode::Unknown } else { GpuCode::Known };
    let drivers = host::Drivers { native, asked: judged.asked_driver.as_ref() };
    let mut area =
        host::check(&target.envelope, uses_cuda || asks_for_driver, drivers, code, host, require_gpu);
    let found = &mut area.findings;
    // Where cuDNN leaves a GPU out, the build itself may have code for it.
    for gpu in host.gpus.iter().flatten() {
        let Some((version, min)) = &judged.cudnn_floor else { break };
        if gpu.capability.is_none_or(|capability| capability >= *min) {
            continue;
        }
        let label = gpu.label();
        let is_of_it =
            |one: &Finding| one.code == Code::GpuNotCovered && one.r#where.as_deref() == Some(&label);
        for one in found.iter_mut().filter(|one| is_of_it(one)) {
            *one = findings::gpu_not_covered(&label, NotCovered::Cudnn(version, *min));
        }
    }
    if require_gpu && !uses_cuda && !asks_for_driver {
        found.extend(host::required_gpu(host));
    }
    let gpu = host.gpus.iter().flatten().next();
    if let Some(gpu) = gpu {
        // With a framework that uses the GPU, a CPU build beside it is meant so.
        let told = judged.without_cuda.iter().filter(|_| !uses_cuda).map(NotCovered::WithoutCuda);
        found.extend(told.map(|why| findings::gpu_not_covered(&gpu.label(), why)));
    }
    // Without a GPU it does not matter which ones the code is for.
    if !host.has_no_gpu() && (uses_cuda || gpu.is_some() || host.gpus.is_none()) {
        let unknown = judged.unknown.iter().map(|text| NotJudged::Locked(text.clone()));
        found.extend(unknown.map(|text| findings::not_judged(text, false)));
    }
    area.findings = area.findings.into_iter().map(|finding| with_fix(finding, judged)).collect();
    area
}

/// The fix of a finding about the machine, in words that do not assume a lock of envlock.
fn with_fix(finding: Finding, judged: &Judged) -> Finding {
    let uses_cuda = judged.target.stack.as_ref().is_some_and(|stack| stack.cuda.is_some());
    let plan = match &judged.target.stack {
        Some(_) => " of torch; `envlock plan` lists those that run there",
        None => "",
    };
    let has_cuda = uses_cuda || !judged.target.frameworks.is_empty();
    let what = if has_cuda { "another release or build" } else { "a build for CUDA" };
    match finding.code {
        // A conda package is at fault, which its fix names.
        Code::DriverTooOld if finding.r#where.is_some() => finding,
        Code::GpuNotCovered | Code::DriverTooOld | Code::DriverTooNew => {
            let driver = match finding.code {
                Code::DriverTooOld => "update the NVIDIA driver, or ",
                _ => "",
            };
            let text = format!("{driver}lock {what}{plan}");
            Finding { fix: Some(Fix::advice(text)), ..finding }
        }
        _ => finding,
    }
}

/// Compares an environment and a machine with another tool's lock.
pub fn against_foreign(
    judged: &Judged,
    host: &Host,
    installed: &Installed,
    traces: &Traces,
    // Whether the lock has a package in another of its environments.
    elsewhere: &dyn Fn(&str) -> bool,
    require_gpu: bool,
) -> Vec<Area> {
    let target = &judged.target;
    let mut found = packages::check(target, installed);
    // Their versions are not in the lock; that they are there is.
    let is_here = |name: &str| installed.distributions.iter().any(|own| own.name == name);
    let absent = judged.unversioned.iter().filter(|name| !is_here(name));
    let absent: Vec<&String> = absent.filter(|name| installed.own_package.as_ref() != Some(name)).collect();
    if let Some((as_locked, all)) = &mut found.as_locked {
        (*as_locked, *all) =
            (*as_locked + judged.unversioned.len() - absent.len(), *all + judged.unversioned.len());
        found.summary = format!("{as_locked} of {all} as locked");
    }
    found.findings.extend(absent.into_iter().map(|name| findings::missing_package(name, "", installed)));
    let unnamed = judged.unnamed.iter().map(|line| {
        NotJudged::Locked(format!("`{line}` names no package: whether it is installed was not checked"))
    });
    found.findings.extend(unnamed.map(|what| findings::not_judged(what, false)));
    let is_of_conda = |name: &str| {
        let by_conda = |installer: Option<&str>| installer.is_some_and(|installer| installer == "conda");
        installed.distributions.iter().any(|own| own.name == name && by_conda(own.installer.as_deref()))
    };
    // conda's own packages are in conda's part of the lock; what another extra or group has is locked too.
    let is_no_extra = |name: &str| is_of_conda(name) || elsewhere(name);
    let retained = |finding: &Finding| {
        finding.code != Code::ExtraPackage || !finding.r#where.as_deref().is_some_and(is_no_extra)
    };
    found.findings.retain(retained);
    if judged.conda.iter().any(|record| record.is_package()) {
        let locked = locked_records(judged);
        let (as_locked, all) = conda_packages(&locked, installed, traces, &mut found.findings);
        if let Some((python, total)) = &mut found.as_locked {
            (*python, *total) = (*python + as_locked, *total + all);
            found.summary = format!("{python} of {total} as locked");
        }
        found.findings.retain(retained);
    }
    let locked = |name: &str| target.package(name).is_some();
    let refused = judged.excluded.iter().map(|text| WrongPlatform::NoFile(text.clone()));
    found.findings.extend(refused.map(findings::wrong_platform));
    vec![check_host(judged, host, require_gpu), found, files::check(installed, &locked)]
}

/// The packages of conda that another tool's lock has.
pub fn locked_records(judged: &Judged) -> Vec<Locked<'_>> {
    let records = judged.conda.iter().filter(|record| record.is_package());
    records.map(|own| Locked { name: &own.name, version: &own.version, build: &own.build }).collect()
}

/// Compares conda's records with the locked ones, by name, version and build. Returns the number of packages as locked, and
/// of all.
pub(super) fn conda_packages(
    locked: &[Locked<'_>],
    installed: &Installed,
    traces: &Traces,
    found: &mut Vec<Finding>,
) -> (usize, usize) {
    let mut as_locked = 0;
    for one in locked {
        let Locked { name, version, build } = one;
        let Some(own) = traces.conda.iter().find(|own| own.name == *name) else {
            found.push(findings::missing_package(name, version, installed));
            continue;
        };
        let whole = |version: &str, build: &str| clean(format!("{version} {build}").trim(), 80);
        match one.is(own) {
            true => as_locked += 1,
            false => {
                let (own, locked) = (whole(&own.version, &own.build), whole(version, build));
                found.push(findings::wrong_version(name, own, locked, installed));
            }
        }
    }
    for own in &traces.conda {
        if !locked.iter().any(|one| one.name == own.name) {
            found.push(findings::extra_package(&own.name, None));
        }
    }
    (as_locked, locked.len())
}
