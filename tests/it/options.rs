//! Options that people type first: `-r FILE`, `--cuda`, `-o`, `--all-targets`, a described machine for `probe`, and names
//! with a slip.

use super::context::{IndexServer, Run, Shape, TestContext};
use super::wheels::{little_pypi, little_pytorch, wheel};

fn context() -> (IndexServer, TestContext) {
    let all = little_pypi().into_iter().chain(little_pytorch()).collect();
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    (server, context)
}

const A100: [&str; 4] = ["--gpu", "NVIDIA A100", "--driver", "580.65.06"];

#[test]
fn a_requirements_file_is_the_request_where_there_is_no_manifest() {
    let (_server, context) = context();
    context.write("requirements.txt", "requests\n-r more.txt\n--find-links x\n");
    context.write("more.txt", "idna>=3 # comment\n");
    let run = context.run(&[
        "resolve",
        "-r",
        "requirements.txt",
        "numpy<2",
        "--gpu",
        "none",
        "--only-index",
        "pypi",
    ]);
    let run = run.expect(0);
    assert!(run.flat().contains("`--find-links x`: an `[[index]]` table with this URL"), "{}", run.shown());
    let lock = context.read("envlock.lock");
    for line in ["package idna>=3", "package numpy<2", "package requests"] {
        assert!(lock.contains(line), "{line}: {lock}");
    }
    assert!(!context.exists("envlock.toml"));
    context.run(&["resolve", "--locked"]).expect(0);
    // The file is named where it is at fault.
    context.write("requirements.txt", "idna>99\n");
    let run = context.run(&["resolve", "-r", "requirements.txt", "--gpu", "none", "--dry-run"]).expect(1);
    assert!(run.flat().contains("[requirements.txt:1]"), "{}", run.shown());
    // Lines that a backslash continues are counted.
    context.write("wrong.txt", "idna \\\n    >=3\n\n  numpy @ ???\n");
    let run = context.run(&["resolve", "-r", "wrong.txt"]).expect(2);
    assert!(run.flat().contains("wrong.txt:4: `numpy @ ???` is not a valid requirement"), "{}", run.shown());
    context.write("envlock.toml", "[project]\ndependencies = [\"idna\"]\n");
    let run = context.run(&["resolve", "-r", "requirements.txt"]).expect(2);
    assert!(
        run.flat().contains("hint: import the file instead: `envlock init --force --from"),
        "{}",
        run.shown()
    );
}

#[test]
fn cuda_is_limited_for_one_run() {
    let (_server, context) = context();
    let run = context.run(&[&["resolve", "torch", "--cuda", "12.6", "--python", "3.12"], &A100[..]].concat());
    assert!(run.expect(0).stdout.contains("+cu126"));
    assert!(context.read("envlock.lock").contains("option cuda"));
    let run = context.run(&["resolve", "torch", "--cuda", "twelve", "--gpu", "none"]).expect(2);
    assert!(run.flat().contains("`--cuda`: `twelve` is not a version range"), "{}", run.shown());
}

#[test]
fn each_target_is_written_to_its_file() {
    let (_server, context) = context();
    context.write(
        "envlock.toml",
        "[project]\npython = \"==3.12.*\"\n[stack]\ntorch = \"==2.9.1\"\n[target.big]\ngpus = [\"NVIDIA A100\"]\n\
         driver = \"580.65.06\"\n[target.small]\ngpus = [\"none\"]\n",
    );
    context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    context.run(&["export", "requirements.txt", "--all-targets", "-o", "out"]).expect(0);
    assert!(context.read("out/requirements.txt").contains("torch==2.9.1"));
    assert!(context.read("out/requirements.small.txt").contains("torch==2.9.1"));
    // Its own files are written again, those of others are not.
    context.run(&["export", "requirements.txt", "--all-targets", "-o", "out"]).expect(0);
    context.write("out/requirements.small.txt", "mine\n");
    context.run(&["export", "requirements.txt", "--all-targets", "-o", "out"]).expect(2);
    let run = context.run(&["guard", "-o", "guard.py"]).expect(0);
    assert!(run.stdout.is_empty() && context.read("guard.py").contains("def _envlock_guard"));
    context.run(&["guard", "-o", "guard.py"]).expect(0);
    context.write("guard.py", "mine\n");
    context.run(&["guard", "-o", "guard.py"]).expect(2);
    let run = context.run(&["why", "python", "--target", "big"]).expect(0);
    assert!(run.flat().contains("requested Python ==3.12.* [envlock.toml]"), "{}", run.shown());
}

