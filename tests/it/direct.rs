//! Direct references: URLs, git repositories and folders.

use std::path::Path;
use std::process::Command;

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{hex, little_pypi, wheel};

const MACHINE: [&str; 6] = ["--gpu", "H200", "--driver", "580.159.04", "--python", "3.12"];

fn index() -> (IndexServer, TestContext) {
    let mut all = little_pypi();
    for (name, version) in [("setuptools", "84.0"), ("wheel", "0.45"), ("hatchling", "1.27")] {
        all.push(("pypi", wheel(name, version)));
    }
    all.push(("pypi", wheel("demo", "1.5").needs("idna>=3")));
    all.push(("pypi", wheel("other", "1.0").source("from setuptools import setup\nsetup()\n")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&server);
    // git is found there.
    context.set("PATH", &std::env::var("PATH").unwrap_or_default());
    (server, context)
}

fn manifest(context: &TestContext, dependency: &str) {
    context.write("envlock.toml", &format!("[project]\ndependencies = [\"{dependency}\"]\n"));
}

/// Runs git in a folder, with an identity and without the user's configuration.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(["-c", "uploadpack.allowFilter=true", "-c", "uploadpack.allowAnySHA1InWant=true"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        // The same commits in each run: an abbreviated one of digits alone may be a tag (1 % of them).
        .env("GIT_AUTHOR_DATE", "2026-11-28T12:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-11-28T12:00:00Z")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository with a project that needs idna; a hook and a setup.py that must not run.
fn repository(context: &TestContext) -> std::path::PathBuf {
    let folder = context.dir.path().join("repository");
    fs_err::create_dir_all(folder.join("sub")).unwrap();
    let project = "[project]\nname = \"mine\"\nversion = \"0.3\"\ndependencies = [\"idna>=3\"]\n[build-system]\nrequires = [\"hatchling\"]\nbuild-backend = \"hatchling.build\"\n";
    fs_err::write(folder.join("pyproject.toml"), project).unwrap();
    fs_err::write(
        folder.join("sub/pyproject.toml"),
        project.replace("mine", "inner").replace("idna>=3", "pysocks"),
    )
    .unwrap();
    git(&folder, &["init", "--quiet"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "one"]);
    git(&folder, &["tag", "v1"]);
    git(&folder, &["config", "uploadpack.allowFilter", "true"]);
    git(&folder, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    folder
}

#[test]
fn a_wheel_by_its_url_is_locked_with_its_hash() {
    let (server, context) = index();
    let url = format!("{}/files/demo-1.5-py3-none-any.whl", server.address);
    manifest(&context, &format!("demo @ {url}"));
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    let lock = context.read("envlock.lock");
    let digest = hex(&wheel("demo", "1.5").needs("idna>=3").build().1);
    assert!(lock.contains("format = \"2.0.0\"") && lock.contains(&format!("url = \"{url}\"")), "{lock}");
    assert!(lock.contains(&digest) && lock.contains("name = \"idna\""), "{lock}");
    context.run(&["resolve", "--locked"]).expect(0);
    let requirements = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    assert!(requirements.contains(&format!("demo @ {url} \\\n    --hash=sha256:{digest}")), "{requirements}");
    // A stated hash is checked where the file is read.
    manifest(&context, &format!("demo @ {url}#sha256={digest}"));
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    let lie = "0".repeat(64);
    let source = format!("{}/files/other-1.0.tar.gz", server.address);
    manifest(&context, &format!("other @ {source}#sha256={lie}"));
    let run = context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(2);
    assert!(run.flat().contains("its SHA-256 is not the one that the reference states"), "{}", run.shown());
    manifest(&context, &format!("other @ {source}"));
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    assert!(context.read("envlock.lock").contains("build = \"pure\""));
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    let (_server, context) = index();
    manifest(&context, "demo @ http://127.0.0.1:9/demo-1.5-py3-none-any.whl");
    let run = context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(3);
    assert!(run.stderr.contains("http://127.0.0.1:9/demo-1.5-py3-none-any.whl"), "{}", run.shown());
    manifest(&context, "mine @ git+http://127.0.0.1:9/o/mine.git@v1");
    let run = context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(3);
    assert!(
        run.flat().contains("cannot read the repository `http://127.0.0.1:9/o/mine.git` at `v1`"),
        "{}",
        run.shown()
    );
    // A reference whose marker does not hold is not read; two that hold are a mistake.
    context.write(
        "envlock.toml",
        "[project]\ndependencies = [\"requests\", \"demo @ http://127.0.0.1:9/d.whl ; sys_platform == 'win32'\"]\n",
    );
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    context.write(
        "envlock.toml",
        "[project]\ndependencies = [\"demo @ http://127.0.0.1:9/a.whl\", \"demo @ http://127.0.0.1:9/b.whl\"]\n",
    );
    let run = context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(2);
    assert!(run.flat().contains("`demo` has two direct references"), "{}", run.shown());
    for wrong in ["mine @ hg+https://h/x", "mine @ git+ext::sh", "x @ git+https://h/o/x@--upload-pack=y"] {
        manifest(&context, wrong);
        let run = context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(2);
        assert!(run.flat().contains("is not a direct reference that envlock reads"), "{}", run.shown());
    }
}

#[test]
fn a_repository_is_locked_to_its_commit() {
    let (_server, context) = index();
    let folder = repository(&context);
    let first = git(&folder, &["rev-parse", "HEAD"]);
    let url = format!("git+file://{}", folder.display());
    manifest(&context, &format!("mine @ {url}"));
    let resolve = || context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    resolve();
    let lock = context.read("envlock.lock");
    assert!(
        lock.contains(&first)
            && lock.contains("name = \"idna\"")
            && lock.contains("metadata-from = \"exact\""),
        "{lock}"
    );
    context.run(&["resolve", "--locked"]).expect(0);
    // The branch moves on: the lock stays, until it is upgraded.
    fs_err::write(folder.join("new"), "x").unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "two"]);
    resolve();
    assert_eq!(context.read("envlock.lock"), lock);
    context.run(&[&["resolve", "--upgrade=mine"], &MACHINE[..]].concat()).expect(0);
    assert!(context.read("envlock.lock").contains(&git(&folder, &["rev-parse", "HEAD"])));
    // A tag, an abbreviated commit, a folder in the repository.
    for (revision, expected) in [("@v1", "idna"), (&format!("@{}", &first[..10]), "idna")] {
        manifest(&context, &format!("mine @ {url}{revision}"));
        context.run(&[&["resolve", "--upgrade"], &MACHINE[..]].concat()).expect(0);
        let lock = context.read("envlock.lock");
        assert!(lock.contains(&first) && lock.contains(expected), "{revision}: {lock}");
    }
    let is_mixed = |text: &str| {
        [u8::is_ascii_digit, u8::is_ascii_alphabetic].iter().all(|is| text.bytes().any(|b| is(&b)))
    };
    assert!(is_mixed(&first[..10]), "{first} cannot show what an abbreviated commit is");
    // A commit in capitals is the same one; another one in the lock is not what an abbreviated one asks for.
    let second = git(&folder, &["rev-parse", "HEAD"]);
    for revision in [first[..10].to_uppercase(), first[..12].to_owned()] {
        manifest(&context, &format!("mine @ {url}@{revision}"));
        resolve();
        context.run(&["resolve", "--locked"]).expect(0);
        let lock = context.read("envlock.lock");
        let other = lock.replace(&first, &second);
        context.write("envlock.lock", &super::common::installed::with_checksum(&other));
        let run = context.run(&["resolve", "--locked"]).expect(1);
        assert!(run.flat().contains("the request takes it from"), "{}", run.shown());
        resolve();
        assert!(!context.read("envlock.lock").contains(&second), "{revision}");
    }
    // Another reference is another commit, without `--upgrade`.
    manifest(&context, &format!("mine @ {url}@main"));
    resolve();
    let lock = context.read("envlock.lock");
    assert!(lock.contains(&second) && !lock.contains(&first), "{lock}");
    manifest(&context, &format!("inner @ {url}@v1#subdirectory=sub"));
    resolve();
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"pysocks\"") && lock.contains("subdirectory = \"sub\""), "{lock}");
    let requirements = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    assert!(requirements.contains(&format!("@{first}#subdirectory=sub\n")), "{requirements}");
    // pip checks the hashes of all packages or of none.
    assert!(
        !requirements.contains("--hash") && requirements.contains("# No hashes: inner has none"),
        "{requirements}"
    );
    let pylock = context.run(&["export", "pylock.toml"]).expect(0).stdout;
    assert!(pylock.contains("subdirectory = \"sub\""), "{pylock}");
    manifest(&context, &format!("mine @ {url}@gone"));
    let run = context.run(&[&["resolve", "--upgrade"], &MACHINE[..]].concat()).expect(3);
    assert!(run.flat().contains("at `gone`"), "{}", run.shown());
    manifest(&context, &format!("another @ {url}"));
    let run = context.run(&[&["resolve", "--upgrade"], &MACHINE[..]].concat()).expect(2);
    assert!(run.flat().contains("is the project `mine`, not `another`"), "{}", run.shown());
}

