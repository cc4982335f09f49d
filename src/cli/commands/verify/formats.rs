//! `verify --format github|junit|sarif`: the findings as CI systems read them.

use std::fmt::Write as _;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;

use crate::model::finding::{Code, Finding, Severity};
use crate::model::text::clean;
use crate::verify::Area;

/// Longer messages are truncated.
const MAX_MESSAGE: usize = 1_000;

/// The message and the fix, as one line of text.
fn with_fix(f: &Finding) -> String {
    let fix = f.fix.as_ref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
    clean(&format!("{}{fix}", f.message.lines().next().unwrap_or_default()), MAX_MESSAGE)
}

/// GitHub workflow commands. Percent signs are escaped; line breaks and control characters are removed.
pub(super) fn github(areas: &[Area]) -> String {
    let mut out = String::new();
    for f in areas.iter().flat_map(|area| &area.findings) {
        let level = match f.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "notice",
        };
        let message = with_fix(f).replace('%', "%25");
        let _ = writeln!(out, "::{level} title=envlock {}::{message}", f.code.as_str());
    }
    out
}

/// JUnit XML: an area is a test suite. Each error is a failed test case; everything else is a passed one.
pub(super) fn junit(areas: &[Area]) -> String {
    let mut report = Report::new("envlock verify");
    for area in areas {
        let name = area.kind.to_string();
        let case = |case: &str, status| {
            let mut case = TestCase::new(case, status);
            case.set_classname(format!("envlock.{name}"));
            case
        };
        let mut suite = TestSuite::new(&name);
        if area.findings.is_empty() {
            suite.add_test_case(case(&name, TestCaseStatus::success()));
        }
        for f in &area.findings {
            let code = f.code.as_str();
            let place = f.r#where.as_ref().map(|w| format!(": {}", clean(w, 200))).unwrap_or_default();
            let title = format!("{code}{place}");
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

/// SARIF 2.1.0: every code is a rule, every finding a result at the lock.
pub(super) fn sarif(areas: &[Area]) -> String {
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
                // Findings are about an environment, which is not a file of the repository. They point to the lock.
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": crate::cli::files::LOCK}}}],
                "properties": {"where": f.r#where},
            })
        })
        .collect();
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "envlock",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": results,
        }],
    });
    format!("{document:#}\n")
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
        let text = junit(&areas());
        assert!(text.contains("tests=\"3\"") && text.contains("failures=\"1\""), "{text}");
        assert!(text.contains("a &quot;b&quot; &amp; c"), "{text}");
        assert!(text.contains("do &lt;this&gt;"), "{text}");
        assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
        assert_eq!(text.matches("<testcase").count(), 3);
        assert_eq!(text.matches("</testsuite>").count(), 2);
    }

    #[test]
    fn sarif_names_rules_and_results() {
        let json: serde_json::Value = serde_json::from_str(&sarif(&areas())).unwrap();
        let run = &json["runs"][0];
        assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), 2);
        assert_eq!(
            (&run["results"][0]["ruleId"], &run["results"][0]["level"]),
            (&"missing-file".into(), &"error".into())
        );
    }

    #[test]
    fn annotations_escape_percent_signs() {
        assert!(github(&areas()).contains("::warning title=envlock extra-package::100 %25"));
    }
}
