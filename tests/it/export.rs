//! `export` and what other programs make of it.

use super::context::{IndexServer, Shape, TestContext, skipped};
use super::tools;
use super::wheels::{little_pypi, little_pytorch, wheel};

fn locked() -> (IndexServer, TestContext) {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context
        .run(&["resolve", "torch==2.9.1", "requests", "--gpu", "H200", "--driver", "580.159.04"])
        .expect(0);
    (server, context)
}

#[test]
fn formats() {
    let (server, context) = locked();
    let stable = |text: String| text.replace(&server.address, "[INDEX]");
    insta::assert_snapshot!(
        "export_requirements",
        stable(context.run(&["export", "requirements.txt"]).expect(0).stdout)
    );
    insta::assert_snapshot!(
        "export_environment",
        stable(context.run(&["export", "environment.yml"]).expect(0).stdout)
    );
    let pylock = context.run(&["export", "pylock.toml"]).expect(0).stdout;
    insta::assert_snapshot!("export_pylock", stable(pylock.clone()));
    let parsed: toml::Table = pylock.parse().unwrap();
    let allowed = ["lock-version", "environments", "requires-python", "created-by", "packages", "tool"];
    assert!(parsed.keys().all(|k| allowed.contains(&k.as_str())), "PEP 751 allows no other keys at the top");
}

#[test]
fn output_files() {
    let (_server, context) = locked();
    context.run(&["export", "requirements.txt", "-o", "r.txt"]).expect(0);
    context.run(&["export", "requirements.txt", "-o", "r.txt"]).expect(0);
    context.write("mine.txt", "precious");
    let run = context.run(&["export", "requirements.txt", "-o", "mine.txt"]).expect(2);
    assert!(run.stderr.contains("was not written by envlock"), "{}", run.shown());
    assert_eq!(context.read("mine.txt"), "precious");
    // Another format's file is no stranger's.
    let run = context.run(&["export", "Dockerfile", "-o", "r.txt"]).expect(2);
    assert!(
        run.stderr.contains("`r.txt` is what `envlock export requirements.txt` wrote"),
        "{}",
        run.shown()
    );
    context.run(&["export", "Dockerfile", "-o", "r.txt", "--force"]).expect(0);
    let run = context.run(&["export", "requirements.txt", "--target", "moon"]).expect(2);
    assert!(run.stderr.contains("no target `moon`"), "{}", run.shown());
}

