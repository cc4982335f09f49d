//! `envlock registry update`: prints which compatibility data are used from now on.

use serde_json::json;

use crate::cli::args::UpdateArgs;
use crate::cli::printer::Printer;
use crate::session::data_folder;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::registry_update::{self, DataSource};

pub(super) fn run(global: &Global, args: &UpdateArgs, printer: &Printer) -> Result<u8, Failure> {
    let from = DataSource {
        file: args.from.as_deref(),
        key: args.key.as_deref(),
        index_url: args.index_url.as_deref(),
    };
    let stored = registry_update::update(global, &from)?;
    let registry = data_folder::registry()?;
    if printer.json {
        printer.json(&json!({
            "updated": stored.is_some(),
            "date": registry.meta().date,
            "sha256": registry.digest(),
        }));
        return Ok(exit::YES);
    }
    let (builds, gpus) = (registry.builds().len(), registry.gpus().len());
    match stored {
        Some(statement) => printer.out(&format!(
            "registry {}: {builds} torch builds, {gpus} GPUs; used from now on",
            statement.date
        )),
        None => printer.out(&format!("nothing newer: registry {} is in use", registry.meta().date)),
    }
    Ok(exit::YES)
}
