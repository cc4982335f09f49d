//! Every cause why both halves have no answer. As in the solver (`solver/causes.rs`), a conflict that is left without what the
//! causes so far rest on is one of its own; here each is one of either half, or between them.

use std::collections::BTreeSet;

use super::Session;
use crate::model::conda::{CondaSpec, name_of_spec};
use crate::model::conflict::{Change, Conflict, Party, Reason, ReasonKind, WayOut};
use crate::model::request::{Request, STACK_PACKAGES, UserRequirement};
use crate::model::solution::Answer;
use crate::registry::conda_names::framework_of;
use crate::solver::Question;

/// At most this many causes are looked for: each costs a solve of both halves.
const MAX: usize = 12;
/// At most this many sets of changes, one for each cause, are tried.
const MAX_SETS: usize = 6;

impl Session<'_> {
    /// A conflict of both halves with every cause, the changes that remove each, and those that remove all of them. What cannot
    /// be solved on the way is not told.
    pub(super) fn every_cause(&mut self, mut first: Box<Conflict>, asked: &Question<'_>) -> Box<Conflict> {
        let (causes, is_cut) = self.names_of_causes(&first, asked);
        let mut found: Vec<Conflict> = Vec::new();
        for (i, own) in causes.iter().enumerate().filter(|_| causes.len() > 1) {
            let others = causes.iter().enumerate().filter(|(k, _)| *k != i).flat_map(|(_, names)| names);
            let others = others.filter(|name| !own.contains(*name)).cloned().collect();
            // What was not looked at may have causes of its own.
            let request = match is_cut {
                true => only(&asked.request, own),
                false => without(&asked.request, &others),
            };
            let alone = asked.with_request(&request);
            let Ok(Answer::Conflict(mut conflict)) = self.both(&alone) else { continue };
            conflict.also.clear();
            conflict.resolves_all.clear();
            self.check_over_both(&mut conflict, &alone);
            self.add_ways_between(&mut conflict, &alone);
            found.push(*conflict);
        }
        let mut found = found.into_iter();
        let (Some(mut all), Some(second)) = (found.next(), found.next()) else {
            self.check_over_both(&mut first, asked);
            self.add_ways_between(&mut first, asked);
            return first;
        };
        all.also = std::iter::once(second).chain(found).collect();
        all.resolves_all = std::mem::take(&mut first.resolves_all);
        self.check_over_both(&mut all, asked);
        let together = self.ways_of_all(&all, asked);
        all.resolves_all.extend(together);
        (all.silent, all.cut) = (first.silent, all.cut || first.cut || is_cut);
        Box::new(all)
    }

    /// What each cause rests on, by the names in the request, and whether there may be more.
    fn names_of_causes(&mut self, first: &Conflict, asked: &Question<'_>) -> (Vec<BTreeSet<String>>, bool) {
        let mut causes: Vec<BTreeSet<String>> = Vec::new();
        let mut all: BTreeSet<String> = BTreeSet::new();
        let mut add = |conflict: &Conflict| {
            let names = rests_on(conflict, &asked.request);
            let is_new = names.iter().any(|name| !all.contains(name));
            if is_new {
                all.extend(names.clone());
                causes.push(names);
            }
            (is_new, all.clone())
        };
        let mut last = add(first);
        for other in &first.also {
            last = add(other);
        }
        for _ in 1..MAX {
            let (true, named) = &last else { return (causes, false) };
            let rest = without(&asked.request, named);
            if rest.requirements.is_empty() && rest.conda.specs.is_empty() {
                return (causes, false);
            }
            match self.both(&asked.with_request(&rest)) {
                Ok(Answer::Conflict(next)) => last = add(&next),
                Ok(Answer::Solution(_)) => return (causes, false),
                _ => return (causes, true),
            }
        }
        (causes, true)
    }

    /// Sets of changes, one for each cause, that both halves have an answer with.
    fn ways_of_all(&mut self, first: &Conflict, asked: &Question<'_>) -> Vec<WayOut> {
        let causes = || std::iter::once(first).chain(&first.also);
        let most = causes().map(|cause| cause.would_work_if.len()).max().unwrap_or_default();
        let mut found: Vec<WayOut> = Vec::new();
        // The first change of each, then the second: they stand in the order of what is easiest to do.
        for at in 0..most.min(MAX_SETS) {
            let of = |cause: &Conflict| {
                let ways = &cause.would_work_if;
                ways.get(at).or(ways.last()).cloned()
            };
            let Some(set) = causes().map(of).collect::<Option<Vec<WayOut>>>() else { break };
            let way = self.all_over_both(&set, asked);
            found.extend(way.filter(|way| !found.iter().any(|own| own.change == way.change)));
        }
        let is_known = |way: &WayOut| first.resolves_all.iter().any(|own| own.change == way.change);
        found.retain(|way| !is_known(way) && matches!(way.change, Change::Together(_)));
        found
    }
}

/// The requests that a conflict names: requirements and match specs, by name. `torch` stands for the whole stack.
fn rests_on(conflict: &Conflict, request: &Request) -> BTreeSet<String> {
    let is_asked = |reason: &&Reason| matches!(reason.kind, ReasonKind::Asked { .. });
    let asked = conflict.reasons.iter().filter(is_asked).flat_map(|reason| &reason.parties);
    let names = asked.filter_map(|party| match party {
        Party::Package(name) if is_of_stack(name) => Some("torch".to_owned()),
        Party::Package(name) => Some(name.to_lowercase()),
        _ => None,
    });
    let is_requested = |name: &String| {
        name == "torch"
            || request.requirements.iter().any(|user| user.name() == name)
            || request.conda.specs.iter().any(|spec| spec.name().to_lowercase() == *name)
    };
    names.filter(is_requested).collect()
}

/// The request without what has these names.
fn without(request: &Request, names: &BTreeSet<String>) -> Request {
    let mut out = kept(request, |name| !is_named(name, names));
    // What was bounded by a requirement is still one that conda brings: others may need it.
    let is_bounded = |name: &str| {
        let is_own = |user: &UserRequirement| user.name() == name;
        request.requirements.iter().chain(&request.constraints).any(is_own)
    };
    let specs = request.conda.specs.iter();
    let brought =
        specs.filter(|spec| is_named(spec.name(), names) && is_bounded(&spec.name().to_lowercase()));
    out.conda.specs.extend(brought.map(|spec| CondaSpec { text: spec.name().to_owned(), ..spec.clone() }));
    out
}

/// The request with nothing but what has these names.
fn only(request: &Request, names: &BTreeSet<String>) -> Request {
    kept(request, |name| is_named(name, names))
}

fn is_named(name: &str, names: &BTreeSet<String>) -> bool {
    names.contains(&name.to_lowercase()) || names.contains("torch") && is_of_stack(name)
}

fn kept(request: &Request, is_kept: impl Fn(&str) -> bool) -> Request {
    let mut out = request.clone();
    out.requirements.retain(|user| is_kept(user.name()));
    out.constraints.retain(|bound| is_kept(bound.name()));
    out.conda.specs.retain(|spec| is_kept(name_of_spec(&spec.text)));
    out
}

fn is_of_stack(name: &str) -> bool {
    STACK_PACKAGES.contains(&name) || framework_of(name).is_some_and(|one| one.framework == "torch")
}
