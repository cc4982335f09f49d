//! `verify --host`: checks the lock for other machines, which host files describe.

use std::path::Path;

use serde_json::json;

use super::{output, report_formats};
use crate::cli::args::VerifyArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN};
use crate::model::finding::Finding;
use crate::model::host::Host;
use crate::registry::Registry;
use crate::session::clock;
use crate::session::error::Failure;
use crate::session::exit;
use crate::session::files;
use crate::session::host;
use crate::session::options::ReportFormat;
use crate::session::verify::{Candidates, best_on, has_other_libc, impossible};
use crate::verify::findings::{self, NotJudged};
use crate::verify::{Area, AreaKind, Verdict};

/// `verify --host` without a prefix: whether the lock runs on the machines.
pub(super) fn judge(
    path: &Path,
    candidates: &Candidates<'_>,
    ignored: &[String],
    registry: &Registry,
    args: &VerifyArgs,
    printer: &Printer,
) -> Result<u8, Failure> {
    let mut paths = Vec::new();
    if path.is_dir() {
        for entry in fs_err::read_dir(path)? {
            let file = entry?.path();
            if file.extension().is_some_and(|e| e == "toml") {
                paths.push(file);
            }
        }
        paths.sort();
    } else {
        paths.push(path.to_path_buf());
    }
    if paths.is_empty() {
        return Err(Failure::input(format!("`{}` contains no host files", path.display()))
            .hint("write one on each node with `envlock probe --save NODE.toml`"));
    }
    let format = output::format(args, printer)?;
    let (mut any_error, mut any_unknown, mut unreadable) = (false, false, false);
    let mut documents = Vec::new();
    let mut areas = Vec::new();
    let mut nodes: Vec<(String, Verdict, Area)> = Vec::new();
    for file in &paths {
        let refused = |finding: Finding| Area { findings: vec![finding], ..Area::of(AreaKind::Host) };
        let described = host::read_host_file(file).and_then(|host| host::without(host, ignored, registry));
        let is_of_libc = described.as_ref().is_ok_and(has_other_libc);
        let has_no_gpu = described.as_ref().is_ok_and(Host::has_no_gpu);
        let mut is_read = true;
        let area = match described.map(|host| host::finish(host, registry)) {
            Ok(Ok(machine)) => best_on(&machine, candidates, registry, args.require_gpu),
            Ok(Err(error)) => refused(impossible(is_of_libc, error)),
            // One file that cannot be read must not hide the verdicts on the others.
            Err(error) if paths.len() > 1 => {
                (unreadable, is_read) = (true, false);
                refused(findings::not_judged(NotJudged::HostFile(error.message), true))
            }
            Err(error) => return Err(error),
        };
        any_error |= area.has_errors();
        let verdict = match is_read {
            true => Verdict::of(&area.findings, has_no_gpu),
            false => Verdict::Unknown,
        };
        any_unknown |= verdict == Verdict::Unknown;
        if matches!(format, ReportFormat::Line | ReportFormat::Prometheus) {
            let node =
                crate::model::text::clean(&file.file_stem().unwrap_or_default().to_string_lossy(), 100);
            // Two names that are equal once cleaned are told apart by a number.
            let same = nodes
                .iter()
                .filter(|(known, ..)| *known == node || known.starts_with(&format!("{node}~")))
                .count();
            let node = if same == 0 { node } else { format!("{node}~{}", same + 1) };
            nodes.push((node, verdict, area));
            continue;
        }
        if matches!(format, ReportFormat::Github | ReportFormat::Junit | ReportFormat::Sarif) {
            let name = crate::model::text::clean(&file.display().to_string(), 200);
            let of_node = |finding: Finding| Finding {
                message: match finding.message.contains(&name) {
                    true => finding.message,
                    false => format!("{name}: {}", finding.message),
                },
                r#where: Some(name.clone()),
                ..finding
            };
            let findings = area.findings.into_iter().map(of_node).collect();
            areas.push(Area { kind: AreaKind::HostFile(name.clone()), findings, ..area });
            continue;
        }
        if format == ReportFormat::Json {
            documents.push(
                json!({ "file": file.display().to_string(), "verdict": verdict, "findings": area.findings }),
            );
        } else {
            let why = area
                .findings
                .iter()
                .max_by_key(|f| f.severity)
                .map_or(area.summary.clone(), |f| f.message.clone());
            let word = match verdict {
                Verdict::Ok => printer.paint(GOOD, "yes"),
                Verdict::Differs => printer.paint(ERROR, "no "),
                Verdict::Unknown => printer.paint(WARN, "unknown"),
            };
            let name = crate::model::text::clean(&file.display().to_string(), 200);
            // One line for each node, not wrapped, because scripts read it.
            printer.out(&format!("{word}  {name}  {why}"));
        }
    }
    let put = |text: &str| output::put(text, args, printer);
    let answers: Vec<report_formats::Answer<'_>> = nodes
        .iter()
        .map(|(node, verdict, area)| report_formats::Answer {
            node: Some(node),
            verdict: *verdict,
            areas: std::slice::from_ref(area),
        })
        .collect();
    match format {
        ReportFormat::Text => {}
        ReportFormat::Json => {
            let document = json!({
                "verdict": match (any_error, any_unknown) {
                    (true, _) => Verdict::Differs,
                    (_, true) => Verdict::Unknown,
                    _ => Verdict::Ok,
                },
                "findings": [], "smoke": null, "hosts": documents,
            });
            output::put_json(&document, args, printer)?;
        }
        ReportFormat::Github => put(&report_formats::github(&areas, |_| None))?,
        ReportFormat::Junit => put(&report_formats::junit(&areas, report_formats::VERIFY))?,
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(Path::new("."));
            put(&report_formats::sarif(&areas, |_| lock.clone()))?;
        }
        ReportFormat::Line => put(&answers.iter().map(report_formats::line).collect::<String>())?,
        ReportFormat::Prometheus => {
            put(&report_formats::prometheus(&answers, &[("question", "host")], clock::now().seconds()))?;
        }
    }
    Ok(match (unreadable, any_error) {
        (true, _) => exit::CANNOT_ANSWER,
        (_, true) => exit::NO,
        _ if any_unknown => exit::NOT_KNOWN,
        _ => exit::YES,
    })
}
