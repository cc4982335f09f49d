//! The user's request: requirements, limits on the stack, allowed indexes.

use std::collections::BTreeMap;

use pep440_rs::{Operator, Version, VersionSpecifiers};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use version_ranges::Ranges;

use super::conda::CondaRequest;
use super::cutoff::ExcludeNewer;
use super::direct::Direct;
use super::image_digest::ImageDigest;
use super::index_owner::{IndexOwner, local_of};
pub use super::limit::{Limit, Origin};
use super::only::Only;
use super::part::Part;
use super::requirement::parse_requirement;
use super::secrets::shown_requirement;
use super::text::clean;
use super::version::{DottedRange, InvalidVersion, SemverRange};
use super::wheel::Python;

/// The packages of which a release has a build for each CUDA version.
pub const STACK_PACKAGES: [&str; 3] = ["torch", "torchaudio", "torchvision"];

/// A request to solve, merged from command line, manifest and defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// Required packages, including stack packages.
    pub requirements: Vec<UserRequirement>,
    /// Constraints: version bounds that do not require the package.
    pub constraints: Vec<UserRequirement>,
    /// The allowed Python versions.
    pub python: Option<PythonRequest>,
    /// Limit on the CUDA version of the stack.
    pub cuda: Option<Limit<SemverRange>>,
    /// Limit on cuDNN.
    pub cudnn: Option<Limit<DottedRange>>,
    /// Limit on NCCL.
    pub nccl: Option<Limit<DottedRange>>,
    /// The pinned CUDA variant, `cu126` or `cpu`.
    pub variant: Option<Limit<String>>,
    /// If set, minor-version compatibility is not allowed.
    pub native_driver_only: Option<Limit<()>>,
    /// The only allowed indexes and channels.
    pub only_index: Option<Limit<Only>>,
    /// Whether all targets must have the same torch version: `true`, never for the others' sake: `false`; if near, without.
    pub same_torch: Option<bool>,
    /// The machines in the manifest, one canonical line each.
    pub targets: Vec<String>,
    /// The container images of targets, by the target's name.
    pub images: BTreeMap<String, ImageDigest>,
    /// GPUs to ignore, by product name or compute capability, such as a display GPU.
    pub ignored_gpus: Vec<String>,
    /// Indexes other than `pypi` and `pytorch` that own packages by name pattern.
    pub owners: Vec<IndexOwner>,
    /// If set, no package is taken from a source distribution.
    pub no_sources: Option<Limit<()>>,
    /// If set, the requirements of source distributions must be stated statically.
    pub strict_metadata: Option<Limit<()>>,
    /// Requirements of releases, stated by hand.
    pub metadata: Vec<StatedMetadata>,
    /// Until when files are candidates.
    pub exclude_newer: ExcludeNewer,
    /// What replaces the requirements of packages on these names.
    pub overrides: Vec<UserRequirement>,
    /// What is asked of conda channels.
    pub conda: CondaRequest,
    /// The folder that paths of direct references are relative to; the current folder if absent.
    pub folder: Option<std::path::PathBuf>,
}

/// `[[metadata]]`: what a release requires, stated by hand instead of read from its files.
#[derive(Debug, Clone, PartialEq)]
pub struct StatedMetadata {
    /// Normalized package name.
    pub name: String,
    /// The release; all if absent.
    pub version: Option<Version>,
    /// Its requirements, PEP 508.
    pub requires: Vec<String>,
}

impl StatedMetadata {
    /// Whether it is about a release.
    pub fn is_about(&self, name: &str, version: &Version) -> bool {
        self.name == name && self.version.as_ref().is_none_or(|stated| stated == version)
    }
}

/// A requirement and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct UserRequirement {
    /// The requirement.
    pub requirement: Requirement<VerbatimUrl>,
    /// Where it was written: `command line`, `envlock.toml`.
    pub origin: Origin,
    /// The extra or dependency group that it belongs to; none if it is always installed.
    pub part: Option<Part>,
}

