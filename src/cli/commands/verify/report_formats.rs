//! `verify --format github|junit|sarif|line|prometheus`: the findings as CI systems and monitors read them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use crate::cli::printer::Printer;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::text::clean;
use crate::session::failure::Failure;
use crate::session::options::ReportFormat;
use crate::session::{exit, files};
use crate::verify::{Area, Verdict, another_lock, in_order, is_folded};

/// Longer messages are truncated.
const MAX_MESSAGE: usize = 1_000;

/// Maximum number of findings that one annotation names.
const MAX_TOGETHER: usize = 10;

/// The message and the fix, as one line of text.
fn with_fix(f: &Finding) -> String {
    let fix = f.fix.as_ref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
    clean(&format!("{}{fix}", f.message.lines().next().unwrap_or_default()), MAX_MESSAGE)
}

/// GitHub workflow commands. Percent signs are escaped; line breaks and control characters are removed.
///
/// `file`: the file of the repository that a finding is about.
pub(super) fn github(areas: &[Area], file: impl Fn(&Finding) -> Option<String>) -> String {
    let mut out = String::new();
    // GitHub shows ten annotations of a step.
    let folded = another_lock(areas);
    if let Some(sentence) = &folded {
        let code = Code::MissingPackage.as_str();
        let _ = writeln!(out, "::error title=envlock {code}::{}", clean(sentence, MAX_MESSAGE));
    }
    // Those of one kind that one command repairs are one annotation.
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for f in in_order(areas).filter(|f| folded.is_none() || !is_folded(f)) {
        let is_like = |group: &&mut Vec<&Finding>| {
            (group[0].code, group[0].severity, &group[0].fix) == (f.code, f.severity, &f.fix)
                && f.fix.is_some()
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.push(f),
            None => groups.push(vec![f]),
        }
    }
    for group in groups {
        let f = group[0];
        let level = match f.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "notice",
        };
        let message = together(&group).replace('%', "%25");
        let place = file(f).map(|file| format!("file={},", property(&file)));
        let place = place.unwrap_or_default();
        let _ = writeln!(out, "::{level} {place}title=envlock {}::{message}", f.code.as_str());
    }
    out
}

/// Findings with one fix, as one line of text.
fn together(group: &[&Finding]) -> String {
    let [first, others @ ..] = group else { return String::new() };
    if others.is_empty() {
        return with_fix(first);
    }
    let shown: Vec<&str> =
        group.iter().take(MAX_TOGETHER).map(|f| f.message.lines().next().unwrap_or_default()).collect();
    let more = match group.len().saturating_sub(MAX_TOGETHER) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    let fix = first.fix.as_ref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
    clean(&format!("{}{more}{fix}", shown.join("; ")), MAX_MESSAGE)
}

/// A value of a workflow command's property.
fn property(text: &str) -> String {
    clean(&text.replace('%', "%25").replace(',', "%2C").replace(':', "%3A"), 400)
}

/// The name of a report of `verify`.
pub(super) const VERIFY: &str = "envlock verify";
/// The name of a report of `resolve --locked`.
pub(super) const LOCKED: &str = "envlock resolve --locked";

/// JUnit XML: an area is a test suite. Each error is a failed test case; everything else is a passed one. `name`: the command.
pub(super) fn junit(areas: &[Area], name: &str) -> String {
    let mut report = Report::new(name);
    for area in areas {
        let name = area.kind.to_string();
        let case = |case: &str, status| {
            let mut case = TestCase::new(case, status);
            case.set_classname(format!("envlock.{name}"));
            case
        };
        let mut suite = TestSuite::new(&name);
        // GitLab shows the first of several cases of one name alone.
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        if area.findings.is_empty() {
            suite.add_test_case(case(&name, TestCaseStatus::success()));
        }
        for f in &area.findings {
            let code = f.code.as_str();
            let place = f.r#where.as_ref().map(|w| format!(": {}", clean(w, 200))).unwrap_or_default();
            let mut title = format!("{code}{place}");
            let count = known.entry(title.clone()).or_default();
            *count += 1;
            if *count > 1 {
                title = format!("{title} ({count})");
            }
            let message = clean(&f.message, MAX_MESSAGE);
            suite.add_test_case(match f.severity {
                Severity::Error => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_type(code).set_message(message);
                    if let Some(fix) = &f.fix {
                        status.set_description(format!("fix: {}", clean(&fix.to_string(), MAX_MESSAGE)));
                    }
                    case(&title, status)
                }
                Severity::Warning | Severity::Info => {
                    let mut passed = case(&title, TestCaseStatus::success());
                    passed.set_system_out(message);
                    passed
                }
            });
        }
        report.add_test_suite(suite);
    }
    // Writing to a string cannot fail, and control characters were removed.
    report.to_string().unwrap_or_default()
}

