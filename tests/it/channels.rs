//! conda packages in the same solve: `[conda]` on real records of conda-forge, and on a channel whose packages a real
//! client installs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use dockerfile_parser::{Dockerfile, Instruction};

use super::context::{IndexServer, Run, Shape, TestContext, skipped};
use super::tools;
use super::wheels::{Wheel, wheel};

/// A folder on loopback.
pub struct Channels {
    pub address: String,
    server: Arc<tiny_http::Server>,
}

impl Channels {
    pub fn start(folder: PathBuf) -> Channels {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let address = format!("http://{}", server.server_addr());
        // Clients keep connections open and ask on several at once.
        for _ in 0..4 {
            let (serving, folder) = (Arc::clone(&server), folder.clone());
            std::thread::spawn(move || {
                while let Ok(request) = serving.recv() {
                    let path = folder.join(request.url().trim_start_matches('/'));
                    let _ = match std::fs::read(&path).ok().filter(|_| path.is_file()) {
                        Some(bytes) => request.respond(tiny_http::Response::from_data(bytes)),
                        None => request.respond(tiny_http::Response::empty(404)),
                    };
                }
            });
        }
        Channels { address, server }
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        for _ in 0..4 {
            self.server.unblock();
        }
    }
}

/// A project on the real records, and an index with what PyPI has beside them.
pub struct World {
    pub context: TestContext,
    _index: IndexServer,
    _channels: Channels,
}

pub fn world() -> World {
    world_with(Vec::new())
}

/// The same with more packages of PyPI.
pub fn world_with(more: Vec<(&'static str, Wheel)>) -> World {
    let linux = |name: &str, version: &str, series: &str| -> Wheel {
        wheel(name, version).tags(&format!("{series}-{series}-manylinux_2_17_x86_64"))
    };
    let mut all = vec![
        ("pypi", wheel("frame", "2.0").needs("numpy>=2.3")),
        ("pypi", wheel("old-frame", "1.0").needs("numpy<2.3.5")),
        ("pypi", wheel("numpy", "1.26.4")),
        ("pypi", wheel("numpy", "2.3.5")),
        ("pypi", wheel("tqdm", "4.0")),
        ("pypi", linux("only-13", "1.0", "cp313")),
        ("pypi", wheel("sixer", "1.0").needs("six")),
        ("pypi", wheel("trainer", "1.0").needs("torch>=2,<2.9")),
        ("pypi", wheel("trainer", "0.9").needs("torch<2")),
    ];
    all.extend(more);
    let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda");
    let channels = Channels::start(folder);
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    World { context, _index: index, _channels: channels }
}

impl World {
    fn manifest(&self, dependencies: &str, conda: &str) {
        let text = format!(
            "[project]\nname = \"x\"\ndependencies = [{dependencies}]\n[conda]\ndependencies = [{conda}]\n"
        );
        self.context.write("envlock.toml", &text);
    }

    pub fn resolve(&self, dependencies: &str, conda: &str, more: &[&str]) -> Run {
        self.manifest(dependencies, conda);
        let base = ["resolve", "--gpu", "none", "--glibc", "2.35", "--only-index", "pypi,conda-forge"];
        self.context.run(&[&base[..], more].concat())
    }

    /// The locked conda packages as `name version`.
    fn conda(&self) -> Vec<String> {
        let lock: toml::Table = self.context.read("envlock.lock").parse().unwrap();
        let all = lock.get("conda-package").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let text = |package: &toml::Value, key: &str| package[key].as_str().unwrap().to_owned();
        all.iter().map(|package| format!("{} {}", text(package, "name"), text(package, "version"))).collect()
    }
}

#[test]
fn both_halves_agree() {
    let world = world();
    let context = &world.context;
    // numpy is conda's, and what PyPI has on top of it takes it from there.
    let run = world.resolve("\"frame\", \"sixer\"", "\"matplotlib-base\"", &[]).expect(0);
    assert!(run.flat().contains("matplotlib-base 3.10.9 from conda-forge"), "{}", run.shown());
    let lock = context.read("envlock.lock");
    assert!(lock.contains("format = \"2.0.0\"") && lock.contains("\nname = \"frame\""), "{lock}");
    assert!(
        !lock.contains("numpy-2.3.5-py3-none-any.whl"),
        "PyPI's numpy is not installed over conda's: {lock}"
    );
    assert!(!lock.contains("127.0.0.1"), "no address stands in a lock: {lock}");
    let conda = world.conda();
    assert!(
        conda.contains(&"numpy 2.4.6".to_owned()) && conda.contains(&"python 3.14.5".to_owned()),
        "{conda:?}"
    );
    context.run(&["resolve", "--locked"]).expect(0);
    // The same answer has the same bytes; the machine and the options are kept.
    context.run(&["resolve"]).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    let json = context.run(&["resolve", "--json"]).expect(0).json();
    assert_eq!(json["targets"][0]["conda"].as_array().unwrap().len(), conda.len());
    assert_eq!(json["targets"][0]["envelope"]["glibc"], "2.17");

    // A package of PyPI decides the Python of both.
    world.resolve("\"only-13\"", "\"numpy\"", &["--force"]).expect(0);
    assert!(world.conda().contains(&"python 3.13.10".to_owned()), "{:?}", world.conda());
    // A constraint bounds both halves.
    let text = "[project]\nname = \"x\"\ndependencies = [\"tqdm\"]\nconstraints = [\"numpy<2.3.5\"]\n[conda]\ndependencies = [\"numpy\"]\n";
    context.write("envlock.toml", text);
    context
        .run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35", "--only-index", "pypi,conda-forge"])
        .expect(0);
    assert!(world.conda().contains(&"numpy 2.3.4".to_owned()), "{:?}", world.conda());
    let before = context.read("envlock.lock");
    let run = world.resolve("\"frame[all]\", \"numpy[x]\"", "\"numpy\"", &["--force"]).expect(2);
    assert!(run.flat().contains("conda installs `numpy`, whose packages have none"), "{}", run.shown());
    // A record that PyPI's half excludes is left out, and the next one is taken.
    world.resolve("\"old-frame\"", "\"numpy\"", &["--force"]).expect(0);
    assert!(world.conda().contains(&"numpy 2.3.4".to_owned()), "{:?}", world.conda());
    context.write("before.lock", &before);
    context.run(&["resolve", "--force", "--gpu", "none", "--only-index", "pypi,conda-forge", "--upgrade"]);
    world.resolve("\"tqdm\"", "\"numpy\"", &["--force", "--upgrade"]).expect(0);
    let diff = context.run(&["diff", "before.lock", "envlock.lock"]).expect(0);
    assert!(diff.stdout.contains("conda's numpy"), "{}", diff.shown());
}

/// What a channel says is hostile until it is read into values.
#[test]
fn records_that_cannot_stand_in_a_lock_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, more: &str| {
        let (sha, md5) = ("a".repeat(64), "b".repeat(32));
        format!(
            "\"{name}-1-0.conda\": {{\"name\": \"{name}\", \"version\": \"1\", \"build\": \"0\", \"build_number\": 0, \"depends\": [], \"subdir\": \"linux-64\", \"size\": 1, \"sha256\": \"{sha}\", \"md5\": \"{md5}\"{more}}}"
        )
    };
    let broken = [
        record("newline", "").replace("\"build\": \"0\"", "\"build\": \"0\\n  - evil\""),
        record("space", "").replace("\"build\": \"0\"", "\"build\": \"0 x\""),
        record("large", "").replace("\"size\": 1", "\"size\": 18446744073709551615"),
        record("unhashed", "").replace("\"sha256\"", "\"sha\""),
        record("depends", "").replace("\"depends\": []", "\"depends\": [\"x\\ny\"]"),
    ];
    let python = record("python", "")
        .replace("python-1-0", "python-3.12.1-0")
        .replace("\"version\": \"1\"", "\"version\": \"3.12.1\"");
    let free = python
        .replace("3.12.1-0", "3.12.1-1_cp312t")
        .replace("\"build\": \"0\"", "\"build\": \"1_cp312t\"")
        .replace("\"build_number\": 0", "\"build_number\": 9");
    let odd = record("odd", "")
        .replace("\"version\": \"1\"", "\"version\": \"1.5_1\"")
        .replace("odd-1-0", "odd-1.5_1-0")
        .replace("\"depends\": []", "\"depends\": [\"python\"]");
    let all = [&broken[..], &[python, free, odd, record("good", "")]].concat().join(",");
    let place = folder.path().join("conda-forge/linux-64");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("repodata.json"), format!("{{\"packages.conda\": {{{all}}}}}")).unwrap();
    let channels = Channels::start(folder.path().to_path_buf());
    let mut context = TestContext::new();
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    context.set("ENVLOCK_INDEX_URL", "http://127.0.0.1:9/simple");
    let resolve = |spec: &str| {
        context.write("envlock.toml", &format!("[conda]\ndependencies = [\"{spec}\"]\n"));
        context.run(&["resolve", "--gpu", "none", "--force"])
    };
    for name in ["newline", "space", "large", "unhashed", "depends"] {
        let run = resolve(name).expect(1);
        assert!(
            run.flat().contains(&format!("no record of `{name}` in conda-forge can be used")),
            "{}",
            run.shown()
        );
    }
    resolve("good").expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("python-3.12.1-0.conda"), "the Python with the interpreter lock: {lock}");
    // Its version is none of Python's: it is conda's alone, unless PyPI's half would install it a second time.
    resolve("odd").expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = [\"odd\"]\n[conda]\ndependencies = [\"odd\"]\n",
    );
    let index = IndexServer::start(
        vec![("pypi", wheel("odd", "1.0"))],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", index.address));
    let run =
        context.run(&["resolve", "--gpu", "none", "--force", "--only-index", "pypi,conda-forge"]).expect(1);
    assert!(run.flat().contains("odd 1.5_1 has a version that Python does not read"), "{}", run.shown());
    assert!(!run.flat().contains("glibc"), "{}", run.shown());
}

