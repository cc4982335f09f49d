//! Questions that write nothing: `plan`, `why`, `tree`, `graph`, `diff`, `outdated`.

use super::context::TestContext;

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
