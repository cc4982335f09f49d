//! What a refusal says, whom it blames, and which changes it offers: each was tried by people who read only the text.

use super::common::installed::{install, interpreter};
use super::context::{IndexServer, Run, Shape, TestContext};
use super::wheels::{Wheel, wheel};

fn index(wheels: Vec<Wheel>) -> (IndexServer, TestContext) {
    let all = wheels.into_iter().map(|made| ("pypi", made)).collect();
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    (server, context)
}

fn resolve(context: &TestContext, arguments: &[&str]) -> Run {
    context.run(&[&["resolve", "--gpu", "none"], arguments].concat())
}

fn says(run: &Run, expected: &[&str]) {
    for text in expected {
        assert!(run.flat().contains(text), "{text}: {}", run.shown());
    }
}

fn is_silent_about(run: &Run, texts: &[&str]) {
    for text in texts {
        assert!(!run.flat().contains(text), "{text}: {}", run.shown());
    }
}

/// A marker that is true for every Python a release is for is no reason to blame the newest Python.
#[test]
fn a_reason_holds_for_every_python() {
    let flow = |version: &str, tags: &str| {
        wheel("flow", version).tags(tags).python(">=3.9").needs("gamma>=2; python_version >= '3.9'")
    };
    let (_server, context) = index(vec![
        flow("2.0", "cp312-cp312-manylinux_2_28_x86_64"),
        flow("2.1", "cp314-cp314-manylinux_2_28_x86_64"),
        wheel("gamma", "1.0"),
        wheel("gamma", "2.0"),
    ]);
    let run = resolve(&context, &["flow>=2", "gamma==1.0"]).expect(1);
    says(&run, &["flow 2.0 and 2.1 need gamma>=2", "gamma 2.0 "]);
    is_silent_about(&run, &["for Python"]);
}

/// The requirement that excludes is at fault, not the old source whose requirements nobody knows.
#[test]
fn unknown_requirements_are_blamed_last() {
    let computed =
        "import os\nfrom setuptools import setup\nsetup(install_requires=os.environ['X'].split())\n";
    let (_server, context) = index(vec![
        wheel("flow", "5.0").needs("gamma>=1.17"),
        wheel("gamma", "1.3").source(computed),
        wheel("gamma", "2.0"),
    ]);
    let run = resolve(&context, &["flow>=5", "gamma<1.10"]).expect(1);
    says(&run, &["flow 5.0 needs gamma>=1.17", "you require gamma<1.10", "gamma 2.0 "]);
    is_silent_about(&run, &["not known", "[[metadata]]"]);
    let alone = resolve(&context, &["gamma<1.10"]).expect(1);
    says(&alone, &["exists only as source, and its requirements are not known", "[[metadata]]"]);
}

#[test]
fn the_limit_on_python_is_part_of_the_reason() {
    let (_server, context) = index(vec![
        wheel("flow", "5.0").python(">=3.10"),
        wheel("flow", "5.1").python(">=3.11"),
        wheel("flow", "4.0"),
    ]);
    let run = resolve(&context, &["flow>=5", "--python", "3.8"]).expect(1);
    says(&run, &["flow 5.0 and 5.1 require Python >=3.10 or >=3.11", "you require Python 3.8 [--python]"]);
    is_silent_about(&run, &["no wheel"]);
}

#[test]
fn a_newer_c_library_is_the_reason_where_it_is() {
    let (_server, context) = index(vec![wheel("flow", "5.0").tags("py3-none-manylinux_2_34_x86_64")]);
    let options = ["flow", "--glibc", "2.17", "--platform", "linux-x86_64"];
    let run = resolve(&context, &options).expect(1);
    says(&run, &["flow 5.0", "C library", "2.17"]);
    is_silent_about(&run, &["no wheel for Python"]);
}

/// Releases near a pin that does not exist come first; `<4` would admit no pre-release of 4.
#[test]
fn ways_out_are_near_what_was_asked_for() {
    let (_server, context) =
        index(["1.0", "2.6.0", "2.7.0", "4.0b1"].map(|version| wheel("flow", version)).into_iter().collect());
    let run = resolve(&context, &["flow==2.6.1"]).expect(1);
    let ways: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("  flow 2.")).collect();
    assert!(
        ways.len() == 2 && ways[0].contains("flow 2.6.0") && ways[1].contains("flow 2.7.0"),
        "{}",
        run.shown()
    );
    let (_server, context) = index(vec![wheel("flow", "4.0b1")]);
    let run = resolve(&context, &["flow>=4"]).expect(1);
    says(&run, &["flow 4.0b1 "]);
    resolve(&context, &["flow==4.0b1", "--dry-run"]).expect(0);
}

