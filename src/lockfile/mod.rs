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

mod changes;
mod graph;
mod parse;
mod render;
mod satisfies;
mod schema;
#[cfg(test)]
mod tests;

use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{ChosenPackage, Envelope, Framework, Level, Solution, Stack};
use crate::model::wheel::Python;

pub use changes::{Change, TargetChanges, changes, merged, sides};
pub use graph::{chain, needed_by};
pub use parse::{LockError, parse};
pub use render::render;
pub use satisfies::{Stale, stale};

/// The first words of every lockfile, by which envlock knows its own.
pub const MARK: &str = "# Written by envlock and committed with the project";

/// The format this program writes where the lock needs no newer one.
pub const FORMAT: semver::Version = semver::Version::new(1, 0, 0);
/// The format from which on a lock can have frameworks beside torch.
pub const FORMAT_WITH_FRAMEWORKS: semver::Version = semver::Version::new(1, 1, 0);

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
        let has_frameworks = targets.iter().any(|target| !target.frameworks.is_empty());
        Lockfile {
            format: if has_frameworks { FORMAT_WITH_FRAMEWORKS } else { FORMAT },
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

/// The request as canonical lines, sorted: equal requests give equal lines, whatever order they were
/// written in and wherever they stand.
pub fn request_lines(request: &Request) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(request.requirements.iter().map(|r| format!("package {}", r.requirement)));
    lines.extend(request.constraints.iter().map(|r| format!("constraint {}", r.requirement)));
    // What was typed for one run only is kept apart: a lock that heeded it answers a manifest that does
    // not ask for it.
    let mut add = |key: &str, limit: Option<(&str, String)>| {
        lines.extend(limit.map(|(origin, value)| {
            let kind = if origin.starts_with("--") { "option " } else { "" };
            format!("{kind}{key} {value}")
        }));
    };
    add("python", request.python.as_ref().map(|p| (p.origin.as_str(), p.text.clone())));
    add("cuda", request.cuda.as_ref().map(|l| (l.origin.as_str(), l.value.to_string())));
    add("cudnn", request.cudnn.as_ref().map(|l| (l.origin.as_str(), l.value.to_string())));
    add("nccl", request.nccl.as_ref().map(|l| (l.origin.as_str(), l.value.to_string())));
    add("variant", request.variant.as_ref().map(|l| (l.origin.as_str(), l.value.clone())));
    add(
        "driver-policy",
        request.native_driver_only.as_ref().map(|l| (l.origin.as_str(), "native".to_owned())),
    );
    add("only-index", request.only_index.as_ref().map(|l| (l.origin.as_str(), l.value.clone())));
    lines.extend(request.targets.iter().map(|t| format!("target {t}")));
    lines.extend(request.ignored_gpus.iter().map(|name| format!("ignore-gpu {name}")));
    for owner in &request.owners {
        let mut patterns = owner.patterns.clone();
        patterns.sort();
        lines.push(format!("index {} {}", owner.index, patterns.join(" ")));
    }
    lines.sort();
    lines.dedup();
    lines
}
