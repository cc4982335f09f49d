//! Builds of torch and of its companions.

use std::collections::BTreeSet;

use pep440_rs::{Version, VersionSpecifiers};
use semver::Version as Semver;
use serde::Deserialize;

use super::{RowError, cuda_option};
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;
use crate::model::variant::{CPU, Variant, cuda_of_variant};
use crate::model::version::DottedVersion;
use crate::registry::Cited;
use crate::registry::table::Fault;

/// One build of torch: a version for a platform and a CUDA variant.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawBuild")]
pub struct Build {
    /// Public version.
    pub version: Version,
    /// CUDA variant: `cpu`, `cu128`.
    pub variant: String,
    /// Platform of the wheels.
    pub platform: Platform,
    /// Whether it is on PyPI (otherwise on a sub-index of the pytorch index).
    pub on_pypi: bool,
    /// Whether the pytorch index lists it.
    pub on_pytorch_index: bool,
    /// CUDA it was built with.
    pub cuda: Option<Semver>,
    /// cuDNN it was built with.
    pub cudnn: Option<DottedVersion>,
    /// NCCL it was built with.
    pub nccl: Option<DottedVersion>,
    /// Its requirement on triton.
    pub triton: Option<String>,
    /// Device code of its own kernels; `None`: unknown.
    pub targets: Option<CodeTargets>,
    /// Evidence of the targets.
    pub targets_evidence: Option<Evidence>,
    /// CPython minors with a wheel (with the global interpreter lock); `None`: unknown.
    pub pythons: Option<Vec<u32>>,
    /// `Requires-Python`.
    pub requires_python: Option<VersionSpecifiers>,
    /// Lowest glibc of the wheel's platform tag.
    pub glibc: Option<DottedVersion>,
    /// Whether the Pythons and the glibc are those of the release's other builds, since the row does not state its wheels.
    pub wheels_inferred: bool,
    /// Size of the largest wheel in bytes.
    pub wheel_bytes: Option<u64>,
    /// The torchvision built for it.
    pub torchvision: Option<Version>,
    /// The torchaudio built for it.
    pub torchaudio: Option<Version>,
    /// Source ids of the targets, where they have others.
    pub targets_source: Vec<String>,
    /// Why the row was withdrawn.
    pub yanked: Option<String>,
}

impl Build {
    /// Whether it is the same version for the same platform and CUDA variant.
    pub fn is_same_build(&self, other: &Build) -> bool {
        (&self.version, &self.variant, self.platform) == (&other.version, &other.variant, other.platform)
    }

    pub(in crate::registry) fn problems(&self) -> Vec<Fault> {
        let mut problems = Vec::new();
        if self.targets.is_some() != self.targets_evidence.is_some() {
            problems.push(Fault::at("targets", "`targets` and `targets_evidence` must be set together"));
        }
        if let Some(cuda) = &self.cuda
            && cuda_of_variant(&self.variant) != Some((cuda.major, cuda.minor))
        {
            let text = format!("`variant`: `{}` is not of CUDA {}.{}", self.variant, cuda.major, cuda.minor);
            problems.push(Fault::at("variant", text));
        }
        if let Some(triton) = self.triton.as_ref().filter(|text| text.parse::<VersionSpecifiers>().is_err()) {
            let text = format!("`triton`: `{triton}` is not a version specifier such as `~=3.10.0`");
            problems.push(Fault::at("triton", text));
        }
        problems
    }

    /// Where its Pythons and its glibc are stated.
    pub fn wheels_source(&self) -> &'static str {
        match self.wheels_inferred {
            true => "the release's wheels on PyPI",
            false => "wheel tags",
        }
    }

    /// The index of the build: `pypi`, or the variant's sub-index `pytorch/cu126`.
    pub fn index(&self) -> String {
        if self.on_pypi { "pypi".to_owned() } else { format!("pytorch/{}", self.variant) }
    }

    /// Its version as its index has it: the pytorch index has the variant as local version, PyPI does not.
    pub fn version_on_index(&self) -> Version {
        let local = format!("{}+{}", self.version, self.variant);
        match self.on_pypi {
            true => self.version.clone(),
            false => local.parse().unwrap_or_else(|_| self.version.clone()),
        }
    }

    /// The companion release that was built for this torch, by package name.
    pub fn companion(&self, package: &str) -> Option<&Version> {
        match package {
            "torchaudio" => self.torchaudio.as_ref(),
            "torchvision" => self.torchvision.as_ref(),
            _ => None,
        }
    }
}

