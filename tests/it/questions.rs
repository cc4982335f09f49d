//! Questions that write nothing: `plan`, `why`, `tree`, `graph`, `diff`, `outdated`.

use super::context::{IndexServer, Shape, TestContext, skipped};
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
    let json = context.run(&["why", "IDNA", "--json"]).expect(0).json()["targets"][0].clone();
    assert_eq!(json["newer"]["possible"], false);
    assert_eq!(json["needed_by"][0]["name"], "requests");
    let none = context.run(&["why", "nosuch"]).expect(1);
    assert!(none.stderr.contains("the lock has no package `nosuch`"), "{}", none.shown());
    context.run(&["why"]).expect(2);
}

#[test]
fn why_speaks_of_the_machine_too() {
    let (_server, context) = locked();
    for party in ["driver", "gpu", "cuda", "cudnn", "nccl", "glibc"] {
        insta::assert_snapshot!(format!("why_{party}"), context.run(&["why", party]).expect(0).shown());
    }
    let json = context.run(&["why", "driver", "--json"]).expect(0).json()["targets"][0].clone();
    assert_eq!(json["needs"], "driver >= 525.60.13", "{json:#}");
    let first = &json["reasons"][0];
    assert_eq!(first["kind"], "needed by");
    assert!(first["source"].as_str().unwrap().contains("docs.nvidia.com"), "{json:#}");
    // A lock of the stack alone knows them as well; one for the CPU needs none.
    let machine = ["--gpu", "V100", "--driver", "580.65.06", "--only-index", "pypi"];
    context.run(&[&["resolve", "--stack-only", "--force"], &machine[..]].concat()).expect(0);
    assert!(context.run(&["why", "gpu"]).expect(0).stdout.contains("has code for"));
    context.run(&["resolve", "--variant", "cpu", "--stack-only", "--force"]).expect(0);
    let none = context.run(&["why", "driver"]).expect(0);
    assert!(none.stdout.contains("nothing in this lock requires driver"), "{}", none.shown());
    assert_eq!(
        context.run(&["why", "driver", "--json"]).expect(0).json()["targets"][0]["needs"],
        serde_json::Value::Null
    );
}

#[test]
fn why_not_proves_or_says_how() {
    let (_server, context) = locked();
    insta::assert_snapshot!(
        "why_not_torch",
        context.run(&["why", "--not", "torch==2.15.0"]).expect(0).shown()
    );
    let json =
        context.run(&["why", "--not", "torch==2.15.0", "--json"]).expect(0).json()["targets"][0].clone();
    assert_eq!((&json["possible"], &json["reasons"][0]["parties"][1]), (&false.into(), &"gpu".into()));
    let can = context.run(&["why", "--not", "filelock"]).expect(1);
    assert!(can.stdout.contains("`filelock` is possible: filelock 3.20.0"), "{}", can.shown());
    // What is no package is no package of that name either.
    let cuda = context.run(&["why", "--not", "cuda>=13"]).expect(0);
    assert!(cuda.flat().contains("have no code for NVIDIA V100 (7.0)"), "{}", cuda.shown());
    assert!(!cuda.stdout.contains("without cuda"), "{}", cuda.shown());
    let older = context.run(&["why", "--not", "cuda<13"]).expect(1);
    assert!(
        older.stdout.contains("`cuda<13` is possible, with torch 2.10.0 cu128, Python 3.12"),
        "{}",
        older.shown()
    );
    context.run(&["why", "--not", "driver>=600"]).expect(2);
    context.run(&["why", "--not", "==1"]).expect(2);
}

/// What the stack alone allows, another package of the request may not; without an index it is offered for the stack.
#[test]
fn why_not_offers_what_every_package_allows() {
    let mut all = little_pypi();
    for (version, torch) in [("1", "2.0.1"), ("2", "2.9.1")] {
        all.push(("pypi", wheel("kernels", version).needs(&format!("torch=={torch}"))));
    }
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write(
        "envlock.toml",
        "[project]\nname = \"demo\"\npython = \"3.11\"\ndependencies = [\"torch==2.0.1\", \"kernels==1\"]\n",
    );
    let machine = ["--gpu", "V100", "--driver", "580.65.06", "--only-index", "pypi"];
    context.run(&[&["resolve"], &machine[..]].concat()).expect(0);
    let run = context.run(&["why", "--not", "python==3.12"]).expect(0);
    assert!(run.stdout.contains("  Python 3.12, torch 2.9.1 and kernels 2  "), "{}", run.shown());
    assert!(!run.stdout.contains("  torch 2.10.0  "), "{}", run.shown());
    assert!(run.stdout.contains("you require Python 3.11  [envlock.toml]"), "{}", run.shown());
    let run = context.run(&["why", "--not", "python==3.15"]).expect(0);
    assert!(!run.stdout.contains("is possible") && run.stdout.contains("  Python 3.15"), "{}", run.shown());
    drop(server);
    std::fs::remove_dir_all(context.dir.path().join("cache")).unwrap();
    let run = context.run(&["--offline", "why", "--not", "python==3.12"]).expect(0);
    assert!(run.stdout.contains("each of them solved for the stack:"), "{}", run.shown());
}

