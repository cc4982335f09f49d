//! The conda half of a solve: records of channels as values, and which of them are installed on a machine.
//!
//! rattler's types and solver do what conda itself does: versions, match specs, build strings, channel priority. Nothing
//! here reads files or the network.

mod channel;
mod explain;
mod pixi_lock;
mod repodata;
mod solve;
mod spec;
mod torch_builds;
mod virtual_packages;

pub use explain::{Asked, Explained, Written, explain};
pub use pixi_lock::{InvalidPixiLock, in_newest_format};
pub use repodata::{InvalidRepodata, Repodata};
pub use solve::{Bound, CondaError, CondaQuestion, Records, Solved, Unmet, unmet, unmet_of_request};
pub use spec::{InvalidSpec, channel_of_spec, parse, parse_request};
pub use torch_builds::{Stack, StackChoice, is_of_variant, spec as stack_spec};
pub use virtual_packages::{VirtualPackage, opened, virtual_packages};
