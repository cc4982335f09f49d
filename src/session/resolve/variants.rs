//! Builds of the pytorch index that no row has: a release whose build on PyPI the machine does not take may have one there that it
//! takes.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use pep440_rs::Version;

use super::learning::{Learner, chosen_of};
use super::machines::Machine;
use crate::compatibility::{ImpossibleVariant, Open, Unread};
use crate::index::IndexClient;
use crate::model::index_owner::{PYTORCH, local_of};
use crate::model::platform::Platform;
use crate::model::project::{ProjectPage, Release};
use crate::model::request::{Preferences, Request};
use crate::model::variant::{CPU, cuda_of_variant};
use crate::registry::Registry;
use crate::session::learning::{self, PYPI};

/// How many of the newest releases tell which variants there are.
const LATE: usize = 8;

/// What the pytorch index says of a build that no row has.
pub(super) enum Listed {
    /// It has it, or was not asked.
    Maybe,
    /// It does not have it.
    No,
    /// It did not answer, and why.
    Silent(String),
}

/// Looks for a build that no row has in the pages of the variants that it may be of.
pub(super) fn look_for(client: Option<&IndexClient>, request: &Request, open: &Open) -> Listed {
    let (Open::Build(build), Some(client)) = (open, client) else { return Listed::Maybe };
    if !matches!(build.what, Unread::Build | Unread::OtherIndex) {
        return Listed::Maybe;
    }
    let wanted = request.bounds_on("torch");
    let is_it = |version: &Version| {
        let release = version.clone().without_local();
        match &build.version {
            Some(own) => *own == release,
            None => wanted.as_ref().is_none_or(|wanted| wanted.contains(&release)),
        }
    };
    for variant in &build.variants {
        match learning::page(client, &format!("{PYTORCH}/{variant}"), "torch") {
            Ok(Some(page)) if page.newest_first(build.platform, is_it).next().is_some() => {
                return Listed::Maybe;
            }
            Ok(_) => {}
            // The others would not change that it is not known.
            Err(error) => return Listed::Silent(error.message),
        }
    }
    Listed::No
}

/// The variants that releases of late have, or that are asked for, and whose CUDA the machine can run.
fn variants(registry: &Registry, machine: &Machine, request: &Request) -> Vec<String> {
    let platform = machine.host.system.platform;
    let builds =
        || registry.builds().iter().filter(|build| build.platform == platform && build.on_pytorch_index);
    let newest: BTreeSet<&Version> = builds().map(|build| &build.version).collect();
    let late: BTreeSet<&&Version> = newest.iter().rev().take(LATE).collect();
    let known = builds().filter(|build| late.contains(&&build.version)).map(|build| build.variant.clone());
    let asked = request.variant.iter().map(|limit| limit.value.clone());
    let all: BTreeSet<String> = known.chain(asked).collect();
    let is_admitted = |variant: &String| {
        let is_asked = request.variant.as_ref().is_none_or(|limit| limit.value == *variant);
        let runs = match variant == CPU {
            true => machine.host.has_no_gpu(),
            false => {
                !machine.host.has_no_gpu()
                    && ImpossibleVariant::of(registry, &machine.host, variant).is_none()
            }
        };
        is_asked && runs
    };
    all.into_iter().filter(is_admitted).collect()
}

