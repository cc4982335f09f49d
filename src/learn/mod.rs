//! Reads compatibility data from a wheel, for a row of the registry: METADATA, `version.py`, and the GPU code in its
//! libraries. The data comes from the wheel itself, not from release notes.

mod build_info;
mod framework;
mod kept_file;
mod linked_cache;
mod row;
mod store;
mod unread;
mod version_py;

use std::collections::BTreeSet;
use std::io::{Read, Seek};

use pep440_rs::Version;
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use crate::inspect::{self, Detail, WheelError};
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::library::{DeviceCode, Library};
use crate::model::marker::marker_environment;
use crate::model::metadata::CoreMetadata;
use crate::model::nvidia::is_cuda_runtime;
use crate::model::platform::{Os, Platform};
use crate::model::project::ReleaseFile;
use crate::model::requirement::parse_requirement;
use crate::model::text::{clean, normalized_name};
use crate::model::variant::Variant;
use crate::model::version::cuda_short;
use crate::model::wheel::{Python, WheelName};
use crate::registry::{COMPANIONS, FrameworkBuild};

pub use framework::LearnedFramework;
pub use linked_cache::{LinkedStore, linked};
pub use row::{differences, file_of, render};
pub use store::{Kept, Place, Store};
pub use unread::unread;

/// Maximum size of METADATA and version.py, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// Why no compatibility data could be read.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// The wheel could not be read.
    #[error(transparent)]
    Wheel(#[from] WheelError),
    /// Two parts of the wheel contradict each other.
    #[error("the wheel contradicts itself: its {what} says `{says}`, its file name `{name}`")]
    Contradiction {
        /// The part that differs from the file name.
        what: &'static str,
        /// Its value.
        says: String,
        /// The value in the file name.
        name: String,
    },
    /// No library of the wheel has GPU code.
    #[error("{0} has no GPU code, so it has no compatibility data")]
    NoCode(String),
    /// A required part is missing or cannot be read.
    #[error("{0}")]
    Missing(String),
}

/// Compatibility data of a release.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// Normalized project name.
    pub project: String,
    /// Version without local part.
    pub version: Version,
    /// CUDA variant: `cu128`, `cpu`; `None` if the wheel does not name one.
    pub variant: Option<String>,
    /// The CUDA version that it was built with, `12.8`.
    pub cuda: Option<String>,
    /// The cuDNN version that it pins.
    pub cudnn: Option<String>,
    /// The NCCL version that it pins.
    pub nccl: Option<String>,
    /// Its requirement on triton, `==3.5.1`.
    pub triton: Option<String>,
    /// Its requirement on torch, `==2.9.1`.
    pub torch: Option<String>,
    /// Targets of the GPU code: torch's own list, else all targets in its libraries.
    pub targets: Option<CodeTargets>,
    /// The CUDA majors whose runtime library the libraries with GPU code link.
    pub links_cuda: Vec<u64>,
    /// Platform of the wheel.
    pub platform: Platform,
    /// `Requires-Python`.
    pub requires_python: Option<String>,
    /// What is said of a framework other than torch.
    pub framework: Option<LearnedFramework>,
    /// Whether it is a build of the pytorch index: PyPI takes no local versions such as `2.9.1+cu126`.
    pub is_of_pytorch: bool,
    /// The file that was read.
    pub file: String,
    /// Its SHA-256, if known.
    pub sha256: Option<String>,
    /// Facts from the names of all files of the release.
    pub files: FileFacts,
}

/// Facts from the file names and sizes of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// ABI tags: `cp312`, `cp313t`.
    pub pythons: Vec<String>,
    /// Lowest glibc, `2.28`.
    pub glibc: Option<String>,
    /// Size of the largest file, in bytes.
    pub bytes: Option<u64>,
}

