//! The lockfile, `envlock.lock`.
//!
//! Goals, in this order:
//! 1. **Complete**: everything needed to install without resolving, and to check any machine without
//!    installing (the envelope).
//! 2. **Byte-stable**: equal input gives equal bytes. No timestamps, everything sorted.
//! 3. **Mirror-independent**: indexes by name, files by name and SHA-256; never the URL of the server
//!    that was used.
//! 4. **Readable, with small diffs**: TOML, one block per package, one line per file.
//! 5. **Protected against accidents**: a checksum detects edits and bad merges. It is not a signature.
//!
//! Format history (semantic version; a reader accepts any minor version of its major version):
//! * 1.0.0: first.
//! * 1.1.0: frameworks other than torch, `[[target.framework]]`. Written only if there are some.
//! * 1.2.0: the lock of another tool that holds the packages, `packages-in`. Written only then.
//! * 2.0.0: packages built from source (`build`, `metadata-from`, ...), direct references (`url`, `git`, `path`) and
//!   `[[conda-package]]`. Written only if there are some: an older program would install the wrong packages.

mod changes;
mod consistent;
mod error;
mod graph;
mod hashes;
mod installed;
mod needs;
mod parse;
mod render;
mod request;
mod satisfies;
mod schema;
mod source_rows;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::conda::is_python_package;
use crate::model::host::Host;
use crate::model::image_digest::ImageDigest;
use crate::model::level::Level;
use crate::model::owner::PackageLock;
use crate::model::part::Part;
use crate::model::patches::{Patches, WantedPython};
use crate::model::platform::Platform;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{ChosenPackage, Envelope, Framework, Solution, Stack};
use crate::model::source::CondaPackage;
use crate::model::source::Source;
use crate::model::variant::is_cuda;
use crate::model::wheel::Python;
use crate::registry::STACK_PACKAGES;
use crate::registry::conda_builds::PYTORCH;
use crate::registry::conda_names::pypi_name;

pub use changes::{Change, TargetChanges, changes, machines_of_edited, merged, sides};
pub use consistent::{Inconsistency, unneeded};
pub use error::LockError;
pub use graph::{chain, needed_by};
pub use hashes::{HashDifference, compare_hashes, pages_of_files};
pub use installed::{Difference, PREINSTALLED_PACKAGES, differences, same_version};
pub use needs::{Because, MACHINE_PARTS, MachineNeed, NeedKind, machine_need};
pub use parse::parse;
pub use render::{has_conda_packages, render, same_answer};
pub use request::{names_targets, read_request, request_lines};
pub use satisfies::{Stale, needs_newer_data, stale};

/// The name of every lockfile.
pub const FILE: &str = "envlock.lock";
/// The start of every lockfile, by which envlock recognizes its own files.
pub const MARK: &str = "# Written by envlock and committed with the project";

/// The format that is written if the lock needs no newer one.
pub const FORMAT: semver::Version = semver::Version::new(1, 0, 0);
/// The first format in which a lock can have frameworks other than torch.
pub const FORMAT_WITH_FRAMEWORKS: semver::Version = semver::Version::new(1, 1, 0);
/// The first format in which another tool's lock can hold the packages. To an older program it is a lock of the stack.
pub const FORMAT_WITH_PACKAGE_LOCK: semver::Version = semver::Version::new(1, 2, 0);
/// The first format in which a lock can have source distributions, direct references, conda packages, extras and groups,
/// and limits on the patch release of Python.
pub const FORMAT_WITH_SOURCES: semver::Version = semver::Version::new(2, 0, 0);

/// A lockfile.
#[derive(Debug, Clone, PartialEq)]
pub struct Lockfile {
    /// The format version of the file.
    pub format: semver::Version,
    /// SHA-256 of the registry that it was solved with.
    pub registry_digest: String,
    /// That registry's date.
    pub registry_date: String,
    /// The lock of another tool that holds the packages. The targets then have the stack only.
    pub packages_in: Option<PackageLock>,
    /// The request, one canonical line per part ([`request_lines`]).
    pub request: Vec<String>,
    /// The requirements files that state the request, relative to the lock's folder; none where a manifest or the command line
    /// does.
    pub files: Vec<String>,
    /// The targets, at least one; the first is the default.
    pub targets: Vec<Target>,
}

