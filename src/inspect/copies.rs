//! Copies of CUDA and cuDNN libraries on the machine, and the versions of these libraries.

use std::path::{Path, PathBuf};

use super::library::{Detail, library};
use super::loader::{self, Loader};
use super::tree::FileTree;
use crate::model::library::LibraryVersion;
use crate::model::native::Copy;

/// Name prefixes of the libraries that are searched for outside the environment.
const KINDS: [&str; 5] = ["libcudnn", "libcudart.so", "libcublas", "libnccl.so", "libnvJitLink.so"];
/// Usual folders of CUDA toolkits and cuDNN, in addition to the loader's folders.
const USUAL_PLACES: [&str; 6] = [
    "usr/local/cuda/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/lib",
    "opt/conda/lib",
];
/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 100_000;
/// Maximum number of copies listed.
const MAX_COPIES: usize = 200;
/// The version of a library in [`KINDS`]; `None` for other libraries.
pub(super) fn version_of(tree: &dyn FileTree, path: &Path) -> Option<LibraryVersion> {
    let name = path.file_name()?.to_str()?;
    if !KINDS.iter().any(|kind| name.starts_with(kind)) {
        return None;
    }
    library(tree, path, Detail::Headers).ok()?.version
}

/// The usual folders of CUDA toolkits and cuDNN, which the loader may not search.
pub(super) fn library_folders(around: &loader::Surroundings<'_>) -> Vec<PathBuf> {
    let local = around.root.join("usr/local");
    let names = around.tree.names(&local, MAX_ENTRIES).into_iter();
    let toolkits = names.filter(|name| name.starts_with("cuda-")).map(|name| local.join(name).join("lib64"));
    let usual = USUAL_PLACES.iter().map(|place| around.root.join(place));
    usual.chain(around.conda.iter().cloned()).chain(toolkits).collect()
}

/// CUDA and cuDNN libraries outside the environment: in the loader's folders and the usual places.
pub(super) fn copies(loader: &Loader<'_>, around: &loader::Surroundings<'_>, prefix: &Path) -> Vec<Copy> {
    let tree = around.tree;
    let prefix = tree.real(prefix).unwrap_or_else(|_| prefix.to_path_buf());
    let mut files: Vec<PathBuf> = KINDS.iter().flat_map(|kind| loader.cached(kind)).collect();
    let searched = loader.library_path().iter().cloned();
    for folder in searched.chain(library_folders(around)) {
        let is_kind = |name: &String| {
            KINDS.iter().any(|kind| name.starts_with(kind)) && super::wheel_file::is_library(name)
        };
        let names = tree.names(&folder, MAX_ENTRIES).into_iter().filter(is_kind);
        files.extend(names.map(|name| folder.join(name)));
    }
    // Symlinks to the same file count as one copy.
    let mut real: Vec<PathBuf> = files.iter().filter_map(|path| tree.real(path).ok()).collect();
    real.sort();
    real.dedup();
    real.retain(|path| !path.starts_with(&prefix));
    real.truncate(MAX_COPIES);
    real.into_iter().map(|path| Copy { version: version_of(tree, &path), path }).collect()
}
