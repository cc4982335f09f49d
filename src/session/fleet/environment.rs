//! The environment of `--prefix` on the nodes: each node verifies its own, equal answers are folded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Named;
use crate::fleet::natural;
use crate::model::text::clean;
use crate::session::failure::Failure;
use crate::slurm::Reply;
use crate::verify::Verdict;

/// Why nothing is known of a node: Slurm started nothing there, or it was still running at the limit.
pub(crate) const NO_ANSWER: &str = "it gave no answer";

/// The environment on all nodes that were asked.
pub(crate) struct OnNodes {
    pub prefix: String,
    pub classes: Vec<Class>,
}

/// Nodes that gave one answer.
pub(crate) struct Class {
    pub nodes: Vec<String>,
    pub verdict: Verdict,
    /// One line: why, or what is well.
    pub line: String,
    pub findings: Vec<Told>,
}

/// A finding as a node wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Told {
    code: String,
    severity: String,
    message: String,
    fix: Option<String>,
    r#where: Option<String>,
}

/// The JSON of `verify`, or that of an error.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    verdict: String,
    #[serde(default)]
    findings: Vec<Told>,
    error: Option<Failed>,
}

#[derive(Deserialize)]
struct Failed {
    message: String,
}

/// The command that verifies the environment on a node: against the lock, where one is named, else against itself. It reads
/// files and runs nothing of the environment.
///
/// # Errors
/// When the path of the lock cannot be made absolute.
pub(crate) fn question(program: &str, prefix: &str, locks: &[&Named]) -> Result<Vec<String>, Failure> {
    let fixed = ["verify", "--smoke", "off", "--only", "environment", "--json", "--prefix", prefix];
    let mut command = vec![program.to_owned()];
    command.extend(fixed.map(str::to_owned));
    match locks {
        [one] => {
            let path = std::path::absolute(&one.path)?;
            command.extend(["--lock".to_owned(), path.to_string_lossy().into_owned()]);
        }
        // No project of the folder that the job starts in.
        _ => command.extend(["--project".to_owned(), "/".to_owned()]),
    }
    Ok(command)
}

/// Folds the answers of the nodes. The largest class of a verdict comes first, errors before the rest.
pub(crate) fn fold(prefix: String, names: &[String], mut answers: BTreeMap<String, Reply>) -> OnNodes {
    let mut by_answer: BTreeMap<(bool, String, Vec<Told>), Class> = BTreeMap::new();
    for name in names {
        let (verdict, line, findings) = match answers.remove(name) {
            None => (Verdict::Unknown, NO_ANSWER.to_owned(), Vec::new()),
            Some(answer) => read(&answer),
        };
        let key = (verdict != Verdict::Differs, line.clone(), findings.clone());
        let class = by_answer.entry(key).or_insert(Class { nodes: Vec::new(), verdict, line, findings });
        class.nodes.push(name.clone());
    }
    let mut classes: Vec<Class> = by_answer.into_values().collect();
    for class in &mut classes {
        class.nodes.sort_by_cached_key(|name| natural(name));
    }
    classes.sort_by_key(|class| (class.verdict != Verdict::Differs, std::cmp::Reverse(class.nodes.len())));
    OnNodes { prefix, classes }
}

/// A node's answer, which is text from outside.
fn read(answer: &Reply) -> (Verdict, String, Vec<Told>) {
    /// Maximum number of findings of a node.
    const MAX_FINDINGS: usize = 200;
    let unknown = |why: String| (Verdict::Unknown, why, Vec::new());
    let document: Document = match serde_json::from_str(&answer.text) {
        Ok(document) => document,
        Err(_) => {
            let silent = "it did not answer with the JSON of `envlock verify`";
            return unknown(answer.error.clone().unwrap_or_else(|| silent.to_owned()));
        }
    };
    if let Some(error) = document.error {
        return unknown(clean(&error.message, 300));
    }
    let told = |one: Told| Told {
        code: clean(&one.code, 60),
        severity: clean(&one.severity, 20),
        message: clean(&one.message, 1_000),
        fix: one.fix.map(|fix| clean(&fix, 1_000)),
        r#where: one.r#where.map(|place| clean(&place, 1_000)),
    };
    let findings: Vec<Told> = document.findings.into_iter().take(MAX_FINDINGS).map(told).collect();
    let of = |severity: &str| findings.iter().filter(|finding| finding.severity == severity).count();
    let first = |severity: &str| findings.iter().find(|finding| finding.severity == severity);
    let more = |count: usize| if count > 1 { format!("; {} more", count - 1) } else { String::new() };
    let line = |severity: &str| first(severity).map(|one| format!("{}{}", one.message, more(of(severity))));
    match document.verdict.as_str() {
        "differs" => {
            let line = line("error").unwrap_or_else(|| "it differs".to_owned());
            (Verdict::Differs, line, findings)
        }
        "ok" => {
            let line = line("warning").unwrap_or_else(|| "clean".to_owned());
            (Verdict::Ok, line, findings)
        }
        _ => unknown("it did not say a verdict".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Reply {
        Reply { text: text.to_owned(), error: None }
    }

    #[test]
    fn equal_answers_are_one_class() {
        let bad = r#"{"verdict": "differs", "findings": [
            {"code": "x", "severity": "warning", "message": "w", "fix": null, "where": null},
            {"code": "missing-file", "severity": "error", "message": "torch: a file is missing", "fix": "f", "where": "p"},
            {"code": "x", "severity": "error", "message": "second", "fix": null, "where": null}]}"#;
        let table = [
            ("n1", r#"{"verdict": "ok", "findings": []}"#),
            ("n2", bad),
            ("n10", r#"{"verdict": "ok", "findings": []}"#),
            ("n4", r#"{"error": {"code": "input", "message": "`/v` is not an environment", "hint": null}}"#),
            ("n5", "{"),
            ("n6", r#"{"verdict": "fine"}"#),
        ];
        let names: Vec<String> =
            table.iter().map(|(name, _)| (*name).to_owned()).chain(["n7".to_owned()]).collect();
        let answers = table.iter().map(|(name, text)| ((*name).to_owned(), answer(text))).collect();
        let folded = fold("/v".to_owned(), &names, answers);
        let shown: Vec<String> = folded
            .classes
            .iter()
            .map(|class| format!("{} {:?} {}", class.nodes.join(","), class.verdict, class.line))
            .collect();
        assert_eq!(shown[0], "n2 Differs torch: a file is missing; 1 more");
        assert_eq!(shown[1], "n1,n10 Ok clean");
        assert!(shown.contains(&"n4 Unknown `/v` is not an environment".to_owned()), "{shown:?}");
        assert!(shown.contains(&"n7 Unknown it gave no answer".to_owned()), "{shown:?}");
        assert_eq!(shown.len(), 6);
    }
}
