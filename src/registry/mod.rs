//! Compatibility data: builds with their CUDA, GPUs, drivers and Pythons.
//!
//! The rows are in `registry/*.toml`, embedded in the binary; `--registry DIR` replaces them. Each row has its source
//! and evidence. This module does no I/O: the caller passes the texts.
//!
//! Each part is parsed on first use, because a command that only compares versions should not parse a thousand GPUs.
//! External data is checked completely before use ([`Registry::from_files`]).

pub mod conda_builds;
pub mod conda_names;
mod embedded;
mod gpus;
pub mod lint;
mod loading;
mod queries;
mod rows;
mod schema;
pub mod show;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::model::platform::Platform;

pub use gpus::{GpuLookupError, GpuMatch, is_same_gpu_name};
pub use lint::Problem;
pub use rows::{
    AbiBreak, Advisory, Architecture, Backport, Branch, Build, BuildModule, COMPANIONS, Companion,
    CondaBuild, CondaName, Condition, CudaFrom, CudaPart, CudnnFloor, CudnnRelease, Effect, ErrorAnswer,
    ErrorCase, ErrorRule, ForwardCompatibility, FrameworkBuild, GpuRow, Image, Mechanics,
    MinorVersionCompatibility, NonexistentImage, Offer, PrebuiltFor, Predicate, PtxIsa, Removed,
    STACK_PACKAGES, SameCuda, SameFile, SameRelease, SourcePackage, StdlibImport, SurroundingWords, Tegra,
    ToolkitDriver, ToolkitTargets,
};
#[cfg(test)]
pub(crate) use tests::frozen;

/// See [`Registry::stack_source`].
const STACK_OF_CHANNELS: &str = "the channel";

/// The registry: texts, and the parts that were parsed so far.
#[derive(Debug)]
pub struct Registry {
    /// Where the builds of torch are from, if not from the files.
    stack_of: Option<&'static str>,
    files: Vec<RegistryFile>,
    digest: OnceLock<String>,
    meta: OnceLock<rows::Meta>,
    builds: OnceLock<Vec<Build>>,
    companions: OnceLock<Vec<Companion>>,
    frameworks: OnceLock<Vec<FrameworkBuild>>,
    containers: OnceLock<rows::ContainerRows>,
    cuda: OnceLock<rows::CudaRows>,
    drivers: OnceLock<rows::DriverRows>,
    cudnn: OnceLock<rows::CudnnRows>,
    gpus: OnceLock<Vec<GpuRow>>,
    tegra: OnceLock<rows::Tegra>,
    loading: OnceLock<rows::LoadingRows>,
    packages: OnceLock<rows::PackageRows>,
    conda: OnceLock<schema::CondaFile>,
    errors: OnceLock<rows::ErrorRows>,
    pythons: OnceLock<Vec<u32>>,
    advisories: OnceLock<Vec<Advisory>>,
    abi_breaks: OnceLock<Vec<AbiBreak>>,
    sources: OnceLock<std::collections::BTreeMap<String, String>>,
}

/// Whether a text is exactly one row of torch or a companion, for this release and platform. Validates cached rows.
pub fn is_row_of(row: &str, name: &str, version: &pep440_rs::Version, platform: Platform) -> bool {
    if name == "torch" {
        let Ok(file) = toml::from_str::<schema::TorchFile>(row) else { return false };
        return matches!(file.build.as_slice(), [b] if b.version == *version && b.platform == platform);
    }
    let Ok(file) = toml::from_str::<schema::CompanionsFile>(row) else { return false };
    matches!(file.companion.as_slice(),
        [c] if c.package == name && c.version == *version && c.platform == platform)
}

/// One file of the registry.
#[derive(Debug, Clone)]
pub struct RegistryFile {
    /// Path inside the registry, with `/`: `torch/2.9.toml`.
    pub path: Cow<'static, str>,
    /// The file's text.
    pub text: Cow<'static, str>,
}

impl Registry {
    /// The registry that is embedded in this program.
    pub fn embedded() -> Registry {
        Registry::unchecked(
            embedded::FILES
                .iter()
                .map(|(path, text)| RegistryFile { path: Cow::Borrowed(path), text: Cow::Borrowed(text) })
                .collect(),
        )
    }

