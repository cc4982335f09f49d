//! What `verify` prints of this machine without an environment: whether it is sound, or whether a lock runs on it.

use std::path::Path;

use serde_json::json;

use super::report_formats;
use super::{output, report};
use crate::cli::args::VerifyArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::export::reports::{self, NamedAreas};
use crate::model::count::Count;
use crate::model::finding::{Code, Finding, Severity};
use crate::session::clock;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::ReportFormat;
use crate::verify::{Area, Verdict};

/// What was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject<'s> {
    /// This machine alone.
    Machine,
    /// Whether a lock runs on it.
    Lock(&'s str),
    /// A bundle.
    Bundle(&'s str),
}

impl Subject<'_> {
    /// The labels of metrics.
    fn labels(&self) -> [(&'static str, &str); 2] {
        match self {
            Subject::Machine => [("question", "machine"), ("lock", "")],
            Subject::Lock(name) => [("question", "host"), ("lock", name)],
            Subject::Bundle(path) => [("question", "bundle"), ("lock", path)],
        }
    }
}

/// Prints the answer.
pub(super) fn show(
    verdict: Verdict,
    areas: &[Area],
    about: Subject<'_>,
    args: &VerifyArgs,
    printer: &Printer,
) -> Result<(), Failure> {
    let format = output::format(args, printer)?;
    let answer = NamedAreas { node: None, verdict, areas };
    match format {
        ReportFormat::Text => text(verdict, areas, about, printer),
        ReportFormat::Json => output::put_json(&document(verdict, areas), args, printer)?,
        ReportFormat::Github => output::put(&reports::github(areas, |_| None), args, printer)?,
        ReportFormat::Junit => output::put(&reports::junit(areas, report_formats::VERIFY), args, printer)?,
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(Path::new("."));
            output::put(&reports::sarif(areas, |_| lock.clone()), args, printer)?
        }
        ReportFormat::Line => output::put(&reports::line(&answer), args, printer)?,
        ReportFormat::Prometheus => {
            let metrics = reports::prometheus(&[answer], &about.labels(), clock::now().seconds());
            output::put(&metrics, args, printer)?;
        }
    }
    Ok(())
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

fn text(verdict: Verdict, areas: &[Area], about: Subject<'_>, printer: &Printer) {
    let findings = || areas.iter().flat_map(|area| &area.findings);
    let errors = findings().filter(|f| f.severity == Severity::Error).count();
    let last = match verdict {
        Verdict::Ok if about == Subject::Machine => printer.paint(GOOD, "sound"),
        Verdict::Ok if matches!(about, Subject::Bundle(_)) => printer.paint(GOOD, "whole"),
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
        Subject::Machine => "this machine".to_owned(),
        Subject::Lock(name) => format!("this machine, lock {name}"),
        Subject::Bundle(path) => path.to_owned(),
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
