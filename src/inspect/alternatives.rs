//! Libraries of a package of which its own code loads one: builds for several releases of torch, CUDA, FFmpeg or Python.
//! Which one is known to the package alone, so the others are not part of any process.

use std::collections::HashMap;

use crate::model::wheel::{Python, is_for_python};

/// How many files of one pattern make them alternatives. Two may be parts of one package: `_vllm_fa2_C`, `_vllm_fa3_C`.
const MIN_ALTERNATIVES: usize = 3;
/// Words in a file name that name a device instead of a release.
const DEVICES: [&str; 4] = ["cpu", "cuda", "rocm", "hip"];

/// The Python modules among a package's libraries that the environment's Python can import.
pub(super) fn modules(libraries: &[String], python: Option<Python>) -> Vec<&String> {
    // `libarrow.so` is a library; `lib.cpython-312-x86_64-linux-gnu.so` is a module by its tag.
    let has_tag = |name: &str| name.contains(".cpython-") || name.ends_with(".abi3.so");
    let is_module = |path: &&String| {
        let name = file_name(path);
        name.ends_with(".so") && (!name.starts_with("lib") || has_tag(name))
    };
    libraries.iter().filter(is_module).filter(|path| is_for_python(path, python)).collect()
}

/// Whether a file is one of several that differ only in numbers and devices, in the same folder of the same package:
/// `libtorch_c_dlpack_addon_torch29-cuda.so`, `libtorio_ffmpeg6.so`.
pub(super) fn is_one_of_several(path: &str, libraries: &[String]) -> bool {
    let pattern = pattern(path);
    pattern.contains('#')
        && libraries.iter().filter(|other| self::pattern(other) == pattern).count() >= MIN_ALTERNATIVES
}

/// What each file has in common with the others of which it is an alternative: its path without numbers and devices.
pub(super) fn groups(libraries: &[String]) -> Vec<Option<String>> {
    let patterns: Vec<String> = libraries.iter().map(|path| pattern(path)).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for pattern in patterns.iter().filter(|pattern| pattern.contains('#')) {
        *counts.entry(pattern).or_default() += 1;
    }
    let is_alternative = |pattern: &&String| {
        let least = if names_cuda(pattern) { 2 } else { MIN_ALTERNATIVES };
        counts.get(pattern.as_str()).is_some_and(|count| *count >= least)
    };
    patterns.iter().map(|pattern| Some(pattern).filter(is_alternative).cloned()).collect()
}

/// Whether the number in a pattern is CUDA's: `utils_cu#`, `libbitsandbytes_cuda#`.
fn names_cuda(pattern: &str) -> bool {
    pattern.split(['-', '_', '/']).any(|word| word == "cu#" || word == "cuda#")
}

/// A path with its numbers and devices replaced. The Python tag is not part of the name.
fn pattern(path: &str) -> String {
    let name = file_name(path);
    let folder = &path[..path.len() - name.len()];
    let stem = name.split('.').next().unwrap_or(name);
    let mut out = folder.to_owned();
    let mut in_number = false;
    for c in stem.chars() {
        if c.is_ascii_digit() {
            if !in_number {
                out.push('#');
            }
            in_number = true;
        } else {
            in_number = false;
            out.push(c);
        }
    }
    let words = out.split_inclusive(['-', '_']).map(|word| {
        let plain = word.trim_end_matches(['-', '_']);
        if DEVICES.contains(&plain) { word.replace(plain, "@") } else { word.to_owned() }
    });
    words.collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_in_numbers_and_devices_are_alternatives() {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let dlpack = list(&[
            "torch_c_dlpack_ext/libtorch_c_dlpack_addon_torch28-cpu.so",
            "torch_c_dlpack_ext/libtorch_c_dlpack_addon_torch28-cuda.so",
            "torch_c_dlpack_ext/libtorch_c_dlpack_addon_torch29-cpu.so",
        ]);
        assert!(dlpack.iter().all(|path| is_one_of_several(path, &dlpack)));
        let group = Some("torch_c_dlpack_ext/libtorch_c_dlpack_addon_torch#-@".to_owned());
        assert_eq!(groups(&dlpack), vec![group; 3]);
        assert_eq!(groups(&dlpack[..2]), [None, None]);
        let of_cuda = list(&["a/preload_cu12.abi3.so", "a/preload_cu13.abi3.so"]);
        assert_eq!(groups(&of_cuda), vec![Some("a/preload_cu#".to_owned()); 2]);
        let vllm = list(&[
            "vllm/_C.abi3.so",
            "vllm/_moe_C.abi3.so",
            "vllm/_vllm_fa2_C.abi3.so",
            "vllm/_vllm_fa3_C.abi3.so",
        ]);
        assert!(!vllm.iter().any(|path| is_one_of_several(path, &vllm)));
        let pythons =
            list(&["a/m.cpython-310-x.so", "a/m.cpython-311-x.so", "a/m.cpython-312-x.so", "a/k.abi3.so"]);
        assert_eq!(modules(&pythons, Some(Python::new(11))), ["a/m.cpython-311-x.so", "a/k.abi3.so"]);
        assert!(!is_one_of_several("a/m.cpython-311-x.so", &pythons));
        let elsewhere = list(&["a/x1.so", "b/x2.so", "c/x3.so"]);
        assert!(!is_one_of_several("a/x1.so", &elsewhere));
    }
}
