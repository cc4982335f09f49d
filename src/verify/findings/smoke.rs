//! Findings of the smoke test.

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;

/// The command that shows whether this torch build has cuDNN, and how it is configured.
const SHOW_CUDNN_CONFIG: &str =
    "python -c 'import torch; print(torch.backends.cudnn.enabled); print(torch.__config__.show())'";

/// A check of the smoke test failed. `fix` is a command that makes the framework show the cause.
pub fn smoke_failed(text: String, fix: Option<Fix>) -> Finding {
    Finding { fix, ..finding(Code::SmokeFailed, Severity::Error, text) }
}

/// cuDNN is enabled but not used.
pub fn cudnn_not_used(text: String) -> Finding {
    finding(Code::CudnnNotUsed, Severity::Error, text).fixed_by(Fix::command(SHOW_CUDNN_CONFIG))
}

/// Why the smoke test did not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// An exception or a signal ended it.
    At {
        /// The layer that ran.
        layer: String,
        /// The error, with the line of cuDNN's log, if any.
        what: String,
    },
    /// envlock received a signal.
    Interrupted,
    /// It could not be started: the reason.
    NotStarted(String),
}

/// The smoke test crashed, was interrupted or did not start.
pub fn smoke_crashed(stopped: &Stopped) -> Finding {
    let text = match stopped {
        Stopped::At { layer, what } => format!("the smoke test stopped at {layer}: {what}"),
        Stopped::Interrupted => "the smoke test was interrupted".to_owned(),
        Stopped::NotStarted(why) => format!("the smoke test did not start: {why}"),
    };
    finding(Code::SmokeCrashed, Severity::Error, text)
}

/// The smoke test exceeded its time limit of `seconds`.
pub fn smoke_timeout(layer: &str, seconds: u64) -> Finding {
    let text = format!("the smoke test did not finish in {seconds} s; it reached {layer}");
    let fix =
        format!("set ENVLOCK_SMOKE_TIMEOUT={} for more time, and check `dmesg` while it runs", seconds * 3);
    finding(Code::SmokeTimeout, Severity::Error, text).fixed_by(Fix::advice(fix))
}
