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
