//! The GPU code of packages that an answer has and no row describes: read from their wheels before the answer is given.

use super::learning::read_from_wheel;
use super::task::Task;
use crate::index::IndexClient;
use crate::learn::{self, Kept, Wanted};
use crate::model::platform::Platform;
use crate::model::solution::{ChosenPackage, Solution};
use crate::registry::{LearnedRow, Registry};
use crate::session::failure::FailureKind;
use crate::session::learned_rows;
use crate::session::learning::{self, PYPI};

/// The registry with the GPU code of small wheels that were just chosen and that no row describes, so that GPUs are
/// checked against them and the envelope includes them. `None` if there are none. Larger wheels are read on request,
/// by `registry learn`.
pub(super) fn with_code_of_chosen(
    task: &Task<'_>,
    client: &IndexClient,
    solutions: &[Solution],
    registry: &Registry,
) -> Option<Registry> {
    let mut rows: Vec<LearnedRow> = Vec::new();
    for solution in solutions {
        for package in learn::unread(solution, registry) {
            rows.extend(row_of_chosen(task, client, package, (registry, solution.platform)));
        }
    }
    (!rows.is_empty()).then(|| registry.with_rows(&rows))
}

fn row_of_chosen(
    task: &Task<'_>,
    client: &IndexClient,
    package: &ChosenPackage,
    (registry, platform): (&Registry, Platform),
) -> Option<LearnedRow> {
    let &Task { global, interface, .. } = task;
    let version = &package.version;
    let file = package.files.first()?;
    let place = learned_rows::store(global).place(&package.name, version, platform);
    match place.read() {
        Kept::Row(row) => return Some(row),
        Kept::NoCode => return None,
        Kept::Nothing if global.offline => {
            interface.note(&format!(
                "{} {version} may have GPU code, but its wheel cannot be read with `--offline`; it is not checked",
                package.name
            ));
            return None;
        }
        // The solution says which command reads its code, which is in a large wheel beside it.
        Kept::Nothing if has_code_beside(registry, package, platform) => return None,
        Kept::Nothing => {}
    }
    let read = || {
        let page = learning::page(client, PYPI, &package.name)?;
        let Some(found) = page.as_ref().and_then(|page| page.find(&file.name)) else { return Ok(None) };
        let like = learning::frameworks_like(&file.name, registry, platform);
        let wanted = Wanted { frameworks: &like, large_code: false, ..Wanted::all(&file.name, platform) };
        let learned = learning::address(client, (&found.url, file.size), wanted, interface)?;
        learning::row_of(&learned).map(Some)
    };
    match read() {
        Ok(row) => {
            row.iter().for_each(|row| place.keep(Some(row)));
            if let Some(row) = row.as_ref().filter(|row| row.is_of_framework()) {
                interface.note(&read_from_wheel(row));
            }
            row
        }
        Err(error) if error.code == FailureKind::NoCode => {
            place.keep(None);
            None
        }
        // A wheel that cannot be read is not checked, like one that was not read.
        Err(error) => {
            let why = error.message;
            interface
                .note(&format!("{} {version} may have GPU code, and is not checked: {why}", package.name));
            None
        }
    }
}

/// Whether the code of a framework is in a wheel of another package.
fn has_code_beside(registry: &Registry, package: &ChosenPackage, platform: Platform) -> bool {
    let like = registry.frameworks_like(&package.name, &package.version, platform);
    like.iter().any(|build| build.code_in.is_some())
}
