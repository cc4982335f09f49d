//! The METADATA file of a wheel (core metadata): the headers that a solve needs.

use std::sync::OnceLock;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, PackageName, Requirement, VerbatimUrl};

use super::requirement::{parse_published, parse_published_specifiers};
use super::solution::Edge;
use super::source::{MetadataFrom, SourceFacts};
use super::text::lines;

/// Maximum number of `Requires-Dist` lines; the longest lists on PyPI have some hundred.
const MAX_REQUIRES: usize = 20_000;

/// A METADATA file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    /// A required header is missing.
    #[error("the METADATA has no `{0}` header")]
    Missing(&'static str),
    /// The version does not parse.
    #[error("the METADATA version `{0}` is not a valid PEP 440 version")]
    Version(String),
    /// It has more dependencies than any package.
    #[error("the METADATA has more than {MAX_REQUIRES} dependencies")]
    TooMany,
    /// The name does not parse.
    #[error("the METADATA name `{0}` is not a valid package name")]
    Name(String),
}

/// Name, version and requirements of a wheel.
#[derive(Debug)]
pub struct CoreMetadata {
    /// The package's normalized name.
    pub name: PackageName,
    /// The version in the metadata (for PyPI's torch `2.9.1`, not `2.9.1+cu128`).
    pub version: Version,
    /// SHA-256 of the METADATA file, 64 hexadecimal digits.
    pub sha256: String,
    /// What is known of its build, for a source distribution.
    pub source: Option<SourceFacts>,
    /// `Requires-Python`, if it is stated and valid.
    pub requires_python: Option<VersionSpecifiers>,
    requires: Vec<RequiresDist>,
    /// `Provides-Extra`.
    extras: Vec<ExtraName>,
}

/// A requirement, and the text that was parsed where it had to be repaired.
type Parsed = (Requirement<VerbatimUrl>, Option<String>);

/// One `Requires-Dist` line, parsed on first use.
#[derive(Debug)]
pub struct RequiresDist {
    /// The line as written.
    pub text: String,
    mentions_extra: bool,
    /// Its marker is a conjunction with `extra == '...'`: it never applies without an extra. Such lines need not be parsed
    /// where no extra is asked for.
    needs_extra: bool,
    /// On the heap: most of the lines that a solve holds are never parsed.
    parsed: OnceLock<Result<Box<Parsed>, String>>,
}

impl RequiresDist {
    /// Whether its marker names an extra.
    fn names(&self, extra: &ExtraName) -> bool {
        let marker = self.text.split_once(';').map_or("", |(_, marker)| marker);
        let mut words = marker.split(['"', '\'']);
        self.mentions_extra && words.any(|word| word.parse::<ExtraName>().is_ok_and(|name| name == *extra))
    }

    /// The requirement with its text, repaired where that was necessary.
    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    fn parsed(&self) -> Result<(&Requirement<VerbatimUrl>, &str), String> {
        let parse =
            || parse_published(&self.text).map(Box::new).map_err(|_| super::text::clean(&self.text, 120));
        match self.parsed.get_or_init(parse) {
            Ok(parsed) => Ok((&parsed.0, parsed.1.as_deref().unwrap_or(&self.text))),
            Err(text) => Err(text.clone()),
        }
    }

    /// Whether it had to be repaired. `false` for a line that was never looked at.
    fn is_repaired(&self) -> bool {
        self.parsed.get().is_some_and(|parsed| parsed.as_ref().is_ok_and(|parsed| parsed.1.is_some()))
    }
}

