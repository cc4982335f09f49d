//! Queries on `packages.toml`: what builds and imports of packages need that no metadata says.

use pep440_rs::Version;

use super::conda_builds::PYTORCH;
use super::rows::*;
use super::{Cited, Registry};
use crate::model::metadata::CoreMetadata;
use crate::model::platform::Platform;
use crate::model::text::requirement_name;
use crate::model::wheel::Python;

/// Names of projects, the most downloaded first.
const POPULAR: &str = include_str!("../../registry/popular.txt");

impl Registry {
    /// What is known of building a release, beyond its archive.
    pub fn source_package(&self, package: &str, version: &Version) -> Option<&Cited<SourcePackage>> {
        self.rows(&self.parts.tables.source_packages).iter().find(|row| row.is_about(package, version))
    }

    /// What a package of conda-forge is on PyPI, if that is not what [`super::conda_names`] says.
    pub fn conda_name(&self, name: &str) -> Option<&Cited<CondaName>> {
        self.rows(&self.parts.tables.conda_names).iter().find(|row| row.name == name)
    }

    /// What a build requires that imports a module.
    pub fn build_module(&self, module: &str) -> Option<&Cited<BuildModule>> {
        self.rows(&self.parts.tables.build_modules).iter().find(|row| row.module == module)
    }

    /// Whether a project of PyPI is one of those that are downloaded most (`registry/popular.txt`).
    pub fn is_popular(&self, name: &str) -> bool {
        POPULAR.lines().any(|line| line == name)
    }

    /// The project that many download whose name differs by one letter from one that few do.
    pub fn one_letter_from(&self, name: &str) -> Option<String> {
        let nearest = self.nearest_package(name)?;
        (strsim::damerau_levenshtein(&nearest, name) == 1 && self.is_popular(&nearest)).then_some(nearest)
    }

    /// The package whose name is nearest to one that no index has, if it differs by a slip of the fingers: of the registry, or of
    /// the projects that are downloaded most (`registry/popular.txt`).
    pub fn nearest_package(&self, name: &str) -> Option<String> {
        let sources = self.rows(&self.parts.tables.source_packages).iter().map(|row| row.package.as_str());
        let stack = super::STACK_PACKAGES.into_iter();
        let companions = self.companions().iter().map(|row| row.package.as_str());
        let frameworks = self.frameworks().iter().map(|row| row.package.as_str());
        let names = stack.chain(companions).chain(frameworks).chain(sources);
        let popular = POPULAR.lines().filter(|line| !line.starts_with('#'));
        // Short names differ by one or two letters from many.
        let most = if name.len() < 8 { 1 } else { 2 };
        let is_near_in_length = |known: &&str| known.len().abs_diff(name.len()) <= most;
        let near = names.chain(popular).filter(is_near_in_length);
        let near = near.map(|known| (strsim::damerau_levenshtein(known, name), known));
        // Of equals the first: what is downloaded most.
        let (distance, nearest) = near.min_by_key(|(distance, _)| *distance)?;
        (distance > 0 && distance <= most && name.len() >= 5).then(|| nearest.to_owned())
    }

    /// The limit on Python that a release should have stated.
    pub fn python_limit(&self, package: &str, version: &Version) -> Option<&Cited<PythonLimit>> {
        let mut rows =
            self.rows(&self.parts.tables.python_limits).iter().filter(|row| row.package == package);
        rows.find(|row| row.versions.contains(version))
    }

    /// What a release needs and its metadata does not require.
    pub fn undeclared(&self, package: &str, version: &Version) -> Vec<String> {
        let rows = self.rows(&self.parts.tables.undeclared).iter().filter(|row| row.package == package);
        let of_release = rows
            .filter(|row| row.versions.contains(version))
            .map(|row| row.requires.replace("{version}", &version.to_string()));
        let advisories = self.advisories().iter().filter(|row| row.needed && row.package == package);
        let of_advisories = advisories
            .filter(|row| row.versions.contains(version))
            .filter_map(|row| row.effect.requirement())
            .map(ToString::to_string);
        of_advisories.chain(of_release).collect()
    }

    /// The frameworks without which a source distribution cannot be built, and which it does not require.
    pub fn undeclared_frameworks(&self, metadata: &CoreMetadata) -> Vec<String> {
        let Some(facts) = &metadata.source else { return Vec::new() };
        let row = self.source_package(metadata.name.as_ref(), &metadata.version);
        let needs = row.and_then(|row| row.build_needs.as_ref()).unwrap_or(&facts.needs);
        let is_declared = |name: &str| metadata.lines().any(|line| requirement_name(line) == name);
        needs.iter().filter(|name| facts.certainly_imports(name) && !is_declared(name)).cloned().collect()
    }

    /// The backport that a package is, if it is one.
    pub fn backport(&self, package: &str) -> Option<&Cited<Backport>> {
        self.rows(&self.parts.tables.backports).iter().find(|row| row.package == package)
    }

    /// Whether Python has the module of a backport itself, and the package does harm beside it: a requirement on it does not
    /// count.
    pub fn is_of_python(&self, package: &str, python: Python) -> bool {
        let row = self.backport(package).filter(|row| !row.is_harmless);
        row.is_some_and(|row| python.minor >= row.python.minor)
    }

    /// What a name on PyPI is, where another project is meant by it.
    pub fn other_project(&self, package: &str) -> Option<&Cited<OtherProject>> {
        self.rows(&self.parts.tables.other_projects).iter().find(|row| row.package == package)
    }

    /// The wheels that a project publishes for a release, outside the index.
    pub fn prebuilt(&self, package: &str, version: &Version) -> Option<&Cited<Prebuilt>> {
        self.rows(&self.parts.tables.prebuilt)
            .iter()
            .find(|row| row.package == package && row.versions.contains(version))
    }

    /// Whether a build of torch uses the C++11 ABI; `None` if unknown. With the builds of channels, one of conda-forge.
    pub fn cxx11_abi(&self, torch: &Version, variant: &str, platform: Platform) -> Option<bool> {
        if self.has_stack_of_channels() {
            return self.cxx11_abi_of_conda(PYTORCH, torch);
        }
        let is_meant = |row: &&Cited<Cxx11Abi>| {
            row.torch.contains(torch)
                && row.platform.is_none_or(|of| of == platform)
                && (row.variants.is_empty() || row.variants.iter().any(|name| name == variant))
        };
        self.rows(&self.parts.tables.cxx11_abis).iter().find(is_meant).map(|row| row.cxx11_abi)
    }

    /// What the standard library lost that a dotted name needs.
    pub fn removed(&self, name: &str) -> Option<&Cited<Removed>> {
        self.rows(&self.parts.tables.removed).iter().find(|row| row.has(name))
    }
}
