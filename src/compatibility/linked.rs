//! Whether the machine code of a wheel fits a torch that it was not built with: the CUDA libraries that it links, and the
//! strings that torch's functions take. Which release of torch it was built with is only in its use of the stable C interface:
//! torch's C++ functions differ between releases, and a requirement on torch has to tell.
//!
//! Sources: the dynamic sections and symbols of the wheel's libraries, the names of CUDA's libraries
//! (`[[cuda_libraries]]` in `loading.toml`) and the ABI of conda-forge's builds (`[[cxx11_abi]]` in `conda.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pep440_rs::Version;

use crate::model::linked::{Linked, LinkedLibrary};
use crate::model::wheel::{Python, is_for_python};
use crate::registry::Registry;

/// A torch, and the CUDA beside it, as machine code is linked with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkTarget {
    /// Its release; `None` if that limits nothing.
    pub torch: Option<Version>,
    /// The Python that imports the machine code.
    pub python: Option<Python>,
    /// The CUDA major version of its build; `None` for builds for the CPU.
    pub cuda: Option<u64>,
    /// The major version of the cuDNN beside it; `None` without cuDNN.
    pub cudnn: Option<u64>,
    /// Whether it uses the C++11 ABI of libstdc++; `None` if that is not known.
    pub cxx11_abi: Option<bool>,
    /// The libraries of NVIDIA that other packages bring, by name.
    pub brought: BTreeSet<String>,
    /// The CUDA major version that the wheel's own version names, `+cu12torch2.9`.
    pub stated: Option<u64>,
}

/// Why a library does not fit. Displayed as what its wheel has:
/// `` `_C.so`, which needs `libcudart.so.12` of CUDA 12 ``.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The library's path in the wheel.
    pub library: String,
    /// What is wrong with it.
    pub kind: MisfitKind,
}

/// What is wrong with a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MisfitKind {
    /// It needs a library of torch that the build does not have.
    OtherTorch {
        /// `libc10_cuda.so`, of a build for the CPU.
        needed: String,
    },
    /// It uses a function of torch's stable C interface that a newer torch has first.
    NewerTorch {
        /// `torch_from_blob`.
        function: String,
        /// `2.11`.
        torch: Version,
    },
    /// It passes strings of the other ABI of libstdc++ to torch.
    Abi {
        /// Whether it uses the C++11 ABI.
        cxx11: bool,
    },
    /// It passes strings to torch, and the ABI of torch is not known.
    UnknownAbi,
    /// It needs a library of another CUDA, which no package brings.
    OtherCuda {
        /// `libcudart.so.12`.
        needed: String,
        /// The CUDA major versions of which that is a part.
        cuda: Vec<u64>,
    },
    /// It needs a library of a CUDA that is not known.
    UnknownCuda {
        /// `libcufft.so.13`.
        needed: String,
    },
    /// It needs another cuDNN, which no package brings.
    OtherCudnn {
        /// `libcudnn.so.8`.
        needed: String,
    },
    /// It uses torch's code for CUDA, and nothing tells the CUDA that it was built with.
    UnstatedCuda {
        /// `libc10_cuda.so`.
        needed: String,
    },
    /// It needs a library of CUDA, which no package brings, beside a torch for the CPU. The package may do without.
    CudaOnCpu {
        /// `libcudart.so.12`.
        needed: String,
    },
}

/// The first library of a wheel that does not fit; of several that the package chooses from, one has to. One that the package may
/// do without is found only if all others fit.
pub fn misfit(registry: &Registry, linked: &Linked, target: &LinkTarget) -> Option<Misfit> {
    let mut choices: BTreeMap<&str, Option<Misfit>> = BTreeMap::new();
    let mut found: Vec<Misfit> = Vec::new();
    let is_imported = |library: &&LinkedLibrary| is_for_python(&library.path, target.python);
    for library in linked.libraries.iter().filter(is_imported) {
        let own = kind(registry, library, target).map(|kind| Misfit { library: library.path.clone(), kind });
        match &library.one_of {
            None => found.extend(own),
            Some(group) => {
                let known = choices.entry(group).or_insert_with(|| own.clone());
                *known = known.take().filter(|_| own.is_some());
            }
        }
    }
    found.extend(choices.into_values().flatten());
    let at = found.iter().position(|misfit| !misfit.may_be_ignored()).unwrap_or(0);
    found.into_iter().nth(at)
}

