//! `sync`: real installers on a loopback index make, change and leave alone real environments.

use std::path::{Path, PathBuf};

use super::common::synced::{BUILD_SYSTEM, Synced, backend, plant};
use super::context::{Run, Shape, executable};
use super::wheels::wheel;

fn an_environment_is_made_changed_and_left_alone(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    env.lock("\"beta\"", "");
    let run = env.sync(&["--dry-run"]).expect(0);
    assert!(run.stdout.contains("install        2 alpha beta"), "{}", run.shown());
    assert!(!env.context.exists(".venv"));

    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("installed 2 with"), "{}", run.shown());
    assert!(run.stdout.contains("2 as locked"), "{}", run.shown());
    assert_eq!(env.prints("import beta, alpha; print(alpha.x)"), "2");

    // Nothing to do: no index is asked, and no installer is started.
    let asked = env.server.paths().len();
    let run = env.sync(&[]).expect(0);
    assert!(!run.stdout.starts_with("installed") && run.stderr.is_empty(), "{}", run.shown());
    assert_eq!(env.server.paths().len(), asked);

    // sync made the environment, so what is not locked goes.
    let extra = env.plant("gamma", "1.0", "pip");
    env.lock("\"beta\", \"alpha<2\"", "");
    let run = env.sync(&["--dry-run", "--json"]).expect(0).json();
    assert_eq!(
        run["changes"],
        serde_json::json!({ "install": [], "remove": ["gamma"], "replace": ["alpha"] })
    );
    assert_eq!(run["installer"], if with_uv { "uv" } else { "pip" });
    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("replaced 1, removed 1 with"), "{}", run.shown());
    assert_eq!(env.prints("import alpha; print(alpha.x)"), "1");
    assert!(!extra.exists());

    // From an environment of somebody else nothing is removed without being asked.
    std::fs::remove_file(env.context.project().join(".venv/.envlock/made-by-sync")).unwrap();
    let extra = env.plant("gamma", "1.0", "pip");
    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("warning[extra-package]: gamma") && extra.exists(), "{}", run.shown());
    let run = env.context.run(&["verify", "--exact"]).expect(1);
    assert!(run.stdout.contains("error[extra-package]: gamma"), "{}", run.shown());
    assert!(run.stdout.contains("--exact\n"), "{}", run.shown());
    env.sync(&["--exact"]).expect(0);
    assert!(!extra.exists());
    env.context.run(&["verify", "--exact"]).expect(0);
}

#[test]
fn pip_makes_changes_and_leaves_alone() {
    an_environment_is_made_changed_and_left_alone(false);
}

#[test]
fn uv_makes_changes_and_leaves_alone() {
    an_environment_is_made_changed_and_left_alone(true);
}

/// The same version with other METADATA than the locked file's: an installer alone would call it installed.
fn another_file_of_the_same_version_is_replaced(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    env.lock("\"alpha<2\"", "");
    env.sync(&[]).expect(0);
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    let metadata = Path::new(&site).join("alpha-1.0.dist-info/METADATA");
    let text = std::fs::read_to_string(&metadata).unwrap();
    std::fs::write(&metadata, format!("{text}\nchanged\n")).unwrap();
    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("replaced 1 with"), "{}", run.shown());
    assert_eq!(std::fs::read_to_string(&metadata).unwrap(), text);
}

#[test]
fn pip_replaces_another_file_of_the_same_version() {
    another_file_of_the_same_version_is_replaced(false);
}

#[test]
fn uv_replaces_another_file_of_the_same_version() {
    another_file_of_the_same_version_is_replaced(true);
}

/// Builds run code, so they are allowed by name or not at all.
fn sources_are_built_only_where_that_was_allowed(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    env.lock("\"beta\", \"built\"", "");
    let run = env.sync(&[]).expect(2);
    assert!(run.flat().contains("`built` exists only as source"), "{}", run.shown());
    assert!(run.flat().contains("allow-build = [\"built\"]"), "{}", run.shown());
    assert!(!env.context.exists(".venv"), "nothing is made before that is settled");
    env.lock("\"beta\", \"built\"", "[sync]\nallow-build = [\"Built\"]\n");
    env.sync(&[]).expect(0);
    assert_eq!(env.prints("import built, beta; print(built.built)"), "True");
    // What is built already needs no permission.
    env.lock("\"beta\", \"built\"", "");
    env.sync(&[]).expect(0);
    let bad = env.context.read("envlock.toml") + "[sync]\nallow-build = [\"a b\"]\n";
    env.context.write("envlock.toml", &bad);
    let run = env.sync(&[]).expect(2);
    assert!(run.flat().contains("`a b` is not a package name"), "{}", run.shown());
}

