//! Conflicts of the halves in words: why conda's half has no answer, and what conda has to do with one of PyPI's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pep440_rs::Version;

use super::purpose::explained_until;
use super::requests::{Provided, applicable, excluding, question, unsolved};
use super::ways::requested_for;
use super::{Half, Session};
use crate::conda::{self, CondaError, CondaQuestion, Explained, Records, Written};
use crate::model::conda::CondaSpec;
use crate::model::conflict::{Change, Conflict, Party, Reason, ReasonKind};
use crate::model::request::{Origin, UserRequirement};
use crate::model::source::CondaPackage;
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::model::wheel::Python;
use crate::session::failure::Failure;
use crate::solver::Question;
use crate::solver::allowed_pythons;

impl Session<'_> {
    /// Why conda's half has no answer for any Python.
    pub(super) fn conflict_of_conda(
        &self,
        records: &Records,
        asked: &Question<'_>,
        unfit: BTreeMap<String, String>,
        (half, others): (Option<&Half>, &BTreeMap<String, String>),
    ) -> Result<Conflict, Failure> {
        let mut others = others.clone();
        others.extend(unfit);
        let mut question = question(asked, None, &others, (self, !records.of("pip").is_empty()), half);
        let until = self.explains_until.unwrap_or_else(explained_until);
        // The Pythons that are allowed, as one bound.
        let pythons = allowed_pythons(self.registry, &asked.request);
        let constraints = applicable(&asked.request.constraints, &pythons, asked.host.system.platform);
        let any: Vec<String> = pythons.iter().map(|python| format!("3.{}.*", python.minor)).collect();
        question.specs.push(format!("python {}", any.join("|")));
        let of_spec = |spec: &CondaSpec| Written { text: spec.text.clone(), origin: spec.origin.clone() };
        let mut written: Vec<Option<Written>> =
            asked.request.conda.specs.iter().map(|spec| Some(of_spec(spec))).collect();
        // The build of the stack is chosen by what the machine runs, not asked for as it is.
        written.resize(question.specs.len(), None);
        if let (Some(last), Some(python)) = (written.last_mut(), &asked.request.python) {
            let text = format!("Python {}", python.text);
            *last = Some(Written { text, origin: python.origin.clone() });
        }
        let drivers = drivers(self.registry);
        let driver = asked.host.driver.as_ref();
        let driver = driver.map_or_else(|| "the driver".to_owned(), |d| format!("driver {}", d.version));
        let without_gpu = match asked.host.has_no_gpu() {
            true => "the machine has no NVIDIA GPU",
            false => "no NVIDIA GPU is stated for the machine, and none is assumed",
        };
        let told = conda::Asked {
            written: &written,
            drivers: &drivers,
            driver: &driver,
            without_gpu,
            target: "default",
            channels: &asked.request.conda.channels,
            limit: &|| until.saturating_duration_since(Instant::now()),
        };
        let Explained { mut conflict, core } = match conda::explain(records, &question, &told) {
            // Nothing is proved.
            Err(CondaError::TooLong | CondaError::Solvable) => {
                return Ok(cut_off(not_explained(&asked.request.conda.specs)));
            }
            explained => explained.map_err(unsolved)?,
        };
        if asked.request.python.is_none() && core.contains(&(question.specs.len() - 1)) {
            let minors = || pythons.iter().map(|python| python.minor);
            let ends = minors().min().zip(minors().max());
            let series = ends.map_or(String::new(), |(first, last)| format!(" 3.{first} to 3.{last}"));
            let text = format!("envlock solves for Python{series}");
            conflict.reasons.push(Reason::fact(text).about([Party::Python]));
        }
        conflict.reasons.extend(constraints_of(&conflict, &constraints, records, &question));
        // Where the build of the stack has a part in it.
        let asked_for = asked.request.conda.specs.len();
        let is_of_half =
            |half: &&Half| core.iter().any(|i| (asked_for..asked_for + half.specs.len()).contains(i));
        conflict.reasons.extend(half.filter(is_of_half).map(|half| half.stack.reason()));
        Ok(conflict)
    }
}

