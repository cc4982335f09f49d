//! Projects whose packages uv holds: envlock chooses the stack, uv locks and installs, envlock verifies.

use std::process::Command;

use super::context::{IndexServer, Run, Shape, TestContext, skipped};
use super::tools;
use super::wheels::{Wheel, wheel};

/// A uv project on a loopback index that has PyPI's builds and, beside it, those for the CPU and for CUDA 12.6.
struct Project {
    context: TestContext,
    series: String,
    _server: IndexServer,
}

fn world(minor: &str) -> Vec<(&'static str, Wheel)> {
    let linux = format!("cp3{minor}-cp3{minor}-manylinux_2_17_x86_64");
    let newer = format!(">=3.{}", minor.parse::<u32>().unwrap() + 1);
    let torch = |version: &str| {
        wheel("torch", version).tags(&linux).needs("filelock").file("torch/__init__.py", "\n")
    };
    vec![
        ("pypi", torch("2.15.0")),
        ("pypi", torch("2.9.1")),
        ("whl/cpu", torch("2.15.0+cpu")),
        ("whl/cpu", torch("2.9.1+cpu")),
        ("whl/cu126", torch("2.14.1+cu126")),
        // The pytorch index has old copies of other packages: they are not taken.
        ("whl/cpu", wheel("filelock", "3.13.1")),
        ("pypi", wheel("filelock", "3.19.0").file("filelock.py", "\n")),
        ("pypi", wheel("filelock", "3.20.0").file("filelock.py", "\n")),
        ("pypi", wheel("trainer", "1.0").needs("torch").file("trainer.py", "import torch\n")),
        ("pypi", wheel("colors", "1.0").file("colors.py", "\n")),
        ("pypi", wheel("modern", "1.0").file("modern.py", "\n")),
        ("pypi", wheel("modern", "2.0").python(&newer).file("modern.py", "\n")),
        ("pypi", wheel("pytest", "9.0").file("pytest.py", "\n")),
        ("pypi", wheel("numpy", "1.26.4")),
        ("pypi", wheel("numpy", "2.2.6")),
        // Compiled before NumPy 2 existed; nothing in its metadata says so.
        ("pypi", wheel("compiled", "1.0").tags(&linux).needs("numpy").uploaded("2023-05-01T00:00:00Z")),
    ]
}

const HEAD: &str = "[project]\nname = \"demo\"\nversion = \"1\"\n";

impl Project {
    fn new() -> Option<Project> {
        let uv = tools::uv()?;
        let ask = "import sys; print(sys.executable, sys.version_info[1])";
        let out =
            Command::new("python3").args(["-I", "-c", ask]).output().ok().filter(|o| o.status.success());
        let Some(out) = out else {
            skipped("no python3 here");
            return None;
        };
        let out = String::from_utf8(out.stdout).unwrap();
        let (python, minor) = out.trim().rsplit_once(' ').unwrap();
        let server =
            IndexServer::start(world(minor), Shape { json: true, metadata: true, ..Shape::default() });
        let mut context = TestContext::with_index(&server);
        let bin = context.dir.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(python, bin.join(format!("python3.{minor}"))).unwrap();
        std::os::unix::fs::symlink(uv, bin.join("uv")).unwrap();
        context.set("UV_CACHE_DIR", &context.dir.path().join("uv-cache").display().to_string());
        context.set("UV_LINK_MODE", "copy");
        context.set("UV_PYTHON_DOWNLOADS", "never");
        context.set("UV_DEFAULT_INDEX", &format!("{}/pypi", server.address));
        let series = format!("3.{minor}");
        Some(Project { context, series, _server: server })
    }

    /// Writes pyproject.toml, and uv.lock by uv.
    fn start(&self, dependencies: &str, more: &str) {
        let text = format!(
            "{HEAD}requires-python = \">={}\"\ndependencies = [{dependencies}]\n{more}\n[tool.envlock]\n",
            self.series
        );
        self.context.write("pyproject.toml", &text);
        self.uv(&["lock"]).expect(0);
    }

    fn uv(&self, arguments: &[&str]) -> Run {
        self.context.finish(self.context.command_of("uv").args(arguments).output().unwrap())
    }

    fn resolve(&self, more: &[&str]) -> Run {
        self.context.run(&[&["resolve", "--gpu", "none", "--python", &self.series], more].concat())
    }

    /// The installed packages, as pip lists them.
    fn installed(&self) -> String {
        self.uv(&["pip", "freeze"]).expect(0).stdout
    }

    /// `torch 2.15.0+cpu` of uv.lock.
    fn locked(&self, name: &str) -> Vec<String> {
        let lock: toml::Table = self.context.read("uv.lock").parse().unwrap();
        let packages = lock["package"].as_array().unwrap().iter();
        let own = packages.filter(|package| package["name"].as_str() == Some(name));
        own.map(|package| package["version"].as_str().unwrap().to_owned()).collect()
    }
}

