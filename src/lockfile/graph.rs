//! The locked packages of a target as a graph: who needs whom.

use std::collections::BTreeSet;

use petgraph::algo::astar;
use petgraph::graphmap::DiGraphMap;

use super::Target;
use crate::model::solution::Edge;

/// The packages of a target by name, with an arrow from each to what it needs.
fn graph(target: &Target) -> DiGraphMap<&str, ()> {
    let mut graph: DiGraphMap<&str, ()> = DiGraphMap::new();
    for package in &target.packages {
        graph.add_node(&package.name);
        for edge in &package.requires {
            if target.package(&edge.to).is_some() {
                graph.add_edge(&package.name, &edge.to, ());
            }
        }
    }
    graph
}

/// Who needs a package, by name, with the requirement as written.
pub fn needed_by<'t>(target: &'t Target, name: &str) -> Vec<(&'t str, &'t Edge)> {
    let mut out: Vec<(&str, &Edge)> = target
        .packages
        .iter()
        .flat_map(|p| p.requires.iter().map(move |edge| (p.name.as_str(), edge)))
        .filter(|(from, edge)| edge.to == name && *from != name)
        .collect();
    out.sort_by_key(|(from, _)| *from);
    out
}

/// The shortest way from a package that was asked for to `name`, both among it; `None` where nothing
/// that was asked for leads there.
pub fn chain<'t>(target: &'t Target, asked: &BTreeSet<String>, name: &str) -> Option<Vec<&'t str>> {
    let graph = graph(target);
    let goal = target.package(name)?.name.as_str();
    let starts = target.packages.iter().map(|p| p.name.as_str()).filter(|n| asked.contains(*n));
    starts
        .filter_map(|start| astar(&graph, start, |n| n == goal, |_| 1usize, |_| 0))
        .min_by_key(|(length, _)| *length)
        .map(|(_, path)| path)
}
