//! Compute capabilities and the code targets in a binary that cover them.
//!
//! The rules are from the CUDA C++ Programming Guide (binary compatibility) and the compatibility guides;
//! `docs/compatibility.md` lists them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::version::InvalidVersion;

/// A GPU's compute capability, such as `8.6`.
///
/// ```
/// use envlock::model::capability::ComputeCapability;
/// let a: ComputeCapability = "8.6".parse().unwrap();
/// assert_eq!("sm_86".parse(), Ok(a));
/// assert_eq!(a.to_string(), "8.6");
/// assert_eq!("sm_120".parse::<ComputeCapability>().unwrap().to_string(), "12.0");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The major version: 7 Volta and Turing, 8 Ampere and Ada, 9 Hopper, 10 and 12 Blackwell.
    pub major: u8,
    /// The minor version.
    pub minor: u8,
}

impl ComputeCapability {
    /// The capability `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        ComputeCapability { major, minor }
    }
}

impl FromStr for ComputeCapability {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion {
            text: super::text::clean(text, 40),
            kind: "compute capability such as `8.6` or `sm_86`",
        };
        let number = |s: &str| -> Option<u8> {
            (!s.is_empty() && s.len() <= 2 && s.bytes().all(|b| b.is_ascii_digit()))
                .then(|| s.parse().ok())
                .flatten()
        };
        let (major, minor) = if let Some(digits) = text.strip_prefix("sm_") {
            if digits.len() < 2 || !digits.is_ascii() {
                return Err(invalid());
            }
            digits.split_at(digits.len() - 1)
        } else {
            text.split_once('.').ok_or_else(invalid)?
        };
        match (number(major), number(minor)) {
            (Some(major), Some(minor)) => Ok(ComputeCapability { major, minor }),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for ComputeCapability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ComputeCapability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The GPUs that a target's machine code runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetScope {
    /// Plain `sm_90`: the same major, the same or a higher minor.
    Generation,
    /// `sm_100f`: its family, the same or a higher minor.
    Family,
    /// `sm_90a`: this capability only.
    Exact,
}

/// One entry of device code in a binary: `9.0`, `9.0a`, `10.3f`.
///
/// The list that contains it determines whether it is machine code (SASS) or PTX.
///
/// ```
/// use envlock::model::capability::{CodeTarget, ComputeCapability};
/// let target: CodeTarget = "8.0".parse().unwrap();
/// assert!(target.sass_covers(ComputeCapability::new(8, 9)));
/// assert!(!target.sass_covers(ComputeCapability::new(9, 0)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeTarget {
    /// The capability it was compiled for.
    pub capability: ComputeCapability,
    /// The GPUs that it runs on.
    pub scope: TargetScope,
}

impl CodeTarget {
    /// Whether machine code of this target runs on `gpu`: the same major, the same or a higher minor; `a` covers only
    /// its own capability, `f` its family.
    ///
    /// Does not handle Tegra: see [`CodeTargets::covers`].
    pub fn sass_covers(&self, gpu: ComputeCapability) -> bool {
        match self.scope {
            TargetScope::Exact => self.capability == gpu,
            TargetScope::Generation | TargetScope::Family => {
                self.capability.major == gpu.major && gpu.minor >= self.capability.minor
            }
        }
    }

    /// Whether a driver that is new enough can compile PTX of this target for `gpu`: the same or a higher capability.
    /// PTX of an `a` target is only for that capability, of an `f` target for its family.
    pub fn ptx_covers(&self, gpu: ComputeCapability) -> bool {
        match self.scope {
            TargetScope::Generation => gpu >= self.capability,
            TargetScope::Exact | TargetScope::Family => self.sass_covers(gpu),
        }
    }
}

impl FromStr for CodeTarget {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, scope) = match text.as_bytes().last() {
            Some(b'a') => (&text[..text.len() - 1], TargetScope::Exact),
            Some(b'f') => (&text[..text.len() - 1], TargetScope::Family),
            _ => (text, TargetScope::Generation),
        };
        Ok(CodeTarget { capability: number.parse()?, scope })
    }
}

impl fmt::Display for CodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.scope {
            TargetScope::Generation => "",
            TargetScope::Family => "f",
            TargetScope::Exact => "a",
        };
        write!(f, "{}{suffix}", self.capability)
    }
}