/// A question that only asks has nothing to do with the project: neither its packages nor uv's Python are said of it.
#[test]
fn a_question_beside_the_project() {
    let Some(project) = Project::new() else { return };
    project.start("\"colors\"", "");
    let lock = project.context.read("uv.lock");
    let run = project.resolve(&["filelock", "--dry-run"]).expect(0);
    assert!(run.stdout.contains("filelock") && !run.stdout.contains("colors"), "{}", run.shown());
    assert!(!run.flat().contains("uv takes"), "{}", run.shown());
    assert_eq!(project.context.read("uv.lock"), lock);
    assert!(!project.context.exists("envlock.lock"));
}

#[test]
fn uv_locks_the_stack_that_was_chosen_and_uv_run_changes_nothing() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    let own = "[dependency-groups]\ndev = [\"pytest\"]\n\n[tool.uv]\nconstraint-dependencies = [\n    \"filelock<3.20\", # a bug\n]\n";
    // torch is nobody's direct dependency.
    project.start("\"trainer\"", own);
    assert_eq!(project.locked("torch"), ["2.15.0"]);
    let run = project.resolve(&[]).expect(0);
    assert!(run.flat().contains("wrote envlock.lock, uv.lock, pyproject.toml"), "{}", run.shown());
    assert!(run.flat().contains("next envlock sync"), "{}", run.shown());
    assert!(!context.exists("environment.yml"), "the packages are uv's");
    let written = context.read("pyproject.toml");
    assert!(written.contains("\"filelock<3.20\", # a bug\n"), "{written}");
    assert!(written.contains("\"torch==2.15.0+cpu; sys_platform"), "{written}");
    assert!(project.locked("torch").contains(&"2.15.0+cpu".to_owned()), "{:?}", project.locked("torch"));
    assert_eq!(project.locked("filelock"), ["3.19.0"], "from PyPI, and as the user limits it");
    let lock = context.read("envlock.lock");
    assert!(
        lock.contains("packages-in = { file = \"uv.lock\"") && !lock.contains("\"trainer\"\nversion"),
        "{lock}"
    );
    context.run(&["resolve", "--locked"]).expect(0);
    // The same answer writes nothing.
    let again = project.resolve(&[]).expect(0);
    assert!(again.flat().contains("wrote nothing: the files are current"), "{}", again.shown());
    assert_eq!(context.read("pyproject.toml"), written);
    assert_eq!(context.read("envlock.lock"), lock);

    let plan = context.run(&["sync", "--dry-run", "--json"]).expect(0).json();
    assert_eq!(plan["installer"], "uv");
    assert_eq!(plan["changes"]["install"], serde_json::json!(["filelock", "torch", "trainer", "pytest"]));
    assert_eq!(plan["commands"][0].as_array().unwrap()[1..4], ["sync", "--locked", "--python"]);
    assert!(!context.exists(".venv"));
    let run = context.run(&["sync", "--smoke", "off"]).expect(0);
    assert!(run.stdout.contains("installed with uv"), "{}", run.shown());
    assert!(run.flat().contains("envlock.lock and uv.lock"), "{}", run.shown());
    let installed = project.installed();
    assert!(installed.contains("torch==2.15.0+cpu"), "{installed}");
    // `uv run` changes no package.
    project.uv(&["run", "python", "-c", "import trainer"]).expect(0);
    assert_eq!(project.installed(), installed);
    project.uv(&["sync", "--locked", "--check"]).expect(0);
    // Nothing to do: uv is not started.
    let run = context.run(&["sync", "--smoke", "off"]).expect(0);
    assert!(!run.stdout.contains("installed with"), "{}", run.shown());
    context.run(&["verify", "--smoke", "off"]).expect(0);

    // Questions see the packages of uv.lock.
    let tree = context.run(&["tree"]).expect(0);
    assert!(tree.stdout.contains("trainer 1.0") && tree.stdout.contains("torch 2.15.0"), "{}", tree.shown());
    let why = context.run(&["why", "filelock"]).expect(0);
    assert!(why.stdout.contains("torch"), "{}", why.shown());
    let refused = context.run(&["export", "requirements.txt"]).expect(2);
    assert!(refused.flat().contains("`uv.lock` holds the packages"), "{}", refused.shown());
}