#[test]
fn a_described_machine_is_saved() {
    let context = TestContext::new();
    let arguments = ["probe", "--gpu", "NVIDIA A100", "--driver", "535.129.03", "--save", "host.toml"];
    context.run(&arguments).expect(0);
    let host = context.read("host.toml");
    assert!(host.contains("version = \"535.129.03\"") && host.contains("name = \"NVIDIA A100\""), "{host}");
    context.run(&["plan", "--host", "host.toml"]).expect(0);
}

#[test]
fn a_slip_in_a_name_is_noticed() {
    let (_server, context) = context();
    for (typed, meant) in [
        ("tourch", Some("torch")),
        ("torchvison", Some("torchvision")),
        // Of what is downloaded most.
        ("tranformers", Some("transformers")),
        ("requets", Some("requests")),
        ("pytorch-lightening", Some("pytorch-lightning")),
        ("nosuchthing", None),
        // Too short, or too far, to be sure.
        ("yaml", None),
        ("opencv", None),
    ] {
        let run = context.run(&["resolve", typed, "--gpu", "none", "--dry-run"]).expect(1);
        let hint = meant
            .map(|meant| format!("did you mean `{meant}`: `envlock resolve {meant} --gpu none --dry-run`"));
        match hint {
            Some(hint) => assert!(run.flat().contains(&hint), "{}", run.shown()),
            None => assert!(!run.flat().contains("did you mean"), "{}", run.shown()),
        }
    }
}

/// The registry knows what a release imports and its METADATA does not require.
#[test]
fn what_a_release_needs_and_does_not_declare_is_locked() {
    let server = IndexServer::start(
        vec![
            ("pypi", wheel("pytorch-lightning", "1.9.5")),
            ("pypi", wheel("setuptools", "80.0")),
            ("pypi", wheel("setuptools", "82.0")),
        ],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let context = TestContext::with_index(&server);
    context.run(&["resolve", "pytorch-lightning", "--gpu", "none", "--python", "3.12"]).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("\"setuptools<82\"") && lock.contains("setuptools-80.0-"), "{lock}");
    context.run(&["resolve", "--locked"]).expect(0);
}

/// What `resolve` says for an A100 without an old lock, and the lock.
fn locked_anew(context: &TestContext, requirements: &[&str]) -> (Run, String) {
    let _ = std::fs::remove_file(context.project().join("envlock.lock"));
    let run = context.run(&[&["resolve"], requirements, &A100[..], &["--only-index", "pypi"]].concat());
    (run.expect(0), context.read("envlock.lock"))
}

/// A pair that the registry says fails is locked where nothing else is to be had, and told.
#[test]
fn what_is_known_to_fail_is_avoided_where_that_is_possible() {
    let diffusers = ["0.40.0", "0.42.1"]
        .map(|version| ("pypi", wheel("diffusers", version).needs("torch>=1.4; extra == 'torch'")));
    let all = little_pypi().into_iter().chain(diffusers).collect();
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let resolve = |requirements: &[&str]| locked_anew(&context, requirements);
    let told =
        "calls `torch.accelerator` when it is imported, and torch has it from 2.6 on (with torch 2.0.1)";
    let (run, lock) = resolve(&["torch", "diffusers"]);
    assert!(lock.contains("diffusers-0.42.1-") && !run.flat().contains("accelerator"), "{}", run.shown());
    // An extra that names torch does not bring it.
    let (_, lock) = resolve(&["diffusers"]);
    assert!(!lock.contains("torch"), "{lock}");
    let (run, lock) = resolve(&["torch==2.0.1", "diffusers"]);
    assert!(lock.contains("diffusers-0.40.0-") && !run.flat().contains("accelerator"), "{}", run.shown());
    let why = context.run(&["why", "diffusers"]).expect(0);
    assert!(why.flat().contains(told) && !why.flat().contains("would fit"), "{}", why.shown());
    let not = context.run(&["why", "--not", "diffusers==0.42.1"]).expect(1);
    assert!(not.flat().contains(told), "{}", not.shown());
    let (run, lock) = resolve(&["torch==2.0.1", "diffusers==0.42.1"]);
    assert!(lock.contains("diffusers-0.42.1-") && run.flat().contains(told), "{}", run.shown());
}

