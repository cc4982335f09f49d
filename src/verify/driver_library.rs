//! The driver's library, `libcuda.so.1`: whether it is found, and whether it matches the kernel module.

use super::facts::Facts;
use super::findings::{self, Mismatch, Missing};
use super::paths::{file_name, folder, shown};
use crate::model::finding::{Finding, Severity};
use crate::model::host::{Driver, Host};
use crate::model::process::{How, Object, Process};
use crate::registry::Registry;

/// Checks the file that the loader takes for `libcuda.so.1`.
pub(super) fn loaded(object: &Object, host: Option<&Host>, registry: &Registry, found: &mut Vec<Finding>) {
    let in_stubs = |path: &std::path::Path| path.components().any(|c| c.as_os_str() == "stubs");
    if in_stubs(&object.path) || in_stubs(&object.file) {
        found.push(findings::stub_library(&shown(&object.path), &folder(&object.file)));
        return;
    }
    // The name of the symlink's target has the version: libcuda.so.535.129.03.
    let release = Driver::release_of_library(&file_name(&object.file));
    let Some(host) = host else { return };
    let (Some(release), Some(driver)) = (release, &host.driver) else { return };
    // A newer library from cuda-compat is intended; `compat` is set only for a supported one.
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
        How::LibraryPath(_) => format!("remove {} from LD_LIBRARY_PATH", folder(&object.path)),
        _ => format!("remove {path} from the loader's cache, or start the container without it"),
    };
    let consumer = consumer.map(|name| crate::model::text::clean(name, 60));
    let release = release.to_string();
    let mismatch = match (is_newer && in_compat, consumer) {
        (true, Some(gpu)) => Mismatch::CompatOnConsumer { release, gpu, take_out: take_out() },
        (true, None) => {
            Mismatch::CompatNotListed { release, branch: driver.version.major(), take_out: take_out() }
        }
        (false, _) => Mismatch::Releases {
            library: release,
            module: driver.version.to_string(),
            take_out: matches!(object.how, How::LibraryPath(_)).then(take_out),
        },
    };
    found.push(Finding { r#where: Some(path), ..findings::driver_mismatch(mismatch) });
}

/// Reports a missing `libcuda.so.1` on a machine with a GPU and kernel module, when the process uses CUDA.
pub(super) fn absent(process: &Process, facts: &Facts<'_>) -> Option<Finding> {
    // Without device files, these are reported instead. A described machine's are not known.
    let (host, state) = (facts.machine?, facts.state?);
    let has_gpu = host.driver.is_some() && host.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
    let loaded = |start: &str| process.objects.iter().any(|o| file_name(&o.path).starts_with(start));
    let needed = process.missing.iter().any(|missing| missing.name.starts_with("libcuda.so"));
    let uses_cuda = needed || loaded("libcudart.so");
    if !state.has_device_files() || !has_gpu || !uses_cuda || loaded("libcuda.so") {
        return None;
    }
    Some(findings::missing_library(Severity::Error, Missing::Driver, None))
}