impl CoreMetadata {
    /// Parses the headers; the description after them is ignored.
    ///
    /// # Errors
    /// If name or version is missing or invalid.
    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    pub fn parse(text: &str, sha256: String) -> Result<CoreMetadata, InvalidMetadata> {
        let mut name = None;
        let mut version = None;
        let mut requires: Vec<String> = Vec::new();
        let mut extras: Vec<ExtraName> = Vec::new();
        let mut requires_python = None;
        let mut in_requires = false;
        for line in lines(text.trim_start_matches('\u{feff}')) {
            if line.is_empty() {
                break;
            }
            if line.starts_with([' ', '\t']) {
                // Continuation line of a folded header.
                if in_requires && let Some(last) = requires.last_mut() {
                    last.push(' ');
                    last.push_str(line.trim());
                }
                continue;
            }
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            in_requires = key.eq_ignore_ascii_case("Requires-Dist");
            if in_requires {
                if requires.len() == MAX_REQUIRES {
                    return Err(InvalidMetadata::TooMany);
                }
                requires.push(value.to_owned());
            } else if key.eq_ignore_ascii_case("Provides-Extra") {
                extras.extend(value.parse::<ExtraName>());
            } else if key.eq_ignore_ascii_case("Requires-Python") {
                requires_python = parse_published_specifiers(value);
            } else if key.eq_ignore_ascii_case("Name") {
                name.get_or_insert(value);
            } else if key.eq_ignore_ascii_case("Version") {
                version.get_or_insert(value);
            }
        }
        let name = name.ok_or(InvalidMetadata::Missing("Name"))?;
        let version = version.ok_or(InvalidMetadata::Missing("Version"))?;
        requires.dedup();
        Ok(CoreMetadata {
            name: PackageName::new(name.to_owned())
                .map_err(|_| InvalidMetadata::Name(super::text::clean(name, 80)))?,
            version: version
                .parse()
                .map_err(|_| InvalidMetadata::Version(super::text::clean(version, 80)))?,
            sha256,
            source: None,
            requires_python,
            extras,
            requires: requires
                .into_iter()
                .map(|text| {
                    let marker = text.split_once(';').map_or("", |(_, marker)| marker);
                    // `str::contains` compares short texts window by window.
                    let has = |word: &str| memchr::memmem::find(marker.as_bytes(), word.as_bytes()).is_some();
                    let mentions_extra = has("extra");
                    let may_be_without = || has("!=") || has(" or ") || has(")or");
                    RequiresDist {
                        mentions_extra,
                        needs_extra: mentions_extra && !may_be_without(),
                        text,
                        parsed: OnceLock::new(),
                    }
                })
                .collect(),
        })
    }

    /// The extras of the release.
    pub fn extras(&self) -> impl Iterator<Item = &str> {
        self.extras.iter().map(AsRef::as_ref)
    }

    /// Whether the release has an extra, by `Provides-Extra` or by a requirement's marker (old tools did not write the
    /// header).
    pub fn has_extra(&self, extra: &ExtraName) -> bool {
        self.extras.contains(extra) || self.requires.iter().any(|line| line.names(extra))
    }

    /// The headers that [`CoreMetadata::parse`] reads, without the description. For the cache.
    pub fn headers(text: &str) -> &str {
        match text.find("\n\n").or_else(|| text.find("\r\n\r\n")) {
            Some(end) => &text[..end + 1],
            None => text,
        }
    }

