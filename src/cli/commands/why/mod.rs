//! `envlock why PKG`: why a package is locked at its version, and why no newer one is possible. For driver, GPU,
//! CUDA, cuDNN and glibc: what the lock requires of them. `envlock why --not SPEC`: the proof that a requirement
//! cannot be met.

mod machine;

use std::collections::BTreeSet;

use pep440_rs::Version;
use serde_json::{Value, json};

use crate::cli::args::{GlobalArgs, WhyArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::printer::{DIM, Printer, wrap};
use crate::cli::report::{self, label};
use crate::cli::settings::{self, Project};
use crate::cli::{fetch, host, kept, lock, manifest};
use crate::lockfile::{self, Target};
use crate::model::conflict::{Conflict, Party, Reason, ReasonKind, WayOut};
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::request::{Origin, Preferences, Request, UserRequirement};
use crate::model::solution::{Answer, ChosenPackage, Solution};
use crate::model::text::{clean, normalized_name};
use crate::registry::Registry;
use crate::registry::STACK_PACKAGES;
use crate::solver::{Universe, solve_stack};

/// At most this many of the other packages that would change are listed.
const MAX_LISTED_CHANGES: usize = 4;

/// What a question is about: a target of the lock, its machine and its request.
struct Subject<'a> {
    global: &'a GlobalArgs,
    project: &'a Project,
    registry: &'a Registry,
    target: &'a Target,
    host: Host,
    request: Request,
    /// Whether the lock has other targets, which are not considered.
    alone: bool,
    index_url: Option<&'a str>,
    printer: &'a Printer,
}

pub(super) fn run(global: &GlobalArgs, args: &WhyArgs, printer: &Printer) -> Result<u8, CliError> {
    let project = Project::find(global, true)?;
    let registry = settings::registry(global)?;
    let lock = lock::read(&project)?.ok_or_else(lock::missing)?;
    lock::warn_if_stale(&project, &lock, &registry, printer);
    let mut targets = lock::targets(&lock, args.target.as_deref())?;
    let registry = kept::with_rows_of(global, registry, &targets);
    let several = targets.len() > 1;
    let package = args.package.as_deref().map(normalized_name);
    if let (Some(name), None) = (&package, &args.not) {
        let level = targets[0].level;
        let is_party = machine::NAMES.contains(&name.as_str());
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
            host: host::finish(target.host.clone(), &registry)?,
            request: settings::request_of_target(&project, &lock, target, &registry)?,
            alone: lock.targets.len() > 1,
            index_url: args.index_url.as_deref(),
            printer,
        };
        lock::heading(printer, target, several, i);
        let (code, mut answer) = match (&package, &args.not) {
            (_, Some(spec)) => subject.why_not(spec)?,
            (Some(package), None) => subject.why(package)?,
            (None, None) => {
                return Err(CliError::usage("name a package, or a requirement with `--not`"));
            }
        };
        answer["target"] = json!(target.name);
        answers.push(answer);
        // Something is proved impossible only if it is impossible on every target.
        status = status.max(code);
    }
    if printer.json {
        printer.json(&json!({ "targets": answers }));
    }
    Ok(status)
}

fn not_locked(name: &str, level: Level) -> CliError {
    let error = CliError::usage(format!("the lock has no package `{}`", clean(name, 60)));
    let error = match level {
        Level::Stack => error.hint("it was made with `--stack-only`; `envlock resolve` locks all packages"),
        Level::Full => error.hint("`envlock tree` lists the locked packages"),
    };
    CliError { exit: exit::NO, ..error }
}

