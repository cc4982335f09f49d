//! Rows that cannot be wrong: each raw row of [`super::schema`] parsed into the field's types.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl};
use semver::Version as Semver;

use super::schema::*;
use crate::model::capability::{CodeTarget, CodeTargets, ComputeCapability};
use crate::model::evidence::Evidence;
use crate::model::native::Opened;
use crate::model::platform::Platform;
use crate::model::version::{DottedVersion, cuda_version};

/// The registry as a whole.
#[derive(Debug, Clone)]
pub struct Meta {
    /// Format version of the rows.
    pub schema: Semver,
    /// The day up to which releases were looked at, `2026-11-21`.
    pub date: String,
}

/// A version of the PTX language, and the CUDA release from which on drivers compile it.
#[derive(Debug, Clone)]
pub struct PtxIsa {
    /// Major and minor, `(8, 7)`.
    pub isa: (u16, u16),
    /// `12.8.0`.
    pub cuda: Semver,
}

/// The components that a cause can have.
pub const COMPONENTS: [&str; 14] = [
    "driver",
    "gpu-arch",
    "torch-build",
    "cuda-runtime",
    "cudnn",
    "nccl",
    "torchvision-pairing",
    "python",
    "glibc",
    "container",
    "path-shadowing",
    "install-mix",
    "extension-abi",
    "other",
];

/// What a line of a log means.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRule {
    /// A word for programs: the cause's code.
    pub id: String,
    /// The component at fault, one of a closed list (docs/diagnostics.md).
    pub component: String,
    /// Ways to say it; of each, the pieces stand in this order in one line, in lower case.
    pub alternatives: Vec<Vec<String>>,
    /// The cause, one sentence.
    pub cause: String,
    /// Commands that help.
    pub fix: Vec<String>,
    /// How sure the line alone makes, between 0 and 1.
    pub weight: f64,
}

/// What libraries do when they are loaded.
#[derive(Debug, Clone, Default)]
pub(super) struct LoadingRows {
    pub opens: Vec<Opened>,
    pub ptx_isa: Vec<PtxIsa>,
}

/// What is known of Tegra (Jetson) parts.
#[derive(Debug, Clone, Default)]
pub struct Tegra {
    /// Their capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// Which builds there are for them and which there are not, for people.
    pub note: String,
    /// Where the note comes from.
    pub note_source: Vec<String>,
}

/// One build of torch: a version for a platform and a CUDA flavour.
#[derive(Debug, Clone)]
pub struct Build {
    /// Plain version.
    pub version: Version,
    /// Flavour: `cpu`, `cu128`.
    pub variant: String,
    /// Platform of the wheels.
    pub platform: Platform,
    /// Whether PyPI carries it (else a sub-index of the pytorch index).
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
    /// Device code of its own kernels; `None` unknown.
    pub targets: Option<CodeTargets>,
    /// How the targets are known.
    pub targets_evidence: Option<Evidence>,
    /// CPython minors with a wheel (with the global interpreter lock); `None` unknown.
    pub pythons: Option<Vec<u32>>,
    /// `Requires-Python`.
    pub requires_python: Option<VersionSpecifiers>,
    /// Lowest glibc of the wheel's platform tag.
    pub glibc: Option<DottedVersion>,
    /// Size of the largest wheel in bytes.
    pub wheel_bytes: Option<u64>,
    /// torchvision built beside it.
    pub torchvision: Option<Version>,
    /// torchaudio built beside it.
    pub torchaudio: Option<Version>,
    /// How the build's existence is known.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
    /// Why the row was withdrawn.
    pub yanked: Option<String>,
}

impl Build {
    /// The index the build is taken from: `pypi`, or the variant's sub-index `pytorch/cu126`.
    pub fn index(&self) -> String {
        if self.on_pypi { "pypi".to_owned() } else { format!("pytorch/{}", self.variant) }
    }

    /// The release of a companion that was built beside this torch, by its package name.
    pub fn companion(&self, package: &str) -> Option<&Version> {
        match package {
            "torchaudio" => self.torchaudio.as_ref(),
            "torchvision" => self.torchvision.as_ref(),
            _ => None,
        }
    }

