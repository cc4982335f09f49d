//! SARIF 2.1.0.

use serde_json::json;

use super::with_fix;
use crate::model::finding::{Code, Finding, Severity};
use crate::verify::Area;

/// SARIF 2.1.0: every code is a rule, every finding a result at a file, by its path in the repository: at the lock, where the
/// finding is about an environment.
pub fn sarif(areas: &[Area], file: impl Fn(&Finding) -> String) -> String {
    let findings: Vec<&Finding> = areas.iter().flat_map(|area| &area.findings).collect();
    let mut codes: Vec<Code> = findings.iter().map(|f| f.code).collect();
    codes.sort_unstable();
    codes.dedup();
    let rules: Vec<_> = codes
        .iter()
        .map(|code| json!({"id": code.as_str(), "shortDescription": {"text": code.description()}}))
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

/// A question that could not be answered: a notification of the tool.
pub fn sarif_error(code: &str, message: &str) -> String {
    let notification = json!({"level": "error", "message": {"text": message}, "descriptor": {"id": code}});
    sarif_of(
        json!({
            "results": [],
            "invocations": [{"executionSuccessful": false, "toolExecutionNotifications": [notification]}],
        }),
        &[],
    )
}
