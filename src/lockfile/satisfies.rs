//! Whether a lock matches a request: `resolve --locked`, and the warning of the commands that read a lock.

use super::request::is_option;
use super::{Lockfile, request_lines};
use crate::model::request::Request;
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
}

/// Why a lock is not current; empty if it is. Does not check the machine. A registry that only has new
/// rows does not make a lock stale.
pub fn stale(lock: &Lockfile, request: &Request, registry: &Registry) -> Vec<Stale> {
    let asked = request_lines(request);
    let mut out: Vec<Stale> =
        asked.iter().filter(|l| !lock.request.contains(l)).cloned().map(Stale::Asked).collect();
    out.extend(
        lock.request
            .iter()
            .filter(|l| !asked.contains(l) && !is_option(l))
            .cloned()
            .map(Stale::NoLongerAsked),
    );
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
