//! Queries on `loading.toml`: what libraries and frameworks load, and which CUDA libraries belong to.

use pep440_rs::{Operator, Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;
use semver::Version as Semver;
use version_ranges::Ranges;

use super::rows::*;
use super::{Cited, Registry};
use crate::model::native::{FileByPath, FrameworkLoads, Opened, Provider};

impl Registry {
    /// Whether a release is newer than all whose torch rows state; false for a package of which none is.
    pub fn is_newer_than_pairs(&self, package: &str, version: &Version) -> bool {
        let from_it_on = Ranges::higher_than(version.clone().without_local());
        let mut rows = self.pairs_with_torch(package);
        self.is_paired_with_torch(package)
            && rows.all(|row| Ranges::from(row.versions.clone()).is_disjoint(&from_it_on))
    }

    /// Whether rows state the torch that releases of a package require.
    pub fn is_paired_with_torch(&self, package: &str) -> bool {
        self.pairs_with_torch(package).next().is_some()
    }

    fn pairs_with_torch<'r>(&'r self, package: &'r str) -> impl Iterator<Item = &'r Cited<Pair>> {
        let rows = self.rows(&self.parts.tables.pairs).iter();
        rows.filter(move |row| row.package == package && row.with == "torch")
    }

    /// The newest release that was made for a torch: of those that require exactly it, or the newest one of all if that admits
    /// it.
    pub fn newest_for_torch<'r>(&'r self, package: &'r str, torch: &Version) -> Option<&'r Version> {
        let mut rows: Vec<(&Version, &Pair)> =
            self.pairs_with_torch(package).filter_map(|row| Some((row.newest()?, &**row))).collect();
        rows.sort_unstable_by_key(|(newest, _)| *newest);
        let is_exact = |row: &Pair| row.requires.iter().all(|bound| *bound.operator() == Operator::Equal);
        let made_for_it = rows.iter().rev().find(|(_, row)| is_exact(row) && row.requires.contains(torch));
        made_for_it.or(rows.last().filter(|(_, row)| row.requires.contains(torch))).map(|(newest, _)| *newest)
    }

    /// The series that was made for a torch, of a package whose metadata names none: `==0.10.*`, by the first row of its
    /// advisories that admits the torch.
    pub fn series_for_torch(&self, package: &str, torch: &Version) -> Option<&VersionSpecifiers> {
        let admits = |row: &&Cited<Advisory>| match &row.effect {
            Effect::Constrain(requirement) if requirement.name.as_ref() == "torch" => {
                matches!(&requirement.version_or_url, Some(VersionOrUrl::VersionSpecifier(s)) if s.contains(torch))
            }
            _ => false,
        };
        let own = self.advisories().iter().filter(|row| row.package == package);
        own.into_iter().find(admits).map(|row| &row.versions)
    }

    /// The package that a release requires, by the rows of `pairs.toml`.
    pub fn pair(&self, package: &str, version: &Version) -> Option<&Cited<Pair>> {
        let mut rows = self.rows(&self.parts.tables.pairs).iter();
        rows.find(|row| row.package == package && row.versions.contains(version))
    }

    /// Packages whose import raises if torch was built for another CUDA version.
    pub fn same_cuda(&self) -> &[Cited<SameCuda>] {
        self.rows(&self.parts.tables.same_cuda)
    }

    /// Libraries that packages open at run time to use the GPU.
    pub fn providers(&self) -> &[Cited<Provider>] {
        self.rows(&self.parts.tables.providers)
    }

    /// Files that packages open or start by their path.
    pub fn files_by_path(&self) -> &[Cited<FileByPath>] {
        self.rows(&self.parts.tables.files_by_path)
    }

    /// Packages that work only with the same release of another one.
    pub fn same_releases(&self) -> &[Cited<SameRelease>] {
        self.rows(&self.parts.tables.same_releases)
    }

    /// The modules of Python itself that importing a package loads.
    pub fn stdlib_imports(&self) -> &[Cited<StdlibImport>] {
        self.rows(&self.parts.tables.stdlib_imports)
    }

    /// Files that several packages install.
    pub fn same_files(&self) -> &[Cited<SameFile>] {
        self.rows(&self.parts.tables.same_files)
    }

    /// The parts of cuDNN that have to be of one release.
    pub fn cudnn_parts(&self) -> &[Cited<CudnnPart>] {
        self.rows(&self.parts.tables.cudnn_parts)
    }

    /// The newest known PTX ISA version.
    pub fn newest_ptx_isa(&self) -> Option<&Cited<PtxIsa>> {
        self.rows(&self.parts.tables.ptx_isa).last()
    }

    /// The libraries that importing a framework loads, by package.
    pub fn framework_loads(&self) -> &[Cited<FrameworkLoads>] {
        self.rows(&self.parts.tables.framework_loads)
    }

    /// The libraries that other libraries open by name at run time.
    pub fn opened_by_name(&self) -> &[Cited<Opened>] {
        self.rows(&self.parts.tables.opens)
    }

    /// The CUDA major versions of which a library is a part: 12 of `libcufft.so.11`. Empty if it is one of CUDA's by a name that
    /// is not known; `None` if it is none of CUDA's.
    pub fn cuda_of_library(&self, name: &str) -> Option<Vec<u64>> {
        let (stem, version) = name.split_once(".so").unwrap_or((name, ""));
        let of_stem: Vec<(&str, &Cited<CudaLibraries>)> = self
            .rows(&self.parts.tables.cuda_libraries)
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
        let is_numbered = |(own, row): &(&str, &Cited<CudaLibraries>)| {
            own.split_once(".so").and_then(|(_, version)| number(version)) == Some(row.cuda)
        };
        if known.is_empty() && of_stem.iter().all(is_numbered) {
            known.extend(number(version));
        }
        Some(known)
    }

    /// The first release of torch with a function of its stable C interface; `None` for others, and those of before 2.10.
    pub fn torch_with(&self, function: &str) -> Option<&Version> {
        let has = |row: &&Cited<TorchShim>| row.names.iter().any(|name| name == function);
        self.rows(&self.parts.tables.torch_shims).iter().find(has).map(|row| &row.torch)
    }

    /// Whether a package is one of those with NVIDIA's libraries.
    pub fn is_of_nvidia(&self, package: &str) -> bool {
        self.rows(&self.parts.tables.cuda_libraries).iter().any(|row| row.package == package)
    }

    /// The packages of NVIDIA that bring a library, by its name on Linux or Windows: several where the name does not say the
    /// CUDA version.
    pub fn packages_with(&self, library: &str) -> impl Iterator<Item = &Cited<CudaLibraries>> {
        let has = move |row: &&Cited<CudaLibraries>| {
            row.names.iter().chain(&row.dlls).any(|own| own.eq_ignore_ascii_case(library))
        };
        self.rows(&self.parts.tables.cuda_libraries).iter().filter(has)
    }

    /// The libraries that a package of NVIDIA brings, by name; empty for others.
    pub fn cuda_libraries_of(&self, package: &str, version: &Version) -> Vec<&str> {
        let is_own = |row: &&Cited<CudaLibraries>| {
            row.package == package && row.versions.as_ref().is_none_or(|versions| versions.contains(version))
        };
        self.rows(&self.parts.tables.cuda_libraries)
            .iter()
            .filter(is_own)
            .flat_map(|row| &row.names)
            .map(String::as_str)
            .collect()
    }

    /// The first CUDA release whose driver compiles a PTX ISA version; `None` if unknown.
    pub fn cuda_of_ptx_isa(&self, isa: (u16, u16)) -> Option<&Semver> {
        self.rows(&self.parts.tables.ptx_isa).iter().find(|row| row.isa == isa).map(|row| &row.cuda)
    }
}
