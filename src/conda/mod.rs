//! The conda half of a solve: records of channels as values, and which of them are installed on a machine.
//!
//! rattler's types and solver do what conda itself does: versions, match specs, build strings, channel priority. What they
//! do not know, the registry does: which GPUs the code of conda-forge's pytorch runs on, and which driver it needs
//! ([`torch`]). Nothing here reads files or the network.

mod explain;
mod machine;
mod repodata;
mod solve;
pub mod torch;

pub use explain::{Asked, Explained, explain};
pub use machine::{VirtualPackage, virtual_packages};
pub use repodata::{InvalidRepodata, Repodata};
pub use solve::{CondaError, InvalidSpec, Question, Records, Solved, parse};