fn kind(registry: &Registry, library: &LinkedLibrary, target: &LinkTarget) -> Option<MisfitKind> {
    let for_cuda = library.of_torch_for_cuda().map(str::to_owned);
    let other = for_cuda.clone().filter(|_| target.cuda.is_none());
    if let Some(needed) = other.or(library.of_torch_for_others().map(str::to_owned)) {
        return Some(MisfitKind::OtherTorch { needed });
    }
    let newer = |function: &String| {
        let first = registry.torch_with(function)?;
        let is_newer = target.torch.as_ref().is_some_and(|own| own < first);
        is_newer.then(|| MisfitKind::NewerTorch { function: function.clone(), torch: first.clone() })
    };
    if let Some(newer) = library.shims.iter().find_map(newer) {
        return Some(newer);
    }
    let strings = library.torch.unwrap_or_default();
    match target.cxx11_abi {
        Some(true) if strings.old_abi => return Some(MisfitKind::Abi { cxx11: false }),
        Some(false) if strings.cxx11_abi => return Some(MisfitKind::Abi { cxx11: true }),
        None if strings.old_abi || strings.cxx11_abi => return Some(MisfitKind::UnknownAbi),
        _ => {}
    }
    let of_cuda: Vec<(&String, Vec<u64>)> =
        library.needed.iter().filter_map(|name| Some((name, registry.cuda_of_library(name)?))).collect();
    let is_brought = |name: &String| target.brought.contains(name);
    let Some(own) = target.cuda else {
        let missing = of_cuda.iter().find(|(name, _)| !is_brought(name));
        return missing.map(|(name, _)| MisfitKind::CudaOnCpu { needed: (*name).clone() });
    };
    // Code that calls torch's for CUDA shares its CUDA.
    let is_there =
        |name: &String, cuda: &[u64]| cuda.contains(&own) || (for_cuda.is_none() && is_brought(name));
    if let Some((needed, cuda)) = of_cuda.iter().find(|(name, cuda)| !is_there(name, cuda)) {
        let (needed, cuda) = ((*needed).clone(), cuda.clone());
        return Some(match cuda.is_empty() {
            true => MisfitKind::UnknownCuda { needed },
            false => MisfitKind::OtherCuda { needed, cuda },
        });
    }
    let is_other = |name: &&String| cudnn_of(name).is_some_and(|major| target.cudnn != Some(major));
    if let Some(needed) = library.needed.iter().find(|name| is_other(name) && !is_brought(name)) {
        return Some(MisfitKind::OtherCudnn { needed: needed.clone() });
    }
    // A name that several CUDA majors share says nothing of the one that it was built with.
    let names_own = of_cuda.iter().any(|(_, cuda)| cuda == &[own]) || target.stated == Some(own);
    let needs_own = |_: &String| library.torch.is_some() && !names_own;
    for_cuda.filter(needs_own).map(|needed| MisfitKind::UnstatedCuda { needed })
}

/// The major version of cuDNN that a library is of: 9 of `libcudnn_ops.so.9`.
fn cudnn_of(name: &str) -> Option<u64> {
    let (stem, version) = name.split_once(".so.")?;
    let is_own = stem.strip_prefix("libcudnn").is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    version.split('.').next().filter(|_| is_own)?.parse().ok()
}