#[test]
fn overrides_and_refused_builds_are_let_go_of() {
    let setup = "from setuptools import setup\nsetup()\n";
    let (_server, context) = index(vec![
        wheel("flow", "1.0").needs("gamma>=1"),
        wheel("gamma", "1.0"),
        wheel("built", "1.0").source(setup),
        wheel("setuptools", "80.0"),
        wheel("wheel", "0.45"),
    ]);
    context.write(
        "envlock.toml",
        "[project]\ndependencies = [\"flow\"]\n[resolve]\noverrides = [\"gamma==99\"]\n",
    );
    let run = resolve(&context, &[]).expect(1);
    says(&run, &["without the override gamma==99"]);
    context.write("envlock.toml", "[project]\ndependencies = [\"built\"]\n");
    let run = resolve(&context, &["--no-sources"]).expect(1);
    says(&run, &["with builds from source"]);
    resolve(&context, &[]).expect(0);
}

/// An extra that is empty on the Python that would be chosen is not what was asked for.
#[test]
fn an_extra_is_not_empty_where_it_need_not_be() {
    let (_server, context) = index(vec![
        wheel("flow", "1.0").needs("gamma; extra == 'fast' and python_version < '3.12'"),
        wheel("gamma", "1.0"),
    ]);
    let run = resolve(&context, &["flow[fast]"]).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"gamma\""), "{}", run.shown());
    says(&run, &["3.11"]);
    let run = resolve(&context, &["flow[fast]", "--python", ">=3.11", "--dry-run"]).expect(0);
    is_silent_about(&run, &["requires nothing"]);
    context.write("envlock.toml", "[project]\npython = \"==3.13.*\"\ndependencies = [\"flow[fast]\"]\n");
    let run = resolve(&context, &[]).expect(0);
    assert!(!context.read("envlock.lock").contains("name = \"gamma\""), "{}", run.shown());
}

/// What stands on PyPI under the name of another project is not taken for it.
#[test]
fn a_name_of_another_project_is_refused() {
    let (_server, context) = index(vec![wheel("apex", "0.9.10"), wheel("flow", "1.0").needs("apex")]);
    let context = context.with_shipped_registry();
    for asked in ["apex", "flow"] {
        let run = resolve(&context, &[asked]).expect(1);
        says(&run, &["a toolkit for web applications on PyPI, not NVIDIA's Apex"]);
    }
}

/// A stub names the index that has the package.
#[test]
fn a_stub_names_its_index() {
    let pyproject = "[build-system]\nrequires = [\"wheel-stub\"]\nbuild-backend = \"wheel_stub.buildapi\"\n[tool.wheel_stub]\nindex_url = \"https://host.example/simple/\"\n";
    let stub = wheel("flow", "1.0").source("").file("pyproject.toml", pyproject);
    let (_server, context) = index(vec![stub]);
    let run = resolve(&context, &["flow"]).expect(1);
    says(&run, &["exists only as a stub", "`url = \"https://host.example/simple/\"`"]);
}

/// Stubs that name one index are one reason, and one table.
#[test]
fn stubs_of_one_index_are_one_reason() {
    let pyproject = "[build-system]\nrequires = [\"wheel-stub\"]\nbuild-backend = \"wheel_stub.buildapi\"\n[tool.wheel_stub]\nindex_url = \"https://host.example/simple/\"\n";
    let stub = |name: &str| wheel(name, "1.0").source("").file("pyproject.toml", pyproject);
    let flow = |version: &str, part: &str| wheel("flow", version).needs(part);
    let (_server, context) =
        index(vec![flow("1.0", "flow-a==1.0"), flow("2.0", "flow-b==1.0"), stub("flow-a"), stub("flow-b")]);
    let run = resolve(&context, &["flow"]).expect(1);
    says(&run, &["flow-a 1.0 and flow-b 1.0 exist only as stubs", "`packages = [\"flow-a\", \"flow-b\"]`"]);
}

/// Lines that exclude each other are the reason, and each of them is a way out.
#[test]
fn lines_that_exclude_each_other() {
    let (_server, context) =
        index(["1.0", "1.1", "2.0"].map(|version| wheel("flow", version)).into_iter().collect());
    context.write("requirements.txt", "flow==1.0,==1.1\n");
    let run = resolve(&context, &["-r", "requirements.txt"]).expect(1);
    says(&run, &["no version of flow is ==1.0 and ==1.1 at once", "flow 1.1 ", "flow 1.0 "]);
    is_silent_about(&run, &["available versions"]);
    // Each line by itself admits nothing.
    let run = resolve(&context, &["flow>=3,<4"]).expect(1);
    says(&run, &["available versions of flow: 1.0 to 2.0"]);
}

