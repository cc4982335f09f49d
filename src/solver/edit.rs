//! One change of a question. A way out of a conflict is an edit with which the question was solved.

use std::collections::BTreeSet;
use std::ops::Bound;

use pep440_rs::{Operator, Version, VersionSpecifiers};
use pep508_rs::{ExtraName, VersionOrUrl};

use super::question::Question;
use crate::model::conflict::{Change, Party};
use crate::model::host::Gpu;
use crate::model::limit::{Limit, Origin};
use crate::model::only::Only;
use crate::model::request::{Preferences, Request, STACK_PACKAGES, UserRequirement};
use crate::model::solution::Solution;
use crate::model::text::clean;
use crate::model::variant::CPU;
use crate::model::version::DottedVersion;

/// One change of a question. A requirement or constraint is named by its value: two equal ones are one.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// A required package in any version.
    AnyVersion(UserRequirement),
    /// A required package with other extras.
    Extras(UserRequirement, Vec<ExtraName>),
    /// A required package without one of its extras.
    WithoutExtra(UserRequirement, ExtraName),
    /// The request without a requirement.
    Without(UserRequirement),
    /// The request without a constraint.
    WithoutConstraint(UserRequirement),
    /// The request without an override.
    WithoutOverride(UserRequirement),
    /// A required package in a release near the one that was asked for.
    Near(UserRequirement, VersionSpecifiers),
    /// Nothing is asked about these packages.
    WithoutPackages(BTreeSet<String>),
    /// These packages are required in any version, without extras.
    AnyVersionOf(BTreeSet<String>),
    /// One more constraint.
    Constrain(UserRequirement),
    /// No limit on a part of the stack, the Python, the indexes or the time of upload.
    Unlimited(Limited),
    /// The releases of the stack without the builds that their versions name: `==1.13.1` of `==1.13.1+cu116`.
    AnyBuild,
    /// Builds that use no GPU.
    CpuBuild,
    /// Packages of these indexes alone.
    OnlyIndex(Only),
    /// A driver.
    Driver(DottedVersion),
    /// A cuda-compat package with this user-mode driver, on a kernel driver of a branch.
    CudaCompat {
        /// `cuda-compat-12-4`.
        package: String,
        /// The kernel driver's branch.
        branch: u32,
        /// The user-mode driver that it brings.
        user_mode: DottedVersion,
    },
    /// Some of the machine's GPUs.
    OnlyGpus(Vec<Gpu>),
    /// Something is not known of the machine, so that it limits nothing.
    Unknown(HostFact),
    /// Other versions are preferred.
    Keep(Box<Preferences>),
    /// All of them.
    Together(Vec<Edit>),
}

/// What a request can limit beside the versions of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// CUDA.
    Cuda,
    /// cuDNN.
    Cudnn,
    /// NCCL.
    Nccl,
    /// The CUDA variant.
    Variant,
    /// The driver policy: compatibility mode is allowed.
    DriverPolicy,
    /// The Python.
    Python,
    /// The indexes.
    Index,
    /// Until when files were uploaded.
    Time,
    /// Source distributions are built.
    Sources,
}

/// What is known of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostFact {
    /// The driver.
    Driver,
    /// The GPUs.
    Gpus,
    /// The C library.
    Glibc,
}

impl Question<'_> {
    /// The question after an edit.
    pub fn with(&self, edit: &Edit) -> Question<'_> {
        let mut edited = self.by_ref();
        edit.apply(&mut edited);
        edited
    }
}

impl Edit {
    /// A bound on a package that only the search has: no reason quotes it. `None` if the version cannot be one of a bound.
    pub fn bound(name: &str, operator: &str, version: &Version) -> Option<Edit> {
        let requirement = format!("{name}{operator}{version}").parse().ok()?;
        Some(Edit::Constrain(UserRequirement::new(requirement, Origin::Question)))
    }

