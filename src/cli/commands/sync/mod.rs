//! `envlock sync`: makes an environment be what the lock says, by the installer that is there, then verifies it.

mod conda;
mod installer;
mod lists;
mod owned;
mod place;
mod start;
mod targets;
mod tell;
mod work;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::verify;
use crate::cli::args::{SmokeChoice, SyncArgs, Unknown, VerifyArgs};
use crate::cli::printer::Printer;
use crate::inspect::Environment;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::direct::Direct;
use crate::model::installed::{DirectOrigin, Installed};
use crate::model::request::Request;
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::registry::Registry;
use crate::session::error::{CliError, Failure};
use crate::session::exit;
use crate::session::files;
use crate::session::lock;
use crate::session::options::{Global, ReportFormat};
use crate::session::owner;
use crate::session::settings::{self, Project};
use crate::solver::allowed_pythons;
use crate::sync::{self, Changes, Talk};
use place::OtherLocks;

use crate::session::Interface as _;
use work::Work;

pub(super) fn run(global: &Global, args: &SyncArgs, printer: &Printer) -> Result<u8, CliError> {
    let result = sync(global, args, printer);
    if let (Err(error), Some(format)) = (&result, args.format.filter(|_| !printer.json))
        && let Some(text) = verify::report_of_error(format, error, (&files::folder_of(global), printer))
    {
        printer.raw(&text);
    }
    result
}

fn sync(global: &Global, args: &SyncArgs, printer: &Printer) -> Result<u8, CliError> {
    let start = Instant::now();
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let named = args.prefix.as_deref().and_then(Path::parent).filter(|parent| parent.is_dir());
    let _alone = match args.dry_run {
        true => None,
        false => place::alone(named.unwrap_or(&project.folder), printer)?,
    };
    let lock = lock::read(&project)?.ok_or_else(lock::missing)?;
    lock::warn_if_stale(&project, &lock, &registry, printer);
    // uv has extras and groups that envlock does not lock.
    let lock = if lock.packages_in.is_some() { lock } else { lock::with_parts(lock, &args.parts)? };
    let chosen = targets::choose(&lock, args, &project, &registry)?;
    let target = chosen.target;
    if let Some(why) = chosen.why() {
        printer.note(&format!("the target is `{}`: {why}; `--target` names another one", target.name));
    }
    if let (Some(held), Some(current)) = (&lock.packages_in, owner::held(&project, &lock)?) {
        let owner = held.owner;
        let others = || other_locks(&project, &lock, target, &registry);
        let is_stale = project
            .manifest
            .as_ref()
            .is_some_and(|manifest| !lockfile::stale(&lock, &manifest.request, &registry).is_empty());
        let owned = owned::Owned {
            global,
            args,
            project: &project,
            target,
            owner,
            is_current: !is_stale && *held == current.state,
            current,
            registry: &registry,
            others: &others,
            printer,
        };
        return match owned.run()? {
            Some((prefix, is_made)) => {
                let runs_its_code = is_made || args.prefix.is_some();
                verify::run(global, &verified(args, target, prefix, runs_its_code), printer)
            }
            None => Ok(exit::YES),
        };
    }
    let talk = Talk {
        quiet: printer.quiet || printer.json,
        no_progress: printer.no_progress,
        offline: global.offline,
    };
    let half = match target.conda.is_empty() {
        true => None,
        false => Some(conda::half(args, &project, target, talk)?),
    };
    if let Some(half) = half.as_ref().filter(|_| !args.dry_run) {
        if half.is_made() {
            // What PyPI's half would refuse is refused before anything is installed.
            check(&sync::changes(target, None, None, &|_, _| false), target, (&project, &lock), args)?;
        }
        half.execute(&project, start, printer)?;
    }
    // conda's half is there.
    let whole = target;
    let target = &Target { conda: Vec::new(), ..target.clone() };
    let others = || other_locks(&project, &lock, target, &registry);
    let environment = match &half {
        Some(half) => half.environment.clone(),
        None => place::chosen(args, &project, false)?,
    };
    let to_come = half.as_ref().filter(|_| args.dry_run).and_then(conda::Half::to_come);
    let found = match to_come {
        Some(found) => found,
        None => place::find(args, &project, target, environment, &others)?,
    };
    let own = found.own_project(&project, args);
    let editable = found.installed.as_ref().and_then(|installed| installed.editable_of(&project.folder));
    let keeps = own.as_ref().map(|own| own.name.clone()).or(editable.map(str::to_owned));
    let keeps: Vec<String> = keeps.into_iter().collect();
    let removes = found.is_ours || args.exact;
    let is_elsewhere =
        |package: &ChosenPackage, direct: &DirectOrigin| is_elsewhere(&project, package, direct);
    let keeps = removes.then_some(keeps.as_slice());
    let mut changes = sync::changes(target, found.installed.as_ref(), keeps, &is_elsewhere);
    let distributions = found.installed.iter().flat_map(|installed| &installed.distributions);
    if !removes && !args.dry_run {
        tell::in_the_way(&changes, printer);
    }
    let mut over = sync::put_over(&conda::names_on_pypi(&whole.conda), distributions);
    over.retain(|name| !changes.remove.contains(name));
    changes.remove.extend(over);
    check(&changes, target, (&project, &lock), args)?;
    let mut seen = None;
    let mut is_as_read = half.as_ref().is_none_or(|half| half.steps.is_empty());
    let missing_project = own.as_ref().filter(|own| !own.is_installed).map(|own| own.folder.clone());
    if !changes.is_empty() || missing_project.is_some() || found.place.make.is_some() {
        if found.place.make.is_none() && !args.dry_run {
            place::check_python(&found.place)?;
        }
        let work = Work {
            installer: installer::choose(&found)?,
            addresses: settings::indexes(&project, args.index_url.as_deref()),
            talk,
            target,
            found: &found,
            changes: &changes,
            project: missing_project,
            passed: project.passed_variables(),
            folder: &project.folder,
        };
        if args.dry_run {
            match half.as_ref().filter(|half| !half.steps.is_empty()) {
                Some(half) => half.tell(Some(&work), printer)?,
                None => work.tell(printer)?,
            }
            return Ok(exit::YES);
        }
        if global.offline && matches!(work.installer, sync::Installer::Pip(..)) {
            return Err(CliError::new(Failure::Installer, "pip cannot install with `--offline`")
                .hint("uv installs from its cache: `pip install uv`"));
        }
        work.execute(start, printer)?;
        is_as_read = false;
        seen = again(&work, (args, &project, &lock), &others, start, printer)?;
        if !whole.conda.is_empty() {
            // What was removed had taken the place of files of conda's packages.
            let again = conda::half(args, &project, whole, talk)?;
            again.execute(&project, start, printer)?;
            seen = None;
        }
    } else if args.dry_run {
        match half.as_ref().filter(|half| !half.steps.is_empty()) {
            Some(half) => half.tell(None, printer)?,
            None => tell::nothing_to_do(&found, printer),
        }
        return Ok(exit::YES);
    }
    let runs_its_code = found.runs_its_code() || half.is_some_and(|half| half.is_made());
    let verify = verified(args, target, found.place.prefix.clone(), runs_its_code);
    let before = found.installed.as_ref().filter(|_| is_as_read);
    verify::of_read(global, &verify, seen.as_ref().or(before), printer)
}

