//! The current state of the machine: NVML values, device files, NVSwitches, containers.

use std::collections::BTreeMap;
use std::path::Path;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{ComputeMode as NvmlMode, EccCounter, MemoryError};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING};

use super::Surroundings;
use super::procfs::Listed;
use crate::model::machine_state::{
    CardState, ComputeMode, Container, DeviceFiles, Fabric, MachineState, Management,
};
use crate::model::saved_host::GpuMode;
use crate::model::text::clean;

/// Maximum number of GPUs read.
const MAX_CARDS: u32 = 256;
/// Maximum number of programs named for a GPU.
const MAX_NAMES: usize = 4;
/// Maximum number of processes searched for the fabric manager.
const MAX_PROCESSES: usize = 200_000;

/// Reads the machine's state.
pub fn state(around: &Surroundings<'_>) -> MachineState {
    let mut state = MachineState { container: container(around), ..MachineState::default() };
    let is_trusted = super::trusted::nvml_is_trusted(around);
    if !is_trusted {
        let why = "LD_LIBRARY_PATH has a folder that is not the administrator's";
        state.management = Management::NotAsked(why.to_owned());
    }
    match super::nvml::open(around) {
        Ok(nvml) => {
            state.management = Management::Answers;
            state.cards = cards(&nvml);
            state.silent = silent(around, &nvml);
            // Not dropped: `nvmlShutdown` may be missing in a reduced library, as in `nvml::look`.
            std::mem::forget(nvml);
        }
        Err(error) => match error {
            NvmlError::LibRmVersionMismatch => state.library_and_module_disagree = true,
            // Without the permission to open the device files, NVML finds no driver.
            NvmlError::NoPermission | NvmlError::DriverNotLoaded => {
                state.management = Management::NotAsked(clean(&error.to_string(), 120));
            }
            NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {}
            error => state.management = Management::Fails(clean(&error.to_string(), 120)),
        },
    }
    let loaded = ["sys/module/nvidia/version", "proc/driver/nvidia/version"];
    let is_loaded = loaded.iter().any(|path| around.root.join(path).exists());
    // WSL's GPUs are not on a PCI bus that Linux sees.
    if !super::procfs::is_wsl(around) {
        state.unclaimed = super::procfs::unclaimed(around, is_loaded);
    }
    if is_loaded {
        state.device_files = Some(device_files(&around.root));
        state.device_files_on_demand = has_modprobe(&around.root);
        state.fabric = fabric(around, state.container.is_some());
        state.docker_sees_gpus = docker(&around.root).filter(|_| state.container.is_none());
    }
    state
}

/// How the GPUs are set, by NVML index. Empty where NVML does not answer.
pub fn modes(around: &Surroundings<'_>) -> BTreeMap<u32, GpuMode> {
    let Ok(nvml) = super::nvml::open(around) else { return BTreeMap::new() };
    let count = nvml.device_count().unwrap_or_default().min(MAX_CARDS);
    let mode = |index: u32| {
        let device = nvml.device_by_index(index).ok()?;
        Some((index, GpuMode { ecc: ecc(&device), mig: mig(&device) }))
    };
    let modes = (0..count).filter_map(mode).collect();
    // Not dropped, as in `state`.
    std::mem::forget(nvml);
    modes
}

fn ecc(device: &nvml_wrapper::Device<'_>) -> Option<bool> {
    device.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled)
}

fn mig(device: &nvml_wrapper::Device<'_>) -> Option<bool> {
    device.mig_mode().ok().map(|mode| mode.current == 1)
}

fn cards(nvml: &Nvml) -> Vec<CardState> {
    let count = nvml.device_count().unwrap_or_default().min(MAX_CARDS);
    let card = |index: u32| {
        let device = nvml.device_by_index(index).ok()?;
        // Up to Turing, GPUs retire pages; from Ampere on, they remap rows.
        let [remap_pending, remapping_failed] = remapped(&device);
        let retire_pending = device.are_pages_pending_retired().ok();
        let pids: Vec<u32> =
            device.running_compute_processes().unwrap_or_default().iter().map(|p| p.pid).collect();
        let named: Vec<String> = pids
            .iter()
            .filter_map(|pid| {
                let name = nvml.sys_process_name(*pid, 256).ok()?;
                Some(format!("{} ({pid})", clean(name.rsplit('/').next().unwrap_or(&name), 40)))
            })
            .collect();
        // Programs in other containers are counted, but have no name.
        let is_server = |name: &String| name.starts_with("nvidia-cuda-mps-server");
        let may_be_mps = named.len() < pids.len() || named.iter().any(is_server);
        let programs = named.into_iter().take(MAX_NAMES).collect();
        Some(CardState {
            index,
            name: device.name().ok().map(|name| clean(&name, 96)),
            mig: mig(&device),
            uncorrected_errors: device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok(),
            retirement_pending: remap_pending.or(retire_pending),
            remapping_failed,
            persistence: device.is_in_persistent_mode().ok(),
            memory_mib: device.memory_info().ok().map(|m| (m.free >> 20, m.total >> 20)),
            compute_mode: device.compute_mode().ok().map(|mode| match mode {
                NvmlMode::Prohibited => ComputeMode::Prohibited,
                NvmlMode::ExclusiveProcess | NvmlMode::ExclusiveThread => ComputeMode::Exclusive,
                NvmlMode::Default => ComputeMode::Default,
            }),
            processes: device.running_compute_processes_count().ok().map(|n| n as usize),
            may_be_mps,
            programs,
        })
    };
    (0..count).filter_map(card).collect()
}

