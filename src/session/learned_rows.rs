//! Rows of the registry that `resolve` read from wheels: `learned/` in the cache.

use super::failure::{Failure, FailureKind};
use super::settings;
use crate::compatibility::unread_companion;
use crate::learn::{self, Kept, Store};
use crate::model::host::Host;
use crate::model::request::{Preferences, Request, STACK_PACKAGES};
use crate::model::solution::{Answer, ChosenPackage, Solution};
use crate::registry::{COMPANIONS, LearnedRow, Registry};
use crate::session::options::Global;
use crate::solver::solve_stack;

/// The store of cached rows.
pub(crate) fn store(global: &Global) -> Store {
    // Another form of the rows has another folder: wheels are read again.
    Store::new(settings::cache_dir(global).join("learned").join("v2"))
}

/// The registry with the cached rows, which it does not have, of packages that a lock mentions: what `resolve` has read, no
/// command calls unknown.
pub(crate) fn with_rows_of(global: &Global, registry: Registry, mentions: &dyn Fn(&str) -> bool) -> Registry {
    let rows = store(global).rows_of(mentions, &registry);
    if rows.is_empty() { registry } else { registry.with_rows(&rows) }
}

/// The registry with all cached rows of torch and its companions.
pub(crate) fn with_rows_of_stack(global: &Global, registry: Registry) -> Registry {
    with_rows_of(global, registry, &|name| STACK_PACKAGES.contains(&name))
}

/// Refuses to call a request impossible that only a companion could meet that no row has: without its companions it is met.
///
/// # Errors
/// That, and which companion.
pub(crate) fn refuse_unread_companion(
    registry: &Registry,
    host: &Host,
    request: &Request,
    has_read_index: bool,
) -> Result<(), Failure> {
    let found = unread_companion(registry, host.system.platform, request, has_read_index);
    let Some(companion) = found else { return Ok(()) };
    let rest = request.without(&COMPANIONS);
    match solve_stack(registry, host, &rest, &Preferences::default()) {
        Answer::Solution(_) => Err(Failure::new(FailureKind::UnknownRow, format!("not known: {companion}"))
            .hint(companion.how_to_read())),
        _ => Ok(()),
    }
}

/// The registry with the cached rows for wheels of an answer whose GPU code `resolve` read: what it refuses for that is refused
/// for other commands too. `None` if there are none that the registry does not have.
pub(crate) fn with_rows_of_answer(
    global: &Global,
    registry: &Registry,
    solution: &Solution,
) -> Option<Registry> {
    let store = store(global);
    let row = |package: &ChosenPackage| match store
        .place(&package.name, &package.version, solution.platform)
        .read()
    {
        Kept::Row(row) => Some(row),
        Kept::NoCode | Kept::Nothing => None,
    };
    let rows: Vec<LearnedRow> = learn::unread(solution, registry).filter_map(row).collect();
    (!rows.is_empty()).then(|| registry.with_rows(&rows))
}