    /// Lets go of what a conflict rests on; nothing of what cannot be let go of: platforms and packages.
    pub fn without_parties<'p>(parties: impl IntoIterator<Item = &'p Party>) -> Edit {
        let of_party = |party: &Party| {
            Some(match party {
                Party::Driver => Edit::Unknown(HostFact::Driver),
                Party::Gpu => Edit::Unknown(HostFact::Gpus),
                Party::Glibc => Edit::Unknown(HostFact::Glibc),
                Party::Python => Edit::Unlimited(Limited::Python),
                Party::Cuda => Edit::Unlimited(Limited::Cuda),
                Party::Cudnn => Edit::Unlimited(Limited::Cudnn),
                Party::Nccl => Edit::Unlimited(Limited::Nccl),
                Party::Variant => Edit::Unlimited(Limited::Variant),
                Party::Index => Edit::Unlimited(Limited::Index),
                Party::Platform | Party::Package(_) => return None,
            })
        };
        Edit::Together(parties.into_iter().filter_map(of_party).collect())
    }

    /// Makes the change.
    pub fn apply(&self, question: &mut Question<'_>) {
        match self {
            Edit::Driver(version) => {
                if let Some(driver) = &mut question.host.to_mut().driver {
                    // A branch alone is open to each of its releases, and the change is to the first one.
                    let first =
                        format!("{version}.0").parse().ok().filter(|_| !version.as_str().contains('.'));
                    driver.version = first.unwrap_or_else(|| version.clone());
                    driver.cuda = None;
                }
            }
            Edit::CudaCompat { user_mode, .. } => {
                if let Some(driver) = &mut question.host.to_mut().driver {
                    driver.compat = Some(user_mode.clone());
                    driver.cuda = None;
                }
            }
            Edit::OnlyGpus(gpus) => question.host.to_mut().gpus = Some(gpus.clone()),
            Edit::Unknown(HostFact::Driver) => question.host.to_mut().driver = None,
            Edit::Unknown(HostFact::Gpus) => question.host.to_mut().gpus = None,
            Edit::Unknown(HostFact::Glibc) => question.host.to_mut().system.libc = None,
            Edit::Keep(preferences) => question.preferences.to_mut().clone_from(preferences),
            Edit::Together(edits) => edits.iter().for_each(|edit| edit.apply(question)),
            of_request => of_request.change_request(question.request.to_mut()),
        }
    }

    fn change_request(&self, request: &mut Request) {
        let own = |request: &mut Request, meant: &UserRequirement, change: &dyn Fn(&mut UserRequirement)| {
            request.requirements.iter_mut().filter(|user| *user == meant).for_each(change);
        };
        match self {
            Edit::AnyVersion(meant) => own(request, meant, &|user| user.requirement.version_or_url = None),
            Edit::Extras(meant, extras) => {
                own(request, meant, &|user| user.requirement.extras.clone_from(extras));
            }
            Edit::WithoutExtra(meant, extra) => {
                own(request, meant, &|user| user.requirement.extras.retain(|own| own != extra));
            }
            Edit::Without(meant) => request.requirements.retain(|user| user != meant),
            Edit::WithoutConstraint(meant) => request.constraints.retain(|bound| bound != meant),
            Edit::WithoutOverride(meant) => request.overrides.retain(|own| own != meant),
            Edit::Near(meant, specifiers) => own(request, meant, &|user| {
                user.requirement.version_or_url = Some(VersionOrUrl::VersionSpecifier(specifiers.clone()));
            }),
            Edit::WithoutPackages(names) => {
                request.requirements.retain(|user| !names.contains(user.name()));
                request.constraints.retain(|bound| !names.contains(bound.name()));
            }
            Edit::AnyVersionOf(names) => {
                request.constraints.retain(|bound| !names.contains(bound.name()));
                for user in request.requirements.iter_mut().filter(|user| names.contains(user.name())) {
                    user.requirement.version_or_url = None;
                    user.requirement.extras.clear();
                }
            }
            Edit::Constrain(more) => request.constraints.push(more.clone()),
            Edit::Unlimited(limited) => limited.lift(request),
            Edit::AnyBuild => any_build(request),
            Edit::CpuBuild => {
                request.variant = Some(Limit { value: CPU.to_owned(), origin: Origin::Question });
            }
            Edit::OnlyIndex(only) => {
                request.only_index = Some(Limit { value: only.clone(), origin: Origin::Question });
            }
            Edit::Driver(_)
            | Edit::CudaCompat { .. }
            | Edit::OnlyGpus(_)
            | Edit::Unknown(_)
            | Edit::Keep(_)
            | Edit::Together(_) => {}
        }
    }

    /// The party that has to change.
    pub fn party(&self) -> Party {
        match self {
            Edit::AnyVersion(user)
            | Edit::Extras(user, _)
            | Edit::WithoutExtra(user, _)
            | Edit::Without(user)
            | Edit::WithoutConstraint(user)
            | Edit::WithoutOverride(user)
            | Edit::Near(user, _)
            | Edit::Constrain(user) => Party::package(user.name()),
            Edit::WithoutPackages(names) | Edit::AnyVersionOf(names) => {
                Party::package(names.first().cloned().unwrap_or_default())
            }
            Edit::Unlimited(limited) => limited.party(),
            Edit::AnyBuild | Edit::CpuBuild => Party::Variant,
            Edit::OnlyIndex(_) => Party::Index,
            Edit::Driver(_) | Edit::CudaCompat { .. } | Edit::Unknown(HostFact::Driver) => Party::Driver,
            Edit::OnlyGpus(_) | Edit::Unknown(HostFact::Gpus) => Party::Gpu,
            Edit::Unknown(HostFact::Glibc) => Party::Glibc,
            Edit::Keep(_) => Party::Platform,
            Edit::Together(edits) => edits.first().map_or(Party::Platform, Edit::party),
        }
    }

    /// Whether it lets other indexes in: what they have may not be known.
    pub fn opens_indexes(&self) -> bool {
        *self == Edit::Unlimited(Limited::Index)
    }

    /// The changes that a solution after the edit shows: several of one that is several.
    pub fn changes(&self, question: &Question<'_>, solution: &Solution) -> Vec<Change> {
        match self {
            Edit::Together(edits) => edits.iter().flat_map(|edit| edit.changes(question, solution)).collect(),
            one => one.change(question, solution).into_iter().collect(),
        }
    }

    /// The change of a question's request or machine that a solution after the edit shows; `None` if the solution does not
    /// need it, or it is none that a person makes.
    pub fn change(&self, question: &Question<'_>, solution: &Solution) -> Option<Change> {
        let request = &question.request;
        Some(match self {
            Edit::AnyVersion(user) => other_version(user, solution),
            Edit::Extras(user, extras) => Change::Extras {
                package: user.name().to_owned(),
                extras: extras.iter().map(ToString::to_string).collect(),
            },
            Edit::WithoutExtra(user, extra) => {
                Change::WithoutExtra { package: user.name().to_owned(), extra: extra.to_string() }
            }
            Edit::Without(user) => Change::WithoutRequest(without(user, request)),
            Edit::WithoutConstraint(user) => Change::WithoutConstraint(Box::new(user.clone())),
            Edit::WithoutOverride(user) => Change::WithoutOverride(clean(&user.requirement.to_string(), 60)),
            Edit::Near(user, _) => Change::Release {
                package: user.name().to_owned(),
                version: solution.packages.iter().find(|own| own.name == user.name())?.version.clone(),
            },
            Edit::Unlimited(limited) => limited.change(request, solution)?,
            Edit::AnyBuild => {
                Change::WithoutLimit { what: "the build in the versions", value: named_build(request)? }
            }
            Edit::CpuBuild => Change::Variant(CPU.to_owned()),
            Edit::Driver(version) => Change::Driver(version.clone()),
            Edit::CudaCompat { package, branch, .. } => {
                Change::CudaCompat { package: package.clone(), branch: *branch }
            }
            Edit::OnlyGpus(gpus) => {
                let mut labels: Vec<String> = gpus.iter().map(Gpu::label).collect();
                labels.dedup();
                Change::OnlyGpus { indexes: gpus.iter().map(|gpu| gpu.index).collect(), labels }
            }
            Edit::Unknown(HostFact::Gpus) => Change::OtherGpu(capabilities_with_code(question, solution)?),
            Edit::Unknown(HostFact::Glibc) => Change::Glibc(solution.envelope.glibc.clone()?),
            Edit::Together(edits) => {
                let changes = edits.iter().map(|edit| edit.change(question, solution));
                Change::Together(changes.collect::<Option<_>>()?)
            }
            Edit::WithoutPackages(_)
            | Edit::AnyVersionOf(_)
            | Edit::Constrain(_)
            | Edit::OnlyIndex(_)
            | Edit::Unknown(HostFact::Driver)
            | Edit::Keep(_) => return None,
        })
    }
}

