//! The changes of a lock as Markdown: what a reviewer reads under a pull request. What machines need comes first.

use crate::cli::markdown::{cell, table};
use crate::lockfile::{Change, TargetChanges};
use crate::model::count::Count;

/// The rows of [`TargetChanges::stack`] that are about machines.
const OF_MACHINES: [&str; 4] = ["driver", "glibc", "gpu", "platform"];

/// Rows above which a table is folded.
const LONG: usize = 12;

/// The document. `unread`: the file that holds the packages and was not read.
pub(super) fn document(changes: &[TargetChanges], unread: Option<&str>) -> String {
    let mut out = match changes.is_empty() {
        true => "No change in packages or in requirements on the machine.\n".to_owned(),
        false => String::new(),
    };
    for change in changes {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&of_target(change));
    }
    if let Some(file) = unread {
        out.push_str(&format!("\nPackages are not compared: they are in {}.\n", cell(file)));
    }
    out
}

fn of_target(change: &TargetChanges) -> String {
    let name = cell(&change.name);
    let mut out = match (&change.instead_of, change.added, change.removed) {
        (Some(gone), ..) => format!("### Target {name}, compared with {}, which is gone\n", cell(gone)),
        (None, true, _) => return format!("### Target {name} is new\n"),
        (None, _, true) => return format!("### Target {name} is removed\n"),
        (None, false, false) => format!("### Target {name}\n"),
    };
    let (machines, stack): (Vec<&Change>, Vec<&Change>) =
        change.stack.iter().partition(|row| OF_MACHINES.contains(&row.what.as_str()));
    let mut rows: Vec<Vec<String>> = machines.into_iter().map(row).collect();
    for (what, list) in [("new GPUs", &change.gains), ("dropped GPUs", &change.drops)] {
        if !list.is_empty() {
            let list = format!("compute capability {}", list.join(", "));
            let (old, new) = if what == "new GPUs" { ("", list.as_str()) } else { (list.as_str(), "") };
            rows.push(vec![what.to_owned(), cell(old), cell(new)]);
        }
    }
    rows.extend(change.coverage.iter().map(|one| {
        let [_, old, new] = sides(one);
        vec![format!("GPUs {}", cell(&one.what)), old, new]
    }));
    out.push_str(&match rows.is_empty() {
        true => "\nWhat machines need is as before: driver, GPUs, C library.\n".to_owned(),
        false => {
            format!("\n**What machines need has changed**\n\n{}", table(&["", "before", "after"], &rows))
        }
    });
    let stack: Vec<Vec<String>> = stack.into_iter().map(row).collect();
    if !stack.is_empty() {
        out.push_str(&format!("\n{}", table(&["stack", "before", "after"], &stack)));
    }
    out.push_str(&packages(change));
    if !change.files.is_empty() {
        let files: Vec<String> = change.files.iter().map(|name| cell(name)).collect();
        out.push_str(&format!("\nSame version, other files or index: {}.\n", files.join(", ")));
    }
    out
}

/// The packages, folded where they are many.
fn packages(change: &TargetChanges) -> String {
    let rows: Vec<Vec<String>> = change.packages.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let count = |of: fn(&&Change) -> bool| change.packages.iter().filter(of).count();
    let (added, removed) = (count(|row| row.old.is_none()), count(|row| row.new.is_none()));
    let parts = [(rows.len() - added - removed, "changed"), (added, "added"), (removed, "removed")];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let title = format!("{}: {}", Count(rows.len()).of("package"), parts.join(", "));
    let table = table(&["package", "before", "after"], &rows);
    match rows.len() > LONG {
        true => format!("\n<details><summary>{title}</summary>\n\n{table}\n</details>\n"),
        false => format!("\n{title}\n\n{table}"),
    }
}

fn row(change: &Change) -> Vec<String> {
    sides(change).to_vec()
}

fn sides(change: &Change) -> [String; 3] {
    let side = |text: &Option<String>| text.as_deref().map(cell).unwrap_or_default();
    [cell(&change.what), side(&change.old), side(&change.new)]
}
