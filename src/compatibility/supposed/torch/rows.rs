//! Rows of builds that may exist, as far as those beside them bound them.

use std::collections::BTreeSet;

use pep440_rs::Version;
use semver::Version as Semver;
use version_ranges::Ranges;

use super::Builds;
use crate::compatibility::ImpossibleVariant;
use crate::compatibility::code::made_for;
use crate::compatibility::supposed::Question;
use crate::model::capability::{CodeTarget, CodeTargets, ComputeCapability, TargetScope};
use crate::model::request::Limit;
use crate::model::variant::cuda_of_variant;
use crate::model::version::{DottedRange, DottedVersion};
use crate::registry::{Build, Cited};

impl Builds<'_> {
    /// What a toolkit makes for the GPUs of the machine, and PTX as builds beside have it.
    pub(super) fn code(&self, cuda: &Semver, beside: &[&Cited<Build>]) -> CodeTargets {
        let gpus = self.question.host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
        let registry = self.question.registry;
        let is_made = |gpu: &ComputeCapability| {
            made_for(registry, cuda, *gpu) != Some(false) && !registry.tegra().without_wheels.contains(gpu)
        };
        let sass = gpus.filter(is_made);
        let sass = sass.map(|capability| CodeTarget { capability, scope: TargetScope::Exact }).collect();
        let known = beside.iter().filter_map(|build| build.targets.as_ref());
        CodeTargets { sass, ptx: known.flat_map(|targets| targets.ptx.iter().copied()).collect() }
    }

    /// Builds of a release like known ones, and of more variants.
    pub(super) fn like_all(
        &self,
        rows: &[&Cited<Build>],
        version: &Version,
        pythons: Option<&Vec<u32>>,
        variants: &[String],
    ) -> Vec<Build> {
        let has_read_index = self.question.has_read_index;
        let known = rows.iter().filter(|row| !has_read_index || row.on_pytorch_index);
        let alike = known
            .map(|row| Build { on_pypi: row.on_pypi && !has_read_index, ..self.like(row, version, pythons) });
        let others = variants.iter().filter_map(|variant| self.beside_known(version, variant, rows, pythons));
        alike.chain(others).collect()
    }

    /// A build of a variant, for these Pythons and with PTX as known builds have it.
    pub(super) fn beside_known(
        &self,
        version: &Version,
        variant: &str,
        rows: &[&Cited<Build>],
        pythons: Option<&Vec<u32>>,
    ) -> Option<Build> {
        let build = self.build(version, variant)?;
        let targets = build.cuda.as_ref().map(|cuda| self.code(cuda, rows));
        Some(Build { targets, pythons: pythons.cloned(), ..build })
    }

    /// A build of which nothing is known but its names; `None` if the machine runs none of its variant, or no index that may be used
    /// can have it.
    pub(super) fn build(&self, version: &Version, variant: &str) -> Option<Build> {
        let Question { registry, host, request, .. } = self.question;
        if ImpossibleVariant::of(registry, host, variant).is_some() {
            return None;
        }
        let on_pypi = self.question.admits("pypi") && self.may_be_on_pypi(version);
        let on_pytorch_index = self.question.admits("pytorch");
        let library = |limit: &Option<Limit<DottedRange>>, own: fn(&Build) -> Option<&DottedVersion>| {
            let known = || self.rows.iter().filter_map(|build| own(build));
            let limit = &limit.as_ref()?.value;
            let fits = known().filter(|version| limit.contains(version)).max().cloned();
            fits.or_else(|| limit.one_above(known().max()))
        };
        (on_pypi || on_pytorch_index).then(|| Build {
            version: version.clone(),
            variant: variant.to_owned(),
            platform: self.platform(),
            on_pypi,
            on_pytorch_index,
            cuda: cuda_of_variant(variant).map(|(major, minor)| Semver::new(major, minor, 0)),
            cudnn: library(&request.cudnn, |build| build.cudnn.as_ref()),
            nccl: library(&request.nccl, |build| build.nccl.as_ref()),
            triton: None,
            targets: None,
            targets_evidence: None,
            pythons: None,
            requires_python: None,
            // Every wheel needs some.
            glibc: self.rows.iter().filter_map(|build| build.glibc.as_ref()).min().cloned(),
            wheels_inferred: true,
            wheel_bytes: None,
            torchvision: None,
            torchaudio: None,
            targets_source: Vec::new(),
            yanked: None,
        })
    }

    /// Whether PyPI may have a build that no row has: its pages were not read, or not for what is older than the data, which is read
    /// where the request admits nothing else.
    fn may_be_on_pypi(&self, version: &Version) -> bool {
        let older = self.oldest().map_or_else(Ranges::empty, Ranges::strictly_lower_than);
        !self.question.has_read_index || older.contains(version) && !self.releases.subset_of(&older)
    }

    /// A build of another release, for these Pythons, that is like a known one but for newer libraries that the request asks for.
    pub(super) fn like(&self, row: &Build, version: &Version, pythons: Option<&Vec<u32>>) -> Build {
        let newer = |limit: &Option<Limit<DottedRange>>, own: fn(&Build) -> Option<&DottedVersion>| {
            let known = || self.rows.iter().filter_map(|build| own(build));
            let limit = &limit.as_ref()?.value;
            let is_known = known().any(|version| limit.contains(version));
            if is_known { None } else { limit.one_above(known().max()) }
        };
        let request = self.question.request;
        Build {
            version: version.clone(),
            pythons: pythons.cloned(),
            requires_python: None,
            cudnn: newer(&request.cudnn, |build| build.cudnn.as_ref()).or_else(|| row.cudnn.clone()),
            nccl: newer(&request.nccl, |build| build.nccl.as_ref()).or_else(|| row.nccl.clone()),
            torchvision: None,
            torchaudio: None,
            ..row.clone()
        }
    }

    /// A build of a release between two of its variant: what one of them runs on, it may run on.
    pub(super) fn like_both(
        &self,
        before: &Build,
        behind: Option<&Cited<Build>>,
        version: &Version,
        pythons: Option<&Vec<u32>>,
    ) -> Build {
        let mut build = self.like(before, version, pythons);
        let Some(behind) = behind else { return build };
        // The lower one, or none where one states none.
        build.glibc = build.glibc.take().zip(behind.glibc.clone()).map(|(one, other)| one.min(other));
        build.targets = build.targets.take().zip(behind.targets.as_ref()).map(|(mut all, more)| {
            all.sass.extend(&more.sass);
            all.ptx.extend(&more.ptx);
            all
        });
        build
    }

    /// The Pythons of builds, and those of the request that may be beside their oldest and newest ones; `None` if one of the builds may
    /// be for any.
    pub(super) fn pythons(
        &self,
        rows: &[&Cited<Build>],
        may_be: impl Fn(u32, (u32, u32)) -> bool,
    ) -> Option<Vec<u32>> {
        let mut all = BTreeSet::new();
        for row in rows {
            all.extend(row.pythons.as_ref()?.iter().copied());
        }
        let known = (*all.first()?, *all.last()?);
        let asked = self.question.request.pythons(self.question.registry.pythons());
        all.extend(asked.iter().map(|python| python.minor).filter(|minor| may_be(*minor, known)));
        Some(all.into_iter().collect())
    }
}
