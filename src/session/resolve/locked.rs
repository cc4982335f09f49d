//! `resolve --locked` and `--check-hashes`: whether the lock answers the request, and whether the indexes state its
//! hashes. Nothing is written.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::{ResolveRun, local, with_uv};
use crate::formats;
use crate::index::Fetched;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::count::Count;
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::request::Request;
use crate::model::secrets::shown_requirement;
use crate::model::solution::{ChosenPackage, Need};
use crate::model::text::{clean, shell_word};
use crate::registry::Registry;
use crate::session::Interface;
use crate::session::data_folder;
use crate::session::failure::{Failure, FailureKind};
use crate::session::options::{Global, Parts, SolveOptions};
use crate::session::settings::{self, Project};
use crate::session::{chosen_host, fetch, files, owner, project_lock};

/// What the check is about.
struct Check<'c> {
    global: &'c Global,
    project: &'c Project,
    args: &'c SolveOptions,
    /// The requirements on the command line.
    asked: &'c [String],
    request: &'c Request,
    registry: &'c Registry,
    interface: &'c dyn Interface,
}

/// Why a lock, or a file that was written from it, is not current.
pub(crate) struct Stale {
    pub reason: String,
    /// The file, if it is not the lock.
    pub file: Option<String>,
    /// The command that writes the file anew, if locking again does not.
    pub command: Option<String>,
}

/// How a lock compares with the request, and with what the indexes state.
pub(crate) struct Comparison {
    /// What is not current.
    pub stale: Vec<Stale>,
    /// The command that locks again.
    pub again: String,
    /// Whether the lock answers the request: only hashes differ from those of the indexes.
    pub is_answer: bool,
    /// What the lock was not compared with.
    pub unjudged: Option<String>,
    /// What a current lock was compared with, as a sentence; `None` if it is not current.
    pub current: Option<String>,
}

/// Compares the lock with the request; with `--check-hashes` its hashes with those that the indexes state. Nothing is written.
///
/// # Errors
/// When there is no lock, an index does not answer, or only newer data can tell.
pub(crate) fn compare(asked: &ResolveRun<'_>) -> Result<Comparison, Failure> {
    let ResolveRun { global, project, options, packages, request, registry, interface, .. } = asked;
    let check =
        Check { global, project, args: options, asked: packages, request, registry, interface: *interface };
    compared(&check, asked.old.as_ref())
}

fn compared(check: &Check<'_>, old: Option<&Lockfile>) -> Result<Comparison, Failure> {
    let args = check.args;
    let ignored =
        [("`--upgrade`", !args.upgrade.is_empty()), ("the machine options", args.host.describe_a_machine())];
    if let Some((option, _)) = ignored.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::usage(format!(
            "`--locked` contradicts {option}: it checks the lock for its own machines"
        ))
        .hint("`envlock plan --lock envlock.lock` with the machine options judges the lock for a machine"));
    }
    let Some(lock) = old else {
        return Err(match check.project.reads.is_empty() {
            true => project_lock::missing(),
            false => project_lock::missing().hint(format!("create it with `{}`", again(check))),
        });
    };
    // Without a manifest, the lock is compared with itself: nothing else describes its targets.
    let described = match has_no_manifest(check) {
        true => lockfile::read_request(&lock.request)?.targets,
        false => check.request.targets.clone(),
    };
    let request = &Request { targets: described, ..check.request.clone() };
    let mut reasons: Vec<String> =
        lockfile::stale(lock, request, check.registry).iter().map(ToString::to_string).collect();
    let mut written: Vec<Stale> = Vec::new();
    let mut again = again(check);
    // `--stack-only` refuses a request without a framework: no lock of it has the stack alone.
    let is_hollow = |target: &&Target| {
        target.level == Level::Stack && target.stack.is_none() && target.frameworks.is_empty()
    };
    if lock.packages_in.is_none()
        && let Some(asked) = check.request.requirements.iter().find(|user| user.part.is_none())
        && let Some(target) = lock.targets.iter().find(is_hollow)
    {
        reasons.push(format!("target {} has no packages, and `{}` is required", target.name, asked.line()));
    }
    if reasons.is_empty() {
        reasons.extend(other_machines(check, lock)?);
        let of_target =
            |target| local::differences(target, check.request, check.registry, &check.project.folder);
        reasons.extend(lock.targets.iter().flat_map(of_target).collect::<BTreeSet<_>>());
        #[cfg(feature = "conda")]
        for target in &lock.targets {
            let specs = &check.request.conda.specs;
            reasons.extend(
                crate::conda::unmet_of_request(specs, &target.conda).into_iter().map(|(spec, found)| {
                    format!("the request has `{spec}` of conda, but the lock has {found}")
                }),
            );
        }
        #[cfg(feature = "conda")]
        for one in lock.targets.iter().flat_map(|target| crate::conda::unmet(&target.conda)) {
            let crate::conda::Unmet { package, spec, found } = one;
            reasons.push(format!("conda's {package} requires `{spec}`, but the lock has {found}"));
        }
        written.extend(other_environments(check, lock)?);
        written.extend(other_requirements(check, lock)?);
        let changed = with_uv::changed(check.project, lock)?;
        // `resolve` alone does not decide who holds the packages.
        if let (Some(owner), false) = (with_uv::new_owner(check.project, lock), changed.is_empty()) {
            again = format!("rm {}", owner.file());
        }
        reasons.extend(changed);
    }
    let is_answer = reasons.is_empty() && written.is_empty();
    if is_answer && lockfile::needs_newer_data(lock, check.registry) {
        return Err(Failure::new(FailureKind::UnknownRow, data_folder::behind(lock, check.registry))
            .hint(data_folder::newer()));
    }
    if check.args.check_hashes {
        reasons.extend(differences(check, lock)?);
    }
    let of_lock = |reason| Stale { reason, file: None, command: None };
    let stale: Vec<Stale> = reasons.into_iter().map(of_lock).chain(written).collect();
    Ok(Comparison {
        current: stale.is_empty().then(|| current(check)),
        unjudged: compared_with_itself(check),
        is_answer,
        stale,
        again,
    })
}