/// A GPU that is newer than the driver and the torch needs another one of both.
#[test]
fn a_newer_driver_and_a_newer_torch() {
    let context = TestContext::new().with_shipped_registry();
    let machine = ["--gpu", "RTX 5090", "--driver", "535.129.03", "--only-index", "pypi"];
    let asked = ["resolve", "--stack-only", "--dry-run", "torch==1.13.1", "torchvision==0.14.1"];
    let run = context.run(&[&asked[..], &machine[..]].concat()).expect(1);
    assert!(
        run.flat().contains("driver >= 570, torch 2.10.0 and torchvision 0.25.0 torch 2.10.0 cu128"),
        "{}",
        run.shown()
    );
    // Where one of them suffices, it alone is offered.
    let machine = ["--gpu", "A100", "--driver", "470.129.06", "--only-index", "pypi"];
    let run = context
        .run(&[&["resolve", "--stack-only", "--dry-run", "torch>=2.6"], &machine[..]].concat())
        .expect(1);
    assert!(!run.flat().contains("driver >= 525.60.13 and"), "{}", run.shown());
}

/// What the project says of its indexes needs no option.
#[test]
fn one_index_for_every_run() {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let manifest = |index: &str| {
        let stack = "[stack]\ntorch = \">=2.9\"\n";
        context.write(
            "envlock.toml",
            &format!("[project]\nname = \"demo\"\n{stack}[resolve]\nonly-index = \"{index}\"\n"),
        );
    };
    manifest("pypi");
    let run = context.run(&["resolve", "--gpu", "V100", "--driver", "580.65.06"]).expect(0);
    assert!(run.stdout.contains("2.10.0+cu128"), "{}", run.shown());
    context.run(&["resolve", "--locked"]).expect(0);
    let run = context.run(&["resolve", "--dry-run", "--gpu", "V100", "--python", "3.12"]).expect(0);
    assert!(run.stdout.contains("2.10.0+cu128"), "{}", run.shown());
    manifest("nosuch");
    context.run(&["resolve", "--gpu", "V100"]).expect(2);
}

/// A row that does not state its wheels is not for every Python and C library.
#[test]
fn rows_without_wheels_are_not_for_every_system() {
    let context = TestContext::new().with_shipped_registry();
    context.write("musl.toml", "schema = 1\n[system]\nos = \"linux\"\narch = \"x86_64\"\nmusl = \"1.2\"\n[driver]\nversion = \"580.65.06\"\n[[gpu]]\nname = \"NVIDIA H100\"\ncompute_capability = \"9.0\"\n");
    for (args, told) in [
        (
            &["torch==1.13.1", "--python", "3.14", "--gpu", "none"][..],
            "no known build of `torch==1.13.1` runs",
        ),
        (&["torch==2.2.2", "--gpu", "GH200", "--platform", "linux-aarch64"], "is a CPU build: cpu of 2.2.2"),
        (&["--host", "musl.toml"], "no known build of torch runs on this machine"),
    ] {
        let run = context.run(&[&["plan"], args].concat());
        assert!(run.flat().contains(told), "{}", run.shown());
    }
    let run = context.run(&["plan", "--gpu", "H100", "--glibc", "2.17"]).expect(0);
    assert!(run.flat().contains("needs glibc >= 2.28: cu132 of 2.12.0 to 2.15.0"), "{}", run.shown());
    // The GPU excludes them whatever the Python; another index has builds for it, and none for that Python.
    for rest in [&["--python", "3.15"][..], &[]] {
        let request =
            ["resolve", "torch>=2.11", "--gpu", "V100", "--only-index", "pypi", "--stack-only", "--dry-run"];
        let run = context.run(&[&request[..], rest].concat()).expect(1);
        let told = "error: no torch>=2.11 of the index pypi runs on NVIDIA V100 (7.0)";
        assert!(run.flat().contains(told) && !run.stdout.contains("also"), "{}", run.shown());
        assert!(!run.stdout.contains("allow the pytorch index") || rest.is_empty(), "{}", run.shown());
    }
}

