//! `verify --format github|junit|sarif|line|prometheus`: errors in those formats, and what is a file of them.

use std::path::Path;

use crate::cli::printer::Printer;
use crate::export::reports::{
    MAX_MESSAGE, PROMETHEUS_MARK, github_error, junit_error, line_error, sarif_error,
};
use crate::model::text::clean;
use crate::session::failure::Failure;
use crate::session::options::ReportFormat;
use crate::session::{exit, files};

/// The name of a report of `verify`.
pub(super) const VERIFY: &str = "envlock verify";
/// The name of a report of `resolve --locked`.
pub(super) const LOCKED: &str = "envlock resolve --locked";

/// A question that could not be answered, in a format whose readers see nothing else; `None` for the others. `folder`: the
/// project's.
pub(super) fn of_error(
    format: ReportFormat,
    error: &Failure,
    folder: &Path,
    (name, printer): (&str, &Printer),
) -> Option<String> {
    let code = error.code.as_str();
    let hint =
        error.hint.iter().map(|hint| format!(". Hint: {}", printer.in_project(hint))).collect::<String>();
    let message = clean(&format!("{}{hint}", error.message), MAX_MESSAGE);
    Some(match format {
        ReportFormat::Line => {
            let word = if error.exit == exit::NOT_KNOWN { "unknown" } else { "cannot answer" };
            line_error(word, &error.message)
        }
        ReportFormat::Github => {
            let place = error.place.as_ref();
            let place = place.map(|place| (files::path_in_repository(folder, &place.file), place.line));
            github_error(place, code, &message)
        }
        ReportFormat::Junit => junit_error(name, code, &message),
        ReportFormat::Sarif => sarif_error(code, &message),
        ReportFormat::Json => format!("{:#}\n", error.document()),
        ReportFormat::Text | ReportFormat::Prometheus => return None,
    })
}

/// Whether a file has what envlock writes in this format.
pub(super) fn is_own(format: ReportFormat, text: &str) -> bool {
    match format {
        ReportFormat::Text => false,
        ReportFormat::Json => {
            serde_json::from_str::<serde_json::Value>(text).is_ok_and(|value| value["findings"].is_array())
        }
        ReportFormat::Junit => text.contains("<testsuites name=\"envlock verify\""),
        ReportFormat::Sarif => text.contains("\"name\": \"envlock\""),
        ReportFormat::Github => {
            text.lines().all(|line| line.starts_with("::") && line.contains(" title=envlock "))
        }
        ReportFormat::Line => text.lines().all(|line| line.starts_with("envlock: ")),
        ReportFormat::Prometheus => text.starts_with(PROMETHEUS_MARK),
    }
}
