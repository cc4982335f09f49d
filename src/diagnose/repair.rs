//! Fixes by rows: how a build, a toolkit or a container with GPUs is had where the text is from.

use super::conditions::holds;
use super::facts::Event;
use super::placeholders::filled;
use super::situation::Situation;
use super::who;
use crate::model::fix::Fix;
use crate::registry::{Cited, Offer, Repair};

/// The fixes of an offer: those of the first row that applies, one about the program that failed before one about any.
pub(super) fn of(situation: &Situation<'_>, offer: Offer, events: &[&Event]) -> Vec<Fix> {
    let failed = who::failed(situation, events).map(|row| row.package.as_str());
    let rows = situation.registry.repairs().iter().filter(|row| row.offer == offer);
    let of_package = |wanted: Option<&str>| {
        let own = rows.clone().filter(move |row| row.package.as_deref() == wanted);
        let fits =
            |row: &&Cited<Repair>| row.conditions.iter().all(|condition| holds(situation, condition, events));
        let mut fixes = own.filter(fits).map(|row| {
            let texts = row.fix.iter();
            texts.filter_map(|fix| fix.map(|text| filled(situation, text, events))).collect::<Vec<Fix>>()
        });
        fixes.find(|fixes| !fixes.is_empty())
    };
    failed.and_then(|failed| of_package(Some(failed))).or_else(|| of_package(None)).unwrap_or_default()
}
