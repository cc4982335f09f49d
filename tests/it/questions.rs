//! Questions that write nothing: `plan`, `why`, `tree`, `graph`, `diff`, `outdated`.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{little_pypi, little_pytorch, wheel};

/// A locked project for a V100.
fn locked() -> (IndexServer, TestContext) {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    all.push(("pypi", wheel("tool", "1.0").needs("requests").needs("idna<3.12")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write(
        "envlock.toml",
        "[project]\nname = \"demo\"\ndependencies = [\"tool\"]\n[stack]\ntorch = \">=2.8\"\n",
    );
    let machine = ["--gpu", "V100", "--driver", "580.65.06", "--only-index", "pypi", "--python", "3.12"];
    context.run(&[&["resolve"], &machine[..]].concat()).expect(0);
    (server, context)
}

#[test]
fn why_says_who_needs_a_package_and_what_holds_it_back() {
    let (_server, context) = locked();
    insta::assert_snapshot!("why_torch", context.run(&["why", "torch"]).expect(0).shown());
    insta::assert_snapshot!("why_idna", context.run(&["why", "idna"]).expect(0).shown());
    let json = context.run(&["why", "IDNA", "--json"]).expect(0).json();
    assert_eq!(json["newer"]["possible"], false);
    assert_eq!(json["needed_by"][0]["name"], "requests");
    let none = context.run(&["why", "nosuch"]).expect(1);
    assert!(none.stderr.contains("the lock has no package `nosuch`"), "{}", none.shown());
    context.run(&["why"]).expect(2);
}

#[test]
fn why_not_proves_or_says_how() {
    let (_server, context) = locked();
    insta::assert_snapshot!(
        "why_not_torch",
        context.run(&["why", "--not", "torch==2.15.0"]).expect(0).shown()
    );
    let json = context.run(&["why", "--not", "torch==2.15.0", "--json"]).expect(0).json();
    assert_eq!((&json["possible"], &json["reasons"][0]["parties"][1]), (&false.into(), &"gpu".into()));
    let can = context.run(&["why", "--not", "filelock"]).expect(1);
    assert!(can.stdout.contains("`filelock` can be: filelock 3.20.0"), "{}", can.shown());
    context.run(&["why", "--not", "==1"]).expect(2);
}

#[test]
fn a_tree_of_the_lock() {
    let (_server, context) = locked();
    insta::assert_snapshot!("tree", context.run(&["tree"]).expect(0).shown());
    let shallow = context.run(&["tree", "--depth", "0"]).expect(0);
    assert!(!shallow.stdout.contains("idna"), "{}", shallow.shown());
    let json = context.run(&["tree", "--json"]).expect(0).json();
    assert_eq!(json["asked"], serde_json::json!(["torch", "tool"]));
}

#[test]
fn a_plan_lists_what_runs_and_why_not_the_rest() {
    let context = TestContext::new();
    let v100 = ["plan", "--gpu", "Tesla V100", "--driver", "580.65.06"];
    let run = context.run(&v100).expect(0);
    insta::assert_snapshot!("plan_v100", run.shown());
    let json = context.run(&[&v100[..], &["--json"]].concat()).expect(0).json();
    let runs = json["runs"].as_array().unwrap();
    assert_eq!((&runs[0]["torch"], &runs[0]["variant"]), (&"2.14.1".into(), &"cu126".into()));
    assert!(runs.iter().all(|r| r["driver_min"].is_string()), "{json:#}");
    // No version both runs and is out with the same flavour.
    for out in json["out"].as_array().unwrap().iter().flat_map(|o| o["builds"].as_array().unwrap()) {
        for torch in out["torch"].as_array().unwrap() {
            assert!(
                !runs.iter().any(|r| r["torch"] == *torch && r["variant"] == out["variant"]),
                "{out} {torch}"
            );
        }
    }
    // The GPU's own first driver counts where the driver is open.
    let open = context.run(&["plan", "torch==2.10.0", "--gpu", "RTX 5090", "--variant", "cu128"]).expect(0);
    assert!(open.stdout.contains(">= 570"), "{}", open.shown());
    let none = context.run(&["plan", "torch>=2.6", "--gpu", "Tesla K80", "--driver", "470.129.06"]).expect(1);
    assert!(none.stdout.contains("no build of torch runs on it"), "{}", none.shown());
    context.run(&["plan", "numpy"]).expect(2);
    context.run(&["plan", "--python", "2.7"]).expect(2);
}
