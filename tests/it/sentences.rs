//! What a conflict, a plan and an answer say: true, and about what was asked.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{little_pypi, wheel};

const NONE: [&str; 2] = ["--gpu", "none"];

fn context(wheels: Vec<super::wheels::Wheel>) -> (IndexServer, TestContext) {
    let mut all = little_pypi();
    all.extend(wheels.into_iter().map(|made| ("pypi", made)));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    (server, context)
}

/// Of several Pythons, the one that what is asked has wheels for is told about: on the others other facts stand in the way, and the
/// other package is no part of them.
#[test]
fn who_stands_against_what_is_named() {
    let mut wheels = Vec::new();
    for version in ["1.0", "1.1"] {
        wheels.push(wheel("array", version).tags("cp311-cp311-manylinux_2_17_x86_64"));
    }
    // One that exists only as source is for every Python, and none of it is installed here.
    wheels.push(wheel("array", "0.9").source("from setuptools import setup\nsetup()\n"));
    wheels.push(wheel("array", "2.0").tags("cp313-cp313-manylinux_2_17_x86_64"));
    wheels.push(wheel("frame", "3.0").needs("array>=1.5; python_version < '3.12'"));
    wheels.push(wheel("frame", "2.0").needs("array"));
    let (_server, context) = context(wheels);
    let run =
        context.run(&[&["resolve", "array<1.9", "frame>=3", "--no-sources"], &NONE[..]].concat()).expect(1);
    for expected in ["frame 3.0 needs array", "you require array<1.9", "you require frame>=3", "frame <3"] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    assert_eq!(run.flat().matches("you require array<1.9").count(), 1, "{}", run.shown());
}