/// The GPUs that do not answer: NVML cannot open them, or the driver lists them and NVML does not. GPUs that this process
/// may not use are left out.
fn silent(around: &Surroundings<'_>, nvml: &Nvml) -> Vec<String> {
    let count = nvml.device_count().unwrap_or_default().min(MAX_CARDS);
    let (mut known, mut failed) = (Vec::new(), Vec::new());
    for index in 0..count {
        match nvml.device_by_index(index) {
            Ok(device) => {
                let bus = device.pci_info().ok().map(|pci| short_bus(&pci.bus_id));
                known.push((bus, device.uuid().ok()));
            }
            Err(NvmlError::NoPermission) => return Vec::new(),
            Err(_) => failed.push(format!("GPU {index}")),
        }
    }
    // A device without a name cannot be told from those that the driver lists.
    if known.iter().any(|(bus, uuid)| bus.is_none() && uuid.is_none()) {
        return failed;
    }
    let is_known = |listed: &Listed| {
        known
            .iter()
            .any(|(bus, uuid)| bus.as_ref() == Some(&listed.bus) || (uuid.is_some() && *uuid == listed.uuid))
    };
    let missing: Vec<String> = super::procfs::listed(around)
        .into_iter()
        .filter(|listed| !is_known(listed) && may_use(&around.root, listed))
        .map(|listed| listed.bus)
        .collect();
    if missing.is_empty() { failed } else { missing }
}

/// Whether this process may open a GPU's device file: a container or a job is often given some of the GPUs.
fn may_use(root: &Path, listed: &Listed) -> bool {
    let Some(minor) = listed.minor else { return false };
    let file = root.join(format!("dev/nvidia{minor}"));
    match std::fs::OpenOptions::new().read(true).write(true).open(file) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound)
        }
    }
}

/// NVML writes the domain with eight digits, the kernel with four: `00000000:3B:00.0` is `0000:3b:00.0`.
fn short_bus(bus: &str) -> String {
    let bus = bus.to_ascii_lowercase();
    match bus.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => bus,
    }
}

/// Whether row remapping is pending, and whether it failed; `None` if the GPU does not remap rows.
fn remapped(device: &nvml_wrapper::Device<'_>) -> [Option<bool>; 2] {
    let fields = [FieldId(NVML_FI_DEV_REMAPPED_PENDING), FieldId(NVML_FI_DEV_REMAPPED_FAILURE)];
    let values = device.field_values_for(&fields).unwrap_or_default();
    let at = |index: usize| {
        let sample = values.get(index)?.as_ref().ok()?;
        match sample.value.as_ref().ok()? {
            SampleValue::U32(value) => Some(*value != 0),
            SampleValue::U64(value) => Some(*value != 0),
            SampleValue::I64(value) => Some(*value != 0),
            SampleValue::F64(_) => None,
        }
    };
    [at(0), at(1)]
}

fn device_files(root: &Path) -> DeviceFiles {
    let dev = root.join("dev");
    let cards = std::fs::read_dir(&dev).into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.strip_prefix("nvidia").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    });
    DeviceFiles {
        control: dev.join("nvidiactl").exists(),
        unified_memory: dev.join("nvidia-uvm").exists(),
        cards: cards.count(),
    }
}

/// Whether `nvidia-modprobe` is there and may make device files: it is root's and setuid.
fn has_modprobe(root: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let is_setuid = |file: std::fs::Metadata| file.is_file() && file.uid() == 0 && file.mode() & 0o4000 != 0;
    ["usr/bin/nvidia-modprobe", "usr/sbin/nvidia-modprobe"]
        .iter()
        .any(|path| std::fs::metadata(root.join(path)).is_ok_and(is_setuid))
}