/// The allowed Python versions.
#[derive(Debug, Clone, PartialEq)]
pub struct PythonRequest {
    /// Specifiers as in `Requires-Python`, or one exact series.
    pub allowed: PythonAllowed,
    /// As written.
    pub text: String,
    /// Where it was written.
    pub origin: Origin,
}

/// The two forms of a Python limit.
#[derive(Debug, Clone, PartialEq)]
pub enum PythonAllowed {
    /// `>=3.11,<3.14`.
    Range(VersionSpecifiers),
    /// `3.12` or `3.12.4`.
    Exact(Python),
}

/// An invalid requirement or limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// Not a valid PEP 508 requirement.
    #[error("`{text}` is not a valid requirement: {why}{}", meant.as_ref().map(|m| format!(" (did you mean `{m}`?)")).unwrap_or_default())]
    Requirement {
        /// As written.
        text: String,
        /// The parse error.
        why: String,
        /// The suggested requirement: `torch==2.8` for conda's `torch=2.8`.
        meant: Option<String>,
    },
    /// A direct reference that cannot be read, and why.
    #[error("`{0}` is not a direct reference that envlock reads: {1}")]
    Direct(String, String),
    /// Neither a Python series nor a specifier.
    #[error("`{0}` is not a valid Python series such as `3.11` or specifier such as `>=3.11,<3.14`")]
    Python(String),
    /// A version that does not parse.
    #[error(transparent)]
    Version(#[from] InvalidVersion),
    /// An unknown driver policy.
    #[error("`driver-policy` must be `minor` or `native`, not `{0}`")]
    DriverPolicy(String),
}

impl UserRequirement {
    /// A requirement that is always installed.
    pub fn new(requirement: Requirement<VerbatimUrl>, origin: Origin) -> UserRequirement {
        UserRequirement { requirement, origin, part: None }
    }

    /// Parses one requirement: PEP 508, with paths beside URLs after `@`, or a URL or repository alone, which is named
    /// after its file or folder.
    ///
    /// # Errors
    /// See [`InvalidRequest`].
    pub fn parse(text: &str, origin: Origin) -> Result<UserRequirement, InvalidRequest> {
        let text = text.trim();
        let text =
            text.strip_prefix("-e ").or_else(|| text.strip_prefix("--editable ")).unwrap_or(text).trim();
        let (standard, url) = match split_direct(text) {
            Some((name, reference, marker)) => named(text, name, reference, marker)?,
            None => (text.to_owned(), None),
        };
        let mut requirement: Requirement<VerbatimUrl> =
            parse_requirement(&standard).map_err(|error| InvalidRequest::Requirement {
                text: clean(&shown_requirement(text), 80),
                why: error.to_string(),
                meant: exact_was_meant(text),
            })?;
        if let Some(url) = url {
            requirement.version_or_url = Some(VersionOrUrl::Url(VerbatimUrl::from_url(url)));
        }
        Ok(UserRequirement::new(requirement, origin))
    }

    /// The package, by its normalized name.
    pub fn name(&self) -> &str {
        self.requirement.name.as_ref()
    }

    /// The direct reference, if it is one.
    pub fn direct(&self) -> Option<Direct> {
        match &self.requirement.version_or_url {
            Some(VersionOrUrl::Url(url)) => Direct::parse(url.as_str()).ok(),
            _ => None,
        }
    }

    /// The requirement as a line: PEP 508, without logins.
    pub fn line(&self) -> String {
        let Some(direct) = self.direct() else { return self.requirement.to_string() };
        let plain = Requirement { version_or_url: None, ..self.requirement.clone() }.to_string();
        let (name, marker) = plain.split_once(';').unwrap_or((&plain, ""));
        let marker = if marker.is_empty() { String::new() } else { format!(" ; {}", marker.trim()) };
        format!("{} @ {}{marker}", name.trim(), direct.url())
    }

    /// The same requirement as one of an extra or dependency group.
    pub fn of_part(self, part: Option<Part>) -> UserRequirement {
        UserRequirement { part, ..self }
    }

