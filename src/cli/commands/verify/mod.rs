//! `envlock verify`: reads the environment, checks it and, if there are no errors, runs the smoke test.

mod here;
mod hosts;
mod output;
mod report;
mod report_formats;
mod stale;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cli::args::{Only, SmokeChoice, Unknown, VerifyArgs};
use crate::cli::printer::Printer;
use crate::formats::other_builds;
use crate::inspect::Environment;
use crate::model::installed::Installed;
use crate::model::smoke::SmokeOutcome;
use crate::model::text::{clean, shell_word};
use crate::registry::Registry;
use crate::session::Interface as _;
use crate::session::clock;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::lock::AnyLock;
use crate::session::options::{Global, ReportFormat};
use crate::session::settings::Project;
use crate::session::verify::{
    Against, Candidates, Judged, Place, Question, environment, ignored, judge, rooted, smoke,
};
use crate::session::{files, lock, owner};
use crate::verify::findings;
use crate::verify::smoke::Wanted;
use crate::verify::{self, Area, AreaKind};

pub(super) use output::two_formats;
pub(super) use report::{findings, fixes_of_project, verdict_word};
pub(super) use stale::{report_of_error, report_of_lock};

pub(super) fn run(global: &Global, args: &VerifyArgs, printer: &Printer) -> Result<u8, Failure> {
    of_read(global, args, None, printer)
}

/// `verify` of an environment that was just read, with the sizes of its files.
pub(super) fn of_read(
    global: &Global,
    args: &VerifyArgs,
    read: Option<&Installed>,
    printer: &Printer,
) -> Result<u8, Failure> {
    let result = check(global, args, read, printer);
    // With `--json` the caller prints it.
    if let Err(error) = &result
        && !printer.json
        && let Some(text) = report_formats::of_error(
            args.format,
            error,
            &files::folder_of(global),
            (report_formats::VERIFY, printer),
        )
    {
        // Who reads the report reads nothing else. What cannot be written either is said with the error.
        let _ = output::put(&text, args, printer);
    }
    match (result, args.unknown) {
        (Ok(exit::NOT_KNOWN), Unknown::Ok) => Ok(exit::YES),
        (Err(error), Unknown::Ok) if error.exit == exit::NOT_KNOWN => {
            printer.failure(&error);
            Ok(exit::YES)
        }
        (result, _) => result,
    }
}

/// Refuses options that contradict each other.
fn refuse_contradictions(args: &VerifyArgs) -> Result<(), Failure> {
    if args.root.is_some() {
        let other = match args.smoke {
            _ if args.only == Some(Only::Machine) => "--only machine",
            _ if args.host == Some(None) => "--host without a value",
            SmokeChoice::Cpu | SmokeChoice::Cuda => "--smoke",
            _ => return Ok(()),
        };
        return Err(Failure::usage(format!("`--root` contradicts `{other}`"))
            .hint("`--root DIR` reads the environment in DIR, runs nothing, and judges it for this machine or `--host FILE`"));
    }
    let (only, option) = match args.only {
        Some(Only::Machine) if args.described().is_some() => {
            return Err(Failure::usage(
                "`--only machine` looks at this machine: the state of a described one is unknown",
            )
            .hint("without `--only machine`, `--host FILE` judges the lock for the described machine"));
        }
        Some(Only::Machine) if args.prefix.is_some() => ("machine", "--prefix"),
        Some(Only::Machine) if args.lock.is_some() => ("machine", "--lock"),
        Some(Only::Machine) if args.target.is_some() => ("machine", "--target"),
        Some(Only::Machine) if args.deep => ("machine", "--deep"),
        Some(Only::Machine) if args.exact => ("machine", "--exact"),
        Some(Only::Machine) if !args.parts.is_empty() => ("machine", "--extra or --group"),
        Some(Only::Environment) if args.host.is_some() => ("environment", "--host"),
        Some(Only::Environment) if args.require_gpu => ("environment", "--require-gpu"),
        Some(Only::Environment) if args.smoke == SmokeChoice::Cuda => ("environment", "--smoke cuda"),
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("`--only {only}` contradicts `{option}`")).hint("remove one of them"))
}