#[test]
fn pip_builds_what_was_allowed() {
    sources_are_built_only_where_that_was_allowed(false);
}

#[test]
fn uv_builds_what_was_allowed() {
    sources_are_built_only_where_that_was_allowed(true);
}

#[test]
fn the_project_itself_is_installed_where_it_is_a_package() {
    for with_uv in [false, true] {
        let Some(env) = Synced::new(with_uv) else { continue };
        let series = &env.series;
        env.context.write(
            "pyproject.toml",
            &format!(
                "[project]\nname = \"Demo\"\nversion = \"0.1\"\nrequires-python = \"=={series}.*\"\n\
                 dependencies = [\"beta\"]\n{BUILD_SYSTEM}[tool.envlock]\n"
            ),
        );
        env.context.write("backend.py", &backend("demo", "0.1"));
        env.context.write("own.py", "x = 7\n");
        env.context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
        let run = env.sync(&[]).expect(0);
        assert!(run.stdout.contains("installed 2, the project itself with"), "{}", run.shown());
        assert_eq!(env.prints("import own, beta; print(own.x)"), "7");
        let run = env.sync(&["--exact"]).expect(0);
        assert!(!run.stdout.contains(" with "), "{}", run.shown());
        assert!(
            !run.stdout.contains("extra-package"),
            "the project is not an extra package: {}",
            run.shown()
        );
    }
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_changes() {
    let Some(env) = Synced::new(false) else { return };
    let refused = |arguments: &[&str], sentence: &str| {
        let run = env.sync(arguments).expect(2);
        assert!(run.flat().contains(sentence), "{sentence}: {}", run.shown());
        run
    };
    refused(&[], "there is no envlock.lock");
    env.lock("\"beta\"", "");
    let folder = |name: &str| {
        let folder = env.context.project().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    };
    // A folder that is no environment, an environment of another Python, conda's base.
    std::fs::write(folder("data").join("a.txt"), "x").unwrap();
    refused(&["--prefix", "data"], "`data` is neither a venv nor a conda environment");
    let old = folder("old");
    std::fs::write(old.join("pyvenv.cfg"), "home = /usr/bin\nversion = 3.7.1\n").unwrap();
    std::fs::create_dir_all(old.join("lib/python3.7/site-packages")).unwrap();
    std::fs::create_dir_all(old.join("bin")).unwrap();
    refused(&["--prefix", "old"], "its Python does not exist any more");
    std::fs::write(old.join("bin/python"), "").unwrap();
    refused(&["--prefix", "old"], "it has Python 3.7");
    folder("base/conda-meta");
    folder("base/condabin");
    refused(&["--prefix", "base"], "is conda's base environment");
    // A package that conda owns.
    folder("conda/conda-meta");
    let site = folder(&format!("conda/lib/python{}/site-packages", env.series));
    plant(&site, "alpha", "1.0", "conda");
    folder("conda/bin");
    std::fs::write(env.context.project().join("conda/bin/python"), "").unwrap();
    refused(&["--prefix", "conda"], "conda installed `alpha`");
    // A Python that is none, one of another series, one that is not here.
    refused(&["--python", "/bin/true"], "`/bin/true` is not a Python that runs here");
    env.context.write("envlock.toml", "[project]\npython = \"==3.15.*\"\ndependencies = [\"beta\"]\n");
    env.context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    let run = refused(&[], "the lock is for Python 3.15, which was not found here");
    assert!(run.flat().contains("uv python install 3.15"), "{}", run.shown());
    refused(&["--install-python", "--offline"], "Python 3.15 is installed by uv, which was not found here");
    // Another Python is no way out where the manifest allows none.
    assert!(
        run.flat().contains("or lock for another one, which the project has to allow first"),
        "{}",
        run.shown()
    );
    env.context.write("envlock.toml", "[project]\ndependencies = [\"beta\"]\n");
    let options = ["resolve", "--gpu", "none", "--only-index", "pypi", "--python", "3.15"];
    env.context.run(&options).expect(0);
    let run = refused(&[], "the lock is for Python 3.15, which was not found here");
    let other = format!(
        "or lock for the one that is here: `envlock resolve --python {} --only-index pypi`",
        env.series
    );
    assert!(run.flat().contains(&other), "{}", run.shown());
    env.context.write("envlock.toml", "[project]\npython = \"==3.15.*\"\ndependencies = [\"beta\"]\n");
    let here = env.context.dir.path().join(format!("bin/python{}", env.series));
    refused(&["--python", &here.display().to_string()], "and 3.15 is locked");
    assert!(!env.context.exists(".venv"));
    // A lock for another platform, and one of the stack alone.
    env.context
        .run(&["resolve", "--gpu", "none", "--only-index", "pypi", "--platform", "macos-arm64"])
        .expect(0);
    refused(&[], "the target `default` is for macos-arm64");
}

/// uv is asked for the locked Python where none is here; what it installs is looked for as any other.
#[test]
fn uv_installs_the_locked_python() {
    let Some(env) = Synced::new(false) else { return };
    env.context.write("envlock.toml", "[project]\npython = \"==3.15.*\"\ndependencies = [\"beta\"]\n");
    env.context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    let bin = env.context.dir.path().join("bin");
    let uv = |script: &str| {
        let path = bin.join("uv");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        executable(&path);
    };
    // One that is not asked for is not installed.
    uv("exit 3");
    let run = env.sync(&[]).expect(2);
    let hint = "install it with `uv python install 3.15`, which `envlock sync --install-python` runs";
    assert!(run.flat().contains(hint), "{}", run.shown());
    let run = env.sync(&["--install-python"]).expect(2);
    assert!(run.flat().contains("uv could not install the locked Python"), "{}", run.shown());
    assert!(run.flat().contains("python install 3.15`"), "{}", run.shown());
    uv(&format!("echo \"$@ $UV_NO_CONFIG\" > {}", bin.join("asked").display()));
    let run = env.sync(&["--install-python"]).expect(2);
    assert!(run.flat().contains("the lock is for Python 3.15, which was not found here"), "{}", run.shown());
    assert_eq!(std::fs::read_to_string(bin.join("asked")).unwrap(), "python install 3.15 1\n");
    // A dry run prints the command.
    std::fs::remove_file(bin.join("asked")).unwrap();
    let run = env.sync(&["--install-python", "--dry-run"]).expect(0);
    assert!(run.stdout.contains("/uv python install 3.15"), "{}", run.shown());
    assert!(!bin.join("asked").exists());
}

#[test]
fn an_environment_of_another_python_is_made_again_if_sync_made_it() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"beta\"", "");
    env.sync(&[]).expect(0);
    // As after an update of the system: the Python that the environment was made with is gone.
    std::fs::remove_file(env.python()).unwrap();
    std::os::unix::fs::symlink("/nowhere/python", env.python()).unwrap();
    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("installed 2 with"), "{}", run.shown());
    assert_eq!(env.prints("import beta; print(1)"), "1");
}

