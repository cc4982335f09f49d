//! Wheel file names and compatibility tags (PEP 427, 425, 600, 656).

use std::cmp::Reverse;
use std::str::FromStr;

use pep440_rs::Version;
use serde::{Deserialize, Deserializer};

use super::platform::{Arch, Libc, Os, Platform};
use super::version::DottedVersion;

/// An invalid wheel file name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a wheel file name")]
pub struct InvalidWheelName(pub String);

/// The parts of a wheel's file name.
///
/// ```
/// use envlock::model::wheel::WheelName;
/// let w: WheelName = "torch-2.10.0-3-cp311-cp311-manylinux_2_28_x86_64.whl".parse().unwrap();
/// assert_eq!(w.build.as_ref().unwrap().0, 3);
/// assert_eq!(w.platforms, ["manylinux_2_28_x86_64"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelName {
    /// The project's name as written (not normalized).
    pub project: String,
    /// The version.
    pub version: Version,
    /// The build tag: a number and a suffix. Among files with the same version and tags, the highest is preferred.
    pub build: Option<(u64, String)>,
    /// Python tags.
    pub pythons: Vec<String>,
    /// ABI tags.
    pub abis: Vec<String>,
    /// Platform tags.
    pub platforms: Vec<String>,
}

impl WheelName {
    /// Every single tag of its compressed tag set, as in WHEEL: `py3-none-any`.
    pub fn tags(&self) -> impl Iterator<Item = String> {
        self.pythons.iter().flat_map(move |python| {
            self.abis.iter().flat_map(move |abi| {
                self.platforms.iter().map(move |platform| format!("{python}-{abi}-{platform}"))
            })
        })
    }
}

impl FromStr for WheelName {
    type Err = InvalidWheelName;

    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    fn from_str(file: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidWheelName(super::text::clean(file, 120));
        let parts = Parts::of(file).ok_or_else(invalid)?;
        let set = |tags: Tags<'_>| tags.map(str::to_owned).collect();
        Ok(WheelName {
            project: parts.project.to_owned(),
            version: parts.version.parse().map_err(|_| invalid())?,
            build: parts.build.map(|(number, suffix)| (number, suffix.to_owned())),
            pythons: set(parts.pythons),
            abis: set(parts.abis),
            platforms: set(parts.platforms),
        })
    }
}

/// The tags of one kind, separated by dots in a file name.
type Tags<'n> = std::str::Split<'n, char>;

/// The parts of a wheel's file name as they stand in it.
///
/// A search asks of thousands of wheels whether they fit, and needs the name of few.
pub(super) struct Parts<'n> {
    project: &'n str,
    version: &'n str,
    build: Option<(u64, &'n str)>,
    pythons: Tags<'n>,
    abis: Tags<'n>,
    platforms: Tags<'n>,
}

impl<'n> Parts<'n> {
    /// `None` if it is not the name of a wheel; the version is not checked.
    pub(super) fn of(file: &'n str) -> Option<Parts<'n>> {
        // File names are stored in line-based files.
        file.bytes().all(|b| b.is_ascii_graphic()).then_some(())?;
        let stem = file.strip_suffix(".whl")?;
        let mut parts = [""; 6];
        let mut count = 0;
        let mut start = 0;
        for end in memchr::memchr_iter(b'-', stem.as_bytes()).chain([stem.len()]) {
            *parts.get_mut(count)? = &stem[start..end];
            (count, start) = (count + 1, end + 1);
        }
        let [project, version, rest @ ..] = parts;
        let (build, tags) = match (count, rest) {
            (5, [pythons, abis, platforms, _]) => (None, [pythons, abis, platforms]),
            (6, [build, pythons, abis, platforms]) => {
                let digits = build.bytes().take_while(u8::is_ascii_digit).count();
                let number = build[..digits].parse().ok()?;
                (Some((number, &build[digits..])), [pythons, abis, platforms])
            }
            _ => return None,
        };
        let is_complete = !project.is_empty() && tags.iter().all(|tag| !tag.is_empty());
        let [pythons, abis, platforms] = tags.map(|tags| tags.split('.'));
        is_complete.then_some(Parts { project, version, build, pythons, abis, platforms })
    }

    /// See [`WheelName::fit`].
    pub(super) fn fit(self, minor: u32, platform: Platform, libc: Option<&Libc>) -> Option<Fit> {
        let python = accepts_python(self.pythons, &self.abis, minor)?;
        let platform = best_platform(self.platforms, platform, libc)?;
        let build = self.build.map(|(number, suffix)| (number, suffix.to_owned()));
        Some(Fit { python, platform, build: build.unwrap_or_default() })
    }
}

/// Whether a file name ends in the tags of a platform and C library; the rest of the name is not looked at.
pub(super) fn may_fit_platform(file: &str, platform: Platform, libc: Option<&Libc>) -> bool {
    let Some(stem) = file.strip_suffix(".whl") else { return false };
    let start = memchr::memrchr(b'-', stem.as_bytes()).map_or(0, |dash| dash + 1);
    best_platform(stem[start..].split('.'), platform, libc).is_some()
}

/// Beyond any Python 3 series that a wheel is tagged for.
pub const NEWEST_MINOR: u32 = 63;

/// A CPython series, `3.12`, optionally with the patch release.
///
/// Only builds with the global interpreter lock; free-threaded builds (`cp313t`) are not selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Python {
    /// The minor number: 12 of `3.12`.
    pub minor: u32,
    /// The patch release, if given.
    pub patch: Option<u32>,
}

