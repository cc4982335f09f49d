//! The driver's own library, `libcuda.so.1`: is it there, and is it the kernel module's?

use super::finding;
use super::paths::{file_name, folder, shown};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::{Driver, Host};
use crate::model::process::{How, Object, Process};
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
    // cuda-compat's library of a newer driver is meant, where nothing is known against it.
    if release == driver.version || Some(&release) == driver.compat.as_ref() {
        return;
    }
    let path = shown(&object.path);
    let consumer =
        host.gpus.iter().flatten().filter_map(|gpu| gpu.name.as_ref()).find(|n| registry.is_consumer(n));
    let is_newer = release > driver.version;
    let in_compat =
        object.file.components().any(|part| part.as_os_str().to_string_lossy().contains("compat"));
    let take_out = || match &object.how {
        How::LibraryPath(_) => format!("take {} out of LD_LIBRARY_PATH", folder(&object.path)),
        _ => format!("take {path} out of the loader's cache, or start the container without it"),
    };
    let (severity, message, fix) = if is_newer && in_compat && consumer.is_some() {
        (
            Severity::Error,
            format!(
                "the driver's library is cuda-compat's, of release {release}: it does not serve {}, and CUDA does not start (error 804)",
                consumer.map(|name| crate::model::text::clean(name, 60)).unwrap_or_default()
            ),
            format!("{}, and update the driver itself", take_out()),
        )
    } else if is_newer && in_compat {
        (
            Severity::Warning,
            format!(
                "the driver's library is cuda-compat's, of release {release}, which NVIDIA does not list for drivers of branch {}: CUDA may end with error 803",
                driver.version.major()
            ),
            take_out(),
        )
    } else {
        (
            Severity::Error,
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
        r#where: Some(path),
        ..finding(Code::DriverMismatch, severity, message)
    });
}

/// A GPU and its kernel module are here, CUDA's runtime would be loaded, and the driver's library is nowhere.
pub(super) fn absent(process: &Process, host: &Host, driver_is_due: bool) -> Option<Finding> {
    let has_gpu = host.driver.is_some() && host.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
    let loaded = |start: &str| process.objects.iter().any(|o| file_name(&o.path).starts_with(start));
    let needed = process.missing.iter().any(|missing| missing.name.starts_with("libcuda.so"));
    let uses_cuda = needed || loaded("libcudart.so");
    if !driver_is_due || !has_gpu || !uses_cuda || loaded("libcuda.so") {
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