    /// Whether it has an upper bound or otherwise excludes newer releases.
    pub fn bounds_above(&self) -> bool {
        self.specifiers().is_some_and(bounds_above)
    }

    /// Whether its bounds exclude each other: `==2.8.0,==2.9.0`, as two lines of a file may. None of the versions that it names
    /// satisfies it, so a range that is open on both sides may count as one.
    pub fn is_contradiction(&self) -> bool {
        let Some(specifiers) = self.specifiers() else { return false };
        specifiers.len() > 1 && admits_none_named(specifiers)
    }

    /// Its version specifiers, if any.
    pub fn specifiers(&self) -> Option<&VersionSpecifiers> {
        match &self.requirement.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            _ => None,
        }
    }
}

/// The name with extras, the reference and the marker of a direct reference; `None` for other requirements.
fn split_direct(text: &str) -> Option<(Option<&str>, &str, &str)> {
    let (head, marker) = text.split_once(" ;").or_else(|| text.split_once("; ")).unwrap_or((text, ""));
    match head.split_once('@') {
        Some((name, reference)) if Direct::is_one(reference) && !name.contains(['/', ':']) => {
            Some((Some(name.trim()), reference.trim(), marker.trim()))
        }
        _ if Direct::is_one(head) => Some((None, head.trim(), marker.trim())),
        _ => None,
    }
}

/// A direct reference as a PEP 508 requirement without URL, and the URL, with its login: it is needed to fetch. A wheel of
/// a framework becomes its version, because its build is chosen.
#[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
fn named(
    text: &str,
    name: Option<&str>,
    reference: &str,
    marker: &str,
) -> Result<(String, Option<url::Url>), InvalidRequest> {
    let shown = super::direct::without_login(reference);
    let wrong = |why: &str| {
        InvalidRequest::Direct(
            clean(&shown_requirement(&text.replace(reference, &shown)), 80),
            why.to_owned(),
        )
    };
    let direct = Direct::parse(reference).map_err(|e| wrong(e.0))?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => direct.name(reference).ok_or_else(|| wrong("name the package: `NAME @ ./folder`"))?,
    };
    let marker = if marker.is_empty() { String::new() } else { format!(" ; {marker}") };
    let plain = name.split('[').next().unwrap_or(&name).trim();
    if let Direct::Archive { url, .. } = &direct
        && STACK_PACKAGES.contains(&plain)
        && let Some(version) = wheel_version(url)
    {
        return Ok((format!("{name}=={version}{marker}"), None));
    }
    let url = match &direct {
        Direct::Path(_) => direct.url(),
        _ => reference.to_owned(),
    };
    let url = url::Url::parse(&url).map_err(|_| wrong("its URL is not valid"))?;
    Ok((format!("{name}{marker}"), Some(url)))
}

/// The version in the file name of a wheel's URL.
fn wheel_version(url: &str) -> Option<Version> {
    let file = url.rsplit('/').next()?;
    let file = percent_encoding::percent_decode_str(file).decode_utf8_lossy();
    file.parse::<super::wheel::WheelName>().ok().map(|wheel| wheel.version)
}

/// Whether bounds admit none of the versions that they name. A range of versions has no `2.9.1+cu128` for `==2.9.1`, which
/// admits it.
fn admits_none_named(bounds: &VersionSpecifiers) -> bool {
    !bounds.iter().any(|bound| bounds.contains(bound.version()))
}

/// Whether any specifier excludes newer releases.
fn bounds_above(specifiers: &VersionSpecifiers) -> bool {
    let opens = |operator: &Operator| matches!(operator, Operator::GreaterThan | Operator::GreaterThanEqual);
    specifiers.iter().any(|specifier| !opens(specifier.operator()))
}

/// The PEP 508 form of `torch=2.8` (conda's syntax) or `torch 2.8`.
fn exact_was_meant(text: &str) -> Option<String> {
    let (name, version) = text.split_once(['=', ' '])?;
    let meant = format!("{}=={}", name.trim(), version.trim());
    parse_requirement(&meant).ok().map(|_| clean(&meant, 80))
}

