//! What `resolve --locked` and `--check-hashes` print.

use crate::cli::commands::verify;
use crate::cli::printer::Printer;
use crate::cli::view::LockState;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::{ReportFormat, SolveOptions};
use crate::session::resolve::ResolveRun;
use crate::session::resolve::locked::Comparison;

/// Refuses a report beside `--json`.
pub(super) fn check_formats(options: &SolveOptions, printer: &Printer) -> Result<(), Failure> {
    let is_report =
        options.format.is_some_and(|format| !matches!(format, ReportFormat::Text | ReportFormat::Json));
    match printer.json && is_report {
        true => Err(verify::two_formats()),
        false => Ok(()),
    }
}

/// Prints how the lock compares, and returns the exit code.
pub(super) fn tell(asked: &ResolveRun<'_>, comparison: &Comparison, printer: &Printer) -> u8 {
    let format = asked.options.format.unwrap_or(ReportFormat::Text);
    let Comparison { stale, again, unjudged, .. } = comparison;
    let folder = &asked.project.folder;
    let report = verify::report_of_lock(format, (stale, again), unjudged.as_deref(), (folder, printer));
    match report {
        _ if printer.json || format == ReportFormat::Json => {
            printer.json(&LockState::of(stale.iter().map(|one| one.reason.clone()).collect()));
        }
        Some(report) => {
            printer.raw(&report);
            // The report is read by a program; whoever reads the log of the job sees why it failed.
            if matches!(format, ReportFormat::Junit | ReportFormat::Sarif) {
                stale.iter().for_each(|one| printer.note(&one.reason));
            }
        }
        None => lines(comparison, printer),
    }
    if comparison.stale.is_empty() { exit::YES } else { exit::NO }
}

fn lines(comparison: &Comparison, printer: &Printer) {
    if let Some(text) = &comparison.current {
        return printer.out(text);
    }
    comparison.stale.iter().for_each(|one| printer.out(&one.reason));
    if comparison.is_answer {
        return printer.hint("if the indexes are right, lock again: `envlock resolve --upgrade`");
    }
    if comparison.stale.iter().any(|one| one.command.is_none()) {
        printer.hint(&format!("make it current with `{}`", comparison.again));
    }
    for command in comparison.stale.iter().filter_map(|one| one.command.as_ref()) {
        printer.hint(&format!("write it anew: `{command}`"));
    }
}
