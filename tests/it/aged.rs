//! A registry that is older than the world: releases that it lacks are read from the index, and the answer is that of the
//! whole registry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use envlock::registry::{Build, Registry, RegistryFile};

use super::context::{FROZEN_REGISTRY, IndexServer, Shape, TestContext};
use super::learn::{libtorch_python, torch_release, with_code};
use super::native::fatbin;
use super::wheels::{Wheel, little_pypi, wheel};

/// The oldest series that the index of these tests has.
const OLDEST: &str = "2.9";

const MACHINES: [&[&str]; 4] = [
    &["--gpu", "NVIDIA H200", "--driver", "580.65.06"],
    &["--gpu", "NVIDIA GeForce RTX 4090", "--driver", "550.54.15"],
    &["--gpu", "none"],
    &["--gpu", "10.0", "--driver", "580.65.06", "--platform", "linux-aarch64"],
];

pub fn files_below(folder: &Path, prefix: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            out.extend(files_below(&path, &format!("{name}/")));
        } else if name.ends_with(".toml") {
            out.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    out
}

fn registry_of(files: Vec<(String, String)>) -> Registry {
    let files = files.into_iter();
    let files = files.map(|(path, text)| RegistryFile { path: path.into(), text: text.into() });
    Registry::from_files(files.collect()).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn series(text: &str) -> Vec<u32> {
    text.split('.').map(|part| part.parse().unwrap()).collect()
}

/// A copy of the frozen registry without its newest series of torch and what was released with them; `None` for all.
fn aged(context: &TestContext, newest: Option<usize>) -> PathBuf {
    without(context, &|known| known.iter().rev().take(newest.unwrap_or(usize::MAX)).copied().collect())
}

/// A copy without some series, of all in ascending order, and what was released with them.
fn without(context: &TestContext, gone: &dyn for<'f> Fn(&[&'f str]) -> BTreeSet<&'f str>) -> PathBuf {
    let files = files_below(Path::new(FROZEN_REGISTRY), "");
    fn all(path: &str) -> Option<&str> {
        path.strip_prefix("torch/")?.strip_suffix(".toml")
    }
    let mut known: Vec<&str> = files.iter().filter_map(|(path, _)| all(path)).collect();
    known.sort_by_key(|name| series(name));
    let gone = gone(&known);
    let of_value = |line: &str, key: &str| {
        line.strip_prefix(key).and_then(|rest| rest.split('"').nth(1)).map(str::to_owned)
    };
    let beside: BTreeSet<String> = files
        .iter()
        .filter(|(path, _)| all(path).is_some_and(|name| gone.contains(name)))
        .flat_map(|(_, text)| text.lines().filter_map(|line| of_value(line, "torchvision =")))
        .collect();
    let is_of_gone = |version: &str| {
        let mut parts = version.trim_start_matches(['=', '~', '>']).splitn(3, '.');
        let (Some(major), Some(minor)) = (parts.next(), parts.next()) else { return false };
        gone.contains(format!("{major}.{minor}").as_str())
    };
    let stays = |block: &&str| {
        let value = |key: &str| block.lines().find_map(|line| of_value(line, key));
        let package = value("package =").unwrap_or_default();
        let version = value("version =").unwrap_or_default();
        let is_gone = value("torch =").is_some_and(|torch| is_of_gone(&torch))
            || (package == "torchvision" && beside.contains(&version))
            || (package == "torchaudio" && is_of_gone(&version));
        !is_gone
    };
    let out = context.dir.path().join("aged");
    for (path, text) in &files {
        if all(path).is_some_and(|name| gone.contains(name)) {
            continue;
        }
        let text = match path.as_str() {
            "companions.toml" => {
                let marked = text.replace("[[companion]]", "\0[[companion]]");
                marked.split('\0').filter(stays).collect()
            }
            _ => text.clone(),
        };
        let file = out.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    out
}

