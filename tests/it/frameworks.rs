//! TensorFlow and JAX beside torch: what they ask of driver and GPU, and where their CUDA comes from.

use std::path::Path;
use std::process::Command;

use super::context::{IndexServer, Run, Shape, TestContext, skipped};
use super::learn::with_code;
use super::native::fatbin;
use super::wheels::{Wheel, little_pypi, wheel};

const LINUX: &str = "cp310-cp310-manylinux_2_17_x86_64";

fn tensorflow(version: &str) -> Wheel {
    wheel("tensorflow", version).tags(LINUX).needs("absl-py")
}

fn index() -> IndexServer {
    let mut wheels = little_pypi();
    let cu12 = "nvidia-cudnn-cu12<10,>=9.3; extra == 'and-cuda'";
    let plugin = |name: &str| wheel(name, "0.10.2").tags(LINUX).python(">=3.10");
    for one in [
        tensorflow("2.3.4"),
        tensorflow("2.9.0"),
        tensorflow("2.9.3"),
        tensorflow("2.21.0").needs(cu12),
        tensorflow("2.99.0").needs(cu12),
        wheel("absl-py", "2.3.1"),
        wheel("nvidia-cudnn-cu12", "9.10.2.21"),
        wheel("nvidia-cudnn-cu12", "9.28.0.42"),
        wheel("nvidia-cudnn-cu13", "9.28.0.42"),
        wheel("jax", "0.10.2")
            .needs("jax-cuda12-plugin[with-cuda]==0.10.2; extra == 'cuda12'")
            .needs("jax-cuda13-plugin[with-cuda]==0.10.2; extra == 'cuda13'"),
        wheel("jax", "0.6.2").needs("jax-cuda12-plugin[with-cuda]==0.6.2; extra == 'cuda12'"),
        plugin("jax-cuda12-plugin").needs("nvidia-cudnn-cu12<10,>=9.8; extra == 'with-cuda'"),
        plugin("jax-cuda13-plugin").needs("nvidia-cudnn-cu13<10,>=9.12; extra == 'with-cuda'"),
    ] {
        wheels.push(("pypi", one));
    }
    IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() })
}

fn resolve(context: &TestContext, packages: &[&str], gpu: &str, driver: &str) -> Run {
    let options = ["--gpu", gpu, "--driver", driver, "--python", "3.10", "--only-index", "pypi"];
    context.run(&[&["resolve"], packages, &options[..]].concat())
}

#[test]
fn tensorflow_2_9_takes_its_cuda_from_conda() {
    let server = index();
    let context = TestContext::with_index(&server);
    let run = resolve(&context, &["tensorflow==2.9.*"], "Tesla T4", "450.80.02").expect(0);
    insta::assert_snapshot!("tensorflow_2_9", run.shown());
    insta::assert_snapshot!("tensorflow_2_9_environment", context.read("environment.yml"));
    let lock = context.read("envlock.lock");
    assert!(lock.contains("format = \"1.1.0\"") && lock.contains("[[target.framework]]"), "{lock}");
    // What was written is read: nothing changes, and machines are held against it.
    context.run(&["resolve", "--locked"]).expect(0);
    resolve(&context, &["tensorflow==2.9.*"], "Tesla T4", "450.80.02").expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    let graph = context.run(&["graph", "--format", "dot"]).expect(0).stdout;
    assert!(graph.contains("tensorflow"), "{graph}");
    // A newer format is refused, a minor one is not.
    context.write("envlock.lock", &lock.replace("format = \"1.1.0\"", "format = \"3.0.0\""));
    context.run(&["export", "requirements.txt"]).expect(2);
}

/// A way out that leaves a framework without CUDA, beside a torch that has it, says so.
#[test]
fn a_way_out_without_cuda_says_so() {
    let mut wheels = little_pypi();
    let cu12 = "nvidia-cudnn-cu12<10,>=9.3; extra == 'and-cuda'";
    wheels.extend([tensorflow("2.21.0").needs(cu12), wheel("absl-py", "2.3.1")].map(|one| ("pypi", one)));
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let run = resolve(&context, &["tensorflow==2.20.0", "torch>=2.8"], "NVIDIA A100", "580.65.06").expect(1);
    assert!(run.flat().contains("torch 2.10.0 cu128, tensorflow without CUDA"), "{}", run.shown());
}

