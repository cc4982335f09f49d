//! Operating systems, processor architectures and C libraries.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::version::{DottedVersion, InvalidVersion};

/// An operating system that wheels are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Os {
    /// GNU/Linux or musl Linux.
    Linux,
    /// macOS.
    Macos,
    /// Windows.
    Windows,
}

/// A processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// 64-bit Arm; `arm64` on macOS.
    Aarch64,
    /// 64-bit x86.
    X86_64,
}

/// Operating system and processor architecture, written `linux-x86_64`.
///
/// ```
/// use envlock::model::platform::Platform;
/// let p: Platform = "linux-x86_64".parse().unwrap();
/// assert_eq!(p.to_string(), "linux-x86_64");
/// assert_eq!("macos-arm64".parse::<Platform>().unwrap().to_string(), "macos-arm64");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platform {
    /// The operating system.
    pub os: Os,
    /// The processor.
    pub arch: Arch,
}

impl Platform {
    /// conda's name of it: `linux-64`.
    pub fn conda_subdir(self) -> &'static str {
        match (self.os, self.arch) {
            (Os::Linux, Arch::X86_64) => "linux-64",
            (Os::Linux, Arch::Aarch64) => "linux-aarch64",
            (Os::Macos, Arch::X86_64) => "osx-64",
            (Os::Macos, Arch::Aarch64) => "osx-arm64",
            (Os::Windows, Arch::X86_64) => "win-64",
            (Os::Windows, Arch::Aarch64) => "win-arm64",
        }
    }

    /// The default platform for a described machine.
    pub const LINUX_X86_64: Platform = Platform { os: Os::Linux, arch: Arch::X86_64 };

    /// All of them, the most used first.
    pub const ALL: [Platform; 5] = [
        Platform::LINUX_X86_64,
        Platform { os: Os::Linux, arch: Arch::Aarch64 },
        Platform { os: Os::Windows, arch: Arch::X86_64 },
        Platform { os: Os::Macos, arch: Arch::Aarch64 },
        Platform { os: Os::Macos, arch: Arch::X86_64 },
    ];

    /// The name of the operating system: `linux`, `macos`, `windows`.
    pub fn os_name(&self) -> &'static str {
        match self.os {
            Os::Linux => "linux",
            Os::Macos => "macos",
            Os::Windows => "windows",
        }
    }

    /// The name of the architecture: `x86_64`, `aarch64`, and `arm64` on macOS.
    pub fn arch_name(&self) -> &'static str {
        match (self.arch, self.os) {
            (Arch::X86_64, _) => "x86_64",
            (Arch::Aarch64, Os::Macos) => "arm64",
            (Arch::Aarch64, _) => "aarch64",
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.os_name(), self.arch_name())
    }
}

impl FromStr for Platform {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion {
            text: super::text::clean(text, 40),
            kind: "platform: one of linux-x86_64, linux-aarch64, windows-x86_64, macos-arm64, macos-x86_64",
        };
        let (os, arch) = text.split_once('-').ok_or_else(invalid)?;
        let os = match os {
            "linux" => Os::Linux,
            "macos" => Os::Macos,
            "windows" => Os::Windows,
            _ => return Err(invalid()),
        };
        let arch = match arch {
            "x86_64" => Arch::X86_64,
            "aarch64" | "arm64" => Arch::Aarch64,
            _ => return Err(invalid()),
        };
        Ok(Platform { os, arch })
    }
}

impl Serialize for Platform {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Platform {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The C library (or macOS release), which determines the compatible binary wheels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Libc {
    /// GNU libc, `2.35`.
    Glibc(DottedVersion),
    /// musl, `1.2`.
    Musl(DottedVersion),
    /// The macOS release, `14.0`.
    Macos(DottedVersion),
}

impl Libc {
    /// The operating system that it belongs to.
    pub fn os(&self) -> Os {
        match self {
            Libc::Glibc(_) | Libc::Musl(_) => Os::Linux,
            Libc::Macos(_) => Os::Macos,
        }
    }

    /// The version.
    pub fn version(&self) -> &DottedVersion {
        match self {
            Libc::Glibc(v) | Libc::Musl(v) | Libc::Macos(v) => v,
        }
    }

    /// `glibc`, `musl` or `macos`: the key in host.toml.
    pub fn key(&self) -> &'static str {
        match self {
            Libc::Glibc(_) => "glibc",
            Libc::Musl(_) => "musl",
            Libc::Macos(_) => "macos",
        }
    }
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key(), self.version())
    }
}
