//! What a lock of another tool says, whatever its format is.

use pep440_rs::Version;

use super::conda::CondaRecord;
use super::document::{NEWEST, is_pypi};
use crate::model::platform::Platform;
use crate::model::solution::{ChosenFile, ChosenPackage, Edge};
use crate::model::source::Source;
use crate::model::variant::{CPU, is_cuda};
use crate::model::wheel::Python;
use crate::registry::{Build, Cited, Registry};

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

/// An environment that a lock fixes for one platform.
#[derive(Debug, Clone)]
pub(super) struct Fixed {
    pub platform: Platform,
    pub environment: Environment,
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
    /// Packages whose requirements the tool was told to replace.
    pub overridden: Vec<String>,
    /// Packages that it requires with extras: of pins alone, what the extras require may be missing.
    pub with_extras: Vec<String>,
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
    /// Whether it can be built from source.
    pub archive: SourceArchive,
    /// Requirements on other packages, if the lock has them.
    pub requires: Vec<Edge>,
}

/// What a lock says of the source of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceArchive {
    /// It names a source archive, a folder or a repository: where no wheel fits, the package is built.
    Named,
    /// It names wheels alone.
    Absent,
    /// It names no files.
    Unnamed,
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
            overridden: Vec::new(),
            with_extras: Vec::new(),
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

/// The oldest Python series that is tried where a lock leaves it open.
const OLDEST: u32 = 7;

/// The given Python, else the newest for which every package of its environment has a file and hardly any is left out by its
/// marker: a lock for one Python may have markers that no other fulfils. Without such a Python, the newest allowed one.
pub(super) fn python_for(
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
        self.archive != SourceArchive::Absent
            || self.wheels.is_empty()
            || !self.usable(python, platform).is_empty()
    }

    /// Whether its tool builds it: the lock names its source, and no wheel that fits.
    pub fn is_built(&self, python: Python, platform: Platform) -> bool {
        self.archive == SourceArchive::Named && self.usable(python, platform).is_empty()
    }

    /// The variant of torch or a package beside it: the local part of its version, or the sub-index of the pytorch index that
    /// it comes from. A version without either is PyPI's build. `None` if that is not known, and for what is built from source.
    pub fn variant(&self, python: Python, registry: &Registry, platform: Platform) -> Option<String> {
        if self.is_built(python, platform) {
            return None;
        }
        let is_variant =
            |name: &str| name == CPU || is_cuda(name) || name.starts_with("rocm") || name.starts_with("xpu");
        let local = self.version.local().iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        if !local.is_empty() {
            // A file elsewhere may be of another build, whatever it is called.
            let is_published = match &self.source {
                Source::Index(_) => true,
                Source::Url(address) => address.contains("/whl/"),
                Source::Git { .. } | Source::Path(_) => false,
            };
            return (is_variant(&local) && (is_published || local == CPU)).then_some(local);
        }
        let Source::Index(address) = &self.source else { return None };
        let last = address.rsplit('/').next().unwrap_or_default();
        if is_variant(last) {
            return Some(last.to_owned());
        }
        if !is_pypi(address) {
            return None;
        }
        let of_pypi = |build: &&Cited<Build>| {
            build.version == self.version && build.platform == platform && build.on_pypi
        };
        registry.builds().iter().find(of_pypi).map(|build| build.variant.clone())
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
    pub fn chosen(&self, python: Python, platform: Platform) -> ChosenPackage {
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