#[test]
fn what_uv_changes_is_told_and_locked_again() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"trainer\"", "");
    project.resolve(&[]).expect(0);
    context.run(&["sync", "--smoke", "off"]).expect(0);
    // Another package: the stack is the same.
    project.uv(&["add", "colors"]).expect(0);
    let run = context.run(&["verify", "--smoke", "off"]).expect(0);
    assert!(run.stdout.contains("warning[package-lock-changed]"), "{}", run.shown());
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("the request has `package colors>=1.0`"), "{}", run.shown());
    let run = project.resolve(&[]).expect(0);
    assert!(run.flat().contains("wrote envlock.lock"), "{}", run.shown());
    let run = context.run(&["verify", "--smoke", "off"]).expect(0);
    assert!(!run.stdout.contains("package-lock-changed"), "{}", run.shown());
    assert!(project.installed().contains("colors==1.0"));

    // Another build of torch: an error that names both.
    project.start("\"trainer\", \"colors>=1.0\"", "");
    project.uv(&["lock", "--upgrade"]).expect(0);
    let run = context.run(&["verify", "--smoke", "off"]).expect(1);
    assert!(run.flat().contains("`uv.lock` has torch 2.15.0"), "{}", run.shown());
    project.resolve(&[]).expect(0);
    assert!(
        context.read("pyproject.toml").contains("torch==2.15.0+cpu"),
        "envlock's entries are there again"
    );
}

/// An upgrade is for the Python that uv takes; what changed is told of uv's packages, also against another lock.
#[test]
fn an_upgrade_keeps_the_python_and_tells_what_changed() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"trainer\", \"modern\"", "");
    context.run(&["resolve", "--gpu", "none"]).expect(0);
    for name in ["envlock.lock", "uv.lock"] {
        context.write(&format!("old/{name}"), &context.read(name));
    }
    let python = format!("  python        {} ", project.series);
    let run = context.run(&["upgrade"]).expect(0);
    assert!(run.stdout.contains(&python) && !run.stdout.contains("changed"), "{}", run.shown());
    let run = context.run(&["upgrade", "colours"]).expect(2);
    assert!(run.flat().contains("the lock has no package `colours`"), "{}", run.shown());
    let run = context.run(&["upgrade", "modern", "--dry-run"]).expect(0);
    assert!(!run.stdout.contains("changed"), "{}", run.shown());
    let run = context.run(&["tree"]).expect(0);
    assert!(!run.stdout.contains("needed by no request"), "{}", run.shown());
    // What needs another Python is newer, and not to be had.
    let json = context.run(&["outdated", "--json"]).expect(0).json();
    let newer = &json["targets"][0];
    assert_eq!(newer["packages"].as_array().unwrap().len(), 0, "{newer}");
    assert_eq!(newer["behind"][0]["what"], "modern", "{newer}");
    let run = context.run(&["add", "colors"]).expect(0);
    assert!(run.stdout.contains("changed        colors 1.0 added\n"), "{}", run.shown());
    let run = context.run(&["diff", "old/envlock.lock", "envlock.lock"]).expect(0);
    assert!(
        run.stdout.contains("colors + 1.0") && !run.stderr.contains("no request needs"),
        "{}",
        run.shown()
    );
    let run = context.run(&["remove", "colors"]).expect(0);
    assert!(run.stdout.contains("changed        colors 1.0 removed\n"), "{}", run.shown());
    let run = context.run(&["why", "python"]).expect(0);
    assert!(run.stdout.contains("[envlock.lock]"), "{}", run.shown());
    context.write(".python-version", &format!("{}\n", project.series));
    let run = context.run(&["why", "python"]).expect(0);
    assert!(run.stdout.contains("[.python-version]"), "{}", run.shown());
}

/// Constraints are uv's, beside those that envlock writes anew; a lock whose uv.lock is not known is not compared with one of
/// which it is.
#[test]
fn constraints_beside_envlocks_own() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"trainer\"", "");
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    assert!(context.read("pyproject.toml").contains("torch==2.15.0"));
    context.run(&["add", "--constraint", "torch<2.15", "filelock<3.20"]).expect(0);
    let text = context.read("pyproject.toml");
    assert!(text.contains("\"torch<2.15\",\n") && text.contains("\"filelock<3.20\",\n"), "{text}");
    assert!(text.contains("torch==2.9.1") && !text.contains("torch==2.15.0"), "{text}");
    assert_eq!(project.locked("filelock"), ["3.19.0"]);
    let run = context.run(&["add", "filelock>=3.20", "--dry-run"]).expect(1);
    assert!(run.flat().contains("you constrain filelock to <3.20 [pyproject.toml]"), "{}", run.shown());
    context.run(&["init", "--from", "pyproject.toml"]).expect(0);
    let imported = context.read("envlock.toml");
    assert!(imported.contains("filelock<3.20") && !imported.contains("torch=="), "{imported}");
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    let other = "[project]\nname = \"x\"\nversion = \"1\"\n[tool.envlock.stack]\ncuda = \"12\"\n";
    context.write("other/pyproject.toml", other);
    let run = context.run(&["--project", "other", "init", "--from", "other/pyproject.toml"]).expect(0);
    assert!(run.flat().contains("left out: `[tool.envlock]`"), "{}", run.shown());
    let run = context.run(&["remove", "--constraint", "triton"]).expect(2);
    assert!(run.flat().contains("`triton` is not in the constraints"), "{}", run.shown());
    context.run(&["remove", "--constraint", "torch"]).expect(0);

    context.write("old/envlock.lock", &context.read("envlock.lock"));
    let run = context.run(&["diff", "old/envlock.lock", "envlock.lock"]).expect(0);
    assert!(
        run.stdout.starts_with("no change of the stack") && run.flat().contains("not compared"),
        "{}",
        run.shown()
    );
}

