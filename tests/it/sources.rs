//! Source distributions: read, ranked, locked, exported; never run.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{Wheel, little_pypi, wheel};

const H200: [&str; 6] = ["--gpu", "H200", "--driver", "580.159.04", "--python", "3.12"];

/// A `setup.py` that leaves a file behind where it is run.
fn plain(extra: &str) -> String {
    format!(
        "import os\nopen('/tmp/envlock-test-was-run', 'w')\nfrom setuptools import setup\nsetup({extra})\n"
    )
}

/// The little PyPI with setuptools and wheel, and some source distributions.
fn index(more: Vec<Wheel>) -> (IndexServer, TestContext) {
    let mut all = little_pypi();
    all.push(("pypi", wheel("setuptools", "80.0")));
    all.push(("pypi", wheel("setuptools", "84.0")));
    all.push(("pypi", wheel("wheel", "0.45").needs("packaging>=24")));
    all.push(("pypi", wheel("packaging", "25.0")));
    all.extend(more.into_iter().map(|made| ("pypi", made)));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    (server, context)
}

fn resolve<'a>(packages: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["resolve"], packages, &H200[..], more].concat()
}

#[test]
fn a_source_distribution_is_locked_with_what_its_build_requires() {
    let demo = wheel("demo", "1.2").needs("idna>=3").source(&plain("install_requires=['idna>=3']"));
    let (_server, context) = index(vec![demo, wheel("demo", "0.4")]);
    let run = context.run(&resolve(&["demo"], &[])).expect(0);
    assert!(
        run.flat().contains("from source demo 1.2 (newest with a wheel: 0.4); requirements as published"),
        "{}",
        run.shown()
    );
    let lock = context.read("envlock.lock");
    for part in [
        "format = \"2.0.0\"",
        "metadata-from = \"as-published\"",
        "build = \"pure\"",
        "name = \"setuptools\", version = \"84.0\"",
        "name = \"packaging\", version = \"25.0\"",
        "demo-1.2.tar.gz",
        "    \"idna>=3\"",
    ] {
        assert!(lock.contains(part), "{part}: {lock}");
    }
    context.run(&["resolve", "--locked"]).expect(0);
    context.run(&resolve(&["demo"], &[])).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    let requirements = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    assert!(
        requirements.contains("--build-constraint build-constraints.txt")
            && requirements.contains("demo==1.2 \\\n    --hash=sha256:"),
        "{requirements}"
    );
    let constraints = context.run(&["export", "build-constraints.txt"]).expect(0).stdout;
    assert!(constraints.contains("setuptools==84.0  # sha256:"), "{constraints}");
    let dockerfile = context.run(&["export", "Dockerfile"]).expect(0).stdout;
    for part in ["COPY build-constraints.txt", "'pip>=25.3'", "--build-constraint build-constraints.txt -r"] {
        assert!(dockerfile.contains(part), "{dockerfile}");
    }
    let pylock = context.run(&["export", "pylock.toml"]).expect(0).stdout;
    assert!(pylock.contains("sdist = { name = \"demo-1.2.tar.gz\""), "{pylock}");
    let json = context.run(&resolve(&["demo"], &["--json", "--dry-run"])).expect(0).json();
    let built: Vec<_> =
        json["targets"][0]["packages"].as_array().unwrap().iter().filter(|p| !p["build"].is_null()).collect();
    assert_eq!((built.len(), &built[0]["build"]["kind"]), (1, &"pure".into()));
    // The pip of an old Python cannot constrain builds.
    context.run(&["resolve", "demo", "--gpu", "none", "--python", "3.8"]).expect(0);
    let requirements = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    assert!(!requirements.contains("#   pip") && requirements.contains("#   uv pip"), "{requirements}");
    let dockerfile = context.run(&["export", "Dockerfile"]).expect(0).stdout;
    assert!(!dockerfile.contains("build-constraint"), "{dockerfile}");
    assert!(!std::path::Path::new("/tmp/envlock-test-was-run").exists());
}