/// SARIF 2.1.0: every code is a rule, every finding a result at a file, by its path in the repository: at the lock, where the
/// finding is about an environment.
pub(super) fn sarif(areas: &[Area], file: impl Fn(&Finding) -> String) -> String {
    let findings: Vec<&Finding> = areas.iter().flat_map(|area| &area.findings).collect();
    let mut codes: Vec<Code> = findings.iter().map(|f| f.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<_> = codes
        .iter()
        .map(|code| json!({"id": code.as_str(), "shortDescription": {"text": code.as_str().replace('-', " ")}}))
        .collect();
    let results: Vec<_> = findings
        .iter()
        .map(|f| {
            let level = match f.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "note",
            };
            json!({
                "ruleId": f.code.as_str(),
                "level": level,
                "message": {"text": with_fix(f)},
                // GitHub's code scanning asks for a line (rule GH1003 of the SARIF SDK).
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": file(f)},
                    "region": {"startLine": 1},
                }}],
                "properties": {"where": f.r#where},
            })
        })
        .collect();
    sarif_of(json!({"results": results}), &rules)
}

/// A SARIF document with one run.
fn sarif_of(mut run: serde_json::Value, rules: &[serde_json::Value]) -> String {
    run["tool"] = json!({"driver": {
        "name": "envlock",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    }});
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    });
    format!("{document:#}\n")
}

/// Maximum length of the line, in bytes: Node Problem Detector cuts there.
const MAX_LINE: usize = 80;

/// What a line or a metric is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedAreas<'a> {
    /// The node, of several or of a host file.
    pub node: Option<&'a str>,
    pub verdict: Verdict,
    pub areas: &'a [Area],
}

/// The answer as one ASCII line without quotes, the essential first: `envlock: driver-too-old: driver 470.57.02 is below ...`.
pub(super) fn line(answer: &NamedAreas<'_>) -> String {
    let findings: Vec<&Finding> = answer.areas.iter().flat_map(|area| &area.findings).collect();
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let node = answer.node.map(|node| format!("{}: ", short_name(node))).unwrap_or_default();
    let text = match answer.verdict {
        Verdict::Differs => {
            let first = findings.iter().find(|f| f.severity == Severity::Error);
            let more = match count(Severity::Error) {
                0 | 1 => String::new(),
                n => format!(" (+{})", n - 1),
            };
            first.map(|f| format!("{}{more}: {}", f.code.as_str(), f.message)).unwrap_or_default()
        }
        Verdict::Unknown => {
            let first = findings.iter().find(|f| f.code == Code::NotJudged);
            format!("unknown: {}", first.map(|f| f.message.as_str()).unwrap_or_default())
        }
        Verdict::Ok => {
            let warnings = match count(Severity::Warning) {
                0 => String::new(),
                1 => " (1 warning)".to_owned(),
                n => format!(" ({n} warnings)"),
            };
            let summaries = answer.areas.iter().map(|area| area.summary.as_str());
            let well: Vec<&str> = summaries.filter(|summary| !summary.is_empty()).collect();
            let separator = if well.is_empty() { "" } else { ": " };
            format!("ok{warnings}{separator}{}", well.join("; "))
        }
    };
    format!("{}\n", short_ascii(&format!("envlock: {node}{text}")))
}

/// A node's name that leaves room for the verdict.
fn short_name(node: &str) -> String {
    /// Characters of a longer name that are shown.
    const SHOWN: usize = 24;
    match node.chars().count() > SHOWN + 3 {
        true => format!("{}...", node.chars().take(SHOWN).collect::<String>()),
        false => node.to_owned(),
    }
}

/// A question that could not be answered, in a format whose readers see nothing else; `None` for the others. `folder`: the
/// project's.
pub(super) fn of_error(
    format: ReportFormat,
    error: &Failure,
    folder: &Path,
    (name, printer): (&str, &Printer),
) -> Option<String> {
    let code = error.code.as_str();
    let hint =
        error.hint.iter().map(|hint| format!(". Hint: {}", printer.in_project(hint))).collect::<String>();
    let message = clean(&format!("{}{hint}", error.message), MAX_MESSAGE);
    Some(match format {
        ReportFormat::Line => {
            let word = if error.exit == exit::NOT_KNOWN { "unknown" } else { "cannot answer" };
            format!("{}\n", short_ascii(&format!("envlock: {word}: {}", error.message)))
        }
        ReportFormat::Github => {
            let place = error.place.as_ref().map(|place| {
                let file = property(&files::path_in_repository(folder, &place.file));
                let line = place.line.map(|line| format!("line={line},")).unwrap_or_default();
                format!("file={file},{line}")
            });
            let place = place.unwrap_or_default();
            format!("::error {place}title=envlock {code}::{}\n", message.replace('%', "%25"))
        }
        ReportFormat::Junit => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_type(code).set_message(message);
            let mut case = TestCase::new("the question could be answered", status);
            case.set_classname(name.replace(' ', "."));
            let mut suite = TestSuite::new(name);
            suite.add_test_case(case);
            let mut report = Report::new(name);
            report.add_test_suite(suite);
            report.to_string().unwrap_or_default()
        }
        ReportFormat::Sarif => {
            let notification =
                json!({"level": "error", "message": {"text": message}, "descriptor": {"id": code}});
            sarif_of(
                json!({
                    "results": [],
                    "invocations": [{"executionSuccessful": false, "toolExecutionNotifications": [notification]}],
                }),
                &[],
            )
        }
        ReportFormat::Json => format!("{:#}\n", error.document()),
        ReportFormat::Text | ReportFormat::Prometheus => return None,
    })
}

