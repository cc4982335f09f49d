//! How what is locked runs on a machine's GPUs: by which code, and by which driver.

use std::fmt;

use serde::Serialize;

use super::locked::Locked;
use crate::model::capability::Via;
use crate::model::host::Host;
use crate::model::version::DottedVersion;

/// How code runs on a machine's GPUs. Two that are equal are equally fast, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CodePath {
    /// The target, or the environment, that runs there, where the lock has several.
    pub target: Option<String>,
    /// Machine code, or PTX that the driver compiles at first use: of several GPUs the slower. `None` where it is not known.
    pub via: Option<Via>,
    /// Whether the driver runs by minor-version compatibility: it is older than the toolkit's own.
    pub minor_version: bool,
    /// The cuda-compat in place of the kernel module's own user-mode driver.
    pub compat: Option<DottedVersion>,
}

impl CodePath {
    /// How a target runs on a machine; `None` where it uses no GPU there, or the driver is not known.
    pub fn of(locked: &Locked<'_>, machine: &Host, several: bool) -> Option<CodePath> {
        let (target, driver) = (&locked.target, machine.driver.as_ref()?);
        let gpus = machine.gpus.as_ref().filter(|gpus| !gpus.is_empty())?;
        if !target.uses_cuda() {
            return None;
        }
        let via = |capability| {
            let rows = target.envelope.coverage.iter();
            rows.filter(|row| row.compute_capability == capability).map(|row| row.via).next()
        };
        let all: Option<Vec<Via>> = gpus.iter().map(|gpu| via(gpu.capability?)).collect();
        let below = locked.native_driver().map(|native| driver.reaches(native) == Some(false));
        Some(CodePath {
            target: several.then(|| target.name.clone()),
            via: all.filter(|_| locked.code_is_known).and_then(|all| all.into_iter().min()),
            minor_version: below.unwrap_or(false),
            compat: driver.compat.clone().filter(|compat| *compat > driver.version),
        })
    }
}

/// `machine code`, `PTX by cuda-compat 580.95.05`, `machine code, minor-version compatibility`.
impl fmt::Display for CodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(target) = &self.target {
            write!(f, "target {target}: ")?;
        }
        f.write_str(match self.via {
            Some(Via::Sass) => "machine code",
            Some(Via::Ptx) => "PTX, compiled at first use",
            None => "code that was not read",
        })?;
        if self.minor_version {
            f.write_str(", minor-version compatibility")?;
        }
        match &self.compat {
            Some(compat) => write!(f, ", by cuda-compat {compat}"),
            None => Ok(()),
        }
    }
}
