//! `envlock resolve`: collects the request and the machines, solves, writes the files and prints the result.

mod held;
mod learning;
mod local;
mod locked;
mod machines;
mod of_conda;
mod of_pixi;
mod owned;
mod solving;
mod stack_only;
mod task;
mod tell;
mod variants;
mod writing;

use std::cell::OnceCell;
use std::time::Instant;

use crate::cli::args::ResolveArgs;
use crate::cli::conflict;
use crate::cli::printer::Printer;
use crate::cli::view::Resolution;
use crate::compatibility::{UnreadBuild, unread_build};
use crate::export;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::level::Level;
use crate::model::owner::Owner;
use crate::model::request::{Preferences, PythonAllowed};
use crate::probe::{pythons, system};
use crate::session::error::{CliError, Failure};
use crate::session::exit;
use crate::session::options::{Global, SolveOptions};
use crate::session::settings::{self, Project};
use crate::session::{fetch, files, lock, owner, requirements};
use crate::solver::JointAnswer;

use crate::session::Interface as _;
use machines::{Machine, machines};
use stack_only::Beside;
use task::Task;
pub(super) use writing::NewManifest;

pub(super) fn run(global: &Global, args: &ResolveArgs, printer: &Printer) -> Result<u8, CliError> {
    let result = resolve(global, args, printer);
    if let (Err(error), Some(format), true) =
        (&result, args.solve.format.filter(|_| !printer.json), args.solve.only_checks())
        && let Some(text) =
            super::verify::report_of_error(format, error, (&files::folder_of(global), printer))
    {
        // Who reads the report reads nothing else.
        printer.raw(&text);
    }
    result
}

fn resolve(global: &Global, args: &ResolveArgs, printer: &Printer) -> Result<u8, CliError> {
    let packages = args.packages.as_slice();
    if !args.requirements.is_empty() {
        let project = Project::find(global, false)?;
        let project = requirements::project(project, (&args.requirements, &args.packages), Some(printer))?;
        return run_in(global, &project, &[], &args.solve, None, printer);
    }
    let project = Project::find(global, packages.is_empty())?;
    // A lock that cannot be read is told below.
    let lock = match (&project.manifest, packages) {
        (None, []) => lock::read(&project).ok().flatten(),
        _ => None,
    };
    let files = lock.map(|lock| requirements::remembered(&project.folder, &lock)).unwrap_or_default();
    let project = requirements::project(project, (&files, &[]), Some(printer))?;
    run_in(global, &project, packages, &args.solve, None, printer)
}

/// A request that only a build could meet that nobody has read.
fn unread(build: &UnreadBuild, has_asked_index: bool) -> CliError {
    let hint = match has_asked_index {
        false => {
            "without `--stack-only` releases of PyPI are read; `envlock verify` judges an installed build by its files"
        }
        true => {
            "`envlock registry learn URL` reads the build's wheel; `envlock verify` judges an installed build by its files"
        }
    };
    CliError::new(Failure::UnknownRow, format!("not known: {build}")).hint(hint)
}

