//! What counts as a fault in a proof only because it is not known.

use super::Explainer;
use crate::compatibility::{compiles_for, required_driver};
use crate::model::conflict::NotKnown;
use crate::solver::node::Node;
use crate::solver::tables::{BuildRow, Set};

impl Explainer<'_, '_> {
    /// Whether the proof excludes builds whose code nobody read, or a CUDA of which no row says which driver it needs.
    pub(super) fn not_known(&self) -> NotKnown {
        let p = self.problem;
        let is_unread = |gpu: usize| {
            self.leaves
                .parents_of(&Node::Gpu(gpu))
                .any(|(parent, set)| self.has_unread_code(parent, set, gpu))
        };
        NotKnown {
            code: (0..p.machine.gpus.len()).any(is_unread),
            driver: self
                .leaves
                .parents_of(&Node::Driver)
                .any(|(parent, set)| self.has_unknown_floor(parent, set)),
        }
    }

    /// Whether one of some builds of torch has code that nobody read, and that may be for a GPU.
    fn has_unread_code(&self, parent: &Node, set: &Set, gpu: usize) -> bool {
        let (p, capability) = (self.problem, self.problem.machine.gpus[gpu].1);
        let members = p.members(parent, set);
        let is_meant = |at: usize, row: &BuildRow<'_>| match parent {
            Node::Build(name) if &**name == "torch" => members.contains(&(at as u32)),
            Node::Package(name) if &**name == "torch" => members.contains(&row.version_ordinal),
            _ => false,
        };
        let rows = p.stack["torch"].builds.iter().enumerate().filter(|(at, row)| is_meant(*at, row));
        let mut torch = rows.filter_map(|(_, row)| row.torch);
        torch.any(|build| {
            let is_excluded = |cuda| compiles_for(p.registry, cuda, capability) == Some(false);
            build.targets.is_none() && build.cuda.as_ref().is_some_and(|cuda| !is_excluded(cuda))
        })
    }

    fn has_unknown_floor(&self, parent: &Node, set: &Set) -> bool {
        let p = self.problem;
        let is_unknown = |cuda: &semver::Version| {
            required_driver(p.registry, cuda, p.machine.os(), p.machine.policy).is_none()
        };
        let members = || p.members(parent, set).into_iter();
        match parent {
            Node::Variant => members().filter_map(|at| p.variants[at as usize].cuda.as_ref()).any(is_unknown),
            Node::Runtime(_) => members().any(|at| is_unknown(&p.runtimes[at as usize].build.cuda)),
            Node::Package(name) => p.cuda_of_runtimes(name, parent, set).iter().any(is_unknown),
            _ => false,
        }
    }
}
