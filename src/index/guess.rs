//! Predicts what the solver will need next, to prefetch it.

use std::sync::Arc;

use pep440_rs::VersionSpecifiers;
use pep508_rs::{ExtraName, MarkerEnvironment, VersionOrUrl};

use crate::model::cutoff::ExcludeNewer;
use crate::model::marker::marker_environment;
use crate::model::metadata::CoreMetadata;
use crate::model::platform::{Libc, Platform};
use crate::model::project::{ProjectPage, ReleaseFile};
use crate::model::wheel::Python;

/// One thing to fetch.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Page {
        index: String,
        project: String,
        /// The specifiers of those that need the project, to guess its release.
        specifiers: Vec<VersionSpecifiers>,
        extras: Vec<ExtraName>,
    },
    Metadata {
        index: String,
        file: Box<ReleaseFile>,
        extras: Vec<ExtraName>,
    },
}

/// The settings for predicting what the solver will need next.
#[derive(Debug, Clone)]
pub struct Guess {
    /// The Python version for which wheels are guessed.
    pub python: Python,
    /// The platform.
    pub platform: Platform,
    /// The C library.
    pub libc: Option<Libc>,
    /// The marker environment of Python and platform.
    pub environment: MarkerEnvironment,
    /// Packages that are not prefetched, because their index depends on the chosen build.
    pub not_prefetched: Vec<String>,
    /// Packages that come from a specific index.
    pub owners: Vec<crate::model::index_owner::IndexOwner>,
    /// Whether source distributions are candidates.
    pub takes_sources: bool,
    /// Until when files are candidates.
    pub exclude_newer: ExcludeNewer,
    /// Package and specifiers of the user's requirements and constraints, to guess releases.
    pub wanted: Vec<(String, pep440_rs::VersionSpecifiers)>,
}

impl Guess {
    /// The same for another Python.
    pub fn for_python(self, python: Python) -> Guess {
        Guess { python, environment: marker_environment(python, self.platform), ..self }
    }

    /// The page without the files that are no candidates because of their age.
    pub(super) fn before_cutoff(
        &self,
        index: &str,
        project: &str,
        page: Arc<ProjectPage>,
    ) -> Arc<ProjectPage> {
        match self.exclude_newer.of(index, project) {
            Some(cutoff) => Arc::new(page.before(cutoff.at)),
            None => page,
        }
    }

    /// The wheel of the newest release that matches the specifiers.
    pub(super) fn file<'p>(
        &self,
        page: &'p ProjectPage,
        specifiers: &[VersionSpecifiers],
    ) -> Option<&'p ReleaseFile> {
        let fits = |prereleases: bool| {
            page.releases()
                .iter()
                .rev()
                .filter(|r| !r.yanked && (prereleases || !r.version.any_prerelease()))
                .filter(|r| specifiers.iter().all(|s| s.contains(&r.version)))
                // If the newest hundred releases are unusable, older ones rarely help.
                .take(100)
                .find_map(|r| {
                    let wheel = page.best_usable(r, self.python, self.platform, self.libc.as_ref());
                    // A release with wheels for other Pythons is not built.
                    wheel.or_else(|| page.source(r).filter(|_| !r.has_wheel && self.takes_sources))
                })
        };
        fits(false).or_else(|| fits(true))
    }

    /// Wheels for the same Python from releases older than `needed`, newest first.
    pub(super) fn older(&self, page: &ProjectPage, needed: &ReleaseFile, count: usize) -> Vec<ReleaseFile> {
        let fits = |python: &Python| {
            needed.allows_python(*python)
                && needed
                    .wheel()
                    .is_none_or(|w| w.fit(python.minor, self.platform, self.libc.as_ref()).is_some())
        };
        let minors = (0..64).rev().map(Python::new);
        let Some(python) = std::iter::once(self.python).chain(minors).find(fits) else { return Vec::new() };
        let releases = page.releases().iter().rev().filter(|release| {
            release.version < *needed.version()
                && !release.yanked
                && (needed.version().any_prerelease() || !release.version.any_prerelease())
        });
        let files = releases.filter_map(|release| {
            page.best_usable(release, python, self.platform, self.libc.as_ref()).cloned()
        });
        files.take(count).collect()
    }

    /// The page jobs for the requirements in a METADATA.
    pub(super) fn follow(&self, metadata: &CoreMetadata, extras: &[ExtraName]) -> Vec<Job> {
        metadata
            .requirements(&self.environment, extras)
            .filter_map(Result::ok)
            .filter_map(|(requirement, _)| {
                let project = requirement.name.to_string();
                if self.not_prefetched.contains(&project) {
                    return None;
                }
                let index = crate::model::index_owner::owner(&project, &self.owners).to_owned();
                let mut specifiers: Vec<VersionSpecifiers> =
                    self.wanted.iter().filter(|(name, _)| *name == project).map(|(_, s)| s.clone()).collect();
                match &requirement.version_or_url {
                    Some(VersionOrUrl::VersionSpecifier(s)) => specifiers.push(s.clone()),
                    Some(VersionOrUrl::Url(_)) => return None,
                    None => {}
                }
                Some(Job::Page { index, project, specifiers, extras: requirement.extras.clone() })
            })
            .collect()
    }
}
