//! What `verify --host FILE` prints of a lock on described machines.

use std::path::Path;

use serde_json::json;

use super::{output, report_formats};
use crate::cli::args::VerifyArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN};
use crate::export::reports;
use crate::model::finding::Finding;
use crate::session::clock;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::ReportFormat;
use crate::session::verify::{Node, verdict};
use crate::verify::{Area, AreaKind, Verdict};

/// Prints the answer.
pub(super) fn show(nodes: &[Node], args: &VerifyArgs, printer: &Printer) -> Result<(), Failure> {
    match output::format(args, printer)? {
        ReportFormat::Text => nodes.iter().for_each(|node| line(node, printer)),
        ReportFormat::Json => output::put_json(&document(nodes), args, printer)?,
        format => output::put(&in_format(format, nodes), args, printer)?,
    }
    Ok(())
}

/// One line for each node, not wrapped, because scripts read it.
fn line(node: &Node, printer: &Printer) {
    let word = match node.verdict {
        Verdict::Ok => printer.paint(GOOD, "yes"),
        Verdict::Differs => printer.paint(ERROR, "no "),
        Verdict::Unknown => printer.paint(WARN, "unknown"),
    };
    printer.out(&format!("{word}  {}  {}", node.name, node.line()));
}

fn document(nodes: &[Node]) -> serde_json::Value {
    let of = |node: &Node| json!({ "file": node.file.display().to_string(), "verdict": node.verdict, "findings": node.findings().collect::<Vec<_>>() });
    let hosts: Vec<_> = nodes.iter().map(of).collect();
    json!({ "verdict": verdict(nodes), "findings": [], "smoke": null, "hosts": hosts })
}

/// What was found, in a format that other programs read.
fn in_format(format: ReportFormat, nodes: &[Node]) -> String {
    match format {
        ReportFormat::Github => reports::github(&areas(nodes), |_| None),
        ReportFormat::Junit => reports::junit(&areas(nodes), report_formats::VERIFY),
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(Path::new("."));
            reports::sarif(&areas(nodes), |_| lock.clone())
        }
        _ => {
            let names = distinct_names(nodes);
            let answers: Vec<reports::NamedAreas<'_>> = nodes
                .iter()
                .zip(&names)
                .map(|(node, name)| reports::NamedAreas {
                    node: Some(name),
                    verdict: node.verdict,
                    areas: &node.areas,
                })
                .collect();
            match format {
                ReportFormat::Line => answers.iter().map(reports::line).collect(),
                _ => reports::prometheus(&answers, &[("question", "host")], clock::now().seconds()),
            }
        }
    }
}

/// The names of the nodes; two that are equal once cleaned are told apart by a number.
fn distinct_names(nodes: &[Node]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for Node { stem, .. } in nodes {
        let is_same = |known: &&String| *known == stem || known.starts_with(&format!("{stem}~"));
        let same = names.iter().filter(is_same).count();
        names.push(if same == 0 { stem.clone() } else { format!("{stem}~{}", same + 1) });
    }
    names
}

/// The findings of each node, which name it.
fn areas(nodes: &[Node]) -> Vec<Area> {
    let of = |node: &Node| {
        let name = &node.name;
        let named = |finding: Finding| Finding {
            message: match finding.message.contains(name) {
                true => finding.message,
                false => format!("{name}: {}", finding.message),
            },
            r#where: Some(name.clone()),
            ..finding
        };
        let findings = node.findings().cloned().map(named).collect();
        let first = node.areas.first().map(|area| area.summary.clone());
        let summary = first.unwrap_or_default();
        Area { findings, summary, ..Area::of(AreaKind::HostFile(name.clone())) }
    };
    nodes.iter().map(of).collect()
}