/// Two extras that exclude each other are both named, and each way out names its line.
#[test]
fn extras_that_exclude_each_other() {
    let (_server, context) = index(vec![
        wheel("flow", "1.0").needs("gamma==1.0; extra == 'one'").needs("gamma==2.0; extra == 'two'"),
        wheel("gamma", "1.0"),
        wheel("gamma", "2.0"),
    ]);
    let run = resolve(&context, &["flow[one]", "flow[two]", "--python", "3.12"]).expect(1);
    says(&run, &["you require flow[one]", "you require flow[two]", "without flow[one]", "without flow[two]"]);
    assert_eq!(run.flat().matches("without flow[one]").count(), 1, "{}", run.shown());
}

/// That builds are refused is a reason where releases have wheels, for other Pythons.
#[test]
fn refused_builds_are_a_reason() {
    let setup = "from setuptools import setup\nsetup()\n";
    let (_server, context) = index(vec![
        wheel("built", "1.0").tags("cp38-cp38-manylinux_2_17_x86_64"),
        wheel("built", "1.0").source(setup),
        wheel("setuptools", "80.0"),
        wheel("wheel", "0.45"),
    ]);
    let run = resolve(&context, &["built", "--python", "3.12", "--no-sources"]).expect(1);
    says(
        &run,
        &[
            "built 1.0 has no wheel for Python 3.12 on linux-x86_64",
            "builds from source are refused [--no-sources]",
            "with builds from source",
        ],
    );
}

/// What cannot be had at all is left out, also together with the change that another cause needs.
#[test]
fn what_cannot_be_had_is_left_out() {
    let (_server, context) = index(vec![wheel("flow", "1.0"), wheel("gamma", "1.0")]);
    let run = resolve(&context, &["flow==9", "gamma", "absent"]).expect(1);
    says(&run, &["without absent", "flow 1.0 and without absent"]);
    is_silent_about(&run, &["none of the changes"]);
}

/// Where one proof does not hold for all Pythons, each reason says for which it does.
#[test]
fn each_python_has_its_reason() {
    let computed =
        "import os\nfrom setuptools import setup\nsetup(install_requires=os.environ['X'].split())\n";
    let (_server, context) = index(vec![
        wheel("flow", "1.0").tags("cp39-cp39-manylinux_2_17_x86_64"),
        wheel("flow", "1.0").source(computed),
        wheel("gamma", "2.0").python(">=3.10"),
    ]);
    let run = resolve(&context, &["flow==1.0", "gamma==2.0", "--python", ">=3.9"]).expect(1);
    says(&run, &["flow 1.0 has no wheel for Python 3.1", "gamma 2.0 requires Python >=3.10"]);
}