impl Limited {
    fn lift(self, request: &mut Request) {
        match self {
            Limited::Cuda => request.cuda = None,
            Limited::Cudnn => request.cudnn = None,
            Limited::Nccl => request.nccl = None,
            Limited::Variant => request.variant = None,
            Limited::DriverPolicy => request.native_driver_only = None,
            Limited::Python => request.python = None,
            Limited::Index => request.only_index = None,
            Limited::Time => request.exclude_newer.general = None,
            Limited::Sources => request.no_sources = None,
        }
    }

    fn party(self) -> Party {
        match self {
            Limited::Cuda => Party::Cuda,
            Limited::Cudnn => Party::Cudnn,
            Limited::Nccl => Party::Nccl,
            Limited::Variant => Party::Variant,
            Limited::DriverPolicy => Party::Driver,
            Limited::Python => Party::Python,
            Limited::Index | Limited::Time | Limited::Sources => Party::Index,
        }
    }

    /// The change by which a request that limits this allows a solution.
    fn change(self, request: &Request, solution: &Solution) -> Option<Change> {
        let without = |what: &'static str, value: String| Change::WithoutLimit { what, value };
        Some(match self {
            Limited::Cuda => without("cuda", request.cuda.as_ref()?.value.to_string()),
            Limited::Cudnn => without("cudnn", request.cudnn.as_ref()?.value.to_string()),
            Limited::Nccl => without("nccl", request.nccl.as_ref()?.value.to_string()),
            Limited::Variant => match &solution.stack {
                Some(stack) => Change::Variant(stack.variant.clone()),
                None => Change::OtherVariant(request.variant.as_ref()?.value.clone()),
            },
            Limited::DriverPolicy => Change::AllowCompatibilityMode,
            Limited::Python => Change::Python(solution.python),
            Limited::Index => {
                // The solution says which indexes it takes packages from.
                let names = indexes_beside(&request.only_index.as_ref()?.value, solution);
                Change::AllowIndexes(Some(names).filter(|names| !names.is_empty())?)
            }
            Limited::Sources => Change::AllowSources,
            Limited::Time => {
                without("exclude-newer", request.exclude_newer.general.as_ref()?.value.text.clone())
            }
        })
    }
}