#[test]
fn the_driver_decides_and_ways_out_are_said() {
    let server = index();
    let context = TestContext::with_index(&server);
    let run = resolve(&context, &["tensorflow==2.9.*"], "Tesla T4", "450.36.06").expect(1);
    insta::assert_snapshot!("tensorflow_2_9_old_driver", run.shown());
    let json = context
        .run(&[
            "resolve",
            "tensorflow==2.9.*",
            "--gpu",
            "Tesla T4",
            "--driver",
            "450.36.06",
            "--python",
            "3.10",
            "--json",
        ])
        .expect(1)
        .json();
    let parties = json["conflict"]["reasons"].to_string();
    assert!(parties.contains("\"driver\"") && parties.contains("\"cuda\""), "{json:#}");
    assert_eq!(json["conflict"]["would_work_if"][0]["change"], "driver >= 450.80.02");
}

#[test]
fn the_extra_brings_cuda_and_without_it_that_is_said() {
    let server = index();
    let context = TestContext::with_index(&server);
    let json = context
        .run(&[
            "resolve",
            "tensorflow[and-cuda]<2.90",
            "--gpu",
            "Tesla V100",
            "--driver",
            "535.54.03",
            "--python",
            "3.10",
            "--json",
        ])
        .expect(0)
        .json();
    let target = &json["targets"][0];
    assert_eq!(target["stack"]["tensorflow"], "2.21.0", "{json:#}");
    assert_eq!(target["stack"]["cuda"], "12.5");
    assert_eq!(target["driver_mode"], "compatibility");
    assert_eq!(target["envelope"]["driver"], "525.60.13");
    // cuDNN 9.11 and newer serve no V100, whoever asks for cuDNN.
    assert!(target["packages"].to_string().contains("\"9.10.2.21\""), "{json:#}");
    let plain = resolve(&context, &["tensorflow<2.90"], "NVIDIA H200", "580.159.04").expect(0);
    assert!(
        plain.flat().contains("without CUDA; to use a GPU, require `tensorflow[and-cuda]`"),
        "{}",
        plain.shown()
    );
    let context = TestContext::with_index(&server);
    let unknown = resolve(&context, &["tensorflow[and-cuda]"], "NVIDIA H200", "580.159.04").expect(0);
    assert!(
        unknown
            .flat()
            .contains("tensorflow 2.99.0 on linux-x86_64 was not checked: it is not in the registry"),
        "{}",
        unknown.shown()
    );
}

