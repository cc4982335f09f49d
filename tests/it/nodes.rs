//! This machine asked without an environment: `verify --host` without a value, `--only`, and the formats of monitors.

use super::context::TestContext;
use super::probe::{empty_environment, with_stub};

/// Writes a file below the root that is looked at.
fn of_root(context: &TestContext, path: &str, text: &str) {
    let path = context.dir.path().join("sysroot").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A GPU on the PCI bus.
fn on_bus(context: &TestContext, bus: &str) {
    for (file, text) in [("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x20b2")] {
        of_root(context, &format!("sys/bus/pci/devices/{bus}/{file}"), text);
    }
}

/// A loaded driver with its device files.
fn with_driver(context: &TestContext) {
    for file in ["sys/module/nvidia/version", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia0", "dev/nvidia1"]
    {
        of_root(context, file, "535.129.03\n");
    }
}

const MACHINE: [&str; 5] = ["verify", "--only", "machine", "--format", "line"];

#[test]
fn a_sound_machine_and_unsound_ones() {
    let context = TestContext::new();
    insta::assert_snapshot!(
        "nodes_without_gpu",
        context.run(&["verify", "--only", "machine"]).expect(0).shown()
    );
    // The driver is not loaded: only this question drains a node.
    on_bus(&context, "0000:3b:00.0");
    let run = context.run(&["verify", "--host", "--only", "machine"]).expect(1);
    insta::assert_snapshot!("nodes_without_driver", run.shown());
    let line = context.run(&MACHINE).expect(1).stdout;
    assert!(line.starts_with("envlock: driver-not-loaded: no NVIDIA driver is loaded; the GPU at"), "{line}");
    assert!(line.len() <= 81 && line.is_ascii(), "{line}");
    let json = context.run(&["verify", "--only", "machine", "--json"]).expect(1).json();
    assert_eq!(
        (&json["verdict"], &json["findings"][0]["code"]),
        (&"differs".into(), &"driver-not-loaded".into())
    );
    // Loaded, without the library that could ask the GPUs.
    with_driver(&context);
    let json = context.run(&["verify", "--only", "machine", "--json"]).expect(3).json();
    assert_eq!((&json["verdict"], &json["error"]["code"]), (&"unknown".into(), &"host".into()));
    let line = context.run(&[&MACHINE[..], &["--unknown", "ok"]].concat()).expect(0).stdout;
    assert!(line.starts_with("envlock: unknown: "), "{line}");
}

#[test]
fn gpus_that_do_not_answer_are_told_from_those_that_are_not_given() {
    let Some(mut context) = with_stub(&[]) else { return };
    with_driver(&context);
    context.run(&MACHINE).expect(0);
    // The driver lists a third GPU.
    for (bus, uuid) in [("3b", "GPU-000"), ("3c", "GPU-111"), ("3d", "GPU-222")] {
        let text = format!("Model: NVIDIA A100\nGPU UUID: {uuid}\nDevice Minor: 2\n");
        of_root(&context, &format!("proc/driver/nvidia/gpus/0000:{bus}:00.0/information"), &text);
    }
    // Without its device file, it was not given to this process.
    assert_eq!(context.run(&MACHINE).expect(0).stdout, "envlock: ok: driver 535.129.03, 2 GPUs answer\n");
    of_root(&context, "dev/nvidia2", "");
    let line = context.run(&MACHINE).expect(1).stdout;
    assert!(
        line.starts_with("envlock: gpu-not-answering: the GPU at 0000:3d:00.0 does not answer"),
        "{line}"
    );
    // A program that fills a GPU is no fault of the node, an error in its memory is.
    std::fs::remove_file(context.dir.path().join("sysroot/dev/nvidia2")).unwrap();
    context.set("STUB_ECC", "2");
    assert!(context.run(&MACHINE).expect(1).stdout.contains("memory-errors (+1)"));
    // A GPU that was lost can make the library hang.
    context.set("STUB_HANGS", "1");
    context.set("ENVLOCK_DRIVER_TIMEOUT", "1");
    let line = context.run(&MACHINE).expect(1).stdout;
    assert_eq!(line, "envlock: gpu-not-answering: NVML hangs: it did not answer within 1 s\n");
    context.unset("STUB_HANGS");
    context.unset("ENVLOCK_DRIVER_TIMEOUT");
    // Variables that hide GPUs from programs change nothing about the machine.
    context.set("STUB_ECC", "0");
    context.set("CUDA_VISIBLE_DEVICES", "-1");
    assert_eq!(context.run(&MACHINE).expect(0).stdout, "envlock: ok: driver 535.129.03, 2 GPUs answer\n");
    context.unset("CUDA_VISIBLE_DEVICES");
    // Device files that the first program makes are not missing.
    std::fs::remove_file(context.dir.path().join("sysroot/dev/nvidia-uvm")).unwrap();
    assert!(context.run(&MACHINE).expect(1).stdout.contains("no-device-files"));
    of_root(&context, "usr/bin/nvidia-modprobe", "");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let modprobe = context.dir.path().join("sysroot/usr/bin/nvidia-modprobe");
        std::fs::set_permissions(&modprobe, std::fs::Permissions::from_mode(0o4755)).unwrap();
        if std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&modprobe).unwrap()) == 0 {
            context.run(&MACHINE).expect(0);
        }
    }
    // 999: an unknown error. 4: not permitted, as in a job without GPUs.
    context.set("STUB_INIT", "999");
    assert!(context.run(&MACHINE).expect(1).stdout.contains("gpu-not-answering"));
    context.set("STUB_INIT", "4");
    context.run(&MACHINE).expect(3);
}

