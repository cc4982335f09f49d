//! Companions of torch that may exist although no row has them.

use std::collections::BTreeSet;
use std::ops::Bound;

use pep440_rs::{Version, VersionSpecifier, VersionSpecifiers};
use version_ranges::Ranges;

use super::releases::{admitted, holes, one_of_each};
use super::{Question, span, torch};
use crate::compatibility::unread_companion::{LackingRow, UnreadCompanion};
use crate::registry::{Build, COMPANIONS, Companion};

/// A companion that may exist, and what is said of it.
#[derive(Debug, Clone)]
pub(super) struct Possible {
    pub row: Companion,
    pub told: UnreadCompanion,
}

/// The companions that a question asks for.
pub(super) struct Companions<'a> {
    question: Question<'a>,
    wanted: Vec<Wanted<'a>>,
}

/// What is asked of a companion, and known of it on the platform.
struct Wanted<'a> {
    package: &'static str,
    releases: Ranges<Version>,
    bounds: VersionSpecifiers,
    rows: Vec<&'a Companion>,
    /// Releases that builds of torch name, each with its torch.
    named: Vec<(&'a Version, &'a Version)>,
}

impl<'a> Companions<'a> {
    pub fn new(question: Question<'a>) -> Companions<'a> {
        let (registry, platform) = (question.registry, question.host.system.platform);
        let wanted = COMPANIONS.into_iter().filter_map(|package| {
            let bounds = question.request.bounds_on(package)?;
            let rows = registry.companions().iter().map(|row| &**row);
            let builds = registry.builds().iter().filter(|build| build.platform == platform);
            Some(Wanted {
                package,
                releases: admitted(&bounds),
                bounds,
                rows: rows.filter(|row| row.package == package && row.platform == platform).collect(),
                named: builds.filter_map(|build| Some((build.companion(package)?, &build.version))).collect(),
            })
        });
        Companions { question, wanted: wanted.collect() }
    }

    /// The parts of torch's releases that known companions need which are asked for.
    pub fn needed_torch(&self) -> Vec<Ranges<Version>> {
        let asked = self
            .wanted
            .iter()
            .flat_map(|wanted| wanted.rows.iter().filter(|row| wanted.bounds.contains(&row.version)));
        asked.filter_map(|row| row.torch.as_ref()).map(admitted).collect()
    }

    /// Puts the companions into a row of torch that may be for it, where it has none that the request admits: the builds of an
    /// index are for those of the same index. What is known of a build names its companions; one that may exist may be for known ones,
    /// too (`or_known`).
    pub fn complete(&self, build: &mut Build, possible: &[Possible], or_known: bool) {
        for wanted in &self.wanted {
            let own = match wanted.package {
                "torchaudio" => &mut build.torchaudio,
                _ => &mut build.torchvision,
            };
            if own.as_ref().is_some_and(|own| wanted.bounds.contains(own)) {
                continue;
            }
            let may_exist = possible.iter().map(|one| &one.row).filter(|row| row.package == wanted.package);
            let known =
                wanted.rows.iter().copied().filter(|row| or_known && wanted.bounds.contains(&row.version));
            let mut for_it = may_exist
                .chain(known)
                .filter(|row| row.torch.as_ref().is_none_or(|bounds| bounds.contains(&build.version)));
            *own = for_it.next().map(|row| row.version.clone());
        }
    }

    /// The companions that may exist, for the variants of known builds and of those that may exist.
    pub fn possible(&self, builds: &[torch::Possible]) -> Vec<Possible> {
        let platform = self.question.host.system.platform;
        let known = self.question.registry.builds().iter().filter(|build| build.platform == platform);
        let known: Vec<&Build> = known.map(|build| &**build).collect();
        let variants: BTreeSet<&String> = known
            .iter()
            .map(|build| &build.variant)
            .chain(builds.iter().map(|one| &one.build.variant))
            .collect();
        let of_torch = self.question.request.bounds_on("torch");
        let is_asked = |own: &&Version| of_torch.as_ref().is_some_and(|bounds| bounds.contains(own));
        let newest = known.iter().map(|build| &build.version).filter(is_asked).max();
        let mut found = Vec::new();
        for wanted in &self.wanted {
            let is_known = |version: &&Version| known.iter().any(|build| build.version == **version);
            let may_exist = builds.iter().map(|one| &one.build.version).filter(|own| !is_known(own));
            let is_alone = |version: &&Version| wanted.for_torch(version).is_none();
            let alone = known.iter().map(|build| &build.version).filter(is_alone);
            let of_torch = wanted.beside(may_exist.chain(alone), &self.question);
            for (version, torch, lacks) in wanted.possible(&self.question).into_iter().chain(of_torch) {
                let told = UnreadCompanion {
                    package: wanted.package,
                    bounds: wanted.bounds.to_string(),
                    torch: newest.cloned(),
                    lacks,
                };
                let row = Companion {
                    package: wanted.package.to_owned(),
                    version,
                    torch,
                    variant: None,
                    targets: None,
                    links_cuda: Vec::new(),
                    platform,
                    yanked: None,
                };
                found.push(Possible { row, told });
            }
            // Without the torch that it needs, its variant is not known.
            let is_open = |row: &&&Companion| row.variant.is_none() && wanted.bounds.contains(&row.version);
            for row in wanted.rows.iter().filter(is_open) {
                let Some(torch) = row.torch.clone() else { continue };
                let told = UnreadCompanion::of_torch(wanted.package, &row.version, torch);
                found.push(Possible { row: (*row).clone(), told });
            }
        }
        let of_variants = found.into_iter().flat_map(|one: Possible| {
            let of = |variant: &&String| Possible {
                row: Companion { variant: Some((*variant).clone()), ..one.row.clone() },
                told: one.told.clone(),
            };
            variants.iter().map(of).collect::<Vec<_>>()
        });
        of_variants.collect()
    }
}

impl Wanted<'_> {
    /// Releases that may exist, each with the torch that it may be for.
    fn possible(&self, question: &Question<'_>) -> Vec<(Version, Option<VersionSpecifiers>, LackingRow)> {
        let read: BTreeSet<Version> = self.rows.iter().map(|row| row.version.clone()).collect();
        let known: BTreeSet<Version> =
            read.iter().cloned().chain(self.named.iter().map(|(own, _)| (*own).clone())).collect();
        let oldest = question.registry.oldest_release(self.package, question.host.system.platform);
        let mut parts: Vec<(Ranges<Version>, Option<VersionSpecifiers>, LackingRow)> = Vec::new();
        let (Some((_, newest)), Some(oldest)) = (span(known.iter()), oldest) else {
            parts.push((Ranges::full(), None, LackingRow::OfCompanion));
            return self.of_parts(parts, &known);
        };
        let older = Ranges::strictly_lower_than(oldest.clone());
        // The requirement of one that is asked for is not known: those of the first releases admit any torch.
        let until = self.torch_of(&oldest).1.filter(|_| !self.releases.subset_of(&older));
        parts.push((older, bounds_of(None, until), LackingRow::OfOlderCompanion(oldest)));
        // The pages have all newer ones.
        if question.has_read_index {
            return self.of_parts(parts, &known);
        }
        let from = self.torch_of(&newest).0;
        let newer = Ranges::strictly_higher_than(newest);
        parts.push((newer, bounds_of(from, None), LackingRow::OfCompanion));
        // Any gap may have one where nothing else is asked for.
        let gaps = match known.iter().any(|own| self.bounds.contains(own)) {
            true => holes(&known),
            false => known.iter().cloned().zip(known.iter().skip(1).cloned()).collect(),
        };
        for (low, high) in gaps {
            let beside = bounds_of(self.torch_of(&low).0, self.torch_of(&high).1);
            let hole = Ranges::strictly_higher_than(low).intersection(&Ranges::strictly_lower_than(high));
            parts.push((hole, beside, LackingRow::OfCompanion));
        }
        let mut found = self.of_parts(parts, &known);
        // One that only a build of torch names may be for others beside that.
        for version in known.difference(&read).filter(|own| self.bounds.contains(own)) {
            let low = known.range::<Version, _>(..version).next_back().and_then(|own| self.torch_of(own).0);
            let above = (Bound::Excluded(version), Bound::Unbounded);
            let high = known.range::<Version, _>(above).next().and_then(|own| self.torch_of(own).1);
            found.push((version.clone(), bounds_of(low, high), LackingRow::OfCompanion));
        }
        found
    }

