//! One file per command. A command collects its input, calls the core and prints the result.

mod add;
mod bundle;
mod cache;
mod diagnose;
mod diff;
mod drift;
mod export;
mod fleet;
mod graph;
mod guard;
mod image;
mod init;
mod inspect;
mod list;
mod outdated;
mod plan;
mod probe;
mod registry;
mod resolve;
mod run;
mod sbom;
mod selftest;
mod sync;
mod tree;
mod verify;
mod why;

use clap::CommandFactory;

use super::args::{Args, Command};
use super::exit;
use super::failure::Failure;
use super::printer::Printer;

/// Runs the command of the command line.
pub(super) fn dispatch(args: &Args, printer: &Printer) -> Result<u8, Failure> {
    let global = &args.global;
    match &args.command {
        Command::Init(a) => init::run(global, a, printer),
        Command::Add(a) => add::add(global, a, printer),
        Command::Remove(a) => add::remove(global, a, printer),
        Command::Probe(a) => probe::run(global, a, printer),
        Command::Resolve(a) => resolve::run(global, a, printer),
        Command::Upgrade(a) => resolve::upgrade(global, a, printer),
        Command::Plan(a) => plan::run(global, a, printer),
        Command::Why(a) => why::run(global, a, printer),
        Command::List(a) => list::run(global, a, printer),
        Command::Tree(a) => tree::run(global, a, printer),
        Command::Graph(a) => graph::run(global, a, printer),
        Command::Drift(a) => drift::run(global, a, printer),
        Command::Diff(a) => diff::run(global, a, printer),
        Command::Outdated(a) => outdated::run(global, a, printer),
        Command::Export(a) => export::run(global, a, printer),
        Command::Sync(a) => sync::run(global, a, printer),
        Command::Bundle(a) => bundle::run(global, a, printer),
        Command::Sbom(a) => sbom::run(global, a, printer),
        Command::Verify(a) => verify::run(global, a, printer),
        Command::Fleet(a) => fleet::run(global, a, printer),
        Command::Diagnose(a) => diagnose::run(global, a, printer),
        Command::Run(a) => run::run(global, a, printer),
        Command::Guard(a) => guard::run(global, a, printer),
        Command::Inspect(a) => inspect::run(global, a, printer),
        Command::Image(a) => image::run(global, a, printer),
        Command::Selftest(_) => selftest::run(global, printer),
        Command::Registry(a) => registry::run(global, a, printer),
        Command::Schema { name } => {
            printer.raw(name.text());
            Ok(exit::YES)
        }
        Command::Cache(a) => cache::run(global, a, printer),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "envlock", &mut text);
            printer.raw(&String::from_utf8_lossy(&text));
            Ok(exit::YES)
        }
        Command::Man => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Args::command())
                .render(&mut text)
                .map_err(|e| Failure::files(e.to_string()))?;
            printer.raw(&String::from_utf8_lossy(&text));
            Ok(exit::YES)
        }
    }
}
