//! `envlock verify`

use crate::cli::args::{GlobalArgs, VerifyArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::Printer;

pub(super) fn run(_global: &GlobalArgs, _args: &VerifyArgs, _printer: &Printer) -> Result<u8, CliError> {
    Err(CliError { exit: exit::CANNOT_ANSWER, ..CliError::new("internal", "not here yet") })
}
