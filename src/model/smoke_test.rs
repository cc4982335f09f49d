//! The smoke test and its results.

use serde::{Deserialize, Serialize};

/// The devices to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// Every GPU, or the CPU if there is none.
    Auto,
    /// The CPU.
    Cpu,
    /// Every GPU.
    Cuda,
}

/// A framework that the smoke test supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// PyTorch.
    Torch,
    /// TensorFlow.
    Tensorflow,
    /// JAX.
    Jax,
}

impl Framework {
    /// All frameworks by package name.
    pub const ALL: [(&str, Framework); 5] = [
        ("torch", Framework::Torch),
        ("tensorflow", Framework::Tensorflow),
        ("tensorflow-cpu", Framework::Tensorflow),
        ("tensorflow-gpu", Framework::Tensorflow),
        ("jax", Framework::Jax),
    ];
}

/// The name prefix of checks that cuDNN is used, by its speed.
pub const SPEED: &str = "speed-";

/// One check that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// `import`, `conv-fp32`, `copy`.
    pub name: String,
    /// The layer it belongs to: `driver`, `runtime`, `cublas`, `cudnn`, `torch`, `tensorflow`, `jax`, `compile`.
    pub layer: String,
    /// `cpu`, `cuda:0`.
    pub device: String,
    /// Whether it passed.
    pub passed: bool,
    /// The measurement as text.
    pub detail: String,
    /// The deciding number: a relative error, the speed-up with cuDNN, or cuDNN's version as an integer.
    #[serde(default)]
    pub figure: Option<f64>,
}

/// The result of the smoke test.
#[derive(Debug, Clone, PartialEq)]
pub struct SmokeOutcome {
    /// The checks that ran, in order.
    pub checks: Vec<Check>,
    /// How it ended.
    pub end: End,
    /// cuDNN's own log message about a failure.
    pub cudnn_says: Option<String>,
}

impl SmokeOutcome {
    /// Whether everything ran and passed.
    pub fn passed(&self) -> bool {
        self.end == End::Done && self.checks.iter().all(|c| c.passed)
    }
}

/// How the smoke test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It completed, or a check failed.
    Done,
    /// It crashed in a layer, by an exception or a signal.
    Crashed {
        /// The layer that was reached.
        layer: String,
        /// The last line of the traceback, or the signal.
        what: String,
    },
    /// It timed out.
    TimedOut {
        /// The layer that was reached.
        layer: String,
        /// The limit in seconds.
        seconds: u64,
    },
    /// It could not be started, with the reason.
    NotStarted(String),
    /// envlock received this signal and terminated the test.
    Interrupted(i32),
}