/// TensorFlow writes into its wheel what it was built with; JAX has its code in another wheel, which is read where that is
/// asked for.
#[test]
fn releases_that_the_registry_does_not_have_are_read() {
    let info = "build_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_90', 'compute_120']), \
                ('cuda_version', '13.1.0'), ('is_cuda_build', True)])\n";
    let context = TestContext::new();
    let Some(library) = with_code(&context, &fatbin(&[&[(2, 90)]])) else { return };
    let plugin = "jax_cuda13_plugin-2.99.0-cp310-cp310-manylinux_2_17_x86_64.whl";
    let mut wheels = little_pypi();
    for one in [
        tensorflow("2.99.0")
            .needs("nvidia-cudnn-cu13<10,>=9.12; extra == 'and-cuda'")
            .file("tensorflow/python/platform/build_info.py", info),
        tensorflow("2.14.0")
            .needs("nvidia-cudnn-cu11==8.7.0.84; extra == 'and-cuda'")
            .file("tensorflow/python/platform/build_info.py", &info.replace("13.1.0", "11.8")),
        tensorflow("2.98.0").needs("nvidia-cudnn-cu13<10,>=9.12; extra == 'and-cuda'"),
        wheel("absl-py", "2.3.1"),
        wheel("nvidia-cudnn-cu13", "9.28.0.42"),
        wheel("jax", "2.99.0").needs("jax-cuda13-plugin[with-cuda]==2.99.0; extra == 'cuda13'"),
        wheel("jax-cuda13-plugin", "2.99.0")
            .tags(LINUX)
            .needs("jax-cuda13-pjrt==2.99.0")
            .needs("nvidia-cuda-runtime>=13.2.48; extra == 'with-cuda'"),
        wheel("nvidia-cuda-runtime", "13.2.48"),
        wheel("jax-cuda13-pjrt", "2.99.0").tags(LINUX).bytes("jax_plugins/xla_cuda13/plugin.so", &library),
    ] {
        wheels.push(("pypi", one));
    }
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server).with_shipped_registry();
    // 9.0 has machine code, 12.1 that of 12.0, 8.0 none.
    let asked = ["tensorflow[and-cuda]==2.99.0"];
    let run = resolve(&context, &asked, "NVIDIA H200", "580.159.04").expect(0);
    let flat = run.flat();
    assert!(flat.contains("cuda 13.1") && !flat.contains("not checked"), "{}", run.shown());
    assert!(
        flat.contains("tensorflow 2.99.0 is not in the registry: its compatibility data was read"),
        "{flat}"
    );
    resolve(&context, &asked, "12.1", "580.159.04").expect(0);
    for (gpu, driver, why) in [
        ("NVIDIA A100", "580.159.04", "has no code for NVIDIA A100 (8.0)"),
        ("NVIDIA H200", "570.86.10", "driver >= 580"),
    ] {
        let refused = resolve(&context, &asked, gpu, driver).expect(1);
        assert!(refused.flat().contains(why), "{}", refused.shown());
    }
    // What is known of it, other commands know.
    context.write(
        "requirements.txt",
        "tensorflow==2.99.0\nnvidia-cuda-runtime==13.2.48\nnvidia-cudnn-cu13==9.28.0.42\n",
    );
    let plan = |gpu: &str| {
        context.run(&["plan", "--lock", "requirements.txt", "--gpu", gpu, "--driver", "580.159.04"])
    };
    plan("NVIDIA H200").expect(0);
    plan("NVIDIA A100").expect(1);
    // What brings its CUDA is as in the release whose extra it has.
    let registry = context.dir.path().join("without-2.14");
    let files = super::aged::files_below(Path::new("registry"), "");
    for (path, text) in files {
        let text = match path.as_str() {
            "frameworks/tensorflow.toml" => {
                let blocks =
                    text.split("[[build]]").filter(|block| !block.contains("versions = \"==2.14.*\""));
                blocks.collect::<Vec<_>>().join("[[build]]")
            }
            _ => text,
        };
        std::fs::create_dir_all(registry.join(&path).parent().unwrap()).unwrap();
        std::fs::write(registry.join(&path), text).unwrap();
    }
    let mut command = context.command_of(env!("CARGO_BIN_EXE_envlock"));
    command.args(["--registry", registry.to_str().unwrap(), "registry", "learn", "tensorflow==2.14.0"]);
    let learned = context.finish(command.output().unwrap()).expect(0);
    assert!(learned.stdout.contains("cuda_from = \"extra\"\nextra = \"and-cuda\""), "{}", learned.shown());
    // A wheel without a record is large: it is not read unasked, and it is no yes.
    let unread = resolve(&context, &["tensorflow[and-cuda]==2.98.0"], "NVIDIA H200", "580.159.04").expect(0);
    let command = "envlock registry learn tensorflow==2.98.0";
    assert!(
        unread.flat().contains(&format!("not checked: it is not in the registry; `{command}`")),
        "{}",
        unread.shown()
    );
    context.write("requirements.txt", "jax==2.99.0\njax-cuda13-plugin==2.99.0\n");
    let run = plan("NVIDIA H200").expect(3);
    let command = "envlock registry learn jax-cuda13-plugin==2.99.0";
    assert!(run.flat().contains(command), "{}", run.shown());
    let row = context.run(&["registry", "learn", "jax-cuda13-plugin==2.99.0"]).expect(0);
    insta::assert_snapshot!(row.stdout.split_once('\n').unwrap().1, @r#"
        # belongs to registry/frameworks/jax.toml
        [[build]]
        framework = "jax"
        package = "jax-cuda13-plugin"
        versions = "==2.99.0"
        platform = "linux-x86_64"
        cuda = "13.2"
        cudnn = "9.12"
        cuda_from = "packages"
        ask = "jax[cuda13]"
        code_in = "jax-cuda13-pjrt"
        targets = ["9.0"]
        targets_evidence = "measured"
        evidence = "inferred"
        source = ["learned-wheel"]
        "#);
    assert!(row.stdout.contains(plugin), "{}", row.shown());
    let jax = |gpu: &str| resolve(&context, &["jax[cuda13]"], gpu, "595.45.04");
    let run = jax("NVIDIA H200").expect(0);
    assert!(!run.flat().contains("not checked") && run.stdout.contains("2.99.0"), "{}", run.shown());
    jax("NVIDIA A100").expect(1);
}

