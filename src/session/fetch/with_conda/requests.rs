//! What is asked of each half, and what one half says of the other's packages.

use std::collections::BTreeMap;

use pep440_rs::Version;

use super::{Half, Session};
use crate::compatibility::with_machine_specs;
use crate::conda::{Bound, CondaError, CondaQuestion, virtual_packages};
use crate::model::conda::{CondaSpec, is_python_package, specs_of};
use crate::model::limit::Limit;
use crate::model::marker::marker_environment;
use crate::model::platform::Platform;
use crate::model::request::{Origin, PythonAllowed, PythonRequest, Request, UserRequirement};
use crate::model::solution::Solution;
use crate::model::source::CondaPackage;
use crate::model::text::clean;
use crate::model::variant::CPU;
use crate::model::wheel::Python;
use crate::registry::conda_builds::PYTORCH;
use crate::registry::conda_names::{OfFramework, framework_packages, pypi_name};
use crate::session::failure::Failure;
use crate::solver::Question;

/// What conda installs of PyPI's packages: by name on PyPI, the version and the package.
pub(super) type Provided<'p> = BTreeMap<String, (Version, &'p CondaPackage)>;

/// The files of a map that none of two others has.
pub(super) fn without_keys(
    files: &BTreeMap<String, String>,
    others: [&BTreeMap<String, String>; 2],
) -> BTreeMap<String, String> {
    let is_left = |(file, _): &(&String, &String)| others.iter().all(|other| !other.contains_key(*file));
    files.iter().filter(is_left).map(|(file, why)| (file.clone(), why.clone())).collect()
}

/// The request for PyPI's half, for the release of Python that conda installs.
pub(super) fn of_python(
    request: &Request,
    half: Option<&Half>,
    packages: &[CondaPackage],
    python: Python,
) -> Request {
    let release = packages.iter().find(|package| package.name == "python");
    let release = release.and_then(|package| package.version.parse::<Python>().ok());
    let exact = PythonRequest {
        allowed: PythonAllowed::Exact(release.unwrap_or(Python::new(python.minor))),
        text: format!("3.{}", python.minor),
        origin: Origin::Question,
    };
    let alone = match half {
        Some(_) => of_pypi(request),
        None => request.of_indexes(),
    };
    Request { python: Some(exact), ..alone }
}

/// A file that PyPI's half excludes, and why.
pub(super) fn does_not_fit(package: &CondaPackage) -> (String, String) {
    let why = format!("{} {} does not fit the packages of PyPI", package.name, package.version);
    (package.file.clone(), why)
}

/// The first of some lines of the request that a package of conda does not meet.
pub(super) fn excluding<'r>(
    lines: &[&'r UserRequirement],
    package: &CondaPackage,
) -> Option<&'r UserRequirement> {
    if !is_python_package(package) {
        return None;
    }
    // One that Python does not read takes part in PyPI's half only where that installs the package too.
    let version = package.version.parse::<Version>().ok()?;
    let name = pypi_name(&package.channel, &package.name)?;
    let excludes = |user: &&UserRequirement| {
        user.name() == name && user.specifiers().is_some_and(|specifiers| !specifiers.contains(&version))
    };
    lines.iter().copied().find(|user| excludes(user))
}

/// The lines that apply to one of some Pythons on a platform.
pub(super) fn applicable<'r>(
    lines: &'r [UserRequirement],
    pythons: &[Python],
    platform: Platform,
) -> Vec<&'r UserRequirement> {
    let environments: Vec<_> = pythons.iter().map(|python| marker_environment(*python, platform)).collect();
    let applies = |user: &&UserRequirement| {
        environments.iter().any(|environment| user.requirement.marker.evaluate(environment, &[]))
    };
    lines.iter().filter(applies).collect()
}

