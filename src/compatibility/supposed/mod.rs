//! The data with what may exist beside it: a refusal that does not hold there rests on what nobody read, and is no "no".
//!
//! What may exist is a row like any other, as wide as its neighbours leave it: a release that is newer than all known ones may be for
//! newer Pythons and GPUs and with newer libraries, but not for older drivers or GPUs; one that is older the other way round; one
//! between known ones is like those. Where nothing is known of a platform, any CUDA may be.

mod companions;
mod releases;
mod torch;

use pep440_rs::{Version, VersionSpecifiers};

use self::companions::Companions;
use self::torch::Builds;
use super::assumed::{assumed_in, with_assumed_code, without_unknown_gpus};
use super::code::UnknownGpu;
use super::unread::{Unread, UnreadBuild};
use super::unread_companion::UnreadCompanion;
use super::{Assumed, Needs, Policy, Violation};
use crate::model::evidence::Evidence;
use crate::model::host::Host;
use crate::model::request::{Request, STACK_PACKAGES};
use crate::model::solution::Solution;
use crate::registry::{Build, COMPANIONS, Cited, Registry};

/// What is supposed beside the known rows; each includes what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// That what no row says of known builds is as it should be: their code, the driver of their CUDA, a GPU that no row is about.
    Facts,
    /// Companions of torch that no row has.
    Companions,
    /// Builds of torch that no row has.
    Builds,
}

/// Something that would meet a request, if it existed or were as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Open {
    /// A build of torch.
    Build(UnreadBuild),
    /// A companion of torch.
    Companion(UnreadCompanion),
}

impl Open {
    /// The commands that read it, as a hint.
    pub fn how_to_read(&self) -> String {
        match self {
            Open::Build(build) => build.how_to_read(),
            Open::Companion(companion) => companion.how_to_read(),
        }
    }
}

impl std::fmt::Display for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Open::Build(build) => build.fmt(f),
            Open::Companion(companion) => companion.fmt(f),
        }
    }
}

/// A question about the stack, and what was read to answer it.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub registry: &'a Registry,
    pub host: &'a Host,
    pub request: &'a Request,
    /// Whether PyPI's pages were read: what they have is a row then.
    pub has_read_index: bool,
}

impl Question<'_> {
    /// The bounds on a package of the stack; none where it is not asked for.
    fn bounds(&self, package: &str) -> VersionSpecifiers {
        self.request.bounds_on(package).unwrap_or_else(VersionSpecifiers::empty)
    }

    fn admits(&self, index: &str) -> bool {
        self.request.only_index.as_ref().is_none_or(|only| only.value.admits(index))
    }
}

/// The data and the machine of a question, with what may exist.
pub struct Supposed<'a> {
    question: Question<'a>,
    /// The data.
    pub registry: Registry,
    /// The machine.
    pub host: Host,
    builds: Vec<torch::Possible>,
    companions: Vec<companions::Possible>,
}