#[test]
fn an_installer_that_fails_is_told_with_its_command() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"beta\"", "");
    // An index without the packages.
    let none = format!("{}/none", env.server.address);
    let run = env.sync(&["--index-url", &none, "--no-progress"]).expect(2);
    assert!(run.flat().contains("error: pip could not install the packages"), "{}", run.shown());
    assert!(run.flat().contains("the command was `.venv/bin/python -I -m pip install"), "{}", run.shown());
    // What was made stays sync's, so that the next run goes on.
    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("installed 2 with"), "{}", run.shown());
}

/// What an interruption, a full disk or a hand left behind is repaired by the next run.
fn damage_is_repaired(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    env.lock("\"beta\"", "");
    env.sync(&[]).expect(0);
    let site = PathBuf::from(env.prints("import sysconfig; print(sysconfig.get_path('purelib'))"));
    let repaired = |what: &str| {
        let run = env.sync(&[]).expect(0);
        assert!(run.stdout.contains("replaced 1 with"), "{what}: {}", run.shown());
        let run = env.sync(&[]).expect(0);
        assert!(!run.stdout.contains(" with "), "{what} is repaired once: {}", run.shown());
        assert_eq!(env.prints("import beta, alpha; print(alpha.x)"), "2", "{what}");
    };
    std::fs::remove_file(site.join("alpha/__init__.py")).unwrap();
    repaired("a file is missing");
    std::fs::remove_file(site.join("alpha-2.0.dist-info/RECORD")).unwrap();
    repaired("RECORD is missing");
    std::fs::remove_file(site.join("alpha-2.0.dist-info/METADATA")).unwrap();
    repaired("METADATA is missing");
    plant(&site, "alpha", "1.0", "pip");
    repaired("there are two of it");
}

