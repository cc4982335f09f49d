//! Conflicts where an index did not answer.

use std::collections::BTreeSet;

use super::Session;
use crate::model::conflict::{Change, Conflict, Party, WayOut};
use crate::model::level::Level;
use crate::model::only::Only;
use crate::model::request::STACK_PACKAGES;
use crate::model::solution::Answer;
use crate::session::failure::Failure;
use crate::solver::{Edit, Question};

impl Session<'_> {
    /// The conflict that PyPI alone shows, where it has nothing to do with builds of another index: a package that
    /// exists only as source is a conflict whether or not the pytorch index answers.
    pub(super) fn conflict_on_pypi_alone(
        &mut self,
        asked: &Question<'_>,
    ) -> Result<Option<Box<Conflict>>, Failure> {
        let Some(conflict) = self.on_pypi(asked) else { return Ok(None) };
        let is_of_index = |party: &Party| match party {
            Party::Index | Party::Variant | Party::Cuda | Party::Cudnn => true,
            Party::Nccl | Party::Gpu | Party::Driver => true,
            Party::Package(name) => STACK_PACKAGES.contains(&name.as_str()),
            Party::Python | Party::Glibc | Party::Platform => false,
        };
        let is_independent = !conflict.reasons.iter().flat_map(|reason| &reason.parties).any(is_of_index);
        Ok(is_independent.then_some(conflict))
    }

    /// The conflict of the request with PyPI alone, where that is a part of what the request allows.
    fn on_pypi(&mut self, asked: &Question<'_>) -> Option<Box<Conflict>> {
        let request = &asked.request;
        if request.only_index.is_some() || !request.owners.is_empty() {
            return None;
        }
        match self.solve(&asked.with(&Edit::OnlyIndex(Only::pypi()))) {
            Ok(Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _)) => Some(conflict),
            _ => None,
        }
    }

    /// A conflict whose ways out do not rest on builds of the indexes that did not answer. What works with PyPI alone works
    /// with them too.
    pub(super) fn told_without(
        &mut self,
        silent: BTreeSet<String>,
        mut conflict: Box<Conflict>,
        asked: &Question<'_>,
    ) -> Box<Conflict> {
        if silent.is_empty() {
            return conflict;
        }
        if silent.iter().all(|index| index.starts_with("pytorch/")) {
            let is_seen = |way: &WayOut| {
                let variant = way.stack.get("variant").map_or("", String::as_str);
                way.level == Level::Full || !silent.contains(&format!("pytorch/{variant}"))
            };
            conflict.would_work_if.retain(is_seen);
            conflict.resolves_all.retain(is_seen);
            for other in &mut conflict.also {
                other.would_work_if.retain(is_seen);
            }
            if let Some(of_pypi) = self.on_pypi(asked) {
                add_ways(&mut conflict, *of_pypi);
            }
        }
        conflict.silent = silent.into_iter().collect();
        conflict
    }
}

/// Adds the ways out of a conflict with fewer indexes that remove every cause.
fn add_ways(conflict: &mut Conflict, of_pypi: Conflict) {
    let more = match of_pypi.also.is_empty() {
        true => of_pypi.would_work_if,
        false => of_pypi.resolves_all,
    };
    let ways = match conflict.also.is_empty() {
        true => &mut conflict.would_work_if,
        false => &mut conflict.resolves_all,
    };
    // They are in order, and its own may ask for more than is needed.
    let own = std::mem::take(ways);
    ways.extend(more.into_iter().filter(|way| !asks_for_an_index(&way.change)));
    for way in own {
        if ways.iter().all(|other| other.change != way.change) {
            ways.push(way);
        }
    }
}

/// Whether a change allows another index, which the request allows already.
fn asks_for_an_index(change: &Change) -> bool {
    match change {
        Change::AllowIndexes(_) => true,
        Change::Together(changes) => changes.iter().any(asks_for_an_index),
        _ => false,
    }
}
