//! `envlock why PKG`: why a package is locked at its version, and why no newer one is possible. For driver, GPU,
//! CUDA, cuDNN and glibc: what the lock requires of them. `envlock why --not SPEC`: the proof that a requirement
//! cannot be met.

mod not;
mod package;
mod python;

use serde::Serialize;
use serde_json::json;

use crate::cli::args::WhyArgs;
use crate::cli::printer::{DIM, Printer, wrap};
use crate::cli::report::{self, label};
use crate::lockfile::{MACHINE_PARTS, MachineNeed, Target, machine_need};
use crate::model::conda::name_of_spec;
use crate::model::conflict::{Party, Reason, ReasonKind};
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::request::{Origin, Preferences, Request, UserRequirement};
use crate::model::solution::{Answer, Solution};
use crate::model::source::CondaPackage;
use crate::model::text::{clean, normalized_name};
use crate::registry::Registry;
use crate::registry::STACK_PACKAGES;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::fetch::Session;
use crate::session::options::Global;
use crate::session::settings::{self, Project};
use crate::session::{chosen_host, fetch, learned_rows, lock, owner};
use crate::solver::{Budget, Question, solve_stack};

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
    printer: &'a Printer,
    budget: Budget,
}

/// The answer for one target.
#[derive(Serialize)]
struct TargetAnswer {
    target: String,
    #[serde(flatten)]
    why: Why,
}

/// The answer to each kind of question.
#[derive(Serialize)]
#[serde(untagged)]
enum Why {
    Package(Box<package::PackageAnswer>),
    Machine(MachineNeed),
    Not(Box<not::NotAnswer>),
}

pub(super) fn run(global: &Global, args: &WhyArgs, printer: &Printer) -> Result<u8, Failure> {
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let lock = lock::read(&project)?.ok_or_else(lock::missing)?;
    lock::warn_if_stale(&project, &lock, &registry, printer);
    let lock = owner::with_packages(&project, lock, &registry)?;
    let mut targets = lock::targets(&lock, args.target.as_deref())?;
    let registry = learned_rows::with_rows_of(global, registry, &targets);
    let several = targets.len() > 1;
    let package = args.package.as_deref().map(normalized_name);
    let level = targets.first().map_or(Level::Full, |target| target.level);
    // What conda installs on a target, no answer of PyPI is about.
    let asked = args.not.as_deref().or(package.as_deref()).filter(|asked| !MACHINE_PARTS.contains(asked));
    for target in lock::targets(&lock, args.target.as_deref())? {
        let Some(own) = asked.and_then(|asked| asked_of_conda(asked, target)) else { continue };
        targets.retain(|other| other.name != target.name);
        let answer = of_channel(&own.name, own);
        if targets.is_empty() {
            // That it is not answered is neither yes nor no.
            let exit = if args.not.is_some() { exit::CANNOT_ANSWER } else { answer.exit };
            return Err(Failure { exit, ..answer });
        }
        printer.note(&format!("target `{}`: {}", target.name, answer.message));
    }
    if let (Some(name), None) = (&package, &args.not) {
        let is_party = MACHINE_PARTS.contains(&name.as_str());
        targets.retain(|target| is_party || target.package(name).is_some());
        if targets.is_empty() {
            return Err(not_locked(name, level));
        }
    }
    let mut answers = Vec::new();
    let mut status = exit::YES;
    for (i, target) in targets.iter().copied().enumerate() {
        let subject = Subject {
            global,
            project: &project,
            registry: &registry,
            target,
            host: chosen_host::finish(target.host.clone(), &registry)?,
            request: settings::request_of_target(&project, &lock, target, &registry)?,
            alone: lock.targets.len() > 1,
            index_url: args.index_url.as_deref(),
            printer,
            budget: Budget::default(),
        };
        report::heading(printer, target, several, i);
        let why = match (&package, &args.not) {
            (_, Some(spec)) => {
                let answer = subject.why_not(spec)?;
                // Something is proved impossible only if it is impossible on every target.
                status = status.max(answer.exit());
                Why::Not(Box::new(answer))
            }
            (Some(package), None) => subject.why(package)?,
            (None, None) => {
                return Err(Failure::usage("name a package, or a requirement with `--not`"));
            }
        };
        if !printer.json {
            match &why {
                Why::Package(answer) => answer.print(printer),
                Why::Machine(need) => print_need(need, printer),
                Why::Not(answer) => answer.print(printer),
            }
        }
        answers.push(TargetAnswer { target: target.name.clone(), why });
    }
    if printer.json {
        printer.json(&json!({ "targets": answers }));
    }
    Ok(status)
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

fn not_locked(name: &str, level: Level) -> Failure {
    let error = Failure::usage(format!("the lock has no package `{}`", clean(name, 60)));
    let error = match level {
        Level::Stack => error.hint("it was made with `--stack-only`; `envlock resolve` locks all packages"),
        Level::Full => error.hint("`envlock tree` lists the locked packages"),
    };
    Failure { exit: exit::NO, ..error }
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
            None => Err(not_locked(name, self.target.level)),
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
        let mut session = Session::new(client, self.registry, self.printer, &request.metadata, &self.budget);
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

/// Prints what a lock requires of a part of the machine.
fn print_need(need: &MachineNeed, p: &Printer) {
    let Some(needs) = &need.needs else {
        p.out(&format!("nothing in this lock requires {}", need.name));
        return;
    };
    p.out(needs);
    p.out("");
    let mut before = None;
    for because in &need.reasons {
        let kind = if before == Some(because.kind) { "" } else { because.kind.label() };
        before = Some(because.kind);
        p.out(&format!("{}{}", label(p, kind), wrap(&because.text, 15)));
        if let Some(source) = &because.source {
            let source = format!("[{}]", report::short_source(source));
            p.out(&format!("{}{}", label(p, ""), p.paint(DIM, &wrap(&source, 15))));
        }
    }
}
