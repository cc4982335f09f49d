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

/// Prints the answer. `about`: the lock that was asked about; empty for the machine alone.
pub(super) fn show(
    verdict: Verdict,
    areas: &[Area],
    about: &str,
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
            let question = if about.is_empty() { "machine" } else { "host" };
            let labels = [("question", question), ("lock", about)];
            let metrics = reports::prometheus(&[answer], &labels, clock::now().seconds());
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
