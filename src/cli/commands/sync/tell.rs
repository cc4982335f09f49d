//! What `sync` prints.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::lists::shown;
use super::place::{Found, OWN_FOLDER};
use super::work::Work;
use crate::cli::printer::{Printer, wrap};
use crate::cli::report::label;
use crate::session::Interface as _;
use crate::session::error::CliError;
use crate::sync::Changes;

/// The answer of `--dry-run`.
#[derive(Serialize)]
struct DryRun<'d> {
    installer: Option<&'d str>,
    prefix: String,
    commands: Vec<&'d [String]>,
    changes: &'d Changes,
}

/// `.venv, to be made with Python 3.12.9 (/usr/bin/python3.12)`
fn environment(found: &Found) -> String {
    let prefix = found.place.prefix.display();
    match &found.made_with {
        Some(python) => {
            let again =
                if found.place.make.as_ref().is_some_and(|make| make.replaces) { "again " } else { "" };
            format!("{prefix}, made {again}with Python {} ({})", python.version, python.path.display())
        }
        None => prefix.to_string(),
    }
}

fn names(printer: &Printer, what: &str, names: &[String]) {
    if !names.is_empty() {
        let list = format!("{} {}", names.len(), names.join(" "));
        printer.out(&format!("{}{}", label(printer, what), wrap(&list, 15)));
    }
}

/// The answer of `--dry-run` if there is nothing to do.
pub(super) fn nothing_to_do(found: &Found, printer: &Printer) {
    let changes = Changes::default();
    if printer.json {
        let prefix = found.place.prefix.display().to_string();
        return printer.json(&DryRun { installer: None, prefix, commands: Vec::new(), changes: &changes });
    }
    printer.out(&format!("{}{}", label(printer, "environment"), environment(found)));
    printer.out("nothing to do");
}

/// The answer of `--dry-run` where another tool installs what its lock says.
pub(super) fn planned(
    installer: &str,
    prefix: &Path,
    commands: &[Vec<String>],
    changes: &Changes,
    printer: &Printer,
) {
    let prefix = prefix.display().to_string();
    if printer.json {
        let commands: Vec<&[String]> = commands.iter().map(Vec::as_slice).collect();
        let installer = (!commands.is_empty()).then_some(installer);
        return printer.json(&DryRun { installer, prefix, commands, changes });
    }
    printer.out(&format!("{}{}", label(printer, "environment"), wrap(&prefix, 15)));
    names(printer, "install", &changes.install);
    names(printer, "replace", &changes.replace);
    names(printer, "remove", &changes.remove);
    if commands.is_empty() {
        return printer.out("nothing to do");
    }
    printer.out("");
    for command in commands {
        printer.out(&shown(command));
    }
}

impl Work<'_> {
    /// The answer of `--dry-run`.
    pub fn tell(&self, printer: &Printer) -> Result<(), CliError> {
        let (_, steps) = self.prepared()?;
        if printer.json {
            printer.json(&DryRun {
                installer: Some(self.installer.name()),
                prefix: self.found.place.prefix.display().to_string(),
                commands: steps.iter().map(|step| step.command.as_slice()).collect(),
                changes: self.changes,
            });
            return Ok(());
        }
        printer.out(&format!("{}{}", label(printer, "environment"), wrap(&environment(self.found), 15)));
        names(printer, "install", &self.changes.install);
        names(printer, "replace", &self.changes.replace);
        names(printer, "remove", &self.changes.remove);
        printer.out("");
        for step in &steps {
            // Not wrapped: a command can be copied.
            printer.out(&shown(&step.command));
        }
        let folder = self.found.place.prefix.join(OWN_FOLDER);
        printer.note(&format!("`sync` writes the lists of packages to `{}` first", folder.display()));
        Ok(())
    }
}

/// Names what is removed from an environment whose other packages stay.
pub(super) fn in_the_way(changes: &Changes, printer: &Printer) {
    if !changes.remove.is_empty() {
        let (verb, owns) = if changes.remove.len() == 1 { ("is", "owns") } else { ("are", "own") };
        printer.note(&format!(
            "`{}` {verb} removed: not locked, and {owns} libraries or modules of locked packages with other contents",
            changes.remove.join("`, `")
        ));
    }
}

/// What was done, in numbers: `installed 3`, `removed 1`.
pub(super) fn counted(changes: &Changes) -> Vec<String> {
    let Changes { install, replace, remove, .. } = changes;
    let parts = [("installed", install.len()), ("replaced", replace.len()), ("removed", remove.len())];
    parts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {n}")).collect()
}

/// Prints what was done.
pub(super) fn done(work: &Work<'_>, start: Instant, printer: &Printer) {
    if printer.json {
        return;
    }
    let mut parts = counted(work.changes);
    if work.project.is_some() {
        parts.push("the project itself".to_owned());
    }
    let seconds = start.elapsed().as_secs_f64();
    let what = if parts.is_empty() { "made".to_owned() } else { parts.join(", ") };
    printer.out(&format!("{what} with {} in {seconds:.1} s", work.installer.name()));
}
