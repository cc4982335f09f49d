//! `envlock registry learn`: prints the compatibility data of a wheel as a registry row.

use serde_json::json;

use crate::cli::args::LearnArgs;
use crate::cli::printer::Printer;
use crate::learn;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::learn_row;
use crate::session::options::Global;
use crate::session::settings;

pub(super) fn run(global: &Global, args: &LearnArgs, printer: &Printer) -> Result<u8, Failure> {
    let asked = (args.wheel.as_str(), args.index_url.as_deref());
    let registry = settings::registry(global)?;
    let learned = learn_row::learn(global, &registry, asked, args.platform, printer)?;
    let row = learn::render(&learned);
    let known = learn::differences(&registry, &learned);
    if printer.json {
        printer.json(&json!({ "row": row, "known": known }));
    } else {
        printer.raw(&row);
        match known {
            Some(differing) if differing.is_empty() => {
                printer.note("the registry has this row with the same data")
            }
            Some(differing) => {
                printer.note(&format!("the registry has this row; it differs in {}", differing.join(", ")))
            }
            None => printer
                .note("the registry does not have it yet; append the row and run `envlock registry lint`"),
        }
    }
    Ok(exit::YES)
}
