//! Locks of other tools: `uv.lock`, `pylock.toml` (PEP 751), `pixi.lock`, `conda-lock.yml`, and requirements with hashes.
//!
//! Each format is read into the [`Environment`]s that it can install on a platform. [`judge`] makes a lock target of one, so
//! that `verify` and `plan` judge it as they judge envlock's own lock. Nothing is resolved: what a lock does not say is
//! named as unknown.

mod conda_lock;
mod conda_record;
mod document;
mod judge;
mod pixi;
mod pylock;
mod requirements;
mod stack;
mod uv;

use crate::model::platform::Platform;
use crate::model::solution::{ChosenFile, ChosenPackage, Edge};
use crate::model::source::Source;
use crate::model::text::{MAX_VALUES, toml_values};
use crate::model::wheel::Python;
use pep440_rs::Version;

pub use conda_record::CondaRecord;
pub use document::own_name;
pub use judge::{Judged, NoCuda, WithoutCuda, judge};
pub use requirements::requirement_lines;
pub use stack::{OtherBuild, failing, other_builds};

/// The tool that writes and installs a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `uv.lock`.
    Uv,
    /// `pylock.toml`.
    Pylock,
    /// `pixi.lock`.
    Pixi,
    /// `conda-lock.yml`.
    CondaLock,
    /// A requirements file with hashes.
    Requirements,
}

impl Tool {
    /// The tool whose lock a file is: by its name, else by what only its format has.
    pub fn of(file_name: &str, text: &str) -> Option<Tool> {
        let line = |start: &str| text.lines().any(|line| line.starts_with(start));
        let is_pylock =
            |name: &str| name == "pylock.toml" || (name.starts_with("pylock.") && name.ends_with(".toml"));
        match file_name {
            "uv.lock" => Some(Tool::Uv),
            "pixi.lock" => Some(Tool::Pixi),
            name if is_pylock(name) => Some(Tool::Pylock),
            name if name.ends_with("conda-lock.yml") || name.ends_with("conda-lock.yaml") => {
                Some(Tool::CondaLock)
            }
            name if name.ends_with(".txt") => Some(Tool::Requirements),
            _ if line("lock-version =") && line("[[packages]]") => Some(Tool::Pylock),
            _ if line("[[package]]") && line("requires-python =") => Some(Tool::Uv),
            _ if line("environments:") && line("packages:") => Some(Tool::Pixi),
            _ if line("package:") && line("metadata:") => Some(Tool::CondaLock),
            _ if text.contains("--hash=") => Some(Tool::Requirements),
            _ => None,
        }
    }

    /// The name of the tool or of the format: `uv`, `pylock`.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Uv => "uv",
            Tool::Pylock => "pylock",
            Tool::Pixi => "pixi",
            Tool::CondaLock => "conda-lock",
            Tool::Requirements => "requirements",
        }
    }
}

/// Why a file is not a lock that can be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// It is not the syntax of its format: the reader's message.
    #[error("{0}")]
    Syntax(String),
    /// A format version that is not read: found, read.
    #[error("its format is version {0}; envlock reads {1}")]
    Version(String, &'static str),
    /// A value that is not what its key must have: the key with its package, the value.
    #[error("`{0}` is `{1}`")]
    Value(String, String),
    /// A requirement without an exact version, so that the file locks nothing.
    #[error("line {0}: `{1}` has no exact version, so the file locks nothing")]
    NotExact(usize, String),
    /// A requirements file that includes another one: the line.
    #[error("line {0}: `{1}` includes another file: compile both into one")]
    Includes(usize, String),
    /// Its packages are for platforms that envlock does not know, in conda's words: `linux-ppc64le`.
    #[error("its packages are for {0}, which envlock does not know")]
    OtherPlatforms(String),
    /// It locks more than envlock reads.
    #[error("it has more than {0} packages")]
    TooLarge(usize),
    /// Its packages have more requirements and files than envlock reads.
    #[error("it has more than {0} requirements and files of packages")]
    TooManyParts(usize),
    /// It has more values and lines than envlock reads.
    #[error("it has more than {0} values and lines")]
    TooManyValues(usize),
    /// It is longer than envlock reads, in MiB.
    #[error("it is larger than {0} MiB")]
    TooLong(usize),
    /// Its packages, once for each extra and group, are more than envlock reads.
    #[error("its packages, once for each extra and group, are more than {0}")]
    TooManyTimes(usize),
    /// Its markers on extras and groups are too long for all environments; the limit in MiB.
    #[error("its markers on extras and groups, once for each of them, have more than {0} MiB")]
    TooManyChoices(usize),
}

/// Maximum number of packages of a lock. The largest public ones have some thousand.
const MAX_PACKAGES: usize = 50_000;

/// Maximum number of requirements and files of a TOML lock, each an inline table. They are counted before they are read: a lock
/// of 64 MiB can have three million, which took 4.8 GB.
const MAX_PARTS: usize = 600_000;

/// Maximum size of a TOML lock in bytes. The largest public ones have some 10 MB.
const MAX_TOML: usize = 24 << 20;

