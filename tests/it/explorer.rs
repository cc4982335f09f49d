//! `plan --html`: the page answers as `plan` does, and the documentation has it.

use std::collections::BTreeSet;
use std::process::Command;

use super::context::{TestContext, skipped};

const GPUS: [&str; 9] = [
    "NVIDIA V100",
    "NVIDIA A100",
    "NVIDIA H100 PCIe",
    "GeForce RTX 5090",
    "GTX 1080 Ti",
    // Two generations have this name: neither is guessed.
    "GeForce GTX 750 Ti",
    "Tesla T4",
    "8.9",
    "none",
];
const DRIVERS: [&str; 11] = [
    // Branches, the last one without a known release.
    "450",
    "535",
    "999",
    "450.80.02",
    "470.129.06",
    "525.60.13",
    "535.129.03",
    "550.54.15",
    "580.65.06",
    "590.44.01",
    "595.45.04",
];

/// What the script of the page needs of a browser, and the answers for each GPU and driver.
const HARNESS: &str = r#"
const fs = require("fs");
const page = fs.readFileSync(process.argv[2], "utf8");
const json = page.split('<script type="application/json" id="data">')[1].split("</script>")[0];
const script = page.split("<script>")[1].split("function cell(")[0];
const document = { getElementById: () => ({ textContent: json }) };
const answer = new Function("document", "gpu", "driver", script + `
  const machines = machinesOf(gpu);
  const release = gpu === "none" ? "" : releaseOf(driver);
  if (machines.length !== 1 || release === undefined) return [];
  return data.builds.filter((build, i) => verdict(build, machines[0].builds[i], machines[0], release)[2])
    .map((build) => build.torch + " " + build.variant);`);
const [gpus, drivers] = process.argv.slice(3).map((list) => list.split(","));
const out = {};
for (const gpu of gpus) for (const driver of drivers) out[gpu + "/" + driver] = answer(document, gpu, driver);
console.log(JSON.stringify(out));
"#;

#[test]
fn the_page_runs_what_plan_runs() {
    if Command::new("node").arg("--version").output().is_err() {
        skipped("node is not installed: the page is not run");
        return;
    }
    let context = TestContext::new().with_shipped_registry();
    context.run(&["plan", "--html", "page.html"]).expect(0);
    let harness = context.write("harness.js", HARNESS);
    let page = harness.with_file_name("page.html");
    let mut command = Command::new("node");
    command.arg(harness).arg(page).arg(GPUS.join(",")).arg(DRIVERS.join(","));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answers: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    for gpu in GPUS {
        for driver in DRIVERS {
            // Without a GPU a driver plays no part.
            let machine = match gpu {
                "none" => vec!["--gpu", "none"],
                gpu => vec!["--gpu", gpu, "--driver", driver],
            };
            let json = context.run(&[&["plan", "--json"], &machine[..]].concat()).json();
            // A name of two generations, and a driver that does not support the GPU, are no machine.
            let runs = json["runs"].as_array();
            let expected: BTreeSet<String> = runs
                .into_iter()
                .flatten()
                .map(|row| format!("{} {}", row["torch"].as_str().unwrap(), row["variant"].as_str().unwrap()))
                .collect();
            let found = answers[format!("{gpu}/{driver}")].as_array().unwrap();
            let found: BTreeSet<String> =
                found.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
            assert_eq!(found, expected, "{gpu}, driver {driver}");
        }
    }
}

#[test]
fn the_page_is_for_all_machines_and_replaces_only_its_own() {
    let context = TestContext::new();
    let run = context.run(&["plan", "--html", "page.html", "--gpu", "A100"]).expect(2);
    assert!(run.flat().contains("hint: leave out the machine"), "{}", run.shown());
    context.write("page.html", "mine\n");
    context.run(&["plan", "--html", "page.html"]).expect(2);
    assert_eq!(context.read("page.html"), "mine\n");
    context.run(&["plan", "--html", "page.html", "--force"]).expect(0);
    context.run(&["plan", "--html", "page.html"]).expect(0);
    let run = context.run(&["plan", "--html", "arm.html", "--platform", "linux-aarch64"]).expect(0);
    assert!(context.read("arm.html").contains("\"platform\":\"linux-aarch64\""), "{}", run.shown());
}

/// `envlock plan --html docs/explorer.html` writes it.
#[test]
fn the_documentation_has_the_page_of_the_registry() {
    let context = TestContext::new().with_shipped_registry();
    context.run(&["plan", "--html", "page.html"]).expect(0);
    let is_current = context.read("page.html") == include_str!("../../docs/explorer.html");
    assert!(is_current, "run `envlock plan --html docs/explorer.html`");
}
