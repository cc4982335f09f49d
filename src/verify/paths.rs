//! Paths and names of files, for messages. File names in an environment are untrusted.

use std::path::Path;

use crate::model::host::Driver;
use crate::model::native::Native;
use crate::model::text::clean;
use crate::model::version::DottedVersion;

/// Prefixes of the library names of torch and CUDA. For other libraries, the system's copy is as good.
const OURS: [&str; 7] = ["libcu", "libnv", "libnccl", "libtorch", "libc10", "libcaffe2", "libshm"];

/// Whether a library's name is one of torch or CUDA.
pub(super) fn is_ours(name: &str) -> bool {
    OURS.iter().any(|kind| name.starts_with(kind))
}

/// The last part of a path.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A path, for a message.
pub(super) fn shown(path: &Path) -> String {
    clean(&path.display().to_string(), 200)
}

/// The folder of a file, for a message.
pub(super) fn folder(path: &Path) -> String {
    path.parent().map(shown).unwrap_or_default()
}

/// The version of the driver's library that would be loaded, from its file name.
pub fn driver_release(native: &Native) -> Option<DottedVersion> {
    let mut objects = native.process.iter().flat_map(|process| &process.objects);
    let driver = objects.find(|object| file_name(&object.path).starts_with("libcuda.so"))?;
    Driver::release_of_library(&file_name(&driver.file))
}

/// The version of cuDNN that the frameworks load, of three numbers, and the one of CUDA's runtime, of two.
pub fn loaded_versions(native: &Native) -> (Option<String>, Option<String>) {
    let objects = native.process.iter().flat_map(|process| &process.objects).zip(&native.versions);
    let of = |start: &str, numbers: usize| {
        let mut known = objects.clone().filter(|(object, _)| {
            object.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
        });
        let text = known.find_map(|(_, version)| Some(version.as_ref()?.text.clone()))?;
        Some(text.split('.').take(numbers).collect::<Vec<_>>().join("."))
    };
    (of("libcudnn", 3), of("libcudart.so", 2))
}