#[test]
fn what_a_release_has_as_a_wheel_is_not_built() {
    let wheel_of_311 = wheel("demo", "2.0").tags("cp311-cp311-manylinux_2_17_x86_64");
    let source = wheel("demo", "2.0").source(&plain("ext_modules=[1]"));
    let (_server, context) = index(vec![wheel_of_311, source]);
    let without_python = ["resolve", "demo", "--gpu", "H200", "--driver", "580.159.04"];
    let run = context.run(&without_python).expect(0);
    assert!(
        run.flat().contains("python 3.11") && !context.read("envlock.lock").contains("tar.gz"),
        "{}",
        run.shown()
    );
    // Where only one Python is allowed, which has none, the source is taken.
    let run = context.run(&resolve(&["demo"], &["--force"])).expect(0);
    assert!(run.flat().contains("from source demo 2.0 (compiled)"), "{}", run.shown());
}

/// A newer release that has to be built says so before it is taken.
#[test]
fn a_newer_release_from_source_is_called_that() {
    let old = wheel("demo", "1.0").tags("cp312-cp312-manylinux_2_17_x86_64");
    let (_server, context) = index(vec![
        old,
        wheel("demo", "2.0").source(&plain("ext_modules=[1]")),
        wheel("user", "1.0").needs("demo"),
    ]);
    context.run(&resolve(&["user", "demo<2"], &[])).expect(0);
    let manifest = "[project]\nname = \"x\"\ndependencies = [\"user\", \"demo\"]\n";
    context.write("envlock.toml", manifest);
    let why = context.run(&["why", "demo"]).expect(0);
    assert!(why.flat().contains("2.0 would fit, with a build from source"), "{}", why.shown());
    let outdated = context.run(&["outdated"]).expect(0);
    let row = "demo     1.0     2.0         2.0  (built from source)";
    assert!(outdated.stdout.contains(row), "{}", outdated.shown());
}

/// A wheel for a Python that the newest requested torch does not have keeps no release from being built: torch would be
/// sacrificed for it.
#[test]
fn a_wheel_for_a_python_without_the_newest_torch_does_not_count() {
    let wheel_of_38 = wheel("demo", "2.0").tags("cp38-cp38-manylinux_2_17_x86_64");
    let source = wheel("demo", "2.0").source(&plain("ext_modules=[1]"));
    let mut all = little_pypi();
    all.extend([
        ("pypi", wheel("setuptools", "80.0")),
        ("pypi", wheel("wheel", "0.45")),
        ("pypi", wheel_of_38),
    ]);
    all.push(("pypi", source));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let machine = ["--gpu", "H200", "--driver", "580.159.04", "--only-index", "pypi"];
    let run = context.run(&[&["resolve", "torch", "demo"], &machine[..]].concat()).expect(0);
    assert!(run.flat().contains("from source demo 2.0 (compiled)"), "{}", run.shown());
    // Without torch, the Python that has the wheel is taken.
    let run = context.run(&[&["resolve", "demo", "--force"], &machine[..]].concat()).expect(0);
    assert!(run.flat().contains("python 3.8"), "{}", run.shown());
}

/// What installers read before they followed the standard strictly, and markers that name an extra and hold without it.
#[test]
fn requirements_as_they_were_published() {
    let wheels = vec![
        wheel("lenient", "1.0").needs("idna (>=3.*)").needs("pysocks>=1,"),
        wheel("marked", "1.0")
            .needs("idna; os_name == 'posix' or extra == 'zz'")
            .needs("pysocks; extra != 'zz'"),
        wheel("unasked", "1.0").needs("idna").needs("broken >= one; extra == 'all'"),
    ];
    let (_server, context) = index(wheels);
    let run = context.run(&resolve(&["lenient"], &[])).expect(0);
    assert!(
        run.flat().contains(
            "warning: lenient 1.0 requires `idna (>=3.*)`, which is not valid today: uv installs it"
        ),
        "{}",
        run.shown()
    );
    context.run(&["resolve", "--locked"]).expect(0);
    for package in ["marked", "unasked"] {
        std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
        context.run(&resolve(&[package], &[])).expect(0);
        let lock = context.read("envlock.lock");
        assert!(
            lock.contains("name = \"idna\"") && lock.contains("pysocks") == (package == "marked"),
            "{lock}"
        );
        context.run(&["resolve", "--locked"]).expect(0);
    }
    // Every line of the request about a package is told.
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    let run = context.run(&resolve(&["idna==3.11", "idna==3.12"], &[])).expect(1);
    assert!(
        run.flat().contains("you require idna==3.11") && run.flat().contains("you require idna==3.12"),
        "{}",
        run.shown()
    );
}