fn check(
    global: &Global,
    args: &VerifyArgs,
    read: Option<&Installed>,
    printer: &Printer,
) -> Result<u8, Failure> {
    refuse_contradictions(args)?;
    let format = output::format(args, printer)?;
    let start = Instant::now();
    if args.only == Some(Only::Machine) {
        // Whatever the folder's project says.
        return here::soundness(args, printer);
    }
    let subject = Subject::read(global, args, printer)?;
    let Subject { project, registry, lock, .. } = &subject;
    if args.asks_this_machine() {
        let name =
            args.lock.as_ref().map_or(files::LOCK.to_owned(), |path| clean(&path.display().to_string(), 200));
        let lock = lock.as_ref().ok_or_else(|| {
            lock::missing().hint("`--only machine` asks whether this machine is sound, without a lock")
        })?;
        return here::judge((lock, &name), &ignored(project), registry, args, printer);
    }
    if let (Some(path), None, None) = (args.described(), &args.prefix, &args.root) {
        let candidates = match lock.as_ref().ok_or_else(lock::missing)? {
            AnyLock::Own(lock) => Candidates::of_own(lock, args.target.as_deref(), args.require_gpu)?,
            AnyLock::Foreign(lock) => Candidates::Foreign(lock, args.target.as_deref()),
        };
        return hosts::judge(path, &candidates, &ignored(project), registry, args, printer);
    }
    let tree = args.root.as_deref().map(rooted).transpose()?;
    let place = match &tree {
        Some(tree) => Place::rooted(tree, BTreeMap::new(), PathBuf::from("/")),
        None => Place::here(),
    };
    let environment = match &args.root {
        Some(root) => {
            let shown = clean(&root.display().to_string(), 200);
            place.environment(args.prefix.as_deref(), &shown)?
        }
        None => environment(args.prefix.as_deref(), global)?,
    };
    let mut judged = subject.judge((&place, &environment.prefix), args, read)?;
    report::fixes_of_project(&mut judged.areas, printer);
    let static_ms = start.elapsed().as_millis();
    let outcome = smoke_test(&environment, &judged, args, printer);
    if let Some(outcome) = &outcome {
        judged.areas.push(verify::smoke::check(outcome, judged.locked_cudnn.as_ref()));
    }
    let report = report::Report { judged: &judged, outcome: outcome.as_ref(), args, printer };
    match format {
        ReportFormat::Text => {
            report.text(&environment, start, static_ms);
            if outcome.is_some() && args.annotates_smoke && !printer.json {
                let of_smoke = |area: &&Area| area.kind == AreaKind::Smoke;
                let smoke: Vec<Area> = judged.areas.iter().filter(of_smoke).cloned().collect();
                output::put(&report_formats::github(&smoke, |_| None), args, printer)?;
            }
        }
        ReportFormat::Json => output::put_json(&report.json(), args, printer)?,
        _ => {
            let text = in_format(format, &judged, &environment.prefix, &project.folder);
            output::put(&text, args, printer)?;
        }
    }
    Ok(if judged.has_errors() { exit::NO } else { exit::YES })
}

/// What an environment or a machine is compared with.
struct Subject {
    project: Project,
    registry: Registry,
    lock: Option<AnyLock>,
    /// Why the lock is not that of the manifest.
    stale: Option<String>,
}

impl Subject {
    /// Reads the lock that is named, else the project's. That it is stale is said where it is no finding.
    fn read(global: &Global, args: &VerifyArgs, printer: &Printer) -> Result<Subject, Failure> {
        let project = Project::find(global, true)?;
        let registry = project.registry(global)?;
        let lock = match &args.lock {
            Some(path) => Some(lock::read_any(path)?),
            None => lock::read(&project)?.map(AnyLock::Own),
        };
        let stale = match (&lock, &args.lock) {
            (Some(AnyLock::Own(lock)), None) => lock::staleness(&project, lock, &registry),
            _ => None,
        };
        // Of an environment it is one of the findings.
        let judges_environment = !args.asks_this_machine()
            && (args.described().is_none() || args.prefix.is_some() || args.root.is_some());
        if let Some(first) = stale.as_ref().filter(|_| !judges_environment) {
            printer.warning(&lock::stale_text(first));
        }
        if let (Some(AnyLock::Own(own)), None, false) = (&lock, &args.lock, judges_environment)
            && let Some(held) = owner::held(&project, own)?
            && own.packages_in.as_ref() != Some(&held.state)
        {
            let others = own.targets.iter().flat_map(|target| other_builds(&held.lock, target, &registry));
            let first = others.into_iter().next();
            printer.warning(&findings::package_lock_changed(held.state.owner, first.as_ref()).message);
        }
        let lock = match lock {
            Some(AnyLock::Own(lock)) => Some(AnyLock::Own(lock::as_installed(lock, &args.parts)?)),
            None if !args.parts.is_empty() => return Err(lock::missing()),
            _ if !args.parts.is_empty() => {
                return Err(Failure::usage("`--extra` and `--group` select parts of an envlock.lock")
                    .hint("of another tool's lock, `--target \"extra NAME\"` names an environment"));
            }
            other => other,
        };
        Ok(Subject { project, registry, lock, stale })
    }

