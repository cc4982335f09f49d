//! `--stack-only`: series of other frameworks, from the registry alone.

use std::collections::BTreeSet;

use super::machines::Machine;
use crate::model::conflict::Conflict;
use crate::model::nvidia::is_of_nvidia;
use crate::model::request::{Request, UserRequirement};
use crate::model::solution::Series;
use crate::registry::{Registry, STACK_PACKAGES};
use crate::session::failure::{Failure, FailureKind};
use crate::solver::{NoSeries, newest_series};

/// Whether a package of the torch stack is requested. Only then is there a stack to lock.
pub(super) fn asks_for_torch(request: &Request) -> bool {
    STACK_PACKAGES.iter().any(|name| request.find(name).is_some())
}

/// The packages of a request that go with some releases of torch only, as a sentence: they are not solved.
pub(super) fn not_looked_at(request: &Request, registry: &Registry) -> Option<String> {
    let is_beside_torch = |name: &str| {
        let has_code = registry.companions().iter().any(|row| row.package == name);
        has_code || registry.is_paired_with_torch(name) || is_of_nvidia(name) || name == "triton"
    };
    let names = request.requirements.iter().map(UserRequirement::name);
    let beside: BTreeSet<&str> =
        names.filter(|name| !STACK_PACKAGES.contains(name) && is_beside_torch(name)).collect();
    let beside = beside.into_iter().collect::<Vec<_>>().join(", ");
    (!beside.is_empty())
        .then(|| format!("`--stack-only` does not check these packages against torch: {beside}"))
}

/// Series of frameworks other than torch, for each machine.
pub(super) enum Beside {
    Series(Vec<Vec<Series>>),
    Conflict(Box<Conflict>),
}

/// The newest series that each machine runs.
pub(super) fn series_of_other_frameworks(
    machines: &[Machine],
    request: &Request,
    registry: &Registry,
) -> Result<Beside, Failure> {
    let mut all = Vec::new();
    for machine in machines {
        match newest_series(registry, &machine.host, request) {
            Ok(series) => all.push(series),
            Err(NoSeries::Conflict(mut conflict)) => {
                conflict.target.clone_from(&machine.name);
                return Ok(Beside::Conflict(conflict));
            }
            Err(NoSeries::Unknown { requirement, known }) => {
                let platform = machine.host.system.platform;
                let message = format!("not known: the registry has no `{requirement}` for {platform}");
                let error = Failure::new(FailureKind::UnknownRow, message);
                let known = match known.is_empty() {
                    true => "it has no series for this platform".to_owned(),
                    false => format!("it has {}", known.join(", ")),
                };
                return Err(error.hint(format!("{known}; without `--stack-only` the index is queried")));
            }
        }
    }
    if !asks_for_torch(request) && all.iter().all(Vec::is_empty) {
        let beside: BTreeSet<&str> = registry.frameworks().iter().map(|row| row.framework.as_str()).collect();
        let known: Vec<&str> = STACK_PACKAGES.into_iter().chain(beside).collect();
        let known = known.join("`, `");
        return Err(Failure::usage(format!(
            "`--stack-only` supports only `{known}`, and none of them is requested"
        ))
        .hint("remove `--stack-only`, or add torch"));
    }
    Ok(Beside::Series(all))
}
