//! What newcomers met: the machine that packages without a framework need, checks in CI, manifests that are written anew.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::wheel;

fn index() -> IndexServer {
    let all = vec![
        ("pypi", wheel("inference", "2.0").needs("nvidia-cuda-runtime~=13.0")),
        ("pypi", wheel("inference", "1.0").needs("nvidia-cuda-runtime-cu12~=12.0")),
        ("pypi", wheel("nvidia-cuda-runtime", "13.0.96")),
        ("pypi", wheel("nvidia-cuda-runtime-cu12", "12.9.79")),
        ("pypi", wheel("idna", "3.10")),
        ("pypi", wheel("six", "1.17.0")),
    ];
    IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() })
}

/// The CUDA runtime needs its driver, whatever uses it; what the user needs besides is not known, and is said.
#[test]
fn the_runtime_of_packages_without_a_framework() {
    let server = index();
    let context = TestContext::with_index(&server).with_shipped_registry();
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"inference\"]\n");
    let resolve = |driver: &str, code: i32| {
        let machine = ["--gpu", "A100", "--driver", driver, "--only-index", "pypi", "--force", "--upgrade"];
        context.run(&[&["resolve"], &machine[..]].concat()).expect(code)
    };
    let run = resolve("535.129.03", 0);
    assert!(
        run.flat().contains("inference 1.0") && run.flat().contains("driver >= 525.60.13"),
        "{}",
        run.shown()
    );
    assert!(
        run.flat().contains("which GPUs inference 1.0 needs is not in envlock's data"),
        "{}",
        run.shown()
    );
    let run = context.run(&["why", "driver"]).expect(0);
    assert!(
        run.flat().contains("nvidia-cuda-runtime-cu12 12.9.79 is the runtime of CUDA 12.9"),
        "{}",
        run.shown()
    );
    let judged = |driver: &str, code: i32, expected: &str| {
        let machine = ["--gpu", "A100", "--driver", driver];
        let run = context.run(&[&["plan", "--lock", "envlock.lock"], &machine[..]].concat()).expect(code);
        assert!(run.flat().contains(expected), "{}", run.shown());
    };
    judged("535.129.03", 3, "unknown");
    judged("470.82.01", 1, "driver 470.82.01 is below 525.60.13");
    resolve("580.65.06", 0);
    assert!(context.read("envlock.lock").contains("name = \"inference\"\nversion = \"2.0\""));
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"inference>=2\"]\n");
    let run = resolve("535.129.03", 1);
    for expected in [
        "nvidia-cuda-runtime 13.0.96 is the runtime of CUDA 13.0",
        "CUDA 13 needs driver >= 580.65.06",
        "driver >= 580.65.06",
        "CUDA 13.0",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    // Without a GPU there is no driver that it needs.
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi", "--force"]).expect(0);
}

/// Of Pythons that are as good, one that is installed is taken where the machine may be this one.
#[test]
#[cfg(unix)]
fn an_installed_python_is_taken() {
    let server = index();
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"six\"]\n");
    let bin = context.dir.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("python3.12"), "").unwrap();
    let python = |more: &[&str]| {
        let _ = std::fs::remove_file(context.project().join("envlock.lock"));
        let run = context.run(&[&["resolve", "--only-index", "pypi"], more].concat()).expect(0);
        let lock: toml::Table = context.read("envlock.lock").parse().unwrap();
        (lock["target"][0]["python"].as_str().unwrap().to_owned(), run)
    };
    let (series, run) = python(&["--gpu", "none"]);
    assert_eq!(series, "3.12");
    assert!(run.flat().contains("newest that is installed here"), "{}", run.shown());
    // So it is within a range, and when everything is chosen again.
    let (series, run) = python(&["--gpu", "none", "--python", ">=3.11"]);
    assert_eq!(series, "3.12");
    assert!(run.flat().contains("newest of >=3.11 that is installed here"), "{}", run.shown());
    let run = context.run(&["resolve", "--upgrade"]).expect(0);
    assert!(run.flat().contains("python 3.12"), "{}", run.shown());
    // Another machine has what it has.
    assert_ne!(python(&["--gpu", "A100", "--driver", "535.129.03"]).0, "3.12");
    assert_ne!(python(&["--gpu", "none", "--python", ">=3.13"]).0, "3.12");
}

