//! Several targets in one lock.

use super::context::{IndexServer, Shape, TestContext, leftovers};
use super::wheels::{little_pypi, little_pytorch};

const CLUSTER: &str = "[target.cluster]\ngpus = [\"H200\"]\ndriver = \"580.159.04\"\n";
const OLD: &str = "[target.old]\ngpus = [\"V100\"]\ndriver = \"580.65.06\"\n";

fn server() -> IndexServer {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() })
}

fn manifest(targets: &[&str]) -> String {
    format!("[project]\nname = \"demo\"\n[stack]\ntorch = \"*\"\n{}", targets.concat())
}

/// The torch of each target, in the lock's order.
fn torches(run: &super::context::Run) -> Vec<String> {
    let json = run.json();
    let targets = json["targets"].as_array().unwrap();
    targets
        .iter()
        .map(|t| format!("{} {}", t["name"].as_str().unwrap(), t["stack"]["torch"].as_str().unwrap()))
        .collect()
}

/// One torch for all is asked for, whatever it costs.
fn same(targets: &[&str]) -> String {
    manifest(targets).replace("torch = \"*\"", "torch = \"*\"\nsame = true")
}

#[test]
fn one_torch_for_all_targets() {
    let context = TestContext::new();
    context.write("envlock.toml", &same(&[CLUSTER, OLD]));
    let arguments = ["resolve", "--stack-only", "--only-index", "pypi"];
    let run = context.run(&arguments).expect(0);
    insta::assert_snapshot!("targets_agree", run.shown());
    let lock = context.read("envlock.lock");
    assert_eq!(lock.matches("name = \"torch\"").count(), 1, "what is equal stands once: {lock}");
    // Solved again it is the same bytes, and the order in the file decides which is the default.
    context.run(&arguments).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    let json = [&arguments[..], &["--json", "--dry-run"]].concat();
    assert_eq!(torches(&context.run(&json).expect(0)), ["cluster 2.10.0", "old 2.10.0"]);
    context.write("envlock.toml", &same(&[OLD, CLUSTER]));
    assert_eq!(torches(&context.run(&json).expect(0)), ["old 2.10.0", "cluster 2.10.0"]);
}