/// A cluster that is behind with its Python, its C library and its driver hears of all three, and of each way out.
#[test]
fn every_fact_of_the_machine_that_is_too_old_is_told() {
    let context = TestContext::new();
    let request = ["resolve", "torch>=2.8", "--only-index", "pypi", "--stack-only", "--dry-run"];
    let of = |machine: &[&str]| context.run(&[&request[..], machine].concat());
    let old = ["--gpu", "H100", "--driver", "470.129.06", "--glibc", "2.12", "--python", "3.8"];
    let run = of(&old).expect(1);
    for expected in [
        "have wheels for Python 3.9 to",
        "need glibc >= 2.28",
        "CUDA 12 needs driver >= 525.60.13",
        "rest out of the way: driver >= 525.60.13",
        "driver >= 525.60.13 and torch <2.8",
        "driver >= 525.60.13, glibc >= 2.28 and Python 3.14",
        "each removes every cause",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    assert_eq!(run.stdout.matches("also impossible").count(), 2, "{}", run.shown());
    // What is told is true: with any one of them as it was there is no solution, with all changed there is.
    let fits = ["--gpu", "H100", "--driver", "525.60.13", "--glibc", "2.28", "--python", "3.14"];
    of(&fits).expect(0);
    for i in [3, 5, 7] {
        let mut one = fits;
        one[i] = old[i];
        let run = of(&one).expect(1);
        assert!(!run.stdout.contains("also impossible"), "{}", run.shown());
    }
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
    assert!(none.stdout.contains("no known build of `torch>=2.6` runs on this machine"), "{}", none.shown());
    context.run(&["plan", "numpy"]).expect(2);
    context.run(&["plan", "--python", "2.7"]).expect(2);
}

#[test]
fn a_diff_of_two_locks() {
    let (_server, context) = locked();
    std::fs::copy(context.project().join("envlock.lock"), context.project().join("old.lock")).unwrap();
    let same = context.run(&["diff", "old.lock", "envlock.lock", "--exit-code"]).expect(0);
    assert!(same.stdout.contains("no change in packages"), "{}", same.shown());
    context.write(
        "envlock.toml",
        "[project]\nname = \"demo\"\ndependencies = [\"requests\"]\n[stack]\ntorch = \"==2.9.1\"\n",
    );
    context.run(&["resolve", "--only-index", "pypi", "--python", "3.11"]).expect(0);
    let run = context.run(&["diff", "old.lock", "envlock.lock"]).expect(0);
    insta::assert_snapshot!("diff", run.shown());
    context.run(&["diff", "old.lock", "envlock.lock", "--exit-code"]).expect(1);
    let json = context.run(&["diff", "old.lock", "envlock.lock", "--json"]).expect(0).json();
    assert_eq!(json["targets"][0]["stack"][0]["what"], "torch");
    // As git calls a diff driver, here for a lock that is new.
    let git = ["diff", "envlock.lock", "/dev/null", ".", ".", "envlock.lock", "0000", "100644"];
    assert!(context.run(&git).expect(0).stdout.contains("target default added"));
    // One lock is compared with the project's.
    assert_eq!(context.run(&["diff", "old.lock"]).expect(0).stdout, run.stdout);
    context.run(&["diff", "nosuch.lock"]).expect(2);
    context.run(&["diff", "old.lock", "envlock.lock", "old.lock"]).expect(2);
    context.run(&["diff", "envlock.lock", "envlock.toml"]).expect(2);
    // A lock for one machine that became one for several.
    context.write(
        "envlock.toml",
        "[project]\nname = \"demo\"\ndependencies = [\"requests\"]\n[stack]\ntorch = \"==2.9.1\"\n[target.a]\ngpus = [\"none\"]\npython = \"3.11\"\n[target.b]\ngpus = [\"H100\"]\ndriver = \"580.65.06\"\npython = \"3.11\"\n",
    );
    context.run(&["resolve", "--only-index", "pypi", "--force"]).expect(0);
    let several = context.run(&["diff", "old.lock", "envlock.lock"]).expect(0);
    for expected in ["target a added (compared with default, which was removed)", "target b added (compared"]
    {
        assert!(several.stdout.contains(expected), "{}", several.shown());
    }
    assert!(
        several.stdout.contains("torch ") && !several.stdout.contains("target default"),
        "{}",
        several.shown()
    );
}

/// The lock of a commit; what the repository's own configuration names is not run.
#[test]
fn a_diff_against_a_commit() {
    let (_server, mut context) = locked();
    context.set("PATH", &std::env::var("PATH").unwrap_or_default());
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
        let mut command = std::process::Command::new("git");
        command.args(identity).args(arguments).current_dir(context.project());
        command.output().is_ok_and(|output| output.status.success())
    };
    if !git(&["init", "--quiet"]) {
        return skipped("no git is here");
    }
    let none = context.run(&["diff"]).expect(2);
    assert!(none.flat().contains("`HEAD` is neither a file nor a revision of git"), "{}", none.shown());
    // A folder without a lock before and after is no "no change".
    let none = context.run(&["diff", "/dev/null", "/dev/null"]).expect(2);
    assert!(none.stderr.contains("there is no envlock.lock"), "{}", none.shown());
    assert!(git(&["add", "envlock.lock"]) && git(&["commit", "--quiet", "-m", "lock"]));
    std::fs::copy(context.project().join("envlock.lock"), context.project().join("old.lock")).unwrap();
    let program = context.project().join("planted");
    let marked = context.project().join("marked");
    super::cluster::script(&program, &format!("touch '{}'", marked.display()));
    for key in ["core.fsmonitor", "core.sshCommand", "core.pager", "remote.origin.uploadpack"] {
        assert!(git(&["config", key, program.to_str().unwrap()]));
    }
    let same = context.run(&["diff"]).expect(0);
    assert!(same.stdout.contains("no change in packages"), "{}", same.shown());
    context.write("envlock.toml", "[project]\nname = \"demo\"\n[stack]\ntorch = \"==2.9.1\"\n");
    context.run(&["resolve", "--only-index", "pypi", "--python", "3.11"]).expect(0);
    let by_file = context.run(&["diff", "old.lock", "envlock.lock"]).expect(0).stdout;
    assert!(by_file.contains("-> 2.9.1"), "{by_file}");
    for arguments in [&["diff"][..], &["diff", "HEAD"], &["diff", "HEAD", "envlock.lock"]] {
        assert_eq!(context.run(arguments).expect(0).stdout, by_file, "{arguments:?}");
    }
    assert_eq!(context.run(&["diff", "--exit-code"]).expect(1).stdout, by_file);
    assert!(!marked.exists(), "a program that the repository's configuration names was run");
}

