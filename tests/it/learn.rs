//! `registry learn`: rows out of wheels, by ranges, by name and from files.

use std::process::Command;

pub use super::common::torch::{TAGS, library_with, libtorch_python, torch, torch_release};
use super::context::{IndexServer, Shape, TestContext, skipped};
use super::native::fatbin;
use super::wheels::{Wheel, wheel};

fn served(wheels: Vec<Wheel>, shape: Shape) -> IndexServer {
    let wheels = wheels.into_iter().map(|wheel| ("pypi", wheel)).collect();
    IndexServer::start(wheels, Shape { json: true, metadata: true, ..shape })
}

#[test]
fn a_release_that_the_registry_does_not_have() {
    let context = TestContext::new();
    let Some(library) = libtorch_python(&context, "sm_80 sm_90 sm_120 compute_120") else { return };
    for shape in [Shape::default(), Shape { no_ranges: true, ..Shape::default() }] {
        let server = served(TAGS.iter().map(|tags| torch(&library, tags)).collect(), shape);
        let context = TestContext::with_index(&server);
        let run = context.run(&["registry", "learn", "torch==2.99.*"]).expect(0);
        for line in [
            "# belongs to registry/torch/2.99.toml\n[[build]]\nversion = \"2.99.0\"\nvariant = \"cu134\"\nplatform = \"linux-x86_64\"\n",
            "index = \"pypi\"\ncuda = \"13.4\"\ncudnn = \"9.30.0.1\"\nnccl = \"2.31.1\"\ntriton = \"~=4.0.0\"\n",
            "targets = [\"8.0\", \"9.0\", \"12.0\"]\nptx = [\"12.0\"]\ntargets_evidence = \"measured\"\n",
            "python = [\"cp312\", \"cp313t\"]\nrequires_python = \">=3.10\"\nglibc = \"2.28\"\nwheel_bytes = ",
        ] {
            assert!(run.stdout.contains(line), "{line}\n{}", run.shown());
        }
        assert!(run.flat().contains("the registry does not have it yet"), "{}", run.shown());
        let json = context.run(&["registry", "learn", "torch", "--json"]).expect(0).json();
        assert_eq!(json["known"], serde_json::Value::Null);
    }
}

