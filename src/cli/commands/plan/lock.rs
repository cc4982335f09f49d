//! `envlock plan --lock FILE`: whether the environments of a lock, of any tool, run on a machine.

use std::path::Path;

use serde_json::json;

use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::report;
use crate::model::text::clean;
use crate::session::exit;
use crate::session::plan::Planned;
use crate::session::verify::{Locks, OfLock};
use crate::verify::Verdict;

/// Number of environments that are named in one line.
const SHOWN_NAMES: usize = 6;

/// Prints how its environments fare, and returns the exit code.
pub(super) fn tell(planned: &Planned, (path, found): (&Path, &Locks), printer: &Printer) -> u8 {
    let file = clean(&path.display().to_string(), 200);
    let (tool, verdict) = (found.tool, found.verdict);
    let code = match verdict {
        Verdict::Ok => exit::YES,
        Verdict::Differs => exit::NO,
        Verdict::Unknown => exit::NOT_KNOWN,
    };
    if printer.json {
        let environments: Vec<_> = found.environments.iter().map(document).collect();
        printer.json(&json!({
            "lock": { "file": file, "tool": tool }, "verdict": word(verdict), "environments": environments,
        }));
        return code;
    }
    if !printer.quiet {
        printer.out(&format!("lock   {file} ({tool})"));
        printer.out(&format!("host   {}", wrap(&report::host_line(&planned.host, &planned.registry), 7)));
        printer.out("");
    }
    for one in &found.environments {
        show(printer, one);
    }
    // Environments of one lock usually need the same change. A target that runs is the one for this machine; the
    // environments of another tool's lock are not each for a machine.
    let is_locked_for = tool == "envlock" && verdict == Verdict::Ok;
    let unanswered = found.environments.iter().filter(|_| !is_locked_for);
    let fix = |one: &OfLock| one.shown().find_map(|finding| finding.fix.as_ref()).map(ToString::to_string);
    let mut fixes: Vec<String> = unanswered.filter_map(fix).collect();
    fixes.dedup();
    for fix in fixes {
        printer.out("");
        printer.out(&wrap(&format!("fix: {fix}"), 5));
    }
    code
}

/// A verdict as `plan` says it.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "runs",
        Verdict::Differs => "does-not-run",
        Verdict::Unknown => "unknown",
    }
}

fn document(one: &OfLock) -> serde_json::Value {
    json!({
        "names": one.names,
        "python": one.python,
        "frameworks": one.frameworks,
        "packages": one.packages,
        "verdict": word(one.verdict),
        "summary": one.summary,
        "needs_driver": one.needs_driver,
        "findings": one.findings,
    })
}

fn show(printer: &Printer, answer: &OfLock) {
    /// The column of the text behind the verdict.
    const INDENT: usize = 9;
    let (style, word) = match answer.verdict {
        Verdict::Ok => (GOOD, "yes"),
        Verdict::Differs => (ERROR, "no"),
        Verdict::Unknown => (WARN, "unknown"),
    };
    let frameworks = match answer.frameworks.is_empty() {
        true => "torch, TensorFlow and JAX are not in it".to_owned(),
        false => answer.frameworks.join(", "),
    };
    let shown = answer.names.len().min(SHOWN_NAMES);
    let names: Vec<String> = answer.names[..shown].iter().map(|name| clean(name, 60)).collect();
    let more = match answer.names.len() - shown {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let python = answer.python.as_ref().map(|python| format!("; Python {python}")).unwrap_or_default();
    let head = format!("{}{more}: {frameworks}{python}", names.join(", "));
    printer.out(&format!("{}{}", printer.paint(style, &format!("{word:<INDENT$}")), wrap(&head, INDENT)));
    let indented = |text: &str| printer.out(&format!("{}{}", " ".repeat(INDENT), wrap(text, INDENT)));
    let mut told = answer.shown().peekable();
    match &answer.needs_driver {
        Some(driver) => indented(&format!("it needs driver >= {driver}")),
        None if told.peek().is_none() && !answer.summary.is_empty() => indented(&answer.summary),
        None => {}
    }
    for finding in told {
        indented(&finding.message);
    }
}
