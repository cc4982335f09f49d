//! Whether a lock matches a request: `resolve --locked`, and the warning of the commands that read a lock.

use super::consistent::{Inconsistency, inconsistencies};
use super::request::{is_option, read_request};
use super::{Lockfile, Stack, Target, request_lines};
use crate::model::request::{PythonRequest, Request};
use crate::model::timestamp::is_day;
use crate::registry::Registry;

/// Why a lock is not current.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The request has a line that the lock does not have.
    #[error("the request has `{0}`, which is not in the lock")]
    Asked(String),
    /// The lock has a line that the request no longer has.
    #[error("the lock has `{0}`, which is no longer requested")]
    NoLongerAsked(String),
    /// The registry withdrew a row that the lock uses.
    #[error("the registry withdrew torch {version} {variant}: {reason}")]
    Withdrawn {
        /// torch's version.
        version: String,
        /// The CUDA variant.
        variant: String,
        /// The registry's reason.
        reason: String,
    },
    /// The content of the lock does not answer the request.
    #[error(transparent)]
    Content(#[from] Inconsistency),
}

/// Why a lock is not current; empty if it is. Does not check the machine. A registry that only has new
/// rows does not make a lock stale.
pub fn stale(lock: &Lockfile, request: &Request, registry: &Registry) -> Vec<Stale> {
    let asked = request_lines(request);
    // A Python that an option chose within the request's limit answers the request.
    let chose_python = lock.request.iter().any(|line| line.starts_with("option python "));
    let is_answered = |line: &String| {
        lock.request.contains(line)
            // An option that says what the manifest says, too.
            || lock.request.iter().any(|own| own.strip_prefix("option ") == Some(line))
            || (chose_python && line.starts_with("python ") && allows_pythons(request, lock))
    };
    let mut out: Vec<Stale> =
        asked.iter().filter(|line| !is_answered(line)).cloned().map(Stale::Asked).collect();
    out.extend(
        lock.request
            .iter()
            .filter(|l| !asked.contains(l) && !is_option(l))
            .cloned()
            .map(Stale::NoLongerAsked),
    );
    if out.is_empty() && !lock.request.is_empty() {
        out.extend(other_targets(lock, request).map(Stale::Content));
        // A run's options limited the answer too.
        let limited = limited_by_options(lock, request);
        for target in &lock.targets {
            let all = inconsistencies(target, &limited, registry).into_iter();
            // What older data do not know may be true.
            let is_unknown = is_unknown(target, lock, registry);
            out.extend(all.filter(|one| !(is_unknown && one.is_by_registry())).map(Stale::Content));
        }
    }
    if lock.registry_digest == registry.digest() {
        return out;
    }
    for target in &lock.targets {
        let Some(stack) = &target.stack else { continue };
        if let Some(reason) =
            registry.build(&stack.version, &stack.variant, target.platform).and_then(|b| b.yanked.clone())
        {
            out.push(Stale::Withdrawn {
                version: stack.version.to_string(),
                variant: stack.variant.clone(),
                reason,
            });
        }
    }
    out
}

/// Whether a lock was made with newer compatibility data than these, so that what they do not know is no fault of it.
fn has_newer_data(lock: &Lockfile, registry: &Registry) -> bool {
    is_day(&lock.registry_date) && lock.registry_date > registry.meta().date
}

/// Whether the torch of a target is a build that these data do not have, and those that the lock was made with may.
fn is_unknown(target: &Target, lock: &Lockfile, registry: &Registry) -> bool {
    let has_row = |stack: &Stack| registry.build(&stack.version, &stack.variant, target.platform).is_some();
    // The builds of a channel are described by their records, in the lock itself.
    let is_of_index = target.pytorch_of_conda().is_none();
    has_newer_data(lock, registry)
        && is_of_index
        && target.stack.as_ref().is_some_and(|stack| !has_row(stack))
}

/// Whether a lock states builds that these compatibility data, which are older than those it was made with, cannot confirm.
pub fn needs_newer_data(lock: &Lockfile, registry: &Registry) -> bool {
    lock.targets.iter().any(|target| is_unknown(target, lock, registry))
}

/// Where the targets of a lock are not those that the request describes.
fn other_targets(lock: &Lockfile, request: &Request) -> Option<Inconsistency> {
    if request.targets.is_empty() {
        return None;
    }
    let name = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    // In their order, which decides whose environment.yml it is.
    let described: Vec<String> = request.targets.iter().map(name).collect();
    let locked: Vec<String> = lock.targets.iter().map(|target| target.name.clone()).collect();
    let differ = described != locked;
    differ.then(|| Inconsistency::OtherTargets { described: described.join(", "), locked: locked.join(", ") })
}

/// Whether a request allows the Python of every target.
fn allows_pythons(request: &Request, lock: &Lockfile) -> bool {
    let allows = |python: &PythonRequest| lock.targets.iter().all(|target| python.allows(target.python));
    request.python.as_ref().is_none_or(allows)
}

/// The request with the limits that options set in the run that made the lock.
fn limited_by_options(lock: &Lockfile, request: &Request) -> Request {
    let options: Vec<String> = lock.request.iter().filter(|line| is_option(line)).cloned().collect();
    let options = read_request(&options).unwrap_or_default();
    Request { only_index: request.only_index.clone().or(options.only_index), ..request.clone() }
}
