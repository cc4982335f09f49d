//! What can be let go of in a request.

use pep508_rs::VersionOrUrl;

use crate::model::conflict::{Change, Party};
use crate::model::only::Only;
use crate::model::request::{Origin, Request, STACK_PACKAGES, UserRequirement};
use crate::model::solution::Solution;
use crate::model::text::clean;

/// One part of a request that is let go of.
pub(super) struct Edit {
    /// Who has to change.
    pub party: Party,
    /// Lets go of it.
    pub apply: Box<dyn Fn(&mut Request)>,
    /// The change in words, as far as it is known before a solution.
    what: What,
}

enum What {
    Said(Change),
    /// Another version of a package than the one asked for.
    Version(String, Option<VersionOrUrl>),
    AnyPython,
    OtherVariant(String),
    /// More indexes than these.
    MoreThan(Only),
}

impl Edit {
    /// The change that a solution without that part shows; `None` if the solution does not need it.
    pub fn change(&self, solution: &Solution) -> Option<Change> {
        Some(match (&self.what, &solution.stack) {
            (What::Said(change), _) => change.clone(),
            (What::Version(name, asked), _) => other_version(name, asked.as_ref(), solution),
            (What::AnyPython, _) => Change::Python(solution.python),
            (What::OtherVariant(_), Some(stack)) => Change::Variant(stack.variant.clone()),
            (What::OtherVariant(name), None) => Change::OtherVariant(name.clone()),
            // The solution says which indexes it takes packages from.
            (What::MoreThan(allowed), _) => {
                Change::AllowIndex(Some(indexes_beside(allowed, solution)).filter(|names| !names.is_empty())?)
            }
        })
    }

    /// Whether it lets other indexes in: what they have may not be known.
    pub fn opens_indexes(&self) -> bool {
        matches!(self.what, What::MoreThan(_))
    }
}

fn edit(party: Party, what: What, apply: impl Fn(&mut Request) + 'static) -> Edit {
    Edit { party, apply: Box::new(apply), what }
}

/// The limits of a request: on the stack, Python, the indexes and the time of upload.
pub(super) fn limit_edits(request: &Request) -> Vec<Edit> {
    let without = |what: &'static str, value: &dyn ToString| {
        What::Said(Change::WithoutLimit { what, value: value.to_string() })
    };
    let mut out = Vec::new();
    if let Some(limit) = request.cuda.as_ref().filter(|limit| limit.origin != Origin::Question) {
        out.push(edit(Party::Cuda, without("cuda", &limit.value), |r| r.cuda = None));
    }
    if let Some(limit) = request.cudnn.as_ref().filter(|limit| limit.origin != Origin::Question) {
        out.push(edit(Party::Cudnn, without("cudnn", &limit.value), |r| r.cudnn = None));
    }
    if let Some(limit) = request.nccl.as_ref().filter(|limit| limit.origin != Origin::Question) {
        out.push(edit(Party::Nccl, without("nccl", &limit.value), |r| r.nccl = None));
    }
    if let Some(limit) = &request.variant {
        out.push(edit(Party::Variant, What::OtherVariant(limit.value.clone()), |r| r.variant = None));
    }
    out.extend(without_locals(request));
    if request.native_driver_only.is_some() {
        let change = What::Said(Change::AllowCompatibilityMode);
        out.push(edit(Party::Driver, change, |r| r.native_driver_only = None));
    }
    if request.python.is_some() {
        out.push(edit(Party::Python, What::AnyPython, |r| r.python = None));
    }
    if let Some(limit) = &request.only_index {
        out.push(edit(Party::Index, What::MoreThan(limit.value.clone()), |r| r.only_index = None));
    }
    if let Some(limit) = &request.exclude_newer.general {
        let change = without("exclude-newer", &limit.value.text);
        out.push(edit(Party::Index, change, |r| r.exclude_newer.general = None));
    }
    out
}

/// The releases of the stack without the builds that their versions name: `==1.13.1` of `==1.13.1+cu116`.
fn without_locals(request: &Request) -> Option<Edit> {
    let is_of_stack = |user: &&UserRequirement| STACK_PACKAGES.contains(&user.name());
    let local = request.requirements.iter().filter(is_of_stack).find_map(|user| {
        let version =
            user.specifiers()?.iter().map(|bound| bound.version()).find(|version| version.is_local())?;
        version.to_string().split_once('+').map(|(_, local)| format!("+{local}"))
    })?;
    let change = Change::WithoutLimit { what: "the build in the versions", value: local };
    Some(edit(Party::Variant, What::Said(change), move |r| {
        for user in r.requirements.iter_mut().filter(|user| is_of_stack(&&**user)) {
            let Some(specifiers) = user.specifiers() else { continue };
            let plain: Vec<String> = specifiers
                .iter()
                .map(|bound| bound.to_string().split('+').next().unwrap_or_default().to_owned())
                .collect();
            if let Ok(plain) = plain.join(",").parse() {
                user.requirement.version_or_url = Some(VersionOrUrl::VersionSpecifier(plain));
            }
        }
    }))
}

/// The constraints of a request.
pub(super) fn constraint_edits(request: &Request) -> Vec<Edit> {
    let edit_of = |bound: &UserRequirement| {
        let text = clean(&bound.requirement.to_string(), 60);
        let party = Party::package(bound.name().to_owned());
        let meant = bound.requirement.clone();
        edit(party, What::Said(Change::WithoutConstraint(text)), move |r| {
            r.constraints.retain(|bound| bound.requirement != meant);
        })
    };
    request.constraints.iter().map(edit_of).collect()
}

/// The versions of a request's packages.
pub(super) fn version_edits(request: &Request) -> Vec<Edit> {
    let with_version = request.requirements.iter().enumerate();
    let with_version = with_version
        .filter(|(_, user)| user.requirement.version_or_url.is_some() && user.origin != Origin::Question);
    with_version
        .map(|(i, user)| {
            let name = user.name().to_owned();
            let what = What::Version(name.clone(), user.requirement.version_or_url.clone());
            edit(Party::package(name), what, move |r| r.requirements[i].requirement.version_or_url = None)
        })
        .collect()
}

/// `torch <2.6` if the requirement was `>=2.6`, otherwise the release that works. If the solution does not contain the
/// package, the request without it.
pub(super) fn other_version(name: &str, asked: Option<&VersionOrUrl>, solution: &Solution) -> Change {
    let package = name.to_owned();
    if let Some(VersionOrUrl::VersionSpecifier(specifiers)) = asked {
        let mut list = specifiers.iter();
        if let (Some(one), None) = (list.next(), list.next())
            && *one.operator() == pep440_rs::Operator::GreaterThanEqual
        {
            return Change::Below { package, version: one.version().clone() };
        }
    }
    match solution.packages.iter().find(|p| p.name == name) {
        Some(found) => Change::Release { package, version: found.version.clone() },
        None => Change::WithoutRequest(package),
    }
}

/// The names of the indexes that a solution uses, apart from an allowed one.
fn indexes_beside(allowed: &Only, solution: &Solution) -> String {
    let family = |index: &str| index.split('/').next().unwrap_or(index).to_owned();
    let of_packages = solution.packages.iter().filter_map(|p| p.source.index()).map(family);
    let of_stack = solution.stack.iter().map(|stack| family(&stack.index));
    let mut names: Vec<String> = of_packages.chain(of_stack).filter(|name| !allowed.admits(name)).collect();
    names.sort();
    names.dedup();
    names.join(" and ")
}
