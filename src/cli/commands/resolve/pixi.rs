//! What `resolve` prints of a project whose packages pixi holds.

use crate::cli::printer::{Printer, wrap};
use crate::cli::report::{self, label};
use crate::model::finding::Severity;
use crate::registry::Registry;
use crate::session::exit;
use crate::session::resolve::ResolveRun;
use crate::session::resolve::with_pixi::{PixiAnswer, PixiLocked};

/// Prints it, and returns the exit code.
pub(super) fn tell(asked: &ResolveRun<'_>, answer: &PixiAnswer, printer: &Printer) -> u8 {
    let registry = &asked.registry;
    match answer {
        PixiAnswer::Planned(rows) => {
            for (row, cuda) in rows.iter().filter_map(|row| Some((row, row.cuda.as_deref()?))) {
                printer.out(&format!("{}{} with CUDA {cuda}", label(printer, "platform"), row.subdir));
            }
            printer.out(&format!("{}nothing (--dry-run)", label(printer, "wrote")));
            exit::YES
        }
        PixiAnswer::Refused(locked) => {
            refused(locked, registry, printer);
            exit::NO
        }
        PixiAnswer::Written(locked, files) => {
            written(locked, files, asked, printer);
            exit::YES
        }
    }
}

fn refused(locked: &[PixiLocked], registry: &Registry, printer: &Printer) {
    if printer.json {
        let findings: Vec<_> = locked.iter().flat_map(PixiLocked::findings).collect();
        printer.json(&serde_json::json!({ "status": "conflict", "findings": findings }));
        return;
    }
    printer.error("what pixi locks does not run on these machines; the files are as they were", None);
    locked.iter().for_each(|locked| machine(locked, registry, printer));
}

fn machine(locked: &PixiLocked, registry: &Registry, printer: &Printer) {
    let line = report::host_line(&locked.machine.host, registry);
    printer.out(&format!("{}{}", label(printer, &locked.machine.name), wrap(&line, 15)));
    for finding in locked.findings().filter(|finding| finding.severity >= Severity::Info) {
        printer.out(&format!("{}{}", " ".repeat(15), wrap(&finding.message, 15)));
    }
}

fn written(all: &[PixiLocked], files: &[String], asked: &ResolveRun<'_>, printer: &Printer) {
    if printer.json {
        let targets: Vec<&str> = all.iter().map(|locked| locked.machine.name.as_str()).collect();
        return printer.json(&serde_json::json!({ "status": "solved", "targets": targets }));
    }
    printer.out(&format!("locked by pixi, and judged, in {:.1} s", asked.seconds()));
    printer.out("");
    for locked in all {
        machine(locked, &asked.registry, printer);
        let conda = locked.locked.conda.iter().filter(|record| record.is_package()).count();
        let packages = locked.locked.target.packages.len();
        printer.out(&format!("{}{conda} conda packages, {packages} of PyPI", " ".repeat(15)));
    }
    printer.out("");
    printer.out(&format!("{}{}", label(printer, "wrote"), wrap(&files.join(", "), 15)));
    printer.out(&format!("{}{}", label(printer, "next"), printer.command("envlock sync")));
}
