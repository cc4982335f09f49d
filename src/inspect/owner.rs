//! Which of NVIDIA's packages records a library file, and as which release: most of CUDA's libraries say only their
//! major themselves, and their wheels are versioned as they are.

use std::path::{Path, PathBuf};

/// No site-packages lies more folders above a library.
const MAX_DEPTH: usize = 12;
/// No RECORD of these packages is longer, in bytes.
const MAX_RECORD: u64 = 16 << 20;

/// The package that records a file, and its version: `("nvidia-cublas-cu12", "12.8.4.1")`. Only NVIDIA's are asked.
pub fn recorded(file: &Path) -> Option<(String, String)> {
    let file = std::fs::canonicalize(file).ok()?;
    file.ancestors().skip(1).take(MAX_DEPTH).find_map(|folder| {
        let infos = dist_infos(folder);
        let inside = file.strip_prefix(folder).ok()?.to_str()?.to_owned();
        infos.iter().find_map(|info| {
            let name = info.file_name()?.to_str()?.strip_suffix(".dist-info")?;
            let (package, version) = name.split_once('-')?;
            records(&info.join("RECORD"), &inside)
                .then(|| (crate::model::text::normalized_name(package), version.to_owned()))
        })
    })
}

fn dist_infos(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_info = |name: &str| name.starts_with("nvidia_") && name.ends_with(".dist-info");
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(is_info)).map(|e| e.path()).collect();
    found.sort();
    found
}

fn records(record: &Path, inside: &str) -> bool {
    let small = std::fs::metadata(record).is_ok_and(|m| m.is_file() && m.len() <= MAX_RECORD);
    let text = if small { std::fs::read_to_string(record).unwrap_or_default() } else { String::new() };
    text.lines().any(|line| line.strip_prefix(inside).is_some_and(|rest| rest.starts_with(',')))
}
