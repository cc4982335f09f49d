//! Queries on `loading.toml`: what libraries and frameworks load, and which CUDA libraries belong to.

use pep440_rs::Version;
use semver::Version as Semver;

use super::queries::sorted;
use super::rows::*;
use super::{Registry, schema};
use crate::model::native::{FrameworkLoads, Opened, Provider};

impl Registry {
    fn loading(&self) -> &LoadingRows {
        self.parts.loading.get_or_init(|| {
            let file: schema::LoadingFile = self.file("loading.toml").expect("the registry was checked");
            LoadingRows {
                opens: sorted(file.opens, |r: &Opened| (r.by.clone(), r.name.clone())),
                frameworks: sorted(file.framework, |r: &FrameworkLoads| r.package.clone()),
                ptx_isa: sorted(file.ptx_isa, |r: &PtxIsa| r.isa),
                same_file: sorted(file.same_file, |r: &SameFile| r.file.clone()),
                same_cuda: sorted(file.same_cuda, |r: &SameCuda| r.package.clone()),
                same_release: sorted(file.same_release, |r: &SameRelease| r.package.clone()),
                providers: sorted(file.provider, |r: &Provider| r.package.clone()),
                stdlib_imports: sorted(file.stdlib_import, |r: &StdlibImport| r.package.clone()),
                torch_shims: sorted(file.torch_shim, |r: &TorchShim| r.torch.clone()),
                cuda_libraries: sorted(file.cuda_libraries, |r: &CudaLibraries| r.package.clone()),
            }
        })
    }

    /// Packages whose import raises if torch was built for another CUDA version.
    pub fn same_cuda(&self) -> &[SameCuda] {
        &self.loading().same_cuda
    }

    /// Libraries that packages open at run time to use the GPU.
    pub fn providers(&self) -> &[Provider] {
        &self.loading().providers
    }

    /// Packages that work only with the same release of another one.
    pub fn same_releases(&self) -> &[SameRelease] {
        &self.loading().same_release
    }

    /// The modules of Python itself that importing a package loads.
    pub fn stdlib_imports(&self) -> &[StdlibImport] {
        &self.loading().stdlib_imports
    }

    /// Files that several packages install.
    pub fn same_files(&self) -> &[SameFile] {
        &self.loading().same_file
    }

    /// The newest known PTX ISA version.
    pub fn newest_ptx_isa(&self) -> Option<&PtxIsa> {
        self.loading().ptx_isa.last()
    }

    /// The libraries that importing a framework loads, by package.
    pub fn framework_loads(&self) -> &[FrameworkLoads] {
        &self.loading().frameworks
    }

    /// The libraries that other libraries open by name at run time.
    pub fn opened_by_name(&self) -> &[Opened] {
        &self.loading().opens
    }

    /// The CUDA major versions of which a library is a part: 12 of `libcufft.so.11`. Empty if it is one of CUDA's by a name that
    /// is not known; `None` if it is none of CUDA's.
    pub fn cuda_of_library(&self, name: &str) -> Option<Vec<u64>> {
        let (stem, version) = name.split_once(".so").unwrap_or((name, ""));
        let of_stem: Vec<(&str, &CudaLibraries)> = self
            .loading()
            .cuda_libraries
            .iter()
            .flat_map(|row| row.names.iter().map(move |own| (own.as_str(), row)))
            .filter(|(own, _)| own.split_once(".so").is_some_and(|(own, _)| own == stem))
            .collect();
        if of_stem.is_empty() {
            return None;
        }
        let mut known: Vec<u64> =
            of_stem.iter().filter(|(own, _)| *own == name).map(|(_, row)| row.cuda).collect();
        known.sort_unstable();
        known.dedup();
        // `libnvrtc.so.11.1`: a library that is numbered by CUDA in each of its known names.
        let number = |version: &str| version.split('.').nth(1)?.parse::<u64>().ok();
        let is_numbered = |(own, row): &(&str, &CudaLibraries)| {
            own.split_once(".so").and_then(|(_, version)| number(version)) == Some(row.cuda)
        };
        if known.is_empty() && of_stem.iter().all(is_numbered) {
            known.extend(number(version));
        }
        Some(known)
    }

    /// The first release of torch with a function of its stable C interface; `None` for others, and those of before 2.10.
    pub fn torch_with(&self, function: &str) -> Option<&Version> {
        let has = |row: &&TorchShim| row.names.iter().any(|name| name == function);
        self.loading().torch_shims.iter().find(has).map(|row| &row.torch)
    }

    /// Whether a package is one of those with NVIDIA's libraries.
    pub fn is_of_nvidia(&self, package: &str) -> bool {
        self.loading().cuda_libraries.iter().any(|row| row.package == package)
    }

    /// The libraries that a package of NVIDIA brings, by name; empty for others.
    pub fn cuda_libraries_of(&self, package: &str, version: &Version) -> Vec<&str> {
        let is_own = |row: &&CudaLibraries| {
            row.package == package && row.versions.as_ref().is_none_or(|versions| versions.contains(version))
        };
        self.loading()
            .cuda_libraries
            .iter()
            .filter(is_own)
            .flat_map(|row| &row.names)
            .map(String::as_str)
            .collect()
    }

    /// The first CUDA release whose driver compiles a PTX ISA version; `None` if unknown.
    pub fn cuda_of_ptx_isa(&self, isa: (u16, u16)) -> Option<&Semver> {
        self.loading().ptx_isa.iter().find(|row| row.isa == isa).map(|row| &row.cuda)
    }
}