#[test]
fn a_merge_conflict_in_the_lock_is_solved_anew() {
    let (_server, context) = locked();
    let manifest = |torch: &str, more: &str| {
        format!("[project]\nname = \"demo\"\ndependencies = [\"tool\"{more}]\n[stack]\ntorch = \"{torch}\"\n")
    };
    let resolve = ["resolve", "--only-index", "pypi", "--python", "3.12"];
    let keep = |name: &str| {
        std::fs::copy(context.project().join("envlock.lock"), context.project().join(name)).unwrap();
    };
    keep("base");
    context.write("envlock.toml", &manifest(">=2.8", ", \"filelock\""));
    context.run(&resolve).expect(0);
    keep("ours");
    context.write("envlock.toml", &manifest("==2.9.1", ""));
    context.run(&resolve).expect(0);
    keep("theirs");
    let merged = std::process::Command::new("git")
        .args(["merge-file", "-p", "ours", "base", "theirs"])
        .current_dir(context.project())
        .output();
    let Ok(merged) = merged else { return skipped("no git here") };
    context.write("envlock.lock", &String::from_utf8(merged.stdout).unwrap());
    context.write("envlock.toml", &manifest("==2.9.1", ", \"filelock\""));
    let refused = context.run(&["resolve", "--locked"]).expect(2);
    assert!(refused.stderr.contains("merge conflict"), "{}", refused.shown());
    let run = context.run(&resolve).expect(0);
    assert!(run.flat().contains("keeping the versions of both sides"), "{}", run.shown());
    let lock = context.read("envlock.lock");
    assert!(lock.contains("\"package filelock\"") && lock.contains("torch = \"2.9.1\""), "{lock}");
    context.run(&["resolve", "--locked", "--only-index", "pypi", "--python", "3.12"]).expect(0);
}

