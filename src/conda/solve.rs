//! One solve of conda packages, by rattler's solver, with values of envlock's going in and coming out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rattler_conda_types::{GenericVirtualPackage, PackageNameMatcher, RepoDataRecord, Version};
use rattler_solve::{ChannelPriority, SolveError, SolverImpl, SolverTask, resolvo};

use super::channel::name_of;
use super::repodata::{InvalidRepodata, Repodata, reachable};
use super::spec::{InvalidSpec, admits, channel_of_spec, parse};
use super::virtual_packages::VirtualPackage;
use crate::model::conda::{CondaSpec, name_of_spec};
use crate::model::source::CondaPackage;
use crate::model::text::clean;

/// Why a solve gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CondaError {
    /// A match spec of the question is not valid.
    #[error(transparent)]
    Spec(#[from] InvalidSpec),
    /// The channels have more than can be read.
    #[error(transparent)]
    Repodata(#[from] InvalidRepodata),
    /// The search took too long.
    #[error("the search for conda packages was cut at its limit")]
    TooLong,
    /// What was to be explained has an answer.
    #[error("the question has an answer")]
    Solvable,
    /// The solver refused what it was asked.
    #[error("the solver for conda packages does not know an operation: {0}")]
    Unsupported(String),
    /// Two records of a channel claim to be the same.
    #[error("the channel has two records of `{0}`")]
    Duplicate(String),
}

/// What is to be solved.
#[derive(Debug, Clone, Default)]
pub struct CondaQuestion {
    /// What is to be installed, as match specs.
    pub specs: Vec<String>,
    /// Bounds on what is installed.
    pub bounds: Vec<Bound>,
    /// The machine.
    pub machine: Vec<VirtualPackage>,
    /// Files that must not be chosen, and why.
    pub excluded: BTreeMap<String, String>,
    /// The files to keep where they fit.
    pub kept: BTreeSet<String>,
}

/// A bound on a package, which is not installed because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// A match spec with a plain name: `pytorch <0a0`.
    pub spec: String,
    /// Why, for a sentence of its own: `conda's pytorch is not installed beside the stack of PyPI`.
    pub why: String,
}

/// The answer of one solve.
#[derive(Debug, Clone, PartialEq)]
pub enum Solved {
    /// The packages, sorted by name.
    Packages(Vec<CondaPackage>),
    /// There is no answer.
    Impossible,
}

/// The records of channels that questions about some names can reach.
pub struct Records {
    by_channel: Vec<Vec<RepoDataRecord>>,
    /// The places of each name's records, the newest version last: channel, record.
    by_name: HashMap<String, Vec<(usize, usize)>>,
    unread: BTreeSet<String>,
}

impl Records {
    /// Reads the records that can be reached from some names.
    ///
    /// # Errors
    /// When they are too many.
    pub fn reachable(
        channels: &[Repodata],
        names: impl IntoIterator<Item = String>,
    ) -> Result<Records, InvalidRepodata> {
        let (by_channel, unread) = reachable(channels, names)?;
        let mut by_name: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        for (channel, records) in by_channel.iter().enumerate() {
            for (at, record) in records.iter().enumerate() {
                let name = record.package_record.name.as_normalized();
                match by_name.get_mut(name) {
                    Some(places) => places.push((channel, at)),
                    None => {
                        by_name.insert(name.to_owned(), vec![(channel, at)]);
                    }
                }
            }
        }
        for places in by_name.values_mut() {
            places.sort_by(|a, b| {
                let key = |&(channel, at): &(usize, usize)| {
                    let own: &RepoDataRecord = &by_channel[channel][at];
                    (&own.package_record.version, own.package_record.build_number)
                };
                key(a).cmp(&key(b))
            });
        }
        Ok(Records { by_channel, by_name, unread })
    }

    /// Whether a channel lists records of a package that cannot be read: without hash or size, or of another form.
    pub fn is_unread(&self, name: &str) -> bool {
        self.unread.contains(name)
    }

    fn all(&self) -> impl Iterator<Item = &RepoDataRecord> {
        self.by_channel.iter().flatten()
    }