/// A range would say that the version is in it, and a bound that nothing meets is the reason itself.
#[test]
fn releases_that_do_not_exist() {
    let wheels = ["1.0", "1.2", "2.0"].map(|version| wheel("demo", version)).to_vec();
    let (_server, context) = context([wheels, vec![wheel("user", "1").needs("demo")]].concat());
    let run = context.run(&[&["resolve", "demo==1.1"], &NONE[..]].concat()).expect(1);
    assert!(
        run.flat().contains("available versions of demo: 1.0 to 2.0; next to 1.1 are 1.0 and 1.2"),
        "{}",
        run.shown()
    );
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = [\"user\"]\nconstraints = [\"demo==1.1\"]\n",
    );
    let run = context.run(&[&["resolve"], &NONE[..]].concat()).expect(1);
    for expected in ["available versions of demo: 1.0 to 2.0", "you constrain demo to ==1.1"] {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
}

/// One that seems to have done it is worse than an error.
#[test]
fn upgrades_of_what_is_not_there() {
    let (_server, context) = context(vec![wheel("demo", "1.0")]);
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"demo\"]\n");
    context.run(&[&["resolve"], &NONE[..]].concat()).expect(0);
    for (arguments, expected) in [
        (&["resolve", "--upgrade=nosuch"][..], "the lock has no package `nosuch`"),
        (&["resolve", "--upgrade=demo==1.0"], "`envlock add demo==1.0` asks for a version"),
        (&["resolve", "--upgrade=demo,other,third"], "`--upgrade=demo --upgrade=other --upgrade=third`"),
        (&["resolve", "--upgrade", "demo"], "`envlock resolve --upgrade=demo`"),
    ] {
        let run = context.run(arguments).expect(2);
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    context.run(&["resolve", "--upgrade=demo"]).expect(0);
}

/// The cutoff of the manifest moves with what is added: with the old one, it would be refused the next time.
#[test]
fn a_later_cutoff_is_kept() {
    let (old, new) = ("2024-05-01T10:00:00Z", "2025-05-01T10:00:00Z");
    let (_server, context) =
        context(vec![wheel("demo", "1.0").uploaded(old), wheel("late", "1.0").uploaded(new)]);
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\ndependencies = [\"demo\"]\n\n[resolve]\nexclude-newer = \"2024-12-31\" # then\n",
    );
    context.run(&[&["resolve"], &NONE[..]].concat()).expect(0);
    let run = context.run(&["add", "late"]).expect(1);
    assert!(run.flat().contains("late 1.0 was uploaded later"), "{}", run.shown());
    assert!(run.flat().contains("on 2025-05-01"), "{}", run.shown());
    context.run(&["add", "late", "--exclude-newer", "2025-06-01"]).expect(0);
    assert!(context.read("envlock.toml").contains("exclude-newer = \"2025-06-01\" # then"));
    context.run(&["resolve", "--locked"]).expect(0);
    let run = context.run(&["why", "--not", "late==1.0"]).expect(1);
    assert!(run.flat().contains("it is what the lock has"), "{}", run.shown());
}

/// A target that is new keeps to the versions of the others.
#[test]
fn a_new_target_has_the_versions_of_the_others() {
    let (_server, context) = context(vec![wheel("demo", "1.0")]);
    let manifest = "[project]\nname = \"x\"\ndependencies = [\"demo\"]\n\n[target.a]\ngpus = [\"none\"]\n\n[target.b]\ngpus = [\"none\"]\nglibc = \"2.28\"\n";
    context.write("envlock.toml", manifest);
    context.run(&["resolve"]).expect(0);
    let mut all = little_pypi();
    all.extend([("pypi", wheel("demo", "1.0")), ("pypi", wheel("demo", "2.0"))]);
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut later = TestContext::with_index(&server);
    later.write("envlock.toml", &format!("{manifest}\n[target.c]\ngpus = [\"none\"]\nglibc = \"2.35\"\n"));
    later.write("envlock.lock", &context.read("envlock.lock"));
    later.set("ENVLOCK_CACHE_DIR", &later.dir.path().join("cache").display().to_string());
    let run = later.run(&["resolve"]).expect(0);
    assert!(!later.read("envlock.lock").contains("demo-2.0"), "{}", run.shown());
}

/// Which code a build has is not known; that it has no wheel for a Python is.
#[test]
fn what_is_not_known_of_a_build_decides_only_where_it_could_be_installed() {
    let context = TestContext::new().with_shipped_registry();
    let machine = ["--gpu", "9.0", "--driver", "580.65.06", "--platform", "linux-aarch64"];
    let asked = ["resolve", "torch==2.9.1", "--variant", "cu126", "--stack-only", "--dry-run", "--python"];
    for (python, code) in [("3.12", 3), ("3.9", 1)] {
        let run = context.run(&[&asked[..], &[python], &machine[..]].concat()).expect(code);
        assert_eq!(run.flat().contains("does not say which GPUs"), code == 3, "{}", run.shown());
    }
}

/// Python decides before what is not known of a build's code.
#[test]
fn a_plan_names_the_python_that_a_build_has_no_wheel_for() {
    let context = TestContext::new().with_shipped_registry();
    let machine = ["--gpu", "H100", "--driver", "580.65.06", "--python", "3.7"];
    let run =
        context.run(&[&["plan", "torch==2.15.0", "--variant", "cu130"], &machine[..]].concat()).expect(1);
    assert!(run.flat().contains("has no wheel for Python 3.7: cu130 of 2.15.0"), "{}", run.shown());
}

/// Of a GPU that no row is about, each command says the same: not known.
#[test]
fn a_new_gpu_is_neither_a_yes_nor_a_no() {
    let (_server, context) = context(vec![wheel("demo", "1.0")]);
    let context = context.with_shipped_registry();
    let host = "schema = 1\n[driver]\nversion = \"620.70.06\"\n[[gpu]]\nname = \"NVIDIA X109\"\n\
                compute_capability = \"10.9\"\n[system]\nos = \"linux\"\narch = \"x86_64\"\nglibc = \"2.35\"\n";
    context.write("x109.toml", host);
    context.run(&["resolve", "torch", "--stack-only", "--gpu", "H100", "--driver", "580.65.06"]).expect(0);
    let image = "pytorch/pytorch:2.14.0-cuda13.0-cudnn9-runtime";
    for asked in [
        &["plan"][..],
        &["plan", "torch==2.15.0"],
        &["plan", "--image", image],
        &["plan", "--lock", "envlock.lock"],
        &["verify"],
        &["resolve", "torch", "--stack-only", "--dry-run"],
        &["resolve", "torch==2.9.1", "--stack-only", "--dry-run"],
        &["resolve", "tensorflow[and-cuda]==2.20.0", "--stack-only", "--dry-run"],
        &["resolve", "jax[cuda12]", "--stack-only", "--dry-run"],
    ] {
        let run = context.run(&[asked, &["--host", "x109.toml"]].concat()).expect(3);
        let text = run.flat();
        assert!(
            text.contains("10.9 are not in envlock's data") || text.contains("nothing is known of a GPU"),
            "{}",
            run.shown()
        );
    }
    // Of one that names no compute capability as little is known.
    context.write("r200.toml", &host.replace("compute_capability = \"10.9\"\n", "").replace("X109", "R200"));
    for asked in
        [&["plan", "torch==2.15.0"][..], &["resolve", "torch", "--stack-only", "--dry-run"], &["verify"]]
    {
        context.run(&[asked, &["--host", "r200.toml"]].concat()).expect(3);
    }
    // What uses no GPU does not ask for one; CUDA that is too old for it is a no.
    context.run(&["resolve", "demo", "--dry-run", "--host", "x109.toml"]).expect(0);
    let by_name = ["--gpu", "10.9", "--driver", "620"];
    context.run(&[&["plan", "torch==2.15.0"], &by_name[..]].concat()).expect(3);
    let typo = context.run(&["plan", "torch", "--gpu", "8.4"]).expect(2);
    assert!(typo.flat().contains("no GPU of compute capability `8.4` is known"), "{}", typo.shown());
}

/// A torch that was read beside a companion that was not.
#[test]
fn a_companion_that_nobody_read_does_not_make_a_torch_impossible() {
    let (_server, context) = context(Vec::new());
    let context = context.with_shipped_registry();
    let machine = ["--gpu", "H100", "--driver", "580.65.06"];
    context.run(&[&["resolve", "torch", "torchvision", "--stack-only"], &machine[..]].concat()).expect(0);
    let registry = context.dir.path().join("newer");
    super::update::copy(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("registry").as_path(),
        &registry,
    );
    let newest = registry.join("torch/2.15.toml");
    let text = std::fs::read_to_string(&newest).unwrap();
    let row =
        text.split("\n\n").find(|row| row.contains("variant = \"cu132\"") && row.contains("linux-x86_64"));
    let companions = |line: &&str| !line.starts_with("torchvision") && !line.starts_with("torchaudio");
    let row = row.unwrap().replace("2.15.0", "2.16.0");
    let row: Vec<&str> = row.lines().filter(companions).collect();
    let head = text.split("\n\n").next().unwrap();
    std::fs::write(registry.join("torch/2.16.toml"), format!("{head}\n\n{}\n", row.join("\n"))).unwrap();
    // Nor a row of a torchvision that takes any torch.
    let companions = registry.join("companions.toml");
    let text = std::fs::read_to_string(&companions).unwrap();
    let is_bound = |row: &&str| !row.contains("torch = \">=2.14.0\"");
    let rows: Vec<&str> = text.split("\n\n").filter(is_bound).collect();
    std::fs::write(&companions, rows.join("\n\n")).unwrap();
    let with = ["--registry", registry.to_str().unwrap()];
    for asked in [
        &["why", "--not", "torch==2.16.0"][..],
        &[
            "resolve",
            "torch==2.16.0",
            "torchvision",
            "--stack-only",
            "--dry-run",
            "--gpu",
            "H100",
            "--driver",
            "580.65.06",
        ],
    ] {
        let run = context.run(&[asked, &with].concat()).expect(3);
        assert!(
            run.flat().contains("has no row of torchvision for torch 2.16.0, which may exist"),
            "{}",
            run.shown()
        );
    }
}

/// Pins of releases and packages that the data does not have are no yes, with or without a GPU.
#[test]
fn pins_that_nobody_knows_are_not_known_to_run() {
    let context = TestContext::new().with_shipped_registry();
    let old_driver = ["--gpu", "H100", "--driver", "400.10"];
    let driver = ["--gpu", "H100", "--driver", "580.65.06"];
    for (pins, machine, code) in [
        ("torchvision==0.29.2", &old_driver[..], 3),
        ("vllm==0.11.0", &driver, 3),
        ("torch==2.99.0+cu130", &["--gpu", "none"], 3),
        ("tensorflow==2.99.0", &["--gpu", "none"], 3),
        ("torch==2.15.0\nnvidia-cuda-runtime==19.2.1", &driver, 1),
        ("jax==3.0.0", &driver, 3),
        ("requests==2.32.0", &driver, 0),
    ] {
        context.write("requirements.txt", &format!("{pins}\n"));
        let asked = ["plan", "--lock", "requirements.txt", "--python", "3.13"];
        context.run(&[&asked[..], machine].concat()).expect(code);
    }
}

#[test]
fn a_plan_is_of_the_builds_that_are_named() {
    let context = TestContext::new().with_shipped_registry();
    let machine = ["--gpu", "3090", "--driver", "535.129.03"];
    let plan = |spec: &str| context.run(&[&["plan", spec], &machine[..]].concat());
    let run = plan("torch==1.13.1+cu118");
    assert!(
        run.flat()
            .contains("the registry has no row of torch 1.13.1 cu118 for linux-x86_64, which may exist"),
        "{}",
        run.shown()
    );
    let run = plan("torch==1.13.1+cu117");
    // The product, not an engineering sample of it.
    assert!(run.flat().contains("host NVIDIA GeForce RTX 3090 (8.6)"), "{}", run.shown());
    assert!(run.flat().contains("1.13.1 cu117") && !run.flat().contains("cu116"), "{}", run.shown());
    // The smallest step stands there without an upper bound too.
    let run = context
        .run(&["plan", "torch>=1.13.1", "--gpu", "H100", "--gpu", "RTX 3090", "--driver", "535.129.03"])
        .expect(0);
    let last = run.stdout.lines().rfind(|line| line.contains("cu118")).unwrap_or_default();
    assert!(last.trim_start().starts_with("2.0.0"), "{}", run.shown());
    assert!(run.flat().contains("the oldest version:"), "{}", run.shown());
}

/// Each variant has a cuDNN of its own, and CUDA releases that no build is for are said.
#[test]
fn facts_of_builds_name_the_builds() {
    let context = TestContext::new().with_shipped_registry();
    context
        .write("envlock.toml", "[project]\nname = \"x\"\n\n[stack]\ntorch = \">=2.8\"\ncudnn = \">=9.11\"\n");
    let machine = ["resolve", "--stack-only", "--dry-run", "--gpu", "H100", "--driver", "535.129.03"];
    let run = context.run(&machine).expect(1);
    assert!(run.flat().contains("as cu126 are built with cuDNN 9.10.2.21"), "{}", run.shown());
    context.write("envlock.toml", "[project]\nname = \"x\"\n\n[stack]\ntorch = \"*\"\n");
    let run = context.run(&[&machine[..], &["--cuda", "12.5"]].concat()).expect(1);
    assert!(run.flat().contains("the builds of torch for linux-x86_64 are for CUDA"), "{}", run.shown());
    // It is the GPU that needs a newer driver.
    let run = context
        .run(&["resolve", "--stack-only", "--dry-run", "--gpu", "B200", "--driver", "535.129.03"])
        .expect(1);
    assert!(run.flat().contains("runs on NVIDIA B200 (10.0) with driver 535.129.03"), "{}", run.shown());
}

/// Changes are solved for the target that they are told for.
#[test]
fn ways_out_of_several_targets_name_theirs() {
    let context = TestContext::new().with_shipped_registry();
    context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\n\n[stack]\ntorch = \"==2.0.1\"\n\n[target.new]\ngpus = [\"B200\"]\ndriver = \"580.65.06\"\n\n[target.old]\ngpus = [\"RTX 3090\"]\ndriver = \"535.129.03\"\n",
    );
    let run = context.run(&["resolve", "--stack-only", "--dry-run"]).expect(1);
    assert!(
        run.flat().contains("each of them solved for target `new`; the command asks for every target:"),
        "{}",
        run.shown()
    );
}

