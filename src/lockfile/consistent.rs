//! Whether a lock's content answers its request: every request is met, every requirement between packages is met, every
//! package is needed by a request, and each comes from an index that may have it.
//!
//! The checksum of a lock shows accidents. Whoever forges a lock computes it too, so the content is held against the
//! manifest, without any network.

mod stack;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Component, Path};

use pep440_rs::Version;
use pep508_rs::{MarkerEnvironment, Requirement, VerbatimUrl, VersionOrUrl};

use super::Target;
use crate::compatibility::with_machine_specs;
use crate::model::conda::{name_of_spec, specs_of};
use crate::model::direct::{Direct, may_be_commit, shown_repository, without_login};
use crate::model::image_digest::ImageDigest;
use crate::model::index_owner::owner;
use crate::model::level::Level;
use crate::model::marker::marker_environment;
use crate::model::part::Part;
use crate::model::request::{Request, STACK_PACKAGES, UserRequirement};
use crate::model::requirement::parse_requirement;
use crate::model::solution::{ChosenPackage, Envelope};
use crate::model::source::{CondaPackage, MetadataFrom, Source};
use crate::model::version::DottedVersion;
use crate::model::wheel::{Python, WheelName};
use crate::registry::Registry;
use crate::registry::conda_builds::PYTORCH;

/// What does not fit in a lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A request or constraint that the locked package does not meet.
    #[error("the request has `{request}`, but the lock has {}", locked.as_deref().unwrap_or("no such package"))]
    Unmet {
        /// The line of the request.
        request: String,
        /// The locked package, `numpy 2.3.5`.
        locked: Option<String>,
    },
    /// A requirement of a locked package that is not met.
    #[error("{package} requires `{requirement}`, but the lock has {}", locked.as_deref().unwrap_or("no such package"))]
    Broken {
        /// The package, `torch 2.9.1`.
        package: String,
        /// Its requirement.
        requirement: String,
        /// The locked package.
        locked: Option<String>,
    },
    /// A package that no request needs.
    #[error("the lock has {0}, which no request needs")]
    Unneeded(String),
    /// A package that the lock counts to other extras and groups than those that need it.
    #[error("the lock has {package} for {stated}, which does not need it")]
    OtherPart {
        /// The package.
        package: String,
        /// `extra gpu`, or `every installation`.
        stated: String,
    },
    /// A package of an index, address, repository or folder that the request does not allow for it.
    #[error("{package} is locked from `{source_}`, but the request takes it from {expected}")]
    WrongSource {
        /// The package.
        package: String,
        /// Where the lock takes it from.
        source_: String,
        /// Where the request takes it from.
        expected: String,
    },
    /// A package without a file that the target can install.
    #[error("{package} has no file for Python {python} on {platform}")]
    NoFile {
        /// The package.
        package: String,
        /// The target's Python.
        python: Python,
        /// The target's platform.
        platform: String,
    },
    /// The targets of the lock are not those of the request.
    #[error("the request has the targets {described}, but the lock has {locked}")]
    OtherTargets {
        /// The targets of the request.
        described: String,
        /// The targets of the lock.
        locked: String,
    },
    /// A package that the lock builds from source, which it may not.
    #[error("{package} is locked from source: {why}")]
    Source {
        /// The package.
        package: String,
        /// Why it may not.
        why: String,
    },
    /// A limit on the stack that the locked build does not meet.
    #[error("the request has `{limit}`, but the lock has {locked}")]
    Limit {
        /// The limit: `cuda >=12.6`.
        limit: String,
        /// What the lock has.
        locked: String,
    },
    /// Another container image than the manifest's.
    #[error("the target is for the image {locked}, but the request has {asked}")]
    OtherImage {
        /// What the lock has.
        locked: String,
        /// What the request has.
        asked: String,
    },
    /// The stack of a target is not that of its packages.
    #[error("the lock's stack says {stated}, but its package is {locked}")]
    OtherStack {
        /// What the stack says.
        stated: String,
        /// The package.
        locked: String,
    },
    /// What the lock says of a framework's build is not what the registry knows of it.
    #[error("the lock has {stated}, but the registry has {known}")]
    OtherBuild {
        /// What the lock says: `cuDNN 8.0.1 for torch 2.9.1+cu128`.
        stated: String,
        /// What the registry says.
        known: String,
    },
    /// The packages need more of a machine than the lock says.
    #[error("the lock says that it runs on {stated}, but its packages need {needed}")]
    OtherEnvelope {
        /// `glibc >= 2.17`.
        stated: String,
        /// `glibc >= 2.28`.
        needed: String,
    },
    /// The request does not allow the Python of a target.
    #[error("the lock is for Python {locked}, which the request `{allowed}` does not allow")]
    OtherPython {
        /// The target's Python.
        locked: Python,
        /// The request's limit.
        allowed: String,
    },
}

