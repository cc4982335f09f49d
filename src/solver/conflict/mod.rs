//! Explains a conflict: turns pubgrub's proof into two to seven sentences.
//!
//! The leaves of the proof become a graph of parties. Leaves that state the same fact about several versions
//! are merged into one sentence. Nodes that exist only inside the solver are omitted.

mod absent;
mod available;
mod between_packages;
mod hardware;
mod not_known;
mod requests;
mod runtimes;

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::VersionSpecifiers;
use pep508_rs::VersionOrUrl;
use petgraph::graphmap::DiGraphMap;
use pubgrub::{DerivationTree, External};

use super::closure::{Unusable, plain_specifiers_contain};
use super::node::Node;
use super::problem::{Problem, UserBound};
use super::search::Proof;
use super::tables::{Set, is_stack_package};
use crate::model::conda::CONDA_FORGE;
use crate::model::conflict::{Conflict, Party, Reason, ReasonKind};
use crate::model::only::Only;
use crate::model::request::{Origin, STACK_PACKAGES, UserRequirement};
use crate::model::text::clean;

/// The maximum number of reasons in a conflict.
const MAX_REASONS: usize = 7;

/// The leaves of a proof: dependencies, missing candidates and unusable candidates.
#[derive(Default)]
struct Leaves {
    /// For each (parent, dependency), the candidates of the parent that have the dependency.
    needs: BTreeMap<(Node, Node), Set>,
    missing: BTreeMap<Node, Set>,
    unusable: BTreeMap<Node, Vec<(Set, Unusable)>>,
}

impl Leaves {
    fn collect(tree: &Proof) -> Leaves {
        let mut leaves = Leaves::default();
        let mut stack = vec![tree];
        // Subtrees of a proof can be shared; visit each shared subtree once.
        let mut seen = BTreeSet::new();
        while let Some(tree) = stack.pop() {
            match tree {
                DerivationTree::Derived(derived) => {
                    if derived.shared_id.is_some_and(|id| !seen.insert(id)) {
                        continue;
                    }
                    stack.push(&derived.cause1);
                    stack.push(&derived.cause2);
                }
                DerivationTree::External(External::FromDependencyOf(parent, set, dependency, _)) => {
                    let entry =
                        leaves.needs.entry((parent.clone(), dependency.clone())).or_insert_with(Set::empty);
                    *entry = entry.union(set);
                }
                DerivationTree::External(External::NoVersions(node, set)) => {
                    let entry = leaves.missing.entry(node.clone()).or_insert_with(Set::empty);
                    *entry = entry.union(set);
                }
                DerivationTree::External(External::Custom(node, set, why)) => {
                    leaves.unusable.entry(node.clone()).or_default().push((set.clone(), why.0.clone()));
                }
                DerivationTree::External(External::NotRoot(..)) => {}
            }
        }
        leaves
    }

    fn graph(&self) -> DiGraphMap<&Node, ()> {
        let mut graph = DiGraphMap::new();
        for (parent, dependency) in self.needs.keys() {
            graph.add_edge(parent, dependency, ());
        }
        graph
    }

    fn parents_of<'a>(&'a self, dependency: &'a Node) -> impl Iterator<Item = (&'a Node, &'a Set)> {
        self.needs.iter().filter(move |((_, d), _)| d == dependency).map(|((p, _), set)| (p, set))
    }
}

/// The order of the reasons in a conflict: facts first, the request last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// The CUDA versions that builds were built for.
    Builds,
    /// The minimum drivers of CUDA releases.
    DriverFloors,
    /// The machine's driver.
    Driver,
    /// Which GPUs have code and are supported by cuDNN.
    Gpus,
    /// The Pythons, C libraries and platforms that have wheels.
    Wheels,
    /// Requirements between packages, and available releases.
    Packages,
    /// Valid values for a pin.
    Choices,
    /// Limits of the request.
    Limits,
    /// The user's requirements.
    Requests,
    /// The allowed index.
    Index,
}

/// Collects the reasons of a conflict.
struct Explainer<'p, 'a> {
    problem: &'p Problem<'a>,
    leaves: Leaves,
    reasons: Vec<(Order, Reason)>,
}

/// The packages that a proof names, the request's among them.
pub(super) fn core(tree: &Proof) -> BTreeSet<String> {
    let leaves = Leaves::collect(tree);
    let of_needs = leaves.needs.keys().flat_map(|(from, to)| [from, to]);
    let nodes = of_needs.chain(leaves.missing.keys()).chain(leaves.unusable.keys());
    let name = |node: &Node| match node {
        Node::Build(name) | Node::Package(name) | Node::Extra(name, _) | Node::Bound(name) => {
            Some(name.to_string())
        }
        _ => None,
    };
    nodes.filter_map(name).collect()
}

