//! The parts of a report, and the verdict.

use std::fmt;

use serde::Serialize;

use crate::model::finding::{Code, Finding, Severity};

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
    /// A bundle.
    Bundle,
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
            AreaKind::Bundle => "bundle",
            AreaKind::Smoke => "smoke",
            AreaKind::HostFile(file) => file,
        })
    }
}

/// The answer to a question about a machine or an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// The verdict that findings about a machine give. What cannot be judged because the machine has no GPU leaves it alone, unless
    /// it is a warning.
    pub fn of<'f>(findings: impl IntoIterator<Item = &'f Finding>, has_no_gpu: bool) -> Verdict {
        let (mut any_error, mut any_unknown) = (false, false);
        for finding in findings {
            any_error |= finding.severity == Severity::Error;
            any_unknown |=
                finding.code == Code::NotJudged && (!has_no_gpu || finding.severity == Severity::Warning);
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

    /// Says of which target of several it is.
    pub fn name_target(&mut self, name: &str) {
        if self.kind == AreaKind::Host {
            self.summary = match self.summary.is_empty() {
                true => name.to_owned(),
                false => format!("{name}: {}", self.summary),
            };
        }
        for finding in self.findings.iter_mut().filter(|_| self.kind != AreaKind::Machine) {
            finding.message = format!("target {name}: {}", finding.message);
        }
    }

    /// Adds what another check says of the same subject.
    pub(super) fn add(&mut self, more: Area) {
        self.findings.extend(more.findings);
        self.as_locked = self.as_locked.or(more.as_locked);
        if !self.summary.is_empty() && !more.summary.is_empty() {
            self.summary.push_str("; ");
        }
        self.summary.push_str(&more.summary);
    }
}

/// Whether any finding is an error.
pub fn has_errors(areas: &[Area]) -> bool {
    areas.iter().any(Area::has_errors)
}

/// A verdict in one line: the finding that decides it, else what is well.
pub fn line(verdict: Verdict, areas: &[Area]) -> String {
    let findings: Vec<&Finding> = areas.iter().flat_map(|area| &area.findings).collect();
    // Of several the first: a GPU without code stays so with another driver.
    let worst = findings.into_iter().rev().max_by_key(|finding| match verdict {
        Verdict::Unknown => (finding.code == Code::NotJudged, finding.severity),
        _ => (true, finding.severity),
    });
    let summary = || areas.first().map(|area| area.summary.clone()).unwrap_or_default();
    match (verdict, worst) {
        (Verdict::Ok, _) if !summary().is_empty() => summary(),
        (_, Some(finding)) => finding.message.clone(),
        (_, None) => summary(),
    }
}

/// A lock of which less than one in this many packages is installed belongs to another project or environment.
const SAME_PROJECT: usize = 4;
/// Smaller locks are not judged by their share.
const MIN_PACKAGES: usize = 8;

/// Instead of a finding for each package: that few of the locked packages are there. `None` where an environment is near to its
/// lock.
pub fn another_lock(areas: &[Area]) -> Option<String> {
    let (same, all) = areas
        .iter()
        .find_map(|area| area.as_locked)
        .filter(|(same, all)| *all >= MIN_PACKAGES && same * SAME_PROJECT < *all)?;
    Some(format!(
        "{same} of {all} locked packages are installed as locked: is this the right lock and environment?"
    ))
}

/// Whether [`another_lock`] says it for a finding.
pub fn is_folded(found: &Finding) -> bool {
    [Code::MissingPackage, Code::ExtraPackage, Code::WrongVersion, Code::WrongMetadata].contains(&found.code)
}
