//! The driver's own library, `libcuda.so.1`: is it there, and is it the kernel module's?

use super::finding;
use super::paths::{file_name, folder, shown};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::{Driver, Host};
use crate::model::process::{Object, Process};
use crate::registry::Registry;

/// What the loader takes for the driver's own library.
pub(super) fn loaded(object: &Object, host: &Host, registry: &Registry, findings: &mut Vec<Finding>) {
    if object.path.components().any(|c| c.as_os_str() == "stubs") {
        findings.push(Finding {
            fix: Some(
                "take the toolkit's `stubs` folder out of LD_LIBRARY_PATH: it is for linking".to_owned(),
            ),
            r#where: Some(shown(&object.path)),
            ..finding(
                Code::StubLibrary,
                Severity::Error,
                format!(
                    "libcuda.so.1 would come from {}: that is the toolkit's stub, not the driver (error 34)",
                    folder(&object.file)
                ),
            )
        });
        return;
    }
    // The file behind the link names the release: libcuda.so.535.129.03.
    let release = Driver::release_of_library(&file_name(&object.file));
    let (Some(release), Some(driver)) = (release, &host.driver) else { return };
    // cuda-compat's library of a newer driver is meant, where the registry says that it serves this machine.
    if release == driver.version || Some(&release) == driver.compat.as_ref() {
        return;
    }
    let is_compat = release > driver.version && registry.compat_serves(&release, &driver.version);
    let (message, fix) = if is_compat {
        (
            format!(
                "the driver's library is cuda-compat's, of release {release}: it serves data-centre GPUs only, and CUDA does not start on this one (error 804)"
            ),
            format!("take {} out of LD_LIBRARY_PATH, and update the driver itself", folder(&object.path)),
        )
    } else {
        (
            format!(
                "the driver's library is of release {release}, its kernel module of {}: CUDA does not start (error 803)",
                driver.version
            ),
            "reboot after a driver update, or reload the module; in a container use the host's library"
                .to_owned(),
        )
    };
    findings.push(Finding {
        fix: Some(fix),
        r#where: Some(shown(&object.path)),
        ..finding(Code::DriverMismatch, Severity::Error, message)
    });
}

/// A GPU and its kernel module are here, CUDA's runtime would be loaded, and the driver's library is nowhere.
pub(super) fn absent(process: &Process, host: &Host, driver_is_due: bool) -> Option<Finding> {
    let has_gpu = host.driver.is_some() && host.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
    let loaded = |start: &str| process.objects.iter().any(|o| file_name(&o.path).starts_with(start));
    let told = process.missing.iter().any(|missing| missing.name.starts_with("libcuda.so"));
    if !driver_is_due || !has_gpu || told || !loaded("libcudart.so") || loaded("libcuda.so") {
        return None;
    }
    Some(Finding {
        fix: Some(
            "install the driver's CUDA library (libcuda1 or nvidia-driver-cuda-libs); in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                .to_owned(),
        ),
        r#where: Some("libcuda.so.1".to_owned()),
        ..finding(
            Code::MissingLibrary,
            Severity::Error,
            "the kernel module of the driver is loaded, and its library libcuda.so.1 is nowhere on the loader's paths: CUDA sees no GPU"
                .to_owned(),
        )
    })
}
