//! Finds the NVIDIA package that records a library file. Its version is the library's version: most CUDA libraries
//! contain only their major version.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::tree::FileTree;

/// Maximum depth of a library below site-packages.
const MAX_DEPTH: usize = 12;
/// Maximum size of a RECORD that is read, in bytes.
const MAX_RECORD: u64 = 16 << 20;
/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 100_000;
/// Maximum number of NVIDIA packages read in a folder.
const MAX_PACKAGES: usize = 256;

/// The libraries recorded by NVIDIA packages, by site-packages folder. Each folder is read once.
#[derive(Debug, Default)]
pub struct Records(BTreeMap<PathBuf, HashMap<String, (String, String)>>);

impl Records {
    /// The NVIDIA package that records a file, and its version: `("nvidia-cublas-cu12", "12.8.4.1")`.
    pub fn of(&mut self, tree: &dyn FileTree, file: &Path) -> Option<(String, String)> {
        let file = tree.real(file).ok()?;
        file.ancestors().skip(1).take(MAX_DEPTH).find_map(|folder| {
            let recorded = self.0.entry(folder.to_path_buf()).or_insert_with(|| read(tree, folder));
            recorded.get(file.strip_prefix(folder).ok()?.to_str()?).cloned()
        })
    }
}

/// The libraries that NVIDIA packages in a folder record, with package and version.
fn read(tree: &dyn FileTree, folder: &Path) -> HashMap<String, (String, String)> {
    let names = tree.names(folder, MAX_ENTRIES).into_iter();
    let is_info = |name: &str| name.starts_with("nvidia_") && name.ends_with(".dist-info");
    let mut infos: Vec<PathBuf> = names.filter(|name| is_info(name)).map(|name| folder.join(name)).collect();
    infos.sort();
    infos.truncate(MAX_PACKAGES);
    let mut out = HashMap::new();
    for info in infos {
        let stem = info.file_name().and_then(|name| name.to_str()?.strip_suffix(".dist-info"));
        let Some((package, version)) = stem.and_then(|stem| stem.split_once('-')) else { continue };
        let text = tree.text(&info.join("RECORD"), MAX_RECORD).unwrap_or_default();
        let owner = (crate::model::text::normalized_name(package), version.to_owned());
        for path in
            text.lines().filter_map(|line| line.split(',').next()).filter(|path| super::is_library(path))
        {
            out.insert(path.to_owned(), owner.clone());
        }
    }
    out
}