impl Inconsistency {
    /// Whether it is so by what the registry says of builds: another registry may say something else.
    pub(super) fn is_by_registry(&self) -> bool {
        matches!(self, Inconsistency::OtherBuild { .. } | Inconsistency::OtherEnvelope { .. })
    }
}

/// What does not fit in a target. A lock of the stack alone has no closure to check.
pub(super) fn inconsistencies(target: &Target, request: &Request, registry: &Registry) -> Vec<Inconsistency> {
    let mut out = Vec::new();
    let request = &request.of_target(&target.name);
    if let Some(python) = request.python.as_ref().filter(|python| !python.allows(target.python)) {
        out.push(Inconsistency::OtherPython { locked: target.python, allowed: python.text.clone() });
    }
    let asked = request.images.get(&target.name);
    if asked != target.image.as_ref() {
        let shown =
            |image: Option<&ImageDigest>| image.map_or_else(|| "none".to_owned(), ToString::to_string);
        out.push(Inconsistency::OtherImage { locked: shown(target.image.as_ref()), asked: shown(asked) });
    }
    let environment = marker_environment(target.python, target.platform);
    let of_conda = target.provided_by_conda();
    let checked = Checked { target, request, registry, environment, of_conda };
    checked.requests(&mut out);
    checked.limits(&mut out);
    if target.level == Level::Full {
        checked.edges(&mut out);
        checked.needed(&mut out);
        checked.sources(&mut out);
        checked.stack(&mut out);
        checked.machine_of_pypi(&mut out);
    }
    out
}

struct Checked<'a> {
    target: &'a Target,
    request: &'a Request,
    registry: &'a Registry,
    environment: MarkerEnvironment,
    /// What conda installs, by the names of PyPI.
    of_conda: BTreeMap<String, &'a CondaPackage>,
}

