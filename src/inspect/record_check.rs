//! Compares the files of a distribution with its RECORD.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};

use super::record_file::{Entry, MAX_RECORD, encode, entries};
use super::tree::{About, FileTree, Kind};
use crate::model::installed::{Distribution, FileFault};

/// How thoroughly files are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Existence and size.
    Sizes,
    /// Also the SHA-256 of every file.
    Hashes,
}

/// Maximum number of recorded files that are looked at, of all packages together. A large environment has 300,000.
pub(super) const MAX_FILES: usize = 2_000_000;

/// Path key and hash key of a recorded file, and the number of its line in RECORD.
pub(super) type Owned = (u64, u64, u32);

/// Compares the files on disk with RECORD. Returns the number of checked files, and the files that the
/// distribution records with a hash.
pub(super) fn files(
    tree: &dyn FileTree,
    distribution: &mut Distribution,
    folder: &Path,
    site: &Path,
    (prefix, depth): (&Path, Depth),
    left: &AtomicUsize,
) -> (usize, Vec<Owned>) {
    let Some(bytes) = tree.start(&folder.join("RECORD"), MAX_RECORD) else {
        return (0, Vec::new());
    };
    let record = tree.about(&folder.join("RECORD")).ok();
    let text = String::from_utf8_lossy(&bytes);
    // A RECORD lists itself, and its last line is complete: a crash or a full disk cuts it.
    let last = text.rsplit('\n').next().unwrap_or_default();
    let is_ended = last.trim().is_empty() || last.matches(',').count() >= 2;
    let mut lists_itself = false;
    let mut seen = 0;
    let mut owned = Vec::new();
    let mut path = PathBuf::new();
    for (entry, number) in entries(&text).zip(0..) {
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            let why =
                format!("the environment records more than {MAX_FILES} files: the rest is not looked at");
            distribution.faults.push(FileFault::Unreadable("RECORD".to_owned(), why));
            lists_itself = true;
            break;
        }
        lists_itself |= entry.path.ends_with("RECORD")
            && Path::new(&entry.path.replace('\\', "/")).parent().and_then(Path::file_name)
                == folder.file_name();
        let relative = Path::new(entry.path.as_ref());
        // RECORD is untrusted: paths outside the environment are ignored.
        if relative.is_absolute() || leaves(relative, site, prefix) {
            continue;
        }
        if super::is_library(&entry.path) {
            distribution.libraries.push(entry.path.clone().into_owned());
        }
        let folder_of = package_folder(&entry.path);
        if folder_of.is_some() && distribution.folders.last().map(String::as_str) != folder_of {
            distribution.folders.extend(folder_of.map(str::to_owned));
        }
        path.clear();
        path.push(site);
        path.push(relative);
        seen += 1;
        let found = match tree.about(&path) {
            Ok(found) => Some(found),
            // A folder that may not be entered hides its files: they are not missing.
            Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
                let why = "permission denied".to_owned();
                distribution.faults.push(FileFault::Unreadable(entry.path.into_owned(), why));
                continue;
            }
            Err(_) => None,
        };
        let Some(found) = found else {
            // Python may delete and recreate .pyc files; RECORD has no hash for them. Without an empty `__init__.py`, its
            // folder is a namespace package, and the modules in it are imported as before.
            let is_empty_init = entry.size == Some(0)
                && relative.file_name().is_some_and(|name| name == "__init__.py")
                && path.parent().is_some_and(|folder| tree.is_folder(folder));
            if !entry.path.ends_with(".pyc") && !is_empty_init {
                distribution.faults.push(FileFault::Missing(entry.path.into_owned()));
            }
            continue;
        };
        // What an installer writes last cannot state its own size.
        let is_record = path == folder.join("RECORD");
        let fault = match entry.size.filter(|size| found.size != *size && !is_record) {
            _ if found.kind != Kind::File => {
                Some(FileFault::Unreadable(entry.path.clone().into_owned(), "not a regular file".to_owned()))
            }
            Some(size) => {
                Some(other_size(tree, (site, relative, &path), (&entry, size), (&found, record.as_ref())))
            }
            None if depth == Depth::Hashes => other_hash(tree, &path, &entry, found.size),
            None => None,
        };
        let is_rewritten = |fault: &FileFault| {
            matches!(fault, FileFault::Size(..) | FileFault::Hash(_)) && is_cache_of_source(tree, &path)
        };
        distribution.faults.extend(fault.filter(|fault| !is_rewritten(fault)));
        if !entry.hash.is_empty() {
            owned.push((key(entry.path.as_ref()), key(entry.hash), number));
        }
    }
    distribution.folders.sort_unstable();
    distribution.folders.dedup();
    distribution.record_readable = lists_itself && is_ended;
    (seen, owned)
}

