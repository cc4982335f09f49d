//! What the smoke test came to.

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;

/// What to ask when cuDNN is on and does nothing: whether this build has it, and what its settings are.
const WHAT_SWITCHES_CUDNN: &str =
    "python -c 'import torch; print(torch.backends.cudnn.enabled); print(torch.__config__.show())'";

/// A check of the smoke test failed; `fix` asks the framework itself why.
pub fn smoke_failed(text: String, fix: Option<Fix>) -> Finding {
    Finding { fix, ..finding(Code::SmokeFailed, Severity::Error, text) }
}

/// cuDNN is switched on and does nothing.
pub fn cudnn_not_used(text: String) -> Finding {
    finding(Code::CudnnNotUsed, Severity::Error, text).fixed_by(Fix::command(WHAT_SWITCHES_CUDNN))
}

/// How the smoke test ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// At a layer, by an exception or a signal: what was seen, and what cuDNN's log says.
    At {
        /// The layer.
        layer: String,
        /// What was seen.
        what: String,
    },
    /// By a signal for this program.
    Interrupted,
    /// Nothing could be started: why.
    NotStarted(String),
}

/// The smoke test crashed.
pub fn smoke_crashed(stopped: &Stopped) -> Finding {
    let text = match stopped {
        Stopped::At { layer, what } => format!("the smoke test stopped at {layer}: {what}"),
        Stopped::Interrupted => "the smoke test was interrupted".to_owned(),
        Stopped::NotStarted(why) => format!("the smoke test did not start: {why}"),
    };
    finding(Code::SmokeCrashed, Severity::Error, text)
}

/// The smoke test did not end in time, in seconds.
pub fn smoke_timeout(layer: &str, seconds: u64) -> Finding {
    let text = format!("the smoke test did not end in {seconds} s; it was at {layer}");
    let fix =
        format!("give it longer with ENVLOCK_SMOKE_TIMEOUT={}, and look at `dmesg` meanwhile", seconds * 3);
    finding(Code::SmokeTimeout, Severity::Error, text).fixed_by(Fix::advice(fix))
}