/// uv.lock is for every Python, envlock.lock for one: `verify` and `sync` say the same of an environment with another one.
#[test]
fn an_environment_of_another_python_than_the_locked_one() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"colors\"", "");
    project.resolve(&[]).expect(0);
    project.uv(&["sync"]).expect(0);
    context.run(&["verify", "--smoke", "off"]).expect(0);
    let minor: u32 = project.series.rsplit('.').next().unwrap().parse().unwrap();
    let newer = format!("3.{}", minor + 1);
    context.run(&["resolve", "--gpu", "none", "--python", &newer]).expect(0);
    let run = context.run(&["verify", "--smoke", "off"]).expect(1);
    assert!(run.stdout.contains("error[wrong-python]"), "{}", run.shown());
    let run = context.run(&["sync", "--smoke", "off"]).expect(2);
    assert!(run.flat().contains(&format!("and {newer} is locked")), "{}", run.shown());
}

#[test]
fn what_uv_cannot_lock_leaves_the_files_as_they_were() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    let refused = |more: &str, arguments: &[&str], sentence: &str| {
        project.start("\"trainer\", \"torch\"", more);
        let before = (context.read("pyproject.toml"), context.read("uv.lock"));
        let run = project.resolve(arguments).expect(2);
        assert!(run.flat().contains(sentence), "{sentence}: {}", run.shown());
        assert_eq!((context.read("pyproject.toml"), context.read("uv.lock")), before);
        assert!(!context.exists("envlock.lock"));
    };
    // The user says where torch comes from.
    let address = project._server.address.clone();
    let index = format!(
        "[[tool.uv.index]]\nname = \"mine\"\nurl = \"{address}/pypi\"\nexplicit = true\n\n[tool.uv.sources]\ntorch = {{ index = \"mine\" }}\n"
    );
    refused(&index, &[], "`[tool.uv.sources]` takes `torch` from `{ index = \"mine\" }`");
    // What uv is told of a package, and envlock is not.
    let told = "[[tool.uv.dependency-metadata]]\nname = \"trainer\"\nversion = \"1.0\"\nrequires-dist = [\"torch<2.10\"]\n";
    refused(told, &["--upgrade"], "`uv lock --upgrade` failed with this stack");
    // Two machines of one platform with different builds.
    let series = &project.series;
    context.write(
        "pyproject.toml",
        &format!("{HEAD}requires-python = \"=={series}.*\"\ndependencies = [\"torch\"]\n[tool.envlock.target.a]\ngpus = [\"V100\"]\ndriver = \"580.65.06\"\n[tool.envlock.target.b]\ngpus = [\"none\"]\n"),
    );
    let run = context.run(&["resolve"]).expect(1);
    assert!(run.flat().contains("the targets `a` and `b` are for one platform"), "{}", run.shown());
    // Without uv nothing is changed.
    std::fs::remove_file(context.dir.path().join("bin/uv")).unwrap();
    project.context.write(
        "pyproject.toml",
        &format!("{HEAD}requires-python = \">={series}\"\ndependencies = [\"trainer\"]\n[tool.envlock]\n"),
    );
    let run = project.resolve(&[]).expect(2);
    assert!(
        run.flat().contains("uv holds the packages (`uv.lock`), and it was not found"),
        "{}",
        run.shown()
    );
}

#[test]
fn an_envlock_toml_holds_the_packages_itself() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"trainer\"", "");
    context.write("envlock.toml", "[project]\ndependencies = [\"trainer\"]\n");
    let before = context.read("pyproject.toml");
    project.resolve(&[]).expect(0);
    assert!(context.exists("environment.yml"));
    assert!(!context.read("envlock.lock").contains("packages-in"));
    assert_eq!(context.read("pyproject.toml"), before);
}

const PIXI_TOML: &str = "[workspace]\nname = \"demo\"\nchannels = [\"conda-forge\"]\nplatforms = [\"linux-64\", \"osx-arm64\"]\n\n[dependencies]\npytorch = \"*\"\n\n[tool.envlock]\n";

/// What a fake pixi locks: conda's pytorch in the build that is named.
fn pixi_lock(build: &str) -> String {
    let python = "https://c.example/linux-64/python-3.12.7-hc5c86c4_0_cpython.conda";
    let torch = format!("https://c.example/linux-64/pytorch-2.7.1-{build}.conda");
    let depends = if build.starts_with("cuda") { "\n  depends:\n  - __cuda" } else { "" };
    format!(
        "version: 6\nenvironments:\n  default:\n    channels: []\n    packages:\n      linux-64:\n      - conda: {python}\n      - conda: {torch}\npackages:\n- conda: {python}\n- conda: {torch}{depends}\n"
    )
}

