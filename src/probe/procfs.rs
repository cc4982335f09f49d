//! Facts about NVIDIA and other GPUs from `/sys` and `/proc`.

use std::path::{Path, PathBuf};

use super::Surroundings;
use crate::model::host::{Driver, Gpu};
use crate::model::host_note::HostNote;
use crate::model::text::clean;

/// NVIDIA's PCI vendor id.
const NVIDIA: &str = "0x10de";

/// The kernel module's version.
pub(super) fn driver(around: &Surroundings<'_>) -> Option<Driver> {
    let read = |path: &str| fs_err::read_to_string(around.root.join(path)).ok();
    let found = |version: &str, path: &str| {
        Some(Driver {
            version: version.trim().parse().ok()?,
            cuda: None,
            compat: None,
            found_by: format!("/{path}").into(),
        })
    };
    let sys = "sys/module/nvidia/version";
    let proc = "proc/driver/nvidia/version";
    read(sys)
        .and_then(|text| found(&text, sys))
        .or_else(|| found(&kernel_module_version(&read(proc)?)?, proc))
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu ...` -> `535.129.03`.
fn kernel_module_version(text: &str) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with("NVRM version:"))?;
    line.split_whitespace()
        .find(|w| w.contains('.') && w.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        .map(str::to_owned)
}

/// The GPUs that the driver lists in /proc.
pub(super) fn gpus(around: &Surroundings<'_>) -> Option<Vec<Gpu>> {
    let folder = around.root.join("proc/driver/nvidia/gpus");
    let mut buses: Vec<_> = fs_err::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    buses.sort();
    let gpus = buses
        .iter()
        .enumerate()
        .map(|(i, path)| {
            let text = fs_err::read_to_string(path.join("information")).unwrap_or_default();
            let field = |key: &str| {
                text.lines()
                    .find_map(|l| l.strip_prefix(key)?.trim_start().strip_prefix(':'))
                    .map(|v| clean(v.trim(), 96))
                    .filter(|v| !v.is_empty() && !v.contains("??"))
            };
            let bus = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            Gpu {
                index: i as u32,
                name: field("Model"),
                capability: None,
                memory_mib: None,
                uuid: field("GPU UUID"),
                pci_id: pci_device(&around.root.join("sys/bus/pci/devices").join(bus)),
                found_by: "/proc/driver/nvidia/gpus".into(),
            }
        })
        .collect();
    Some(gpus)
}

/// NVIDIA display controllers on the PCI bus; `None` if there is no PCI bus.
pub(super) fn pci_gpus(around: &Surroundings<'_>) -> Option<Vec<Gpu>> {
    let devices = display_controllers(around)?;
    Some(
        devices
            .into_iter()
            .filter(|(vendor, _)| vendor == NVIDIA)
            .enumerate()
            .map(|(i, (_, device))| Gpu {
                index: i as u32,
                name: None,
                capability: None,
                memory_mib: None,
                uuid: None,
                pci_id: device,
                found_by: "/sys/bus/pci/devices".into(),
            })
            .collect(),
    )
}

/// A GPU in the driver's list in /proc.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The PCI address, `0000:3b:00.0`.
    pub bus: String,
    /// The identifier, once the driver has initialized the GPU.
    pub uuid: Option<String>,
    /// The number of its device file, `/dev/nvidia0`.
    pub minor: Option<u32>,
}

/// The GPUs that the driver lists in /proc, without those that the administrator excluded.
pub(super) fn listed(around: &Surroundings<'_>) -> Vec<Listed> {
    let folder = around.root.join("proc/driver/nvidia/gpus");
    let Ok(entries) = fs_err::read_dir(folder) else { return Vec::new() };
    let mut out: Vec<Listed> = entries
        .flatten()
        .filter_map(|entry| {
            let text = fs_err::read_to_string(entry.path().join("information")).unwrap_or_default();
            let field = |key: &str| {
                text.lines()
                    .find_map(|line| Some(line.strip_prefix(key)?.trim_start().strip_prefix(':')?.trim()))
            };
            let is_excluded = ["GPU Excluded", "Blacklisted"].iter().any(|key| field(key) == Some("Yes"));
            (!is_excluded).then(|| Listed {
                bus: clean(&entry.file_name().to_string_lossy().to_ascii_lowercase(), 20),
                uuid: field("GPU UUID").filter(|uuid| !uuid.contains('?')).map(|uuid| clean(uuid, 96)),
                minor: field("Device Minor").and_then(|minor| minor.parse().ok()),
            })
        })
        .collect();
    out.sort_by(|a, b| a.bus.cmp(&b.bus));
    out
}

/// The addresses of NVIDIA display controllers that NVIDIA's kernel module has not claimed. Those that a driver for
/// virtual machines has claimed are left out. `is_loaded`: whether the module is; then it has claimed at least one, or
/// the links that would say so are not visible here, and nothing is known.
pub(super) fn unclaimed(around: &Surroundings<'_>, is_loaded: bool) -> Vec<String> {
    let claimed = |path: &Path| -> Option<String> {
        let driver = fs_err::read_link(path.join("driver")).ok()?;
        Some(driver.file_name()?.to_string_lossy().into_owned())
    };
    let is_in_use = |driver: &str| driver == "nvidia" || driver.starts_with("vfio") || driver == "pci-stub";
    let controllers = controllers(around).unwrap_or_default();
    // Virtual functions of a GPU have no driver while no virtual machine uses them.
    let is_virtual = |path: &PathBuf| path.join("physfn").exists();
    let nvidia: Vec<&PathBuf> =
        controllers.iter().filter(|path| value(path, "vendor") == NVIDIA && !is_virtual(path)).collect();
    if is_loaded && !nvidia.iter().any(|path| claimed(path).as_deref() == Some("nvidia")) {
        return Vec::new();
    }
    nvidia
        .into_iter()
        .filter(|path| !claimed(path).is_some_and(|driver| is_in_use(&driver)))
        .filter_map(|path| Some(clean(&path.file_name()?.to_string_lossy(), 20)))
        .collect()
}

/// Notes about GPUs of other vendors.
pub(super) fn other_gpus(around: &Surroundings<'_>) -> Vec<HostNote> {
    let mut notes = Vec::new();
    let devices = display_controllers(around).unwrap_or_default();
    for (id, maker) in [("0x1002", "AMD"), ("0x8086", "Intel")] {
        if devices.iter().any(|(vendor, _)| vendor == id) {
            notes.push(HostNote::OtherVendor(maker));
        }
    }
    if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
        notes.push(HostNote::AppleGpu);
    }
    notes
}

/// The display controllers: the vendor and the device of each.
fn display_controllers(around: &Surroundings<'_>) -> Option<Vec<(String, Option<String>)>> {
    Some(controllers(around)?.iter().map(|path| (value(path, "vendor"), pci_device(path))).collect())
}

/// The folders of the display controllers on the PCI bus; `None` if there is no PCI bus.
fn controllers(around: &Surroundings<'_>) -> Option<Vec<PathBuf>> {
    let entries = fs_err::read_dir(around.root.join("sys/bus/pci/devices")).ok()?;
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    // Class 0x03: display controllers, including 0x0302, 3D controllers without a display.
    paths.retain(|path| value(path, "class").starts_with("0x03"));
    Some(paths)
}

/// A value that the kernel tells of a device; empty if it cannot be read.
fn value(device: &Path, name: &str) -> String {
    fs_err::read_to_string(device.join(name)).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn pci_device(path: &Path) -> Option<String> {
    let text = fs_err::read_to_string(path.join("device")).ok()?;
    let id = text.trim().strip_prefix("0x")?.to_ascii_lowercase();
    (id.len() == 4 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

/// Whether this is WSL.
pub(super) fn is_wsl(around: &Surroundings<'_>) -> bool {
    fs_err::read_to_string(around.root.join("proc/version"))
        .is_ok_and(|text| text.to_lowercase().contains("microsoft"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(root: &Path) -> Surroundings<'static> {
        Surroundings { root: root.to_path_buf(), variable: &|_| None }
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    #[test]
    fn a_container_with_only_proc() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(
            root,
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version: 12.2.0\n",
        );
        write(
            root,
            "proc/driver/nvidia/gpus/0000:3b:00.0/information",
            "Model: \t\t NVIDIA A100-PCIE-40GB\nGPU UUID: \t GPU-abc\nIRQ: 1\n",
        );
        write(root, "sys/bus/pci/devices/0000:3b:00.0/device", "0x20f1\n");
        write(root, "sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de\n");
        write(root, "sys/bus/pci/devices/0000:3b:00.0/class", "0x030200\n");
        write(root, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x1002\n");
        write(root, "sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n");
        let around = around(root);
        assert_eq!(driver(&around).unwrap().version.as_str(), "580.95.05");
        let gpus = gpus(&around).unwrap();
        assert_eq!(gpus[0].name.as_deref(), Some("NVIDIA A100-PCIE-40GB"));
        assert_eq!(gpus[0].pci_id.as_deref(), Some("20f1"));
        assert_eq!(pci_gpus(&around).unwrap().len(), 1);
        assert_eq!(other_gpus(&around)[0], HostNote::OtherVendor("AMD"));
        assert!(!is_wsl(&around));
    }

    #[test]
    fn gpus_without_a_driver_and_gpus_that_the_driver_lists() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for (bus, driver) in
            [("01", Some("nvidia")), ("02", Some("vfio-pci")), ("03", Some("nouveau")), ("04", None)]
        {
            let folder = format!("sys/bus/pci/devices/0000:{bus}:00.0");
            write(root, &format!("{folder}/vendor"), "0x10de\n");
            write(root, &format!("{folder}/class"), "0x030200\n");
            if let Some(driver) = driver {
                let link = root.join(&folder).join("driver");
                std::os::unix::fs::symlink(format!("../../../../bus/pci/drivers/{driver}"), link).unwrap();
            }
            let information = match bus {
                "01" => "GPU UUID: \t GPU-1\nDevice Minor: \t 3\nGPU Excluded: \t No\n",
                "02" => "GPU UUID: GPU-????????-????\n",
                _ => "GPU Excluded:\t Yes\n",
            };
            write(root, &format!("proc/driver/nvidia/gpus/0000:{bus}:00.0/information"), information);
        }
        for is_loaded in [true, false] {
            assert_eq!(unclaimed(&around(root), is_loaded), ["0000:03:00.0", "0000:04:00.0"]);
        }
        std::fs::remove_file(root.join("sys/bus/pci/devices/0000:01:00.0/driver")).unwrap();
        assert_eq!(unclaimed(&around(root), true), [""; 0], "a container that sees no links");
        assert_eq!(unclaimed(&around(root), false).len(), 3);
        let expected = [
            Listed { bus: "0000:01:00.0".into(), uuid: Some("GPU-1".into()), minor: Some(3) },
            Listed { bus: "0000:02:00.0".into(), uuid: None, minor: None },
        ];
        assert_eq!(listed(&around(root)), expected);
    }

    #[test]
    fn module_versions() {
        let table = [
            ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\n", Some("535.129.03")),
            ("NVRM version: garbage\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(kernel_module_version(text).as_deref(), expected);
        }
    }
}
