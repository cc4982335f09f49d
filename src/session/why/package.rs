//! `why PKG`: why a package is locked at its version, and why no newer one is possible.

use std::collections::BTreeSet;

use pep440_rs::Version;
use serde::{Serialize, Serializer};

use super::{Subject, is_the_question, question};
use crate::lockfile;
use crate::model::capability::Via;
use crate::model::choice::Choice;
use crate::model::conflict::{Conflict, Party, Reason, ReasonKind};
use crate::model::level::Level;
use crate::model::request::Origin;
use crate::model::requirement::parse_requirement;
use crate::model::secrets::shown_requirement;
use crate::model::solution::{Answer, ChosenPackage, Edge, Note, Solution};
use crate::model::source::Source;
use crate::model::text::clean;
use crate::registry::STACK_PACKAGES;
use crate::session::failure::{Failure, TOO_LONG};
use crate::session::{fetch, learning};

/// At most this many of the other packages that would change are listed.
const MAX_LISTED_CHANGES: usize = 4;

/// Why a package is locked at its version.
#[derive(Serialize)]
pub(crate) struct PackageAnswer {
    pub name: String,
    pub version: Version,
    #[serde(serialize_with = "as_text")]
    pub reason: Choice,
    /// The user's requirement, if there is one.
    pub asked: Option<Asked>,
    /// The packages from a request to this one.
    pub chain: Vec<String>,
    pub needed_by: Vec<Needed>,
    pub newer: Newer,
    /// Only the text has the rest.
    #[serde(skip)]
    pub version_with_variant: String,
    #[serde(skip)]
    pub source: Source,
    /// How torch's build supports each GPU of the machine, one sentence each.
    #[serde(skip)]
    pub machine: Vec<String>,
    /// Whether the lock has other targets, which are not considered.
    #[serde(skip)]
    pub alone: bool,
}

#[derive(Serialize)]
pub(crate) struct Asked {
    pub requirement: String,
    pub origin: Origin,
}

/// A package that requires this one.
#[derive(Serialize)]
pub(crate) struct Needed {
    pub name: String,
    #[serde(skip)]
    pub version: String,
    pub requirement: String,
    /// Whether its metadata says so; else the registry does.
    #[serde(skip)]
    pub is_declared: bool,
}

/// Whether a newer release is possible, of a package or of Python.
pub(crate) enum Newer<V = Version> {
    /// No: what stands against it, without the question itself and requirements that allow newer releases.
    No(Vec<Reason>),
    /// The version, and what else would change.
    Fits(V, Vec<String>),
    Unknown(String),
}

impl Serialize for Newer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Shape<'n> {
            No { possible: bool, reasons: Vec<&'n str> },
            Fits { possible: bool, version: &'n Version, with: &'n [String] },
            Unknown { possible: Option<bool>, why: &'n str },
        }
        match self {
            Newer::No(reasons) => {
                Shape::No { possible: false, reasons: reasons.iter().map(|r| r.text.as_str()).collect() }
            }
            Newer::Fits(version, with) => Shape::Fits { possible: true, version, with },
            Newer::Unknown(why) => Shape::Unknown { possible: None, why },
        }
        .serialize(serializer)
    }
}

