//! `plan --html`: the page answers as `plan` does, and the documentation has it.

use std::collections::BTreeSet;
use std::process::Command;

use super::browser::seen_in_browser;
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
const DRIVERS: [&str; 12] = [
    // Branches: one without a known release, and one that is newer than all.
    "450",
    "535",
    "620",
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

/// What a person does in the page, and what is then in its table and its commands; and whether a phone shows all of it without
/// scrolling aside.
const HANDS: &str = r#"{
  const type = (id, text) => { at(id).value = text; at(id).dispatchEvent(new Event("input")); };
  const rows = () => [...at("rows").rows].map((row) => row.cells[0].textContent + " " + row.cells[1].textContent);
  const commands = () => [...document.querySelectorAll(".command code")].map((code) => code.textContent);
  const out = { example: [at("gpu").value, at("driver").value, rows().length, ...commands()] };
  for (const gpu of GPUS) for (const driver of DRIVERS) {
    type("gpu", gpu);
    type("driver", driver);
    out[gpu + "/" + driver] = rows();
    out[gpu + "/" + driver + "/commands"] = commands();
  }
  type("gpu", "GeForce RTX 3090");
  const button = [...at("rows").rows].map((row) => row.querySelector("button")).find((button) => button.textContent === "2.7.1");
  button.click();
  out.chosen = commands();
  out.links = [...document.querySelectorAll("dd a")].map((link) => link.href);
  type("gpu", "no such GPU");
  out.unknown = at("summary").textContent;
  type("gpu", "8.6");
  type("driver", "");
  type("show", "all");
  out.all = rows().length;
  const page = document.documentElement;
  out.fits = page.scrollWidth <= page.clientWidth;
  tell(out);
}"#;

/// The page in headless Chromium, from the file alone and as wide as a phone. Its commands are run by `resolve` and
/// understood.
#[test]
fn the_page_in_a_browser() {
    let context = TestContext::new().with_shipped_registry();
    context.run(&["plan", "--html", "page.html"]).expect(0);
    let (gpus, drivers) = (["NVIDIA V100", "GeForce RTX 5090", "none"], ["470.129.06", "580.65.06"]);
    let list = |all: &[&str]| serde_json::to_string(all).unwrap();
    let hands = HANDS.replace("GPUS", &list(&gpus)).replace("DRIVERS", &list(&drivers));
    let Some(seen) = seen_in_browser(&context, "page.html", "390,844", &hands) else { return };
    let texts = |name: &str| -> Vec<String> { serde_json::from_value(seen[name].clone()).unwrap() };
    let example: Vec<String> = seen["example"].as_array().unwrap().iter().map(|v| v.to_string()).collect();
    assert_eq!(example[..2], ["\"NVIDIA H100\"", "\"580.65.06\""]);
    assert!(example.len() == 5 && example[2].parse::<usize>().unwrap() > 50, "{example:?}");
    assert_eq!(
        texts("chosen"),
        [
            "envlock resolve \"torch==2.7.1\" --variant cu128 --gpu \"NVIDIA GeForce RTX 3090\" --driver 580.65.06",
            "pip install torch==2.7.1 --index-url https://download.pytorch.org/whl/cu128"
        ]
    );
    let links = texts("links");
    let is_web = |link: &String| link.starts_with("https://") && !link.contains(' ');
    assert!(links.len() > 3 && links.iter().all(is_web), "{links:?}");
    for gpu in gpus {
        for driver in drivers {
            let commands = texts(&format!("{gpu}/{driver}/commands"));
            let Some(command) = commands.first() else { continue };
            let words = shlex::split(command).unwrap();
            let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            context.run(&[&words[..], &["--stack-only", "--offline", "--dry-run"]].concat()).expect(0);
        }
    }
    for gpu in gpus {
        for driver in drivers {
            let machine = match gpu {
                "none" => vec!["--gpu", "none"],
                gpu => vec!["--gpu", gpu, "--driver", driver],
            };
            let json = context.run(&[&["plan", "--json"], &machine[..]].concat()).json();
            let runs = json["runs"].as_array().into_iter().flatten();
            let row = |row: &serde_json::Value| {
                format!("{} {}", row["torch"].as_str().unwrap(), row["variant"].as_str().unwrap())
            };
            let expected: BTreeSet<String> = runs.map(row).collect();
            let found = seen[format!("{gpu}/{driver}")].as_array().unwrap();
            let found: BTreeSet<String> =
                found.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
            assert_eq!(found, expected, "{gpu}, driver {driver}");
        }
    }
    assert!(seen["unknown"].as_str().unwrap().starts_with("No GPU of the name"), "{seen}");
    assert!(seen["all"].as_u64().unwrap() > 100, "{}", seen["all"]);
    assert_eq!(seen["fits"], true, "the page is wider than a phone");
}

#[test]
fn the_page_opens_with_a_machine_and_replaces_only_its_own() {
    let context = TestContext::new();
    let run = context.run(&["plan", "--html", "page.html", "--glibc", "2.28"]).expect(2);
    assert!(run.flat().contains("hint: leave out `--glibc`"), "{}", run.shown());
    for gpus in [&["13.7"][..], &["V100", "RTX 5090"]] {
        let named: Vec<&str> = gpus.iter().flat_map(|gpu| ["--gpu", gpu]).collect();
        context.run(&[&["plan", "--html", "odd.html"], &named[..]].concat()).expect(2);
        assert!(!context.exists("odd.html"));
    }
    // A machine that is named is what the page opens with, if the page has it.
    for (machine, opens) in [
        (
            &["--gpu", "A100 PCIe", "--driver", "535"][..],
            r#""example":{"gpu":"A100 PCIe 40GB","driver":"535.54.03"}"#,
        ),
        (&["--gpu", "none"], r#""example":{"gpu":"none","driver":null}"#),
        (&["--driver", "470.129.06"], r#""example":{"gpu":"NVIDIA H100","driver":"470.129.06"}"#),
        (&["--platform", "windows-x86_64"], r#""example":{"gpu":"NVIDIA H100","driver":"#),
    ] {
        context.run(&[&["plan", "--html", "example.html"], machine].concat()).expect(0);
        let page = context.read("example.html");
        let found = page.split("\"example\":").nth(1).unwrap();
        assert!(page.contains(opens), "{machine:?} {}", &found[..80]);
    }
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
