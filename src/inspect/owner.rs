//! Which of NVIDIA's packages records a library file, and as which release: most of CUDA's libraries say only their
//! major themselves, and their wheels are versioned as they are.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// No site-packages lies more folders above a library.
const MAX_DEPTH: usize = 12;
/// No RECORD of these packages is longer, in bytes.
const MAX_RECORD: u64 = 16 << 20;
/// No environment has more packages of NVIDIA's.
const MAX_PACKAGES: usize = 256;

/// What NVIDIA's packages record, by site-packages folder; each is read once.
#[derive(Debug, Default)]
pub struct Records(BTreeMap<PathBuf, HashMap<String, (String, String)>>);

impl Records {
    /// The package that records a file, and its version: `("nvidia-cublas-cu12", "12.8.4.1")`. Only NVIDIA's are asked.
    pub fn of(&mut self, file: &Path) -> Option<(String, String)> {
        let file = std::fs::canonicalize(file).ok()?;
        file.ancestors().skip(1).take(MAX_DEPTH).find_map(|folder| {
            let recorded = self.0.entry(folder.to_path_buf()).or_insert_with(|| read(folder));
            recorded.get(file.strip_prefix(folder).ok()?.to_str()?).cloned()
        })
    }
}

/// The libraries that the packages in a folder record, each with its package and version.
fn read(folder: &Path) -> HashMap<String, (String, String)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_info = |name: &str| name.starts_with("nvidia_") && name.ends_with(".dist-info");
    let mut infos: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(is_info)).map(|e| e.path()).collect();
    infos.sort();
    infos.truncate(MAX_PACKAGES);
    let mut out = HashMap::new();
    for info in infos {
        let stem = info.file_name().and_then(|name| name.to_str()?.strip_suffix(".dist-info"));
        let Some((package, version)) = stem.and_then(|stem| stem.split_once('-')) else { continue };
        let record = info.join("RECORD");
        let small = std::fs::metadata(&record).is_ok_and(|m| m.is_file() && m.len() <= MAX_RECORD);
        let text = if small { std::fs::read_to_string(record).unwrap_or_default() } else { String::new() };
        let owner = (crate::model::text::normalized_name(package), version.to_owned());
        for path in
            text.lines().filter_map(|line| line.split(',').next()).filter(|path| super::is_library(path))
        {
            out.insert(path.to_owned(), owner.clone());
        }
    }
    out
}
