//! `why`: why a package is locked at its version, and why no newer one is possible; for driver, GPU, CUDA, cuDNN and glibc,
//! what the lock requires of them; the proof that a requirement cannot be met.

pub(crate) mod not;
pub(crate) mod package;
mod python;

use serde::Serialize;

use super::Interface;
use super::exit;
use super::failure::Failure;
use super::fetch::{self, Session};
use super::options::Global;
use super::settings::{self, Project};
use super::{chosen_host, files, learned_rows, owner, project_lock};
use crate::lockfile::{MACHINE_PARTS, MachineNeed, Target, machine_need};
use crate::model::conda::name_of_spec;
use crate::model::conflict::{Party, Reason, ReasonKind};
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::owner::Owner;
use crate::model::request::{Origin, Preferences, PythonRequest, Request, UserRequirement};
use crate::model::solution::{Answer, Solution};
use crate::model::source::CondaPackage;
use crate::model::text::{clean, normalized_name, shell_word};
use crate::model::wheel::Python;
use crate::registry::Registry;
use crate::registry::STACK_PACKAGES;
use crate::solver::{Budget, Question, solve_stack};

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) struct WhyOptions<'a> {
    pub about: About<'a>,
    /// One target of the lock; all if absent.
    pub target: Option<&'a str>,
    pub index_url: Option<&'a str>,
}

/// What a question is about.
#[derive(Clone, Copy)]
pub(crate) enum About<'a> {
    /// A locked package, or a part of the machine.
    Package(&'a str),
    /// Whether a requirement cannot be met.
    Requirement(&'a str),
}

/// What a question is about: a target of the lock, its machine and its request.
struct Subject<'a> {
    global: &'a Global,
    project: &'a Project,
    registry: &'a Registry,
    target: &'a Target,
    host: Host,
    request: Request,
    /// Whether the lock has other targets, which are not considered.
    alone: bool,
    index_url: Option<&'a str>,
    interface: &'a dyn Interface,
    budget: Budget,
}

/// The answer for one target.
#[derive(Serialize)]
pub(crate) struct TargetAnswer {
    #[serde(rename = "target")]
    name: String,
    #[serde(skip)]
    pub target: Target,
    #[serde(flatten)]
    pub why: Why,
}

/// The answer to each kind of question.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Why {
    Package(Box<package::PackageAnswer>),
    Machine(MachineNeed),
    Not(Box<not::NotAnswer>),
}

/// Answers a question about the targets of the project's lock, or about one.
///
/// # Errors
/// When there is no lock, no such target or package, nothing is asked, conda installs what is asked about, or an index
/// cannot be read.
pub(crate) fn why(
    global: &Global,
    asked: &WhyOptions<'_>,
    interface: &dyn Interface,
) -> Result<Vec<TargetAnswer>, Failure> {
    if let About::Package(name) = asked.about
        && name.contains(['=', '<', '>', '~', '!'])
    {
        let spec = shell_word(&clean(name, 60));
        return Err(Failure::usage(format!("`{}` is a requirement, not a package", clean(name, 60)))
            .hint(format!("`envlock why --not {spec}` says why it is not what is locked")));
    }
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let lock = project_lock::read(&project)?.ok_or_else(project_lock::missing)?;
    project_lock::warn_if_stale(&project, &lock, &registry, interface);
    let lock = owner::with_packages(&project, lock, &registry)?;
    let package = match asked.about {
        About::Package(name) => Some(normalized_name(name)),
        About::Requirement(_) => None,
    };
    let targets =
        without_conda(project_lock::targets(&lock, asked.target)?, asked, package.as_deref(), interface)?;
    let registry =
        learned_rows::with_rows_of(global, registry, &|name| project_lock::mentions(&targets, name));
    let is_of_uv = lock.packages_in.as_ref().is_some_and(|held| held.owner == Owner::Uv);
    let answer = |target: &&Target| {
        let mut request = settings::request_of_target(&project, &lock, target, &registry)?;
        // uv locks for its own Python.
        if is_of_uv {
            let is_pinned = owner::pinned_python(&project.folder) == Some(Python::new(target.python.minor));
            let origin = if is_pinned { files::PYTHON_VERSION.into() } else { Origin::Lock };
            request.python = Some(PythonRequest::exactly(target.python, origin));
        }
        let subject = Subject {
            global,
            project: &project,
            registry: &registry,
            target,
            host: chosen_host::finish(target.host.clone(), &registry)?,
            request,
            alone: lock.targets.len() > 1,
            index_url: asked.index_url,
            interface,
            budget: Budget::default(),
        };
        let why = match (&package, asked.about) {
            (_, About::Requirement(spec)) => Why::Not(Box::new(subject.why_not(spec)?)),
            (Some(package), About::Package(_)) => subject.why(package)?,
            (None, About::Package(name)) => subject.why(name)?,
        };
        Ok(TargetAnswer { name: target.name.clone(), target: (**target).clone(), why })
    };
    targets.iter().map(answer).collect()
}

