//! A release of torch that the index has and the registry does not: yesterday's binary reads it out of the wheel.

use std::path::PathBuf;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;

use super::machines::Machine;
use crate::cli::args::{GlobalArgs, SolveArgs};
use crate::cli::error::CliError;
use crate::cli::printer::Printer;
use crate::cli::{files, learning, settings};
use crate::index::IndexClient;
use crate::learn;
use crate::model::platform::Platform;
use crate::model::project::{ProjectPage, WheelFile};
use crate::model::request::{Preferences, Request};
use crate::model::solution::Answer;
use crate::registry::Registry;
use crate::solver::{STACK_PACKAGES, solve_stack};

/// A row that was kept is no larger, in bytes.
const MAX_ROW: u64 = 64 << 10;

/// The registry with the newest releases of the stack that the index has and it has not; nothing where it has all.
pub(super) fn extended(
    global: &GlobalArgs,
    args: &SolveArgs,
    client: &IndexClient,
    request: &Request,
    (machines, preferences): (&[Machine], &[Preferences]),
    registry: &Registry,
    printer: &Printer,
) -> Option<Registry> {
    if global.offline || !allows_pypi(request) {
        return None;
    }
    let learner = Learner { global, args, client, request, registry, printer };
    let mut rows: Vec<(String, String)> = Vec::new();
    for (machine, preferences) in machines.iter().zip(preferences) {
        let platform = machine.host.system.platform;
        if is_the_drivers(registry, machine, request, preferences) {
            continue;
        }
        for name in STACK_PACKAGES.iter().filter(|name| request.find(name).is_some()) {
            match learner.row(name, platform, preferences.versions.get(*name)) {
                Ok(Some(row)) if !rows.contains(&row) => rows.push(row),
                Ok(_) => {}
                // The registry's own builds are there all the same.
                Err(error) => printer.warning(&error.message),
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    match registry.with_rows(&rows) {
        Ok(extended) => Some(extended),
        Err(why) => {
            printer.warning(&format!("what was learned does not fit the registry: {why}"));
            None
        }
    }
}

/// Whether the driver is what stands against the request: then no newer release helps, and no index is asked.
fn is_the_drivers(
    registry: &Registry,
    machine: &Machine,
    request: &Request,
    preferences: &Preferences,
) -> bool {
    match solve_stack(registry, &machine.host, request, preferences) {
        Answer::Conflict(conflict) => {
            conflict.reasons.iter().any(|reason| reason.parties.iter().any(|party| party == "driver"))
        }
        _ => false,
    }
}

fn allows_pypi(request: &Request) -> bool {
    request.only_index.as_ref().is_none_or(|only| only.value == "pypi")
}

struct Learner<'a> {
    global: &'a GlobalArgs,
    args: &'a SolveArgs,
    client: &'a IndexClient,
    request: &'a Request,
    registry: &'a Registry,
    printer: &'a Printer,
}

impl Learner<'_> {
    /// The file and the row of the newest release that the registry does not have; of the locked one, where there is one.
    fn row(
        &self,
        name: &str,
        platform: Platform,
        locked: Option<&Version>,
    ) -> Result<Option<(String, String)>, CliError> {
        let newest_known = self.newest_known(name, platform);
        let locked = locked.map(|version| version.clone().without_local());
        if locked.as_ref().is_some_and(|locked| Some(locked) <= newest_known.as_ref()) {
            return Ok(None);
        }
        // An index that does not answer is the solve's to report.
        let Ok(Some(page)) = learning::page(self.client, name) else { return Ok(None) };
        let wanted = match &locked {
            Some(locked) => Some(
                format!("=={locked}")
                    .parse::<VersionSpecifiers>()
                    .map_err(|e| CliError::new("lock", format!("`{locked}` is no version: {e}")))?,
            ),
            None => self.specifiers(name),
        };
        let Some((release, file)) = learning::newest(&page, wanted.as_ref(), platform) else {
            return Ok(None);
        };
        let version = release.version.clone();
        if version.any_prerelease() || Some(&version) <= newest_known.as_ref() {
            return Ok(None);
        }
        if self.args.no_learn {
            self.printer.note(&format!(
                "the index has {name} {version}, which the registry does not know; without `--no-learn` it would be read from its wheel"
            ));
            return Ok(None);
        }
        let row = self.read(&page, (release, file), platform)?;
        self.printer.note(&format!(
            "{name} {version} is newer than the registry: what it needs was read from its wheel"
        ));
        Ok(Some(row))
    }

    fn newest_known(&self, name: &str, platform: Platform) -> Option<Version> {
        match name {
            "torch" => self
                .registry
                .builds()
                .iter()
                .filter(|b| b.platform == platform)
                .map(|b| b.version.clone())
                .max(),
            _ => {
                let rows = self.registry.companions().iter().filter(|row| row.package == name);
                let beside = self.registry.builds().iter().filter_map(|b| b.companion(name).cloned());
                rows.map(|row| row.version.clone()).chain(beside).max()
            }
        }
    }

    fn specifiers(&self, name: &str) -> Option<VersionSpecifiers> {
        match &self.request.find(name)?.requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers.clone()),
            _ => None,
        }
    }

    /// The row, kept from an earlier run or read out of the wheel.
    fn read(
        &self,
        page: &ProjectPage,
        (release, file): (&crate::model::project::Release, &WheelFile),
        platform: Platform,
    ) -> Result<(String, String), CliError> {
        let kept = self.kept(file, platform);
        if let Some(text) = std::fs::read_to_string(&kept).ok().filter(|text| text.len() as u64 <= MAX_ROW)
            && let Some((path, row)) = text.split_once('\n')
        {
            return Ok((path.to_owned(), row.to_owned()));
        }
        let learned = learning::release(self.client, page, (release, file), platform, self.printer)?;
        let (path, row) = (learn::file_of(&learned), learn::render(&learned));
        if let Some(folder) = kept.parent()
            && std::fs::create_dir_all(folder).is_ok()
        {
            // That it cannot be kept only makes the next run slower.
            let _ = files::write(&kept, &format!("{path}\n{row}"));
        }
        Ok((path, row))
    }

    /// Where a row is kept: by the file's digest, or by its name where the index states none.
    fn kept(&self, file: &WheelFile, platform: Platform) -> PathBuf {
        let name = file.sha256.clone().unwrap_or_else(|| file.filename.replace(['/', '\\'], "_"));
        settings::cache_dir(self.global).join("learned").join(format!("{name}-{platform}.toml"))
    }
}