/// A way out of a conflict of conda's half holds for PyPI's half, too.
#[test]
fn ways_out_of_condas_half_hold_for_both() {
    let world = world();
    // The records have no numpy below 2, and PyPI's half asks for that.
    let run = world.resolve("\"numpy<2\"", "\"numpy <2\"", &[]).expect(1);
    assert!(
        !run.flat().contains("numpy 2.4.6 Python") && run.flat().contains("numpy from PyPI, not conda"),
        "{}",
        run.shown()
    );
    // Each half has a cause of its own.
    let run = world.resolve("\"tqdm>99\"", "\"numpy <2\"", &[]).expect(1);
    assert!(
        run.flat().contains("ways out of all of it, each of them solved: numpy 2.4.6 and tqdm 4.0"),
        "{}",
        run.shown()
    );
    world.resolve("\"tqdm==4.0\"", "\"numpy ==2.4.6\"", &["--force"]).expect(0);
    std::fs::remove_file(world.context.project().join("envlock.lock")).unwrap();
    // A Python that both halves have, not the newest of the channel.
    let run = world.resolve("\"only-13\"", "\"numpy\"", &["--python", "3.12"]).expect(1);
    assert!(run.flat().contains("Python 3.13"), "{}", run.shown());
    world.resolve("\"only-13\"", "\"numpy\"", &["--python", "3.13"]).expect(0);
}