#[test]
fn pip_repairs_damage() {
    damage_is_repaired(false);
}

#[test]
fn uv_repairs_damage() {
    damage_is_repaired(true);
}

#[test]
fn an_interrupted_environment_is_made_again() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"beta\"", "");
    // As a run leaves it that was killed while the environment was made.
    std::fs::create_dir_all(env.context.project().join(".venv/bin")).unwrap();
    env.context.write(".venv.envlock-making", "");
    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("installed 2 with"), "{}", run.shown());
    assert!(!env.context.exists(".venv.envlock-making"));
    // What somebody put into the folder since then is not erased.
    env.context.write(".mine.envlock-making", "");
    env.context.write("mine/notes.txt", "x");
    env.sync(&["--prefix", "mine"]).expect(2);
    assert!(env.context.exists("mine/notes.txt"));
    // Its mark is whole: what is not locked goes.
    let extra = env.plant("gamma", "1.0", "pip");
    env.sync(&[]).expect(0);
    assert!(!extra.exists());
}

#[test]
fn an_environment_of_another_project_keeps_its_packages() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"beta\"", "");
    env.sync(&[]).expect(0);
    let other = env.context.project().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let toml = format!("[project]\npython = \"=={}.*\"\ndependencies = [\"gamma\"]\n", env.series);
    std::fs::write(other.join("envlock.toml"), toml).unwrap();
    let shown = other.display().to_string();
    env.context.run(&["resolve", "--gpu", "none", "--only-index", "pypi", "--project", &shown]).expect(0);
    let prefix = env.context.project().join(".venv").display().to_string();
    env.sync(&["--project", &shown, "--prefix", &prefix]).expect(0);
    assert_eq!(env.prints("import beta, gamma; print(1)"), "1");
}

#[test]
fn packages_do_not_land_in_another_python() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"beta\"", "");
    env.sync(&[]).expect(0);
    let fake = env.context.project().join("fake");
    std::fs::create_dir_all(fake.join("bin")).unwrap();
    std::fs::create_dir_all(fake.join("conda-meta")).unwrap();
    std::os::unix::fs::symlink(env.python(), fake.join("bin/python")).unwrap();
    env.lock("\"beta\", \"gamma\"", "");
    let run = env.sync(&["--prefix", "fake"]).expect(2);
    assert!(run.flat().contains("its Python installs into"), "{}", run.shown());
    assert!(env.prints("import gamma").contains("No module named"));
}

/// What is installed beside the lock, such as the project with a requirement of before, was built for something else.
#[test]
fn what_a_package_beside_the_lock_requires_is_compared() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"beta\"", "");
    env.sync(&[]).expect(0);
    env.plant("stranger", "1.0", "pip");
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    let metadata = Path::new(&site).join("stranger-1.0.dist-info/METADATA");
    let text = std::fs::read_to_string(&metadata).unwrap();
    std::fs::write(
        &metadata,
        format!("{text}Requires-Dist: beta>9\nRequires-Dist: alpha; python_version<'3'\n"),
    )
    .unwrap();
    let run = env.context.run(&["verify"]).expect(0);
    assert!(
        run.flat().contains("warning[broken-requirement]: stranger needs beta>9, beta 1.0 is installed"),
        "{}",
        run.shown()
    );
    // The project knows better.
    env.lock("\"beta\"", "[resolve]\noverrides = [\"beta==1.0\"]\n");
    let run = env.context.run(&["verify"]).expect(0);
    assert!(!run.stdout.contains("broken-requirement"), "{}", run.shown());
}

/// A machine like none of the lock's keeps the environment that it has.
#[test]
fn the_target_of_an_environment_is_kept() {
    let Some(env) = Synced::new(false) else { return };
    let other = if env.series == "3.12" { "3.13" } else { "3.12" };
    env.context.write(
        "envlock.toml",
        &format!(
            "[project]\nname = \"x\"\ndependencies = [\"alpha\"]\n[target.far]\ngpus = [\"H100\"]\npython = \"{other}\"\n\
             [target.near]\ngpus = [\"A100\"]\npython = \"{}\"\n",
            env.series
        ),
    );
    env.context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    let run = env.sync(&["--target", "near"]).expect(0);
    assert!(!run.stderr.contains("the target is"), "{}", run.shown());
    let run = env.sync(&[]).expect(0);
    assert!(
        run.flat().contains(
            "the target is `near`: none was locked for a machine like this one, and the environment has its packages"
        ),
        "{}",
        run.shown()
    );
    std::fs::remove_dir_all(env.context.project().join(".venv")).unwrap();
    let run = env.sync(&["--dry-run"]);
    assert!(
        run.flat().contains(
            "the target is `far`: none was locked for a machine like this one, and it is the first"
        ),
        "{}",
        run.shown()
    );
    // One for a machine without a GPU is for this one, if it has none.
    let text = env.context.read("envlock.toml").replace("gpus = [\"A100\"]", "gpus = [\"none\"]");
    env.context.write("envlock.toml", &text);
    env.context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    if !Path::new("/proc/driver/nvidia").exists() {
        let run = env.sync(&[]).expect(0);
        assert!(run.flat().contains("`near`: the one for a machine like this one"), "{}", run.shown());
    }
}