/// A package that only says in its extra `torch` from which torch on it works is not locked beside an older one.
#[test]
fn an_extra_of_a_framework_states_the_oldest_one() {
    let trainer = [("1.0", "torch>=1.4"), ("2.0", "torch<3,>=2.6")].map(|(version, needs)| {
        ("pypi", wheel("trainer", version).needs(&format!("{needs}; extra == 'torch'")))
    });
    let all = little_pypi().into_iter().chain(trainer).collect();
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let resolve = |requirements: &[&str]| locked_anew(&context, requirements);
    let (run, lock) = resolve(&["torch", "trainer"]);
    assert!(lock.contains("trainer-2.0-") && !run.flat().contains("by its extra"), "{}", run.shown());
    let (run, lock) = resolve(&["torch==2.0.1", "trainer"]);
    let why = "behind 2.0: that works with torch>=2.6, by its extra `torch`";
    assert!(lock.contains("trainer-1.0-") && run.flat().contains(why), "{}", run.shown());
    let (run, lock) = resolve(&["torch==2.0.1", "trainer==2.0"]);
    let told = "trainer 2.0 works with torch>=2.6, by its extra `torch`: it may not use torch 2.0.1";
    assert!(lock.contains("trainer-2.0-") && run.flat().contains(told), "{}", run.shown());
}

/// What a package refuses when it is imported counts as a requirement: neither it nor its counterpart is sacrificed.
#[test]
fn bounds_that_are_checked_at_import_are_kept() {
    let lite = ["2.1.0", "2.2.0"].map(|version| ("pypi", wheel("mmcv-lite", version).needs("mmengine")));
    let server = IndexServer::start(
        vec![
            ("pypi", wheel("mmdet", "2.28.2")),
            ("pypi", wheel("mmdet", "3.3.0")),
            ("pypi", wheel("mmengine", "0.10.7")),
            ("pypi", wheel("hydra-core", "1.1.1")),
        ]
        .into_iter()
        .chain(lite)
        .collect(),
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let context = TestContext::with_index(&server).with_shipped_registry();
    context.run(&["resolve", "mmdet", "mmengine", "mmcv-lite", "--gpu", "none"]).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("mmdet-3.3.0-") && lock.contains("mmcv_lite-2.1.0-"), "{lock}");
    // Python 3.11 refuses what hydra-core before 1.3 has.
    let resolve = ["resolve", "hydra-core", "--gpu", "none"];
    let _ = std::fs::remove_file(context.project().join("envlock.lock"));
    context.run(&resolve).expect(0);
    assert!(context.read("envlock.lock").contains("python = \"3.10\""), "{}", context.read("envlock.lock"));
    let run = context.run(&[&resolve[..], &["--python", "3.12"]].concat()).expect(1);
    let told =
        "hydra-core 1.1.1 fails with Python 3.11 and newer: Python 3.11 refuses the defaults of a dataclass";
    assert!(run.flat().contains(told) && run.flat().contains("[imported with Python 3.9"), "{}", run.shown());
}

