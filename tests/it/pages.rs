//! What a browser shows of the graph's page and of the README's pictures.

use super::browser::seen_in_browser;
use super::context::{IndexServer, Shape, TestContext};
use super::wheels::wheel;

/// A project of 50 packages, of which the drawing is folded.
fn drawn() -> (IndexServer, TestContext) {
    let names: Vec<String> = (0..50).map(|at| format!("part-{at:02}")).collect();
    let app = names.iter().fold(wheel("app", "1.0"), |app, name| app.needs(name));
    let parts = names.iter().map(|name| wheel(name, "1.0"));
    let all = parts.chain([app]).map(|wheel| ("pypi", wheel)).collect();
    let server = IndexServer::start(all, Shape::default());
    let context = TestContext::with_index(&server);
    context.run(&["resolve", "app", "--gpu", "none"]).expect(0);
    context.run(&["graph", "--format", "html", "-o", "g.html"]).expect(0);
    (server, context)
}

/// Each drawing has its own arrowhead, both fit the width of the window, and both can be larger.
#[test]
fn the_graph_in_a_browser() {
    const HANDS: &str = r#"{
  const at = (id) => document.getElementById(id);
  const width = () => document.querySelector("section:not([hidden]) svg").getBoundingClientRect().width;
  const out = [];
  for (const whole of [false, true]) {
    if (at("all").checked !== whole) at("all").click();
    const svg = document.querySelector("section:not([hidden]) svg");
    at("fit").click();
    const tip = svg.querySelector("path[data-from]").getAttribute("marker-end").slice(5, -1);
    const fitted = width(), view = document.querySelector("main").clientWidth;
    at("larger").click();
    out.push({ fits: fitted <= view, larger: width() > fitted, own: at(tip).closest("svg") === svg });
    at("find").value = "part-07";
    at("find").dispatchEvent(new Event("input"));
    out.at(-1).found = document.querySelectorAll("section:not([hidden]) .here").length;
  }
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  tell({ out, twice: ids.filter((id, i) => ids.indexOf(id) !== i) });
}"#;
    let (_server, context) = drawn();
    for window in ["400,800", "1920,1000"] {
        let Some(seen) = seen_in_browser(&context, "g.html", window, HANDS) else { return };
        let expected = serde_json::json!({ "fits": true, "larger": true, "own": true, "found": 1 });
        assert_eq!(seen, serde_json::json!({ "out": [expected, expected], "twice": [] }), "{window}");
    }
}

/// The README's picture keeps its columns: each character of a line stands where a terminal has it.
#[test]
fn the_columns_of_the_readmes_picture() {
    const HANDS: &str = r#"{
  const texts = [...document.querySelectorAll("text")].filter((text) => text.textContent.trim());
  const shown = (text) => [...Array(text.getNumberOfChars()).keys()].map((i) => text.getStartPositionOfChar(i).x);
  const advance = Math.max(...texts.map((text) => { const x = shown(text); return x.length > 1 ? x[1] - x[0] : 0; }));
  const odd = texts.filter((text) => text.getNumberOfChars() !== text.textContent.length
    || shown(text).some((x, i) => Math.abs(x - shown(text)[0] - i * advance) > advance / 2));
  const end = Math.max(...texts.map((text) => shown(text).at(-1) + advance));
  tell({ texts: texts.length, odd: odd.map((text) => text.textContent), fits: end <= document.querySelector("svg").viewBox.baseVal.width });
}"#;
    let context = TestContext::new();
    let readme = include_str!("../../README.md");
    let pictures: Vec<&str> = readme
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(".svg)").map(|(path, _)| path))
        .collect();
    assert_eq!(pictures, ["docs/terminal"]);
    let svg = include_str!("../../docs/terminal.svg");
    context.write("picture.html", &format!("<!doctype html><body>{svg}</body>"));
    let Some(seen) = seen_in_browser(&context, "picture.html", "800,600", HANDS) else { return };
    assert!(seen["texts"].as_u64().unwrap() > 10, "{seen}");
    assert_eq!((&seen["odd"], &seen["fits"]), (&serde_json::json!([]), &serde_json::json!(true)));
}
