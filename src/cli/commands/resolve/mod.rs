//! `envlock resolve`: prints what was solved and written.

mod locked;
mod pixi;
mod stack_only;
mod tell;

use crate::cli::args::{ResolveArgs, UpgradeArgs};
use crate::cli::conflict;
use crate::cli::printer::Printer;
use crate::session::Interface as _;
use crate::session::failure::Failure;
use crate::session::options::{Global, SolveOptions};
use crate::session::resolve::locked::stale_exports;
use crate::session::resolve::{self, NewManifest, Outcome, Prepared, ResolveAnswer, ResolveRun};
use crate::session::settings::Project;
use crate::session::{exit, files};

pub(super) fn run(global: &Global, args: &ResolveArgs, printer: &Printer) -> Result<u8, Failure> {
    let packages: &[String] = if args.requirements.is_empty() { &args.packages } else { &[] };
    let result = resolve::project(global, &args.packages, &args.requirements, args.solve.dry_run, printer)
        .and_then(|project| run_in(global, &project, packages, &args.solve, None, printer));
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

/// `envlock upgrade`: `resolve --upgrade` by its own name.
pub(super) fn upgrade(global: &Global, args: &UpgradeArgs, printer: &Printer) -> Result<u8, Failure> {
    if args.packages.iter().any(|name| name.trim().is_empty()) {
        return Err(
            Failure::usage("a package to upgrade has no name").hint("`envlock upgrade` upgrades all of them")
        );
    }
    let mut options = args.solve.clone();
    match args.packages.is_empty() {
        // All of them.
        true if options.upgrade.is_empty() => options.upgrade.push(String::new()),
        true => {}
        false => options.upgrade.extend(args.packages.iter().cloned()),
    }
    let project = resolve::project(global, &[], &[], false, printer)?;
    run_in(global, &project, &[], &options, None, printer)
}

/// Resolves a project.
pub(super) fn run_in(
    global: &Global,
    project: &Project,
    packages: &[String],
    options: &SolveOptions,
    manifest: Option<NewManifest>,
    printer: &Printer,
) -> Result<u8, Failure> {
    let asked = ResolveRun::new(global, (project, packages), options, manifest.is_some(), printer)?;
    locked::check_formats(options, printer)?;
    match asked.run(manifest, &|prepared| tell::before(prepared, printer))? {
        Outcome::Compared(asked, comparison) => Ok(locked::tell(&asked, &comparison, printer)),
        Outcome::ByPixi(asked, answer) => Ok(pixi::tell(&asked, &answer, printer)),
        Outcome::Solved(prepared, answer) => solved(*prepared, answer, printer),
    }
}

fn solved(prepared: Prepared<'_>, answer: ResolveAnswer, printer: &Printer) -> Result<u8, Failure> {
    match answer {
        ResolveAnswer::Refused(refused, hint) => {
            let hosts = prepared.machines.iter().map(|machine| (machine.name.as_str(), &machine.host));
            let code = conflict::refuse(&refused, &prepared.asked.request, prepared.level(), hosts, printer);
            if let Some(hint) = hint.filter(|_| !printer.json) {
                printer.hint(&hint);
            }
            Ok(code)
        }
        ResolveAnswer::Series(series) => {
            stack_only::tell(&prepared, &series, printer);
            Ok(exit::YES)
        }
        ResolveAnswer::Resolved(resolved) => {
            let (written, lock) = (resolved.written.clone(), resolved.lock.clone());
            tell::resolved(&prepared, *resolved, printer);
            tell_stale_exports(&prepared, &written, &lock, printer)?;
            Ok(exit::YES)
        }
    }
}

fn tell_stale_exports(
    prepared: &Prepared<'_>,
    written: &[String],
    lock: &crate::lockfile::Lockfile,
    printer: &Printer,
) -> Result<(), Failure> {
    let options = prepared.asked.options;
    if written.is_empty() || options.stack_only {
        return Ok(());
    }
    for (file, command) in stale_exports(prepared.asked.project, options.index_url.as_deref(), lock)? {
        printer.note(&format!("`{file}` is not what the lock gives now: `{command}` writes it anew"));
    }
    Ok(())
}