#[test]
fn outdated_says_what_the_machine_and_a_driver_would_allow() {
    let (_server, context) = locked();
    let run = context.run(&["outdated"]).expect(0);
    insta::assert_snapshot!("outdated_v100", run.shown());
    context.write("envlock.toml", "[project]\ndependencies = [\"filelock\"]\n[stack]\ntorch = \"==2.0.1\"\n");
    context
        .run(&[
            "resolve",
            "--stack-only",
            "--force",
            "--gpu",
            "A100",
            "--driver",
            "470.129.06",
            "--only-index",
            "pypi",
        ])
        .expect(0);
    let run = context.run(&["outdated"]).expect(0);
    insta::assert_snapshot!("outdated_a100", run.shown());
    let json = context.run(&["outdated", "--json"]).expect(0).json();
    assert_eq!(json["targets"][0]["stack"]["with_newer_driver"]["torch"], "2.15.0");
}

#[test]
fn the_graph_in_every_format() {
    let (_server, context) = locked();
    for format in ["dot", "mermaid", "svg", "html"] {
        let run = context.run(&["graph", "--format", format]).expect(0);
        insta::assert_snapshot!(format!("graph_{format}"), run.stdout);
    }
    assert_eq!(context.run(&["graph"]).expect(0).stdout, context.run(&["tree"]).expect(0).stdout);
    context.run(&["graph", "--format", "svg", "-o", "g.svg"]).expect(0);
    context.run(&["graph", "--format", "svg", "-o", "g.svg"]).expect(2);
    context.run(&["graph", "--format", "svg", "-o", "g.svg", "--force"]).expect(0);
}

#[test]
fn a_lock_without_its_manifest_answers_with_its_own_limits() {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write(
        "envlock.toml",
        "[project]\nname = \"demo\"\npython = \">=3.11\"\n[stack]\ntorch = \">=2.8\"\ncuda = \">=12.6\"\n\
         cudnn = \">=9\"\nnccl = \">=2\"\ndriver-policy = \"native\"\nignore-gpus = [\"GT 1030\"]\n\
         [[index]]\nname = \"corp\"\nurl = \"http://127.0.0.1:9/simple\"\npackages = [\"corp-*\"]\n",
    );
    let machine = ["--gpu", "NVIDIA H200", "--driver", "595.45.04", "--only-index", "pypi"];
    context.run(&[&["resolve"], &machine[..]].concat()).expect(0);
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    let lock = context.read("envlock.lock");
    assert!(lock.contains("\"cuda >=12.6\"") && lock.contains("\"index corp corp-*\""), "{lock}");
    context.run(&["why", "torch"]).expect(0);
    context.run(&["outdated"]).expect(0);
    context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
}

#[test]
fn why_no_newer_python() {
    let all = vec![
        ("pypi", wheel("native", "1.0").tags("cp312-cp312-manylinux_2_28_x86_64")),
        ("pypi", wheel("free", "1.0")),
    ];
    let server = IndexServer::start(all, Shape::default());
    for (package, expected) in [
        ("native", "newer 3.13 is not possible: native 1.0 has no wheel for Python 3.13 on linux-x86_64"),
        ("free", "newer none, this is the newest series"),
    ] {
        let context = TestContext::with_index(&server);
        context.run(&["resolve", package, "--gpu", "none", "--only-index", "pypi"]).expect(0);
        let run = context.run(&["why", "python"]).expect(0);
        assert!(run.flat().contains(expected), "{}", run.shown());
    }
}

/// An override is named where it decides, and what packages require in its place is not.
#[test]
fn overrides_are_named() {
    let wheels = vec![
        ("pypi", wheel("user", "1.0").needs("lib>=2")),
        ("pypi", wheel("lib", "2.1")),
        ("pypi", wheel("lib", "1.5")),
        ("pypi", wheel("lib", "1.4")),
    ];
    let server = IndexServer::start(wheels, Shape::default());
    let context = TestContext::with_index(&server);
    let manifest = |bound: &str| {
        let text = format!(
            "[project]\nname = \"demo\"\ndependencies = [\"user\"]\n[resolve]\noverrides = [\"lib{bound}\"]\n"
        );
        context.write("envlock.toml", &text);
    };
    manifest("<2");
    let run = context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"lib\"\nversion = \"1.5\""), "{}", run.shown());
    let run = context.run(&["why", "lib"]).expect(0);
    assert!(run.stdout.contains("newest allowed by `<2`"), "{}", run.shown());
    assert!(run.stdout.contains("you override it with `lib<2`"), "{}", run.shown());
    assert!(!run.stdout.contains("would fit"), "{}", run.shown());
    manifest("==3.0");
    let run = context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(1);
    assert!(run.shown().contains("you override lib with `lib==3.0`"), "{}", run.shown());
    assert!(!run.shown().contains("needs lib>=2"), "{}", run.shown());
}
