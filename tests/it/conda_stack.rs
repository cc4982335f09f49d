//! `source = "conda-forge"` under `[stack]`: builds of torch from the real records of conda-forge, chosen for the machine.

use std::path::Path;

use super::channels::{Channels, World, installable, installed, world, world_with};
use super::context::{IndexServer, Run, Shape, TestContext};
use super::tools;
use super::wheels::wheel;

const H100: &[&str] = &["--gpu", "H100", "--driver", "580.65.06"];
const V100: &[&str] = &["--gpu", "V100", "--driver", "535.129.03"];

/// The rows of conda-forge's builds are those that the program ships.
fn shipped() -> World {
    let mut world = world();
    world.context.shipped_registry = true;
    world
}

fn manifest(world: &World, dependencies: &str, stack: &str, conda: &str) {
    let text = format!(
        "[project]\nname = \"x\"\ndependencies = [{dependencies}]\n[stack]\nsource = \"conda-forge\"\n{stack}\n[conda]\n{conda}\n"
    );
    world.context.write("envlock.toml", &text);
}

fn resolve(world: &World, host: &[&str]) -> Run {
    // What an earlier lock holds would be kept.
    let _ = std::fs::remove_file(world.context.project().join("envlock.lock"));
    world.context.run(&[&["resolve", "--only-index", "pypi,conda-forge", "--force"], host].concat())
}

/// What a lock says of the stack: version, variant, cuDNN.
fn stack(world: &World) -> (String, String, Option<String>) {
    let lock: toml::Table = world.context.read("envlock.lock").parse().unwrap();
    let stack = &lock["target"][0]["stack"];
    let text = |key: &str| stack.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    assert_eq!(text("index").as_deref(), Some("conda-forge"));
    (text("torch").unwrap(), text("variant").unwrap(), text("cudnn"))
}

#[test]
fn the_build_is_chosen_for_the_machine() {
    let world = shipped();
    let context = &world.context;
    manifest(&world, "\"tqdm\"", "torch = \"*\"", "");
    let cases: [(&[&str], &str, &str, Option<&str>); 3] = [
        (H100, "2.9.1", "cu129", Some("9.13.1.26")),
        // cuDNN 9.11 and newer have no code for Volta, and conda's own bounds admit them.
        (V100, "2.9.1", "cu129", Some("9.10.2.21")),
        (&["--gpu", "none"], "2.10.0", "cpu", None),
    ];
    for (host, torch, variant, cudnn) in cases {
        let run = resolve(&world, host).expect(0);
        let expected = (torch.to_owned(), variant.to_owned(), cudnn.map(str::to_owned));
        assert_eq!(stack(&world), expected, "{}", run.shown());
        let shown = run.flat();
        assert!(shown.contains(&format!("torch {torch}+{variant} from conda-forge")), "{}", run.shown());
        let lock = context.read("envlock.lock");
        assert!(!lock.contains("\nname = \"torch\""), "conda has it: {lock}");
        assert!(lock.contains("\nname = \"pytorch\""), "{lock}");
        context.run(&["resolve", "--locked"]).expect(0);
        // A run without options changes nothing.
        context.run(&["resolve"]).expect(0);
        assert_eq!(context.read("envlock.lock"), lock);
    }
}