#[test]
fn checks_say_what_they_compare() {
    let server = index();
    let context = TestContext::with_index(&server);
    context.write("requirements.txt", "six\n");
    let base = ["--gpu", "none", "--only-index", "pypi", "--python", "3.12"];
    context.run(&[&["resolve", "-r", "requirements.txt"], &base[..]].concat()).expect(0);
    let locked =
        |more: &[&str], code: i32| context.run(&[&["resolve", "--locked"], more].concat()).expect(code);
    let run = locked(&["-r", "requirements.txt"], 0);
    assert!(run.flat().contains("the lock is current for requirements.txt"), "{}", run.shown());
    // The lock names the file that it was made from.
    assert!(context.read("envlock.lock").contains("files = [\n    \"requirements.txt\",\n]"));
    assert!(locked(&[], 0).flat().contains("the lock is current for requirements.txt"));
    for format in ["github", "pre-commit"] {
        let exported = context.run(&["export", format]).expect(0).stdout;
        assert!(exported.contains("resolve --locked -r requirements.txt"), "{exported}");
    }
    context.write("requirements.txt", "six\nidna\n");
    let run = locked(&["-r", "requirements.txt"], 1);
    assert!(
        run.flat().contains("make it current with `envlock resolve -r requirements.txt`"),
        "{}",
        run.shown()
    );
    for option in [&["--gpu", "H100"][..], &["--upgrade"]] {
        let run = locked(option, 2);
        assert!(run.flat().contains("it checks the lock for its own machines"), "{}", run.shown());
    }
    assert!(locked(&[], 1).flat().contains("make it current with `envlock resolve -r requirements.txt`"));
    let run = context.run(&["why", "six"]).expect(0);
    assert!(run.flat().contains("the lock is stale: the request has `package idna`"), "{}", run.shown());
    context.run(&["resolve"]).expect(0);
    assert!(context.read("envlock.lock").contains("package idna"));
    // One that was made from the command line is compared with itself.
    context.run(&[&["resolve", "six", "--force"], &base[..]].concat()).expect(0);
    assert!(locked(&[], 0).flat().contains("for its own request: no manifest is here"));
    let itself = "compared with its own request alone; `-r requirements.txt` compares it with that file";
    assert!(locked(&["--format", "github"], 0).stdout.contains(itself));
    assert!(locked(&["--format", "junit"], 0).stdout.contains("its own request alone"));
    // A name that leads elsewhere is no such file.
    let lock = context.read("envlock.lock");
    let outside = lock.replacen("\n[[target]]", "files = [\"../requirements.txt\"]\n\n[[target]]", 1);
    context.write("../requirements.txt", "idna\n");
    context.write("envlock.lock", &super::common::installed::with_checksum(&outside));
    assert!(locked(&[], 0).flat().contains("for its own request"));
    // A file that was exported is compared, and the command that writes it anew is named.
    let manifest = "[project]\nname = \"x\"\ndependencies = [\"six\"]\n[target.a]\ngpus = [\"none\"]\npython = \"3.12\"\n[target.b]\ngpus = [\"none\"]\npython = \"3.11\"\n";
    context.write("envlock.toml", manifest);
    context.run(&["resolve", "--only-index", "pypi", "--force"]).expect(0);
    context.run(&["export", "requirements.txt", "--target", "b", "-o", "requirements.b.txt"]).expect(0);
    let run = locked(&[], 0);
    assert!(run.flat().contains("`requirements.txt` was not written by envlock"), "{}", run.shown());
    let exported = context.read("requirements.b.txt");
    assert!(
        exported.contains(" -r requirements.b.txt\n") && !exported.contains(" requirements.txt\n"),
        "{exported}"
    );
    context.write("requirements.b.txt", &format!("{exported}idna\n"));
    // The first target may have a file of its name, too.
    context.run(&["export", "requirements.txt", "--target", "a", "-o", "requirements.a.txt"]).expect(0);
    locked(&[], 1);
    let of_first = context.read("requirements.a.txt");
    context.write("requirements.a.txt", &format!("{of_first}idna\n"));
    assert!(locked(&[], 1).stdout.contains("`requirements.a.txt` is not what"), "{of_first}");
    context.write("requirements.a.txt", &of_first);
    let run = locked(&[], 1);
    let command = "envlock export requirements.txt --target b -o requirements.b.txt";
    assert!(run.flat().contains(command) && !run.flat().contains("`envlock resolve`"), "{}", run.shown());
    assert!(locked(&["--format", "junit"], 1).stdout.contains(command));
    let junit = locked(&["--format", "junit"], 1).stdout;
    assert!(junit.contains("envlock resolve --locked") && !junit.contains("the lock is stale"), "{junit}");
    let sarif = locked(&["--format", "sarif"], 1).json();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(place["uri"], "requirements.b.txt", "{sarif:#}");
}