/// The targets that a question is about: what conda installs on a target, no answer of PyPI is about.
fn without_conda<'l>(
    mut targets: Vec<&'l Target>,
    asked: &WhyOptions<'_>,
    package: Option<&str>,
    interface: &dyn Interface,
) -> Result<Vec<&'l Target>, Failure> {
    let level = targets.first().map_or(Level::Full, |target| target.level);
    let name = match asked.about {
        About::Requirement(spec) => spec,
        About::Package(name) => package.unwrap_or(name),
    };
    for target in targets.clone() {
        let is_party = MACHINE_PARTS.contains(&name);
        let Some(own) = asked_of_conda(name, target).filter(|_| !is_party) else { continue };
        targets.retain(|other| other.name != target.name);
        let answer = of_channel(&own.name, own);
        if targets.is_empty() {
            // That it is not answered is neither yes nor no.
            let exit = match asked.about {
                About::Requirement(_) => exit::CANNOT_ANSWER,
                About::Package(_) => answer.exit,
            };
            return Err(Failure { exit, ..answer });
        }
        interface.note(&format!("target `{}`: {}", target.name, answer.message));
    }
    if let Some(name) = package {
        let is_party = MACHINE_PARTS.contains(&name);
        targets.retain(|target| is_party || target.package(name).is_some());
        if targets.is_empty() {
            return Err(project_lock::has_no_package(name, level));
        }
    }
    Ok(targets)
}

/// The conda package of a target that a question is about: by name, or as the stack.
fn asked_of_conda<'t>(spec: &str, target: &'t Target) -> Option<&'t CondaPackage> {
    let name = normalized_name(name_of_spec(spec));
    let is_of_stack =
        STACK_PACKAGES.contains(&name.as_str()) || ["cuda", "cudnn", "nccl"].contains(&name.as_str());
    let by_name = target.conda.iter().find(|package| package.name == name);
    by_name
        .or_else(|| target.provided_by_conda().get(&name).copied())
        .or_else(|| target.pytorch_of_conda().filter(|_| is_of_stack))
}

/// That conda installs a package: nothing of PyPI's decides about it.
fn of_channel(name: &str, package: &CondaPackage) -> Failure {
    let CondaPackage { version, build, channel, .. } = package;
    let text = format!("conda installs `{}`: {version} ({build}), from {channel}", clean(name, 60));
    Failure { exit: exit::NO, ..Failure::usage(text).hint("`why` is about the packages of PyPI") }
}

impl Subject<'_> {
    fn why(&self, name: &str) -> Result<Why, Failure> {
        match self.target.package(name) {
            Some(package) => Ok(Why::Package(Box::new(self.why_package(package)?))),
            None if MACHINE_PARTS.contains(&name) => {
                let mut need = machine_need(name, self.target, &self.host, self.registry);
                if name == "python" && self.target.level == Level::Full {
                    need.reasons.extend(self.newer_python());
                }
                Ok(Why::Machine(need))
            }
            None => Err(project_lock::has_no_package(name, self.target.level)),
        }
    }

    /// Solves from the registry if that suffices, else from the index too.
    fn solve(&self, request: &Request, about: &Party, preferences: &Preferences) -> Result<Answer, Failure> {
        let of_stack = match about {
            Party::Package(name) => STACK_PACKAGES.contains(&name.as_str()),
            _ => true,
        };
        // The registry alone has the builds of PyPI and the pytorch index.
        if of_stack && request.conda.stack.is_none() {
            let answer = solve_stack(self.registry, &self.host, request, preferences);
            if let conflict @ Answer::Conflict(_) = answer {
                return Ok(conflict);
            }
        }
        self.solve_with_indexes(request, preferences)
    }

    fn solve_with_indexes(&self, request: &Request, preferences: &Preferences) -> Result<Answer, Failure> {
        let client = fetch::client(self.global, self.project, self.index_url)?;
        let mut session =
            Session::new(client, self.registry, self.interface, &request.metadata, &self.budget);
        let learned =
            |solution: &Solution| learned_rows::with_rows_of_answer(self.global, self.registry, solution);
        session.solve_as_learned(&Question::new(&self.host, request, preferences), &learned)
    }
}

fn is_the_question(reason: &Reason) -> bool {
    matches!(&reason.kind, ReasonKind::Asked { origin: Origin::Question, .. })
}

fn question(spec: &str) -> Result<UserRequirement, Failure> {
    UserRequirement::parse(spec, Origin::Question).map_err(|e| Failure::usage(e.to_string()))
}