/// Removes what the new packages share libraries with, and installs again what lost files to a package that went: those that both
/// had with the same content (`nvidia/__init__.py`) are no fault before. Returns what is installed, where it was looked at and nothing was missing.
fn again(
    work: &Work<'_>,
    (args, project, lock): (&SyncArgs, &Project, &Lockfile),
    others: place::Others<'_>,
    start: Instant,
    printer: &Printer,
) -> Result<Option<Installed>, CliError> {
    if work.found.installed.is_none() || work.changes.is_empty() {
        return Ok(None);
    }
    let environment = Environment { prefix: work.found.place.prefix.clone(), chosen: work.found.chosen };
    let left = place::find(args, project, work.target, environment, others)?;
    let is_elsewhere =
        |package: &ChosenPackage, direct: &DirectOrigin| is_elsewhere(project, package, direct);
    let more = sync::changes(work.target, left.installed.as_ref(), None, &is_elsewhere);
    if more.is_empty() {
        return Ok(left.installed);
    }
    check(&more, work.target, (project, lock), args)?;
    tell::in_the_way(&more, printer);
    let (installer, addresses) = (work.installer.clone(), work.addresses.clone());
    Work { installer, addresses, found: &left, changes: &more, project: None, ..*work }
        .execute(start, printer)?;
    Ok(None)
}

