//! Finds the Python environments of a file system, and what its C library is.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use super::elf::{Elf, Mapped};
use super::tree::{FileTree, Kind};
use crate::model::host::System;
use crate::model::platform::{Arch, Libc, Os, Platform};

/// Maximum number of folders that are searched, and of entries of one folder.
const MAX_FOLDERS: usize = 200_000;
const MAX_ENTRIES: usize = 100_000;
/// Maximum depth of an environment below the root.
const MAX_DEPTH: usize = 12;
/// Folders whose content the kernel or a program generates, and folders that are large and hold no environment.
const NOT_SEARCHED: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/usr/share"];
/// The banner of glibc, which running `libc.so.6` prints.
const BANNER: &[u8] = b"GNU C Library";
const RELEASE: &[u8] = b"release version ";

/// The folders below the root that are Python environments with at least one package besides the installers, in order: the
/// number of their packages by folder.
pub fn environments(tree: &dyn FileTree) -> BTreeMap<PathBuf, usize> {
    let mut out: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut queue = VecDeque::from([(PathBuf::from("/"), 0)]);
    let mut left = MAX_FOLDERS;
    while let Some((folder, depth)) = queue.pop_front() {
        if left == 0 {
            break;
        }
        left -= 1;
        if NOT_SEARCHED.iter().any(|skipped| folder == Path::new(skipped)) {
            continue;
        }
        let entries = tree.list(&folder, MAX_ENTRIES).unwrap_or_default();
        for entry in entries.into_iter().filter(|entry| entry.kind == Kind::Folder) {
            let name = entry.name.to_string_lossy();
            if name == "site-packages" || name == "dist-packages" {
                if let Some(prefix) = prefix_of(&folder) {
                    let count = packages(tree, &folder.join(&entry.name));
                    *out.entry(prefix).or_default() += count;
                }
            } else if depth < MAX_DEPTH && name != "node_modules" && name != "__pycache__" {
                queue.push_back((folder.join(&entry.name), depth + 1));
            }
        }
    }
    out.retain(|_, count| *count > 0);
    out
}

/// The prefix of `PREFIX/lib/python3.12`.
fn prefix_of(folder: &Path) -> Option<PathBuf> {
    let python = folder.file_name()?.to_str()?;
    python.strip_prefix("python3.")?.parse::<u32>().ok()?;
    let lib = folder.parent()?;
    let is_lib = lib.file_name().is_some_and(|name| name == "lib" || name == "lib64");
    is_lib.then(|| lib.parent().map(Path::to_path_buf)).flatten()
}

/// The number of packages in site-packages, without those that every new environment has.
fn packages(tree: &dyn FileTree, site: &Path) -> usize {
    let of_installers = ["pip-", "setuptools-", "wheel-"];
    let names = tree.names(site, MAX_ENTRIES).into_iter();
    let infos = names.filter(|name| name.ends_with(".dist-info"));
    infos.filter(|name| !of_installers.iter().any(|own| name.starts_with(own))).count()
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
    let of_debian =
        site.ends_with("dist-packages").then(|| Some(prefix.parent()?.join("bin").join(series?))).flatten();
    own.into_iter().chain(of_debian).find(|python| tree.exists(python))
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
        let found: Vec<_> =
            environments(&tree).into_iter().map(|(p, n)| format!("{} {n}", p.display())).collect();
        assert_eq!(found, ["/opt/venv 2", "/usr/local 1"]);
    }
}
