//! The tables of the registry: in which file each stands, and the order of its rows.

use std::cmp::Reverse;

use super::rows::*;
use super::table::{Fault, Order, Placed, PlacedRows, Row, Rows, tables};
use crate::model::cited::Cited;
use crate::model::native::{FileByPath, FrameworkLoads, Opened, Provider};

tables! {
    builds: Build = "torch" / "build",
        Sorted by |r| (r.version.clone(), r.platform.to_string(), r.cuda.clone()),
        checked by Build::problems, then sort_builds;
    companions: Companion = "companions" / "companion",
        Unique by |r| (r.package.clone(), r.version.clone()), then sort_companions;
    source_code: SourceCode = "companions" / "source_code",
        Sorted by |r| (r.package.clone(), r.versions.to_string());
    frameworks: FrameworkBuild = "frameworks" / "build",
        Sorted by |r| (r.package.clone(), r.cuda.clone(), r.cudnn.clone(), r.versions.to_string(), r.platform.to_string());

    minor_versions: MinorVersionCompatibility = "cuda" / "minor_version_compatibility", Sorted by |r| r.cuda_major;
    runtime_packages: RuntimePackage = "cuda" / "runtime_package", Sorted by |r| r.package.clone();
    toolkits: ToolkitDriver = "cuda" / "toolkit", Sorted by |r| r.version.clone();
    toolkit_targets: ToolkitTargets = "cuda" / "targets", Sorted by |r| r.cuda.clone();
    last_builds: LastBuild = "cuda" / "last_build", Sorted by |r| r.capability_below;
    cudnn_floors: CudnnFloor = "cudnn" / "floor", Sorted by |r| r.from.clone();
    cudnn_releases: CudnnRelease = "cudnn" / "release", Sorted by |r| r.version.clone();
    branches: Branch = "drivers" / "branch", Sorted by |r| r.branch, checked by Branch::problems;
    architectures: Architecture = "drivers" / "architecture",
        Sorted by |r| r.capabilities.clone(), checked by Architecture::problems;
    forward: ForwardCompatibility = "drivers" / "forward_compatibility", Sorted by |r| r.cuda.clone();

    gpus: GpuRow = "gpus" / "gpu", Unique by |r| (r.name.clone(), r.capability), checked by GpuRow::problems;
    tegra: Tegra = "gpus" / "tegra", Unique by |_r| ();
    gpu_names: GpuNames = "gpus" / "names", Unique by |_r| ();
    other_makers: OtherMaker = "gpus" / "other_maker", Sorted by |r| r.maker.clone();
    node_labels: NodeLabel = "gpus" / "node_label", Sorted by |r| (r.key.clone(), r.value.clone());
    pythons: PythonRow = "python" / "python", Sorted by |r| r.version, checked by PythonRow::problems;
    images: Image = "containers" / "image", Sorted by |r| (r.repository.clone(), r.tag.clone());
    never: NonexistentImage = "containers" / "never", Sorted by |r| (r.repository.clone(), r.tag.clone());
    conda_builds: CondaBuild = "conda" / "build",
        Sorted by |r| (r.package.clone(), r.release(), r.platform.to_string(), r.cuda.clone(), r.builds.clone());
    conda_abis: CondaCxx11Abi = "conda" / "cxx11_abi", Sorted by |r| (r.package.clone(), r.versions.to_string());

    advisories: Advisory = "advisories" / "advisory", Unique by |r| r.id.clone();
    abi_breaks: AbiBreak = "advisories" / "abi_break", Sorted by |r| (r.package.clone(), r.built_before);
    errors: ErrorRule = "errors" / "error", Unique by |r| r.id.clone(), checked by ErrorRule::problems;
    codes: CodeFamily = "errors" / "codes", Unique by |r| r.family.clone();
    extensions: Extension = "errors" / "extension", Sorted by |r| r.package.clone(), checked by Extension::problems;
    system_libraries: SystemLibrary = "errors" / "system_library", Sorted by |r| r.name.clone();
    repairs: Repair = "errors" / "repair", Unique by |r| (r.offer, r.package.clone(), r.written.clone());
    words: Words = "errors" / "words", Sorted by |r| r.of;
    surroundings: SurroundingWords = "errors" / "surroundings",
        Sorted by |r| (r.surrounding, Reverse(r.words.len()));

    bundled_libraries: BundledLibrary = "libraries" / "library",
        Sorted by |r| r.name.clone(), checked by BundledLibrary::problems;
    opens: Opened = "loading" / "opens", Sorted by |r| (r.by.clone(), r.order, r.name.clone());
    framework_loads: FrameworkLoads = "loading" / "framework",
        Sorted by |r| r.package.clone(), checked by problems_of_loads;
    cudnn_parts: CudnnPart = "loading" / "cudnn_part", Sorted by |r| (r.name.clone(), r.with.clone());
    ptx_isa: PtxIsa = "loading" / "ptx_isa", Sorted by |r| r.isa;
    same_files: SameFile = "loading" / "same_file", Sorted by |r| r.file.clone(), checked by SameFile::problems;
    same_cuda: SameCuda = "loading" / "same_cuda", Sorted by |r| r.package.clone();
    same_releases: SameRelease = "loading" / "same_release", Sorted by |r| r.package.clone();
    pairs: Pair = "pairs" / "pair", Sorted by |r| (r.package.clone(), r.versions.to_string());
    providers: Provider = "loading" / "provider", Sorted by |r| r.package.clone();
    files_by_path: FileByPath = "loading" / "file_by_path", Sorted by |r| (r.package.clone(), r.file.clone(), r.program);
    stdlib_imports: StdlibImport = "loading" / "stdlib_import", Sorted by |r| r.package.clone();
    torch_shims: TorchShim = "loading" / "torch_shim", Sorted by |r| r.torch.clone(), checked by TorchShim::problems;
    cuda_libraries: CudaLibraries = "loading" / "cuda_libraries",
        Sorted by |r| (r.package.clone(), r.versions.as_ref().map(ToString::to_string)),
        checked by CudaLibraries::problems;

    source_packages: SourcePackage = "packages" / "source_package",
        Sorted by |r| (r.package.clone(), r.versions.to_string());
    build_modules: BuildModule = "packages" / "build_module", Sorted by |r| r.module.clone();
    backports: Backport = "packages" / "backport", Sorted by |r| r.package.clone();
    other_projects: OtherProject = "packages" / "other_project", Sorted by |r| r.package.clone();
    removed: Removed = "packages" / "removed", Sorted by |r| r.name.clone();
    python_limits: PythonLimit = "packages" / "python_limit",
        Sorted by |r| (r.package.clone(), r.versions.to_string());
    undeclared: Undeclared = "packages" / "undeclared",
        Sorted by |r| (r.package.clone(), r.requires.clone()), checked by Undeclared::problems;
    conda_names: CondaName = "packages" / "conda", Sorted by |r| r.name.clone();
    prebuilt: Prebuilt = "packages" / "prebuilt",
        Sorted by |r| (r.package.clone(), r.versions.to_string()), checked by Prebuilt::problems;
    cxx11_abis: Cxx11Abi = "packages" / "cxx11_abi", First by |_r| ();
}