#[test]
fn a_folder_is_locked_by_its_path() {
    let (_server, context) = index();
    context.write(
        "libs/mine/setup.py",
        "from setuptools import setup\nsetup(name='mine', version='2', install_requires=['idna'])\n",
    );
    manifest(&context, "mine @ ./libs/mine");
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("path = \"libs/mine\"") && lock.contains("name = \"idna\""), "{lock}");
    context.run(&["resolve", "--locked"]).expect(0);
    let requirements = context.run(&["export", "requirements.txt"]).expect(0).stdout;
    assert!(
        requirements.contains("./libs/mine\n") && !requirements.contains("--require-hashes -r"),
        "{requirements}"
    );
    // An absolute path is locked as a relative one.
    let absolute = context.project().join("libs/mine");
    manifest(&context, &format!("mine @ {}", absolute.display()));
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    assert!(context.read("envlock.lock").contains("path = \"libs/mine\""));
    context.run(&["tree"]).expect(0);
    // A file is hashed.
    let (_, bytes, _) = wheel("demo", "1.5").needs("idna>=3").build();
    fs_err::write(context.project().join("demo-1.5-py3-none-any.whl"), &bytes).unwrap();
    manifest(&context, "demo @ ./demo-1.5-py3-none-any.whl");
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    assert!(context.read("envlock.lock").contains(&hex(&bytes)));
    manifest(&context, "mine @ ./nowhere");
    let run = context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(2);
    assert!(run.stderr.contains("`./nowhere`"), "{}", run.shown());
}

