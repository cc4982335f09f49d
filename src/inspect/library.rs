//! Reads a library file into a [`Library`]: names, search paths, GPU code, version. Nothing is loaded.

use std::path::Path;

use super::elf::{Elf, ElfError, Mapped};
use super::fatbin;
use super::library_version;
use super::tree::FileTree;
use crate::model::capability::CodeTargets;
use crate::model::library::Library;

/// How much of a library is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Names, search paths, and versions at a fixed place.
    Headers,
    /// Also the targets of the GPU code.
    Code,
    /// Also versions and build numbers that need a search in the whole file.
    All,
}

/// Reads a library.
///
/// # Errors
/// When it cannot be opened, or is not an ELF file that the loader accepts.
pub fn library(tree: &dyn FileTree, path: &Path, detail: Detail) -> Result<Library, ElfError> {
    let mapped = Mapped::open(tree, path)?;
    let elf = Elf::parse(mapped.bytes())?;
    // The full version may be in the name of the file that a link leads to.
    let real = tree.real(path).unwrap_or_else(|_| path.to_path_buf());
    Ok(of_elf(&elf, path, &real, detail))
}

/// Reads a library from its bytes; `name` is its file name.
///
/// # Errors
/// When the bytes are not an ELF file that the loader accepts.
pub fn library_of_bytes(bytes: &[u8], name: &str, detail: Detail) -> Result<Library, ElfError> {
    Ok(of_elf(&Elf::parse(bytes)?, Path::new(name), Path::new(name), detail))
}

/// Reads a library from a parsed ELF file. `real`: its path with links resolved.
pub(super) fn of_elf(elf: &Elf<'_>, path: &Path, real: &Path, detail: Detail) -> Library {
    let device = (detail >= Detail::Code)
        .then(|| elf.section(".nv_fatbin").map(fatbin::read))
        .flatten()
        .filter(|code| code.containers > 0 || code.fault.is_some());
    let is_torch_python =
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libtorch_python"));
    Library {
        path: path.display().to_string(),
        soname: elf.dynamic.soname.clone(),
        needed: elf.dynamic.needed.clone(),
        rpath: elf.dynamic.rpath.clone(),
        runpath: elf.dynamic.runpath.clone(),
        machine: elf.machine(),
        version: library_version::of(elf, real, detail == Detail::All),
        device,
        arch_list: (is_torch_python && detail >= Detail::Code)
            .then(|| arch_list(elf.section(".rodata")?))
            .flatten(),
    }
}

/// torch's list of the targets of its kernels, a string in `libtorch_python.so`: two or more words like
/// `sm_90` and `compute_90`, separated by spaces and NUL-terminated.
fn arch_list(rodata: &[u8]) -> Option<CodeTargets> {
    let words =
        memchr::memmem::find_iter(rodata, b"sm_").chain(memchr::memmem::find_iter(rodata, b"compute_"));
    let mut best: Option<CodeTargets> = None;
    for start in words {
        let window = &rodata[start..rodata.len().min(start + 512)];
        let Some(end) = memchr::memchr(0, window) else { continue };
        let Ok(text) = std::str::from_utf8(&window[..end]) else { continue };
        let mut targets = CodeTargets::default();
        let known = text.trim_end().split(' ').all(|word| {
            let (list, number) = match (word.strip_prefix("sm_"), word.strip_prefix("compute_")) {
                (Some(number), _) => (&mut targets.sass, number),
                (_, Some(number)) => (&mut targets.ptx, number),
                _ => return false,
            };
            format!("sm_{number}").parse().map(|target| list.push(target)).is_ok()
        });
        let count = |t: &CodeTargets| t.sass.len() + t.ptx.len();
        if known && count(&targets) >= 2 && best.as_ref().is_none_or(|b| count(b) < count(&targets)) {
            best = Some(targets);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_targets() {
        let listed = |bytes: &[u8]| {
            arch_list(bytes).map(|t| {
                let all: Vec<String> = t.sass.iter().chain(&t.ptx).map(ToString::to_string).collect();
                all.join(" ")
            })
        };
        assert_eq!(listed(b"x\0sm_75 sm_80 sm_120\0y").as_deref(), Some("7.5 8.0 12.0"));
        // Released files have lists at the end of another string, and lists with a trailing space.
        assert_eq!(listed(b"flags sm_70 sm_90a compute_90 \0").as_deref(), Some("7.0 9.0a 9.0"));
        assert_eq!(listed(b"sm_90\0"), None);
        assert_eq!(listed(b"sm_ sm_x compute_\0 sm_"), None);
        assert_eq!(listed(b"sm_a sm_f\0"), None);
    }
}
