//! Dotted versions of drivers, cuDNN and libc, and three-part CUDA versions.
//!
//! Python packages use PEP 440 ([`pep440_rs::Version`]). CUDA toolkits use semantic versions
//! ([`semver::Version`]). Drivers (`535.104.05`) and cuDNN (`8.9.2.26`) use neither and are [`DottedVersion`]s.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A version that does not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}")]
pub struct InvalidVersion {
    /// The invalid text.
    pub text: String,
    /// The expected format, for the message.
    pub kind: &'static str,
}

/// A version of dot-separated numbers, compared number by number; the text is kept as written.
///
/// Used for drivers (`535.129.03`), cuDNN (`9.10.2.21`) and libc (`2.35`). A missing part counts as zero, and leading
/// zeros are ignored: `450.80.02` equals `450.80.2`.
///
/// ```
/// use envlock::model::version::DottedVersion;
/// let floor: DottedVersion = "525.60.13".parse().unwrap();
/// let driver: DottedVersion = "535.104.05".parse().unwrap();
/// assert!(driver >= floor);
/// assert_eq!(driver.to_string(), "535.104.05");
/// ```
#[derive(Debug, Clone)]
pub struct DottedVersion {
    parts: Vec<u32>,
    text: String,
}

impl DottedVersion {
    fn of(parts: Vec<u32>) -> DottedVersion {
        let numbers: Vec<String> = parts.iter().map(ToString::to_string).collect();
        DottedVersion { parts, text: numbers.join(".") }
    }

    /// The first number: a driver's branch (`535`), cuDNN's major.
    pub fn major(&self) -> u32 {
        self.parts[0]
    }

    /// The second number, zero when there is none.
    pub fn minor(&self) -> u32 {
        self.parts.get(1).copied().unwrap_or(0)
    }

    /// Whether it is not older than `major.minor`.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        (self.major(), self.minor()) >= (major, minor)
    }

    /// The version as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The version of a Python package's release: NVIDIA's wheels have the versions of their libraries.
    ///
    /// ```
    /// use envlock::model::version::DottedVersion;
    /// let package: pep440_rs::Version = "9.10.2.21".parse().unwrap();
    /// assert_eq!(DottedVersion::of_release(&package).unwrap().as_str(), "9.10.2.21");
    /// ```
    pub fn of_release(version: &pep440_rs::Version) -> Option<DottedVersion> {
        let numbers: Vec<String> = version.release().iter().map(ToString::to_string).collect();
        numbers.join(".").parse().ok()
    }

    /// Whether the leading numbers of `self` are those of `prefix` (`9.10.2.21` starts with `9.10`).
    pub fn starts_with(&self, prefix: &DottedVersion) -> bool {
        prefix.parts.iter().enumerate().all(|(i, p)| self.parts.get(i).copied().unwrap_or(0) == *p)
    }
}

impl FromStr for DottedVersion {
    type Err = InvalidVersion;

    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion {
            text: crate::model::text::clean(text, 60),
            kind: "version of dot-separated numbers",
        };
        let text = text.trim();
        let mut parts = Vec::new();
        for part in text.split('.') {
            if part.is_empty() || part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(invalid());
            }
            parts.push(part.parse().map_err(|_| invalid())?);
        }
        if parts.len() > 6 {
            return Err(invalid());
        }
        Ok(DottedVersion { parts, text: text.to_owned() })
    }
}

impl Ord for DottedVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let length = self.parts.len().max(other.parts.len());
        (0..length)
            .map(|i| {
                let at = |v: &DottedVersion| v.parts.get(i).copied().unwrap_or(0);
                at(self).cmp(&at(other))
            })
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for DottedVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for DottedVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for DottedVersion {}

impl fmt::Display for DottedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for DottedVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for DottedVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The public version of a Python package: without the local version.
pub fn public(version: &pep440_rs::Version) -> pep440_rs::Version {
    version.clone().without_local()
}

/// The minor line of a version: `[2, 9]` of 2.9.1.
pub fn minor_line(version: &pep440_rs::Version) -> Vec<u64> {
    version.release().iter().take(2).copied().collect()
}

/// A three-part CUDA version; `12.8` is read as `12.8.0`.
///
/// ```
/// use envlock::model::version::cuda_version;
/// assert_eq!(cuda_version("12.8").unwrap().to_string(), "12.8.0");
/// assert!(cuda_version("12.8.1.2").is_err());
/// ```
#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
pub fn cuda_version(text: &str) -> Result<semver::Version, InvalidVersion> {
    let invalid =
        || InvalidVersion { text: crate::model::text::clean(text, 60), kind: "CUDA version such as `12.8`" };
    let dotted: DottedVersion = text.parse().map_err(|_| invalid())?;
    if dotted.parts.len() > 3 {
        return Err(invalid());
    }
    let part = |i: usize| u64::from(dotted.parts.get(i).copied().unwrap_or(0));
    Ok(semver::Version::new(part(0), part(1), part(2)))
}