fn as_text<S: Serializer>(value: &Choice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Subject<'_> {
    pub(super) fn why_package(&self, package: &ChosenPackage) -> Result<PackageAnswer, Failure> {
        let name = package.name.as_str();
        let asked = self.request.find(name);
        let roots: BTreeSet<String> = self.request.requirements.iter().map(|r| r.name().to_owned()).collect();
        let chain = lockfile::chain(&self.target.packages, &roots, name);
        let needed = |(from, edge): &(&str, &Edge)| {
            let version = self.target.package(from).map(|package| &package.version);
            let undeclared = version.map(|version| self.registry.undeclared(from, version));
            let is_same =
                |line: &String| parse_requirement(line).is_ok_and(|own| own.to_string() == edge.requirement);
            Needed {
                name: (*from).to_owned(),
                version: version.map(ToString::to_string).unwrap_or_default(),
                requirement: edge.requirement.clone(),
                is_declared: !undeclared.iter().flatten().any(is_same),
            }
        };
        let newer = self.newer(package)?;
        // What was the newest when it was locked, or was held by an earlier lock. Targets share a package, and its reason is
        // that of the first.
        let reason = match (&newer, &package.reason) {
            (Newer::Fits(..), reason) if reason.is_newest() => Choice::Said("locked".to_owned()),
            (_, Choice::NewestFor { package: other, .. }) if self.target.package(other).is_none() => {
                Choice::Newest
            }
            (_, reason) => reason.clone(),
        };
        Ok(PackageAnswer {
            name: name.to_owned(),
            version: package.version.clone(),
            reason,
            asked: asked.map(|a| Asked {
                requirement: shown_requirement(&a.requirement.to_string()),
                origin: a.origin.clone(),
            }),
            chain: chain.unwrap_or_default().into_iter().map(str::to_owned).collect(),
            needed_by: lockfile::needed_by(self.target, name).iter().map(needed).collect(),
            newer,
            version_with_variant: package.version_with_variant(),
            source: package.source.clone(),
            machine: if name == "torch" { self.gpus() } else { Vec::new() },
            alone: self.alone,
        })
    }

    /// How the framework's build supports each GPU of the machine.
    fn gpus(&self) -> Vec<String> {
        let Some(stack) = &self.target.stack else { return Vec::new() };
        let known = self.host.gpus.iter().flatten().filter_map(|gpu| Some((gpu, gpu.capability?)));
        let sentence = |(gpu, capability): (&crate::model::host::Gpu, _)| {
            let row = self.target.envelope.coverage.iter().find(|c| c.compute_capability == capability);
            if self.target.envelope.coverage.is_empty() {
                return format!("{}: whether {} runs on it is not known", gpu.label(), stack.variant);
            }
            let Some(row) = row else {
                return format!("{}: {} has no code for it", gpu.label(), stack.variant);
            };
            let how = match row.via {
                Via::Sass => "has machine code for it",
                Via::Ptx => "has PTX for it",
            };
            let driver = row.driver_min.as_ref().map(|v| format!(", driver >= {v}")).unwrap_or_default();
            format!("{}: {} {how}{driver}", gpu.label(), stack.variant)
        };
        known.map(sentence).collect()
    }

    /// Solves for a newer release of a package than the locked one.
    fn newer(&self, package: &ChosenPackage) -> Result<Newer, Failure> {
        let mut overrides = self.request.overrides.iter();
        if let Some(user) = overrides.find(|user| user.name() == package.name) {
            let line = clean(&shown_requirement(&user.requirement.to_string()), 120);
            let own = Reason::asked(&user.origin, true, format!("you override it with `{line}`"));
            return Ok(Newer::No(vec![own.about_package(&package.name)]));
        }
        let plain = package.version.clone().without_local();
        let mut request = self.request.clone();
        request.requirements.push(question(&format!("{}>{plain}", package.name))?);
        // The other packages keep their locked versions where possible.
        let mut kept = self.target.preferences();
        kept.versions.remove(&package.name);
        let newer = match self.solve(&request, &Party::package(&package.name), &kept) {
            Ok(Answer::Solution(solution)) if !solution.known_failures.is_empty() => {
                Newer::No(failures(&solution, &Party::package(&package.name)))
            }
            Ok(Answer::Solution(solution)) => match solution.packages.iter().find(|p| p.name == package.name)
            {
                Some(newer) => {
                    let mut changes = self.moved(&solution, &package.name);
                    if newer.build.is_some() && package.build.is_none() {
                        changes.insert(0, "a build from source".to_owned());
                    }
                    // What changes most stands first.
                    if solution.python.minor != self.target.python.minor {
                        changes.insert(0, format!("Python {} -> {}", self.target.python, solution.python));
                    }
                    Newer::Fits(newer.version.clone(), changes)
                }
                // Another package becomes so old that it does not need this one.
                None => Newer::Unknown(
                    "the solution found does not need it and has older versions of other packages".to_owned(),
                ),
            },
            Ok(Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _)) => Newer::No(told(*conflict)),
            Ok(Answer::TooLong | Answer::NeedMetadata(_)) => Newer::Unknown(TOO_LONG.to_owned()),
            Err(error) => Newer::Unknown(error.message),
        };
        let is_own = |reason: &Reason| matches!(reason.kind, ReasonKind::Asked { .. });
        match newer {
            // What the request itself excludes, no release that is read would change.
            Newer::No(reasons) if !reasons.iter().any(is_own) => {
                Ok(self.unread(&package.name, &plain).map_or(Newer::No(reasons), Newer::Unknown))
            }
            newer => Ok(newer),
        }
    }

    /// Why no row says that there is no newer release of a package of the stack.
    fn unread(&self, name: &str, above: &Version) -> Option<String> {
        if !STACK_PACKAGES.contains(&name) || self.registry.has_stack_of_channels() {
            return None;
        }
        if self.target.level == Level::Stack {
            let date = &self.registry.meta().date;
            return Some(format!(
                "the registry of {date} has none that fits; no index is asked for a lock of the stack alone"
            ));
        }
        let client = fetch::client(self.global, self.project, self.index_url).ok()?;
        match learning::newest_unread(client, self.registry, (name, self.target.platform), above) {
            Ok(unread) => {
                let unread = unread?;
                Some(format!(
                    "the index has {name} {unread}, which the registry does not know: `envlock resolve --upgrade={name}` reads it"
                ))
            }
            Err(error) => Some(error.message),
        }
    }

    /// The packages, except one, whose version in a solution differs from the lock: those of the stack first, then those
    /// that are requested.
    pub(super) fn moved(&self, solution: &Solution, except: &str) -> Vec<String> {
        let mut moved: Vec<(&ChosenPackage, &ChosenPackage)> = Vec::new();
        for package in solution.packages.iter().filter(|p| p.name != except) {
            let Some(locked) = self.target.package(&package.name) else { continue };
            if locked.version != package.version {
                moved.push((package, locked));
            }
        }
        moved.sort_by_key(|(package, _)| {
            let is_stack = STACK_PACKAGES.contains(&package.name.as_str());
            (!is_stack, self.request.find(&package.name).is_none(), package.name.clone())
        });
        let change = |(package, locked): (&ChosenPackage, &ChosenPackage)| {
            let is_source = package.build.is_some() && locked.build.is_none();
            let source = if is_source { " from source" } else { "" };
            format!("{} {} -> {}{source}", package.name, locked.version, package.version)
        };
        let mut out: Vec<String> = moved.into_iter().map(change).collect();
        let more = out.len().saturating_sub(MAX_LISTED_CHANGES);
        out.truncate(MAX_LISTED_CHANGES);
        if more > 0 {
            out.push(format!("{more} more"));
        }
        out
    }
}

/// The reasons against a newer release, without the question itself and requirements that allow newer releases.
pub(super) fn told(conflict: Conflict) -> Vec<Reason> {
    let counts = |reason: &Reason| match &reason.kind {
        ReasonKind::Asked { bounds_above, .. } => *bounds_above && !is_the_question(reason),
        ReasonKind::Fact
        | ReasonKind::Available
        | ReasonKind::NoProject { .. }
        | ReasonKind::UnknownMetadata { .. }
        | ReasonKind::Stub { .. } => true,
    };
    conflict.reasons.into_iter().filter(counts).collect()
}

/// What is known to fail in a solution, as reasons against it.
pub(super) fn failures(solution: &Solution, party: &Party) -> Vec<Reason> {
    let reason = |note: &Note| {
        let fact = Reason::fact(&note.text).about([party.clone()]);
        fact.by(note.source.clone().unwrap_or_default())
    };
    solution.known_failures.iter().map(reason).collect()
}
