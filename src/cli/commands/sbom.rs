//! `envlock sbom`

use crate::cli::args::{SbomArgs, SbomFormat};
use crate::cli::printer::Printer;
use crate::sbom::document;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::sbom::{SbomOptions, sbom};
use crate::session::write;

pub(super) fn run(global: &Global, args: &SbomArgs, printer: &Printer) -> Result<u8, Failure> {
    if let Some(path) = args.output.as_ref().filter(|path| path.exists() && !args.force) {
        return Err(Failure::files(format!("`{}` already exists", path.display()))
            .hint("pass `--force` to replace it"));
    }
    let options =
        SbomOptions { wheels: args.wheels.clone(), target: args.target.clone(), prefix: args.prefix.clone() };
    let bill = sbom(global, &options, printer)?;
    let SbomFormat::Cyclonedx = args.format;
    let document = document(&bill, env!("CARGO_PKG_VERSION"));
    let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
    match &args.output {
        None => printer.raw(&text),
        Some(path) => {
            write::write(path, &text)?;
            printer.done(&format!("wrote {}", path.display()));
        }
    }
    Ok(exit::YES)
}
