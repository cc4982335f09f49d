//! The locked graph as a drawing: the machine, then the requested packages, then their dependencies.

mod dot;
mod folded;
mod html;
mod mermaid;
mod svg;

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::{has_path_connecting, tarjan_scc};
use petgraph::graphmap::DiGraphMap;

use crate::lockfile::Target;
use crate::model::count::Count;
use crate::model::text::clean;

pub use dot::dot;
pub use folded::folded;
pub use html::html;
pub use mermaid::mermaid;
pub use svg::svg;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Driver, GPU, C library.
    Machine,
    /// torch, its companions, triton and other frameworks.
    Stack,
    /// Any other requested package.
    Asked,
    /// A dependency.
    Package,
}

impl Kind {
    /// All kinds, as a legend lists them.
    const ALL: [Kind; 4] = [Kind::Machine, Kind::Stack, Kind::Asked, Kind::Package];

    /// What it stands for, in a legend.
    fn legend(self) -> &'static str {
        match self {
            Kind::Machine => "machine",
            Kind::Stack => "framework",
            Kind::Asked => "requested",
            Kind::Package => "dependency",
        }
    }
}

/// A node of the drawing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its text.
    pub label: String,
    /// What it stands for.
    pub kind: Kind,
    /// Its layer, counted from the top; the machine is one layer above torch.
    pub layer: usize,
    /// What a group of packages stands for; empty for a package of its own.
    pub members: Vec<String>,
}

impl Node {
    fn new(label: String, kind: Kind, layer: usize) -> Node {
        Node { label, kind, layer, members: Vec::new() }
    }
}

/// Nodes, and arrows between them by index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawing {
    /// What is drawn: `default: 155 packages`.
    pub title: String,
    /// The nodes, by layer and name.
    pub nodes: Vec<Node>,
    /// From dependent to dependency. Edges that a longer path implies are left out.
    pub edges: Vec<(usize, usize)>,
}

impl Drawing {
    /// Draws a target; `asked` are the requested packages.
    pub fn new(target: &Target, asked: &BTreeSet<String>) -> Drawing {
        let mut needs: DiGraphMap<&str, ()> = DiGraphMap::new();
        for package in &target.packages {
            needs.add_node(&package.name);
            for edge in package.requires.iter().filter(|e| e.to != package.name) {
                if target.package(&edge.to).is_some() {
                    needs.add_edge(&package.name, &edge.to, ());
                }
            }
        }
        let layers = layers(&needs);
        let machine = machine(target);
        let stack = target.stack.as_ref();
        // The machine is one layer above the frameworks that it constrains, even if packages depend on these.
        let decided: Vec<&str> = stack
            .map(|s| s.framework.as_str())
            .into_iter()
            .chain(target.frameworks.iter().map(|x| x.package.as_str()))
            .collect();
        let torch = decided.iter().filter_map(|name| layers.get(name)).copied().min().unwrap_or(0);
        let below = usize::from(!machine.is_empty() && torch == 0);
        let before = (torch + below).saturating_sub(1);
        let in_stack = |name: &str| {
            target.frameworks.iter().any(|x| x.package == name)
                || stack.is_some_and(|s| {
                    let is_library =
                        ["nvidia-cudnn-cu", "nvidia-nccl-cu"].iter().any(|of| name.starts_with(of));
                    s.framework == name
                        || name == "triton"
                        || is_library && s.cuda.is_some()
                        || s.companions.contains_key(name)
                })
        };
        let mut order: Vec<(usize, &str)> =
            target.packages.iter().map(|p| (layers[p.name.as_str()], p.name.as_str())).collect();
        order.sort_unstable();
        let mut nodes: Vec<Node> =
            machine.into_iter().map(|label| Node::new(label, Kind::Machine, before)).collect();
        let mut edges = Vec::new();
        let mut index: BTreeMap<&str, usize> = BTreeMap::new();
        let hardware = nodes.len();
        for (layer, name) in order {
            let Some(package) = target.package(name) else { continue };
            let kind = match name {
                _ if in_stack(name) => Kind::Stack,
                _ if asked.contains(name) => Kind::Asked,
                _ => Kind::Package,
            };
            index.insert(name, nodes.len());
            let label = clean(&format!("{name} {}", package.version_with_variant()), 60);
            nodes.push(Node::new(label, kind, layer + below));
        }
        for decided in decided.iter().filter_map(|name| index.get(name)) {
            edges.extend((0..hardware).map(|i| (i, *decided)));
        }
        for (from, to, ()) in needs.all_edges().filter(|(from, to, ())| !implied(&needs, from, to)) {
            edges.push((index[from], index[to]));
        }
        edges.sort_unstable();
        let count = target.packages.len();
        let title = format!("{}: {}", target.name, Count(count).of("package"));
        Drawing { title: clean(&title, 80), nodes, edges }
    }
}

/// Labels for the parts of the machine that the lock knows.
fn machine(target: &Target) -> Vec<String> {
    let host = &target.host;
    let mut out = Vec::new();
    if target.stack.is_none() && target.frameworks.is_empty() {
        return out;
    }
    match (&host.driver, &target.envelope.driver) {
        (Some(driver), _) => out.push(format!("driver {}", driver.version)),
        (None, Some(floor)) => out.push(format!("driver >= {floor}")),
        (None, None) => {}
    }
    let mut gpus: Vec<String> = host.gpus.iter().flatten().map(|g| clean(&g.label(), 50)).collect();
    gpus.dedup();
    out.extend(gpus);
    if let Some(glibc) = &target.envelope.glibc {
        out.push(format!("glibc >= {glibc}"));
    }
    out
}

/// The layer of each package: the length of the longest path from the top. Packages in a cycle share a layer.
fn layers<'n>(needs: &DiGraphMap<&'n str, ()>) -> BTreeMap<&'n str, usize> {
    let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
    // Tarjan's algorithm yields dependencies first. In reverse, all dependents come before a package.
    for group in tarjan_scc(needs).into_iter().rev() {
        let outside = |name: &&str| !group.contains(name);
        let layer = group
            .iter()
            .flat_map(|name| needs.neighbors_directed(name, petgraph::Direction::Incoming))
            .filter(outside)
            .map(|dependent| layers.get(dependent).map_or(0, |l| l + 1))
            .max()
            .unwrap_or(0);
        layers.extend(group.iter().map(|name| (*name, layer)));
    }
    layers
}

/// Whether a longer path leads from a package to one of its dependencies.
fn implied(needs: &DiGraphMap<&str, ()>, from: &str, to: &str) -> bool {
    needs.neighbors(from).filter(|next| *next != to && *next != from).any(|next| {
        has_path_connecting(needs, next, to, None) && !has_path_connecting(needs, next, from, None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_implied_arrows() {
        let mut needs: DiGraphMap<&str, ()> = DiGraphMap::new();
        // triton 2.0 needs torch, which needs triton.
        for (from, to) in [
            ("vision", "torch"),
            ("torch", "triton"),
            ("triton", "torch"),
            ("triton", "cmake"),
            ("vision", "cmake"),
        ] {
            needs.add_edge(from, to, ());
        }
        let layers = layers(&needs);
        assert_eq!((layers["vision"], layers["torch"], layers["triton"], layers["cmake"]), (0, 1, 1, 2));
        assert!(implied(&needs, "vision", "cmake"));
        assert!(!implied(&needs, "vision", "torch") && !implied(&needs, "triton", "cmake"));
    }
}