/// A program that plays pixi: `lock` takes the lock for CUDA where the manifest states one, `install` notes that it ran.
#[cfg(unix)]
fn plays_pixi(context: &TestContext) {
    use std::os::unix::fs::PermissionsExt as _;
    context.write("../cuda.lock", &pixi_lock("cuda129_mkl_py312_h6bb0a4e_304"));
    context.write("../cpu.lock", &pixi_lock("cpu_mkl_py312_h6bb0a4e_104"));
    let script = "#!/bin/sh\ncase \"$1\" in\nlock) if /bin/grep -q cuda pixi.toml; then /bin/cp ../cuda.lock pixi.lock; else /bin/cp ../cpu.lock pixi.lock; fi;;\n\
                  install) echo \"$@\" > ../installed; /bin/mkdir -p .pixi/envs/default/conda-meta;;\nesac\n";
    let path = context.write("../bin/pixi", script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    context.write("pixi.toml", PIXI_TOML);
    context.write("pixi.lock", &pixi_lock("cpu_mkl_py312_h6bb0a4e_104"));
}

#[test]
#[cfg(unix)]
fn pixi_is_told_the_machine_and_what_it_locks_is_judged() {
    let context = TestContext::new();
    plays_pixi(&context);
    let v100 = ["resolve", "--gpu", "V100", "--driver", "535.129.03"];
    let run = context.run(&v100).expect(0);
    assert!(run.flat().contains("wrote envlock.lock, pixi.lock, pixi.toml"), "{}", run.shown());
    let written = context.read("pixi.toml");
    assert!(
        written.contains("    \"osx-arm64\",\n    { platform = \"linux-64\", cuda = \"12.2\" }, # envlock\n"),
        "{written}"
    );
    assert!(context.read("pixi.lock").contains("cuda129"));
    let lock = context.read("envlock.lock");
    assert!(lock.contains("packages-in = { file = \"pixi.lock\""), "{lock}");
    context.run(&["resolve", "--locked"]).expect(0);
    // The machine is kept, and nothing changes.
    context.run(&["resolve"]).expect(0);
    assert_eq!((context.read("pixi.toml"), context.read("envlock.lock")), (written.clone(), lock));
    let plan = context.run(&["sync", "--dry-run", "--json"]).expect(0).json();
    assert_eq!((&plan["installer"], &plan["prefix"]), (&"pixi".into(), &".pixi/envs/default".into()));
    assert_eq!(plan["commands"][0].as_array().unwrap()[1..3], ["install", "--locked"]);
    // What is installed is compared; the player installs nothing.
    let run = context.run(&["sync", "--smoke", "off"]);
    assert!(run.code != 0, "{}", run.shown());
    assert_eq!(context.read("../installed"), "install --locked\n");
    let tree = context.run(&["tree"]).expect(2);
    assert!(tree.flat().contains("`pixi tree`"), "{}", tree.shown());

    // pixi changes its lock; a build for the CPU is none for this machine.
    context.write("pixi.lock", &pixi_lock("cpu_mkl_py312_h6bb0a4e_104"));
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("`pixi.lock` changed since"), "{}", run.shown());
    context.write("../cuda.lock", &pixi_lock("cpu_mkl_py312_h6bb0a4e_104"));
    let before = (context.read("pixi.toml"), context.read("envlock.lock"));
    let run = context.run(&v100).expect(1);
    assert!(run.flat().contains("is a CPU build"), "{}", run.shown());
    assert_eq!((context.read("pixi.toml"), context.read("envlock.lock")), before);
    // Without a driver it cannot be said which CUDA.
    let run = context.run(&["resolve", "--gpu", "V100"]).expect(2);
    assert!(run.flat().contains("the driver of `default` is not known"), "{}", run.shown());
}

#[test]
fn init_leaves_the_packages_to_the_tool_that_has_them() {
    let context = TestContext::new();
    context.write("pyproject.toml", HEAD);
    context.write("uv.lock", "version = 1\nrequires-python = \">=3.11\"\n");
    let run = context.run(&["init", "--torch", ">=2.8"]).expect(0);
    assert!(
        run.flat().contains("uv holds the packages (`uv.lock`), and envlock the stack"),
        "{}",
        run.shown()
    );
    assert!(!context.exists("envlock.toml"));
    let text = context.read("pyproject.toml");
    assert_eq!(text, format!("{HEAD}\n[tool.envlock]\n\n[tool.envlock.stack]\ntorch = \">=2.8\"\n"));
    // Asked again, it is a project of envlock's, and a manifest of its own takes the packages.
    context.run(&["init", "--from", "pyproject.toml"]).expect(0);
    assert!(context.exists("envlock.toml"));
    let other = TestContext::new();
    other.write("pixi.toml", "[workspace]\nplatforms = [\"linux-64\"]\n");
    other.write("pixi.lock", "version: 6\n");
    other.run(&["init"]).expect(0);
    assert!(other.read("pixi.toml").ends_with("\n\n[tool.envlock]\n"));
}