#[test]
fn jax_by_its_plugins() {
    let server = index();
    let context = TestContext::with_index(&server);
    let run = resolve(&context, &["jax[cuda13]"], "NVIDIA H200", "580.159.04").expect(0);
    assert!(run.stdout.contains("jax-cuda13-plugin  0.10.2"), "{}", run.shown());
    let old = resolve(&context, &["jax[cuda13]"], "Tesla V100", "580.159.04").expect(1);
    assert!(
        old.flat().contains("require compute capability >= 7.5; the GPU is NVIDIA V100 (7.0)"),
        "{}",
        old.shown()
    );
    assert!(old.flat().contains("no jax[cuda13] runs on NVIDIA V100 (7.0)"), "{}", old.shown());
    // An extra that no release has is no release's.
    let typo = resolve(&context, &["jax[cuda99]"], "NVIDIA H200", "580.159.04").expect(1);
    assert!(
        typo.flat().contains("no extra `cuda99`; the extras of 0.10.2: cuda12, cuda13"),
        "{}",
        typo.shown()
    );
}

/// The snippet asks the framework that is locked: what it sees is held against the lock.
#[test]
fn the_guard_asks_jax_and_tensorflow() {
    let server = index();
    for (package, module, version) in [
        (
            "jax[cuda13]",
            "jax",
            "class Card:\n    device_kind = 'NVIDIA H200'\n    compute_capability = CAPABILITY\n\ndef devices(kind):\n    return [Card()]\n",
        ),
        (
            "tensorflow[and-cuda]<2.90",
            "tensorflow",
            "class config:\n    list_physical_devices = lambda kind: [0]\n    class experimental:\n        get_device_details = lambda card: {'device_name': 'H200', 'compute_capability': PAIR}\n",
        ),
    ] {
        let context = TestContext::with_index(&server);
        resolve(&context, &[package], "NVIDIA H200", "580.159.04").expect(0);
        let lock = context.read("envlock.lock");
        let locked = lock
            .split(&format!("name = \"{module}\"\nversion = \""))
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let Ok(python) = Command::new("python3")
            .arg("-c")
            .arg("import sys; print('%d.%d' % sys.version_info[:2])")
            .output()
        else {
            return skipped("no python3 here");
        };
        let python = String::from_utf8_lossy(&python.stdout).trim().to_owned();
        let snippet = context.run(&["guard"]).expect(0).stdout;
        // The lock is for another Python; the one that is here plays it.
        let at = snippet.find("\"python\": \"").unwrap() + 11;
        let end = at + snippet[at..].find('"').unwrap();
        let snippet = format!("{}{python}{}", &snippet[..at], &snippet[end..]);
        context.write("train.py", &format!("{snippet}print('trained')\n"));
        let trained = |stated: &str, capability: &str| {
            let pair = capability.replace('.', ", ");
            let fake = version
                .replace("CAPABILITY", &format!("'{capability}'"))
                .replace("PAIR", &format!("({pair})"));
            context.write(&format!("{module}.py"), &format!("__version__ = '{stated}'\n{fake}"));
            let out = Command::new("python3").arg(context.project().join("train.py")).output().unwrap();
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
        };
        assert_eq!(trained(locked, "9.0"), "trained\n", "{module}");
        assert!(trained(locked, "3.5").contains("error[gpu-not-covered]"), "{module}");
        assert!(trained("0.0.1", "9.0").contains("error[wrong-version]"), "{module}");
    }
}

