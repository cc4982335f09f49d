//! Patch releases of Python: `Requires-Python: >=3.11.4` beside `<3.11.4` leaves none of the series 3.11.

use pep440_rs::{Version, VersionSpecifiers};
use version_ranges::Ranges;

use super::problem::{Candidate, Problem};
use super::tables::{Set, ordinals};
use crate::model::patches::{COUNT, to_look_at};
use crate::model::wheel::Python;

impl Problem<'_> {
    /// The number of candidates of [`super::node::Node::Patch`].
    pub fn patch_count(&self) -> usize {
        self.pythons.series.len() * COUNT as usize
    }

    /// The patch releases of a Python series, by its number; `None` if only one is asked for.
    pub fn patches_of_series(&self, series: u32) -> Option<Set> {
        self.pythons.series.get(series as usize).filter(|python| python.patch.is_none())?;
        Some(Ranges::between(series * COUNT, (series + 1) * COUNT))
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
}
