//! GitHub's workflow commands.

use std::fmt::Write as _;

use super::{MAX_MESSAGE, with_fix};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::text::clean;
use crate::verify::{Area, another_lock, in_order, is_folded};

/// Maximum number of findings that one annotation names.
const MAX_TOGETHER: usize = 10;

/// GitHub workflow commands. Percent signs are escaped; line breaks and control characters are removed.
///
/// `file`: the file of the repository that a finding is about.
pub fn github(areas: &[Area], file: impl Fn(&Finding) -> Option<String>) -> String {
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

/// A question that could not be answered: `place` is the file of the repository that it is about, with the line.
pub fn github_error(place: Option<(String, Option<usize>)>, code: &str, message: &str) -> String {
    let place = place.map(|(file, line)| {
        let line = line.map(|line| format!("line={line},")).unwrap_or_default();
        format!("file={},{line}", property(&file))
    });
    let place = place.unwrap_or_default();
    format!("::error {place}title=envlock {code}::{}\n", message.replace('%', "%25"))
}