impl Cited<Build> {
    /// The sources of what is said of its GPU code.
    pub fn code_source(&self) -> &[String] {
        if self.targets_source.is_empty() { &self.source } else { &self.targets_source }
    }

    /// The weaker evidence of existence and, if `gpus_matter`, targets.
    pub fn weakest_evidence(&self, gpus_matter: bool) -> Evidence {
        match self.targets_evidence {
            Some(targets) if gpus_matter => targets.min(self.evidence),
            _ => self.evidence,
        }
    }
}

/// The packages that are released with each torch release.
pub const COMPANIONS: [&str; 2] = ["torchaudio", "torchvision"];

pub use crate::model::request::STACK_PACKAGES;

/// A release of a companion package.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawCompanion")]
pub struct Companion {
    /// `torchvision`, `torchaudio`.
    pub package: String,
    /// Public version.
    pub version: Version,
    /// The torch that it requires.
    pub torch: Option<VersionSpecifiers>,
    /// The CUDA variant of the wheel on PyPI.
    pub variant: Option<String>,
    /// Device code, if read.
    pub targets: Option<CodeTargets>,
    /// The CUDA majors whose runtime library (`libcudart.so.12`) its GPU libraries link without bringing it. One of them
    /// must be torch's.
    pub links_cuda: Vec<u64>,
    /// Platform that the row was read for.
    pub platform: Platform,
    /// Why the row was withdrawn.
    pub yanked: Option<String>,
}

/// The code that releases of a package are built for from source: no build has code for other GPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceCode {
    /// The package.
    pub package: String,
    /// Its releases.
    pub versions: VersionSpecifiers,
    /// The machine code that its build makes at most.
    #[serde(deserialize_with = "machine_code")]
    pub targets: CodeTargets,
}

fn machine_code<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<CodeTargets, D::Error> {
    Ok(CodeTargets { sass: Vec::deserialize(deserializer)?, ptx: Vec::new() })
}

/// Sorts builds, the oldest version first, and infers the wheels of those that state none.
pub fn sort_builds(builds: &mut [Cited<Build>]) {
    let key = |build: &Cited<Build>| (build.version.clone(), build.cuda.clone(), build.platform);
    builds.sort_by_cached_key(key);
    for of_release in builds.chunk_by_mut(|one, other| one.version == other.version) {
        infer_wheels(of_release);
    }
}

/// Sorts companions by package, the oldest version first.
pub fn sort_companions(rows: &mut [Cited<Companion>]) {
    rows.sort_by(|a, b| (&a.package, &a.version).cmp(&(&b.package, &b.version)));
}

/// The variant of a companion on PyPI whose wheel does not name one: that of PyPI's torch that it requires, since pip installs the
/// two together. `None` if it links another CUDA.
pub fn variant_on_pypi(row: &Companion, builds: &[Cited<Build>]) -> Option<String> {
    let bounds = row.torch.as_ref()?;
    let is_beside = |build: &&Cited<Build>| {
        let major = build.cuda.as_ref().map(|cuda| cuda.major);
        build.on_pypi
            && build.platform == row.platform
            && bounds.contains(&build.version)
            && (row.links_cuda.is_empty() || major.is_some_and(|major| row.links_cuda.contains(&major)))
    };
    let variants: BTreeSet<&str> =
        builds.iter().filter(is_beside).map(|build| build.variant.as_str()).collect();
    let mut variants = variants.into_iter();
    variants.next().filter(|_| variants.next().is_none()).map(str::to_owned)
}

/// Gives rows that do not state their wheels the Pythons and the lowest glibc of the release's other builds for the platform,
/// or the Pythons of those for any: a release's builds come from one matrix of Pythons, for which PyTorch's RELEASE.md
/// (`release-md`) states one range.
fn infer_wheels(of_release: &mut [Cited<Build>]) {
    let stated: Vec<_> = of_release
        .iter()
        .map(|build| (build.platform, build.pythons.clone().unwrap_or_default(), build.glibc.clone()))
        .collect();
    for build in of_release.iter_mut().filter(|build| build.pythons.is_none()) {
        let of = |is_meant: &dyn Fn(Platform) -> bool| -> BTreeSet<u32> {
            stated.iter().filter(|own| is_meant(own.0)).flat_map(|(_, pythons, _)| pythons).copied().collect()
        };
        let mut pythons = of(&|platform| platform == build.platform);
        if pythons.is_empty() {
            pythons = of(&|_| true);
        }
        if !pythons.is_empty() {
            let lowest = stated.iter().filter(|own| own.0 == build.platform);
            let lowest = lowest.filter_map(|(_, _, glibc)| glibc.as_ref()).min().cloned();
            build.pythons = Some(pythons.into_iter().collect());
            build.glibc = build.glibc.take().or(lowest);
            build.wheels_inferred = true;
        }
    }
}

