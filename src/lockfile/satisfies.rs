//! Whether a lock answers a request: what `resolve --locked` asks.

use super::request::is_option;
use super::{Lockfile, request_lines};
use crate::model::request::Request;
use crate::registry::Registry;

/// Why a lock is not current.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The request asks for something the lock does not answer.
    #[error("the lock does not answer `{0}`")]
    Asked(String),
    /// The lock answers something that is no longer asked for.
    #[error("the lock answers `{0}`, which is no longer asked for")]
    NoLongerAsked(String),
    /// The registry withdrew a row that the lock uses.
    #[error("the registry withdrew torch {version} {variant}: {reason}")]
    Withdrawn {
        /// torch's version.
        version: String,
        /// The flavour.
        variant: String,
        /// The registry's reason.
        reason: String,
    },
}

/// Everything that keeps a lock from being current; empty when it is. Looks at no machine. A registry
/// that merely grew does not make a lock stale.
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
