//! A lock of another tool, read by its format, and the environments that it can install.

use pep440_rs::Version;

use super::error::ForeignError;
use super::types::{Environment, Fixed, Tool, python_for};
use super::{conda, pixi, pylock, requirements, uv};
use crate::model::platform::Platform;
use crate::model::wheel::Python;

/// A lock of another tool.
#[derive(Debug, Clone)]
pub struct ForeignLock {
    /// The tool.
    pub tool: Tool,
    contents: Contents,
}

#[derive(Debug, Clone)]
enum Contents {
    Uv(uv::Graph),
    Pylock(pylock::Pylock),
    Fixed(Vec<Fixed>),
    Requirements(Vec<requirements::Pinned>),
}

impl ForeignLock {
    /// Reads a lock.
    ///
    /// # Errors
    /// When the text is not a lock of this tool in a format that envlock reads.
    pub fn parse(tool: Tool, text: &str) -> Result<ForeignLock, ForeignError> {
        let contents = match tool {
            Tool::Uv => Contents::Uv(uv::parse(text)?),
            Tool::Pylock => Contents::Pylock(pylock::parse(text)?),
            Tool::Pixi => Contents::Fixed(pixi::parse(text)?),
            Tool::CondaLock => Contents::Fixed(conda::parse(text)?),
            Tool::Requirements => Contents::Requirements(requirements::parse(text)?),
        };
        Ok(ForeignLock { tool, contents })
    }

    /// The environments that it can install on a platform. `python`: the series, where the lock leaves it open; without it,
    /// the newest for which every package has a file.
    pub fn environments(&self, platform: Platform, python: Option<Python>) -> Vec<Environment> {
        match &self.contents {
            Contents::Fixed(all) => all
                .iter()
                .filter(|fixed| fixed.platform == platform)
                .map(|fixed| fixed.environment.clone())
                .collect(),
            Contents::Uv(graph) => graph.environments(platform, python),
            Contents::Pylock(lock) => lock.environments(platform, python),
            Contents::Requirements(pinned) => {
                let of = |python| requirements::environment(pinned, platform, python);
                let environment = of(python_for(python, platform, |python| Some(of(python))));
                vec![Environment { is_open: python.is_none(), ..environment }]
            }
        }
    }

    /// The environment that was installed: of several, the one with the most packages of `has`, which says whether a package
    /// is installed in a version. The extras and groups of a `uv.lock` are taken where all they add is installed.
    pub fn installed(
        &self,
        platform: Platform,
        python: Python,
        has: &dyn Fn(&str, &Version) -> bool,
    ) -> Option<Environment> {
        if let Contents::Uv(graph) = &self.contents {
            return Some(graph.installed(platform, python, has));
        }
        let all = self.environments(platform, Some(python));
        let installed = |environment: &Environment| {
            environment.packages.iter().filter(|package| has(&package.name, &package.version)).count()
        };
        all.into_iter().rev().max_by_key(installed)
    }

    /// Whether the lock has the hashes that `--require-hashes` asks for.
    pub fn has_hashes(&self) -> bool {
        match &self.contents {
            Contents::Requirements(pinned) => requirements::has_hashes(pinned),
            _ => true,
        }
    }

    /// Whether any environment of the lock has a package of this name.
    pub fn mentions(&self, name: &str) -> bool {
        match &self.contents {
            Contents::Uv(graph) => graph.mentions(name),
            Contents::Pylock(lock) => lock.mentions(name),
            Contents::Fixed(all) => {
                let of = |environment: &Environment| {
                    environment.packages.iter().any(|package| package.name == name)
                        || environment.conda.iter().any(|record| record.name == name)
                };
                all.iter().any(|fixed| of(&fixed.environment))
            }
            Contents::Requirements(pinned) => requirements::mentions(pinned, name),
        }
    }

    /// The platforms of a lock that fixes them.
    pub fn platforms(&self) -> Vec<Platform> {
        let Contents::Fixed(all) = &self.contents else { return Vec::new() };
        let mut out: Vec<Platform> = Vec::new();
        for fixed in all {
            if !out.contains(&fixed.platform) {
                out.push(fixed.platform);
            }
        }
        out
    }
}