/// Who holds the packages does not change because a run of uv left its lock behind.
#[test]
fn a_new_lock_of_uv_takes_no_packages_unasked() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    let text = format!(
        "{HEAD}requires-python = \">={}\"\ndependencies = [\"torch\"]\n[tool.envlock]\n",
        project.series
    );
    context.write("pyproject.toml", &text);
    project.resolve(&[]).expect(0);
    let lock = context.read("envlock.lock");
    project.uv(&["lock"]).expect(0);
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("`uv.lock` is new here, and the lock holds the packages"), "{}", run.shown());
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.flat().contains("`envlock resolve --force` leaves them to uv"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), lock);
    context.run(&["resolve", "--force"]).expect(0);
    assert!(context.read("envlock.lock").contains("packages-in"));
}

/// The hashes of uv.lock are compared with the index's too.
#[test]
fn a_hash_of_uv_lock_that_the_index_does_not_state_is_told() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"torch\", \"colors\"", "");
    project.resolve(&[]).expect(0);
    let run = context.run(&["resolve", "--check-hashes"]).expect(0);
    assert!(run.stdout.contains("no index states another hash"), "{}", run.shown());
    assert!(!run.stderr.contains("not compared"), "{}", run.shown());
    let lock = context.read("uv.lock");
    let at = lock.find("colors-1.0-").and_then(|at| Some(at + lock[at..].find("sha256:")? + 7)).unwrap();
    context.write("uv.lock", &format!("{}0000{}", &lock[..at], &lock[at + 4..]));
    let run = context.run(&["resolve", "--check-hashes"]).expect(1);
    assert!(run.flat().contains("colors-1.0"), "{}", run.shown());
}

/// Packages of groups are missed as those of the project are.
#[test]
fn what_is_missing_of_a_group_is_missed() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"torch\"", "[dependency-groups]\ndev = [\"pytest\", \"colors\"]\nlint = [\"numpy\"]");
    project.resolve(&[]).expect(0);
    context.run(&["sync", "--smoke", "off"]).expect(0);
    let verify = |more: &[&str]| context.run(&[&["verify", "--smoke", "off"], more].concat());
    verify(&["--exact"]).expect(0);
    // Of what uv installs unasked, something is there.
    project.uv(&["pip", "uninstall", "pytest"]).expect(0);
    let run = verify(&[]).expect(1);
    assert!(run.stdout.contains("error[missing-package]: pytest"), "{}", run.shown());
    project.uv(&["pip", "uninstall", "colors"]).expect(0);
    verify(&[]).expect(0);
    verify(&["--group", "dev"]).expect(1);
    verify(&["--all-groups"]).expect(1);
    let run = verify(&["--group", "nope"]).expect(2);
    assert!(run.flat().contains("no group nope hint: it has group dev, group lint"), "{}", run.shown());
}

/// What uv chooses beside the stack is judged too: a version that is known to fail is not locked.
#[test]
fn what_is_known_to_fail_beside_the_stack_is_a_constraint() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"torch\", \"compiled\", \"numpy\"", "");
    assert_eq!(project.locked("numpy"), ["2.2.6"]);
    let run = project.resolve(&[]).expect(0);
    assert!(run.flat().contains("uv's choice of numpy is known to fail beside the stack"), "{}", run.shown());
    assert!(project.locked("numpy").contains(&"1.26.4".to_owned()), "{:?}", project.locked("numpy"));
    let written = context.read("pyproject.toml");
    assert!(written.contains("\"numpy==1.26.4; sys_platform"), "{written}");
    context.run(&["resolve", "--locked"]).expect(0);
    let again = project.resolve(&[]).expect(0);
    assert!(again.flat().contains("wrote nothing: the files are current"), "{}", again.shown());
    assert_eq!(context.read("pyproject.toml"), written);
    // Asked for by hand, it is locked with a warning, and the constraint is gone.
    context.write("pyproject.toml", &written.replace("\"numpy\"]", "\"numpy>=2\"]"));
    let run = project.resolve(&[]).expect(0);
    assert!(run.flat().contains("warning: compiled 1.0 was built before numpy 2 existed"), "{}", run.shown());
    assert_eq!(project.locked("numpy"), ["2.2.6"]);
}

