//! `envlock diff`: what changed between two locks. Also git's diff driver for `envlock.lock`.

mod markdown;

use std::collections::BTreeSet;

use crate::cli::args::{AnswerFormat, DiffArgs};
use crate::cli::printer::{Printer, wrap};
use crate::cli::report::label;
use crate::lockfile::{self, Change, Lockfile, Target, TargetChanges};
use crate::model::count::Count;
use crate::model::level::Level;
use crate::model::text::clean;
use crate::session::Interface as _;
use crate::session::compared;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;

pub(super) fn run(global: &Global, args: &DiffArgs, printer: &Printer) -> Result<u8, Failure> {
    let (old, new) = match args.locks.as_slice() {
        [] => compared::locks(global, None, None)?,
        [old] => compared::locks(global, Some(old), None)?,
        [old, new] => compared::locks(global, Some(old), Some(new))?,
        // git calls a driver with: path old-file old-hex old-mode new-file new-hex new-mode [new-path ...]
        [_, old, _, _, new, _, _, ..] => (compared::file(old)?, compared::file(new)?),
        _ => {
            return Err(Failure::usage("`diff` compares two locks")
                .hint("`envlock diff` compares the last commit with the working tree"));
        }
    };
    let changes = match (&old, &new) {
        (Some(old), Some(new)) => lockfile::changes(old, new),
        (None, Some(new)) => only(new, false),
        (Some(old), None) => only(old, true),
        (None, None) => Vec::new(),
    };
    // Packages that another tool holds are compared where its lock of that time is known.
    let unread = [&old, &new].into_iter().flatten().find(|lock| compared::is_unread(lock));
    let unread = unread.and_then(|lock| lock.packages_in.as_ref()).map(|held| held.owner.file());
    if printer.json {
        printer.json(&serde_json::json!({ "targets": changes }));
    } else if args.format == AnswerFormat::Markdown {
        printer.raw(&markdown::document(&changes, unread));
    } else if changes.is_empty() {
        printer.out(match unread {
            Some(_) => "no change of the stack or in requirements on the machine",
            None => "no change in packages or in requirements on the machine",
        });
    } else {
        let several = changes.len() > 1 || [&old, &new].into_iter().flatten().any(|l| l.targets.len() > 1);
        for change in &changes {
            show(printer, change, several);
        }
    }
    if let Some(file) = unread.filter(|_| !printer.json && args.format != AnswerFormat::Markdown) {
        printer.note(&format!(
            "packages are not compared: they are in `{file}`; `envlock diff REVISION` compares those of a commit"
        ));
    }
    if let Some(new) = new.as_ref().filter(|_| !printer.json) {
        warn_of_unneeded(new, printer);
    }
    Ok(if args.exit_code && !changes.is_empty() { exit::NO } else { exit::YES })
}

/// Names the packages of a lock that none of its requests needs: envlock locks none.
fn warn_of_unneeded(lock: &Lockfile, printer: &Printer) {
    let Ok(request) = lockfile::read_request(&lock.request) else { return };
    let requested = || request.requirements.iter().map(|user| user.name());
    // What the lock of another tool has, that tool decides.
    let is_full = |target: &&Target| target.level == Level::Full && lock.packages_in.is_none();
    let full = lock.targets.iter().filter(is_full);
    let unneeded = full.flat_map(|target| lockfile::unneeded(target, requested()));
    let names: BTreeSet<String> = unneeded.map(|p| format!("{} {}", p.name, p.version)).collect();
    for name in names {
        printer.warning(&format!("the new lock has {name}, which no request needs"));
    }
}

/// The changes when a whole lock was added or removed.
fn only(lock: &Lockfile, removed: bool) -> Vec<TargetChanges> {
    let change = |name: &str| TargetChanges {
        name: name.to_owned(),
        added: !removed,
        removed,
        ..TargetChanges::default()
    };
    lock.targets.iter().map(|t| change(&t.name)).collect()
}

fn show(printer: &Printer, change: &TargetChanges, several: bool) {
    if several || change.added || change.removed {
        let what = match (&change.instead_of, change.added, change.removed) {
            (Some(gone), ..) => format!(" added (compared with {}, which was removed)", clean(gone, 60)),
            (None, true, _) => " added".to_owned(),
            (None, _, true) => " removed".to_owned(),
            (None, false, false) => String::new(),
        };
        printer.out(&format!("target {}{what}", clean(&change.name, 60)));
    }
    for row in &change.stack {
        printer.out(&format!("{}{}", label(printer, &row.what), arrow(row)));
    }
    if !change.stack.is_empty() && !change.stack.iter().any(|row| row.what == "driver") {
        printer.out(&format!("{}floor unchanged", label(printer, "driver")));
    }
    for (what, list) in [("gains", &change.gains), ("drops", &change.drops)] {
        if !list.is_empty() {
            printer.out(&format!(
                "{}{}",
                label(printer, what),
                wrap(&format!("compute capability {}", list.join(", ")), 15)
            ));
        }
    }
    for row in &change.coverage {
        let text = format!("{}: {}", row.what, arrow(row));
        printer.out(&format!("{}{}", label(printer, "code for"), wrap(&text, 15)));
    }
    for (i, row) in change.packages.iter().enumerate() {
        let head = if i == 0 { Count(change.packages.len()).of("package") } else { String::new() };
        printer.out(&format!("{}{} {}", label(printer, &head), clean(&row.what, 60), arrow(row)));
    }
    if !change.files.is_empty() {
        let list = format!("same version, other files or index: {}", change.files.join(", "));
        printer.out(&format!("{}{}", label(printer, "files"), wrap(&list, 15)));
    }
}

/// `2.9.1 cu128 -> 2.10.0 cu128`, `+ 1.0`, `- 1.0`
fn arrow(row: &Change) -> String {
    let clean = |text: &String| clean(text, 60);
    match (&row.old, &row.new) {
        (Some(old), Some(new)) => format!("{} -> {}", clean(old), clean(new)),
        (None, Some(new)) => format!("+ {}", clean(new)),
        (Some(old), None) => format!("- {}", clean(old)),
        (None, None) => String::new(),
    }
}