    /// The weakest evidence among the facts that decide: existence, and targets where GPUs matter.
    pub fn weakest_evidence(&self, gpus_matter: bool) -> Evidence {
        match self.targets_evidence {
            Some(targets) if gpus_matter => targets.min(self.evidence),
            _ => self.evidence,
        }
    }
}

/// The packages that are built beside torch, release by release.
pub const COMPANIONS: [&str; 2] = ["torchaudio", "torchvision"];

/// A package built beside torch.
#[derive(Debug, Clone)]
pub struct Companion {
    /// `torchvision`, `torchaudio`.
    pub package: String,
    /// Plain version.
    pub version: Version,
    /// The torch it asks for.
    pub torch: Option<VersionSpecifiers>,
    /// The flavour of the wheel on PyPI.
    pub variant: Option<String>,
    /// Device code, where read.
    pub targets: Option<CodeTargets>,
    /// Platform the row was read on.
    pub platform: Platform,
    /// Why it is withdrawn.
    pub yanked: Option<String>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// The driver from which on machine code of a CUDA major runs.
#[derive(Debug, Clone)]
pub struct MinorVersionCompatibility {
    /// CUDA major.
    pub cuda_major: u64,
    /// Lowest Linux driver.
    pub linux: DottedVersion,
    /// Lowest Windows driver.
    pub windows: Option<DottedVersion>,
    /// Source ids.
    pub source: Vec<String>,
}

/// A toolkit release and its own driver.
#[derive(Debug, Clone)]
pub struct ToolkitDriver {
    /// Three-part version.
    pub version: Semver,
    /// Driver branch it came with.
    pub driver_branch: u32,
    /// Linux driver, where a number is stated.
    pub linux: Option<DottedVersion>,
    /// Windows driver.
    pub windows: Option<DottedVersion>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// What a toolkit series can compile for.
#[derive(Debug, Clone)]
pub struct ToolkitTargets {
    /// Series, `12.8`.
    pub cuda: Semver,
    /// Lowest capability.
    pub min: ComputeCapability,
    /// Highest capability.
    pub max: ComputeCapability,
    /// The full list, where measured.
    pub targets: Option<Vec<CodeTarget>>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// A cuda-compat package: the user-mode driver of a newer CUDA for kernel drivers of older branches.
#[derive(Debug, Clone)]
pub struct ForwardCompatibility {
    /// `cuda-compat-12-4`.
    pub package: String,
    /// The CUDA whose programs run with it, natively.
    pub cuda: Semver,
    /// The branches of kernel drivers that it runs on.
    pub bases: Vec<u32>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

/// A driver branch.
#[derive(Debug, Clone)]
pub struct Branch {
    /// Number: 535.
    pub branch: u32,
    /// Newest CUDA it runs natively.
    pub cuda: Semver,
    /// `LTS`, `production`, `new feature`.
    pub kind: Option<String>,
    /// Month of its end of life, or `ended`.
    pub end_of_life: Option<String>,
    /// Source ids.
    pub source: Vec<String>,
}

/// A GPU architecture and the driver branches that know it.
#[derive(Debug, Clone)]
pub struct Architecture {
    /// `Volta`.
    pub name: String,
    /// Its capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// First branch; where known, `inferred`.
    pub first_branch: Option<u32>,
    /// Last branch, documented.
    pub last_branch: Option<u32>,
    /// Source ids.
    pub source: Vec<String>,
}

/// From a cuDNN release on, the lowest capability.
#[derive(Debug, Clone)]
pub struct CudnnFloor {
    /// First release it holds for.
    pub from: DottedVersion,
    /// Lowest capability.
    pub min: ComputeCapability,
    /// Source ids.
    pub source: Vec<String>,
}

/// A cuDNN release.
#[derive(Debug, Clone)]
pub struct CudnnRelease {
    /// Four-part version.
    pub version: DottedVersion,
    /// CUDA majors it is built for; empty unknown.
    pub cuda_majors: Vec<u64>,
    /// Source ids.
    pub source: Vec<String>,
}

/// A GPU product.
#[derive(Debug, Clone)]
pub struct GpuRow {
    /// Product name.
    pub name: String,
    /// Capability.
    pub capability: ComputeCapability,
    /// `datacenter`, `geforce`, `workstation`, `jetson`, `mining`.
    pub class: Option<String>,
    /// PCI device ids of vendor 10de.
    pub pci: Vec<String>,
    /// Source ids.
    pub source: Vec<String>,
}

/// What an advisory does.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Limits another package where both are chosen.
    Constrain(Box<Requirement<VerbatimUrl>>),
    /// Is said.
    Warn,
}

/// Something true that no metadata says.
#[derive(Debug, Clone)]
pub struct Advisory {
    /// Id.
    pub id: String,
    /// What it does.
    pub effect: Effect,
    /// The package it is about.
    pub package: String,
    /// Its versions.
    pub versions: VersionSpecifiers,
    /// Only there.
    pub platform: Option<Platform>,
    /// Only for these capabilities; empty: all.
    pub capabilities: Vec<ComputeCapability>,
    /// The sentence.
    pub text: String,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}

#[derive(Debug)]
pub(super) struct CudaRows {
    pub compatibility: Vec<MinorVersionCompatibility>,
    pub toolkits: Vec<ToolkitDriver>,
    pub targets: Vec<ToolkitTargets>,
}

#[derive(Debug)]
pub(super) struct DriverRows {
    pub branches: Vec<Branch>,
    pub forward: Vec<ForwardCompatibility>,
    pub architectures: Vec<Architecture>,
}

#[derive(Debug)]
pub(super) struct CudnnRows {
    pub floors: Vec<CudnnFloor>,
    pub releases: Vec<CudnnRelease>,
}

/// The text of what is wrong with a row.
pub(super) type RowError = String;

fn parse<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, RowError> {
    text.parse().map_err(|_| format!("`{field}`: `{}` does not parse", crate::model::text::clean(text, 80)))
}

fn parse_option<T: std::str::FromStr>(field: &str, text: Option<&str>) -> Result<Option<T>, RowError> {
    text.map(|t| parse(field, t)).transpose()
}

fn cuda(field: &str, text: &str) -> Result<Semver, RowError> {
    cuda_version(text).map_err(|e| format!("`{field}`: {e}"))
}

fn code_targets(sass: Option<&[String]>, ptx: &[String]) -> Result<Option<CodeTargets>, RowError> {
    let list = |field: &str, l: &[String]| -> Result<Vec<CodeTarget>, RowError> {
        l.iter().map(|t| parse(field, t)).collect()
    };
    match sass {
        None if ptx.is_empty() => Ok(None),
        sass => {
            Ok(Some(CodeTargets { sass: list("targets", sass.unwrap_or_default())?, ptx: list("ptx", ptx)? }))
        }
    }
}

impl TryFrom<&MetaFile> for Meta {
    type Error = RowError;

