//! Compatibility data: builds with their CUDA, GPUs, drivers and Pythons.
//!
//! The rows are in `registry/*.toml`, embedded in the binary; `--registry DIR` replaces them. Each row is [`Cited`]: it has
//! its sources and its evidence. `tables` lists the tables. This module does no I/O: the caller passes the texts.
//!
//! External data is checked completely before use ([`Registry::from_files`]).

mod compact;
pub mod conda_builds;
pub mod conda_names;
mod document;
mod driver_cuda;
mod embedded;
pub mod explain;
mod gpu_names;
mod learned;
pub mod lint;
mod loading;
mod package_needs;
mod queries;
mod rows;
pub mod show;
pub mod signed;
mod table;
mod tables;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

pub use gpu_names::{GpuLookupError, GpuMatch, is_same_gpu_name};
use learned::LearnedValue;
use tables::Tables;

pub use crate::model::cited::Cited;
pub use driver_cuda::DriverCuda;
pub use learned::{LEARNED_SOURCE, LearnedRow};
pub use lint::Problem;
pub use rows::{
    AbiBreak, Advisory, Architecture, Backport, Branch, Build, BuildModule, BundledLibrary, COMPANIONS,
    Companion, CondaBuild, CondaName, Condition, CudaFrom, CudaLibraries, CudaPart, CudnnFloor, CudnnRelease,
    Effect, ErrorAnswer, ErrorCase, ErrorRule, Extension, ForwardCompatibility, FrameworkBuild, GpuRow,
    Image, Mechanics, Meta, MinorVersionCompatibility, NonexistentImage, Offer, Pair, PrebuiltFor, Predicate,
    PtxIsa, Removed, Repair, STACK_PACKAGES, SameCuda, SameFile, SameRelease, SourceCode, SourcePackage,
    StdlibImport, SurroundingWords, Tegra, ToolkitDriver, ToolkitTargets, Words, WordsOf,
};
#[cfg(test)]
pub(crate) use tests::frozen;

/// See [`Registry::stack_source`].
const STACK_OF_CHANNELS: &str = "the channel";

/// The registry. Copies with other rows of torch share the rest.
#[derive(Debug)]
pub struct Registry {
    parts: Arc<Parts>,
    /// The rows of torch and its companions, if they are not just those of the files.
    stack: Option<Stack>,
}

/// Rows in the place of those that the files have.
#[derive(Debug)]
struct Stack {
    /// Where they are from, if not from the files and from wheels; see [`Registry::stack_source`].
    of: Option<&'static str>,
    builds: Vec<Cited<Build>>,
    companions: Vec<Cited<Companion>>,
    /// All rows of the table, if some were read from wheels; else none.
    frameworks: Vec<Cited<FrameworkBuild>>,
    digest: String,
}