#[test]
fn a_wheel_of_the_previous_minor_line_is_preferred_to_compiling() {
    let source = |version: &str, setup: &str| wheel("demo", version).source(&plain(setup));
    let table = [
        ("1.5", "1.4", "ext_modules=[1]", "1.4"),
        ("1.6", "1.4", "ext_modules=[1]", "1.6"),
        ("2.0", "1.9", "ext_modules=[1]", "2.0"),
        ("1.5", "1.4", "", "1.5"),
    ];
    for (newest, with_wheel, setup, expected) in table {
        let (_server, context) = index(vec![source(newest, setup), wheel("demo", with_wheel)]);
        let run = context.run(&resolve(&["demo"], &[])).expect(0);
        assert!(
            run.flat().contains(&format!("demo {expected} ")),
            "{newest} {with_wheel} {setup}: {}",
            run.shown()
        );
    }
}

#[test]
fn what_cannot_be_known_is_refused_and_can_be_stated() {
    let setup = "import os\nfrom setuptools import setup\nr = ['idna']\nif os.environ.get('CUDA'):\n    r.append('pysocks')\nsetup(install_requires=r)\n";
    let (_server, context) = index(vec![wheel("demo", "1.0").needs("idna").source(setup)]);
    let run = context.run(&resolve(&["demo"], &[])).expect(1);
    assert!(run.flat().contains("demo 1.0 exists only as source, and its requirements are not known: its setup.py computes them: `install_requires` depends on `os.environ` (line 4)"), "{}", run.shown());
    assert!(run.stderr.contains("`[[metadata]]`"), "{}", run.shown());
    context.write(
        "envlock.toml",
        "[project]\ndependencies = [\"demo\"]\n[[metadata]]\nname = \"demo\"\nrequires-dist = [\"pysocks\"]\n",
    );
    context.run(&resolve(&[], &[])).expect(0);
    let lock = context.read("envlock.lock");
    assert!(
        lock.contains("metadata-from = \"manifest\"")
            && lock.contains("name = \"pysocks\"")
            && !lock.contains("name = \"idna\""),
        "{lock}"
    );
    context.run(&["resolve", "--locked"]).expect(0);
}

/// A person read what a `setup.py` computes, and for which platforms that is what was published.
#[test]
fn a_reviewed_package_is_taken_where_it_was_reviewed() {
    let setup = "import sys\nfrom setuptools import setup\nr = ['idna']\nif sys.platform == 'linux':\n    r.append('pysocks')\nsetup(install_requires=r)\n";
    let demo = wheel("openai-whisper", "20231117").needs("idna").needs("pysocks").source(setup);
    let (_server, context) = index(vec![demo]);
    context.run(&resolve(&["openai-whisper"], &[])).expect(0);
    let other =
        context.run(&resolve(&["openai-whisper"], &["--platform", "linux-aarch64", "--force"])).expect(1);
    assert!(other.flat().contains("depends on `sys.platform`"), "{}", other.shown());
}

#[test]
fn sources_can_be_refused() {
    let demo = || wheel("demo", "1.2").source(&plain(""));
    let (_server, context) = index(vec![demo(), wheel("demo", "0.4")]);
    let run = context.run(&resolve(&["demo"], &["--no-sources"])).expect(0);
    assert!(run.flat().contains("demo 0.4"), "{}", run.shown());
    context.run(&["resolve", "--locked"]).expect(0);
    let run = context.run(&resolve(&["demo>=1"], &["--strict-metadata", "--force"])).expect(1);
    assert!(run.flat().contains("as published, and `--strict-metadata` is set"), "{}", run.shown());
    context.write("envlock.toml", "[project]\ndependencies = [\"demo>=1\"]\n[resolve]\nsources = false\n");
    let run = context.run(&resolve(&[], &[])).expect(1);
    assert!(
        run.flat().contains("demo 1.2 exists only as source, and source distributions are refused"),
        "{}",
        run.shown()
    );
}