fn extras_and_groups_are_installed_on_demand(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    let series = &env.series;
    env.context.write(
        "pyproject.toml",
        &format!(
            "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \"=={series}.*\"\ndependencies = [\"alpha\"]\n\
             [project.optional-dependencies]\nmore = [\"beta\"]\n[dependency-groups]\ndev = [\"gamma\"]\n[tool.envlock]\n"
        ),
    );
    env.context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    let run = env.sync(&[]).expect(0);
    assert!(run.stdout.contains("1 as locked"), "{}", run.shown());
    let run = env.sync(&["--extra", "more", "--group", "dev"]).expect(0);
    assert!(run.stdout.contains("3 as locked"), "{}", run.shown());
    env.context.run(&["verify", "--extra", "more"]).expect(0);
    // What `run` says repairs the environment as it is: with the parts that it has, and in its project.
    let folder = env.context.project().display().to_string();
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    std::fs::remove_dir_all(Path::new(&site).join("alpha-2.0.dist-info")).unwrap();
    let run = env.context.run(&["--project", &folder, "run", "--", "true"]).expect(125);
    let fix = run.flat();
    assert!(fix.contains("envlock --project [DIR]/project sync --prefix"), "{}", run.shown());
    assert!(fix.contains("--extra more") && fix.contains("--group dev"), "{}", run.shown());
    env.sync(&["--extra", "more", "--group", "dev"]).expect(0);
    std::fs::remove_dir_all(Path::new(&site).join("gamma-1.0.dist-info")).unwrap();
    env.context.run(&["run", "--", "python", "-c", "pass"]).expect(0);
    let run = env.context.run(&["run", "--group", "dev", "--", "true"]).expect(125);
    assert!(run.stdout.contains("error[missing-package]: gamma 1.0"), "{}", run.shown());
    env.context.run(&["run", "--group", "nope", "--", "true"]).expect(125);
    // As with uv: what is not asked for again goes.
    let run = env.sync(&["--all-groups"]).expect(0);
    assert!(run.stdout.contains("removed 1 with"), "{}", run.shown());
    let run = env.context.run(&["verify", "--extra", "more"]).expect(1);
    assert!(run.stdout.contains("error[missing-package]: beta 1.0"), "{}", run.shown());
    let run = env.context.run(&["verify"]).expect(0);
    assert!(run.stdout.contains("2 as locked"), "{}", run.shown());
    // A package of a group in another version is no good, asked for or not.
    std::fs::remove_dir_all(Path::new(&site).join("gamma-1.0.dist-info")).unwrap();
    env.plant("gamma", "0.5", "pip");
    let run = env.context.run(&["verify"]).expect(1);
    assert!(run.stdout.contains("gamma 0.5"), "{}", run.shown());
}

#[test]
fn pip_installs_extras_and_groups_on_demand() {
    extras_and_groups_are_installed_on_demand(false);
}

#[test]
fn uv_installs_extras_and_groups_on_demand() {
    extras_and_groups_are_installed_on_demand(true);
}

/// The scripts of action.yml after the one that installs envlock.
fn scripts_of_the_action() -> Vec<String> {
    let text = include_str!("../../action.yml");
    let scripts = text.split("      run: |\n").skip(1);
    let is_of_script = |line: &&str| line.starts_with("        ");
    scripts.map(|script| script.lines().take_while(is_of_script).collect::<Vec<_>>().join("\n")).collect()
}

