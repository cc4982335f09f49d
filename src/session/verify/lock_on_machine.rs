//! `plan --lock`: whether each environment of a lock, of any tool, runs on a machine.

use std::collections::BTreeSet;

use crate::compatibility::UnknownGpu;
use crate::formats::{Environment, ForeignLock, Tool};
use crate::lockfile::Lockfile;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::model::wheel::Python;
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::project_lock::{self, AnyLock};
use crate::verify::findings::{self, WrongPlatform};
use crate::verify::{self, Area, Facts, Locked, Verdict, has_errors};

/// A lock, and how its environments fare.
pub(crate) struct Locks {
    /// The tool that wrote it.
    pub tool: &'static str,
    pub verdict: Verdict,
    pub environments: Vec<OfLock>,
}

/// An environment of the lock, or several that are judged alike.
pub(crate) struct OfLock {
    pub names: Vec<String>,
    pub python: Option<String>,
    pub frameworks: Vec<String>,
    pub packages: usize,
    pub verdict: Verdict,
    pub summary: String,
    /// The driver that it needs, where the machine's is not stated.
    pub needs_driver: Option<DottedVersion>,
    pub findings: Vec<Finding>,
}

impl OfLock {
    /// The findings that are shown.
    pub fn shown(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.severity != Severity::Info || finding.code == Code::NotJudged)
    }
}

/// Judges the environments of a lock for a machine: the one of this name, for this Python.
///
/// # Errors
/// When the lock has no such environment.
pub(crate) fn lock_on_machine(
    lock: &AnyLock,
    (target, python): (Option<&str>, Option<&str>),
    host: &Host,
    registry: &Registry,
) -> Result<Locks, Failure> {
    let (tool, mut all) = match lock {
        AnyLock::Own(own) => ("envlock", of_own(own, target, host, registry)?),
        AnyLock::Foreign(lock) => (lock.tool.name(), of_tool(lock, target, python, host, registry)?),
    };
    // Where some environments have a framework, the others say nothing about GPUs.
    if target.is_none() && all.iter().any(|one| !one.frameworks.is_empty()) {
        all.retain(|one| !one.frameworks.is_empty());
    }
    let environments = folded(all);
    let has = |verdict| environments.iter().any(|one| one.verdict == verdict);
    // A lock runs where one of its environments does.
    let verdict = match () {
        () if has(Verdict::Ok) => Verdict::Ok,
        () if has(Verdict::Unknown) => Verdict::Unknown,
        () => Verdict::Differs,
    };
    Ok(Locks { tool, verdict, environments })
}

fn of_own(
    own: &Lockfile,
    target: Option<&str>,
    host: &Host,
    registry: &Registry,
) -> Result<Vec<OfLock>, Failure> {
    let targets = project_lock::targets(own, target)?;
    Ok(targets
        .into_iter()
        .map(|target| of_locked(&project_lock::locked(own, target, registry), host, registry))
        .collect())
}

fn of_tool(
    lock: &ForeignLock,
    target: Option<&str>,
    python: Option<&str>,
    host: &Host,
    registry: &Registry,
) -> Result<Vec<OfLock>, Failure> {
    let platform = host.system.platform;
    let series =
        |text: &str| text.parse::<Python>().map_err(|error| Failure::usage(format!("--python: {error}")));
    let python = python.map(series).transpose()?;
    let mut environments = lock.environments(platform, python);
    if environments.is_empty() {
        let has: Vec<String> = lock.platforms().iter().map(ToString::to_string).collect();
        let text = match has.is_empty() {
            true => "the lock has no environment".to_owned(),
            false => format!("the lock has no environment for {platform}, only for {}", has.join(", ")),
        };
        return Ok(vec![OfLock {
            names: vec!["every environment".to_owned()],
            python: None,
            frameworks: Vec::new(),
            packages: 0,
            verdict: Verdict::Differs,
            summary: String::new(),
            needs_driver: None,
            findings: vec![findings::wrong_platform(WrongPlatform::NoFile(text))],
        }]);
    }
    if let Some(name) = target {
        let names: Vec<String> =
            environments.iter().map(|environment| format!("`{}`", clean(&environment.name, 60))).collect();
        environments.retain(|environment| environment.name == *name);
        if environments.is_empty() {
            return Err(Failure::usage(format!("the lock has no environment `{}`", clean(name, 40)))
                .hint(format!("it has {}", names.join(", "))));
        }
    }
    let is_other = |one: &Environment, python: Python| one.has_python() && one.python.minor != python.minor;
    if let Some(python) = python.filter(|python| environments.iter().all(|one| is_other(one, *python))) {
        let locked: BTreeSet<String> = environments.iter().map(|one| one.python.to_string()).collect();
        let locked = locked.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!(
            "`--python {python}`: the environments of the lock are for Python {locked}"
        )));
    }
    let of = |environment: &Environment| {
        let locked = Locked::of_tool(environment, platform, registry);
        let mut one = of_locked(&locked, host, registry);
        // Pins without files fit many Pythons.
        let is_open = lock.tool == Tool::Requirements && python.is_none();
        if is_open || !environment.has_python() {
            one.python = None;
        }
        // Those of which nothing is known are in it, too.
        if one.frameworks.is_empty() {
            let others: BTreeSet<&str> =
                registry.frameworks().iter().map(|row| row.framework.as_str()).collect();
            let named = std::iter::once("torch").chain(others).filter_map(|name| locked.target.package(name));
            one.frameworks.extend(named.map(|package| format!("{} {}", package.name, package.version)));
        }
        one
    };
    Ok(environments.iter().map(of).collect())
}