/// The keys of a build.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBuild {
    version: Version,
    variant: String,
    platform: Platform,
    index: String,
    #[serde(default)]
    also_on: Vec<String>,
    #[serde(default, deserialize_with = "cuda_option")]
    cuda: Option<Semver>,
    cudnn: Option<DottedVersion>,
    nccl: Option<DottedVersion>,
    triton: Option<String>,
    targets: Option<Vec<CodeTarget>>,
    #[serde(default)]
    ptx: Vec<CodeTarget>,
    targets_evidence: Option<Evidence>,
    #[serde(default)]
    targets_source: Vec<String>,
    python: Option<Vec<String>>,
    requires_python: Option<VersionSpecifiers>,
    glibc: Option<DottedVersion>,
    wheel_bytes: Option<u64>,
    torchvision: Option<Version>,
    torchaudio: Option<Version>,
    yanked: Option<String>,
}

/// The keys of a companion.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompanion {
    package: String,
    version: Version,
    torch: Option<VersionSpecifiers>,
    variant: Option<String>,
    targets: Option<Vec<CodeTarget>>,
    #[serde(default)]
    ptx: Vec<CodeTarget>,
    #[serde(default)]
    links_cuda: Vec<u64>,
    yanked: Option<String>,
    platform: Platform,
}

fn code_targets(sass: Option<Vec<CodeTarget>>, ptx: Vec<CodeTarget>) -> Option<CodeTargets> {
    match sass {
        None if ptx.is_empty() => None,
        sass => Some(CodeTargets { sass: sass.unwrap_or_default(), ptx }),
    }
}

impl TryFrom<RawBuild> for Build {
    type Error = RowError;

    fn try_from(raw: RawBuild) -> Result<Self, RowError> {
        let on_pypi = match raw.index.as_str() {
            "pypi" => true,
            "pytorch" => false,
            other => return Err(format!("`index`: `{other}` is neither `pypi` nor `pytorch`")),
        };
        if matches!(Variant::of(&raw.variant), Variant::Other(_)) {
            return Err(format!("`variant`: `{}` is neither `cpu` nor `cuNNN`", raw.variant));
        }
        if (raw.variant == CPU) != raw.cuda.is_none() {
            return Err("`cuda` must be set if and only if the variant is not `cpu`".to_owned());
        }
        let minor = |tag: &String| tag.strip_prefix("cp3").and_then(|minor| minor.parse().ok());
        let is_tag = |tag: &&String| {
            tag.strip_prefix("cp3").is_some_and(|rest| rest.trim_end_matches('t').parse::<u32>().is_ok())
        };
        if let Some(tag) = raw.python.iter().flatten().find(|tag| !is_tag(tag)) {
            return Err(format!("`python`: `{tag}` is not an ABI tag such as `cp313`"));
        }
        Ok(Build {
            version: raw.version,
            variant: raw.variant,
            platform: raw.platform,
            on_pypi,
            on_pytorch_index: !on_pypi || raw.also_on.iter().any(|i| i == "pytorch"),
            cuda: raw.cuda,
            cudnn: raw.cudnn,
            nccl: raw.nccl,
            triton: raw.triton,
            targets: code_targets(raw.targets, raw.ptx),
            targets_evidence: raw.targets_evidence,
            targets_source: raw.targets_source,
            pythons: raw.python.map(|tags| tags.iter().filter_map(minor).collect()),
            requires_python: raw.requires_python,
            glibc: raw.glibc,
            wheels_inferred: false,
            wheel_bytes: raw.wheel_bytes,
            torchvision: raw.torchvision,
            torchaudio: raw.torchaudio,
            yanked: raw.yanked,
        })
    }
}

impl TryFrom<RawCompanion> for Companion {
    type Error = RowError;

    fn try_from(raw: RawCompanion) -> Result<Self, RowError> {
        Ok(Companion {
            package: raw.package,
            version: raw.version,
            torch: raw.torch,
            variant: raw.variant,
            targets: code_targets(raw.targets, raw.ptx),
            links_cuda: raw.links_cuda,
            platform: raw.platform,
            yanked: raw.yanked,
        })
    }
}