#[test]
fn a_required_gpu_is_not_given_up_for_another_target() {
    let server = index();
    let context = TestContext::with_index(&server);
    let table = |name: &str, gpus: &str| format!("[target.{name}]\ngpus = [{gpus}]\npython = \"3.12\"\n");
    let (ci, cluster) =
        (table("ci", "\"none\""), format!("{}driver = \"535.129.03\"\n", table("cluster", "\"A100\"")));
    let head = "[project]\nname = \"x\"\ndependencies = [\"six\"]\n";
    context.write("envlock.toml", &format!("{head}{ci}{cluster}"));
    context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    context.write("node.toml", "schema = 1\ngpu = []\n[system]\nglibc = \"2.35\"\n");
    let host = |more: &[&str], code: i32| {
        context.run(&[&["verify", "--host", "node.toml"], more].concat()).expect(code)
    };
    host(&[], 0);
    host(&["--require-gpu"], 1);
    host(&["--require-gpu", "--target", "ci"], 0);
    // The order of the tables decides whose environment.yml it is: another order is another request.
    context.run(&["resolve", "--locked"]).expect(0);
    context.write("envlock.toml", &format!("{head}{cluster}{ci}"));
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(
        run.flat().contains("the request has the targets cluster, ci, but the lock has ci, cluster"),
        "{}",
        run.shown()
    );
    context.run(&["resolve"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    // What a node of this system lacks is told, not that another target is for another system.
    let mac = "[target.mac]\nplatform = \"macos-arm64\"\n";
    context.write("envlock.toml", &format!("{head}{mac}{cluster}"));
    context.run(&["resolve", "--force"]).expect(0);
    let run = host(&["--require-gpu"], 1);
    assert!(run.flat().contains("target cluster: no NVIDIA GPU found"), "{}", run.shown());
}

#[test]
fn a_lock_whose_manifest_is_gone_keeps_its_targets() {
    let server = index();
    let context = TestContext::with_index(&server);
    let text = "[project]\nname = \"x\"\nversion = \"0\"\ndependencies = [\"six\"]\n[tool.envlock.target.a]\ngpus = [\"none\"]\npython = \"3.12\"\n[tool.envlock.target.b]\ngpus = [\"none\"]\npython = \"3.12\"\n";
    context.write("pyproject.toml", text);
    context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    let lock = context.read("envlock.lock");
    // A report names the project's folder in the commands that help, as the text does.
    context.write("pyproject.toml", &text.replace("six", "idna"));
    let folder = context.project().display().to_string();
    for format in ["text", "github", "junit", "sarif"] {
        let run = context.run(&["--project", &folder, "resolve", "--locked", "--format", format]).expect(1);
        assert!(run.flat().contains("envlock --project [DIR]/project resolve"), "{}", run.shown());
    }
    std::fs::remove_file(context.project().join("pyproject.toml")).unwrap();
    let run = context.run(&["resolve", "--locked"]).expect(0);
    assert!(run.flat().contains("no manifest is here"), "{}", run.shown());
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.flat().contains("the manifest that described them is not here"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), lock);
}

#[test]
fn a_limit_that_a_conflict_rests_on_is_named() {
    let server = index();
    let context = TestContext::with_index(&server);
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = []\n[stack]\ntorch = \"==1.13.1\"\ncuda = \"11.6\"\n",
    );
    let asked = ["resolve", "--gpu", "V100", "--driver", "535.129.03", "--only-index", "pypi", "--dry-run"];
    let run = context.run(&asked).expect(1);
    assert!(run.flat().contains("you require CUDA 11.6"), "{}", run.shown());
}

/// A name alone says nothing beside a bound on it: one line of a package is what `add` replaces.
#[test]
fn a_name_beside_a_bound_is_one_requirement() {
    let server = index();
    let context = TestContext::with_index(&server);
    context.write("requirements.txt", "six\nsix>=1\nidna\nidna; python_version < '3'\n");
    context.run(&["init", "--from", "requirements.txt"]).expect(0);
    let text = context.read("envlock.toml");
    assert_eq!(text.matches("six").count(), 1, "{text}");
    assert!(text.contains("\"six>=1\"") && text.matches("idna").count() == 2, "{text}");
}