impl Misfit {
    /// Whether the package may work without the library: it needs CUDA, and torch is for the CPU.
    pub fn may_be_ignored(&self) -> bool {
        matches!(self.kind, MisfitKind::CudaOnCpu { .. })
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, which ", self.library)?;
        match &self.kind {
            MisfitKind::OtherTorch { needed } => {
                write!(f, "needs `{needed}`, which this build of torch does not have")
            }
            MisfitKind::NewerTorch { function, torch } => {
                write!(f, "uses `{function}`, which torch has since {torch}")
            }
            MisfitKind::Abi { cxx11: true } => {
                f.write_str("passes strings of libstdc++'s C++11 ABI to torch")
            }
            MisfitKind::Abi { cxx11: false } => {
                f.write_str("passes strings of libstdc++'s old ABI (before C++11) to torch")
            }
            MisfitKind::UnknownAbi => {
                f.write_str("passes strings to torch: which ABI of libstdc++ this torch uses is not known")
            }
            MisfitKind::OtherCuda { needed, cuda } => {
                let majors: Vec<String> = cuda.iter().map(u64::to_string).collect();
                write!(f, "needs `{needed}` of CUDA {}", majors.join(" or "))
            }
            MisfitKind::UnknownCuda { needed } => {
                write!(f, "needs `{needed}`, whose CUDA version is not known")
            }
            MisfitKind::OtherCudnn { needed } => write!(f, "needs `{needed}`"),
            MisfitKind::UnstatedCuda { needed } => {
                write!(f, "needs torch's `{needed}`, and no other name tells the CUDA that it was built with")
            }
            MisfitKind::CudaOnCpu { needed } => write!(f, "needs `{needed}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::linked::TorchSymbols;

    fn library(path: &str, needed: &[&str], torch: Option<(bool, bool)>) -> LinkedLibrary {
        LinkedLibrary {
            path: path.to_owned(),
            needed: needed.iter().map(|name| (*name).to_owned()).collect(),
            torch: torch.map(|(old_abi, cxx11_abi)| TorchSymbols { old_abi, cxx11_abi }),
            shims: Vec::new(),
            one_of: None,
        }
    }

    #[test]
    fn what_fits_a_torch() {
        let registry = Registry::embedded();
        let of = |cuda: Option<u64>| LinkTarget { cuda, cxx11_abi: Some(true), ..LinkTarget::default() };
        let (new, old, none) = (Some((false, true)), Some((true, false)), Some((false, false)));
        let gpu = ["libc10.so", "libc10_cuda.so", "libcudart.so.12"];
        let found = |libraries: &[LinkedLibrary], target: &LinkTarget| {
            let linked = Linked { libraries: libraries.to_vec() };
            misfit(&registry, &linked, target).map(|misfit| misfit.kind)
        };
        let needed = |name: &str| name.to_owned();
        let one = |needed: &[&str], torch| vec![library("a/_C.so", needed, torch)];
        let (cpu, cu12, cu13) = (of(None), of(Some(12)), of(Some(13)));
        let open = LinkTarget { cxx11_abi: None, ..cu12.clone() };
        let brought = ["libcudart.so.12".to_owned()].into();
        let beside = LinkTarget { brought, ..cu13.clone() };
        let cudnn = LinkTarget { cudnn: Some(9), ..cu12.clone() };
        let shim = LinkedLibrary {
            shims: vec!["torch_from_blob".to_owned(), "aoti_torch_get_sizes".to_owned()],
            ..library("a/_C.so", &["libtorch_cpu.so"], None)
        };
        let of_torch = |version: &str| LinkTarget { torch: Some(version.parse().unwrap()), ..cu12.clone() };
        let (old_torch, new_torch) = (of_torch("2.9.1"), of_torch("2.11.0"));
        let newer =
            MisfitKind::NewerTorch { function: "torch_from_blob".to_owned(), torch: "2.11".parse().unwrap() };
        let other_python = LinkTarget { python: Some(Python::new(12)), ..cu13.clone() };
        let stated = LinkTarget { stated: Some(12), ..cu12.clone() };
        let other = |name: &str, cuda: &[u64]| {
            Some(MisfitKind::OtherCuda { needed: needed(name), cuda: cuda.to_vec() })
        };
        for (libraries, target, expected) in [
            (one(&["libc.so.6"], None), &cu12, None),
            (one(&["libc10.so"], new), &cpu, None),
            (one(&["libc10.so"], old), &cpu, Some(MisfitKind::Abi { cxx11: false })),
            (one(&["libc10.so"], none), &open, None),
            (one(&["libc10.so"], new), &open, Some(MisfitKind::UnknownAbi)),
            (one(&gpu, new), &cpu, Some(MisfitKind::OtherTorch { needed: needed("libc10_cuda.so") })),
            (one(&gpu, new), &cu12, None),
            (one(&gpu, new), &cu13, other("libcudart.so.12", &[12])),
            // The CUDA of torch itself.
            (one(&gpu, new), &beside, other("libcudart.so.12", &[12])),
            (one(&["libcudart.so.12"], None), &beside, None),
            (one(&["libcublas.so.12"], None), &beside, other("libcublas.so.12", &[12])),
            (
                one(&["libcudart.so.12"], None),
                &cpu,
                Some(MisfitKind::CudaOnCpu { needed: needed("libcudart.so.12") }),
            ),
            (one(&["libcudnn.so.9", "libcudnn_ops.so.9"], None), &cudnn, None),
            (
                one(&["libcudnn.so.9", "libcudnn_ops_infer.so.8"], None),
                &cudnn,
                Some(MisfitKind::OtherCudnn { needed: needed("libcudnn_ops_infer.so.8") }),
            ),
            (
                one(&["libcudnn.so.9"], None),
                &cu12,
                Some(MisfitKind::OtherCudnn { needed: needed("libcudnn.so.9") }),
            ),
            (one(&["libc10_cuda.so", "libcurand.so.10"], new), &stated, None),
            (
                one(&["libc10_cuda.so", "libcurand.so.10"], new),
                &cu12,
                Some(MisfitKind::UnstatedCuda { needed: needed("libc10_cuda.so") }),
            ),
            (one(&["libcusparse.so.12"], None), &cu13, None),
            (one(&["libcusolver.so.11"], None), &cu13, other("libcusolver.so.11", &[11, 12])),
            (
                one(&["libcufft.so.13"], None),
                &cu13,
                Some(MisfitKind::UnknownCuda { needed: needed("libcufft.so.13") }),
            ),
            // Names with CUDA's own number.
            (one(&["libcudart.so.14"], None), &cu13, other("libcudart.so.14", &[14])),
            (one(&["libnvrtc.so.11.1"], None), &cu13, other("libnvrtc.so.11.1", &[11])),
            (one(&["libcuda.so.1", "libnvidia-ml.so.1"], None), &cu13, None),
            (
                one(&["libc10.so", "libc10_hip.so"], new),
                &cu13,
                Some(MisfitKind::OtherTorch { needed: needed("libc10_hip.so") }),
            ),
            // The stable C interface needs no CUDA of its own.
            (one(&["libtorch_cuda.so"], None), &cu13, None),
            (vec![shim.clone()], &old_torch, Some(newer)),
            (vec![shim.clone()], &new_torch, None),
            (vec![shim], &cu12, None),
            // A module for another Python is not imported.
            (vec![library("a/_C.cpython-313-x86_64-linux-gnu.so", &gpu, new)], &other_python, None),
        ] {
            assert_eq!(found(&libraries, target), expected, "{libraries:?} {target:?}");
        }
    }

    /// bitsandbytes has a library for each CUDA, and loads one.
    #[test]
    fn one_of_several_has_to_fit() {
        let registry = Registry::embedded();
        let one = |major: u64| LinkedLibrary {
            one_of: Some("b/libb_cuda#".to_owned()),
            ..library(&format!("b/libb_cuda{major}.so"), &[&format!("libcudart.so.{major}")], None)
        };
        let linked = Linked { libraries: vec![one(12), one(13), one(14)] };
        let on = |cuda| {
            let target = LinkTarget { cuda: Some(cuda), cxx11_abi: Some(true), ..LinkTarget::default() };
            misfit(&registry, &linked, &target).map(|misfit| misfit.library)
        };
        assert_eq!((on(12), on(13)), (None, None));
        assert_eq!(on(11).as_deref(), Some("b/libb_cuda12.so"));
        assert_eq!(misfit(&registry, &Linked::default(), &LinkTarget::default()), None);
    }
}