impl FileFacts {
    /// The facts of the files that can be installed on a platform.
    pub fn of<'f>(files: impl Iterator<Item = &'f ReleaseFile>, platform: Platform) -> FileFacts {
        let mut out = FileFacts::default();
        let mut glibc: Option<crate::model::version::DottedVersion> = None;
        for file in files {
            let Some(wheel) = file.wheel() else { continue };
            let Some(need) = wheel.libc_need(platform, None) else { continue };
            glibc = match (glibc, need) {
                (Some(known), Some(need)) => Some(known.min(need)),
                (known, need) => known.or(need),
            };
            out.add(wheel);
            out.bytes = out.bytes.max(file.size);
        }
        out.glibc = glibc.filter(|_| platform.os == Os::Linux).map(|v| v.to_string());
        out.sort();
        out
    }

    fn add(&mut self, wheel: &WheelName) {
        // ABI tag `cp313t` is the free-threaded build; `py3-none` has no ABI tag.
        let tags =
            if wheel.abis.iter().any(|abi| abi.starts_with("cp")) { &wheel.abis } else { &wheel.pythons };
        for tag in tags {
            // Up to Python 3.7 the tag names the allocator: `cp37m`.
            let tag = tag.strip_suffix('m').unwrap_or(tag);
            if !self.pythons.iter().any(|own| own == tag) {
                self.pythons.push(tag.to_owned());
            }
        }
    }

    fn sort(&mut self) {
        let number =
            |tag: &String| tag.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u32>().ok();
        self.pythons.sort_by_key(|tag| (number(tag), tag.clone()));
    }
}

/// Receives progress while a wheel is read.
pub trait Progress {
    /// Called before reading: compressed size in bytes and number of the libraries.
    fn will_read(&mut self, packed: u64, members: usize);
    /// Called while decompressing: bytes done and in total.
    fn unpacked(&mut self, done: u64, total: u64);
}

/// What is known of a wheel before it is read, and what is read of it.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'w> {
    /// The wheel's file name.
    pub file: &'w str,
    /// The platform that it is read for.
    pub platform: Platform,
    /// Of a framework other than torch: the known releases that it may be like.
    pub frameworks: &'w [FrameworkBuild],
    /// Whether the libraries of such a framework are read where its record does not list their code: hundreds of MiB.
    pub large_code: bool,
}