/// At most as many reasons as a person reads: facts beyond the limit are dropped, never parts of the request, and last those that
/// a hint follows from.
pub(super) fn shortened(mut reasons: Vec<Reason>) -> Vec<Reason> {
    let is_fact = |reason: &Reason| !matches!(reason.kind, ReasonKind::Asked { .. });
    let is_plain = |reason: &Reason| reason.kind == ReasonKind::Fact;
    while reasons.len() > MAX_REASONS {
        let cut = reasons.iter().rposition(is_plain).or_else(|| reasons.iter().rposition(is_fact));
        let Some(cut) = cut else { break };
        reasons.remove(cut);
    }
    reasons
}

/// Whether a proof rests on requirements that are not known.
pub(super) fn rests_on_unknown(tree: &Proof) -> bool {
    let leaves = Leaves::collect(tree);
    let mut reasons = leaves.unusable.values().flatten().map(|(_, why)| why);
    reasons.any(|why| matches!(why, Unusable::UnknownMetadata(_) | Unusable::UnknownHere(_)))
}

/// Describes a proof as a conflict.
pub(super) fn describe(problem: &Problem<'_>, tree: &Proof) -> Conflict {
    let leaves = Leaves::collect(tree);
    let mut explainer = Explainer { problem, leaves, reasons: Vec::new() };
    explainer.builds();
    explainer.runtimes();
    explainer.driver();
    explainer.gpus();
    explainer.libc();
    explainer.pythons();
    explainer.packages();
    explainer.absent();
    explainer.limit_on_python();
    explainer.requests();
    explainer.finish()
}