#[test]
fn two_packages_cannot_install_one_file() {
    let server = index();
    let context = TestContext::with_index(&server);
    let both = ["nvidia-cudnn-cu12", "nvidia-cudnn-cu13"];
    let run = resolve(&context, &both, "NVIDIA H200", "580.159.04").expect(1);
    assert!(run.flat().contains("both install nvidia/cudnn/lib/libcudnn.so.9"), "{}", run.shown());
    // Two frameworks, each with a CUDA of its own: by their SONAMEs only cuDNN stands against it.
    let two = ["jax[cuda13]", "tensorflow[and-cuda]<2.90"];
    let run = resolve(&context, &two, "NVIDIA H200", "580.159.04").expect(1);
    assert!(run.flat().contains("nvidia-cudnn-cu12 and nvidia-cudnn-cu13 both install"), "{}", run.shown());
    assert!(run.flat().contains("ways out, each of them solved"), "{}", run.shown());
    let fits = ["jax[cuda12]", "tensorflow[and-cuda]<2.90"];
    let run = resolve(&context, &fits, "NVIDIA H200", "580.159.04").expect(0);
    assert!(run.stdout.contains("jax-cuda12-plugin") && run.stdout.contains("tensorflow"), "{}", run.shown());
}

#[test]
fn code_of_packages_beside_the_frameworks_counts() {
    let mut wheels = little_pypi();
    wheels.push(("pypi", wheel("ctranslate2", "4.8.5").tags(LINUX)));
    wheels.push(("pypi", wheel("onnxruntime-gpu", "1.31.1").tags(LINUX)));
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    // Read, it has nothing below 7.5; the other has.
    let run = resolve(&context, &["onnxruntime-gpu"], "Tesla P100", "535.54.03").expect(1);
    assert!(run.flat().contains("onnxruntime-gpu 1.31.1 has no code for"), "{}", run.shown());
    resolve(&context, &["ctranslate2"], "Tesla P100", "535.54.03").expect(0);
    assert!(
        context.read("envlock.lock").contains("code = [\"5.3\", \"6.0\""),
        "{}",
        context.read("envlock.lock")
    );
    // On a machine without a GPU nothing is asked of it.
    context.run(&["resolve", "onnxruntime-gpu", "--gpu", "none", "--python", "3.10", "--dry-run"]).expect(0);
}

#[test]
fn a_page_is_read_once_in_a_command() {
    let server = index();
    let context = TestContext::with_index(&server);
    resolve(&context, &["jax[cuda12]", "tensorflow[and-cuda]<2.90"], "NVIDIA H200", "580.159.04").expect(0);
    let mut pages: Vec<String> =
        server.paths().into_iter().filter(|path| !path.contains("/files/")).collect();
    let all = pages.len();
    pages.sort();
    pages.dedup();
    assert_eq!(pages.len(), all, "{:?}", server.paths());
}

#[test]
fn what_is_locked_is_what_is_promised() {
    let server = index();
    let context = TestContext::with_index(&server);
    // The newest cuDNN serves no GPU below 7.5, whatever TensorFlow itself has code for.
    resolve(&context, &["tensorflow[and-cuda]<2.90"], "NVIDIA H200", "580.159.04").expect(0);
    let lock = context.read("envlock.lock");
    assert!(!lock.contains("capability = \"6.1\"") && lock.contains("capability = \"7.5\""), "{lock}");
    let why = context.run(&["why", "--not", "cuda==99"]).expect(2);
    assert!(why.flat().contains("the lock has no torch"), "{}", why.shown());
    // Another extra of the same framework is a way out.
    let context = TestContext::with_index(&server);
    let run = resolve(&context, &["jax[cuda13]"], "NVIDIA H200", "535.129.03").expect(1);
    assert!(run.stdout.contains("jax[cuda12]"), "{}", run.shown());
    // A GPU that is offered is one that this driver runs.
    let run = resolve(&context, &["tensorflow==2.9.*", "-v"], "NVIDIA H100", "450.80.02").expect(1);
    assert!(
        run.stdout.contains("a GPU with compute capability 3.5, 3.7, 5.0, 5.2, 6.0, 6.1, 7.0, 7.5, 8.0"),
        "{}",
        run.shown()
    );
}

