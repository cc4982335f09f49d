//! Reads the version of a CUDA library from its content. In wheels, file names and SONAMEs contain only the major
//! version; the place of the full version depends on the library.

use std::path::Path;

use super::elf::Elf;
use crate::model::library::LibraryVersion;

/// Data symbols of cuDNN's parts with the version: `major << 16 | minor << 8 | patch`.
const CUDNN_NUMBERS: [&str; 4] =
    ["cudnn_graph_version", "cudnn_ops_infer_version", "cudnn_adv_infer_version", "cudnn_cnn_infer_version"];
/// Maximum length of a version in a string, in bytes.
const MAX_TEXT: usize = 64;

/// The version of a library, if known. `real`: its path with links resolved. `whole`: also search the whole file.
pub(super) fn of(elf: &Elf<'_>, real: &Path, whole: bool) -> Option<LibraryVersion> {
    let soname = elf.dynamic.soname.as_deref().unwrap_or_default();
    if soname.starts_with("libcudnn") {
        return cudnn(elf, whole).or_else(|| in_file_name(real, soname));
    }
    let from_code = |text: String| LibraryVersion { text, from: "code" };
    let from_string = |text: String| LibraryVersion { text, from: "string" };
    in_file_name(real, soname).or_else(|| {
        if !whole {
            return None;
        }
        if soname.starts_with("libcudart.so") {
            return cudart(elf.section(".text")?, &elf.machine()).map(from_code);
        }
        if soname.starts_with("libnccl.so") {
            return after(elf.section(".rodata")?, b"NCCL version ").map(from_string);
        }
        None
    })
}

fn cudnn(elf: &Elf<'_>, whole: bool) -> Option<LibraryVersion> {
    let (symbol, number) = CUDNN_NUMBERS.iter().find_map(|name| Some((*name, elf.number(name)?)))?;
    let short = format!("{}.{}.{}", number >> 16, number >> 8 & 0xff, number & 0xff);
    // One of cuDNN's parts has a string with the build number.
    let long = || {
        let rodata = elf.section(".rodata").filter(|_| whole)?;
        let found = memchr::memmem::find(rodata, b"cudnn_version_")? + b"cudnn_version_".len();
        let text = digits(&rodata[found..], b"_")?.replace('_', ".");
        let mut parts = text.split('.').take(4);
        let text: Vec<&str> = parts.by_ref().collect();
        let text = text.join(".");
        text.starts_with(&format!("{short}.")).then_some(text)
    };
    Some(LibraryVersion { text: long().unwrap_or(short), from: symbol })
}

/// The version in the name of the symlink's target, `libcublas.so.12.8.4.1`, if it is longer than the SONAME's.
fn in_file_name(real: &Path, soname: &str) -> Option<LibraryVersion> {
    let name = real.file_name()?.to_str()?;
    let (stem, version) = name.split_once(".so.")?;
    let is_more = version.len() > soname.split_once(".so.").map_or(0, |(_, v)| v.len());
    let is_version = version.bytes().all(|b| b.is_ascii_digit() || b == b'.') && version.contains('.');
    (is_more && is_version && soname.starts_with(stem))
        .then(|| LibraryVersion { text: version.to_owned(), from: "file name" })
}

/// The version of libcudart. `cudaRuntimeGetVersion` returns a constant, `major * 1000 + minor * 10`, in a small
/// function; its instruction pattern occurs once in each release.
fn cudart(text: &[u8], machine: &str) -> Option<String> {
    let plausible = |n: u32| ((9_000..=20_000).contains(&n) && n.is_multiple_of(10)).then_some(n);
    let number = match machine {
        // mov dword [rdi], imm32; xor eax, eax; ret
        "x86_64" => memchr::memmem::find_iter(text, &[0xc7, 0x07]).find_map(|at| {
            let tail = text.get(at + 2..at + 9)?;
            tail[4..]
                .eq(&[0x31, 0xc0, 0xc3])
                .then(|| u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]))
                .and_then(plausible)
        }),
        // movz wN, #imm, and within three instructions str wN, [x1] and ret
        "aarch64" => {
            let words: Vec<u32> =
                text.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
            words.windows(4).find_map(|w| {
                let (register, value) = (w[0] & 0x1f, w[0] >> 5 & 0xffff);
                let stores = w[1..].contains(&(0xb900_0020 | register));
                let returns = w[1..].contains(&0xd65f_03c0);
                (w[0] & 0xffe0_0000 == 0x5280_0000 && stores && returns).then(|| plausible(value)).flatten()
            })
        }
        _ => None,
    }?;
    Some(format!("{}.{}", number / 1000, number % 1000 / 10))
}

/// The version after a phrase.
fn after(bytes: &[u8], phrase: &[u8]) -> Option<String> {
    memchr::memmem::find_iter(bytes, phrase).find_map(|at| digits(&bytes[at + phrase.len()..], b"."))
}

/// Digits with separators at the start of `bytes`, at least two numbers.
fn digits(bytes: &[u8], separator: &[u8]) -> Option<String> {
    let is_part = |b: &&u8| b.is_ascii_digit() || separator.contains(b);
    let text: Vec<u8> = bytes.iter().take(MAX_TEXT).take_while(is_part).copied().collect();
    let text = String::from_utf8(text).ok()?;
    let text = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    text.contains(|c: char| !c.is_ascii_digit()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_constant() {
        let mut text = vec![0x90; 32];
        text.extend([0xc7, 0x07, 1, 2, 3, 4, 0x31, 0xc0, 0xc3]);
        text.extend([0xc7, 0x07]);
        text.extend(12_090u32.to_le_bytes());
        text.extend([0x31, 0xc0, 0xc3]);
        assert_eq!(cudart(&text, "x86_64").as_deref(), Some("12.9"));
        assert_eq!(cudart(&text[..40], "x86_64"), None);
        let words = [0x5280_0000u32 | 13_050 << 5 | 2, 0xb900_0022, 0x5280_0000, 0xd65f_03c0];
        let text: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(cudart(&text, "aarch64").as_deref(), Some("13.5"));
        assert_eq!(cudart(&[], "riscv"), None);
    }

    #[test]
    fn versions_in_strings() {
        assert_eq!(after(b"x NCCL version 2.27.5+cuda12.9\0", b"NCCL version ").as_deref(), Some("2.27.5"));
        assert_eq!(after(b"NCCL version %d.%d NCCL version 2.1.", b"NCCL version ").as_deref(), Some("2.1"));
        assert_eq!(digits(b"9_10_2_21_36061468_", b"_").as_deref(), Some("9_10_2_21_36061468"));
        assert_eq!(digits(b"", b"."), None);
    }
}
