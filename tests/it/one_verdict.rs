//! The same packages on the same machine get the same answer, whatever they are written in.

use std::path::PathBuf;

use super::context::{Run, TestContext};
use super::verify::{install, interpreter};
use super::wheels::{Wheel, wheel};

/// Whether pins run on a machine, and the codes of what was found, without the machine's.
fn plan(context: &TestContext, pins: &str, machine: &[&str]) -> (Run, Vec<String>) {
    context.write("requirements.txt", &pins.replace(' ', "\n"));
    let run = context.run(&[&["plan", "--lock", "requirements.txt", "--json"], machine].concat());
    let json = run.json();
    let findings = json["environments"][0]["findings"].as_array().unwrap().iter();
    let told = findings.filter(|found| found["severity"] != "info" || found["code"] == "not-judged");
    let codes = told.map(|found| found["code"].as_str().unwrap().to_owned()).collect();
    (run, codes)
}

#[test]
fn a_lock_is_held_against_torch_as_an_environment_is() {
    let context = TestContext::new().with_shipped_registry();
    let machine = ["--gpu", "A100", "--driver", "580.65.06"];
    for (pins, expected) in [
        ("torch==2.9.1 torchvision==0.24.1", &[][..]),
        ("torch==2.14.0+cu130 torchvision==0.28.0+cu129", &["broken-requirement", "known-incompatible"]),
        ("torch==2.14.1 torchvision==0.15.2", &["broken-requirement"]),
        ("torch==2.14.1 xformers==0.0.26.post1", &["broken-requirement"]),
        ("torch==2.14.1 vllm==0.6.0", &["broken-requirement"]),
        ("torch==2.9.1+cu128 flash-attn==2.8.3+cu12torch2.8cxx11abiTRUE", &["broken-requirement"]),
        ("torch==2.6.0+cu126 natten==0.17.5+torch260cu126", &[]),
        ("torch==2.9.1+cu128 nvidia-cudnn-cu12==8.9.2.26", &["known-incompatible"]),
        ("torch==2.9.1+cu128 numpy==2.3.1", &[]),
        ("torch==2.6.0 triton==3.2.0 nvidia-nccl-cu12==2.21.5 nvidia-cudnn-cu12==9.1.0.70", &[]),
        ("torch==2.6.0 triton==3.3.0", &["broken-requirement"]),
        ("torch==2.6.0 nvidia-nccl-cu12==2.26.2", &["broken-requirement"]),
        ("torch==2.6.0 nvidia-cudnn-cu12==9.5.0.50", &["broken-requirement"]),
    ] {
        let (run, codes) = plan(&context, pins, &machine);
        assert_eq!(codes, expected, "{pins}: {}", run.shown());
        run.expect(if expected.is_empty() { 0 } else { 1 });
    }
    // What no row says is not known: a release with and without a GPU, the torch of a companion.
    let pair = "torch==2.9.1 torchvision==0.99.0";
    for (pins, machine) in [
        ("torch==99.0", &["--gpu", "none"][..]),
        ("torch==99.0", &machine),
        (pair, &machine),
        (pair, &["--gpu", "none"]),
    ] {
        let (run, codes) = plan(&context, pins, machine);
        let run = run.expect(3);
        assert!(!codes.is_empty() && codes.iter().all(|code| code == "not-judged"), "{}", run.shown());
    }
    // Another CUDA is a driver that has to run it.
    let beside = "torch==2.9.1+cu128 corp-kernels==1.4.0+cu130";
    let (run, codes) = plan(&context, beside, &machine);
    assert_eq!(codes, ["known-incompatible"], "{}", run.expect(0).shown());
    let (run, codes) = plan(&context, beside, &["--gpu", "A100", "--driver", "535.129.03"]);
    assert_eq!(codes, ["driver-too-old", "known-incompatible"], "{}", run.expect(1).shown());
    for (pins, code) in [("jax==0.6.0 jaxlib==0.4.30", 1), ("jax==0.6.0 jaxlib==0.6.0", 0)] {
        let (run, codes) = plan(&context, pins, &["--gpu", "none"]);
        assert_eq!(
            codes.contains(&"broken-requirement".to_owned()),
            code == 1,
            "{}",
            run.expect(code).shown()
        );
    }
    // What the code of a source distribution is for.
    for (gpu, code) in [("V100", 1), ("T4", 1), ("A100", 0)] {
        plan(&context, "torch==2.6.0+cu126 flash-attn==2.8.3", &["--gpu", gpu, "--driver", "580.65.06"])
            .0
            .expect(code);
    }
}

