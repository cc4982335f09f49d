//! The files that a lock's targets need.

use std::collections::BTreeMap;

use pep440_rs::Version;

use super::manifest::{BundledFile, Role};
use crate::lockfile::Target;
use crate::model::level::Level;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::normalized_name;
use crate::model::wheel::WheelName;

/// Where a file comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// A file of a project's page.
    Index {
        /// The index by name: `pypi`, `pytorch/cu126`.
        index: String,
        /// The project.
        project: String,
    },
    /// An address.
    Url(String),
    /// A conda channel.
    Conda {
        /// The channel by name.
        channel: String,
        /// Its folder: `linux-64`, `noarch`.
        subdir: String,
    },
}

/// A file that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The file's name.
    pub name: String,
    /// Its SHA-256.
    pub sha256: String,
    /// Its size in bytes, if the lock states it.
    pub size: Option<u64>,
    /// What it is for.
    pub role: Role,
    /// Where it comes from.
    pub from: From,
    /// The targets that need it.
    pub targets: Vec<String>,
}

/// A commit of a git repository that is needed. Its name vouches for its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The package that is built from it.
    pub package: String,
    /// The repository, without a login.
    pub repository: String,
    /// 40 or 64 hexadecimal digits.
    pub commit: String,
    /// The targets that need it.
    pub targets: Vec<String>,
}

impl Commit {
    /// The name of its packfile.
    pub fn file(&self) -> String {
        format!("{}-{}.pack", self.package, self.commit)
    }
}

/// What targets need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files with a hash.
    pub files: Vec<Wanted>,
    /// Commits of git repositories.
    pub commits: Vec<Commit>,
    /// Name and version of the packages that are built from source distributions.
    pub sources: Vec<(String, Version)>,
}

impl Needs {
    /// What targets need.
    ///
    /// # Errors
    /// See [`NotBundled`].
    pub fn of(targets: &[&Target]) -> Result<Needs, NotBundled> {
        let packages = targets.iter().flat_map(|target| &target.packages);
        let mut sources: Vec<(String, Version)> = packages
            .filter(|own| is_source(own))
            .map(|own| (own.name.clone(), own.version.clone()))
            .collect();
        sources.sort();
        sources.dedup();
        Ok(Needs { files: wanted(targets)?, commits: commits(targets), sources })
    }
}

/// Whether a package is built from a file with a hash.
pub fn is_source(package: &ChosenPackage) -> bool {
    package.build.is_some() && package.files.first().is_some_and(|file| !file.name.ends_with(".whl"))
}

/// The commits that targets need, each once.
pub fn commits(targets: &[&Target]) -> Vec<Commit> {
    let mut all: Vec<Commit> = Vec::new();
    for target in targets {
        for package in &target.packages {
            let Source::Git { repository, commit, .. } = &package.source else { continue };
            let targets = vec![target.name.clone()];
            let (package, repository, commit) = (package.name.clone(), repository.clone(), commit.clone());
            match all.iter_mut().find(|own| own.package == package && own.commit == commit) {
                Some(own) => own.targets.extend(targets),
                None => all.push(Commit { package, repository, commit, targets }),
            }
        }
    }
    all
}

/// Why a package cannot be bundled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotBundled {
    /// A lock without files.
    #[error("the lock was made with `--stack-only`: it has no files")]
    StackOnly,
    /// Nobody states a hash.
    #[error("the index states no SHA-256 for `{0}`")]
    NoHash(String),
    /// What it comes from is no file with a hash.
    #[error("the lock takes `{package}` from {from}, which has no hash")]
    NoFile {
        /// The package.
        package: String,
        /// `a git repository`, `a folder`.
        from: &'static str,
    },
}

