//! Locks of other tools: `plan --lock` and `verify --lock`.

use std::path::PathBuf;

use super::context::{Run, TestContext};
use super::verify::install;
use super::wheels::wheel;

const V100: [&str; 4] = ["--gpu", "V100", "--driver", "580.65.06"];

/// A `uv.lock` whose extras choose the build of torch.
const UV_LOCK: &str = r#"
version = 1
revision = 3
requires-python = ">=3.12, <3.13"
conflicts = [[{ package = "demo", extra = "cpu" }, { package = "demo", extra = "gpu" }]]

[[package]]
name = "demo"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "six" }]

[package.optional-dependencies]
cpu = [{ name = "torch", version = "2.9.1+cpu", source = { registry = "https://wheels.example/whl/cpu" } }]
gpu = [{ name = "torch", version = "2.9.1", source = { registry = "https://index.example/simple" } }]
later = [{ name = "torch", version = "99.0", source = { registry = "https://index.example/simple" } }]

[[package]]
name = "six"
version = "1.17.0"
source = { registry = "https://index.example/simple" }
wheels = [{ url = "https://files.example/six-1.17.0-py2.py3-none-any.whl" }]

[[package]]
name = "torch"
version = "2.9.1"
source = { registry = "https://index.example/simple" }
wheels = [{ url = "https://files.example/torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl" }]

[[package]]
name = "torch"
version = "2.9.1+cpu"
source = { registry = "https://wheels.example/whl/cpu" }
wheels = [{ url = "https://files.example/torch-2.9.1%2Bcpu-cp312-cp312-manylinux_2_28_x86_64.whl" }]

[[package]]
name = "torch"
version = "99.0"
source = { registry = "https://index.example/simple" }
wheels = [{ url = "https://files.example/torch-99.0-cp312-cp312-manylinux_2_28_x86_64.whl" }]
"#;

/// A `pixi.lock` with conda's pytorch for CUDA and for the CPU.
const PIXI_LOCK: &str = "\
version: 6
environments:
  default:
    channels: []
    packages:
      linux-64:
      - conda: https://c.example/conda-forge/linux-64/python-3.12.7-hc5c86c4_0_cpython.conda
      - conda: https://c.example/conda-forge/linux-64/pytorch-2.7.1-cuda129_mkl_py312_h6bb0a4e_304.conda
      - conda: https://c.example/noarch/cuda-version-12.9-h4f385c5_3.conda
      - pypi: https://files.example/six-1.17.0-py2.py3-none-any.whl
  cpu:
    channels: []
    packages:
      linux-64:
      - conda: https://c.example/conda-forge/linux-64/pytorch-2.7.1-cpu_mkl_py312_h6bb0a4e_104.conda
packages:
- conda: https://c.example/conda-forge/linux-64/python-3.12.7-hc5c86c4_0_cpython.conda
  depends:
  - __glibc >=2.17,<3.0.a0
- conda: https://c.example/conda-forge/linux-64/pytorch-2.7.1-cuda129_mkl_py312_h6bb0a4e_304.conda
  depends:
  - __cuda
- conda: https://c.example/conda-forge/linux-64/pytorch-2.7.1-cpu_mkl_py312_h6bb0a4e_104.conda
- conda: https://c.example/noarch/cuda-version-12.9-h4f385c5_3.conda
  constrains:
  - __cuda >=12
- pypi: https://files.example/six-1.17.0-py2.py3-none-any.whl
  name: six
  version: 1.17.0
";

fn plan(context: &TestContext, lock: &str, machine: &[&str]) -> Run {
    context.run(&[&["plan", "--lock", lock], machine].concat())
}