/// One torch for all where nobody goes back far; else each its own, and why.
#[test]
fn a_target_does_not_take_the_others_back_far() {
    let context = TestContext::new();
    let arguments = ["resolve", "--stack-only", "--only-index", "pypi", "--dry-run", "--json"];
    let near = manifest(&[CLUSTER, OLD]).replace("torch = \"*\"", "torch = \"<2.12\"");
    context.write("envlock.toml", &near);
    assert_eq!(torches(&context.run(&arguments).expect(0)), ["cluster 2.10.0", "old 2.10.0"]);
    // The last torch for Intel's Macs is 2.2.2.
    let mac = "[target.mac]\ngpus = [\"none\"]\nplatform = \"macos-x86_64\"\n";
    context.write("envlock.toml", &manifest(&[CLUSTER, mac]));
    let json = context.run(&arguments).expect(0);
    assert_eq!(torches(&json), ["cluster 2.15.0", "mac 2.2.2"]);
    let text =
        context.run(&["resolve", "--stack-only", "--only-index", "pypi", "--dry-run"]).expect(0).flat();
    assert!(text.contains("torch differs between targets: `mac` has 2.2.2, not 2.15.0"), "{text}");
    assert!(!text.contains("you constrain"), "a bound of the search is no reason: {text}");
    context.write("envlock.toml", &same(&[CLUSTER, mac]));
    let json = context.run(&arguments).expect(0);
    assert_eq!(torches(&json), ["cluster 2.2.2", "mac 2.2.2"]);
    context.run(&["resolve", "--stack-only", "--only-index", "pypi"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
}

#[test]
fn no_torch_for_all_targets() {
    let context = TestContext::new();
    let kepler = "[target.kepler]\ngpus = [\"Tesla K80\"]\ndriver = \"470.129.06\"\n";
    let new = "[target.new]\ngpus = [\"B200\"]\ndriver = \"580.65.06\"\n";
    context.write("envlock.toml", &manifest(&[new, kepler]));
    let arguments = ["resolve", "--stack-only", "--only-index", "pypi"];
    let run = context.run(&arguments).expect(0);
    assert!(
        run.flat().contains(
            "no torch version that the request allows runs on all targets: `kepler` has 2.0.1, not 2.15.0"
        ),
        "{}",
        run.shown()
    );
    assert!(run.flat().contains("torch 2.15.0+cu132 has no code for Tesla K80 (3.7)"), "{}", run.shown());
    // What is written is the reason where it excludes the release, and what the lock holds is no limit of the request.
    let old = "[target.old]\ngpus = [\"A100\"]\ndriver = \"580.65.06\"\npython = \"3.10\"\n";
    let bounds = "constraints = [\"torch<2; python_version < '3.11'\"]\n[stack]";
    context.write("envlock.toml", &manifest(&[new, old]).replacen("[stack]", bounds, 1));
    let run = context.run(&[&arguments[..], &["--force"]].concat()).expect(0);
    assert!(run.flat().contains("python_full_version < '3.11'` excludes it"), "{}", run.shown());
    let run = context.run(&arguments).expect(0);
    assert!(
        !run.flat().contains("--upgrade=torch") && !run.flat().contains("no torch version"),
        "{}",
        run.shown()
    );
    // One that cannot be served at all is named.
    context.write("envlock.toml", &manifest(&[new, kepler]).replace("\"*\"", "\">=2.5\""));
    let run = context.run(&[&arguments[..], &["--json"]].concat()).expect(1);
    assert_eq!(run.json()["conflict"]["target"], "kepler");
}

/// What is locked for a new target is no change of what was locked before.
#[test]
fn a_new_target_is_no_change() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = [\"filelock\"]\n[stack]\ntorch = \"*\"\n",
    );
    let machine = ["--gpu", "H200", "--driver", "595.45.04", "--only-index", "pypi"];
    context.run(&[&["resolve"], &machine[..]].concat()).expect(0);
    let targets = "[target.a]\ngpus = [\"none\"]\n[target.b]\ngpus = [\"H200\"]\ndriver = \"595.45.04\"\n";
    let manifest = context.read("envlock.toml");
    context.write("envlock.toml", &manifest.replace("torch = \"*\"\n", &format!("\n{targets}")));
    let run = context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    assert!(!run.stdout.contains("\nchanged"), "{}", run.shown());
}

#[test]
fn files_and_packages_of_several_targets() {
    let server = server();
    let context = TestContext::with_index(&server);
    let laptop = "[target.laptop]\ngpus = [\"none\"]\npython = \"3.12\"\n";
    context.write("envlock.toml", &manifest(&[CLUSTER, laptop]));
    let run = context.run(&["resolve"]).expect(0);
    assert!(
        run.flat().contains("wrote envlock.lock, environment.yml, environment.laptop.yml"),
        "{}",
        run.shown()
    );
    // The laptop has a build of its own; what both have stands once.
    let lock = context.read("envlock.lock");
    assert!(lock.contains("targets = [\"laptop\"]") && lock.contains("targets = [\"cluster\"]"), "{lock}");
    assert_eq!(lock.matches("name = \"filelock\"").count(), 1, "{lock}");
    context.run(&["resolve", "--locked"]).expect(0);
    let first = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    let other = context.run(&["export", "requirements.txt", "--target", "laptop"]).expect(0).stdout;
    assert!(
        first.contains("torch==2.15.0 ") && other.contains("/whl/cpu/torch-2.15.0%2Bcpu-"),
        "{first}\n{other}"
    );
    let conda = context.run(&["export", "environment.yml", "--target", "laptop"]).expect(0).stdout;
    assert_eq!(conda, context.read("environment.laptop.yml"));
    assert!(conda.contains("name: demo-laptop\n") && conda.contains("python=3.12"), "{conda}");
    // A node is admitted when one of the targets serves it.
    let node = "schema = 1\ngpu = []\n[system]\nos = \"linux\"\narch = \"x86_64\"\nglibc = \"2.35\"\n";
    let node = context.write("node.toml", node).display().to_string();
    context.run(&["verify", "--host", &node]).expect(0);
    // A target that is taken out leaves its file, and that is said.
    context.write("envlock.toml", &manifest(&[CLUSTER]));
    context.run(&["resolve", "--locked"]).expect(1);
    let run = context.run(&["resolve"]).expect(0);
    assert!(run.flat().contains("`environment.laptop.yml` is stale"), "{}", run.shown());
    assert!(!context.read("envlock.lock").contains("laptop"));
    assert_eq!(leftovers(&context.project()), Vec::<String>::new());
}

#[test]
fn targets_that_cannot_be() {
    let context = TestContext::new();
    let table = [
        ("[target.a]\ngpus = []\n", "envlock.toml:5: the target `a` names no GPU"),
        ("[target.\"a b\"]\n", "envlock.toml:5: `a b` is not a valid target name"),
        ("[target.a]\ngpus = [\"none\", \"H200\"]\n", "`none` is a machine without a GPU"),
        ("[target.a]\ngpus = [\"H2000\"]\n", "envlock.toml:5: [target.a]: unknown GPU `H2000`"),
        ("[target.a]\ndriver = \"12.2\"\n", "envlock.toml:5: [target.a]: `12.2` is not a driver version"),
        ("[target.a]\npython = \"3.8\"\n", "Python `3.8` is not within the project's `>=3.10`"),
        ("[target.a]\npython = \"two\"\n", "envlock.toml:5: "),
        ("[target.a]\ngpu = [\"H200\"]\n", "unknown field `gpu`"),
        ("[target.a]\n[target.a]\n", "envlock.toml:6: "),
    ];
    for (targets, expected) in table {
        let text = format!("[project]\npython = \">=3.10\"\n[stack]\ntorch = \"*\"\n{targets}");
        context.write("envlock.toml", &text);
        let run = context.run(&["resolve", "--stack-only"]).expect(2);
        assert!(run.flat().contains(expected), "{targets}: {}", run.shown());
    }
    // Options describe another machine than the manifest's: to look, not to lock.
    context.write("envlock.toml", &manifest(&[CLUSTER]));
    let other = ["resolve", "--stack-only", "--only-index", "pypi", "--gpu", "V100"];
    let run = context.run(&other).expect(2);
    assert!(
        run.flat().contains("envlock.toml already defines the targets [target.cluster]"),
        "{}",
        run.shown()
    );
    context.run(&[&other[..], &["--dry-run"]].concat()).expect(0);
}

/// A command of a way out asks for every target: what refuses the others is said at once.
#[test]
fn each_target_without_a_solution_is_named() {
    let context = TestContext::new();
    let blackwell = "[target.new]\ngpus = [\"RTX 5090\"]\ndriver = \"580.65.06\"\n";
    let behind = "[target.behind]\ngpus = [\"H200\"]\ndriver = \"450.80.02\"\n";
    let pinned = manifest(&[blackwell, CLUSTER, behind]).replace("torch = \"*\"", "torch = \"==2.6.0\"");
    context.write("envlock.toml", &pinned);
    let arguments = ["resolve", "--stack-only", "--only-index", "pypi"];
    let run = context.run(&arguments).expect(1);
    insta::assert_snapshot!("each_target_without_a_solution", run.shown());
    let json = context.run(&[&arguments[..], &["--json"]].concat()).expect(1).json();
    assert_eq!(json["conflict"]["target"], "new");
    assert_eq!(json["conflict"]["other_targets"][0]["target"], "behind");
}

/// Where no one release runs on all targets, those below the pin do, each target its own.
#[test]
fn a_way_out_for_every_target_comes_first() {
    let context = TestContext::new();
    let target = |name: &str, gpu: &str, driver: &str| {
        format!("[target.{name}]\ngpus = [\"{gpu}\"]\ndriver = \"{driver}\"\n")
    };
    let first = |targets: &[String], pin: &str| {
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let text = manifest(&targets).replace("torch = \"*\"", &format!("torch = \"=={pin}\""));
        context.write("envlock.toml", &text);
        let run = context.run(&["resolve", "--stack-only", "--only-index", "pypi"]).expect(1);
        let mut lines = run.stdout.lines().skip_while(|line| !line.starts_with("ways out"));
        lines.nth(2).unwrap().trim().to_owned()
    };
    let (old, new) = (target("a", "A100", "535.129.03"), target("b", "RTX 5090", "580.65.06"));
    let one = first(&[new.clone(), old.clone()], "2.6.0");
    assert_eq!(one, "envlock add torch==2.8.0 --only-index pypi --stack-only");
    let each = first(&[old, new, target("c", "GTX 1080", "580.65.06")], "2.13.0");
    assert_eq!(each, "envlock add 'torch<2.13.0' --only-index pypi --stack-only");
}

const TWO_CARDS: &str = "schema = 1\n[driver]\nversion = \"580.65.06\"\n[[gpu]]\nname = \"NVIDIA B200\"\nuuid = \"GPU-11111111-2222\"\n[[gpu]]\nname = \"NVIDIA GeForce GTX 1050\"\nuuid = \"GPU-aaaaaaaa-2222\"\n[system]\nos = \"linux\"\narch = \"x86_64\"\nglibc = \"2.35\"\n";

#[test]
fn cards_that_exclude_each_other() {
    let context = TestContext::new();
    let host = context.write("host.toml", TWO_CARDS).display().to_string();
    let arguments =
        ["resolve", "torch>=2.11", "--stack-only", "--dry-run", "--only-index", "pypi", "--host", &host];
    let run = context.run(&arguments).expect(1);
    insta::assert_snapshot!("cards_that_exclude_each_other", run.shown());
    let json = context.run(&[&arguments[..], &["--json"]].concat()).expect(1).json();
    let ways = json["conflict"]["would_work_if"].as_array().unwrap();
    let gpu = ways.iter().find(|w| w["party"] == "gpu").unwrap();
    assert_eq!(gpu["set"], "CUDA_VISIBLE_DEVICES=GPU-11111111-2222");
}

#[test]
fn a_card_of_an_ambiguous_name_can_be_ignored() {
    // There are two GT 1030, of two capabilities.
    let context = TestContext::new();
    let host = TWO_CARDS
        .replace("NVIDIA GeForce GTX 1050\"", "NVIDIA GeForce GT 1030\"\ncompute_capability = \"6.1\"");
    let host = context.write("host.toml", &host).display().to_string();
    context.write("envlock.toml", "[stack]\ntorch = \">=2.11\"\nignore-gpus = [\"GT 1030\"]\n");
    context.run(&["resolve", "--stack-only", "--only-index", "pypi", "--host", &host]).expect(0);
}

#[test]
fn a_display_card_can_be_ignored() {
    let context = TestContext::new();
    let host = context.write("host.toml", TWO_CARDS).display().to_string();
    let arguments = ["resolve", "--stack-only", "--only-index", "pypi", "--host", &host];
    context.write("envlock.toml", "[stack]\ntorch = \">=2.11\"\nignore-gpus = [\"GTX 1050\"]\n");
    let run = context.run(&arguments).expect(0);
    assert!(run.flat().contains("GTX 1050 is ignored (`ignore-gpus` in envlock.toml)"), "{}", run.shown());
    assert!(run.stdout.contains("code for 10.0"), "{}", run.shown());
    context.run(&["resolve", "--locked"]).expect(0);
    // The other questions leave it out too.
    context.run(&["verify", "--host", &host]).expect(0);
    context.run(&["plan", "torch>=2.11", "--host", &host]).expect(0);
    // Named no longer, it counts again, in the machine that the lock keeps too.
    context.write("envlock.toml", "[stack]\ntorch = \">=2.11\"\n");
    context.run(&["resolve", "--locked"]).expect(1);
    context.run(&arguments).expect(1);
    context.run(&["resolve", "--stack-only", "--only-index", "pypi"]).expect(1);
    context.write("envlock.toml", "[stack]\ntorch = \">=2.11\"\nignore-gpus = [\"GT 9999\"]\n");
    let run = context.run(&arguments).expect(2);
    assert!(run.flat().contains("`ignore-gpus`: unknown GPU `GT 9999`"), "{}", run.shown());
    context.write("envlock.toml", "[stack]\ntorch = \">=2.11\"\nignore-gpus = 3\n");
    let run = context.run(&arguments).expect(2);
    assert!(run.flat().contains("envlock.toml:3: `ignore-gpus` must be a list"), "{}", run.shown());
}

#[test]
fn questions_are_answered_for_each_target() {
    let context = TestContext::new();
    context.write("envlock.toml", &manifest(&[CLUSTER, OLD]));
    context.run(&["resolve", "--stack-only", "--only-index", "pypi"]).expect(0);
    let run = context.run(&["outdated"]).expect(0);
    insta::assert_snapshot!("outdated_targets", run.shown());
    let json = context.run(&["outdated", "--json", "--target", "old"]).expect(0).json();
    assert_eq!(
        (json["targets"].as_array().unwrap().len(), &json["targets"][0]["target"]),
        (1, &"old".into())
    );
    // What one target can have is no proof against it for all.
    let why =
        |target: &[&str]| context.run(&[&["why", "--not", "torch>=2.12", "--json"][..], target].concat());
    assert_eq!(why(&["--target", "old"]).expect(0).json()["targets"][0]["possible"], false);
    let both = why(&["--offline"]);
    assert_ne!(both.code, 0, "{}", both.shown());
}

#[test]
fn a_jetson_is_told_what_exists_for_it() {
    let context = TestContext::new();
    let arguments = ["resolve", "torch", "--stack-only", "--dry-run", "--platform", "linux-aarch64", "--gpu"];
    let orin = context.run(&[&arguments[..], &["Jetson AGX Orin"]].concat()).expect(1);
    assert!(orin.flat().contains("the torch wheel that NVIDIA builds for each JetPack"), "{}", orin.shown());
    let thor = context.run(&[&arguments[..], &["11.0", "--json"]].concat()).expect(0).json();
    let coverage = thor["targets"][0]["envelope"]["coverage"].as_array().unwrap();
    assert!(coverage.iter().any(|row| row["compute_capability"] == "11.0"), "{coverage:?}");
    let unknown = context.run(&["plan", "--gpu", "Orin"]).expect(2);
    assert!(unknown.flat().contains("`Jetson Orin NX`"), "{}", unknown.shown());
    let plan = context.run(&["plan", "--gpu", "Jetson Orin NX", "--platform", "linux-aarch64"]);
    assert!(plan.flat().contains("each JetPack"), "{}", plan.shown());
}

#[test]
fn a_c_library_of_another_system_is_a_contradiction() {
    let context = TestContext::new();
    let windows = "[target.win]\ngpus = [\"V100\"]\nplatform = \"windows-x86_64\"\nglibc = \"2.28\"\n";
    context.write("envlock.toml", &manifest(&[windows]));
    let run = context.run(&["resolve", "--stack-only"]).expect(2);
    let told = run.flat();
    assert!(told.contains("[target.win]: glibc does not exist on windows-x86_64"), "{}", run.shown());
    context.run(&["plan", "--platform", "windows-x86_64", "--glibc", "2.28"]).expect(2);
    context.run(&["plan", "--platform", "macos-arm64", "--driver", "535.129.03"]).expect(2);
}
