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
mod secrets;
mod situation;

use serde::Serialize;

use crate::model::finding::Finding;
use crate::model::host::Host;
use crate::registry::Registry;
use situation::Situation;

pub use cause::{Cause, Evidence};
pub use facts::{Event, Fact, Facts, Said};
pub use matcher::Matcher;
pub use reader::Reader;

/// The result of a diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The answer.
    pub verdict: Verdict,
    /// The causes, the one to fix first at the front.
    pub causes: Vec<Cause>,
    /// The facts in the text.
    pub facts: Facts,
}

/// Whether something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A cause was found.
    Problem,
    /// No cause was found, and the facts suffice to say so.
    Healthy,
    /// No cause was found, and the facts do not suffice.
    Unknown,
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
    let verdict = match (causes.is_empty(), &facts.torch) {
        (false, _) => Verdict::Problem,
        (true, Some(_)) => Verdict::Healthy,
        (true, None) => Verdict::Unknown,
    };
    Diagnosis { verdict, causes, facts }
}
