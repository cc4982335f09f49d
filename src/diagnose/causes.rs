//! Causes: those of rules and mechanics together, one per component, ranked.

use serde::Serialize;

use super::facts::{Event, Fact, Facts};
use super::integers;
use super::situation::Situation;
use super::{here, mechanics, rules};
use crate::model::finding::Finding;

/// No more lines are quoted for one cause.
const MOST_EVIDENCE: usize = 4;

/// One cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// A word for programs.
    pub code: String,
    /// The component at fault.
    pub component: String,
    /// How sure, between 0 and 1.
    pub confidence: f64,
    /// One sentence.
    pub message: String,
    /// Commands that help, the best first.
    pub fix: Vec<String>,
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
    pub(super) fn new(code: &str, component: &str, confidence: f64) -> Cause {
        Cause {
            code: code.to_owned(),
            component: component.to_owned(),
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

/// The causes, the most probable first.
pub(super) fn causes(situation: &Situation<'_>, found_here: &[&Finding]) -> Vec<Cause> {
    let mut out = rules::causes(situation);
    out.extend(mechanics::causes(situation));
    out.extend(here::causes(found_here));
    let line = |cause: &Cause| cause.evidence.first().map_or(usize::MAX, |evidence| evidence.line);
    out.sort_by(|a, b| {
        let by_line = || line(a).cmp(&line(b)).then_with(|| a.code.cmp(&b.code));
        b.confidence.total_cmp(&a.confidence).then_with(by_line)
    });
    let mut kept: Vec<Cause> = Vec::new();
    for cause in out {
        match kept.iter_mut().find(|known| known.component == cause.component) {
            Some(known) => join(known, cause),
            None => kept.push(cause),
        }
    }
    for cause in &mut kept {
        cause.evidence.sort_by_key(|evidence| evidence.line);
        cause.evidence.dedup_by_key(|evidence| evidence.line);
        cause.evidence.truncate(MOST_EVIDENCE);
    }
    kept
}

/// Told by a line and by mechanics it is one cause: the line is its evidence, the mechanics know the numbers.
fn join(known: &mut Cause, other: Cause) {
    if known.has_numbers == other.has_numbers {
        return;
    }
    if other.has_numbers {
        known.message = other.message;
        known.has_numbers = true;
    }
    known.evidence.extend(other.evidence);
    known.check = known.check.take().or(other.check);
    for fix in other.fix {
        if !known.fix.contains(&fix) {
            known.fix.push(fix);
        }
    }
}