/// The command that locks what is asked for. A lock that answers nothing else is locked again from the same files.
fn again(check: &Check<'_>) -> String {
    let reads = check.project.reads.iter();
    let reads: String =
        reads.map(|file| format!(" -r {}", shell_word(&file.display().to_string()))).collect();
    let asked = check.asked.iter().map(|text| shown_requirement(text));
    let asked: String = asked.map(|text| format!(" {}", shell_word(&text))).collect();
    format!("envlock resolve{asked}{reads}{}", check.args.limits())
}

/// Whether nothing states what the lock is to answer.
fn has_no_manifest(check: &Check<'_>) -> bool {
    check.project.reads.is_empty() && files::manifest_in(&check.project.folder).is_none()
}

/// That a lock was compared with its own request alone, for a report.
fn compared_with_itself(check: &Check<'_>) -> Option<String> {
    let what = "no manifest is here: the lock was compared with its own request alone";
    let list = check.global.project.as_deref().unwrap_or(Path::new("")).join(files::REQUIREMENTS);
    let more = match check.project.folder.join(files::REQUIREMENTS).is_file() {
        true => format!("; `-r {}` compares it with that file", shell_word(&list.display().to_string())),
        false => String::new(),
    };
    has_no_manifest(check).then(|| format!("{what}{more}"))
}

/// What a current lock was compared with.
fn current(check: &Check<'_>) -> String {
    let mut text = "the lock is current".to_owned();
    let reads: Vec<String> =
        check.project.reads.iter().map(|file| clean(&file.display().to_string(), 100)).collect();
    if !reads.is_empty() {
        text.push_str(&format!(" for {}", reads.join(" and ")));
    } else if has_no_manifest(check) {
        text.push_str(" for its own request: no manifest is here to compare it with");
    }
    if check.args.check_hashes {
        text.push_str(match check.global.offline {
            true => ", and no index page in the cache states another hash (`--offline`: no index was asked)",
            false => ", and no index states another hash",
        });
    }
    text
}