/// A real conda parser reads the file: py-rattler, where it can be had.
#[test]
fn a_conda_parser_reads_the_environment() {
    let (_server, context) = locked();
    let path = context.project().join("environment.yml");
    let Some(python) = tools::python_with("rattler") else { return };
    let program = "import sys, rattler\n\
        env = rattler.EnvironmentYaml.from_path(sys.argv[1]) if hasattr(rattler, 'EnvironmentYaml') else None\n\
        if env is None:\n\
        \x20   lines = [l.strip()[2:] for l in open(sys.argv[1]) if l.startswith('  - ') and not l.rstrip().endswith(':')]\n\
        \x20   specs = [rattler.MatchSpec(l) for l in lines if l != 'conda-forge']\n\
        \x20   assert [str(s.name.normalized if hasattr(s.name, 'normalized') else s.name) for s in specs] == ['python', 'pip'], specs\n\
        print('ok')\n";
    let output = std::process::Command::new(python).args(["-c", program]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (_server, context) = locked();
    let mut child = context
        .command()
        .args(["export", "pylock.toml"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !error.contains("panicked"), "{error}");
}

#[test]
fn output_to_a_device_is_written_there() {
    let (_server, context) = locked();
    if std::path::Path::new("/dev/stdout").exists() {
        let run = context.run(&["export", "requirements.txt", "-o", "/dev/stdout"]).expect(0);
        assert!(run.stdout.contains("--hash=sha256:"), "{}", run.shown());
    } else {
        skipped("no /dev/stdout here");
    }
}

/// pip and uv install the same files, whatever else the pytorch index carries under names of PyPI.
#[test]
#[cfg(unix)]
fn pip_and_uv_install_the_same_from_requirements() {
    use std::process::Command;
    let python = |script: &str| Command::new("python3").args(["-c", script]).output();
    let Ok(version) = python("import ensurepip, sys; print('%d.%d' % sys.version_info[:2])") else {
        return skipped("no python3 here");
    };
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let Some(minor) = version.strip_prefix("3.") else { return skipped("no python3 with pip here") };
    let linux = format!("cp3{minor}-cp3{minor}-manylinux_2_17_x86_64");
    let own = |name: &str, version: &str| wheel(name, version).file(&format!("{name}.py"), version);
    let mut decoys = vec![own("filelock", "3.13.1"), own("idna", "99.0")];
    decoys.push(own("requests", "2.32.0").file("decoy.py", "x"));
    let mut all: Vec<(&str, super::wheels::Wheel)> = decoys.into_iter().map(|w| ("whl/cu126", w)).collect();
    all.extend([
        ("pypi", own("filelock", "3.20.0")),
        ("pypi", own("idna", "3.11")),
        ("pypi", own("requests", "2.32.0").needs("idna>=3")),
        ("whl/cu126", own("torch", "2.14.1+cu126").tags(&linux).needs("filelock")),
    ]);
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let machine = ["--gpu", "V100", "--driver", "580.65.06", "--python", &version];
    context.run(&[&["resolve", "torch", "requests"], &machine[..]].concat()).expect(0);
    let text = context.run(&["export", "requirements.txt", "-o", "r.txt"]).expect(0);
    let exported = context.read("r.txt");
    assert!(!exported.contains("--extra-index-url"), "{} {exported}", text.shown());
    let address = format!("torch @ {}/whl/cu126/torch-2.14.1%2Bcu126-{linux}.whl", server.address);
    assert!(exported.contains(&address), "{exported}");

    let index = format!("{}/pypi", server.address);
    let make = |name: &str| {
        let folder = context.dir.path().join(name);
        assert!(super::common::venv::make(&folder));
        folder
    };
    let installed = |folder: &std::path::Path| -> Vec<String> {
        let site = folder.join(format!("lib/python{version}/site-packages"));
        let names = std::fs::read_dir(site).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> =
            names.filter(|n| !n.starts_with("pip") && !n.starts_with("setuptools")).collect();
        names.retain(|name| {
            !["_distutils_hack", "distutils-precedence.pth", "pkg_resources"].contains(&name.as_str())
        });
        names.retain(|name| name != "__pycache__" && name != "_virtualenv.py" && name != "_virtualenv.pth");
        names.sort();
        names
    };
    let run = |mut command: Command| {
        command.env("PIP_INDEX_URL", &index).env("PIP_CONFIG_FILE", "/dev/null").env("UV_NO_CONFIG", "1");
        command.env("UV_CACHE_DIR", context.dir.path().join("uv")).env_remove("PIP_FIND_LINKS");
        let output = command.current_dir(context.project()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let by_pip = make("by-pip");
    let mut pip = Command::new(by_pip.join("bin/python"));
    pip.args(["-m", "pip", "install", "--no-cache-dir", "--require-hashes", "-r", "r.txt"]);
    run(pip);
    let with_pip = installed(&by_pip);
    assert!(with_pip.contains(&"filelock-3.20.0.dist-info".to_owned()), "{with_pip:?}");
    assert!(!with_pip.contains(&"decoy.py".to_owned()), "{with_pip:?}");

    let Some(uv) = tools::uv() else { return };
    let by_uv = make("by-uv");
    let mut command = Command::new(&uv);
    command.args(["pip", "install", "--require-hashes", "--index-url", &index, "-r", "r.txt", "--python"]);
    command.arg(by_uv.join("bin/python"));
    run(command);
    assert_eq!(installed(&by_uv), with_pip);
}

/// uv, with the exported tables, resolves to what is locked: the build of torch from its own index, and not the decoys there.
#[test]
#[cfg(unix)]
fn uv_resolves_to_the_lock() {
    use std::process::Command;
    let Some(uv) = tools::uv() else { return };
    let mut all: Vec<(&str, super::wheels::Wheel)> = vec![
        (
            "whl/cu126",
            wheel("torch", "2.14.1+cu126").tags("cp312-cp312-manylinux_2_28_x86_64").needs("filelock"),
        ),
        ("whl/cu126", wheel("filelock", "3.13.1")),
        ("pypi", wheel("requests", "2.32.0").needs("idna>=3")),
    ];
    all.extend(["3.19.0", "3.20.0"].map(|version| ("pypi", wheel("filelock", version))));
    all.extend(["3.10", "3.11"].map(|version| ("pypi", wheel("idna", version))));
    all.push(("pypi", wheel("colors", "1.0")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let project = "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">=3.10\"\ndependencies = [\"torch\", \"requests\", \"idna<3.11\"]\n[project.optional-dependencies]\nviz = [\"colors\"]\n\n[tool.envlock]\n";
    context.write("pyproject.toml", project);
    context.run(&["resolve", "--gpu", "V100", "--driver", "580.65.06", "--python", "3.12"]).expect(0);
    let tables = context.run(&["export", "uv"]).expect(0).stdout;
    context.write("pyproject.toml", &format!("{project}\n{tables}"));
    // The tables change nothing for envlock, and are not defined twice.
    let twice = context.run(&["export", "uv"]).expect(2);
    assert!(twice.flat().contains("a second time"), "{}", twice.shown());
    context.run(&["export", "uv", "-o", "pyproject.toml", "--force"]).expect(2);
    context.run(&["export", "uv", "--extra", "viz"]).expect(2);
    assert!(tables.contains("\"colors==1.0\""), "uv locks extras: {tables}");
    context.run(&["resolve", "--locked", "--python", "3.12"]).expect(0);
    let mut command = Command::new(&uv);
    command.args(["lock", "--index-url", &format!("{}/pypi", server.address)]).current_dir(context.project());
    command.env("UV_CACHE_DIR", context.dir.path().join("uv")).env("UV_PYTHON_DOWNLOADS", "never");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{tables}\n{}", String::from_utf8_lossy(&output.stderr));
    let lock: toml::Table = context.read("uv.lock").parse().unwrap();
    let packages = lock["package"].as_array().unwrap().iter();
    let mut versions: Vec<String> = packages
        .filter(|package| package["name"].as_str() != Some("demo"))
        .map(|package| {
            format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap())
        })
        .collect();
    versions.sort();
    assert_eq!(
        versions,
        ["colors 1.0", "filelock 3.20.0", "idna 3.10", "requests 2.32.0", "torch 2.14.1+cu126"],
        "{tables}"
    );
}

/// A pixi.toml names the machine and each package where it is; pixi's own schema reads it.
#[test]
fn pixi_gets_the_machine_and_the_versions() {
    let all = little_pypi().into_iter().chain(little_pytorch()).collect();
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let a100 = ["--gpu", "NVIDIA A100", "--driver", "535.129.03", "--glibc", "2.31"];
    context
        .run(&[&["resolve", "torch", "requests[socks]", "--python", "3.12"], &a100[..]].concat())
        .expect(0);
    context.run(&["export", "pixi", "-o", "pixi.toml"]).expect(0);
    let text = context.read("pixi.toml");
    for line in [
        "requires-pixi = \">=0.71\"",
        "platforms = [{ platform = \"linux-64\", cuda = \"12.0\", glibc = \"2.28\" }]",
        "python = \"3.12.*\"",
        "\"pysocks\" = \"==1.7.1\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let table: toml::Table = text.parse().unwrap();
    let torch = &table["pypi-dependencies"]["torch"];
    assert_eq!(torch["version"].as_str(), Some("==2.14.1+cu126"), "{text}");
    assert!(torch["index"].as_str().is_some_and(|index| index.ends_with("/whl/cu126")), "{text}");
    // A manifest that a person wrote stays.
    context.write("own/pixi.toml", "[workspace]\n");
    let refused = context.run(&["export", "pixi", "-o", "own/pixi.toml"]).expect(2);
    assert!(refused.flat().contains("own/pixi.toml"), "{}", refused.shown());
    let Some(program) = tools::check_jsonschema() else { return };
    let schema = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pixi/schema.json");
    let mut check = std::process::Command::new(program);
    check.arg("--schemafile").arg(schema).arg(context.project().join("pixi.toml"));
    let done = check.output().unwrap();
    assert!(done.status.success(), "{text}\n{}", String::from_utf8_lossy(&done.stdout));
}

/// A build backend that reads requirements.txt fails on hashes: it is said where they are written.
#[test]
fn a_file_that_the_build_reads_is_named() {
    let (_server, context) = locked();
    let export = |name: &str| context.run(&["export", "requirements.txt", "-o", name, "--force"]).expect(0);
    assert!(!export("requirements.txt").stderr.contains("names this file"));
    context.write("setup.py", "setup(install_requires=open('requirements.txt').read().split())\n");
    let run = export("requirements.txt");
    assert!(run.flat().contains("`setup.py` names this file"), "{}", run.shown());
    assert!(!export("more-requirements.txt").stderr.contains("names this file"));
    assert!(!export("requirements.lock.txt").stderr.contains("names this file"));
}

/// What services read: by their own schemas and tools, where these can be had.
#[test]
fn files_of_services() {
    let (_server, context) = locked();
    context.run(&["export", "github", "-o", ".github/workflows/envlock.yml"]).expect(0);
    context.run(&["export", "pre-commit", "-o", "hooks.yaml"]).expect(0);
    let workflow = context.read(".github/workflows/envlock.yml");
    for line in
        ["- run: envlock resolve --locked", "- run: envlock sync --smoke cpu", "python-version: \"3.14\""]
    {
        assert!(workflow.contains(line), "{line}: {workflow}");
    }
    // What people add to a file stays; what nobody edited is written anew.
    // An action is a commit: its tag can be moved.
    for action in workflow.lines().filter_map(|line| line.trim_start().strip_prefix("- uses: ")) {
        let commit = action.split_once('@').unwrap().1.split_once(" # v").unwrap().0;
        assert!(commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{action}");
    }
    for (format, file) in [("github", ".github/workflows/envlock.yml"), ("pre-commit", "hooks.yaml")] {
        let written = context.read(file);
        context.run(&["export", format, "-o", file]).expect(0);
        context.write(file, &written.replace('\n', "\r\n"));
        context.run(&["export", format, "-o", file]).expect(0);
        context.write(file, &format!("{written}# mine\n"));
        let refused = context.run(&["export", format, "-o", file]).expect(2);
        assert!(refused.flat().contains("was edited since envlock wrote it"), "{}", refused.shown());
        context.run(&["export", format, "-o", file, "--force"]).expect(0);
        assert_eq!(context.read(file), written);
        // Nor does the hook of another project.
        context.write(
            file,
            &written.replace("envlock resolve", "envlock --project api resolve").replacen(
                &written[..written.find('\n').unwrap()],
                written.split(" (").next().unwrap(),
                1,
            ),
        );
        let refused = context.run(&["export", format, "-o", file]).expect(2);
        assert!(refused.flat().contains("belongs to another project"), "{}", refused.shown());
        // An empty file is nobody's.
        context.write(file, "");
        context.run(&["export", format, "-o", file]).expect(0);
        context.write(file, &written);
    }
    let devcontainer = context.run(&["export", "devcontainer"]).expect(0).stdout;
    let (mark, document) = devcontainer.split_once('\n').unwrap();
    assert!(mark.starts_with("// Written by envlock as devcontainer.json"), "{mark}");
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["hostRequirements"]["gpu"], "optional");
    if let Some(client) = tools::devcontainer() {
        context.run(&["export", "devcontainer", "-o", ".devcontainer/devcontainer.json"]).expect(0);
        let mut command = std::process::Command::new(client);
        command.args(["read-configuration", "--docker-path", "true", "--workspace-folder"]);
        let done = command.arg(context.project()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        let read: serde_json::Value = serde_json::from_str(&said).unwrap();
        let create = read["configuration"]["postCreateCommand"].as_str().unwrap_or_default();
        assert!(create.ends_with(" && envlock sync"), "{said}");
        assert_eq!(read["configuration"]["image"], document["image"], "{said}");
    }
    context.run(&["resolve", "requests", "--platform", "macos-arm64", "--force"]).expect(0);
    let mac = context.run(&["export", "devcontainer"]).expect(2);
    assert!(mac.flat().contains("a container needs a Linux target"), "{}", mac.shown());
    let Some(program) = tools::check_jsonschema() else { return };
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let workflow = context.project().join(".github/workflows/envlock.yml");
    let action = repository.join("action.yml");
    let pre_commit = program.with_file_name("pre-commit");
    let run = |program: &std::path::Path, arguments: &[&str], file: &std::path::Path| {
        let done = std::process::Command::new(program).args(arguments).arg(file).output().unwrap();
        assert!(done.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&done.stdout));
    };
    run(&program, &["--builtin-schema", "vendor.github-workflows"], &workflow);
    run(&program, &["--builtin-schema", "vendor.github-actions"], &action);
    if !pre_commit.exists() {
        return skipped("no pre-commit beside check-jsonschema");
    }
    run(&pre_commit, &["validate-config"], &context.project().join("hooks.yaml"));
    run(&pre_commit, &["validate-manifest"], &repository.join(".pre-commit-hooks.yaml"));
}