    /// The requirements that apply in `environment` with the given extras, each with its text. A line that cannot be
    /// parsed is an error with its text.
    pub fn requirements<'a>(
        &'a self,
        environment: &'a MarkerEnvironment,
        extras: &'a [ExtraName],
    ) -> impl Iterator<Item = Result<(&'a Requirement<VerbatimUrl>, &'a str), String>> {
        self.requires
            .iter()
            // Most lines of a large package belong to extras that are not requested.
            .filter(move |line| !line.needs_extra || !extras.is_empty())
            .filter_map(move |line| match line.parsed() {
                Err(text) => Some(Err(text)),
                Ok((requirement, text)) => {
                    requirement.marker.evaluate(environment, extras).then_some(Ok((requirement, text)))
                }
            })
    }

    /// The numbers of the requirements that apply in all of these environments: with an extra, those that apply only with
    /// it.
    ///
    /// # Errors
    /// The text of a line that cannot be parsed.
    pub fn applying(
        &self,
        environments: &[&MarkerEnvironment],
        extra: Option<ExtraName>,
    ) -> Result<Vec<usize>, String> {
        let mut numbers = Vec::new();
        for (number, line) in self.requires.iter().enumerate() {
            // Most lines of a large package belong to extras that are not requested.
            if line.needs_extra && extra.is_none() {
                continue;
            }
            // A line that does not mention an extra applies without it too; one that needs another extra does not apply.
            if let Some(extra) = &extra
                && (!line.mentions_extra || line.needs_extra && !line.names(extra))
            {
                continue;
            }
            let marker = &match line.parsed() {
                Ok((requirement, _)) => requirement,
                // What an extra requires that nobody asked for cannot be wrong.
                Err(_) if line.mentions_extra && !extra.as_ref().is_some_and(|extra| line.names(extra)) => {
                    continue;
                }
                Err(text) => return Err(text),
            }
            .marker;
            if environments.iter().all(|e| marker.evaluate(e, extra.as_slice())) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    /// A requirement by its number, with its text; `None` for a line that cannot be parsed.
    pub fn requirement(&self, number: usize) -> Option<(&Requirement<VerbatimUrl>, &str)> {
        self.requires.get(number)?.parsed().ok()
    }

    /// The requirements on other packages that may depend on the patch release of Python, which the marker
    /// `python_full_version` names.
    pub fn by_patch(&self) -> impl Iterator<Item = &Requirement<VerbatimUrl>> {
        let lines = self.requires.iter().filter(|line| line.text.contains("python_full_version"));
        let requirements = lines.filter_map(|line| Some(line.parsed().ok()?.0));
        requirements.filter(|requirement| requirement.name != self.name)
    }

    /// The requirements on other packages, as a lock has them: sorted, without markers and lines that cannot be read.
    pub fn edges(&self, environment: &MarkerEnvironment, extras: &[ExtraName]) -> Vec<Edge> {
        let others = self.requirements(environment, extras).flatten().filter(|(r, _)| r.name != self.name);
        let mut edges: Vec<Edge> = others
            .map(|(requirement, text)| Edge {
                to: requirement.name.to_string(),
                requirement: text.split(';').next().unwrap_or(text).trim().to_owned(),
            })
            .collect();
        edges.sort();
        edges.dedup();
        edges
    }

    /// The same release with other requirements, as the user states them.
    pub fn with_requirements(&self, lines: &[String]) -> CoreMetadata {
        let headers: String = lines.iter().map(|line| format!("Requires-Dist: {line}\n")).collect();
        let text = format!("Name: {}\nVersion: {}\n{headers}", self.name, self.version);
        let stated = CoreMetadata::parse(&text, self.sha256.clone());
        let requires = stated.map(|stated| stated.requires).unwrap_or_default();
        let source = self.source.clone().map(|facts| SourceFacts {
            metadata_from: MetadataFrom::Manifest,
            unknown: None,
            ..facts
        });
        let (name, version) = (self.name.clone(), self.version.clone());
        let (extras, requires_python) = (self.extras.clone(), self.requires_python.clone());
        CoreMetadata { name, version, sha256: self.sha256.clone(), source, requires_python, requires, extras }
    }

    /// The same release with further requirements, which its METADATA lacks.
    pub fn with_more(&self, lines: &[String]) -> CoreMetadata {
        let all: Vec<String> = self.lines().map(str::to_owned).chain(lines.iter().cloned()).collect();
        CoreMetadata { source: self.source.clone(), ..self.with_requirements(&all) }
    }

    /// The first requirement, of those that were read, which is not written as the standard says.
    pub fn repaired(&self) -> Option<&str> {
        self.requires.iter().find(|line| line.is_repaired()).map(|line| line.text.as_str())
    }

    /// The `Requires-Dist` lines as written.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.requires.iter().map(|line| line.text.as_str())
    }
}

/// What a source tree states that it requires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceRequirements {
    /// The requirements, as `Requires-Dist` lines: those of extras have `extra == '...'` in their marker.
    pub lines: Vec<String>,
    /// Its extras.
    pub extras: Vec<String>,
    /// The Python that it requires.
    pub requires_python: Option<String>,
}

