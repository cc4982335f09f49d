//! The solver held against brute force.
//!
//! `rules.rs` says straight from the registry's rows which combination may run on which machine and which
//! is best, by trying all; it shares no code with the solver but the parsed rows and their plainest look-ups
//! (the floor of a cuDNN, whether a capability is Tegra's, what a specifier admits). `stack.rs` asks both the
//! same about random small registries, `closure.rs` about random packages, `channels.rs` about random conda
//! channels, `shipped.rs` about the real registry and every GPU in it. `ENVLOCK_PROOF_WORLDS=100000` makes a longer run.

#[cfg(feature = "conda")]
mod channels;
mod closure;
mod frameworks;
mod one_verdict;
mod relaxations;
mod removed;
mod rules;
mod schedule;
mod several;
mod shipped;
mod stack;
mod worlds;

/// How many random worlds a test looks at.
fn worlds(otherwise: u64) -> u64 {
    std::env::var("ENVLOCK_PROOF_WORLDS").ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}