/// What is asked of conda's half, where it was not found why it has no answer.
fn not_explained(specs: &[CondaSpec]) -> Conflict {
    Conflict { cut: true, ..Conflict::of("").because(specs.iter().map(required)) }
}

/// The constraints that leave out records of the packages that a conflict is about.
fn constraints_of(
    conflict: &Conflict,
    constraints: &[&UserRequirement],
    records: &Records,
    question: &CondaQuestion,
) -> Vec<Reason> {
    let parties: Vec<&Party> = conflict.reasons.iter().flat_map(|reason| &reason.parties).collect();
    let left_out = parties.into_iter().flat_map(|party| records.of(party.as_str()));
    let left_out: Vec<CondaPackage> =
        left_out.filter(|record| question.excluded.contains_key(&record.file)).collect();
    let is_one = |bound: &&&UserRequirement| {
        let mut all = left_out.iter().filter_map(|record| excluding(constraints, record));
        all.any(|own| std::ptr::eq(own, **bound))
    };
    let told = constraints.iter().filter(is_one).map(|bound| {
        let text = format!("you constrain {}", clean(&bound.requirement.to_string(), 120));
        Reason::asked(&bound.origin, false, text).about_package(bound.name())
    });
    told.collect()
}

/// Whether a reason is the Python that is tried for both halves, which nobody asked for.
fn is_tried(reason: &Reason) -> bool {
    let is_asked = matches!(&reason.kind, ReasonKind::Asked { origin: Origin::Question, .. });
    is_asked && reason.parties.contains(&Party::Python)
}

/// Whether a conflict rests on the Python that is tried.
pub(super) fn rests_on_tried(conflict: &Conflict) -> bool {
    let mut reasons = std::iter::once(conflict).chain(&conflict.also).flat_map(|one| &one.reasons);
    reasons.any(|reason| reason.parties.contains(&Party::Python))
}

/// Says of the Python that is tried where it comes from.
pub(super) fn tell_tried(mut conflict: Box<Conflict>, python: Python) -> Box<Conflict> {
    let also = conflict.also.iter_mut().flat_map(|one| &mut one.reasons);
    for reason in conflict.reasons.iter_mut().chain(also).filter(|reason| is_tried(reason)) {
        reason.text = format!("Python 3.{} comes from conda", python.minor);
        reason.kind = ReasonKind::Fact;
        reason.source = "one of the channels' Pythons".to_owned();
    }
    conflict
}

/// A conflict of PyPI's half without ways out to another Python: it is chosen over both halves, and the channels may not have it.
pub(super) fn without_pythons(mut conflict: Box<Conflict>) -> Box<Conflict> {
    conflict.would_work_if.retain(|way| !changes_python(&way.change));
    conflict.resolves_all.retain(|way| !changes_python(&way.change));
    conflict
}

/// A conflict where the search was cut, which says so.
pub(super) fn cut_off(conflict: Conflict) -> Conflict {
    let headline = "no answer was found: the search over both halves was cut at its limit".to_owned();
    Conflict { headline, ..conflict.cut() }
}