/// PyPI and the pytorch index as the rows describe them: torch with the libraries that they were read from, and what it requires.
fn index(context: &TestContext) -> Option<Vec<(&'static str, Wheel)>> {
    let registry = registry_of(files_below(Path::new(FROZEN_REGISTRY), ""));
    let is_here = |build: &&envlock::registry::Cited<Build>| {
        build.targets.is_some()
            && build.platform.to_string().starts_with("linux-")
            && series(&build.version.to_string()) >= series(OLDEST)
            && build.cuda.is_some()
    };
    let mut libraries: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut required: BTreeSet<(String, String)> = BTreeSet::new();
    let mut all = vec![("pypi", wheel("numpy", "2.3.0"))];
    for build in registry.builds().iter().filter(is_here) {
        let (version, cuda) = (build.version.to_string(), build.cuda.as_ref().unwrap());
        let tags = format!("cp313-cp313-manylinux_2_28_{}", build.platform.to_string().split_once('-')?.1);
        let targets = build.targets.as_ref()?;
        let name = |prefix: &str, target: &dyn std::fmt::Display| {
            format!("{prefix}_{}", target.to_string().replace('.', ""))
        };
        let list: Vec<String> = (targets.sass.iter().map(|t| name("sm", t)))
            .chain(targets.ptx.iter().map(|t| name("compute", t)))
            .collect();
        let list = list.join(" ");
        if !libraries.contains_key(&list) {
            libraries.insert(list.clone(), libtorch_python(context, &list)?);
        }
        let says = format!(
            "__version__ = '{version}+{}'\ncuda: Optional[str] = '{}.{}'\n",
            build.variant, cuda.major, cuda.minor
        );
        // A build of the pytorch index is in the sub-index of its variant, and has it in its version.
        let (at, local): (&'static str, String) = match build.on_pypi {
            true => ("pypi", String::new()),
            false => (format!("whl/{}", build.variant).leak(), format!("+{}", build.variant)),
        };
        let mut torch = wheel("torch", &format!("{version}{local}"))
            .tags(&tags)
            .python(">=3.10")
            .file("torch/version.py", &says)
            .bytes("torch/lib/libtorch_python.so", &libraries[&list]);
        let pins = [("nvidia-cudnn-cu", &build.cudnn), ("nvidia-nccl-cu", &build.nccl)];
        for (name, version) in pins {
            let Some(version) = version else { continue };
            let (name, version) = (format!("{name}{}", cuda.major), version.to_string());
            torch = torch.needs(&format!("{name}=={version}; platform_system == \"Linux\""));
            required.insert((name, version));
        }
        if let Some(triton) = &build.triton {
            torch = torch.needs(&format!("triton{triton}; platform_system == \"Linux\""));
            let version = triton.trim_start_matches(|c: char| !c.is_ascii_digit());
            required.insert(("triton".to_owned(), version.to_owned()));
        }
        all.push((at, torch));
        if let Some(vision) = &build.torchvision {
            let row = registry.companion("torchvision", vision);
            let mut companion = wheel("torchvision", &format!("{vision}{local}"))
                .tags(&tags)
                .python(">=3.10")
                .needs(&format!("torch=={version}"))
                .file("torchvision/version.py", &says.replace(&version, &vision.to_string()));
            let row = row.filter(|row| row.platform == build.platform && build.on_pypi);
            if let Some(targets) = row.and_then(|row| row.targets.as_ref()) {
                let number = |target: &dyn std::fmt::Display| {
                    target.to_string().replace('.', "").parse::<u32>().unwrap()
                };
                let code: Vec<(u16, u32)> = (targets.sass.iter().map(|t| (2, number(t))))
                    .chain(targets.ptx.iter().map(|t| (1, number(t))))
                    .collect();
                companion = companion.bytes("torchvision/_C.so", &with_code(context, &fatbin(&[&code]))?);
            }
            all.push((at, companion));
        }
    }
    all.extend(required.into_iter().map(|(name, version)| ("pypi", wheel(&name, &version))));
    Some(all)
}

fn asked(context: &TestContext, registry: &Path, more: &[&[&str]]) -> serde_json::Value {
    let registry = registry.to_str().unwrap();
    let asked = ["--registry", registry, "resolve", "torch", "torchvision", "--dry-run", "--json"];
    let mut command = context.command_of(env!("CARGO_BIN_EXE_envlock"));
    let run = context.finish(command.args(asked).args(more.concat()).output().unwrap()).expect(0);
    run.json()["targets"][0].clone()
}

fn answer(context: &TestContext, registry: &Path, machine: &[&str]) -> serde_json::Value {
    let target = asked(context, registry, &[machine, &["--only-index", "pypi"]]);
    serde_json::json!([target["stack"], target["envelope"], target["driver_mode"], target["python"]])
}

#[test]
fn an_aged_registry_gives_the_answers_of_the_whole_one() {
    let context = TestContext::new();
    let Some(wheels) = index(&context) else { return };
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let whole = TestContext::with_index(&server);
    let expected = MACHINES.map(|machine| answer(&whole, Path::new(FROZEN_REGISTRY), machine));
    for newest in [Some(1), Some(3), Some(6), None] {
        for (machine, expected) in MACHINES.iter().zip(&expected) {
            // Nothing that another run read is kept.
            let context = TestContext::with_index(&server);
            let aged = aged(&context, newest);
            assert_eq!(answer(&context, &aged, machine), *expected, "{newest:?} {machine:?}");
        }
    }
    // A companion says which torch it needs.
    let stack = |context: &TestContext, registry: &Path| {
        let mut command = context.command_of(env!("CARGO_BIN_EXE_envlock"));
        command.args([
            "--registry",
            registry.to_str().unwrap(),
            "resolve",
            "torchvision",
            "--dry-run",
            "--json",
        ]);
        command.args(["--only-index", "pypi"]).args(MACHINES[0]);
        context.finish(command.output().unwrap()).expect(0).json()["targets"][0]["stack"].clone()
    };
    let context = TestContext::with_index(&server);
    let aged = aged(&context, Some(1));
    assert_eq!(stack(&context, &aged), stack(&whole, Path::new(FROZEN_REGISTRY)));
}

