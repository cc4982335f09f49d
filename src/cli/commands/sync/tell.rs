//! What `sync --dry-run` prints.

use serde::Serialize;

use crate::cli::printer::{Printer, wrap};
use crate::cli::report::label;
use crate::model::text::shell_line;
use crate::session::Interface as _;
use crate::session::sync::Plan;
use crate::sync::Changes;

/// The document.
#[derive(Serialize)]
struct DryRun<'d> {
    installer: Option<&'d str>,
    prefix: String,
    commands: &'d [Vec<String>],
    changes: &'d Changes,
}

/// Prints a plan.
pub(super) fn plan(plan: &Plan, printer: &Printer) {
    let Plan { installer, commands, changes, .. } = plan;
    if printer.json {
        let prefix = plan.prefix.display().to_string();
        return printer.json(&DryRun { installer: *installer, prefix, commands, changes });
    }
    printer.out(&format!("{}{}", label(printer, "environment"), wrap(&environment(plan), 15)));
    names(printer, "install", &changes.install);
    names(printer, "replace", &changes.replace);
    names(printer, "remove", &changes.remove);
    if commands.is_empty() && !plan.is_begun {
        return printer.out("nothing to do");
    }
    printer.out("");
    for command in commands {
        // Not wrapped: a command can be copied.
        printer.out(&shell_line(command));
    }
    if let Some(what) = &plan.writes {
        printer.note(&format!("`sync` writes {what} first"));
    }
}

/// `.venv, made with Python 3.12.9 (/usr/bin/python3.12)`
fn environment(plan: &Plan) -> String {
    let prefix = plan.prefix.display();
    match &plan.made_with {
        Some(python) => {
            let again = if python.again { "again " } else { "" };
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
