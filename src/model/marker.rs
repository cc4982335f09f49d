//! Environment markers (PEP 508): the values of `sys_platform`, `python_version` and the others for a target.

use pep508_rs::MarkerEnvironment;

use super::patches::NEWEST;
use super::platform::{Arch, Os, Platform};
use super::wheel::Python;

/// The marker environment of a CPython series on a platform.
///
/// A series without a patch release has the newest that there can be as `python_full_version`: machines have a recent one, and
/// markers that differ within a series are about the first ones (`async-timeout; python_full_version < "3.11.3"`). For which
/// patch releases a lock is right stands in it.
pub fn marker_environment(python: Python, platform: Platform) -> MarkerEnvironment {
    let (os_name, sys_platform, system) = match platform.os {
        Os::Linux => ("posix", "linux", "Linux"),
        Os::Macos => ("posix", "darwin", "Darwin"),
        Os::Windows => ("nt", "win32", "Windows"),
    };
    let machine = match (platform.os, platform.arch) {
        (Os::Windows, Arch::X86_64) => "AMD64",
        (Os::Windows, Arch::Aarch64) => "ARM64",
        _ => platform.arch_name(),
    };
    let full = format!("3.{}.{}", python.minor, python.patch.unwrap_or(NEWEST));
    let short = format!("3.{}", python.minor);
    MarkerEnvironment::try_from(pep508_rs::MarkerEnvironmentBuilder {
        implementation_name: "cpython",
        implementation_version: &full,
        os_name,
        platform_machine: machine,
        platform_python_implementation: "CPython",
        platform_release: "",
        platform_system: system,
        platform_version: "",
        python_full_version: &full,
        python_version: &short,
        sys_platform,
    })
    .expect("versions made of numbers parse")
}
