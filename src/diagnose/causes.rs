//! Merges the causes from rules, mechanics and `verify`: one per component, ranked.

use super::cause::{Cause, MAX_EVIDENCE};
use super::situation::Situation;
use super::{here, mechanics, rules};
use crate::model::finding::Finding;
use crate::model::fix::Fix;

/// The causes, the most probable first, and what lines say after which the program goes on.
pub(super) fn causes(situation: &Situation<'_>, found_here: &[&Finding]) -> (Vec<Cause>, Vec<Cause>) {
    let (mut out, notices) = rules::causes(situation);
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
        cause.evidence.truncate(MAX_EVIDENCE);
    }
    // Findings of `verify` were measured here: two of them are two problems.
    if found_here.is_empty() {
        doubt(&mut kept);
    }
    (kept, notices)
}

/// From this confidence on, an answer is "sure".
pub const SURE: f64 = 0.85;
/// A cause of another component from this confidence on is one that may well be meant.
const RIVAL: f64 = 0.7;

/// Where a second component fits nearly as well, the first is not sure: both are probable, in the same order.
fn doubt(causes: &mut [Cause]) {
    let [first, second, ..] = causes else { return };
    if first.confidence < SURE || second.confidence < RIVAL {
        return;
    }
    for (place, cause) in causes.iter_mut().enumerate() {
        let highest = ((SURE * 100.0).round() - (1 + place) as f64) / 100.0;
        cause.confidence = cause.confidence.min(highest);
    }
}

/// Merges a cause from a log line with one from mechanics: the line is the evidence, mechanics has the numbers.
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
    // One command is told once, whatever each cause says of it.
    let is_same = |a: &Fix, b: &Fix| match (a, b) {
        (Fix::Command { command: a, .. }, Fix::Command { command: b, .. }) => a == b,
        _ => a == b,
    };
    for fix in other.fix {
        if !known.fix.iter().any(|known| is_same(known, &fix)) {
            known.fix.push(fix);
        }
    }
}
