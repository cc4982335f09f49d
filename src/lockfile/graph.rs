//! The locked packages of a target as a graph.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::Target;

/// Package names, dependencies before dependents; packages that need each other (triton 2.0 and
/// torch) stand together in alphabetical order.
pub fn dependency_order(target: &Target) -> Vec<&str> {
    let mut graph: DiGraphMap<&str, ()> = DiGraphMap::new();
    for package in &target.packages {
        graph.add_node(&package.name);
        for edge in &package.requires {
            if target.package(&edge.to).is_some() {
                graph.add_edge(&package.name, &edge.to, ());
            }
        }
    }
    tarjan_scc(&graph)
        .into_iter()
        .flat_map(|mut group| {
            group.sort_unstable();
            group
        })
        .collect()
}