#[test]
fn each_extra_of_a_uv_lock_is_judged() {
    let context = TestContext::new();
    context.write("uv.lock", UV_LOCK);
    insta::assert_snapshot!("foreign_uv", plan(&context, "uv.lock", &V100).expect(0).shown());
    // The driver is too old for CUDA 12; a CPU build is no answer on a GPU, and what is not known is not claimed.
    let old = ["--gpu", "V100", "--driver", "470.57.02"];
    let run = plan(&context, "uv.lock", &old).expect(3);
    assert!(run.flat().contains("no extra gpu: torch 2.9.1 cu128"), "{}", run.shown());
    assert!(run.flat().contains("unknown extra later"), "{}", run.shown());
    plan(&context, "uv.lock", &[&old[..], &["--target", "extra gpu"]].concat()).expect(1);
    plan(&context, "uv.lock", &[&V100[..], &["--target", "extra cpu"]].concat()).expect(1);
    plan(&context, "uv.lock", &["--gpu", "none", "--target", "extra cpu"]).expect(0);
    let json = plan(&context, "uv.lock", &[&V100[..], &["--json"]].concat()).json();
    assert_eq!(json["verdict"], "runs");
    assert_eq!(json["lock"]["tool"], "uv");
    // On another platform, the lock has no files.
    let arm = plan(
        &context,
        "uv.lock",
        &["--gpu", "GH200", "--platform", "linux-aarch64", "--target", "extra gpu"],
    );
    assert!(arm.expect(1).flat().contains("the lock has no file of torch 2.9.1"));
}

#[test]
fn each_environment_of_a_pixi_lock_is_judged() {
    let context = TestContext::new();
    context.write("pixi.lock", PIXI_LOCK);
    insta::assert_snapshot!("foreign_pixi", plan(&context, "pixi.lock", &V100).expect(3).shown());
    let old = ["--gpu", "V100", "--driver", "470.57.02", "--target", "default"];
    let run = plan(&context, "pixi.lock", &old).expect(1);
    assert!(run.flat().contains("driver 470.57.02 is below 525.60.13"), "{}", run.shown());
    // pixi refuses `__cuda` where there is no driver.
    let none = plan(&context, "pixi.lock", &["--gpu", "none", "--target", "default"]).expect(1);
    assert!(none.flat().contains("pytorch requires `__cuda`"), "{}", none.shown());
    let other = plan(&context, "pixi.lock", &["--platform", "macos-arm64"]).expect(1);
    assert!(other.flat().contains("only for linux-x86_64"), "{}", other.shown());
}

/// An environment without a framework runs beside a GPU that the driver gave up; a CPU build in its place is no answer.
#[test]
fn what_uses_no_gpu_does_not_mind_the_driver() {
    let context = TestContext::new();
    context.write(
        "nodes/v1.toml",
        "schema = 1\n[driver]\nversion = \"595.45.04\"\n[[gpu]]\ncompute_capability = \"7.0\"\n[system]\nglibc = \"2.35\"\n",
    );
    let verdict = |text: &str| {
        context.write("pixi.lock", text);
        let run = context.run(&["fleet", "hosts", "nodes", "--lock", "pixi.lock", "--json"]);
        let class = run.json()["locks"][0]["classes"][0].clone();
        (class["verdict"].as_str().unwrap().to_owned(), class["line"].as_str().unwrap().to_owned())
    };
    let (found, line) = verdict(PIXI_LOCK);
    assert_eq!(
        (found.as_str(), line.contains("driver 595.45.04 does not support")),
        ("differs", true),
        "{line}"
    );
    let tools = "  tools:\n    channels: []\n    packages:\n      linux-64:\n      - pypi: https://files.example/six-1.17.0-py2.py3-none-any.whl\npackages:\n";
    let (found, line) = verdict(&PIXI_LOCK.replacen("packages:\n- conda", &format!("{tools}- conda"), 1));
    assert_eq!(found, "ok", "{line}");
}

