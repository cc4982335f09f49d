//! `envlock add` and `envlock remove`: edit the manifest, then resolve.

use crate::cli::args::AddArgs;
use crate::cli::printer::Printer;
use crate::session::editing::{self, Edited};
use crate::session::failure::Failure;
use crate::session::options::Global;

pub(super) fn add(global: &Global, args: &AddArgs, printer: &Printer) -> Result<u8, Failure> {
    resolve(global, editing::add(global, &args.packages, args.list(), &args.solve)?, printer)
}

pub(super) fn remove(global: &Global, args: &AddArgs, printer: &Printer) -> Result<u8, Failure> {
    resolve(global, editing::remove(global, &args.packages, args.list(), &args.solve)?, printer)
}

fn resolve(global: &Global, edited: Edited, printer: &Printer) -> Result<u8, Failure> {
    let Edited { project, options, manifest } = edited;
    super::resolve::run_in(global, &project, &[], &options, Some(manifest), printer)
}
