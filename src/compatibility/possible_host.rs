//! Whether a described machine is possible.

use std::fmt;

use super::driver::DriverSpan;
use crate::model::host::Host;
use crate::model::platform::{Arch, Os, Platform};
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// Why a machine is impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImpossibleHost {
    /// A C library of another operating system: `glibc` on macOS.
    Libc {
        /// The name of the library.
        libc: &'static str,
        /// The platform.
        platform: Platform,
    },
    /// A Mac with Apple's processor and an NVIDIA GPU or driver.
    AppleSilicon {
        /// The platform.
        platform: Platform,
    },
    /// A GPU with a driver newer than its last documented branch.
    DriverBeyondGpu {
        /// The driver.
        driver: DottedVersion,
        /// The GPU, for display.
        gpu: String,
        /// Its architecture.
        architecture: String,
        /// The last branch that supports it.
        last: u32,
        /// The source of that.
        source: String,
    },
}

impl fmt::Display for ImpossibleHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImpossibleHost::Libc { libc, platform } => write!(f, "{libc} does not exist on {platform}"),
            ImpossibleHost::AppleSilicon { platform } => {
                write!(f, "{platform} has no NVIDIA GPU and no NVIDIA driver")
            }
            ImpossibleHost::DriverBeyondGpu { driver, gpu, architecture, last, source } => write!(
                f,
                "driver {driver} does not support {gpu}: the last branch for {architecture} is {last} ({source})"
            ),
        }
    }
}

/// Checks that a machine is possible: its C library belongs to its operating system, a Mac with Apple's processor has no NVIDIA
/// GPU, and its driver is not newer than the last documented branch of a GPU.
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
    let has_nvidia = host.driver.is_some() || host.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
    if has_nvidia && platform.os == Os::Macos && platform.arch == Arch::Aarch64 {
        return Err(ImpossibleHost::AppleSilicon { platform });
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
