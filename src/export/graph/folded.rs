//! A drawing of many packages with few nodes: dependencies that nobody asked for stand together, by what brings them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Drawing, Kind, Node};

/// From so many dependencies on, a drawing is folded: more fill several screens.
const MANY: usize = 40;
/// How many packages of a group are named in its label.
const NAMED: usize = 3;
/// How many characters their names have together; the first is named in any case.
const WIDTH: usize = 30;

/// The drawing with the dependencies of each requested package, framework or part of the machine as one node, and those that
/// several of them bring as another one; `None` if there are few dependencies.
pub fn folded(drawing: &Drawing) -> Option<Drawing> {
    let dependencies = drawing.nodes.iter().filter(|node| node.kind == Kind::Package).count();
    if dependencies < MANY {
        return None;
    }
    let owners = owners(drawing);
    // By owner; `None` for those of several.
    let mut groups: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (i, owners) in owners.iter().enumerate().filter(|(_, owners)| !owners.is_empty()) {
        let only = owners.first().copied().filter(|_| owners.len() == 1);
        groups.entry(only).or_default().push(i);
    }
    groups.retain(|_, members| members.len() > 1);
    let mut nodes: Vec<Node> = Vec::new();
    let mut place = vec![0; drawing.nodes.len()];
    for (i, node) in drawing.nodes.iter().enumerate() {
        place[i] = nodes.len();
        if !groups.values().any(|members| members.contains(&i)) {
            nodes.push(node.clone());
        }
    }
    for members in groups.values() {
        let of_owners = members.iter().flat_map(|member| &owners[*member]);
        let layer = of_owners.map(|owner| drawing.nodes[*owner].layer + 1).max().unwrap_or(0);
        for member in members {
            place[*member] = nodes.len();
        }
        let labels: Vec<String> = members.iter().map(|i| drawing.nodes[*i].label.clone()).collect();
        nodes.push(Node { label: label(&labels), kind: Kind::Package, layer, members: labels });
    }
    let ends = drawing.edges.iter().map(|(from, to)| (place[*from], place[*to]));
    // Of a group that somebody brings, only the arrow to it: not those back to what it requires.
    let is_back =
        |from: usize, to: usize| !nodes[from].members.is_empty() && nodes[from].layer >= nodes[to].layer;
    let edges: BTreeSet<(usize, usize)> =
        ends.filter(|(from, to)| from != to && !is_back(*from, *to)).collect();
    let edges = edges.into_iter().collect();
    let layers: BTreeSet<usize> = nodes.iter().map(|node| node.layer).collect();
    let rank: BTreeMap<usize, usize> =
        layers.into_iter().enumerate().map(|(rank, layer)| (layer, rank)).collect();
    for node in &mut nodes {
        node.layer = rank[&node.layer];
    }
    let count = nodes.iter().map(|node| node.members.len()).sum::<usize>();
    let title = format!("{}, {count} of them in groups", drawing.title);
    Some(Drawing { title, nodes, edges })
}

/// For each dependency, the other nodes that bring it, through dependencies alone.
fn owners(drawing: &Drawing) -> Vec<BTreeSet<usize>> {
    let mut out = vec![BTreeSet::new(); drawing.nodes.len()];
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); drawing.nodes.len()];
    for (from, to) in &drawing.edges {
        below[*from].push(*to);
    }
    let is_dependency = |i: usize| drawing.nodes[i].kind == Kind::Package;
    for owner in (0..drawing.nodes.len()).filter(|i| !is_dependency(*i)) {
        let mut open = vec![owner];
        while let Some(at) = open.pop() {
            for next in below[at].iter().copied().filter(|next| is_dependency(*next)) {
                if out[next].insert(owner) {
                    open.push(next);
                }
            }
        }
    }
    out
}

/// `12 packages: aiohttp, attrs, certifi, ...`
fn label(labels: &[String]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut width = 0;
    for name in labels.iter().filter_map(|label| label.split(' ').next()).take(NAMED) {
        width += name.len();
        if width > WIDTH && !names.is_empty() {
            break;
        }
        names.push(name);
    }
    let more = if labels.len() > names.len() { ", ..." } else { "" };
    format!("{} packages: {}{more}", labels.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(label: &str, kind: Kind, layer: usize) -> Node {
        Node { label: label.to_owned(), kind, layer, members: Vec::new() }
    }

    #[test]
    fn dependencies_stand_together_by_what_brings_them() {
        let mut nodes = vec![node("app 1", Kind::Asked, 0), node("torch 2", Kind::Stack, 1)];
        let mut edges = vec![(0, 1)];
        // 20 of each, 5 of both; the first of app's requires torch.
        for i in 0..45 {
            nodes.push(node(&format!("p{i:02} 1"), Kind::Package, 2 + i % 3));
            if !(20..40).contains(&i) {
                edges.push((0, nodes.len() - 1));
            }
            if i >= 20 {
                edges.push((1, nodes.len() - 1));
            }
        }
        edges.push((2, 1));
        let drawing = Drawing { title: "t".to_owned(), nodes, edges };
        let folded = folded(&drawing).unwrap();
        let labels: Vec<&str> = folded.nodes.iter().map(|node| node.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "app 1",
                "torch 2",
                "5 packages: p40, p41, p42, ...",
                "20 packages: p00, p01, p02, ...",
                "20 packages: p20, p21, p22, ..."
            ]
        );
        assert_eq!(folded.edges, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 4)]);
        assert_eq!(folded.nodes.iter().map(|node| node.members.len()).sum::<usize>(), 45);
        assert!(folded.edges.iter().all(|(from, to)| folded.nodes[*from].layer < folded.nodes[*to].layer));
        let few = Drawing { nodes: drawing.nodes[..10].to_vec(), edges: Vec::new(), title: String::new() };
        assert_eq!(super::folded(&few), None);
    }

    #[test]
    fn names_of_a_group() {
        let of = |names: &[&str]| label(&names.iter().map(|name| format!("{name} 1")).collect::<Vec<_>>());
        assert_eq!(of(&["a", "b", "c"]), "3 packages: a, b, c");
        assert_eq!(of(&["cwevals", "opentelemetry-exporter-otlp", "x"]), "3 packages: cwevals, ...");
        assert_eq!(
            of(&["opentelemetry-exporter-otlp-proto-http", "x"]),
            "2 packages: opentelemetry-exporter-otlp-proto-http, ..."
        );
    }
}
