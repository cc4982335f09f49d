//! Mermaid, which GitHub and GitLab render in Markdown.

use std::fmt::Write as _;

use super::{Drawing, Kind};

/// The drawing as a Mermaid flow chart.
pub fn mermaid(drawing: &Drawing) -> String {
    let mut out = String::from("flowchart LR\n");
    for (i, node) in drawing.nodes.iter().enumerate() {
        // A quote would end the label; Mermaid escapes it with this entity.
        let label = node.label.replace('"', "#quot;");
        let class = match node.kind {
            Kind::Machine => ":::machine",
            Kind::Stack => ":::stack",
            Kind::Asked => ":::asked",
            Kind::Package => "",
        };
        let _ = writeln!(out, "  n{i}[\"{label}\"]{class}");
    }
    for (from, to) in &drawing.edges {
        let _ = writeln!(out, "  n{from} --> n{to}");
    }
    out.push_str(
        "  classDef machine fill:#f6d8ae\n  classDef stack fill:#cfe3f7\n  classDef asked stroke-width:3px\n",
    );
    out
}
