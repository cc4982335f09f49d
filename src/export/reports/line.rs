//! One line of ASCII, for monitors that show no more.

use super::{MAX_MESSAGE, NamedAreas};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::text::clean;
use crate::verify::Verdict;

/// Maximum length of the line, in bytes: Node Problem Detector cuts there.
const MAX_LINE: usize = 80;

/// The answer as one ASCII line without quotes, the essential first: `envlock: driver-too-old: driver 470.57.02 is below ...`.
pub fn line(answer: &NamedAreas<'_>) -> String {
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

/// A question that could not be answered. `word`: `unknown`, `cannot answer`.
pub fn line_error(word: &str, message: &str) -> String {
    format!("{}\n", short_ascii(&format!("envlock: {word}: {message}")))
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