/// PyPI's builds have no code for Pascal; conda-forge's have. It is solved like any other way out, and does what it says.
#[test]
fn a_gpu_that_pypi_dropped_has_a_way_out() {
    let torch = wheel("torch", "2.9.1").tags("cp313-cp313-manylinux_2_28_x86_64");
    let index = IndexServer::start(
        vec![("pypi", torch), ("pypi", wheel("tqdm", "4.0"))],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let channels = Channels::start(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda"));
    let mut context = TestContext::with_index(&index).with_shipped_registry();
    let manifest =
        |stack: &str| format!("[project]\nname = \"x\"\ndependencies = [\"tqdm\"]\n[stack]\n{stack}\n");
    let p100: &[&str] = &["--gpu", "P100", "--driver", "535.129.03", "--glibc", "2.35"];
    let resolve = |context: &TestContext, options: &[&str], code: i32| {
        context.run(&[&["resolve"], p100, options].concat()).expect(code)
    };
    context.write("envlock.toml", &manifest("torch = \">=2.8\""));
    // Without an answer of the channel, and where one index is asked for, what the registry knows is a hint.
    let of_registry = "for CUDA 12.9 runs on these GPUs: `source";
    let run = resolve(&context, &[], 1);
    assert!(run.flat().contains(of_registry), "{}", run.shown());
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    let run = resolve(&context, &["--only-index", "pypi"], 1);
    assert!(run.flat().contains(of_registry) && !run.flat().contains("source = \"conda-forge\" torch"));

    let run = resolve(&context, &[], 1);
    for expected in [
        "no torch>=2.8 runs on Tesla P100 (6.0)",
        "source = \"conda-forge\" torch 2.9.1 cu129",
        "hint: `source = \"conda-forge\"` belongs under `[stack]` of the manifest",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    let ways = resolve(&context, &["--json"], 1).json()["conflict"]["would_work_if"].clone();
    let way =
        ways.as_array().unwrap().iter().find(|way| way["change"] == "source = \"conda-forge\"").unwrap();
    assert_eq!((&way["stack"]["torch"], &way["stack"]["cuda"]), (&"2.9.1".into(), &"12.9".into()), "{way}");
    context.write("envlock.toml", &manifest("torch = \">=2.8\"\nsource = \"conda-forge\""));
    let run = resolve(&context, &[], 0);
    assert!(run.flat().contains("torch 2.9.1+cu129 from conda-forge"), "{}", run.shown());

    // Nothing is offered that has no solution, and with several machines it is one target's.
    context.write("envlock.toml", &manifest("torch = \">=2.11\""));
    let run = resolve(&context, &["--force"], 1);
    assert!(!run.flat().contains("conda-forge"), "{}", run.shown());
    let targets = "[target.new]\ngpus = [\"H100\"]\ndriver = \"580.65.06\"\nglibc = \"2.35\"\n[target.old]\ngpus = [\"P100\"]\ndriver = \"535.129.03\"\nglibc = \"2.35\"";
    context.write("envlock.toml", &manifest(&format!("torch = \">=2.8\"\n{targets}")));
    let run = context.run(&["resolve", "--force"]).expect(1);
    assert!(run.flat().contains("belongs under `[target.old]` of the manifest"), "{}", run.shown());
    context
        .write("envlock.toml", &manifest(&format!("torch = \">=2.8\"\n{targets}\nsource = \"conda-forge\"")));
    context.run(&["resolve", "--force"]).expect(0);
}

#[test]
fn a_driver_that_is_too_old_is_at_fault() {
    let world = shipped();
    manifest(&world, "", "torch = \"*\"", "");
    let run = resolve(&world, &["--gpu", "A100", "--driver", "470.129.06"]).expect(1);
    for expected in [
        "no torch of conda-forge runs on driver 470.129.06",
        "CUDA 12 needs driver >= 525.60.13",
        "torch 2.10.0 has only CPU builds",
        "driver >= 525.60.13 torch 2.9.1 cu129",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    assert!(!run.flat().contains("envlock plan"), "it is about PyPI's builds: {}", run.shown());
}

/// Every cause is told with what removes it, whichever half it is of, and what removes all of them.
#[test]
fn causes_of_both_halves() {
    let world = shipped();
    let conda = "dependencies = [\"numpy<2\", \"libjpeg-turbo>99\"]";
    manifest(&world, "\"tqdm>99\"", "torch = \"*\"", conda);
    let run = resolve(&world, &["--gpu", "A100", "--driver", "470.129.06"]).expect(1);
    for expected in [
        "no torch of conda-forge runs on driver 470.129.06",
        "rest out of the way: driver >= 525.60.13 torch 2.9.1 cu129",
        "conda-forge has libjpeg-turbo 3.1.0, 3.1.2, 3.1.4.1",
        "rest out of the way: libjpeg-turbo 3.1.4.1",
        "conda-forge has numpy 2.3.4, 2.3.5, 2.4.6",
        "you require tqdm>99",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    assert!(run.flat().contains("each removes every cause"), "{}", run.shown());
    assert!(!run.stdout.contains("is the build that was chosen"), "{}", run.shown());
    // What the last line says is true.
    manifest(&world, "\"tqdm\"", "torch = \"*\"", "dependencies = [\"numpy\", \"libjpeg-turbo\"]");
    resolve(&world, &["--gpu", "A100", "--driver", "525.60.13"]).expect(0);
}

/// The glibc that is needed is that of both halves together, and the channel's records state it.
#[test]
fn a_glibc_that_is_too_old_is_at_fault() {
    let world = shipped();
    manifest(&world, "", "torch = \"*\"", "");
    let run = world
        .context
        .run(&["resolve", "--gpu", "H100", "--driver", "580.65.06", "--glibc", "2.12"])
        .expect(1);
    for expected in [
        "need glibc >= 2.17 [the records of the channel]",
        "the machine has glibc 2.12",
        "glibc >= 2.28 torch 2.9.1 cu129",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    assert!(!run.flat().contains("wheel tags"), "{}", run.shown());
    let fits = &["resolve", "--gpu", "H100", "--driver", "580.65.06", "--glibc", "2.28"];
    world.context.run(fits).expect(0);
    // What the lock has is conda's, and no wheel of PyPI.
    for (part, expected) in [
        ("glibc", "requires __glibc >=2.28,<3.0.a0"),
        ("cudnn", "provided by libcudnn 9.13.1.26 of conda-forge"),
        ("nccl", "libtorch 2.9.1 requires nccl >=2.28"),
        ("cuda", "provided by cuda-cudart 12.9.79 of conda-forge"),
    ] {
        let run = world.context.run(&["why", part]).expect(0);
        assert!(run.flat().contains(expected) && !run.stdout.contains("wheel of"), "{}", run.shown());
    }
}

/// A way out holds for both halves: numpy is the one that conda installs, not the newest of PyPI.
#[test]
fn ways_out_are_solved_over_both_halves() {
    let world = shipped();
    manifest(&world, "\"numpy<1\"", "torch = \"*\"", "dependencies = [\"matplotlib-base\"]");
    let without_gpu = &["--gpu", "none"];
    let run = resolve(&world, without_gpu).expect(1);
    assert!(run.flat().contains("numpy 2.4.6 torch 2.10.0 cpu"), "{}", run.shown());
    assert!(!run.flat().contains("numpy 2.3.5"), "{}", run.shown());
    manifest(&world, "\"numpy==2.4.6\"", "torch = \"*\"", "dependencies = [\"matplotlib-base\"]");
    resolve(&world, without_gpu).expect(0);
    // PyPI's half alone has an answer for this machine without the bound, and conda's half has none: its builds are for
    // other Pythons.
    manifest(&world, "\"numpy<1\"", "torch = \"*\"", "dependencies = [\"matplotlib-base\"]");
    let run = resolve(&world, V100).expect(1);
    for expected in [
        "matplotlib-base 3.10.9 needs python >=3.14,<3.15.0a0",
        "pytorch 2.9.1 needs python >=3.13,<3.14.0a0",
        "each of them solved: numpy 2.3.5 and without matplotlib-base torch 2.9.1 cu129",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    // torch has no part in a conflict about something else.
    manifest(&world, "\"tqdm>99\"", "", "");
    let run = resolve(&world, without_gpu).expect(1);
    assert!(run.flat().contains("you require tqdm>99"), "{}", run.shown());
    assert!(!run.flat().contains("torch"), "{}", run.shown());
}

#[test]
fn a_limit_that_no_record_meets_is_a_way_out() {
    let world = shipped();
    manifest(&world, "", "torch = \"*\"\ncudnn = \"<9.5\"", "");
    let run = resolve(&world, H100).expect(1);
    for expected in
        ["is excluded by `cudnn <9.5`", "you require cuDNN <9.5", "without cudnn <9.5 torch 2.9.1 cu129"]
    {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
}

/// Builds whose GPU code is not in the registry are not chosen, and it is said why.
#[test]
fn builds_of_which_nothing_is_known() {
    let world = world();
    manifest(&world, "", "torch = \"*\"", "");
    let run = resolve(&world, H100).expect(1);
    for expected in [
        "no build of torch in the channels is known to run on this machine",
        "which GPUs the builds for CUDA of pytorch 2.9.1 and another version in conda-forge run on",
    ] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
}

/// A package of PyPI decides which torch is taken, a match spec which build.
#[test]
fn both_halves_decide_the_build() {
    let world = shipped();
    let context = &world.context;
    manifest(&world, "\"trainer\"", "torch = \"*\"", "");
    resolve(&world, H100).expect(0);
    assert_eq!(stack(&world).0, "2.7.1");
    // A spec of the stack is a request for torch.
    manifest(&world, "", "", "dependencies = [\"pytorch=*=cuda*\", \"python\", \"torchvision\"]");
    let run = resolve(&world, V100).expect(0);
    assert_eq!(stack(&world).1, "cu129", "{}", run.shown());
    assert!(run.flat().contains("torchvision 0.24.1 from conda-forge"), "{}", run.shown());
    // The CPU build is one that is asked for.
    manifest(&world, "", "", "dependencies = [\"pytorch=*=cpu*\", \"python\"]");
    resolve(&world, H100).expect(0);
    assert_eq!((stack(&world).0.as_str(), stack(&world).1.as_str()), ("2.10.0", "cpu"));
    manifest(&world, "", "", "dependencies = [\"pytorch=*=cuda*\", \"python\", \"torchvision\"]");
    // conda installs no build for CUDA where there is no GPU.
    let run = resolve(&world, &["--gpu", "none"]).expect(1);
    for expected in ["you require pytorch=*=cuda*", "without pytorch=*=cuda*"] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    manifest(&world, "", "cudnn = \"<9.13\"", "dependencies = [\"pytorch\"]");
    resolve(&world, H100).expect(0);
    assert_eq!(stack(&world).2.as_deref(), Some("9.10.2.21"));
    context.run(&["resolve", "--locked"]).expect(0);
    // What conda cannot install beside the build is told by conda's half.
    manifest(&world, "", "torch = \"*\"", "dependencies = [\"mkl >=2026\"]");
    let run = resolve(&world, H100).expect(1);
    assert!(run.flat().contains("mkl"), "{}", run.shown());
}

/// A target may have a source of its own.
#[test]
fn the_source_of_a_target() {
    let world = shipped();
    let context = &world.context;
    let targets = "[target.old]\ngpus = [\"V100\"]\ndriver = \"535.129.03\"\nsource = \"conda-forge\"\n[target.laptop]\ngpus = [\"none\"]\nsource = \"conda-forge\"\n[target.plain]\ngpus = [\"none\"]\n";
    let text =
        format!("[project]\nname = \"x\"\ndependencies = [\"tqdm\"]\n[stack]\ntorch = \"*\"\n{targets}");
    // Without a source of its own, the last one takes PyPI's, which has no torch here.
    context.write("envlock.toml", &text);
    let run = context.run(&["resolve", "--only-index", "pypi,conda-forge"]).expect(1);
    assert!(run.flat().contains("plain"), "{}", run.shown());
    context.write("envlock.toml", text.split("[target.plain]").next().unwrap());
    context.run(&["resolve", "--only-index", "pypi,conda-forge"]).expect(0);
    let lock: toml::Table = context.read("envlock.lock").parse().unwrap();
    let stack = |i: usize, key: &str| {
        lock["target"][i]["stack"].get(key).and_then(toml::Value::as_str).map(str::to_owned)
    };
    assert_eq!(
        (stack(0, "torch").as_deref(), stack(0, "cudnn").as_deref()),
        (Some("2.9.1"), Some("9.10.2.21"))
    );
    assert_eq!((stack(1, "torch").as_deref(), stack(1, "variant").as_deref()), (Some("2.10.0"), Some("cpu")));
    context.run(&["resolve", "--locked"]).expect(0);
    let changed = context.read("envlock.toml").replacen("source = \"conda-forge\"", "source = \"pypi\"", 1);
    context.write("envlock.toml", &changed);
    context.run(&["resolve", "--locked"]).expect(1);
    context.write("envlock.toml", &changed.replacen("source = \"pypi\"", "source = \"conda\"", 1));
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.flat().contains("`source` must be `pypi` or `conda-forge`"), "{}", run.shown());
}

/// conda compares names without regard to case.
#[test]
fn specs_in_upper_case() {
    let world = shipped();
    manifest(&world, "", "torch = \"*\"", "dependencies = [\"PyTorch =2.7\"]");
    resolve(&world, H100).expect(0);
    assert_eq!(stack(&world).0, "2.7.1");
}

/// The records of one target are not all that another one reaches.
#[test]
fn targets_of_both_sources_beside_conda_packages() {
    let torch = wheel("torch", "2.10.0").tags("cp313-cp313-manylinux_2_28_x86_64");
    let mut world = world_with(vec![("pypi", torch)]);
    world.context.shipped_registry = true;
    for order in [["new", "old"], ["old", "new"]] {
        let of = |name: &str| match name {
            "new" => "[target.new]\ngpus = [\"none\"]\n",
            _ => "[target.old]\ngpus = [\"V100\"]\ndriver = \"535.129.03\"\nsource = \"conda-forge\"\n",
        };
        let text = format!(
            "[project]\nname = \"x\"\ndependencies = [\"tqdm\"]\n[stack]\ntorch = \"*\"\n[conda]\ndependencies = [\"libjpeg-turbo\"]\n{}{}",
            of(order[0]),
            of(order[1])
        );
        world.context.write("envlock.toml", &text);
        let run = world.context.run(&["resolve", "--only-index", "pypi,conda-forge", "--force"]).expect(0);
        assert!(run.flat().contains("2.9.1+cu129"), "{order:?}: {}", run.shown());
    }
}

/// torch is not asked for: the channels have the rest, and `--stack-only` has nothing to say.
#[test]
fn without_torch() {
    let world = shipped();
    manifest(&world, "", "", "dependencies = [\"matplotlib-base\"]");
    let run = resolve(&world, H100).expect(0);
    assert!(run.flat().contains("matplotlib-base 3.10.9 from conda-forge"), "{}", run.shown());
    let run = resolve(&world, &[H100, &["--stack-only"]].concat()).expect(2);
    assert!(run.flat().contains("this stack comes from conda-forge"), "{}", run.shown());
    // A build is asked for as PyPI writes it.
    manifest(&world, "", "torch = \"==2.9.1+cu129\"", "");
    resolve(&world, H100).expect(0);
    world.context.run(&["resolve", "--locked"]).expect(0);
}

#[test]
fn tables_that_are_refused() {
    let world = shipped();
    let table = [
        ("source = \"conda\"", "", "`source` must be `pypi` or `conda-forge`"),
        ("source = 3", "", "`source` must be `pypi` or `conda-forge`"),
        ("source = \"conda-forge\"", "channels = [\"bioconda\"]", "does not name `conda-forge`"),
        ("source = \"conda-forge\"", "dependencies = [\"jaxlib\"]", "`jaxlib` belongs to jax"),
        ("source = \"pypi\"", "dependencies = [\"pytorch\"]", "`pytorch` belongs to the stack"),
    ];
    for (stack, conda, expected) in table {
        let text = format!("[stack]\n{stack}\n[conda]\n{conda}\n");
        world.context.write("envlock.toml", &text);
        let run = world.context.run(&["resolve", "--gpu", "none"]).expect(2);
        assert!(run.flat().contains(expected), "{}", run.shown());
    }
}

/// A lock whose stack is not that of its conda packages does not pass, although its checksum is right.
#[test]
fn a_forged_stack_does_not_pass() {
    let world = shipped();
    let context = &world.context;
    manifest(&world, "", "torch = \"*\"", "");
    resolve(&world, V100).expect(0);
    let text = context.read("envlock.lock");
    for (from, to, expected) in [
        ("cudnn = \"9.10.2.21\"", "cudnn = \"9.13.1.26\"", "cuDNN 9.13.1.26 with torch 2.9.1+cu129"),
        ("torch = \"2.9.1\"", "torch = \"2.9.0\"", "torch 2.9.0+cu129"),
        ("variant = \"cu129\"", "variant = \"cpu\"", "torch 2.9.1+cpu"),
        ("triton = \"triton==3.5.1\"", "triton = \"triton==3.6.1\"", "triton==3.6.1"),
        (
            "glibc = \"2.28\"",
            "glibc = \"2.17\"",
            "runs on glibc >= 2.17, but its packages need glibc >= 2.28",
        ),
        // What a record requires of another one.
        ("\"cuda-version >=12.9,<13\"", "\"cuda-version >=13.0,<14\"", "requires `cuda-version >=13.0,<14`"),
    ] {
        assert!(text.contains(from), "{text}");
        context.write("envlock.lock", &super::common::installed::with_checksum(&text.replacen(from, to, 1)));
        let run = context.run(&["resolve", "--locked"]).expect(1);
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
}

/// pixi's files say the same: its schema and py-rattler read them, and envlock judges the lock for other machines.
#[test]
fn pixi_files() {
    let world = shipped();
    let context = &world.context;
    manifest(&world, "\"tqdm\"", "torch = \"*\"", "");
    resolve(&world, H100).expect(0);
    context.run(&["export", "pixi", "-o", "pixi.toml"]).expect(0);
    context.run(&["export", "pixi.lock", "-o", "pixi.lock"]).expect(0);
    assert!(context.read("pixi.lock").lines().nth(1) == Some("version: 7"), "{}", context.read("pixi.lock"));
    let table: toml::Table = context.read("pixi.toml").parse().unwrap();
    let pytorch = &table["dependencies"]["pytorch"];
    assert_eq!(pytorch["build"].as_str(), Some("cuda129_mkl_py313_ha91d441_301"));
    assert_eq!(table["pypi-dependencies"]["tqdm"].as_str(), Some("==4.0"));
    for (machine, code) in [(H100, 0), (V100, 1), (&["--gpu", "A100", "--driver", "470.129.06"], 1)] {
        context.run(&[&["plan", "--lock", "pixi.lock"], machine].concat()).expect(code);
    }
    if let Some(program) = tools::check_jsonschema() {
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pixi/schema.json");
        let mut check = std::process::Command::new(program);
        check.arg("--schemafile").arg(schema).arg(context.project().join("pixi.toml"));
        let done = check.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
    let Some(python) = tools::python_with("rattler") else { return };
    let program = "import rattler, sys\nlock = rattler.LockFile.from_path(sys.argv[1]).default_environment()\nfor package in lock.packages(lock.platforms()[0]): print(package.name)";
    let mut read = std::process::Command::new(python);
    read.args(["-c", program]).arg(context.project().join("pixi.lock"));
    let done = read.output().unwrap();
    let names = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(names.lines().count() == 93, "{names}{}", String::from_utf8_lossy(&done.stderr));
    assert!(
        names.lines().any(|name| name == "pytorch") && names.lines().any(|name| name == "tqdm"),
        "{names}"
    );
}

/// torch by a real conda client, PyPI's package on top of it by `sync`, then `verify`: clean, until something is changed.
#[test]
#[cfg(target_os = "linux")]
fn torch_of_a_channel_is_installed_and_verified() {
    let Some(python) = tools::python_with("rattler") else { return };
    let Some(channels) = installable(python.as_os_str()) else { return };
    let trainer = wheel("trainer", "1.0").file("trainer.py", "\n").needs("torch>=2");
    let index =
        IndexServer::start(vec![("pypi", trainer)], Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    let manifest = "[project]\nname = \"x\"\ndependencies = [\"trainer\"]\n[stack]\ntorch = \"*\"\nsource = \"conda-forge\"\n";
    context.write("envlock.toml", manifest);
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi,conda-forge"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    let prefix = &installed(&context, python.as_os_str());
    let verify = |code: i32| context.run(&["verify", "--prefix", prefix, "--smoke", "off"]).expect(code);
    let run = verify(0);
    assert!(run.stdout.contains("5 as locked"), "{}", run.shown());
    // A second `sync` has nothing to do, and takes no torch from PyPI.
    let run = context.run(&["sync", "--prefix", prefix, "--smoke", "off"]).expect(0);
    assert!(!run.stderr.contains("torch"), "{}", run.shown());
    let lib = std::fs::read_dir(Path::new(prefix).join("lib")).unwrap().flatten();
    let site = lib.map(|entry| entry.path().join("site-packages")).find(|path| path.is_dir()).unwrap();
    // pip's torch over conda's, a module that is gone, a library that is gone, and a record that is gone.
    let info = site.join("torch-2.10.0.dist-info");
    std::fs::write(info.join("INSTALLER"), "pip\n").unwrap();
    assert!(verify(1).stdout.contains("mixed-installers"));
    std::fs::write(info.join("INSTALLER"), "conda\n").unwrap();
    for (path, expected) in [
        (site.join("torch.py"), "torch.py of torch is missing"),
        (Path::new(prefix).join("lib/libtorch_cpu.so"), "libtorch_cpu.so of libtorch is missing"),
        (Path::new(prefix).join("conda-meta/libtorch-2.10.0-cpu_generic_h0_100.json"), "libtorch"),
    ] {
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let run = verify(1);
        assert!(run.stdout.contains(expected), "{expected}: {}", run.shown());
        std::fs::write(&path, bytes).unwrap();
    }
    verify(0);
}
