//! `diagnose` on texts written for it.

use std::io::Write as _;
use std::process::Stdio;

use super::context::{Run, TestContext};

fn diagnose(context: &TestContext, text: &str, rest: &[&str]) -> Run {
    let mut command = context.command();
    command.arg("diagnose").args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    context.finish(child.wait_with_output().unwrap())
}

/// What is pasted, and the component at fault; nothing where nothing is.
const TABLE: &[(&str, Option<&str>)] = &[
    ("CUDA error: no kernel image is available for execution on the device", Some("gpu-arch")),
    // The numbers say whose kernels: torch's flavour, or an extension's.
    ("torch==2.9.1+cu126\nGPU 0: NVIDIA B200\nCUDA error: no kernel image is available", Some("torch-build")),
    ("torch==2.9.1+cu128\nGPU 0: NVIDIA GeForce GTX 1080 Ti\nno kernel image is available", Some("gpu-arch")),
    (
        "torch==2.9.1+cu128\nGPU 0: NVIDIA H100\nimport vllm\nno kernel image is available",
        Some("extension-abi"),
    ),
    (
        "PyTorch version: 2.9.1+cu128\nIs CUDA available: False\nNvidia driver version: 470.57.02",
        Some("driver"),
    ),
    (
        "PyTorch version: 2.9.1+cu130\nIs CUDA available: True\nNvidia driver version: 580.95.05\nGPU 0: NVIDIA H200",
        None,
    ),
    ("PyTorch version: 2.9.1+cpu\nGPU 0: NVIDIA H100\nNvidia driver version: 550.54.15", Some("torch-build")),
    ("PyTorch version: 2.9.1+cpu\nIs CUDA available: False\nROCM used to build PyTorch: N/A", None),
    ("OS: macOS 15.3\nAssertionError: Torch not compiled with CUDA enabled", Some("other")),
    ("AssertionError: Torch not compiled with CUDA enabled", Some("torch-build")),
    (
        "pip install torch --index-url https://download.pytorch.org/whl/cu114\nfrom versions: none)",
        Some("torch-build"),
    ),
    ("The NVIDIA driver on your system is too old (found version 11040)", Some("driver")),
    (
        "NVIDIA Jetson Orin\nThe NVIDIA driver on your system is too old (found version 11040)",
        Some("torch-build"),
    ),
    ("Error 804: forward compatibility was attempted on non supported HW", Some("driver")),
    ("Error 802: system not yet initialized", Some("driver")),
    (
        "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].",
        Some("container"),
    ),
    ("undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12", Some("path-shadowing")),
    ("x.so: undefined symbol: _ZN3c104impl8GPUTrace13gpuTraceStateE", Some("extension-abi")),
    ("RuntimeError: operator torchvision::nms does not exist", Some("torchvision-pairing")),
    ("libc.so.6: version `GLIBC_2.32' not found", Some("glibc")),
    ("libstdc++.so.6: version `GLIBCXX_3.4.30' not found", Some("path-shadowing")),
    (
        "Could not load dynamic library 'libcudart.so.11.0'; dlerror: cannot open shared object file",
        Some("cuda-runtime"),
    ),
    (
        "ls /opt/cuda/lib64/libcudart.so.11.0\nCould not load dynamic library 'libcudart.so.11.0'",
        Some("path-shadowing"),
    ),
    ("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", Some("path-shadowing")),
    ("Loaded runtime CuDNN library: 8.9.2 but source was compiled with: 9.1.0", Some("cudnn")),
    (
        "The detected CUDA version (11.8) mismatches the version that was used to compile",
        Some("cuda-runtime"),
    ),
    ("ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'", Some("gpu-arch")),
    ("AttributeError: _ARRAY_API not found", Some("extension-abi")),
    ("RuntimeError: CUDA error: invalid device ordinal", Some("other")),
    ("undefined symbol: ncclCommRegister", Some("nccl")),
    ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", Some("other")),
    ("everything went well", None),
    ("", None),
];

#[test]
fn each_text_has_its_component() {
    let context = TestContext::new();
    for (text, expected) in TABLE {
        // Colours, carriage returns, the prefix of a log collector and another script's colon change nothing.
        let dressed: String = text
            .lines()
            .map(|line| format!("\u{1b}[31m{}\u{1b}[0m\r\n", line.replace(": ", "： ")))
            .collect();
        let logged: String = text.lines().map(|line| format!("web-1  | {line}\n")).collect();
        for input in [(*text).to_owned(), dressed, logged] {
            let run = diagnose(&context, &input, &["--json"]);
            let json = run.json();
            let found = json["causes"][0]["component"].as_str();
            assert_eq!(found, *expected, "{input:?}: {json:#}");
            assert_eq!(run.code, i32::from(expected.is_some()), "{input:?}");
        }
    }
}

#[test]
fn an_answer_as_a_person_reads_it() {
    let context = TestContext::new();
    let text = "Collecting environment information...\nPyTorch version: 2.9.1+cu128\nIs CUDA available: True\n\
                GPU models and configuration: GPU 0: NVIDIA GeForce GTX 1080 Ti\nNvidia driver version: 535.54.03\n\
                RuntimeError: CUDA error: no kernel image is available for execution on the device\n";
    insta::assert_snapshot!("diagnose_gtx", diagnose(&context, text, &[]).expect(1).shown());
    insta::assert_snapshot!("diagnose_unknown", diagnose(&context, "hello\n", &[]).expect(0).shown());
}

#[test]
fn nothing_of_the_text_becomes_a_command_or_a_secret() {
    let context = TestContext::new();
    let text = "GPU 0: NVIDIA $(rm -rf ~) GeForce\ntorch==2.9.1+cu128;reboot\n\
                https://me:hunter2@example.org/x no kernel image is available token=abcdef \u{7}\u{9b}31m\n";
    let run = diagnose(&context, text, &["--json"]);
    let json = run.json();
    let fixes = json["causes"].as_array().unwrap().iter().map(|c| c["fix"].to_string()).collect::<String>();
    assert!(!fixes.contains("rm -rf") && !fixes.contains("reboot"), "{fixes}");
    let quoted = json["causes"].to_string();
    assert!(!quoted.contains("hunter2") && !quoted.contains("abcdef"), "{quoted}");
    assert!(!run.stdout.contains('\u{7}'), "{}", run.shown());
}

#[test]
fn long_and_binary_input() {
    let context = TestContext::new();
    let path = context.project().join("log");
    let mut bytes = vec![b'x'; 20 << 20];
    bytes.extend(b"\n\xff\xfe\0binary\nError 802: system not yet initialized\n");
    std::fs::write(&path, bytes).unwrap();
    let json = context.run(&["diagnose", "log", "--json"]).expect(1).json();
    assert_eq!(json["causes"][0]["evidence"][0]["line"], 3, "{json:#}");
    context.run(&["diagnose", "nowhere"]).expect(2);
    context.run(&["diagnose", "."]).expect(2);
}

#[test]
fn every_cause_is_explained() {
    let page = include_str!("../../docs/diagnostics.md");
    for rule in envlock::registry::Registry::embedded().errors() {
        assert!(page.contains(&format!("| `{}` | {} |", rule.id, rule.component)), "docs: {}", rule.id);
    }
}