#[test]
fn exports_of_a_lock_with_conda_packages() {
    let world = world();
    let context = &world.context;
    world.resolve("\"frame\"", "\"numpy\"", &[]).expect(0);
    let yml = context.read("environment.yml");
    assert!(yml.contains("\n  - numpy=2.4.6=py314h2b28147_0\n"), "{yml}");
    assert!(yml.contains("\n  - pip:\n      - frame==2.0 --hash=sha256:") && !yml.contains("::"), "{yml}");
    let loose = context.run(&["export", "environment.yml", "--loose"]).expect(0).stdout;
    assert!(loose.contains("\n  - numpy=2.4.6\n"), "{loose}");
    context.run(&["export", "pylock.toml", "--loose"]).expect(2);
    let explicit = context.run(&["export", "conda-explicit"]).expect(0).stdout;
    let line = explicit.lines().find(|line| line.contains("/numpy-2.4.6-")).unwrap();
    let (address, digest) = line.split_once("#sha256:").unwrap();
    assert!(address.ends_with("/conda-forge/linux-64/numpy-2.4.6-py314h2b28147_0.conda"), "{line}");
    assert_eq!(digest.len(), 64);
    assert!(explicit.contains("\n@EXPLICIT\n"), "{explicit}");
    for format in ["requirements.txt", "pylock.toml", "uv"] {
        let run = context.run(&["export", format]).expect(2);
        assert!(
            run.flat().contains("from a conda channel, which this format cannot express"),
            "{}",
            run.shown()
        );
    }
    // What installs by `sync` needs a client of conda, and no Python of its own.
    context.run(&["export", "github", "-o", "envlock.yml"]).expect(0);
    let workflow = context.read("envlock.yml");
    assert!(workflow.contains("setup-micromamba@") && !workflow.contains("setup-python"), "{workflow}");
    assert!(workflow.contains("verify --prefix .envlock/env --smoke off --format github"), "{workflow}");
    let container = context.run(&["export", "devcontainer"]).expect(0).stdout;
    assert!(
        container.contains("/.envlock/env/bin/python") && container.contains("/miniconda:"),
        "{container}"
    );
    if let Some(program) = tools::check_jsonschema() {
        let file = context.project().join("envlock.yml");
        let arguments = ["--builtin-schema", "vendor.github-workflows"];
        let done = Command::new(program).args(arguments).arg(file).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
    let run = context.run(&["sync"]).expect(2);
    assert!(run.flat().contains("neither conda, mamba nor micromamba was found"), "{}", run.shown());
    let run = world.resolve("\"tqdm\"", "", &["--force"]).expect(0);
    assert!(world.conda().is_empty(), "{}", run.shown());
    context.run(&["export", "conda-explicit"]).expect(2);
}

#[test]
fn conflicts_of_the_halves_name_who_is_at_fault() {
    let world = world();
    let table: &[(&str, &str, &[&str], &[&str])] = &[
        (
            "\"numpy<2\"",
            "\"matplotlib-base\"",
            &[],
            &[
                "numpy 2.4.6 is installed by conda for matplotlib-base, which `[conda]` asks for",
                "you require numpy<2",
            ],
        ),
        (
            "",
            "\"no-such-thing\"",
            &[],
            &["no package `no-such-thing` in conda-forge", "without no-such-thing"],
        ),
        ("", "\"libjpeg-turbo >=9\"", &[], &["conda-forge has libjpeg-turbo 3.1.0, 3.1.2, 3.1.4.1"]),
        ("", "\"numpy=2.4.6=*cuda*\"", &[], &["in other builds"]),
        (
            "",
            "\"torchvision-extra-decoders\"",
            &[],
            &[
                "needs pytorch >=2.9.1,<2.10.0a0 (no other build will do), and conda's pytorch is not installed beside the stack of PyPI",
            ],
        ),
        (
            "",
            "\"fsspec <2025.9.5\", \"fsspec >2026\"",
            &[],
            &["cannot be installed together", "fsspec 2026.4.0"],
        ),
        ("", "\"matplotlib-base\"", &["--glibc", "2.12"], &["the machine has glibc 2.12", "glibc >= 2.17"]),
        (
            "",
            "\"cuda-version\"",
            &["--gpu", "A100", "--driver", "450.80.02"],
            &[
                "cuda-version 12.9 admits only `__cuda >=12`, and driver 450.80.02 supports CUDA 11.0",
                "driver >= 525",
            ],
        ),
        ("", "\"mpmath\", \"sympy\", \"jinja2 <3\"", &[], &["conda-forge has jinja2 3.1.6"]),
    ];
    for (dependencies, conda, machine, expected) in table {
        world.manifest(dependencies, conda);
        let machine: Vec<&str> = match machine.is_empty() {
            true => vec!["--gpu", "none", "--glibc", "2.35"],
            false if machine[0] == "--glibc" => [&["--gpu", "none"], *machine].concat(),
            false => machine.to_vec(),
        };
        let run = world
            .context
            .run(&[&["resolve", "--only-index", "pypi,conda-forge"], &machine[..]].concat())
            .expect(1);
        for text in *expected {
            assert!(run.flat().contains(text), "{text}: {}", run.shown());
        }
        assert!(!world.context.exists("envlock.lock"));
    }
}

/// `--only-index` opens no channel that it does not name.
#[test]
fn channels_are_opened_by_name() {
    let index = IndexServer::start(vec![("pypi", wheel("tqdm", "4.0"))], Shape::default());
    let mut context = TestContext::with_index(&index);
    // Nothing answers there: a channel that is opened is seen.
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", "http://127.0.0.1:9");
    let conda = "[conda]\ndependencies = [\"numpy\"]\n";
    let stack = "[stack]\ntorch = \"*\"\nsource = \"conda-forge\"\n";
    let resolve = "[resolve]\nonly-index = ";
    for (tables, options, code, expected) in [
        (
            conda.to_owned(),
            &["--only-index", "pypi"][..],
            2,
            "hint: `--only-index pypi,conda-forge` names it too",
        ),
        (
            stack.to_owned(),
            &["--only-index", "pypi"],
            2,
            "does not name the channel conda-forge, and torch comes from it",
        ),
        (
            conda.to_owned(),
            &["--only-index", "conda-forge"],
            2,
            "`--only-index pypi,conda-forge` names it too",
        ),
        (conda.to_owned(), &["--only-index", "pypi,bioconda"], 2, "no index is called `bioconda`"),
        (conda.to_owned(), &["--only-index", "pypi,"], 2, "`pypi,` names no index"),
        (
            format!("{conda}{resolve}\"pypi\"\n"),
            &[],
            2,
            "hint: `only-index = [\"pypi\", \"conda-forge\"]` in envlock.toml names it too",
        ),
        (format!("{conda}{resolve}[3]\n"), &[], 2, "`only-index` is a name or a list of names"),
        (format!("{conda}{resolve}[\"pypi\", \"conda-forge\"]\n"), &[], 3, "the channel `conda-forge`"),
        // The channel has torch too, and another table says that it comes from there.
        (
            "[stack]\ntorch = \"*\"\n".to_owned(),
            &["--only-index", "conda-forge"],
            2,
            "`source = \"conda-forge\"` in `[stack]` takes torch from the channel",
        ),
        // Nothing is asked of a channel: its name does no harm.
        (String::new(), &["--only-index", "pypi,conda-forge"], 0, "tqdm"),
    ] {
        context
            .write("envlock.toml", &format!("[project]\nname = \"x\"\ndependencies = [\"tqdm\"]\n{tables}"));
        let run = context.run(&[&["resolve", "--gpu", "none"], options].concat()).expect(code);
        assert!(run.flat().contains(expected), "{tables}: {}", run.shown());
    }
}

#[test]
fn tables_that_are_refused() {
    let world = world();
    let table = [
        ("dependencies = [\"pytorch\"]", "`pytorch` belongs to the stack"),
        ("dependencies = [\"python >=3.11\"]", "state Python under `[project]`"),
        ("channels = [\"defaults\"]", "terms of use ask companies for a licence"),
        ("channels = [\"https://host.example/x\"]", "is not the name of a channel"),
        (
            "dependencies = [\"bioconda::samtools\"]",
            "names the channel `bioconda`, which is not one of `channels`",
        ),
        ("dependencies = [\"numpy[version=\"]", "is not a match spec of conda"),
        ("packages = []", "unknown field `packages`"),
        (
            "dependencies = [\"https://host.example/x-1-0.conda\"]",
            "it is an address: packages come from `channels`",
        ),
        ("dependencies = [\"numpy[subdir=noarch]\"]", "it names a platform folder"),
    ];
    for (text, expected) in table {
        world.context.write("envlock.toml", &format!("[project]\nname = \"x\"\n[conda]\n{text}\n"));
        let run = world.context.run(&["resolve", "--gpu", "none"]).expect(2);
        assert!(run.flat().contains(expected) && run.stderr.contains("envlock.toml:4"), "{}", run.shown());
    }
    // A channel that is not there, or whose records are none.
    world.context.write("envlock.toml", "[conda]\nchannels = [\"no-such\"]\ndependencies = [\"numpy\"]\n");
    let run = world.context.run(&["resolve", "--gpu", "none"]).expect(2);
    assert!(run.flat().contains("there is no channel `no-such` for linux-x86_64"), "{}", run.shown());
    let mut context = TestContext::new();
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", "http://127.0.0.1:9");
    context.set("ENVLOCK_INDEX_URL", "http://127.0.0.1:9/simple");
    context.write("envlock.toml", "[conda]\ndependencies = [\"numpy\"]\n");
    let run = context.run(&["resolve", "--gpu", "none"]).expect(3);
    assert!(run.flat().contains("from the channel `conda-forge`"), "{}", run.shown());
    assert!(run.flat().contains("`ENVLOCK_CONDA_CHANNEL_ALIAS` names a mirror"), "{}", run.shown());
}

/// A lock of format 1 becomes one of format 2 with conda packages, keeps its versions, and goes back.
#[test]
fn a_lock_takes_conda_packages_and_loses_them() {
    let world = world();
    let context = &world.context;
    let format = || {
        let lock: toml::Table = context.read("envlock.lock").parse().unwrap();
        lock["format"].as_str().unwrap().to_owned()
    };
    world.resolve("\"tqdm\", \"numpy<2\"", "", &[]).expect(0);
    let first = context.read("envlock.lock");
    assert!(format().starts_with("1."), "{first}");
    world.manifest("\"tqdm\", \"numpy<2\"", "\"libjpeg-turbo\"");
    context.run(&["resolve", "--locked"]).expect(1);
    context.run(&["resolve"]).expect(0);
    assert_eq!(format(), "2.0.0");
    assert!(context.read("envlock.lock").contains("name = \"numpy\"\nversion = \"1.26.4\""));
    context.run(&["resolve", "--locked"]).expect(0);
    world.manifest("\"tqdm\", \"numpy<2\"", "");
    context.run(&["resolve", "--locked"]).expect(1);
    context.run(&["resolve"]).expect(0);
    assert!(format().starts_with("1.") && world.conda().is_empty(), "{}", context.read("envlock.lock"));
    context.run(&["resolve", "--locked"]).expect(0);
}

/// A forged lock does not pass, although its checksum is right.
#[test]
fn conda_packages_that_nobody_asked_for_are_told() {
    let world = world();
    let context = &world.context;
    world.resolve("\"tqdm\"", "\"numpy\"", &[]).expect(0);
    let lock = context.read("envlock.lock");
    world.manifest("\"tqdm\"", "\"numpy\", \"sympy\"");
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(run.flat().contains("conda sympy"), "{}", run.shown());
    world.manifest("\"tqdm\"", "\"numpy\"");
    let renamed = lock.replace("name = \"tk\"", "name = \"another\"");
    let renamed = renamed.replace("\"tk-8.6.13", "\"another-8.6.13");
    let forged = [
        (renamed, "another 8.6.13, which no request needs"),
        (lock.replace("subdir = \"linux-64\"", "subdir = \"win-64\""), "has no file for Python 3.14"),
        (lock.replace("channel = \"conda-forge\"", "channel = \"mine\""), "is locked from `mine`"),
        (
            lock.replace("    \"tzdata\",", "    \"tzdate >=9\","),
            "requires `tzdate >=9`, but the lock has no such package",
        ),
    ];
    for (text, expected) in forged {
        context.write("envlock.lock", &super::common::installed::with_checksum(&text));
        let run = context.run(&["resolve", "--locked"]).expect(1);
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    // A package that the request does not mean, and one name twice.
    world.manifest("\"tqdm\"", "\"numpy >=99\"");
    assert!(lock.contains("\"conda numpy\""), "{lock}");
    let forged = lock.replace("\"conda numpy\"", "\"conda numpy >=99\"");
    context.write("envlock.lock", &super::common::installed::with_checksum(&forged));
    let run = context.run(&["resolve", "--locked"]).expect(1);
    let said = "the request has `numpy >=99` of conda, but the lock has numpy 2.4.6 ";
    assert!(run.flat().contains(said), "{}", run.shown());
    world.manifest("\"tqdm\"", "\"numpy\"");
    let row = &lock[lock.find("[[conda-package]]").unwrap()..];
    let row = &row[..row[5..].find("[[").unwrap() + 5];
    let twice = lock.replacen(row, &format!("{row}{row}"), 1);
    context.write("envlock.lock", &super::common::installed::with_checksum(&twice));
    let run = context.run(&["resolve", "--locked"]).expect(2);
    assert!(run.flat().contains("twice"), "{}", run.shown());
    let other = lock.replace("file = \"numpy-2.4.6-", "file = \"numpy-2.4.7-");
    context.write("envlock.lock", &super::common::installed::with_checksum(&other));
    let run = context.run(&["resolve", "--locked"]).expect(2);
    assert!(run.flat().contains("is not a file of `numpy-2.4.6-"), "{}", run.shown());
}

/// Whether a program was ended by `timeout` or a signal, or by a fault of the interpreter while it ended: `timeout` ends as it
/// did.
fn is_of_py_rattler(output: &std::process::Output) -> bool {
    output.status.code().is_none_or(|code| code == 124 || code >= 128)
        || String::from_utf8_lossy(&output.stderr).contains("Fatal Python error")
}

/// Runs `channel.py`; `None`: this Python cannot be packed.
fn channel_program(python: &std::ffi::OsStr, arguments: &[&str]) -> Option<String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda/channel.py");
    // py-rattler was seen to wait for minutes, and to end with a signal while its Python ended, rarely: then it is started
    // again.
    let once = || {
        let mut command = Command::new("timeout");
        command.arg("60").arg(python).arg(&program).args(arguments).output().unwrap()
    };
    let output = (0..3).map(|_| once()).find(|output| !is_of_py_rattler(output));
    let output = output.expect("py-rattler ended within a minute");
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.code() == Some(3) {
        skipped(&said);
        return None;
    }
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

/// The channel whose packages can be installed. It is made once: it has a whole Python.
pub fn installable(python: &std::ffi::OsStr) -> Option<Channels> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conda-channel");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        channel_program(python, &["make", folder.to_str().unwrap()]).map(|_| folder)
    };
    FOLDER.get_or_init(make).clone().map(Channels::start)
}