/// How what is locked fares.
fn of_locked(locked: &Locked<'_>, host: &Host, registry: &Registry) -> OfLock {
    let target = &locked.target;
    let areas = verify::judge(&Facts::of_lock(locked, registry).on(host));
    let torch = target.stack.as_ref().map(|stack| format!("torch {} {}", stack.version, stack.variant));
    let more = target.frameworks.iter().map(|framework| {
        let cuda = format!("CUDA {}.{}", framework.cuda.major, framework.cuda.minor);
        format!("{} {} ({cuda})", framework.package, framework.version)
    });
    // A CPU build of torch is its stack as well.
    let others = locked.without_cuda.iter().filter(|other| target.stack.is_none() || other.name != "torch");
    let others = others.map(|other| other.framework.clone());
    OfLock {
        names: vec![target.name.clone()],
        python: Some(target.python.to_string()),
        frameworks: torch.into_iter().chain(more).chain(others).collect(),
        packages: target.packages.len() + locked.conda.iter().filter(|record| record.is_package()).count(),
        verdict: match has_errors(&areas) {
            true => Verdict::Differs,
            // What nobody said of the machine limits nothing, as what the environment needs is told. What was said and is not
            // enough leaves it open.
            false if !locked.unknown.is_empty() && !host.has_no_gpu() => Verdict::Unknown,
            false if has_no_driver(locked) && !host.has_no_gpu() => Verdict::Unknown,
            false if target.uses_cuda() && UnknownGpu::of(registry, host).is_some() => Verdict::Unknown,
            false if !locked.unlisted.is_empty() => Verdict::Unknown,
            false if is_open(&areas, host) => Verdict::Unknown,
            false => Verdict::Ok,
        },
        needs_driver: target.envelope.driver.clone().filter(|_| host.driver.is_none() && !host.has_no_gpu()),
        summary: areas.first().map(|area| area.summary.clone()).unwrap_or_default(),
        findings: areas.into_iter().flat_map(|area| area.findings).collect(),
    }
}

/// Whether no driver is known that runs what is locked.
fn has_no_driver(locked: &Locked<'_>) -> bool {
    locked.unknown_floor.as_ref().is_some_and(|floor| floor.own.is_none())
}

/// Whether a fact is missing of a machine whose driver and GPUs were named: the capability of a GPU, the release of a driver branch.
fn is_open(areas: &[Area], host: &Host) -> bool {
    let mut findings = areas.iter().flat_map(|area| &area.findings);
    let is_described = host.driver.is_some() && host.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
    is_described && findings.any(|finding| finding.code == Code::NotJudged)
}

/// One answer for all environments that are judged alike.
fn folded(all: Vec<OfLock>) -> Vec<OfLock> {
    let mut out: Vec<OfLock> = Vec::new();
    for one in all {
        let is_alike = |known: &&mut OfLock| {
            (&known.frameworks, known.verdict, &known.findings, &known.python)
                == (&one.frameworks, one.verdict, &one.findings, &one.python)
        };
        match out.iter_mut().find(is_alike) {
            Some(known) => known.names.extend(one.names),
            None => out.push(one),
        }
    }
    out
}
