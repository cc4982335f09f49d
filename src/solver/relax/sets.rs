//! Changes that work together, where no single one does.

use super::Relaxer;
use crate::model::conflict::Party;
use crate::solver::edit::{self, Edit};

/// At most this many changes are one way out: a longer list is another project.
const MAX_CHANGES: usize = 6;

impl Relaxer<'_, '_> {
    /// Offers sets of changes of the request, each as small as it can be: with one change less there is no solution.
    /// Versions and limits are let go of, then taken back one by one. The order decides which set that leaves, so it is
    /// done in both.
    pub(super) fn sets(&mut self) {
        if self.ways.cut {
            return;
        }
        let request = &self.inputs.question.request;
        let (of_proof, others): (Vec<Edit>, Vec<Edit>) = edit::versions(request)
            .into_iter()
            .chain(edit::constraints(request))
            .partition(|edit| self.core.as_ref().is_none_or(|core| core.contains(edit.party().as_str())));
        let mut edits = of_proof;
        // What an index has that may not be asked is not known.
        edits.extend(edit::limits(request).into_iter().filter(|edit| !edit.opens_indexes()));
        // What the proof rests on may not be enough: there may be other proofs.
        let narrow = edits.len();
        edits.extend(others);
        let wide = edits.len();
        // What cannot be had in any version is left out; not what the environment is for, and not all of it.
        let is_for = |edit: &Edit| matches!(edit.party(), Party::Package(name) if self.is_framework(&name));
        let left_out: Vec<Edit> =
            edit::any_version(request).into_iter().filter(|edit| !is_for(edit)).collect();
        if left_out.len() < request.requirements.len() {
            edits.extend(left_out);
        }
        let all: Vec<usize> = (0..edits.len()).collect();
        let mut ends = vec![narrow];
        ends.extend([wide, all.len()].into_iter().filter(|end| *end > narrow));
        ends.dedup();
        let mut start = None;
        for end in ends {
            match self.solves(&edits, &all[..end]) {
                Some(true) => {
                    start = Some(&all[..end]);
                    break;
                }
                Some(false) => {}
                None => return,
            }
        }
        let Some(start) = start else { return };
        let mut seen: Vec<Vec<usize>> = Vec::new();
        for is_backwards in [false, true] {
            let mut order = start.to_vec();
            if is_backwards {
                order.reverse();
            }
            let Some(set) = self.smallest(&edits, start, &order) else { return };
            if set.len() < 2 || set.len() > MAX_CHANGES || seen.contains(&set) {
                continue;
            }
            let edit = together(&edits, &set);
            let Some(solution) = self.solve(&edit) else {
                return;
            };
            if let Some(change) = edit.change(self.inputs.question, &solution) {
                self.offer(change, edit.party(), &solution);
                if let Some(way) = self.ways.found.last_mut() {
                    // That of one of the packages is not that of the set.
                    way.release = None;
                }
            }
            seen.push(set);
        }
    }

    /// Whether a set of edits helps; `None` if that is not known yet.
    fn solves(&mut self, edits: &[Edit], which: &[usize]) -> Option<bool> {
        match self.solve(&together(edits, which)) {
            Some(_) => Some(true),
            None => (!self.is_open).then_some(false),
        }
    }

    /// The edits that remain of a set that helps when all others are taken back in an order; `None` if that is not known
    /// yet.
    fn smallest(&mut self, edits: &[Edit], start: &[usize], order: &[usize]) -> Option<Vec<usize>> {
        let mut kept = start.to_vec();
        for i in order {
            let fewer: Vec<usize> = kept.iter().copied().filter(|k| k != i).collect();
            if self.solves(edits, &fewer)? {
                kept = fewer;
            }
        }
        Some(kept)
    }
}

/// Some of the edits as one.
fn together(edits: &[Edit], which: &[usize]) -> Edit {
    Edit::Together(which.iter().map(|i| edits[*i].clone()).collect())
}
