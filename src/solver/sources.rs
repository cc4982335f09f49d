//! Packages that are built from source: when a source distribution is a candidate, and where it ranks.
//!
//! The rules: a release that any allowed Python has as a wheel is not built, where that Python can have the newest torch
//! that is requested. A source distribution of Python files ranks as a wheel. One that compiles is taken only where no
//! release within one minor line (x.y) has a wheel.

use pep440_rs::Version;

use super::closure::{Missing, Unusable, plain_specifiers_contain};
use super::node::{Node, Selected};
use super::problem::{Candidate, Problem, WheelsOf};
use super::tables::{Set, is_stack_package, ordinals};
use super::universe::DIRECT;
use crate::model::metadata::CoreMetadata;
use crate::model::project::{FileName, Release, ReleaseFile};
use crate::model::solution::Need;
use crate::model::source::{BuildKind, MetadataFrom, SourceBuild};
use crate::model::text::requirement_name;
use crate::model::wheel::Python;
use crate::registry::{Cited, Registry, Removed};

/// What is locked of the build of a source tree. `is_of_python`: whether Python itself has the module of a backport.
pub fn source_build(
    registry: &Registry,
    metadata: &CoreMetadata,
    is_of_python: &dyn Fn(&str) -> bool,
) -> Option<SourceBuild> {
    let facts = metadata.source.as_ref()?;
    let row = registry.source_package(metadata.name.as_ref(), &metadata.version);
    let mut needs = row.and_then(|row| row.build_needs.as_ref()).unwrap_or(&facts.needs).clone();
    let frameworks = needs.clone();
    let kind = row.and_then(|row| row.kind).unwrap_or(facts.kind);
    let more = row.iter().flat_map(|row| &row.build_requires);
    let mut asks: Vec<String> = facts.requires.iter().chain(more).cloned().collect();
    // A build finds Python's own module.
    asks.retain(|line| !is_of_python(&requirement_name(line)));
    for row in facts.modules.iter().filter_map(|module| registry.build_module(module)) {
        // A version that has the module is needed also where the package is listed without a bound.
        let is_listed = asks.iter().any(|line| requirement_name(line) == requirement_name(&row.requires));
        if !is_listed || row.requires.contains('<') {
            asks.push(row.requires.clone());
        }
        if !is_listed {
            // An isolated build would not have it.
            needs.push(requirement_name(&row.requires));
        }
    }
    needs.sort();
    needs.dedup();
    // A framework that the build imports is the locked one.
    asks.retain(|line| !frameworks.contains(&requirement_name(line)));
    let metadata_from = facts.metadata_from;
    let requires = Vec::new();
    Some(SourceBuild { metadata_from, kind, needs, newest_wheel: None, asks, requires })
}