/// The root of a workspace can be no package: its members are locked, and installed, together.
#[test]
fn a_workspace_without_a_root_package_is_its_members() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    let member = |folder: &str, name: &str, more: &str| {
        let text = format!(
            "[project]\nname = \"{name}\"\nversion = \"1\"\nrequires-python = \">={}\"\n{more}",
            project.series
        );
        context.write(&format!("{folder}/pyproject.toml"), &text);
    };
    let app = "dependencies = [\"trainer\", \"lib\", \"near\"]\n[tool.uv.sources]\nlib = { workspace = true }\nnear = { path = \"near\" }\n";
    member("packages/app", "app", app);
    member("packages/app/near", "near", "");
    member("packages/lib", "lib", "dependencies = [\"colors\"]\n");
    member("packages/draft", "draft", "dependencies = [\"no-such-package\"]\n");
    let root = "[tool.uv.workspace]\nmembers = [\"packages/*\"]\nexclude = [\"packages/draft\"]\n";
    context.write("pyproject.toml", root);
    let run = context.run(&["init", "--from", "pyproject.toml"]).expect(2);
    assert!(
        run.flat().contains("`envlock init` adds `[tool.envlock]` to it, for all members"),
        "{}",
        run.shown()
    );
    context.run(&["init"]).expect(0);
    assert!(!context.exists("envlock.toml"));
    project.uv(&["lock"]).expect(0);
    project.resolve(&[]).expect(0);
    assert!(project.locked("torch").contains(&"2.15.0+cpu".to_owned()), "{:?}", project.locked("torch"));
    let lock = context.read("envlock.lock");
    for line in ["package colors", "package trainer", "package near @ path:./packages/app/near"] {
        assert!(lock.contains(&format!("\"{line}\"")), "{lock}");
    }
    context.run(&["resolve", "--locked"]).expect(0);
    // From the folder of a member it is the same project.
    let below = context.project().join("packages/lib");
    let run =
        context.finish(context.command().args(["resolve", "--locked"]).current_dir(below).output().unwrap());
    run.expect(0);
    // What a member asks for is part of the request.
    member("packages/lib", "lib", "dependencies = [\"colors\", \"pytest\"]\n");
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("pytest"), "{}", run.shown());
    member("packages/lib", "lib", "dependencies = [\"colors\", \"a b\"]\n");
    let run = context.run(&["resolve", "--locked"]).expect(2);
    assert!(run.stderr.contains("packages/lib/pyproject.toml:5: `a b`"), "{}", run.shown());
}

#[test]
fn init_adds_its_tables_to_a_pyproject_that_states_the_packages() {
    let context = TestContext::new();
    let text = "[project]\nname = \"demo\"\nversion = \"1\"\ndependencies = [\"torch>=2.6\"]\n";
    context.write("pyproject.toml", text);
    let run = context.run(&["resolve", "--gpu", "none"]).expect(2);
    assert!(run.flat().contains("hint: `envlock init` adds envlock's tables"), "{}", run.shown());
    context.run(&["init"]).expect(0);
    assert!(!context.exists("envlock.toml"));
    assert_eq!(context.read("pyproject.toml"), format!("{text}\n[tool.envlock]\n"));
    // A build backend computes the requirements, or they stand elsewhere.
    let files = [
        ("pyproject.toml", "[project]\nname = \"demo\"\ndynamic = [\"version\", \"dependencies\"]\n"),
        ("pyproject.toml", "[tool.poetry.dependencies]\ntorch = \"^2.6\"\n"),
        ("requirements.txt", "torch\n"),
        ("environment.yml", "dependencies:\n  - pytorch\n"),
    ];
    for (name, text) in files {
        let context = TestContext::new();
        context.write(name, text);
        let run = context.run(&["resolve"]).expect(2);
        assert!(run.flat().contains(&format!("hint: `envlock init --from {name}`")), "{}", run.shown());
        let run = context.run(&["init"]).expect(0);
        assert!(run.flat().contains(&format!("`{name}` was not read")), "{}", run.shown());
        assert_eq!(context.read(name), text);
    }
}

#[test]
fn what_envlock_wrote_is_compared_with_the_lock() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    // Bounds of envlock's own tables reach uv.
    let bounds = "constraints = [\"filelock<3.20\"]\n";
    let series = &project.series;
    let text = format!(
        "{HEAD}requires-python = \">={series}\"\ndependencies = [\"trainer\", \"filelock\"]\n[tool.envlock]\n{bounds}"
    );
    context.write("pyproject.toml", &text);
    project.uv(&["lock"]).expect(0);
    assert_eq!(project.locked("filelock"), ["3.20.0"]);
    let run = project.resolve(&[]).expect(0);
    assert_eq!(project.locked("filelock"), ["3.19.0"], "{}", run.shown());
    context.run(&["resolve", "--locked"]).expect(0);
    // Without its entries, or with another version in them.
    let written = context.read("pyproject.toml");
    for other in [
        written.lines().filter(|line| !line.ends_with("# envlock")).collect::<Vec<_>>().join("\n"),
        written.replace("torch==2.15.0+cpu", "torch==2.9.1+cpu"),
    ] {
        context.write("pyproject.toml", &other);
        let run = context.run(&["resolve", "--locked"]).expect(1);
        assert!(run.flat().contains("are not those of the lock"), "{}", run.shown());
    }
    context.write("pyproject.toml", &written);
    context.run(&["resolve", "--locked"]).expect(0);
    // Variables that would make uv do something else.
    let mut frozen = context.command();
    frozen
        .args(["resolve", "--gpu", "none", "--upgrade"])
        .env("UV_FROZEN", "1")
        .env("UV_PROJECT", "/nowhere");
    context.finish(frozen.output().unwrap()).expect(0);
    project.uv(&["lock", "--check"]).expect(0);
}