/// The question of conda's half.
pub(super) fn question(
    asked: &Question<'_>,
    python: Option<Python>,
    excluded: &BTreeMap<String, String>,
    (session, has_pip): (&Session<'_>, bool),
    half: Option<&Half>,
) -> CondaQuestion {
    let mut specs: Vec<String> = asked.request.conda.specs.iter().map(|spec| spec.text.clone()).collect();
    specs.extend(half.iter().flat_map(|half| half.specs.clone()));
    let machine = virtual_packages(&asked.host, session.registry);
    specs.extend(python.map(|python| format!("python 3.{}.*", python.minor)));
    specs.extend(has_pip.then(|| "pip".to_owned()));
    // The stack comes from PyPI and the pytorch index, and two of them would be installed.
    let is_of_torch = |one: &OfFramework| one.has_code && one.framework == "torch";
    let is_of_pypi = half.is_none() && asked.request.conda.stack.is_none();
    let not_beside_pypi = framework_packages().filter(|one| is_of_pypi && is_of_torch(one));
    let not_beside_pypi = not_beside_pypi.map(|one| Bound {
        spec: format!("{} <0a0", one.name),
        why: format!("conda's {} is not installed beside the stack of PyPI", one.name),
    });
    let bounds = not_beside_pypi.chain(half.and_then(|half| half.stack.cuda_bound())).collect();
    CondaQuestion {
        specs,
        bounds,
        machine: half.map_or(machine.clone(), |half| half.stack.machine(machine)),
        excluded: excluded.clone(),
        kept: asked.preferences.conda.clone(),
    }
}

/// Adds what conda packages need of a machine. What the registry has no driver for is in the records alone.
pub(super) fn widen(
    solution: &mut Solution,
    packages: &[CondaPackage],
    registry: &crate::registry::Registry,
) {
    with_machine_specs(registry, &mut solution.envelope, specs_of(packages));
}

/// The minor version of a Python 3.
pub(super) fn series(version: &str) -> Option<u32> {
    version.strip_prefix("3.")?.split('.').next()?.parse().ok()
}

/// Refuses what conda does not install of a package that it installs: extras, which conda packages do not have, and the file or
/// folder that the request names.
pub(super) fn refuse_what_conda_lacks(
    requirements: &[&UserRequirement],
    provided: &BTreeMap<String, (Version, &CondaPackage)>,
) -> Result<(), Failure> {
    let of = |user: &UserRequirement| provided.get(user.name());
    for user in requirements {
        let Some((version, package)) = of(user) else { continue };
        if user.direct().is_some() {
            return Err(Failure::usage(format!(
                "`{}` is asked for, and conda installs {} {version} of {}",
                clean(&user.line(), 120),
                package.name,
                package.channel
            ))
            .hint("remove one of the two: the requirement, or the entry under `[conda]` that installs the package"));
        }
        if !user.requirement.extras.is_empty() {
            return Err(Failure::usage(format!(
                "`{}` asks for extras, and conda installs `{}`, whose packages have none",
                user.line(),
                user.requirement.name
            ))
            .hint("ask for what the extra needs by itself, without the extra"));
        }
    }
    Ok(())
}

/// What conda's packages install of PyPI's: by name on PyPI, the version and the package.
pub(super) fn provided(packages: &[CondaPackage]) -> Provided<'_> {
    let python = packages.iter().filter(|package| is_python_package(package));
    python
        .filter_map(|package| {
            Some((pypi_name(&package.channel, &package.name)?, (package.version.parse().ok()?, package)))
        })
        .collect()
}

/// The packages of conda with a version that Python does not read, and that PyPI's half installs a second time: it could not know
/// that they are there.
pub(super) fn installed_twice(packages: &[CondaPackage], solution: &Solution) -> BTreeMap<String, String> {
    let is_unread =
        |package: &&CondaPackage| is_python_package(package) && package.version.parse::<Version>().is_err();
    let is_of_pypi = |package: &&CondaPackage| {
        let name = pypi_name(&package.channel, &package.name);
        name.is_some_and(|name| solution.packages.iter().any(|own| own.name == name))
    };
    let why = |package: &CondaPackage| {
        format!("{} {} has a version that Python does not read", package.name, package.version)
    };
    let all = packages.iter().filter(is_unread).filter(is_of_pypi);
    all.map(|package| (package.file.clone(), why(package))).collect()
}

pub(super) fn unsolved(error: CondaError) -> Failure {
    match error {
        CondaError::TooLong | CondaError::Solvable | CondaError::Unsupported(_) => {
            Failure::internal(error.to_string())
        }
        CondaError::Spec(_) | CondaError::Repodata(_) | CondaError::Duplicate(_) => {
            Failure::input(error.to_string())
        }
    }
}

/// The request for PyPI's half: cuDNN and NCCL are packages of conda.
pub(super) fn of_pypi(request: &Request) -> Request {
    let variant = request.variant.clone().or_else(|| asked_for_cpu(request));
    Request { cudnn: None, nccl: None, variant, ..request.of_indexes() }
}

/// The CPU build, if a match spec asks for it: `pytorch=*=cpu*`, `pytorch-cpu`. It is chosen on a machine with a GPU only then.
fn asked_for_cpu(request: &Request) -> Option<Limit<String>> {
    let is_part = |c: char| !c.is_ascii_alphanumeric();
    let names_cpu = |spec: &&CondaSpec| {
        let is_of_torch = spec.name() == PYTORCH || spec.name() == "pytorch-cpu";
        is_of_torch && spec.text.split(is_part).any(|part| part == CPU)
    };
    let spec = request.conda.specs.iter().find(names_cpu)?;
    Some(Limit { value: CPU.to_owned(), origin: spec.origin.clone() })
}
