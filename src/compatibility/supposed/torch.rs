//! Builds of torch that may exist although no row has them.

use std::collections::BTreeSet;

use pep440_rs::{Version, VersionSpecifiers};
use semver::Version as Semver;
use version_ranges::Ranges;

use super::Question;
use super::releases::{admitted, holes, one_of_each, pinned};
use crate::compatibility::ImpossibleVariant;
use crate::compatibility::code::made_for;
use crate::compatibility::unread::{Unread, UnreadBuild};
use crate::model::capability::{CodeTarget, CodeTargets, ComputeCapability, TargetScope};
use crate::model::platform::Platform;
use crate::model::request::Limit;
use crate::model::variant::{CPU, Variant, cuda_of_variant};
use crate::model::version::{DottedRange, DottedVersion};
use crate::registry::{Build, Cited};

/// How many minor versions of CUDA beyond the known ones may follow in a major version.
const NEXT_MINORS: u64 = 9;

/// A build that may exist, and what is said of it.
#[derive(Debug, Clone)]
pub(super) struct Possible {
    pub build: Build,
    pub told: UnreadBuild,
}

/// What is known of torch on the platform of a question, and asked of it.
pub(super) struct Builds<'a> {
    question: Question<'a>,
    bounds: VersionSpecifiers,
    /// The release, if the bounds pin one.
    pinned: Option<Version>,
    releases: Ranges<Version>,
    /// Parts of the releases that companions need.
    needed: &'a [Ranges<Version>],
    /// The variant, if an option or a local version pins one.
    variant: Option<String>,
    rows: Vec<&'a Cited<Build>>,
    known: BTreeSet<Version>,
}