/// The verification of an environment after it was installed. `runs_its_code`: whether the smoke test may run unasked.
fn verified(args: &SyncArgs, target: &Target, prefix: PathBuf, runs_its_code: bool) -> VerifyArgs {
    VerifyArgs {
        lock: None,
        prefix: Some(prefix),
        root: None,
        host: None,
        only: None,
        output: None,
        force: false,
        unknown: Unknown::Fail,
        smoke: args.smoke.unwrap_or(SmokeChoice::Auto),
        deep: false,
        exact: false,
        require_gpu: false,
        format: ReportFormat::Text,
        target: Some(target.name.clone()),
        parts: args.parts.clone(),
        is_found: !runs_its_code && args.smoke.is_none(),
        annotates_smoke: args.format == Some(ReportFormat::Github),
    }
}

/// The Python series that the request allows besides the locked one, newest first, with the options that are given again.
fn other_locks(project: &Project, lock: &Lockfile, target: &Target, registry: &Registry) -> OtherLocks {
    let before = lockfile::read_request(&lock.request).unwrap_or_default();
    let (_, options) = Request::default().keeping_options_of(&Request { python: None, ..before });
    let options = options.iter().map(|option| format!(" {option}")).collect();
    let Ok(request) = settings::request_of_target(project, lock, target, registry) else {
        return OtherLocks { pythons: Vec::new(), options };
    };
    let allowed = allowed_pythons(registry, &request.without_options()).into_iter().rev();
    OtherLocks { pythons: allowed.filter(|python| python.minor != target.python.minor).collect(), options }
}

/// Refuses changes that would break something, or that run code nobody allowed.
fn check(
    changes: &Changes,
    target: &Target,
    (project, lock): (&Project, &Lockfile),
    args: &SyncArgs,
) -> Result<(), CliError> {
    if let Some(name) = changes.conda_owns.first() {
        return Err(CliError::new(
            Failure::Installer,
            format!(
                "conda installed `{name}`, and another build of it is locked: pip would write over its files"
            ),
        )
        .hint("use an environment of its own: `envlock sync --prefix .venv`"));
    }
    if args.build {
        return Ok(());
    }
    let refused =
        sync::needs_permission(&target.packages, changes, project.allowed_builds(), &|name, path| {
            is_own(project, lock, name, path)
        });
    if refused.is_empty() {
        return Ok(());
    }
    Err(not_allowed(&refused, project))
}

/// Whether a folder is the project's own: the request names it for this package, and it is there, below the project.
fn is_own(project: &Project, lock: &Lockfile, name: &str, path: &str) -> bool {
    let of_manifest = project.manifest.as_ref().map(|manifest| Cow::Borrowed(&manifest.request));
    // Without a manifest the request of the lock is all there is.
    let Some(request) = of_manifest.or_else(|| lockfile::read_request(&lock.request).ok().map(Cow::Owned))
    else {
        return false;
    };
    let folder = &project.folder;
    let from_folder = |path: &str| files::path_from(&folder.join(path), folder);
    let is_named = request.requirements.iter().any(|user| {
        user.requirement.name.as_ref() as &str == name
            && matches!(user.direct(), Some(Direct::Path(named)) if from_folder(&named) == from_folder(path))
    });
    let real = |path: &Path| fs_err::canonicalize(path).ok();
    let is_below =
        real(&folder.join(path)).zip(real(folder)).is_some_and(|(own, root)| own.starts_with(root));
    is_named && is_below
}

/// Whether a package that is locked from a folder or file was installed from another one.
fn is_elsewhere(project: &Project, package: &ChosenPackage, direct: &DirectOrigin) -> bool {
    let Source::Path(path) = &package.source else { return false };
    let url = url::Url::parse(&direct.url).ok();
    let Some(installed) = url.and_then(|url| url.to_file_path().ok()) else { return true };
    let real = |path: &Path| fs_err::canonicalize(path).ok();
    let locked = project.folder.join(path);
    match real(&locked).zip(real(&installed)) {
        Some((locked, installed)) => locked != installed,
        // A folder that is gone is told elsewhere; only what is certain is replaced.
        None => !installed.exists() && locked.exists(),
    }
}

/// The error of packages that would be built.
fn not_allowed(refused: &[&str], project: &Project) -> CliError {
    let names = refused.join("`, `");
    let (exist, their) = if refused.len() == 1 { ("exists", "its") } else { ("exist", "their") };
    CliError::new(
        Failure::Installer,
        format!("`{names}` {exist} only as source, and building runs {their} code, which was not allowed"),
    )
    .hint(how_to_allow(refused, project))
}

/// How builds are allowed.
fn how_to_allow(names: &[&str], project: &Project) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "allow it once with `--build`, or in {}: `[{}sync]` with `allow-build = [{}]`",
        project.manifest_name(),
        if project.manifest_name() == files::MANIFEST { "" } else { "tool.envlock." },
        listed.join(", ")
    )
}