/// A text as ASCII without quotes and control characters, cut at a word.
fn short_ascii(text: &str) -> String {
    let plain = clean(text, MAX_MESSAGE).split_whitespace().collect::<Vec<_>>().join(" ");
    let plain: String = plain
        .chars()
        .filter(|c| !['"', '\'', '`', '\\', '$'].contains(c))
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
        .collect();
    if plain.len() <= MAX_LINE {
        return plain;
    }
    let cut = &plain[..MAX_LINE - "...".len()];
    let cut = cut.rsplit_once(' ').map_or(cut, |(whole, _)| whole);
    format!("{}...", cut.trim_end_matches([',', ';', ':', ' ']))
}

/// The answers as metrics, for node_exporter's textfile collector. `about`: further labels of each sample.
pub(super) fn prometheus(answers: &[NamedAreas<'_>], about: &[(&str, &str)], seconds: i64) -> String {
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
const PROMETHEUS_MARK: &str = "# HELP envlock_verify_status The verdict: 0 is yes, 1 is no, 3 is not known.";

/// The value of a label.
fn label(text: &str) -> String {
    clean(text, 200).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Whether a file has what envlock writes in this format.
pub(super) fn is_own(format: ReportFormat, text: &str) -> bool {
    match format {
        ReportFormat::Text => false,
        ReportFormat::Json => {
            serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value["findings"].is_array())
        }
        ReportFormat::Junit => text.contains("<testsuites name=\"envlock verify\""),
        ReportFormat::Sarif => text.contains("\"name\": \"envlock\""),
        ReportFormat::Github => {
            text.lines().all(|line| line.starts_with("::") && line.contains(" title=envlock "))
        }
        ReportFormat::Line => text.lines().all(|line| line.starts_with("envlock: ")),
        ReportFormat::Prometheus => text.starts_with(PROMETHEUS_MARK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fix::Fix;
    use crate::verify::AreaKind;

    fn areas() -> Vec<Area> {
        let finding = |code, severity, message: &str| Finding {
            code,
            severity,
            message: message.to_owned(),
            fix: Some(Fix::advice("do <this>")),
            r#where: Some("a\u{7}b".to_owned()),
        };
        vec![
            Area { summary: "fine".into(), ..Area::of(AreaKind::Host) },
            Area {
                findings: vec![
                    finding(Code::MissingFile, Severity::Error, "a \"b\" & c\u{1b}[31m"),
                    finding(Code::ExtraPackage, Severity::Warning, "100 %"),
                ],
                ..Area::of(AreaKind::Files)
            },
        ]
    }

    #[test]
    fn xml_is_well_formed_whatever_a_message_holds() {
        let text = junit(&areas(), VERIFY);
        assert!(text.contains("tests=\"3\"") && text.contains("failures=\"1\""), "{text}");
        assert!(text.contains("a &quot;b&quot; &amp; c"), "{text}");
        assert!(text.contains("do &lt;this&gt;"), "{text}");
        assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
        assert_eq!(text.matches("<testcase").count(), 3);
        assert_eq!(text.matches("</testsuite>").count(), 2);
    }

    #[test]
    fn sarif_names_rules_and_results() {
        let json: serde_json::Value =
            serde_json::from_str(&sarif(&areas(), |_| "envlock.lock".to_owned())).unwrap();
        let run = &json["runs"][0];
        assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), 2);
        assert_eq!(
            (&run["results"][0]["ruleId"], &run["results"][0]["level"]),
            (&"missing-file".into(), &"error".into())
        );
    }

    #[test]
    fn lines_are_short_ascii_and_metrics_are_escaped() {
        let all = areas();
        let answer = NamedAreas { node: None, verdict: Verdict::Differs, areas: &all };
        assert_eq!(line(&answer), "envlock: missing-file: a b & c[31m\n");
        let named = NamedAreas { node: Some("n1"), verdict: Verdict::Ok, areas: &all };
        assert_eq!(line(&named), "envlock: n1: ok (1 warning): fine\n");
        let text = prometheus(&[named], &[("lock", "a\"\\b\n")], 17);
        assert!(text.contains("envlock_verify_status{node=\"n1\",lock=\"a\\\"\\\\b\"} 0\n"), "{text}");
        assert!(text.ends_with("} 17\n") && is_own(ReportFormat::Prometheus, &text));
        let long = format!("envlock: {}", "w\u{e9}rd `x` ".repeat(30));
        let cut = short_ascii(&long);
        assert!(cut.len() <= MAX_LINE && cut.is_ascii() && cut.ends_with("..."), "{cut}");
        assert!(short_ascii(&"x".repeat(500)).len() <= MAX_LINE);
    }

    #[test]
    fn annotations_escape_percent_signs() {
        assert!(github(&areas(), |_| None).contains("::warning title=envlock extra-package::100 %25"));
    }
}
