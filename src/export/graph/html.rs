//! The SVG in a page of its own: a click on a package leaves what leads to it and what it requires.

use super::Drawing;
use super::svg::{escape, svg};

/// The page, with places for the title and the drawing.
const PAGE: &str = include_str!("page.html");

/// The drawing as an HTML document that needs no network.
pub fn html(drawing: &Drawing) -> String {
    // The drawing is put in last: no text in it is taken for a place.
    PAGE.replace("__TITLE__", &escape(&drawing.title)).replacen("__DRAWING__", &svg(drawing), 1)
}
