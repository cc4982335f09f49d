//! What is known to fail beside another package: by advisories whose effect is `avoid`, and extensions that were compiled
//! before another package changed its C interface, as NumPy 2 did.

use std::sync::Arc;

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers};
use pep508_rs::VersionOrUrl;

use super::closure::{Dependencies, Missing};
use super::node::Node;
use super::problem::{Candidate, Problem};
use super::tables::Set;
use crate::model::count::Count;
use crate::model::metadata::CoreMetadata;
use crate::model::project::FileName;
use crate::model::solution::{ChosenPackage, Note};
use crate::model::version::public;
use crate::registry::{AbiBreak, Cited, Effect};

impl Problem<'_> {
    /// The versions of other packages beside which a release is known to fail are left out, by advisories and by C
    /// interfaces; nothing is where known failures are admitted.
    pub(super) fn avoided(
        &self,
        candidate: &Candidate<'_>,
        name: &str,
        metadata: &Arc<CoreMetadata>,
    ) -> Result<Dependencies, Missing> {
        let mut out = Vec::new();
        if self.asked.admits.known_failures {
            return Ok(out);
        }
        for row in self.registry.abi_breaks().iter().filter(|row| self.is_older(candidate, metadata, row)) {
            self.memory.leave_out_known_failures();
            let new = VersionSpecifier::greater_than_equal_version(row.from.clone());
            let new = self.matching(&row.package, Some(&VersionSpecifiers::from(new)))?;
            out.push((Node::package(&row.package), new.complement()));
        }
        for framework in self.requested_frameworks().iter().filter(|framework| *framework != name) {
            if let Some(stated) = self.stated_by_extra(metadata, framework) {
                self.memory.leave_out_known_failures();
                out.push((Node::package(framework), self.matching(framework, Some(&stated))?));
            }
        }
        for (i, row) in self.advisories.iter().enumerate() {
            if row.package != name || !row.versions.contains(&candidate.release.version) {
                continue;
            }
            let Effect::Avoid(requirement) = &row.effect else { continue };
            self.memory.leave_out_known_failures();
            let other: &str = requirement.name.as_ref();
            let is_there = self.is_requested(other) || self.requires(metadata, other);
            out.push(match &requirement.version_or_url {
                // One clause, and not one for each version of the other package.
                Some(VersionOrUrl::VersionSpecifier(allowed)) if is_there => {
                    (Node::package(other), self.matching(other, Some(allowed))?)
                }
                _ => (Node::Advisory(i), Set::singleton(1)),
            });
        }
        Ok(out)
    }

    /// What every release of a requested package avoids of the requested stack, as far as its page is at hand: a solve of
    /// the stack alone then promises no build that the whole cannot have.
    pub(super) fn avoided_of_the_stack(&self) -> Result<Dependencies, Missing> {
        let mut out = Vec::new();
        let asked = self.asked.request.requirements.iter();
        for (user, row) in asked.flat_map(|user| self.advisories.iter().map(move |row| (user, row))) {
            let Effect::Avoid(requirement) = &row.effect else { continue };
            let Some(VersionOrUrl::VersionSpecifier(allowed)) = &requirement.version_or_url else { continue };
            let (name, other): (&str, &str) = (&row.package, requirement.name.as_ref());
            let is_meant = user.name() == name
                && self.stack.contains_key(other)
                && self.is_requested(other)
                && self.pythons.environments.iter().all(|e| user.requirement.marker.evaluate(e, &[]));
            if !is_meant || !self.is_at_hand(name) {
                continue;
            }
            let candidates = self.candidates(name)?;
            let admitted = self.matching(name, user.specifiers())?;
            let mut admitted = candidates.iter().enumerate().filter(|(i, _)| admitted.contains(&(*i as u32)));
            if admitted.all(|(_, candidate)| row.versions.contains(&candidate.release.version)) {
                out.push((Node::package(other), self.matching(other, Some(allowed))?));
            }
        }
        Ok(out)
    }

    fn is_framework(&self, name: &str) -> bool {
        name == "torch" || self.registry.frameworks().iter().any(|row| row.package == name)
    }

    /// The frameworks that the request names.
    fn requested_frameworks(&self) -> &[String] {
        self.memo.requested_frameworks.get_or_init(|| {
            let names = self.user_requirements().map(|user| user.name().to_owned());
            names.filter(|name| self.is_framework(name)).collect()
        })
    }

    /// The oldest release of a framework that a package works with, if it does not require the framework and only its extra of
    /// the framework's name says so: `transformers[torch]` requires `torch>=2.6`, and transformers does not use an older
    /// torch that it finds. Upper bounds of such extras are often forgotten ones.
    fn stated_by_extra(&self, metadata: &Arc<CoreMetadata>, framework: &str) -> Option<VersionSpecifiers> {
        let extra = framework.parse().ok()?;
        if !metadata.has_extra(&extra) || self.requires(metadata, framework) {
            return None;
        }
        let applied = self.applied(metadata, Some(framework));
        let lines = applied.iter().flatten().filter_map(|number| metadata.requirement(*number));
        let specifiers =
            lines.filter(|(line, _)| line.name.as_ref() as &str == framework).filter_map(|(line, _)| {
                match &line.version_or_url {
                    Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
                    _ => None,
                }
            });
        let lowest = specifiers.flat_map(|specifiers| specifiers.iter()).filter(|one| {
            matches!(
                one.operator(),
                Operator::GreaterThanEqual | Operator::GreaterThan | Operator::TildeEqual
            )
        });
        let lowest = lowest.map(|one| public(one.version())).max()?;
        Some(VersionSpecifier::greater_than_equal_version(lowest).into())
    }

    /// That a release is for a newer framework than the locked one, as its extra says: `it works with torch>=2.6, by its
    /// extra`.
    pub(super) fn excludes_by_extra(
        &self,
        candidate: &Candidate<'_>,
        name: &str,
        packages: &[ChosenPackage],
    ) -> Option<String> {
        let Ok(Ok(metadata)) = self.metadata_of(candidate, name) else { return None };
        packages.iter().filter(|package| self.is_framework(&package.name)).find_map(|package| {
            let stated = self.stated_by_extra(metadata, &package.name)?;
            let is_older = !stated.contains(&public(&package.version));
            is_older
                .then(|| format!("that works with {}{stated}, by its extra `{}`", package.name, package.name))
        })
    }

    /// One note for each package that is locked beside a framework older than its extra requires.
    fn below_extras(&self, packages: &[ChosenPackage]) -> Vec<Note> {
        let metadata_of = |package: &ChosenPackage| {
            let candidates = self.candidates(&package.name).ok()?;
            let candidate = candidates.iter().find(|c| c.release.version == package.version)?;
            self.metadata_of(candidate, &package.name).ok()?.ok()
        };
        let frameworks = packages.iter().filter(|package| self.is_framework(&package.name));
        let frameworks: Vec<&ChosenPackage> = frameworks.collect();
        let others = packages.iter().filter(|package| !self.stack.contains_key(package.name.as_str()));
        let pairs = others.flat_map(|package| frameworks.iter().map(move |framework| (package, *framework)));
        let below = pairs.filter_map(|(package, framework)| {
            let stated = self.stated_by_extra(metadata_of(package)?, &framework.name)?;
            let (of, with) = (public(&package.version), public(&framework.version));
            let text = format!(
                "{} {of} works with {}{stated}, by its extra `{}`: it may not use {} {with}",
                package.name, framework.name, framework.name, framework.name
            );
            (!stated.contains(&with)).then_some(Note { text, source: None })
        });
        below.collect()
    }

    /// Whether a release requires a package without an extra.
    fn requires(&self, metadata: &Arc<CoreMetadata>, package: &str) -> bool {
        let applied = self.applied(metadata, None);
        let mut numbers = applied.iter().flatten();
        numbers.any(|number| {
            metadata.requirement(*number).is_some_and(|(line, _)| line.name.as_ref() as &str == package)
        })
    }

    /// Whether a release has extensions for a package's C interface, all from the time before it changed.
    fn is_older(
        &self,
        candidate: &Candidate<'_>,
        metadata: &Arc<CoreMetadata>,
        row: &Cited<AbiBreak>,
    ) -> bool {
        let (page, release) = (candidate.page, candidate.release);
        let is_old = |file| page.uploaded(release, file).is_some_and(|at| at < row.built_before);
        let (platform, libc) = (self.machine.platform, self.machine.libc.as_ref());
        self.requires(metadata, &row.package)
            && self.pythons.series.iter().all(|python| {
                let file = page.best_usable(release, *python, platform, libc);
                // `none`: no extension of Python, whatever else the wheel has.
                file.is_some_and(|file| match &file.parsed {
                    FileName::Wheel(wheel) => wheel.abis.iter().all(|abi| abi != "none") && is_old(file),
                    FileName::Source(_) => false,
                })
            })
    }

    /// The packages whose extensions are older than the C interface of another package at a version.
    pub(super) fn older_than<'p>(
        &self,
        packages: &'p [ChosenPackage],
        row: &Cited<AbiBreak>,
    ) -> Vec<&'p ChosenPackage> {
        let is_older = |package: &&ChosenPackage| {
            let Ok(candidates) = self.candidates(&package.name) else { return false };
            let candidate = candidates.iter().find(|c| c.release.version == package.version);
            candidate.is_some_and(|candidate| match self.metadata_of(candidate, &package.name) {
                Ok(Ok(metadata)) => self.is_older(candidate, metadata, row),
                _ => false,
            })
        };
        let others = packages.iter().filter(|package| !self.stack.contains_key(package.name.as_str()));
        others.filter(is_older).collect()
    }

    /// One note for each locked package whose C interface is newer than extensions that are locked beside it.
    fn old_interfaces(&self, packages: &[ChosenPackage]) -> Vec<Note> {
        let of_row = |row: &Cited<AbiBreak>| {
            let new = packages.iter().find(|p| p.name == row.package && p.version >= row.from)?;
            let older = self.older_than(packages, row);
            let first = older.first()?;
            let more = match older.len() - 1 {
                0 => String::new(),
                n => format!(" and {}", Count(n).of("more package")),
            };
            let (were, they) = if older.len() == 1 { ("was", "it") } else { ("were", "they") };
            let text = format!(
                "{} {}{more} {were} built before {} {} existed, whose C interface is another: {they} may not load \
                 beside {} {}",
                first.name,
                public(&first.version),
                row.package,
                row.from,
                new.name,
                public(&new.version)
            );
            Some(Note { text, source: Some(self.registry.source_text(&row.source)) })
        };
        self.registry.abi_breaks().iter().filter_map(of_row).collect()
    }
}

/// One note for each pair that is locked although it is known to fail, since there was no other answer.
pub(super) fn notes(problem: &Problem<'_>, packages: &[ChosenPackage]) -> Vec<Note> {
    let others = problem.old_interfaces(packages).into_iter().chain(problem.below_extras(packages));
    beside_another(problem, packages).chain(others).collect()
}

/// The packages that are known to fail beside another one that is selected, since there was no other answer.
fn beside_another<'n>(
    problem: &'n Problem<'_>,
    packages: &'n [ChosenPackage],
) -> impl Iterator<Item = Note> + 'n {
    let locked = |name: &str| packages.iter().find(|package| package.name == name);
    let avoided = problem.advisories.iter().filter(|row| matches!(row.effect, Effect::Avoid(_)));
    avoided.filter_map(move |row| {
        let package = locked(&row.package)?;
        let other = locked(row.effect.requirement()?.name.as_ref())?;
        let fails = row.excludes(&package.version, &other.name, &other.version);
        let text = format!("{} (with {} {})", row.text, other.name, public(&other.version));
        fails.then(|| Note { text, source: Some(problem.registry.source_text(&row.source)) })
    })
}
