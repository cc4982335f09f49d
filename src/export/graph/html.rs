//! The SVG in a page of its own: a click on a package leaves what leads to it and what it requires.

use super::svg::{escape, named};
use super::{Drawing, folded};

/// The page, with places for the title and the drawing.
const PAGE: &str = include_str!("page.html");

/// The drawing as an HTML document that needs no network; with many packages, folded first, and whole on demand.
pub fn html(drawing: &Drawing) -> String {
    // No text of the lock is taken for a place.
    let (head, rest) = PAGE.split_once("__TITLE__").expect("a place in the page");
    let (middle, end) = rest.split_once("__DRAWING__").expect("a place in the page");
    let drawings = match folded(drawing) {
        None => format!("<section>\n{}</section>", named(drawing, "tip")),
        Some(folded) => {
            let (folded, whole) = (named(&folded, "tip"), named(drawing, "tip-whole"));
            format!("<section>\n{folded}</section>\n<section hidden>\n{whole}</section>")
        }
    };
    [head, &escape(&drawing.title), middle, &drawings, end].concat()
}
