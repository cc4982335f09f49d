//! `envlock list`: every locked package on a line.

use serde_json::json;

use crate::cli::args::ListArgs;
use crate::cli::printer::{DIM, Printer};
use crate::cli::report;
use crate::lockfile::Target;
use crate::model::text::clean;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::project_lock;

pub(super) fn run(global: &Global, args: &ListArgs, printer: &Printer) -> Result<u8, Failure> {
    let (_, _, lock) = project_lock::of_project(global)?;
    let targets = project_lock::targets(&lock, args.target.as_deref())?;
    if printer.json {
        let rows = |target: &&Target| json!({ "target": target.name, "packages": packages(target) });
        printer.json(&json!({ "targets": targets.iter().map(rows).collect::<Vec<_>>() }));
        return Ok(exit::YES);
    }
    for (position, target) in targets.iter().enumerate() {
        report::heading(printer, target, targets.len() > 1, position);
        let rows = packages(target);
        let widest = |of: fn(&Row) -> &str| rows.iter().map(|row| of(row).len()).max().unwrap_or(0);
        let (name, version) = (widest(|row| &row.name), widest(|row| &row.version));
        for row in &rows {
            let source = printer.paint(DIM, &clean(&row.source, 200));
            printer.out(&format!("{:<name$}  {:<version$}  {source}", row.name, row.version));
        }
    }
    Ok(exit::YES)
}

/// A locked package.
#[derive(serde::Serialize)]
struct Row {
    name: String,
    version: String,
    /// Its index or channel, or its address.
    source: String,
}

/// Those of the indexes and those of conda, by name.
fn packages(target: &Target) -> Vec<Row> {
    let of_index = target.packages.iter().map(|package| Row {
        name: clean(&package.name, 80),
        version: clean(&package.version_with_variant(), 60),
        source: package.source.to_string(),
    });
    let of_conda = target.conda.iter().map(|package| Row {
        name: clean(&package.name, 80),
        version: clean(&package.version, 60),
        source: package.channel.clone(),
    });
    let mut rows: Vec<Row> = of_index.chain(of_conda).collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}