impl Request {
    /// The Python series that it allows, of those that are known or the one that it names.
    pub fn pythons(&self, known: &[u32]) -> Vec<Python> {
        let known = known.iter().map(|minor| Python::new(*minor));
        match self.python.as_ref().map(|python| &python.allowed) {
            None => known.collect(),
            Some(PythonAllowed::Exact(python)) => vec![*python],
            Some(PythonAllowed::Range(range)) => {
                known.filter(|python| super::project::specifiers_allow(range, *python)).collect()
            }
        }
    }
}

impl PythonRequest {
    /// One series, or one release of it.
    pub fn exactly(python: Python, origin: Origin) -> PythonRequest {
        PythonRequest { allowed: PythonAllowed::Exact(python), text: python.to_string(), origin }
    }

    /// Whether it allows a Python.
    pub fn allows(&self, python: Python) -> bool {
        match &self.allowed {
            PythonAllowed::Exact(exact) => {
                exact.minor == python.minor && (exact.patch.is_none() || exact.patch == python.patch)
            }
            PythonAllowed::Range(range) => super::project::specifiers_allow(range, python),
        }
    }

    /// Whether it excludes newer series.
    pub fn bounds_above(&self) -> bool {
        match &self.allowed {
            PythonAllowed::Exact(_) => true,
            PythonAllowed::Range(range) => bounds_above(range),
        }
    }

    /// Parses `>=3.11,<3.14`, or one series `3.12`.
    ///
    /// # Errors
    /// See [`InvalidRequest`].
    #[expect(clippy::map_err_ignore, reason = "the error type states the literal and what is expected")]
    pub fn parse(text: &str, origin: Origin) -> Result<PythonRequest, InvalidRequest> {
        let text = text.trim();
        let is_series = text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains('*');
        let allowed = match is_series {
            true => PythonAllowed::Exact(text.parse::<Python>()?),
            false => PythonAllowed::Range(text.parse().map_err(|_| InvalidRequest::Python(clean(text, 60)))?),
        };
        Ok(PythonRequest { allowed, text: text.to_owned(), origin })
    }
}

impl Request {
    /// Whether packages outside the stack are required.
    pub fn has_others(&self) -> bool {
        self.requirements.iter().any(|user| !STACK_PACKAGES.contains(&user.name()))
    }

    /// The request as one of its targets sees it: where the stack comes from may be the target's own.
    pub fn of_target(&self, name: &str) -> Request {
        let mut out = self.clone();
        if let Some(own) = self.conda.stack_of_targets.get(name) {
            out.conda.stack = own.clone();
        }
        out
    }

    /// What is left for PyPI's half of a request with conda packages. The channels are only named, by messages.
    pub fn of_indexes(&self) -> Request {
        let only_index = self.only_index.as_ref().and_then(|limit| {
            let value = limit.value.without(&self.conda.channels)?;
            Some(Limit { value, origin: limit.origin.clone() })
        });
        let conda = CondaRequest { channels: self.conda.channels.clone(), ..CondaRequest::default() };
        Request { conda, only_index, ..self.clone() }
    }

    /// Whether any target takes the stack from conda channels.
    pub fn has_stack_of_conda(&self) -> bool {
        self.conda.stack.is_some() || self.conda.stack_of_targets.values().any(Option::is_some)
    }

    /// The request without these packages.
    #[must_use]
    pub fn without(&self, packages: &[&str]) -> Request {
        let mut out = self.clone();
        out.requirements.retain(|user| !packages.contains(&user.name()));
        out
    }