#[test]
fn a_lock_that_does_not_run_here_says_nothing_of_the_machine() {
    let Some(mut context) = with_stub(&[]) else { return };
    with_driver(&context);
    let run = context.run(&["verify", "--host"]).expect(2);
    assert!(run.stderr.contains("`--only machine`"), "{}", run.shown());
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "535.129.03"])
        .expect(0);
    let run = context.run(&["verify", "--host"]).expect(0);
    let told = run.flat();
    assert!(told.contains("machine ok driver 535.129.03, 2 GPUs answer"), "{told}");
    assert!(told.ends_with("the lock runs here"), "{told}");
    // What changed since the lock was made is told, and is no fault.
    assert!(!told.contains("535.129.03 when locked"), "{told}");
    let lock = context.read("envlock.lock");
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "580.65.06"])
        .expect(0);
    let told = context.run(&["verify", "--host"]).expect(0).flat();
    assert!(told.contains("driver 580.65.06 when locked, 535.129.03 now"), "{told}");
    context.write("envlock.lock", &lock);
    // A GPU that fails matters where something uses it.
    context.set("STUB_ECC", "2");
    context.run(&["verify", "--host"]).expect(1);
    let lock = context.read("envlock.lock");
    let cpu = ["resolve", "torch==2.9.1", "--stack-only", "--gpu", "none"];
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    context.run(&cpu).expect(0);
    context.run(&["verify", "--host"]).expect(0);
    context.write("envlock.lock", &lock);
    context.set("STUB_ECC", "0");
    // Whether the machine is sound does not depend on the folder.
    context.write("envlock.toml", "not TOML");
    context.run(&MACHINE).expect(0);
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    context.set("STUB_DRIVER", "470.57.02");
    context.set("STUB_CUDA", "11040");
    context.run(&MACHINE).expect(0);
    let line = context.run(&["verify", "--host", "--format", "line"]).expect(1).stdout;
    assert_eq!(line, "envlock: driver-too-old (+1): driver 470.57.02 is below 525.60.13, which...\n");
}

