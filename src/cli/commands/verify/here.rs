//! `verify --host` without a value, and `verify --only machine`: this machine, without an environment.
//!
//! Two questions are kept apart. Is the machine sound? Only that may take a node out of service. Does the lock run here? One
//! wrong lock must not empty a cluster.

use std::path::Path;

use serde_json::json;

use super::report_formats::{self, Answer};
use super::{output, report};
use crate::cli::args::VerifyArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::formats;
use crate::lockfile::{self, Target};
use crate::model::count::Count;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::registry::Registry;
use crate::session::chosen_host;
use crate::session::clock;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::lock::AnyLock;
use crate::session::options::ReportFormat;
use crate::session::verify::{Candidates, best_on, has_other_libc, impossible};
use crate::verify::{self, Area, AreaKind, Verdict};

/// `--only machine`: whether this machine is sound.
pub(super) fn soundness(args: &VerifyArgs, printer: &Printer) -> Result<u8, Failure> {
    let (state, machine) = chosen_host::soundness_facts();
    let area = verify::sound(&state, &machine, args.require_gpu);
    let verdict = Verdict::of(&area.findings, false);
    tell(verdict, &[area], "", args, printer)
}

/// `--host` without a value: whether a lock runs on this machine. `lock`: the lock and its name.
pub(super) fn judge(
    (lock, name): (&AnyLock, &str),
    ignored: &[String],
    registry: &Registry,
    args: &VerifyArgs,
    printer: &Printer,
) -> Result<u8, Failure> {
    let machine = chosen_host::without(chosen_host::seen(), ignored, registry)?;
    let candidates = match lock {
        AnyLock::Own(lock) => Candidates::of_own(lock, args.target.as_deref(), args.require_gpu)?,
        AnyLock::Foreign(lock) => Candidates::Foreign(lock, args.target.as_deref()),
    };
    let mut areas = vec![match chosen_host::finish(machine.clone(), registry) {
        Ok(machine) => best_on(&machine, &candidates, registry, args.require_gpu),
        Err(error) => {
            let finding = impossible(has_other_libc(&machine), error);
            Area { findings: vec![finding], ..Area::of(AreaKind::Host) }
        }
    }];
    if uses_gpu(&candidates, &machine, registry) {
        areas.push(verify::sound(&chosen_host::soundness_facts().0, &machine, false));
    }
    let is_described = matches!(lock, AnyLock::Own(own) if lockfile::names_targets(&own.request));
    if let (Candidates::Targets(targets), false) = (&candidates, is_described)
        && let Ok(machine) = chosen_host::finish(machine.clone(), registry)
    {
        let runs = |target: &&&Target| !verify::check_host(target, &machine, registry, false).has_errors();
        areas.extend(targets.iter().find(runs).and_then(|target| verify::machine_drift(target, &machine)));
    }
    let verdict = Verdict::of(areas.iter().flat_map(|area| &area.findings), machine.has_no_gpu());
    tell(verdict, &areas, name, args, printer)
}

/// Whether what is locked uses a GPU: where nothing does, no fault of a GPU matters.
fn uses_gpu(candidates: &Candidates<'_>, machine: &Host, registry: &Registry) -> bool {
    match candidates {
        Candidates::Targets(targets) => targets.iter().any(|target| target.uses_cuda()),
        Candidates::Foreign(lock, _) => {
            let platform = machine.system.platform;
            let all = lock.environments(platform, None);
            all.iter().any(|environment| formats::judge(environment, platform, registry).target.uses_cuda())
        }
    }
}

/// Prints the answer, and returns the exit code. `about`: the lock that was asked about; empty for the machine alone.
fn tell(
    verdict: Verdict,
    areas: &[Area],
    about: &str,
    args: &VerifyArgs,
    printer: &Printer,
) -> Result<u8, Failure> {
    let format = output::format(args, printer)?;
    let answer = Answer { node: None, verdict, areas };
    match format {
        ReportFormat::Text => text(verdict, areas, about, printer),
        ReportFormat::Json => output::put_json(&document(verdict, areas), args, printer)?,
        ReportFormat::Github => output::put(&report_formats::github(areas, |_| None), args, printer)?,
        ReportFormat::Junit => {
            output::put(&report_formats::junit(areas, report_formats::VERIFY), args, printer)?
        }
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(Path::new("."));
            output::put(&report_formats::sarif(areas, |_| lock.clone()), args, printer)?
        }
        ReportFormat::Line => output::put(&report_formats::line(&answer), args, printer)?,
        ReportFormat::Prometheus => {
            let question = if about.is_empty() { "machine" } else { "host" };
            let labels = [("question", question), ("lock", about)];
            let metrics = report_formats::prometheus(&[answer], &labels, clock::now().seconds());
            output::put(&metrics, args, printer)?;
        }
    }
    Ok(match verdict {
        Verdict::Ok => exit::YES,
        Verdict::Differs => exit::NO,
        Verdict::Unknown => exit::NOT_KNOWN,
    })
}

/// The document of `--json`. A verdict that is not known is an error too, as for every command.
fn document(verdict: Verdict, areas: &[Area]) -> serde_json::Value {
    let findings: Vec<&Finding> = areas.iter().flat_map(|area| &area.findings).collect();
    let mut document = json!({ "verdict": verdict, "findings": findings, "smoke": null, "hosts": [] });
    if let (Verdict::Unknown, Some(missing)) = (verdict, findings.iter().find(|f| f.code == Code::NotJudged))
    {
        let hint = missing.fix.as_ref().map(ToString::to_string);
        document["error"] = json!({ "code": "host", "message": missing.message, "hint": hint });
    }
    document
}

fn text(verdict: Verdict, areas: &[Area], about: &str, printer: &Printer) {
    let findings = || areas.iter().flat_map(|area| &area.findings);
    let errors = findings().filter(|f| f.severity == Severity::Error).count();
    let last = match verdict {
        Verdict::Ok if about.is_empty() => printer.paint(GOOD, "sound"),
        // Without a GPU, the driver and the GPU code were not checked.
        Verdict::Ok if findings().any(|f| f.code == Code::NotJudged) => {
            printer.paint(GOOD, "the lock runs here, as far as it was checked")
        }
        Verdict::Ok => printer.paint(GOOD, "the lock runs here"),
        Verdict::Differs => Count(errors).of("error"),
        Verdict::Unknown => printer.paint(WARN, "not known"),
    };
    if printer.quiet {
        return printer.out(&last);
    }
    printer.out(&match about {
        "" => "this machine".to_owned(),
        name => format!("this machine, lock {name}"),
    });
    for area in areas {
        let of_area = Verdict::of(&area.findings, false);
        let word = match of_area {
            Verdict::Differs => printer.paint(ERROR, "differs"),
            _ if area.findings.iter().any(|f| f.severity == Severity::Warning) => {
                printer.paint(WARN, "warns  ")
            }
            Verdict::Unknown => printer.paint(WARN, "unknown"),
            Verdict::Ok => printer.paint(GOOD, "ok     "),
        };
        printer.out(format!("  {:<10}  {word}  {}", area.kind, wrap(&area.summary, 23)).trim_end());
    }
    report::findings(printer, findings());
    printer.out("");
    printer.out(&last);
}
