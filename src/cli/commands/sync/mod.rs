//! `envlock sync`: makes an environment be what the lock says, then verifies it.

mod tell;

use super::verify;
use crate::cli::args::{SyncArgs, Unknown, VerifyArgs};
use crate::cli::printer::Printer;
use crate::model::text::{clean, shell_word};
use crate::session::failure::Failure;
use crate::session::options::{Global, ReportFormat};
use crate::session::sync::{Outcome, Synced, sync};
use crate::session::verify::SmokeChoice;
use crate::session::{exit, files};

pub(super) fn run(global: &Global, args: &SyncArgs, printer: &Printer) -> Result<u8, Failure> {
    if let Some(package) = args.packages.first() {
        return Err(Failure::usage("what is installed is what the lock says, and no package is named").hint(
            format!(
                "`envlock add {}` takes it into the lock; then `envlock sync`",
                shell_word(&clean(package, 80))
            ),
        ));
    }
    let result = sync(global, &args.sync, printer).and_then(|outcome| match outcome {
        Outcome::Planned(plan) => {
            tell::plan(&plan, printer);
            Ok(exit::YES)
        }
        Outcome::Synced(synced) => {
            verify::of_read(global, &verified(args, &synced), synced.installed.as_ref(), printer)
        }
    });
    if let (Err(error), Some(format)) = (&result, args.format.filter(|_| !printer.json))
        && let Some(text) = verify::report_of_error(format, error, (&files::folder_of(global), printer))
    {
        printer.raw(&text);
    }
    result
}

/// The verification of an environment after it was installed.
fn verified(args: &SyncArgs, synced: &Synced) -> VerifyArgs {
    VerifyArgs {
        lock: None,
        prefix: Some(synced.prefix.clone()),
        root: None,
        bundle: None,
        pubkey: None,
        host: None,
        only: None,
        output: None,
        force: false,
        unknown: Unknown::Fail,
        smoke: args.smoke.unwrap_or(SmokeChoice::Auto),
        deep: false,
        exact: false,
        require_gpu: false,
        format: ReportFormat::Text,
        target: Some(synced.target.clone()),
        parts: args.sync.parts.clone(),
        is_found: !synced.runs_its_code && args.smoke.is_none(),
        annotates_smoke: args.format == Some(ReportFormat::Github),
    }
}
