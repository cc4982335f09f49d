//! Names that were typed and may be slips of the fingers, which people who publish packages count on: one letter from a name that
//! many download, or a project of a few weeks with few files.

use super::task::Task;
use crate::index::IndexClient;
use crate::model::count::Count;
use crate::model::limit::Origin;
use crate::model::project::ProjectPage;
use crate::model::solution::Solution;
use crate::model::timestamp::{Timestamp, days_since};
use crate::registry::Registry;
use crate::session::clock;
use crate::session::learning::{self, PYPI};

/// A project is young until it has been on the index for so many days.
const YOUNG_DAYS: i64 = 90;
/// Projects that are used have more files than this, or will soon.
const FEW_FILES: usize = 3;

/// Warns of the names that were typed now and locked from PyPI.
pub(super) fn warn(task: &Task<'_>, registry: &Registry, solutions: &[Solution]) {
    let typed = task.request.requirements.iter().filter(|user| user.origin == Origin::CommandLine);
    for name in typed.map(|user| user.name()) {
        let is_held = task.preferences.iter().any(|held| held.versions.contains_key(name));
        let is_of_pypi = solutions
            .iter()
            .flat_map(|solution| &solution.packages)
            .any(|own| own.name == name && own.source.index() == Some(PYPI));
        if is_held || !is_of_pypi {
            continue;
        }
        let doubts = [
            registry.one_letter_from(name).map(|known| format!("is one letter from `{known}`")),
            age(task.client, name),
        ];
        let doubts: Vec<String> = doubts.into_iter().flatten().collect();
        if !doubts.is_empty() {
            task.interface.warning(&format!("`{name}` {}: is it the one you mean?", doubts.join(", and ")));
        }
    }
}

/// That a project is young and small, if it is.
fn age(client: Option<&IndexClient>, name: &str) -> Option<String> {
    let page = learning::page(client?, PYPI, name).ok()??;
    young(&page, clock::today())
}

fn young(page: &ProjectPage, now: Timestamp) -> Option<String> {
    let files: usize = page.releases().iter().map(|release| page.files(release).len()).sum();
    let first = page.releases().iter().filter_map(|release| page.first_upload(release)).min()?;
    let is_young = (0..YOUNG_DAYS).contains(&days_since(&first.day(), now)?);
    (is_young && files <= FEW_FILES)
        .then(|| format!("has been on the index since {}, with {}", first.day(), Count(files).of("file")))
}
