//! Patch releases of Python: `Requires-Python: >=3.11.4` beside `<3.11.4` leaves none of the series 3.11.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{ExtraName, Requirement, VerbatimUrl, VersionOrUrl};

use super::node::Selected;
use super::problem::{Candidate, Problem};
use super::release;
use super::tables::{Set, ordinals};
use crate::model::marker::marker_environment;
use crate::model::patches::{COUNT, Patches, to_look_at};
use crate::model::solution::ChosenPackage;
use crate::model::wheel::Python;

impl Problem<'_> {
    /// The number of candidates of [`super::node::Node::Patch`].
    pub fn patch_count(&self) -> usize {
        self.pythons.series.len() * COUNT as usize
    }

    /// The patch releases of a Python series, by its number; `None` if only one is asked for.
    pub fn patches_of_series(&self, series: u32) -> Option<Set> {
        self.pythons.series.get(series as usize).filter(|python| python.patch.is_none())?;
        Some(Set::between(series * COUNT, (series + 1) * COUNT))
    }

    /// The patch releases that specifiers allow, given for each series by its number; `None` if those are all.
    pub fn patches_allowed<'s>(
        &self,
        stated: impl Fn(usize) -> Option<&'s VersionSpecifiers>,
    ) -> Option<Set> {
        let allows = |specifiers: &VersionSpecifiers, python: Python, patch: u32| {
            specifiers.contains(&Version::new([3, u64::from(python.minor), u64::from(patch)]))
        };
        let partly = |(i, python): (usize, &Python)| {
            let specifiers = stated(i).filter(|_| python.patch.is_none())?;
            let first = allows(specifiers, *python, 0);
            // A series that is refused as a whole is the business of the Python node.
            let mut looked_at = to_look_at(specifiers, python.minor);
            looked_at.any(|patch| allows(specifiers, *python, patch) != first).then_some((i, specifiers))
        };
        let partial: Vec<(usize, &VersionSpecifiers)> =
            self.pythons.series.iter().enumerate().filter_map(partly).collect();
        if partial.is_empty() {
            return None;
        }
        Some(ordinals(self.patch_count(), |at| {
            let (i, patch) = (at / COUNT as usize, at as u32 % COUNT);
            let own = partial.iter().find(|(series, _)| *series == i);
            own.is_none_or(|(_, specifiers)| allows(specifiers, self.pythons.series[i], patch))
        }))
    }

    /// The patch releases that the files of a release allow which would be locked; `None` if those are all.
    pub fn candidate_patches(&self, candidate: &Candidate<'_>) -> Option<Set> {
        let (platform, libc) = (self.machine.platform, self.machine.libc.as_ref());
        self.patches_allowed(|i| {
            let python = self.pythons.series[i];
            let wheel = candidate.page.best_usable(candidate.release, python, platform, libc);
            wheel.or_else(|| self.source(candidate))?.requires_python.as_ref()
        })
    }

    /// The part of the allowed patch releases for which a selection has what its packages require. For the others, a marker on
    /// `python_full_version` requires something that is not selected.
    pub fn patches_by_markers(
        &self,
        selected: &Selected,
        packages: &[ChosenPackage],
        allowed: Patches,
    ) -> Patches {
        let is_met = |requirement: &Requirement<VerbatimUrl>| {
            let own = packages.iter().find(|package| package.name == requirement.name.as_ref());
            own.is_some_and(|own| match &requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.contains(&own.version),
                _ => true,
            })
        };
        let is_overridden = |requirement: &Requirement<VerbatimUrl>| {
            let name: &str = requirement.name.as_ref();
            self.asked.request.overrides.iter().any(|user| user.name() == name)
        };
        let mut unmet: Vec<(&Requirement<VerbatimUrl>, Vec<ExtraName>)> = Vec::new();
        for package in packages {
            let candidate = release::candidate(self, selected, &package.name);
            let metadata =
                candidate.and_then(|candidate| self.metadata_of(&candidate, &package.name).ok()?.ok());
            let Some(metadata) = metadata else { continue };
            let extras = release::extras(selected, &package.name);
            let open = metadata.by_patch().filter(|requirement| {
                !is_met(requirement)
                    && !is_overridden(requirement)
                    && !self.is_left_out(requirement.name.as_ref())
            });
            unmet.extend(open.map(|requirement| (requirement, extras.clone())));
        }
        if unmet.is_empty() {
            return allowed;
        }
        let (series, platform) = (self.pythons.series[0], self.machine.platform);
        allowed.where_it_holds(|patch| {
            let environment = marker_environment(Python { patch: Some(patch), ..series }, platform);
            !unmet.iter().any(|(requirement, extras)| requirement.marker.evaluate(&environment, extras))
        })
    }
}
