//! A cause: its sentence, what fixes it, and the lines that say so.

use serde::Serialize;

use super::facts::{Event, Fact, Facts};
use super::integers;
use crate::model::component::Component;
use crate::model::fix::Fix;

/// No more lines are quoted for one cause.
pub(super) const MOST_EVIDENCE: usize = 4;

/// One cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// A word for programs.
    pub code: String,
    /// The component at fault.
    pub component: Component,
    /// How sure, between 0 and 1.
    pub confidence: f64,
    /// One sentence.
    pub message: String,
    /// What helps, the best first.
    pub fix: Vec<Fix>,
    /// The lines that say so.
    pub evidence: Vec<Evidence>,
    /// What tells it from other causes of the same lines.
    #[serde(skip)]
    pub check: Option<String>,
    /// Whether versions, capabilities and drivers gave the message.
    #[serde(skip)]
    pub has_numbers: bool,
}

/// A line of the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Its number, from 1.
    pub line: usize,
    /// Its words.
    pub text: String,
    /// What integers in it mean: `11040 is CUDA 11.4`.
    #[serde(skip)]
    pub decoded: Vec<String>,
}

impl Evidence {
    fn new(line: usize, text: &str) -> Evidence {
        Evidence { line, text: text.to_owned(), decoded: integers::explained(text) }
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
            check: None,
            has_numbers: false,
        }
    }
}

/// The lines of events, a few of them.
pub(super) fn evidence_of(events: &[&Event]) -> Vec<Evidence> {
    events.iter().take(MOST_EVIDENCE - 1).map(|event| Evidence::new(event.line, &event.text)).collect()
}

/// The lines that stated facts.
pub(super) fn evidence_of_facts(facts: &Facts, which: &[Fact]) -> Vec<Evidence> {
    let said = which.iter().filter_map(|fact| facts.said.get(fact));
    said.map(|said| Evidence::new(said.line, &said.text)).collect()
}
