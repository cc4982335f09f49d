//! The locked packages of a target as a dependency graph.

use std::collections::BTreeSet;

use petgraph::algo::astar;
use petgraph::graphmap::DiGraphMap;

use super::Target;
use crate::model::solution::{ChosenPackage, Edge};

/// The packages by name, with an edge from each to each of its dependencies.
fn graph(packages: &[ChosenPackage]) -> DiGraphMap<&str, ()> {
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut graph: DiGraphMap<&str, ()> = DiGraphMap::new();
    for package in packages {
        graph.add_node(&package.name);
        for edge in package.requires.iter().filter(|edge| names.contains(edge.to.as_str())) {
            graph.add_edge(&package.name, &edge.to, ());
        }
    }
    graph
}

/// The packages that require a package, sorted by name, with the requirement as written.
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

/// The shortest path from a requested package to `name`, including both; `None` if no requested package
/// depends on it.
pub fn chain<'p>(
    packages: &'p [ChosenPackage],
    asked: &BTreeSet<String>,
    name: &str,
) -> Option<Vec<&'p str>> {
    let graph = graph(packages);
    let goal = packages.iter().find(|package| package.name == name)?.name.as_str();
    let starts = packages.iter().map(|p| p.name.as_str()).filter(|n| asked.contains(*n));
    starts
        .filter_map(|start| astar(&graph, start, |n| n == goal, |_| 1usize, |_| 0))
        .min_by_key(|(length, _)| *length)
        .map(|(_, path)| path)
}