impl<'a> Builds<'a> {
    pub fn new(question: Question<'a>, needed: &'a [Ranges<Version>]) -> Builds<'a> {
        let bounds = question.bounds("torch");
        let platform = question.host.system.platform;
        let rows: Vec<&Cited<Build>> =
            question.registry.builds().iter().filter(|build| build.platform == platform).collect();
        Builds {
            question,
            pinned: pinned(&bounds),
            releases: admitted(&bounds),
            bounds,
            needed,
            // `2.9.0+cu129` pins both.
            variant: question.request.pinned_variant("torch"),
            known: rows.iter().map(|build| build.version.clone()).collect(),
            rows,
        }
    }

    /// The builds that may exist.
    pub fn possible(&self) -> Vec<Possible> {
        let mut found = match self.asked().next() {
            // Nothing is known of what is asked for.
            None => self.of_any(&self.releases_in(&Ranges::full())),
            Some(_) => {
                [self.newer(), self.in_holes(), self.of_other_index(), self.of_other_variants()].concat()
            }
        };
        found.extend(self.older());
        let is_new = |one: &Possible| !self.rows.iter().any(|row| row.is_same_build(&one.build));
        let mut seen = BTreeSet::new();
        found
            .retain(|one| is_new(one) && seen.insert((one.build.version.clone(), one.build.variant.clone())));
        found
    }

    fn platform(&self) -> Platform {
        self.question.host.system.platform
    }

    /// The known builds of releases that are asked for.
    fn asked(&self) -> impl Iterator<Item = &'a Cited<Build>> {
        self.rows.iter().copied().filter(|build| self.is_asked(&build.version))
    }

    fn is_asked(&self, version: &Version) -> bool {
        match &self.pinned {
            Some(pinned) => version == pinned,
            None => self.bounds.contains(version),
        }
    }

    /// The oldest release that the data is about.
    fn oldest(&self) -> Option<Version> {
        self.question.registry.oldest_release("torch", self.platform())
    }

    /// What is asked for of a part, without the known releases.
    fn open(&self, part: &Ranges<Version>) -> Ranges<Version> {
        let known = self.known.iter().cloned().map(Ranges::singleton);
        known.fold(part.intersection(&self.releases), |open, own| open.intersection(&own.complement()))
    }

    /// A release of each open part, and those that companions need.
    fn releases_in(&self, part: &Ranges<Version>) -> BTreeSet<Version> {
        let any = one_of_each(&self.open(part));
        any.into_iter().chain(self.needed_in(part)).filter(|own| !self.known.contains(own)).collect()
    }

    /// Releases of a part that companions need.
    fn needed_in(&self, part: &Ranges<Version>) -> BTreeSet<Version> {
        let open = self.open(part);
        let needed = self.needed.iter().flat_map(|needed| one_of_each(&needed.intersection(&open)));
        needed.filter(|own| !self.known.contains(own)).collect()
    }

    /// Builds of releases of which nothing else is known: any variant, for any Python.
    fn of_any(&self, releases: &BTreeSet<Version>) -> Vec<Possible> {
        let oldest = self.oldest();
        let variants = self.any_variants();
        let mut found = Vec::new();
        for version in releases {
            let known_from = oldest.clone().filter(|oldest| version < oldest);
            let what = if known_from.is_some() { Unread::Older } else { Unread::Build };
            for variant in &variants {
                let told = UnreadBuild { known_from: known_from.clone(), ..self.told(what) };
                found.extend(self.build(version, variant).map(|build| Possible { build, told }));
            }
        }
        found
    }

    /// Releases that are older than the data.
    fn older(&self) -> Vec<Possible> {
        let Some(oldest) = self.oldest() else { return Vec::new() };
        let older = Ranges::strictly_lower_than(oldest.clone());
        // What is asked for is older, and a part of it was read.
        if self.releases.subset_of(&older) {
            return self.of_any(&self.releases_in(&older));
        }
        [self.of_any(&self.needed_in(&older)), self.before(&oldest)].concat()
    }

    /// Releases before the oldest one that is known: of no newer CUDA, for no newer GPUs and Pythons.
    fn before(&self, oldest: &Version) -> Vec<Possible> {
        let rows: Vec<&Cited<Build>> =
            self.rows.iter().copied().filter(|build| build.version == *oldest).collect();
        let newest_cuda = rows.iter().filter_map(|build| build.cuda.as_ref()).max();
        let is_asked = |variant: &String| self.variant.as_ref().is_none_or(|own| own == variant);
        let variants: Vec<String> = self.until(newest_cuda).into_iter().filter(is_asked).collect();
        let pythons = self.pythons(&rows, |minor, (least, _)| minor < least);
        let mut found = Vec::new();
        for version in self.releases_in(&Ranges::strictly_lower_than(oldest.clone())) {
            for variant in &variants {
                let Some(mut build) = self.build(&version, variant) else { continue };
                build.targets = build.cuda.as_ref().map(|cuda| self.code(cuda, &rows));
                build.pythons.clone_from(&pythons);
                let told = UnreadBuild { known_from: Some(oldest.clone()), ..self.told(Unread::Older) };
                found.push(Possible { build, told });
            }
        }
        found
    }

    /// The variants of all toolkits that builds may have.
    fn any_variants(&self) -> Vec<String> {
        if self.variant.is_some() {
            return self.variants(&[]);
        }
        let mut all: BTreeSet<String> = self.variants(&self.rows).into_iter().collect();
        all.extend(self.until(self.newest_cuda()));
        all.extend(self.beyond_known());
        all.into_iter().collect()
    }

    /// The variants of toolkits up to one, and the CPU's.
    fn until(&self, newest: Option<&Semver>) -> Vec<String> {
        let toolkits = self.question.registry.toolkit_targets().iter().map(|row| &row.cuda);
        let older = toolkits.filter(|cuda| newest.is_some_and(|newest| *cuda <= newest));
        let variants = older.map(|cuda| Variant::Cuda(cuda.major, cuda.minor).to_string());
        variants.chain([CPU.to_owned()]).collect()
    }

    /// What a toolkit makes for the GPUs of the machine, and PTX as builds beside have it.
    fn code(&self, cuda: &Semver, beside: &[&Cited<Build>]) -> CodeTargets {
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

    /// Releases that are newer than all known ones: for newer Pythons and with newer libraries, on the machines of the newest one.
    fn newer(&self) -> Vec<Possible> {
        let Some(newest) = self.known.last().filter(|newest| self.is_asked(newest)) else {
            return Vec::new();
        };
        let rows: Vec<&Cited<Build>> = self.asked().filter(|build| build.version == *newest).collect();
        let mut found = Vec::new();
        let pythons = self.pythons(&rows, |minor, (_, most)| minor > most);
        // PyPI's page has those of PyPI.
        if !self.question.has_read_index {
            let told = || UnreadBuild { version: Some(newest.clone()), ..self.told(Unread::Newer) };
            for version in self.releases_in(&Ranges::strictly_higher_than(newest.clone())) {
                let like = rows.iter().map(|row| self.like(row, &version, pythons.as_ref()));
                found.extend(like.map(|build| Possible { build, told: told() }));
                let of_newer_cuda = self.newer_cuda().into_iter().filter_map(|variant| {
                    let mut build = self.build(&version, &variant)?;
                    build.pythons.clone_from(&pythons);
                    Some(Possible { build, told: told() })
                });
                found.extend(of_newer_cuda);
            }
        }
        if self.question.request.cuda.is_some() {
            found.extend(self.of_variants(newest, &rows, &self.newer_cuda(), Unread::Build));
        }
        found
    }

    /// Releases in holes of the data: like those beside them.
    fn in_holes(&self) -> Vec<Possible> {
        // The page has all releases.
        if self.question.has_read_index {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (low, high) in holes(&self.known) {
            let hole = Ranges::strictly_higher_than(low.clone())
                .intersection(&Ranges::strictly_lower_than(high.clone()));
            let is_beside = |build: &&Cited<Build>| build.version == low || build.version == high;
            let rows: Vec<&Cited<Build>> = self.rows.iter().copied().filter(is_beside).collect();
            let pythons = self.pythons(&rows, |minor, (least, most)| least < minor && minor < most);
            for version in self.releases_in(&hole) {
                let like = rows.iter().map(|row| self.like(row, &version, pythons.as_ref()));
                found.extend(like.map(|build| Possible { build, told: self.told(Unread::Build) }));
            }
        }
        found
    }

    /// Builds of known releases on the index of which no row is.
    fn of_other_index(&self) -> Vec<Possible> {
        let mut found = Vec::new();
        let asked: BTreeSet<&Version> = self.asked().map(|build| &build.version).collect();
        let oldest = self.oldest();
        for version in asked {
            let rows: Vec<&Cited<Build>> = self.asked().filter(|build| build.version == *version).collect();
            let is_older = oldest.as_ref().is_some_and(|oldest| version < oldest);
            let lacks_pypi = !self.question.has_read_index
                && self.question.admits("pypi")
                && !rows.iter().any(|build| build.on_pypi);
            let is_own =
                |build: &&&Cited<Build>| build.on_pytorch_index && !build.on_pypi && build.cuda.is_some();
            // Its page was read where PyPI's was, but for releases that are older than the data.
            let lacks_pytorch = (!self.question.has_read_index || is_older)
                && self.question.admits("pytorch")
                && !rows.iter().any(|build| is_own(&build));
            if !lacks_pypi && !lacks_pytorch {
                continue;
            }
            let what = match rows.iter().all(|build| build.cuda.is_none()) && self.variant.is_none() {
                true => Unread::CudaBuild,
                false if !lacks_pypi && self.pinned.is_some() => Unread::OtherIndex,
                false => Unread::Build,
            };
            // Those of the release, and of its neighbours.
            let variants = match is_older {
                true => self.any_variants(),
                false => self.variants(&self.beside(version)),
            };
            found.extend(self.of_variants(version, &rows, &variants, what));
        }
        found
    }

    /// The builds of a release and of the ones before and behind it with builds of their own on the pytorch index.
    fn beside(&self, version: &Version) -> Vec<&'a Cited<Build>> {
        let is_full =
            |build: &&&Cited<Build>| build.on_pytorch_index && !build.on_pypi && build.cuda.is_some();
        let full = || self.rows.iter().filter(is_full).map(|build| &build.version);
        let before = full().filter(|own| *own < version).max();
        let behind = full().filter(|own| *own > version).min();
        let is_one = |own: &Version| own == version || Some(own) == before || Some(own) == behind;
        self.rows.iter().copied().filter(|build| is_one(&build.version)).collect()
    }

    /// Variants of known releases that the request pins, or of the CUDA that it asks for.
    fn of_other_variants(&self) -> Vec<Possible> {
        if !self.question.admits("pytorch") {
            return Vec::new();
        }
        let asked: BTreeSet<&Version> = self.asked().map(|build| &build.version).collect();
        let mut found = Vec::new();
        for version in asked {
            let rows: Vec<&Cited<Build>> = self.asked().filter(|build| build.version == *version).collect();
            let variants = match (&self.variant, &self.pinned) {
                (Some(variant), _) => vec![variant.clone()],
                (None, Some(_)) if self.question.request.cuda.is_some() => self.variants(&self.rows),
                (None, _) => continue,
            };
            found.extend(self.of_variants(version, &rows, &variants, Unread::Build));
        }
        found
    }

    /// Builds of a known release: for the Pythons of its other builds, and as far as PTX goes like those beside it.
    fn of_variants(
        &self,
        version: &Version,
        rows: &[&Cited<Build>],
        variants: &[String],
        what: Unread,
    ) -> Vec<Possible> {
        let pythons = self.pythons(rows, |_, _| false);
        let beside = self.beside(version);
        let build = |variant: &String| {
            let mut build = self.build(version, variant)?;
            build.targets = build.cuda.as_ref().map(|cuda| self.code(cuda, &beside));
            build.pythons.clone_from(&pythons);
            Some(Possible { build, told: self.told(what) })
        };
        variants.iter().filter_map(build).collect()
    }

    /// The variant that is pinned, or those of rows and of newer CUDA, within the limit on CUDA.
    fn variants(&self, rows: &[&Cited<Build>]) -> Vec<String> {
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
    fn newer_cuda(&self) -> Vec<String> {
        match self.question.request.cuda.is_some() || self.has_newer_gpu() {
            true => self.beyond_known(),
            false => Vec::new(),
        }
    }

    /// The variants of newer CUDA than known builds have, within the limits of the request.
    fn beyond_known(&self) -> Vec<String> {
        let limit = self.question.request.cuda.as_ref().map(|limit| &limit.value);
        let Some(newest) = self.newest_cuda().filter(|_| self.variant.is_none()) else { return Vec::new() };
        let minors = (1..=NEXT_MINORS).map(|step| Semver::new(newest.major, newest.minor + step, 0));
        minors
            .chain([Semver::new(newest.major + 1, 0, 0)])
            .filter(|cuda| limit.is_none_or(|limit| limit.contains(cuda)))
            .map(|cuda| Variant::Cuda(cuda.major, cuda.minor).to_string())
            .collect()
    }

    /// The newest CUDA of known builds, on any platform.
    fn newest_cuda(&self) -> Option<&'a Semver> {
        self.question.registry.builds().iter().filter_map(|build| build.cuda.as_ref()).max()
    }

    /// Whether the machine has a GPU that is newer than all that known builds have code for.
    fn has_newer_gpu(&self) -> bool {
        let targets = self.rows.iter().filter_map(|build| build.targets.as_ref());
        let newest = targets.flat_map(|targets| targets.sass.iter().map(|target| target.capability)).max();
        let gpus = self.question.host.gpus.iter().flatten().filter_map(|gpu| gpu.capability);
        newest.is_some_and(|newest| gpus.into_iter().any(|gpu| gpu > newest))
    }

    /// A build of which nothing is known but its names; `None` if the machine runs none of its variant, or no index that may be used
    /// can have it.
    fn build(&self, version: &Version, variant: &str) -> Option<Build> {
        let Question { registry, host, request, has_read_index } = self.question;
        if ImpossibleVariant::of(registry, host, variant).is_some() {
            return None;
        }
        let on_pypi = self.question.admits("pypi") && !has_read_index;
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

    /// A build of another release, for these Pythons, that is like a known one but for newer libraries that the request asks for.
    fn like(&self, row: &Build, version: &Version, pythons: Option<&Vec<u32>>) -> Build {
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

    /// The Pythons of builds, and those of the request that may be beside their oldest and newest ones; `None` if one of the builds may
    /// be for any.
    fn pythons(&self, rows: &[&Cited<Build>], may_be: impl Fn(u32, (u32, u32)) -> bool) -> Option<Vec<u32>> {
        let mut all = BTreeSet::new();
        for row in rows {
            all.extend(row.pythons.as_ref()?.iter().copied());
        }
        let known = (*all.first()?, *all.last()?);
        let asked = self.question.request.pythons(self.question.registry.pythons());
        all.extend(asked.iter().map(|python| python.minor).filter(|minor| may_be(*minor, known)));
        Some(all.into_iter().collect())
    }

    fn told(&self, what: Unread) -> UnreadBuild {
        let has_bounds = self.pinned.is_none() && !self.bounds.is_empty();
        let cuda = self.question.request.cuda.as_ref().filter(|_| self.variant.is_none());
        UnreadBuild {
            what,
            version: self.pinned.clone(),
            bounds: if has_bounds { self.bounds.to_string() } else { String::new() },
            variant: self.variant.clone(),
            cuda: cuda.map(|limit| limit.value.to_string()),
            platform: self.platform(),
            newest: None,
            known_from: None,
            variants: Vec::new(),
        }
    }
}