    fn of_name(&self, name: &str) -> impl Iterator<Item = &RepoDataRecord> {
        let places = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|&(channel, at)| &self.by_channel[channel][at])
    }

    /// The records whose package has a name that is looked for.
    pub fn named(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<CondaPackage> {
        let mut names: Vec<&String> = self.by_name.keys().filter(|name| is_wanted(name)).collect();
        names.sort_unstable();
        names.into_iter().flat_map(|name| self.of_name(name)).map(package).collect()
    }

    /// The records of a package, the newest version last.
    pub fn of(&self, name: &str) -> Vec<CondaPackage> {
        self.of_name(name).map(package).collect()
    }

    /// The records that match a spec.
    ///
    /// # Errors
    /// When the spec is not valid.
    pub fn matching(&self, spec: &str) -> Result<Vec<CondaPackage>, InvalidSpec> {
        let parsed = parse(spec)?;
        let name = name_of_spec(spec).to_lowercase();
        let matches = |record: &&RepoDataRecord| rattler_conda_types::Matches::matches(&parsed, *record);
        Ok(self.of_name(&name).filter(matches).map(package).collect())
    }

    /// Solves a question, in this time.
    ///
    /// # Errors
    /// See [`CondaError`].
    pub fn solve(&self, question: &CondaQuestion, limit: Duration) -> Result<Solved, CondaError> {
        if limit.is_zero() {
            return Err(CondaError::TooLong);
        }
        let specs = question.specs.iter().map(|spec| parse(spec)).collect::<Result<Vec<_>, _>>()?;
        let constraints =
            question.bounds.iter().map(|bound| parse(&bound.spec)).collect::<Result<Vec<_>, _>>()?;
        let with_channel: Vec<_> = specs
            .iter()
            .filter_map(|spec| match (&spec.name, &spec.channel) {
                (PackageNameMatcher::Exact(name), Some(channel)) => Some((name, channel.canonical_name())),
                _ => None,
            })
            .collect();
        let of_other_channel = |record: &&RepoDataRecord| {
            with_channel.iter().any(|(name, channel)| {
                **name == record.package_record.name && record.channel.as_ref() != Some(channel)
            })
        };
        let excluded: HashMap<url::Url, Arc<str>> = self
            .all()
            .filter_map(|record| match question.excluded.get(&record.identifier.to_string()) {
                Some(why) => Some((record.url.clone(), Arc::from(why.as_str()))),
                None if of_other_channel(&record) => {
                    Some((record.url.clone(), Arc::from("another channel is asked for")))
                }
                None => None,
            })
            .collect();
        let is_kept = |record: &&RepoDataRecord| {
            !question.kept.is_empty() && question.kept.contains(&record.identifier.to_string())
        };
        let task = SolverTask {
            available_packages: self.by_channel.iter().map(|records| records.as_slice()),
            locked_packages: self.all().filter(is_kept).collect(),
            pinned_packages: Vec::new(),
            virtual_packages: question.machine.iter().filter_map(virtual_package).collect(),
            specs,
            constraints,
            timeout: Some(limit),
            channel_priority: ChannelPriority::Strict,
            exclude_newer: None,
            strategy: rattler_solve::SolveStrategy::Highest,
            dependency_overrides: Vec::new(),
            excluded_candidates: excluded,
            cancellation_token: None,
        };
        match resolvo::Solver.solve(task) {
            Ok(result) => {
                let mut packages: Vec<CondaPackage> = result.records.iter().map(package).collect();
                packages.sort_by(|a, b| a.name.cmp(&b.name));
                Ok(Solved::Packages(packages))
            }
            Err(SolveError::Unsolvable(_)) => Ok(Solved::Impossible),
            Err(SolveError::Cancelled) => Err(CondaError::TooLong),
            Err(SolveError::DuplicateRecords(file)) => Err(CondaError::Duplicate(clean(&file, 120))),
            Err(SolveError::ParseMatchSpecError(error)) => Err(CondaError::Spec(InvalidSpec {
                text: "a requirement in a record".to_owned(),
                why: clean(&error.to_string(), 120),
            })),
            Err(SolveError::UnsupportedOperations(what)) => {
                Err(CondaError::Unsupported(clean(&what.join(", "), 120)))
            }
        }
    }
}

/// A requirement of a package that the others do not meet, as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// The package: `pytorch 2.9.1`.
    pub package: String,
    /// Its match spec: `libtorch 2.9.1 cuda129_mkl_hce6efb5_301`.
    pub spec: String,
    /// What there is: `libtorch 2.9.1 cpu_mkl_h7c10738_101`.
    pub found: String,
}

/// The requirements and `constrains` that packages do not meet among each other. A package that is not there is none of them.
pub fn unmet(packages: &[CondaPackage]) -> Vec<Unmet> {
    let mut out = Vec::new();
    for package in packages {
        for text in package.depends.iter().chain(&package.constrains) {
            let Some(other) = packages.iter().find(|other| other.name == name_of_spec(text)) else {
                continue;
            };
            let Ok(spec) = parse(text) else { continue };
            let Ok(version) = other.version.parse::<Version>() else { continue };
            if !admits(&spec, &version, &other.build) {
                out.push(Unmet {
                    package: format!("{} {}", package.name, package.version),
                    spec: text.clone(),
                    found: format!("{} {} {}", other.name, other.version, other.build),
                });
            }
        }
    }
    out
}

/// The match specs of a request that the package of their name does not meet, with what there is. A package that is not there
/// is none of them.
pub fn unmet_of_request(specs: &[CondaSpec], packages: &[CondaPackage]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for asked in specs {
        let own = packages.iter().find(|own| own.name == asked.name());
        let Some((own, spec)) = own.zip(parse(&asked.text).ok()) else { continue };
        let is_from = channel_of_spec(&asked.text).is_none_or(|channel| channel == own.channel);
        let is_met = own.version.parse::<Version>().is_ok_and(|version| admits(&spec, &version, &own.build));
        if !is_from || !is_met {
            out.push((
                asked.text.clone(),
                format!("{} {} {} of {}", own.name, own.version, own.build, own.channel),
            ));
        }
    }
    out
}

fn virtual_package(own: &VirtualPackage) -> Option<GenericVirtualPackage> {
    Some(GenericVirtualPackage {
        name: own.name.parse().ok()?,
        version: own.version.parse::<Version>().ok()?,
        build_string: own.build.parse().ok()?,
    })
}

/// A record as the lock holds it.
fn package(record: &RepoDataRecord) -> CondaPackage {
    let own = &record.package_record;
    CondaPackage {
        name: own.name.as_normalized().to_owned(),
        version: own.version.as_str().to_string(),
        build: own.build.to_string(),
        channel: record.channel.as_deref().map(name_of).unwrap_or_default().to_owned(),
        subdir: own.subdir.clone(),
        file: record.identifier.to_string(),
        sha256: own.sha256.map(hex::encode).unwrap_or_default(),
        md5: own.md5.map(hex::encode).unwrap_or_default(),
        size: own.size.unwrap_or_default(),
        depends: own.depends.clone(),
        constrains: own.constrains.clone(),
    }
}
