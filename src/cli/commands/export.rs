//! `envlock export`

use crate::cli::printer::Printer;
use crate::session::exit;
use crate::session::export::{ExportOptions, export};
use crate::session::failure::Failure;
use crate::session::options::Global;

pub(super) fn run(global: &Global, options: &ExportOptions, printer: &Printer) -> Result<u8, Failure> {
    if let Some(text) = export(global, options, printer)? {
        printer.raw(&text);
    }
    Ok(exit::YES)
}
