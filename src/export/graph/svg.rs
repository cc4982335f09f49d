//! SVG with its own layout: one column per layer, arrows from left to right.

use std::fmt::Write as _;

use super::{Drawing, Kind};

/// Sizes in pixels.
const ROW: f64 = 26.0;
const BOX: f64 = 20.0;
const GAP: f64 = 80.0;
const MARGIN: f64 = 20.0;
const CHARACTER: f64 = 7.3;
/// The height of title and legend.
const HEAD: f64 = 34.0;
/// How often the columns are sorted by the positions of their neighbours.
const SWEEPS: usize = 8;

/// The drawing as an SVG document.
pub fn svg(drawing: &Drawing) -> String {
    named(drawing, "tip")
}

/// The drawing as an SVG element whose arrowhead has this id: a document has each id once.
pub(super) fn named(drawing: &Drawing, tip: &str) -> String {
    let columns = columns(drawing);
    let widths: Vec<f64> = columns
        .iter()
        .map(|column| {
            let longest = column.iter().map(|i| drawing.nodes[*i].label.chars().count()).max().unwrap_or(0);
            longest as f64 * CHARACTER + 16.0
        })
        .collect();
    let tallest = columns.iter().map(Vec::len).max().unwrap_or(0) as f64 * ROW;
    let mut place = vec![(0.0, 0.0, 0.0); drawing.nodes.len()];
    let mut x = MARGIN;
    for (column, width) in columns.iter().zip(&widths) {
        let top = MARGIN + HEAD + (tallest - column.len() as f64 * ROW) / 2.0;
        for (row, i) in column.iter().enumerate() {
            place[*i] = (x, top + row as f64 * ROW, *width);
        }
        x += width + GAP;
    }
    let legend: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| drawing.nodes.iter().any(|node| node.kind == *kind)).collect();
    let title = drawing.title.chars().count() as f64 * CHARACTER + 30.0;
    let head = title + legend.len() as f64 * LEGEND + 2.0 * MARGIN;
    let (width, height) = ((x - GAP + MARGIN).max(head), tallest + HEAD + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"monospace\" font-size=\"12\">\n\
         <title>{}</title>\n\
         <defs><marker id=\"{tip}\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" \
         orient=\"auto\"><path class=\"tip\" d=\"M0 0 L6 3 L0 6 z\" fill=\"#8a8f98\"/></marker></defs>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{:.0}\" font-weight=\"bold\">{}</text>\n",
        escape(&drawing.title),
        MARGIN + 14.0,
        escape(&drawing.title)
    );
    for (place, kind) in legend.into_iter().enumerate() {
        let ((fill, stroke), x) = (colours(kind), MARGIN + title + place as f64 * LEGEND);
        let _ = writeln!(
            out,
            "<rect class=\"{}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"14\" rx=\"3\" fill=\"{fill}\" stroke=\"{stroke}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            kind.legend(),
            MARGIN + 3.0,
            x + 20.0,
            MARGIN + 14.0,
            kind.legend()
        );
    }
    for (from, to) in &drawing.edges {
        let ((x1, y1, w), (x2, y2, _)) = (place[*from], place[*to]);
        let (x1, y1, y2) = (x1 + w, y1 + BOX / 2.0, y2 + BOX / 2.0);
        let bend = (x2 - x1) / 2.0;
        let _ = writeln!(
            out,
            "<path data-from=\"{from}\" data-to=\"{to}\" d=\"M{x1:.0} {y1:.0} C{:.0} {y1:.0} {:.0} {y2:.0} {x2:.0} {y2:.0}\" \
             fill=\"none\" stroke=\"#8a8f98\" stroke-opacity=\"0.6\" marker-end=\"url(#{tip})\"/>",
            x1 + bend,
            x2 - bend
        );
    }
    for (i, (node, (x, y, w))) in drawing.nodes.iter().zip(&place).enumerate() {
        let (fill, stroke) = colours(node.kind);
        let _ = writeln!(
            out,
            "<g data-node=\"{i}\"><title>{}</title><rect class=\"{}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{w:.0}\" height=\"{BOX:.0}\" rx=\"3\" \
             fill=\"{fill}\" stroke=\"{stroke}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text></g>",
            escape(&tooltip(drawing, i)),
            node.kind.legend(),
            x + 8.0,
            y + 14.0,
            escape(&node.label)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The width of a kind in the legend.
const LEGEND: f64 = 110.0;

/// Fill and line of a kind.
fn colours(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Machine => ("#f6d8ae", "#b5701f"),
        Kind::Stack => ("#cfe3f7", "#2f6ea8"),
        Kind::Asked => ("#ffffff", "#222222"),
        Kind::Package => ("#f5f5f5", "#b5b9c0"),
    }
}

/// What a node has arrows to and from, as far as they are drawn.
fn tooltip(drawing: &Drawing, i: usize) -> String {
    let names = |ends: Vec<usize>| {
        let names: Vec<&str> = ends.into_iter().map(|end| drawing.nodes[end].label.as_str()).collect();
        names.join(", ")
    };
    let node = &drawing.nodes[i];
    let from = names(drawing.edges.iter().filter(|(_, to)| *to == i).map(|(from, _)| *from).collect());
    let to = names(drawing.edges.iter().filter(|(from, _)| *from == i).map(|(_, to)| *to).collect());
    let mut out = match node.members.as_slice() {
        [] => format!("{} ({})", node.label, node.kind.legend()),
        members => format!("{} packages: {}", members.len(), members.join(", ")),
    };
    for (label, names) in [("arrows from", from), ("arrows to", to)] {
        if !names.is_empty() {
            let _ = write!(out, "\n{label} {names}");
        }
    }
    out
}

/// The nodes of each layer, ordered so that connected nodes are close: each column is sorted by the mean position
/// of its neighbours, alternately of those on the left and on the right.
fn columns(drawing: &Drawing) -> Vec<Vec<usize>> {
    let count = drawing.nodes.iter().map(|n| n.layer + 1).max().unwrap_or(0);
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (i, node) in drawing.nodes.iter().enumerate() {
        columns[node.layer].push(i);
    }
    for sweep in 0..SWEEPS {
        let mut position = vec![0.0; drawing.nodes.len()];
        for column in &columns {
            for (row, i) in column.iter().enumerate() {
                position[*i] = (row as f64 + 0.5) / column.len() as f64;
            }
        }
        for column in &mut columns {
            let middle = |i: usize| {
                let neighbours: Vec<f64> = drawing
                    .edges
                    .iter()
                    .filter_map(|(from, to)| match sweep % 2 {
                        0 => (*to == i).then(|| position[*from]),
                        _ => (*from == i).then(|| position[*to]),
                    })
                    .collect();
                match neighbours.len() {
                    0 => position[i],
                    n => neighbours.iter().sum::<f64>() / n as f64,
                }
            };
            // The sort is stable: ties keep the order by name.
            column.sort_by(|a, b| middle(*a).total_cmp(&middle(*b)));
        }
    }
    columns
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
