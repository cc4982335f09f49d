//! Operating system, processor, C library.

use crate::model::host::System;
use crate::model::platform::{Arch, Libc, Os, Platform};

/// The system this program runs on.
pub fn system() -> System {
    let os = if cfg!(target_os = "macos") {
        Os::Macos
    } else if cfg!(target_os = "windows") {
        Os::Windows
    } else {
        Os::Linux
    };
    let arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
    let (libc, found_by) = libc();
    System { platform: Platform { os, arch }, libc, found_by: found_by.into() }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn libc() -> (Option<Libc>, String) {
    // SAFETY: the function takes nothing and returns a pointer to a constant, NUL-terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let version = text.to_str().ok().and_then(|t| t.parse().ok());
    (version.map(Libc::Glibc), "gnu_get_libc_version".to_owned())
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn libc() -> (Option<Libc>, String) {
    let output = |program: &str, arguments: &[&str]| {
        let out = std::process::Command::new(program).args(arguments).output().ok()?;
        // musl's ldd prints its version to stderr and exits with an error.
        let text = [out.stdout, out.stderr].concat();
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    if cfg!(target_os = "macos") {
        let version = output("sw_vers", &["-productVersion"]).and_then(|t| t.trim().parse().ok());
        return (version.map(Libc::Macos), "sw_vers".to_owned());
    }
    if cfg!(target_os = "windows") {
        return (None, "build".to_owned());
    }
    let text = output("ldd", &["--version"]).unwrap_or_default();
    (parse_ldd(&text), "ldd --version".to_owned())
}

/// `ldd --version` of glibc (`ldd (GNU libc) 2.35`) and of musl (`musl libc (x86_64)\nVersion 1.2.3`).
#[cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), allow(dead_code))]
fn parse_ldd(text: &str) -> Option<Libc> {
    let first = text.lines().next()?;
    if first.starts_with("musl") {
        let version = text.lines().find_map(|l| l.strip_prefix("Version "))?;
        return version.trim().parse().ok().map(Libc::Musl);
    }
    first.split_whitespace().last()?.parse().ok().map(Libc::Glibc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd() {
        let glibc = parse_ldd("ldd (Debian GLIBC 2.36-9+deb12u13) 2.36\nCopyright\n").unwrap();
        assert_eq!(glibc.to_string(), "glibc 2.36");
        let musl = parse_ldd("musl libc (x86_64)\nVersion 1.2.4\nDynamic Program Loader\n").unwrap();
        assert_eq!(musl.to_string(), "musl 1.2.4");
        assert_eq!(parse_ldd(""), None);
    }
}