impl Subject<'_> {
    fn why(&self, name: &str) -> Result<(u8, Value), CliError> {
        let Some(package) = self.target.package(name) else {
            if machine::NAMES.contains(&name) {
                return Ok(self.why_machine_part(name));
            }
            return Err(not_locked(name, self.target.level));
        };
        let asked = self.request.find(name);
        let roots: BTreeSet<String> =
            self.request.requirements.iter().map(|r| r.requirement.name.to_string()).collect();
        let chain = lockfile::chain(self.target, &roots, name).unwrap_or_default();
        let needed_by = lockfile::needed_by(self.target, name);
        let held = self.held_back(package)?;
        if self.printer.json {
            let answer = json!({
                "name": package.name,
                "version": package.version,
                "reason": package.reason.to_string(),
                "asked": asked.map(|a| json!({"requirement": a.requirement.to_string(), "origin": a.origin})),
                "chain": chain,
                "needed_by": needed_by.iter().map(|(from, edge)| json!({"name": from, "requirement": edge.requirement})).collect::<Vec<_>>(),
                "newer": match &held {
                    Held::Back(conflict) => json!({
                        "possible": false,
                        "reasons": told(conflict).iter().map(|r| &r.text).collect::<Vec<_>>(),
                    }),
                    Held::NewerFits(version, others) => json!({"possible": true, "version": version, "with": others}),
                    Held::NotKnown(why) => json!({"possible": null, "why": why}),
                },
            });
            return Ok((exit::YES, answer));
        }
        let p = self.printer;
        p.out(&format!(
            "{} {}, from {}: {}",
            package.name,
            package.version_with_variant(),
            package.source,
            package.reason
        ));
        p.out("");
        if let Some(asked) = asked {
            p.out(&format!("{}{}  [{}]", label(p, "requested"), asked.requirement, asked.origin));
        } else if chain.len() > 2 {
            p.out(&format!("{}{}", label(p, "required via"), wrap(&chain.join(" -> "), 15)));
        }
        for (i, (from, edge)) in needed_by.iter().enumerate() {
            let version = self.target.package(from).map(|p| p.version.to_string()).unwrap_or_default();
            let text = format!("{from} {version} requires {}", clean(&edge.requirement, 80));
            p.out(&format!("{}{}", label(p, if i == 0 { "required by" } else { "" }), wrap(&text, 15)));
        }
        if name == "torch" {
            self.machine();
        }
        match held {
            Held::NewerFits(version, others) => {
                let with = match others.as_slice() {
                    [] => String::new(),
                    list => format!(", with {}", list.join(", ")),
                };
                let alone = if self.alone { " on this target alone" } else { "" };
                let text = format!("{version} would fit{alone}{with}");
                p.out(&format!("{}{}", label(p, "newer"), wrap(&text, 15)));
                if others.is_empty() && !self.alone {
                    p.hint(&format!("take it with `envlock resolve --upgrade={name}`"));
                }
            }
            Held::NotKnown(why) => {
                p.out(&format!("{}{}", label(p, "newer"), wrap(&format!("not checked: {why}"), 15)));
            }
            Held::Back(conflict) => {
                let mut reasons = told(&conflict);
                // That no newer release exists is not a reason against one.
                let own = [Party::package(name)];
                reasons.retain(|r| r.kind != ReasonKind::Available || r.parties != own);
                if reasons.is_empty() {
                    p.out(&format!("{}none, this is the newest release", label(p, "newer")));
                }
                for (i, reason) in reasons.iter().enumerate() {
                    p.out(&format!(
                        "{}{}",
                        label(p, if i == 0 { "newer" } else { "" }),
                        wrap(&reason.text, 15)
                    ));
                }
            }
        }
        Ok((exit::YES, json!({})))
    }

    /// Explains a part of the machine or of CUDA, which is not a package.
    fn why_machine_part(&self, name: &str) -> (u8, Value) {
        let p = self.printer;
        let Some(told) = machine::explain(name, self.target, &self.host, self.registry) else {
            if !p.json {
                p.out(&format!("nothing in this lock requires {name}"));
            }
            return (exit::YES, json!({ "name": name, "needs": null, "reasons": [] }));
        };
        if !p.json {
            p.out(&told.needs);
            p.out("");
            let mut before = None;
            for because in &told.reasons {
                let kind = if before == Some(because.kind) { "" } else { because.kind.label() };
                before = Some(because.kind);
                p.out(&format!("{}{}", label(p, kind), wrap(&because.text, 15)));
                if let Some(source) = &because.source {
                    let source = format!("[{}]", report::short_source(source));
                    p.out(&format!("{}{}", label(p, ""), p.paint(DIM, &wrap(&source, 15))));
                }
            }
        }
        (exit::YES, json!(told))
    }

    /// Prints how the framework's build supports each GPU of the machine.
    fn machine(&self) {
        let p = self.printer;
        let Some(stack) = &self.target.stack else { return };
        for gpu in self.host.gpus.iter().flatten() {
            let Some(capability) = gpu.capability else { continue };
            let row = self.target.envelope.coverage.iter().find(|c| c.compute_capability == capability);
            let text = match row {
                Some(row) => {
                    let how = match row.via {
                        crate::model::capability::Via::Sass => "has machine code for it",
                        crate::model::capability::Via::Ptx => "has PTX for it",
                    };
                    let driver =
                        row.driver_min.as_ref().map(|v| format!(", driver >= {v}")).unwrap_or_default();
                    format!("{}: {} {how}{driver}", gpu.label(), stack.variant)
                }
                None => format!("{}: {} has no code for it", gpu.label(), stack.variant),
            };
            p.out(&format!("{}{}", label(p, "machine"), wrap(&text, 15)));
        }
    }

    /// Solves for a newer release of a package than the locked one.
    fn held_back(&self, package: &ChosenPackage) -> Result<Held, CliError> {
        let plain = package.version.clone().without_local();
        let mut request = self.request.clone();
        request.requirements.push(question(&format!("{}>{plain}", package.name))?);
        // The other packages keep their locked versions where possible.
        let mut kept = self.target.preferences();
        kept.versions.remove(&package.name);
        Ok(match self.solve(&request, &Party::package(&package.name), &kept) {
            Ok(Answer::Solution(solution)) => match solution.packages.iter().find(|p| p.name == package.name)
            {
                Some(newer) => Held::NewerFits(newer.version.clone(), self.moved(&solution, &package.name)),
                // Another package becomes so old that it does not need this one.
                None => Held::NotKnown(
                    "the solution found does not need it and has older versions of other packages".to_owned(),
                ),
            },
            Ok(Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _)) => Held::Back(conflict),
            Ok(Answer::TooLong | Answer::NeedMetadata(_)) => {
                Held::NotKnown("resolution exceeded the step limit".to_owned())
            }
            Err(error) => Held::NotKnown(error.message),
        })
    }

    /// The packages, except one, whose version in a solution differs from the lock.
    fn moved(&self, solution: &Solution, except: &str) -> Vec<String> {
        let mut out = Vec::new();
        for package in solution.packages.iter().filter(|p| p.name != except) {
            let Some(locked) = self.target.package(&package.name) else { continue };
            if locked.version != package.version {
                out.push(format!("{} {} -> {}", package.name, locked.version, package.version));
            }
        }
        let more = out.len().saturating_sub(MAX_LISTED_CHANGES);
        out.truncate(MAX_LISTED_CHANGES);
        if more > 0 {
            out.push(format!("{more} more"));
        }
        out
    }

    fn why_not(&self, spec: &str) -> Result<(u8, Value), CliError> {
        let mut request = self.request.clone();
        let limited = ["cuda", "cudnn", "nccl"].iter().find(|name| {
            spec.trim()
                .strip_prefix(**name)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
        });
        if let Some(limited) = limited.filter(|_| self.target.stack.is_none()) {
            return Err(CliError::usage(format!(
                "`{limited}` limits the builds of torch, and the lock has no torch"
            ))
            .hint("registry/frameworks lists what each release is built with; request another release"));
        }
        let party = match manifest::stack_limit(&mut request, spec, &Origin::Question) {
            Some(limited) => limited.map_err(CliError::usage)?,
            None => {
                let asked = question(spec)?;
                let name = asked.requirement.name.to_string();
                if ["driver", "gpu", "glibc"].contains(&name.as_str()) {
                    return Err(CliError::usage(format!(
                        "`{name}` belongs to the machine, not to the request"
                    ))
                    .hint("`envlock plan --gpu NAME --driver V` lists what another machine can run"));
                }
                request.requirements.push(asked);
                Party::package(name)
            }
        };
        let p = self.printer;
        let of_question = |solution: &Solution| match &party {
            Party::Package(name) => solution.packages.iter().find(|p| p.name == *name).cloned(),
            _ => None,
        };
        match self.solve(&request, &party, &Preferences::default())? {
            Answer::Solution(solution) => {
                let got = of_question(&solution);
                let got = got.map(|p| format!(": {} {}", p.name, p.version)).unwrap_or_default();
                if !p.json {
                    p.out(&format!("`{}` is possible{got}{}", clean(spec, 60), stack_of(&solution)));
                    // The hint puts the specifier in single quotes, so one that contains a single quote gets no
                    // hint. Neither does a lock with several targets: another target may not allow it.
                    let added = request.requirements.len() > self.request.requirements.len();
                    if added && !self.alone && !spec.contains('\'') {
                        p.hint(&format!("add it with `envlock add '{}'`", clean(spec, 60)));
                    }
                }
                let answer = json!({
                    "possible": true,
                    "python": solution.python.to_string(),
                    "torch": solution.stack.as_ref().map(|s| s.version.clone()),
                    "version": of_question(&solution).map(|p| p.version),
                    "reasons": [],
                });
                Ok((exit::NO, answer))
            }
            Answer::Conflict(mut conflict) | Answer::ConflictSoFar(mut conflict, _) => {
                // Dropping the requirement in question is not a way out.
                let limits = request.requirements.len() == self.request.requirements.len();
                conflict
                    .would_work_if
                    .retain(|way| way.party != party || (!limits && answers(way, &request)));
                conflict.reasons.retain(|r| !is_the_question(r));
                if !p.json {
                    p.out(&format!("`{}` is impossible:", clean(spec, 60)));
                    p.out("");
                    report::reasons(p, &conflict);
                    report::ways_out(p, &conflict);
                }
                let answer = json!({
                    "possible": false,
                    "reasons": conflict.reasons,
                    "would_work_if": conflict.would_work_if,
                });
                Ok((exit::YES, answer))
            }
            Answer::TooLong | Answer::NeedMetadata(_) => {
                Err(CliError::internal("resolution exceeded the step limit"))
            }
        }
    }

    /// Solves from the registry if that suffices, else from the index too.
    fn solve(&self, request: &Request, about: &Party, preferences: &Preferences) -> Result<Answer, CliError> {
        let of_stack = match about {
            Party::Package(name) => STACK_PACKAGES.contains(&name.as_str()),
            _ => true,
        };
        if of_stack {
            let answer = solve_stack(self.registry, &self.host, request, preferences);
            if let conflict @ Answer::Conflict(_) = answer {
                return Ok(conflict);
            }
        }
        let client = fetch::client(self.global, self.project, self.index_url)?;
        let mut universe = Universe::default();
        fetch::solve_full(
            &client,
            &mut universe,
            self.registry,
            &self.host,
            request,
            preferences,
            self.printer,
        )
    }
}

