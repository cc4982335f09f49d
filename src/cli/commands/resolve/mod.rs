//! `envlock resolve`: collects the request and the machines, solves, writes the files and prints the result.

mod learning;
mod locked;
mod machines;
mod stack_only;
mod tell;

use std::path::PathBuf;
use std::time::Instant;

use crate::cli::args::{GlobalArgs, SolveArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::cli::view::Resolution;
use crate::cli::{builds, conflict, fetch, files, lock, write};
use crate::export;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::level::Level;
use crate::model::request::{Preferences, Request};
use crate::model::text::normalized_name;
use crate::registry::Registry;
use crate::solver::{Joint, JointAnswer, Member, Universe, solve_stack};

use machines::machines;
use stack_only::Beside;

pub(super) fn run(
    global: &GlobalArgs,
    packages: &[String],
    args: &SolveArgs,
    printer: &Printer,
) -> Result<u8, CliError> {
    let project = Project::find(global, packages.is_empty())?;
    run_in(global, &project, packages, args, None, printer)
}

/// A manifest to write if there is a solution.
pub(super) struct NewManifest {
    /// Its path.
    pub path: PathBuf,
    /// The text that was read and changed.
    pub before: String,
    /// The text to write.
    pub after: String,
}

/// Resolves a project.
pub(super) fn run_in(
    global: &GlobalArgs,
    project: &Project,
    packages: &[String],
    args: &SolveArgs,
    manifest: Option<NewManifest>,
    printer: &Printer,
) -> Result<u8, CliError> {
    let start = Instant::now();
    let registry = settings::registry(global)?;
    let old = read_lock(project, args, printer)?;
    let lines = old.as_ref().map(|l| l.request.as_slice());
    let request = settings::request(project, packages, args, lines, &registry)?;
    if args.only_checks() {
        let check = locked::Check { global, project, args, request: &request, registry: &registry, printer };
        return locked::run(&check, old.as_ref());
    }
    if args.stack_only && !args.dry_run && stack_only::asks_for_torch(&request) {
        guard_full_lock(old.as_ref(), args.force)?;
    }
    let machines = machines(project, args, old.as_ref(), &registry)?;
    let environments: Vec<String> = match args.stack_only {
        true => Vec::new(),
        false => machines.iter().enumerate().map(|(i, m)| lock::environment_file(i == 0, &m.name)).collect(),
    };
    if !args.dry_run {
        for name in &environments {
            files::refuse_foreign(&project.folder.join(name), export::ENVIRONMENT_MARK, args.force)?;
        }
    }
    let beside = match args.stack_only {
        false => Beside::Series(Vec::new()),
        true => stack_only::series_of_other_frameworks(&machines, &request, &registry)?,
    };
    tell::before(project, &machines, args, &registry, printer);
    let series = match beside {
        Beside::Series(series) => series,
        Beside::Conflict(refused) => return Ok(conflict::refuse(&refused, &request, printer)),
    };
    if args.stack_only && !stack_only::asks_for_torch(&request) {
        stack_only::tell(&machines, &series, &request, &registry, printer);
        return Ok(exit::YES);
    }
    let preferences: Vec<Preferences> =
        machines.iter().map(|m| preferences(old.as_ref(), &m.name, args, &request)).collect();
    let client = match args.stack_only {
        true => None,
        false => Some(fetch::client(global, project, args.index_url.as_deref())?),
    };
    let learned = match &client {
        None => None,
        Some(client) => {
            let of = (machines.as_slice(), preferences.as_slice());
            learning::extended(global, args, client, &request, of, &registry, printer)?
        }
    };
    let registry = learned.unwrap_or(registry);
    let mut universe = Universe::default();
    let mut solve = |registry: &Registry| {
        let members: Vec<Member<'_>> =
            machines.iter().zip(&preferences).map(|(machine, held)| machine.member(held)).collect();
        let joint = Joint { members: &members, request: &request, registry };
        joint.solve(&mut |host, request, preferences| match &client {
            None => Ok(solve_stack(registry, host, request, preferences)),
            Some(client) => {
                fetch::solve_full(client, &mut universe, registry, host, request, preferences, printer)
            }
        })
    };
    let mut joint = solve(&registry)?;
    let mut registry = registry;
    if let (JointAnswer::Solved(solutions), Some(client), false) = (&joint, &client, args.no_learn)
        && let Some(more) = learning::with_code_of_companions(global, client, solutions, &registry, printer)
    {
        joint = solve(&more)?;
        registry = more;
    }
    let mut solutions = match joint {
        JointAnswer::Solved(solutions) => solutions,
        JointAnswer::Conflict(refused) => return Ok(conflict::refuse(&refused, &request, printer)),
        JointAnswer::TooLong => {
            return Err(CliError::internal("resolution exceeded the step limit")
                .hint("name a version of one or two packages, or a Python with `--python`"));
        }
    };
    if let Some(client) = &client {
        let mut universe = Universe::default();
        for ((solution, machine), preferences) in solutions.iter_mut().zip(&machines).zip(&preferences) {
            let held = preferences.for_builds();
            let mut solve = |asked: &Request| {
                fetch::solve_full(client, &mut universe, &registry, &machine.host, asked, &held, printer)
            };
            builds::lock(solution, &request, &mut solve)?;
        }
    }
    let level = if args.stack_only { Level::Stack } else { Level::Full };
    let targets = machines
        .iter()
        .zip(&solutions)
        .map(|(machine, solution)| Target::new(&machine.name, solution, &machine.seen, level))
        .collect();
    let lock = Lockfile::new(&request, registry.digest(), &registry.meta().date, targets);
    let written = match args.dry_run {
        true => Vec::new(),
        false => write(project, &lock, &environments, manifest, args)?,
    };
    for (solution, preferences) in solutions.iter_mut().zip(&preferences) {
        tell::mark_kept_versions(solution, preferences);
    }
    if printer.json {
        let named = machines.iter().map(|m| m.name.as_str()).zip(&solutions);
        printer.json(&Resolution::solved(named));
    } else {
        tell::Told {
            machines: &machines,
            solutions: &solutions,
            request: &request,
            preferences: &preferences,
            written: &written,
            start,
            name: &export::environment_name(&project.name()),
            printer,
        }
        .tell(&registry);
        stack_only::print_other_frameworks(&machines, &series, printer);
        report_stale_environment_files(project, old.as_ref(), &written, printer);
    }
    Ok(exit::YES)
}

/// Reads the project's lock. An unreadable lock is an error, because it names the machine that the project is
/// locked for. With `--force`, `--redetect` or a described machine nothing in it is needed, and it is replaced.
fn read_lock(project: &Project, args: &SolveArgs, printer: &Printer) -> Result<Option<Lockfile>, CliError> {
    let path = project.lock_path();
    let Some(text) = files::read(&path)? else { return Ok(None) };
    let error = match lockfile::parse(&text) {
        Ok(lock) => return Ok(Some(lock)),
        Err(error) => error,
    };
    if let lockfile::LockError::MergeConflict { .. } = error
        && !args.only_checks()
        && let Some((ours, theirs)) = lockfile::sides(&text)
    {
        printer
            .note(&format!("{error}; solving again and keeping the versions of both sides where they fit"));
        return Ok(Some(lockfile::merged(ours, &theirs)));
    }
    if args.force {
        printer.warning(&format!("{error}; it will be replaced"));
        return Ok(None);
    }
    let ours = text.contains(lockfile::MARK);
    if !ours && !text.trim().is_empty() {
        return Err(files::foreign(&path));
    }
    let renewable = !matches!(error, lockfile::LockError::Newer { .. });
    if renewable && !args.only_checks() && (args.redetect || args.host.describe_a_machine()) {
        printer.warning(&format!("{error}; it will be replaced"));
        return Ok(None);
    }
    Err(error.into())
}

/// The versions that the old lock holds for a target, without those to upgrade. A new target starts from the
/// old lock's target if that lock has one target.
fn preferences(old: Option<&Lockfile>, target: &str, args: &SolveArgs, request: &Request) -> Preferences {
    let all = args.upgrade.iter().any(String::is_empty);
    let held = old.and_then(|lock| {
        let only = || lock.target(None).filter(|_| lock.targets.len() == 1);
        lock.target(Some(target)).or_else(only)
    });
    match held {
        Some(held) if !all => {
            let mut preferences = held.preferences();
            // Another branch or tag means another commit.
            let before = old.map_or(&[][..], |lock| &lock.request);
            preferences.commits.retain(|name, _| {
                let line = request
                    .find(name)
                    .map(|user| Request { requirements: vec![user.clone()], ..Request::default() });
                line.is_some_and(|one| lockfile::request_lines(&one).iter().all(|line| before.contains(line)))
            });
            for name in &args.upgrade {
                let name = normalized_name(name);
                preferences.versions.remove(&name);
                preferences.commits.remove(&name);
                if name == "torch" {
                    preferences.variant = None;
                }
            }
            preferences
        }
        _ => Preferences::default(),
    }
}

/// Refuses to replace a full lock by a stack-only lock, which has no hashes, unless `force` is set.
fn guard_full_lock(old: Option<&Lockfile>, force: bool) -> Result<(), CliError> {
    match old {
        Some(lock) if !force && lock.targets.iter().any(|t| t.level == Level::Full) => Err(CliError::files(
            "`envlock.lock` holds every package with its hashes, and `--stack-only` would drop them",
        )
        .hint("pass `--dry-run` to see the answer, or `--force` to replace the lock")),
        _ => Ok(()),
    }
}

/// Writes the manifest if it changed, the lock and, for a full lock, the conda environment files: all or none, as
/// far as the file system allows (see [`write::write_all`]). A lock with the same answer keeps its bytes, even if
/// another version of envlock wrote it. Returns the names of the lock and its environment files.
fn write(
    project: &Project,
    lock: &Lockfile,
    environments: &[String],
    manifest: Option<NewManifest>,
    args: &SolveArgs,
) -> Result<Vec<String>, CliError> {
    let there = files::read(&project.folder.join(files::LOCK)).ok().flatten();
    let kept = there.filter(|text| lockfile::parse(text).is_ok_and(|old| lockfile::same_answer(&old, lock)));
    let (addresses, _) = settings::indexes(project, args.index_url.as_deref());
    let mut texts = Vec::new();
    for (file, target) in environments.iter().zip(&lock.targets) {
        let name = lock::environment_name(project, lock, target);
        texts.push((file.clone(), export::conda_environment(target, &name, &addresses)?));
    }
    let lock_text = kept.unwrap_or_else(|| lockfile::render(lock));
    let written = std::iter::once(files::LOCK.to_owned()).chain(environments.iter().cloned()).collect();
    // The lock last: `--locked` compares manifest and environment files with it.
    texts.push((files::LOCK.to_owned(), lock_text));
    let ours = texts.into_iter().map(|(name, text)| (project.folder.join(name), text));
    if let Some(manifest) = &manifest
        && files::read(&manifest.path)?.as_deref() != Some(manifest.before.as_str())
    {
        let name = manifest.path.display();
        return Err(CliError::files(format!("`{name}` was changed while the packages were resolved"))
            .hint("nothing was changed; run the command again"));
    }
    // An unchanged file is not rewritten, because build tools compare modification times.
    let changed: Vec<_> = manifest
        .map(|manifest| (manifest.path, manifest.after))
        .into_iter()
        .chain(ours)
        .filter(|(path, text)| files::read(path).ok().flatten().as_deref() != Some(text.as_str()))
        .collect();
    write::write_all(&changed)?;
    Ok(written)
}

/// Reports the environment files of removed targets. They are not deleted.
fn report_stale_environment_files(
    project: &Project,
    old: Option<&Lockfile>,
    written: &[String],
    printer: &Printer,
) {
    if written.is_empty() {
        return;
    }
    let before = old.iter().flat_map(|lock| lock.targets.iter().enumerate());
    for file in before.map(|(i, target)| lock::environment_file(i == 0, &target.name)) {
        let path = project.folder.join(&file);
        if !written.contains(&file) && path.is_file() && file != files::ENVIRONMENT {
            // Its target is gone, or has become the first, whose file is environment.yml.
            printer
                .note(&format!("`{file}` is stale: its target was removed or is now the first; delete it"));
        }
    }
}
