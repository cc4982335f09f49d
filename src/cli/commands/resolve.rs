//! `envlock resolve`: gather, solve, write, tell.

use std::time::Instant;

use crate::cli::args::{GlobalArgs, SolveArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::{Printer, wrap};
use crate::cli::settings::{self, Project};
use crate::cli::{fetch, files, host, report};
use crate::export;
use crate::lockfile::{self, Lockfile};
use crate::model::host::Host;
use crate::model::request::{Preferences, Request};
use crate::model::solution::{Answer, Level, Solution};
use crate::model::text::normalized_name;
use crate::registry::Registry;
use crate::solver::{Catalogue, Depth, Inputs, Universe, solve};

pub(super) fn run(
    global: &GlobalArgs,
    packages: &[String],
    args: &SolveArgs,
    printer: &Printer,
) -> Result<u8, CliError> {
    let project = Project::find(global, packages.is_empty())?;
    run_in(global, &project, packages, args, &mut || Ok(()), printer)
}

/// Resolves a project. `before_writing` runs once a solution is there and before it is written.
pub(super) fn run_in(
    global: &GlobalArgs,
    project: &Project,
    packages: &[String],
    args: &SolveArgs,
    before_writing: &mut dyn FnMut() -> Result<(), CliError>,
    printer: &Printer,
) -> Result<u8, CliError> {
    let start = Instant::now();
    let registry = settings::registry(global)?;
    let old = read_lock(project, args, printer)?;
    let lines = old.as_ref().map(|l| l.request.as_slice());
    let request = settings::request(project, packages, args, lines, &registry)?;
    if args.locked {
        return locked(old.as_ref(), &request, &registry, printer);
    }
    if args.stack_only && !args.dry_run {
        guard_full_lock(old.as_ref(), args.force)?;
    }
    let Machine { host: target_host, kept, name: target_name } =
        which_host(project, args, old.as_ref(), &registry)?;
    if !args.dry_run && !args.stack_only {
        files::guard(&project.folder.join(files::ENVIRONMENT), export::ENVIRONMENT_MARK, args.force)?;
    }
    if !printer.json {
        let from = if kept { "; kept from the lock, `--redetect` looks again" } else { "" };
        let line = format!("{}{from}", report::host_line(&target_host, &registry));
        printer.out(&format!("host   {}", wrap(&line, 7)));
    }
    for note in &target_host.notes {
        printer.note(note);
    }
    if target_host.has_no_gpu() && !args.host.describe_a_machine() && !kept {
        printer.note("no NVIDIA GPU was found: solving for the CPU (describe another machine with `--gpu`)");
    }
    for name in project.manifest.iter().flat_map(|m| &m.redefined) {
        printer.note(&format!("envlock.toml redefines the index `{name}`"));
    }
    let preferences = preferences(old.as_ref(), args);
    let depth = if args.stack_only { Depth::Stack } else { Depth::Full };
    let answer = match depth {
        Depth::Stack => solve(
            &Inputs {
                catalogue: &Catalogue::new(&registry, target_host.system.platform),
                universe: &Universe::default(),
                host: &target_host,
                request: &request,
                preferences: &preferences,
            },
            depth,
        ),
        Depth::Full => {
            let client = fetch::client(global, project, args.index_url.as_deref())?;
            fetch::solve_full(&client, &registry, &target_host, &request, &preferences, printer)?
        }
    };
    match answer {
        Answer::NeedMetadata(_) => Err(CliError::new("internal", "the solver stopped without an answer")),
        Answer::TooLong => {
            Err(CliError::new("internal", "the search was given up: these requirements are too entangled")
                .hint("name a version of one or two packages, or a Python with `--python`"))
        }
        Answer::Conflict(conflict) | Answer::ConflictSoFar(conflict, _) => {
            if printer.json {
                printer.json(&report::conflict_json(&conflict));
            } else {
                report::conflict(printer, &conflict);
                if conflict.would_work_if.iter().any(|w| w.party == "driver") {
                    printer.hint("name one of these, or update the driver on the host (containers share it)");
                } else if !conflict.would_work_if.is_empty() {
                    printer.hint("name one of these in the request");
                }
            }
            Ok(exit::NO)
        }
        Answer::Solution(mut solution) => {
            let level = if args.stack_only { Level::Stack } else { Level::Full };
            let mut lock = Lockfile::new(
                &solution,
                &target_host,
                level,
                &request,
                registry.digest(),
                &registry.meta().date,
            );
            lock.targets[0].name = target_name;
            let written = if args.dry_run {
                Vec::new()
            } else {
                before_writing()?;
                write(project, &lock, args)?
            };
            say_what_was_kept(&mut solution, &preferences);
            tell(
                &solution,
                &request,
                &target_host,
                &written,
                start,
                printer,
                &export::environment_name(&project.name()),
            );
            Ok(exit::YES)
        }
    }
}

/// The lock of the project. One that cannot be read is an error: it names the machine that the project
/// is locked for, and that is not to be forgotten. With `--force`, `--redetect` or a described machine
/// nothing of it is needed, and it is made afresh.
fn read_lock(project: &Project, args: &SolveArgs, printer: &Printer) -> Result<Option<Lockfile>, CliError> {
    let path = project.lock_path();
    let Some(text) = files::read(&path)? else { return Ok(None) };
    let error = match lockfile::parse(&text) {
        Ok(lock) => return Ok(Some(lock)),
        Err(error) => error,
    };
    if args.force {
        printer.warning(&format!("{error}; it is made afresh"));
        return Ok(None);
    }
    let ours = text.contains(lockfile::MARK);
    if !ours && !text.trim().is_empty() {
        return Err(CliError::new(
            "files",
            format!("`{}` exists and was not written by envlock", path.display()),
        )
        .hint("move it away, or pass `--force` to replace it"));
    }
    let renewable = !matches!(error, lockfile::LockError::Newer { .. });
    if renewable && !args.locked && (args.redetect || args.host.describe_a_machine()) {
        printer.warning(&format!("{error}; it is made afresh"));
        return Ok(None);
    }
    Err(error.into())
}

fn locked(
    old: Option<&Lockfile>,
    request: &Request,
    registry: &Registry,
    printer: &Printer,
) -> Result<u8, CliError> {
    let Some(lock) = old else {
        return Err(CliError::new("lock", "there is no envlock.lock").hint("make it with `envlock resolve`"));
    };
    let stale = lockfile::stale(lock, request, registry);
    if printer.json {
        printer.json(&serde_json::json!({
            "status": if stale.is_empty() { "current" } else { "stale" },
            "reasons": stale.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }));
    } else if stale.is_empty() {
        printer.out("the lock is current");
    } else {
        for reason in &stale {
            printer.out(&reason.to_string());
        }
        printer.hint("make it current with `envlock resolve`");
    }
    Ok(if stale.is_empty() { exit::YES } else { exit::NO })
}

/// The machine to solve for.
struct Machine {
    host: Host,
    /// Whether it is the lock's.
    kept: bool,
    /// The target's name in the lock.
    name: String,
}

fn which_host(
    project: &Project,
    args: &SolveArgs,
    old: Option<&Lockfile>,
    registry: &Registry,
) -> Result<Machine, CliError> {
    let machine = |host: Host, kept: bool, name: &str| Machine { host, kept, name: name.to_owned() };
    if args.host.describe_a_machine() {
        return Ok(machine(host::described(&args.host, registry)?, false, "default"));
    }
    let targets = project.manifest.as_ref().map(|m| m.targets.as_slice()).unwrap_or_default();
    match targets {
        [] => {}
        [(name, table)] => return Ok(machine(host::from_table(name, table, registry)?, false, name)),
        [first, ..] => {
            return Err(CliError::new(
                "usage",
                "envlock.toml describes several targets, and only one can be locked yet",
            )
            .hint(format!(
                "keep `[target.{}]`, or describe a machine with `--gpu` and `--driver`",
                first.0
            )));
        }
    }
    match old {
        Some(lock) if !args.redetect => {
            let target = &lock.targets[0];
            Ok(machine(host::finish(target.host.clone(), registry)?, true, &target.name))
        }
        _ => Ok(machine(host::probed(registry)?, false, "default")),
    }
}

fn preferences(old: Option<&Lockfile>, args: &SolveArgs) -> Preferences {
    let all = args.upgrade.iter().any(String::is_empty);
    match old {
        Some(lock) if !all => {
            let mut preferences = lock.preferences();
            for name in &args.upgrade {
                let name = normalized_name(name);
                preferences.versions.remove(&name);
                if name == "torch" {
                    preferences.variant = None;
                }
            }
            preferences
        }
        _ => Preferences::default(),
    }
}

/// A lock of the stack alone has no hashes: it does not silently take the place of one that has them.
fn guard_full_lock(old: Option<&Lockfile>, force: bool) -> Result<(), CliError> {
    match old {
        Some(lock) if !force && lock.targets.iter().any(|t| t.level == Level::Full) => Err(CliError::new(
            "files",
            "`envlock.lock` holds every package with its hashes, and `--stack-only` would drop them",
        )
        .hint("see the answer with `--dry-run`, or replace the lock with `--force`")),
        _ => Ok(()),
    }
}

/// A version that the old lock decided is not called the newest. Only the answer says so: solved
/// again, the lock must be the same bytes.
fn say_what_was_kept(solution: &mut Solution, preferences: &Preferences) {
    for package in &mut solution.packages {
        let locked = preferences.versions.get(&package.name).map(ToString::to_string);
        if locked.as_ref() == Some(&package.version) && package.reason.starts_with("newest") {
            package.reason = "kept from the lock".to_owned();
        }
    }
}

/// Writes the lock and, for a full one, conda's file. Returns the names written.
fn write(project: &Project, lock: &Lockfile, args: &SolveArgs) -> Result<Vec<String>, CliError> {
    let mut texts = vec![(files::LOCK, lockfile::render(lock))];
    if !args.stack_only {
        let (addresses, _) = settings::indexes(project, args.index_url.as_deref());
        let target = &lock.targets[0];
        let text = export::conda_environment(lock, target, &project.name(), &addresses)?;
        texts.push((files::ENVIRONMENT, text));
    }
    let written = texts.iter().map(|(name, _)| (*name).to_owned()).collect();
    // An unchanged file is left alone: its time stamp tells build tools that nothing happened.
    let changed: Vec<_> = texts
        .into_iter()
        .map(|(name, text)| (project.folder.join(name), text))
        .filter(|(path, text)| files::read(path).ok().flatten().as_deref() != Some(text.as_str()))
        .collect();
    files::write_all(&changed)?;
    Ok(written)
}

/// `3.4 GB`, `12 MB`, `340 kB`.
fn megabytes(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{}.{} GB", bytes / 1_000_000_000, bytes % 1_000_000_000 / 100_000_000),
        1_000_000.. => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} kB", bytes.div_ceil(1000)),
    }
}

