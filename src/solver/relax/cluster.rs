//! Facts of the machine that are let go of together: a cluster may be behind with its driver, its C library and its Python at
//! once.

use std::collections::BTreeSet;

use super::Relaxer;
use crate::model::conflict::Party;
use crate::solver::edit::Edit;

/// The facts that a newer machine can have otherwise. Another GPU is seldom what can be changed.
pub(in crate::solver) const REPLACEABLE: [Party; 3] = [Party::Driver, Party::Glibc, Party::Python];

impl Relaxer<'_, '_> {
    /// Offers what these facts have to be for a solution, together.
    pub(super) fn machine(&mut self, facts: &BTreeSet<Party>) {
        let others = Edit::without_parties(facts.iter().filter(|fact| **fact != Party::Driver));
        let drivers = match facts.contains(&Party::Driver) {
            true => self.newer_drivers().into_iter().map(Some).collect(),
            false => vec![None],
        };
        for driver in drivers {
            let edit = Edit::Together(driver.into_iter().chain([others.clone()]).collect());
            let Some(solution) = self.solve(&edit) else { continue };
            let changes = edit.changes(self.inputs.question, &solution);
            if let (Some(party), true) = (facts.first(), changes.len() > 1) {
                self.offer(crate::model::conflict::Change::Together(changes), party.clone(), &solution);
            }
            return;
        }
    }
}