/// The action as a runner executes it: each step by bash, with its inputs as variables.
#[test]
fn the_action_installs_and_verifies_the_parts_that_it_names() {
    let Some(env) = Synced::new(false) else { return };
    let (context, series) = (&env.context, &env.series);
    context.write(
        "api/pyproject.toml",
        &format!(
            "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \"=={series}.*\"\ndependencies = [\"alpha\"]\n\
             [project.optional-dependencies]\nmore = [\"beta\"]\n[dependency-groups]\ndev = [\"gamma\"]\n[tool.envlock]\n"
        ),
    );
    context.run(&["--project", "api", "resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    let program = context.dir.path().join("bin/envlock");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_envlock"), program).unwrap();
    let step = |script: &str, extras: &str, code: i32| {
        let mut bash = context.command_of("/bin/bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
        for (name, value) in [
            ("PROJECT", "api"),
            ("REQUIREMENTS", ""),
            ("TARGET", ""),
            ("EXTRAS", extras),
            ("PARTS", "dev"),
            ("SMOKE", "off"),
        ] {
            bash.env(name, value);
        }
        context.finish(bash.output().unwrap()).expect(code)
    };
    let scripts = scripts_of_the_action();
    let [locked, sync, verify] = scripts.as_slice() else { panic!("{scripts:?}") };
    step(locked, "", 0);
    let run = step(sync, "more", 0);
    assert!(run.stdout.contains("3 as locked"), "{}", run.shown());
    step(verify, "more", 0);
    // What stopped it is an annotation.
    let run = step(sync, "nope", 2);
    assert!(run.stdout.contains("::error") && run.stdout.contains("nope"), "{}", run.shown());
    let site = context.project().join(format!("api/.venv/lib/python{series}/site-packages"));
    std::fs::remove_dir_all(site.join("gamma-1.0.dist-info")).unwrap();
    let run = step(verify, "", 1);
    assert!(run.stdout.contains("::error") && run.stdout.contains("gamma 1.0"), "{}", run.shown());
    // What one command repairs is one annotation, and what everything rests on stands first.
    std::fs::remove_dir_all(site.join("alpha-2.0.dist-info")).unwrap();
    let run = step(verify, "", 1);
    let of_packages = run.stdout.lines().filter(|line| line.contains("missing-package")).collect::<Vec<_>>();
    let [one] = of_packages.as_slice() else { panic!("{}", run.shown()) };
    assert!(one.contains("alpha 2.0 is not installed; gamma 1.0 is not installed. Fix: "), "{one}");
    std::fs::remove_dir_all(context.project().join("api/.venv/bin")).unwrap();
    let run = step(verify, "", 1);
    assert!(run.stdout.starts_with("::error title=envlock missing-interpreter::"), "{}", run.shown());
}

/// What is only shown runs nothing of an environment that was found.
#[test]
fn a_dry_run_does_not_run_the_python_that_it_found() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    let venv = env.context.project().join(".venv");
    std::fs::create_dir_all(venv.join("bin")).unwrap();
    let site = venv.join(format!("lib/python{}/site-packages", env.series));
    std::fs::create_dir_all(site).unwrap();
    std::fs::write(venv.join("pyvenv.cfg"), format!("home = /usr/bin\nversion = {}.1\n", env.series))
        .unwrap();
    let mark = env.context.dir.path().join("was-run");
    std::fs::write(venv.join("bin/python"), format!("#!/bin/sh\n: > {}\n", mark.display())).unwrap();
    std::fs::set_permissions(venv.join("bin/python"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = env.sync(&["--dry-run"]).expect(0);
    assert!(run.stdout.contains("install        2 alpha beta"), "{}", run.shown());
    assert!(!mark.exists(), "{}", run.shown());
    env.sync(&[]);
    assert!(mark.exists(), "the script is what a real run would use");
}

/// The steps of a workflow that follow run no smoke test: what it finds is annotated here. One that was there runs it only if asked.
#[test]
fn a_failing_smoke_test_is_annotated() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"jax\"", "");
    let run = env.sync(&["--smoke", "cpu", "--format", "github"]).expect(1);
    assert!(run.stdout.contains("\n::error title=envlock smoke-crashed::"), "{}", run.shown());
    let run = env.sync(&["--format", "github"]).expect(0);
    assert!(!run.stdout.contains("::error"), "{}", run.shown());
    assert!(run.flat().contains("smoke test not run, as the environment is not active"), "{}", run.shown());
}