#[test]
fn a_stub_is_refused_and_its_target_is_named() {
    let setup = "import subprocess, sys\nfrom setuptools import setup\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])\nsetup()\n";
    let (_server, context) = index(vec![wheel("demo", "1.0").source(setup)]);
    let run = context.run(&resolve(&["demo"], &[])).expect(1);
    assert!(
        run.flat().contains("demo 1.0 exists only as a stub, whose build fetches other packages by pip"),
        "{}",
        run.shown()
    );
}

#[test]
fn what_is_built_against_torch_is_a_second_step() {
    let setup = "import torch\nfrom torch.utils.cpp_extension import CUDAExtension\nfrom setuptools import setup\nsetup(install_requires=['torch'], ext_modules=[CUDAExtension('a', ['a.cu'])])\n";
    let demo = wheel("demo", "1.0").needs("torch").source(setup);
    let (_server, context) = index(vec![demo]);
    let run = context.run(&resolve(&["demo", "torch==2.9.1"], &[])).expect(0);
    assert!(
        run.flat().contains("demo 1.0 (compiled with the CUDA toolkit; its build imports torch)"),
        "{}",
        run.shown()
    );
    assert!(context.read("envlock.lock").contains("build-needs = [\"torch\"]"));
    let first = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    assert!(first.contains("torch==2.9.1") && !first.contains("demo=="), "{first}");
    let first = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    let uv = first.lines().find(|line| line.starts_with("#   uv pip")).unwrap_or_default();
    assert!(
        uv.starts_with("#   uv pip install --require-hashes ") && uv.ends_with(" -r requirements.txt"),
        "{uv}"
    );
    let second = context.run(&["export", "requirements-build.txt"]).expect(0).stdout;
    assert!(
        second.contains("demo==1.0")
            && !second.contains("torch==")
            && second.contains("--no-build-isolation"),
        "{second}"
    );
    assert!(
        context
            .read("environment.yml")
            .contains("# after this environment, from requirements-build.txt: demo")
    );
}

#[test]
fn a_damaged_archive_is_named() {
    let (_server, context) = index(vec![wheel("demo", "1.0").tags("source")]);
    // Without setup.py there is still PKG-INFO and an empty list.
    context.run(&resolve(&["demo"], &[])).expect(0);
    let twice = wheel("demo", "1.0").source(&plain("")).file("PKG-INFO", "Name: demo\nVersion: 1.0\n");
    let (_server, context) = index(vec![twice]);
    let run = context.run(&resolve(&["demo"], &[])).expect(1);
    assert!(run.flat().contains("it has two files `PKG-INFO`"), "{}", run.shown());
}

#[test]
fn a_python_that_would_need_an_old_source_is_not_chosen() {
    // `dep` has wheels for 3.12 only; its old release, without wheels, installs anywhere.
    let newest = wheel("dep", "2.0").tags("cp312-cp312-manylinux_2_17_x86_64");
    let old = wheel("dep", "0.1").source(&plain("ext_modules=[1]"));
    let (_server, context) = index(vec![wheel("demo", "1.0").needs("dep"), newest, old]);
    let run = context.run(&["resolve", "demo", "--gpu", "H200", "--driver", "580.159.04"]).expect(0);
    assert!(run.flat().contains("python 3.12"), "{}", run.shown());
    assert!(context.read("envlock.lock").contains("dep-2.0-cp312"), "{}", run.shown());
}

