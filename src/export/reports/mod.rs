//! The findings of `verify` as CI systems and monitors read them: one file for each format.

mod github;
mod junit;
mod line;
mod prometheus;
mod sarif;

pub use github::{github, github_error};
pub use junit::{junit, junit_error};
pub use line::{line, line_error};
pub use prometheus::{PROMETHEUS_MARK, prometheus};
pub use sarif::{sarif, sarif_error};

use crate::model::finding::Finding;
use crate::model::text::clean;
use crate::verify::{Area, Verdict};

/// Longer messages are truncated.
pub const MAX_MESSAGE: usize = 1_000;

/// What a line or a metric is about.
#[derive(Debug, Clone, Copy)]
pub struct NamedAreas<'a> {
    /// The node, of several or of a host file.
    pub node: Option<&'a str>,
    /// What the findings amount to.
    pub verdict: Verdict,
    /// What was found.
    pub areas: &'a [Area],
}

/// The message and the fix, as one line of text.
fn with_fix(f: &Finding) -> String {
    let fix = f.fix.as_ref().map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
    clean(&format!("{}{fix}", f.message.lines().next().unwrap_or_default()), MAX_MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::finding::{Code, Severity};
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
        let text = junit(&areas(), "envlock verify");
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
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let described: Vec<_> = rules.iter().map(|rule| &rule["shortDescription"]["text"]).collect();
        assert_eq!(described, [Code::ExtraPackage.description(), Code::MissingFile.description()]);
        assert_eq!(Code::MissingFile.description(), "A file of a package is missing.");
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
        assert!(text.ends_with("} 17\n") && text.starts_with(PROMETHEUS_MARK));
        let cut = line_error("unknown", &"w\u{e9}rd `x` ".repeat(30));
        assert!(cut.len() <= 81 && cut.is_ascii() && cut.ends_with("...\n"), "{cut}");
        assert!(line_error("unknown", &"x".repeat(500)).len() <= 81);
    }

    #[test]
    fn annotations_escape_percent_signs() {
        assert!(github(&areas(), |_| None).contains("::warning title=envlock extra-package::100 %25"));
    }
}