impl SourceRequirements {
    /// Adds the lines of an extra, under a key of `extras_require`: `extra`, `:marker` or `extra:marker`.
    pub fn add_extra(&mut self, key: &str, lines: &[String]) {
        let (extra, condition) = key.split_once(':').unwrap_or((key, ""));
        let of_extra = (!extra.is_empty()).then(|| format!("extra == '{extra}'"));
        let condition = (!condition.is_empty()).then(|| format!("({condition})"));
        for line in lines {
            let (line, own) = line.split_once(';').unwrap_or((line, ""));
            let own = (!own.trim().is_empty()).then(|| format!("({})", own.trim()));
            let parts: Vec<String> =
                [own, condition.clone(), of_extra.clone()].into_iter().flatten().collect();
            let marker = if parts.is_empty() { String::new() } else { format!("; {}", parts.join(" and ")) };
            self.lines.push(format!("{}{marker}", line.trim()));
        }
        self.extras.extend((!extra.is_empty()).then(|| extra.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::marker::marker_environment;
    use crate::model::platform::Platform;
    use crate::model::wheel::Python;

    const METADATA: &str = "Metadata-Version: 2.1\nName: Demo_Pkg\nVersion: 1.0\n\
        Requires-Dist: numpy (>=1.20)\nRequires-Dist: triton==3.5.1; platform_system == \"Linux\"\n\
        Requires-Dist: pytest; extra == \"test\"\nRequires-Dist: old; python_version < \"3.8\"\n\
        Requires-Dist: folded\n  >=1.0\n\nRequires-Dist: not-a-header\n";

    #[test]
    fn requirements_by_environment_and_extra() {
        let m = CoreMetadata::parse(METADATA, String::new()).unwrap();
        assert_eq!(m.name.to_string(), "demo-pkg");
        let names = |platform: &str, extras: &[&str]| -> Vec<String> {
            let environment = marker_environment(Python::new(11), platform.parse().unwrap());
            let extras: Vec<ExtraName> = extras.iter().map(|e| e.parse().unwrap()).collect();
            m.requirements(&environment, &extras).map(|r| r.unwrap().0.name.to_string()).collect()
        };
        assert_eq!(names("linux-x86_64", &[]), ["numpy", "triton", "folded"]);
        assert_eq!(names("windows-x86_64", &["test"]), ["numpy", "pytest", "folded"]);
    }

    #[test]
    fn a_marker_that_names_an_extra_may_hold_without_it() {
        let lines = [
            "a; os_name == 'posix' or extra == 'zz'",
            "b; extra == 'zz' or python_version < '3.13'",
            "c; extra != 'zz'",
            "d; (extra == 'zz' and os_name == 'nt') or os_name == 'posix'",
            "e; extra == 'zz'",
            "f; extra == 'other' and python_version > '3'",
            "g (>=1.*) ; extra == 'zz' and python_version != '3.0'",
            "h (>=one) ; extra == 'other'",
        ];
        let text =
            format!("Name: x\nVersion: 1\n{}", lines.map(|line| format!("Requires-Dist: {line}\n")).concat());
        let m = CoreMetadata::parse(&text, String::new()).unwrap();
        let environment = marker_environment(Python::new(11), Platform::LINUX_X86_64);
        let zz: ExtraName = "zz".parse().unwrap();
        assert_eq!(m.applying(&[&environment], None).unwrap(), [0, 1, 2, 3]);
        assert_eq!(m.applying(&[&environment], Some(zz.clone())).unwrap(), [0, 1, 3, 4, 6]);
        assert_eq!(m.requirement(6).unwrap().1, "g>=1 ; extra == 'zz' and python_version != '3.0'");
        assert_eq!(m.repaired(), Some("g (>=1.*) ; extra == 'zz' and python_version != '3.0'"));
        assert!(m.applying(&[&environment], "other".parse().ok()).is_err());
    }

    #[test]
    fn unreadable_metadata_is_an_error_and_no_panic() {
        for bad in ["", "Name: x", "Version: 1", "Name: x\nVersion: one", "Name: ???\nVersion: 1"] {
            assert!(CoreMetadata::parse(bad, String::new()).is_err(), "{bad:?}");
        }
        let m = CoreMetadata::parse("Name: x\nVersion: 1\nRequires-Dist: ???\n", String::new()).unwrap();
        let environment = marker_environment(Python::new(11), Platform::LINUX_X86_64);
        assert!(m.requirements(&environment, &[]).next().unwrap().is_err());
    }
}
