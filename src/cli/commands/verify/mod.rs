//! `envlock verify`: reads the environment, checks it and, if there are no errors, runs the smoke test.

mod nodes;
mod output;
mod report;
mod report_formats;
mod stale;
mod without_environment;

use crate::cli::args::{Unknown, VerifyArgs};
use crate::cli::printer::Printer;
use crate::model::installed::Installed;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::options::Global;
use crate::session::verify::{Answer, verify};
use crate::verify::{Verdict, has_errors};
use without_environment::Subject;

pub(super) use output::two_formats;
pub(super) use report::{findings, fixes_of_project, verdict_word};
pub(super) use stale::{report_of_error, report_of_lock};

pub(super) fn run(global: &Global, args: &VerifyArgs, printer: &Printer) -> Result<u8, Failure> {
    of_read(global, args, None, printer)
}

/// `verify` of an environment that was just read, with the sizes of its files.
pub(super) fn of_read(
    global: &Global,
    args: &VerifyArgs,
    read: Option<&Installed>,
    printer: &Printer,
) -> Result<u8, Failure> {
    let result = check(global, args, read, printer);
    // With `--json` the caller prints it.
    if let Err(error) = &result
        && !printer.json
        && let Some(text) = report_formats::of_error(
            args.format,
            error,
            &files::folder_of(global),
            (report_formats::VERIFY, printer),
        )
    {
        // Who reads the report reads nothing else. What cannot be written either is said with the error.
        let _ = output::put(&text, args, printer);
    }
    match (result, args.unknown) {
        (Ok(exit::NOT_KNOWN), Unknown::Ok) => Ok(exit::YES),
        (Err(error), Unknown::Ok) if error.exit == exit::NOT_KNOWN => {
            printer.failure(&error);
            Ok(exit::YES)
        }
        (result, _) => result,
    }
}

fn check(
    global: &Global,
    args: &VerifyArgs,
    read: Option<&Installed>,
    printer: &Printer,
) -> Result<u8, Failure> {
    let format = output::format(args, printer)?;
    let verified = verify(global, &args.options(), read, printer)?;
    let code = verified.exit();
    match verified.0 {
        Answer::Machine { verdict, areas, lock } => {
            let about = lock.as_deref().map_or(Subject::Machine, Subject::Lock);
            without_environment::show(verdict, &areas, about, args, printer)?;
        }
        Answer::Bundle { areas, path } => {
            let verdict = if has_errors(&areas) { Verdict::Differs } else { Verdict::Ok };
            without_environment::show(verdict, &areas, Subject::Bundle(&path), args, printer)?;
        }
        Answer::Nodes(nodes) => nodes::show(&nodes, args, printer)?,
        Answer::Environment(mut one) => {
            fixes_of_project(&mut one.judged.areas, printer);
            report::show(&one, format, args, printer)?;
        }
    }
    Ok(code)
}
