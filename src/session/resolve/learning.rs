//! Releases of torch and its companions that the index has and the registry does not: read from their wheels.
//!
//! The newest release is read first, and the question is asked again with its row. As long as the answer is older than a
//! release that nobody has read, the next one is read.

use std::collections::BTreeMap;

use pep440_rs::{Version, VersionSpecifier, VersionSpecifiers};
use version_ranges::Ranges;

use super::machines::Machine;
use super::task::Task;
use crate::compatibility::{Policy, required_driver};
use crate::index::IndexClient;
use crate::learn::Learned;
use crate::model::choice::Choice;
use crate::model::conflict::{Conflict, Party, Reason, ReasonKind};
use crate::model::index_owner::{index_of, local_of};
use crate::model::only::Only;
use crate::model::platform::Platform;
use crate::model::project::{ProjectPage, Release, ReleaseFile};
use crate::model::request::{Preferences, Request};
use crate::model::solution::{Answer, Solution};
use crate::registry::{COMPANIONS, LearnedRow, Registry, STACK_PACKAGES};
use crate::session::data_folder;
use crate::session::failure::{Failure, FailureKind};
use crate::session::learned_rows;
use crate::session::learning::{self, PYPI};
use crate::solver::{JointAnswer, solve_stack};

/// How many wheels a run reads at most to find a release that fits. Since 2022 torch had about ten releases a year.
const MAX_READ: usize = 80;

/// Why a companion that was read cannot be judged.
const OF_UNKNOWN_CUDA: &str = "its wheel does not say for which CUDA and torch it was built";

/// What a run reads of the index beyond the registry.
pub(super) struct Learner<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) client: &'a IndexClient,
    /// Without what was read.
    pub(super) base: &'a Registry,
    /// The rows that were read or kept; the first `told` of them were reported.
    pub(super) rows: Vec<LearnedRow>,
    told: usize,
    read: usize,
    /// By package and platform: releases without data, and why.
    pub(super) unread: BTreeMap<(String, Platform), BTreeMap<Version, String>>,
}