#[test]
fn a_manifest_that_is_written_anew_keeps_its_machines() {
    let server = index();
    let context = TestContext::with_index(&server);
    let before = "[project]\nname = \"mine\"\npython = \">=3.11\"\ndependencies = [\"six\"]\n\n[stack]\nsame = false\n\n# the nodes\n[target.gpu]\ngpus = [\"A100\"] # four\ndriver = \"535.129.03\"\n";
    context.write("envlock.toml", before);
    context.write("requirements.txt", "idna\n");
    let run = context.run(&["init", "--force", "--from", "requirements.txt"]).expect(0);
    assert!(run.flat().contains("kept from the envlock.toml before: [target.gpu]"), "{}", run.shown());
    let text = context.read("envlock.toml");
    for part in [
        "\"idna\"",
        "# the nodes\n[target.gpu]\ngpus = [\"A100\"] # four\n",
        "same = false",
        "\"mine\"",
        "\">=3.11\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("six"), "{text}");
    // What the file states counts.
    context.write("environment.yml", "name: other\ndependencies:\n  - python=3.12\n  - idna\n");
    context.run(&["init", "--force", "--from", "environment.yml"]).expect(0);
    let text = context.read("envlock.toml");
    assert!(
        text.contains("\"other\"") && text.contains("\"3.12\"") && text.contains("[target.gpu]"),
        "{text}"
    );
}

/// Without the pytorch index, ways out that PyPI alone gives are offered, and none that rests on what did not answer.
#[test]
fn ways_out_without_an_answer_of_the_pytorch_index() {
    let linux = |name: &str, version: &str| wheel(name, version).tags("cp311-cp311-manylinux_2_28_x86_64");
    let vision = |version: &str, torch: &str| linux("torchvision", version).needs(&format!("torch=={torch}"));
    let all = vec![
        ("pypi", wheel("tqdm", "4.0")),
        ("pypi", linux("torch", "1.13.1")),
        ("pypi", linux("torch", "2.10.0")),
        ("pypi", linux("torch", "2.15.0")),
        ("pypi", vision("0.14.1", "1.13.1")),
        ("pypi", vision("0.25.0", "2.10.0")),
        ("pypi", vision("0.29.2", "2.15.0")),
    ];
    let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&index).with_shipped_registry();
    context.unset("ENVLOCK_PYTORCH_INDEX_URL");
    context.set("ENVLOCK_PYTORCH_INDEX_URL", "http://127.0.0.1:9/whl");
    let manifest = "[project]\nname = \"x\"\ndependencies = [\"tqdm\"]\n[stack]\ntorch = \"==1.13.1\"\ntorchvision = \"==0.14.1\"\n";
    context.write("envlock.toml", manifest);
    let run = context.run(&["resolve", "--gpu", "RTX 5090", "--driver", "570.86.15"]).expect(1);
    assert!(run.flat().contains("without an answer of the index"), "{}", run.shown());
    assert!(run.flat().contains("torch 2.10.0 and torchvision 0.25.0"), "{}", run.shown());
    assert!(!run.flat().contains("+cu129"), "{}", run.shown());
}

/// Several files are named, all of them; an exported check has the one that the lock answers, whatever its name.
#[test]
fn several_requirements_files() {
    let server = index();
    let context = TestContext::with_index(&server);
    context.write("requirements.txt", "six\n");
    context.write("requirements-dev.txt", "-r requirements.txt\nidna\n");
    let lock = |files: &[&str]| {
        let files: Vec<&str> = files.iter().flat_map(|file| ["-r", file]).collect();
        context
            .run(&[&["resolve", "--force", "--gpu", "none", "--only-index", "pypi"], &files[..]].concat())
            .expect(0);
        context.run(&[&["resolve", "--locked"], &files[..]].concat()).expect(0)
    };
    let run = lock(&["requirements.txt", "requirements-dev.txt"]);
    assert!(run.flat().contains("current for requirements.txt and requirements-dev.txt"), "{}", run.shown());
    lock(&["requirements-dev.txt"]);
    let workflow = context.run(&["export", "github"]).expect(0).stdout;
    assert!(workflow.contains("resolve --locked -r requirements-dev.txt"), "{workflow}");
    context.write("requirements-dev.txt", "inference\n");
    // A check that fails is better than one that cannot.
    let run = context.run(&["export", "github"]).expect(0);
    assert!(run.stdout.contains("resolve --locked -r requirements-dev.txt"), "{}", run.shown());
    lock(&["requirements.txt"]);
    let both = ["-r", "requirements.txt", "-r", "requirements-dev.txt"];
    context.run(&[&["resolve", "--force", "--gpu", "none", "--only-index", "pypi"], &both[..]].concat());
    // What the lock does not name is found by what it asks for.
    let lock = context.read("envlock.lock");
    let start = lock.find("files = [").unwrap();
    let end = start + lock[start..].find("]\n").unwrap() + 2;
    context.write(
        "envlock.lock",
        &super::common::installed::with_checksum(&format!("{}{}", &lock[..start], &lock[end..])),
    );
    context.write("requirements.txt", "inference\n");
    let run = context.run(&["export", "github"]).expect(0);
    assert!(
        !run.stdout.contains(" -r ")
            && run.flat().contains("none of the requirements files here asks for what the lock has"),
        "{}",
        run.shown()
    );
}