impl Problem<'_> {
    /// The source distribution that a release would be built from: only where no allowed Python has a wheel for the
    /// platform, whatever its libc; where there is no other answer, also where only another Python has one.
    pub fn source<'p>(&self, candidate: &Candidate<'p>) -> Option<&'p ReleaseFile> {
        let release = candidate.release;
        if candidate.index == DIRECT {
            // The user names this file, folder or repository.
            return candidate.page.source(release);
        }
        if !release.has_source || self.asked.request.no_sources.is_some() {
            return None;
        }
        if self.asked.is_permissive {
            let lacks_wheel = |python: &Python| !self.has_wheel(candidate, *python);
            let is_for_one = self.pythons.series.iter().any(lacks_wheel);
            return is_for_one.then(|| candidate.page.source(release)).flatten();
        }
        if self.wheels_of(candidate).here {
            return None;
        }
        if !self.asked.admits.needless_builds && self.is_needless(candidate) {
            self.memory.leave_out_builds();
            return None;
        }
        candidate.page.source(release)
    }

    /// The file whose METADATA says what a release requires, while answers are looked for: that which would be installed, or for
    /// one that would be built, whose archive is large, a wheel of the same release for another Python or platform. The archive is
    /// read before a release is part of an answer ([`Problem::unread_sources`]).
    pub fn read_for<'p>(&self, candidate: &Candidate<'p>) -> Option<&'p ReleaseFile> {
        let file = self.representative(candidate)?;
        let is_source = matches!(file.parsed, FileName::Source(_));
        if !is_source || !candidate.release.has_wheel || candidate.index == DIRECT {
            return Some(file);
        }
        let files = candidate.page.files(candidate.release);
        let key = std::ptr::from_ref(candidate.release);
        let known = self.memo.stand_ins.borrow().get(&key).copied();
        let wheel = known.unwrap_or_else(|| {
            let is_wheel = |other: &ReleaseFile| matches!(other.parsed, FileName::Wheel(_));
            let has_read = self.universe.has_metadata(candidate.index, file);
            let stands_in = || {
                let stated = files.iter().rposition(|other| is_wheel(other) && other.has_metadata);
                stated.or_else(|| files.iter().rposition(is_wheel))
            };
            let wheel = if has_read { None } else { stands_in() };
            self.memo.stand_ins.borrow_mut().insert(key, wheel);
            wheel
        });
        Some(wheel.map_or(file, |place| &files[place]))
    }

    /// The archives of an answer that were not read yet: for what they require, wheels stood in.
    pub fn unread_sources(&self, selected: &Selected) -> Vec<Need> {
        let unread = |(node, ordinal): (&Node, &u32)| {
            let Node::Package(name) = node else { return None };
            let candidate = *self.candidates(name).ok()?.get(*ordinal as usize)?;
            self.memo.stand_ins.borrow().get(&std::ptr::from_ref(candidate.release)).copied().flatten()?;
            let file = self.representative(&candidate)?;
            Some(Need::Metadata {
                index: candidate.index.to_owned(),
                project: name.to_string(),
                filename: file.filename.clone(),
            })
        };
        selected.iter().filter_map(unread).collect()
    }

    /// For which Pythons a release has wheels.
    fn wheels_of(&self, candidate: &Candidate<'_>) -> WheelsOf {
        let key = std::ptr::from_ref(candidate.release);
        if let Some(known) = self.memo.wheels_of.borrow().get(&key) {
            return *known;
        }
        let has = |python: &Python| {
            candidate.page.has_usable(candidate.release, *python, self.machine.platform, None)
        };
        let here = self.pythons.series.iter().any(has);
        let found = WheelsOf { here, elsewhere: !here && self.pythons_of_newest_torch().iter().any(has) };
        self.memo.wheels_of.borrow_mut().insert(key, found);
        found
    }

    /// The allowed Pythons that can have the newest torch that the request and the machine admit; all allowed ones where torch
    /// is not requested. A wheel for another Python does not keep a release from being built: torch, which is requested, would
    /// be sacrificed for it.
    pub fn pythons_of_newest_torch(&self) -> &[Python] {
        self.memo.pythons_of_newest_torch.get_or_init(|| {
            let all = || self.pythons.allowed.clone();
            let asked: Vec<_> =
                self.asked.request.requirements.iter().filter(|user| user.name() == "torch").collect();
            let Some(table) = self.stack.get("torch").filter(|_| !asked.is_empty()) else { return all() };
            let bounds = || self.bounds_on("torch").map(|(_, specifiers)| specifiers);
            let is_admitted = |version: &Version| {
                asked
                    .iter()
                    .filter_map(|user| user.specifiers())
                    .chain(bounds())
                    .all(|specifiers| plain_specifiers_contain(specifiers, version))
            };
            for (version, span) in table.versions.iter().zip(&table.spans).rev() {
                if version.any_prerelease() || !is_admitted(version) {
                    continue;
                }
                let builds = &table.builds[span.start as usize..span.end as usize];
                let fitting = builds.iter().filter(|build| self.machine_allows_on_some_python(build));
                let bits = fitting.fold(0u64, |bits, build| bits | build.pythons);
                let pythons: Vec<Python> =
                    all().into_iter().filter(|python| bits >> python.minor.min(63) & 1 == 1).collect();
                if !pythons.is_empty() {
                    return pythons;
                }
            }
            all()
        })
    }

    /// Whether a release would be built although it, or a newer one, has a wheel for another allowed Python, but not for
    /// this one.
    fn is_needless(&self, candidate: &Candidate<'_>) -> bool {
        if self.wheels_of(candidate).elsewhere {
            return true;
        }
        let pythons = self.pythons_of_newest_torch();
        if pythons.iter().all(|python| self.pythons.series.contains(python)) {
            return false;
        }
        let releases = candidate.page.releases();
        let key = std::ptr::from_ref(candidate.page);
        let known = self.memo.wheels_elsewhere.borrow().get(&key).copied();
        let last = known.unwrap_or_else(|| {
            let is_elsewhere = |release: &Release| {
                let newer = Candidate { release, ..*candidate };
                !release.yanked
                    && !self.pythons.series.iter().any(|python| self.has_wheel(&newer, *python))
                    && pythons.iter().any(|python| self.has_wheel(&newer, *python))
            };
            let last = releases.iter().rposition(is_elsewhere);
            self.memo.wheels_elsewhere.borrow_mut().insert(key, last);
            last
        });
        last.is_some_and(|last| releases[last].version > candidate.release.version)
    }

    /// Whether metadata may be used: that of a source distribution must be known without running anything.
    pub fn accepted(&self, metadata: &CoreMetadata) -> Result<(), Unusable> {
        let Some(facts) = &metadata.source else { return Ok(()) };
        if let Some(what) = &facts.fetches {
            return Err(Unusable::Stub { fetches: what.clone(), index: facts.index.clone() });
        }
        let name: &str = metadata.name.as_ref();
        let row = self.registry.source_package(name, &metadata.version);
        if let Some(why) = row.and_then(|row| row.never_builds.as_ref()) {
            return Err(Unusable::NeverBuilds(why.clone()));
        }
        if facts.metadata_from == MetadataFrom::Manifest {
            return Ok(());
        }
        let is_reviewed = row.is_some_and(|row| row.is_reviewed_on(self.machine.platform));
        match &facts.unknown {
            _ if self.asked.takes_unknown_as_none => Ok(()),
            Some(why) if !is_reviewed => Err(Unusable::UnknownMetadata(why.clone())),
            _ if facts.metadata_from == MetadataFrom::AsPublished
                && self.asked.request.strict_metadata.is_some() =>
            {
                Err(Unusable::UnknownMetadata(
                    "they are as published, and `--strict-metadata` is set".to_owned(),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The best of the candidates, newest first: the newest, but one with a wheel before a source distribution that
    /// must be compiled and is at most one minor line newer.
    pub fn wheel_before_source<I: Iterator<Item = u32>>(
        &self,
        name: &str,
        candidates: &[Candidate<'_>],
        best_first: impl Fn() -> I,
    ) -> Result<Option<u32>, Missing> {
        let Some(first) = best_first().next() else { return Ok(None) };
        let newest = &candidates[first as usize];
        if self.source(newest).is_none() || !self.is_compiled(newest, name)? {
            return Ok(Some(first));
        }
        let is_near = |i: &u32| {
            is_within_a_minor_line(&candidates[*i as usize].release.version, &newest.release.version)
        };
        let wheel =
            best_first().take_while(is_near).find(|i| self.source(&candidates[*i as usize]).is_none());
        Ok(Some(wheel.unwrap_or(first)))
    }

    /// The number of packages that are built only because of this Python.
    pub fn needless_builds(&self, selected: &Selected) -> usize {
        let is_needless = |name: &str, ordinal: u32| {
            let Ok(candidates) = self.candidates(name) else { return false };
            let Some(chosen) = candidates.get(ordinal as usize) else { return false };
            self.source(chosen).is_some() && self.is_needless(chosen)
        };
        let chosen = selected.iter().filter_map(|(node, ordinal)| match node {
            Node::Package(name) if !is_stack_package(name) => Some((name, *ordinal)),
            _ => None,
        });
        chosen.filter(|(name, ordinal)| is_needless(name, *ordinal)).count()
    }

    /// Whether a requirement of a package does not count: a backport that its author's Python needed, that every Python of
    /// the problem has as a module, and that does harm beside it.
    pub fn is_left_out(&self, required: &str) -> bool {
        self.pythons.series.iter().all(|python| self.registry.is_of_python(required, *python))
    }

    /// The Python series on which a backport of the standard library may be installed; `None` for other packages.
    pub fn pythons_of_backport(&self, package: &str) -> Option<Set> {
        self.registry.backport(package).filter(|row| !row.is_harmless)?;
        let series = &self.pythons.series;
        Some(ordinals(series.len(), |i| !self.registry.is_of_python(package, series[i])))
    }

    /// The Python series that a release works with, by the registry; `None` if it knows of no limit.
    pub fn pythons_of_limit(&self, package: &str, version: &Version) -> Option<Set> {
        let row = self.registry.python_limit(package, version)?;
        let series = &self.pythons.series;
        Some(ordinals(series.len(), |i| series[i].minor < row.below.minor))
    }

    /// The first Python series on which `setup.py` fails, for what the standard library had until then.
    pub fn fails_from(&self, metadata: &CoreMetadata) -> Option<&Cited<Removed>> {
        let facts = metadata.source.as_ref()?;
        let brings = |row: &Cited<Removed>| {
            let mut required = facts.requires.iter().map(|line| requirement_name(line));
            required.any(|name| row.backports.contains(&name))
        };
        // A name that may be one of several fails when all of them are gone.
        let last = |names: &Vec<String>| {
            let rows: Option<Vec<&Cited<Removed>>> =
                names.iter().map(|name| self.registry.removed(name).filter(|row| !brings(row))).collect();
            rows?.into_iter().max_by_key(|row| row.python)
        };
        facts.uses.iter().filter_map(last).min_by_key(|row| row.python)
    }

    /// The Python series on which `setup.py` can run; `None` if nothing speaks against any.
    pub fn pythons_of_setup(&self, metadata: &CoreMetadata) -> Option<Set> {
        let row = self.fails_from(metadata)?;
        let series = &self.pythons.series;
        Some(ordinals(series.len(), |i| series[i] < row.python))
    }

    /// What is locked of the build of a source distribution.
    pub fn build_of(&self, metadata: &CoreMetadata) -> Option<SourceBuild> {
        let is_of_python = |name: &str| self.is_left_out(name);
        source_build(self.registry, metadata, &is_of_python)
    }

    /// The newest release of a package that this Python can install as a wheel.
    pub fn newest_wheel(&self, name: &str) -> Option<Version> {
        let python = self.pythons.series[0];
        let candidates = self.candidates(name).ok()?;
        let mut usable = candidates.iter().rev().filter(|c| !c.release.yanked && self.has_wheel(c, python));
        usable.next().map(|candidate| candidate.release.version.clone())
    }

    /// Whether building a release compiles, or cannot be judged.
    fn is_compiled(&self, candidate: &Candidate<'_>, name: &str) -> Result<bool, Missing> {
        // The wheels of a release say it: those of Python alone are for any platform.
        let mut wheels =
            candidate.page.files(candidate.release).iter().filter_map(ReleaseFile::wheel).peekable();
        if candidate.index != DIRECT && wheels.peek().is_some() {
            return Ok(!wheels.any(|wheel| wheel.tags().any(|tag| tag.ends_with("-any"))));
        }
        let metadata = self.metadata_of(candidate, name)?;
        Ok(match metadata {
            Ok(metadata) => self.build_of(metadata).is_some_and(|build| build.kind != BuildKind::Pure),
            Err(_) => true,
        })
    }
}

/// Whether an older version is of the same or the previous minor line: 1.4 and 1.3, not 1.4 and 0.9.
fn is_within_a_minor_line(older: &Version, newer: &Version) -> bool {
    let part = |version: &Version, i: usize| version.release().get(i).copied().unwrap_or(0);
    older.epoch() == newer.epoch()
        && part(older, 0) == part(newer, 0)
        && part(newer, 1).saturating_sub(part(older, 1)) <= 1
}
