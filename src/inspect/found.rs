//! Finds the Python environments of a file system, and what its C library is.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use super::elf::{Elf, Mapped};
use super::tree::{FileTree, Kind};
use crate::model::host::System;
use crate::model::platform::{Arch, Libc, Os, Platform};

/// Maximum number of folders that are searched, and of entries of all of them.
const MAX_FOLDERS: usize = 1_000_000;
const MAX_SEARCHED: usize = 10_000_000;
/// Maximum number of entries of one folder of an environment.
const MAX_ENTRIES: usize = 100_000;
/// Maximum depth of an environment below the root.
const MAX_DEPTH: usize = 40;
/// Folders whose content the kernel or a program generates.
const NOT_SEARCHED: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// The banner of glibc, which running `libc.so.6` prints.
const BANNER: &[u8] = b"GNU C Library";
const RELEASE: &[u8] = b"release version ";

/// A Python environment of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// The number of its packages, without the installers.
    pub packages: usize,
    /// Whether torch, TensorFlow or JAX is among them.
    pub has_framework: bool,
}

/// The Python environments of a file system.
#[derive(Debug, Clone, Default)]
pub struct Environments {
    /// Those with at least one package besides the installers, by folder.
    pub found: BTreeMap<PathBuf, Found>,
    /// Whether the whole file system was searched.
    pub is_complete: bool,
    /// A folder that may not be listed, if there is one.
    pub unreadable: Option<PathBuf>,
}

/// Distributions of frameworks, as their folders of metadata begin.
const FRAMEWORKS: [&str; 7] =
    ["torch-", "tensorflow-", "tensorflow_cpu-", "tensorflow_gpu-", "tf_nightly-", "jax-", "jaxlib-"];

/// Finds the folders below the root that are Python environments: with an interpreter, a `pyvenv.cfg` or conda's records;
/// where there is none, folders of packages alone (`pip install --prefix`). The package cache of conda is none.
pub fn environments(tree: &dyn FileTree) -> Environments {
    let mut out: BTreeMap<PathBuf, Found> = BTreeMap::new();
    let mut queue = VecDeque::from([(PathBuf::from("/"), 0)]);
    let (mut left, mut entries_left) = (MAX_FOLDERS, MAX_SEARCHED);
    let mut unreadable = None;
    let mut is_deeper = false;
    while let Some((folder, depth)) = queue.pop_front() {
        if left == 0 || entries_left == 0 {
            break;
        }
        left -= 1;
        if folder.ends_with("pkgs")
            && folder.parent().is_some_and(|base| tree.is_folder(&base.join("conda-meta")))
        {
            continue;
        }
        if NOT_SEARCHED.iter().any(|skipped| folder == Path::new(skipped)) {
            continue;
        }
        let entries = match tree.list(&folder, entries_left) {
            Ok(entries) => entries,
            Err(why) => {
                if why.kind() == std::io::ErrorKind::PermissionDenied {
                    unreadable.get_or_insert(folder);
                }
                continue;
            }
        };
        entries_left -= entries.len();
        for entry in entries {
            let name = entry.name.to_string_lossy();
            if name == "site-packages" || name == "dist-packages" {
                let site = folder.join(&entry.name);
                if let Some(prefix) = prefix_of(&folder).filter(|_| tree.is_folder(&site)) {
                    let found = out.entry(prefix).or_default();
                    let (packages, has_framework) = packages(tree, &site);
                    found.packages += packages;
                    found.has_framework |= has_framework;
                }
            } else if entry.kind != Kind::Folder {
                continue;
            } else if depth >= MAX_DEPTH {
                is_deeper = true;
            } else if name != "node_modules" && name != "__pycache__" {
                queue.push_back((folder.join(&entry.name), depth + 1));
            }
        }
    }
    out.retain(|_, found| found.packages > 0);
    let mut own = out.clone();
    own.retain(|prefix, _| is_environment(tree, prefix));
    let is_complete = left > 0 && entries_left > 0 && !is_deeper && unreadable.is_none();
    Environments { found: if own.is_empty() { out } else { own }, is_complete, unreadable }
}

/// Whether Python runs in a folder: it has an interpreter, or is `/usr/local`, whose packages belong to that of `/usr`.
fn is_environment(tree: &dyn FileTree, prefix: &Path) -> bool {
    let has_python = |prefix: &Path| {
        let names = tree.names(&prefix.join("bin"), MAX_ENTRIES);
        names.into_iter().any(|name| name == "python" || name.starts_with("python3"))
    };
    has_python(prefix)
        || ["pyvenv.cfg", "conda-meta"].iter().any(|name| tree.exists(&prefix.join(name)))
        || (prefix.ends_with("local") && prefix.parent().is_some_and(has_python))
}

/// The prefix of `PREFIX/lib/python3.12`.
fn prefix_of(folder: &Path) -> Option<PathBuf> {
    let python = folder.file_name()?.to_str()?;
    // Debian's packages for its one Python are in `python3`.
    let is_series = |rest: &str| {
        rest.is_empty() || rest.strip_prefix('.').is_some_and(|minor| minor.parse::<u32>().is_ok())
    };
    python.strip_prefix("python3").filter(|rest| is_series(rest))?;
    let lib = folder.parent()?;
    let is_lib = lib.file_name().is_some_and(|name| name == "lib" || name == "lib64");
    is_lib.then(|| lib.parent().map(Path::to_path_buf)).flatten()
}

