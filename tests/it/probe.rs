//! `probe` with a stub NVML built here, a made-up nvidia-smi and a made-up root.

use std::path::Path;
use std::process::Command;

use super::context::{TestContext, skipped};

/// A reduced NVML: driver, CUDA, GPUs from the environment.
const STUB: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
typedef struct { int index; } dev;
static dev devices[8];
int nvmlInit_v2(void) { const char *r = getenv("STUB_INIT"); if (getenv("STUB_HANGS")) sleep(60); return r ? atoi(r) : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { strncpy(v, getenv("STUB_DRIVER"), n); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = atoi(getenv("STUB_CUDA")); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = atoi(getenv("STUB_COUNT")); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, dev **d) { devices[i].index = i; *d = &devices[i]; return 0; }
int nvmlDeviceGetName(dev *d, char *s, unsigned n) { strncpy(s, d->index ? "NVIDIA GeForce RTX 3090" : "NVIDIA A100-SXM4-80GB", n); return 0; }
int nvmlDeviceGetUUID(dev *d, char *s, unsigned n) { snprintf(s, n, "GPU-%d%d%d", d->index, d->index, d->index); return 0; }
static int number(const char *name, int otherwise) { const char *v = getenv(name); return v ? atoi(v) : otherwise; }
int nvmlDeviceGetMigMode(dev *d, unsigned *now, unsigned *later) { *now = *later = number("STUB_MIG", 0); return 0; }
int nvmlDeviceGetPersistenceMode(dev *d, int *m) { *m = number("STUB_PERSISTENCE", 1); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(dev *d, unsigned *n, void *p) { *n = 0; return 0; }
int nvmlDeviceGetComputeMode(dev *d, int *m) { *m = number("STUB_MODE", 0); return 0; }
int nvmlDeviceGetTotalEccErrors(dev *d, int k, int c, unsigned long long *n) { *n = number("STUB_ECC", 0); return 0; }
#ifndef OLD
#ifdef MEMORY
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
int nvmlDeviceGetMemoryInfo_v2(dev *d, memory *m) {
  unsigned long long mib = 1 << 20; m->total = 81920 * mib; m->free = number("STUB_FREE", 80000) * mib; return 0;
}
#endif
int nvmlDeviceGetCudaComputeCapability(dev *d, int *a, int *b) { *a = 8; *b = d->index ? 6 : 0; return 0; }
#endif
"#;

/// Builds the stub into a folder; `None` where there is no C compiler.
fn stub(folder: &Path, flags: &[&str]) -> Option<()> {
    let source = folder.join("stub.c");
    std::fs::write(&source, STUB).unwrap();
    let status = Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .args(flags)
        .arg(&source)
        .status();
    match status {
        Ok(status) if status.success() => Some(()),
        _ => {
            skipped("no gcc here");
            None
        }
    }
}

pub fn with_stub(flags: &[&str]) -> Option<TestContext> {
    let mut context = TestContext::new();
    stub(context.dir.path(), flags)?;
    context.set("LD_LIBRARY_PATH", &context.dir.path().display().to_string());
    context.set("STUB_DRIVER", "535.129.03");
    context.set("STUB_CUDA", "12020");
    context.set("STUB_COUNT", "2");
    Some(context)
}

#[test]
fn nvml_tells_driver_and_gpus() {
    let Some(context) = with_stub(&[]) else { return };
    let json = context.run(&["probe", "--json"]).expect(0).json();
    assert_eq!(json["driver"]["version"], "535.129.03");
    assert_eq!(json["driver"]["cuda"], "12.2");
    assert_eq!(json["driver"]["found_by"], "nvml");
    assert_eq!(json["gpus"][0]["compute_capability"], "8.0");
    assert_eq!(json["gpus"][1]["uuid"], "GPU-111");
    assert_eq!(
        json["gpus"][1]["memory_mib"],
        serde_json::Value::Null,
        "a symbol the library lacks is unknown"
    );
    assert_eq!(json["unknown"], serde_json::json!([]));
    // Saved and read again, it is the same machine.
    context.run(&["probe", "--save", "host.toml"]).expect(0);
    let saved = context.read("host.toml");
    context.run(&["probe", "--save", "host.toml"]).expect(0);
    context.write("mine.toml", "schema = 1\n");
    context.run(&["probe", "--save", "mine.toml"]).expect(2);
    context.run(&["probe", "--save", "nodes/a.toml"]).expect(0);
    assert!(saved.contains("compute_capability = \"8.6\""), "{saved}");
    let run = context
        .run(&["resolve", "torch", "--stack-only", "--host", "host.toml", "--only-index", "pypi"])
        .expect(0);
    assert!(run.stdout.contains("2.10.0+cu128"), "{}", run.shown());
}

#[test]
fn capabilities_by_name_where_the_library_is_old() {
    let Some(context) = with_stub(&["-DOLD"]) else { return };
    let json = context.run(&["probe", "--json"]).expect(0).json();
    assert_eq!(json["gpus"][1]["compute_capability"], "8.6", "known by its name");
}

#[test]
fn visible_devices_are_honoured_and_said() {
    let Some(mut context) = with_stub(&[]) else { return };
    context.set("CUDA_VISIBLE_DEVICES", "GPU-111");
    let run = context.run(&["probe"]).expect(0);
    assert!(run.stdout.contains("RTX 3090") && !run.stdout.contains("A100"), "{}", run.shown());
    assert!(run.stderr.contains("selects 1 of 2 GPUs"), "{}", run.shown());
    context.set("CUDA_VISIBLE_DEVICES", "1");
    let run = context.run(&["probe"]).expect(0);
    assert!(run.stdout.contains("A100"), "an index among unlike cards picks none for sure: {}", run.shown());
    context.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    let run = context.run(&["probe"]).expect(0);
    assert!(!run.stdout.contains("A100"), "{}", run.shown());
}

#[test]
fn nvml_that_fails_is_not_no_gpu() {
    let Some(mut context) = with_stub(&[]) else { return };
    // 9: the driver is not loaded. The kernel still tells its version.
    context.set("STUB_INIT", "9");
    let module = context.dir.path().join("sysroot/sys/module/nvidia");
    std::fs::create_dir_all(&module).unwrap();
    std::fs::write(module.join("version"), "570.86.16\n").unwrap();
    let json = context.run(&["probe", "--json"]).expect(0).json();
    assert_eq!(json["driver"]["version"], "570.86.16");
    assert_eq!(json["unknown"], serde_json::json!(["gpus"]));
}

#[test]
#[cfg(unix)]
fn nvidia_smi_where_nvml_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let context = TestContext::new();
    let bin = context.dir.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let script = "#!/bin/sh\ncase \"$1\" in\n*compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2;;\n\
        --query*) echo '0, NVIDIA GeForce GTX 1080 Ti, GPU-1, 11264, 470.129.06, 0x1B0610DE';;\n\
        *) echo '| NVIDIA-SMI 470.129.06   Driver Version: 470.129.06   CUDA Version: 11.4  |';;\nesac\n";
    std::fs::write(bin.join("nvidia-smi"), script).unwrap();
    std::fs::set_permissions(bin.join("nvidia-smi"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let json = context.run(&["probe", "--json"]).expect(0).json();
    assert_eq!(json["driver"]["found_by"], "nvidia-smi");
    assert_eq!(json["driver"]["cuda"], "11.4");
    assert_eq!(json["gpus"][0]["compute_capability"], "6.1", "by its PCI id");
}

#[test]
fn overrides_and_emptiness() {
    let mut context = TestContext::new();
    let none = context.run(&["probe"]).expect(0);
    insta::assert_snapshot!(
        "probe_nothing",
        none.shown().lines().filter(|l| !l.starts_with("system")).collect::<Vec<_>>().join("\n")
    );
    context.set("CONDA_OVERRIDE_CUDA", "12.4");
    let json = context.run(&["probe", "--json"]).expect(0).json();
    assert_eq!(json["driver"]["version"], "550.54.14");
    assert!(json["driver"]["found_by"].as_str().unwrap().contains("inferred"));
    context.set("CONDA_OVERRIDE_CUDA", "77.7");
    context.run(&["probe"]).expect(2);
}

#[test]
fn the_state_of_the_cards_is_judged() {
    let Some(mut context) = with_stub(&[]) else { return };
    let site = context.dir.path().join("env/lib/python3.12/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    let codes = |context: &TestContext, code: i32| -> Vec<String> {
        let arguments = ["verify", "--prefix", "../env", "--smoke", "off", "--json"];
        let json = context.run(&arguments).expect(code).json();
        json["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(codes(&context, 0), [""; 0]);
    context.set("STUB_MIG", "1");
    assert_eq!(codes(&context, 0), ["mig-enabled"; 2]);
    context.set("STUB_ECC", "2");
    context.set("STUB_MODE", "2");
    let found = codes(&context, 1);
    assert_eq!(found[..2], ["compute-mode", "memory-errors"], "{found:?}");
    // 18: the library and the kernel module are of different releases.
    context.set("STUB_INIT", "18");
    assert!(codes(&context, 1).contains(&"driver-mismatch".to_owned()));
}

/// A machine with a driver's module and a card on the bus, as a container sees its host.
fn with_host_driver() -> TestContext {
    let context = TestContext::new();
    let write = |path: &str, text: &str| {
        let path = context.dir.path().join("sysroot").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("sys/module/nvidia/version", "535.129.03\n");
    let card = "sys/bus/pci/devices/0000:17:00.0";
    for (file, text) in [("vendor", "0x10de\n"), ("class", "0x030200\n"), ("device", "0x20b2\n")] {
        write(&format!("{card}/{file}"), text);
    }
    context
}

/// An empty environment beside the project.
pub fn empty_environment(context: &TestContext) {
    std::fs::create_dir_all(context.dir.path().join("env/lib/python3.12/site-packages")).unwrap();
}

#[test]
fn a_container_that_was_given_no_gpu_is_no_fault_until_one_is_required() {
    let context = with_host_driver();
    empty_environment(&context);
    let arguments = ["verify", "--prefix", "../env", "--smoke", "off"];
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "535.129.03"])
        .expect(0);
    // On the host itself it is one.
    let told = context.run(&arguments).expect(1).flat();
    assert!(told.contains("error[no-device-files]"), "{told}");
    std::fs::write(context.dir.path().join("sysroot/.dockerenv"), "").unwrap();
    let codes = |run: super::context::Run| -> Vec<String> {
        let json = run.json();
        let errors = json["findings"].as_array().unwrap().iter().filter(|f| f["severity"] == "error");
        errors.map(|f| f["code"].as_str().unwrap().to_owned()).collect()
    };
    let with = |more: &[&str]| codes(context.run(&[&arguments[..], &["--json"], more].concat()));
    assert!(!with(&[]).contains(&"no-device-files".to_owned()));
    assert!(with(&["--require-gpu"]).contains(&"no-device-files".to_owned()));
    // Nothing of a lock for the CPU needs one, nor does an environment without CUDA.
    std::fs::remove_file(context.dir.path().join("sysroot/.dockerenv")).unwrap();
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    assert_eq!(with(&[]), Vec::<String>::new());
}

#[test]
fn cuda_compat_raises_the_driver_where_it_serves() {
    let mut context = with_host_driver();
    let compat = context.dir.path().join("sysroot/usr/local/cuda/compat");
    std::fs::create_dir_all(&compat).unwrap();
    std::fs::write(compat.join("libcuda.so.580.65.06"), "").unwrap();
    std::os::unix::fs::symlink("libcuda.so.580.65.06", compat.join("libcuda.so.1")).unwrap();
    // What the pytorch index has of it is not in the frozen registry.
    let torch = ["resolve", "torch==2.15.0", "--stack-only", "--dry-run", "--only-index", "pypi"];
    context.run(&torch).expect(1);
    context.set("LD_LIBRARY_PATH", "/usr/local/cuda/compat");
    // An A100 is a data-centre GPU, and 535 is a branch that the package names.
    let run = context.run(&torch).expect(0);
    assert!(run.stdout.contains("2.15.0+cu13"), "{}", run.shown());
    // A GeForce is none: its programs would not start.
    let device = context.dir.path().join("sysroot/sys/bus/pci/devices/0000:17:00.0/device");
    std::fs::write(device, "0x2684\n").unwrap();
    let run = context.run(&torch).expect(1);
    let probe = context.run(&["probe"]).expect(0).flat();
    assert!(
        probe.contains("cuda-compat 580.65.06") && probe.contains("does not support NVIDIA GeForce RTX 4090"),
        "{probe} {}",
        run.shown()
    );
}

#[test]
fn what_hides_gpus_is_named() {
    let Some(mut context) = with_stub(&[]) else { return };
    empty_environment(&context);
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "535.129.03"])
        .expect(0);
    context.set("CUDA_VISIBLE_DEVICES", "-1");
    let arguments = ["verify", "--prefix", "../env", "--smoke", "off"];
    let told = context.run(&arguments).flat();
    assert!(told.contains("warning[hidden-gpus]: CUDA_VISIBLE_DEVICES=`-1` hides every GPU"), "{told}");
    context.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    context.set("CUDA_VISIBLE_DEVICES", "0");
    let told = context.run(&arguments).flat();
    assert!(told.contains("info[hidden-gpus]: CUDA_VISIBLE_DEVICES=`0` selects 1 of 2 GPUs"), "{told}");
}

/// NVML counts what this process may open: a device cgroup, a Slurm step without GPUs.
#[test]
fn gpus_that_are_not_granted_are_still_there() {
    let Some(mut context) = with_stub(&[]) else { return };
    context.set("STUB_COUNT", "0");
    for (bus, device) in [("0000:3b:00.0", "0x20b2"), ("0000:af:00.0", "0x20b2")] {
        let folder = context.dir.path().join("sysroot/sys/bus/pci/devices").join(bus);
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in [("vendor", "0x10de"), ("class", "0x030200"), ("device", device)] {
            std::fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
    }
    let run = context.run(&["probe"]).expect(0);
    assert!(run.stdout.contains("(8.0)"), "{}", run.shown());
    assert!(
        run.flat().contains("this machine has 2 NVIDIA GPUs, but this process has no access to them"),
        "{}",
        run.shown()
    );
    let json = context.run(&["probe", "--json"]).expect(0).json();
    assert_eq!(json["gpus"].as_array().unwrap().len(), 2, "{json:#}");
    let lock = context.run(&["resolve", "torch==2.9.1", "--stack-only"]).expect(0);
    assert!(lock.stdout.contains("cu12"), "no lock for the CPU: {}", lock.shown());
    // Where the bus has none, there is none.
    std::fs::remove_dir_all(context.dir.path().join("sysroot/sys/bus/pci/devices")).unwrap();
    std::fs::create_dir_all(context.dir.path().join("sysroot/sys/bus/pci/devices")).unwrap();
    let json = context.run(&["probe", "--json"]).expect(0).json();
    assert_eq!(json["gpus"], serde_json::json!([]));
}

#[test]
fn what_is_said_of_the_machine_stands_under_host() {
    let Some(mut context) = with_stub(&[]) else { return };
    empty_environment(&context);
    let site = context.dir.path().join("env/lib/python3.12/site-packages");
    for (name, version) in [("jax", "0.8.0"), ("jax-cuda12-plugin", "0.8.0")] {
        super::verify::install(&site, &super::wheels::wheel(name, version));
    }
    context.set("CUDA_VISIBLE_DEVICES", "-1");
    let told = context.run(&["verify", "--prefix", "../env", "--smoke", "off", "--format", "junit"]).stdout;
    let host = told.split("<testsuite name=\"").find(|suite| suite.contains("hidden-gpus")).unwrap();
    assert!(host.starts_with("host\""), "{told}");
}
