//! What is newer than a lock: stacks that the locked machines can run, and packages.

use std::collections::BTreeMap;

use pep440_rs::Version;
use serde::Serialize;

use super::Interface;
use super::failure::Failure;
use super::fetch::{self, Session};
use super::options::Global;
use super::settings::{self, Project};
use super::{chosen_host, learned_rows, owner, project_lock};
use crate::index::{Fetched, IndexClient};
use crate::lockfile::Target;
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::owner::Owner;
use crate::model::project::Release;
use crate::model::request::Preferences;
use crate::model::solution::{Answer, ChosenPackage, Need, Solution};
use crate::model::version::public;
use crate::registry::Registry;
use crate::solver::{Budget, NewerStacks, Question, Upgrade, newer_stacks, upgrades};

/// What is newer than a target of the lock.
#[derive(Serialize)]
pub(crate) struct Newer {
    #[serde(rename = "target")]
    name: String,
    #[serde(skip)]
    pub target: Target,
    /// The machine that it is for.
    #[serde(skip)]
    pub host: Host,
    pub stack: NewerStacks,
    /// The packages that can be newer.
    pub packages: Vec<Upgrade>,
    /// The packages of which there is a newer release that does not fit.
    pub behind: Vec<Upgrade>,
    /// The torch of a solve of everything; `None` if that has no answer, or if the lock has the stack alone.
    #[serde(skip)]
    pub torch: Option<Version>,
}

/// What is newer than the targets of the project's lock, or than one, and the registry with what was learned for it.
///
/// # Errors
/// When there is no lock, no target of that name, or an index cannot be read.
pub(crate) fn newer(
    global: &Global,
    (target, index_url): (Option<&str>, Option<&str>),
    interface: &dyn Interface,
) -> Result<(Vec<Newer>, Registry), Failure> {
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let lock = project_lock::read(&project)?.ok_or_else(project_lock::missing)?;
    project_lock::warn_if_stale(&project, &lock, &registry, interface);
    let lock = owner::with_packages(&project, lock, &registry)?;
    let targets = project_lock::targets(&lock, target)?;
    let registry =
        learned_rows::with_rows_of(global, registry, &|name| project_lock::mentions(&targets, name));
    let client = match targets.iter().any(|target| target.level == Level::Full) {
        true => Some(fetch::client(global, &project, index_url)?),
        false => None,
    };
    let owner = owner::of(&project);
    let of_uv = owner.filter(|owner| *owner == Owner::Uv).and_then(|_| owner::python_of_uv(&project));
    let budget = Budget::default();
    let mut session = client
        .as_ref()
        .map(|client| Session::new(client, &registry, interface, project.stated_metadata(), &budget));
    let newer = targets.iter().map(|target| {
        let mut request = settings::request_of_target(&project, &lock, target, &registry)?;
        if owner == Some(Owner::Uv) {
            let held = owner::python_of_upgrade(of_uv, Some(target.python), request.python.as_ref());
            request.python = held.or(request.python);
        }
        let host = chosen_host::finish(target.host.clone(), &registry)?;
        let stack = match &target.stack {
            Some(locked) if target.pytorch_of_conda().is_none() => {
                newer_stacks(&registry, &host, &request, locked)
            }
            _ => NewerStacks::default(),
        };
        let packages = match (&mut session, target.level) {
            (Some(session), Level::Full) => {
                let learned =
                    |solution: &Solution| learned_rows::with_rows_of_answer(global, &registry, solution);
                match session
                    .solve_as_learned(&Question::new(&host, &request, &Preferences::default()), &learned)?
                {
                    Answer::Solution(solution) => solution.packages,
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        };
        let torch = packages.iter().find(|package| package.name == "torch");
        let latest = client.as_ref().map(|client| newest_releases(client, &packages)).unwrap_or_default();
        let (possible, behind) =
            upgrades(&target.packages, &packages, &latest).into_iter().partition(Upgrade::is_possible);
        Ok(Newer {
            name: target.name.clone(),
            packages: possible,
            behind,
            torch: torch.map(|torch| public(&torch.version)),
            target: (*target).clone(),
            host,
            stack,
        })
    });
    let newer = newer.collect::<Result<_, Failure>>()?;
    drop(session);
    Ok((newer, registry))
}

/// The newest final release of each package on its index. The solve has read these pages: where one cannot be read now, none is
/// told.
fn newest_releases(client: &IndexClient, packages: &[ChosenPackage]) -> BTreeMap<String, Version> {
    let page = |package: &ChosenPackage| {
        let index = package.source.index()?.to_owned();
        Some(Need::Page { index, project: package.name.clone() })
    };
    let pages: Vec<Need> = packages.iter().filter_map(page).collect();
    let newest = |fetched: Fetched| {
        let Fetched::Page { project, page: Some(page), .. } = fetched else { return None };
        let is_final = |release: &&Release| !release.yanked && !release.version.any_prerelease();
        let newest = page.releases().iter().filter(is_final).map(|release| &release.version).max()?;
        Some((project, newest.clone()))
    };
    let fetched = client.fetch(&pages, None, &mut |_, _| {}).unwrap_or_default();
    fetched.into_iter().filter_map(newest).collect()
}