#[test]
fn other_formats_say_the_same() {
    let context = TestContext::new();
    context.write(
        "pylock.toml",
        "lock-version = \"1.0\"\ncreated-by = \"x\"\n[[packages]]\nname = \"torch\"\nversion = \"2.9.1\"\nwheels = [{ url = \"https://files.example/packages/2b/57/18b5a914f6d7994dd349252873169e946dc824328e9a37fd15ed836deedc/torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl\", hashes = { sha256 = \"aa\" } }]\n",
    );
    context.write("requirements.txt", "torch==2.9.1 \\\n    --hash=sha256:aa\n");
    context.write(
        "conda-lock.yml",
        "version: 1\nmetadata: {}\npackage:\n- name: torch\n  version: 2.9.1\n  manager: pip\n  platform: linux-64\n  dependencies: {}\n  url: https://files.example/torch-2.9.1-cp314-cp314-manylinux_2_28_x86_64.whl\n  hash: {}\n  category: main\n",
    );
    for lock in ["pylock.toml", "requirements.txt", "conda-lock.yml"] {
        let run = plan(&context, lock, &V100).expect(0);
        assert!(run.flat().contains("yes default: torch 2.9.1 cu128"), "{}", run.shown());
        plan(&context, lock, &["--gpu", "V100", "--driver", "470.57.02"]).expect(1);
        let host = context.write(
            "old.toml",
            "schema = 1\n[driver]\nversion = \"470.57.02\"\n[[gpu]]\ncompute_capability = \"7.0\"\n",
        );
        context.run(&["verify", "--lock", lock, "--host", &host.display().to_string()]).expect(1);
    }
}

#[test]
fn what_is_no_lock_is_refused_by_name() {
    let context = TestContext::new();
    for (name, text, says) in [
        ("poetry.lock", "[[package]]\nname = \"a\"\n", "is not a lock that envlock reads"),
        ("loose.txt", "numpy>=1\n", "has no exact version"),
        ("uv.lock", "version = 9\n", "version 9"),
        ("pixi.lock", "version: 2\n", "version 2"),
    ] {
        context.write(name, text);
        let run = plan(&context, name, &V100).expect(2);
        assert!(run.flat().contains(says), "{}", run.shown());
    }
    plan(&context, "absent.lock", &V100).expect(2);
    context.write("uv.lock", UV_LOCK);
    let run = plan(&context, "uv.lock", &["--gpu", "none", "--target", "extra nope"]).expect(2);
    assert!(run.flat().contains("`extra gpu`"), "{}", run.shown());
}

