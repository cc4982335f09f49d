//! Diagnose: finds the cause of an error in a log and the command that fixes it. Reads facts from the text, derives
//! causes from rules and compatibility data, and ranks them. Nothing is executed or sent. Commands are built from the
//! registry, never from the input.

mod cause;
mod conditions;
mod decoding;
mod description;
mod facts;
mod fields;
mod file_owner;
mod fix;
mod here;
mod integers;
mod matcher;
mod mechanics;
mod memory;
mod mention;
mod merged;
mod place;
mod placeholders;
mod reader;
mod repair;
mod rules;
mod situation;
mod traceback;
mod unexplained;
mod who;
mod wrapping;

use serde::Serialize;

use crate::model::finding::Finding;
use crate::model::host::Host;
use crate::registry::Registry;
use situation::Situation;

pub use cause::{Cause, Evidence};
pub use decoding::decoded;
pub use facts::{Event, Fact, Facts, Said};
pub use matcher::Matcher;
pub use merged::SURE;
pub use reader::{MAX_LONG_LINE, Reader};

/// The result of a diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The answer.
    pub verdict: Verdict,
    /// The causes, the one to fix first at the front.
    pub causes: Vec<Cause>,
    /// The facts in the text.
    pub facts: Facts,
    /// Error lines that nothing explains, if there is no cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unexplained: Vec<Evidence>,
    /// What the facts exclude, if there is no cause; one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<String>,
    /// The command whose output would decide, if the verdict is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<&'static str>,
}

/// Whether something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A cause was found.
    Problem,
    /// No cause was found, no line reports an error, and the facts suffice to say so.
    Healthy,
    /// No cause was found, and a line reports an error or the facts do not suffice.
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
    fields::visible_releases::infer(&mut facts, registry);
    let situation = Situation::new(&facts, registry, around.pytorch_index);
    let (causes, notices) = merged::causes(&situation, around.findings);
    let verdict = match causes.is_empty() {
        false => Verdict::Problem,
        // On this machine, `verify` has looked at the environment.
        true if facts.show_health(around.host.is_some()) => Verdict::Healthy,
        true => Verdict::Unknown,
    };
    let is_unknown = verdict == Verdict::Unknown;
    let mut excluded = if is_unknown { unexplained::excluded(&situation) } else { Vec::new() };
    excluded.extend(
        notices
            .iter()
            .filter(|_| is_unknown)
            .map(|cause| format!("{}; by itself this is harmless", cause.message)),
    );
    let quoted = facts.unexplained.iter().filter(|_| is_unknown);
    let unexplained = quoted.map(|said| Evidence::new(said.line, &said.text)).collect();
    let ask = is_unknown.then(|| unexplained::ask(&facts));
    Diagnosis { verdict, causes, facts, unexplained, excluded, ask }
}
