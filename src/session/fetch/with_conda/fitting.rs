//! Which releases of conda's packages fit the packages of PyPI.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pep440_rs::Version;

use super::requests::{Provided, excluding};
use super::{Half, Session};
use crate::conda::Records;
use crate::model::conda::is_python_package;
use crate::model::conflict::{Conflict, Party};
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, RawFile};
use crate::model::request::{STACK_PACKAGES, UserRequirement};
use crate::model::solution::Answer;
use crate::model::source::{CondaPackage, Source};
use crate::model::wheel::Python;
use crate::registry::conda_builds::python_of;
use crate::registry::conda_names::pypi_name;
use crate::session::failure::Failure;
use crate::solver::Question;

/// The releases of conda's packages that PyPI's half admits, of those that a conflict named: a few at first, more where conda's
/// half has no answer with them.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    /// By the package's name on PyPI.
    packages: BTreeMap<String, Releases>,
    /// How many more are looked for the next time.
    step: usize,
    /// Whether there may be releases that were not found: a search took too long, or not every set of other packages was tried.
    pub is_cut: bool,
}

/// The releases of a package that are known to be admitted.
#[derive(Debug)]
struct Releases {
    /// conda's name of the package.
    name: String,
    known: BTreeSet<Version>,
    /// Whether there are no others.
    is_whole: bool,
}

/// What conda's half installs of other packages, while releases of one are looked for.
#[derive(Clone, Copy)]
enum Others {
    /// What it installed last.
    AsInstalled,
    /// Any release of the channels.
    Any,
    /// Nothing: PyPI may have releases of them.
    Absent,
}

impl Admitted {
    /// Whether a package's releases are bound.
    pub fn has(&self, name: &str) -> bool {
        self.packages.contains_key(name)
    }

    /// The files of all other releases.
    pub fn others(&self, records: &Records) -> BTreeMap<String, String> {
        let of = |one: &Releases| {
            let is_other = |record: &CondaPackage| {
                record.version.parse::<Version>().is_ok_and(|version| !one.known.contains(&version))
            };
            let files = records.of(&one.name).into_iter().filter(is_other).map(|record| record.file);
            let why = format!("another release of {} fits PyPI's packages", one.name);
            files.map(|file| (file, why.clone())).collect::<Vec<_>>()
        };
        self.packages.values().flat_map(of).collect()
    }
}

/// What a search for admitted releases reads.
#[derive(Clone, Copy)]
pub(super) struct AtHand<'s> {
    pub records: &'s Records,
    /// Files that are not there.
    pub excluded: &'s BTreeMap<String, String>,
    pub python: Python,
    pub half: Option<&'s Half>,
    /// What conda's half installs besides.
    pub provided: &'s Provided<'s>,
}

