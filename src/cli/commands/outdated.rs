//! `envlock outdated`: what newer stack the locked machine could run, what a driver update would unlock,
//! and which packages are newer.

use serde_json::json;

use crate::cli::args::{GlobalArgs, OutdatedArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::{GOOD, Printer, wrap};
use crate::cli::report::label;
use crate::cli::settings::{self, Project};
use crate::cli::{fetch, host, kept, lock};
use crate::lockfile::{self, Lockfile, Target};
use crate::model::host::Host;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{Answer, DriverMode, Level, Solution};
use crate::registry::Registry;
use crate::solver::{STACK_PACKAGES, Universe, solve_stack};

pub(super) fn run(global: &GlobalArgs, args: &OutdatedArgs, printer: &Printer) -> Result<u8, CliError> {
    let project = Project::find(global, true)?;
    let registry = settings::registry(global)?;
    let lock = lock::read(&project)?.ok_or_else(lock::missing)?;
    lock::warn_if_stale(&project, &lock, &registry, printer);
    let targets = lock::targets(&lock, args.target.as_deref())?;
    let registry = kept::with_rows_of(global, registry, &targets);
    let client = match targets.iter().any(|target| target.level == Level::Full) {
        true => Some(fetch::client(global, &project, args.index_url.as_deref())?),
        false => None,
    };
    let mut universe = Universe::default();
    let mut answers = Vec::new();
    for (i, target) in targets.iter().copied().enumerate() {
        let request = settings::request_of_target(&project, &lock, target, &registry)?;
        let machine = host::finish(target.host.clone(), &registry)?;
        let stack = Newer::of(target, &request, &machine, &registry);
        let nothing = Preferences::default();
        let packages = match (&client, target.level) {
            (Some(client), Level::Full) => {
                let u = &mut universe;
                match fetch::solve_full(client, u, &registry, &machine, &request, &nothing, printer)? {
                    Answer::Solution(solution) => changes(&lock, target, &solution),
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        };
        answers.push(json!({ "target": target.name, "stack": stack.json(), "packages": packages }));
        if printer.json {
            continue;
        }
        lock::heading(printer, target, targets.len() > 1, i);
        stack.show(printer, target, targets.len() > 1);
        if target.level == Level::Full {
            show_packages(printer, &packages);
        }
    }
    if printer.json {
        printer.json(&json!({ "targets": answers }));
    }
    Ok(exit::YES)
}

/// The packages that a solve without the old lock takes in another version.
fn changes(lock: &Lockfile, target: &Target, solution: &Solution) -> Vec<lockfile::Change> {
    let before = Lockfile { targets: vec![target.clone()], ..lock.clone() };
    let after = Target::new(&target.name, solution, &target.host, target.level);
    let after = Lockfile { targets: vec![after], ..lock.clone() };
    lockfile::changes(&before, &after).into_iter().flat_map(|c| c.packages).collect()
}

fn show_packages(printer: &Printer, packages: &[lockfile::Change]) {
    let newer: Vec<String> = packages
        .iter()
        .filter(|c| !STACK_PACKAGES.contains(&c.what.as_str()))
        .filter_map(|c| Some(format!("{} {} -> {}", c.what, c.old.as_ref()?, c.new.as_ref()?)))
        .collect();
    if newer.is_empty() {
        printer.out(&format!("{}all as new as the request lets them be", label(printer, "packages")));
        return;
    }
    for (i, text) in newer.iter().enumerate() {
        printer.out(&format!("{}{text}", label(printer, if i == 0 { "packages" } else { "" })));
    }
    printer.hint("take them with `envlock resolve --upgrade`, or one with `--upgrade=NAME`");
}

/// Newer stacks, from the registry alone.
struct Newer {
    /// Under the request as it is.
    allowed: Option<Solution>,
    /// With any version of torch, any CUDA and any index.
    any: Option<Solution>,
    /// With any driver too.
    any_driver: Option<Solution>,
}

impl Newer {
    fn of(target: &Target, request: &Request, machine: &Host, registry: &Registry) -> Newer {
        let Some(locked) = &target.stack else {
            return Newer { allowed: None, any: None, any_driver: None };
        };
        let newest = |host: &Host, request: &Request| -> Option<Solution> {
            match solve_stack(registry, host, request, &Preferences::default()) {
                Answer::Solution(solution) => Some(*solution),
                _ => None,
            }
        };
        let mut free = Request {
            cuda: None,
            cudnn: None,
            nccl: None,
            variant: None,
            only_index: None,
            ..request.clone()
        };
        free.constraints.retain(|c| !STACK_PACKAGES.contains(&(c.requirement.name.as_ref() as &str)));
        for user in &mut free.requirements {
            if STACK_PACKAGES.contains(&(user.requirement.name.as_ref() as &str)) {
                user.requirement.version_or_url = None;
            }
        }
        let any_driver = Host { driver: None, ..machine.clone() };
        // Each is told only where it is more than the one before.
        let version = |s: &Solution| s.stack.as_ref().map(|s| (s.version.clone(), s.variant.clone()));
        let mut told = vec![Some((locked.version.clone(), locked.variant.clone()))];
        let mut once = |found: Option<Solution>| {
            // A release that the registry does not know may be locked: what is older is no news.
            let newer = |s: &Solution| s.stack.as_ref().is_some_and(|s| s.version >= locked.version);
            let found = found.filter(|s| newer(s) && !told.contains(&version(s)));
            told.extend(found.iter().map(version));
            found
        };
        Newer {
            allowed: once(newest(machine, request)),
            any: once(newest(machine, &free)),
            any_driver: once(machine.driver.as_ref().and_then(|_| newest(&any_driver, &free))),
        }
    }

    fn show(&self, p: &Printer, target: &Target, several: bool) {
        let Some(locked) = &target.stack else { return };
        p.out(&format!("{}{} {}  locked", label(p, "torch"), locked.version, locked.variant));
        let say = |found: &Option<Solution>, why: &str| {
            let Some(stack) = found.as_ref().and_then(|s| s.stack.as_ref()) else { return };
            let mode = match stack.driver_mode {
                Some(DriverMode::Compatibility) => ", in compatibility mode",
                _ => "",
            };
            let name = format!("{} {}", stack.version, stack.variant);
            p.out(&format!(
                "{}{}  {}",
                label(p, ""),
                p.paint(GOOD, &name),
                wrap(&format!("{why}{mode}"), 30)
            ));
        };
        let machine = if several { "this target, seen alone" } else { "this machine" };
        say(&self.allowed, &format!("fits the request and {machine}"));
        say(&self.any, "would run here, but the request limits torch, CUDA or the index");
        let driver = self.any_driver.as_ref().and_then(|s| needed_driver(s, target));
        say(
            &self.any_driver,
            &format!("would run with driver >= {}", driver.unwrap_or_else(|| "unknown".to_owned())),
        );
        if self.allowed.is_none() && self.any.is_none() && self.any_driver.is_none() {
            p.out(&format!("{}nothing newer runs on this machine, with any driver", label(p, "")));
        }
    }

    fn json(&self) -> serde_json::Value {
        let stack = |s: &Option<Solution>| {
            s.as_ref()
                .and_then(|s| s.stack.as_ref())
                .map(|s| json!({"torch": s.version, "variant": s.variant}))
        };
        json!({
            "allowed_by_request": stack(&self.allowed),
            "on_this_machine": stack(&self.any),
            "with_newer_driver": stack(&self.any_driver),
        })
    }
}

/// The lowest driver that runs a stack on all of a target's GPUs.
fn needed_driver(solution: &Solution, target: &Target) -> Option<String> {
    let coverage = &solution.envelope.coverage;
    let gpus = target.host.gpus.iter().flatten().filter_map(|g| g.capability);
    let floors = gpus.filter_map(|capability| {
        coverage.iter().find(|c| c.compute_capability == capability)?.driver_min.clone()
    });
    floors.max().or_else(|| solution.envelope.driver.clone()).map(|v| v.to_string())
}
