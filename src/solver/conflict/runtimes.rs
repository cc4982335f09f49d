//! Conflict reasons about frameworks other than torch, and about packages that install the same file.

use std::collections::BTreeSet;

use super::{Explainer, Order};
use crate::compatibility::{cuda_of_package, served};
use crate::model::conflict::Party;
use crate::model::count::Count;
use crate::model::version::cuda_short;
use crate::registry::{Cited, FrameworkBuild};
use crate::solver::explain::span;
use crate::solver::node::Node;
use crate::solver::problem::Problem;
use crate::solver::tables::{Set, is_stack_package};

impl Problem<'_> {
    /// The CUDA versions of packages that are the CUDA runtime, ascending.
    pub(super) fn cuda_of_runtimes(&self, name: &str, node: &Node, set: &Set) -> Vec<semver::Version> {
        let versions = self.versions(node, set);
        let mut cuda: Vec<_> =
            versions.iter().filter_map(|version| cuda_of_package(self.registry, name, version)).collect();
        cuda.sort();
        cuda.dedup();
        cuda
    }
}

impl Explainer<'_, '_> {
    /// Adds the CUDA versions of frameworks, GPUs without code, and packages that overwrite each other's files.
    pub(super) fn runtimes(&mut self) {
        let needs: Vec<(Node, Node, Set)> =
            self.leaves.needs.iter().map(|((a, b), set)| (a.clone(), b.clone(), set.clone())).collect();
        let decides = |node: &Node| {
            needs.iter().any(|(parent, to, _)| parent == node && matches!(to, Node::Driver | Node::Gpu(_)))
        };
        for (parent, dependency, set) in &needs {
            match (parent, dependency) {
                (Node::Package(name) | Node::Extra(name, _), Node::Runtime(_)) if decides(dependency) => {
                    self.runtime_of(parent, set, name);
                }
                (Node::Package(name), Node::Driver) => self.runtime_package(name, parent, set),
                (Node::Runtime(name), Node::Gpu(i)) => self.runtime_without_code(name, parent, set, *i),
                (Node::Package(name), Node::Gpu(i)) if !is_stack_package(name) => {
                    self.package_and_gpu(name, parent, set, *i);
                }
                _ => {}
            }
        }
        self.same_files(&needs);
    }

    /// The registry rows in a set.
    fn rows(&self, node: &Node, set: &Set) -> Vec<&Cited<FrameworkBuild>> {
        self.problem.members(node, set).iter().map(|i| self.problem.runtimes[*i as usize].build).collect()
    }

    fn runtime_of(&mut self, parent: &Node, set: &Set, name: &str) {
        let p = self.problem;
        let versions = p.versions(parent, set);
        let of_version = |version| p.registry.frameworks().iter().find(|b| b.is_of(name, version));
        let rows: Vec<&Cited<FrameworkBuild>> = versions.iter().filter_map(of_version).collect();
        let mut cuda: Vec<&semver::Version> = rows.iter().map(|row| &row.cuda).collect();
        cuda.sort();
        cuda.dedup();
        let cuda: Vec<String> = cuda.into_iter().map(cuda_short).collect();
        let Some(last) = rows.last() else { return };
        let use_ = Count(versions.len()).verb("use");
        let text = format!("{} {use_} CUDA {}", p.name_versions(parent, set), span(&cuda));
        self.say(
            Order::Builds,
            text,
            &[Party::package(name), Party::Cuda],
            p.registry.source_text(&last.source),
        );
    }

    /// That packages are the CUDA runtime itself.
    fn runtime_package(&mut self, name: &str, node: &Node, set: &Set) {
        let p = self.problem;
        let cuda = p.cuda_of_runtimes(name, node, set);
        let Some(row) = p.registry.runtime_package(name).filter(|_| !cuda.is_empty()) else { return };
        let shown: Vec<String> = cuda.iter().map(cuda_short).collect();
        let is = Count(shown.len()).is();
        let text = format!("{} {is} the runtime of CUDA {}", p.name_versions(node, set), span(&shown));
        let source = p.registry.source_text(&row.source);
        self.say(Order::Builds, text, &[Party::package(name), Party::Cuda], source);
    }