/// A folder is not hashed, but a lock that no longer holds what it requires is stale.
#[test]
fn a_folder_or_file_that_changed_makes_the_lock_stale() {
    let (_server, context) = index();
    let project = |version: &str, requires: &str, extra: &str| {
        let text = format!(
            "[project]\nname = \"mine\"\nversion = \"{version}\"\ndependencies = [{requires}]\n\
             [project.optional-dependencies]\nmore = [{extra}]\nall = [\"mine[more]\"]\nunused = [\"numpy\"]\n"
        );
        context.write("libs/mine/pyproject.toml", &text);
    };
    project("1", "\"idna\"", "\"pysocks; python_version >= '3.8'\"");
    manifest(&context, "mine[all] @ ./libs/mine");
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    let table: &[(&str, &str, &str, Option<&str>)] = &[
        ("2", "\"idna\"", "\"pysocks\"", Some("`libs/mine` has version 2, the lock has 1")),
        ("1", "\"idna\", \"certifi\"", "\"pysocks\"", Some("`libs/mine` requires `certifi`")),
        ("1", "", "\"pysocks\"", Some("`libs/mine` no longer requires `idna`")),
        ("1", "\"idna<3\"", "\"pysocks\"", Some("`libs/mine` requires `idna<3`")),
        ("1", "\"idna\"", "", Some("`libs/mine` no longer requires `pysocks`")),
        // For another machine.
        ("1", "\"idna\", \"certifi; sys_platform == 'win32'\"", "\"pysocks\"", None),
    ];
    for (version, requires, extra, expected) in table {
        project(version, requires, extra);
        let run = context.run(&["resolve", "--locked"]).expect(i32::from(expected.is_some()));
        assert!(run.flat().contains(expected.unwrap_or("the lock is current")), "{}", run.shown());
    }
    fs_err::remove_dir_all(context.project().join("libs/mine")).unwrap();
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("`libs/mine` cannot be read"), "{}", run.shown());
    let file = context.project().join("demo-1.5-py3-none-any.whl");
    fs_err::write(&file, wheel("demo", "1.5").needs("idna>=3").build().1).unwrap();
    manifest(&context, "demo @ ./demo-1.5-py3-none-any.whl");
    context.run(&[&["resolve"], &MACHINE[..]].concat()).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    fs_err::write(&file, wheel("demo", "1.5").needs("idna>=2").build().1).unwrap();
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("is another file than the locked one"), "{}", run.shown());
}