impl Learner<'_> {
    /// Reads builds of the releases that PyPI has and of which no row is on the pytorch index, newest first, until the machine
    /// takes one or none is left that is newer than the answer.
    pub(super) fn read_variants(&mut self, machine: &Machine, preferences: &Preferences) {
        let platform = machine.host.system.platform;
        let only = self.task.request.only_index.as_ref();
        let is_held = preferences.versions.contains_key("torch") && self.task.request.find("torch").is_some();
        if only.is_some_and(|only| !only.value.admits(PYTORCH)) || is_held {
            return;
        }
        let chosen =
            |learner: &Self| learner.stack_of(machine, preferences).and_then(|s| chosen_of(&s, "torch"));
        let mut releases = self.not_on_pytorch_index(platform);
        let are_only_there = self.are_only_on_pytorch_index(platform);
        // A registry that has them all costs no solve.
        if releases.is_empty() && !are_only_there {
            return;
        }
        let mut current = chosen(self);
        releases.retain(|release| current.as_ref().is_none_or(|current| release > current));
        if releases.is_empty() && !are_only_there {
            return;
        }
        let wanted = self.task.request.bounds_on("torch");
        let pages = match self.pages(&variants(self.base, machine, self.task.request)) {
            Ok(pages) => pages,
            Err(why) => {
                let cause = format!("its builds on the pytorch index were not read: {why}");
                let unread = self.unread.entry(("torch".to_owned(), platform)).or_default();
                // Why the wheel of PyPI was not read comes first.
                for release in releases {
                    unread.entry(release).or_insert_with(|| cause.clone());
                }
                return;
            }
        };
        let mut found: Vec<Version> = Vec::new();
        for page in &pages {
            let is_one = |version: &Version| {
                let release = version.clone().without_local();
                match are_only_there {
                    true => wanted.as_ref().is_some_and(|wanted| wanted.contains(&release)),
                    false => releases.contains(&release),
                }
            };
            found.extend(page.newest_first(platform, is_one).map(|(release, _)| release.version.clone()));
        }
        found.sort_by_key(|version| {
            Reverse((version.clone().without_local(), cuda_of_variant(&local_of(version))))
        });
        for version in found {
            if current.as_ref().is_some_and(|current| *current >= version.clone().without_local()) {
                return;
            }
            let Some(row) = self.row("torch", &version, platform) else { continue };
            self.rows.push(row);
            current = chosen(self);
        }
    }

    /// Whether the request bounds torch to releases of which neither a row nor PyPI has one.
    fn are_only_on_pytorch_index(&self, platform: Platform) -> bool {
        let Some(wanted) = self.task.request.bounds_on("torch") else { return false };
        let is_wanted = |version: &Version| wanted.contains(version);
        let mut rows = self.base.builds().iter().filter(|build| build.platform == platform);
        if rows.any(|build| is_wanted(&build.version)) {
            return false;
        }
        let page = learning::page(self.client, PYPI, "torch").ok().flatten();
        page.is_some_and(|page| page.newest_first(platform, is_wanted).next().is_none())
    }

    /// The releases of torch on PyPI that the request admits and of which no row is on the pytorch index.
    fn not_on_pytorch_index(&self, platform: Platform) -> BTreeSet<Version> {
        let Ok(Some(page)) = learning::page(self.client, PYPI, "torch") else { return BTreeSet::new() };
        let wanted = self.task.request.bounds_on("torch");
        let oldest = self.base.oldest_release("torch", platform);
        let has_row = |version: &Version| {
            let mut builds = self.base.builds().iter();
            builds.any(|build| {
                build.version == *version && build.platform == platform && build.on_pytorch_index
            })
        };
        // The builds of a release are for the same Pythons, wherever they are.
        let pythons = self.task.request.pythons(self.base.pythons());
        let is_for_one = |release: &Release| {
            let mut files = page.files(release).iter();
            files.any(|file| pythons.iter().any(|python| file.allows_python(*python)))
        };
        let releases = page.releases().iter().filter(|release| is_for_one(release));
        releases
            .map(|release| &release.version)
            .filter(|version| {
                !version.any_prerelease()
                    && wanted.as_ref().is_none_or(|wanted| wanted.contains(version))
                    && oldest.as_ref().is_none_or(|oldest| *version > oldest)
                    && !has_row(version)
            })
            .cloned()
            .collect()
    }

    /// The pages of torch on the sub-indexes of variants; those that do not exist are left out.
    fn pages(&self, variants: &[String]) -> Result<Vec<Arc<ProjectPage>>, String> {
        let page = |variant: &String| {
            learning::page(self.client, &format!("{PYTORCH}/{variant}"), "torch")
                .map_err(|error| error.message)
        };
        Ok(variants.iter().map(page).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}
