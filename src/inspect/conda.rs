//! conda's records of an environment: `conda-meta/*.json`, one for each package, with its files as they were linked.
//!
//! Source of the format: conda's and rattler's prefix records (`paths_data`, version 1).

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Component, Path};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::dist_info::Depth;
use super::tree::{FileTree, Kind};
use crate::model::installed::{CondaPackage, FileFault};
use crate::model::text::clean;

/// Maximum number of records that are read.
const MAX_RECORDS: usize = 20_000;
/// Maximum size of a record, in bytes: that of torch has several MB.
const MAX_RECORD: u64 = 64 << 20;
/// Maximum number of files that are looked at, of all packages together.
const MAX_FILES: usize = 2_000_000;

/// Files that people delete to make an environment smaller, and that no program reads. Python writes `.pyc` files again.
const DISPENSABLE: [&str; 6] = [".pyc", ".a", ".js.map", ".la", ".html", ".rst"];
/// Folders of the same kind.
const DISPENSABLE_FOLDERS: [&str; 6] =
    ["share/doc/", "share/man/", "share/info/", "man/", "conda-meta/", "pkgs/"];

#[derive(Deserialize)]
struct Record {
    name: String,
    version: String,
    #[serde(default)]
    build: String,
    #[serde(default)]
    paths_data: PathsData,
}

#[derive(Deserialize, Default)]
struct PathsData {
    #[serde(default)]
    paths: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "_path")]
    path: String,
    #[serde(default)]
    path_type: String,
    /// Of the package's file.
    sha256: Option<String>,
    /// Of the file as it was linked.
    sha256_in_prefix: Option<String>,
    size_in_bytes: Option<u64>,
    /// The folder that is replaced by the environment's; the file has another length then.
    prefix_placeholder: Option<String>,
    /// `text` or `binary`: a binary file keeps its length.
    file_mode: Option<String>,
}

/// Packages that conda installed, with the faults of their files, sorted by name.
pub(super) fn packages(tree: &dyn FileTree, prefix: &Path, depth: Depth) -> Vec<CondaPackage> {
    let folder = prefix.join("conda-meta");
    let names = tree.names(&folder, MAX_RECORDS).into_iter().filter(|name| name.ends_with(".json"));
    let records = names.filter_map(|name| {
        let text = tree.text(&folder.join(name), MAX_RECORD)?;
        serde_json::from_str::<Record>(&text).ok()
    });
    let mut owners: HashMap<String, u32> = HashMap::new();
    let mut left = MAX_FILES;
    let mut out: Vec<CondaPackage> = records
        .map(|record| {
            let mut package = CondaPackage {
                name: clean(&record.name, 100),
                version: clean(&record.version, 60),
                build: clean(&record.build, 60),
                ..CondaPackage::default()
            };
            for entry in record.paths_data.paths {
                let Some(more) = left.checked_sub(1) else { break };
                left = more;
                if !stays_inside(&entry.path) {
                    continue;
                }
                package.files += 1;
                package.faults.extend(fault(tree, prefix, depth, &entry));
                *owners.entry(entry.path).or_default() += 1;
            }
            package
        })
        .collect();
    // A file of two packages is that of the one that was linked last.
    let is_of_two = |fault: &FileFault| owners.get(fault.path()).is_some_and(|count| *count > 1);
    for package in &mut out {
        package.faults.retain(|fault| !is_of_two(fault));
    }
    out.sort_by(|a, b| (&a.name, &a.version, &a.build).cmp(&(&b.name, &b.version, &b.build)));
    out
}

/// Whether a recorded path is one below the environment: records are untrusted.
fn stays_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

