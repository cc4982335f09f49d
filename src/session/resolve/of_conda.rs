//! torch from conda-forge as a way out: its builds run on GPUs that the builds of PyPI and the pytorch index have dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use pep440_rs::Version;

use super::task::Task;
use crate::compatibility::{Needs, Policy};
use crate::model::conda::CONDA_FORGE;
use crate::model::conflict::{Change, Conflict, Party};
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::only::Only;
use crate::model::owner::Owner;
use crate::model::request::{Limit, Origin, Request};
use crate::model::solution::Solution;
use crate::model::version::cuda_short;
use crate::registry::conda_builds::PYTORCH;
use crate::registry::{Cited, CondaBuild, Registry};
use crate::session::failure::Failure;
use crate::session::fetch::{self, Session};
use crate::session::settings::Project;
use crate::solver::{Joint, JointAnswer};

/// How long the channel may take altogether. A conflict is told without it after that.
const PATIENCE: Duration = Duration::from_secs(20);

/// Adds `source = "conda-forge"` to the ways out of a conflict about GPUs, if the request has a solution with it. Returns
/// the hint that belongs to it: where it is written, or that the registry knows a build and no channel was read.
pub(super) fn offer(
    task: &Task<'_>,
    project: &Project,
    conflict: &mut Conflict,
    registry: &Registry,
    owner: Option<Owner>,
) -> Option<String> {
    let request = task.request;
    let is_about_gpus = conflict.reasons.iter().any(|reason| reason.parties.contains(&Party::Gpu));
    let has_channel =
        request.conda.channels.is_empty() || request.conda.channels.iter().any(|own| own == CONDA_FORGE);
    if !is_about_gpus || conflict.involves_system() || owner.is_some() || !has_channel {
        return None;
    }
    let machine = task.machines.iter().position(|machine| machine.name == conflict.target)?;
    let build = newest_build(request, &task.machines[machine].host, registry)?;
    let table = match task.machines {
        [_] => "[stack]".to_owned(),
        _ => format!("[target.{}]", conflict.target),
    };
    let manifest = if project.manifest.is_some() { "" } else { " of an envlock.toml (`envlock init`)" };
    let of_registry = || {
        let (version, cuda) = (&build.version, cuda_short(&build.cuda));
        format!(
            "conda-forge's pytorch {version} for CUDA {cuda} runs on these GPUs: `source = \"{CONDA_FORGE}\"` under `{table}`{manifest} takes torch from there"
        )
    };
    let is_closed = |only: &Limit<Only>| !only.value.has_channel(CONDA_FORGE);
    if task.client.is_none() || request.only_index.as_ref().is_some_and(is_closed) {
        return Some(of_registry());
    }
    let solution = match solve(task, project, machine, registry) {
        Ok(Some(solution)) => solution,
        Ok(None) => return None,
        Err(_) => return Some(of_registry()),
    };
    let way = solution.reached_by(Change::StackFrom(CONDA_FORGE.to_owned()), Party::Index, Level::Full);
    match conflict.also.is_empty() {
        true => conflict.would_work_if.push(way),
        false => conflict.resolves_all.push(way),
    }
    Some(format!("`source = \"{CONDA_FORGE}\"` belongs under `{table}` of the manifest"))
}

/// The newest build of the channel that runs on a machine and fits the request, as far as the registry knows.
fn newest_build<'r>(request: &Request, host: &Host, registry: &'r Registry) -> Option<&'r Cited<CondaBuild>> {
    request.find("torch").filter(|_| !request.has_stack_of_conda())?;
    let bounds = request.bounds_on("torch");
    let policy = Policy::of(request);
    let version = |row: &Cited<CondaBuild>| row.version.parse::<Version>().ok();
    let is_asked = |version: Version| bounds.as_ref().is_none_or(|all| all.contains(&version));
    let fits = |row: &&Cited<CondaBuild>| {
        let needs = Needs {
            cuda: Some(&row.cuda),
            cudnn: None,
            targets: Some(&row.targets),
            glibc: None,
            platform: row.platform,
            source: &row.source,
        };
        row.package == PYTORCH
            && version(row).is_some_and(is_asked)
            && needs.violations(registry, host, policy).is_empty()
    };
    let builds = registry.conda_builds().iter().filter(fits);
    builds.max_by_key(|row| (version(row), row.cuda.clone()))
}

/// The request for one machine, with torch from the channel.
fn solve(
    task: &Task<'_>,
    project: &Project,
    machine: usize,
    registry: &Registry,
) -> Result<Option<Solution>, Failure> {
    let mut request = task.request.clone();
    let conda = &mut request.conda;
    conda.stack = Some(Origin::Question);
    conda.stack_of_targets = BTreeMap::new();
    if conda.channels.is_empty() {
        conda.channels.push(CONDA_FORGE.to_owned());
    }
    let client = fetch::client_for(task.global, project, task.args.index_url.as_deref(), PATIENCE);
    let mut session = Session::new(&client, registry, task.interface, &request.metadata, task.budget);
    #[cfg(feature = "conda")]
    session.is_for_a_way_out();
    let members = [task.machines[machine].member(&task.preferences[machine])];
    let joint = Joint { members: &members, request: &request, registry };
    match joint.solve(&mut |question| session.solve(question))? {
        JointAnswer::Solved(solutions) => Ok(solutions.into_iter().next()),
        JointAnswer::Conflict(_) | JointAnswer::TooLong => Ok(None),
    }
}
