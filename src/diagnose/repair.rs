//! Fixes by rows: how a build, a toolkit, a library or a container with GPUs is had where the text is from.

use super::conditions::holds;
use super::facts::Event;
use super::place::for_setup;
use super::placeholders::filled;
use super::situation::Situation;
use super::who;
use crate::model::fix::Fix;
use crate::registry::{Cited, Offer, Repair};

/// The fixes of an offer: those of the first row that applies, one about the program that failed before one about any.
pub(super) fn of(situation: &Situation<'_>, offer: Offer, events: &[&Event]) -> Vec<Fix> {
    let of_any = || of_package(situation, offer, None, events);
    of_failed(situation, offer, events).or_else(of_any).unwrap_or_default()
}

/// Those of the first row about the program that failed.
pub(super) fn of_failed(situation: &Situation<'_>, offer: Offer, events: &[&Event]) -> Option<Vec<Fix>> {
    let failed = who::failed(situation, events)?.package.as_str();
    of_package(situation, offer, Some(failed), events)
}

fn of_package(
    situation: &Situation<'_>,
    offer: Offer,
    package: Option<&str>,
    events: &[&Event],
) -> Option<Vec<Fix>> {
    let is_meant = |row: &&Cited<Repair>| {
        row.offer == offer
            && row.package.as_deref() == package
            && row.conditions.iter().all(|condition| holds(situation, condition, events))
    };
    let fixes = |row: &Cited<Repair>| -> Vec<Fix> {
        let filled = row.fix.iter().filter_map(|fix| fix.map(|text| filled(situation, text, events)));
        filled.map(|fix| for_setup(situation, fix)).collect()
    };
    let rows = situation.registry.repairs().iter().filter(is_meant);
    rows.map(fixes).find(|fixes| !fixes.is_empty())
}