#[test]
fn a_variant_that_a_release_does_not_have_is_no_fault_of_python() {
    let context = TestContext::new().with_shipped_registry();
    context.write(
        "pip.log",
        "$ pip install torch==2.4.0 --index-url https://download.pytorch.org/whl/cu126\n\
         ERROR: Could not find a version that satisfies the requirement torch==2.4.0 (from versions: 2.6.0+cu126)\n\
         ERROR: No matching distribution found for torch==2.4.0\n",
    );
    let run = context.run(&["diagnose", "pip.log", "--json"]).expect(1).json();
    assert_eq!(run["causes"][0]["code"], "no-such-build", "{run:#}");
}

/// The command that writes an export anew names the target that it was made for.
#[test]
fn an_export_of_a_target_stays_one() {
    let (_server, context) = context(["1.0", "1.1"].map(|version| wheel("demo", version)).to_vec());
    let manifest = |demo: &str| {
        format!(
            "[project]\nname = \"x\"\ndependencies = [\"{demo}\"]\n\n[target.a]\ngpus = [\"none\"]\n\n[target.b]\ngpus = [\"none\"]\nglibc = \"2.35\"\n"
        )
    };
    context.write("envlock.toml", &manifest("demo"));
    context.run(&["resolve"]).expect(0);
    context.run(&["export", "requirements.txt", "--target", "b", "-o", "requirements.txt"]).expect(0);
    assert!(context.read("requirements.txt").contains("# Exported with --target b\n"));
    context.write("envlock.toml", &manifest("demo<1.1"));
    let run = context.run(&["resolve"]).expect(0);
    let command = "`envlock export requirements.txt --target b -o requirements.txt`";
    assert!(run.flat().contains(command), "{}", run.shown());
    assert!(context.run(&["resolve", "--locked"]).expect(1).flat().contains(command));
}