#[test]
fn what_uv_would_not_do_is_refused() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"trainer\"", "");
    let minor: u32 = project.series.trim_start_matches("3.").parse().unwrap();
    let older = format!("3.{}", minor - 1);
    let run = context.run(&["resolve", "--gpu", "none", "--python", &older]).expect(2);
    assert!(run.flat().contains(&format!("pyproject.toml does not allow Python {older}")), "{}", run.shown());
    project.resolve(&[]).expect(0);
    let before = context.read("envlock.lock");
    // It has its tables already.
    let run = context.run(&["init"]).expect(2);
    assert!(run.flat().contains("`pyproject.toml` has `[tool.envlock]` already"), "{}", run.shown());
    // An environment of somebody else with another Python stays.
    let old = context.project().join(".venv");
    std::fs::create_dir_all(old.join("lib/python3.7/site-packages")).unwrap();
    std::fs::write(old.join("pyvenv.cfg"), "home = /usr/bin\nversion = 3.7.1\n").unwrap();
    let run = context.run(&["sync", "--smoke", "off"]).expect(2);
    assert!(run.flat().contains("it has Python 3.7"), "{}", run.shown());
    std::fs::remove_dir_all(&old).unwrap();
    // Another stack is not installed first and refused then.
    let lock = context.read("uv.lock");
    context.write("uv.lock", &lock.replace("2.15.0+cpu", "2.9.1+cpu"));
    let run = context.run(&["sync", "--dry-run"]).expect(2);
    assert!(run.flat().contains("`uv.lock` has torch 2.9.1+cpu, and envlock.lock has"), "{}", run.shown());
    context.write("uv.lock", &lock);
    // torch from a folder: nothing is known of its code.
    context.write("torch/pyproject.toml", "[project]\nname = \"torch\"\nversion = \"2.9.1\"\n");
    let text = context.read("pyproject.toml") + "[tool.uv.sources.torch]\npath = \"torch\"\n";
    let text = text.replace("[\"trainer\"]", "[\"trainer\", \"torch\"]");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("torch = {")).collect();
    context.write("pyproject.toml", &lines.join("\n").replace("[tool.uv.sources]\n", ""));
    let run = project.resolve(&[]).expect(2);
    assert!(run.flat().contains("`torch` comes from no index"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), before);
}

#[test]
fn a_cutoff_is_said_to_uv() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"trainer\"", "");
    let text = context.read("pyproject.toml");
    context
        .write("pyproject.toml", &format!("{text}[tool.envlock.resolve]\nexclude-newer = \"2026-01-01\"\n"));
    let run = project.resolve(&[]).expect(2);
    assert!(run.flat().contains("set `exclude-newer` under `[tool.uv]`"), "{}", run.shown());
    context.write("pyproject.toml", &text);
    project.resolve(&["--exclude-newer", "2026-01-01"]).expect(2);
    assert!(!context.exists("envlock.lock"));
}

#[test]
fn a_lock_of_uv_that_is_gone_is_made_again_and_lost_tables_are_told() {
    let Some(project) = Project::new() else { return };
    let context = &project.context;
    project.start("\"trainer\"", "");
    project.resolve(&[]).expect(0);
    context.run(&["sync", "--smoke", "off"]).expect(0);
    // An altered file is installed again, although the version is right.
    let site = context.project().join(format!(".venv/lib/python{}/site-packages", project.series));
    std::fs::write(site.join("trainer.py"), "broken = True\n").unwrap();
    context.run(&["sync", "--smoke", "off"]).expect(0);
    assert_eq!(std::fs::read_to_string(site.join("trainer.py")).unwrap(), "import torch\n");
    std::fs::remove_file(context.project().join("uv.lock")).unwrap();
    context.run(&["resolve", "--locked"]).expect(1);
    let run = context.run(&["resolve"]).expect(0);
    assert!(context.exists("uv.lock") && !context.exists("environment.yml"), "{}", run.shown());
    // Without its tables envlock does not take the packages unasked.
    let text = context.read("pyproject.toml");
    context.write("pyproject.toml", &text.replace("[tool.envlock]\n", ""));
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("has no `[tool.envlock]`"), "{}", run.shown());
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.flat().contains("no manifest has `[tool.envlock]`"), "{}", run.shown());
    // A lost comment makes no second entry.
    context.write("pyproject.toml", &text.replace(" # envlock", ""));
    context.run(&["resolve"]).expect(0);
    assert_eq!(context.read("pyproject.toml").matches("torch==2.15.0+cpu;").count(), 1);
}