/// What is in the files. Of the registry in the program, each part is read on first use: a command that only compares
/// versions needs no thousand GPUs.
#[derive(Debug, Default)]
struct Parts {
    files: Vec<RegistryFile>,
    /// Names of GPUs that were looked up: the nodes of a fleet have few of them, many times.
    gpus_found: gpu_names::Found,
    digest: OnceLock<String>,
    meta: OnceLock<Meta>,
    sources: OnceLock<BTreeMap<String, String>>,
    tables: Tables,
    /// Rows of several tables together.
    rules: OnceLock<Vec<Cited<ErrorRule>>>,
    minors: OnceLock<Vec<u32>>,
    settled: OnceLock<Vec<u32>>,
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
        let file = |(path, text): &(&'static str, &'static str)| RegistryFile {
            path: Cow::Borrowed(path),
            text: Cow::Borrowed(text),
        };
        let files = embedded::files().iter().map(file).collect();
        let parts = Parts { files, digest: embedded::digest().to_owned().into(), ..Parts::default() };
        Registry { parts: Arc::new(parts), stack: None }
    }

    /// An external registry, checked completely. The order of its rows does not matter.
    ///
    /// # Errors
    /// All problems, each with file and line.
    pub fn from_files(files: Vec<RegistryFile>) -> Result<Registry, Vec<Problem>> {
        Registry::checked(files, |problem| !problem.harmless)
    }

    /// Every problem of an external registry, those too that make no answer wrong: for who edits it.
    ///
    /// # Errors
    /// The problems, each with file and line.
    pub fn linted(files: Vec<RegistryFile>) -> Result<Registry, Vec<Problem>> {
        Registry::checked(files, |_| true)
    }

    fn checked(
        mut files: Vec<RegistryFile>,
        counts: impl Fn(&Problem) -> bool,
    ) -> Result<Registry, Vec<Problem>> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let (read, mut problems) = lint::read(&files);
        problems.retain(counts);
        match (read, problems.as_slice()) {
            (Some(lint::Read { meta, sources, tables }), []) => {
                let (meta, sources) = (meta.into(), sources.into());
                let parts = Parts { files, meta, sources, tables, ..Parts::default() };
                Ok(Registry { parts: Arc::new(parts), stack: None })
            }
            _ => Err(problems),
        }
    }

    /// The registry with rows that were read from wheels. Unlike in `registry lint`, a row may refer to a cuDNN or CUDA
    /// release without a row, because new releases appear together. A row of the same release and build wins over one
    /// of the files.
    #[must_use]
    pub fn with_rows<'r>(&self, rows: impl IntoIterator<Item = &'r LearnedRow>) -> Registry {
        let mut rows: Vec<&LearnedRow> = rows.into_iter().collect();
        rows.sort();
        rows.dedup();
        let (mut builds, mut companions) = (self.builds().to_vec(), self.companions().to_vec());
        let (mut read, mut frameworks) = (Vec::new(), Vec::new());
        let mut hasher = Sha256::new();
        hasher.update(self.digest().as_bytes());
        for row in rows {
            hasher.update(row.text().as_bytes());
            hasher.update([0]);
            match row.value() {
                LearnedValue::Build(build) => {
                    let mut build = (**build).clone();
                    // A wheel does not say what was built with it.
                    if let Some(known) = builds.iter().find(|known| known.is_same_build(&build)) {
                        build.torchvision.clone_from(&known.torchvision);
                        build.torchaudio.clone_from(&known.torchaudio);
                    }
                    builds.retain(|known| !known.is_same_build(&build));
                    builds.push(build);
                }
                LearnedValue::Companion(row) => read.push((**row).clone()),
                LearnedValue::Framework(row) => frameworks.push((**row).clone()),
            }
        }
        for mut row in read {
            companions.retain(|known| {
                (&known.package, &known.version, known.platform) != (&row.package, &row.version, row.platform)
            });
            row.variant = row.variant.take().or_else(|| rows::variant_on_pypi(&row, &builds));
            companions.push(row);
        }
        rows::sort_builds(&mut builds);
        rows::sort_companions(&mut companions);
        if frameworks.is_empty() {
            frameworks = self.read_frameworks();
        } else {
            frameworks.extend_from_slice(self.frameworks());
            <FrameworkBuild as table::Row>::arrange(&mut frameworks);
        }
        let digest = hex::encode(hasher.finalize());
        self.of_stack(Stack { of: self.stack_of(), builds, companions, frameworks, digest })
    }

    fn of_stack(&self, stack: Stack) -> Registry {
        Registry { parts: Arc::clone(&self.parts), stack: Some(stack) }
    }

    fn read_frameworks(&self) -> Vec<Cited<FrameworkBuild>> {
        self.stack.as_ref().map(|stack| stack.frameworks.clone()).unwrap_or_default()
    }

    /// The registry with other builds of torch and its companions: those of a conda channel.
    #[must_use]
    pub fn with_stack(&self, builds: Vec<Cited<Build>>, companions: Vec<Cited<Companion>>) -> Registry {
        // What else links torch or CUDA is known as before.
        let is_other = |row: &&Cited<Companion>| !COMPANIONS.contains(&row.package.as_str());
        let others = self.companions().iter().filter(is_other).cloned();
        let companions = companions.into_iter().chain(others).collect();
        let (of, digest) = (Some(STACK_OF_CHANNELS), self.digest().to_owned());
        self.of_stack(Stack { of, builds, companions, frameworks: self.read_frameworks(), digest })
    }

    /// The registry with other facts about its builds of torch, in their order.
    #[must_use]
    pub fn with_builds(&self, builds: Vec<Cited<Build>>) -> Registry {
        let (of, companions) = (self.stack_of(), self.companions().to_vec());
        let digest = self.digest().to_owned();
        self.of_stack(Stack { of, builds, companions, frameworks: self.read_frameworks(), digest })
    }

    /// The registry with other builds of torch and companions, in any order.
    #[must_use]
    pub fn with_torch(
        &self,
        mut builds: Vec<Cited<Build>>,
        mut companions: Vec<Cited<Companion>>,
    ) -> Registry {
        rows::sort_builds(&mut builds);
        rows::sort_companions(&mut companions);
        let (of, digest) = (self.stack_of(), self.digest().to_owned());
        self.of_stack(Stack { of, builds, companions, frameworks: self.read_frameworks(), digest })
    }

    /// What has the builds of torch, for a sentence: `the registry`, or the channels whose records they were read from.
    pub fn stack_source(&self) -> &'static str {
        self.stack_of().unwrap_or("the registry")
    }

    /// [`Registry::stack_source`] as the source of a fact.
    pub fn stack_label(&self) -> &'static str {
        if self.stack_of().is_some() { conda_builds::OF_CHANNEL } else { "registry" }
    }

    /// Whether the builds of torch are those of conda channels.
    pub fn has_stack_of_channels(&self) -> bool {
        self.stack_of().is_some()
    }

    fn stack_of(&self) -> Option<&'static str> {
        self.stack.as_ref().and_then(|stack| stack.of)
    }

    /// The files, sorted by path.
    pub fn files(&self) -> &[RegistryFile] {
        &self.parts.files
    }

    /// SHA-256 over all files and the rows that were read from wheels, 64 hexadecimal digits. Changes with any row.
    pub fn digest(&self) -> &str {
        if let Some(stack) = &self.stack {
            return &stack.digest;
        }
        self.parts.digest.get_or_init(|| {
            let mut hasher = Sha256::new();
            for file in &self.parts.files {
                hasher.update(file.path.as_bytes());
                hasher.update([0]);
                hasher.update(file.text.as_bytes());
                hasher.update([0]);
            }
            hex::encode(hasher.finalize())
        })
    }
}