    /// Judges an environment without running anything.
    fn judge(
        &self,
        (place, prefix): (&Place<'_>, &Path),
        args: &VerifyArgs,
        read: Option<&Installed>,
    ) -> Result<Judged, Failure> {
        let question = Question {
            place,
            prefix,
            read,
            host: args.described(),
            target: args.target.as_deref(),
            deep: args.deep,
            require_gpu: args.require_gpu,
            parts: Some(&args.parts),
            without_machine: args.only == Some(Only::Environment),
        };
        let against = match (&self.lock, &args.lock) {
            (Some(AnyLock::Own(lock)), _) => Against::Lock(lock),
            (Some(AnyLock::Foreign(lock)), Some(path)) => Against::Foreign(lock, path),
            _ => Against::Nothing,
        };
        let mut judged = judge(&question, &self.project, against, &self.registry)?;
        let packages = judged.areas.iter_mut().find(|area| area.kind == AreaKind::Packages);
        if let (Some(first), Some(area)) = (&self.stale, packages) {
            area.findings.insert(0, findings::stale_lock(first, None, false));
        }
        if args.exact {
            let is_own = matches!(against, Against::Lock(_)) && judged.installed.is_environment;
            let prefix = shell_word(judged.installed.prefix.trim_end_matches('/'));
            let fix = format!("envlock sync --prefix {prefix}{} --exact", question.options());
            verify::exactly(&mut judged.areas, is_own.then_some(&fix));
        }
        if args.only == Some(Only::Environment) {
            judged.areas.retain(|area| ![AreaKind::Host, AreaKind::GpuCode].contains(&area.kind));
        }
        Ok(judged)
    }
}

/// Runs the smoke test where it is wanted and nothing is wrong: with wrong files it would prove nothing.
fn smoke_test(
    environment: &Environment,
    judged: &Judged,
    args: &VerifyArgs,
    printer: &Printer,
) -> Option<SmokeOutcome> {
    let is_wanted = match args.smoke {
        SmokeChoice::Off => false,
        // Nothing can be run for a described machine, and nothing runs in an environment that nobody named or activated.
        SmokeChoice::Auto => {
            let has_framework = !verify::smoke::frameworks(&judged.installed).is_empty();
            let may_run = environment.is_explicit() && !args.is_found;
            has_framework && args.described().is_none() && args.root.is_none() && may_run
        }
        SmokeChoice::Cpu | SmokeChoice::Cuda => true,
    };
    if !is_wanted || judged.has_errors() {
        return None;
    }
    let wanted = match args.smoke {
        SmokeChoice::Auto if args.only.is_some() => Wanted::Cpu,
        SmokeChoice::Cpu => Wanted::Cpu,
        SmokeChoice::Cuda => Wanted::Cuda,
        SmokeChoice::Auto | SmokeChoice::Off => Wanted::Auto,
    };
    let outcome = smoke::run(&environment.prefix, judged, wanted, printer);
    // Without a framework there may have been nothing to run, which is no success.
    (!outcome.checks.is_empty() || !outcome.passed()).then_some(outcome)
}

/// What was found, in a format that other programs read.
fn in_format(format: ReportFormat, judged: &Judged, prefix: &Path, folder: &Path) -> String {
    let verdict = if judged.has_errors() { verify::Verdict::Differs } else { verify::Verdict::Ok };
    let answer = report_formats::Answer { node: None, verdict, areas: &judged.areas };
    match format {
        ReportFormat::Github => report_formats::github(&judged.areas, |_| None),
        ReportFormat::Junit => report_formats::junit(&judged.areas, report_formats::VERIFY),
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(folder);
            report_formats::sarif(&judged.areas, |_| lock.clone())
        }
        ReportFormat::Line => report_formats::line(&answer),
        ReportFormat::Prometheus => {
            let prefix = prefix.display().to_string();
            let labels = [("question", "environment"), ("prefix", prefix.as_str())];
            report_formats::prometheus(&[answer], &labels, clock::now().seconds())
        }
        ReportFormat::Text | ReportFormat::Json => String::new(),
    }
}