impl Python {
    /// The series `3.minor`.
    pub const fn new(minor: u32) -> Python {
        Python { minor, patch: None }
    }
}

impl std::fmt::Display for Python {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "3.{}", self.minor)?;
        match self.patch {
            Some(patch) => write!(f, ".{patch}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Python {
    type Err = super::version::InvalidVersion;

    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || super::version::InvalidVersion {
            text: super::text::clean(text, 40),
            kind: "Python version such as `3.12`",
        };
        let version: DottedVersion = text.parse().map_err(|_| invalid())?;
        let parts: Vec<&str> = text.trim().split('.').collect();
        if version.major() != 3 || parts.len() < 2 || parts.len() > 3 {
            return Err(invalid());
        }
        Ok(Python { minor: version.minor(), patch: parts.get(2).and_then(|p| p.parse().ok()) })
    }
}

impl<'de> Deserialize<'de> for Python {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The preference among compatible wheels, greater is better: the specificity of the tags as in pip, then the build
/// tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fit {
    python: u32,
    platform: (u8, NeedOrder),
    build: (u64, String),
}

/// The libc requirement as an ordering key: newest first if the host's libc is known, oldest first if not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum NeedOrder {
    Oldest(Reverse<LibcNeed>),
    Newest(LibcNeed),
}

/// The libc version of a platform tag: major and minor.
type LibcNeed = (u32, u32);

impl WheelName {
    /// The specificity of the tags for CPython `3.minor`, greater is better; `None` if they do not accept it.
    pub fn accepts_python(&self, minor: u32) -> Option<u32> {
        accepts_python(texts(&self.pythons), &texts(&self.abis), minor)
    }

    /// The lowest libc that a tag for `platform` requires; inner `None` without a requirement, `None` if no tag matches.
    pub fn libc_need(&self, platform: Platform, libc: Option<&Libc>) -> Option<Option<DottedVersion>> {
        let lowest = self.platforms.iter().filter_map(|tag| platform_tag(tag, platform, libc)).min()?;
        Some(lowest.and_then(|(major, minor)| format!("{major}.{minor}").parse().ok()))
    }

    /// The preference of the wheel for a Python series on a platform; `None` if it is incompatible. An unknown libc is
    /// not checked (on Linux, glibc is assumed).
    pub fn fit(&self, minor: u32, platform: Platform, libc: Option<&Libc>) -> Option<Fit> {
        let python = self.accepts_python(minor)?;
        let platform = best_platform(texts(&self.platforms), platform, libc)?;
        Some(Fit { python, platform, build: self.build.clone().unwrap_or_default() })
    }
}

fn texts(tags: &[String]) -> impl Iterator<Item = &str> + Clone {
    tags.iter().map(String::as_str)
}

/// The greatest specificity of the pairs of tags for CPython `3.minor`.
fn accepts_python<'t>(
    pythons: impl Iterator<Item = &'t str>,
    abis: &(impl Iterator<Item = &'t str> + Clone),
    minor: u32,
) -> Option<u32> {
    let of = |python| abis.clone().filter_map(move |abi| python_specificity(python, abi, minor)).max();
    pythons.filter_map(of).max()
}