/// A package that goes takes files of one that stays with it: that one is installed again in the same run.
fn what_stays_is_whole(with_uv: bool) {
    let more = vec![
        (
            "pypi",
            wheel("opencv-python", "1.0").file("cv2/__init__.py", "x = 'full'\n").file("cv2/big.py", ""),
        ),
        ("pypi", wheel("opencv-headless", "1.0").file("cv2/__init__.py", "x = 'headless'\n")),
        ("pypi", wheel("part-a", "1.0").file("parts/__init__.py", "y = 1\n").file("parts/a.py", "")),
        ("pypi", wheel("part-b", "1.0").file("parts/__init__.py", "y = 1\n").file("parts/b.py", "")),
    ];
    let Some(env) = Synced::with(with_uv, more) else { return };
    env.lock("\"opencv-python\", \"opencv-headless\"", "");
    env.sync(&["--smoke", "off"]);
    env.lock("\"part-a\", \"part-b\"", "");
    env.sync(&[]).expect(0);
    env.lock("\"part-b\"", "");
    env.sync(&[]).expect(0);
    assert_eq!(env.prints("import parts; print(parts.y)"), "1");
    env.lock("\"opencv-python\", \"opencv-headless\"", "");
    env.sync(&["--smoke", "off"]);
    for (kept, said) in [("opencv-headless", "headless"), ("opencv-python", "full")] {
        env.lock(&format!("{kept:?}"), "");
        let run = env.sync(&[]).expect(0);
        assert!(run.stdout.contains("removed 1"), "{}", run.shown());
        assert_eq!(env.prints("import cv2; print(cv2.x)"), said);
        // Nothing is left to do.
        assert!(!env.sync(&[]).expect(0).stdout.contains(" with "));
        env.lock("\"opencv-python\", \"opencv-headless\"", "");
        env.sync(&["--smoke", "off"]);
    }
}

#[test]
fn pip_leaves_what_stays_whole() {
    what_stays_is_whole(false);
}

#[test]
fn uv_leaves_what_stays_whole() {
    what_stays_is_whole(true);
}

