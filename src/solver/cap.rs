//! The inherited cap: a release of a requested package is no candidate beside a version of the stack or of another
//! requested package that a later final release of the same package excludes from above.
//!
//! An old release seldom has an upper bound on what did not exist yet: vllm 0.2.0 requires `torch>=2.0.0`, and every
//! later one pins torch. Without the cap `torch==2.15.0 vllm` would lock vllm 0.2.0.
//!
//! Of each later minor line (x.y) the newest release counts, among those that the request admits and that some allowed
//! Python could have. `[[metadata]]` about a release lifts its cap.

use std::collections::BTreeMap;
use std::rc::Rc;

use pep440_rs::{Operator, Version, VersionSpecifiers};

use super::closure::{Dependencies, Missing, Unusable};
use super::inputs::Depth;
use super::node::Node;
use super::problem::{Candidate, Lines, Problem, Tops};
use super::tables::{Set, TRITON_PACKAGE, is_stack_package};
use crate::model::request::Origin;
use crate::model::version::{minor_line, public};

/// A cap on a package: which later release sets it, its requirement, and the newest candidate that remains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cap {
    pub later: u32,
    pub requirement: String,
    pub top: u32,
}

impl Problem<'_> {
    /// The dependencies of an ordinary package's release, and its caps.
    pub fn release_dependencies(
        &self,
        name: &str,
        ordinal: u32,
    ) -> Result<Result<Dependencies, Unusable>, Missing> {
        let mut out = match self.package_dependencies(name, ordinal, None)? {
            Ok(out) => out,
            unusable => return Ok(unusable),
        };
        // A cap never brings a package in.
        let is_there = |node: &Node| {
            out.iter().any(|(other, _)| other == node)
                || self.user_requirements().any(|u| node.package_name() == Some(u.name()))
        };
        let caps = self.caps(name, ordinal)?.into_iter();
        let caps: Dependencies = caps
            .map(|(to, cap)| (Node::package(&to), Set::strictly_lower_than(cap.top + 1)))
            .filter(|(node, _)| is_there(node))
            .collect();
        out.extend(caps);
        Ok(Ok(out))
    }

    /// The caps of a release of a requested package, by the package that is capped.
    pub fn caps(&self, name: &str, ordinal: u32) -> Result<BTreeMap<String, Cap>, Missing> {
        let mut caps: BTreeMap<String, Cap> = BTreeMap::new();
        if self.asked.depth != Depth::Full
            || is_stack_package(name)
            || name == TRITON_PACKAGE
            || !self.is_requested(name)
            || self.universe.direct(name).is_some()
        {
            return Ok(caps);
        }
        let candidates = self.candidates(name)?;
        let version = &candidates[ordinal as usize].release.version;
        if self.asked.request.metadata.iter().any(|stated| stated.is_about(name, version)) {
            return Ok(caps);
        }
        let mut missing = false;
        for later in self.later_lines(name, ordinal, &candidates)? {
            let Ok(tops) = self.tops(name, later, &candidates[later as usize]) else {
                missing = true;
                continue;
            };
            for (to, (top, requirement)) in tops.iter() {
                // Newest first: of several with the same bound, the one that came first tells.
                if caps.get(to).is_none_or(|known| *top <= known.top) {
                    caps.insert(to.clone(), Cap { later, requirement: requirement.clone(), top: *top });
                }
            }
        }
        if missing { Err(Missing) } else { Ok(caps) }
    }

    /// The newest final release of each minor line that is newer than a release and that the request admits.
    fn later_lines(
        &self,
        name: &str,
        ordinal: u32,
        candidates: &[Candidate<'_>],
    ) -> Result<Vec<u32>, Missing> {
        let mut admitted = Set::full();
        for user in self.user_requirements().filter(|u| u.name() == name) {
            admitted = admitted.intersection(&self.matching(name, user.specifiers())?);
        }
        let is_bounded = |version: &Version| {
            let mut bounds = self.bounds_on(name).filter(|(user, _)| user.origin != Origin::Question);
            bounds.all(|(_, specifiers)| specifiers.contains(version))
        };
        let mut known = self.memo.lines.borrow_mut();
        let count = candidates.len() as u32;
        let Lines { from, newest } =
            known.entry(name.to_owned()).or_insert(Lines { from: count, newest: Vec::new() });
        for i in (ordinal + 1..*from).rev() {
            let candidate = &candidates[i as usize];
            let version = &candidate.release.version;
            let line = minor_line(version);
            if !version.any_prerelease()
                && newest.last().is_none_or(|(known, _)| *known != line)
                && admitted.contains(&i)
                && is_bounded(version)
                && self.pythons.allowed.iter().rev().any(|python| self.has_usable(candidate, *python))
            {
                newest.push((line, i));
            }
        }
        *from = (*from).min(ordinal + 1);
        Ok(newest.iter().map(|(_, i)| *i).filter(|i| *i > ordinal).collect())
    }

    /// What a release excludes from above, of the stack and the requested packages.
    fn tops(&self, name: &str, ordinal: u32, candidate: &Candidate<'_>) -> Result<Tops, Missing> {
        let key = (name.to_owned(), ordinal);
        if let Some(known) = self.memo.tops.borrow().get(&key) {
            return Ok(known.clone());
        }
        let mut tops: BTreeMap<String, (u32, String)> = BTreeMap::new();
        // What cannot be read excludes nothing.
        if let Some(file) = self.any_representative(candidate)
            && let Ok(metadata) = self.metadata_in(candidate, name, file)?
        {
            let applied = self.applied(metadata, None);
            let numbers = applied.as_ref().as_ref().map(Vec::as_slice).unwrap_or_default();
            for (requirement, _) in numbers.iter().filter_map(|number| metadata.requirement(*number)) {
                let to: &str = requirement.name.as_ref();
                let Some(specifiers) = specifiers_of(requirement) else { continue };
                if to != name && self.is_capped(to) && !self.is_left_out(to) {
                    let Some(top) = self.top(to, specifiers)? else { continue };
                    if tops.get(to).is_none_or(|(known, _)| top < *known) {
                        tops.insert(to.to_owned(), (top, format!("{to}{specifiers}")));
                    }
                }
            }
        }
        let tops = Rc::new(tops);
        self.memo.tops.borrow_mut().insert(key, tops.clone());
        Ok(tops)
    }

    /// Whether a package is capped: one of the stack or of the request, whose version is chosen by what others require.
    fn is_capped(&self, name: &str) -> bool {
        (is_stack_package(name) || self.is_requested(name))
            && name != TRITON_PACKAGE
            && self.universe.direct(name).is_none()
            && !self.asked.request.overrides.iter().any(|o| o.name() == name)
    }

    /// The newest candidate that a requirement admits, if a newer final release exists.
    fn top(&self, name: &str, specifiers: &VersionSpecifiers) -> Result<Option<u32>, Missing> {
        // One release that is left out is not an upper bound.
        let bounds = specifiers
            .iter()
            .filter(|s| !matches!(s.operator(), Operator::NotEqual | Operator::NotEqualStar));
        let bounds: VersionSpecifiers = bounds.cloned().collect();
        let count = self.count(name)?;
        let Some(all) = newest(&self.matching(name, None)?, count) else { return Ok(None) };
        let Some(mut top) = newest(&self.matching(name, Some(&bounds))?, count) else { return Ok(None) };
        if !is_stack_package(name) {
            // Builds of one version, `2.0+foo` and `2.0+bar`, are not newer than each other.
            let candidates = self.candidates(name)?;
            let version = |i: u32| public(&candidates[i as usize].release.version);
            while top + 1 < count && version(top + 1) == version(top) {
                top += 1;
            }
        }
        Ok((top < all).then_some(top))
    }

    fn count(&self, name: &str) -> Result<u32, Missing> {
        Ok(match self.stack.get(name) {
            Some(table) => table.versions.len() as u32,
            None => self.candidates(name)?.len() as u32,
        })
    }
}

/// The greatest member of a set of candidates.
fn newest(set: &Set, count: u32) -> Option<u32> {
    (0..count).rev().find(|i| set.contains(i))
}

fn specifiers_of(requirement: &pep508_rs::Requirement<pep508_rs::VerbatimUrl>) -> Option<&VersionSpecifiers> {
    match requirement.version_or_url.as_ref()? {
        pep508_rs::VersionOrUrl::VersionSpecifier(specifiers) => Some(specifiers),
        pep508_rs::VersionOrUrl::Url(_) => None,
    }
}
