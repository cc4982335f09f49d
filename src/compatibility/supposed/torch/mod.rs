//! Builds of torch that may exist although no row has them.

mod rows;
mod variants;

use std::collections::BTreeSet;

use pep440_rs::{Version, VersionSpecifiers};
use version_ranges::Ranges;

use super::releases::{admitted, holes, one_of_each, pinned};
use super::{Question, span};
use crate::compatibility::unread::{Unread, UnreadBuild};
use crate::model::platform::Platform;
use crate::model::version::minor_line;
use crate::registry::{Build, Cited};

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
        let listed: Vec<&Version> = question.registry.listed_releases().collect();
        let listed = ended(&rows, listed);
        Builds {
            question,
            pinned: pinned(&bounds),
            releases: admitted(&bounds),
            bounds,
            needed,
            // `2.9.0+cu129` pins both.
            variant: question.request.pinned_variant("torch"),
            known: rows.iter().map(|build| build.version.clone()).chain(listed).collect(),
            rows,
        }
    }

    /// The builds that may exist.
    pub fn possible(&self) -> Vec<Possible> {
        let mut found = match self.rows.is_empty() {
            true => self.of_any(),
            false => {
                let of_known = [self.of_other_index(), self.of_other_variants(), self.of_missing_variants()];
                [self.before(), self.between(), self.newer(), of_known.concat()].concat()
            }
        };
        let is_new = |one: &Possible| !self.rows.iter().any(|row| row.is_same_build(&one.build));
        let mut seen = BTreeSet::new();
        found.retain(|one| {
            self.question.admits(if one.build.on_pypi { "pypi" } else { "pytorch" })
                && is_new(one)
                && seen.insert((one.build.version.clone(), one.build.variant.clone()))
        });
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
        let open = self.open(part);
        let needed = self.needed.iter().flat_map(|needed| one_of_each(&needed.intersection(&open)));
        one_of_each(&open).into_iter().chain(needed).filter(|own| !self.known.contains(own)).collect()
    }

    /// Whether nothing is known of what is asked for.
    fn is_all_unknown(&self) -> bool {
        self.asked().next().is_none()
    }

    /// Builds of a platform of which nothing is known.
    fn of_any(&self) -> Vec<Possible> {
        let variants = self.any_variants();
        let mut found = Vec::new();
        for version in self.releases_in(&Ranges::full()) {
            let of_variants = variants.iter().filter_map(|variant| self.build(&version, variant));
            found.extend(of_variants.map(|build| Possible { build, told: self.told(Unread::Build) }));
        }
        found
    }

    /// Releases before the oldest one that is known: of no newer CUDA, for no newer GPUs and Pythons.
    fn before(&self) -> Vec<Possible> {
        let Some(oldest) = self.oldest() else { return Vec::new() };
        let rows = self.of_release(&oldest);
        let variants = self.older_variants(&rows);
        let pythons = self.pythons(&rows, |minor, (least, _)| minor < least);
        let mut found = Vec::new();
        for version in self.releases_in(&Ranges::strictly_lower_than(oldest.clone())) {
            let of_variants = variants.iter().filter_map(|variant| {
                let build = self.beside_known(&version, variant, &rows, pythons.as_ref())?;
                let told = UnreadBuild { known_from: Some(oldest.clone()), ..self.told(Unread::Older) };
                Some(Possible { build, told })
            });
            found.extend(of_variants);
        }
        found
    }

    fn of_release(&self, version: &Version) -> Vec<&'a Cited<Build>> {
        self.rows.iter().copied().filter(|build| build.version == *version).collect()
    }

    /// Releases that are newer than all known ones: for newer Pythons and with newer libraries, on the machines of the newest one.
    fn newer(&self) -> Vec<Possible> {
        let Some(newest) = self.known.last() else { return Vec::new() };
        let own = self.of_release(newest);
        // What is not listed for the platform ended there.
        if own.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        if self.question.request.cuda.is_some() && self.is_asked(newest) {
            found.extend(self.of_variants(newest, &own, &self.newer_cuda(), Unread::Build));
        }
        // PyPI's page has those of PyPI.
        let is_all_unknown = self.is_all_unknown();
        if self.question.has_read_index && !is_all_unknown {
            return found;
        }
        // One that was read of PyPI alone has others on the pytorch index, as the one before.
        let rows = if own.iter().any(|build| is_own_of_pytorch(build)) { own } else { self.beside(newest) };
        let told = match is_all_unknown {
            true => self.told(Unread::Build),
            false => UnreadBuild { version: Some(newest.clone()), ..self.told(Unread::Newer) },
        };
        let pythons = self.pythons(&rows, |minor, (_, most)| minor > most);
        let mut variants = self.asked_variants();
        variants.extend(self.newer_cuda());
        if rows.iter().all(|build| build.cuda.is_none()) {
            variants.extend(self.any_variants());
        }
        for version in self.releases_in(&Ranges::strictly_higher_than(newest.clone())) {
            let builds = self.like_all(&rows, &version, pythons.as_ref(), &variants);
            found.extend(builds.into_iter().map(|build| Possible { build, told: told.clone() }));
        }
        found
    }

    /// Releases between known ones, where a number is missing or nothing else is asked for: like those beside them.
    fn between(&self) -> Vec<Possible> {
        let is_all_unknown = self.is_all_unknown();
        // The page has all releases.
        if self.question.has_read_index && !is_all_unknown {
            return Vec::new();
        }
        let gaps = match is_all_unknown {
            true => self.known.iter().cloned().zip(self.known.iter().skip(1).cloned()).collect(),
            false => holes(&self.known),
        };
        let mut found = Vec::new();
        for (low, high) in gaps {
            let gap = Ranges::strictly_higher_than(low.clone())
                .intersection(&Ranges::strictly_lower_than(high.clone()));
            let releases = self.releases_in(&gap);
            if releases.is_empty() {
                continue;
            }
            let rows = [self.of_release(&low), self.of_release(&high)].concat();
            let pythons = self.pythons(&rows, |minor, (least, most)| least < minor && minor < most);
            for version in releases {
                let builds = self.like_all(&rows, &version, pythons.as_ref(), &self.asked_variants());
                found.extend(
                    builds.into_iter().map(|build| Possible { build, told: self.told(Unread::Build) }),
                );
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
            // Its page was read where PyPI's was, but for releases that are older than the data.
            let lacks_pytorch = (!self.question.has_read_index || is_older)
                && self.question.admits("pytorch")
                && !rows.iter().any(|build| is_own_of_pytorch(build));
            if !lacks_pypi && !lacks_pytorch {
                continue;
            }
            let what = match rows.iter().all(|build| build.cuda.is_none()) && self.variant.is_none() {
                true => Unread::CudaBuild,
                false if !lacks_pypi && self.pinned.is_some() => Unread::OtherIndex,
                false => Unread::Build,
            };
            // Those of the release, and of its neighbours.
            let variants = match oldest.as_ref().filter(|oldest| version < *oldest) {
                Some(oldest) => self.older_variants(&self.of_release(oldest)),
                None => self.variants(&self.beside(version)),
            };
            found.extend(self.of_variants(version, &rows, &variants, what));
        }
        found
    }

    /// The builds of a release and of the ones before and behind it with builds of their own on the pytorch index.
    fn beside(&self, version: &Version) -> Vec<&'a Cited<Build>> {
        let is_full = |build: &&&Cited<Build>| is_own_of_pytorch(build);
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
        // A build with that CUDA is known.
        let limit = self.question.request.cuda.as_ref().map(|limit| &limit.value);
        let is_within = |build: &Cited<Build>| {
            limit.zip(build.cuda.as_ref()).is_some_and(|(limit, cuda)| limit.contains(cuda))
        };
        if self.variant.is_none() && self.asked().any(is_within) {
            return Vec::new();
        }
        let asked: BTreeSet<&Version> = self.asked().map(|build| &build.version).collect();
        // No release has a CUDA that none of the known ones has.
        let variants = match limit.is_some() || self.variant.is_some() {
            true => self.variants(&self.rows),
            false => return Vec::new(),
        };
        let of = |version: &Version| {
            self.of_variants(version, &self.of_release(version), &variants, Unread::Build)
        };
        asked.into_iter().flat_map(of).collect()
    }

    /// Variants that older and newer releases have, and one between them has not; that others of its series have; or that older ones
    /// have, where the data says that its series is the last with them. Like theirs, for the Pythons of the release.
    fn of_missing_variants(&self) -> Vec<Possible> {
        let own = || self.rows.iter().copied().filter(|build| is_own_of_pytorch(build));
        let variants: BTreeSet<&String> = own().map(|build| &build.variant).collect();
        let asked: BTreeSet<&Version> = self.asked().map(|build| &build.version).collect();
        let mut found = Vec::new();
        for version in asked {
            let rows = self.of_release(version);
            let is_missing = |variant: &&&String| {
                !rows.iter().any(|build| build.variant == ***variant)
                    && self.variant.as_ref().is_none_or(|own| own == **variant)
            };
            let pythons = self.pythons(&rows, |_, _| false);
            for variant in variants.iter().filter(is_missing) {
                let of_variant = || own().filter(|build| build.variant == **variant);
                let before = of_variant().rfind(|build| build.version < *version);
                let behind = of_variant().find(|build| build.version > *version);
                let is_of_series = |build: &Cited<Build>| minor_line(&build.version) == minor_line(version);
                let is_last = || self.question.registry.ends_with(version, variant);
                let (like, other) = match (before, behind) {
                    (Some(before), Some(behind)) => (before, Some(behind)),
                    (Some(before), None) if is_of_series(before) || is_last() => (before, None),
                    (None, Some(behind)) if is_of_series(behind) => (behind, None),
                    _ => continue,
                };
                let build = self.like_both(like, other, version, pythons.as_ref());
                let told = UnreadBuild {
                    version: Some(version.clone()),
                    bounds: String::new(),
                    variant: Some((*variant).clone()),
                    ..self.told(Unread::Build)
                };
                found.push(Possible { build, told });
            }
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
        let build = |variant: &String| self.beside_known(version, variant, &beside, pythons.as_ref());
        variants.iter().filter_map(build).map(|build| Possible { build, told: self.told(what) }).collect()
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

/// The releases of other platforms that this one has not, and will not have: those before its first one, and those after its last
/// one, where that is not just the newest series.
fn ended(rows: &[&Cited<Build>], listed: Vec<&Version>) -> Vec<Version> {
    let Some((first, last)) = span(rows.iter().map(|build| &build.version)) else { return Vec::new() };
    let is_later = |version: &&&Version| minor_line(version) > minor_line(&last);
    let later: BTreeSet<Vec<u64>> = listed.iter().filter(is_later).map(|own| minor_line(own)).collect();
    let is_ended = |version: &&&Version| **version < &first || later.len() > 1 && is_later(version);
    listed.iter().filter(is_ended).map(|version| (*version).clone()).collect()
}

/// Whether a build is of those that the pytorch index alone has: where one is known, its others are.
fn is_own_of_pytorch(build: &Build) -> bool {
    build.on_pytorch_index && !build.on_pypi && build.cuda.is_some()
}