/// The same version from another folder is another package.
fn a_package_from_another_folder_is_replaced(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    // Of different lengths: Python compares size and time with what it compiled.
    for folder in ["a", "other"] {
        let (_, bytes, _) = wheel("mylib", "1.0").file("mylib.py", &format!("V = '{folder}'\n")).build();
        let file = env.context.project().join(folder).join("mylib-1.0-py3-none-any.whl");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    let from = |folder: &str| {
        env.lock(&format!("\"mylib @ ./{folder}/mylib-1.0-py3-none-any.whl\""), "");
        env.sync(&[]).expect(0)
    };
    from("a");
    assert_eq!(env.prints("import mylib; print(mylib.V)"), "a");
    let run = from("a");
    assert!(!run.flat().contains("replaced"), "{}", run.shown());
    let run = from("other");
    assert_eq!(env.prints("import mylib; print(mylib.V)"), "other", "{}", run.shown());
    assert!(!from("other").flat().contains("replaced"));
}

#[test]
fn pip_replaces_a_package_from_another_folder() {
    a_package_from_another_folder_is_replaced(false);
}

#[test]
fn uv_replaces_a_package_from_another_folder() {
    a_package_from_another_folder_is_replaced(true);
}

/// What is not locked stays, unless a locked package has the same library with another content.
fn what_is_in_the_way_is_removed(with_uv: bool) {
    let library = |name: &str| wheel(name, "1.0").file("nvidia/lib/libcublas.so.12", name);
    let more = vec![
        ("pypi", library("cublas-cu12")),
        ("pypi", library("cublas").file("nvidia/cublas.py", "")),
        ("pypi", wheel("cupy", "1.0").needs("cublas-cu12").file("cupy.py", "")),
    ];
    let Some(env) = Synced::with(with_uv, more) else { return };
    let other = env.context.dir.path().join("other");
    env.lock("\"cublas-cu12\", \"gamma\"", "");
    // An environment that sync did not make: the mark is gone.
    let start = || {
        let _ = std::fs::remove_dir_all(env.context.project().join(".venv"));
        env.sync(&[]).expect(0);
        let mark = env.context.project().join(".venv/.envlock");
        std::fs::rename(mark, &other).unwrap();
        std::fs::remove_dir_all(&other).unwrap();
    };
    start();
    env.lock("\"cublas\"", "");
    let run = env.sync(&[]).expect(0);
    assert!(
        run.flat().contains("note: `cublas-cu12` is removed: not locked, and owns libraries"),
        "{}",
        run.shown()
    );
    let library =
        "import sys, pathlib; print(*[p.read_text() for p in pathlib.Path(sys.prefix).rglob('*.so.12')])";
    assert_eq!(env.prints(library), "cublas");
    assert_eq!(env.prints("import gamma"), "", "{}", run.shown());
    assert!(env.sync(&[]).expect(0).stdout.starts_with("environment "));
    // cupy requires it.
    env.lock("\"cupy\"", "");
    start();
    env.lock("\"cublas\"", "");
    let run = env.sync(&[]);
    assert!(run.flat().contains("also recorded by cublas-cu12"), "{}", run.shown());
    assert_eq!(env.prints(library), "cublas");
}

#[test]
fn pip_removes_what_is_in_the_way() {
    what_is_in_the_way_is_removed(false);
}

#[test]
fn uv_removes_what_is_in_the_way() {
    what_is_in_the_way_is_removed(true);
}

/// A mirror with a login takes the place of PyPI and of the pytorch index: resolve, sync, export, and pip from the export.
fn a_mirror_with_a_login(with_uv: bool, in_the_address: bool) {
    let secret = "Basic bWU6czNjcmV0";
    let shape =
        Shape { json: true, metadata: true, authorization: Some(secret.to_owned()), ..Shape::default() };
    let Some(python) = Synced::new(false).map(|env| env.series) else { return };
    let tags = format!("cp{0}-cp{0}-manylinux_2_17_x86_64", python.replace('.', ""));
    let torch =
        |version: &str| wheel("torch", version).tags(&tags).needs("gamma").file("torch/__init__.py", "");
    let more = vec![("pypi", torch("2.15.0")), ("whl/cpu", torch("2.15.0+cpu"))];
    let Some(mut env) = Synced::of_shape(with_uv, more, shape) else { return };
    let mut base = env.server.address.clone();
    if in_the_address {
        base = base.replace("http://", "http://me:s3cret@");
    } else {
        let netrc = env.context.dir.path().join("netrc");
        std::fs::write(&netrc, "machine 127.0.0.1 login me password s3cret\n").unwrap();
        env.context.set("NETRC", &netrc.display().to_string());
    }
    env.context.set("ENVLOCK_INDEX_URL", &format!("{base}/pypi"));
    env.context.set("ENVLOCK_PYTORCH_INDEX_URL", &format!("{base}/whl"));
    let manifest = format!(
        "[project]\nname = \"demo\"\npython = \"=={python}.*\"\ndependencies = [\"torch==2.15.0\", \"beta\"]\n[stack]\nvariant = \"cpu\"\n"
    );
    env.context.write("envlock.toml", &manifest);
    let mut runs = vec![env.context.run(&["resolve", "--gpu", "none"]).expect(0)];
    assert!(env.context.read("envlock.lock").contains("2.15.0+cpu"), "{}", runs[0].shown());
    runs.push(env.sync(&["-v", "--smoke", "off"]).expect(0));
    assert_eq!(env.prints("import torch, beta, gamma"), "");
    runs.push(env.context.run(&["resolve", "--locked", "--check-hashes"]).expect(0));
    let mut texts: Vec<String> = runs.iter().map(Run::shown).collect();
    texts.extend(["envlock.lock", "environment.yml"].map(|file| env.context.read(file)));
    for format in ["requirements.txt", "pylock.toml", "Dockerfile", "uv", "github"] {
        texts.push(env.context.run(&["export", format]).shown());
    }
    for text in &texts {
        assert!(!text.contains("s3cret"), "{text}");
    }
    // By hand, with the addresses that the guide names.
    env.context.run(&["export", "requirements.txt", "-o", "requirements.txt"]).expect(0);
    std::fs::remove_dir_all(env.context.project().join(".venv")).unwrap();
    assert!(super::common::venv::make(&env.context.project().join(".venv")));
    let mut pip = env.context.command_of(&env.python().display().to_string());
    pip.args(["-m", "pip", "install", "-q", "--require-hashes", "--no-deps", "-r", "requirements.txt"]);
    pip.args(["--index-url", &format!("{base}/pypi"), "--extra-index-url", &format!("{base}/whl/cpu")]);
    let out = pip.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    env.context.run(&["verify", "--smoke", "off", "--prefix", ".venv"]).expect(0);
}

#[test]
fn pip_installs_from_a_mirror_with_a_login() {
    a_mirror_with_a_login(false, false);
    a_mirror_with_a_login(false, true);
}

#[test]
fn uv_installs_from_a_mirror_with_a_login() {
    a_mirror_with_a_login(true, false);
    a_mirror_with_a_login(true, true);
}
