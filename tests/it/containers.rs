//! Container images: what is inside, whether a machine runs them, and the Dockerfile of a lock.

use dockerfile_parser::{Dockerfile, Instruction};

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{little_pypi, wheel};

#[test]
fn an_image_on_a_machine() {
    let context = TestContext::new();
    let torch = "pytorch/pytorch:2.5.0-cuda12.4-cudnn9-runtime";
    let nvidia = "nvcr.io/nvidia/pytorch:24.05-py3";
    let late = "nvcr.io/nvidia/pytorch:25.08-py3";
    let tensorflow = "tensorflow/tensorflow:2.9.0-gpu";
    for (image, gpu, driver, verdict, says) in [
        (torch, "NVIDIA H200", "580.159.04", "runs", "driver 580.159.04 >= 525.60.13"),
        (torch, "NVIDIA H200", "470.57.02", "does-not-run", "it needs driver >= 525.60.13"),
        (torch, "NVIDIA B200", "580.159.04", "does-not-run", "its torch has no code for NVIDIA B200 (10.0)"),
        (nvidia, "NVIDIA H200", "560.35.03", "unknown", "driver 560.35.03 is of branch 545 or newer"),
        (nvidia, "NVIDIA H200", "535.129.03", "unknown", "forward compatibility allows it"),
        (nvidia, "RTX 4090", "535.129.03", "does-not-run", "require driver branch 545"),
        // Release notes name branch 575, and CUDA 13 needs 580 where forward compatibility does not help.
        (late, "RTX 4090", "575.57.08", "does-not-run", "its CUDA 13.0.0 needs driver >= 580.65.06"),
        (late, "NVIDIA H200", "575.57.08", "unknown", "driver 575.57.08 is of branch 575 or newer"),
        (tensorflow, "Tesla T4", "450.80.02", "runs", "driver 450.80.02 >= 450.80.02"),
        (tensorflow, "Tesla T4", "450.36.06", "does-not-run", "it needs driver >= 450.80.02"),
    ] {
        let code = match verdict {
            "runs" => 0,
            "does-not-run" => 1,
            _ => 3,
        };
        let arguments = ["plan", "--image", image, "--gpu", gpu, "--driver", driver];
        let json = context.run(&[&arguments[..], &["--json"]].concat()).expect(code).json();
        assert_eq!(json["verdict"], verdict, "{image} {gpu} {driver}: {json:#}");
        assert!(json["reasons"].to_string().contains(says), "{says}: {json:#}");
        context.run(&arguments).expect(code);
    }
    // Rows are of one processor.
    let other =
        ["plan", "--image", torch, "--gpu", "GH200", "--driver", "580.65.06", "--platform", "linux-aarch64"];
    let run = context.run(&other).expect(3);
    assert!(
        run.flat().contains("image data only for linux-x86_64, not for linux-aarch64"),
        "{}",
        run.shown()
    );
}

#[test]
fn names_that_mean_nothing() {
    let context = TestContext::new();
    for (name, code, says) in [
        (
            "pytorch/pytorch:2.5.0-cuda12.1-cudnn8-runtime",
            1,
            "never existed: images from 2.4.0 on have cuDNN 9 nearest pytorch/pytorch:2.5.0-cuda12.1-cudnn9-runtime",
        ),
        ("pytorch/pytorch:2.8.0-cuda11.8-cudnn8-devel", 1, "never existed: 2.8 was built for CUDA 12.6"),
        ("pytorch/pytorch:9.9", 3, "is not in the registry: its contents are unknown nearest"),
        (
            "pytorch/pytorch",
            3,
            "names no release: `latest` changes over time nearest pytorch/pytorch:2.13.0-cuda13.2",
        ),
        ("pytorch/pytorch@sha256:ab", 3, "has only a digest"),
        ("ubuntu:24.04", 3, "unknown image repository `ubuntu`"),
        ("no image", 2, "`no image` is not an image name"),
        ("x:$(reboot)", 2, "is not an image name"),
    ] {
        let run = context.run(&["plan", "--image", name, "--gpu", "NVIDIA H200"]).expect(code);
        assert!(run.flat().contains(says), "{says}: {}", run.shown());
    }
}

#[test]
fn the_dockerfile_of_a_lock() {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context
        .run(&["resolve", "torch", "--gpu", "NVIDIA H200", "--driver", "580.159.04", "--only-index", "pypi"])
        .expect(0);
    let run = context.run(&["export", "Dockerfile"]).expect(0);
    insta::assert_snapshot!("dockerfile", run.stdout);
    let parsed = Dockerfile::parse(&run.stdout).unwrap();
    assert_eq!(parsed.stages().iter().count(), 1);
    let entry = parsed.instructions.iter().find_map(|i| match i {
        Instruction::Entrypoint(entry) => entry.as_exec().map(|e| e.as_str_vec().join(" ")),
        _ => None,
    });
    assert_eq!(entry.as_deref(), Some("envlock run --require-gpu --"));
    let requirement = parsed.instructions.iter().find_map(|i| match i {
        Instruction::Env(env) => env
            .vars
            .iter()
            .find(|var| var.key.content == "NVIDIA_REQUIRE_CUDA")
            .map(|var| var.value.to_string()),
        _ => None,
    });
    assert_eq!(requirement.as_deref(), Some("driver>=580.65.06"));
    // Without a GPU nothing of NVIDIA's is asked for.
    let cpu = TestContext::with_index(&server);
    cpu.run(&["resolve", "torch", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    let file = cpu.run(&["export", "Dockerfile"]).expect(0).stdout;
    assert!(!file.contains("NVIDIA") && !file.contains("--require-gpu"), "{file}");
    // A base is taken as it is, and what it may do is said.
    let digest = format!("nvidia/cuda@sha256:{}", "a".repeat(64));
    let run = context.run(&["export", "Dockerfile", "--base", &digest]).expect(0);
    assert!(run.stdout.contains(&format!("FROM {digest}\n")) && run.stderr.is_empty(), "{}", run.shown());
    let run = context
        .run(&["export", "Dockerfile", "--base", "nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04"])
        .expect(0);
    assert!(run.flat().contains("use a base image without `cudnn` in its tag"), "{}", run.shown());
    let run = context.run(&["export", "Dockerfile", "--base", "x\nRUN reboot"]).expect(2);
    assert!(run.stderr.contains("is not an image name"), "{}", run.shown());
}

#[test]
fn an_old_tensorflow_needs_a_base() {
    let mut wheels = little_pypi();
    wheels.push(("pypi", wheel("tensorflow", "2.9.3").tags("cp310-cp310-manylinux_2_17_x86_64")));
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let machine = ["--gpu", "Tesla T4", "--driver", "450.80.02", "--python", "3.10"];
    context.run(&[&["resolve", "tensorflow==2.9.*"], &machine[..]].concat()).expect(0);
    let run = context.run(&["export", "Dockerfile"]).expect(2);
    assert!(run.flat().contains("tensorflow opens CUDA 11.2 and cuDNN 8.1 by name"), "{}", run.shown());
    let base = "tensorflow/tensorflow:2.9.0-gpu";
    let run = context.run(&["export", "Dockerfile", "--base", base]).expect(0);
    assert!(run.stdout.contains(&format!("FROM {base}\n")), "{}", run.shown());
    assert!(run.stdout.contains("driver>=450.80.02"), "{}", run.shown());
}