/// The number of packages in site-packages, without those that every new environment has, and whether a framework is one.
fn packages(tree: &dyn FileTree, site: &Path) -> (usize, bool) {
    let of_installers = ["pip-", "setuptools-", "wheel-"];
    let names = tree.names(site, MAX_ENTRIES).into_iter();
    let infos = names.filter(|name| name.ends_with(".dist-info"));
    let own: Vec<String> =
        infos.filter(|name| !of_installers.iter().any(|own| name.starts_with(own))).collect();
    let is_framework =
        |name: &String| FRAMEWORKS.iter().any(|framework| name.to_lowercase().starts_with(framework));
    (own.len(), own.iter().any(is_framework))
}

/// Whether a folder of packages has any.
pub(super) fn has_packages(tree: &dyn FileTree, site: &Path) -> bool {
    packages(tree, site).0 > 0
}

/// The system of the programs in a file system: its processor by the interpreter `python`, and its C library. `None` if the
/// interpreter cannot be read or is for a processor that envlock does not know.
pub fn system_of(tree: &dyn FileTree, python: &Path) -> Option<System> {
    let mapped = Mapped::open(tree, &tree.real(python).ok()?).ok()?;
    let elf = Elf::parse(mapped.bytes()).ok()?;
    let (arch, machine) = match elf.machine().as_str() {
        "x86_64" => (Arch::X86_64, "x86_64"),
        "aarch64" => (Arch::Aarch64, "aarch64"),
        _ => return None,
    };
    let places = [
        format!("/lib/{machine}-linux-gnu/libc.so.6"),
        format!("/usr/lib/{machine}-linux-gnu/libc.so.6"),
        "/lib64/libc.so.6".to_owned(),
        "/usr/lib64/libc.so.6".to_owned(),
        "/lib/libc.so.6".to_owned(),
    ];
    let libc = places.iter().find_map(|place| glibc(tree, Path::new(place)));
    Some(System { platform: Platform { os: Os::Linux, arch }, libc, found_by: "libc.so.6".into() })
}

/// The release of a glibc, from its banner.
fn glibc(tree: &dyn FileTree, file: &Path) -> Option<Libc> {
    let mapped = Mapped::open(tree, file).ok()?;
    let elf = Elf::parse(mapped.bytes()).ok()?;
    let rodata = elf.section(".rodata")?;
    let banner = &rodata[memchr::memmem::find(rodata, BANNER)?..];
    let banner = &banner[..banner.len().min(400)];
    let version = &banner[memchr::memmem::find(banner, RELEASE)? + RELEASE.len()..];
    let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    let text: Vec<u8> = version.iter().take_while(is_part).copied().collect();
    String::from_utf8(text).ok()?.trim_end_matches('.').parse().ok().map(Libc::Glibc)
}

/// The interpreter of an environment: its own, or for the packages that Debian's Python has in `/usr/local`, the one of
/// `/usr` (Debian's Python policy: only `dist-packages` belongs to it).
pub fn interpreter_of(tree: &dyn FileTree, prefix: &Path, site: &Path) -> Option<PathBuf> {
    let own = ["bin/python", "bin/python3"].map(|name| prefix.join(name));
    let series = site.parent().and_then(Path::file_name);
    // `make altinstall` installs the name with the series alone; packages in /usr/local may belong to the Python of /usr.
    let named = series.map(|series| prefix.join("bin").join(series));
    let of_usr =
        prefix.ends_with("local").then(|| Some(prefix.parent()?.join("bin").join(series?))).flatten();
    own.into_iter().chain(named).chain(of_usr).find(|python| tree.exists(python))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::tree::Rooted;
    use super::*;

    #[test]
    fn environments_are_found_by_their_packages() {
        let dir = tempfile::tempdir().unwrap();
        for folder in [
            "opt/venv/lib/python3.12/site-packages/torch-2.9.1.dist-info",
            "opt/venv/lib/python3.12/site-packages/numpy-2.0.0.dist-info",
            "usr/lib/python3/dist-packages/six-1.0.dist-info",
            "usr/local/lib/python3.10/dist-packages/jax-0.5.0.dist-info",
            "usr/local/lib/python3.11/site-packages/pip-25.0.dist-info",
            "home/a/lib/site-packages/x-1.0.dist-info",
            "proc/1/root/lib/python3.12/site-packages/x-1.0.dist-info",
        ] {
            fs_err::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("/opt", dir.path().join("again")).unwrap();
        let tree = Rooted::new(dir.path()).unwrap();
        let shown = || -> Vec<String> {
            let found = environments(&tree).found.into_iter();
            found.map(|(p, n)| format!("{} {} {}", p.display(), n.packages, n.has_framework)).collect()
        };
        // Without any interpreter, folders of packages alone.
        assert_eq!(shown(), ["/opt/venv 2 true", "/usr 1 false", "/usr/local 1 true"]);
        for file in ["opt/venv/pyvenv.cfg", "usr/bin/python3.10", "opt/conda/conda-meta/history"] {
            let path = dir.path().join(file);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "").unwrap();
        }
        let cache = "opt/conda/pkgs/pytorch-2.5/lib/python3.11/site-packages/torch-2.5.dist-info";
        fs_err::create_dir_all(dir.path().join(cache)).unwrap();
        let alone = "srv/target/lib/python3.11/site-packages/x-1.0.dist-info";
        fs_err::create_dir_all(dir.path().join(alone)).unwrap();
        assert_eq!(shown(), ["/opt/venv 2 true", "/usr 1 false", "/usr/local 1 true"]);
        assert!(environments(&tree).is_complete);
    }
}
