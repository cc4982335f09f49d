//! The CUDA variants that builds may have.

use std::collections::BTreeSet;

use semver::Version as Semver;

use super::Builds;
use crate::model::variant::{CPU, Variant};
use crate::registry::{Build, Cited};

/// How many minor versions of CUDA beyond the known ones may follow in a major version.
const NEXT_MINORS: u64 = 9;

/// How many major versions.
const NEXT_MAJORS: u64 = 2;

impl<'a> Builds<'a> {
    /// The variants of toolkits that are no newer than those of the oldest known release; of these, the one that is pinned.
    pub(super) fn older_variants(&self, oldest: &[&Cited<Build>]) -> Vec<String> {
        let newest = oldest.iter().filter_map(|build| build.cuda.as_ref()).max();
        let is_older = |variant: &String| match (Variant::of(variant).cuda(), newest) {
            (Some(cuda), Some(newest)) => cuda <= (newest.major, newest.minor),
            (Some(_), None) => false,
            (None, _) => true,
        };
        match &self.variant {
            Some(_) => self.variant.iter().filter(|own| is_older(own)).cloned().collect(),
            None => self.until(newest),
        }
    }

    /// The variants of all toolkits that builds may have.
    pub(super) fn any_variants(&self) -> Vec<String> {
        if self.variant.is_some() {
            return self.variants(&[]);
        }
        let mut all: BTreeSet<String> = self.variants(&self.rows).into_iter().collect();
        all.extend(self.until(self.newest_cuda()));
        all.extend(self.beyond_known());
        all.into_iter().collect()
    }

    /// The variants of toolkits up to one, and the CPU's.
    pub(super) fn until(&self, newest: Option<&Semver>) -> Vec<String> {
        let toolkits = self.question.registry.toolkit_targets().iter().map(|row| &row.cuda);
        let older = toolkits.filter(|cuda| newest.is_some_and(|newest| *cuda <= newest));
        let variants = older.map(|cuda| Variant::Cuda(cuda.major, cuda.minor).to_string());
        variants.chain([CPU.to_owned()]).collect()
    }

    /// The variants that a request asks for by name, or by their CUDA.
    pub(super) fn asked_variants(&self) -> Vec<String> {
        match (&self.variant, &self.question.request.cuda) {
            (Some(variant), _) => vec![variant.clone()],
            // A release beside known ones that are asked for has no CUDA between theirs.
            (None, Some(_)) if self.is_all_unknown() => self.any_variants(),
            (None, _) => Vec::new(),
        }
    }

    /// The variant that is pinned, or those of rows and of newer CUDA, within the limit on CUDA.
    pub(super) fn variants(&self, rows: &[&Cited<Build>]) -> Vec<String> {
        if let Some(variant) = &self.variant {
            return vec![variant.clone()];
        }
        let known: BTreeSet<&String> = rows.iter().map(|build| &build.variant).collect();
        let mut all: Vec<String> = known.into_iter().cloned().collect();
        if all.is_empty() {
            all.push(CPU.to_owned());
        }
        all.extend(self.newer_cuda());
        all
    }

    /// The variants of newer CUDA than known builds have, where the request limits CUDA, or for GPUs that are newer than the code of
    /// known builds: else they answer nothing that those do not.
    pub(super) fn newer_cuda(&self) -> Vec<String> {
        match self.question.request.cuda.is_some() || self.has_newer_gpu() {
            true => self.beyond_known(),
            false => Vec::new(),
        }
    }

    /// The variants of newer CUDA than known builds have, within the limits of the request.
    pub(super) fn beyond_known(&self) -> Vec<String> {
        let limit = self.question.request.cuda.as_ref().map(|limit| &limit.value);
        let Some(newest) = self.newest_cuda().filter(|_| self.variant.is_none()) else { return Vec::new() };
        let minors = (1..=NEXT_MINORS).map(|step| Semver::new(newest.major, newest.minor + step, 0));
        let majors = (1..=NEXT_MAJORS)
            .flat_map(|step| (0..=NEXT_MINORS).map(move |minor| Semver::new(newest.major + step, minor, 0)));
        minors
            .chain(majors)
            .filter(|cuda| limit.is_none_or(|limit| limit.contains(cuda)))
            .map(|cuda| Variant::Cuda(cuda.major, cuda.minor).to_string())
            .collect()
    }

    /// The newest CUDA of known builds, on any platform.
    pub(super) fn newest_cuda(&self) -> Option<&'a Semver> {
        self.question.registry.builds().iter().filter_map(|build| build.cuda.as_ref()).max()
    }

    /// Whether the machine has a GPU that is newer than all that known builds have code for.
    pub(super) fn has_newer_gpu(&self) -> bool {
        let targets = self.rows.iter().filter_map(|build| build.targets.as_ref());
        let newest = targets.flat_map(|targets| targets.sass.iter().map(|target| target.capability)).max();
        let gpus = self.question.host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
        newest.is_some_and(|newest| gpus.into_iter().any(|gpu| gpu > newest))
    }
}
