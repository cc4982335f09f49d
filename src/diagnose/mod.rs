//! Diagnose: from what a person pastes to the cause and the command that fixes it. Text becomes facts, facts become
//! causes by rules and mechanics, the causes are ranked. Nothing is run, asked or sent; what is offered as a command
//! is built from the registry, never from the text's words.

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

/// What is to be said of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// What the text states.
    pub facts: Facts,
    /// The causes, the one to mend first in front.
    pub causes: Vec<Cause>,
    /// Nothing was found and there is enough to say that nothing is wrong.
    pub healthy: bool,
}

/// What is looked at beside the text.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// This machine, where it is to be looked at too.
    pub host: Option<&'a Host>,
    /// What `verify` found here.
    pub findings: &'a [&'a Finding],
    /// Address of the pytorch index, for the commands that are offered.
    pub pytorch_index: &'a str,
}

/// Judges facts.
pub fn judge(mut facts: Facts, around: Around<'_>, registry: &Registry) -> Diagnosis {
    if let Some(host) = around.host {
        facts.take_from(host);
    }
    let situation = Situation::new(&facts, registry, around.pytorch_index);
    let causes = causes::causes(&situation, around.findings);
    let healthy = causes.is_empty() && facts.torch.is_some();
    Diagnosis { facts, causes, healthy }
}