#[test]
fn backports_are_left_out_or_named() {
    let demo = wheel("demo", "1.0").needs("enum34").needs("idna").source(&plain(""));
    let (_server, context) = index(vec![demo, wheel("enum34", "1.1.10")]);
    context.run(&resolve(&["demo"], &[])).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"idna\"") && !lock.contains("enum34"), "{lock}");
    let run = context.run(&resolve(&["enum34"], &[])).expect(1);
    let expected = "enum34 1.1.10 is a backport of `enum`, which Python 3.4 and newer have";
    assert!(run.flat().contains(expected), "{}", run.shown());
    // One rule for wheels and sources; a list that was made for Python 2 is imported without it.
    let demo = wheel("demo", "1.0").needs("enum34").needs("idna");
    let (_server, context) = index(vec![demo, wheel("enum34", "1.1.10")]);
    context.run(&resolve(&["demo"], &[])).expect(0);
    assert!(!context.read("envlock.lock").contains("enum34"));
    context.write("requirements.txt", "demo\nenum34\n");
    for arguments in [&["init", "--force", "--from", "requirements.txt"][..], &resolve(&[], &[])] {
        let run = context.run(arguments).expect(0);
        let is_told = run.flat().contains("left out: enum34 (Python 3.4 and newer have `enum`)");
        assert!(is_told || arguments[0] == "resolve", "{}", run.shown());
    }
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"demo\"") && !lock.contains("enum34"), "{lock}");
}

#[test]
fn overrides_replace_what_packages_require() {
    let (_server, context) = index(vec![wheel("demo", "1.0").needs("idna>=99")]);
    context.write("envlock.toml", "[project]\ndependencies = [\"demo\"]\n");
    context.run(&resolve(&[], &[])).expect(1);
    context.write(
        "envlock.toml",
        "[project]\ndependencies = [\"demo\"]\n[resolve]\noverrides = [\"idna>=3\"]\n",
    );
    context.run(&resolve(&[], &[])).expect(0);
    assert!(context.read("envlock.lock").contains("\"override idna>=3\""));
    context.run(&["resolve", "--locked"]).expect(0);
    for table in ["[resolve]\noverrides", "[project]\nconstraints"] {
        context.write("envlock.toml", &format!("{table} = [\"idna @ https://me:secret@h.example/i.whl\"]\n"));
        let run = context.run(&resolve(&[], &[])).expect(2);
        assert!(run.flat().contains("cannot bound versions"), "{}", run.shown());
        assert!(!run.shown().contains("secret"), "{}", run.shown());
    }
}

#[test]
fn a_build_gets_the_modules_that_its_setup_py_imports() {
    let setup = "import pkg_resources\nfrom setuptools import setup\nsetup()\n";
    let (_server, context) = index(vec![wheel("demo", "1.0").source(setup)]);
    context.run(&resolve(&["demo"], &[])).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"setuptools\", version = \"80.0\""), "{lock}");
}

#[test]
fn a_python_on_which_setup_py_fails_is_not_chosen() {
    let setup = "import imp\nfrom setuptools import setup\nsetup()\n";
    let (_server, context) = index(vec![wheel("demo", "1.0").source(setup)]);
    let context = context.with_shipped_registry();
    context.run(&["resolve", "demo", "--gpu", "none"]).expect(0);
    assert!(context.read("envlock.lock").contains("python = \"3.11\""), "{}", context.read("envlock.lock"));
    let run = context.run(&resolve(&["demo"], &[])).expect(1);
    let expected = "demo 1.0 is built by a setup.py that uses `imp`, which Python 3.12 and newer do not have";
    assert!(run.flat().contains(expected), "{}", run.shown());
    // Beside a package that has wheels for newer Pythons only.
    let other = wheel("other", "1.0").tags("cp313-cp313-manylinux_2_17_x86_64");
    let (_server, context) = index(vec![wheel("demo", "1.0").source(setup), other]);
    let context = context.with_shipped_registry();
    let run = context.run(&["resolve", "demo", "other", "--gpu", "none"]).expect(1);
    assert!(run.flat().contains(expected), "{}", run.shown());
    // A build requirement that brings the module back.
    let backported = wheel("demo", "1.0").source(setup).file(
        "pyproject.toml",
        "[build-system]\nrequires = [\"setuptools\", \"zombie-imp\"]\nbuild-backend = \"setuptools.build_meta\"\n",
    );
    let (_server, context) = index(vec![backported, wheel("zombie-imp", "0.0.4")]);
    let context = context.with_shipped_registry();
    context.run(&resolve(&["demo"], &[])).expect(0);
}