/// Packages that overwrite each other are told before they are installed.
#[test]
fn packages_that_install_the_same_files_are_told() {
    let server = IndexServer::start(
        vec![("pypi", wheel("opencv-python", "4.11")), ("pypi", wheel("opencv-python-headless", "4.10"))],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let context = TestContext::with_index(&server).with_shipped_registry();
    let run = context
        .run(&["resolve", "opencv-python", "opencv-python-headless", "--gpu", "none", "--python", "3.12"])
        .expect(0);
    let told = "opencv-python 4.11 and opencv-python-headless 4.10 install the same files, such as `cv2/__init__.py`";
    assert!(run.flat().contains(told), "{}", run.shown());
}

/// A wheel with extensions from before NumPy 2 is locked beside NumPy 1, whatever its metadata admits.
#[test]
fn extensions_are_not_locked_beside_a_newer_c_interface() {
    let vision = |tags: &str, day: &str| {
        let wheel = wheel("vision", "4.8").tags(tags).needs("numpy>=1.20");
        wheel.uploaded(&format!("{day}T10:00:00.000000Z"))
    };
    let linux = "cp312-cp312-manylinux_2_28_x86_64";
    let told = "vision 4.8 was built before numpy 2 existed, whose C interface is another: it may not load beside numpy 2.3.5";
    for (tags, day, asked, numpy, is_told) in [
        (linux, "2023-08-09", "numpy", "1.26.4", false),
        ("cp37-abi3-manylinux_2_28_x86_64", "2023-08-09", "numpy", "1.26.4", false),
        (linux, "2024-04-10", "numpy", "2.3.5", false),
        ("py3-none-manylinux_2_28_x86_64", "2023-08-09", "numpy", "2.3.5", false),
        (linux, "2023-08-09", "numpy>=2", "2.3.5", true),
    ] {
        let all = little_pypi().into_iter().chain([("pypi", vision(tags, day))]).collect();
        let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
        let context = TestContext::with_index(&server);
        let run = context.run(&["resolve", "vision", asked, "--gpu", "none", "--python", "3.12"]).expect(0);
        assert!(context.read("envlock.lock").contains(&format!("numpy-{numpy}-")), "{day}: {}", run.shown());
        assert_eq!(run.flat().contains(told), is_told, "{day}: {}", run.shown());
        if numpy == "1.26.4" {
            let behind = "behind 2.3.5: vision 4.8 was built before numpy 2 existed";
            assert!(run.flat().contains(behind), "{}", run.shown());
            let why = context.run(&["why", "numpy"]).expect(0);
            assert!(why.flat().contains(told) && !why.flat().contains("would fit"), "{}", why.shown());
        }
    }
}

/// What the registry alone calls newer is not said to fit where a package of the request excludes it.
#[test]
fn outdated_knows_what_other_packages_exclude() {
    let capped = wheel("capped", "1.0").needs("torch<2.11");
    let all = little_pypi().into_iter().chain([("pypi", capped)]).collect();
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    for requirements in [&["torch", "capped"][..], &["capped"]] {
        let context = TestContext::with_index(&server);
        context.run(&[&["resolve"], requirements, &A100[..], &["--only-index", "pypi"]].concat()).expect(0);
        let run = context.run(&["outdated"]).expect(0);
        let told = "2.15.0 cu132 runs on this machine (compatibility mode), but the rest of the request excludes it: `envlock why --not torch==2.15.0`";
        assert!(run.flat().contains(told) && !run.flat().contains("fits the request"), "{}", run.shown());
    }
    let context = TestContext::with_index(&server);
    context.run(&[&["resolve", "torch==2.10.0"], &A100[..], &["--only-index", "pypi"]].concat()).expect(0);
    let run = context.run(&["outdated"]).expect(0);
    assert!(
        run.flat().contains("would run here (compatibility mode), but the request limits torch"),
        "{}",
        run.shown()
    );
}

#[test]
fn quiet_is_one_line() {
    let (_server, context) = context();
    let arguments =
        ["-q", "resolve", "requests", "--gpu", "none", "--only-index", "pypi", "--python", "3.12"];
    let run = context.run(&arguments).expect(0);
    assert!(
        run.stdout.starts_with("solved 2 packages") && run.stdout.lines().count() == 1,
        "{}",
        run.shown()
    );
    assert!(run.stderr.is_empty(), "{}", run.shown());
    let site = context.dir.path().join("env/lib/python3.12/site-packages");
    std::fs::create_dir_all(site).unwrap();
    let prefix = context.dir.path().join("env").display().to_string();
    let run = context.run(&["verify", "-q", "--prefix", &prefix]).expect(1);
    assert!(run.stdout.starts_with("2 errors") && run.stdout.lines().count() == 1, "{}", run.shown());
}

/// A run without options keeps those that the lock was made with, so that every hint that says `envlock resolve` holds.
#[test]
fn a_run_without_options_keeps_those_of_the_lock() {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\ndependencies = [\"numpy\"]\n");
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi", "--python", "3.12"]).expect(0);
    let lock = context.read("envlock.lock");
    let run = context.run(&["resolve"]).expect(0);
    assert!(run.flat().contains("--python 3.12, --only-index pypi kept from the lock"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), lock, "byte for byte");
    context.run(&["add", "requests"]).expect(0);
    assert!(context.read("envlock.lock").contains("\"option only-index pypi\""));
    // Another option starts anew; what the manifest does not allow is not kept.
    context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    assert!(!context.read("envlock.lock").contains("option python"));
    context.run(&["resolve", "--only-index", "pypi", "--python", "3.12"]).expect(0);
    context.write("envlock.toml", "[project]\npython = \">=3.13\"\ndependencies = [\"numpy\"]\n");
    context.run(&["resolve"]).expect(0);
    assert!(context.read("envlock.lock").contains("python = \"3.13\""));
}

/// A stale lock is in the reports that CI servers show, and so is a lock that cannot be read.
#[test]
fn the_answer_of_locked_in_formats_of_ci_servers() {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\ndependencies = [\"numpy\"]\n");
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi", "--python", "3.12"]).expect(0);
    let locked = |format: &str| context.run(&["resolve", "--locked", "--format", format]);
    assert_eq!(locked("github").expect(0).stdout, "");
    assert!(locked("junit").expect(0).stdout.contains("failures=\"0\""));
    context.write("envlock.toml", "[project]\ndependencies = [\"numpy\", \"requests\"]\n");
    let run = locked("github").expect(1);
    assert!(
        run.stdout.starts_with("::error file=envlock.lock,title=envlock stale-lock::"),
        "{}",
        run.shown()
    );
    assert!(locked("junit").expect(1).stdout.contains("failures=\"1\""));
    let sarif: serde_json::Value = serde_json::from_str(&locked("sarif").expect(1).stdout).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "stale-lock");
    let edited = context.read("envlock.lock") + "x = 1\n";
    context.write("envlock.lock", &edited);
    let run = locked("github").expect(2);
    assert!(run.stdout.starts_with("::error file=envlock.lock,title=envlock lock::"), "{}", run.shown());
    assert!(locked("junit").expect(2).stdout.contains("errors=\"1\""));
    locked("line").expect(2);
    // The line of a file, without its text.
    context.write("envlock.toml", "[project]\ndependencies = [\"numpy\" \"requests\"]\n");
    let run = locked("github").expect(2);
    assert!(
        run.stdout.starts_with("::error file=envlock.toml,line=2,title=envlock input::envlock.toml:2: ")
            && !run.stdout.contains('|'),
        "{}",
        run.shown()
    );
    context.run(&["resolve", "--format", "junit", "--force"]).expect(2);
}

/// What stands in backticks can be copied: no help text is wrapped in between.
#[test]
fn help_is_not_wrapped_in_backticks() {
    let context = TestContext::new();
    let names: Vec<String> = context
        .run(&["--help"])
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned))
        .filter(|name| name.len() > 2 && name.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    assert!(names.len() > 20, "{names:?}");
    for columns in ["80", "100"] {
        for name in names.iter().map(String::as_str).chain(["--help"]) {
            let arguments = if name == "--help" { vec![name] } else { vec![name, "--help"] };
            let out = context.command().env("COLUMNS", columns).args(arguments).output().unwrap();
            let help = String::from_utf8(out.stdout).unwrap();
            let odd: Vec<&str> = help.lines().filter(|line| line.matches('`').count() % 2 == 1).collect();
            assert!(odd.is_empty(), "{name} at {columns}: {odd:#?}");
        }
    }
}