    /// Companions of releases of torch that may exist, or of which none is known: between those of the known releases beside each.
    fn beside<'v>(
        &self,
        torch: impl Iterator<Item = &'v Version>,
        question: &Question<'_>,
    ) -> Vec<(Version, Option<VersionSpecifiers>, LackingRow)> {
        // The pages have all companions.
        if question.has_read_index {
            return Vec::new();
        }
        let platform = question.host.system.platform;
        let builds = question.registry.builds().iter().filter(|build| build.platform == platform);
        let known: BTreeSet<Version> = builds.map(|build| build.version.clone()).collect();
        let torch: BTreeSet<&Version> = torch.collect();
        let mut parts = Vec::new();
        for version in torch {
            let low =
                known.range::<Version, _>(..version).next_back().and_then(|torch| self.for_torch(torch));
            let above = (Bound::Excluded(version), Bound::Unbounded);
            let high = known.range::<Version, _>(above).next().and_then(|torch| self.for_torch(torch));
            let (Some(low), Some(high)) = (low, high) else { continue };
            let part = Ranges::strictly_higher_than(low).intersection(&Ranges::strictly_lower_than(high));
            let own = VersionSpecifier::equals_version(version.clone());
            parts.push((part, Some(VersionSpecifiers::from(own)), LackingRow::OfCompanion));
        }
        let none = BTreeSet::new();
        self.of_parts(parts, &none)
    }

    /// The known companion of a known release of torch.
    fn for_torch(&self, torch: &Version) -> Option<Version> {
        let named = self.named.iter().find(|(_, own)| *own == torch).map(|(own, _)| (*own).clone());
        let is_for = |row: &&&Companion| row.torch.as_ref().is_some_and(|bounds| bounds.contains(torch));
        named.or_else(|| self.rows.iter().filter(is_for).map(|row| row.version.clone()).max())
    }

    fn of_parts(
        &self,
        parts: Vec<(Ranges<Version>, Option<VersionSpecifiers>, LackingRow)>,
        known: &BTreeSet<Version>,
    ) -> Vec<(Version, Option<VersionSpecifiers>, LackingRow)> {
        let mut found = Vec::new();
        for (part, torch, lacks) in parts {
            let mut versions = one_of_each(&part.intersection(&self.releases));
            versions.retain(|version| !known.contains(version));
            found.extend(versions.into_iter().map(|version| (version, torch.clone(), lacks.clone())));
        }
        found
    }

    /// The oldest and the newest torch that a known release is for, as far as that is bounded.
    fn torch_of(&self, version: &Version) -> (Option<Version>, Option<Version>) {
        let rows = self.rows.iter().filter(|row| row.version == *version);
        let stated = rows.filter_map(|row| row.torch.as_ref()).map(admitted).reduce(|a, b| a.union(&b));
        let named = self.named.iter().filter(|(own, _)| *own == version).map(|(_, torch)| *torch);
        match (stated.as_ref().and_then(Ranges::bounding_range), span(named)) {
            (Some((low, high)), _) => (release_of(low), release_of(high)),
            (None, Some((low, high))) => (Some(low), Some(high)),
            (None, None) => (None, None),
        }
    }
}

fn release_of(bound: Bound<&Version>) -> Option<Version> {
    match bound {
        Bound::Included(own) | Bound::Excluded(own) => Some(Version::new(own.release().iter().copied())),
        Bound::Unbounded => None,
    }
}

fn bounds_of(low: Option<Version>, high: Option<Version>) -> Option<VersionSpecifiers> {
    let low = low.map(VersionSpecifier::greater_than_equal_version);
    let high = high.map(VersionSpecifier::less_than_equal_version);
    let all: VersionSpecifiers = low.into_iter().chain(high).collect();
    (!all.is_empty()).then_some(all)
}
