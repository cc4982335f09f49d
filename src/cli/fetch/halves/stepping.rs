//! Which releases of conda's packages fit the packages of PyPI.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pep440_rs::Version;

use super::{Asked, Half, Session};
use crate::cli::error::CliError;
use crate::conda::Records;
use crate::model::conda::is_python_package;
use crate::model::conflict::{Conflict, Party};
use crate::model::marker::marker_environment;
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, RawFile};
use crate::model::request::{Request, STACK_PACKAGES, UserRequirement};
use crate::model::solution::Answer;
use crate::model::source::{CondaPackage, Source};
use crate::model::wheel::Python;
use crate::registry::conda_builds::python_of;
use crate::registry::conda_names::pypi_name;

/// What conda installs of PyPI's packages: by name on PyPI, the version and the package.
pub(super) type Provided<'p> = BTreeMap<String, (Version, &'p CondaPackage)>;

/// Releases of conda's packages to which conda's half is bound because PyPI's admits them.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// By conda's name: the files of the other releases, and those of this one.
    releases: BTreeMap<String, (Vec<String>, Vec<String>)>,
    /// Whether one of several bounds at once was given up, which may have been another one's fault.
    pub is_cut: bool,
}

/// Which releases of conda's packages fit the packages of PyPI.
pub(super) enum Fitting {
    /// These, by conda's name.
    Releases(BTreeMap<String, Version>),
    /// None, and why, unless the search took too long.
    None(Option<Box<Conflict>>),
}

impl Bound {
    /// Binds packages to releases: all others are left out.
    pub fn to(
        &mut self,
        releases: &BTreeMap<String, Version>,
        records: &Records,
        excluded: &mut BTreeMap<String, String>,
    ) {
        for (name, version) in releases {
            let is_this =
                |record: &CondaPackage| record.version.parse::<Version>().is_ok_and(|own| own == *version);
            let (own, others): (Vec<_>, Vec<_>) = records.of(name).into_iter().partition(is_this);
            let others = others.into_iter().filter(|record| !excluded.contains_key(&record.file));
            let others: Vec<String> = others.map(|record| record.file).collect();
            let why = format!("PyPI's half needs {name} {version}");
            excluded.extend(others.iter().map(|file| (file.clone(), why.clone())));
            self.releases.insert(name.clone(), (others, own.into_iter().map(|record| record.file).collect()));
        }
    }

    /// Gives the releases up to which packages are bound, since conda's half has no answer with them. `false`: there are none.
    pub fn give_up(&mut self, excluded: &mut BTreeMap<String, String>) -> bool {
        self.is_cut |= self.releases.len() > 1;
        let has_some = !self.releases.is_empty();
        for (name, (others, own)) in std::mem::take(&mut self.releases) {
            others.iter().for_each(|file| {
                excluded.remove(file);
            });
            let why = || format!("this {name} cannot be installed with the others");
            excluded.extend(own.into_iter().map(|file| (file, why())));
        }
        has_some
    }
}