/// Releases that are older than all rows are read where nothing else is asked for.
#[test]
fn what_is_older_than_the_registry_is_read_where_it_is_asked_for() {
    let context = TestContext::new();
    let Some(wheels) = index(&context) else { return };
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let young = |context: &TestContext| {
        without(context, &|known| {
            known.iter().filter(|name| series(name) < series("2.12")).copied().collect()
        })
    };
    let resolve = |context: &TestContext, registry: &Path, asked: &[&str]| {
        let mut command = context.command_of(env!("CARGO_BIN_EXE_envlock"));
        command.args(["--registry", registry.to_str().unwrap(), "resolve", "--dry-run", "--json"]);
        command.args(asked).args(["--only-index", "pypi"]).args(MACHINES[0]);
        context.finish(command.output().unwrap())
    };
    let of_whole = TestContext::with_index(&server);
    for asked in
        [&["torch==2.10.0"][..], &["torch==2.10.0", "torchvision"], &["torchvision==0.25.0"], &["torch<2.10"]]
    {
        let whole = resolve(&of_whole, Path::new(FROZEN_REGISTRY), asked).expect(0).json();
        let context = TestContext::with_index(&server);
        let read = resolve(&context, &young(&context), asked).expect(0).json();
        for key in ["stack", "envelope", "driver_mode", "python"] {
            assert_eq!(read["targets"][0][key], whole["targets"][0][key], "{asked:?} {key}");
        }
    }
    // A release that was read says nothing of those between it and the registry.
    let context = TestContext::with_index(&server);
    let registry = young(&context);
    resolve(&context, &registry, &["torchvision==0.24.1"]).expect(0);
    resolve(&context, &registry, &["torchvision==0.24.0", "--stack-only"]).expect(3);
    // The index was asked: it has no such release.
    let context = TestContext::with_index(&server);
    let refused = resolve(&context, &young(&context), &["torch==2.10.9"]).expect(1);
    assert!(refused.stdout.contains("PyPI has no such torch"), "{}", refused.shown());
}

/// The same with the builds of the pytorch index: a machine that does not take PyPI's newest build gets one from there.
#[test]
fn builds_of_the_pytorch_index_are_read() {
    let context = TestContext::new();
    let Some(wheels) = index(&context) else { return };
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let machines: [&[&str]; 4] = [
        MACHINES[0],
        MACHINES[1],
        &["--gpu", "7.0", "--driver", "580.65.06"],
        &["--gpu", "NVIDIA GeForce RTX 4090", "--driver", "550.54.15", "--variant", "cu126"],
    ];
    let answer = |context: &TestContext, registry: &Path, machine: &[&str]| {
        let target = asked(context, registry, &[machine]);
        let stack = |key: &str| target["stack"][key].clone();
        let keys = ["version", "variant", "cuda", "cudnn", "index", "companions", "driver_mode"];
        (keys.map(stack), target["python"].clone())
    };
    let whole = TestContext::with_index(&server);
    let expected = machines.map(|machine| answer(&whole, Path::new(FROZEN_REGISTRY), machine));
    assert!(
        expected
            .iter()
            .any(|(stack, _)| stack[4].as_str().is_some_and(|index| index.starts_with("pytorch/")))
    );
    for newest in [1, 3] {
        for (machine, expected) in machines.iter().zip(&expected) {
            let context = TestContext::with_index(&server);
            let aged = aged(&context, Some(newest));
            assert_eq!(answer(&context, &aged, machine), *expected, "{newest} {machine:?}");
        }
    }
    // A variant whose page was read and lacks the release does not have it; without the page nobody knows.
    let pinned = ["resolve", "torch==2.9.1", "--variant", "cu127", "--gpu", "A100", "--driver", "580.65.06"];
    let context = TestContext::with_index(&server);
    let refused = context.run(&pinned).expect(1);
    assert!(!refused.flat().contains("may exist"), "{}", refused.shown());
    context.run(&[&pinned[..], &["--stack-only"]].concat()).expect(3);
    // An index that does not answer is not one without such a build: the answer is not known.
    let mut context = TestContext::with_index(&server);
    context.set("ENVLOCK_PYTORCH_INDEX_URL", "http://127.0.0.1:9/whl");
    let aged = aged(&context, Some(1));
    let mut command = context.command_of(env!("CARGO_BIN_EXE_envlock"));
    command.args(["--registry", aged.to_str().unwrap(), "resolve", "torch", "--dry-run"]).args(machines[1]);
    let run = context.finish(command.output().unwrap()).expect(3);
    assert!(run.flat().contains("cannot read `torch` from the index `pytorch/"), "{}", run.shown());
}

