//! `envlock outdated`: prints newer stacks that the locked machine can run, stacks that need a newer driver, and newer
//! packages.

use serde_json::json;

use crate::cli::args::OutdatedArgs;
use crate::cli::printer::{DIM, GOOD, Printer, wrap};
use crate::cli::report;
use crate::cli::report::label;
use crate::model::level::Level;
use crate::model::solution::{DriverMode, Solution};
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::outdated::{self, Newer};
use crate::solver::{Upgrade, driver_for_gpus};

pub(super) fn run(global: &Global, args: &OutdatedArgs, printer: &Printer) -> Result<u8, Failure> {
    let asked = (args.target.as_deref(), args.index_url.as_deref());
    let (all, registry) = outdated::newer(global, asked, printer)?;
    if printer.json {
        printer.json(&json!({ "targets": all }));
        return Ok(exit::YES);
    }
    if all.iter().any(|newer| !newer.target.conda.is_empty()) {
        printer.note("conda packages are not compared; `envlock resolve --upgrade` takes the newest");
    }
    let several = all.len() > 1;
    for (i, newer) in all.iter().enumerate() {
        report::heading(printer, &newer.target, several, i);
        show_stacks(printer, newer, several);
        let stack = newer.target.stack.as_ref();
        if let Some(text) = stack.and_then(|_| report::last_build(&newer.host, &registry, printer)) {
            printer.note(&text);
        }
        if newer.target.level == Level::Full {
            show_packages(printer, newer);
        }
    }
    Ok(exit::YES)
}

/// The packages as a table: what is locked, what fits, what there is.
fn show_packages(printer: &Printer, newer: &Newer) {
    let mut rows: Vec<&Upgrade> = newer.packages.iter().chain(&newer.behind).collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    if newer.packages.is_empty() {
        printer.out(&format!(
            "{}none can be newer unless another one or the request changes",
            label(printer, "packages")
        ));
    }
    let head = ["package", "locked", "compatible", "latest"].map(str::to_owned);
    let cells = |row: &&Upgrade| {
        let compatible = if row.is_possible() { row.available.to_string() } else { "-".to_owned() };
        let latest = row.latest.as_ref().map(ToString::to_string).unwrap_or_default();
        [row.name.clone(), row.locked.to_string(), compatible, latest]
    };
    let table: Vec<[String; 4]> = rows.iter().map(cells).collect();
    if table.is_empty() {
        return;
    }
    let width = |column: usize| table.iter().chain([&head]).map(|row| row[column].len()).max().unwrap_or(0);
    let [name, locked, compatible] = [0, 1, 2].map(width);
    let line = |[a, b, c, d]: &[String; 4]| {
        format!("{a:<name$}  {b:<locked$}  {c:<compatible$}  {d}").trim_end().to_owned()
    };
    printer.out("");
    printer.out(&printer.paint(DIM, &line(&head)));
    for (row, cells) in rows.iter().zip(&table) {
        let source = if row.source { "  (built from source)" } else { "" };
        printer.out(&format!("{}{source}", line(cells)));
    }
    if !newer.packages.is_empty() {
        printer.hint("upgrade all with `envlock upgrade`, or one with `envlock upgrade NAME`");
    }
}

fn show_stacks(p: &Printer, found: &Newer, several: bool) {
    let (newer, target) = (&found.stack, &found.target);
    let Some(locked) = &target.stack else { return };
    let channel = target.pytorch_of_conda().map(|package| format!(", from {}", package.channel));
    let from = channel.as_deref().unwrap_or_default();
    p.out(&format!("{}{} {}  locked{from}", label(p, "torch"), locked.version, locked.variant));
    if channel.is_some() {
        return;
    }
    // The names stand below each other.
    let shown = [&newer.allowed, &newer.on_this_machine, &newer.with_newer_driver];
    let names = shown.iter().filter_map(|found| found.as_ref()?.stack.as_ref());
    let width = names.map(|stack| format!("{} {}", stack.version, stack.variant).len()).max().unwrap_or(0);
    let say = |found: &Option<Solution>, why: &str, limit: Option<&str>| {
        let Some(stack) = found.as_ref().and_then(|s| s.stack.as_ref()) else { return };
        let mode = match stack.driver_mode {
            Some(DriverMode::Compatibility) => " (compatibility mode)",
            _ => "",
        };
        let name = format!("{} {}", stack.version, stack.variant);
        let space = " ".repeat(width.saturating_sub(name.len()));
        let limit = limit.map(|limit| format!(", {limit}")).unwrap_or_default();
        let why = wrap(&format!("{why}{mode}{limit}"), 15 + width + 2);
        p.out(&format!("{}{}{space}  {why}", label(p, ""), p.paint(GOOD, &name)));
    };
    let machine = if several { "this target alone" } else { "this machine" };
    let of_request = newer.allowed.as_ref().and_then(|found| found.stack.as_ref());
    let is_held = of_request.zip(found.torch.as_ref()).is_some_and(|(newest, whole)| newest.version > *whole);
    // The registry alone says what the stack can be; the packages beside it may want another.
    let runs = format!("runs on {machine}");
    let (why, limit) = match (target.level, found.torch.is_some(), is_held) {
        (Level::Full, true, false) | (Level::Stack, ..) => (format!("fits the request and {machine}"), None),
        (Level::Full, true, true) => {
            let version = of_request.map(|stack| stack.version.to_string()).unwrap_or_default();
            (
                runs,
                Some(format!(
                    "but the rest of the request excludes it: `envlock why --not torch=={version}`"
                )),
            )
        }
        (Level::Full, false, _) => (runs, Some("but whether the packages admit it is not known".to_owned())),
    };
    say(&newer.allowed, &why, limit.as_deref());
    let limits = "but the request limits torch, CUDA or the index";
    say(&newer.on_this_machine, "would run here", Some(limits));
    let driver = newer.with_newer_driver.as_ref().and_then(|s| driver_for_gpus(s, &target.host));
    let driver = driver.map_or_else(|| "unknown".to_owned(), |v| v.to_string());
    say(&newer.with_newer_driver, &format!("would run with driver >= {driver}"), None);
    if newer.is_empty() {
        p.out(&format!("{}no newer build that is known runs on this machine with any driver", label(p, "")));
    }
}
