//! What the smoke test runs, and what it came to.

use serde::{Deserialize, Serialize};

/// Which devices to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// Every GPU, or the CPU where there is none.
    Auto,
    /// The CPU.
    Cpu,
    /// Every GPU.
    Cuda,
}

/// A framework whose convolution is run.
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
    /// Every framework, by the name of its package.
    pub const ALL: [(&str, Framework); 5] = [
        ("torch", Framework::Torch),
        ("tensorflow", Framework::Tensorflow),
        ("tensorflow-cpu", Framework::Tensorflow),
        ("tensorflow-gpu", Framework::Tensorflow),
        ("jax", Framework::Jax),
    ];
}

/// How the name of a check begins that says whether cuDNN does the work.
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
    /// What was measured, for people.
    pub detail: String,
    /// The figure that decided: a relative error, how many times faster with cuDNN, cuDNN's version as an integer.
    #[serde(default)]
    pub figure: Option<f64>,
}

/// What the smoke test came to.
#[derive(Debug, Clone, PartialEq)]
pub struct SmokeOutcome {
    /// The checks that ran, in order.
    pub checks: Vec<Check>,
    /// How it ended.
    pub end: End,
    /// What cuDNN's own log said of a failure.
    pub cudnn_says: Option<String>,
}

impl SmokeOutcome {
    /// Whether everything ran and passed.
    pub fn passed(&self) -> bool {
        self.end == End::Done && self.checks.iter().all(|c| c.passed)
    }
}

/// How the chain of layers ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It ran through, or a check failed.
    Done,
    /// It stopped in a layer: an exception (the last line of the traceback) or a signal.
    Crashed {
        /// The layer that was reached.
        layer: String,
        /// What was seen.
        what: String,
    },
    /// It did not end in time.
    TimedOut {
        /// The layer that was reached.
        layer: String,
        /// The limit in seconds.
        seconds: u64,
    },
    /// Nothing could be started.
    NotStarted(String),
    /// A signal came for this program, and the layer was ended with it.
    Interrupted(i32),
}