/// The limits of a request that can be lifted. What is asked about is not let go of.
pub(super) fn limits(request: &Request) -> Vec<Edit> {
    fn is_own<T>(limit: Option<&Limit<T>>) -> bool {
        limit.is_some_and(|limit| limit.origin != Origin::Question)
    }
    let parts = [
        (is_own(request.cuda.as_ref()), Edit::Unlimited(Limited::Cuda)),
        (is_own(request.cudnn.as_ref()), Edit::Unlimited(Limited::Cudnn)),
        (is_own(request.nccl.as_ref()), Edit::Unlimited(Limited::Nccl)),
        (request.variant.is_some(), Edit::Unlimited(Limited::Variant)),
        (named_build(request).is_some(), Edit::AnyBuild),
        (request.native_driver_only.is_some(), Edit::Unlimited(Limited::DriverPolicy)),
        (request.python.is_some(), Edit::Unlimited(Limited::Python)),
        (request.only_index.is_some(), Edit::Unlimited(Limited::Index)),
        (request.exclude_newer.general.is_some(), Edit::Unlimited(Limited::Time)),
        (request.no_sources.is_some(), Edit::Unlimited(Limited::Sources)),
    ];
    parts.into_iter().filter_map(|(is_limited, edit)| is_limited.then_some(edit)).collect()
}

/// A requirement that is left out, by its package; by all of it where another one is about the same package.
pub(super) fn without(user: &UserRequirement, request: &Request) -> String {
    let of_package = request.requirements.iter().filter(|other| other.name() == user.name());
    match of_package.count() {
        0 | 1 => user.name().to_owned(),
        _ => clean(&user.requirement.to_string(), 60),
    }
}