impl Session<'_> {
    /// PyPI's half: what conda installs is fixed, but for the packages that may be any release of the channels.
    pub(super) fn beside<'h>(
        &'h self,
        half: Option<&'h Half>,
        provided: &Provided<'_>,
        any: &BTreeMap<String, Vec<CondaPackage>>,
    ) -> Result<Session<'h>, CliError> {
        let registry = half.map_or(self.registry, |half| &half.stack.registry);
        let mut session = Session::new(self.client, registry, self.printer, self.words.stated);
        if let Some(half) = half {
            session.add_stack(&half.stack.stack)?;
        }
        for (name, (_, package)) in provided {
            let alone = [(*package).clone()];
            session.provide(name, any.get(name).map_or(&alone[..], Vec::as_slice))?;
        }
        Ok(session)
    }

    /// Adds a package that conda installs: one of these releases.
    fn provide(&mut self, name: &str, packages: &[CondaPackage]) -> Result<(), CliError> {
        let mut files: BTreeMap<Version, (RawFile, Arc<CoreMetadata>)> = BTreeMap::new();
        for package in packages {
            let Ok(version) = package.version.parse::<Version>() else { continue };
            let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
            let metadata = CoreMetadata::parse(&text, package.sha256.clone())
                .map_err(|error| CliError::input(format!("conda's `{}`: {error}", package.name)))?;
            let raw = RawFile {
                filename: format!("{}-{version}-py3-none-any.whl", name.replace('-', "_")),
                sha256: Some(package.sha256.clone()),
                size: Some(package.size),
                ..RawFile::default()
            };
            files.insert(version, (raw, Arc::new(metadata)));
        }
        let Some(first) = packages.first() else { return Ok(()) };
        let source = Source::Url(format!("{}/{}/{}", first.channel, first.subdir, first.file));
        let page = ProjectPage::from_files(name, files.values().map(|(raw, _)| raw.clone()));
        let metadata = files.into_values().map(|(raw, metadata)| (raw.filename, metadata));
        self.universe.add_direct(name, source, page, metadata);
        Ok(())
    }

    /// For packages that a conflict of PyPI's half names: the releases of the channels with which it has an answer, by conda's
    /// name; else the conflict that is left whatever releases conda installs.
    pub(super) fn releases_that_fit(
        &self,
        asked: &Asked<'_>,
        (records, excluded, python): (&Records, &BTreeMap<String, String>, Python),
        (half, provided): (Option<&Half>, &Provided<'_>),
        mut named: BTreeSet<String>,
    ) -> Result<Fitting, CliError> {
        let candidates = |name: &String| {
            let (_, package) = provided.get(name)?;
            let is_for_it =
                |record: &CondaPackage| python_of(record).is_none_or(|minor| minor == python.minor);
            let all = records.of(&package.name).into_iter();
            let all = all.filter(|record| !excluded.contains_key(&record.file) && is_for_it(record));
            Some((name.clone(), all.collect::<Vec<_>>()))
        };
        loop {
            let any: BTreeMap<String, Vec<CondaPackage>> = named.iter().filter_map(candidates).collect();
            let mut session = self.beside(half, provided, &any)?;
            let conflict = match session.solve(asked.host, asked.request, asked.preferences)? {
                Answer::Solution(solution) => {
                    let of = |name: &String| {
                        let own = solution.packages.iter().find(|package| package.name == *name)?;
                        Some((provided.get(name)?.1.name.clone(), own.version.clone()))
                    };
                    return Ok(Fitting::Releases(named.iter().filter_map(of).collect()));
                }
                Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => conflict,
                Answer::TooLong | Answer::NeedMetadata(_) => return Ok(Fitting::None(None)),
            };
            let before = named.len();
            let parties = conflict.reasons.iter().flat_map(|reason| &reason.parties).map(Party::as_str);
            named.extend(parties.filter(|name| provided.contains_key(*name)).map(str::to_owned));
            if named.len() == before {
                return Ok(Fitting::None(Some(conflict)));
            }
        }
    }

    /// Records that some lines of the request exclude, of packages of which they admit others.
    pub(super) fn excluded_by(
        &self,
        records: &Records,
        lines: &[UserRequirement],
        request: &Request,
        (python, platform): (Python, crate::model::platform::Platform),
    ) -> BTreeMap<String, String> {
        let environment = marker_environment(python, platform);
        let bounds: Vec<&UserRequirement> = lines
            .iter()
            .filter(|user| user.requirement.marker.evaluate(&environment, &[]))
            .filter(|user| user.specifiers().is_some_and(|bounds| !bounds.is_empty()))
            .filter(|user| !STACK_PACKAGES.contains(&(user.requirement.name.as_ref() as &str)))
            .collect();
        let of = |channel: &str, name: &str| {
            let name = pypi_name(channel, name)?;
            let own: Vec<&&UserRequirement> =
                bounds.iter().filter(|user| user.requirement.name.as_ref() as &str == name).collect();
            (!own.is_empty()).then_some(own)
        };
        let channels = &request.conda.channels;
        let is_bound = |name: &str| channels.iter().any(|channel| of(channel, name).is_some());
        let excluding = |record: &CondaPackage| {
            let version: Version = record.version.parse().ok()?;
            let excludes =
                |user: &&&UserRequirement| user.specifiers().is_some_and(|bounds| !bounds.contains(&version));
            of(&record.channel, &record.name)?.into_iter().find(excludes).map(|user| user.line())
        };
        let records = records.named(is_bound);
        let is_for_it = |record: &&CondaPackage| python_of(record).is_none_or(|minor| minor == python.minor);
        let admitted: BTreeSet<&str> = records
            .iter()
            .filter(is_for_it)
            .filter(|record| is_python_package(record) && excluding(record).is_none())
            .map(|record| record.name.as_str())
            .collect();
        let why = |record: &CondaPackage| {
            let line = excluding(record).filter(|_| admitted.contains(record.name.as_str()))?;
            let text = format!("{} {} is excluded by `{line}`", record.name, record.version);
            Some((record.file.clone(), text))
        };
        records.iter().filter_map(why).collect()
    }
}