/// [`libtorch_python`] with as many bytes as torch's, which do not compress.
fn large_libtorch_python(context: &TestContext, list: &str) -> Option<Vec<u8>> {
    let noise = context.dir.path().join("noise");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(5 << 20)
    .flatten()
    .collect();
    std::fs::write(&noise, bytes).unwrap();
    let more = format!(r#"__asm__(".section .rodata\n.incbin \"{}\"\n.text");"#, noise.display());
    library_with(context, list, &more)
}

/// The shipped wheels have libraries of 30 to 90 MB: ranges that do not fit into a small answer, and thousands of files.
#[test]
fn a_wheel_as_large_as_torch() {
    let context = TestContext::new();
    let Some(library) = large_libtorch_python(&context, "sm_80 sm_90 sm_120 compute_120") else { return };
    assert!(library.len() > 40_000_000);
    let shapes = [
        Shape::default(),
        Shape { no_ranges: true, ..Shape::default() },
        Shape { ranges: Some(1), ..Shape::default() },
        Shape { ranges: Some(4), ..Shape::default() },
    ];
    for shape in shapes {
        let shown = format!("{shape:?}");
        let server = served(vec![torch(&library, TAGS[0])], shape);
        let run = TestContext::with_index(&server).run(&["registry", "learn", "torch==2.99.0"]).expect(0);
        assert!(run.stdout.contains("targets = [\"8.0\", \"9.0\", \"12.0\"]"), "{shown}\n{}", run.shown());
    }
    // A server that stops is named as the cause.
    let server = served(
        vec![torch(&library, TAGS[0])],
        Shape { half_files: true, ranges: Some(3), ..Shape::default() },
    );
    let run = TestContext::with_index(&server).run(&["registry", "learn", "torch==2.99.0"]).expect(3);
    assert!(
        run.flat().contains("`torch/lib/libtorch_python.so` cannot be unpacked: the server sent a file of"),
        "{}",
        run.shown()
    );
}

#[test]
fn wheels_that_cannot_be_believed() {
    let context = TestContext::new();
    let Some(library) = libtorch_python(&context, "sm_80 sm_90") else { return };
    let mut code = fatbin(&[&[(2, 90)], &[(2, 80)]]);
    code.truncate(code.len() - 40);
    let Some(broken) = with_code(&context, &code) else { return };
    let plain = || torch(&library, TAGS[0]);
    let lying = Wheel {
        files: vec![("torch/version.py".to_owned(), b"__version__ = '2.98.0'\n".to_vec())],
        ..plain()
    };
    let without = Wheel { files: plain().files[..1].to_vec(), ..plain() };
    let cases = [
        (plain().says_version("2.98.0"), "torch", "its METADATA says `2.98.0`, its file name `2.99.0`"),
        (
            Wheel {
                files: vec![(
                    "torch/version.py".to_owned(),
                    b"__version__ = '2.99.0+cu126'\ncuda = '14.0'\n".to_vec(),
                )],
                ..plain()
            },
            "torch",
            "its version.py says `cuda 14.0`, its file name `cu126`",
        ),
        (lying, "torch", "its version.py says `2.98.0`, its file name `2.99.0`"),
        (without, "torch", "has no list of GPU architectures"),
        (
            wheel("extension", "1.0").tags(TAGS[0]).bytes("extension/_C.so", &broken),
            "extension",
            "the GPU code of `extension/_C.so` cannot be read completely",
        ),
        (wheel("requests", "2.32.5"), "requests", "has no GPU code, so it has no compatibility data"),
        (wheel("requests", "2.32.5"), "requests==9.*", "no release of requests that `requests==9.*` allows"),
    ];
    for (wheel, asked, expected) in cases {
        let server = served(vec![wheel], Shape::default());
        // A wheel without GPU code, and a release that there is not, are answers.
        let code = if asked.starts_with("requests") { 1 } else { 2 };
        let run = TestContext::with_index(&server).run(&["registry", "learn", asked]).expect(code);
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
        assert_eq!(run.stdout, "", "{expected}");
    }
    // A server that sends other bytes than asked.
    let server = served(vec![plain()], Shape { wrong_range: true, ..Shape::default() });
    let run = TestContext::with_index(&server).run(&["registry", "learn", "torch"]);
    assert!(run.code != 0 && run.stdout.is_empty(), "{}", run.shown());
    assert!(run.flat().contains("other bytes than the requested range"), "{}", run.shown());
    for asked in ["torch @ https://example.org/x", "!!", "missing.whl"] {
        TestContext::with_index(&server).run(&["registry", "learn", asked]).expect(2);
    }
}

/// The name of a wheel says for which platform its row is.
#[test]
fn a_wheel_is_for_the_platform_of_its_name() {
    let context = TestContext::new();
    for (name, options, told) in [
        (
            "torch-2.16.0-cp312-cp312-win_amd64.whl",
            &["--platform", "linux-x86_64"][..],
            "not a wheel for linux-x86_64",
        ),
        ("torch-2.16.0-cp312-cp312-win32.whl", &[], "is a wheel for none of linux-x86_64"),
    ] {
        context.write(name, "");
        let run = context.run(&[&["registry", "learn", name], options].concat()).expect(2);
        assert!(run.flat().contains(told), "{}", run.shown());
    }
}

/// METADATA of every platform has the requirements of Linux, behind markers.
#[test]
fn a_wheel_of_another_platform_pins_nothing_of_linux() {
    let wheel = wheel("torch", "2.99.0")
        .tags("cp312-none-macosx_14_0_arm64")
        .needs("nvidia-cudnn-cu13==9.30.0.1; platform_system == \"Linux\"")
        .needs("triton~=4.0.0; platform_system == \"Linux\"")
        .file("torch/version.py", "__version__ = '2.99.0'\ncuda: Optional[str] = None\n");
    let server = served(vec![wheel], Shape::default());
    let asked = ["registry", "learn", "torch", "--platform", "macos-arm64"];
    let run = TestContext::with_index(&server).run(&asked).expect(0);
    assert!(run.stdout.contains("variant = \"cpu\"\nplatform = \"macos-arm64\""), "{}", run.shown());
    for key in ["cudnn", "triton", "glibc"] {
        assert!(!run.stdout.contains(key), "{key}: {}", run.shown());
    }
}

#[test]
fn a_wheel_on_disk_and_one_at_an_address() {
    let context = TestContext::new();
    let Some(library) = libtorch_python(&context, "sm_80 sm_90") else { return };
    let (page, bytes, _) = torch(&library, TAGS[0]).build();
    let path = context.project().join(&page.filename);
    std::fs::write(&path, &bytes).unwrap();
    let local = context.run(&["registry", "learn", &page.filename]).expect(0);
    assert!(local.stdout.contains(&format!("wheel_bytes = {}\n", bytes.len())), "{}", local.shown());
    let server = served(vec![torch(&library, TAGS[0])], Shape::default());
    let address = format!("{}/files/{}", server.address, page.filename);
    let remote = TestContext::with_index(&server).run(&["registry", "learn", &address]).expect(0);
    assert!(remote.stdout.contains("targets = [\"8.0\", \"9.0\"]"), "{}", remote.shown());
}

#[test]
fn resolve_learns_what_the_registry_does_not_know() {
    let context = TestContext::new();
    let Some(library) = libtorch_python(&context, "sm_80 sm_90 sm_120 compute_120") else { return };
    let mut wheels = super::wheels::little_pypi();
    wheels.push(("pypi", torch(&library, "cp312-cp312-manylinux_2_28_x86_64")));
    wheels.push(("pypi", wheel("nvidia-cudnn-cu13", "9.30.0.1")));
    wheels.push(("pypi", wheel("nvidia-nccl-cu13", "2.31.1")));
    wheels.push(("pypi", wheel("triton", "4.0.1")));
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let machine = ["--gpu", "NVIDIA H200", "--driver", "615.10.01", "--only-index", "pypi"];
    let resolve = |rest: &[&str]| context.run(&[&["resolve", "torch"], &machine[..], rest].concat());
    let without = resolve(&["--no-learn", "--dry-run"]).expect(0);
    assert!(
        without.flat().contains("the index has torch 2.99.0, which the registry does not know"),
        "{}",
        without.shown()
    );
    assert!(without.stdout.contains("2.15.0+cu132"), "{}", without.shown());
    let run = resolve(&[]).expect(0);
    assert!(run.flat().contains("torch 2.99.0 is not in the registry"), "{}", run.shown());
    assert!(run.stdout.contains("2.99.0+cu134"), "{}", run.shown());
    let lock = context.read("envlock.lock");
    assert!(lock.contains("torch = \"2.99.0\"") && lock.contains("evidence = \"measured\""), "{lock}");
    // The row is kept: the wheel's library is not read again, and the lock stays as it is.
    let before =
        server.paths().iter().filter(|path| path.contains("torch-2.99.0") && path.ends_with(".whl")).count();
    resolve(&[]).expect(0);
    let after =
        server.paths().iter().filter(|path| path.contains("torch-2.99.0") && path.ends_with(".whl")).count();
    assert_eq!((before > 0, after), (true, before));
    assert_eq!(context.read("envlock.lock"), lock);
    context.run(&["resolve", "--locked"]).expect(0);
    // Nor is it lost where nothing may be read: the kept row serves, and without it that is said.
    resolve(&["--no-learn"]).expect(0);
    resolve(&["--offline"]).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    let kept = context.dir.path().join("cache/learned/v2/torch-2.99.0-linux-x86_64.toml");
    let row = std::fs::read_to_string(&kept).unwrap();
    for broken in [String::new(), row.replace("2.99.0", "2.98.0"), "build = []\n".to_owned(), row.repeat(2)] {
        std::fs::write(&kept, broken).unwrap();
        let refused = resolve(&["--no-learn"]).expect(3);
        assert!(
            refused.flat().contains("the lock has torch 2.99.0, which the registry does not know"),
            "{}",
            refused.shown()
        );
        assert_eq!(context.read("envlock.lock"), lock);
    }
    resolve(&[]).expect(0);
    assert_eq!((context.read("envlock.lock"), std::fs::read_to_string(&kept).unwrap()), (lock.clone(), row));
    // Questions about the lock know what it was made with.
    let json = context.run(&["outdated", "--json"]).expect(0).json();
    assert_eq!(json["targets"][0]["stack"]["allowed_by_request"], serde_json::Value::Null, "{json:#}");
    let elsewhere = context.dir.path().join("empty").display().to_string();
    let told = context.run(&["outdated", "--cache-dir", &elsewhere]).expect(0);
    assert!(!told.stdout.contains("2.15.0"), "{}", told.shown());
    let told = context.run(&["why", "torch"]).expect(0);
    assert!(told.stdout.contains("2.99.0") && !told.stdout.contains("2.15.0"), "{}", told.shown());
    // A GPU that its code does not serve gets an older one, as ever.
    let old = context
        .run(&[
            "resolve",
            "torch",
            "--gpu",
            "Tesla T4",
            "--driver",
            "615.10.01",
            "--only-index",
            "pypi",
            "--upgrade",
            "--dry-run",
        ])
        .expect(0);
    assert!(old.stdout.contains("2.15.0+cu132"), "{}", old.shown());
}

/// A library with this device code; nothing where there is no gcc.
pub fn with_code(context: &TestContext, code: &[u8]) -> Option<Vec<u8>> {
    let bytes: Vec<String> = code.iter().map(ToString::to_string).collect();
    let source = context.dir.path().join("code.c");
    let text = format!(
        "__attribute__((section(\".nv_fatbin\"), used)) static const unsigned char code[] = {{{}}};\n",
        bytes.join(",")
    );
    std::fs::write(&source, text).unwrap();
    let out = context.dir.path().join("_C.so");
    let done = Command::new("gcc").args(["-shared", "-nostdlib", "-o"]).args([&out, &source]).status();
    if !done.is_ok_and(|status| status.success()) {
        skipped("no gcc here");
        return None;
    }
    Some(std::fs::read(out).unwrap())
}

#[test]
fn code_of_a_small_package_is_read_when_it_is_chosen() {
    let context = TestContext::new();
    let Some(library) = with_code(&context, &fatbin(&[&[(2, 90)]])) else { return };
    let mut wheels = super::wheels::little_pypi();
    let tags = "cp312-cp312-manylinux_2_28_x86_64";
    wheels.push((
        "pypi",
        wheel("extension", "1.0").tags(tags).needs("torch").bytes("extension/_C.so", &library),
    ));
    wheels
        .push(("pypi", wheel("plain", "1.0").tags(tags).needs("torch").file("plain/_C.so", "no library\n")));
    let mut torn = fatbin(&[&[(2, 90)], &[(2, 80)]]);
    torn.truncate(torn.len() - 40);
    let torn = with_code(&context, &torn).unwrap();
    wheels.push(("pypi", wheel("torn", "1.0").tags(tags).needs("torch").bytes("torn/_C.so", &torn)));
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let resolve = |gpu: &str, rest: &[&str]| {
        let machine = ["--gpu", gpu, "--driver", "580.159.04", "--only-index", "pypi", "--python", "3.12"];
        context.run(&[&["resolve", "torch", "extension", "plain"], &machine[..], rest].concat())
    };
    // Nobody has read it: on a T4 it is not judged.
    resolve("Tesla T4", &["--no-learn", "--dry-run"]).expect(0);
    let refused = resolve("Tesla T4", &["--dry-run"]).expect(1);
    assert!(refused.flat().contains("extension 1.0 has no code for NVIDIA T4 (7.5)"), "{}", refused.shown());
    assert!(refused.stdout.contains("without extension"), "{}", refused.shown());
    resolve("NVIDIA H200", &[]).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("code = [\"9.0\"]"), "{lock}");
    assert!(!lock.contains("capability = \"7.5\"") && lock.contains("capability = \"9.0\""), "{lock}");
    // What cannot be read whole is not judged: it may be the rest that serves the GPU.
    let run = context.run(&[
        "resolve",
        "torch",
        "torn",
        "--gpu",
        "Tesla T4",
        "--driver",
        "580.159.04",
        "--only-index",
        "pypi",
        "--python",
        "3.12",
        "--dry-run",
    ]);
    assert!(run.expect(0).stdout.contains("torn"), "it is locked as it is");
    // What was read is kept, that there is nothing in it too.
    let read = |name: &str| server.paths().iter().filter(|p| p.contains(name) && p.ends_with(".whl")).count();
    let before = (read("extension"), read("plain"));
    resolve("NVIDIA H200", &[]).expect(0);
    assert_eq!((read("extension"), read("plain")), before);
    assert_eq!(context.read("envlock.lock"), lock);
}