/// A machine that the lock is for, and what is installed on it. In the file, a package that several
/// targets share is written once.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name; `default` if the manifest defines no targets.
    pub name: String,
    /// The Python series.
    pub python: Python,
    /// The patch releases of the series that are allowed.
    pub patches: Patches,
    /// The platform.
    pub platform: Platform,
    /// Whether all packages are locked or only the stack.
    pub level: Level,
    /// The framework build.
    pub stack: Option<Stack>,
    /// Frameworks other than torch that use CUDA.
    pub frameworks: Vec<Framework>,
    /// What it requires of any machine.
    pub envelope: Envelope,
    /// The machine it was solved for.
    pub host: Host,
    /// The container image that it is for.
    pub image: Option<ImageDigest>,
    /// Every package, sorted by name.
    pub packages: Vec<ChosenPackage>,
    /// Every conda package, sorted by name.
    pub conda: Vec<CondaPackage>,
}

impl Target {
    /// Creates a target from a solution for a machine.
    pub fn new(name: &str, solution: &Solution, host: &Host, level: Level) -> Target {
        let mut packages = solution.packages.clone();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Target {
            name: name.to_owned(),
            python: solution.python,
            patches: solution.patches,
            platform: solution.platform,
            level,
            stack: solution.stack.clone(),
            frameworks: solution.frameworks.clone(),
            envelope: solution.envelope.clone(),
            host: host.clone(),
            image: None,
            packages,
            conda: solution.conda.clone(),
        }
    }

    /// The names on PyPI of what its conda packages install, with the packages.
    pub fn provided_by_conda(&self) -> BTreeMap<String, &CondaPackage> {
        let python = self.conda.iter().filter(|package| is_python_package(package));
        python.filter_map(|package| Some((pypi_name(&package.channel, &package.name)?, package))).collect()
    }

    /// conda's pytorch, where the stack comes from a channel.
    pub fn pytorch_of_conda(&self) -> Option<&CondaPackage> {
        let pytorch = self.conda.iter().find(|package| package.name == PYTORCH);
        pytorch.filter(|_| self.stack.is_some() && self.package("torch").is_none())
    }

    /// Whether it has torch or another framework.
    pub fn has_framework(&self) -> bool {
        self.stack.is_some() || !self.frameworks.is_empty()
    }

    /// Whether it has a framework that uses an NVIDIA GPU, or packages that bring the CUDA runtime.
    pub fn uses_cuda(&self) -> bool {
        let by_torch = self.stack.as_ref().is_some_and(|stack| is_cuda(&stack.variant));
        by_torch || !self.frameworks.is_empty() || self.envelope.driver.is_some()
    }

    /// Whether the hardware decides a package: it belongs to torch or another framework, has GPU code, or is a build for one
    /// CUDA.
    pub fn is_of_the_stack(&self, package: &ChosenPackage) -> bool {
        let name = package.name.as_str();
        STACK_PACKAGES.contains(&name)
            || self.frameworks.iter().any(|framework| framework.package == name || framework.name == name)
            || self.stack.as_ref().is_some_and(|stack| stack.companions.contains_key(name))
            || package.targets.is_some()
            || package.variant.is_some()
    }

    /// The target without the packages that the hardware does not decide, as a lock without files has it. `also`: packages
    /// that stay because another version is known to fail beside the stack.
    #[must_use]
    pub fn of_the_stack(&self, also: &BTreeSet<String>) -> Target {
        let is_kept = |package: &&ChosenPackage| {
            // What comes from another index than PyPI is named to the tool that installs it.
            self.is_of_the_stack(package)
                || package.source.index().is_some_and(|index| index != "pypi")
                || also.contains(&package.name)
        };
        let packages = self.packages.iter().filter(is_kept);
        let bare = |package: &ChosenPackage| ChosenPackage {
            build: None,
            groups: Vec::new(),
            files: Vec::new(),
            metadata_sha256: None,
            requires: Vec::new(),
            ..package.clone()
        };
        Target { level: Level::Stack, packages: packages.map(bare).collect(), ..self.clone() }
    }

    /// The oldest format that can represent the target.
    fn format(&self) -> semver::Version {
        let needs_sources =
            |p: &ChosenPackage| p.source.is_direct() || p.build.is_some() || !p.groups.is_empty();
        if !self.patches.is_all() || !self.conda.is_empty() || self.packages.iter().any(needs_sources) {
            FORMAT_WITH_SOURCES
        } else if !self.frameworks.is_empty() {
            FORMAT_WITH_FRAMEWORKS
        } else {
            FORMAT
        }
    }

