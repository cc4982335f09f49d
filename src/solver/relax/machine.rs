//! Facts of the machine that are let go of together: a cluster may be behind with its driver, its C library and its Python at
//! once.

use std::collections::BTreeSet;

use super::Relaxer;
use crate::model::conflict::{Change, Party};
use crate::model::host::Host;
use crate::model::request::Request;

/// The facts that a newer machine can have otherwise. Another GPU is seldom what can be changed.
pub(in crate::solver) const REPLACEABLE: [Party; 3] = [Party::Driver, Party::Glibc, Party::Python];

/// Lets go of facts and limits: what is not known limits nothing.
pub(in crate::solver) fn let_go(facts: &BTreeSet<Party>, host: &mut Host, request: &mut Request) {
    for fact in facts {
        match fact {
            Party::Driver => host.driver = None,
            Party::Gpu => host.gpus = None,
            Party::Glibc => host.system.libc = None,
            Party::Python => request.python = None,
            Party::Cuda => request.cuda = None,
            Party::Cudnn => request.cudnn = None,
            Party::Nccl => request.nccl = None,
            Party::Variant => request.variant = None,
            Party::Index => request.only_index = None,
            Party::Platform | Party::Package(_) => {}
        }
    }
}

impl Relaxer<'_, '_> {
    /// Offers what these facts have to be for a solution, together.
    pub(super) fn machine(&mut self, facts: &BTreeSet<Party>) {
        let mut request = self.inputs.request.clone();
        let with_driver = match facts.contains(&Party::Driver) {
            true => self.newer_drivers().into_iter().map(|(floor, host)| (Some(floor), host)).collect(),
            false => vec![(None, self.inputs.host.clone())],
        };
        let others: BTreeSet<Party> = facts.iter().filter(|fact| **fact != Party::Driver).cloned().collect();
        for (driver, mut host) in with_driver {
            let_go(&others, &mut host, &mut request);
            let Some(solution) = self.solve(&host, &request) else { continue };
            let mut changes: Vec<Change> = driver.map(Change::Driver).into_iter().collect();
            if others.contains(&Party::Glibc) {
                changes.extend(solution.envelope.glibc.clone().map(Change::Glibc));
            }
            if others.contains(&Party::Python) {
                changes.push(Change::Python(solution.python));
            }
            if let (Some(party), true) = (facts.first(), changes.len() > 1) {
                self.offer(Change::Together(changes), party.clone(), &solution);
            }
            return;
        }
    }
}
