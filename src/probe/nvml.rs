//! Facts from NVML, NVIDIA's management library: the preferred source.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::{NvidiaFacts, Surroundings, trusted};
use crate::model::capability::ComputeCapability;
use crate::model::host::{Driver, Gpu};
use crate::model::host_note::HostNote;

/// Reads the facts from NVML. `Err` is the reason why it failed; empty if NVML is not installed.
pub(super) fn look(around: &Surroundings<'_>) -> Result<NvidiaFacts, String> {
    if !trusted::nvml_is_trusted(around) {
        return Err(
            "NVML is not loaded, because LD_LIBRARY_PATH has a folder that is not the administrator's"
                .to_owned(),
        );
    }
    let nvml = match open(around) {
        Ok(nvml) => nvml,
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => return Err(String::new()),
        Err(NvmlError::DriverNotLoaded) => return Err("NVML: the NVIDIA driver is not loaded".to_owned()),
        Err(error) => return Err(format!("NVML: {}", crate::model::text::clean(&error.to_string(), 120))),
    };
    let facts = read(&nvml);
    // Not dropped: `nvmlShutdown` may be missing in a reduced library, and the process ends soon.
    std::mem::forget(nvml);
    Ok(facts)
}

/// [`open_any`]; a library that others could have planted is not loaded.
pub(super) fn open(around: &Surroundings<'_>) -> Result<Nvml, NvmlError> {
    match trusted::nvml_is_trusted(around) {
        true => open_any(around),
        false => Err(NvmlError::LibraryNotFound),
    }
}

/// Opens the library by its name, else in WSL's folder.
pub(super) fn open_any(around: &Surroundings<'_>) -> Result<Nvml, NvmlError> {
    let wsl = around.root.join("usr/lib/wsl/lib/libnvidia-ml.so.1");
    Nvml::init().or_else(|error| match trusted::is_trusted(around, &wsl) {
        true => Nvml::builder().lib_path(wsl.as_os_str()).init(),
        false => Err(error),
    })
}

fn read(nvml: &Nvml) -> NvidiaFacts {
    let mut facts = NvidiaFacts::default();
    let cuda = nvml.sys_cuda_driver_version().ok().and_then(cuda_text);
    facts.driver = nvml.sys_driver_version().ok().and_then(|v| v.trim().parse().ok()).map(|version| Driver {
        version,
        cuda: cuda.and_then(|c| c.parse().ok()),
        compat: None,
        found_by: "nvml".into(),
    });
    // If the count cannot be read, the GPUs are unknown, not none.
    let Ok(count) = nvml.device_count() else {
        facts.notes.push(HostNote::NotCounted);
        return facts;
    };
    let mut gpus = Vec::new();
    for index in 0..count.min(256) {
        let Ok(device) = nvml.device_by_index(index) else {
            facts.notes.push(HostNote::NotOpened(index));
            gpus.push(unknown(index));
            continue;
        };
        let capability = device.cuda_compute_capability().ok().and_then(|c| {
            Some(ComputeCapability::new(u8::try_from(c.major).ok()?, u8::try_from(c.minor).ok()?))
        });
        if device.mig_mode().is_ok_and(|m| m.current == 1) {
            facts.notes.push(HostNote::Mig(index));
        }
        gpus.push(Gpu {
            index,
            name: device.name().ok().map(|n| crate::model::text::clean(&n, 96)),
            capability,
            memory_mib: device.memory_info().ok().map(|m| m.total >> 20),
            uuid: device.uuid().ok().map(|u| crate::model::text::clean(&u, 96)),
            pci_id: device.pci_info().ok().map(|p| format!("{:04x}", p.pci_device_id >> 16)),
            found_by: "nvml".into(),
        });
    }
    facts.gpus = Some(gpus);
    facts
}

fn unknown(index: u32) -> Gpu {
    Gpu {
        index,
        name: None,
        capability: None,
        memory_mib: None,
        uuid: None,
        pci_id: None,
        found_by: "nvml".into(),
    }
}

/// The CUDA version from its integer, `12.2` from 12020; `None` for implausible numbers.
fn cuda_text(number: i32) -> Option<String> {
    let (major, minor) = (number / 1000, number % 1000 / 10);
    ((5..100).contains(&major) && (0..100).contains(&minor)).then(|| format!("{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::cuda_text;

    #[test]
    fn numbers() {
        assert_eq!(cuda_text(12020).as_deref(), Some("12.2"));
        assert_eq!(cuda_text(13000).as_deref(), Some("13.0"));
        assert_eq!(cuda_text(0), None);
        assert_eq!(cuda_text(-5), None);
    }
}