impl<'w> Wanted<'w> {
    /// All of a wheel that is no framework's.
    pub fn all(file: &'w str, platform: Platform) -> Wanted<'w> {
        Wanted { file, platform, frameworks: &[], large_code: true }
    }
}

/// Reads a wheel. The caller adds facts of the release's other files.
///
/// # Errors
/// See [`LearnError`].
pub fn read<R: Read + Seek>(
    reader: R,
    wanted: Wanted<'_>,
    progress: &mut dyn Progress,
) -> Result<Learned, LearnError> {
    let Wanted { file, platform, .. } = wanted;
    let name: WheelName = file.parse().map_err(|e| LearnError::Missing(format!("{e}")))?;
    let project = normalized_name(&name.project);
    let mut archive = inspect::open_wheel(reader)?;
    let metadata = metadata(&mut archive, &project, &name)?;
    if let Some(like) = framework::fitting(wanted.frameworks, &metadata) {
        return of_framework(&mut archive, (&metadata, &name), (like, wanted), progress);
    }
    let module = project.replace('-', "_");
    let says = inspect::text_of_wheel(&mut archive, &format!("{module}/version.py"), MAX_TEXT)?;
    let says = says.map(|text| version_py::parse(&text)).unwrap_or_default();
    let plain = name.version.clone().without_local();
    check(&says, &name)?;
    let is_torch = project == "torch";
    if is_torch && says.version.is_none() {
        return Err(LearnError::Missing("it has no torch/version.py: it is not a torch wheel".to_owned()));
    }
    let variant = says.variant().or_else(|| is_torch.then(|| "cpu".to_owned()));
    let reads_code = !is_torch || variant.as_deref() != Some("cpu");
    let Code { targets, links_cuda } = match reads_code {
        true => code(&mut archive, is_torch, progress)?,
        false => Code::default(),
    };
    // What it requires brings the library.
    let brings_runtime = requirements(&metadata).any(|r| is_cuda_runtime(r.name.as_ref()));
    if is_torch && reads_code && targets.is_none() {
        return Err(LearnError::Missing(
            "its libtorch_python.so has no list of GPU architectures".to_owned(),
        ));
    }
    // torch's companions are recorded even without GPU code.
    if targets.is_none() && !is_torch && !COMPANIONS.contains(&project.as_str()) {
        return Err(LearnError::NoCode(format!("{project} {plain}")));
    }
    // The METADATA of macOS and Windows wheels has the requirements of Linux behind markers.
    let newest = name.pythons.iter().filter_map(|tag| tag.strip_prefix("cp3")?.parse().ok()).max();
    let environment = marker_environment(Python::new(newest.unwrap_or(12)), platform);
    let here = || requirements(&metadata).filter(|r| r.marker.evaluate(&environment, &[]));
    let pin = |prefix: &str| -> Option<String> {
        let found = here().find(|r| (r.name.as_ref() as &str).starts_with(prefix))?;
        specifier(&found)?.strip_prefix("==").map(str::to_owned)
    };
    let asks = |name: &str| specifier(&here().find(|r| r.name.as_ref() as &str == name)?);
    let mut files = FileFacts::default();
    files.add(&name);
    files.glibc =
        name.libc_need(platform, None).flatten().filter(|_| platform.os == Os::Linux).map(|v| v.to_string());
    Ok(Learned {
        version: plain,
        variant,
        cuda: says.cuda,
        cudnn: pin("nvidia-cudnn-cu"),
        nccl: pin("nvidia-nccl-cu"),
        triton: asks("triton"),
        torch: if is_torch { None } else { asks("torch") },
        targets,
        links_cuda: if is_torch || brings_runtime { Vec::new() } else { links_cuda },
        platform,
        requires_python: metadata.requires_python,
        is_of_pytorch: is_torch && name.version.is_local(),
        framework: None,
        file: file.to_owned(),
        sha256: None,
        files,
        project,
    })
}

/// What a wheel's `version.py` says does not contradict the wheel's name, and is about CUDA.
fn check(says: &version_py::VersionPy, name: &WheelName) -> Result<(), LearnError> {
    let plain = name.version.clone().without_local();
    // Ignores placeholders such as `dev`.
    if let Some(version) = &says.version
        && version.parse::<Version>().is_ok_and(|v| v.without_local() != plain)
    {
        return Err(contradiction("version.py", version, &name.version.to_string()));
    }
    if let Some(hip) = &says.hip {
        return Err(LearnError::Missing(format!("it is built for ROCm {hip}, not for CUDA")));
    }
    // `2.9.1+cu128` and `cuda = '12.8'` must agree.
    if let (Some(variant), Some(cuda)) = (says.variant(), &says.cuda)
        && Variant::of_cuda(cuda) != Some(Variant::of(&variant))
    {
        return Err(contradiction("version.py", &format!("cuda {cuda}"), &variant));
    }
    Ok(())
}

/// What the wheel of a framework other than torch says; without code where another wheel has that.
fn of_framework<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    (metadata, name): (&Metadata, &WheelName),
    (known, wanted): (&FrameworkBuild, Wanted<'_>),
    progress: &mut dyn Progress,
) -> Result<Learned, LearnError> {
    let version = name.version.clone().without_local();
    let (framework, mut targets) = framework::read(archive, (metadata, &version), known)?;
    if targets.is_none() && framework.code_in().is_none() {
        if !wanted.large_code {
            return Err(LearnError::Missing("its record of the build lists no GPU code".to_owned()));
        }
        let found = code(archive, false, progress)?.targets;
        targets = Some(found.ok_or_else(|| LearnError::NoCode(format!("{} {version}", known.package)))?);
    }
    Ok(Learned {
        project: known.package.clone(),
        version,
        variant: None,
        cuda: Some(cuda_short(framework.cuda())),
        cudnn: framework.cudnn().map(ToString::to_string),
        nccl: None,
        triton: None,
        torch: None,
        targets,
        links_cuda: Vec::new(),
        platform: wanted.platform,
        requires_python: metadata.requires_python.clone(),
        is_of_pytorch: false,
        framework: Some(framework),
        file: wanted.file.to_owned(),
        sha256: None,
        files: FileFacts::default(),
    })
}

/// The GPU code in a wheel's libraries: all targets of all of them.
///
/// # Errors
/// See [`LearnError`].
pub fn code_of<R: Read + Seek>(
    reader: R,
    name: &str,
    progress: &mut dyn Progress,
) -> Result<CodeTargets, LearnError> {
    let targets = code(&mut inspect::open_wheel(reader)?, false, progress)?.targets;
    targets.ok_or_else(|| LearnError::NoCode(name.to_owned()))
}

struct Metadata {
    core: CoreMetadata,
    requires_python: Option<String>,
}

fn contradiction(what: &'static str, says: &str, name: &str) -> LearnError {
    LearnError::Contradiction { what, says: clean(says, 80), name: clean(name, 80) }
}

fn metadata<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    project: &str,
    name: &WheelName,
) -> Result<Metadata, LearnError> {
    let is_metadata = |path: &str| {
        let stem = path.strip_suffix(".dist-info/METADATA").filter(|stem| !stem.contains('/'));
        stem.and_then(|stem| stem.split_once('-')).is_some_and(|(p, _)| normalized_name(p) == project)
    };
    let path =
        archive.file_names().filter_map(Result::ok).find(|path| is_metadata(path)).map(|p| p.to_string());
    let text = match path {
        Some(path) => inspect::text_of_wheel(archive, &path, MAX_TEXT)?,
        None => None,
    };
    let text = text.ok_or_else(|| LearnError::Missing("it has no METADATA".to_owned()))?;
    let core = CoreMetadata::parse(&text, String::new()).map_err(|e| LearnError::Missing(e.to_string()))?;
    if core.name.as_ref() as &str != project {
        return Err(contradiction("METADATA", core.name.as_ref(), project));
    }
    if core.version.clone().without_local() != name.version.clone().without_local() {
        return Err(contradiction("METADATA", &core.version.to_string(), &name.version.to_string()));
    }
    let header = text.lines().take_while(|line| !line.is_empty());
    let requires_python =
        header.filter_map(|line| line.strip_prefix("Requires-Python:")).map(|v| clean(v.trim(), 80)).next();
    Ok(Metadata { core, requires_python })
}

