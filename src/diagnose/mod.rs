//! Diagnose: finds the cause of an error in a log and the command that fixes it. Reads facts from the text, derives
//! causes from rules and compatibility data, and ranks them. Nothing is executed or sent. Commands are built from the
//! registry, never from the input.

mod cause;
mod causes;
mod facts;
mod fields;
mod fix;
mod here;
mod integers;
mod matcher;
mod mechanics;
mod reader;
mod rules;
mod situation;

use crate::model::finding::Finding;
use crate::model::host::Host;
use crate::registry::Registry;
use situation::Situation;

pub use cause::{Cause, Evidence};
pub use facts::{Event, Fact, Facts, Said};
pub use matcher::Matcher;
pub use reader::Reader;

/// The result of a diagnosis.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The facts in the text.
    pub facts: Facts,
    /// The causes, the one to fix first at the front.
    pub causes: Vec<Cause>,
    /// No cause was found, and the facts suffice to say so.
    pub healthy: bool,
}

/// The context of a diagnosis besides the text.
#[derive(Debug, Clone, Copy)]
pub struct DiagnoseContext<'a> {
    /// This machine, if it is to be considered.
    pub host: Option<&'a Host>,
    /// The findings of `verify` on this machine.
    pub findings: &'a [&'a Finding],
    /// URL of the pytorch index, for suggested commands.
    pub pytorch_index: &'a str,
}

/// Finds the causes of facts.
pub fn judge(mut facts: Facts, around: DiagnoseContext<'_>, registry: &Registry) -> Diagnosis {
    if let Some(host) = around.host {
        facts.take_from(host);
    }
    let situation = Situation::new(&facts, registry, around.pytorch_index);
    let causes = causes::causes(&situation, around.findings);
    let healthy = causes.is_empty() && facts.torch.is_some();
    Diagnosis { facts, causes, healthy }
}