    /// An external registry, checked completely. The order of its rows does not matter.
    ///
    /// # Errors
    /// All problems, each with file and line.
    pub fn from_files(files: Vec<RegistryFile>) -> Result<Registry, Vec<Problem>> {
        let registry = Registry::unchecked(files);
        let mut problems = lint::check(&registry);
        problems.retain(|problem| !problem.harmless);
        if problems.is_empty() { Ok(registry) } else { Err(problems) }
    }

    /// The registry with additional rows, each with the file to append it to. Unlike in `registry lint`, a row may refer
    /// to a cuDNN or CUDA release without a row, because new releases appear together.
    ///
    /// # Errors
    /// A row is invalid.
    pub fn with_rows(&self, rows: &[(String, String)]) -> Result<Registry, String> {
        let mut files = self.files.clone();
        for (path, row) in rows {
            let parsed = match path.starts_with("torch/") {
                true => toml::from_str::<schema::TorchFile>(row).map(drop),
                false => toml::from_str::<schema::CompanionsFile>(row).map(drop),
            };
            parsed.map_err(|e| e.message().to_owned())?;
            match files.iter_mut().find(|file| file.path == *path) {
                Some(file) => file.text = format!("{}\n{row}", file.text).into(),
                None => files.push(RegistryFile { path: path.clone().into(), text: row.clone().into() }),
            }
        }
        Ok(Registry::unchecked(files))
    }

    /// The registry with other builds of torch and its companions: those of a conda channel.
    #[must_use]
    pub fn with_stack(&self, builds: Vec<Build>, companions: Vec<Companion>) -> Registry {
        let registry =
            Registry { stack_of: Some(STACK_OF_CHANNELS), ..Registry::unchecked(self.files.clone()) };
        // What else links torch or CUDA is known as before.
        let is_other = |row: &&Companion| !COMPANIONS.contains(&row.package.as_str());
        let others = self.companions().iter().filter(is_other).cloned();
        let companions = companions.into_iter().chain(others).collect();
        // Nobody has asked this copy for the ones in the files.
        let _ = registry.builds.set(builds);
        let _ = registry.companions.set(companions);
        registry
    }

    /// What has the builds of torch, for a sentence: `the registry`, or the channels whose records they were read from.
    pub fn stack_source(&self) -> &'static str {
        self.stack_of.unwrap_or("the registry")
    }

    /// [`Registry::stack_source`] as the source of a fact.
    pub fn stack_label(&self) -> &'static str {
        if self.stack_of.is_some() { conda_builds::OF_CHANNEL } else { "registry" }
    }

    /// Whether the builds of torch are those of conda channels.
    pub fn has_stack_of_channels(&self) -> bool {
        self.stack_of.is_some()
    }

    fn unchecked(mut files: Vec<RegistryFile>) -> Registry {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Registry {
            stack_of: None,
            files,
            digest: OnceLock::new(),
            meta: OnceLock::new(),
            builds: OnceLock::new(),
            companions: OnceLock::new(),
            frameworks: OnceLock::new(),
            containers: OnceLock::new(),
            cuda: OnceLock::new(),
            drivers: OnceLock::new(),
            cudnn: OnceLock::new(),
            gpus: OnceLock::new(),
            tegra: OnceLock::new(),
            loading: OnceLock::new(),
            packages: OnceLock::new(),
            conda: OnceLock::new(),
            errors: OnceLock::new(),
            pythons: OnceLock::new(),
            advisories: OnceLock::new(),
            abi_breaks: OnceLock::new(),
            sources: OnceLock::new(),
        }
    }

    /// The files, sorted by path.
    pub fn files(&self) -> &[RegistryFile] {
        &self.files
    }

    /// SHA-256 over all files, 64 hexadecimal digits. Changes with any row.
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| {
            let mut hasher = Sha256::new();
            for file in &self.files {
                hasher.update(file.path.as_bytes());
                hasher.update([0]);
                hasher.update(file.text.as_bytes());
                hasher.update([0]);
            }
            hex::encode(hasher.finalize())
        })
    }
}