/// The preference of the best platform tag that is compatible.
fn best_platform<'t>(
    tags: impl Iterator<Item = &'t str>,
    platform: Platform,
    libc: Option<&Libc>,
) -> Option<(u8, NeedOrder)> {
    tags.filter_map(|tag| platform_tag(tag, platform, libc))
        .filter(|need| match (need, libc) {
            (Some((major, minor)), Some(libc)) => libc.version().is_at_least(*major, *minor),
            _ => true,
        })
        .map(|need| match need {
            None => (0, NeedOrder::Oldest(Reverse((0, 0)))),
            Some(need) if libc.is_some() => (1, NeedOrder::Newest(need)),
            Some(need) => (1, NeedOrder::Oldest(Reverse(need))),
        })
        .max()
}

/// The specificity of a (python, abi) tag pair for CPython `3.minor`, greater is better.
fn python_specificity(python: &str, abi: &str, minor: u32) -> Option<u32> {
    let digits = |rest: &str| -> Option<(u32, Option<u32>)> {
        if rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (major, rest) = rest.split_at(1);
        // `cp3011` is no tag.
        (rest.len() < 2 || !rest.starts_with('0')).then_some(())?;
        Some((major.parse().ok()?, (!rest.is_empty()).then(|| rest.parse().ok()).flatten()))
    };
    if let Some(rest) = python.strip_prefix("cp") {
        let (major, tag_minor) = digits(rest)?;
        if major != 3 {
            return None;
        }
        let tag_minor = tag_minor.unwrap_or(0);
        match abi {
            "abi3" if tag_minor <= minor && tag_minor >= 2 => Some(500 + tag_minor),
            "none" if tag_minor == minor => Some(700),
            _ if tag_minor == minor => {
                let own = abi.strip_prefix(python)?;
                // Up to 3.7 the ABI tag has an `m` (pymalloc).
                (own.is_empty() || minor <= 7 && own == "m").then_some(900)
            }
            _ => None,
        }
    } else if let Some(rest) = python.strip_prefix("py") {
        if abi != "none" {
            return None;
        }
        match digits(rest)? {
            (3, None) => Some(200),
            (3, Some(tag_minor)) if tag_minor <= minor => Some(200 + tag_minor),
            _ => None,
        }
    } else {
        None
    }
}

/// `None`: another platform. `Some(None)`: compatible without a libc requirement. `Some(Some(v))`: requires libc `v`.
fn platform_tag(tag: &str, platform: Platform, libc: Option<&Libc>) -> Option<Option<LibcNeed>> {
    if tag == "any" {
        return Some(None);
    }
    let arch = platform.arch_name();
    match platform.os {
        Os::Linux => {
            let musl = matches!(libc, Some(Libc::Musl(_)));
            if let Some(rest) = tag.strip_prefix("musllinux_") {
                return versioned(rest, arch).filter(|_| musl).map(Some);
            }
            if let Some(rest) = tag.strip_prefix("linux_") {
                return (rest == arch).then_some(None);
            }
            let need = if let Some(rest) = tag.strip_prefix("manylinux_") {
                versioned(rest, arch)?
            } else {
                let (series, rest) = tag.split_once('_')?;
                if rest != arch {
                    return None;
                }
                match series {
                    "manylinux1" => (2, 5),
                    "manylinux2010" => (2, 12),
                    "manylinux2014" => (2, 17),
                    _ => return None,
                }
            };
            (!musl).then_some(Some(need))
        }
        Os::Macos => {
            let rest = tag.strip_prefix("macosx_")?;
            let fits = |arch: &str| versioned(rest, arch);
            let native = match platform.arch {
                Arch::Aarch64 => fits("arm64"),
                Arch::X86_64 => fits("x86_64").or_else(|| fits("intel")),
            };
            native.or_else(|| fits("universal2")).map(Some)
        }
        Os::Windows => {
            let own = match platform.arch {
                Arch::X86_64 => "win_amd64",
                Arch::Aarch64 => "win_arm64",
            };
            (tag == own).then_some(None)
        }
    }
}