/// Resolves a project.
pub(super) fn run_in(
    global: &Global,
    project: &Project,
    packages: &[String],
    args: &SolveOptions,
    manifest: Option<NewManifest>,
    printer: &Printer,
) -> Result<u8, CliError> {
    let start = Instant::now();
    let registry = project.registry(global)?;
    let old = held::read_lock(project, args, printer)?;
    let lines = old.as_ref().map(|l| l.request.as_slice());
    let request = settings::request(project, packages, args, lines, &registry)?;
    owned::check(project, args, &request)?;
    if let Some(lines) = lines
        && project.manifest.is_none()
        && packages.is_empty()
        && manifest.is_none()
        && lockfile::names_targets(lines)
        && !args.only_checks()
        && !args.force
    {
        return Err(CliError::usage("the lock has targets, and the manifest that described them is not here")
            .hint("restore the manifest from version control; `envlock resolve --force` locks for this machine alone"));
    }
    let (request, kept) = match lines {
        // A run without such options keeps those that the lock was made with.
        Some(lines)
            if packages.is_empty() && !args.redetect && !args.only_checks() && !args.sets_limits() =>
        {
            request.keeping_options_of(&lockfile::read_request(lines)?)
        }
        Some(lines) if args.sets_limits() && packages.is_empty() && !args.only_checks() => {
            let (_, dropped) = request.clone().keeping_options_of(&lockfile::read_request(lines)?);
            if !dropped.is_empty() {
                printer.note(&format!(
                    "beside other options, those that the lock was made with are dropped: {}",
                    dropped.join(", ")
                ));
            }
            (request, Vec::new())
        }
        _ => (request, Vec::new()),
    };
    if args.format.is_some() && !args.only_checks() {
        return Err(
            CliError::usage("`--format` is the format of `--locked`").hint("`--json` prints what was solved")
        );
    }
    if args.only_checks() {
        let check = locked::Check {
            global,
            project,
            args,
            asked: packages,
            request: &request,
            registry: &registry,
            printer,
        };
        return locked::run(&check, old.as_ref());
    }
    if owner::of(project) == Some(Owner::Pixi) && !args.stack_only {
        let of_pixi = of_pixi::OfPixi { project, args, request: &request, registry: &registry, printer };
        return of_pixi.run(old.as_ref());
    }
    if args.stack_only && request.has_stack_of_conda() {
        return Err(CliError::usage("`--stack-only` chooses among the builds of PyPI and the pytorch index, and this stack comes from conda-forge")
            .hint("remove `--stack-only`"));
    }
    if args.stack_only && !args.dry_run && stack_only::asks_for_torch(&request) {
        held::guard_full_lock(old.as_ref(), args.force)?;
    }
    if owner::of(project).is_none() {
        held::check_upgrades(old.as_ref(), &request, args)?;
    }
    let machines = machines(project, args, old.as_ref(), &registry)?;
    if args.redetect && project.manifest.as_ref().is_some_and(|manifest| !manifest.targets.is_empty()) {
        printer.note("`--redetect` detects no machine: the `[target]` tables describe them");
    }
    let owner = owned::owner(project, old.as_ref(), args)?.filter(|_| !args.stack_only);
    let held = owner.map(|owner| owner::read(project, owner)).transpose()?.flatten();
    let environments: Vec<String> = match args.stack_only || owner.is_some() {
        true => Vec::new(),
        false => machines.iter().enumerate().map(|(i, m)| lock::environment_file(i == 0, &m.name)).collect(),
    };
    if !args.dry_run {
        for name in &environments {
            files::refuse_foreign(&project.folder.join(name), export::ENVIRONMENT_MARK, args.force)?;
        }
    }
    let level = if args.stack_only { Level::Stack } else { Level::Full };
    let beside = match args.stack_only {
        false => Beside::Series(Vec::new()),
        true => stack_only::series_of_other_frameworks(&machines, &request, &registry)?,
    };
    if !kept.is_empty() {
        printer.note(&format!("{} kept from the lock; `--redetect` drops such options", kept.join(", ")));
    }
    tell::before(project, &machines, args, &registry, printer);
    let hosts = || machines.iter().map(|machine| (machine.name.as_str(), &machine.host));
    let series = match beside {
        Beside::Series(series) => series,
        Beside::Conflict(refused) => {
            return Ok(conflict::refuse(&refused, &request, level, hosts(), printer));
        }
    };
    if args.stack_only && !stack_only::asks_for_torch(&request) {
        stack_only::tell(&machines, &series, &request, &registry, printer);
        return Ok(exit::YES);
    }
    // What the lock is for stays, unless `.python-version` names another one.
    let python = match owner {
        Some(Owner::Uv) if old.is_none() || owner::pinned_python(project).is_some() => {
            owner::python_of_uv(project)
        }
        _ => None,
    };
    let (own_platform, installed) = (system().platform, OnceCell::new());
    let preferences = |machine: &Machine| {
        let mut preferences = held::preferences(old.as_ref(), &machine.name, args, &request);
        let asked = machine.python.as_ref().or(request.python.as_ref());
        let names_python = asked.is_some_and(|asked| matches!(asked.allowed, PythonAllowed::Exact(_)));
        // This machine, or one without a GPU such as this may be.
        let may_be_here = match request.targets.is_empty() {
            true => args.host.may_be_this_machine(),
            false => machine.host.has_no_gpu() && machine.host.system.platform == own_platform,
        };
        // A machine without a GPU that the lock holds may be this one as well.
        let is_other = machine.kept && !machine.host.has_no_gpu();
        if !names_python && owner.is_none() && may_be_here && !is_other {
            preferences.installed = installed.get_or_init(|| owner::with_places(pythons::series)).clone();
        }
        if owner.is_some() {
            owned::prefer(&mut preferences, python, held.as_ref(), &machine.host, args);
        }
        preferences
    };
    let preferences: Vec<Preferences> = machines.iter().map(preferences).collect();
    let client = match args.stack_only {
        true => None,
        false => Some(fetch::client(global, project, args.index_url.as_deref())?),
    };
    let task = Task {
        global,
        args,
        request: &request,
        machines: &machines,
        preferences: &preferences,
        client,
        printer,
    };
    let (answer, registry) = task.solve_buildable(registry)?;
    let mut solutions = match answer {
        JointAnswer::Solved(solutions) => solutions,
        JointAnswer::Conflict(mut refused) => {
            let asked = client.filter(|_| !global.offline);
            let mut open = machines
                .iter()
                .filter_map(|machine| unread_build(&registry, &machine.host, &request, asked.is_some()));
            if let Some(build) = open.find(|build| variants::may_exist(asked, build)) {
                return Err(unread(&build, client.is_some()));
            }
            let hint = of_conda::offer(&task, project, &mut refused, &registry, owner);
            let code = conflict::refuse(&refused, &request, level, hosts(), printer);
            if let Some(hint) = hint.filter(|_| !printer.json) {
                printer.hint(&hint);
            }
            return Ok(code);
        }
        JointAnswer::TooLong => {
            return Err(CliError::internal("resolution exceeded the step limit")
                .hint("name a version of one or two packages, or a Python with `--python`"));
        }
    };
    let targets = machines
        .iter()
        .zip(&solutions)
        .map(|(machine, solution)| Target {
            image: request.images.get(&machine.name).cloned(),
            ..Target::new(&machine.name, solution, &machine.seen, level)
        })
        .collect();
    let lock = Lockfile::new(&request, registry.digest(), &registry.meta().date, targets)
        .stated_in(requirements::that_state(project));
    let (written, changed) = match (args.dry_run, owner) {
        (true, _) => (Vec::new(), Vec::new()),
        (false, None) => writing::write(project, &lock, &environments, manifest, args)?,
        (false, Some(_)) => {
            let owned = owned::Owned { global, project, args, registry: &registry, printer };
            let written = owned.write(&lock, manifest)?;
            (written.clone(), written)
        }
    };
    if owner == Some(Owner::Uv) && !args.dry_run {
        owned::as_locked_by_uv(&mut solutions, project)?;
    }
    for (solution, preferences) in solutions.iter_mut().zip(&preferences) {
        tell::mark_kept_versions(solution, preferences);
        if !printer.json {
            tell::mark_cutoff(solution, &request);
        }
    }
    if printer.json {
        let named = machines.iter().map(|m| m.name.as_str()).zip(&solutions);
        printer.json(&Resolution::solved(named));
    } else {
        tell::Told {
            machines: &machines,
            solutions: &solutions,
            request: &request,
            project: &project.name(),
            preferences: &preferences,
            is_dry: args.dry_run,
            written: &written,
            changed: &changed,
            python,
            owner,
            start,
            printer,
        }
        .tell(&registry);
        stack_only::print_other_frameworks(&machines, &series, printer);
        writing::report_stale_environment_files(project, old.as_ref(), &written, printer);
    }
    if !written.is_empty() && !args.stack_only {
        for (file, command) in locked::stale_exports(project, args.index_url.as_deref(), &lock)? {
            printer.note(&format!("`{file}` is not what the lock gives now: `{command}` writes it anew"));
        }
    }
    Ok(exit::YES)
}
