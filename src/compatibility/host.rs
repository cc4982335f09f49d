//! Whether a machine can be as described.

use std::fmt;

use super::driver::DriverSpan;
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// A machine that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImpossibleHost {
    /// A C library of another operating system: `glibc` on macOS.
    Libc {
        /// The library's word.
        libc: &'static str,
        /// The platform.
        platform: Platform,
    },
    /// A GPU whose last driver branch is documented, under a newer driver.
    DriverBeyondGpu {
        /// The driver.
        driver: DottedVersion,
        /// The GPU, as a person names it.
        gpu: String,
        /// Its architecture.
        architecture: String,
        /// The last branch that knows it.
        last: u32,
        /// Where that is said.
        source: String,
    },
}

impl fmt::Display for ImpossibleHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImpossibleHost::Libc { libc, platform } => write!(f, "a machine of {platform} has no {libc}"),
            ImpossibleHost::DriverBeyondGpu { driver, gpu, architecture, last, source } => write!(
                f,
                "driver {driver} does not know {gpu}: {architecture} ended with driver branch {last} ({source})"
            ),
        }
    }
}

/// Whether a machine can be as described: a C library belongs to one operating system, and a GPU whose last
/// driver branch is documented cannot run on a newer one.
///
/// # Errors
/// The first contradiction.
pub fn check_host(registry: &Registry, host: &Host) -> Result<(), ImpossibleHost> {
    let platform = host.system.platform;
    if let Some(libc) = &host.system.libc
        && libc.os() != platform.os
    {
        return Err(ImpossibleHost::Libc { libc: libc.key(), platform });
    }
    let Some(driver) = &host.driver else { return Ok(()) };
    for gpu in host.gpus.iter().flatten() {
        let Some(capability) = gpu.capability else { continue };
        let Some(architecture) = registry.architecture(capability) else { continue };
        if let Some(last) = architecture.last_branch
            && DriverSpan::of(registry, capability).ends_before(&driver.version)
        {
            return Err(ImpossibleHost::DriverBeyondGpu {
                driver: driver.version.clone(),
                gpu: gpu.label(),
                architecture: architecture.name.clone(),
                last,
                source: registry.source_text(&architecture.source),
            });
        }
    }
    Ok(())
}
