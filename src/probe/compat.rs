//! Detects cuda-compat: a newer user-mode driver that takes precedence over the one of the kernel module.
//!
//! Programs find it by `LD_LIBRARY_PATH`, which NVIDIA's containers and conda's package set. The registry tells
//! whether it supports a GPU and kernel module.

use std::path::{Path, PathBuf};

use super::Surroundings;
use crate::model::version::DottedVersion;

/// Maximum number of folders of `LD_LIBRARY_PATH` that are searched.
const MAX_FOLDERS: usize = 256;

/// The version of the first `libcuda.so.1` in `LD_LIBRARY_PATH`, from the name of the symlink's target.
pub(super) fn release(around: &Surroundings<'_>) -> Option<DottedVersion> {
    let list = (around.variable)("LD_LIBRARY_PATH")?;
    let library = list
        .split([':', ';'])
        .take(MAX_FOLDERS)
        .filter(|folder| folder.starts_with('/'))
        .map(|folder| under(&around.root, folder).join("libcuda.so.1"))
        .find(|library| library.exists())?;
    of_file(&std::fs::canonicalize(library).ok()?)
}

/// The version in a file name: 580.65.06 for `libcuda.so.580.65.06`, `None` for WSL's `libcuda.so.1.1`.
fn of_file(file: &Path) -> Option<DottedVersion> {
    let name = file.file_name()?.to_str()?;
    crate::model::host::Driver::release_of_library(name)
}

fn under(root: &Path, folder: &str) -> PathBuf {
    let folder = Path::new(folder);
    if folder.starts_with(root) {
        return folder.to_path_buf();
    }
    folder.strip_prefix("/").map_or_else(|_| folder.to_path_buf(), |inside| root.join(inside))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        for (place, file) in
            [("a/none", "x"), ("opt/compat", "libcuda.so.580.65.06"), ("wsl", "libcuda.so.1.1")]
        {
            std::fs::create_dir_all(folder.path().join(place)).unwrap();
            std::fs::write(folder.path().join(place).join(file), "").unwrap();
            if file != "x" {
                std::os::unix::fs::symlink(file, folder.path().join(place).join("libcuda.so.1")).unwrap();
            }
        }
        let table = [
            ("", None),
            ("/nowhere:/a/none", None),
            ("/a/none:/opt/compat:/wsl", Some("580.65.06")),
            ("/wsl:/opt/compat", None),
            ("opt/compat", None),
        ];
        for (list, expected) in table {
            let variable = |name: &str| (name == "LD_LIBRARY_PATH").then(|| list.to_owned());
            let around = Surroundings { root: folder.path().to_path_buf(), variable: &variable };
            assert_eq!(release(&around).as_ref().map(DottedVersion::as_str), expected, "{list}");
        }
    }
}