/// torchvision for the installed torch comes from the index that has its build for the same CUDA.
#[test]
fn a_companion_comes_from_the_index_of_its_torch() {
    let context = TestContext::new().with_shipped_registry();
    context.write(
        "env.txt",
        "PyTorch version: 2.7.1+cu118\n[pip3] torch==2.7.1+cu118\n[pip3] torchvision==0.21.0+cu118\n",
    );
    let run = context.run(&["diagnose", "env.txt"]).expect(1);
    assert!(run.flat().contains("pip install torchvision==0.22.1 --index-url"), "{}", run.shown());
    assert!(run.flat().contains("/cu118"), "{}", run.shown());
}

/// `--only-index` opens no other index, not even to solve a way out.
#[test]
fn a_way_out_opens_no_index() {
    let (server, context) = context(vec![wheel("demo", "1.0")]);
    let context = context.with_shipped_registry();
    let options = ["--gpu", "P100", "--driver", "580.65.06", "--only-index", "pypi"];
    // The command of the way out is not run: it does open one.
    let output = context.command().args(["resolve", "torch>=2.8", "demo"]).args(options).output().unwrap();
    let run = context.finish(output).expect(1);
    assert!(run.flat().contains("allow the pytorch index"), "{}", run.shown());
    let asked = server.paths();
    assert!(!asked.iter().any(|path| path.starts_with("/whl")), "{asked:?}");
}

/// A wheel for one Python beside one for all does not hold the lock to its Python.
#[test]
fn who_holds_the_python() {
    let of_one = |name: &str| wheel(name, "1.0").tags("cp312-cp312-manylinux_2_17_x86_64");
    let (_server, context) = context(vec![of_one("both"), wheel("both", "1.0"), of_one("one")]);
    context.run(&[&["resolve", "both", "one", "--python", "3.12"], &NONE[..]].concat()).expect(0);
    let run = context.run(&["why", "python"]).expect(0);
    assert!(
        run.flat().contains("the locked wheels of one 1.0, which are for Python 3.12 alone"),
        "{}",
        run.shown()
    );
}
