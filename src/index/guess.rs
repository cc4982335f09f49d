//! What the solver will most probably ask for next: so that it is fetched meanwhile.

use pep440_rs::VersionSpecifiers;
use pep508_rs::{ExtraName, MarkerEnvironment, VersionOrUrl};

use crate::model::metadata::CoreMetadata;
use crate::model::platform::{Libc, Platform};
use crate::model::project::{ProjectPage, WheelFile};
use crate::model::wheel::Python;

/// One thing to fetch.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Page {
        index: String,
        project: String,
        /// Who needs it and how, for the guess; empty for a plain need.
        specifiers: Vec<VersionSpecifiers>,
        extras: Vec<ExtraName>,
    },
    Metadata {
        index: String,
        file: Box<WheelFile>,
        extras: Vec<ExtraName>,
    },
}

/// What most probably will be asked next, so that it can be fetched ahead.
#[derive(Debug, Clone)]
pub struct Guess {
    /// The Python series to guess wheels for.
    pub python: Python,
    /// The platform.
    pub platform: Platform,
    /// The C library.
    pub libc: Option<Libc>,
    /// The marker environment of both.
    pub environment: MarkerEnvironment,
    /// Packages whose index is not known ahead: those that come from where their build is.
    pub not_guessed: Vec<String>,
    /// Indexes that own packages.
    pub owners: Vec<crate::model::request::IndexOwner>,
    /// Specifiers of the user's requirements and bounds by package, to guess releases with.
    pub wanted: Vec<(String, pep440_rs::VersionSpecifiers)>,
}

impl Guess {
    /// The wheel of the newest release that fits the specifiers.
    pub(super) fn file<'p>(
        &self,
        page: &'p ProjectPage,
        specifiers: &[VersionSpecifiers],
    ) -> Option<&'p WheelFile> {
        let fits = |prereleases: bool| {
            page.releases()
                .iter()
                .rev()
                .filter(|r| r.has_wheel && !r.yanked && (prereleases || !r.version.any_prerelease()))
                .filter(|r| specifiers.iter().all(|s| s.contains(&r.version)))
                // Old releases seldom become usable after a hundred newer ones that are not.
                .take(100)
                .find_map(|r| {
                    page.usable(r, self.python, self.platform, self.libc.as_ref()).into_iter().next()
                })
        };
        fits(false).or_else(|| fits(true))
    }

    /// The wheels that releases before a wheel's have for the same Python, newest first.
    pub(super) fn older(&self, page: &ProjectPage, needed: &WheelFile, count: usize) -> Vec<WheelFile> {
        let fits = |python: &Python| {
            needed.allows_python(*python)
                && needed.wheel.fit(python.minor, self.platform, self.libc.as_ref()).is_some()
        };
        let minors = (0..64).rev().map(Python::new);
        let Some(python) = std::iter::once(self.python).chain(minors).find(fits) else { return Vec::new() };
        let releases = page.releases().iter().rev().filter(|release| {
            release.version < needed.wheel.version
                && release.has_wheel
                && !release.yanked
                && (needed.wheel.version.any_prerelease() || !release.version.any_prerelease())
        });
        let files = releases.filter_map(|release| {
            page.usable(release, python, self.platform, self.libc.as_ref()).into_iter().next().cloned()
        });
        files.take(count).collect()
    }

    /// The pages that a METADATA leads to.
    pub(super) fn follow(&self, metadata: &CoreMetadata, extras: &[ExtraName]) -> Vec<Job> {
        metadata
            .requirements(&self.environment, extras)
            .filter_map(Result::ok)
            .filter_map(|(requirement, _)| {
                let project = requirement.name.to_string();
                if self.not_guessed.contains(&project) {
                    return None;
                }
                let index = crate::model::request::owner(&project, &self.owners).to_owned();
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