fn tell(
    solution: &Solution,
    request: &Request,
    host: &Host,
    written: &[String],
    start: Instant,
    printer: &Printer,
    name: &str,
) {
    if printer.json {
        printer.json(&report::solution_json(solution));
        return;
    }
    let count = solution.packages.len();
    let bytes: u64 = solution.packages.iter().filter_map(|p| p.files.first()?.size).sum();
    let download = if bytes > 0 { format!(", {} to download", megabytes(bytes)) } else { String::new() };
    printer.out(&format!(
        "solved {count} package{}{download} in {:.1} s",
        if count == 1 { "" } else { "s" },
        start.elapsed().as_secs_f64()
    ));
    let python = match &request.python {
        Some(asked) if asked.text == solution.python.to_string() => "asked for".to_owned(),
        Some(asked) => format!("newest of {} with wheels for all of these", asked.text),
        None => "newest with wheels for all of these".to_owned(),
    };
    report::solution(printer, solution, request, host, &python);
    if written.is_empty() {
        printer.out(&format!("{}nothing (--dry-run)", report::label(printer, "wrote")));
    } else {
        printer.out(&format!("{}{}", report::label(printer, "wrote"), written.join(", ")));
    }
    if written.iter().any(|w| w == files::ENVIRONMENT) {
        printer.out(&format!(
            "{}conda env create -f environment.yml && conda run -n {name} envlock verify",
            report::label(printer, "next")
        ));
    }
    for note in &solution.notes {
        match &note.source {
            Some(source) => printer.warning(&format!("{} [{source}]", note.text)),
            None => printer.warning(&note.text),
        }
    }
}