/// The files that targets need, each once, in the order of their first target.
///
/// # Errors
/// See [`NotBundled`].
fn wanted(targets: &[&Target]) -> Result<Vec<Wanted>, NotBundled> {
    let mut places: BTreeMap<(String, String, Role), usize> = BTreeMap::new();
    let mut all: Vec<Wanted> = Vec::new();
    for target in targets {
        if target.level == Level::Stack {
            return Err(NotBundled::StackOnly);
        }
        for file in of_target(target)? {
            let key = (file.sha256.clone(), file.name.clone(), file.role);
            match places.get(&key) {
                Some(place) if all[*place].targets.contains(&target.name) => {}
                Some(place) => all[*place].targets.push(target.name.clone()),
                None => {
                    places.insert(key, all.len());
                    all.push(file);
                }
            }
        }
    }
    Ok(all)
}

fn of_target(target: &Target) -> Result<Vec<Wanted>, NotBundled> {
    let mut all = Vec::new();
    for package in &target.packages {
        // A folder of the project comes with the project, and a commit is no file ([`commits`]).
        let is_folder = matches!(package.source, Source::Path(_)) && package.files.is_empty();
        if !is_folder && !matches!(package.source, Source::Git { .. }) {
            all.push(of_package(package, target)?);
        }
        let requires = package.build.iter().flat_map(|build| &build.requires);
        all.extend(requires.map(|own| Wanted {
            name: own.file.clone(),
            sha256: own.sha256.clone(),
            size: None,
            role: Role::Build,
            from: From::Index { index: PYPI.to_owned(), project: own.name.clone() },
            targets: vec![target.name.clone()],
        }));
    }
    all.extend(target.conda.iter().map(|own| Wanted {
        name: own.file.clone(),
        sha256: own.sha256.clone(),
        size: Some(own.size),
        role: Role::Conda,
        from: From::Conda { channel: own.channel.clone(), subdir: own.subdir.clone() },
        targets: vec![target.name.clone()],
    }));
    Ok(all)
}

/// The index of what builds require.
const PYPI: &str = "pypi";

/// The file of a package that is installed.
fn of_package(package: &ChosenPackage, target: &Target) -> Result<Wanted, NotBundled> {
    let without_hash = |from| NotBundled::NoFile { package: package.name.clone(), from };
    let from = match &package.source {
        Source::Index(index) => From::Index { index: index.clone(), project: package.name.clone() },
        Source::Url(url) => From::Url(url.clone()),
        Source::Git { .. } => return Err(without_hash("a git repository")),
        Source::Path(_) => return Err(without_hash("a folder")),
    };
    let file = package.files.first().ok_or_else(|| NotBundled::NoHash(package.name.clone()))?;
    let sha256 = file.sha256.clone().ok_or_else(|| NotBundled::NoHash(package.name.clone()))?;
    let (name, size, targets) = (file.name.clone(), file.size, vec![target.name.clone()]);
    Ok(Wanted { name, sha256, size, role: Role::Package, from, targets })
}

/// A target whose files lie in one folder, for installers that look for names and versions there: no address is part of it.
/// `built`: the wheels that stand for source distributions.
pub fn from_one_folder(mut target: Target, built: &[&BundledFile]) -> Target {
    for package in target.packages.iter_mut().filter(|package| !package.files.is_empty()) {
        // The file that is there is the first.
        package.files.truncate(1);
        let stands_for = |file: &&&BundledFile| is_wheel_of(&file.name, (&package.name, &package.version));
        let wheel = built.iter().filter(|_| is_source(package)).find(stands_for);
        if let (Some(wheel), Some(file)) = (wheel, package.files.first_mut()) {
            file.name = wheel.name.clone();
            file.sha256 = Some(wheel.sha256.clone());
            file.size = Some(wheel.size);
            package.build = None;
        }
        package.source = Source::Index(PYPI.to_owned());
    }
    target
}

/// Whether a file is a wheel of a package's release. A build may add a local version: `2.8.3+cu12`.
pub fn is_wheel_of(file: &str, (name, version): (&str, &Version)) -> bool {
    let is_of = |wheel: WheelName| {
        normalized_name(&wheel.project) == name
            && (wheel.version == *version || wheel.version.clone().without_local() == *version)
    };
    file.parse::<WheelName>().is_ok_and(is_of)
}