/// The folder of a package's file, up to the second: `google/protobuf` of `google/protobuf/internal/api.py`. `None` for a module
/// without one, and for what lies elsewhere than in site-packages.
fn package_folder(path: &str) -> Option<&str> {
    let folder = path.rsplit_once('/')?.0;
    let end = folder.match_indices('/').nth(1).map_or(folder.len(), |(at, _)| at);
    let (whole, first) = (&folder[..end], folder.split('/').next()?);
    (first != ".." && !first.ends_with(".dist-info") && !whole.ends_with("__pycache__")).then_some(whole)
}

/// What a file is whose size is not the recorded one.
fn other_size(
    tree: &dyn FileTree,
    (site, relative, path): (&Path, &Path, &Path),
    (entry, size): (&Entry<'_>, u64),
    (found, record): (&About, Option<&About>),
) -> FileFault {
    // Where a link leads, files are as old as they like.
    let is_above = relative.components().any(|part| part == Component::ParentDir);
    let is_own = || match is_above {
        true => !tree.is_link(path),
        false => {
            tree.real(site).and_then(|site| Ok(tree.real(path)? == site.join(relative))).unwrap_or(false)
        }
    };
    let name = entry.path.clone().into_owned();
    match is_older(found, record) && is_own() {
        true => FileFault::AsPublished(name, size, found.size),
        false if is_extended(tree, path, entry, found.size) => FileFault::Extended(name, size, found.size),
        false => FileFault::Size(name, size, found.size),
    }
}

/// Whether a `.pyc` file is what Python writes when it imports the source that is there: its header has the time and the size of
/// the source (PEP 552). One that is trusted without a look at the source, or has none, is no cache.
fn is_cache_of_source(tree: &dyn FileTree, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    // `torch/__pycache__/hub.cpython-312.opt-1.pyc` is made of `torch/hub.py`.
    let is_compiled = name.ends_with(".pyc");
    let source = name.split_once(".cpython-").map(|(stem, _)| format!("{stem}.py")).filter(|_| is_compiled);
    let folder = path.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "__pycache__"));
    let Some((source, folder)) = source.zip(folder.and_then(Path::parent)) else { return false };
    let (Ok(source), Some(header)) = (tree.about(&folder.join(source)), tree.start(path, 16)) else {
        return false;
    };
    let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let seconds = source.modified.div_euclid(1_000_000_000) as u32;
    // The header has the last 32 bits of both.
    word(4) == Some(0) && word(8) == Some(seconds) && word(12) == Some(source.size as u32)
}

/// What is wrong with the content of a file whose size is the recorded one.
fn other_hash(tree: &dyn FileTree, path: &Path, entry: &Entry<'_>, size: u64) -> Option<FileFault> {
    let name = entry.path.clone().into_owned();
    if !entry.hash.starts_with("sha256=") {
        // What Python writes, and RECORD with its signatures, have none.
        let is_without = name.ends_with(".pyc")
            || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("RECORD"));
        return (!is_without).then_some(FileFault::NoHash(name));
    }
    match file_hash(tree, path, size) {
        Ok(hash) if hash == entry.hash => None,
        Ok(_) => Some(FileFault::Hash(name)),
        Err(why) => Some(FileFault::Unreadable(name, crate::model::text::clean(&why.to_string(), 80))),
    }
}

/// Whether a file is as it was before RECORD was written. The time of metadata cannot be set back, so a copy over it that
/// keeps times is not older. That time says nothing where the file has other names, since each new one counts as a change
/// (uv links another environment to the same file), and where RECORD itself was copied with its time: the environment was
/// moved or unpacked.
fn is_older(file: &About, record: Option<&About>) -> bool {
    const TICK: i128 = 2_000_000_000;
    record.is_some_and(|record| {
        let is_moved = record.changed - record.modified > TICK;
        // The clock of file systems ticks every few milliseconds: both may be written in one tick.
        let is_unchanged = file.changed <= record.changed || file.links > 1 || is_moved;
        file.modified < record.modified && is_unchanged
    })
}

