//! Reads what a release of a framework other than torch was built with. What its wheel does not say is as in a known release beside
//! it: where its CUDA comes from, and how it is asked for.

use std::io::{Read, Seek};

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};
use pep508_rs::VersionOrUrl;
use semver::Version as Semver;

use super::build_info::{self, BuildInfo};
use super::{LearnError, MAX_TEXT, Metadata, requirements};
use crate::inspect;
use crate::model::capability::CodeTargets;
use crate::model::evidence::Evidence;
use crate::model::nvidia::{is_cuda_runtime, is_cudnn};
use crate::model::version::{DottedVersion, cuda_version};
use crate::registry::{Cited, CudaFrom, FrameworkBuild, LEARNED_SOURCE};

/// The record that TensorFlow's build writes.
const BUILD_INFO: &str = "tensorflow/python/platform/build_info.py";

/// What the wheel of a framework says of its build. With its GPU code, which may be in another wheel, it is a row.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedFramework {
    version: Version,
    cuda: Semver,
    cudnn: Option<DottedVersion>,
    /// How its CUDA is known.
    evidence: Evidence,
    /// The known release that it is like.
    like: FrameworkBuild,
}

impl LearnedFramework {
    /// The package of the same release that has its GPU code, if it has none itself.
    pub fn code_in(&self) -> Option<&str> {
        self.like.code_in.as_deref()
    }

    /// The name of the framework: `jax`.
    pub fn name(&self) -> &str {
        &self.like.framework
    }

    /// The CUDA that it was built with.
    pub fn cuda(&self) -> &Semver {
        &self.cuda
    }

    /// The lowest cuDNN that it takes.
    pub fn cudnn(&self) -> Option<&DottedVersion> {
        self.cudnn.as_ref()
    }

    /// The row.
    pub fn row(&self, targets: CodeTargets) -> Cited<FrameworkBuild> {
        let pin = VersionSpecifier::equals_version(self.version.clone());
        let build = FrameworkBuild {
            versions: VersionSpecifiers::from(pin),
            cuda: self.cuda.clone(),
            cudnn: self.cudnn.clone(),
            targets,
            targets_evidence: Evidence::Measured,
            ..self.like.clone()
        };
        Cited::new(build, self.evidence, vec![LEARNED_SOURCE.to_owned()])
    }
}

/// The known release that a wheel is like: one whose extra brings its CUDA, where the wheel has that extra.
pub(super) fn fitting<'f>(known: &'f [FrameworkBuild], metadata: &Metadata) -> Option<&'f FrameworkBuild> {
    let by_extra =
        known.iter().find(|like| matches!(like.cuda_from, CudaFrom::Extra(_)) && fits(like, metadata));
    let fitting = by_extra.or_else(|| known.iter().find(|like| fits(like, metadata)));
    fitting.or(known.first())
}

/// Whether a wheel has the extra that brings the CUDA of a known release.
fn fits(like: &FrameworkBuild, metadata: &Metadata) -> bool {
    match &like.cuda_from {
        CudaFrom::Extra(extra) => metadata.core.extras().any(|own| own == extra),
        CudaFrom::Packages | CudaFrom::System => true,
    }
}

/// What a wheel says of its build, and its GPU code, where it lists that.
pub(super) fn read<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    (metadata, version): (&Metadata, &Version),
    like: &FrameworkBuild,
) -> Result<(LearnedFramework, Option<CodeTargets>), LearnError> {
    let text = inspect::text_of_wheel(archive, BUILD_INFO, MAX_TEXT)?;
    let says = text.map(|text| build_info::parse(&text)).unwrap_or_default();
    let name = format!("{} {version}", like.package);
    if says.is_cuda_build == Some(false) {
        return Err(LearnError::NoCode(name));
    }
    if !fits(like, metadata) {
        return Err(LearnError::Missing(format!("where the CUDA of {name} comes from is not known")));
    }
    let (cuda, evidence) = cuda(&says, metadata, like)
        .ok_or_else(|| LearnError::Missing(format!("{name} does not say with which CUDA it was built")))?;
    let cudnn = lowest(metadata, is_cudnn).or_else(|| like.cudnn.clone());
    let learned = LearnedFramework { version: version.clone(), cuda, cudnn, evidence, like: like.clone() };
    Ok((learned, says.targets()))
}

/// The CUDA of its record; else the lowest that it takes, which is no older than that of the release before it.
fn cuda(says: &BuildInfo, metadata: &Metadata, known: &FrameworkBuild) -> Option<(Semver, Evidence)> {
    if let Some(cuda) = says.cuda.as_deref().and_then(|text| cuda_version(text).ok()) {
        return Some((Semver::new(cuda.major, cuda.minor, 0), Evidence::Measured));
    }
    let lowest = lowest(metadata, is_cuda_runtime)?;
    let lowest = Semver::new(lowest.major().into(), lowest.minor().into(), 0);
    (lowest.major == known.cuda.major).then(|| (lowest.max(known.cuda.clone()), Evidence::Inferred))
}

/// The lowest release, as major and minor, of a package that it requires in whatever extra.
fn lowest(metadata: &Metadata, is_it: impl Fn(&str) -> bool) -> Option<DottedVersion> {
    let bounds =
        requirements(metadata).filter(|r| is_it(r.name.as_ref())).filter_map(|r| match r.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(bounds)) => Some(bounds),
            _ => None,
        });
    let is_lower = |one: &VersionSpecifier| {
        matches!(one.operator(), Operator::GreaterThanEqual | Operator::Equal | Operator::TildeEqual)
    };
    let of = |bounds: VersionSpecifiers| {
        bounds.iter().filter(|one| is_lower(one)).map(|one| one.version().clone()).max()
    };
    let version = bounds.filter_map(of).max()?;
    let parts: Vec<String> = version.release().iter().take(2).map(ToString::to_string).collect();
    parts.join(".").parse().ok()
}