impl<'a> Explainer<'_, 'a> {
    /// The indexes of a limit: a channel that it names has no part in what indexes have.
    fn index_words(&self, only: &Only) -> String {
        let channels = self.problem.asked.request.conda.channels.iter().cloned();
        let channels: Vec<String> = channels.chain([CONDA_FORGE.to_owned()]).collect();
        only.without(&channels).as_ref().unwrap_or(only).in_words()
    }

    /// Adds a fact.
    fn say(&mut self, order: Order, text: String, parties: &[Party], source: impl Into<String>) {
        self.add(order, ReasonKind::Fact, text, parties, source.into());
    }

    /// Adds the available releases of a package.
    fn available(&mut self, text: String, package: &str) {
        let source = match self.direct(package) {
            Some(user) => user.origin.to_string(),
            None if is_stack_package(package) => self.problem.registry.stack_label().to_owned(),
            None => "index".to_owned(),
        };
        let kind = match self.is_absent(package) {
            true => ReasonKind::NoProject {
                nearest: self.problem.registry.nearest_package(package),
                command: None,
            },
            false => ReasonKind::Available,
        };
        self.add(Order::Packages, kind, text, &[Party::package(package)], source);
    }

    /// Adds a part of the request. `bounds_above`: whether it excludes newer releases.
    fn asked(&mut self, order: Order, text: String, party: Party, origin: &Origin, bounds_above: bool) {
        let kind = ReasonKind::Asked { origin: origin.clone(), bounds_above };
        self.add(order, kind, text, &[party], origin.to_string());
    }

    fn add(&mut self, order: Order, kind: ReasonKind, text: String, parties: &[Party], source: String) {
        let reason = Reason::new(kind, text).about(parties.iter().cloned()).by(source);
        if !self.reasons.iter().any(|(_, r)| r.text == reason.text) {
            self.reasons.push((order, reason));
        }
    }

    fn involves(&self, node: &Node) -> bool {
        self.leaves.needs.keys().any(|(_, d)| d == node)
    }

    fn involves_gpu(&self) -> bool {
        self.leaves.needs.keys().any(|(_, d)| matches!(d, Node::Gpu(_)))
    }

    /// The ordinals of the versions of a stack package that the proof refers to.
    fn stack_versions(&self, name: &str) -> Vec<u32> {
        let p = self.problem;
        let table = &p.stack[name];
        let package = Node::package(name);
        let build = Node::build(name);
        let mut versions: BTreeSet<u32> = BTreeSet::new();
        for ((parent, _), set) in &self.leaves.needs {
            if *parent == package {
                versions.extend(p.members(parent, set));
            } else if *parent == build {
                versions
                    .extend(p.members(parent, set).iter().map(|i| table.builds[*i as usize].version_ordinal));
            }
        }
        // Report only versions that the request admits.
        if let Some(user) = p.asked.request.find(name)
            && self.leaves.needs.contains_key(&(Node::Root, package.clone()))
            && let Ok(Ok(list)) = p.requirement(&user.requirement)
        {
            for (node, set) in list {
                if node == package {
                    versions.retain(|v| set.contains(v));
                }
            }
        }
        for (_, specifiers) in self.bounds_on(name) {
            versions.retain(|v| plain_specifiers_contain(specifiers, &table.versions[*v as usize]));
        }
        versions.into_iter().collect()
    }

    /// The constraints of the user on a package, if the proof refers to them.
    fn bounds_on(&self, name: &str) -> impl Iterator<Item = UserBound<'a>> {
        let has_part = self
            .leaves
            .needs
            .keys()
            .any(|(_, needed)| matches!(needed, Node::Bound(own) if own.as_ref() == name));
        self.problem.bounds_on(name).filter(move |_| has_part)
    }

    /// What the user asks of a package, constraints included: `torch>=2,==2.6.0`.
    fn asked_of(&self, user: &UserRequirement) -> String {
        let mut requirement = user.requirement.clone();
        let of_user = user.specifiers().into_iter();
        let all = of_user.chain(self.bounds_on(user.name()).map(|(_, specifiers)| specifiers));
        let all: VersionSpecifiers = all.flat_map(|specifiers| specifiers.iter().cloned()).collect();
        if !all.is_empty() {
            requirement.version_or_url = Some(VersionOrUrl::VersionSpecifier(all));
        }
        clean(&requirement.to_string(), 60)
    }

    fn finish(mut self) -> Conflict {
        self.reasons.sort_by_key(|(order, _)| *order);
        let headline = self.headline();
        let not_known = self.not_known();
        let reasons = self.reasons.into_iter().map(|(_, reason)| reason);
        Conflict { not_known, ..Conflict::of(headline).because(shortened(reasons.collect())) }
    }

    /// Names the machine where it and one requirement are all that the conflict rests on.
    fn headline(&self) -> String {
        let p = self.problem;
        let driver = self.leaves.graph().contains_node(&Node::Driver);
        let is_asked = |name: &str| {
            self.leaves.needs.keys().any(|(parent, dependency)| {
                *parent == Node::Root
                    && matches!(dependency, Node::Package(n) | Node::Extra(n, _) if n.as_ref() == name)
            })
        };
        let uses_cuda = |name: &str| {
            name == "torch"
                || p.registry.frameworks().iter().any(|b| b.package == name || b.framework == name)
        };
        let asked = p
            .asked
            .request
            .requirements
            .iter()
            .filter(|u| uses_cuda(u.name()) && is_asked(u.name()))
            .max_by_key(|u| u.name() == "torch")
            .map(|user| (user.name().to_owned(), self.asked_of(user)));
        let mut gpus: Vec<String> = self
            .leaves
            .needs
            .keys()
            .filter_map(|(_, d)| match d {
                Node::Gpu(i) => p.machine.gpus.get(*i),
                _ => None,
            })
            .map(|(g, _)| g.label())
            .collect();
        gpus.sort();
        gpus.dedup();
        let gpu = match gpus.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("{} together", several.join(" and "))),
        };
        let of_source = |name: &str| match &p.asked.request.only_index {
            _ if name == "torch" && p.registry.has_stack_of_channels() => {
                format!(" of {}", p.asked.request.conda.channels.join(", "))
            }
            // Of other indexes nothing is said, whether their builds are known or not.
            Some(limit) if self.involves_party(&Party::Index) || STACK_PACKAGES.contains(&name) => {
                format!(" of {}", self.index_words(&limit.value))
            }
            _ => String::new(),
        };
        let asked = asked.filter(|(name, _)| self.rests_on_hardware_and(name));
        let asked = asked.map(|(name, text)| format!("{text}{}", of_source(&name)));
        match (asked, driver, gpu) {
            (Some(asked), true, _) => {
                let version =
                    p.machine.host.driver.as_ref().map(|d| d.version.to_string()).unwrap_or_default();
                // Where it is the GPU that needs a newer driver, another GPU runs with this one.
                let branch = hardware::of_newer_drivers(p).next().map(|(gpu, _)| gpu.label());
                match branch {
                    Some(gpu) => format!("no {asked} runs on {gpu} with driver {version}"),
                    None => format!("no {asked} runs on driver {version}"),
                }
            }
            (Some(asked), false, Some(gpu)) => format!("no {asked} runs on {gpu}"),
            _ => "the requirements cannot be satisfied".to_owned(),
        }
    }

    fn involves_party(&self, party: &Party) -> bool {
        self.reasons.iter().any(|(_, reason)| reason.parties.contains(party))
    }

    /// Whether the requirement on this package and the limit to one index are all of the request that the proof rests on, and
    /// the hardware all of the machine.
    fn rests_on_hardware_and(&self, name: &str) -> bool {
        let is_of_system = |party: &Party| matches!(party, Party::Python | Party::Glibc | Party::Platform);
        self.reasons.iter().all(|(_, reason)| match reason.kind {
            ReasonKind::Asked { .. } => {
                reason.parties == [Party::package(name)] || reason.parties == [Party::Index]
            }
            _ => !reason.parties.iter().any(is_of_system),
        })
    }
}