#[test]
fn metrics_are_written_at_once_and_only_over_own_files() {
    let context = TestContext::new();
    let metrics = ["verify", "--only", "machine", "--format", "prometheus", "-o", "envlock.prom"];
    let run = context.run(&metrics).expect(0);
    assert_eq!(run.stdout, "");
    let text = context.read("envlock.prom");
    assert!(text.contains("envlock_verify_status{question=\"machine\",lock=\"\"} 0\n"), "{text}");
    on_bus(&context, "0000:3b:00.0");
    context.run(&metrics).expect(1);
    let text = context.read("envlock.prom");
    assert!(text.contains("envlock_verify_status{question=\"machine\",lock=\"\"} 1\n"), "{text}");
    assert!(text.contains("code=\"driver-not-loaded\",severity=\"error\"} 1\n"), "{text}");
    context.write("mine.txt", "mine\n");
    for format in ["prometheus", "line", "junit", "sarif", "github", "json"] {
        let run =
            context.run(&["verify", "--only", "machine", "--format", format, "-o", "mine.txt"]).expect(2);
        assert!(run.stderr.contains("was not written by envlock"), "{format}: {}", run.shown());
        let own = format!("own.{format}");
        let again = ["verify", "--only", "machine", "--format", format, "-o", &own];
        context.run(&again).expect(1);
        context.run(&again).expect(1);
        context.run(&[&again[..], &["--force"]].concat()).expect(1);
    }
    assert_eq!(context.read("mine.txt"), "mine\n");
    assert_eq!(super::context::leftovers(&context.project()), Vec::<String>::new());
    let run = context.run(&["verify", "--only", "machine", "-o", "x"]).expect(2);
    assert!(run.stderr.contains("--format junit"), "{}", run.shown());
    // A real parser of the format.
    let Some(python) = super::tools::python_with("prometheus_client") else { return };
    let script = "import sys; from prometheus_client.parser import text_string_to_metric_families as f; \
        print([(s.name, int(s.value)) for m in f(open(sys.argv[1]).read()) for s in m.samples][0])";
    let file = context.project().join("envlock.prom");
    let parsed = std::process::Command::new(python).args(["-c", script]).arg(file).output().unwrap();
    let told = String::from_utf8_lossy(&parsed.stdout).into_owned();
    assert!(
        told.contains("('envlock_verify_status', 1)"),
        "{told} {}",
        String::from_utf8_lossy(&parsed.stderr)
    );
}

#[test]
fn nodes_in_files_as_lines_and_metrics() {
    let context = TestContext::new();
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "580.65.06"])
        .expect(0);
    for (name, driver) in [("n1", "580.65.06"), ("n2", "470.57.02")] {
        let text = format!(
            "schema = 1\n[driver]\nversion = \"{driver}\"\n[[gpu]]\nname = \"NVIDIA A100-SXM4-80GB\"\n"
        );
        context.write(&format!("nodes/{name}.toml"), &text);
    }
    let lines = context.run(&["verify", "--host", "nodes", "--format", "line"]).expect(1).stdout;
    assert_eq!(
        lines,
        "envlock: n1: ok: NVIDIA A100-SXM4-80GB (8.0), driver 580.65.06 >= 525.60.13...\n\
         envlock: n2: driver-too-old: driver 470.57.02 is below 525.60.13, which...\n"
    );
    let metrics = context.run(&["verify", "--host", "nodes", "--format", "prometheus"]).expect(1).stdout;
    assert!(metrics.contains("envlock_verify_status{node=\"n2\",question=\"host\"} 1\n"), "{metrics}");
}

#[test]
fn one_half_alone() {
    let context = TestContext::new();
    empty_environment(&context);
    on_bus(&context, "0000:3b:00.0");
    // The lock is for a GPU that is not here, and that is no question of the environment.
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "535.129.03"])
        .expect(0);
    let arguments = ["verify", "--prefix", "../env", "--smoke", "off", "--json", "--only", "environment"];
    let json = context.run(&arguments).expect(1).json();
    let codes: Vec<&str> =
        json["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"missing-package"), "{codes:?}");
    assert!(
        !codes.iter().any(|code| ["driver-not-loaded", "not-judged", "drift"].contains(code)),
        "{codes:?}"
    );
    for contradiction in [
        &["--only", "machine", "--prefix", "../env"][..],
        &["--only", "machine", "--host", "n.toml"],
        &["--only", "machine", "--lock", "uv.lock"],
        &["--only", "environment", "--host"],
        &["--only", "environment", "--require-gpu"],
    ] {
        let run = context.run(&[&["verify"], contradiction].concat()).expect(2);
        assert!(run.stderr.contains("`--only "), "{}", run.shown());
    }
    // No environment: not known, or taken as well; never where the question itself is wrong.
    std::fs::remove_dir_all(context.dir.path().join("env")).unwrap();
    let line = context.run(&["verify", "--format", "line"]).expect(3).stdout;
    assert!(line.starts_with("envlock: unknown: no environment is active"), "{line}");
    context.run(&["verify", "--unknown", "ok"]).expect(0);
    let line = context
        .run(&["verify", "--unknown", "ok", "--prefix", "../env", "--format", "line"])
        .expect(2)
        .stdout;
    assert!(line.starts_with("envlock: cannot answer: "), "{line}");
}
