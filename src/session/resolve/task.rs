//! What is to be locked: the request, the machines, and what the old lock holds.

use super::machines::Machine;
use crate::index::IndexClient;
use crate::model::request::{Preferences, Request};
use crate::session::Interface;
use crate::session::options::{Global, SolveOptions};
use crate::solver::Budget;

/// A request and the machines to lock it for.
pub(super) struct Task<'t> {
    pub global: &'t Global,
    pub args: &'t SolveOptions,
    pub request: &'t Request,
    pub machines: &'t [Machine],
    /// What the old lock holds, for each machine.
    pub preferences: &'t [Preferences],
    /// The indexes; `None` to solve the stack from the registry alone.
    pub client: Option<&'t IndexClient>,
    /// What the searches of the command may take.
    pub budget: &'t Budget,
    pub interface: &'t dyn Interface,
}