/// `2_28_x86_64` with arch `x86_64` -> 2.28.
fn versioned(rest: &str, arch: &str) -> Option<LibcNeed> {
    let numbers = rest.strip_suffix(arch)?.strip_suffix('_')?;
    let (major, minor) = numbers.split_once('_')?;
    let number = |text: &str| {
        let is_number = text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    Some((number(major)?, number(minor)?))
}

/// Whether a file is for a Python: `_C.cpython-312-x86_64-linux-gnu.so` is for 3.12, names without a tag for all.
pub fn is_for_python(path: &str, python: Option<Python>) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let tag = name.split('.').find_map(|part| part.strip_prefix("cpython-3"));
    let minor = tag.and_then(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    match (minor, python) {
        (Some(minor), Some(python)) => minor == python.minor,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(file: &str, minor: u32, platform: &str, libc: Option<Libc>) -> Option<Fit> {
        file.parse::<WheelName>().unwrap().fit(minor, platform.parse().unwrap(), libc.as_ref())
    }

    fn glibc(v: &str) -> Option<Libc> {
        Some(Libc::Glibc(v.parse().unwrap()))
    }

    #[test]
    fn names() {
        let w: WheelName = "nvidia_cublas_cu12-12.8.4.1-py3-none-manylinux_2_27_x86_64.whl".parse().unwrap();
        assert_eq!(w.project, "nvidia_cublas_cu12");
        assert_eq!(w.version.to_string(), "12.8.4.1");
        for bad in [
            "torch.whl",
            "torch-2.0.tar.gz",
            "a-1-2-3-4-5-6.whl",
            "-1-py3-none-any.whl",
            "a-x-py3-none-any.whl",
            "a-1-b-py3-none-any.whl",
        ] {
            assert!(bad.parse::<WheelName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn where_wheels_install() {
        let linux = "linux-x86_64";
        let table: &[(&str, u32, &str, Option<Libc>, bool)] = &[
            ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", 11, linux, glibc("2.28"), true),
            ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", 11, linux, glibc("2.27"), false),
            ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", 11, linux, None, true),
            ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", 12, linux, None, false),
            ("a-1-cp311-cp311-manylinux_2_28_aarch64.whl", 11, linux, None, false),
            ("a-1-cp313-cp313t-manylinux_2_28_x86_64.whl", 13, linux, None, false),
            ("a-1-cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", 12, linux, glibc("2.17"), true),
            ("a-1-cp38-abi3-manylinux2014_x86_64.whl", 7, linux, None, false),
            ("a-1-py2.py3-none-any.whl", 15, linux, None, true),
            ("a-1-py2-none-any.whl", 15, linux, None, false),
            ("a-1-py39-none-any.whl", 8, linux, None, false),
            ("a-1-cp37-cp37m-manylinux1_x86_64.whl", 7, linux, glibc("2.35"), true),
            ("a-1-cp39-cp39-musllinux_1_2_x86_64.whl", 9, linux, glibc("2.35"), false),
            (
                "a-1-cp39-cp39-musllinux_1_2_x86_64.whl",
                9,
                linux,
                Some(Libc::Musl("1.2".parse().unwrap())),
                true,
            ),
            (
                "a-1-cp39-cp39-manylinux2014_x86_64.whl",
                9,
                linux,
                Some(Libc::Musl("1.2".parse().unwrap())),
                false,
            ),
            ("a-1-cp39-cp39-win_amd64.whl", 9, "windows-x86_64", None, true),
            (
                "a-1-cp39-cp39-macosx_11_0_arm64.whl",
                9,
                "macos-arm64",
                Some(Libc::Macos("14.0".parse().unwrap())),
                true,
            ),
            (
                "a-1-cp39-cp39-macosx_15_0_arm64.whl",
                9,
                "macos-arm64",
                Some(Libc::Macos("14.0".parse().unwrap())),
                false,
            ),
            ("a-1-cp39-cp39-macosx_10_9_universal2.whl", 9, "macos-x86_64", None, true),
            ("a-1-pp39-pypy39_pp73-manylinux2014_x86_64.whl", 9, linux, None, false),
            ("torch-1.13.1-1-cp39-cp39-manylinux2014_aarch64.whl", 9, "linux-aarch64", None, true),
        ];
        for (file, minor, platform, libc, expected) in table {
            assert_eq!(
                fit(file, *minor, platform, libc.clone()).is_some(),
                *expected,
                "{file} 3.{minor} {platform} {libc:?}"
            );
        }
    }

    #[test]
    fn better_fits() {
        let better = |a: &str, b: &str| {
            let f = |x| fit(x, 11, "linux-x86_64", glibc("2.35")).unwrap();
            assert!(f(a) > f(b), "{a} over {b}");
        };
        better("a-1-cp311-cp311-manylinux2014_x86_64.whl", "a-1-cp38-abi3-manylinux_2_28_x86_64.whl");
        better("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "a-1-cp311-cp311-manylinux2014_x86_64.whl");
        better("a-1-3-cp311-cp311-manylinux_2_28_x86_64.whl", "a-1-cp311-cp311-manylinux_2_28_x86_64.whl");
        better("a-1-cp38-abi3-manylinux_2_28_x86_64.whl", "a-1-py3-none-any.whl");
    }
}