/// Whether a list of certificates has what is recorded, and more after it: the authorities of a company are appended.
fn is_extended(tree: &dyn FileTree, path: &Path, entry: &Entry<'_>, found: u64) -> bool {
    let Some(size) = entry.size.filter(|size| *size < found) else { return false };
    let is_list = entry.path.ends_with(".pem") && entry.hash.starts_with("sha256=");
    is_list && first_bytes(tree, path, size).is_ok_and(|digest| encode(&digest) == entry.hash)
}

/// Whether a recorded path leaves the environment.
fn leaves(relative: &Path, site: &Path, prefix: &Path) -> bool {
    let mut depth = site.strip_prefix(prefix).map_or(0, |p| p.components().count()) as i64;
    for component in relative.components() {
        match component {
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

/// The SHA-256 of a file in RECORD's format.
fn file_hash(tree: &dyn FileTree, path: &Path, size: u64) -> std::io::Result<String> {
    digest(tree, path, size).map(|digest| encode(&digest))
}

/// The SHA-256 of a file. Reads at most `size` + 1 bytes, in case the file grows.
pub(super) fn digest(tree: &dyn FileTree, path: &Path, size: u64) -> std::io::Result<Vec<u8>> {
    first_bytes(tree, path, size.saturating_add(1))
}

/// The SHA-256 of the first `count` bytes of a file, or of all if it has less.
fn first_bytes(tree: &dyn FileTree, path: &Path, count: u64) -> std::io::Result<Vec<u8>> {
    let mut file = tree.open(path)?.reader()?.take(count);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok(hasher.finalize().to_vec());
        }
        hasher.update(&buffer[..n]);
    }
}

fn key(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::ThisMachine;

    #[test]
    fn folders_of_packages() {
        for (path, folder) in [
            ("six.py", None),
            ("six/a.py", Some("six")),
            ("google/protobuf/a.py", Some("google/protobuf")),
            ("google/protobuf/internal/a/b.py", Some("google/protobuf")),
            ("six/__pycache__/a.pyc", None),
            ("six-1.0.dist-info/METADATA", None),
            ("../../../bin/six", None),
        ] {
            assert_eq!(package_folder(path), folder, "{path}");
        }
    }

    #[test]
    fn a_compiled_module_is_a_cache_if_it_says_so_of_the_source_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (source, cache) = (folder.path().join("a.py"), folder.path().join("__pycache__"));
        std::fs::create_dir(&cache).unwrap();
        std::fs::write(&source, "x = 1\n").unwrap();
        let modified = ThisMachine.about(&source).unwrap().modified;
        let seconds = (modified / 1_000_000_000) as u32;
        let header = |flags: u32, seconds: u32, size: u32| {
            let words = [0x0a0d_0df5_u32, flags, seconds, size];
            words.iter().flat_map(|word| word.to_le_bytes()).chain([0; 8]).collect::<Vec<u8>>()
        };
        for (name, bytes, is_cache) in [
            ("a.cpython-312.pyc", header(0, seconds, 6), true),
            ("a.cpython-312.opt-1.pyc", header(0, seconds, 6), true),
            ("a.cpython-312.pyc", header(0, seconds + 1, 6), false),
            ("a.cpython-312.pyc", header(0, seconds, 7), false),
            ("a.cpython-312.pyc", header(1, seconds, 6), false),
            ("a.cpython-312.pyc", header(3, seconds, 6), false),
            ("a.cpython-312.pyc", vec![0; 3], false),
            ("b.cpython-312.pyc", header(0, seconds, 6), false),
            ("a.cpython-312.so", header(0, seconds, 6), false),
        ] {
            let path = cache.join(name);
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(is_cache_of_source(&ThisMachine, &path), is_cache, "{name} {bytes:?}");
        }
        let beside = folder.path().join("a.cpython-312.pyc");
        std::fs::write(&beside, header(0, seconds, 6)).unwrap();
        assert!(!is_cache_of_source(&ThisMachine, &beside));
    }
}
