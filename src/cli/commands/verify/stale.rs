//! `resolve --locked` in the formats of `verify`.

use std::path::Path;

use super::report_formats;
use crate::cli::printer::Printer;
use crate::export::reports;
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::ReportFormat;
use crate::session::resolve::locked::Stale;
use crate::verify::{Area, AreaKind, findings};

/// Why a lock is not current, in a format that other programs read; `None` for the others.
///
/// `again` locks again. `unjudged`: what the lock was not compared with. `folder` is the project's.
pub(in crate::cli::commands) fn report_of_lock(
    format: ReportFormat,
    (stale, again): (&[Stale], &str),
    unjudged: Option<&str>,
    (folder, printer): (&Path, &Printer),
) -> Option<String> {
    let of = |Stale { reason, file, command }: &Stale| {
        let finding = findings::stale_lock(reason, file.as_deref(), true);
        let command = command.as_deref().unwrap_or(again);
        Finding { fix: Some(Fix::command(printer.command(command))), ..finding }
    };
    let unjudged =
        unjudged.map(|why| findings::not_judged(findings::NotJudged::Locked(why.to_owned()), false));
    let found = stale.iter().map(of).chain(unjudged).collect();
    let areas = [Area { findings: found, ..Area::of(AreaKind::Packages) }];
    let place = |finding: &Finding| {
        files::path_in_repository(folder, finding.r#where.as_deref().unwrap_or(files::LOCK))
    };
    match format {
        ReportFormat::Junit => Some(reports::junit(&areas, report_formats::LOCKED)),
        ReportFormat::Sarif => Some(reports::sarif(&areas, place)),
        ReportFormat::Github => Some(reports::github(&areas, |finding| Some(place(finding)))),
        _ => None,
    }
}

/// A check of a lock that could not be answered, in such a format.
pub(in crate::cli::commands) fn report_of_error(
    format: ReportFormat,
    error: &Failure,
    (folder, printer): (&Path, &Printer),
) -> Option<String> {
    report_formats::of_error(format, error, folder, (report_formats::LOCKED, printer))
}