/// The packages of conda that a conflict of PyPI's half names, by their names on PyPI.
pub(super) fn named_by<'p, 'c>(
    conflict: &Conflict,
    provided: &'p Provided<'c>,
) -> Vec<(&'p String, &'p (Version, &'c CondaPackage))> {
    let parties: BTreeSet<&str> =
        conflict.reasons.iter().flat_map(|reason| &reason.parties).map(Party::as_str).collect();
    provided.iter().filter(|(name, _)| parties.contains(name.as_str())).collect()
}

/// Whether a conflict names every party that another one names, and as many lines of the request.
pub(super) fn names_all(conflict: &Conflict, other: &Conflict) -> bool {
    let asked = |of: &Conflict| {
        of.reasons.iter().filter(|reason| matches!(reason.kind, ReasonKind::Asked { .. })).count()
    };
    let parties = |of: &Conflict| -> BTreeSet<String> {
        of.reasons.iter().flat_map(|reason| &reason.parties).map(|party| party.as_str().to_owned()).collect()
    };
    parties(conflict).is_superset(&parties(other)) && asked(conflict) >= asked(other)
}

/// A conflict of PyPI's half about packages that conda installs: what conda has to do with it.
pub(super) fn tell_of_conda(
    mut conflict: Box<Conflict>,
    named: &[(&String, &(Version, &CondaPackage))],
    provided: &Provided<'_>,
    (asked, packages): (&Question<'_>, &[CondaPackage]),
) -> Box<Conflict> {
    let specs = || asked.request.conda.specs.iter().map(|spec| spec.name());
    let of = |package: &CondaPackage| requested_for(&package.name, specs(), packages);
    let reasons: Vec<Reason> =
        named.iter().map(|(_, (_, package))| comes_from_conda(package, of(package))).collect();
    // Its only version is that of conda.
    let is_own = |party: &Party| provided.contains_key(party.as_str());
    let is_of_index =
        |reason: &Reason| reason.kind != ReasonKind::Available || !reason.parties.iter().any(is_own);
    conflict.reasons.retain(is_of_index);
    // Other causes, and what removes all of them, were found for the releases that conda chose: over both halves there may be
    // none.
    conflict.also.clear();
    conflict.resolves_all.clear();
    conflict.reasons.extend(reasons);
    // What the request says of the release that conda installs.
    let is_bound = |spec: &&CondaSpec| {
        let name = spec.name().to_lowercase();
        spec.text != name && named.iter().any(|(_, (_, package))| package.name == name)
    };
    conflict.reasons.extend(asked.request.conda.specs.iter().filter(is_bound).map(required));
    // A bound that PyPI's releases would meet is not met by conda's one.
    for way in &mut conflict.would_work_if {
        if let (Change::Below { package, .. }, Some((version, _))) =
            (&way.change, provided.get(way.party.as_str()))
        {
            way.change = Change::Release { package: package.clone(), version: version.clone() };
        }
    }
    for way in conflict.would_work_if.iter_mut().filter(|way| !way.stack.contains_key("torch")) {
        way.gives = String::new();
    }
    conflict
}

/// Whether a change names a Python.
fn changes_python(change: &Change) -> bool {
    match change {
        Change::Python(_) => true,
        Change::Together(changes) => changes.iter().any(changes_python),
        _ => false,
    }
}

/// A match spec of the request, as a reason.
pub(super) fn required(spec: &CondaSpec) -> Reason {
    let text = format!("you require {}", clean(&spec.text, 120));
    Reason::asked(&spec.origin, false, text).about_package(spec.name().to_lowercase())
}

/// That conda installs a package, and for which package that it is asked for.
fn comes_from_conda(package: &CondaPackage, requested: Option<&str>) -> Reason {
    let mut parties = vec![Party::package(package.name.as_str())];
    let by = requested.filter(|name| *name != package.name);
    parties.extend(by.map(|name| Party::package(name.to_lowercase())));
    let by = by.map(|name| format!(" for {name}, which `[conda]` asks for")).unwrap_or_default();
    let text = format!("{} {} is installed by conda{by}", package.name, package.version);
    Reason::fact(text).about(parties).by(&package.channel)
}

/// The CUDA versions that drivers support, each with the first driver branch.
fn drivers(registry: &crate::registry::Registry) -> Vec<(String, DottedVersion)> {
    let of = |branch: &crate::registry::Cited<crate::registry::Branch>| {
        let cuda = format!("{}.{}", branch.cuda.major, branch.cuda.minor);
        Some((cuda, branch.branch.to_string().parse().ok()?))
    };
    registry.branches().iter().filter_map(of).collect()
}
