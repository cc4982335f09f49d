//! Metrics of Prometheus, as node_exporter's textfile collector reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::NamedAreas;
use crate::model::finding::Severity;
use crate::model::text::clean;
use crate::verify::Verdict;

/// The answers as metrics, for node_exporter's textfile collector. `about`: further labels of each sample.
pub fn prometheus(answers: &[NamedAreas<'_>], about: &[(&str, &str)], seconds: i64) -> String {
    let labels = |answer: &NamedAreas<'_>, more: &[(&str, &str)]| {
        let node = answer.node.map(|node| ("node", node));
        let all = node.iter().chain(about).chain(more);
        let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", label(value))).collect();
        match all.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", all.join(",")),
        }
    };
    let mut out = String::from(PROMETHEUS_MARK);
    out.push_str("\n# TYPE envlock_verify_status gauge\n");
    for answer in answers {
        let status = match answer.verdict {
            Verdict::Ok => 0,
            Verdict::Differs => 1,
            Verdict::Unknown => 3,
        };
        let _ = writeln!(out, "envlock_verify_status{} {status}", labels(answer, &[]));
    }
    out.push_str("# HELP envlock_verify_findings Findings by code and severity.\n");
    out.push_str("# TYPE envlock_verify_findings gauge\n");
    for answer in answers {
        let mut counted: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for finding in answer.areas.iter().flat_map(|area| &area.findings) {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "info",
            };
            *counted.entry((finding.code.as_str(), severity)).or_default() += 1;
        }
        for ((code, severity), count) in counted {
            let labels = labels(answer, &[("code", code), ("severity", severity)]);
            let _ = writeln!(out, "envlock_verify_findings{labels} {count}");
        }
    }
    out.push_str("# HELP envlock_verify_timestamp_seconds When this was checked, in Unix time.\n");
    out.push_str("# TYPE envlock_verify_timestamp_seconds gauge\n");
    for answer in answers {
        let _ = writeln!(out, "envlock_verify_timestamp_seconds{} {seconds}", labels(answer, &[]));
    }
    out
}

/// The first line of a file of metrics.
pub const PROMETHEUS_MARK: &str =
    "# HELP envlock_verify_status The verdict: 0 is yes, 1 is no, 3 is not known.";

/// The value of a label.
fn label(text: &str) -> String {
    clean(text, 200).replace('\\', "\\\\").replace('"', "\\\"")
}