fn fault(tree: &dyn FileTree, prefix: &Path, depth: Depth, entry: &Entry) -> Option<FileFault> {
    let path = prefix.join(&entry.path);
    let found = match tree.about(&path) {
        Ok(found) => found,
        Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
            return Some(FileFault::Unreadable(entry.path.clone(), "permission denied".to_owned()));
        }
        // A link may lead to what another package has not installed.
        Err(_) if tree.is_link(&path) => return None,
        Err(_) => {
            let name = entry.path.as_str();
            let is_dispensable = DISPENSABLE.iter().any(|end| name.ends_with(end))
                || DISPENSABLE_FOLDERS.iter().any(|folder| name.starts_with(folder))
                || name.contains("/__pycache__/")
                || entry.size_in_bytes == Some(0);
            return (!is_dispensable).then(|| FileFault::Missing(entry.path.clone()));
        }
    };
    if entry.path_type == "softlink" || entry.path_type == "directory" || found.kind != Kind::File {
        return None;
    }
    let is_rewritten = entry.prefix_placeholder.as_deref().is_some_and(|folder| !folder.is_empty());
    let keeps_size = !is_rewritten || entry.file_mode.as_deref() == Some("binary");
    if let Some(size) = entry.size_in_bytes.filter(|size| keeps_size && *size != found.size) {
        return Some(FileFault::Size(entry.path.clone(), size, found.size));
    }
    let own = entry.sha256.as_ref().filter(|_| !is_rewritten);
    let expected = entry.sha256_in_prefix.as_ref().or(own).filter(|_| depth == Depth::Hashes)?;
    match hash(tree, &path, found.size) {
        Ok(hash) if hash.eq_ignore_ascii_case(expected) => None,
        Ok(_) => Some(FileFault::Hash(entry.path.clone())),
        Err(why) => Some(FileFault::Unreadable(entry.path.clone(), clean(&why.to_string(), 80))),
    }
}

/// The SHA-256 of a file in hexadecimal. Reads at most `size` + 1 bytes, in case the file grows.
fn hash(tree: &dyn FileTree, path: &Path, size: u64) -> std::io::Result<String> {
    let mut file = tree.open(path)?.reader()?.take(size.saturating_add(1));
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        hasher.update(&buffer[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use super::*;

    fn record(prefix: &Path, name: &str, entries: &str) {
        let text = format!(
            r#"{{"name": "{name}", "version": "1.0", "build": "h1_0", "paths_data": {{"paths": [{entries}]}}}}"#
        );
        fs_err::create_dir_all(prefix.join("conda-meta")).unwrap();
        fs_err::write(prefix.join(format!("conda-meta/{name}-1.0-h1_0.json")), text).unwrap();
    }

    #[test]
    fn files_as_they_were_linked() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        fs_err::create_dir_all(prefix.join("lib")).unwrap();
        for (name, text) in [("whole", "abc"), ("cut", "a"), ("moved", "longer than before"), ("both", "xy")]
        {
            fs_err::write(prefix.join("lib").join(name), text).unwrap();
        }
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        record(
            prefix,
            "one",
            &format!(
                r#"{{"_path": "lib/whole", "path_type": "hardlink", "sha256": "{sha}", "size_in_bytes": 3}},
                {{"_path": "lib/cut", "size_in_bytes": 3}},
                {{"_path": "lib/moved", "size_in_bytes": 3, "prefix_placeholder": "/old", "file_mode": "text"}},
                {{"_path": "lib/gone.so", "size_in_bytes": 3}}, {{"_path": "lib/gone.a", "size_in_bytes": 3}},
                {{"_path": "share/doc/x", "size_in_bytes": 3}}, {{"_path": "../../etc/passwd", "size_in_bytes": 3}},
                {{"_path": "/etc/passwd", "size_in_bytes": 3}}, {{"_path": "lib/both", "size_in_bytes": 9}}"#
            ),
        );
        record(prefix, "two", r#"{"_path": "lib/both", "size_in_bytes": 2}"#);
        fs_err::write(prefix.join("conda-meta/broken.json"), "{").unwrap();
        let found = packages(&ThisMachine, prefix, Depth::Hashes);
        let names: Vec<(&str, usize)> = found.iter().map(|p| (p.name.as_str(), p.files)).collect();
        assert_eq!(names, [("one", 7), ("two", 1)]);
        let expected = [FileFault::Size("lib/cut".into(), 3, 1), FileFault::Missing("lib/gone.so".into())];
        assert_eq!(found[0].faults, expected);
        assert!(found[1].faults.is_empty());

        fs_err::write(prefix.join("lib/whole"), "abd").unwrap();
        assert_eq!(packages(&ThisMachine, prefix, Depth::Sizes)[0].faults, expected);
        let deep = packages(&ThisMachine, prefix, Depth::Hashes);
        assert!(deep[0].faults.contains(&FileFault::Hash("lib/whole".into())), "{deep:?}");
    }
}
