//! What the data do not know is neither "yes" nor "no", whoever is asked: the frozen registry with facts taken out.

use std::path::Path;

use super::aged::files_below;
use super::context::{FROZEN_REGISTRY, IndexServer, Shape, TestContext};
use super::wheels::little_pypi;

const A100: [&str; 4] = ["--gpu", "A100", "--driver", "580.65.06"];

/// A project beside a copy of the frozen registry of which some rows of a file are another text.
fn changed(file: &str, edit: impl Fn(&str) -> Option<String>) -> TestContext {
    let context = TestContext::new().with_shipped_registry();
    for (path, text) in files_below(Path::new(FROZEN_REGISTRY), "") {
        let text = match path == file {
            true => text.split("\n\n").filter_map(&edit).collect::<Vec<_>>().join("\n\n"),
            false => text,
        };
        context.write(&format!("registry/{path}"), &text);
    }
    context
}

/// Asks each command, and holds its exit code.
fn all_answer(context: &TestContext, machine: &[&str], code: i32, commands: &[&str]) {
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').chain(machine.iter().copied()).collect();
        context.run(&[&arguments[..], &["--registry", "registry"]].concat()).expect(code);
    }
}

#[test]
fn without_a_floor_an_older_driver_is_unknown() {
    let context = changed("cuda.toml", |row| (!row.contains("[[minor_version")).then(|| row.to_owned()));
    context.write("requirements.txt", "torch==2.9.1+cu128\n");
    for (driver, code) in [("570.26", 0), ("580.65.06", 0), ("535.129.03", 3)] {
        let commands = [
            "plan torch==2.9.1+cu128",
            "plan --lock requirements.txt",
            "resolve torch==2.9.1+cu128 --stack-only --force",
            "resolve torchvision==0.24.1 --variant cu128 --stack-only --force",
        ];
        all_answer(&context, &["--gpu", "A100", "--driver", driver], code, &commands);
    }
}

#[test]
fn a_release_of_which_pypis_build_is_not_known() {
    let of_pypi = ["version = \"2.9.1\"", "variant = \"cu128\"", "platform = \"linux-x86_64\""];
    let is_it = |row: &str| of_pypi.iter().all(|line| row.contains(line));
    let context = changed("torch/2.9.toml", |row| (!is_it(row)).then(|| row.to_owned()));
    context.write("requirements.txt", "torch==2.9.1\n");
    let commands = [
        "plan torch==2.9.1 --only-index pypi",
        "resolve torch==2.9.1 --only-index pypi --stack-only",
        "plan --lock requirements.txt",
    ];
    all_answer(&context, &A100, 3, &commands);
    let lock = context.run(&["plan", "--lock", "requirements.txt", "--registry", "registry"]);
    assert!(lock.flat().contains("PyPI's build of torch 2.9.1"), "{}", lock.shown());
}