#[test]
fn a_module_that_a_build_imports_and_does_not_list_is_taken_from_the_environment() {
    let setup = "import numpy\nfrom setuptools import setup\nsetup()\n";
    let numpy = ["1.26.4", "2.1.0"].map(|version| wheel("numpy", version));
    let demo = wheel("demo", "1.0").needs("numpy<2").source(setup);
    let (_server, context) = index([vec![demo], numpy.to_vec()].concat());
    context.run(&resolve(&["demo"], &[])).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("build-needs = [\"numpy\"]"), "{lock}");
    // It is the locked one, and what the lock lacks is installed before the build.
    assert!(lock.contains("name = \"numpy\", version = \"1.26.4\"") && !lock.contains("2.1.0"), "{lock}");
    let first = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    let more = first.split("# What requirements-build.txt requires to build:\n").nth(1).unwrap_or_default();
    assert!(more.contains("setuptools==84.0 --hash=sha256:") && !more.contains("numpy"), "{first}");
    let second = context.run(&["export", "requirements-build.txt"]).expect(0).stdout;
    assert!(
        second.contains("from which the builds import numpy") && second.contains("demo==1.0"),
        "{second}"
    );
    // Constraints are for isolated builds.
    context.run(&["export", "build-constraints.txt"]).expect(2);
    // Where the project lists it, the build is isolated.
    let listed = wheel("demo", "1.0").source(setup).file(
        "pyproject.toml",
        "[build-system]\nrequires = [\"setuptools\", \"numpy\"]\nbuild-backend = \"setuptools.build_meta\"\n",
    );
    let (_server, context) = index([vec![listed], numpy.to_vec()].concat());
    context.run(&resolve(&["demo"], &[])).expect(0);
    assert!(!context.read("envlock.lock").contains("build-needs"));
}

#[test]
fn the_framework_that_a_build_imports_is_locked() {
    let setup = "import torch\nfrom setuptools import setup\nsetup()\n";
    let (_server, context) = index(vec![wheel("demo", "1.0").source(setup)]);
    context.run(&resolve(&["demo"], &[])).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"torch\""));
    let guarded = "try:\n    import torch\nexcept ImportError:\n    torch = None\nfrom setuptools import setup\nsetup()\n";
    let (_server, context) = index(vec![wheel("demo", "1.0").source(guarded)]);
    context.run(&resolve(&["demo"], &[])).expect(0);
    assert!(!context.read("envlock.lock").contains("name = \"torch\""));
}

#[test]
fn a_placeholder_that_never_builds_is_refused() {
    let (_server, context) = index(vec![wheel("sklearn", "0.0.post12").source(&plain(""))]);
    let context = context.with_shipped_registry();
    let run = context.run(&resolve(&["sklearn"], &[])).expect(1);
    let expected = "exists only as source that never builds: the package of scikit-learn is `scikit-learn`";
    assert!(run.flat().contains(expected), "{}", run.shown());
}

/// A source whose build fits no locked package: another answer is taken where there is one.
#[test]
fn a_source_whose_build_cannot_work_is_left_for_another_answer() {
    let setup = "import numpy\nfrom setuptools import setup, Extension\nsetup(ext_modules=[Extension('a', ['a.c'])])\n";
    let pyproject = "[build-system]\nrequires = [\"setuptools\", \"old-numpy\"]\nbuild-backend = \"setuptools.build_meta\"\n";
    let old = wheel("old-numpy", "1").needs("numpy<2");
    let frames = wheel("frames", "1.5").needs("numpy").source(setup).file("pyproject.toml", pyproject);
    // Where there is no other answer, it is locked, and the build is told.
    let (_server, context) = index(vec![old.clone(), frames.clone()]);
    let run = context.run(&resolve(&["numpy", "frames"], &[])).expect(0);
    assert!(
        run.flat().contains("what the build of frames requires has no solution beside"),
        "{}",
        run.shown()
    );
    // An older release that is a wheel.
    let (_server, context) = index(vec![old, frames, wheel("frames", "0.4").needs("numpy")]);
    let run = context.run(&resolve(&["numpy", "frames"], &[])).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"frames\"\nversion = \"0.4\""), "{}", run.shown());
    assert!(!run.flat().contains("has no solution"), "{}", run.shown());
    context.run(&["resolve", "--locked"]).expect(0);
}