#[test]
fn what_no_row_speaks_of_is_said() {
    let mut wheels = little_pypi();
    let arm = "cp310-cp310-manylinux_2_17_aarch64";
    wheels.push(("pypi", wheel("jax", "0.10.2").needs("jax-cuda13-plugin==0.10.2; extra == 'cuda13'")));
    wheels.push(("pypi", wheel("jax-cuda13-plugin", "0.10.2").tags(arm)));
    wheels.push(("pypi", wheel("jax", "0.99.0").needs("jax-cuda13-plugin==0.99.0; extra == 'cuda13'")));
    wheels.push(("pypi", wheel("jax-cuda13-plugin", "0.99.0").tags(LINUX)));
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let other = [
        "resolve",
        "jax[cuda13]",
        "--gpu",
        "GH200",
        "--driver",
        "580.65.06",
        "--python",
        "3.10",
        "--only-index",
        "pypi",
    ];
    let arm = context.run(&[&other[..], &["--platform", "linux-aarch64", "--dry-run"]].concat()).expect(0);
    assert!(
        arm.flat().contains("jax-cuda13-plugin 0.10.2 on linux-aarch64 was not checked: it is not in"),
        "{}",
        arm.shown()
    );
    let newer = resolve(&context, &["jax[cuda13]"], "NVIDIA H200", "580.159.04").expect(0);
    assert!(
        newer.flat().contains("driver and GPU compatibility of jax-cuda13-plugin 0.99.0"),
        "{}",
        newer.shown()
    );
    assert!(!newer.flat().contains("without CUDA"), "{}", newer.shown());
}

#[test]
fn a_lock_of_somebody_elses_is_text_and_no_instruction() {
    let server = index();
    let context = TestContext::with_index(&server);
    resolve(&context, &["tensorflow==2.9.*"], "Tesla T4", "450.80.02").expect(0);
    let lock = context.read("envlock.lock");
    for (from, to) in [
        ("name = \"default\"", "name = \"x\\nRUN reboot\""),
        ("\"cudatoolkit=11.2\"", "\"cudatoolkit=11.2\\n  - evil\""),
        ("version = \"2.9.3\"\ncuda", "version = \"2.9.3\\nprefix: /evil\"\ncuda"),
    ] {
        assert!(lock.contains(from), "{from}: {lock}");
        let body = lock.replacen(from, to, 1);
        let (head, rest) = body.split_once("checksum = ").unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        let sum = super::wheels::hex(rest.as_bytes());
        context.write("envlock.lock", &format!("{head}checksum = \"{sum}\"\n{rest}"));
        let run = context.run(&["export", "environment.yml"]).expect(2);
        assert!(run.flat().contains("the lock cannot be read"), "{}", run.shown());
    }
}

#[test]
fn the_registry_alone_names_a_series_of_releases() {
    let context = TestContext::new();
    let stack_only = |asked: &str, driver: &str, more: &[&str]| {
        let machine = ["--stack-only", "--gpu", "T4", "--driver", driver];
        context.run(&[&["resolve", asked], &machine[..], more].concat())
    };
    let run = stack_only("tensorflow==2.9.*", "450.80.02", &[]).expect(0);
    insta::assert_snapshot!("series_of_tensorflow", run.shown());
    assert!(!context.exists("envlock.lock"), "a series is nothing to lock");
    let run = stack_only("tensorflow==2.9.*", "450.36.06", &[]).expect(1);
    insta::assert_snapshot!("series_of_tensorflow_conflict", run.shown());
    let json = stack_only("jax[cuda12]", "535.54.03", &["--json"]).expect(0).json();
    let target = &json["targets"][0];
    assert_eq!((&json["status"], &target["python"]), (&"solved".into(), &serde_json::Value::Null));
    assert_eq!(target["stack"]["cuda"], "12.9");
    let limited = stack_only("jax[cuda12]", "535.54.03", &["--variant", "cu126"]).expect(0);
    assert!(limited.flat().contains("only torch is limited by `variant`"), "{}", limited.shown());
    let run = stack_only("numpy", "535.54.03", &[]).expect(2);
    assert!(run.stderr.contains("none of them is requested"), "{}", run.stderr);
}