/// The refusal of a companion rests on the torch that it needs.
#[test]
fn code_that_nobody_read_refuses_nothing() {
    let context = changed("torch/2.9.toml", |row| {
        let lines = row.lines().filter(|line| !line.starts_with("targets"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    });
    let commands = [
        "plan torch==2.9.1 --only-index pypi",
        "resolve torch==2.9.1 --only-index pypi --stack-only",
        "resolve torchvision==0.24.1 --only-index pypi --stack-only",
        "resolve torch>=2.9,<2.10 --only-index pypi --stack-only",
    ];
    all_answer(&context, &A100, 3, &commands);
}

#[test]
fn a_gpu_that_nobody_knows() {
    let context = TestContext::new().with_shipped_registry();
    context.write("requirements.txt", "torch==2.9.1\n");
    for machine in
        [&["--gpu", "14.0"][..], &["--gpu", "A100", "--gpu", "14.0"], &["--gpu", "14.0", "--driver", "700"]]
    {
        for command in [&["plan", "torch==2.9.1"][..], &["plan", "--lock", "requirements.txt"]] {
            context.run(&[command, machine].concat()).expect(3);
        }
    }
    let log = "NVIDIA R300 with CUDA capability sm_140 is not compatible with the current PyTorch installation.\n\
               Nvidia driver version: 700.10\n";
    context.write("log.txt", log);
    let found = context.run(&["diagnose", "log.txt"]).expect(1);
    assert!(!found.flat().contains("pip install"), "{}", found.shown());
}

#[test]
fn releases_beyond_the_data() {
    let context = TestContext::new().with_shipped_registry();
    let machine = ["--gpu", "A100", "--driver", "580.65.06"];
    for (pins, code) in [
        ("jax==0.99.0", 3),
        ("jax==0.4.30", 1),
        ("torch==2.9.1\nvllm==0.99.0", 3),
        ("torch==2.15.0\nnvidia-cuda-runtime==13.0.96", 1),
        ("torch==2.15.0\nnvidia-cuda-runtime==13.2.86", 0),
        ("torch==2.6.0\nnvidia-cuda-runtime-cu12==12.4.127", 0),
        ("torch==2.15.0+rocm7.0", 1),
        ("torch==1.4.0", 3),
    ] {
        context.write("requirements.txt", pins);
        context.run(&[&["plan", "--lock", "requirements.txt"], &machine[..]].concat()).expect(code);
    }
    for (torch, code) in [("torch==2.15.0+rocm7.0", 1), ("torch==1.4.0", 3), ("torch<1.8", 3)] {
        context.run(&[&["plan", torch], &machine[..]].concat()).expect(code);
        context.run(&[&["resolve", torch, "--stack-only"], &machine[..]].concat()).expect(code);
    }
    context.run(&[&["resolve", "torch", "--stack-only"], &machine[..]].concat()).expect(0);
    for asked in ["cuda==14.0", "cudnn==9.99", "nccl==2.99"] {
        context.run(&["why", "--not", asked]).expect(3);
    }
    context.run(&["why", "--not", "cudnn==8.1"]).expect(0);
}

/// A build of torch that names a companion says nothing of other ones.
#[test]
fn a_companion_that_only_another_torch_names() {
    let is_it = |row: &str| row.contains("\"torchvision\"") && row.contains("version = \"0.25.0\"");
    let context = changed("companions.toml", |row| (!is_it(row)).then(|| row.to_owned()));
    let python = [&A100[..], &["--python", "3.12"]].concat();
    for (torch, code) in [("2.10.0", 0), ("2.9.1", 3)] {
        context.write("requirements.txt", &format!("torch=={torch}\ntorchvision==0.25.0\n"));
        all_answer(&context, &python, code, &["plan --lock requirements.txt"]);
    }
}

/// What is listed for other platforms, and not for this one, ended there; a name of no index is no index without builds.
#[test]
fn what_is_known_is_no_question() {
    let context = TestContext::new().with_shipped_registry();
    let mac = ["--platform", "macos-x86_64", "--gpu", "none"];
    context.run(&[&["plan", "torch>=2.3"], &mac[..]].concat()).expect(1);
    context.run(&[&["plan", "torch>=2.2"], &mac[..]].concat()).expect(0);
    context.run(&[&["plan", "torch", "--only-index", "foo"], &A100[..]].concat()).expect(2);
}

/// A build that no row has needs none to be impossible: its CUDA decides, and is told.
#[test]
fn an_unread_build_of_a_cuda_that_is_too_new() {
    let context = TestContext::new();
    let machine = ["--gpu", "A100", "--driver", "535.129.03"];
    let plan = context.run(&[&["plan", "torch==2.99.0+cu130"], &machine[..]].concat()).expect(1);
    assert!(plan.flat().contains("excluded needs driver >= 580.65.06: cu130 of 2.99.0"), "{}", plan.shown());
    let resolve = ["resolve", "torch==2.99.0+cu130", "--stack-only"];
    let resolve = context.run(&[&resolve, &machine[..]].concat()).expect(1);
    assert!(resolve.flat().contains("CUDA 13.0 needs driver >= 580.65.06"), "{}", resolve.shown());
}

/// What stands against a request beside something unknown is a no, and no way out is one that nobody knows.
#[test]
fn a_conflict_beside_what_is_not_known_is_one() {
    let context = TestContext::new().with_shipped_registry();
    for (asked, code) in [
        ("torch==2.8.0 torchvision==0.20.0 --gpu 10.9 --driver 580.65.06", 1),
        ("torch==2.8.0 --python 3.8 --gpu 10.9 --driver 580.65.06", 1),
        ("torch==2.15.0 --gpu 10.9 --gpu V100 --driver 580.65.06", 1),
        ("torch==2.8.0 --gpu 10.9 --driver 580.65.06", 3),
        ("torch==2.8.0 torchvision==0.8.2 --gpu 9.0 --driver 580.65.06", 3),
        ("torch==2.8.0+cu118 --gpu 8.0 --driver 418.40.04", 1),
    ] {
        let arguments: Vec<&str> = asked.split(' ').collect();
        let run = context.run(&[&["resolve", "--stack-only", "--dry-run"], &arguments[..]].concat());
        assert!(code != 1 || !asked.contains("10.9") || !run.flat().contains("ways out"), "{}", run.shown());
        run.expect(code);
    }
    for (pins, machine, code) in [
        ("torch==2.8.0+rocm6.4", &["--gpu", "none"][..], 3),
        ("torch==2.8.0+rocm6.4", &["--gpu", "A100", "--driver", "580.65.06"], 1),
        ("torch==1.7.1+cpu", &["--gpu", "none"], 3),
        ("torch==2.8.0+cpu", &["--gpu", "none"], 0),
        ("torch==2.8.0+cu118", &["--gpu", "8.0", "--driver", "418.40.04"], 1),
        ("torch==2.8.0+cu118", &["--gpu", "8.0", "--driver", "580.65.06"], 3),
    ] {
        context.write("requirements.txt", pins);
        context.run(&[&["plan", "--lock", "requirements.txt"], machine].concat()).expect(code);
    }
}

/// Where PyPI alone may be used, its page proves that it has no such release.
#[test]
fn what_pypi_does_not_have_is_proved_by_its_page() {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let asked = ["resolve", "torch==99.0", "--only-index", "pypi"];
    let run = context.run(&[&asked[..], &A100].concat()).expect(1);
    assert!(run.flat().contains("PyPI has no such torch; its newest is 2.15.0 [index]"), "{}", run.shown());
}