/// Whether a newer release is possible.
enum Held {
    Back(Box<Conflict>),
    /// The version, and the other packages that would change.
    NewerFits(Version, Vec<String>),
    NotKnown(String),
}

/// Whether a way out still satisfies the requirement in question, which is the last of the request.
fn answers(way: &WayOut, request: &Request) -> bool {
    let Some(asked) = request.requirements.last() else { return false };
    asked
        .specifiers()
        .zip(way.release.as_ref())
        .is_some_and(|(specifiers, release)| specifiers.contains(release))
}

fn is_the_question(reason: &Reason) -> bool {
    matches!(&reason.kind, ReasonKind::Asked { origin: Origin::Question, .. })
}

/// The reasons against a newer release, without the question itself and requirements that allow newer releases.
fn told(conflict: &Conflict) -> Vec<&Reason> {
    let counts = |reason: &&Reason| match &reason.kind {
        ReasonKind::Asked { bounds_above, .. } => *bounds_above && !is_the_question(reason),
        ReasonKind::Fact | ReasonKind::Available => true,
    };
    conflict.reasons.iter().filter(counts).collect()
}

fn question(spec: &str) -> Result<UserRequirement, CliError> {
    UserRequirement::parse(spec, Origin::Question).map_err(|e| CliError::usage(e.to_string()))
}

/// `, with torch 2.9.1 cu128, Python 3.12`
fn stack_of(solution: &Solution) -> String {
    let stack = solution.stack.as_ref().map(|s| format!("{} {} {}, ", s.framework, s.version, s.variant));
    format!(", with {}Python {}", stack.unwrap_or_default(), solution.python)
}
