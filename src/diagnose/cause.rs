//! A cause: its message, its fixes and the evidence.

use serde::Serialize;

use super::facts::{Event, Fact, Facts};
use super::integers;
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::text::clean;

/// The maximum number of lines quoted for one cause.
pub(super) const MAX_EVIDENCE: usize = 4;

/// The most characters of a quoted line.
pub(super) const MAX_EVIDENCE_TEXT: usize = 300;

/// One cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// The stable code, for programs.
    pub code: String,
    /// The component at fault.
    pub component: Component,
    /// Confidence, between 0 and 1.
    pub confidence: f64,
    /// One sentence.
    pub message: String,
    /// Fixes, the best first.
    pub fix: Vec<Fix>,
    /// The lines that support it.
    pub evidence: Vec<Evidence>,
    /// The packages and files that a finding is about, as a log would name them.
    #[serde(skip)]
    pub about: Vec<String>,
    /// A command that distinguishes it from other causes of the same lines.
    #[serde(skip)]
    pub check: Option<String>,
    /// Whether the message has versions, capabilities or drivers.
    #[serde(skip)]
    pub has_numbers: bool,
}

/// A line of the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Line number, from 1.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// Decoded version integers: `11040 is CUDA 11.4`.
    #[serde(skip)]
    pub decoded: Vec<String>,
}

impl Evidence {
    pub(super) fn new(line: usize, text: &str) -> Evidence {
        let text = clean(text, MAX_EVIDENCE_TEXT);
        Evidence { line, decoded: integers::explained(&text), text }
    }
}

impl Cause {
    pub(super) fn new(code: &str, component: Component, confidence: f64) -> Cause {
        Cause {
            code: code.to_owned(),
            component,
            confidence,
            message: String::new(),
            fix: Vec::new(),
            evidence: Vec::new(),
            about: Vec::new(),
            check: None,
            has_numbers: false,
        }
    }
}

/// The first few lines of events.
pub(super) fn evidence_of(events: &[&Event]) -> Vec<Evidence> {
    events.iter().take(MAX_EVIDENCE - 1).map(|event| Evidence::new(event.line, &event.text)).collect()
}

/// The lines that stated facts.
pub(super) fn evidence_of_facts(facts: &Facts, which: &[Fact]) -> Vec<Evidence> {
    let said = which.iter().filter_map(|fact| facts.said.get(fact));
    said.map(|said| Evidence::new(said.line, &said.text)).collect()
}
