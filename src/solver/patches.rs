//! Patch releases of Python: `Requires-Python: >=3.11.4` beside `<3.11.4` leaves none of the series 3.11.

use pep440_rs::{Version, VersionSpecifiers};
use version_ranges::Ranges;

use super::problem::Candidate;
use super::problem::Problem;
use super::tables::{Set, ordinals};
use crate::model::patches::COUNT;
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

    /// The patch releases that any of several specifiers allow; `None` if those are all of each series that they allow.
    pub fn patches_allowed(&self, any_of: &[VersionSpecifiers]) -> Option<Set> {
        let allows = |python: &Python, patch: u32| {
            let version = Version::new([3, u64::from(python.minor), u64::from(patch)]);
            any_of.iter().any(|specifiers| specifiers.contains(&version))
        };
        let is_partial =
            |python: &&Python| python.patch.is_none() && allows(python, 0) != allows(python, COUNT - 1);
        let partial: Vec<Python> = self.pythons.series.iter().filter(is_partial).copied().collect();
        if partial.is_empty() {
            return None;
        }
        Some(ordinals(self.patch_count(), |i| {
            let (python, patch) = (self.pythons.series[i / COUNT as usize], i as u32 % COUNT);
            // A series that is refused as a whole is the business of the Python node.
            !partial.contains(&python) || allows(&python, patch)
        }))
    }

    /// The patch releases that the files of a release allow; `None` if those are all.
    pub fn candidate_patches(&self, candidate: &Candidate<'_>) -> Option<Set> {
        let files = candidate.page.files(candidate.release);
        let stated: Option<Vec<VersionSpecifiers>> =
            files.iter().map(|file| file.requires_python.clone()).collect();
        let mut stated = stated?;
        stated.dedup();
        self.patches_allowed(&stated)
    }
}
