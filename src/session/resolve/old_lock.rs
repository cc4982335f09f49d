//! What the old lock holds for a new solve: its machines, its versions, and whether it may be replaced.

use std::str::FromStr;

use pep508_rs::PackageName;

use crate::lockfile::{self, Lockfile, Target};
use crate::model::conda::name_of_file;
use crate::model::level::Level;
use crate::model::request::{Preferences, Request};
use crate::model::text::{clean, normalized_name, shell_word};
use crate::registry::Registry;
use crate::session::Interface;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::SolveOptions;
use crate::session::owner;
use crate::session::settings::Project;

/// Reads the project's lock. An unreadable lock is an error, because it names the machine that the project is
/// locked for. With `--redetect` or a described machine nothing in it is needed, and it is replaced; so it is with `--force`,
/// for the machine of the old one where that can be read.
pub(crate) fn read_lock(
    project: &Project,
    args: &SolveOptions,
    interface: &dyn Interface,
) -> Result<Option<Lockfile>, Failure> {
    if project.is_beside {
        return Ok(None);
    }
    let path = project.lock_path();
    let Some(bytes) = files::read_bytes(&path)? else { return Ok(None) };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) if args.force => {
            interface.warning("envlock.lock is not UTF-8 text; it will be replaced");
            return Ok(None);
        }
        Err(_) => {
            return Err(Failure::input(format!("`{}` is not UTF-8 text", path.display()))
                .hint("`envlock resolve --force` replaces it"));
        }
    };
    let error = match lockfile::parse(&text) {
        Ok(lock) => return Ok(Some(lock)),
        Err(error) => error,
    };
    if let lockfile::LockError::MergeConflict { .. } = error
        && !args.only_checks()
        && let Some((ours, theirs)) = lockfile::sides(&text)
    {
        interface
            .note(&format!("{error}; solving again and keeping the versions of both sides where they fit"));
        return Ok(Some(lockfile::merged(ours, &theirs)));
    }
    if args.force {
        let is_edited = !args.redetect && !matches!(error, lockfile::LockError::Newer { .. });
        let kept = is_edited.then(|| lockfile::machines_of_edited(&text)).flatten();
        let what = match &kept {
            Some(_) => ", for the machine and with the options that it names",
            None if args.redetect => "",
            None => "; its machine and options are not kept",
        };
        interface.warning(&format!("{error}; it will be replaced{what}"));
        let Some((kept, unread)) = kept else { return Ok(None) };
        for line in unread {
            interface.note(&format!("`{}` of its request cannot be read, and is not kept", clean(&line, 80)));
        }
        return Ok(Some(kept));
    }
    let ours = text.contains(lockfile::MARK);
    if !ours && !text.trim().is_empty() {
        return Err(files::foreign(&path));
    }
    let renewable = !matches!(error, lockfile::LockError::Newer { .. });
    if renewable && !args.only_checks() && (args.redetect || args.host.describe_a_machine()) {
        interface.warning(&format!("{error}; it will be replaced"));
        return Ok(None);
    }
    Err(error.into())
}

/// Rejects what `--upgrade` cannot upgrade: it would seem to have done so.
pub(crate) fn check_upgrades(
    (project, registry): (&Project, &Registry),
    old: Option<&Lockfile>,
    request: &Request,
    args: &SolveOptions,
) -> Result<(), Failure> {
    let mut named = args.upgrade.iter().filter(|name| !name.is_empty()).peekable();
    if named.peek().is_none() {
        return Ok(());
    }
    let whole = match (old, owner::of(project)) {
        // Where its packages cannot be read, that is said where they are needed.
        (Some(old), Some(_)) => owner::with_packages(project, old.clone(), registry).ok(),
        (old, _) => old.cloned(),
    };
    if whole.is_none() && old.is_some() {
        return Ok(());
    }
    let old = whole.as_ref();
    for asked in named {
        let shown = clean(asked, 60);
        let is_name = |text: &str| PackageName::from_str(text).is_ok();
        if !is_name(asked) {
            let hint = match asked.split(',').all(is_name) {
                true => {
                    let each: Vec<String> =
                        asked.split(',').map(|name| format!("--upgrade={name}")).collect();
                    format!("give it once for each: `{}`", each.join(" "))
                }
                false => format!("`envlock add {}` asks for a version", shell_word(&shown)),
            };
            return Err(
                Failure::usage(format!("`--upgrade={shown}`: it takes the name of one package")).hint(hint)
            );
        }
        let name = normalized_name(asked);
        let is_locked = |target: &Target| {
            target.package(&name).is_some() || target.conda.iter().any(|package| package.name == name)
        };
        let is_known =
            request.find(&name).is_some() || old.is_none_or(|lock| lock.targets.iter().any(is_locked));
        if !is_known {
            return Err(Failure::usage(format!("`--upgrade={shown}`: the lock has no package `{shown}`"))
                .hint("`envlock tree` shows those that it has"));
        }
    }
    Ok(())
}

/// The versions that the old lock holds for a target, without those to upgrade. A new target starts from the first one.
pub(crate) fn preferences(
    old: Option<&Lockfile>,
    target: &str,
    args: &SolveOptions,
    request: &Request,
) -> Preferences {
    let all = args.upgrade.iter().any(String::is_empty);
    let held = old.and_then(|lock| {
        // A new target keeps to the versions of another one.
        lock.target(Some(target)).or(lock.targets.first())
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
                preferences.conda.retain(|file| name_of_file(file) != Some(name.as_str()));
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
pub(crate) fn guard_full_lock(old: Option<&Lockfile>, force: bool) -> Result<(), Failure> {
    match old {
        Some(Lockfile { packages_in: Some(held), .. }) if !force => Err(Failure::files(format!(
            "`envlock.lock` holds the stack of `{}`, and `--stack-only` would part them",
            held.owner.file()
        ))
        .hint("pass `--dry-run` to see the answer, or `--force` to replace the lock")),
        Some(lock) if !force && lock.targets.iter().any(|t| t.level == Level::Full) => Err(Failure::files(
            "`envlock.lock` holds every package with its hashes, and `--stack-only` would drop them",
        )
        .hint("pass `--dry-run` to see the answer, or `--force` to replace the lock")),
        _ => Ok(()),
    }
}