impl Session<'_> {
    /// PyPI's half: what conda installs is fixed, but for the packages that may be any release of the channels.
    pub(super) fn beside<'h>(
        &'h self,
        half: Option<&'h Half>,
        provided: &Provided<'_>,
        any: &BTreeMap<String, Vec<CondaPackage>>,
    ) -> Result<Session<'h>, Failure> {
        let registry = half.map_or(self.registry, |half| &half.stack.registry);
        let mut session =
            Session::new(self.client, registry, self.interface, self.overrides.stated, self.budget);
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
    fn provide(&mut self, name: &str, packages: &[CondaPackage]) -> Result<(), Failure> {
        let mut files: BTreeMap<Version, (RawFile, Arc<CoreMetadata>)> = BTreeMap::new();
        for package in packages {
            let Ok(version) = package.version.parse::<Version>() else { continue };
            let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
            let metadata = CoreMetadata::parse(&text, package.sha256.clone())
                .map_err(|error| Failure::input(format!("conda's `{}`: {error}", package.name)))?;
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

    /// Looks for a first release of each of these packages that PyPI's half admits, unless they are bound already. Returns whether
    /// one of them was not, and a conflict of one that has no such release.
    pub(super) fn admit(
        &self,
        asked: &Question<'_>,
        at: AtHand<'_>,
        names: &[&String],
        admitted: &mut Admitted,
    ) -> Result<(bool, Option<Box<Conflict>>), Failure> {
        let (mut is_new, mut last) = (false, None);
        for name in names {
            let Some((_, package)) = at.provided.get(*name).filter(|_| !admitted.has(name)) else { continue };
            let releases = Releases { name: package.name.clone(), known: BTreeSet::new(), is_whole: false };
            admitted.packages.insert((*name).clone(), releases);
            let conflict = self.admit_more(asked, at, name, admitted)?;
            let is_none = admitted.packages.get(*name).is_some_and(|own| own.known.is_empty());
            last = conflict.filter(|_| is_none).or(last);
            is_new = true;
        }
        Ok((is_new, last))
    }

    /// Looks for more releases of each package. `false`: there are no more.
    pub(super) fn admit_others(
        &self,
        asked: &Question<'_>,
        at: AtHand<'_>,
        admitted: &mut Admitted,
    ) -> Result<bool, Failure> {
        admitted.step = (2 * admitted.step).max(1);
        let open = admitted.packages.iter().filter(|(_, one)| !one.is_whole);
        let names: Vec<String> = open.map(|(name, _)| name.clone()).collect();
        let count =
            |admitted: &Admitted| -> usize { admitted.packages.values().map(|one| one.known.len()).sum() };
        let before = count(admitted);
        for name in &names {
            for _ in 0..admitted.step {
                if admitted.packages.get(name).is_none_or(|one| one.is_whole) {
                    break;
                }
                self.admit_more(asked, at, name, admitted)?;
            }
        }
        Ok(count(admitted) > before)
    }

    /// Looks for one more release of a package, whatever releases conda's half installs of the others. The conflict if there is none.
    fn admit_more(
        &self,
        asked: &Question<'_>,
        at: AtHand<'_>,
        name: &str,
        admitted: &mut Admitted,
    ) -> Result<Option<Box<Conflict>>, Failure> {
        let known = admitted.packages.get(name).map(|one| one.known.clone()).unwrap_or_default();
        let candidates = |own: &String| {
            let (_, package) = at.provided.get(own)?;
            let fits = |record: &CondaPackage| {
                let is_known =
                    own == name && record.version.parse().is_ok_and(|version| known.contains(&version));
                let is_for_it = python_of(record).is_none_or(|minor| minor == at.python.minor);
                !is_known && is_for_it && !at.excluded.contains_key(&record.file)
            };
            let all = at.records.of(&package.name).into_iter().filter(fits);
            Some((own.clone(), all.collect::<Vec<_>>()))
        };
        let mut found = Err(None);
        for others in [Others::AsInstalled, Others::Any, Others::Absent] {
            let is_free = |own: &str| own == name || matches!(others, Others::Any);
            let any: BTreeMap<String, Vec<CondaPackage>> =
                at.provided.keys().filter(|own| is_free(own)).filter_map(candidates).collect();
            if any.get(name).is_none_or(Vec::is_empty) {
                break;
            }
            let is_there = |own: &str| own == name || !matches!(others, Others::Absent);
            let present: Provided<'_> = at
                .provided
                .iter()
                .filter(|(own, _)| is_there(own))
                .map(|(own, (version, package))| (own.clone(), (version.clone(), *package)))
                .collect();
            let mut session = self.beside(at.half, &present, &any)?;
            let conflict = match session.solve(asked)? {
                Answer::Solution(solution) => {
                    let own = solution.packages.iter().find(|package| package.name == name);
                    found = Ok(own.map(|own| own.version.clone()));
                    break;
                }
                Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => conflict,
                Answer::TooLong | Answer::NeedMetadata(_) => {
                    admitted.is_cut = true;
                    break;
                }
            };
            let parties = conflict.reasons.iter().flat_map(|reason| &reason.parties).map(Party::as_str);
            let named: BTreeSet<&str> =
                parties.filter(|own| *own != name && at.provided.contains_key(*own)).collect();
            let has_others = !named.is_empty();
            // Of several others, some may be there and some not.
            admitted.is_cut |= matches!(others, Others::Any) && named.len() > 1;
            // What is absent says less than what is there and does not fit.
            if !matches!(others, Others::Absent) {
                found = Err(Some(conflict));
            }
            if !has_others {
                break;
            }
        }
        let Some(own) = admitted.packages.get_mut(name) else { return Ok(None) };
        match found {
            Ok(Some(version)) => {
                own.known.insert(version);
                Ok(None)
            }
            // Nothing of PyPI's half needs it: every release is one that it admits.
            Ok(None) => {
                let all = at.records.of(&own.name);
                own.known.extend(all.iter().filter_map(|record| record.version.parse::<Version>().ok()));
                own.is_whole = true;
                Ok(None)
            }
            Err(conflict) => {
                own.is_whole = true;
                Ok(conflict)
            }
        }
    }
}

/// Records that some lines of the request exclude, of packages of which they admit others for a Python.
pub(super) fn excluded_by(
    records: &Records,
    lines: &[&UserRequirement],
    channels: &[String],
    python: Python,
) -> BTreeMap<String, String> {
    let is_bounded = |user: &&&UserRequirement| {
        let name = user.name();
        user.specifiers().is_some_and(|bounds| !bounds.is_empty()) && !STACK_PACKAGES.contains(&name)
    };
    let lines: Vec<&UserRequirement> = lines.iter().filter(is_bounded).copied().collect();
    let names: BTreeSet<&str> = lines.iter().map(|user| user.name()).collect();
    let has_name = |package: &str| {
        let mut own = channels.iter().filter_map(|channel| pypi_name(channel, package));
        own.any(|own| names.contains(own.as_str()))
    };
    let records = records.named(has_name);
    let is_for_it = |record: &&CondaPackage| python_of(record).is_none_or(|minor| minor == python.minor);
    let admitted: BTreeSet<&str> = records
        .iter()
        .filter(is_for_it)
        .filter(|record| is_python_package(record) && excluding(&lines, record).is_none())
        .map(|record| record.name.as_str())
        .collect();
    let why = |record: &CondaPackage| {
        let line = excluding(&lines, record).filter(|_| admitted.contains(record.name.as_str()))?.line();
        let text = format!("{} {} is excluded by `{line}`", record.name, record.version);
        Some((record.file.clone(), text))
    };
    records.iter().filter_map(why).collect()
}
