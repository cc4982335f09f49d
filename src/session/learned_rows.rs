//! Rows of the registry that `resolve` read from wheels: `learned/` in the cache.

use super::settings;
use crate::learn::{self, Kept, Store};
use crate::model::request::STACK_PACKAGES;
use crate::model::solution::{ChosenPackage, Solution};
use crate::registry::{LearnedRow, Registry};
use crate::session::options::Global;

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

/// The registry with the cached rows of frameworks other than torch. `None` if there are none that the registry does not have.
pub(crate) fn with_frameworks(global: &Global, registry: &Registry) -> Option<Registry> {
    let is_framework = |name: &str| registry.frameworks().iter().any(|row| row.package == name);
    let rows = store(global).rows_of(&is_framework, registry);
    (!rows.is_empty()).then(|| registry.with_rows(&rows))
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