#[test]
fn imported_files_keep_their_references() {
    let (_server, context) = index();
    context.write("req/base.txt", "requests\n");
    context.write("libs/mine/pyproject.toml", "[project]\nname = \"mine\"\nversion = \"1\"\n");
    context.write(
        "req/all.txt",
        "-r base.txt\n-e ../libs/mine\nmissing @ ../libs/gone\n./nowhere\nsubmodules/not-fetched\n\
         git+https://h.example/o/thing.git@v2#egg=Thing\nhttps://h.example/demo-1.5-py3-none-any.whl\n\
         torch @ https://h.example/whl/cu118/torch-2.0.1%2Bcu118-cp310-cp310-linux_x86_64.whl\n\
         torch>=2\n--extra-index-url https://x.example/simple\n",
    );
    let run = context.run(&["init", "--from", "req/all.txt"]).expect(0);
    let text = context.read("envlock.toml");
    for line in [
        "\"requests\"",
        "\"mine @ ./libs/mine\"",
        "\"missing @ ./libs/gone\"",
        "git+https://h.example/o/thing.git@v2#egg=Thing\"",
        "https://h.example/demo-1.5-py3-none-any.whl\"",
        "torch = \"==2.0.1+cu118,>=2\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    for left_out in ["./nowhere", "submodules/not-fetched"] {
        let told = format!("left out: `{left_out}`: there is no such folder");
        assert!(run.flat().contains(&told), "{}", run.shown());
    }
    assert!(run.flat().contains("left out: `--extra-index-url https://x.example/simple`"), "{}", run.shown());
}

