//! What the machine code of a wheel links outside the wheel.

use serde::{Deserialize, Serialize};

/// What the libraries of a wheel link that the wheel does not bring.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linked {
    /// Its libraries, in the order of the wheel. Empty if it has none.
    pub libraries: Vec<LinkedLibrary>,
}

/// What a library links outside its wheel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkedLibrary {
    /// Its path in the wheel: `vllm/_C.abi3.so`.
    pub path: String,
    /// `DT_NEEDED` without the libraries of the wheel: `libc10_cuda.so`, `libcudart.so.12`.
    pub needed: Vec<String>,
    /// Its use of torch's C++ functions, whether or not it names the library that has them; `None` if it uses none.
    pub torch: Option<TorchSymbols>,
    /// The functions of torch's stable C interface that it uses: `torch_from_blob`.
    pub shims: Vec<String>,
    /// What it has in common with others of which the package loads one: `bitsandbytes/libbitsandbytes_cuda#`.
    pub one_of: Option<String>,
}

/// The strings in the mangled names of the functions of torch that a library uses, by the ABI of libstdc++. A library that passes
/// none works with either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorchSymbols {
    /// `std::string` as libstdc++ had it before C++11.
    pub old_abi: bool,
    /// `std::__cxx11::basic_string`, the C++11 ABI.
    pub cxx11_abi: bool,
}

impl Linked {
    /// Whether a library that the package certainly loads uses C++ functions of torch.
    pub fn uses_functions_of_torch(&self) -> bool {
        self.libraries.iter().any(|library| library.torch.is_some() && library.one_of.is_none())
    }
}

impl LinkedLibrary {
    /// The library of torch that it names and of which builds for CUDA and for the CPU have none: `libc10_hip.so`.
    pub fn of_torch_for_others(&self) -> Option<&str> {
        let is_for_others =
            |name: &&str| is_torch_library(name) && ["_hip", "_xpu"].iter().any(|part| name.contains(part));
        self.needed.iter().map(String::as_str).find(is_for_others)
    }

    /// The library of torch's code for CUDA that it names, which builds for the CPU do not have.
    pub fn of_torch_for_cuda(&self) -> Option<&str> {
        let is_for_cuda = |name: &&str| is_torch_library(name) && name.contains("_cuda");
        self.needed.iter().map(String::as_str).find(is_for_cuda)
    }
}

/// Whether a library is a part of every torch: a wheel that has it brings torch itself.
pub fn is_core_of_torch(name: &str) -> bool {
    ["libc10.so", "libtorch.so", "libtorch_cpu.so"].contains(&name)
}

/// Whether a library is one of torch's: `libtorch.so`, `libtorch_python.so`, `libc10_cuda.so`; not `libtorchaudio.so`.
pub fn is_torch_library(name: &str) -> bool {
    let stem = name.split(".so").next().unwrap_or(name);
    ["libtorch", "libc10", "libcaffe2", "libshm"]
        .iter()
        .any(|own| stem.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_torch() {
        for (name, expected) in [
            ("libtorch.so", true),
            ("libtorch_cpu.so", true),
            ("libc10.so", true),
            ("libc10_cuda.so", true),
            ("libtorch.so.2.9", true),
            ("libtorchaudio.so", false),
            ("libtorchcodec_core4.so", false),
            ("libc.so.6", false),
            ("libcudart.so.12", false),
        ] {
            assert_eq!(is_torch_library(name), expected, "{name}");
        }
        let needs = |names: &[&str]| LinkedLibrary {
            needed: names.iter().map(|name| (*name).to_owned()).collect(),
            ..LinkedLibrary::default()
        };
        assert_eq!(needs(&["libc.so.6", "libc10.so"]).of_torch_for_cuda(), None);
        assert_eq!(needs(&["libc10.so", "libc10_cuda.so"]).of_torch_for_cuda(), Some("libc10_cuda.so"));
    }
}