    fn try_from(raw: &MetaFile) -> Result<Self, RowError> {
        let schema: Semver = parse("schema", &raw.schema)?;
        let understood = semver::VersionReq::parse("^1").expect("a constant");
        if !understood.matches(&schema) {
            return Err(format!("the registry has format {schema}, this program reads {understood}"));
        }
        if raw.date.len() != 10 {
            return Err(format!("`date`: `{}` is not a day", crate::model::text::clean(&raw.date, 40)));
        }
        Ok(Meta { schema, date: raw.date.clone() })
    }
}

impl TryFrom<&RawBuild> for Build {
    type Error = RowError;

    fn try_from(raw: &RawBuild) -> Result<Self, RowError> {
        let on_pypi = match raw.index.as_str() {
            "pypi" => true,
            "pytorch" => false,
            other => return Err(format!("`index`: `{other}` is neither `pypi` nor `pytorch`")),
        };
        let variant_ok = raw.variant == "cpu"
            || raw
                .variant
                .strip_prefix("cu")
                .is_some_and(|d| d.len() >= 2 && d.bytes().all(|b| b.is_ascii_digit()));
        if !variant_ok {
            return Err(format!("`variant`: `{}` is neither `cpu` nor `cuNNN`", raw.variant));
        }
        if (raw.variant == "cpu") != raw.cuda.is_none() {
            return Err("`cuda` stands exactly where the variant is not `cpu`".to_owned());
        }
        let pythons = raw.python.as_ref().map(|tags| {
            tags.iter().filter_map(|t| t.strip_prefix("cp3")).filter_map(|minor| minor.parse().ok()).collect()
        });
        Ok(Build {
            version: parse("version", &raw.version)?,
            variant: raw.variant.clone(),
            platform: parse("platform", &raw.platform)?,
            on_pypi,
            on_pytorch_index: !on_pypi || raw.also_on.iter().any(|i| i == "pytorch"),
            cuda: raw.cuda.as_deref().map(|t| cuda("cuda", t)).transpose()?,
            cudnn: parse_option("cudnn", raw.cudnn.as_deref())?,
            nccl: parse_option("nccl", raw.nccl.as_deref())?,
            triton: raw.triton.clone(),
            targets: code_targets(raw.targets.as_deref(), &raw.ptx)?,
            targets_evidence: raw.targets_evidence,
            pythons,
            requires_python: parse_option("requires_python", raw.requires_python.as_deref())?,
            glibc: parse_option("glibc", raw.glibc.as_deref())?,
            wheel_bytes: raw.wheel_bytes,
            torchvision: parse_option("torchvision", raw.torchvision.as_deref())?,
            torchaudio: parse_option("torchaudio", raw.torchaudio.as_deref())?,
            evidence: raw.evidence,
            source: raw.source.clone(),
            yanked: raw.yanked.clone(),
        })
    }
}

impl TryFrom<&RawCompanion> for Companion {
    type Error = RowError;