/// A CUDA version for messages: `12.8`, or `12.8.1` if the patch is not zero.
pub fn cuda_short(version: &semver::Version) -> String {
    if version.patch == 0 { format!("{}.{}", version.major, version.minor) } else { version.to_string() }
}

/// A range of three-part versions (CUDA, NCCL): comparison operators joined by commas; a bare
/// `12.6` means `12.6.*`, a bare `13` means `13.*`.
///
/// ```
/// use envlock::model::version::{cuda_version, SemverRange};
/// let range: SemverRange = ">=12.6,<13".parse().unwrap();
/// assert!(range.contains(&cuda_version("12.8").unwrap()));
/// let bare: SemverRange = "12.6".parse().unwrap();
/// assert!(!bare.contains(&cuda_version("12.8").unwrap()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemverRange {
    range: semver::VersionReq,
    text: String,
}

impl SemverRange {
    /// Whether `version` is in the range.
    pub fn contains(&self, version: &semver::Version) -> bool {
        self.range.matches(version)
    }

    /// Whether it excludes versions that are newer than some.
    pub fn bounds_above(&self) -> bool {
        let opens = |op: semver::Op| matches!(op, semver::Op::Greater | semver::Op::GreaterEq);
        self.range.comparators.iter().any(|comparator| !opens(comparator.op))
    }
}

impl FromStr for SemverRange {
    type Err = InvalidVersion;

    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion {
            text: crate::model::text::clean(text, 60),
            kind: "version range such as `>=12.6,<13`",
        };
        let parts: Vec<String> = text
            .split(',')
            .map(str::trim)
            .filter(|p| !p.is_empty() && *p != "*")
            .map(|p| {
                let p = p.strip_prefix("==").map_or(p, |rest| rest.trim());
                if p.starts_with(|c: char| c.is_ascii_digit()) {
                    format!("={}", p.trim_end_matches(".*"))
                } else {
                    p.to_owned()
                }
            })
            .collect();
        if parts.iter().any(|p| p.starts_with('^') || p.starts_with('~') || p.starts_with("!=")) {
            return Err(invalid());
        }
        let range = if parts.is_empty() {
            semver::VersionReq::STAR
        } else {
            semver::VersionReq::parse(&parts.join(", ")).map_err(|_| invalid())?
        };
        Ok(SemverRange { range, text: text.trim().to_owned() })
    }
}

impl fmt::Display for SemverRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A range of [`DottedVersion`]s: comparison operators joined by commas; a bare `9.10` means
/// `9.10.*`.
///
/// ```
/// use envlock::model::version::DottedRange;
/// let range: DottedRange = ">=9.1,<9.11".parse().unwrap();
/// assert!(range.contains(&"9.10.2.21".parse().unwrap()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DottedRange {
    bounds: Vec<(Comparison, DottedVersion)>,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Prefix,
    NotPrefix,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl DottedRange {
    /// Whether it excludes versions that are newer than some.
    pub fn bounds_above(&self) -> bool {
        let opens = |c: &Comparison| matches!(c, Comparison::Greater | Comparison::GreaterEqual);
        self.bounds.iter().any(|(comparison, _)| !opens(comparison))
    }

    /// A version of the range that is newer than `newest`, if there may be one.
    ///
    /// ```
    /// use envlock::model::version::DottedRange;
    /// let newest = "9.28.1".parse().unwrap();
    /// let above = |range: &str| {
    ///     let range: DottedRange = range.parse().unwrap();
    ///     range.one_above(Some(&newest)).map(|version| version.to_string())
    /// };
    /// assert_eq!(above(">=9.1").as_deref(), Some("9.28.2"));
    /// assert_eq!(above("9").as_deref(), Some("9.28.2"));
    /// assert_eq!(above("==9.99").as_deref(), Some("9.99"));
    /// assert_eq!(above(">10.0,<11").as_deref(), Some("10.1"));
    /// assert_eq!(above("<9.20"), None);
    /// assert_eq!(above("8.9"), None);
    /// ```
    pub fn one_above(&self, newest: Option<&DottedVersion>) -> Option<DottedVersion> {
        let ends = newest.into_iter().chain(self.bounds.iter().map(|(_, bound)| bound));
        let mut open = ends.flat_map(|end| {
            let nexts = (0..end.parts.len()).rev().map(|at| {
                let mut parts = end.parts[..=at].to_vec();
                parts[at] = parts[at].saturating_add(1);
                DottedVersion::of(parts)
            });
            let patch = DottedVersion::of(end.parts.iter().copied().chain([1]).collect());
            nexts.chain([end.clone(), patch]).collect::<Vec<_>>()
        });
        let is_newer = |version: &DottedVersion| newest.is_none_or(|newest| version > newest);
        open.find(|version| is_newer(version) && self.contains(version))
    }

    /// Whether `version` is in the range.
    pub fn contains(&self, version: &DottedVersion) -> bool {
        self.bounds.iter().all(|(comparison, bound)| match comparison {
            Comparison::Prefix => version.starts_with(bound),
            Comparison::NotPrefix => !version.starts_with(bound),
            Comparison::Less => version < bound,
            Comparison::LessEqual => version <= bound || version.starts_with(bound),
            Comparison::Greater => version > bound && !version.starts_with(bound),
            Comparison::GreaterEqual => version >= bound,
        })
    }
}

