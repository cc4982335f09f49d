//! From pubgrub's proof to two to seven sentences.
//!
//! The leaves of the proof become a graph of parties; leaves that say the same of several versions
//! are one sentence, and structure that only exists inside the solver is left out.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::graphmap::DiGraphMap;
use pubgrub::{DerivationTree, External};

use super::closure::Unusable;
use super::explain::span;
use super::node::Node;
use super::search::Proof;
use super::tables::{Problem, Set, is_stack_package};
use crate::model::solution::{Conflict, Reason};
use crate::model::version::cuda_short;

/// No conflict is told in more sentences than this.
const MOST_REASONS: usize = 7;

/// The leaves of a proof: who needs whom, which candidates do not exist, which are unusable.
#[derive(Default)]
struct Leaves {
    /// For each (parent, dependency) the parent's candidates concerned.
    needs: BTreeMap<(Node, Node), Set>,
    missing: BTreeMap<Node, Set>,
    unusable: BTreeMap<Node, Vec<(Set, Unusable)>>,
}

impl Leaves {
    fn collect(tree: &Proof) -> Leaves {
        let mut leaves = Leaves::default();
        let mut stack = vec![tree];
        // A proof is a graph with shared parts; each shared part is walked once.
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

/// The sentences being gathered, in the order they are told.
struct Telling<'p, 'a> {
    problem: &'p Problem<'a>,
    leaves: Leaves,
    reasons: Vec<(u8, Reason)>,
}

/// Tells a proof.
pub(super) fn describe(problem: &Problem<'_>, tree: &Proof) -> Conflict {
    let leaves = Leaves::collect(tree);
    let mut telling = Telling { problem, leaves, reasons: Vec::new() };
    telling.builds();
    telling.driver();
    telling.gpus();
    telling.libc();
    telling.pythons();
    telling.packages();
    telling.absent();
    telling.requests();
    telling.finish()
}

impl Telling<'_, '_> {
    fn say(&mut self, order: u8, text: String, parties: &[&str], source: impl Into<String>) {
        let reason = Reason {
            text,
            parties: parties.iter().map(|p| (*p).to_owned()).collect(),
            source: source.into(),
        };
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

    /// The versions of a stack package that the proof speaks of.
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
        // A request narrows what is worth telling.
        if let Some(user) = p.request.find(name)
            && self.leaves.needs.contains_key(&(Node::Root, package.clone()))
            && let Ok(Ok(list)) = p.requirement(&user.requirement)
        {
            for (node, set) in list {
                if node == package {
                    versions.retain(|v| set.contains(v));
                }
            }
        }
        versions.into_iter().collect()
    }

    /// What the builds of torch were made for, and where they are.
    fn builds(&mut self) {
        let p = self.problem;
        for name in ["torch", "torchvision", "torchaudio"] {
            let versions = self.stack_versions(name);
            if versions.is_empty() {
                continue;
            }
            let table = &p.stack[name];
            let of_flavour = self.leaves.needs.keys().any(|(parent, d)| {
                *d == Node::Variant && (*parent == Node::package(name) || *parent == Node::build(name))
            });
            if !of_flavour && !self.involves(&Node::Driver) {
                continue;
            }
            let by_index = self.involves(&Node::StackIndex) && p.request.only_index.is_some();
            let builds: Vec<_> = table
                .builds
                .iter()
                .filter(|b| versions.contains(&b.version_ordinal))
                .filter(|b| !by_index || p.index_allowed(&p.indexes[b.index as usize]))
                .filter(|b| p.variants[b.variant as usize].cuda.is_some())
                .collect();
            if builds.is_empty() {
                continue;
            }
            let mut cuda: Vec<&semver::Version> =
                builds.iter().filter_map(|b| p.variants[b.variant as usize].cuda.as_ref()).collect();
            cuda.sort();
            cuda.dedup();
            let cuda: Vec<String> = cuda.into_iter().map(cuda_short).collect();
            let mut shown: Vec<u32> = builds.iter().map(|b| b.version_ordinal).collect();
            shown.sort_unstable();
            shown.dedup();
            let shown: Vec<_> = shown.iter().map(|v| &table.versions[*v as usize]).collect();
            let place = match (&p.request.only_index, by_index) {
                (Some(only), true) if only.value == "pypi" => " on PyPI".to_owned(),
                (Some(only), true) => format!(" on the index {}", only.value),
                _ => String::new(),
            };
            let verb = if shown.len() == 1 { "is" } else { "are" };
            let source = builds.last().map(|b| p.registry.source_text(&b.source)).unwrap_or_default();
            self.say(
                1,
                format!("{name} {}{place} {verb} built for CUDA {}", span(&shown), span(&cuda)),
                &[name, "cuda"],
                source,
            );
        }
    }

    fn driver(&mut self) {
        let p = self.problem;
        let set = self
            .leaves
            .parents_of(&Node::Driver)
            .filter(|(parent, _)| **parent == Node::Variant)
            .fold(Set::empty(), |a, (_, s)| a.union(s));
        if set.is_empty() {
            return;
        }
        let (text, source) = p.driver_floors(&set);
        let native = if p.request.native_driver_only.is_some() { " for native mode" } else { "" };
        self.say(2, format!("{text}{native}"), &["cuda", "driver"], source);
        for (gpu, capability) in &p.gpus {
            if let (Some(driver), Some(a)) = (&p.host.driver, p.registry.architecture(*capability))
                && let Some(first) = a.first_branch
                && driver.version.major() < first
            {
                let text = format!("{} is known to drivers from branch {first} on (inferred)", gpu.label());
                self.say(2, text, &["gpu", "driver"], p.registry.source_text(&a.source));
            }
        }
        if let Some(driver) = &p.host.driver {
            self.say(3, format!("the driver is {}", driver.version), &["driver"], driver.found_by.clone());
        }
        if let Some(limit) = &p.request.native_driver_only {
            self.say(
                8,
                "you refuse compatibility mode (driver-policy = \"native\")".to_owned(),
                &["driver"],
                limit.origin.clone(),
            );
        }
    }

    fn gpus(&mut self) {
        let p = self.problem;
        for (i, (gpu, capability)) in p.gpus.iter().enumerate() {
            let node = Node::Gpu(i);
            let parents: Vec<(Node, Set)> =
                self.leaves.parents_of(&node).map(|(n, s)| (n.clone(), s.clone())).collect();
            for (parent, set) in parents {
                match &parent {
                    Node::Variant => {
                        let cuda = p.cuda_versions(&set);
                        let (floors, source) = p.driver_floors(&set);
                        let last = p
                            .registry
                            .architecture(*capability)
                            .and_then(|a| a.last_branch)
                            .map(|b| format!("; {} ends with driver branch {b}", gpu.label()))
                            .unwrap_or_default();
                        self.say(
                            4,
                            format!("{floors}{last} (CUDA {})", span(&cuda)),
                            &["cuda", "gpu", "driver"],
                            source,
                        );
                    }
                    Node::Cudnn => {
                        let versions: Vec<_> = p
                            .members(&parent, &set)
                            .iter()
                            .filter_map(|i| p.cudnn[*i as usize].clone())
                            .collect();
                        let floor = versions.last().and_then(|v| p.registry.cudnn_floor(v));
                        if let Some(floor) = floor {
                            self.say(
                                4,
                                format!(
                                    "cuDNN {} serves GPUs from {} on; {} is below",
                                    span(&versions),
                                    floor.min,
                                    gpu.label()
                                ),
                                &["cudnn", "gpu"],
                                p.registry.source_text(&floor.source),
                            );
                        }
                    }
                    Node::Build(name) | Node::Package(name) => self.no_code(name, i),
                    _ => {}
                }
            }
        }
    }

    /// That builds of a stack package have no code for a GPU, and which code they have.
    fn no_code(&mut self, name: &str, gpu_index: usize) {
        let p = self.problem;
        let gpu = p.gpus[gpu_index].0;
        let versions = self.stack_versions(name);
        let table = &p.stack[name];
        let excluded: Vec<_> = table
            .builds
            .iter()
            .filter(|b| versions.contains(&b.version_ordinal))
            .filter(|b| p.variants[b.variant as usize].cuda.is_some() && p.gpu_excludes(b, gpu_index))
            .filter(|b| p.request.only_index.is_none() || p.index_allowed(&p.indexes[b.index as usize]))
            .collect();
        let known: Vec<_> = excluded.iter().filter(|b| b.targets.is_some()).collect();
        let Some(newest) = known.last() else {
            if let Some(b) = excluded.last() {
                self.say(
                    4,
                    format!(
                        "the code targets of {name} {} {} are unknown",
                        b.version, p.variants[b.variant as usize].name
                    ),
                    &[name, "gpu"],
                    p.registry.source_text(&b.source),
                );
            }
            return;
        };
        let mut shown: Vec<_> = known.iter().map(|b| b.version.clone()).collect();
        shown.sort();
        shown.dedup();
        let lowest =
            known.iter().filter_map(|b| b.targets.as_ref()).flat_map(|t| &t.sass).map(|t| t.capability).min();
        let highest =
            known.iter().filter_map(|b| b.targets.as_ref()).flat_map(|t| &t.sass).map(|t| t.capability).max();
        let code = match (lowest, highest) {
            (Some(low), Some(high)) => format!(" (code for {low} to {high})"),
            _ => String::new(),
        };
        let have = if shown.len() == 1 { "has" } else { "have" };
        self.say(
            4,
            format!("{name} {}{code} {have} no code for {}", span(&shown), gpu.label()),
            &[name, "gpu"],
            p.registry.source_text(&newest.source),
        );
    }

    fn libc(&mut self) {
        let p = self.problem;
        let parents: Vec<(Node, Set)> =
            self.leaves.parents_of(&Node::Glibc).map(|(n, s)| (n.clone(), s.clone())).collect();
        if parents.is_empty() {
            return;
        }
        for (parent, set) in parents {
            if let Some(party) = parent.party() {
                self.say(
                    5,
                    format!("{} needs a newer C library", p.name_versions(&parent, &set)),
                    &[&party, "glibc"],
                    "wheel tags",
                );
            }
        }
        if let Some(libc) = &p.libc {
            self.say(6, format!("the machine has {libc}"), &["glibc"], p.host.system.found_by.clone());
        }
    }

    fn pythons(&mut self) {
        let p = self.problem;
        let parents: Vec<(Node, Set)> =
            self.leaves.parents_of(&Node::Python).map(|(n, s)| (n.clone(), s.clone())).collect();
        let mut told = BTreeSet::new();
        for (parent, set) in parents {
            let Some(party) = parent.party() else { continue };
            if !told.insert(party.clone()) {
                continue;
            }
            let versions = p.versions(&parent, &set);
            let all: BTreeSet<String> = match &parent {
                Node::Build(name) | Node::Package(name) if is_stack_package(name) => p.stack[name.as_ref()]
                    .builds
                    .iter()
                    .filter(|b| versions.contains(&b.version))
                    .filter_map(|b| b.torch?.pythons.clone())
                    .flatten()
                    .map(|minor| format!("{minor:02}"))
                    .collect(),
                _ => BTreeSet::new(),
            };
            let series: Vec<String> =
                all.iter().map(|m| format!("3.{}", m.trim_start_matches('0'))).collect();
            let has = if versions.len() == 1 { "has" } else { "have" };
            let text = if series.is_empty() {
                format!("{} {has} no wheel for Python {}", p.name_versions(&parent, &set), span(&p.pythons))
            } else {
                format!("{} {has} wheels for Python {}", p.name_versions(&parent, &set), span(&series))
            };
            self.say(5, text, &[&party, "python"], "wheel tags");
        }
        if self.involves(&Node::Python)
            && let Some(python) = &p.request.python
        {
            self.say(8, format!("you ask for Python {}", python.text), &["python"], python.origin.clone());
        }
    }

    /// Requirements between packages, the user's bounds, advisories.
    fn packages(&mut self) {
        let p = self.problem;
        let pairs: Vec<(Node, Node, Set)> =
            self.leaves.needs.iter().map(|((a, b), s)| (a.clone(), b.clone(), s.clone())).collect();
        for (parent, dependency, set) in pairs {
            let (Node::Build(from) | Node::Package(from) | Node::Extra(from, _)) = &parent else {
                continue;
            };
            match &dependency {
                Node::Package(to) | Node::Extra(to, _) if to != from => {
                    let text = self.requirement_text(&parent, &set, to);
                    let verb = if p.versions(&parent, &set).len() == 1 { "needs" } else { "need" };
                    self.say(
                        6,
                        format!("{} {verb} {text}", p.name_versions(&parent, &set)),
                        &[from, to],
                        "its metadata",
                    );
                }
                Node::Bound(_) => {
                    for (bound, specifiers) in p.bounds_on(from) {
                        self.say(
                            8,
                            format!("you limit {from} to {specifiers}"),
                            &[from],
                            bound.origin.clone(),
                        );
                    }
                }
                Node::Advisory(i) => {
                    let advisory = p.advisories[*i];
                    let text = format!("{} (so it needs {})", advisory.text, p.advisory_requirement(*i));
                    self.say(6, text, &[&advisory.package, from], p.registry.source_text(&advisory.source));
                }
                Node::Cudnn => {
                    let versions: BTreeSet<_> = p
                        .members(&parent, &set)
                        .iter()
                        .filter_map(|i| {
                            p.stack.get(from.as_ref())?.builds.get(*i as usize)?.torch?.cudnn.clone()
                        })
                        .collect();
                    let versions: Vec<_> = versions.into_iter().collect();
                    if !versions.is_empty() && !self.involves_gpu() {
                        self.say(
                            4,
                            format!(
                                "{} are built with cuDNN {}",
                                p.name_versions(&parent, &set),
                                span(&versions)
                            ),
                            &[from, "cudnn"],
                            "registry",
                        );
                    }
                }
                _ => {}
            }
        }
    }

    /// The requirement as the newest version of a set writes it.
    fn requirement_text(&self, parent: &Node, set: &Set, to: &str) -> String {
        let p = self.problem;
        let newest = p.members(parent, set).last().copied();
        let text = match (parent, newest) {
            (Node::Build(name), Some(i)) => p.stack[name.as_ref()].builds[i as usize]
                .torch_requirement
                .as_ref()
                .filter(|_| to == "torch")
                .map(|r| format!("torch {r}")),
            (Node::Package(name) | Node::Extra(name, _), Some(i)) if !is_stack_package(name) => {
                let candidates = p.candidates(name).unwrap_or_default();
                let metadata = p.metadata_of(&candidates[i as usize], name).ok().and_then(Result::ok);
                let extras: Vec<_> = match parent {
                    Node::Extra(_, extra) => extra.parse().into_iter().collect(),
                    _ => Vec::new(),
                };
                metadata.and_then(|m| {
                    m.requirements(&p.environments[0], &extras)
                        .filter_map(Result::ok)
                        .find(|(r, _)| (r.name.as_ref() as &str) == to)
                        .map(|(_, text)| {
                            crate::model::text::clean(text.split(';').next().unwrap_or(text).trim(), 80)
                        })
                })
            }
            _ => None,
        };
        text.unwrap_or_else(|| to.to_owned())
    }

    /// Candidates that do not exist or cannot be used.
    fn absent(&mut self) {
        let p = self.problem;
        let unusable: Vec<(Node, Vec<(Set, Unusable)>)> =
            self.leaves.unusable.iter().map(|(n, l)| (n.clone(), l.clone())).collect();
        for (node, list) in unusable {
            let Some(party) = node.party() else { continue };
            for (set, why) in list.iter().rev().take(2) {
                let mut parties = vec![party.as_str()];
                if matches!(why, Unusable::NotOnIndex(_) | Unusable::IndexNotAllowed(_)) {
                    parties.push("index");
                }
                self.say(6, format!("{} {why}", p.name_versions(&node, set)), &parties, "index");
            }
        }
        let missing: Vec<(Node, Set)> =
            self.leaves.missing.iter().map(|(n, s)| (n.clone(), s.clone())).collect();
        let mut empty: Vec<Node> = missing
            .iter()
            .filter(|(n, _)| matches!(n, Node::Package(name) if !is_stack_package(name)))
            .filter(|(n, s)| p.members(n, s).iter().all(|i| !self.usable(n, *i)))
            .map(|(n, _)| n.clone())
            .collect();
        // A requirement that matches no candidate at all is an empty set on the dependency.
        empty.dedup();
        for node in empty {
            // Where a candidate is there and cannot be used, that was said.
            if let Node::Package(name) = &node
                && !self.leaves.unusable.contains_key(&node)
            {
                let text = self.why_nothing(name);
                self.say(6, text, &[name], "index");
            }
        }
    }

    fn usable(&self, node: &Node, ordinal: u32) -> bool {
        let Node::Package(name) = node else { return true };
        let candidates = self.problem.candidates(name).unwrap_or_default();
        candidates
            .get(ordinal as usize)
            .is_some_and(|c| self.problem.pythons.iter().any(|py| self.problem.has_usable(c, *py)))
    }

    fn why_nothing(&self, name: &str) -> String {
        let p = self.problem;
        if let Some(table) = p.stack.get(name) {
            return match (table.versions.first(), table.versions.last()) {
                (Some(first), Some(last)) => {
                    format!("the registry knows {name} {first} to {last} for {}", p.platform)
                }
                _ => format!("the registry knows no {name} for {}", p.platform),
            };
        }
        let candidates = p.candidates(name).unwrap_or_default();
        let with_wheels: Vec<_> = candidates.iter().filter(|c| c.release.has_wheel).collect();
        match (candidates.is_empty(), with_wheels.first(), with_wheels.last()) {
            (true, ..) => format!("the index {} has no `{name}`", p.owner(name)),
            (false, None, _) => format!("`{name}` exists only as source, and envlock never builds"),
            (false, Some(first), Some(last)) => {
                if p.pythons.iter().any(|py| with_wheels.iter().any(|c| p.has_usable(c, *py))) {
                    let ends = if first.release.version == last.release.version {
                        vec![&first.release.version]
                    } else {
                        vec![&first.release.version, &first.release.version, &last.release.version]
                    };
                    format!("{name} exists as {}", span(&ends))
                } else {
                    format!("no {name} has a wheel for Python {} on {}", span(&p.pythons), p.platform)
                }
            }
            _ => format!("nothing of {name} fits"),
        }
    }

    /// What the user asked for, last.
    fn requests(&mut self) {
        let p = self.problem;
        let asked: Vec<Node> = self
            .leaves
            .needs
            .keys()
            .filter(|(parent, _)| *parent == Node::Root)
            .map(|(_, d)| d.clone())
            .collect();
        for node in asked {
            match &node {
                Node::Package(name) | Node::Build(name) | Node::Extra(name, _) => {
                    if let Some(user) = p.request.find(name) {
                        let text = crate::model::text::clean(&user.requirement.to_string(), 100);
                        self.say(9, format!("you ask for {text}"), &[name], user.origin.clone());
                        self.empty_request(name);
                    }
                    if matches!(node, Node::Build(_))
                        && let Some(limit) = &p.request.nccl
                    {
                        self.say(
                            9,
                            format!("you ask for NCCL {}", limit.value),
                            &[name],
                            limit.origin.clone(),
                        );
                    }
                }
                Node::Variant => {
                    if let Some(limit) = &p.request.cuda {
                        self.say(
                            9,
                            format!("you ask for CUDA {}", limit.value),
                            &["cuda"],
                            limit.origin.clone(),
                        );
                    }
                    if let Some(limit) = &p.request.variant {
                        self.say(
                            9,
                            format!("you pin the variant {}", limit.value),
                            &["variant"],
                            limit.origin.clone(),
                        );
                        if !p.variants.iter().any(|v| v.name == limit.value) {
                            let names: Vec<_> = p.variants.iter().map(|v| v.name.clone()).collect();
                            self.say(
                                7,
                                format!("the variants for {} are {}", p.platform, names.join(", ")),
                                &["variant"],
                                "registry",
                            );
                        }
                    }
                }
                Node::Cudnn => {
                    if let Some(limit) = &p.request.cudnn {
                        self.say(
                            9,
                            format!("you ask for cuDNN {}", limit.value),
                            &["cudnn"],
                            limit.origin.clone(),
                        );
                    }
                }
                Node::StackIndex => {
                    if let Some(limit) = &p.request.only_index {
                        self.say(
                            10,
                            format!("only the index {} may be used", limit.value),
                            &["index"],
                            limit.origin.clone(),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    /// A request that no version satisfies says what there is.
    fn empty_request(&mut self, name: &str) {
        let p = self.problem;
        let Some(user) = p.request.find(name) else { return };
        let Ok(Ok(list)) = p.requirement(&user.requirement) else { return };
        if list.iter().any(|(n, s)| *n == Node::package(name) && s.is_empty()) {
            let text = self.why_nothing(name);
            self.say(6, text, &[name], if is_stack_package(name) { "registry" } else { "index" });
        } else if list.iter().any(|(n, s)| *n == Node::build(name) && s.is_empty())
            && let Some((_, versions)) = list.iter().find(|(n, _)| *n == Node::package(name))
        {
            let table = &p.stack[name];
            let mut flavours: Vec<&str> = Vec::new();
            for build in table.builds.iter().filter(|b| versions.contains(&b.version_ordinal)) {
                let variant = p.variants[build.variant as usize].name.as_str();
                if !flavours.contains(&variant) {
                    flavours.push(variant);
                }
            }
            let text = format!(
                "{} is built as {} for {}",
                p.name_versions(&Node::package(name), versions),
                flavours.join(", "),
                p.platform
            );
            self.say(6, text, &[name, "variant"], "registry");
        }
    }

    fn finish(mut self) -> Conflict {
        self.reasons.sort_by_key(|(order, _)| *order);
        // What was asked stands last and is never cut off; facts beyond the limit are.
        while self.reasons.len() > MOST_REASONS {
            let cut = self.reasons.iter().rposition(|(order, _)| *order < 8).unwrap_or(MOST_REASONS);
            self.reasons.remove(cut);
        }
        let parties = self.leaves.graph();
        let headline = self.headline(parties.contains_node(&Node::Driver));
        Conflict {
            headline,
            target: "default".to_owned(),
            reasons: self.reasons.into_iter().map(|(_, r)| r).collect(),
            would_work_if: Vec::new(),
        }
    }

    fn headline(&self, driver: bool) -> String {
        let p = self.problem;
        let asked = p
            .request
            .find("torch")
            .filter(|_| self.leaves.needs.contains_key(&(Node::Root, Node::package("torch"))))
            .map(|u| crate::model::text::clean(&u.requirement.to_string(), 60));
        let gpu = self
            .leaves
            .needs
            .keys()
            .find_map(|(_, d)| match d {
                Node::Gpu(i) => p.gpus.get(*i),
                _ => None,
            })
            .map(|(g, _)| g.label());
        match (asked, driver, gpu) {
            (Some(asked), true, _) => {
                let version = p.host.driver.as_ref().map(|d| d.version.to_string()).unwrap_or_default();
                format!("no {asked} runs on driver {version}")
            }
            (Some(asked), false, Some(gpu)) => format!("no {asked} runs on {gpu}"),
            _ => "the request cannot be met".to_owned(),
        }
    }
}
