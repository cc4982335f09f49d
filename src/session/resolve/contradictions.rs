//! Constraints that exclude each other. They are no requirements: an answer without the package, or with a release of years ago
//! that did not need it yet, meets them, and is not what is meant.

use std::collections::BTreeSet;

use super::task::Task;

/// Warns of packages of which the constraints admit no version.
pub(super) fn warn(task: &Task<'_>) {
    let names: BTreeSet<&str> = task.request.constraints.iter().map(|user| user.name()).collect();
    for name in names {
        let Some(bounds) = task.request.contradiction_on(name) else { continue };
        let bounds: Vec<String> =
            bounds.iter().map(|user| format!("`{}` [{}]", user.line(), user.origin)).collect();
        task.interface.warning(&format!(
            "the constraints on {name} admit no version of it, so nothing that requires it can be locked: {}",
            bounds.join(", ")
        ));
    }
}