impl FromStr for DottedRange {
    type Err = InvalidVersion;

    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bounds = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty() && *p != "*") {
            let (comparison, rest) = if let Some(rest) = part.strip_prefix(">=") {
                (Comparison::GreaterEqual, rest)
            } else if let Some(rest) = part.strip_prefix("<=") {
                (Comparison::LessEqual, rest)
            } else if let Some(rest) = part.strip_prefix("==") {
                (Comparison::Prefix, rest)
            } else if let Some(rest) = part.strip_prefix("!=") {
                (Comparison::NotPrefix, rest)
            } else if let Some(rest) = part.strip_prefix('>') {
                (Comparison::Greater, rest)
            } else if let Some(rest) = part.strip_prefix('<') {
                (Comparison::Less, rest)
            } else {
                (Comparison::Prefix, part)
            };
            let version = rest.trim().trim_end_matches(".*").parse().map_err(|_| InvalidVersion {
                text: crate::model::text::clean(text, 60),
                kind: "version range such as `>=9.1`",
            })?;
            bounds.push((comparison, version));
        }
        Ok(DottedRange { bounds, text: text.trim().to_owned() })
    }
}

impl fmt::Display for DottedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Decodes `cudnnGetVersion`: `1000 * major + 100 * minor + patch` up to cuDNN 8, `10000 * major + 100 * minor + patch`
/// from 9 on (cuDNN 9.0 release notes). `8907` is 8.9.7, `91002` is 9.10.2.
pub fn cudnn_of_integer(number: u32) -> Option<String> {
    let (major, rest) = match number {
        4_000..9_000 => (number / 1_000, number % 1_000),
        90_000..1_000_000 => (number / 10_000, number % 10_000),
        _ => return None,
    };
    Some(format!("{major}.{}.{}", rest / 100, rest % 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dotted(text: &str) -> DottedVersion {
        text.parse().unwrap()
    }

    #[test]
    fn drivers_compare_number_by_number() {
        assert!(dotted("450.80.02") < dotted("450.119.03"));
        assert_eq!(dotted("450.80.02"), dotted("450.80.2"));
        assert!(dotted("580.65.06") > dotted("580"));
        for bad in ["", "535.", "v535", "535.a", "1.2.3.4.5.6.7", "99999999999"] {
            assert!(bad.parse::<DottedVersion>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges() {
        let table = [
            (">=12.6", "12.8", true),
            ("12.6", "12.6.3", true),
            ("12.6", "12.8", false),
            ("13", "13.2", true),
            ("==12.6.*", "12.6.1", true),
            ("*", "9.0", true),
            (">=12.6,<12.8", "12.8", false),
        ];
        for (range, version, expected) in table {
            let range: SemverRange = range.parse().unwrap();
            assert_eq!(range.contains(&cuda_version(version).unwrap()), expected, "{range} {version}");
        }
        for bad in ["~12", "^12", "!=12.1", "twelve"] {
            assert!(bad.parse::<SemverRange>().is_err(), "{bad}");
        }
        let table = [
            (">=9.1", "9.10.2.21", true),
            ("9.10", "9.10.2.21", true),
            ("9.1", "9.10.2.21", false),
            ("<=9.10", "9.10.2.21", true),
            (">9.10", "9.10.2.21", false),
            ("!=9.10.2", "9.10.2.21", false),
        ];
        for (range, version, expected) in table {
            let range: DottedRange = range.parse().unwrap();
            assert_eq!(range.contains(&dotted(version)), expected, "{range} {version}");
        }
    }
}