#[test]
fn what_is_not_known_is_unknown() {
    let context = TestContext::new().with_shipped_registry();
    let machine = ["--gpu", "A100", "--driver", "580.65.06"];
    for pins in [
        "torch==2.9.1+computecanada",
        // Pins alone may lack what extras require.
        "tensorflow[and-cuda]==2.19.0",
        "jax[cuda12]==0.6.0 jaxlib==0.6.0",
        // Nobody read its code.
        "torch==2.15.0+cu130",
    ] {
        let (run, codes) = plan(&context, pins, &machine);
        assert_eq!(codes, ["not-judged"], "{pins}: {}", run.shown());
        run.expect(3);
    }
    // The driver of its CUDA is known.
    plan(&context, "torch==2.15.0+cu130", &["--gpu", "A100", "--driver", "535.129.03"]).0.expect(1);
    let foo = "schema = 1\n[driver]\nversion = \"580.65.06\"\n[[gpu]]\nname = \"NVIDIA Foo 1\"\n";
    let host = context.write("foo.toml", foo).display().to_string();
    plan(&context, "torch==2.9.1", &["--host", &host]).0.expect(3);
    context.run(&["verify", "--lock", "requirements.txt", "--host", &host]).expect(3);
}

/// An environment of Python 3.11.7 with these packages.
fn environment(context: &TestContext, wheels: &[Wheel]) -> PathBuf {
    let prefix = context.dir.path().join("env");
    let site = prefix.join("lib/python3.11/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    std::fs::write(prefix.join("pyvenv.cfg"), "version = 3.11.7\n").unwrap();
    interpreter(&prefix);
    wheels.iter().for_each(|wheel| install(&site, wheel));
    prefix
}

fn module(name: &str, version: &str) -> Wheel {
    wheel(name, version).file(&format!("{}.py", name.replace('-', "_")), "x = 1\n")
}

#[test]
fn markers_of_a_lock_are_those_of_the_environments_patch_release() {
    let context = TestContext::new();
    let prefix = environment(&context, &[module("idna", "3.10")]).display().to_string();
    let lock = "idna==3.10 ; python_full_version < '3.11.8'\nidna==3.7 ; python_full_version >= '3.11.8'\nsix==1.17.0 ; python_full_version >= '3.11.8'\n";
    context.write("requirements.txt", lock);
    let verify = || context.run(&["verify", "--lock", "requirements.txt", "--prefix", &prefix]);
    verify().expect(0);
    std::fs::write(context.dir.path().join("env/pyvenv.cfg"), "version = 3.11.9\n").unwrap();
    let run = verify().expect(1);
    assert!(run.flat().contains("six 1.17.0 is not installed"), "{}", run.shown());
}

#[test]
fn a_lock_hides_no_requirement_that_is_not_met() {
    let context = TestContext::new().with_shipped_registry();
    let torchvision = module("torchvision", "0.19.0").needs("torch==2.4.0");
    let packages =
        [module("torch", "2.9.1"), torchvision, module("a", "1.0").needs("b>=2"), module("b", "1.0")];
    let prefix = environment(&context, &packages).display().to_string();
    let uv = |overrides: &str| {
        let package = |name: &str, version: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = {{ registry = \"https://index.example/simple\" }}\n"
            )
        };
        let own = "[[package]]\nname = \"own\"\nversion = \"0\"\nsource = { virtual = \".\" }\ndependencies = [{ name = \"torch\" }, { name = \"torchvision\" }, { name = \"a\" }, { name = \"b\" }]\n";
        let all = [("torch", "2.9.1"), ("torchvision", "0.19.0"), ("a", "1.0"), ("b", "1.0")];
        let all: String = all.iter().map(|(name, version)| package(name, version)).collect();
        context
            .write("uv.lock", &format!("version = 1\nrequires-python = \">=3.11\"\n{overrides}{own}{all}"));
        context.run(&["verify", "--lock", "uv.lock", "--prefix", &prefix, "--smoke", "off", "--json"])
    };
    let codes = |run: &Run| -> Vec<(String, String)> {
        let json = run.json();
        let told = json["findings"].as_array().unwrap().iter().filter(|found| found["severity"] != "info");
        let word = |found: &serde_json::Value, key: &str| found[key].as_str().unwrap().to_owned();
        told.map(|found| (word(found, "severity"), word(found, "message"))).collect()
    };
    let found = codes(&uv("").expect(1));
    let of = |severity: &str, text: &str| (severity.to_owned(), text.to_owned());
    // Another tool may have been told to replace a requirement; a torch that torchvision cannot load is no choice.
    let expected = [
        of("warning", "a needs b>=2, b 1.0 is installed"),
        of("error", "torchvision 0.19.0 needs torch==2.4.0, torch 2.9.1 is installed"),
    ];
    assert_eq!(found, expected);
    let overrides = "[manifest]\noverrides = [{ name = \"torch\", specifier = \"==2.9.1\" }, { name = \"b\", specifier = \"==1.0\" }]\n";
    assert_eq!(codes(&uv(overrides).expect(0)), []);
    for left_out in [
        "excludes = [\"b\"]\noverrides = [{ name = \"torch\" }]\n",
        "overrides = [{ name = \"torch\" }]\n[[manifest.dependency-metadata]]\nname = \"a\"\nrequires-dist = []\n",
    ] {
        let run = uv(&format!("[manifest]\n{left_out}")).expect(0);
        assert_eq!(codes(&run), [], "{}", run.shown());
    }
    // `plan` says the same of the lock alone.
    uv("");
    let machine = ["--gpu", "A100", "--driver", "580.65.06"];
    context.run(&[&["plan", "--lock", "uv.lock"][..], &machine].concat()).expect(1);
    uv(overrides);
    context.run(&[&["plan", "--lock", "uv.lock"][..], &machine].concat()).expect(0);
}

/// METADATA of such wheels requires torch, and not which.
#[test]
fn a_torch_that_a_version_names_is_held_against_without_a_lock_too() {
    let context = TestContext::new();
    let flash = wheel("flash-attn", "2.8.3+cu12torch2.8cxx11abitrue").file("flash_attn.py", "x = 1\n");
    let packages = [module("torch", "2.9.1"), flash.needs("torch")];
    let prefix = environment(&context, &packages).display().to_string();
    let run = context.run(&["verify", "--prefix", &prefix, "--smoke", "off"]).expect(1);
    assert!(run.flat().contains("needs torch==2.8.*, torch 2.9.1 is installed"), "{}", run.shown());
}

/// `uv sync --no-install-project`, as layers of images have it.
#[test]
fn the_project_of_another_tools_lock_may_be_left_out() {
    let context = TestContext::new();
    let prefix = environment(&context, &[module("six", "1.17.0")]).display().to_string();
    let lock = |own: &str| {
        context.write("uv.lock", &format!("version = 1\nrequires-python = \">=3.11\"\n[[package]]\nname = \"own\"\nversion = \"0.1\"\nsource = {{ {own} }}\ndependencies = [{{ name = \"six\" }}]\n[[package]]\nname = \"six\"\nversion = \"1.17.0\"\nsource = {{ registry = \"https://index.example/simple\" }}\n"));
        context.run(&["verify", "--lock", "uv.lock", "--prefix", &prefix, "--smoke", "off"])
    };
    for own in ["editable = \".\"", "virtual = \".\""] {
        assert!(lock(own).expect(0).flat().contains("1 as locked"));
    }
}

#[test]
fn a_torch_without_cuda_is_told_where_there_is_a_gpu() {
    let context = TestContext::new();
    let version = "__version__ = '2.9.1+cpu'\ncuda = None\n";
    let torch =
        wheel("torch", "2.9.1+cpu").file("torch/__init__.py", "x = 1\n").file("torch/version.py", version);
    let prefix = environment(&context, &[torch]).display().to_string();
    let host = "schema = 1\n[driver]\nversion = \"580.65.06\"\n[[gpu]]\nname = \"NVIDIA A100\"\n";
    let host = context.write("a100.toml", host).display().to_string();
    let verify = |rest: &[&str]| {
        context.run(&[&["verify", "--prefix", &prefix, "--host", &host, "--smoke", "off"], rest].concat())
    };
    let run = verify(&[]).expect(0);
    assert!(
        run.flat().contains("warning[gpu-not-covered]: torch 2.9.1+cpu is a CPU build"),
        "{}",
        run.shown()
    );
    verify(&["--require-gpu"]).expect(1);
    let gpuless = context.write("gpuless.toml", "schema = 1\ngpu = []\n").display().to_string();
    let run = context.run(&["verify", "--prefix", &prefix, "--host", &gpuless, "--smoke", "off"]).expect(0);
    assert!(!run.flat().contains("gpu-not-covered"), "{}", run.shown());
}
