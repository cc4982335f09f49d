//! Releases of index pages as candidates: which a specifier admits, and which files of them a machine can install.

use std::rc::Rc;
use std::sync::Arc;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use super::closure::{Missing, Unusable, plain_specifiers_contain};
use super::problem::{Candidate, OfBuild, Problem};
use super::tables::{Set, TRITON_PACKAGE, ordinals};
use super::universe::DIRECT;
use crate::model::cutoff::Cutoff;
use crate::model::metadata::CoreMetadata;
use crate::model::project::{Cut, ProjectPage, ReleaseFile};
use crate::model::requirement::{names_prerelease, pins};
use crate::model::solution::Need;
use crate::model::version::public;
use crate::model::wheel::Python;

impl<'a> Problem<'a> {
    /// Whether `--only-index` allows an index.
    pub fn index_allowed(&self, index: &str) -> bool {
        let only = self.asked.request.only_index.as_ref();
        index == DIRECT || only.is_none_or(|only| only.value.admits(index))
    }

    /// Whether the page of an ordinary package is known.
    pub fn is_at_hand(&self, name: &str) -> bool {
        self.universe.page(self.owner(name), name).is_some()
    }

    /// The index that a package comes from.
    fn owner(&self, name: &str) -> &'a str {
        match self.universe.direct(name) {
            Some(_) => DIRECT,
            None => crate::model::index_owner::owner(name, &self.asked.request.owners),
        }
    }

    /// A project page as the request sees it; records the need if it is neither known nor at hand.
    fn page(&self, index: &str, name: &str) -> Result<Option<&'a Arc<ProjectPage>>, Missing> {
        let Some(page) = self.universe.page(index, name) else {
            let need = Need::Page { index: index.to_owned(), project: name.to_owned() };
            self.memo.needs.borrow_mut().insert(need);
            return Err(Missing);
        };
        Ok(page.map(|page| self.before_cutoff(index, name, page)))
    }

    /// A page without the files that were uploaded after the request's cutoff.
    fn before_cutoff(&self, index: &str, name: &str, page: &'a Arc<ProjectPage>) -> &'a Arc<ProjectPage> {
        let cutoff = self.cutoff(index, name);
        cutoff.and_then(|cutoff| self.universe.page_before(index, name, cutoff.at)).unwrap_or(page)
    }

    /// Until when the files of a package on an index are candidates. A file that the request names always is.
    pub fn cutoff(&self, index: &str, name: &str) -> Option<&'a Cutoff> {
        let request = self.asked.request;
        if index == DIRECT { None } else { request.exclude_newer.of(index, name) }
    }

    /// The candidates of an ordinary package, oldest first. The list is cached, because the search asks for it
    /// repeatedly.
    pub fn candidates(&self, name: &str) -> Result<Rc<[Candidate<'a>]>, Missing> {
        if let Some(known) = self.memo.listed.borrow().get(name) {
            return Ok(known.clone());
        }
        let listed: Rc<[Candidate<'a>]> = self.list(name)?.into();
        self.memo.listed.borrow_mut().insert(name.to_owned(), listed.clone());
        Ok(listed)
    }

    fn list(&self, name: &str) -> Result<Vec<Candidate<'a>>, Missing> {
        let owner = self.owner(name);
        let mut out = Vec::new();
        let mut add = |index: &'a str, page: &'a Arc<ProjectPage>| {
            out.extend(page.releases().iter().map(|release| Candidate { index, page, release }));
        };
        if name == TRITON_PACKAGE && owner == "pypi" {
            // Of all indexes: a page that is only at hand would change the numbers of candidates in the midst of a search.
            if self.universe.indexes_with(name).is_empty() {
                self.page("pypi", name)?;
            }
            for index in self.universe.indexes_with(name) {
                if let Some(Some(page)) = self.universe.known_page(index, name) {
                    add(index, self.before_cutoff(index, name, page));
                }
            }
            out.sort_by(|a, b| {
                public(&a.release.version)
                    .cmp(&public(&b.release.version))
                    .then_with(|| (a.index == "pypi").cmp(&(b.index == "pypi")))
                    .then_with(|| a.index.cmp(b.index))
            });
        } else if let Some(page) = self.page(owner, name)? {
            add(owner, page);
        }
        Ok(out)
    }

    /// The candidates that a specifier accepts, by PEP 440's `contains`. Pre-releases count if the specifier
    /// names one, if nothing else matches, or if another requirement that was read admits nothing else. Yanked
    /// releases count only if pinned (PEP 592). Releases without files never count.
    pub fn matching(&self, name: &str, specifiers: Option<&VersionSpecifiers>) -> Result<Set, Missing> {
        let mut key = (Arc::from(name), specifiers.map(ToString::to_string).unwrap_or_default());
        if let Some(table) = self.stack.get(name) {
            return Ok(self
                .version_sets
                .borrow_mut()
                .entry(key)
                .or_insert_with(|| {
                    ordinals(table.versions.len(), |i| {
                        specifiers.is_none_or(|s| plain_specifiers_contain(s, &table.versions[i]))
                    })
                })
                .clone());
        }
        if let Some(admitting) = self.memo.admitting.get(name) {
            key.1.push_str(admitting);
        }
        if let Some(set) = self.memo.sets.borrow().of_specifiers.get(&key) {
            return Ok(set.clone());
        }
        let set = {
            let candidates = self.candidates(name)?;
            // A yanked release or pre-release that the user names is also admitted for other requirements.
            let users: Vec<&VersionSpecifiers> = self.users_specifiers(name).collect();
            let accepts = |c: &Candidate<'_>| {
                let version = &c.release.version;
                (c.release.has_wheel || c.release.has_source)
                    && specifiers.is_none_or(|s| s.contains(version))
                    && (!c.release.yanked
                        || specifiers.is_some_and(pins)
                        || users.iter().any(|s| pins(s) && s.contains(version)))
            };
            let asks_for_prereleases =
                specifiers.into_iter().chain(users.iter().copied()).any(names_prerelease);
            let finals = |c: &Candidate<'_>| accepts(c) && !c.release.version.any_prerelease();
            let has_finals = candidates.iter().any(finals);
            if !has_finals && specifiers.is_some_and(names_prerelease) && candidates.iter().any(accepts) {
                self.memory.add_prereleases(name);
            }
            if asks_for_prereleases || !has_finals || self.memory.has_prereleases(name) {
                ordinals(candidates.len(), |i| accepts(&candidates[i]))
            } else {
                ordinals(candidates.len(), |i| finals(&candidates[i]))
            }
        };
        // The candidates of triton grow with every index whose page is fetched.
        if name != TRITON_PACKAGE {
            self.memo.sets.borrow_mut().of_specifiers.insert(key, set.clone());
        }
        Ok(set)
    }

    /// [`Problem::matching`] of a requirement in METADATA.
    pub fn matching_of(
        &self,
        metadata: &Arc<CoreMetadata>,
        requirement: &Requirement<VerbatimUrl>,
    ) -> Result<Set, Missing> {
        let name: &str = requirement.name.as_ref();
        let specifiers = match &requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            _ => None,
        };
        // What the request admits besides is not the same in all problems.
        if name == TRITON_PACKAGE || self.memo.admitting.contains_key(name) || self.stack.contains_key(name) {
            return self.matching(name, specifiers);
        }
        let key = std::ptr::from_ref(requirement) as usize;
        if let Some((_, set)) = self.memo.sets.borrow().of_requirements.get(&key) {
            return Ok(set.clone());
        }
        let set = self.matching(name, specifiers)?;
        self.memo.sets.borrow_mut().of_requirements.insert(key, (metadata.clone(), set.clone()));
        Ok(set)
    }

    /// The specifiers of the user's requirements and constraints on a package.
    fn users_specifiers<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s VersionSpecifiers> {
        self.asked
            .request
            .requirements
            .iter()
            .chain(&self.asked.request.constraints)
            .filter(move |r| r.name() == name)
            .filter_map(|r| match &r.requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(s)) => Some(s),
                _ => None,
            })
    }

    /// That a cutoff leaves a release without files.
    pub fn cut(&self, candidate: &Candidate<'_>, name: &str) -> Option<Unusable> {
        Some(match (candidate.release.cut?, self.cutoff(candidate.index, name)?) {
            (Cut::Late(_), cutoff) => Unusable::Late(cutoff.text.clone()),
            (Cut::Undated, _) => Unusable::Undated(candidate.index.to_owned()),
        })
    }

    /// The file that would be installed: the best wheel for the newest Python of the problem that has one, else the
    /// source distribution.
    pub fn representative<'p>(&self, candidate: &Candidate<'p>) -> Option<&'p ReleaseFile> {
        let wheel = self.pythons.series.iter().rev().find_map(|p| self.best_wheel(candidate, *p));
        wheel.or_else(|| self.source(candidate))
    }

    /// A file that says what a release requires: the one that would be installed, else what another allowed Python has.
    pub fn any_representative<'p>(&self, candidate: &Candidate<'p>) -> Option<&'p ReleaseFile> {
        let others = || self.pythons.allowed.iter().rev().find_map(|p| self.best_wheel(candidate, *p));
        self.representative(candidate).or_else(others)
    }

    fn best_wheel<'p>(&self, candidate: &Candidate<'p>, python: Python) -> Option<&'p ReleaseFile> {
        let (platform, libc) = (self.machine.platform, self.machine.libc.as_ref());
        candidate.page.best_usable(candidate.release, python, platform, libc)
    }

    /// The Python series for which a candidate has a wheel, or can be built.
    pub fn candidate_pythons(&self, candidate: &Candidate<'_>) -> Set {
        ordinals(self.pythons.series.len(), |i| self.has_usable(candidate, self.pythons.series[i]))
    }

    pub fn has_usable(&self, candidate: &Candidate<'_>, python: Python) -> bool {
        self.has_wheel(candidate, python)
            || self.source(candidate).is_some_and(|source| source.allows_python(python))
    }

    pub fn has_wheel(&self, candidate: &Candidate<'_>, python: Python) -> bool {
        let (platform, libc) = (self.machine.platform, self.machine.libc.as_ref());
        candidate.page.has_usable(candidate.release, python, platform, libc)
    }

    /// The release of a stack build on its index page: `2.7.1+cu118` on a sub-index, `2.9.1` on PyPI.
    pub fn build_candidate(&self, name: &str, build: usize) -> Result<Option<Candidate<'_>>, Missing> {
        let known = self.memo.of_builds.borrow().get(name).and_then(|of| of.get(&build).copied());
        let found = match known {
            Some(found) => found,
            None => {
                let found = self.find_build(name, build)?;
                self.memo.of_builds.borrow_mut().entry(name.to_owned()).or_default().insert(build, found);
                found
            }
        };
        let index = self.indexes[self.stack[name].builds[build].index as usize].as_str();
        Ok(found.map(|(page, release)| Candidate { index, page, release }))
    }

    fn find_build(&self, name: &str, build: usize) -> Result<OfBuild<'a>, Missing> {
        let row = &self.stack[name].builds[build];
        let index = self.indexes[row.index as usize].as_str();
        let Some(page) = self.page(index, name)? else {
            return Ok(None);
        };
        let variant = &self.variants[row.variant as usize].name;
        let local: Option<Version> = format!("{}+{variant}", row.version).parse().ok();
        let find = |wanted: &Version| page.releases().iter().find(|r| &r.version == wanted);
        let release = local.as_ref().and_then(find).or_else(|| find(&row.version));
        Ok(release.map(|release| (page, release)))
    }
}