/// The constraints of a request.
pub(super) fn constraints(request: &Request) -> Vec<Edit> {
    request.constraints.iter().cloned().map(Edit::WithoutConstraint).collect()
}

/// The overrides of a request.
pub(super) fn overrides(request: &Request) -> Vec<Edit> {
    request.overrides.iter().cloned().map(Edit::WithoutOverride).collect()
}

/// Releases near the one that a requirement pins: those of its minor line, of the lines around it among the `known` releases, the
/// nearest first, and of its major one. Where its bounds exclude each other, it without one of them. Nothing if it is neither.
pub(super) fn near(user: &UserRequirement, known: &[Version]) -> Vec<Edit> {
    let Some(specifiers) = user.specifiers() else { return Vec::new() };
    let [one] = &**specifiers else {
        let without = |place: usize| {
            let others = specifiers.iter().enumerate().filter(|(i, _)| *i != place);
            let others = others.map(|(_, bound)| bound.clone()).collect();
            Edit::Near(user.clone(), others)
        };
        let tries = if user.is_contradiction() { specifiers.len().min(MAX_BOUNDS) } else { 0 };
        return (0..tries).map(without).collect();
    };
    let pins = matches!(one.operator(), Operator::Equal | Operator::ExactEqual);
    let parts: Vec<String> = one.version().release().iter().map(ToString::to_string).collect();
    if !pins {
        return Vec::new();
    }
    let mut lines: Vec<String> = Vec::new();
    lines.extend((parts.len() > 2).then(|| parts[..2].join(".")));
    lines.extend(lines_around(one.version(), known));
    lines.extend((parts.len() > 1).then(|| parts[0].clone()));
    let line = |line: &String| format!("=={line}.*").parse::<VersionSpecifiers>().ok();
    lines.iter().filter_map(line).map(|line| Edit::Near(user.clone(), line)).collect()
}

/// The minor lines of the known releases around a version, the nearest first, of two the newer one.
fn lines_around(version: &Version, known: &[Version]) -> Vec<String> {
    let line = |of: &Version| {
        let release = of.release();
        (release.first().copied().unwrap_or_default(), release.get(1).copied().unwrap_or_default())
    };
    let lines: BTreeSet<(u64, u64)> = known.iter().map(line).collect();
    let own = line(version);
    let newer = lines.range((Bound::Excluded(own), Bound::Unbounded)).enumerate();
    let older = lines.range(..own).rev().enumerate();
    let mut around: Vec<(usize, bool, &(u64, u64))> = newer.map(|(far, line)| (far, false, line)).collect();
    around.extend(older.map(|(far, line)| (far, true, line)));
    around.sort();
    around.truncate(MAX_LINES);
    around.iter().map(|(_, _, (major, minor))| format!("{major}.{minor}")).collect()
}

/// The maximum number of minor lines around a pinned release that are tried: each costs a search.
const MAX_LINES: usize = 20;

/// The maximum number of bounds of a requirement of which each is left out in turn: each costs a search.
const MAX_BOUNDS: usize = 4;

/// The request without each package that it names in any version.
pub(super) fn any_version(request: &Request) -> Vec<Edit> {
    let is_plain = |user: &&UserRequirement| {
        user.requirement.version_or_url.is_none() && user.origin != Origin::Question
    };
    request.requirements.iter().filter(is_plain).cloned().map(Edit::Without).collect()
}

/// The versions of a request's packages.
pub(super) fn versions(request: &Request) -> Vec<Edit> {
    let with_version = request
        .requirements
        .iter()
        .filter(|user| user.requirement.version_or_url.is_some() && user.origin != Origin::Question);
    with_version.cloned().map(Edit::AnyVersion).collect()
}

/// `torch <2.6` if the requirement was `>=2.6`, otherwise the release that works. If the solution does not contain the
/// package, the request without it.
fn other_version(user: &UserRequirement, solution: &Solution) -> Change {
    let package = user.name().to_owned();
    let found = || solution.packages.iter().find(|chosen| chosen.name == package);
    if let Some(specifiers) = user.specifiers()
        && let [one] = &**specifiers
        && *one.operator() == Operator::GreaterThanEqual
        // `<4.0` admits no pre-release of 4.0, and no other one either.
        && found().is_none_or(|found| !found.version.any_prerelease())
    {
        return Change::Below { package, version: one.version().clone() };
    }
    match solution.packages.iter().find(|chosen| chosen.name == package) {
        Some(found) => Change::Release { package, version: found.version.clone() },
        None => Change::WithoutRequest(package),
    }
}

