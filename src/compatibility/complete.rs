//! Completes a probed or described machine with data from the registry: compute capabilities, the driver of a CUDA
//! release, whether a cuda-compat package works, which GPUs are ignored.

use super::driver::driver_of_cuda;
use crate::model::capability::ComputeCapability;
use crate::model::host::{Driver, FoundBy, Gpu, Host};
use crate::model::host_note::{HostNote, UnsupportedBy};
use crate::model::text::clean;
use crate::model::version::{DottedVersion, cuda_version};
use crate::registry::{GpuLookupError, Registry, is_same_gpu_name};

/// Only the CUDA release of a machine's driver is known, and the registry has no driver for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no driver is known for CUDA `{cuda}` ({found_by})")]
pub struct UnknownCuda {
    /// The release that the driver reports.
    pub cuda: DottedVersion,
    /// How it was found.
    pub found_by: FoundBy,
}

/// A machine without the GPUs with these product names or compute capabilities; each excluded GPU is noted.
///
/// # Errors
/// An entry that is neither, because it would silently exclude nothing.
pub fn without_ignored(
    mut host: Host,
    ignored: &[String],
    registry: &Registry,
) -> Result<Host, GpuLookupError> {
    let mut capabilities: Vec<ComputeCapability> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for entry in ignored {
        match (entry.parse(), registry.find_gpu(entry)) {
            (Ok(capability), _) => capabilities.push(capability),
            // An ambiguous name is accepted: only the name is compared, not the capability.
            (_, Ok(_) | Err(GpuLookupError::Ambiguous { .. })) => names.push(entry),
            (_, Err(error)) => return Err(error),
        }
    }
    let product = |name: &str| registry.find_gpu(name).map(|found| found.name).ok();
    let by_name = |gpu: &Gpu| registry.find_gpu(gpu.name.as_ref()?).ok().map(|found| found.capability);
    let has_capability =
        |gpu: &Gpu| gpu.capability.or_else(|| by_name(gpu)).is_some_and(|c| capabilities.contains(&c));
    let has_name = |gpu: &Gpu| {
        gpu.name.as_ref().is_some_and(|name| {
            names.iter().any(|entry| {
                is_same_gpu_name(entry, name) || product(entry).is_some_and(|p| Some(p) == product(name))
            })
        })
    };
    let is_ignored = |gpu: &Gpu| has_capability(gpu) || has_name(gpu);
    if let Some(gpus) = host.gpus.as_mut().filter(|_| !ignored.is_empty()) {
        for gpu in gpus.iter().filter(|gpu| is_ignored(gpu)) {
            host.notes.push(HostNote::Ignored(gpu.label()));
        }
        gpus.retain(|gpu| !is_ignored(gpu));
    }
    Ok(host)
}

/// Adds the compute capabilities of GPUs by name or PCI id and the driver by its CUDA release, drops a cuda-compat
/// that does not work. A contradictory machine is accepted: [`super::check_host`] rejects it, `verify` reports it.
///
/// # Errors
/// A CUDA release without a known driver.
pub fn completed(mut host: Host, registry: &Registry) -> Result<Host, UnknownCuda> {
    for gpu in host.gpus.iter_mut().flatten().filter(|g| g.capability.is_none()) {
        let by_pci = gpu.pci_id.as_ref().and_then(|id| registry.find_gpu_by_pci(id));
        if let Some(row) = by_pci {
            gpu.capability = Some(row.capability);
            gpu.name.get_or_insert_with(|| row.name.clone());
        } else if let Some(found) = gpu.name.as_ref().and_then(|n| registry.find_gpu(n).ok()) {
            gpu.capability = Some(found.capability);
        }
    }
    if let Some(driver) = &mut host.driver
        && driver.version == Driver::unknown_version()
        && let Some(cuda) = driver.cuda.clone()
    {
        let series = cuda_version(cuda.as_str()).ok();
        let version = series.and_then(|c| driver_of_cuda(registry, &c));
        let found_by = driver.found_by.clone();
        driver.version = version.ok_or_else(|| UnknownCuda { cuda: cuda.clone(), found_by })?;
        let by_override = driver.found_by == FoundBy::CondaOverride;
        driver.found_by = FoundBy::InferredFromCuda { cuda, of: Box::new(driver.found_by.clone()) };
        if by_override && host.has_no_gpu() {
            // The override describes a machine with a GPU that is not here.
            host.gpus = None;
        }
    }
    drop_compat_that_does_not_work(&mut host, registry);
    Ok(host)
}

/// Drops a cuda-compat that is known not to work on the machine: programs that load it fail to start.
fn drop_compat_that_does_not_work(host: &mut Host, registry: &Registry) {
    let Some(driver) = &mut host.driver else { return };
    let Some(compat) = driver.compat.take() else { return };
    let names = host.gpus.iter().flatten().filter_map(|gpu| gpu.name.as_ref());
    let consumer = names.filter(|name| registry.is_consumer(name)).map(|name| clean(name, 60)).next();
    let branch = driver.version.major();
    let what = match consumer {
        _ if registry.compat_supports(&compat, &driver.version) == Some(false) => {
            UnsupportedBy::Branch(branch)
        }
        Some(name) => UnsupportedBy::Product(name),
        None => {
            driver.compat = Some(compat);
            return;
        }
    };
    host.notes.push(HostNote::CompatUnsupported { release: compat, what });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::platform::Platform;

    fn machine(driver: &str, compat: Option<&str>, gpus: &[&str]) -> Host {
        let mut host = Host::open(Platform::LINUX_X86_64, "t");
        let compat = compat.map(|v| v.parse().unwrap());
        host.driver =
            Some(Driver { version: driver.parse().unwrap(), cuda: None, compat, found_by: "t".into() });
        let gpu = |(index, name): (usize, &&str)| Gpu {
            index: index as u32,
            name: Some((*name).to_owned()),
            capability: None,
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "t".into(),
        };
        host.gpus = Some(gpus.iter().enumerate().map(gpu).collect());
        host
    }

    #[test]
    fn compat_is_kept_only_where_it_works() {
        let registry = crate::registry::frozen();
        // (driver of the kernel module, cuda-compat, GPU, whether it is kept): NVIDIA's table of forward compatibility.
        for (driver, compat, gpu, is_kept) in [
            ("535.129.03", "580.65.06", "NVIDIA A100", true),
            ("535.129.03", "580.65.06", "NVIDIA GeForce RTX 4090", false),
            ("580.65.06", "570.26", "NVIDIA A100", false),
        ] {
            let host = completed(machine(driver, Some(compat), &[gpu]), &registry).unwrap();
            let shown = format!("{driver} {compat} {gpu}: {:?}", host.notes);
            assert_eq!(host.driver.unwrap().compat.is_some(), is_kept, "{shown}");
            assert_eq!(host.notes.is_empty(), is_kept, "{shown}");
        }
    }

    #[test]
    fn gpus_are_ignored_by_name_and_by_capability() {
        let registry = crate::registry::frozen();
        let here = || machine("580.65.06", None, &["NVIDIA H200", "NVIDIA GeForce GTX 1050"]);
        for (entry, left) in [("GTX 1050", 1), ("6.1", 1), ("sm_90", 1), ("RTX 4090", 2)] {
            let host = without_ignored(here(), &[entry.to_owned()], &registry).unwrap();
            assert_eq!(host.gpus.unwrap().len(), left, "{entry}");
            assert_eq!(host.notes.len(), 2 - left, "{entry}");
        }
        assert!(without_ignored(here(), &["no such GPU".to_owned()], &registry).is_err());
    }
}