/// The state of NVSwitches, from the driver's list.
fn fabric(around: &Surroundings<'_>, in_container: bool) -> Option<Fabric> {
    let devices = around.root.join("proc/driver/nvidia-nvswitch/devices");
    let has_switches = std::fs::read_dir(devices).is_ok_and(|mut list| list.next().is_some());
    if !has_switches {
        return None;
    }
    // A container sees only its own processes.
    if in_container {
        return Some(Fabric { manager_runs: None });
    }
    let processes = std::fs::read_dir(around.root.join("proc")).ok()?;
    let runs = processes.flatten().take(MAX_PROCESSES).any(|entry| {
        // The kernel truncates process names to 15 bytes.
        std::fs::read_to_string(entry.path().join("comm"))
            .is_ok_and(|name| name.starts_with("nv-fabricmanage"))
    });
    Some(Fabric { manager_runs: Some(runs) })
}

fn container(around: &Surroundings<'_>) -> Option<Container> {
    let marks = [".dockerenv", "run/.containerenv"];
    let marked = marks.iter().any(|mark| around.root.join(mark).exists());
    // containerd and CRI-O pods and Apptainer have none of these files.
    let named = ["container", "KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"];
    let is_named = named.iter().any(|name| (around.variable)(name).is_some_and(|v| !v.is_empty()));
    let layered = || {
        let mounts = std::fs::read_to_string(around.root.join("proc/self/mountinfo")).unwrap_or_default();
        mounts.lines().any(is_image)
    };
    (marked || is_named || layered()).then(|| Container {
        visible_devices: (around.variable)("NVIDIA_VISIBLE_DEVICES").map(|v| clean(&v, 200)),
    })
}

/// Whether a line of `/proc/self/mountinfo` is the overlay root of a container of Docker, containerd or CRI-O.
/// Diskless nodes have an overlay root too, with other folders.
fn is_image(line: &str) -> bool {
    let engines = ["/docker/", "containerd", "/containers/"];
    line.split(' ').nth(4) == Some("/")
        && line
            .split_once(" - overlay ")
            .is_some_and(|(_, of)| engines.iter().any(|engine| of.contains(engine)))
}

/// Whether Docker has the NVIDIA runtime or a CDI specification; `None` without Docker.
fn docker(root: &Path) -> Option<bool> {
    if !root.join("etc/docker").is_dir() && !root.join("usr/bin/dockerd").exists() {
        return None;
    }
    let runtime = std::fs::read_to_string(root.join("etc/docker/daemon.json"))
        .ok()
        .filter(|text| text.len() < 1 << 20)
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        .is_some_and(|config| config["runtimes"]["nvidia"].is_object());
    let described = ["etc/cdi", "var/run/cdi", "run/cdi"].iter().any(|folder| {
        let files = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        files.into_iter().any(|file| file.file_name().to_string_lossy().contains("nvidia"))
    });
    let hook = root.join("usr/bin/nvidia-container-runtime-hook").exists();
    Some(runtime || described || hook)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    #[test]
    fn addresses() {
        for (nvml, kernel) in [
            ("00000000:3B:00.0", "0000:3b:00.0"),
            ("00010000:3B:00.0", "00010000:3b:00.0"),
            ("0000:3B:00.0", "0000:3b:00.0"),
            ("", ""),
        ] {
            assert_eq!(short_bus(nvml), kernel);
        }
    }

    #[test]
    fn files_switches_and_docker() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let around = Surroundings { root: root.to_path_buf(), variable: &|_| None };
        assert_eq!((docker(root), fabric(&around, false), container(&around)), (None, None, None));
        for path in ["dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-modeset"] {
            write(root, path, "");
        }
        assert_eq!(device_files(root), DeviceFiles { control: true, unified_memory: false, cards: 2 });
        write(root, "proc/driver/nvidia-nvswitch/devices/0", "");
        assert_eq!(fabric(&around, false), Some(Fabric { manager_runs: Some(false) }));
        assert_eq!(fabric(&around, true), Some(Fabric { manager_runs: None }));
        write(root, "proc/77/comm", "nv-fabricmanage\n");
        assert_eq!(fabric(&around, false), Some(Fabric { manager_runs: Some(true) }));
        write(root, "etc/docker/daemon.json", "{}");
        assert_eq!(docker(root), Some(false));
        write(root, "etc/docker/daemon.json", r#"{"runtimes": {"nvidia": {"path": "x"}}}"#);
        assert_eq!(docker(root), Some(true));
        write(root, "etc/docker/daemon.json", "not json");
        write(root, "etc/cdi/nvidia.yaml", "");
        assert_eq!(docker(root), Some(true));
        write(root, ".dockerenv", "");
        assert_eq!(container(&around), Some(Container { visible_devices: None }));
        for (line, expected) in [
            (
                "612 511 0:52 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs",
                true,
            ),
            (
                "612 511 0:52 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containers/storage/overlay/l/X",
                true,
            ),
            ("30 1 0:26 / / rw,relatime - overlay overlay rw,lowerdir=/sysroot,upperdir=/run/upper", false),
            ("30 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw", false),
            ("", false),
        ] {
            assert_eq!(is_image(line), expected, "{line}");
        }
    }
}