#[test]
fn a_package_that_links_another_cuda_is_avoided() {
    // By its row, xformers 0.0.35 links libcudart.so.12; torch 2.15.0 on PyPI is a build for CUDA 13.
    let mut all = little_pypi();
    all.push((
        "pypi",
        wheel("xformers", "0.0.35").tags("py39-none-manylinux_2_28_x86_64").needs("torch>=2.10"),
    ));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let resolve = |more: &[&str]| {
        context.run(
            &[
                &["resolve", "xformers", "--gpu", "A100", "--driver", "580.65.06", "--python", "3.12"],
                more,
                &["--only-index", "pypi"],
            ]
            .concat(),
        )
    };
    let run = resolve(&["torch"]).expect(0);
    assert!(run.flat().contains("torch 2.10.0+cu128"), "{}", run.shown());
    // Where there is no other answer, it is told.
    let run = resolve(&["torch>=2.15", "--force"]).expect(0);
    let sentence = "the GPU libraries of xformers 0.0.35 cannot be loaded: they link the runtime of CUDA 12, and torch 2.15.0 brings CUDA 13";
    assert!(run.flat().contains(sentence), "{}", run.shown());
    // Nothing is loaded without a GPU.
    let run = context
        .run(&[
            "resolve",
            "xformers",
            "torch>=2.15",
            "--gpu",
            "none",
            "--python",
            "3.12",
            "--only-index",
            "pypi",
        ])
        .expect(0);
    assert!(
        run.flat().contains("torch 2.15.0") && !run.flat().contains("cannot be loaded"),
        "{}",
        run.shown()
    );
}

/// An advisory for some GPUs decides on these alone: nvJitLink that miscompiles on Hopper is taken for an A100.
#[test]
fn an_advisory_for_some_gpus() {
    let mut wheels = vec![
        ("pypi", wheel("jax-cuda12-plugin", "0.12.0").needs("nvidia-nvjitlink-cu12>=12.1")),
        ("pypi", wheel("jax-cuda12-plugin", "0.4.30").needs("nvidia-cuda-nvcc-cu12>=12.1")),
    ];
    for version in ["12.4.127", "12.6.77"] {
        wheels.push(("pypi", wheel("nvidia-nvjitlink-cu12", version)));
    }
    for version in ["12.6.77", "12.6.85"] {
        wheels.push(("pypi", wheel("nvidia-cuda-nvcc-cu12", version)));
    }
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let taken = |asked: &str, gpu: &str, package: &str| {
        let context = TestContext::with_index(&server).with_shipped_registry();
        let run =
            context.run(&["resolve", asked, "--gpu", gpu, "--driver", "580.65.06", "--dry-run", "--json"]);
        let json = run.expect(0).json();
        let packages = json["targets"][0]["packages"].as_array().unwrap().clone();
        let found = packages.iter().find(|one| one["name"] == package).unwrap_or_else(|| panic!("{json:#}"));
        found["version"].as_str().unwrap().to_owned()
    };
    for (gpu, nvjitlink) in
        [("NVIDIA H200", "12.4.127"), ("NVIDIA B200", "12.4.127"), ("A100 PCIe 40GB", "12.6.77")]
    {
        assert_eq!(taken("jax-cuda12-plugin==0.12.0", gpu, "nvidia-nvjitlink-cu12"), nvjitlink, "{gpu}");
    }
    // One that pins what miscompiles is warned.
    let context = TestContext::with_index(&server).with_shipped_registry();
    let asked = [
        "resolve",
        "jax-cuda12-plugin==0.4.30",
        "nvidia-cuda-nvcc-cu12==12.6.77",
        "--driver",
        "580.65.06",
        "--dry-run",
    ];
    let warned = |gpu: &str| context.run(&[&asked[..], &["--gpu", gpu]].concat()).expect(0).flat();
    assert!(
        warned("NVIDIA H200").contains("miscompiles clamping on these GPUs"),
        "{}",
        warned("NVIDIA H200")
    );
    assert!(!warned("A100 PCIe 40GB").contains("miscompiles"), "{}", warned("A100 PCIe 40GB"));
}