/// An environment of six and a torch of text.
fn environment(context: &TestContext, torch: &str) -> PathBuf {
    let site = context.dir.path().join("env/lib/python3.12/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    std::fs::write(context.dir.path().join("env/pyvenv.cfg"), "version = 3.12\n").unwrap();
    super::verify::interpreter(&context.dir.path().join("env"));
    let torch =
        wheel("torch", torch).tags("cp312-cp312-manylinux_2_28_x86_64").file("torch/__init__.py", "x = 1\n");
    for one in [wheel("six", "1.17.0").file("six.py", "x = 1\n"), torch] {
        install(&site, &one);
    }
    context.dir.path().join("env")
}

fn codes(run: &Run) -> Vec<String> {
    let json = run.json();
    let findings = json["findings"].as_array().unwrap().iter();
    findings.filter(|f| f["severity"] != "info").map(|f| f["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_environment_is_compared_with_another_tools_lock() {
    let context = TestContext::new();
    context.write("uv.lock", UV_LOCK);
    let prefix = environment(&context, "2.9.1").display().to_string();
    let verify = |rest: &[&str]| {
        context.run(&[&["verify", "--lock", "uv.lock", "--prefix", &prefix, "--smoke", "off"], rest].concat())
    };
    let run = verify(&[]).expect(0);
    assert!(
        run.flat().contains("lock uv.lock (extra gpu)") && run.flat().contains("2 as locked"),
        "{}",
        run.shown()
    );
    // Of a named extra, what is installed is not what is locked.
    let run = verify(&["--target", "extra cpu"]).expect(1);
    assert!(run.flat().contains("uv sync --project . --locked --extra cpu"), "{}", run.shown());
    std::fs::remove_dir_all(context.dir.path().join("env/lib/python3.12/site-packages/six-1.17.0.dist-info"))
        .unwrap();
    assert_eq!(codes(&verify(&["--json"]).expect(1)), ["missing-package"]);
}

#[test]
fn condas_records_are_compared_with_a_pixi_lock() {
    let context = TestContext::new();
    context.write("pixi.lock", PIXI_LOCK);
    let prefix = environment(&context, "2.7.1");
    let meta = prefix.join("conda-meta");
    std::fs::create_dir_all(&meta).unwrap();
    let record = |name: &str, version: &str, build: &str| {
        let text = format!("{{\"name\": \"{name}\", \"version\": \"{version}\", \"build\": \"{build}\"}}");
        std::fs::write(meta.join(format!("{name}.json")), text).unwrap();
    };
    record("python", "3.12.7", "hc5c86c4_0_cpython");
    record("cuda-version", "12.9", "h4f385c5_3");
    record("pytorch", "2.7.1", "cuda129_mkl_py312_h6bb0a4e_304");
    let site = prefix.join("lib/python3.12/site-packages");
    let info = site.join("torch-2.7.1.dist-info");
    std::fs::write(info.join("INSTALLER"), "conda\n").unwrap();
    std::fs::write(info.join("RECORD"), "torch/__init__.py,,\n").unwrap();
    let prefix = prefix.display().to_string();
    let verify = |rest: &[&str]| {
        context.run(
            &[&["verify", "--lock", "pixi.lock", "--prefix", &prefix, "--smoke", "off", "--json"], rest]
                .concat(),
        )
    };
    assert_eq!(codes(&verify(&["--target", "default"]).expect(0)), [""; 0]);
    // The CPU build of the same version is another package.
    record("pytorch", "2.7.1", "cpu_mkl_py312_h6bb0a4e_104");
    record("extra", "1.0", "0");
    assert_eq!(codes(&verify(&["--target", "default"]).expect(1)), ["wrong-version", "extra-package"]);
}

/// conda-forge's builds keep the code of GPUs that PyPI's wheels of the same torch dropped.
#[test]
fn the_gpu_code_of_condas_pytorch_is_known() {
    let context = TestContext::new().with_shipped_registry();
    context.write("pixi.lock", PIXI_LOCK);
    let judged = |machine: &[&str], code: i32| {
        plan(&context, "pixi.lock", &[machine, &["--target", "default"]].concat()).expect(code)
    };
    let run = judged(&["--gpu", "V100", "--driver", "550.54.14"], 0);
    assert!(!run.flat().contains("not in envlock's data"), "{}", run.shown());
    judged(&["--gpu", "NVIDIA H100", "--driver", "580.65.06"], 0);
    // A driver for CUDA 11, a GPU that no code is for, and one of after that release.
    let run = judged(&["--gpu", "V100", "--driver", "470.57.02"], 1);
    assert!(run.flat().contains("525.60.13"), "{}", run.shown());
    judged(&["--gpu", "Tesla K80", "--driver", "470.57.02"], 1);
    // The recipe says which cuDNN and glibc it was built with, where the records do not.
    let beside = |cudnn: &str| {
        let line = format!("- conda: https://c.example/conda-forge/linux-64/cudnn-{cudnn}-h1_0.conda\n");
        let listed = PIXI_LOCK.replacen("      - pypi: ", &format!("      {line}      - pypi: "), 1);
        context.write(
            "pixi.lock",
            &listed.replacen(
                "- pypi: https://files.example/six-1.17.0-py2.py3-none-any.whl\n  name",
                &format!("{line}- pypi: https://files.example/six-1.17.0-py2.py3-none-any.whl\n  name"),
                1,
            ),
        );
    };
    beside("9.10.2.21");
    judged(&["--gpu", "NVIDIA H100", "--driver", "580.65.06"], 0);
    // It has code for Volta, and the cuDNN beside it has none.
    beside("9.13.1.26");
    let run = judged(&["--gpu", "V100", "--driver", "550.54.14"], 1);
    let expected =
        "V100 (7.0) is not covered: cuDNN 9.13.1.26, which is locked, needs compute capability >= 7.5";
    assert!(run.flat().contains(expected), "{}", run.shown());
    beside("8.9.7.29");
    let run = judged(&["--gpu", "NVIDIA H100", "--driver", "580.65.06"], 1);
    let expected = "cuDNN 8.9.7.29 is locked, torch 2.7.1 (conda, cuda129_mkl_py312_h6bb0a4e_304) was built with cuDNN 9";
    assert!(run.flat().contains(expected), "{}", run.shown());
    let newer = PIXI_LOCK
        .replace("pytorch-2.7.1-cuda129_mkl_py312_h6bb0a4e_304", "pytorch-2.12.0-cuda130_mkl_py312_h1_301");
    context.write("pixi.lock", &newer.replace("cuda-version-12.9", "cuda-version-13.0"));
    judged(&["--gpu", "NVIDIA H100", "--driver", "580.65.06", "--glibc", "2.28"], 0);
    let run = judged(&["--gpu", "NVIDIA H100", "--driver", "580.65.06", "--glibc", "2.17"], 1);
    assert!(run.flat().contains("2.28"), "{}", run.shown());
    // A package that asks for a newer driver than torch is at fault; torch is where it needs that driver itself.
    context.write("pixi.lock", &PIXI_LOCK.replace("  - __cuda >=12\n", "  - __cuda >=12.4\n"));
    let run = judged(&["--gpu", "V100", "--driver", "535.129.03"], 1);
    let expected = "below 550.54.14, which conda's cuda-version 12.9 asks for (`__cuda >=12.4`)";
    assert!(run.flat().contains(expected), "{}", run.shown());
    context.write("pixi.lock", PIXI_LOCK);
    let run = judged(&["--gpu", "V100", "--driver", "470.57.02"], 1);
    assert!(!run.flat().contains("asks for"), "{}", run.shown());
    // Builds of other channels and of the CPU are not these.
    context.write("pixi.lock", &PIXI_LOCK.replace("/conda-forge/", "/someones-fork/"));
    let run = judged(&["--gpu", "V100", "--driver", "550.54.14"], 3);
    assert!(run.flat().contains("is not in envlock's data"), "{}", run.shown());
    context
        .write("pixi.lock", &PIXI_LOCK.replace("cuda129_mkl_py312_h6bb0a4e_304", "py3.12_cuda12.9_cudnn9_0"));
    let run = judged(&["--gpu", "V100", "--driver", "550.54.14"], 3);
    assert!(run.flat().contains("is not in envlock's data"), "{}", run.shown());
}

/// Packages of which a lock states no version: from repositories, source archives and folders. That one is missing is told.
#[test]
fn packages_without_a_version_are_missed() {
    let context = TestContext::new();
    let prefix = environment(&context, "2.9.1").display().to_string();
    let direct = "six==1.17.0\nown @ git+https://host.example/own.git@0123456789012345678901234567890123456789\nbuilt @ https://host.example/built-1.0.tar.gz\nlocal @ file:///opt/local\n-e ./edited\n";
    let pylock = "lock-version = \"1.0\"\n[[packages]]\nname = \"own\"\nvcs = { type = \"git\", url = \"https://host.example/own.git\", commit-id = \"01\" }\n[[packages]]\nname = \"built\"\narchive = { url = \"https://host.example/built-1.0.tar.gz\" }\n[[packages]]\nname = \"local\"\ndirectory = { path = \"libs/local\" }\n";
    for (name, text) in [("requirements.txt", direct), ("pylock.toml", pylock)] {
        context.write(name, text);
        let run = context.run(&["verify", "--lock", name, "--prefix", &prefix, "--smoke", "off"]).expect(1);
        for package in ["own", "built", "local"] {
            assert!(
                run.flat().contains(&format!("error[missing-package]: {package} is not installed")),
                "{}",
                run.shown()
            );
        }
        let is_said = run.flat().contains("`-e ./edited` names no package");
        assert_eq!(is_said, name == "requirements.txt", "{}", run.shown());
    }
}