/// The newest wheel cannot be read: the next one is, and nothing is called the newest.
#[test]
fn a_wheel_that_cannot_be_read_is_named_with_its_cause() {
    let context = TestContext::new();
    let Some(library) = libtorch_python(&context, "sm_80 sm_90 sm_120 compute_120") else { return };
    let tags = "cp312-cp312-manylinux_2_28_x86_64";
    let mut wheels = little_pypi();
    wheels.push(("pypi", torch_release("2.98.0", &library, tags)));
    // A library without the list of architectures.
    wheels.push(("pypi", torch_release("2.99.0", &library[..64], tags)));
    for (name, version) in
        [("nvidia-cudnn-cu13", "9.30.0.1"), ("nvidia-nccl-cu13", "2.31.1"), ("triton", "4.0.1")]
    {
        wheels.push(("pypi", wheel(name, version)));
    }
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let asked = ["resolve", "torch", "--gpu", "NVIDIA H200", "--driver", "615.10.01", "--only-index", "pypi"];
    let run = context.run(&asked).expect(0);
    let told = "newest compatible release whose wheel could be read; 2.99.0 was not: could not read compatibility data from";
    assert!(run.flat().contains("torch 2.98.0+cu134") && run.flat().contains(told), "{}", run.shown());
    assert!(!run.flat().contains("torch 2.98.0+cu134 newest compatible version"), "{}", run.shown());
    // The lock has the fact, not the cause, which differs from day to day.
    let lock = context.read("envlock.lock");
    assert!(lock.contains("newest-read:2.99.0") && !lock.contains("could not read"), "{lock}");
    let why = context.run(&["why", "torch"]);
    assert!(why.flat().contains("2.99.0 was not read"), "{}", why.shown());
    context.run(&["resolve", "--locked"]).expect(0);
    context.run(&asked).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    // Without reading, the registry's own newest is not called the newest either.
    let fresh = TestContext::with_index(&server);
    let run = fresh.run(&[&asked[..], &["--no-learn", "--dry-run"]].concat()).expect(0);
    assert!(run.flat().contains("2.99.0 was not: `--no-learn` is set"), "{}", run.shown());
    // What was read, by `resolve` or on request, no other command calls unknown.
    let plan = ["plan", "--lock", "requirements.txt", "--gpu", "NVIDIA H200", "--driver", "615.10.01"];
    for context in [&context, &fresh] {
        context.write("requirements.txt", "torch==2.98.0\n");
    }
    context.run(&plan).expect(0);
    let unknown = fresh.run(&plan).expect(3);
    let command = "envlock registry learn torch==2.98.0";
    assert!(unknown.flat().contains(command), "{}", unknown.shown());
    fresh.run(&command.split(' ').skip(1).collect::<Vec<_>>()).expect(0);
    fresh.run(&plan).expect(0);
    // A release that nobody read is not called impossible, nor is the older one the newest.
    let unread = TestContext::with_index(&server);
    unread.run(&[&asked[..], &["--no-learn"]].concat()).expect(0);
    let why = unread.run(&["why", "torch"]).expect(0);
    assert!(
        why.flat().contains("the index has torch 2.99.0, which the registry does not know"),
        "{}",
        why.shown()
    );
    unread.run(&["why", "--not", "torch==2.98.0"]).expect(3);
}

/// Without the floor of a CUDA major, a build needs the toolkit's own driver: no lock says that an older one suffices.
#[test]
fn without_a_floor_the_toolkits_own_driver_is_needed() {
    let files = files_below(Path::new(FROZEN_REGISTRY), "").into_iter().map(|(path, text)| {
        let kept: Vec<&str> = text.split("\n\n").filter(|row| !row.contains("[[minor_version")).collect();
        let text = if path == "cuda.toml" { kept.join("\n\n") } else { text };
        (path, text)
    });
    let registry = registry_of(files.collect());
    let build = |build: &&envlock::model::cited::Cited<Build>| {
        build.version.to_string() == "2.9.1" && build.variant == "cu128"
    };
    let build = registry.builds().iter().find(build).unwrap();
    let envelope = envlock::compatibility::envelope_of(&registry, build);
    assert_eq!(envelope.driver.unwrap().to_string(), "570.26");
    assert!(envelope.coverage.iter().all(|row| row.driver_min.as_ref().unwrap().major() >= 570));
}