/// The targets whose machine is not the one that the manifest describes now.
fn other_machines(check: &Check<'_>, lock: &Lockfile) -> Result<Vec<String>, Failure> {
    let rows = check.project.manifest.iter().flat_map(|manifest| &manifest.targets);
    let mut out = Vec::new();
    for row in rows {
        let Some(target) = lock.target(Some(&row.name)) else { continue };
        let (described, locked) = (chosen_host::from_table(row, check.registry)?, &target.host);
        let capabilities = |host: &Host| {
            let gpus = host.gpus.as_ref()?.iter().map(|gpu| gpu.capability);
            Some(gpus.collect::<BTreeSet<_>>())
        };
        let driver = |host: &Host| host.driver.as_ref().map(|driver| driver.version.clone());
        // A branch stands for its oldest known release, which another registry may know better.
        let names_branch = row.table.driver.as_ref().is_some_and(|text| !text.contains('.'));
        let is_same_driver = match (driver(&described), driver(locked)) {
            (Some(described), Some(locked)) if names_branch => described.major() == locked.major(),
            (described, locked) => described == locked,
        };
        let differs = [
            ("GPUs", capabilities(&described) != capabilities(locked)),
            ("driver", !is_same_driver),
            ("C library", described.system.libc != locked.system.libc),
            ("platform", described.system.platform != locked.system.platform),
        ];
        if let Some((what, _)) = differs.iter().find(|(_, differs)| *differs) {
            let name = &row.name;
            let are_not = if *what == "GPUs" { "are not those" } else { "is not the one" };
            out.push(format!("the {what} of target {name} {are_not} that [target.{name}] describes"));
        }
    }
    Ok(out)
}

/// The environment files that envlock wrote and that do not install what the lock holds. One that is absent is a note:
/// a project may commit the lock alone.
fn other_environments(check: &Check<'_>, lock: &Lockfile) -> Result<Vec<Stale>, Failure> {
    let (project, args) = (check.project, check.args);
    if !super::writes_environments(project) {
        return Ok(Vec::new());
    }
    // The file may have been written on a machine with a mirror, or on one without.
    let (own, _) = settings::indexes(project, args.index_url.as_deref());
    let usual = settings::usual_indexes(project);
    let mut out = Vec::new();
    for (place, target) in lock.targets.iter().enumerate().filter(|(_, target)| target.level == Level::Full) {
        let file = project_lock::environment_file(place == 0, &target.name);
        let Some(text) = files::read(&project.folder.join(&file))? else {
            check.interface.note(&format!("`{file}` is not there; `envlock resolve` writes it"));
            continue;
        };
        if !text.contains(formats::write::ENVIRONMENT_MARK) {
            check
                .interface
                .note(&format!("`{file}` was not written by envlock: it is not compared with the lock"));
            continue;
        }
        let name = project_lock::environment_name(project, lock, target);
        let is_same = |addresses: &[(String, String)]| {
            let expected = formats::write::conda_environment(target, &name, addresses, false);
            expected.is_ok_and(|expected| formats::write::same_environment(&text, &expected))
        };
        if !is_same(&own) && !is_same(&usual) {
            let reason = format!("`{file}` is not the environment that the lock gives");
            out.push(Stale { reason, file: Some(file), command: None });
        }
    }
    Ok(out)
}

/// The exported requirements files that do not install what the lock holds. A requirements.txt that people wrote is a note.
fn other_requirements(check: &Check<'_>, lock: &Lockfile) -> Result<Vec<Stale>, Failure> {
    let (project, file) = (check.project, files::REQUIREMENTS);
    if lock.packages_in.is_none()
        && project.reads.is_empty()
        && files::manifest_in(&project.folder).is_some()
        && files::read(&project.folder.join(file))?
            .is_some_and(|text| !text.starts_with(formats::write::REQUIREMENTS_MARK))
    {
        check
            .interface
            .note(&format!("`{file}` was not written by envlock: it is not compared with the lock"));
    }
    let stale = stale_exports(project, check.args.index_url.as_deref(), lock)?;
    let of = |(file, command)| {
        let reason = format!("`{file}` is not what the lock gives");
        Stale { reason, file: Some(file), command: Some(command) }
    };
    Ok(stale.into_iter().map(of).collect())
}

/// The target that a requirements file was exported for, in the options of its head.
fn target_of_options(options: &str) -> Option<String> {
    let words = shlex::split(options)?;
    let at = words.iter().position(|word| word == "--target")?;
    words.get(at + 1).cloned()
}

