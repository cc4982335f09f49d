//! Graphviz.

use std::fmt::Write as _;

use super::{Drawing, Kind};

/// The drawing in Graphviz's DOT language: `envlock graph --format dot | dot -Tsvg`.
pub fn dot(drawing: &Drawing) -> String {
    let mut out =
        String::from("digraph envlock {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\"];\n");
    for (i, node) in drawing.nodes.iter().enumerate() {
        let style = match node.kind {
            Kind::Machine => ", style=filled, fillcolor=\"#f6d8ae\"",
            Kind::Stack => ", style=filled, fillcolor=\"#cfe3f7\"",
            Kind::Asked => ", style=bold",
            Kind::Package => "",
        };
        let label = node.label.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(out, "  n{i} [label=\"{label}\"{style}];");
    }
    for (from, to) in &drawing.edges {
        let _ = writeln!(out, "  n{from} -> n{to};");
    }
    out.push_str("}\n");
    out
}
