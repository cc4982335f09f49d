//! Merges the causes from rules, mechanics and `verify`: one per component, ranked.

use super::cause::{Cause, MAX_EVIDENCE};
use super::situation::Situation;
use super::{here, mechanics, rules};
use crate::model::component::Component;
use crate::model::finding::Finding;
use crate::model::fix::Fix;

/// The causes, the most probable first, and what lines say after which the program goes on.
pub(super) fn causes(situation: &Situation<'_>, found_here: &[&Finding]) -> (Vec<Cause>, Vec<Cause>) {
    let (mut out, notices) = rules::causes(situation);
    out.extend(mechanics::causes(situation));
    let mut kept = ranked(out);
    beside(&mut kept, ranked(here::causes(found_here)));
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

/// One cause per component, the most probable first.
fn ranked(mut out: Vec<Cause>) -> Vec<Cause> {
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
    kept
}

/// Adds what was found here to what the text says. One that the text is about is one cause with it; the others come behind what the
/// text says, as far as that is probable: they were measured, and may have nothing to do with it.
fn beside(kept: &mut Vec<Cause>, found_here: Vec<Cause>) {
    let highest = kept.iter().map(|cause| cause.confidence).find(|confidence| *confidence >= RIVAL);
    for mut cause in found_here {
        match kept.iter_mut().find(|known| is_about(known, &cause)) {
            Some(known) => {
                if known.confidence < cause.confidence {
                    std::mem::swap(known, &mut cause);
                }
                join(known, cause);
            }
            None => {
                let below = highest.map_or(1.0, |highest| highest - 0.01);
                cause.confidence = cause.confidence.min(below);
                kept.push(cause);
            }
        }
    }
    kept.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
}

/// Whether a finding is what a text is about. Packages and libraries can be broken in many ways at once, so there the lines name
/// what the finding is about.
fn is_about(of_text: &Cause, finding: &Cause) -> bool {
    use Component::{CudaRuntime, ExtensionAbi, InstallMix, Other, PathShadowing};
    let has_many = [InstallMix, PathShadowing, CudaRuntime, ExtensionAbi, Other].contains(&finding.component);
    let is_named = || {
        let mut lines = of_text.evidence.iter();
        lines.any(|line| finding.about.iter().any(|name| is_word_of(&line.text, name)))
    };
    of_text.code == finding.code || of_text.component == finding.component && (!has_many || is_named())
}

/// Whether a line has a name as a word of its own: `torch`, and not in `torchvision`.
fn is_word_of(line: &str, name: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !before.ends_with(is_inside) && !after.starts_with(is_inside)
    })
}

/// From this confidence on, an answer is "sure".
pub const SURE: f64 = 0.85;
/// A cause of another component from this confidence on is one that may well be meant.
const RIVAL: f64 = 0.7;

/// From this confidence on, what follows from the numbers is more than a guess.
const SPECIFIC: f64 = 0.6;

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

/// Merges a cause from a log line with one from mechanics: the line is the evidence, mechanics has the numbers, and the fixes that
/// follow from them come first.
fn join(known: &mut Cause, other: Cause) {
    if known.has_numbers == other.has_numbers {
        return;
    }
    let mut others = other.fix;
    if other.has_numbers {
        known.message = other.message;
        known.has_numbers = true;
        if other.confidence >= SPECIFIC {
            std::mem::swap(&mut known.fix, &mut others);
        }
    }
    known.evidence.extend(other.evidence);
    known.check = known.check.take().or(other.check);
    // One command is told once, whatever each cause says of it.
    let is_same = |a: &Fix, b: &Fix| match (a, b) {
        (Fix::Command { command: a, .. }, Fix::Command { command: b, .. }) => a == b,
        _ => a == b,
    };
    for fix in others {
        if !known.fix.iter().any(|known| is_same(known, &fix)) {
            known.fix.push(fix);
        }
    }
}