/// Reads a TOML document of which each requirement and file is an inline table.
fn of_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ForeignError> {
    if text.bytes().filter(|byte| *byte == b'{').count() > MAX_PARTS {
        return Err(ForeignError::TooManyParts(MAX_PARTS));
    }
    if toml_values(text) > MAX_VALUES {
        return Err(ForeignError::TooManyValues(MAX_VALUES));
    }
    if text.len() > MAX_TOML {
        return Err(ForeignError::TooLong(MAX_TOML >> 20));
    }
    toml::from_str(text).map_err(|error| ForeignError::Syntax(error.message().to_owned()))
}

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

/// An environment that a lock fixes for one platform.
#[derive(Debug, Clone)]
struct Fixed {
    platform: Platform,
    environment: Environment,
}

/// What a lock installs: one of the choices that it leaves, on one platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    /// `default`, `extra cu126`, `group test`, or the environment's name in a `pixi.lock`.
    pub name: String,
    /// The Python series for which its markers were evaluated.
    pub python: Python,
    /// The Python packages, by name.
    pub packages: Vec<Package>,
    /// The conda packages, by name.
    pub conda: Vec<CondaRecord>,
    /// What names it on its tool's command line: `extra` and `cu126`.
    pub options: Vec<(&'static str, String)>,
    /// Why its tool refuses it for this Python on this platform, as a sentence.
    pub excluded: Option<String>,
    /// Packages that are locked without a version.
    pub unversioned: Vec<String>,
    /// What is installed of which the lock does not say the package: `-e ./x` of a requirements file.
    pub unnamed: Vec<String>,
    /// Whether the lock leaves the Python open: it names no files and none was asked for.
    pub is_open: bool,
}

/// A Python package of a lock.
#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    /// Normalized name.
    pub name: String,
    /// Its version, with the local part as the lock has it.
    pub version: Version,
    /// Where it comes from. An index is the last two parts of its address: `whl/cu128`.
    pub source: Source,
    /// Its wheels; empty if the format does not name files.
    pub wheels: Vec<ChosenFile>,
    /// Whether it can be built from source, or the lock does not name files.
    pub has_source: bool,
    /// Requirements on other packages, if the lock has them.
    pub requires: Vec<Edge>,
}

impl Environment {
    /// An environment without packages.
    pub(super) fn new(name: &str, python: Python) -> Environment {
        Environment {
            name: name.to_owned(),
            python,
            packages: Vec::new(),
            conda: Vec::new(),
            options: Vec::new(),
            excluded: None,
            unversioned: Vec::new(),
            unnamed: Vec::new(),
            is_open: false,
        }
    }

    /// Whether it has a Python, or packages for one.
    pub fn has_python(&self) -> bool {
        !self.packages.is_empty()
            || self.conda.is_empty()
            || self.conda.iter().any(|record| record.name == "python")
    }
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
            Tool::CondaLock => Contents::Fixed(conda_lock::parse(text)?),
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

/// The newest Python series that is tried where a lock leaves it open, and the oldest.
const NEWEST: Python = Python::new(14);
const OLDEST: u32 = 7;

/// The given Python, else the newest for which every package of its environment has a file and hardly any is left out by its
/// marker: a lock for one Python may have markers that no other fulfils. Without such a Python, the newest allowed one.
fn python_for(
    asked: Option<Python>,
    platform: Platform,
    environment: impl Fn(Python) -> Option<Environment>,
) -> Python {
    if let Some(python) = asked {
        return python;
    }
    let series = (OLDEST..=NEWEST.minor).rev().map(Python::new);
    let allowed: Vec<Environment> = series.filter_map(environment).collect();
    let most = allowed.iter().map(|environment| environment.packages.len()).max().unwrap_or(0);
    // Backports for old Pythons are a few packages.
    let is_whole = |environment: &&Environment| environment.packages.len() * 10 >= most * 9;
    let installs = |environment: &&Environment| {
        environment.packages.iter().all(|package| package.installs(environment.python, platform))
    };
    let whole = || allowed.iter().filter(is_whole);
    whole().find(installs).or(whole().next()).map_or(NEWEST, |environment| environment.python)
}

impl Package {
    /// Whether a Python can install it on a platform: by a wheel, or from source.
    pub fn installs(&self, python: Python, platform: Platform) -> bool {
        self.has_source || self.wheels.is_empty() || !self.usable(python, platform).is_empty()
    }

    /// Its wheels for a Python on a platform, the best first.
    pub fn usable(&self, python: Python, platform: Platform) -> Vec<ChosenFile> {
        let mut usable: Vec<_> = self
            .wheels
            .iter()
            .filter_map(|file| {
                let wheel: crate::model::wheel::WheelName = file.name.parse().ok()?;
                Some((wheel.fit(python.minor, platform, None)?, file.clone()))
            })
            .collect();
        usable.sort_by(|(a, _), (b, _)| b.cmp(a));
        usable.into_iter().map(|(_, file)| file).collect()
    }

    /// The package as a lock of envlock has it.
    fn chosen(&self, python: Python, platform: Platform) -> ChosenPackage {
        ChosenPackage {
            name: self.name.clone(),
            version: self.version.clone(),
            source: self.source.clone(),
            build: None,
            groups: Vec::new(),
            files: self.usable(python, platform),
            metadata_sha256: None,
            requires: self.requires.clone(),
            reason: crate::model::choice::Choice::Newest,
            targets: None,
            variant: None,
        }
    }
}