impl<'a> Learner<'a> {
    pub fn new(task: &'a Task<'a>, client: &'a IndexClient, base: &'a Registry) -> Learner<'a> {
        Learner { task, client, base, rows: Vec::new(), told: 0, read: 0, unread: BTreeMap::new() }
    }

    /// The registry with the rows so far; `None` if there are none.
    pub fn registry(&self) -> Option<Registry> {
        (!self.rows.is_empty()).then(|| self.base.with_rows(&self.rows))
    }

    /// Reads the releases of the stack that each machine takes or the lock holds.
    ///
    /// # Errors
    /// A locked release has no row, and its wheel cannot be read.
    pub fn read_stack(&mut self) -> Result<(), Failure> {
        if !allows_pypi(self.task.request) {
            return Ok(());
        }
        for (machine, preferences) in self.task.machines.iter().zip(self.task.preferences) {
            self.read_locked(machine, preferences)?;
            let is_asked = |name: &&&str| self.task.request.find(name).is_some();
            let mut open = STACK_PACKAGES.iter().filter(is_asked);
            if open.any(|name| !preferences.versions.contains_key(*name))
                && !is_blocked_by_driver(self.base, machine, self.task.request, preferences)
            {
                self.read_newest(machine, preferences);
                self.read_variants(machine, preferences);
                self.read_companions(machine, preferences);
            }
        }
        self.tell();
        Ok(())
    }

    /// Reads releases of torch, newest first, until the machine takes one or none is left that is newer.
    fn read_newest(&mut self, machine: &Machine, preferences: &Preferences) {
        let platform = machine.host.system.platform;
        let is_asked = |name: &str| self.task.request.find(name).is_some();
        // A lock holds torch only where it is asked for: a new companion may need another one.
        if preferences.versions.contains_key("torch") && is_asked("torch") {
            return;
        }
        if !STACK_PACKAGES.into_iter().any(is_asked) {
            return;
        }
        let mut of_companions = None;
        loop {
            let chosen = self.stack_of(machine, preferences).and_then(|stack| chosen_of(&stack, "torch"));
            // Companions decide which torch is read if torch is not asked for, or if they are older than the registry.
            let newer = match is_asked("torch") && !self.asks_for_old_companion(platform) {
                true => self.unknown("torch", platform, chosen.as_ref()),
                false => {
                    let bounds = of_companions.get_or_insert_with(|| self.torch_of_companions(platform));
                    self.unknown_within("torch", platform, chosen.as_ref(), Some(bounds))
                }
            };
            let Some(row) = newer.into_iter().find_map(|version| self.row("torch", &version, platform))
            else {
                return;
            };
            let companions = row.torch().cloned().map(|torch| {
                let requested = COMPANIONS.iter().filter(|name| self.task.request.find(name).is_some());
                let requested: Vec<&str> = requested.copied().collect();
                requested
                    .into_iter()
                    .filter_map(|name| self.companion_for(name, &torch, platform, None))
                    .collect::<Vec<_>>()
            });
            self.rows.push(row);
            self.rows.extend(companions.into_iter().flatten());
        }
    }

    /// Whether the request admits of a companion only releases that are older than the registry.
    fn asks_for_old_companion(&self, platform: Platform) -> bool {
        let is_old = |name: &str| {
            let bounds = self.task.request.bounds_on(name)?;
            let oldest = self.base.oldest_release(name, platform)?;
            Some(is_before(&bounds, &oldest))
        };
        COMPANIONS.into_iter().any(|name| is_old(name) == Some(true))
    }

    /// The bounds on torch of the request, and of the newest releases of the companions that it admits.
    fn torch_of_companions(&self, platform: Platform) -> VersionSpecifiers {
        let asked = COMPANIONS.into_iter().filter(|name| self.task.request.find(name).is_some());
        let of = |name: &str| {
            let page = learning::page(self.client, PYPI, name).ok()??;
            let wanted = self.task.request.bounds_on(name);
            let is_admitted = |version: &Version| {
                !version.any_prerelease() && wanted.as_ref().is_none_or(|wanted| wanted.contains(version))
            };
            let (newest, _) = page.newest_first(platform, is_admitted).next()?;
            learning::requirement_on(self.client, (name, &newest.version), "torch", platform)
        };
        let of_request = self.task.request.bounds_on("torch");
        asked.filter_map(of).chain(of_request).flat_map(|bounds| bounds.to_vec()).collect()
    }

    pub(super) fn stack_of(&self, machine: &Machine, preferences: &Preferences) -> Option<Box<Solution>> {
        let read = self.registry();
        match solve_stack(read.as_ref().unwrap_or(self.base), &machine.host, self.task.request, preferences) {
            Answer::Solution(solution) => Some(solution),
            _ => None,
        }
    }

    /// Reads the releases that are newer than those of an answer, or all if it is a conflict: packages beside the stack
    /// may decide for one that is between. Returns whether there were any.
    pub fn read_beyond(&mut self, answer: &JointAnswer) -> bool {
        if !allows_pypi(self.task.request) || matches!(answer, JointAnswer::TooLong) {
            return false;
        }
        let mut rows = Vec::new();
        for (number, (machine, preferences)) in
            self.task.machines.iter().zip(self.task.preferences).enumerate()
        {
            let platform = machine.host.system.platform;
            for name in STACK_PACKAGES {
                let chosen = match answer {
                    JointAnswer::Solved(solutions) => {
                        let Some(chosen) = solutions.get(number).and_then(|one| chosen_of(one, name)) else {
                            continue;
                        };
                        if preferences.versions.get(name).is_some_and(|locked| is_same(locked, &chosen)) {
                            continue;
                        }
                        Some(chosen)
                    }
                    _ if self.task.request.find(name).is_none()
                        || is_blocked_by_driver(self.base, machine, self.task.request, preferences) =>
                    {
                        continue;
                    }
                    _ => None,
                };
                for version in self.unknown(name, platform, chosen.as_ref()) {
                    if self.may_stand_beside_torch(name, &version, platform) {
                        rows.extend(self.row(name, &version, platform));
                    }
                }
            }
        }
        let is_any = !rows.is_empty();
        self.rows.extend(rows);
        self.tell();
        is_any
    }

    /// Says with the versions of a solution that a newer release was not read.
    pub fn mark(&self, solution: &mut Solution) {
        for package in &mut solution.packages {
            if !matches!(package.reason, Choice::Newest | Choice::NewestAllowed(_)) {
                continue;
            }
            let own = package.version.clone().without_local();
            let key = (package.name.clone(), solution.platform);
            let newest = self.unread.get(&key).and_then(|unread| unread.last_key_value());
            if let Some((unread, cause)) = newest.filter(|(unread, _)| **unread > own) {
                package.reason = Choice::NewestRead { unread: unread.clone(), cause: Some(cause.clone()) };
            }
        }
    }

    /// Whether a conflict of the stack may only be one because a release was not read.
    ///
    /// # Errors
    /// It may: which release, and why it was not read.
    pub fn refuse_unread(&self) -> Result<(), Failure> {
        let mut machines = self.task.machines.iter().zip(self.task.preferences);
        let is_of_stack =
            machines.any(|(machine, preferences)| self.stack_of(machine, preferences).is_none());
        let Some(((name, _), unread)) = self.unread.iter().next().filter(|_| is_of_stack) else {
            return Ok(());
        };
        let Some((version, cause)) = unread.last_key_value() else { return Ok(()) };
        let message = format!("not known: {name} {version} may meet the request, and was not read: {cause}");
        let oldest = self.base.oldest_release(name, self.task.machines[0].host.system.platform);
        if let Some(oldest) = oldest.filter(|oldest| version < oldest) {
            return Err(Failure::new(FailureKind::UnknownRow, message)
                .hint(format!("`{name}>={oldest}` asks for one that is known")));
        }
        let again = match (self.task.global.offline, self.task.args.no_learn) {
            (true, true) => "run it again without `--offline` and `--no-learn`",
            (true, false) => "run it again without `--offline`",
            (false, true) => "run it again without `--no-learn`",
            (false, false) => {
                "run it again when its index answers, take PyPI's builds alone (`--only-index pypi`)"
            }
        };
        Err(Failure::new(FailureKind::UnknownRow, message)
            .hint(format!("{again}, or exclude the release: `{name}!={version}`")))
    }

    /// The rows of the releases that the lock holds.
    fn read_locked(&mut self, machine: &Machine, preferences: &Preferences) -> Result<(), Failure> {
        let platform = machine.host.system.platform;
        for name in STACK_PACKAGES.into_iter().filter(|name| self.task.request.find(name).is_some()) {
            let Some(locked) = preferences.versions.get(name) else { continue };
            // The builds of the pytorch index are told apart by their local version.
            let locked = match name {
                "torch" => locked.clone(),
                _ => locked.clone().without_local(),
            };
            if self.has_release(name, &locked, platform) {
                continue;
            }
            let place = learned_rows::store(self.task.global).place(name, &locked, platform);
            if let Some(row) = place.row() {
                self.rows.push(row);
                continue;
            }
            if self.task.global.offline || self.task.args.no_learn {
                let message = format!(
                    "the lock has {name} {locked}, which the registry does not know, and reading its wheel is disabled"
                );
                return Err(Failure::new(FailureKind::UnknownRow, message)
                    .hint("run once without `--offline` and `--no-learn`, or replace it with `--upgrade`"));
            }
            // The solve reports an index that does not answer, and a release that it no longer has.
            let index = index_of(&locked);
            let Ok(Some(page)) = learning::page(self.client, &index, name) else { continue };
            let Some(found) = page.newest_first(platform, |version| *version == locked).next() else {
                continue;
            };
            let row = self.read((&index, &page), found, platform)?;
            self.rows.push(row);
        }
        Ok(())
    }

    /// Newer companions for the torch that is chosen.
    fn read_companions(&mut self, machine: &Machine, preferences: &Preferences) {
        let platform = machine.host.system.platform;
        let Some(solution) = self.stack_of(machine, preferences) else { return };
        let Some(torch) = chosen_of(&solution, "torch") else { return };
        for name in COMPANIONS.into_iter().filter(|name| !preferences.versions.contains_key(*name)) {
            let Some(chosen) = chosen_of(&solution, name) else { continue };
            let row = self.companion_for(name, &torch, platform, Some(&chosen));
            self.rows.extend(row);
        }
    }

    /// The row of the newest release of a companion, newer than the one above, whose wheel accepts this torch.
    fn companion_for(
        &mut self,
        name: &str,
        torch: &Version,
        platform: Platform,
        above: Option<&Version>,
    ) -> Option<LearnedRow> {
        let bounds = self.bounds_beside(name, torch, platform);
        self.unknown_within(name, platform, above, bounds.as_ref()).into_iter().find_map(|version| {
            let needs = learning::requirement_on(self.client, (name, &version), "torch", platform);
            let accepts = needs.is_none_or(|specifiers| specifiers.contains(torch));
            accepts.then(|| self.row(name, &version, platform)).flatten()
        })
    }

    /// Whether a companion requires a torch that the request admits. Its METADATA is small, its wheel is not.
    fn may_stand_beside_torch(&self, name: &str, version: &Version, platform: Platform) -> bool {
        let Some(wanted) = self.task.request.bounds_on("torch").filter(|_| name != "torch") else {
            return true;
        };
        let needs = learning::requirement_on(self.client, (name, version), "torch", platform);
        needs.is_none_or(|needs| !Ranges::<Version>::from(needs).is_disjoint(&Ranges::from(wanted)))
    }

    /// The bounds of the request on a companion; beside a torch that is older than the registry, one that is older, too.
    fn bounds_beside(&self, name: &str, torch: &Version, platform: Platform) -> Option<VersionSpecifiers> {
        let bounds = self.task.request.bounds_on(name);
        let is_old = self.base.oldest_release("torch", platform).is_some_and(|oldest| *torch < oldest);
        let oldest = self.base.oldest_release(name, platform).filter(|_| is_old);
        let Some(oldest) = oldest else { return bounds };
        let older = VersionSpecifier::less_than_version(oldest);
        Some(bounds.into_iter().flat_map(|all| all.to_vec()).chain([older]).collect())
    }

    fn has_release(&self, name: &str, version: &Version, platform: Platform) -> bool {
        let known = match version.is_local() {
            true => self.base.build(&version.clone().without_local(), &local_of(version), platform).is_some(),
            false => self.base.has_release_of_pypi(name, version, platform),
        };
        known || self.rows.iter().any(|row| row.package() == name && row.is_of(version, platform))
    }

    /// The releases of a package that the index has and the registry does not, newer than `above` and admitted by the
    /// request, newest first. Nothing if the index does not answer: the solve reports that.
    fn unknown(&self, name: &str, platform: Platform, above: Option<&Version>) -> Vec<Version> {
        self.unknown_within(name, platform, above, self.task.request.bounds_on(name).as_ref())
    }

    /// The same for other bounds than those of the request.
    fn unknown_within(
        &self,
        name: &str,
        platform: Platform,
        above: Option<&Version>,
        wanted: Option<&VersionSpecifiers>,
    ) -> Vec<Version> {
        let Ok(Some(page)) = learning::page(self.client, PYPI, name) else { return Vec::new() };
        let oldest = self.base.oldest_release(name, platform);
        // What is older than the registry is read where nothing else is asked for.
        let admits_known =
            oldest.as_ref().zip(wanted).is_none_or(|(oldest, wanted)| !is_before(wanted, oldest));
        let above = above.cloned().map(Version::without_local);
        let unread = self.unread.get(&(name.to_owned(), platform));
        let is_unknown = |version: &Version| {
            !version.any_prerelease()
                && wanted.is_none_or(|wanted| wanted.contains(version))
                && above.as_ref().is_none_or(|above| version > above)
                && (!admits_known || oldest.as_ref().is_none_or(|oldest| version > oldest))
                && !self.has_release(name, version, platform)
                && !unread.is_some_and(|unread| unread.contains_key(version))
        };
        page.newest_first(platform, is_unknown).map(|(release, _)| release.version.clone()).collect()
    }

    /// The row of a release, kept or read from its wheel; `None` if it cannot be had, which is remembered with the cause.
    pub(super) fn row(&mut self, name: &str, version: &Version, platform: Platform) -> Option<LearnedRow> {
        let place = learned_rows::store(self.task.global).place(name, version, platform);
        let kept = place.row().filter(|_| !self.task.args.no_learn);
        let is_old = self.base.oldest_release(name, platform).is_some_and(|oldest| *version < oldest);
        let is_open = |row: &LearnedRow| is_old && row.is_of_unknown_cuda();
        let cause = if kept.as_ref().is_some_and(is_open) {
            OF_UNKNOWN_CUDA.to_owned()
        } else if kept.is_some() {
            return kept;
        } else if self.task.global.offline {
            "`--offline` is set".to_owned()
        } else if self.task.args.no_learn {
            if !self.unread.contains_key(&(name.to_owned(), platform)) {
                self.task.interface.note(&format!(
                    "the index has {name} {version}, which the registry does not know; without `--no-learn` it would be read from its wheel"
                ));
            }
            "`--no-learn` is set".to_owned()
        } else if self.read >= MAX_READ {
            format!("{MAX_READ} wheels were read")
        } else {
            match self.read_from_index(name, version, platform) {
                Ok(Some(row)) if is_open(&row) => OF_UNKNOWN_CUDA.to_owned(),
                Ok(row) => return row,
                Err(error) => {
                    self.task.interface.warning(&error.message);
                    error.message
                }
            }
        };
        self.unread.entry((name.to_owned(), platform)).or_default().insert(version.clone(), cause);
        None
    }

    /// The row of a release by its wheel; `None` if its index does not have it.
    fn read_from_index(
        &mut self,
        name: &str,
        version: &Version,
        platform: Platform,
    ) -> Result<Option<LearnedRow>, Failure> {
        let index = index_of(version);
        let Some(page) = learning::page(self.client, &index, name)? else { return Ok(None) };
        let Some(found) = page.newest_first(platform, |own| own == version).next() else { return Ok(None) };
        self.read((&index, &page), found, platform).map(Some)
    }

    fn read(
        &mut self,
        of: (&str, &ProjectPage),
        found: (&Release, &ReleaseFile),
        platform: Platform,
    ) -> Result<LearnedRow, Failure> {
        self.read += 1;
        let known = (self.base, platform);
        let learned = learning::release(self.client, of, found, known, self.task.interface)?;
        if let Some(cuda) = self.unknown_cuda(&learned) {
            return Err(Failure::new(
                FailureKind::UnknownRow,
                format!("which driver its CUDA {cuda} needs is not in the registry"),
            ));
        }
        let row = learning::row_of(&learned)?;
        let store = learned_rows::store(self.task.global);
        // The builds of a release on the pytorch index are told apart by their local version.
        store.place(&learned.project, &found.0.version, platform).keep(Some(&row));
        Ok(row)
    }

    /// The CUDA version of a release, if the registry has no driver floor for it.
    fn unknown_cuda(&self, learned: &Learned) -> Option<String> {
        let text = learned.cuda.clone()?;
        let cuda = crate::model::version::cuda_version(&text).ok();
        let os = learned.platform.os;
        let floor = cuda.and_then(|cuda| required_driver(self.base, &cuda, os, Policy::Minor));
        floor.is_none().then_some(text)
    }

    /// Says which rows are not the registry's.
    fn tell(&mut self) {
        for row in &self.rows[self.told..] {
            self.task.interface.note(&read_from_wheel(row));
        }
        if self.told < self.rows.len() && self.task.global.registry.is_none() {
            self.task.interface.note(&format!("{}, where there are some", data_folder::newer()));
        }
        self.told = self.rows.len();
    }
}

