//! What a GPU did with prebuilt kernels, seen by the driver API.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::capability::{CodeTarget, Via};

/// A prebuilt kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Machine code or PTX.
    pub form: Via,
    /// The target it is compiled for.
    pub target: CodeTarget,
    /// The CUDA release that compiled it, without the patch; of PTX, the first that takes its version of PTX.
    pub cuda: semver::Version,
}

impl fmt::Display for Kernel {
    /// `PTX 7.5 of CUDA 12.8`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of CUDA {}.{}", self.form_name(), self.target, self.cuda.major, self.cuda.minor)
    }
}

impl Kernel {
    /// `SASS` or `PTX`.
    pub fn form_name(&self) -> &'static str {
        match self.form {
            Via::Sass => "SASS",
            Via::Ptx => "PTX",
        }
    }
}

/// What became of one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was loaded, launched, and its result is right.
    Ran,
    /// It was launched, and its result is wrong.
    Wrong,
    /// The driver did not load it: the name of the status, such as `CUDA_ERROR_NO_BINARY_FOR_GPU`.
    Refused(String),
    /// It was loaded, and the launch failed: the call and its status.
    Failed(String),
}

/// A GPU as the driver API describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverDevice {
    /// CUDA's index, not NVML's.
    pub index: u32,
    /// The product name, `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// The compute capability, `9.0`.
    pub capability: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// `GPU-...` or `MIG-...`'s number without the prefix: 32 hexadecimal digits; `None` if the driver has no call for it.
    pub uuid: Option<String>,
    /// The CUDA version of the driver, `13.0`.
    pub cuda: String,
    /// What became of each kernel, in the order of the table; shorter if the child ended before.
    pub outcomes: Vec<Outcome>,
}
