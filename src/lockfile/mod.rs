//! The lockfile, `envlock.lock`.
//!
//! Goals, in this order:
//! 1. **Complete**: what is needed to install without resolving, and to judge any machine without
//!    installing (the envelope).
//! 2. **Byte-stable**: equal input gives equal bytes. No time stamps, everything sorted.
//! 3. **Mirror-independent**: indexes by name, files by name and SHA-256; never the address that
//!    happened to serve them.
//! 4. **Readable, with small diffs**: TOML, one block per package, one line per file.
//! 5. **Guarded against accidents**: a checksum notices edits and bad merges. It is no signature.
//!
//! Format history (semantic version; a reader takes any minor of its major):
//! * 1.0.0: first.
//! * 1.1.0: frameworks beside torch, `[[target.framework]]`. Written only where there are some.
//! * 2.0.0: packages built from source (`build`, `metadata-from`, ...), direct references (`url`, `git`, `path`) and
//!   `[[conda-package]]`. Written only where there are some: an older program would install the wrong thing.

mod changes;
mod error;
mod graph;
mod parse;
mod render;
mod request;
mod satisfies;
mod schema;
mod sources;
#[cfg(test)]
mod tests;

use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::platform::Platform;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{ChosenPackage, Envelope, Framework, Solution, Stack};
use crate::model::source::CondaPackage;
use crate::model::wheel::Python;

pub use changes::{Change, TargetChanges, changes, merged, sides};
pub use error::LockError;
pub use graph::{chain, needed_by};
pub use parse::parse;
pub use render::{render, same_answer};
pub use request::{read_request, request_lines};
pub use satisfies::{Stale, stale};

/// The first words of every lockfile, by which envlock knows its own.
pub const MARK: &str = "# Written by envlock and committed with the project";

/// The format this program writes where the lock needs no newer one.
pub const FORMAT: semver::Version = semver::Version::new(1, 0, 0);
/// The format from which on a lock can have frameworks beside torch.
pub const FORMAT_WITH_FRAMEWORKS: semver::Version = semver::Version::new(1, 1, 0);
/// The format from which on a lock can have source distributions, direct references and conda packages.
pub const FORMAT_WITH_SOURCES: semver::Version = semver::Version::new(2, 0, 0);

/// A lockfile.
#[derive(Debug, Clone, PartialEq)]
pub struct Lockfile {
    /// Format version it was read with or will be written in.
    pub format: semver::Version,
    /// SHA-256 of the registry that decided.
    pub registry_digest: String,
    /// That registry's date.
    pub registry_date: String,
    /// The request, one canonical line per part ([`request_lines`]).
    pub request: Vec<String>,
    /// The targets, never none; the first is the default.
    pub targets: Vec<Target>,
}

/// One kind of machine that the lock serves, and what is installed there. In the file, packages that
/// several targets have in common stand once.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name; `default` for the machine at hand.
    pub name: String,
    /// The Python series.
    pub python: Python,
    /// The platform.
    pub platform: Platform,
    /// Whether the Python closure is locked or the stack only.
    pub level: Level,
    /// The framework build.
    pub stack: Option<Stack>,
    /// Frameworks beside torch that use CUDA.
    pub frameworks: Vec<Framework>,
    /// What it takes to run it.
    pub envelope: Envelope,
    /// The machine it was solved for.
    pub host: Host,
    /// Every package, sorted by name.
    pub packages: Vec<ChosenPackage>,
    /// Every package of a conda channel, sorted by name.
    pub conda: Vec<CondaPackage>,
}

impl Target {
    /// The target that a solution for a machine makes.
    pub fn new(name: &str, solution: &Solution, host: &Host, level: Level) -> Target {
        let mut packages = solution.packages.clone();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Target {
            name: name.to_owned(),
            python: solution.python,
            platform: solution.platform,
            level,
            stack: solution.stack.clone(),
            frameworks: solution.frameworks.clone(),
            envelope: solution.envelope.clone(),
            host: host.clone(),
            packages,
            conda: Vec::new(),
        }
    }

    /// The oldest format that can say all of it.
    fn format(&self) -> semver::Version {
        let needs_sources =
            |p: &ChosenPackage| p.source.is_direct() || p.build.is_some() || !p.groups.is_empty();
        if !self.conda.is_empty() || self.packages.iter().any(needs_sources) {
            FORMAT_WITH_SOURCES
        } else if !self.frameworks.is_empty() {
            FORMAT_WITH_FRAMEWORKS
        } else {
            FORMAT
        }
    }

    /// A package by normalized name.
    pub fn package(&self, name: &str) -> Option<&ChosenPackage> {
        self.packages.iter().find(|p| p.name == name)
    }

    /// The versions that a later solve should keep.
    pub fn preferences(&self) -> Preferences {
        let versions = self.packages.iter().map(|p| (p.name.clone(), p.version.clone()));
        Preferences {
            versions: versions.collect(),
            python: Some(self.python),
            variant: self.stack.as_ref().map(|s| s.variant.clone()),
        }
    }
}

impl Lockfile {
    /// The lock of what was solved for a request.
    pub fn new(
        request: &Request,
        registry_digest: &str,
        registry_date: &str,
        targets: Vec<Target>,
    ) -> Lockfile {
        Lockfile {
            format: targets.iter().map(Target::format).max().unwrap_or(FORMAT),
            registry_digest: registry_digest.to_owned(),
            registry_date: registry_date.to_owned(),
            request: request_lines(request),
            targets,
        }
    }

    /// A target by name, the first without one.
    pub fn target(&self, name: Option<&str>) -> Option<&Target> {
        match name {
            None => self.targets.first(),
            Some(name) => self.targets.iter().find(|t| t.name == name),
        }
    }
}