/// A driver is no way to make an old torch run on aarch64, where it has CPU builds alone.
#[test]
fn builds_for_the_cpu_are_a_way_out_where_there_are_no_others() {
    let server = IndexServer::start(Vec::new(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server).with_shipped_registry();
    let machine =
        ["--gpu", "A100", "--driver", "580.65.06", "--glibc", "2.35", "--platform", "linux-aarch64"];
    let asked = [&["resolve", "torch==2.1.0", "--stack-only"], &machine[..]].concat();
    let run = context.run(&[&asked[..], &["--only-index", "pypi"]].concat()).expect(1);
    says(&run, &["torch 2.1.0 has only CPU builds for linux-aarch64", "variant cpu"]);
    // The pytorch index may have another.
    let run = context.run(&asked).expect(3);
    says(&run, &["no row of a CUDA build of torch 2.1.0 for linux-aarch64, which may exist"]);
    let machine = ["--gpu", "B200", "--driver", "580.65.06", "--glibc", "2.35", "--platform", "linux-x86_64"];
    let run = context.run(&[&["resolve", "torch==2.1.0", "--stack-only"], &machine[..]].concat()).expect(1);
    is_silent_about(&run, &["variant cpu"]);
}

/// What a build has of a library stands beside the limit that excludes it.
#[test]
fn a_limit_on_a_library_stands_beside_what_the_build_has() {
    let server = IndexServer::start(Vec::new(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server).with_shipped_registry();
    context
        .write("envlock.toml", "[project]\ndependencies = [\"torch==2.6.0\"]\n[stack]\nnccl = \">=2.27\"\n");
    let machine = ["--gpu", "A100", "--driver", "580.65.06", "--glibc", "2.35", "--platform", "linux-x86_64"];
    let run = context.run(&[&["resolve", "--stack-only"], &machine[..]].concat()).expect(1);
    says(&run, &["torch 2.6.0 has NCCL 2.21.5", "you require NCCL >=2.27"]);
}

/// What `resolve` leaves out, `verify` does not miss: with the lock, and without one.
#[test]
fn a_backport_that_is_left_out_is_not_missed() {
    let demo = || wheel("demo", "1.0").needs("enum34").needs("gamma");
    let (_server, context) = index(vec![demo(), wheel("enum34", "1.1.10"), wheel("gamma", "1.0")]);
    let run = resolve(&context, &["demo", "--python", "3.12"]).expect(0);
    assert!(!context.read("envlock.lock").contains("enum34"), "{}", run.shown());
    let prefix = context.project().join(".venv");
    interpreter(&prefix);
    let site = prefix.join("lib/python3.12/site-packages");
    for made in [demo(), wheel("gamma", "1.0")] {
        install(&site, &made);
    }
    let folder = prefix.display().to_string();
    let verify = || context.run(&["verify", "--only", "environment", "--prefix", &folder]);
    is_silent_about(&verify().expect(0), &["enum34"]);
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    is_silent_about(&verify().expect(0), &["enum34"]);
    std::fs::remove_dir_all(site.join("gamma-1.0.dist-info")).unwrap();
    says(&verify().expect(1), &["demo needs gamma, which is not installed"]);
}

/// With the shipped days of release: the newest Python of two years, a newer one where something needs it, and why.
#[test]
fn a_python_that_can_be_had() {
    let newer = wheel("newer", "2.0").python(">=3.14");
    let (_server, context) = index(vec![wheel("flow", "1.0"), newer, wheel("newer", "1.0")]);
    let context = context.with_shipped_registry();
    let run = resolve(&context, &["flow", "--dry-run"]).expect(0);
    says(&run, &["python 3.13 newest of at least two years with wheels for all packages"]);
    let run = resolve(&context, &["newer", "--dry-run"]).expect(0);
    says(&run, &["newer 2.0", "python 3.14 older ones lack something that is asked for"]);
    context.write("envlock.toml", "[project]\npython = \">=3.14\"\ndependencies = [\"flow\"]\n");
    says(&resolve(&context, &["--dry-run"]).expect(0), &["python 3.14 oldest of >=3.14"]);
}

/// A way out that takes more than a command has none, and a command asks for the rest as before.
#[test]
fn the_command_of_a_way_out_asks_as_before() {
    let server = IndexServer::start(
        vec![
            ("pypi", wheel("idna", "3.4")),
            ("pypi", wheel("idna", "3.20")),
            ("pypi", wheel("old", "1.0").tags("cp39-cp39-manylinux_2_17_x86_64")),
        ],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let command_of = |context: &TestContext, arguments: &[&str]| {
        let run = context
            .run(&[&["resolve", "--gpu", "none", "--only-index", "pypi"], arguments].concat())
            .expect(1);
        let lines = run.stdout.lines().filter_map(|line| line.strip_prefix("      envlock "));
        (lines.map(str::to_owned).collect::<Vec<_>>(), run)
    };
    let context = TestContext::with_index(&server);
    let (commands, run) = command_of(&context, &["idna>=99", "--force", "--upgrade", "--python", "3.12"]);
    assert!(commands[0].ends_with("--force --upgrade"), "{}", run.shown());
    // No GPU has a part in it.
    assert!(!run.stderr.contains("run on one of these GPUs"), "{}", run.shown());
    // The manifest excludes the Python that would do.
    context.write("envlock.toml", "[project]\nname = \"x\"\npython = \">=3.11\"\ndependencies = [\"old\"]\n");
    let (commands, run) = command_of(&context, &["--python", "3.12"]);
    assert!(commands.iter().all(|command| !command.contains("--python 3.9")), "{}", run.shown());
    // An option that says what the manifest says leaves the lock current.
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = [\"idna\"]\n[resolve]\nonly-index = \"pypi\"\n",
    );
    context.run(&["resolve", "--gpu", "none", "--python", "3.12", "--only-index", "pypi"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    context.run(&["upgrade", ""]).expect(2);
}

/// What a constraint leaves is what nothing runs, not all of torch.
#[test]
fn a_constraint_is_part_of_what_is_refused() {
    let context = TestContext::new();
    let text = "[project]\nconstraints = [\"torch==2.6.0\"]\n[stack]\ntorch = \">=2\"\n";
    context.write("envlock.toml", text);
    let machine = ["--gpu", "RTX 5090", "--driver", "580.65.06", "--only-index", "pypi"];
    let run = context.run(&[&["resolve", "--stack-only"][..], &machine].concat()).expect(1);
    says(
        &run,
        &[
            "no torch>=2,==2.6.0 of the index pypi runs on NVIDIA GeForce RTX 5090 (12.0)",
            "torch 2.6.0 (code for 5.0 to 9.0) has no code",
            "you constrain torch to ==2.6.0",
            "envlock remove --constraint torch",
        ],
    );
    is_silent_about(&run, &["2.7.0", "conda-forge's pytorch 2.13"]);
}

/// No command edits a requirements file: its line is said.
#[test]
fn lines_of_requirements_files_are_ways_out() {
    let (_server, context) = index(vec![
        wheel("flow", "1.0").needs("gamma<2"),
        wheel("flow", "2.0").needs("gamma>=2"),
        wheel("gamma", "1.0"),
        wheel("gamma", "2.0"),
    ]);
    context.write("requirements.txt", "flow[fast]==1.0\ngamma>=2\n");
    let run = resolve(&context, &["-r", "requirements.txt"]).expect(1);
    insta::assert_snapshot!("lines_of_requirements_files", run.shown());
    context.write("requirements.txt", "flow==2.0\ngamma>=2\n");
    resolve(&context, &["-r", "requirements.txt"]).expect(0);
}

/// Each line is said to be where it is, in included files too.
#[test]
fn requirements_files_are_named_by_their_lines() {
    let (_server, context) = index(vec![
        wheel("flow", "1.0").needs("gamma<2"),
        wheel("gamma", "1.0"),
        wheel("gamma", "2.0"),
        wheel("delta", "1.0"),
    ]);
    context.write("requirements.txt", "# ours\n-r lists/base.txt\n-c bounds.txt\n");
    context.write("lists/base.txt", "delta\n\nflow>=1\n");
    context.write("bounds.txt", "gamma>=2\n");
    let run = resolve(&context, &["-r", "requirements.txt"]).expect(1);
    says(&run, &["you require flow>=1 [lists/base.txt:3]", "you constrain gamma to >=2 [bounds.txt:1]"]);
    context.write("lists/base.txt", "-r gone.txt\n");
    let run = resolve(&context, &["-r", "requirements.txt"]).expect(2);
    says(&run, &["lists/base.txt:1: `", "gone.txt` does not exist"]);
}

/// Constraints that exclude each other are the reason, whatever else is wrong with a release; where nothing has to have the
/// package, they are told.
#[test]
fn constraints_that_exclude_each_other() {
    let (_server, context) = index(vec![
        wheel("flow", "1.0"),
        wheel("flow", "2.0").needs("gamma"),
        wheel("gamma", "1.0"),
        wheel("gamma", "1.5").tags("cp312-cp312-win_amd64"),
        wheel("gamma", "2.0"),
    ]);
    context.write("bounds.txt", "gamma<2\ngamma>=2\n");
    context.write("requirements.txt", "flow\ngamma\n-c bounds.txt\n");
    let run = resolve(&context, &["-r", "requirements.txt"]).expect(1);
    says(&run, &["you constrain gamma to <2 [bounds.txt:1]", "you constrain gamma to >=2 [bounds.txt:2]"]);
    is_silent_about(&run, &["no wheel"]);
    says(&run, &["in bounds.txt:1: no line for gamma", "in bounds.txt:2: no line for gamma"]);
    // The commands are run by the context: the one that is left takes the place of both.
    let manifest = |constraints: &str| {
        format!(
            "[project]\nname = \"demo\"\ndependencies = [\"flow\", \"gamma\"]\nconstraints = {constraints}\n"
        )
    };
    context.write("envlock.toml", &manifest("[\"gamma<2\", \"gamma>=2\"]"));
    let run = resolve(&context, &[]).expect(1);
    says(
        &run,
        &["envlock add --constraint 'gamma>=2' --gpu none", "envlock add --constraint 'gamma<2' --gpu none"],
    );
    context.run(&["add", "--constraint", "gamma>=2", "--gpu", "none"]).expect(0);
    assert_eq!(context.read("envlock.toml"), manifest("[\"gamma>=2\"]"));
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    context.write("requirements.txt", "flow\n-c bounds.txt\n");
    let run = resolve(&context, &["-r", "requirements.txt"]).expect(0);
    says(
        &run,
        &[
            "warning: the constraints on gamma admit no version of it, so nothing that requires it can be locked: \
             `gamma<2` [bounds.txt:1], `gamma>=2` [bounds.txt:2]",
        ],
    );
    assert!(run.stdout.contains("flow          1.0"), "{}", run.shown());
}