impl Serialize for CodeTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CodeTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How a set of code targets supports a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Compiled by the driver at first use. Needs a driver at least as new as the toolkit that generated it.
    Ptx,
    /// Machine code that runs without compilation.
    Sass,
}

/// The device code of a build: machine code and PTX.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeTargets {
    /// Machine code.
    pub sass: Vec<CodeTarget>,
    /// PTX.
    pub ptx: Vec<CodeTarget>,
}

impl fmt::Display for CodeTargets {
    /// `8.0 9.0 PTX 9.0`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sass = self.sass.iter().map(ToString::to_string);
        let ptx = self.ptx.iter().map(|target| format!("PTX {target}"));
        f.write_str(&sass.chain(ptx).collect::<Vec<_>>().join(" "))
    }
}

impl CodeTargets {
    /// How the targets support `gpu`, preferring machine code. `is_tegra`: whether a capability is Tegra's. Machine code
    /// for discrete GPUs does not run on Tegra, and vice versa. PTX for Tegra runs on discrete GPUs, as was seen; that the
    /// reverse holds was not.
    pub fn covers(
        &self,
        gpu: ComputeCapability,
        is_tegra: impl Fn(ComputeCapability) -> bool,
    ) -> Option<Via> {
        let same_kind = |t: &&CodeTarget| is_tegra(t.capability) == is_tegra(gpu);
        if self.sass.iter().filter(same_kind).any(|t| t.sass_covers(gpu)) {
            Some(Via::Sass)
        } else if self.ptx.iter().any(|t| (!is_tegra(gpu) || is_tegra(t.capability)) && t.ptx_covers(gpu)) {
            Some(Via::Ptx)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tegra(c: ComputeCapability) -> bool {
        [(7, 2), (8, 7), (11, 0)].contains(&(c.major, c.minor))
    }

    #[test]
    fn coverage_table() {
        let targets = |sass: &[&str], ptx: &[&str]| CodeTargets {
            sass: sass.iter().map(|t| t.parse().unwrap()).collect(),
            ptx: ptx.iter().map(|t| t.parse().unwrap()).collect(),
        };
        let table: &[(&[&str], &[&str], &str, Option<Via>)] = &[
            (&["8.0"], &[], "8.6", Some(Via::Sass)),
            (&["8.6"], &[], "8.0", None),
            (&["8.6"], &[], "8.9", Some(Via::Sass)),
            (&["8.6"], &[], "9.0", None),
            (&["8.6"], &["8.6"], "9.0", Some(Via::Ptx)),
            (&["9.0a"], &[], "9.0", Some(Via::Sass)),
            (&["10.0a"], &[], "10.3", None),
            (&["10.0f"], &[], "10.3", Some(Via::Sass)),
            (&["10.3f"], &[], "10.0", None),
            (&["10.0f"], &[], "12.0", None),
            (&[], &["9.0a"], "10.0", None),
            (&[], &["9.0"], "8.9", None),
            // Machine code for discrete GPUs does not run on Tegra, and vice versa; PTX for Tegra runs on both.
            (&["8.6"], &[], "8.7", None),
            (&["8.7"], &[], "8.9", None),
            (&["8.7"], &[], "8.7", Some(Via::Sass)),
            (&[], &["8.0"], "11.0", None),
            (&[], &["8.7"], "9.0", Some(Via::Ptx)),
            (&["8.7"], &["8.7"], "8.9", Some(Via::Ptx)),
            (&["3.7"], &[], "3.5", None),
        ];
        for (sass, ptx, gpu, expected) in table {
            let gpu = gpu.parse().unwrap();
            assert_eq!(targets(sass, ptx).covers(gpu, tegra), *expected, "{sass:?} {ptx:?} {gpu}");
        }
    }

    #[test]
    fn spellings() {
        for good in ["8.6", "sm_86", "12.0", "sm_120", "10.3"] {
            good.parse::<ComputeCapability>().unwrap();
        }
        for bad in ["", "8", "sm_", "sm_8", "8.", ".6", "8.6.1", "sm_x", "é.1", "sm_é1"] {
            assert!(bad.parse::<ComputeCapability>().is_err(), "{bad}");
        }
    }
}