/// That a row is not the registry's.
pub(super) fn read_from_wheel(row: &LearnedRow) -> String {
    format!("{} is not in the registry: its compatibility data was read from its wheel", row.release())
}

/// Whether bounds admit only releases that are older than one.
fn is_before(bounds: &VersionSpecifiers, oldest: &Version) -> bool {
    Ranges::from(bounds.clone()).is_disjoint(&Ranges::higher_than(oldest.clone()))
}

/// The version of a package in a solution, without its local part.
pub(super) fn chosen_of(solution: &Solution, name: &str) -> Option<Version> {
    if name == "torch" {
        return solution.stack.as_ref().map(|stack| stack.version.clone().without_local());
    }
    let companion = solution.stack.as_ref().and_then(|stack| stack.companions.get(name));
    companion.map(|version| version.clone().without_local())
}

fn is_same(a: &Version, b: &Version) -> bool {
    a.clone().without_local() == b.clone().without_local()
}

/// Says of releases outside the registry, newer or older, that PyPI does not have them, where no other index may be used.
pub(super) fn cite_pypi(task: &Task<'_>, registry: &Registry, refused: &mut Conflict) {
    let is_pypi_alone = task.request.only_index.as_ref().is_some_and(|only| only.value == Only::pypi());
    let Some(client) = task.client.filter(|_| is_pypi_alone) else { return };
    for name in STACK_PACKAGES {
        let Some(bounds) = task.request.bounds_on(name) else { continue };
        let platforms = || task.machines.iter().map(|machine| machine.host.system.platform);
        let newest = platforms().filter_map(|platform| registry.newest_release(name, platform)).max();
        let oldest = platforms().filter_map(|platform| registry.oldest_release(name, platform)).min();
        let known = Ranges::intersection(
            &newest.map_or_else(Ranges::full, Ranges::lower_than),
            &oldest.map_or_else(Ranges::full, Ranges::higher_than),
        );
        if !Ranges::from(bounds.clone()).is_disjoint(&known) {
            continue;
        }
        let Ok(Some(page)) = learning::page(client, PYPI, name) else { continue };
        let all = || page.releases().iter().map(|release| &release.version);
        let Some(newest) = all().filter(|version| !version.any_prerelease()).max() else { continue };
        let is_admitted = |version: &Version| bounds.contains(version);
        let without_wheel =
            platforms().find(|platform| page.newest_first(*platform, is_admitted).next().is_none());
        let text = match (all().any(is_admitted), without_wheel) {
            (false, _) => format!("PyPI has no such {name}; its newest is {newest}"),
            (true, Some(platform)) => format!("no such {name} on PyPI has a wheel for {platform}"),
            (true, None) => continue,
        };
        let is_of_it = |reason: &&mut Reason| {
            reason.kind == ReasonKind::Available && reason.parties == [Party::package(name)]
        };
        for reason in refused.reasons.iter_mut().filter(is_of_it) {
            reason.text.clone_from(&text);
            reason.source = "index".to_owned();
        }
    }
}

/// Whether the request fails because of the driver. Then no newer release helps, and the index is not queried.
fn is_blocked_by_driver(
    registry: &Registry,
    machine: &Machine,
    request: &Request,
    preferences: &Preferences,
) -> bool {
    match solve_stack(registry, &machine.host, request, preferences) {
        Answer::Conflict(conflict) => {
            conflict.reasons.iter().any(|reason| reason.parties.contains(&Party::Driver))
        }
        _ => false,
    }
}

fn allows_pypi(request: &Request) -> bool {
    request.only_index.as_ref().is_none_or(|only| only.value.admits("pypi"))
}