fn requirements(metadata: &Metadata) -> impl Iterator<Item = Requirement<VerbatimUrl>> {
    metadata.core.lines().filter_map(|line| parse_requirement(line).ok())
}

/// `==2.9.1` of `torch==2.9.1`.
fn specifier(requirement: &Requirement<VerbatimUrl>) -> Option<String> {
    match &requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers.to_string().replace(", ", ",")),
        _ => None,
    }
}

/// All targets of any fatbin container.
fn all_targets(code: &DeviceCode) -> CodeTargets {
    let of = |counts: Vec<(CodeTarget, usize)>| counts.into_iter().map(|(target, _)| target).collect();
    CodeTargets { sass: of(code.counts(|shape| &shape.sass)), ptx: of(code.counts(|shape| &shape.ptx)) }
}

/// What the libraries of a wheel say.
#[derive(Default)]
struct Code {
    targets: Option<CodeTargets>,
    links_cuda: Vec<u64>,
}

/// The major version of a library's CUDA runtime: 12 of `libcudart.so.12`. A copy in the wheel has another name.
fn runtime_major(needed: &str) -> Option<u64> {
    needed.strip_prefix("libcudart.so.")?.split('.').next()?.parse().ok()
}

/// torch's own list of architectures, else all targets in the wheel's libraries and the CUDA that these link.
fn code<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    is_torch: bool,
    progress: &mut dyn Progress,
) -> Result<Code, LearnError> {
    // Bundled third-party libraries are in a separate folder, `torchvision.libs`.
    let wanted = |name: &str| match is_torch {
        true => name == "torch/lib/libtorch_python.so",
        false => !name.split('/').next().is_some_and(|folder| folder.ends_with(".libs")),
    };
    let (members, packed) = inspect::size_of_libraries(archive, &wanted)?;
    progress.will_read(packed, members);
    let libraries =
        inspect::wheel(archive, &wanted, Detail::Code, &mut |done, total| progress.unpacked(done, total))?;
    if is_torch {
        let targets = libraries.into_iter().find_map(|library| library.arch_list);
        return Ok(Code { targets, ..Code::default() });
    }
    // Incomplete data would exclude GPUs that the unread code supports.
    let fault = |library: &Library| Some((library.path.clone(), library.device.as_ref()?.fault?));
    if let Some((path, fault)) = libraries.iter().find_map(fault) {
        return Err(LearnError::Missing(format!(
            "the GPU code of `{path}` cannot be read completely: {fault}"
        )));
    }
    // Some packages have one library for each CUDA version and load one of them, so the targets are merged.
    let with_code = || libraries.iter().filter(|library| library.device.is_some());
    // One library that links no runtime can be loaded anyway.
    let links = |library: &Library| library.needed.iter().find_map(|needed| runtime_major(needed));
    let links_cuda: BTreeSet<u64> = match with_code().all(|library| links(library).is_some()) {
        true => with_code().filter_map(links).collect(),
        false => BTreeSet::new(),
    };
    let targets = with_code().filter_map(|library| library.device.as_ref()).map(all_targets);
    let targets = targets.reduce(|mut a, b| {
        for (mine, more) in [(&mut a.sass, b.sass), (&mut a.ptx, b.ptx)] {
            mine.extend(more);
            mine.sort();
            mine.dedup();
        }
        a
    });
    Ok(Code { targets, links_cuda: links_cuda.into_iter().collect() })
}