impl Checked<'_> {
    fn applies(&self, user: &UserRequirement) -> bool {
        user.requirement.marker.evaluate(&self.environment, &[])
    }

    /// The user's override of a package's requirements, which replaces them.
    fn replaced(&self, name: &str) -> Option<&UserRequirement> {
        self.request.overrides.iter().find(|user| user.name() == name)
    }

    /// Whether an override takes all requirements of a package away: its marker is false.
    fn is_taken_away(&self, name: &str) -> bool {
        self.replaced(name).is_some_and(|user| !self.applies(user))
    }

    /// Whether the locked version of a package meets a requirement.
    fn meets(&self, requirement: &Requirement<VerbatimUrl>, package: &ChosenPackage) -> bool {
        let replaced = self.replaced(requirement.name.as_ref()).map(|user| &user.requirement);
        let Some(VersionOrUrl::VersionSpecifier(specifiers)) =
            &replaced.unwrap_or(requirement).version_or_url
        else {
            return true;
        };
        // A build of PyPI does not say its variant in its version.
        let is_of_stack = STACK_PACKAGES.contains(&package.name.as_str());
        let with_variant = match is_of_stack {
            true => package.version_with_variant().parse(),
            false => Ok(package.version.clone()),
        };
        specifiers.contains(&package.version)
            || with_variant.is_ok_and(|version| specifiers.contains(&version))
    }

    fn requests(&self, out: &mut Vec<Inconsistency>) {
        for user in self.request.requirements.iter().filter(|user| self.applies(user)) {
            let locked = self.target.package(user.name());
            let is_absent = locked.is_none();
            if is_absent && (self.target.level == Level::Stack || self.is_taken_away(user.name())) {
                continue;
            }
            let name = user.name();
            if let (true, Some(conda)) = (is_absent, self.of_conda.get(name))
                && self.is_met_by_conda(&user.requirement, conda)
            {
                continue;
            }
            if !locked.is_some_and(|package| self.meets(&user.requirement, package)) {
                out.push(Inconsistency::Unmet { request: user.line(), locked: locked.map(shown) });
            }
        }
        for user in self.request.constraints.iter().filter(|user| self.applies(user)) {
            let Some(package) = self.target.package(user.name()) else { continue };
            let is_met = match &user.requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.contains(&package.version),
                _ => true,
            };
            if !is_met {
                out.push(Inconsistency::Unmet { request: user.line(), locked: Some(shown(package)) });
            }
        }
    }

    fn edges(&self, out: &mut Vec<Inconsistency>) {
        for package in &self.target.packages {
            for edge in package.requires.iter().filter(|edge| !self.is_taken_away(&edge.to)) {
                if let Some(conda) = self.of_conda.get(&edge.to) {
                    let requirement = parse_requirement(&edge.requirement);
                    if !requirement.is_ok_and(|requirement| self.is_met_by_conda(&requirement, conda)) {
                        out.push(Inconsistency::Broken {
                            package: shown(package),
                            requirement: edge.requirement.clone(),
                            locked: Some(format!("conda's {} {}", conda.name, conda.version)),
                        });
                    }
                    continue;
                }
                let locked = self.target.package(&edge.to);
                let requirement = parse_requirement(&edge.requirement);
                let is_met = match (&requirement, locked) {
                    (Ok(requirement), Some(locked)) => self.meets(requirement, locked),
                    _ => false,
                };
                if !is_met {
                    out.push(Inconsistency::Broken {
                        package: shown(package),
                        requirement: edge.requirement.clone(),
                        locked: locked.map(shown),
                    });
                }
            }
        }
    }

    fn needed(&self, out: &mut Vec<Inconsistency>) {
        let applicable = self.request.requirements.iter().filter(|user| self.applies(user));
        let names = applicable.map(|user| user.name());
        let unneeded = unneeded(self.target, names);
        out.extend(unneeded.into_iter().map(|package| Inconsistency::Unneeded(shown(package))));
        self.parts(out);
        self.conda(out);
        let absent = self.target.frameworks.iter().filter(|f| self.target.package(&f.package).is_none());
        out.extend(absent.map(|f| Inconsistency::Unneeded(format!("{} {}", f.package, f.version))));
    }

    /// Whether a package of conda is what a requirement asks for. conda's versions that are none of Python's are not compared.
    fn is_met_by_conda(&self, requirement: &Requirement<VerbatimUrl>, package: &CondaPackage) -> bool {
        let replaced = self.replaced(requirement.name.as_ref()).map(|user| &user.requirement);
        match (&replaced.unwrap_or(requirement).version_or_url, package.version.parse::<Version>()) {
            (Some(VersionOrUrl::VersionSpecifier(specifiers)), Ok(version)) => {
                // conda's builds do not say their variant in their version.
                let variant = self.target.stack.as_ref().filter(|_| package.name == PYTORCH);
                let with_variant =
                    variant.and_then(|stack| format!("{version}+{}", stack.variant).parse().ok());
                specifiers.contains(&version)
                    || with_variant.is_some_and(|version: Version| specifiers.contains(&version))
            }
            _ => true,
        }
    }

    /// The conda packages are those that the request names, with Python, and what these depend on.
    fn conda(&self, out: &mut Vec<Inconsistency>) {
        let of = |name: &str| self.target.conda.iter().find(|package| package.name == name);
        let specs = &self.request.conda.specs;
        let absent = specs.iter().filter(|spec| of(&spec.name().to_lowercase()).is_none());
        out.extend(absent.map(|spec| Inconsistency::Unmet { request: spec.text.clone(), locked: None }));
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut open: Vec<String> = specs.iter().map(|spec| spec.name().to_lowercase()).collect();
        if let Some(stack) = self.target.stack.as_ref().filter(|_| self.request.conda.stack.is_some()) {
            open.push(PYTORCH.to_owned());
            open.extend(stack.companions.keys().cloned());
        }
        if !self.request.conda.is_empty() {
            open.extend(["python".to_owned(), "pip".to_owned()]);
        }
        while let Some(name) = open.pop() {
            let Some(package) = of(&name).filter(|_| seen.insert(name.clone())) else { continue };
            open.extend(package.depends.iter().map(|spec| name_of_spec(spec).to_owned()));
        }
        for package in &self.target.conda {
            let shown = || format!("conda's {} {}", package.name, package.version);
            if !self.request.conda.channels.contains(&package.channel) {
                let expected = self.request.conda.channels.join(", ");
                let source_ = package.channel.clone();
                out.push(Inconsistency::WrongSource { package: shown(), source_, expected });
            }
            let is_here = package.subdir == "noarch" || package.subdir == self.target.platform.conda_subdir();
            let series = format!("3.{}.", self.target.python.minor);
            if !is_here || package.name == "python" && !package.version.starts_with(&series) {
                let (python, platform) = (self.target.python, self.target.platform.to_string());
                out.push(Inconsistency::NoFile { package: shown(), python, platform });
            }
            let absent = package.depends.iter().find(|spec| {
                let name = name_of_spec(spec);
                !name.starts_with("__") && of(name).is_none()
            });
            if let Some(spec) = absent {
                out.push(Inconsistency::Broken { package: shown(), requirement: spec.clone(), locked: None });
            }
        }
        self.machine_of_conda(out);
        let others = self.target.conda.iter().filter(|package| !seen.contains(&package.name));
        out.extend(others.map(|p| Inconsistency::Unneeded(format!("{} {}", p.name, p.version))));
    }

    /// The lock says at least what the match specs of its conda packages ask of a machine.
    fn machine_of_conda(&self, out: &mut Vec<Inconsistency>) {
        let own = &self.target.envelope;
        let mut needed =
            Envelope { driver: None, coverage: Vec::new(), glibc: None, platform: self.target.platform };
        with_machine_specs(self.registry, &mut needed, specs_of(&self.target.conda));
        for (what, stated, needed) in
            [("glibc", &own.glibc, &needed.glibc), ("driver", &own.driver, &needed.driver)]
        {
            if needed > stated {
                let shown = |version: &Option<DottedVersion>| match version {
                    Some(version) => format!("{what} >= {version}"),
                    None => format!("any {what}"),
                };
                out.push(Inconsistency::OtherEnvelope { stated: shown(stated), needed: shown(needed) });
            }
        }
    }

    /// Each package is reached from the requests of the parts that it is counted to. The edges are those with all extras
    /// that anything requires, so that a package reached from a part need not belong to it.
    fn parts(&self, out: &mut Vec<Inconsistency>) {
        let reached = |part: Option<&Part>| -> BTreeSet<&str> {
            let users = self.request.requirements.iter().filter(|user| self.applies(user));
            let users = users.filter(|user| user.part.is_none() || user.part.as_ref() == part);
            let left = unneeded(self.target, users.map(|user| user.name()));
            left.into_iter().map(|package| package.name.as_str()).collect()
        };
        let stated: BTreeSet<Option<&Part>> = self.target.packages.iter().flat_map(counted_to).collect();
        if stated.iter().all(Option::is_none) && self.request.requirements.iter().all(|u| u.part.is_none()) {
            return;
        }
        let unreached: Vec<(Option<&Part>, BTreeSet<&str>)> =
            stated.into_iter().map(|part| (part, reached(part))).collect();
        for package in &self.target.packages {
            for part in counted_to(package) {
                if unreached.iter().any(|(of, left)| *of == part && left.contains(package.name.as_str())) {
                    let stated = part.map_or("every installation".to_owned(), ToString::to_string);
                    out.push(Inconsistency::OtherPart { package: shown(package), stated });
                }
            }
        }
    }

    fn sources(&self, out: &mut Vec<Inconsistency>) {
        for package in &self.target.packages {
            if let Some(expected) = self.other_source(package) {
                let source_ = package.source.to_string();
                out.push(Inconsistency::WrongSource { package: shown(package), source_, expected });
            }
            let is_file_of_target =
                package.files.first().is_some_and(|file| match file.name.parse::<WheelName>() {
                    Ok(wheel) => wheel.fit(self.target.python.minor, self.target.platform, None).is_some(),
                    Err(_) => package.build.is_some(),
                });
            if let Some(build) = &package.build {
                let refused = match (&self.request.no_sources, &self.request.strict_metadata) {
                    // A direct reference names its source, and is not refused.
                    (Some(_), _) if package.source.index().is_some() => Some("the request refuses sources"),
                    (_, Some(_)) if build.metadata_from == MetadataFrom::AsPublished => {
                        Some("the request refuses metadata as published")
                    }
                    _ => None,
                };
                let package = shown(package);
                out.extend(refused.map(|why| Inconsistency::Source { package, why: why.to_owned() }));
            }
            if package.source.index().is_some() && !is_file_of_target {
                out.push(Inconsistency::NoFile {
                    package: shown(package),
                    python: self.target.python,
                    platform: self.target.platform.to_string(),
                });
            }
        }
    }

    /// Where the request takes a package from, if the lock takes it from elsewhere.
    fn other_source(&self, package: &ChosenPackage) -> Option<String> {
        let mut users = self.request.requirements.iter().filter(|user| self.applies(user));
        let direct = users.find_map(|user| {
            let is_of_package = user.name() == package.name;
            user.direct().filter(|_| is_of_package)
        });
        if let Some(direct) = direct {
            let stated = package.files.first().and_then(|file| file.sha256.as_deref());
            let folder = self.request.folder.as_deref();
            return (!is_of(&package.source, stated, &direct, folder)).then(|| format!("`{direct}`"));
        }
        let expected = owner(&package.name, &self.request.owners);
        let Some(index) = package.source.index() else {
            return Some(format!("the index `{expected}`"));
        };
        if let Some(only) = self.request.only_index.as_ref().filter(|only| !only.value.admits(index)) {
            return Some(only.value.in_words());
        }
        let variant = self.target.stack.as_ref().map(|stack| format!("pytorch/{}", stack.variant));
        let is_of_stack = STACK_PACKAGES.contains(&package.name.as_str()) || package.name == TRITON;
        let is_allowed = index == expected || (is_of_stack && variant.as_deref() == Some(index));
        (!is_allowed).then(|| format!("the index `{expected}`"))
    }
}