impl<'a> Supposed<'a> {
    /// Supposes what could change the answer to a request; `None` if nothing could exist: no package of the stack is asked for, or
    /// it is taken from channels, whose records are all there is.
    pub fn new(
        registry: &'a Registry,
        host: &'a Host,
        request: &'a Request,
        has_read_index: bool,
        beyond: Beyond,
    ) -> Option<Supposed<'a>> {
        let is_asked = |name: &&str| request.bounds_on(name).is_some();
        if registry.has_stack_of_channels() || !STACK_PACKAGES.iter().any(is_asked) {
            return None;
        }
        let question = Question { registry, host, request, has_read_index };
        let all = Companions::new(question);
        let builds = match beyond {
            Beyond::Builds => Builds::new(question, &all.needed_torch()).possible(),
            _ => Vec::new(),
        };
        let companions = if beyond == Beyond::Facts { Vec::new() } else { all.possible(&builds) };
        let mut rows = registry.builds().to_vec();
        rows.iter_mut().for_each(|build| all.complete(build, &companions, false));
        rows.extend(builds.iter().map(|one| {
            let mut build = one.build.clone();
            all.complete(&mut build, &companions, true);
            cited(build)
        }));
        let beside = companions.iter().map(|one| cited(one.row.clone()));
        let beside = registry.companions().iter().cloned().chain(beside).collect();
        let mut supposed_host = without_unknown_gpus(registry, host.clone());
        let mut supposed =
            with_assumed_code(&registry.with_torch(rows, beside), [&supposed_host].into_iter());
        if floor_is_unknown(&supposed, &supposed_host, request) {
            // What the driver is known to be too old for stays out.
            let may_run = |build: &&Cited<Build>| {
                build.platform != host.system.platform
                    || fares(&supposed, &supposed_host, request, build) != Fares::Not
            };
            supposed = supposed.with_builds(supposed.builds().iter().filter(may_run).cloned().collect());
            supposed_host.driver = None;
        }
        Some(Supposed { question, registry: supposed, host: supposed_host, builds, companions })
    }

    /// The variants of builds of a release that may exist and that the machine runs, the newest CUDA first.
    fn variants_of(&self, version: &Version) -> Vec<String> {
        let platform = self.host.system.platform;
        let all = self.registry.builds().iter();
        let of_release = all.filter(|build| build.platform == platform && build.version == *version);
        let is_open = |build: &&Cited<Build>| {
            self.builds.iter().any(|one| one.build.is_same_build(build))
                && fares(&self.registry, &self.host, self.question.request, build) == Fares::Runs
        };
        // Builds of a release stand in the order of their CUDA.
        of_release.filter(is_open).map(|build| build.variant.clone()).rev().collect()
    }

    /// What an answer takes for granted; `None` if nothing.
    pub fn assumed_by(&self, solution: &Solution) -> Option<Open> {
        let Question { registry, host, request, .. } = self.question;
        let stack = solution.stack.as_ref()?;
        let is_it =
            |one: &&torch::Possible| one.build.version == stack.version && one.build.variant == stack.variant;
        let build = self
            .builds
            .iter()
            .find(is_it)
            .map(|one| UnreadBuild { variants: self.variants_of(&stack.version), ..one.told.clone() });
        let named =
            COMPANIONS.into_iter().filter_map(|name| stack.companions.get(name).map(|own| (name, own)));
        let is_for_torch = request.find("torch").is_some();
        if let Some(build) = build.clone().filter(|_| is_for_torch) {
            return Some(Open::Build(build));
        }
        for (package, version) in named {
            let is_it =
                |one: &&companions::Possible| one.row.package == package && one.row.version == *version;
            if let Some(one) = self.companions.iter().find(is_it) {
                let torch = one.told.torch.as_ref().map(|_| stack.version.clone());
                return Some(Open::Companion(UnreadCompanion { torch, ..one.told.clone() }));
            }
            let known =
                registry.companions().iter().find(|row| row.package == package && row.version == *version);
            if let (Some(_), Some(bounds)) = (&build, known.and_then(|row| row.torch.clone())) {
                return Some(Open::Companion(UnreadCompanion::of_torch(package, version, bounds)));
            }
        }
        if let Some(build) = build {
            return Some(Open::Build(build));
        }
        let told = |build| {
            Open::Build(match UnknownGpu::of(registry, host) {
                Some(_) => UnreadBuild { what: Unread::Gpu, newest: None, ..build },
                None => build,
            })
        };
        let known = registry.build(&stack.version, &stack.variant, solution.platform)?;
        match assumed_in(registry, solution, solution.platform) {
            Some(Assumed::Build(build)) => Some(told(build)),
            _ if fares(registry, host, request, known) == Fares::NotKnown => {
                Some(told(UnreadBuild { newest: None, ..UnreadBuild::of(known) }))
            }
            _ => None,
        }
    }
}

/// How a build fares on a machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fares {
    Runs,
    NotKnown,
    Not,
}

fn fares(registry: &Registry, host: &Host, request: &Request, build: &Cited<Build>) -> Fares {
    let found = Needs::of_torch(build).violations(registry, host, Policy::of(request));
    match found.iter().all(Violation::is_unknown) {
        _ if found.is_empty() => Fares::Runs,
        true => Fares::NotKnown,
        false => Fares::Not,
    }
}

/// Whether a build would run if its CUDA took the driver, and no row says that.
fn floor_is_unknown(registry: &Registry, host: &Host, request: &Request) -> bool {
    let mut of_platform = registry.builds().iter().filter(|build| build.platform == host.system.platform);
    of_platform.any(|build| {
        let found = Needs::of_torch(build).violations(registry, host, Policy::of(request));
        found.iter().all(Violation::is_unknown)
            && found.iter().any(|one| matches!(one, Violation::DriverUnknown(_)))
    })
}

fn cited<R>(row: R) -> Cited<R> {
    Cited::new(row, Evidence::Documented, Vec::new())
}

/// The oldest and the newest of versions.
fn span<'v>(versions: impl Iterator<Item = &'v Version>) -> Option<(Version, Version)> {
    let all: Vec<&Version> = versions.collect();
    Some(((*all.iter().min()?).clone(), (*all.iter().max()?).clone()))
}
