//! The locked packages as a graph.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::Lockfile;

/// Package names, dependencies before dependents; packages that need each other (triton 2.0 and
/// torch) stand together in alphabetical order.
pub fn dependency_order(lock: &Lockfile) -> Vec<&str> {
    let mut graph: DiGraphMap<&str, ()> = DiGraphMap::new();
    for package in &lock.packages {
        graph.add_node(&package.name);
        for edge in &package.requires {
            if lock.package(&edge.to).is_some() {
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