    /// The bounds of all requirements on a package, and of the constraints that hold everywhere; `None` without a requirement, and
    /// where one names a file.
    pub fn bounds_on(&self, package: &str) -> Option<VersionSpecifiers> {
        let all: Vec<_> = self.requirements.iter().filter(|user| user.name() == package).collect();
        let is_file =
            |user: &&UserRequirement| matches!(user.requirement.version_or_url, Some(VersionOrUrl::Url(_)));
        if all.is_empty() || all.iter().any(is_file) {
            return None;
        }
        let of_package =
            |user: &&UserRequirement| user.name() == package && user.requirement.marker.is_true();
        Some(
            all.into_iter()
                .chain(self.constraints.iter().filter(of_package))
                .filter_map(|user| user.specifiers())
                .flat_map(|bounds| bounds.iter().cloned())
                .collect(),
        )
    }

    /// The constraints on a package that hold everywhere, where together they admit no version at all.
    pub fn contradiction_on(&self, package: &str) -> Option<Vec<&UserRequirement>> {
        let of_package =
            |user: &&UserRequirement| user.name() == package && user.requirement.marker.is_true();
        let all: Vec<_> = self.constraints.iter().filter(of_package).collect();
        let bounds: VersionSpecifiers =
            all.iter().filter_map(|user| user.specifiers()).flat_map(|own| own.iter().cloned()).collect();
        let admitted = Ranges::<Version>::from(bounds.clone());
        (admitted.is_empty() && admits_none_named(&bounds)).then_some(all)
    }

    /// The variant that is pinned for torch or one of its companions: by an option, or by a local version (`==2.9.0+cu129`).
    pub fn pinned_variant(&self, package: &str) -> Option<String> {
        let of_option = self.variant.as_ref().map(|limit| limit.value.clone());
        of_option.or_else(|| {
            let bounds = self.bounds_on(package)?;
            let pins = |operator: &Operator| matches!(operator, Operator::Equal | Operator::ExactEqual);
            let mut pinned = bounds.iter().filter(|bound| pins(bound.operator()));
            pinned.find(|bound| bound.version().is_local()).map(|bound| local_of(bound.version()))
        })
    }

    /// The requirement on `package`, if there is one.
    pub fn find(&self, package: &str) -> Option<&UserRequirement> {
        self.requirements.iter().find(|r| r.name() == package)
    }
}

/// The versions in an earlier lock, which are preferred while they are compatible.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preferences {
    /// Versions by package name.
    pub versions: std::collections::BTreeMap<String, Version>,
    /// Commits of repositories by package name.
    pub commits: std::collections::BTreeMap<String, String>,
    /// Versions of build requirements by package name.
    pub builds: std::collections::BTreeMap<String, Version>,
    /// The Python series.
    pub python: Option<Python>,
    /// The Python series (3.N) that are installed on the machine, where it is this one: of those that are as good, one of
    /// them is taken.
    pub installed: std::collections::BTreeSet<u32>,
    /// The variant of the stack.
    pub variant: Option<String>,
    /// The files of conda packages.
    pub conda: std::collections::BTreeSet<String>,
}

impl Preferences {
    /// The preferences for a solve of build requirements.
    pub fn for_builds(&self) -> Preferences {
        Preferences { versions: self.builds.clone(), ..Preferences::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constraints that exclude each other, and pairs that only look so.
    #[test]
    fn contradictions() {
        for (bounds, expected) in [
            (&["a<1.20", "a>=1.24"][..], true),
            (&["a<2,>=2"], true),
            (&["a==1.0", "a!=1.0"], true),
            (&["a>=2.0rc1", "a<2.0"], true),
            (&["a==2.9.1", "a==2.9.1+cu128"], false),
            (&["a<=2.9.1", "a==2.9.1+cu128"], false),
            (&["a>=1", "a<2"], false),
            (&["a==1.*", "a>=1.9"], false),
            (&["a<1; python_version < '3.9'", "a>=1"], false),
            (&["b<1", "a>=1"], false),
            (&[], false),
        ] {
            let constraints =
                bounds.iter().map(|text| UserRequirement::parse(text, Origin::Question).unwrap());
            let request = Request { constraints: constraints.collect(), ..Request::default() };
            assert_eq!(request.contradiction_on("a").is_some(), expected, "{bounds:?}");
        }
    }
}
