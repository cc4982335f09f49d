//! The extras and dependency groups of a `pyproject.toml`, and what they include.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::part::Part;
use crate::model::text::{normalized_name, requirement_name};

/// One entry of an extra or group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A requirement.
    Line(String),
    /// `{ include-group = "test" }`.
    Include(Part),
    /// Something else, as it is written.
    Other(String),
}

impl Entry {
    /// An entry of a dependency group (PEP 735).
    pub fn of_group(value: &toml::Value) -> Entry {
        match (value.as_str(), value.get("include-group").and_then(toml::Value::as_str)) {
            (Some(line), _) => Entry::Line(line.to_owned()),
            (None, Some(group)) => Entry::Include(Part::group(group)),
            (None, None) => Entry::Other(value.to_string()),
        }
    }
}

/// The entries of each part, each with its place in the file or nothing.
pub type Lists<P> = BTreeMap<Part, Vec<(Entry, P)>>;

/// A part with what it includes.
#[derive(Debug, PartialEq, Eq)]
pub struct Expanded<'l, P> {
    /// Its requirements and those of the parts that it includes.
    pub lines: Vec<(&'l str, &'l P)>,
    /// The entries that are neither requirements nor includes.
    pub other: Vec<&'l str>,
    /// The parts that were read.
    pub read: BTreeSet<Part>,
    /// The parts that are named and that the file does not have.
    pub unknown: BTreeSet<Part>,
}

/// The requirements of parts. `own`: the project's normalized name: `demo[a,b]` among demo's own extras and groups means
/// its extras a and b.
pub fn expand<'l, P>(lists: &'l Lists<P>, own: Option<&str>, parts: Vec<Part>) -> Expanded<'l, P> {
    let mut out =
        Expanded { lines: Vec::new(), other: Vec::new(), read: BTreeSet::new(), unknown: BTreeSet::new() };
    let mut queue = parts;
    while let Some(part) = queue.pop() {
        if out.read.contains(&part) {
            continue;
        }
        let Some(entries) = lists.get(&part) else {
            out.unknown.insert(part);
            continue;
        };
        out.read.insert(part);
        for (entry, place) in entries {
            match entry {
                Entry::Line(line) if own == Some(requirement_name(line).as_str()) => {
                    queue.extend(extras_of(line).map(Part::Extra));
                }
                Entry::Line(line) => out.lines.push((line, place)),
                Entry::Include(part) => queue.push(part.clone()),
                Entry::Other(text) => out.other.push(text),
            }
        }
    }
    out
}

/// The normalized extras of a requirement: `demo[a, b]>=1`.
fn extras_of(line: &str) -> impl Iterator<Item = String> {
    let inside = line.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
    inside.into_iter().flat_map(|list| list.split(',')).map(|extra| normalized_name(extra.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_include_others() {
        let line = |text: &str| (Entry::Line(text.to_owned()), ());
        let lists: Lists<()> = BTreeMap::from([
            (Part::extra("gpu"), vec![line("cupy")]),
            (Part::extra("all"), vec![line("Demo[GPU, docs,none]"), line("rich")]),
            (Part::extra("docs"), vec![line("sphinx>=8"), line("demo[all]")]),
            (Part::group("test"), vec![line("pytest"), line("demo[gpu]")]),
            (Part::group("dev"), vec![(Entry::Include(Part::group("test")), ()), line("ruff")]),
        ]);
        let lines = |part: Part| -> Vec<&str> {
            let mut lines: Vec<&str> =
                expand(&lists, Some("demo"), vec![part]).lines.into_iter().map(|(line, ())| line).collect();
            lines.sort_unstable();
            lines
        };
        assert_eq!(lines(Part::extra("gpu")), ["cupy"]);
        assert_eq!(lines(Part::extra("docs")), ["cupy", "rich", "sphinx>=8"]);
        assert_eq!(lines(Part::group("dev")), ["cupy", "pytest", "ruff"]);
        let all = expand(&lists, Some("demo"), vec![Part::extra("all")]);
        assert_eq!(all.unknown, BTreeSet::from([Part::extra("none")]));
    }
}
