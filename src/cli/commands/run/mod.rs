//! `envlock run -- CMD`: runs the static checks of `verify`, then executes CMD.

mod monitor;
mod samples;
mod signals;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use super::verify as view;
use crate::cli::args::RunArgs;
use crate::cli::printer::Printer;
use crate::inspect::Chosen;
use crate::model::finding::Severity;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::project_lock;
use crate::session::run::State;
use crate::session::settings::Project;
use crate::session::variables;
use crate::session::verify::{self, Place, Question};
use crate::verify::Verdict;

/// If the command is not started, the exit code is [`exit::NOT_STARTED`]. Any other exit code is the command's own.
pub(super) fn run(global: &Global, args: &RunArgs, printer: &Printer) -> Result<u8, Failure> {
    start(global, args, printer).map_err(|error| Failure { exit: exit::NOT_STARTED, ..error })
}

fn start(global: &Global, args: &RunArgs, printer: &Printer) -> Result<u8, Failure> {
    let environment = verify::environment(args.prefix.as_deref(), global)?;
    let prefix = &environment.prefix;
    if !environment.is_explicit() {
        printer.note(&format!("environment {}, the project's own", prefix.display()));
    }
    if !args.no_verify {
        let project = Project::find(global, true)?;
        let kept = State::kept(global, &project, prefix);
        if !kept.is_some_and(|state| state.holds(global, &asked(args)))
            && !verified(global, &project, prefix, args, printer)?
        {
            return Ok(exit::NOT_STARTED);
        }
    }
    let [program, rest @ ..] = args.command.as_slice() else {
        return Err(Failure::usage("no command given").hint("for example, `envlock run -- python train.py`"));
    };
    let mut command = Command::new(program);
    command.args(rest);
    enter(
        &mut command,
        prefix,
        environment.chosen != Chosen::ActiveVenv && environment.chosen != Chosen::ActiveConda,
    );
    let failed = |error: std::io::Error| {
        Failure::usage(format!("cannot start `{}`: {error}", program.to_string_lossy()))
    };
    if args.monitor || args.monitor_out.is_some() {
        return monitor::run(command, args.monitor_out.as_deref(), printer).map_err(failed);
    }
    replace(command).map_err(failed)
}

/// Whether verification finds no errors. If so, saves the state of the environment.
fn verified(
    global: &Global,
    project: &Project,
    prefix: &Path,
    args: &RunArgs,
    printer: &Printer,
) -> Result<bool, Failure> {
    let registry = project.registry(global)?;
    let lock = match project_lock::read(project)? {
        Some(lock) => {
            project_lock::warn_if_stale(project, &lock, &registry, printer);
            Some(project_lock::as_installed(lock, &args.parts)?)
        }
        None if args.parts.is_empty() => None,
        None => return Err(project_lock::missing()),
    };
    let place = Place::here();
    let question = Question {
        place: &place,
        prefix,
        read: None,
        host: None,
        target: args.target.as_deref(),
        deep: false,
        require_gpu: args.require_gpu,
        parts: Some(&args.parts),
        without_machine: false,
        exact: false,
        stale: None,
    };
    let begun = SystemTime::now();
    let mut judged = verify::judge(&question, project, lock.as_ref().into(), &registry)?;
    view::fixes_of_project(&mut judged.areas, printer);
    if judged.has_errors() {
        if printer.json {
            let findings: Vec<_> = judged.areas.iter().flat_map(|area| &area.findings).collect();
            printer.json(&serde_json::json!({ "verdict": Verdict::Differs, "findings": findings }));
        } else {
            view::findings(printer, judged.areas.iter().flat_map(|area| &area.findings));
        }
        printer.hint("the command was not started; pass `--no-verify` to start it anyway");
        return Ok(false);
    }
    // Once, until something changes.
    let all = judged.areas.iter().flat_map(|area| &area.findings);
    for finding in all.filter(|finding| finding.severity == Severity::Warning) {
        printer.warning(&format!("{}: {}", finding.code.as_str(), finding.message));
    }
    let state = State::of(global, project, prefix, &asked(args), &judged.installed);
    // A file that changed during verification may have been read before the change.
    if !state.changed_since(begun) {
        state.keep(global, prefix);
    }
    Ok(true)
}

/// What is asked of the environment, beside its lock.
fn asked(args: &RunArgs) -> String {
    format!("target {:?}{}\ngpu {}", args.target, args.parts.options(), args.require_gpu)
}

/// Activates the environment for a command, if it is not active already.
fn enter(command: &mut Command, prefix: &Path, is_inactive: bool) {
    let bin = prefix.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let path = variables::raw("PATH").unwrap_or_default();
    // The first Python on `PATH` is the one that runs.
    let first =
        std::env::split_paths(&path).find(|f| f.join("python").exists() || f.join("python3").exists());
    if !is_inactive && first.is_some_and(|folder| folder == bin) {
        return;
    }
    let absolute = std::path::absolute(&bin).unwrap_or(bin);
    let joined = std::env::join_paths(std::iter::once(absolute).chain(std::env::split_paths(&path)));
    command.env("PATH", joined.unwrap_or(OsString::from(&path)));
    command.env("VIRTUAL_ENV", std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_path_buf()));
    command.env_remove("PYTHONHOME");
}

/// Replaces this process by the command, which then has its own exit status and signals.
#[cfg(unix)]
fn replace(mut command: Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn replace(mut command: Command) -> std::io::Result<u8> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::NO))
}