    fn try_from(raw: &RawCompanion) -> Result<Self, RowError> {
        Ok(Companion {
            package: raw.package.clone(),
            version: parse("version", &raw.version)?,
            torch: parse_option("torch", raw.torch.as_deref())?,
            variant: raw.variant.clone(),
            targets: code_targets(raw.targets.as_deref(), &raw.ptx)?,
            platform: parse("platform", &raw.platform)?,
            yanked: raw.yanked.clone(),
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawCompatibility> for MinorVersionCompatibility {
    type Error = RowError;

    fn try_from(raw: &RawCompatibility) -> Result<Self, RowError> {
        Ok(MinorVersionCompatibility {
            cuda_major: raw.cuda_major,
            linux: parse("linux", &raw.linux)?,
            windows: parse_option("windows", raw.windows.as_deref())?,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawToolkit> for ToolkitDriver {
    type Error = RowError;

    fn try_from(raw: &RawToolkit) -> Result<Self, RowError> {
        Ok(ToolkitDriver {
            version: cuda("version", &raw.version)?,
            driver_branch: raw.driver_branch,
            linux: parse_option("linux", raw.linux.as_deref())?,
            windows: parse_option("windows", raw.windows.as_deref())?,
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawTargets> for ToolkitTargets {
    type Error = RowError;

    fn try_from(raw: &RawTargets) -> Result<Self, RowError> {
        Ok(ToolkitTargets {
            cuda: cuda("cuda", &raw.cuda)?,
            min: parse("capability_min", &raw.capability_min)?,
            max: parse("capability_max", &raw.capability_max)?,
            targets: raw
                .targets
                .as_ref()
                .map(|l| l.iter().map(|t| parse("targets", t)).collect())
                .transpose()?,
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawForwardCompatibility> for ForwardCompatibility {
    type Error = RowError;

    fn try_from(raw: &RawForwardCompatibility) -> Result<Self, RowError> {
        Ok(ForwardCompatibility {
            package: raw.package.clone(),
            cuda: cuda("cuda", &raw.cuda)?,
            bases: raw.bases.clone(),
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawBranch> for Branch {
    type Error = RowError;

    fn try_from(raw: &RawBranch) -> Result<Self, RowError> {
        Ok(Branch {
            branch: raw.branch,
            cuda: cuda("cuda", &raw.cuda)?,
            kind: raw.kind.clone(),
            end_of_life: raw.end_of_life.clone(),
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawArchitecture> for Architecture {
    type Error = RowError;

    fn try_from(raw: &RawArchitecture) -> Result<Self, RowError> {
        if raw.first_branch.is_some() != raw.first_branch_evidence.is_some() {
            return Err("`first_branch` and `first_branch_evidence` come together".to_owned());
        }
        Ok(Architecture {
            name: raw.name.clone(),
            capabilities: raw
                .capabilities
                .iter()
                .map(|c| parse("capabilities", c))
                .collect::<Result<_, _>>()?,
            first_branch: raw.first_branch,
            last_branch: raw.last_branch,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawFloor> for CudnnFloor {
    type Error = RowError;

    fn try_from(raw: &RawFloor) -> Result<Self, RowError> {
        Ok(CudnnFloor {
            from: parse("from", &raw.from)?,
            min: parse("capability_min", &raw.capability_min)?,
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawRelease> for CudnnRelease {
    type Error = RowError;

    fn try_from(raw: &RawRelease) -> Result<Self, RowError> {
        Ok(CudnnRelease {
            version: parse("version", &raw.version)?,
            cuda_majors: raw.cuda_majors.clone(),
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawGpu> for GpuRow {
    type Error = RowError;

    fn try_from(raw: &RawGpu) -> Result<Self, RowError> {
        Ok(GpuRow {
            name: raw.name.clone(),
            capability: parse("capability", &raw.capability)?,
            class: raw.class.clone(),
            pci: raw.pci.clone(),
            source: raw.source.clone(),
        })
    }
}

impl TryFrom<&RawErrorRule> for ErrorRule {
    type Error = RowError;

    fn try_from(raw: &RawErrorRule) -> Result<Self, RowError> {
        if !COMPONENTS.contains(&raw.component.as_str()) {
            return Err(format!("`{}` is no component", raw.component));
        }
        if !(0.0..=1.0).contains(&raw.weight) {
            return Err("`weight` is between 0 and 1".to_owned());
        }
        let alternatives: Vec<Vec<String>> = raw
            .matches
            .iter()
            .map(|text| text.to_lowercase().split(" ... ").map(str::to_owned).collect())
            .collect();
        if alternatives.is_empty() || alternatives.iter().flatten().any(String::is_empty) {
            return Err("`match` has nothing to look for".to_owned());
        }
        Ok(ErrorRule {
            id: raw.id.clone(),
            component: raw.component.clone(),
            alternatives,
            cause: raw.cause.clone(),
            fix: raw.fix.clone(),
            weight: raw.weight,
        })
    }
}

impl TryFrom<&RawOpens> for Opened {
    type Error = RowError;

    fn try_from(raw: &RawOpens) -> Result<Self, RowError> {
        Ok(Opened {
            by: raw.by.clone(),
            name: raw.name.clone(),
            from: parse_option("from", raw.from.as_deref())?,
            required: raw.required,
        })
    }
}

impl TryFrom<&RawPtxIsa> for PtxIsa {
    type Error = RowError;

    fn try_from(raw: &RawPtxIsa) -> Result<Self, RowError> {
        let (major, minor) = raw.isa.split_once('.').ok_or("`isa` is like `8.7`")?;
        Ok(PtxIsa {
            isa: (parse("isa", major)?, parse("isa", minor)?),
            cuda: cuda_version(&raw.cuda).map_err(|e| format!("`cuda`: {e}"))?,
        })
    }
}

impl From<RawTegra> for Tegra {
    fn from(raw: RawTegra) -> Tegra {
        Tegra {
            capabilities: raw.capabilities.iter().filter_map(|c| c.parse().ok()).collect(),
            note: raw.note,
            note_source: raw.note_source,
        }
    }
}

impl TryFrom<&RawPython> for u32 {
    type Error = RowError;

    fn try_from(raw: &RawPython) -> Result<Self, RowError> {
        parse::<crate::model::wheel::Python>("version", &raw.version).map(|p| p.minor)
    }
}

impl TryFrom<&RawAdvisory> for Advisory {
    type Error = RowError;

    fn try_from(raw: &RawAdvisory) -> Result<Self, RowError> {
        let effect = match (raw.effect.as_str(), &raw.requires) {
            ("constrain", Some(text)) => Effect::Constrain(Box::new(parse("requires", text)?)),
            ("warn", None) => Effect::Warn,
            _ => return Err("`effect` is `warn`, or `constrain` with `requires`".to_owned()),
        };
        Ok(Advisory {
            id: raw.id.clone(),
            effect,
            package: raw.package.clone(),
            versions: parse("versions", &raw.versions)?,
            platform: parse_option("platform", raw.platform.as_deref())?,
            capabilities: raw
                .capabilities
                .iter()
                .map(|c| parse("capabilities", c))
                .collect::<Result<_, _>>()?,
            text: raw.text.clone(),
            evidence: raw.evidence,
            source: raw.source.clone(),
        })
    }
}
