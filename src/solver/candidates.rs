//! Releases of index pages as candidates: which a specifier admits, and which files of them a machine can install.

use std::rc::Rc;
use std::sync::Arc;

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use super::closure::{Missing, Unusable, plain_specifiers_contain};
use super::known_candidates::KnownCandidates;
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

/// The last candidate of a version.
pub(super) fn ordinal_of(candidates: &[Candidate<'_>], version: &Version) -> Option<u32> {
    let is_it = |i: &usize| candidates.get(*i).is_some_and(|candidate| candidate.release.version == *version);
    let end = candidates.partition_point(|candidate| candidate.release.version <= *version);
    // Those of triton are not quite in order.
    let found = end.checked_sub(1).filter(is_it).or_else(|| (0..candidates.len()).rev().find(is_it));
    found.map(|i| i as u32)
}

/// The candidates that specifiers contain.
fn contained(candidates: &[Candidate<'_>], specifiers: &VersionSpecifiers) -> Set {
    let version = |i: usize| &candidates[i].release.version;
    specifiers.iter().fold(Set::full(), |set, specifier| {
        set.intersection(&contained_by(candidates.len(), version, specifier))
    })
}

/// The ordinals of versions, in ascending order, that a specifier contains. Those of one operator are neighbours, so their
/// ends are found by binary search: thousands of requirements may ask about a package with thousands of releases.
fn contained_by<'v>(
    count: usize,
    version: impl Fn(usize) -> &'v Version,
    specifier: &VersionSpecifier,
) -> Set {
    let own = specifier.version();
    let contains = |i: usize| specifier.contains(version(i));
    // Some neighbours of pre-releases, post-releases and local versions are excluded.
    let is_other_epoch = own.epoch() != 0 && *specifier.operator() == Operator::LessThan;
    if own.any_prerelease() || own.is_post() || own.is_local() || is_other_epoch {
        return (0..count).filter(|i| contains(*i)).map(|i| i as u32).collect();
    }
    let first = |from: usize, is_behind: &dyn Fn(usize) -> bool| {
        let (mut low, mut high) = (from, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_behind(middle) { high = middle } else { low = middle + 1 }
        }
        low as u32
    };
    let span = |start: u32| Set::between(start, first(start as usize, &|i| !contains(i)));
    match specifier.operator() {
        Operator::LessThan | Operator::LessThanEqual => span(0),
        Operator::GreaterThan | Operator::GreaterThanEqual => Set::higher_than(first(0, &contains)),
        Operator::Equal | Operator::TildeEqual => span(first(0, &|i| version(i) >= own)),
        Operator::EqualStar => {
            let least = own.clone().with_dev(Some(0));
            span(first(0, &|i| *version(i) >= least))
        }
        // What is excluded is one span, too.
        Operator::NotEqual => {
            let start = first(0, &|i| version(i) >= own);
            Set::between(start, first(start as usize, &contains)).complement()
        }
        Operator::NotEqualStar => {
            let least = own.clone().with_dev(Some(0));
            let start = first(0, &|i| *version(i) >= least);
            Set::between(start, first(start as usize, &contains)).complement()
        }
        Operator::ExactEqual => (0..count).filter(|i| contains(*i)).map(|i| i as u32).collect(),
    }
}

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
        let kept = self.kept_though_yanked(name)?;
        if let Some(kept) = kept {
            key.1.push_str(&format!(" kept {kept}"));
        }
        if let Some(set) = self.memo.sets.borrow().of_specifiers.get(&key) {
            return Ok(set.clone());
        }
        let candidates = self.candidates(name)?;
        let kinds = self.known_candidates(name, &candidates);
        // A yanked release or pre-release that the user names is also admitted for other requirements.
        let users: Vec<&VersionSpecifiers> = self.users_specifiers(name).collect();
        let own = specifiers.map_or_else(Set::full, |specifiers| contained(&candidates, specifiers));
        let named = match specifiers.is_some_and(pins) {
            true => Set::full(),
            false => users
                .iter()
                .filter(|specifiers| pins(specifiers))
                .fold(Set::empty(), |set, specifiers| set.union(&contained(&candidates, specifiers))),
        };
        let named = kept.map_or(named.clone(), |kept| named.union(&Set::singleton(kept)));
        let accepted =
            own.intersection(&kinds.with_files).intersection(&kinds.yanked.complement().union(&named));
        let finals = accepted.intersection(&kinds.finals);
        let asks_for_prereleases = specifiers.into_iter().chain(users).any(names_prerelease);
        let is_final = !finals.is_empty();
        if !is_final && specifiers.is_some_and(names_prerelease) && !accepted.is_empty() {
            self.memory.add_prereleases(name);
        }
        let set = match asks_for_prereleases || !is_final || self.memory.has_prereleases(name) {
            true => accepted,
            false => finals,
        };
        let all = Set::between(0, candidates.len() as u32);
        let set = if set == all && !all.is_empty() { Set::full() } else { set };
        // The candidates of triton grow with every index whose page is fetched.
        if name != TRITON_PACKAGE {
            self.memo.sets.borrow_mut().of_specifiers.insert(key, set.clone());
        }
        Ok(set)
    }

    /// The candidate that the lock holds, if its project yanked it since: it is kept.
    pub fn kept_though_yanked(&self, name: &str) -> Result<Option<u32>, Missing> {
        let Some(locked) = self.asked.preferences.versions.get(name) else { return Ok(None) };
        if self.stack.contains_key(name) {
            return Ok(None);
        }
        let candidates = self.candidates(name)?;
        let held = ordinal_of(&candidates, locked);
        Ok(held.filter(|held| self.known_candidates(name, &candidates).yanked.contains(held)))
    }

    /// What is known of the candidates of an ordinary package.
    pub fn known_candidates(&self, name: &str, candidates: &[Candidate<'_>]) -> Rc<KnownCandidates> {
        // Those of triton grow with every index whose page is fetched.
        let all = self.memo.known.get_or_init(|| self.memory.candidates(self.question(), self.kind()));
        let known = all.borrow().get(name).filter(|own| own.count() == candidates.len()).cloned();
        known.unwrap_or_else(|| {
            let known = Rc::new(KnownCandidates::new(candidates.iter().map(|candidate| candidate.release)));
            all.borrow_mut().insert(name.to_owned(), known.clone());
            known
        })
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
        if name == TRITON_PACKAGE
            || self.memo.admitting.contains_key(name)
            || self.stack.contains_key(name)
            || self.kept_though_yanked(name)?.is_some()
        {
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

    /// A file that says what a release requires: that for this Python ([`Problem::read_for`]), else what another allowed Python has.
    pub fn any_representative<'p>(&self, candidate: &Candidate<'p>) -> Option<&'p ReleaseFile> {
        let others = || self.pythons.allowed.iter().rev().find_map(|p| self.best_wheel(candidate, *p));
        self.read_for(candidate).or_else(others)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Versions of one project, few enough that specifiers meet their borders.
    fn any_version() -> impl Strategy<Value = String> {
        let release = prop::collection::vec(0u8..3, 1..4);
        let suffix = prop::sample::select(vec![
            "",
            "",
            "",
            ".dev0",
            ".dev1",
            "a0",
            "rc1",
            ".post0",
            ".post1",
            "rc1.post1",
            "rc1.dev1",
            "+cu1",
            ".post1+cu1",
        ]);
        let epoch = prop::sample::select(vec!["", "", "", "1!"]);
        (epoch, release, suffix).prop_map(|(epoch, release, suffix)| {
            let release: Vec<String> = release.iter().map(ToString::to_string).collect();
            format!("{epoch}{}{suffix}", release.join("."))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn binary_search_finds_what_contains_says(
            versions in prop::collection::btree_set(any_version(), 0..30),
            bound in any_version(),
            operator in prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">=", "~=", "===", "==*", "!=*"]),
        ) {
            let text = match operator.strip_suffix('*') {
                Some(operator) => format!("{operator}{bound}.*"),
                None => format!("{operator}{bound}"),
            };
            let Ok(specifier) = text.parse::<VersionSpecifier>() else { return Ok(()) };
            let mut versions: Vec<Version> = versions.iter().map(|text| text.parse().unwrap()).collect();
            versions.sort();
            // `==1.1.*` does not admit 1, which is 1.0: `contains` compares only the numbers that both have.
            let is_shorter = |version: &Version| version.release().len() < specifier.version().release().len();
            let is_padded = |version: &Version| {
                let padded = version.release().iter().copied().chain(std::iter::repeat(0));
                specifier.version().release().iter().zip(padded).all(|(own, other)| *own == other)
            };
            let admits = |version: &Version| match specifier.operator() {
                Operator::EqualStar if is_shorter(version) => specifier.contains(version) && is_padded(version),
                Operator::NotEqualStar if is_shorter(version) => specifier.contains(version) || !is_padded(version),
                _ => specifier.contains(version),
            };
            let expected: Vec<u32> =
                (0..versions.len()).filter(|i| admits(&versions[*i])).map(|i| i as u32).collect();
            let found = contained_by(versions.len(), |i| &versions[i], &specifier);
            let found: Vec<u32> = found.below(versions.len() as u32).collect();
            prop_assert_eq!(found, expected, "{} of {:?}", specifier, versions);
        }
    }
}