/// The requirements files that `export` wrote under its own names and that do not install what a target locks, each with the
/// command that writes it anew. `requirements.txt` may be that of any target: `--target` chooses it.
pub(crate) fn stale_exports(
    project: &Project,
    index_url: Option<&str>,
    lock: &Lockfile,
) -> Result<Vec<(String, String)>, Failure> {
    if lock.packages_in.is_some() {
        return Ok(Vec::new());
    }
    let (own, _) = settings::indexes(project, index_url);
    let usual = settings::usual_indexes(project);
    let of_target =
        |target: &'_ Target| (format!("requirements.{}.txt", target.name), Some(target.name.clone()));
    let named = lock.targets.iter().map(of_target);
    let mut out = Vec::new();
    for (file, name) in std::iter::once((files::REQUIREMENTS.to_owned(), None)).chain(named) {
        let place = project.folder.join(&file);
        let text = files::read(&place)?.filter(|text| text.starts_with(formats::write::REQUIREMENTS_MARK));
        let Some(text) = text else { continue };
        let gives = |target: &&Target| {
            [&own, &usual].into_iter().any(|addresses| {
                let expected = formats::write::requirements(target, addresses, &file);
                expected.is_ok_and(|expected| formats::write::same_requirements(&text, &expected))
            })
        };
        // The target, extras and groups that it was written for; what the lock no longer has is another file.
        let mut head = text.lines().take_while(|line| line.starts_with('#'));
        let options = head.find_map(|line| line.strip_prefix(formats::write::REQUIREMENTS_OPTIONS));
        let options = options.unwrap_or_default();
        let parts = Parts::of_options(options);
        let name = name.or_else(|| target_of_options(options));
        let is_meant = |target: &&Target| name.as_ref().is_none_or(|name| *name == target.name);
        let of_parts = project_lock::with_parts(lock.clone(), &parts).ok();
        let targets = of_parts.iter().flat_map(|lock| &lock.targets);
        if !targets.filter(is_meant).any(|target| gives(&target)) {
            let option = name.map(|name| format!(" --target {}", shell_word(&name))).unwrap_or_default();
            let place = files::path_from(&place, Path::new("."));
            let command = format!(
                "envlock export requirements.txt{option}{} -o {}",
                parts.options(),
                shell_word(place.trim_start_matches("./"))
            );
            out.push((file, command));
        }
    }
    Ok(out)
}

/// Asks the indexes for the hashes of all locked files.
fn differences(check: &Check<'_>, lock: &Lockfile) -> Result<Vec<String>, Failure> {
    let mut lock = owner::with_packages(check.project, lock.clone(), check.registry)?;
    // An index of another tool's lock may be none that is configured here.
    let (addresses, _) = settings::indexes(check.project, check.args.index_url.as_deref());
    let is_known = |package: &ChosenPackage| {
        package.source.index().is_none_or(|index| {
            addresses.iter().any(|(name, _)| Some(name.as_str()) == index.split('/').next())
        })
    };
    let mut unknown: BTreeSet<String> = BTreeSet::new();
    for target in &mut lock.targets {
        unknown.extend(target.packages.iter().filter(|package| !is_known(package)).map(|p| p.name.clone()));
        target.packages.retain(is_known);
    }
    if !unknown.is_empty() {
        let names = unknown.into_iter().collect::<Vec<_>>().join(", ");
        check
            .interface
            .note(&format!("not compared, because their index is not configured: {}", clean(&names, 200)));
    }
    let of_conda: usize = lock.targets.iter().map(|target| target.conda.len()).sum();
    if of_conda > 0 {
        check.interface.note("the hashes of conda packages are not compared with their channels");
    }
    let lock = &lock;
    let client = fetch::client(check.global, check.project, check.args.index_url.as_deref())?;
    let mut pages = HashMap::new();
    let needs: Vec<Need> = lock
        .targets
        .iter()
        .flat_map(lockfile::pages_of_files)
        .map(|(index, project)| Need::Page { index: index.to_owned(), project: project.to_owned() })
        .collect();
    let bar = check.interface.progress("reading the index");
    let fetched = client.fetch(&needs, None, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    for answer in fetched.map_err(|error| fetch::index_error(&error, Some(check.request)))? {
        if let Fetched::Page { index, project, page: Some(page) } = answer {
            pages.insert((index, project), page);
        }
    }
    let page =
        |index: &str, project: &str| pages.get(&(index.to_owned(), project.to_owned())).map(AsRef::as_ref);
    let mut out = BTreeSet::new();
    for target in &lock.targets {
        let (differences, unstated) = lockfile::compare_hashes(target, page);
        if unstated > 0 {
            let files = Count(unstated).of("file");
            check.interface.note(&format!("{files} cannot be compared: the index states no hash"));
        }
        out.extend(differences.iter().map(ToString::to_string));
        let direct = target.packages.iter().filter(|package| package.source.is_direct());
        let direct: Vec<&str> = direct.map(|package| package.name.as_str()).collect();
        if !direct.is_empty() {
            check.interface.note(&format!("not compared, because no index has them: {}", direct.join(", ")));
        }
    }
    Ok(out.into_iter().collect())
}
