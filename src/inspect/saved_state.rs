//! What `probe --save` keeps of a file system, to compare it later: the libraries of the driver, CUDA and cuDNN in the
//! loader's cache, and the packages of an environment.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::ld_cache::{self, MAX_CACHE};
use super::record_file::{MAX_RECORD, entries};
use super::tree::FileTree;
use crate::model::installed::Installed;
use crate::model::saved_host::EnvironmentFacts;

/// Prefixes of the names that are kept.
const KINDS: [&str; 9] = [
    "libcuda.so",
    "libnvidia-ml.so",
    "libcudart.so",
    "libcudnn",
    "libcublas",
    "libcusparse",
    "libcufft.so",
    "libnccl.so",
    "libnvJitLink.so",
];
/// Maximum number of libraries that are kept.
const MAX_LIBRARIES: usize = 500;

/// The libraries of the driver, CUDA and cuDNN that the loader's cache names: by name the file that it leads to. `machine` is
/// the processor, `x86_64` or `aarch64`.
pub fn libraries_of_cuda(tree: &dyn FileTree, root: &Path, machine: &str) -> BTreeMap<String, String> {
    let bytes = tree.start(&root.join("etc/ld.so.cache"), MAX_CACHE).unwrap_or_default();
    let mut out = BTreeMap::new();
    for entry in ld_cache::parse(&bytes, machine) {
        if KINDS.iter().any(|kind| entry.name.starts_with(kind)) && out.len() < MAX_LIBRARIES {
            let path = root.join(entry.path.strip_prefix("/").unwrap_or(&entry.path));
            let real = tree.real(&path).unwrap_or(path);
            // The loader takes the first entry of a name.
            out.entry(entry.name).or_insert_with(|| real.display().to_string());
        }
    }
    out
}

/// The packages of an environment, and a digest of what their RECORDs state and of what differs from that. Who installed them
/// and what Python compiled plays no part.
pub fn environment_facts(tree: &dyn FileTree, installed: &Installed) -> EnvironmentFacts {
    let mut hasher = Sha256::new();
    let mut packages = BTreeMap::new();
    for own in &installed.distributions {
        let faults: Vec<String> = own.faults.iter().map(|fault| format!("{fault:?}")).collect();
        hasher.update(format!("{} {} {faults:?}\n", own.name, own.version).as_bytes());
        let record = installed.site_of(own).join(&own.dist_info).join("RECORD");
        let text = tree.text(&record, MAX_RECORD).unwrap_or_default();
        let of_installer = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            path.contains(".dist-info/")
                && ["INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json"].contains(&name)
        };
        let mut lines: Vec<String> = entries(&text)
            .filter(|entry| !entry.path.ends_with(".pyc") && !of_installer(&entry.path))
            .map(|entry| format!("{},{}\n", entry.path, entry.hash))
            .collect();
        lines.sort_unstable();
        lines.iter().for_each(|line| hasher.update(line.as_bytes()));
        packages.insert(own.name.clone(), own.version.to_string());
    }
    let digest = format!("sha256:{}", hex::encode(hasher.finalize()));
    EnvironmentFacts { prefix: installed.prefix.clone(), digest, packages }
}