/// The compute capabilities whose code a solution has, as far as the machine's driver runs them: PTX may need a newer one.
/// `None` if there are none.
fn capabilities_with_code(
    question: &Question<'_>,
    solution: &Solution,
) -> Option<Vec<crate::model::capability::ComputeCapability>> {
    let driver = question.host.driver.as_ref().map(crate::model::host::Driver::user_mode);
    let runs = |code: &&crate::model::solution::Coverage| {
        driver.is_none_or(|have| {
            code.driver_min.as_ref().is_none_or(|min| have >= min)
                && code.driver_below.as_ref().is_none_or(|below| have < below)
        })
    };
    let covered = solution.envelope.coverage.iter().filter(runs).map(|code| code.compute_capability);
    Some(covered.collect::<Vec<_>>()).filter(|covered| !covered.is_empty())
}

/// The build that a version of the stack in a request names: `+cu116`.
pub(super) fn named_build(request: &Request) -> Option<String> {
    let mut of_stack = request.requirements.iter().filter(|user| STACK_PACKAGES.contains(&user.name()));
    of_stack.find_map(|user| {
        let mut versions = user.specifiers()?.iter().map(|bound| bound.version());
        let version = versions.find(|version| version.is_local())?;
        version.to_string().split_once('+').map(|(_, local)| format!("+{local}"))
    })
}

fn any_build(request: &mut Request) {
    let of_stack = |user: &&mut UserRequirement| STACK_PACKAGES.contains(&user.name());
    for user in request.requirements.iter_mut().filter(of_stack) {
        let Some(specifiers) = user.specifiers() else { continue };
        let plain: Vec<String> = specifiers
            .iter()
            .map(|bound| bound.to_string().split('+').next().unwrap_or_default().to_owned())
            .collect();
        if let Ok(plain) = plain.join(",").parse() {
            user.requirement.version_or_url = Some(VersionOrUrl::VersionSpecifier(plain));
        }
    }
}

/// The names of the indexes that a solution uses, apart from allowed ones.
fn indexes_beside(allowed: &Only, solution: &Solution) -> Vec<String> {
    let family = |index: &str| index.split('/').next().unwrap_or(index).to_owned();
    let of_packages = solution.packages.iter().filter_map(|p| p.source.index()).map(family);
    let of_stack = solution.stack.iter().map(|stack| family(&stack.index));
    let names: BTreeSet<String> = of_packages.chain(of_stack).filter(|name| !allowed.admits(name)).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_a_pin() {
        let known: Vec<Version> =
            ["1.13.1", "2.0.0", "2.0.1", "2.1.0", "2.2.0", "2.10.0"].map(|text| text.parse().unwrap()).into();
        for (pin, expected) in [
            ("2.1.0", &["2.2", "2.0", "2.10", "1.13"][..]),
            // One that is none of them.
            ("2.3.0", &["2.10", "2.2", "2.1", "2.0", "1.13"]),
            ("3", &["2.10", "2.2", "2.1", "2.0", "1.13"]),
            ("1.13.1", &["2.0", "2.1", "2.2", "2.10"]),
        ] {
            assert_eq!(lines_around(&pin.parse().unwrap(), &known), expected, "{pin}");
        }
        let user = |text: &str| UserRequirement::parse(text, Origin::CommandLine).unwrap();
        let near = |text: &str| {
            let edits = near(&user(text), &known);
            edits
                .iter()
                .map(|edit| match edit {
                    Edit::Near(_, specifiers) => specifiers.to_string(),
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(near("torch==2.1.1"), ["==2.1.*", "==2.2.*", "==2.0.*", "==2.10.*", "==1.13.*", "==2.*"]);
        assert_eq!(near("torch>=2.1"), [] as [&str; 0]);
    }
}
