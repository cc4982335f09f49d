//! Environment variables that change what programs see: `CUDA_VISIBLE_DEVICES` and
//! `CONDA_OVERRIDE_CUDA`.

use super::Surroundings;
use crate::model::host::{FoundBy, Gpu, Host};
use crate::model::host_note::{HostNote, VisibleDevices};
use crate::model::text::clean;

/// Applies the variables and adds a note for each.
pub(super) fn apply(around: &Surroundings<'_>, host: &mut Host) {
    if let Some(visible) = (around.variable)("CUDA_VISIBLE_DEVICES") {
        let pci_order = (around.variable)("CUDA_DEVICE_ORDER").is_some_and(|o| o == "PCI_BUS_ID");
        if let Some(gpus) = host.gpus.take() {
            let (kept, note) = visible_devices(&visible, pci_order, gpus);
            host.gpus = Some(kept);
            host.notes.extend(note);
        }
    }
    if let Some(cuda) = (around.variable)("CONDA_OVERRIDE_CUDA") {
        let cuda = cuda.trim().to_owned();
        if cuda.is_empty() {
            host.driver = None;
            host.gpus = Some(Vec::new());
            host.notes.push(HostNote::CudaOverrideEmpty);
        } else if let Ok(version) = cuda.parse() {
            // The caller infers the driver version from the registry.
            host.driver = Some(crate::model::host::Driver {
                version: crate::model::host::Driver::unknown_version(),
                cuda: Some(version),
                compat: None,
                found_by: FoundBy::CondaOverride,
            });
        } else {
            host.notes.push(HostNote::OverrideInvalid(clean(&cuda, 40)));
        }
    }
}

/// The GPUs that CUDA programs see, and a note.
///
/// CUDA numbers devices fastest first unless `CUDA_DEVICE_ORDER=PCI_BUS_ID`; NVML numbers them by
/// PCI bus. So an index identifies a GPU only if the order is known or all GPUs are alike.
fn visible_devices(value: &str, pci_order: bool, gpus: Vec<Gpu>) -> (Vec<Gpu>, Option<HostNote>) {
    let note = |effect| Some(HostNote::VisibleDevices { value: clean(value, 80), effect });
    let items: Vec<&str> = value.split(',').map(str::trim).collect();
    if gpus.is_empty() {
        return (gpus, None);
    }
    if value.trim().is_empty() || items[0] == "-1" || value.trim() == "none" {
        return (Vec::new(), note(VisibleDevices::HidesAll));
    }
    if items.iter().any(|i| i.starts_with("MIG-")) {
        return (gpus, note(VisibleDevices::MigInstances));
    }
    let alike = gpus.windows(2).all(|p| p[0].capability == p[1].capability && p[0].name == p[1].name);
    let mut kept: Vec<Gpu> = Vec::new();
    for item in &items {
        let found = if let Ok(index) = item.parse::<usize>() {
            if !pci_order && !alike {
                return (gpus, note(VisibleDevices::OrderUnknown));
            }
            gpus.get(index)
        } else {
            // A UUID may be abbreviated if the prefix is unique.
            let mut matching = gpus.iter().filter(|g| g.uuid.as_ref().is_some_and(|u| u.starts_with(item)));
            let first = matching.next();
            if matching.next().is_some() { None } else { first }
        };
        match found {
            Some(gpu) if !kept.contains(gpu) => kept.push(gpu.clone()),
            // CUDA stops at the first entry that it cannot find.
            _ => break,
        }
    }
    let left = VisibleDevices::Leaves { kept: kept.len(), of: gpus.len() };
    (kept, note(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::capability::ComputeCapability;

    fn gpu(index: u32, minor: u8) -> Gpu {
        Gpu {
            index,
            name: Some(format!("GPU of 8.{minor}")),
            capability: Some(ComputeCapability::new(8, minor)),
            memory_mib: None,
            uuid: Some(format!("GPU-{index}{index}{index}")),
            pci_id: None,
            found_by: "t".into(),
        }
    }

    #[test]
    fn which_gpus_are_left() {
        let unlike = || vec![gpu(0, 0), gpu(1, 6)];
        let alike = || vec![gpu(0, 0), gpu(1, 0)];
        type Row = (&'static str, bool, fn() -> Vec<Gpu>, &'static [u32]);
        let table: &[Row] = &[
            ("", false, || vec![gpu(0, 0)], &[]),
            ("-1", false, || vec![gpu(0, 0)], &[]),
            ("1", true, || vec![gpu(0, 0), gpu(1, 6)], &[1]),
            ("GPU-11", false, || vec![gpu(0, 0), gpu(1, 6)], &[1]),
            ("0,7,1", true, || vec![gpu(0, 0), gpu(1, 6)], &[0]),
            ("GPU-", false, || vec![gpu(0, 0), gpu(1, 6)], &[]),
            ("MIG-xyz", false, || vec![gpu(0, 0)], &[0]),
        ];
        for (value, order, gpus, expected) in table {
            let (kept, note) = visible_devices(value, *order, gpus());
            let kept: Vec<u32> = kept.iter().map(|g| g.index).collect();
            assert_eq!(kept, *expected, "{value}");
            assert!(note.is_some());
        }
        // CUDA's order differs from NVML's: with different GPUs, an index is ambiguous.
        assert_eq!(visible_devices("1", false, unlike()).0.len(), 2);
        assert_eq!(visible_devices("1", false, alike()).0.len(), 1);
    }
}