    /// The Python that it is for.
    pub fn wanted_python(&self) -> WantedPython {
        WantedPython { python: self.python, patches: self.patches }
    }

    /// A package by normalized name.
    pub fn package(&self, name: &str) -> Option<&ChosenPackage> {
        self.packages.iter().find(|p| p.name == name)
    }

    /// The packages that are always installed: those of no extra or group.
    pub fn installed_always(&self) -> impl Iterator<Item = &ChosenPackage> {
        self.packages.iter().filter(|package| package.groups.is_empty())
    }

    /// What builds in the environment require and is installed for them: it is no package of the lock.
    pub fn brought_by_builds(&self) -> BTreeSet<&str> {
        let built = self.installed_always().filter(|package| package.is_built_after_others());
        let required = built.flat_map(|package| &package.build).flat_map(|build| &build.requires);
        required.map(|requirement| requirement.name.as_str()).collect()
    }

    /// The versions that a later solve should keep.
    pub fn preferences(&self) -> Preferences {
        let versions = self.packages.iter().map(|p| (p.name.clone(), p.version.clone()));
        let builds = self.packages.iter().filter_map(|p| p.build.as_ref()).flat_map(|b| &b.requires);
        let commits = self.packages.iter().filter_map(|p| match &p.source {
            Source::Git { commit, .. } => Some((p.name.clone(), commit.clone())),
            _ => None,
        });
        // Where conda installs the stack, it is no package of PyPI.
        let of_stack = self.stack.iter().flat_map(|stack| {
            let torch = (stack.framework.clone(), stack.version.clone());
            std::iter::once(torch).chain(stack.companions.clone())
        });
        Preferences {
            installed: BTreeSet::new(),
            versions: of_stack.chain(versions).collect(),
            commits: commits.collect(),
            builds: builds.map(|r| (r.name.clone(), r.version.clone())).collect(),
            python: Some(self.python),
            variant: self.stack.as_ref().map(|s| s.variant.clone()),
            conda: self.conda.iter().map(|package| package.file.clone()).collect(),
        }
    }
}

impl Lockfile {
    /// Creates the lock of the targets that were solved for a request.
    pub fn new(
        request: &Request,
        registry_digest: &str,
        registry_date: &str,
        targets: Vec<Target>,
    ) -> Lockfile {
        let has_parts = request.requirements.iter().any(|user| user.part.is_some());
        let of_request = if has_parts { FORMAT_WITH_SOURCES } else { FORMAT };
        Lockfile {
            format: targets.iter().map(Target::format).max().unwrap_or(FORMAT).max(of_request),
            registry_digest: registry_digest.to_owned(),
            registry_date: registry_date.to_owned(),
            packages_in: None,
            request: request_lines(request),
            files: Vec::new(),
            targets,
        }
    }

    /// The lock of a request that these requirements files state.
    #[must_use]
    pub fn stated_in(self, files: Vec<String>) -> Lockfile {
        Lockfile { files, ..self }
    }

    /// The lock of the stack alone, whose packages another tool's lock holds, and of those that stay beside it
    /// ([`Target::of_the_stack`]).
    #[must_use]
    pub fn with_packages_in(mut self, held: PackageLock, also: &BTreeSet<String>) -> Lockfile {
        self.targets = self.targets.iter().map(|target| target.of_the_stack(also)).collect();
        let formats = self.targets.iter().map(Target::format);
        self.format = formats.max().unwrap_or(FORMAT).max(FORMAT_WITH_PACKAGE_LOCK);
        self.packages_in = Some(held);
        self
    }

    /// The extras and groups that are locked.
    pub fn parts(&self) -> BTreeSet<Part> {
        let request = read_request(&self.request).unwrap_or_default();
        request.requirements.into_iter().filter_map(|user| user.part).collect()
    }

    /// The lock as it is installed with these extras and groups: their packages count to every installation.
    #[must_use]
    pub fn with_parts(mut self, parts: &[Part]) -> Lockfile {
        for package in self.targets.iter_mut().flat_map(|target| &mut target.packages) {
            if package.groups.iter().any(|part| parts.contains(part)) {
                package.groups.clear();
            }
        }
        self
    }

    /// A target by name; without a name, the first.
    pub fn target(&self, name: Option<&str>) -> Option<&Target> {
        match name {
            None => self.targets.first(),
            Some(name) => self.targets.iter().find(|t| t.name == name),
        }
    }
}
