//! The SVG in a page of its own: a click on a package leaves what leads to it and what it requires.

use super::Drawing;
use super::svg::{escape, svg};

/// The page, with places for the title and the drawing.
const PAGE: &str = include_str!("page.html");

/// The drawing as an HTML document that needs no network.
pub fn html(drawing: &Drawing) -> String {
    // No text of the lock is taken for a place.
    let (head, rest) = PAGE.split_once("__TITLE__").expect("a place in the page");
    let (middle, end) = rest.split_once("__DRAWING__").expect("a place in the page");
    [head, &escape(&drawing.title), middle, &svg(drawing), end].concat()
}
