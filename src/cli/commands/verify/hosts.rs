//! `verify --host`: checks the lock for other machines, which host files describe.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{output, report_formats};
use crate::cli::args::VerifyArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN};
use crate::model::finding::Finding;
use crate::model::host::Host;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::session::chosen_host;
use crate::session::clock;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::ReportFormat;
use crate::session::verify::{Candidates, best_on, has_other_libc, impossible};
use crate::verify::findings::{self, NotJudged};
use crate::verify::{Area, AreaKind, Verdict};

/// A machine that a host file describes, and what was found.
struct Node {
    file: PathBuf,
    /// The path of its file, for people.
    name: String,
    /// The name of its file without the extension.
    stem: String,
    area: Area,
    verdict: Verdict,
    /// Whether its file could be read.
    is_read: bool,
}

/// `verify --host` without a prefix: whether the lock runs on the machines.
pub(super) fn judge(
    path: &Path,
    candidates: &Candidates<'_>,
    ignored: &[String],
    registry: &Registry,
    args: &VerifyArgs,
    printer: &Printer,
) -> Result<u8, Failure> {
    let paths = host_files(path)?;
    let format = output::format(args, printer)?;
    let one = |file: &PathBuf| {
        let described =
            chosen_host::read_host_file(file).and_then(|host| chosen_host::without(host, ignored, registry));
        // One file that cannot be read must not hide the verdicts on the others.
        let described = match described {
            Err(error) if paths.len() == 1 => return Err(error),
            other => other,
        };
        Ok(node(file, described, candidates, registry, args.require_gpu))
    };
    let nodes: Vec<Node> = paths.iter().map(one).collect::<Result<_, _>>()?;
    match format {
        ReportFormat::Text => nodes.iter().for_each(|node| tell(node, printer)),
        ReportFormat::Json => output::put_json(&document(&nodes), args, printer)?,
        _ => output::put(&in_format(format, &nodes), args, printer)?,
    }
    let is_any = |verdict: Verdict| nodes.iter().any(|node| node.verdict == verdict);
    Ok(if nodes.iter().any(|node| !node.is_read) {
        exit::CANNOT_ANSWER
    } else if nodes.iter().any(|node| node.area.has_errors()) {
        exit::NO
    } else if is_any(Verdict::Unknown) {
        exit::NOT_KNOWN
    } else {
        exit::YES
    })
}

/// The host file, or those in a folder.
fn host_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut paths = Vec::new();
    for entry in fs_err::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|e| e == "toml") {
            paths.push(file);
        }
    }
    paths.sort();
    match paths.is_empty() {
        true => Err(Failure::input(format!("`{}` contains no host files", path.display()))
            .hint("write one on each node with `envlock probe --save NODE.toml`")),
        false => Ok(paths),
    }
}

/// Judges a machine, or says why its file cannot be read.
fn node(
    file: &Path,
    described: Result<Host, Failure>,
    candidates: &Candidates<'_>,
    registry: &Registry,
    require_gpu: bool,
) -> Node {
    let refused = |finding: Finding| Area { findings: vec![finding], ..Area::of(AreaKind::Host) };
    let is_of_libc = described.as_ref().is_ok_and(has_other_libc);
    let has_no_gpu = described.as_ref().is_ok_and(Host::has_no_gpu);
    let is_read = described.is_ok();
    let area = match described.map(|host| chosen_host::finish(host, registry)) {
        Ok(Ok(machine)) => best_on(&machine, candidates, registry, require_gpu),
        Ok(Err(error)) => refused(impossible(is_of_libc, error)),
        Err(error) => refused(findings::not_judged(NotJudged::HostFile(error.message), true)),
    };
    let verdict = match is_read {
        true => Verdict::of(&area.findings, has_no_gpu),
        false => Verdict::Unknown,
    };
    Node {
        file: file.to_path_buf(),
        name: clean(&file.display().to_string(), 200),
        stem: clean(&file.file_stem().unwrap_or_default().to_string_lossy(), 100),
        area,
        verdict,
        is_read,
    }
}

/// One line for each node, not wrapped, because scripts read it.
fn tell(node: &Node, printer: &Printer) {
    let worst = node.area.findings.iter().max_by_key(|finding| finding.severity);
    let why = worst.map_or(&node.area.summary, |finding| &finding.message);
    let word = match node.verdict {
        Verdict::Ok => printer.paint(GOOD, "yes"),
        Verdict::Differs => printer.paint(ERROR, "no "),
        Verdict::Unknown => printer.paint(WARN, "unknown"),
    };
    printer.out(&format!("{word}  {}  {why}", node.name));
}

fn document(nodes: &[Node]) -> serde_json::Value {
    let of = |node: &Node| json!({ "file": node.file.display().to_string(), "verdict": node.verdict, "findings": node.area.findings });
    let verdict = if nodes.iter().any(|node| node.area.has_errors()) {
        Verdict::Differs
    } else if nodes.iter().any(|node| node.verdict == Verdict::Unknown) {
        Verdict::Unknown
    } else {
        Verdict::Ok
    };
    let hosts: Vec<_> = nodes.iter().map(of).collect();
    json!({ "verdict": verdict, "findings": [], "smoke": null, "hosts": hosts })
}

/// What was found, in a format that other programs read.
fn in_format(format: ReportFormat, nodes: &[Node]) -> String {
    match format {
        ReportFormat::Github => report_formats::github(&areas(nodes), |_| None),
        ReportFormat::Junit => report_formats::junit(&areas(nodes), report_formats::VERIFY),
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(Path::new("."));
            report_formats::sarif(&areas(nodes), |_| lock.clone())
        }
        _ => {
            let names = distinct_names(nodes);
            let answers: Vec<report_formats::Answer<'_>> = nodes
                .iter()
                .zip(&names)
                .map(|(node, name)| report_formats::Answer {
                    node: Some(name),
                    verdict: node.verdict,
                    areas: std::slice::from_ref(&node.area),
                })
                .collect();
            match format {
                ReportFormat::Line => answers.iter().map(report_formats::line).collect(),
                _ => report_formats::prometheus(&answers, &[("question", "host")], clock::now().seconds()),
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
        let area = node.area.clone();
        let findings = area.findings.into_iter().map(named).collect();
        Area { kind: AreaKind::HostFile(name.clone()), findings, ..area }
    };
    nodes.iter().map(of).collect()
}