/// A version that was changed by hand leaves the machine and the options, which `--force` keeps.
#[test]
fn a_lock_with_a_version_changed_by_hand_keeps_its_machine() {
    let server = index();
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"six\"]\n");
    let machine = ["--gpu", "A100", "--driver", "535.129.03", "--python", "3.12", "--only-index", "pypi"];
    context.run(&[&["resolve"], &machine[..]].concat()).expect(0);
    let lock = context.read("envlock.lock");
    for (from, to) in [("version = \"1.17.0\"", "version = \"1.16.0\""), ("six-1.17.0", "six-1.18.0")] {
        context.write("envlock.lock", &lock.replacen(from, to, 1));
        context.run(&["resolve"]).expect(2);
        let run = context.run(&["resolve", "--force"]).expect(0);
        assert!(run.flat().contains("for the machine and with the options that it names"), "{}", run.shown());
        assert_eq!(context.read("envlock.lock"), lock, "{from}");
    }
    context.write("envlock.lock", "neither a lock\n");
    let run = context.run(&["resolve", "--force"]).expect(0);
    assert!(run.flat().contains("its machine and options are not kept"), "{}", run.shown());
}

/// Conflict markers are named as such in the files that people merge.
#[test]
fn conflict_markers_in_files_that_people_merge() {
    let server = index();
    let context = TestContext::with_index(&server);
    let sides = "<<<<<<< HEAD\n    \"six\",\n=======\n    \"idna\",\n>>>>>>> other\n";
    context.write("envlock.toml", &format!("[project]\nname = \"x\"\ndependencies = [\n{sides}]\n"));
    let run = context.run(&["resolve", "--gpu", "none"]).expect(2);
    assert!(
        run.flat().contains("envlock.toml:4: the file has conflict markers of a merge"),
        "{}",
        run.shown()
    );
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    let manifest = "[project]\nname = \"x\"\nversion = \"1\"\ndependencies = [\"six\"]\n[tool.envlock]\n";
    context.write("pyproject.toml", manifest);
    context.write("uv.lock", &format!("version = 1\n{sides}"));
    let run = context.run(&["resolve", "--gpu", "none"]).expect(2);
    assert!(run.flat().contains("uv.lock` has conflict markers of a merge"), "{}", run.shown());
    assert!(run.flat().contains("`git checkout --ours uv.lock`"), "{}", run.shown());
}

/// What a package imports and does not require bounds it, where it is installed: torch's extensions import `pkg_resources`.
#[test]
fn an_old_torch_keeps_the_setuptools_that_it_imports() {
    let linux = |name: &str, version: &str| wheel(name, version).tags("cp310-cp310-manylinux_2_17_x86_64");
    let mut all = vec![("pypi", linux("torch", "1.13.1")), ("pypi", linux("torch", "2.2.2"))];
    for version in ["69.5.1", "70.3.0", "80.9.0", "84.0.0"] {
        all.push(("pypi", wheel("setuptools", version)));
    }
    let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&index).with_shipped_registry();
    for (torch, setuptools, locked) in
        [("==1.13.1", "", "80.9.0"), ("==1.13.1", "<71", "69.5.1"), ("==2.2.2", "", "84.0.0")]
    {
        let text = format!(
            "[project]\nname = \"x\"\ndependencies = [\"setuptools{setuptools}\"]\n[stack]\ntorch = \"{torch}\"\n"
        );
        context.write("envlock.toml", &text);
        let options = ["--force", "--gpu", "none", "--python", "3.10", "--only-index", "pypi"];
        let run = context.run(&[&["resolve"], &options[..]].concat()).expect(0);
        let package = format!("name = \"setuptools\"\nversion = \"{locked}\"");
        assert!(context.read("envlock.lock").contains(&package), "{torch}: {}", run.shown());
        std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    }
}
