//! The files of the registry: which tables each one has. The rows are in [`super::rows`].

use serde::Deserialize;

use super::rows::*;
use crate::model::native::{FrameworkLoads, Opened, Provider};

macro_rules! files {
    ($($(#[$doc:meta])* $file:ident { $($table:ident: $row:ty),+ })+) => {
        $($(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $file {
            $(#[serde(default)] pub $table: Vec<$row>,)+
        })+
    };
}

files! {
    /// `torch/2.9.toml`.
    TorchFile { build: Build }
    /// `companions.toml`.
    CompanionsFile { companion: Companion }
    /// `frameworks/*.toml`.
    FrameworkFile { build: FrameworkBuild }
    /// `cuda.toml`.
    CudaFile {
        minor_version_compatibility: MinorVersionCompatibility,
        runtime_package: RuntimePackage,
        toolkit: ToolkitDriver,
        targets: ToolkitTargets,
        last_build: LastBuild
    }
    /// `drivers.toml`.
    DriversFile {
        branch: Branch,
        architecture: Architecture,
        forward_compatibility: ForwardCompatibility
    }
    /// `cudnn.toml`.
    CudnnFile { floor: CudnnFloor, release: CudnnRelease }
    /// `containers.toml`.
    ContainersFile { image: Image, never: NonexistentImage }
    /// `errors.toml`.
    ErrorsFile { error: ErrorRule, surroundings: SurroundingWords }
    /// `errors/*.toml`.
    ErrorRulesFile { error: ErrorRule, codes: CodeFamily }
    /// `loading.toml`.
    LoadingFile { opens: Opened, framework: FrameworkLoads, ptx_isa: PtxIsa, same_file: SameFile, same_cuda: SameCuda, same_release: SameRelease, provider: Provider, stdlib_import: StdlibImport, cuda_libraries: CudaLibraries, torch_shim: TorchShim }
    /// `packages.toml`.
    PackagesFile { source_package: SourcePackage, build_module: BuildModule, backport: Backport, removed: Removed, python_limit: PythonLimit, undeclared: Undeclared, conda: CondaName, prebuilt: Prebuilt, cxx11_abi: Cxx11Abi }
    /// `conda.toml`.
    CondaFile { build: CondaBuild, cxx11_abi: CondaCxx11Abi }
    /// `python.toml`.
    PythonsFile { python: PythonRow }
    /// `advisories/*.toml`.
    AdvisoriesFile { advisory: Advisory, abi_break: AbiBreak }
}

/// `sources.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourcesFile {
    pub sources: std::collections::BTreeMap<String, String>,
}

/// `gpus.toml`: one table on Tegra before the rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpusFile {
    pub tegra: Tegra,
    pub names: Option<GpuNames>,
    #[serde(default)]
    pub gpu: Vec<GpuRow>,
}