    fn runtime_without_code(&mut self, name: &str, node: &Node, set: &Set, gpu: usize) {
        let p = self.problem;
        let label = p.machine.gpus[gpu].0.label();
        let members = p.members(node, set);
        let Some(row) = members.last().copied() else { return };
        let build = p.runtimes[row as usize].build;
        let source = p.registry.source_text(&build.source);
        if p.runtime_cudnn_excludes(row, gpu)
            && let Some(floor) = build.cudnn.as_ref().and_then(|v| p.registry.cudnn_floor(v))
        {
            let cudnn = build.cudnn.as_ref().map(ToString::to_string).unwrap_or_default();
            let text = format!(
                "cuDNN {cudnn}, which {name} needs, requires compute capability >= {}; the GPU is {label}",
                floor.min
            );
            self.say(Order::Gpus, text, &[Party::Cudnn, Party::Gpu, Party::package(name)], source);
            return;
        }
        let rows = self.rows(node, set);
        let codes: BTreeSet<_> =
            rows.iter().map(|r| &r.targets).flat_map(|t| &t.sass).map(|t| t.capability).collect();
        let code = match (codes.first(), codes.last()) {
            (Some(low), Some(high)) => format!(" (code for {low} to {high})"),
            _ => String::new(),
        };
        let by_ptx = served(p.registry, &build.targets, p.machine.gpus[gpu].1).is_some();
        let text = match by_ptx {
            true => format!("{name} has only PTX for {label}{code}; the driver is too old to compile it"),
            false => format!("{name}{code} has no code for {label}"),
        };
        self.say(Order::Gpus, text, &[Party::package(name), Party::Gpu], source);
    }

    fn package_and_gpu(&mut self, name: &str, node: &Node, set: &Set, gpu: usize) {
        let p = self.problem;
        let versions = p.versions(node, set);
        let Some(floor) = versions.last().and_then(|version| p.cudnn_package_floor(name, version)) else {
            let has = Count(versions.len()).has();
            let text =
                format!("{} {has} no code for {}", p.name_versions(node, set), p.machine.gpus[gpu].0.label());
            let row = versions.last().and_then(|version| p.registry.companion(name, version));
            let source = row.map(|row| p.registry.source_text(&row.source)).unwrap_or_default();
            self.say(Order::Gpus, text, &[Party::package(name), Party::Gpu], source);
            return;
        };
        let verb = Count(versions.len()).verb("require");
        let text = format!(
            "{} {verb} compute capability >= {}; the GPU is {}",
            p.name_versions(node, set),
            floor.min,
            p.machine.gpus[gpu].0.label()
        );
        self.say(Order::Gpus, text, &[Party::Cudnn, Party::Gpu], p.registry.source_text(&floor.source));
    }

    fn same_files(&mut self, needs: &[(Node, Node, Set)]) {
        let p = self.problem;
        for (i, row) in p.registry.same_files().iter().enumerate() {
            let node = Node::SameFile(i);
            let mut names: Vec<&str> = needs
                .iter()
                .filter(|(_, to, _)| *to == node)
                .filter_map(|(parent, ..)| match parent {
                    Node::Package(name) => Some(name.as_ref()),
                    _ => None,
                })
                .collect();
            names.sort_unstable();
            names.dedup();
            if names.len() < 2 {
                continue;
            }
            let text =
                format!("{} both install {}: one would overwrite the other", names.join(" and "), row.file);
            let parties: Vec<Party> = names.iter().map(|name| Party::package(*name)).collect();
            self.say(Order::Wheels, text, &parties, p.registry.source_text(&row.source));
        }
    }
}