/// An environment from a lock: the explicit file by a real client, PyPI's half by `sync`. Returns its folder.
pub fn installed(context: &TestContext, python: &std::ffi::OsStr) -> String {
    context.run(&["export", "conda-explicit", "-o", "conda-explicit.txt"]).expect(0);
    let file = context.project().join("conda-explicit.txt").display().to_string();
    let prefix = context.project().join(".envlock/env").display().to_string();
    channel_program(python, &["create", &file, &prefix]).unwrap();
    context.run(&["sync", "--prefix", &prefix, "--smoke", "off"]).expect(0);
    prefix
}

/// `sync` runs the client that is there for conda's half, then the installer of PyPI's, and `verify` and `run` find the
/// environment. The client is py-rattler under the name of another one.
#[test]
#[cfg(unix)]
fn sync_makes_both_halves() {
    let Some(python) = tools::python_with("rattler") else { return };
    let Some(channels) = installable(python.as_os_str()) else { return };
    let beta = wheel("beta", "1.0").file("beta.py", "\n").needs("alpha<2");
    let index =
        IndexServer::start(vec![("pypi", beta)], Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    let manifest =
        "[project]\nname = \"x\"\ndependencies = [\"beta\"]\n[conda]\ndependencies = [\"tool\", \"alpha\"]\n";
    context.write("envlock.toml", manifest);
    let run = context.run(&["resolve", "--gpu", "none", "--only-index", "pypi,conda-forge"]).expect(0);
    assert!(run.flat().contains("next envlock export conda-explicit -o"), "{}", run.shown());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda/channel.py");
    let log = context.dir.path().join("client.log");
    // py-rattler was seen to wait for minutes, rarely: then it is started again.
    let client = format!(
        "what=$1\necho \"$*\" >> '{}'\nwhile [ $# -gt 0 ]; do case $1 in -p) prefix=$2;; --file) list=$2;; --force) shift; list=\"$*\"; break;; esac; shift; done\nset -- '{}' '{}' $what \"$list\" \"$prefix\"\n/usr/bin/timeout 30 \"$@\" || exec \"$@\"\n",
        log.display(),
        Path::new(&python).display(),
        program.display()
    );
    let folder = context.dir.path().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    super::cluster::script(&folder.join("micromamba"), &client);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();

    let run = context.run(&["resolve"]).expect(0);
    assert!(run.flat().contains("next envlock sync note"), "{}", run.shown());
    let plan = context.run(&["sync", "--dry-run", "--json"]).expect(0).json();
    assert_eq!(
        (&plan["installer"], &plan["prefix"]),
        (&"micromamba".into(), &".envlock/env".into()),
        "{plan}"
    );
    let first: Vec<&str> =
        plan["commands"][0].as_array().unwrap().iter().filter_map(|w| w.as_str()).collect();
    assert_eq!(first[1..6], ["create", "--yes", "--quiet", "-p", ".envlock/env"], "{plan}");
    let installed = plan["changes"]["install"].as_array().unwrap();
    assert!(installed.contains(&"tool".into()) && installed.contains(&"beta".into()), "{plan}");
    assert_eq!(said(), "", "a dry run runs nothing");

    // A client that makes nothing, and one that fails on the way: the next run completes it.
    let client_is = |text: &str| super::cluster::script(&folder.join("micromamba"), text);
    client_is("exit 0");
    let run = context.run(&["sync", "--smoke", "off"]).expect(2);
    assert!(run.flat().contains("micromamba ended without an error, and `"), "{}", run.shown());
    client_is("mkdir -p .envlock/env/bin; exit 1");
    let run = context.run(&["sync", "--smoke", "off"]).expect(2);
    assert!(run.flat().contains("the environment could not be made"), "{}", run.shown());
    client_is(&client);

    let run = context.run(&["sync", "--smoke", "off"]).expect(0);
    assert!(run.flat().contains("6 as locked"), "{}", run.shown());
    assert!(said().starts_with("create --yes -p .envlock/env --file"), "{}", said());
    assert_eq!(context.read(".envlock/.gitignore"), "*\n");
    assert!(
        context.exists(".envlock/env/.envlock/made-by-sync")
            && !context.exists(".envlock/.env.envlock-making")
    );
    // There is nothing to do now, and no environment has to be named or activated.
    let run = context.run(&["sync", "--dry-run"]).expect(0);
    assert!(run.stdout.contains("nothing to do"), "{}", run.shown());
    context.run(&["verify", "--smoke", "off"]).expect(0);
    let run = context.run(&["run", "--", "python", "-c", "import alpha, beta; print('both')"]).expect(0);
    assert!(run.stdout.contains("both"), "{}", run.shown());
    // A venv that is active has no conda packages.
    context.set("VIRTUAL_ENV", "/nowhere");
    context.run(&["verify", "--smoke", "off"]).expect(0);
    context.unset("VIRTUAL_ENV");
    // A Python that is gone is conda's to bring back.
    let python = context.project().join(".envlock/env/bin/python");
    let moved = context.project().join(".envlock/moved");
    std::fs::rename(&python, &moved).unwrap();
    let run = context.run(&["sync", "--dry-run"]).expect(0);
    assert!(
        run.flat().contains("micromamba install --yes") && !run.flat().contains("venv"),
        "{}",
        run.shown()
    );
    std::fs::rename(&moved, &python).unwrap();
    // A record that is gone is a package to install; the others stay.
    let record = context.project().join(".envlock/env/conda-meta/tool-2.0-0.json");
    std::fs::remove_file(&record).unwrap();
    std::fs::remove_file(context.project().join(".envlock/env/bin/tool")).unwrap();
    let run = context.run(&["sync", "--smoke", "off"]).expect(0);
    assert!(said().lines().nth(1).unwrap().starts_with("install --yes -p"), "{}", said());
    assert!(record.is_file() && run.flat().contains("installed 1 with micromamba"), "{}", run.shown());
    // So is one whose files are gone or altered, whose record is broken, and that pip wrote over.
    let env = context.project().join(".envlock/env");
    let program = env.join("bin/tool");
    std::fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink("gone", &program).unwrap();
    let run = context.run(&["verify", "--smoke", "off"]).expect(1);
    assert!(run.stdout.contains("bin/tool of tool is missing"), "{}", run.shown());
    context.run(&["sync", "--smoke", "off"]).expect(0);
    std::fs::write(&record, "{").unwrap();
    let run = context.run(&["verify", "--smoke", "off"]).expect(1);
    assert!(run.flat().contains("cannot be read as a record"), "{}", run.shown());
    context.run(&["sync", "--smoke", "off"]).expect(0);
    let site = env.join("lib").read_dir().unwrap().flatten().map(|e| e.path().join("site-packages"));
    let site = site.into_iter().find(|path| path.is_dir()).unwrap();
    let info = site.join("alpha-1.0.dist-info");
    let (record_of, installer) = (info.join("RECORD"), info.join("INSTALLER"));
    std::fs::write(&installer, "pip\n").unwrap();
    std::fs::write(&record_of, "alpha.py,,\nalpha-1.0.dist-info/INSTALLER,,\nalpha-1.0.dist-info/METADATA,,\nalpha-1.0.dist-info/RECORD,,\n").unwrap();
    let run = context.run(&["verify", "--smoke", "off"]).expect(1);
    assert!(!run.flat().contains("not locked"), "{}", run.shown());
    let installs = || said().lines().filter(|line| line.starts_with("install")).count();
    let before = installs();
    let run = context.run(&["sync", "--smoke", "off"]).expect(0);
    assert!(run.flat().contains("removed 1"), "{}", run.shown());
    assert_eq!(installs(), before + 1, "{}", said());
    assert!(site.join("alpha.py").is_file(), "conda's files are back");
    // Neither a venv nor a folder of somebody else is taken.
    context.write("elsewhere/file", "x");
    let run = context.run(&["sync", "--prefix", "elsewhere"]).expect(2);
    assert!(run.flat().contains("`elsewhere` is not a conda environment"), "{}", run.shown());
    in_a_container(&context);
    out_of_a_bundle(&mut context);
}

/// The same packages out of a bundle, when no channel and no index answers.
fn out_of_a_bundle(context: &mut TestContext) {
    context.run(&["bundle", "--python", "none", "-o", "b"]).expect(0);
    let manifest = context.read("b/bundle.toml");
    assert!(manifest.contains("role = \"conda\"") && manifest.contains("role = \"package\""), "{manifest}");
    std::fs::remove_dir_all(context.project().join(".envlock")).unwrap();
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", "http://127.0.0.1:9");
    context.set("ENVLOCK_INDEX_URL", "http://127.0.0.1:9");
    context.run(&["verify", "--bundle", "b"]).expect(0);
    let run = context.run(&["sync", "--bundle", "b", "--smoke", "off"]).expect(0);
    assert!(run.flat().contains("6 as locked"), "{}", run.shown());
    let run = context.run(&["export", "Dockerfile", "--bundle", "b"]).expect(0);
    assert!(run.stdout.contains("envlock sync --bundle /bundle --prefix /opt/env"), "{}", run.shown());
}

/// What the Dockerfile of a lock does, in a folder with what it copies: the layer is built, and its program started.
#[cfg(unix)]
fn in_a_container(context: &TestContext) {
    let file = context.run(&["export", "Dockerfile"]).expect(0).stdout;
    let parsed = Dockerfile::parse(&file).unwrap();
    let shell = |one: &Instruction| Some(one.as_run()?.as_shell()?.to_string());
    let layers: Vec<String> = parsed.instructions.iter().filter_map(shell).collect();
    let entry = parsed.instructions.iter().find_map(|one| Some(one.as_entrypoint()?.as_exec()?.as_str_vec()));
    let ([layer], Some(entry)) = (layers.as_slice(), entry) else { panic!("{file}") };
    let folder = context.dir.path().join("app");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(context.project().join("envlock.lock"), folder.join("envlock.lock")).unwrap();
    let prefix = context.dir.path().join("opt-env").display().to_string();
    let done = |words: Vec<&str>| {
        assert_eq!(words[0], "envlock");
        let mut command = context.command();
        command.args(&words[1..]).current_dir(&folder).env("CONDA_PREFIX", &prefix);
        context.finish(command.output().unwrap()).expect(0)
    };
    done(layer.replace("/opt/env", &prefix).split_whitespace().collect());
    let run = done([entry, vec!["python", "-c", "import alpha, beta; print('both')"]].concat());
    assert!(run.stdout.contains("both"), "{}", run.shown());
}

/// The explicit file by a real client, PyPI's half by `sync`, then `verify`: clean, until something is changed.
#[test]
#[cfg(target_os = "linux")]
fn both_halves_are_installed_and_verified() {
    let Some(python) = tools::python_with("rattler") else { return };
    let Some(channels) = installable(python.as_os_str()) else { return };
    let own = |name: &str, version: &str| wheel(name, version).file(&format!("{name}.py"), "\n");
    let all = vec![("pypi", own("beta", "1.0").needs("alpha<2")), ("pypi", own("alpha", "1.0"))];
    let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    let manifest =
        "[project]\nname = \"x\"\ndependencies = [\"beta\"]\n[conda]\ndependencies = [\"tool\", \"alpha\"]\n";
    context.write("envlock.toml", manifest);
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi,conda-forge"]).expect(0);
    let prefix = &installed(&context, python.as_os_str());
    let verify = |code: i32| context.run(&["verify", "--prefix", prefix, "--smoke", "off"]).expect(code);
    let run = verify(0);
    assert!(run.stdout.contains("6 as locked"), "{}", run.shown());
    assert!(run.flat().contains("of conda's records"), "{}", run.shown());
    // conda's alpha is the one that PyPI's beta takes.
    assert!(Path::new(prefix).join("conda-meta/alpha-1.0-0.json").is_file());
    let record = |name: &str| Path::new(prefix).join("conda-meta").join(name);
    let tool = std::fs::read_to_string(record("tool-2.0-0.json")).unwrap();
    let faults: [(&str, Option<String>, &str); 4] = [
        ("tool-2.0-0.json", None, "error[missing-package]: tool"),
        ("tool-2.0-0.json", Some(tool.replace("\"2.0\"", "\"1.0\"")), "error[wrong-version]: tool"),
        ("extra-1.0-0.json", Some(tool.replace("\"tool\"", "\"extra\"")), "warning[extra-package]: extra"),
        ("tool-2.0-0.json", Some("{".to_owned()), "tool-2.0-0.json"),
    ];
    for (name, text, expected) in faults {
        let before = std::fs::read(record(name)).ok();
        match &text {
            Some(text) => std::fs::write(record(name), text).unwrap(),
            None => std::fs::remove_file(record(name)).unwrap(),
        }
        let run = context.run(&["verify", "--prefix", prefix, "--smoke", "off"]);
        assert!(run.stdout.contains(expected), "{expected}: {}", run.shown());
        match before {
            Some(before) => std::fs::write(record(name), before).unwrap(),
            None => std::fs::remove_file(record(name)).unwrap(),
        }
    }
    // A file of conda's that is gone, and another alpha that pip put over conda's.
    let program = Path::new(prefix).join("bin/tool");
    let bytes = std::fs::read(&program).unwrap();
    std::fs::remove_file(&program).unwrap();
    assert!(verify(1).stdout.contains("bin/tool of tool is missing"));
    std::fs::write(&program, bytes).unwrap();
    let installer = std::fs::read_dir(Path::new(prefix).join("lib")).unwrap().flatten();
    let site = installer.map(|e| e.path().join("site-packages")).find(|path| path.is_dir()).unwrap();
    std::fs::write(site.join("alpha-1.0.dist-info/INSTALLER"), "pip\n").unwrap();
    let run = verify(1);
    assert!(run.stdout.contains("mixed-installers"), "{}", run.shown());
    // conda's alpha is locked, so pip's is removed. A module of conda's package is conda's to repair.
    let again = format!(
        "conda install -p {prefix} --override-channels -c {}/conda-forge --force-reinstall --no-deps alpha=1.0=0",
        channels.address
    )
    .replace(&context.dir.path().display().to_string(), "[DIR]");
    assert!(run.flat().contains(&format!("pip uninstall --yes alpha && {again}")), "{}", run.shown());
    std::fs::write(site.join("alpha-1.0.dist-info/INSTALLER"), "conda\n").unwrap();
    std::fs::remove_file(site.join("alpha.py")).unwrap();
    let run = verify(1);
    assert!(run.flat().contains(&again) && !run.flat().contains("pip install"), "{}", run.shown());
}

/// What the request says of a package that conda installs is not dropped, and a question about it is not answered for PyPI's.
#[test]
fn what_conda_installs_is_condas() {
    let world = world();
    let context = &world.context;
    context.write("own/pyproject.toml", "[project]\nname = \"numpy\"\nversion = \"9.0\"\n");
    let run = world.resolve("\"numpy @ ./own\"", "\"numpy\"", &[]).expect(2);
    assert!(
        run.flat().contains("is asked for, and conda installs numpy 2.4.6 of conda-forge"),
        "{}",
        run.shown()
    );
    world.resolve("\"frame\"", "\"numpy\"", &[]).expect(0);
    for question in ["numpy==1.26.4", "numpy>9", "python-abi==3.13"] {
        let run = context.run(&["why", "--not", question]);
        assert!(!run.stdout.contains("is impossible"), "{}", run.shown());
    }
    let run = context.run(&["why", "--not", "numpy==1.26.4"]).expect(2);
    assert!(run.flat().contains("conda installs `numpy`: 2.4.6"), "{}", run.shown());
    // What an override or a constraint says: the first is about PyPI's half.
    let text = "[project]\nname = \"x\"\ndependencies = [\"tqdm\"]\n[conda]\ndependencies = [\"numpy\"]\n";
    context.write("envlock.toml", &format!("{text}[resolve]\noverrides = [\"numpy<1\"]\n"));
    let machine = ["--gpu", "none", "--glibc", "2.35", "--force"];
    context.run(&[&["resolve"], &machine[..]].concat()).expect(0);
    let constrained = text.replace("[conda]", "constraints = [\"numpy<1\"]\n[conda]");
    context.write("envlock.toml", &constrained);
    let run = context.run(&[&["resolve"], &machine[..]].concat()).expect(1);
    for expected in ["you constrain numpy<1", "without the constraint numpy<1"] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
}

/// A channel whose records are written here: name, version and dependencies. Nothing of it is installed.
pub fn generated(records: &[(&str, &str, &[&str])]) -> (tempfile::TempDir, Channels) {
    let folder = tempfile::tempdir().unwrap();
    write_channel(&folder.path().join("conda-forge"), records);
    let channels = Channels::start(folder.path().to_path_buf());
    (folder, channels)
}

/// Writes the records of a channel for Linux.
pub fn write_channel(folder: &Path, records: &[(&str, &str, &[&str])]) {
    let mut packages = serde_json::Map::new();
    for (name, version, depends) in records {
        let record = serde_json::json!({
            "name": name, "version": version, "build": "0", "build_number": 0, "subdir": "linux-64", "size": 1,
            "depends": depends, "sha256": "0".repeat(64), "md5": "0".repeat(32),
        });
        packages.insert(format!("{name}-{version}-0.conda"), record);
    }
    let linux = folder.join("linux-64");
    std::fs::create_dir_all(&linux).unwrap();
    let text =
        serde_json::json!({"info": {"subdir": "linux-64"}, "packages": {}, "packages.conda": packages});
    std::fs::write(linux.join("repodata.json"), text.to_string()).unwrap();
}

/// However many releases of conda's are newer than the one that fits.
#[test]
fn conda_steps_back_over_many_releases() {
    let python: &[&str] = &["python"];
    let versions: Vec<String> = (0..40).map(|minor| format!("2.{minor}.0")).collect();
    let mut records = vec![
        ("python", "3.12.4", &[][..]),
        ("python", "3.13.1", &[]),
        ("pip", "25.0", python),
        ("numpy", "1.26.4", python),
        ("numpy", "1.25.0", python),
        ("scipy", "1.11.0", &["python", "numpy >=1.20"]),
    ];
    records.extend(versions.iter().map(|version| ("numpy", version.as_str(), python)));
    let (_folder, channels) = generated(&records);
    let all = vec![
        ("pypi", wheel("numba", "0.59.1").needs("numpy<1.27,>=1.22")),
        ("pypi", wheel("old", "1.0").needs("numpy<1.26")),
        ("pypi", wheel("newer", "1.0").needs("numpy>=2.30")),
    ];
    let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    let resolve = |project: &str, conda: &str| {
        let text = format!("[project]\nname = \"x\"\n{project}\n[conda]\ndependencies = [{conda}]\n");
        context.write("envlock.toml", &text);
        // What an earlier lock holds would be kept.
        let _ = std::fs::remove_file(context.project().join("envlock.lock"));
        context.run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35"])
    };
    for (project, conda, numpy) in [
        ("dependencies = [\"numpy<2\"]", "\"numpy\"", "1.26.4"),
        ("dependencies = [\"numba\"]", "\"numpy\"", "1.26.4"),
        ("dependencies = [\"numba\"]", "\"scipy\"", "1.26.4"),
        ("dependencies = [\"numba\", \"old\"]", "\"numpy\"", "1.25.0"),
        ("dependencies = [\"numba\"]\nconstraints = [\"numpy<1.26\"]", "\"numpy\"", "1.25.0"),
        ("dependencies = []\nconstraints = [\"numpy<2\"]", "\"numpy\"", "1.26.4"),
        ("dependencies = [\"numpy<2.2\"]", "\"numpy\"", "2.1.0"),
        ("dependencies = [\"newer\"]", "\"numpy <2.35\"", "2.34.0"),
    ] {
        let run = resolve(project, conda).expect(0);
        assert!(context.read("envlock.lock").contains(&format!("version = \"{numpy}\"")), "{}", run.shown());
    }
    // What cannot be is told by both who stand against each other, and is no search that was cut.
    for (project, conda, expected) in [
        ("dependencies = [\"numba\"]", "\"numpy >=2\"", "numba 0.59.1 needs numpy<1.27,>=1.22"),
        ("dependencies = [\"numpy<2\"]", "\"numpy >=2.5\"", "you require numpy<2"),
        ("dependencies = [\"numba\", \"newer\"]", "\"numpy\"", "newer 1.0 needs numpy>=2.30"),
        ("dependencies = []\nconstraints = [\"numpy<2\"]", "\"numpy >=2.5\"", "numpy<2"),
    ] {
        let run = resolve(project, conda).expect(1);
        assert!(run.flat().contains(expected) && !run.flat().contains("was cut"), "{}", run.shown());
    }
}

/// Who stands against whom lies in several packages of conda: found where there is an answer.
#[test]
fn conda_steps_back_in_several_packages() {
    let python: &[&str] = &["python"];
    let releases: Vec<String> = (1..=30).map(|release| release.to_string()).collect();
    let exact: Vec<String> = releases.iter().map(|release| format!("packaging =={release}")).collect();
    let pairs: Vec<[&str; 2]> = exact.iter().map(|exact| ["python", exact.as_str()]).collect();
    let mut records: Vec<(&str, &str, &[&str])> = vec![
        ("python", "3.12.4", &[]),
        ("python", "3.12.8", &[]),
        ("pip", "25.0", python),
        ("attrs", "1", python),
        ("attrs", "2", python),
        ("carrier", "1", python),
        ("carrier", "2", &["python", "click"]),
        ("click", "2", python),
        // The release of packaging that a tqdm needs is its own.
        ("sorter", "1", &["python", "six <5"]),
        ("sorter", "2", &["python", "six >=25"]),
    ];
    for (release, pair) in releases.iter().zip(&pairs) {
        records.extend([
            ("packaging", release.as_str(), python),
            ("tqdm", release, pair),
            ("six", release, python),
        ]);
    }
    let (_folder, channels) = generated(&records);
    let all = vec![
        ("pypi", wheel("p-one", "1").needs("attrs<2")),
        ("pypi", wheel("q-one", "1").needs("click<2")),
        ("pypi", wheel("either", "1").needs("attrs<1")),
        ("pypi", wheel("either", "2").needs("click<2")),
        ("pypi", wheel("click", "1")),
        ("pypi", wheel("attrs", "0")),
        ("pypi", wheel("both", "1").needs("packaging<20").needs("tqdm<12")),
        ("pypi", wheel("below", "1").needs("six<25")),
        ("pypi", wheel("patched", "1").python(">=3.8,!=3.12.8")),
    ];
    let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    for (project, conda, locked) in [
        ("dependencies = [\"p-one\", \"q-one\"]", "\"attrs\", \"carrier\"", "carrier-1-0.conda"),
        ("dependencies = [\"either\"]", "\"attrs\", \"carrier\"", "carrier-1-0.conda"),
        ("dependencies = [\"both\"]", "\"tqdm\"", "packaging-11-0.conda"),
        ("dependencies = [\"below\"]", "\"sorter\"", "sorter-1-0.conda"),
        ("dependencies = [\"patched\"]", "\"attrs\"", "python-3.12.4-0.conda"),
        // One that does not apply here bounds nothing.
        (
            "dependencies = [\"attrs\"]\nconstraints = [\"attrs<2; sys_platform == 'win32'\"]",
            "\"attrs\"",
            "attrs-2-0.conda",
        ),
        ("dependencies = []\nconstraints = [\"click<2\"]", "\"carrier\"", "carrier-1-0.conda"),
    ] {
        let text = format!("[project]\nname = \"x\"\n{project}\n[conda]\ndependencies = [{conda}]\n");
        context.write("envlock.toml", &text);
        let _ = std::fs::remove_file(context.project().join("envlock.lock"));
        let run = context.run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35"]).expect(0);
        assert!(context.read("envlock.lock").contains(locked), "{text}{}", run.shown());
        context.run(&["resolve", "--locked"]).expect(0);
    }
    // Each of two releases is admitted without the other.
    let specs = "\"attrs ==2\", \"click ==2\"";
    let text =
        format!("[project]\nname = \"x\"\ndependencies = [\"either\"]\n[conda]\ndependencies = [{specs}]\n");
    context.write("envlock.toml", &text);
    let run = context.run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35"]).expect(1);
    for expected in ["either 1 needs attrs<1", "either 2 needs click<2", "you require click ==2"] {
        assert!(run.flat().contains(expected) && !run.flat().contains("was cut"), "{}", run.shown());
    }
}

/// conda's half is solved 20 times at most. A refusal after that says so: there may be an answer.
#[test]
fn a_search_that_was_cut_says_so() {
    let names: Vec<String> = (0..21).map(|number| format!("unit{number}")).collect();
    let python: &[&str] = &["python"];
    let mut records: Vec<(&str, &str, &[&str])> = vec![("python", "3.12.4", &[]), ("pip", "25.0", python)];
    records
        .extend(names.iter().flat_map(|name| [(name.as_str(), "1", python), (name.as_str(), "2", python)]));
    let (_folder, channels) = generated(&records);
    let user = |name: &str, count: usize| {
        let needs = names[..count].iter().map(|unit| format!("{unit}<2"));
        ("pypi", needs.fold(wheel(name, "1"), |wheel, needs| wheel.needs(&needs)))
    };
    let shape = Shape { json: true, metadata: true, ..Shape::default() };
    let index = IndexServer::start(vec![user("few", 3), user("many", 21)], shape);
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    let units: String = names.iter().map(|name| format!("\"{name}\", ")).collect();
    for (user, code) in [("few", 0), ("many", 1)] {
        let text = format!(
            "[project]\nname = \"x\"\ndependencies = [\"{user}\"]\n[conda]\ndependencies = [{units}]\n"
        );
        let _ = std::fs::remove_file(context.project().join("envlock.lock"));
        context.write("envlock.toml", &text);
        let run = context.run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35"]).expect(code);
        let expected = "no answer was found: the search over both halves was cut at its limit";
        assert_eq!(run.flat().contains(expected), code == 1, "{}", run.shown());
    }
}

/// What solvers that fix conda's half first are known to fail at (prefix-dev/pixi#2559, #3467, #2772, #5545): a package of conda
/// that a package of PyPI, or the request, excludes is taken in another release; one that both halves need is taken once.
#[test]
fn conda_steps_back_for_pypi() {
    let python: &[&str] = &["python"];
    let (_folder, channels) = generated(&[
        ("python", "3.12.4", &[]),
        ("python", "3.13.1", &[]),
        ("pip", "25.0", python),
        ("numpy", "1.26.4", python),
        ("numpy", "2.1.3", python),
        ("packaging", "23.2", python),
        ("packaging", "24.2", python),
        ("xarray", "2024.7.0", &["python", "packaging >=23.1"]),
        ("pyhmmer", "0.1.4", python),
        ("pyhmmer", "0.10.15", python),
        ("bakta", "1.10.3", &["python", "pyhmmer >=0.10.15"]),
        // Two records that nothing of conda bounds, both newer than PyPI's half admits.
        ("fsspec", "2025.12.0", python),
        ("fsspec", "2026.1.0", python),
        ("websockets", "15.0.1", python),
        ("websockets", "16.0", python),
        ("learner", "2.9.1", &["python", "fsspec"]),
        ("cctbx", "2026.1", &["python", "websockets >=10"]),
    ]);
    let all = vec![
        ("pypi", wheel("package-x", "1.2.3").needs("numpy>=1.24.3,<2")),
        ("pypi", wheel("lovis4u", "0.0.13").needs("pyhmmer")),
        ("pypi", wheel("pyhmmer", "0.1.4")),
        ("pypi", wheel("packaging", "23.2")),
        ("pypi", wheel("lamindb", "2.1.0").needs("fsspec<2026").needs("websockets<16")),
        ("pypi", wheel("only-12", "1.0").tags("cp312-cp312-manylinux_2_17_x86_64").needs("packaging>=99")),
    ];
    let index = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    for (pypi, conda, locked) in [
        ("package-x", "numpy", ("numpy", "1.26.4")),
        ("packaging<24.0", "xarray==2024.7.0", ("packaging", "23.2")),
        ("lovis4u", "bakta", ("pyhmmer", "0.10.15")),
        ("lamindb", "learner\", \"cctbx", ("fsspec", "2025.12.0")),
        ("lamindb", "learner\", \"cctbx", ("websockets", "15.0.1")),
    ] {
        let manifest = format!(
            "[project]\nname = \"x\"\ndependencies = [\"{pypi}\"]\n[conda]\ndependencies = [\"{conda}\"]\n"
        );
        context.write("envlock.toml", &manifest);
        let run = context.run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35"]).expect(0);
        let lock: toml::Table = context.read("envlock.lock").parse().unwrap();
        let named = |list: &str| -> Vec<String> {
            let packages = lock.get(list).and_then(toml::Value::as_array).into_iter().flatten();
            let own = packages.filter(|package| package["name"].as_str() == Some(locked.0));
            own.filter_map(|package| package["version"].as_str().map(str::to_owned)).collect()
        };
        assert_eq!(named("conda-package"), [locked.1], "{}", run.shown());
        assert!(named("package").is_empty(), "conda has it: {}", run.shown());
        context.run(&["resolve", "--locked"]).expect(0);
    }
    // Where no release of conda fits, it is said who needs it.
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = [\"packaging<23\"]\n[conda]\ndependencies = [\"xarray\"]\n",
    );
    let run = context.run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35"]).expect(1);
    assert!(
        run.flat().contains("is installed by conda for xarray, which `[conda]` asks for"),
        "{}",
        run.shown()
    );
    // A Python that was only tried is no request, and what every Python has as a cause is told.
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = [\"only-12\"]\n[conda]\ndependencies = [\"numpy\"]\n",
    );
    let run = context.run(&["resolve", "--force", "--gpu", "none", "--glibc", "2.35"]).expect(1);
    assert!(
        run.flat().contains("packaging>=99") && !run.flat().contains("you require Python"),
        "{}",
        run.shown()
    );
    // A channel that has not the platform.
    let run = context.run(&["resolve", "--force", "--gpu", "none", "--platform", "linux-aarch64"]).expect(2);
    assert!(run.flat().contains("there is no channel `conda-forge` for linux-aarch64"), "{}", run.shown());
}
