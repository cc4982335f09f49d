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

/// What a person does in the page, and what is then in its table; and whether a phone shows all of it without scrolling aside.
const HANDS: &str = r#"
<script>
{
  const type = (id, text) => { at(id).value = text; at(id).dispatchEvent(new Event("input")); };
  const rows = () => [...at("rows").rows].map((row) => row.cells[0].textContent + " " + row.cells[1].textContent);
  const out = {};
  for (const gpu of GPUS) for (const driver of DRIVERS) {
    type("gpu", gpu);
    type("driver", driver);
    out[gpu + "/" + driver] = rows();
  }
  type("gpu", "no such GPU");
  out.unknown = at("summary").textContent;
  type("gpu", "8.6");
  type("driver", "");
  type("show", "all");
  out.all = rows().length;
  const page = document.documentElement;
  out.fits = page.scrollWidth <= page.clientWidth;
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = btoa(JSON.stringify(out));
  document.body.append(pre);
}
</script>
"#;

/// The page in headless Chromium, from the file alone and as wide as a phone.
#[test]
fn the_page_in_a_browser() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let has =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let Some(browser) = names.into_iter().find(has) else {
        return skipped("chromium is not installed: the page is not shown");
    };
    let context = TestContext::new().with_shipped_registry();
    context.run(&["plan", "--html", "page.html"]).expect(0);
    let (gpus, drivers) = (["NVIDIA V100", "GeForce RTX 5090", "none"], ["470.129.06", "580.65.06"]);
    let list = |all: &[&str]| serde_json::to_string(all).unwrap();
    let hands = HANDS.replace("GPUS", &list(&gpus)).replace("DRIVERS", &list(&drivers));
    let page = context.read("page.html").replace("</body>", &format!("{hands}</body>"));
    let page = context.write("page.html", &page);
    let profile = context.dir.path().join("profile");
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.args(["--window-size=390,844", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", page.display()));
    let out = command.output().unwrap();
    let dom = String::from_utf8_lossy(&out.stdout).into_owned();
    let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split('<').next());
    let Some(seen) = seen else { panic!("{}", String::from_utf8_lossy(&out.stderr)) };
    let seen = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, seen).unwrap();
    let seen: serde_json::Value = serde_json::from_slice(&seen).unwrap();
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