#[test]
fn extras_markers_and_hashes_of_references_are_kept_and_logins_are_not_shown() {
    let (_server, context) = index();
    context.write("libs/mine/pyproject.toml", "[project]\nname = \"mine\"\nversion = \"1\"\n");
    let digest = "a".repeat(64);
    context.write(
        "r.txt",
        &format!(
            "-e ./libs/mine[x] ; python_version < '3.9'\nother[y] @ ./libs/other ; sys_platform == 'win32'\n\
             https://h.example/demo-1.5-py3-none-any.whl --hash=sha256:{digest}\n\
             --extra-index-url=https://me:secret@h.example/simple\nx @ https://me:secret@h.example/${{V}}.whl\n\
             y @ git+https://me:secret@h.example/o/y\nhg+https://h.example/z\nidna\t# why\n"
        ),
    );
    let run = context.run(&["init", "--from", "r.txt"]).expect(0);
    let text = context.read("envlock.toml");
    for line in [
        "\"mine[x] @ ./libs/mine ; python_version < '3.9'\"",
        "\"other[y] @ ./libs/other ; sys_platform == 'win32'\"",
        &format!("demo-1.5-py3-none-any.whl#sha256={digest}\""),
        "\"idna\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!run.shown().contains("secret"), "{}", run.shown());
    assert!(
        run.flat().contains("the login in a URL") && run.flat().contains("hg+https://h.example/z"),
        "{}",
        run.shown()
    );
    context.write(
        "e.yml",
        "dependencies:\n  - _libgcc_mutex=0.1=main\n  - -x=1\n  - numpy\n  - pip:\n    - -rr2.txt\n",
    );
    context.write("r2.txt", "requests\n");
    let run = context.run(&["init", "--force", "--from", "e.yml"]).expect(0);
    assert!(run.flat().contains("left out"), "{}", run.shown());
    assert!(context.read("envlock.toml").contains("\"requests\""));
}

#[test]
fn extras_and_groups_of_a_pyproject() {
    let (_server, context) = index();
    context.write("deps.txt", "idna\n");
    context.write(
        "app/pyproject.toml",
        "[project]\nname = \"App\"\nversion = \"1\"\ndynamic = [\"dependencies\"]\n\
         [project.optional-dependencies]\ngpu = [\"torch\"]\nall = [\"app[gpu]\", \"requests\"]\n\
         [dependency-groups]\ndev = [\"filelock\", {include-group = \"lint\"}]\nlint = [\"pysocks\"]\n\
         [tool.setuptools.dynamic]\ndependencies = { file = [\"../deps.txt\"] }\n\
         [tool.uv.sources]\nrequests = { git = \"https://h.example/o/requests\", tag = \"v2\" }\n",
    );
    let run = context.run(&["init", "--from", "app/pyproject.toml"]).expect(0);
    assert!(
        run.flat().contains("`--extra gpu` imports it") && run.flat().contains("`--group dev` imports it"),
        "{}",
        run.shown()
    );
    assert!(context.read("envlock.toml").contains("\"idna\""));
    context
        .run(&["init", "--force", "--from", "app/pyproject.toml", "--extra", "all", "--group", "dev"])
        .expect(0);
    let text = context.read("envlock.toml");
    for line in
        ["torch = \"*\"", "requests @ git+https://h.example/o/requests@v2", "\"filelock\"", "\"pysocks\""]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    let run = context.run(&["init", "--force", "--from", "app/pyproject.toml", "--extra", "tpu"]).expect(2);
    assert!(run.flat().contains("has no extra `tpu`") && run.flat().contains("all, gpu"), "{}", run.shown());
}

/// The frozen registry, with the wheels that flash-attn publishes at an address.
fn registry_with_wheels(context: &TestContext, address: &str) -> String {
    let folder = context.dir.path().join("registry");
    let frozen = Path::new(super::context::FROZEN_REGISTRY);
    for entry in walk(frozen) {
        let to = folder.join(entry.strip_prefix(frozen).unwrap());
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        fs_err::copy(&entry, to).unwrap();
    }
    let file = folder.join("packages.toml");
    let name = "flash_attn-{version}+cu{cuda}torch{torch}cxx11abi{abi}-{python}-{python}-linux_{machine}.whl";
    let rows = format!(
        "\n[[prebuilt]]\npackage = \"flash-attn\"\nversions = \">=2\"\nurl = \"{address}/files/{name}\"\n\
         evidence = \"documented\"\nsource = [\"flash-attn-setup\"]\n\n[[cxx11_abi]]\ntorch = \">=2.7\"\n\
         cxx11_abi = true\nevidence = \"documented\"\nsource = [\"flash-attn-setup\"]\n"
    );
    fs_err::write(&file, fs_err::read_to_string(&file).unwrap() + &rows).unwrap();
    folder.display().to_string()
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Wheels are built when a release is made: of one that is older than the torch none is offered.
#[test]
fn a_release_that_is_older_than_the_torch_has_no_address_of_a_wheel() {
    let newer =
        little_pypi().into_iter().map(|(index, wheel)| (index, wheel.uploaded("2026-11-18T09:00:00Z")));
    let mut all: Vec<_> = newer.collect();
    for (name, version) in [
        ("setuptools", "84.0"),
        ("wheel", "0.45"),
        ("ninja", "1.13"),
        ("psutil", "7.0"),
        ("packaging", "25.0"),
    ] {
        all.push(("pypi", wheel(name, version)));
    }
    let setup = "import torch\nfrom setuptools import setup\nsetup()\n";
    let flash = wheel("flash-attn", "2.8.3").needs("torch").uploaded("2025-08-14T09:00:00Z");
    all.push(("pypi", flash.source(setup)));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server).with_shipped_registry();
    let asked = ["resolve", "torch", "flash-attn", "--python", "3.12", "--only-index", "pypi"];
    let told = context.run(&[&asked[..], &MACHINE[..4]].concat()).expect(0).flat();
    assert!(told.contains("it was released before torch 2.15.0"), "{told}");
    assert!(!told.contains("envlock add"), "{told}");
}

/// flash-attn is on the index as source; its project publishes a wheel for each torch. Their METADATA has the public
/// version, as those of the project do.
#[test]
fn wheels_that_a_project_publishes_are_offered_and_held_to_their_torch() {
    let mut all = little_pypi();
    for (name, version) in [("setuptools", "84.0"), ("wheel", "0.45"), ("ninja", "1.13"), ("psutil", "7.0")] {
        all.push(("pypi", wheel(name, version)));
    }
    all.push(("pypi", wheel("packaging", "25.0")));
    let setup = "import torch\nfrom setuptools import setup\nsetup()\n";
    all.push(("pypi", wheel("flash-attn", "2.8.3").needs("torch").source(setup)));
    let release = |local: &str| {
        let version = format!("2.8.3+{local}");
        wheel("flash-attn", &version).says_version("2.8.3").needs("torch").tags("cp312-cp312-linux_x86_64")
    };
    all.push(("releases", release("cu13torch2.15cxx11abiTRUE")));
    all.push(("releases", release("cu12torch2.9cxx11abiTRUE")));
    all.push(("releases", release("cu13torch2.15cxx11abiFALSE")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server).with_shipped_registry();
    let registry = registry_with_wheels(&context, &server.address);
    let run = |arguments: &[&str]| {
        let all = [&["--registry", &registry][..], arguments, &MACHINE[..4]].concat();
        context.run(&all)
    };
    // The fitting wheel is there, and the command that is named locks it.
    let asked = ["resolve", "torch", "flash-attn", "--python", "3.12"];
    let told = run(&asked).expect(0);
    let command = told.flat();
    let url = format!(
        "{}/files/flash_attn-2.8.3+cu13torch2.15cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        server.address
    );
    assert!(command.contains(&format!("`envlock add \"flash-attn@{url}\"`")), "{}", told.shown());
    // None is there for this Python, and a request that names its only index asks no other server.
    let told = run(&["resolve", "torch", "flash-attn", "--python", "3.11", "--dry-run"]).expect(0);
    assert!(told.flat().contains("its project has no wheel of it for torch 2.15.0, CUDA 13 and Python 3.11"));
    let asked_before = server.paths().len();
    let only = [&asked[..], &["--only-index", "pypi", "--dry-run"]].concat();
    let told = run(&only).expect(0);
    assert!(told.flat().contains("(not checked)"), "{}", told.shown());
    assert!(!server.paths()[asked_before..].iter().any(|path| path.contains("cxx11abi")));
    // One for another torch is not locked beside this one.
    let other = url.replace("cu13torch2.15", "cu12torch2.9");
    let told =
        run(&["resolve", "torch==2.15.0", &format!("flash-attn @ {other}"), "--python", "3.12"]).expect(1);
    assert!(told.flat().contains("needs torch==2.9.* [its version]"), "{}", told.shown());
    // One for another C++ ABI has no torch beside which it can be loaded, and that is said.
    let other = url.replace("abiTRUE", "abiFALSE");
    let told = run(&["resolve", "torch", &format!("flash-attn @ {other}"), "--python", "3.12"]).expect(0);
    let text = "they are built for another C++ ABI than torch 2.15.0";
    assert!(told.flat().contains(text), "{}", told.shown());
    // As a direct reference it is locked.
    context.write(
        "envlock.toml",
        "[project]\npython = \"==3.12.*\"\ndependencies = [\"flash-attn\"]\n[stack]\ntorch = \"*\"\n",
    );
    let told = run(&["add", &format!("flash-attn@{url}")]).expect(0);
    assert!(!told.flat().contains("compiled"), "{}", told.shown());
    assert!(context.read("envlock.lock").contains("version = \"2.8.3+cu13torch2.15cxx11abitrue\""));
}

/// Projects that state their requirements in other places than `[project]`, and one whose version only git knows.
#[test]
fn repositories_and_folders_as_people_write_them() {
    let (_server, context) = index();
    let folder = context.dir.path().join("old");
    fs_err::create_dir_all(folder.join("mine")).unwrap();
    let files = [
        (
            "setup.py",
            "import os\nfrom setuptools import setup\nhere = os.path.dirname(__file__)\nsetup(name='mine', version=open('VERSION').read().strip(),\n      install_requires=[l.strip() for l in open(os.path.join(here, 'requirements.txt'))])\n",
        ),
        ("VERSION", "0.7\n"),
        ("requirements.txt", "idna>=3\n"),
        ("mine/__init__.py", ""),
    ];
    for (name, text) in files {
        fs_err::write(folder.join(name), text).unwrap();
    }
    git(&folder, &["init", "--quiet"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "one"]);
    git(&folder, &["config", "uploadpack.allowFilter", "true"]);
    git(&folder, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    for reference in [format!("git+file://{}", folder.display()), "../old".to_owned()] {
        manifest(&context, &format!("mine @ {reference}"));
        let run = context.run(&[&["resolve", "--force"], &MACHINE[..]].concat()).expect(0);
        let lock = context.read("envlock.lock");
        assert!(
            lock.contains("version = \"0.7\"") && lock.contains("\"idna>=3\""),
            "{}\n{lock}",
            run.shown()
        );
        fs_err::remove_file(context.project().join("envlock.lock")).unwrap();
    }
    // The version is computed from git's tags.
    let project = "[project]\nname = \"mine\"\ndynamic = [\"version\"]\ndependencies = [\"idna\"]\n[build-system]\nrequires = [\"setuptools\", \"setuptools-scm\"]\nbuild-backend = \"setuptools.build_meta\"\n[tool.setuptools_scm]\n";
    fs_err::write(folder.join("pyproject.toml"), project).unwrap();
    fs_err::remove_file(folder.join("setup.py")).unwrap();
    let run = context.run(&[&["resolve", "--force"], &MACHINE[..]].concat()).expect(2);
    let told = "the version of `mine` is computed by its build hint: state it in envlock.toml: a table `[[metadata]]`";
    assert!(run.flat().contains(told), "{}", run.shown());
    let stated = "[project]\ndependencies = [\"mine @ ../old\"]\n[[metadata]]\nname = \"mine\"\nversion = \"1.9\"\nrequires-dist = [\"pysocks\"]\n";
    context.write("envlock.toml", stated);
    context.run(&[&["resolve", "--force"], &MACHINE[..]].concat()).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("version = \"1.9\"") && lock.contains("\"pysocks\""), "{lock}");
    context.run(&["resolve", "--locked"]).expect(0);
}
