//! Where the output of `verify` goes: stdout, or the file that `-o` names.

use clap::ValueEnum as _;
use serde_json::Value;

use super::report_formats;
use crate::cli::args::VerifyArgs;
use crate::cli::printer::Printer;
use crate::session::failure::Failure;
use crate::session::options::ReportFormat;
use crate::session::{files, write};

/// The format of the output; `--json` means the same as `--format json`.
///
/// # Errors
/// When the report for people is to be written to a file.
pub(super) fn format(args: &VerifyArgs, printer: &Printer) -> Result<ReportFormat, Failure> {
    if printer.json && !matches!(args.format, ReportFormat::Text | ReportFormat::Json) {
        return Err(two_formats());
    }
    let format = if printer.json { ReportFormat::Json } else { args.format };
    match (&args.output, format) {
        (Some(path), ReportFormat::Text) => {
            Err(Failure::usage("`--output` writes a format for programs, and the format is `text`")
                .hint(format!("add `--format junit`, or redirect the report: `> {}`", path.display())))
        }
        _ => Ok(format),
    }
}

/// `--json` beside another format.
pub(in crate::cli::commands) fn two_formats() -> Failure {
    Failure::usage("`--json` contradicts `--format`: it is `--format json`").hint("remove one of them")
}

/// Prints a document, or writes it to the file of `-o`.
///
/// # Errors
/// When the file cannot be written, or envlock did not write what is there.
pub(super) fn put(text: &str, args: &VerifyArgs, printer: &Printer) -> Result<(), Failure> {
    let Some(path) = &args.output else {
        printer.raw(text);
        return Ok(());
    };
    // In whatever format it wrote it.
    let is_own =
        |there: &str| ReportFormat::value_variants().iter().any(|own| report_formats::is_own(*own, there));
    files::refuse_others(path, &is_own, args.force)?;
    write::write(path, text)
}

/// [`put`], for JSON.
pub(super) fn put_json(value: &Value, args: &VerifyArgs, printer: &Printer) -> Result<(), Failure> {
    let text = format!("{value:#}\n");
    put(&text, args, printer)
}