/// The package that comes from the same pytorch index as the torch build.
const TRITON: &str = "triton";

/// The parts that a package is counted to; `None` is every installation.
fn counted_to(package: &ChosenPackage) -> Vec<Option<&Part>> {
    match package.groups.as_slice() {
        [] => vec![None],
        parts => parts.iter().map(Some).collect(),
    }
}

/// The packages of a target that none of the requested ones needs.
pub fn unneeded<'t>(target: &'t Target, requested: impl Iterator<Item = &'t str>) -> Vec<&'t ChosenPackage> {
    let packages: HashMap<&str, &ChosenPackage> =
        target.packages.iter().map(|package| (package.name.as_str(), package)).collect();
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut queue: Vec<&str> = requested.collect();
    while let Some(name) = queue.pop() {
        if let Some(package) = packages.get(name)
            && reached.insert(&package.name)
        {
            queue.extend(package.requires.iter().map(|edge| edge.to.as_str()));
        }
    }
    target.packages.iter().filter(|package| !reached.contains(package.name.as_str())).collect()
}

/// Whether a locked source is what a direct reference names. `folder`: that of the project.
fn is_of(source: &Source, locked_hash: Option<&str>, direct: &Direct, folder: Option<&Path>) -> bool {
    match (source, direct) {
        (Source::Url(locked), Direct::Archive { url, sha256 }) => {
            let states_other = sha256.as_deref().is_some_and(|stated| locked_hash != Some(stated));
            *locked == without_login(url) && !states_other
        }
        (
            Source::Git { repository, commit, subdirectory },
            Direct::Git { repository: asked, revision, subdirectory: part },
        ) => {
            let part = part.as_deref().map(|part| part.trim_matches('/'));
            let asked_for = revision.as_deref();
            *repository == shown_repository(asked)
                && subdirectory.as_deref() == part
                && asked_for.is_none_or(|revision| may_be_commit(revision, commit))
        }
        (Source::Path(locked), Direct::Path(path)) => match folder.filter(|folder| folder.is_absolute()) {
            Some(folder) => plain(&folder.join(locked)) == plain(&folder.join(path)),
            None => plain(Path::new(locked)) == plain(Path::new(path)),
        },
        _ => false,
    }
}

/// The parts of a path, without `.` and with `..` applied where a part precedes it.
fn plain(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<OsString> = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if parts.last().is_some_and(|last| last != "..") => drop(parts.pop()),
            other => parts.push(other.as_os_str().to_owned()),
        }
    }
    parts
}

fn shown(package: &ChosenPackage) -> String {
    format!("{} {}", package.name, package.version)
}
