//! JUnit XML.

use std::collections::BTreeMap;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::MAX_MESSAGE;
use crate::model::finding::Severity;
use crate::model::text::clean;
use crate::verify::Area;

/// JUnit XML: an area is a test suite. Each error is a failed test case; everything else is a passed one. `name`: the command.
pub fn junit(areas: &[Area], name: &str) -> String {
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

/// A question that could not be answered: the error of a test case. `name`: the command.
pub fn junit_error(name: &str, code: &str, message: &str) -> String {
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
