//! `--stack-only` for TensorFlow and JAX: the registry has series of releases, and nothing is locked.

use std::collections::BTreeSet;

use super::machines::Machine;
use crate::cli::printer::{Printer, wrap};
use crate::cli::report::{self, label};
use crate::cli::view::Resolution;
use crate::model::conflict::Conflict;
use crate::model::request::Request;
use crate::model::solution::Series;
use crate::registry::Registry;
use crate::registry::STACK_PACKAGES;
use crate::session::Interface as _;
use crate::session::error::CliError;
use crate::solver::{NoSeries, newest_series};

/// Whether a package of the torch stack is requested. Only then is there a stack to lock.
pub(super) fn asks_for_torch(request: &Request) -> bool {
    STACK_PACKAGES.iter().any(|name| request.find(name).is_some())
}

/// Series of frameworks other than torch, for each machine.
pub(super) enum Beside {
    Series(Vec<Vec<Series>>),
    Conflict(Box<Conflict>),
}

/// The newest series that each machine runs.
pub(super) fn series_of_other_frameworks(
    machines: &[Machine],
    request: &Request,
    registry: &Registry,
) -> Result<Beside, CliError> {
    let mut all = Vec::new();
    for machine in machines {
        match newest_series(registry, &machine.host, request) {
            Ok(series) => all.push(series),
            Err(NoSeries::Conflict(mut conflict)) => {
                conflict.target.clone_from(&machine.name);
                return Ok(Beside::Conflict(conflict));
            }
            Err(NoSeries::Unknown { requirement, known }) => {
                let platform = machine.host.system.platform;
                let error = CliError::usage(format!("the registry has no `{requirement}` for {platform}"));
                let known = match known.is_empty() {
                    true => "it has no series for this platform".to_owned(),
                    false => format!("it has {}", known.join(", ")),
                };
                return Err(error.hint(format!("{known}; without `--stack-only` the index is queried")));
            }
        }
    }
    if !asks_for_torch(request) && all.iter().all(Vec::is_empty) {
        let beside: BTreeSet<&str> = registry.frameworks().iter().map(|row| row.framework.as_str()).collect();
        let known: Vec<&str> = STACK_PACKAGES.into_iter().chain(beside).collect();
        let known = known.join("`, `");
        return Err(CliError::usage(format!(
            "`--stack-only` supports only `{known}`, and none of them is requested"
        ))
        .hint("remove `--stack-only`, or add torch"));
    }
    Ok(Beside::Series(all))
}

/// Prints the answer if torch is not requested.
pub(super) fn tell(
    machines: &[Machine],
    series: &[Vec<Series>],
    request: &Request,
    registry: &Registry,
    printer: &Printer,
) {
    if printer.json {
        let named = machines.iter().map(|machine| machine.name.as_str());
        printer.json(&Resolution::series(named.zip(series.iter().map(Vec::as_slice))));
        return;
    }
    for (machine, series) in machines.iter().zip(series) {
        if machines.len() > 1 {
            printer.out("");
            let line = report::host_line(&machine.host, registry);
            printer.out(&format!("{}{}", label(printer, &machine.name), wrap(&line, 15)));
        }
        tell_series(machine, series, printer);
    }
    printer.out("");
    printer.out(&format!("{}nothing: the registry has series, not releases", label(printer, "wrote")));
    print_framework_notes(series, false, printer);
    super::tell::note_limits(request, printer);
    printer.hint("run without `--stack-only` to lock a release and its Python from the index");
}

/// Prints the series of other frameworks after a torch stack.
pub(super) fn print_other_frameworks(machines: &[Machine], series: &[Vec<Series>], printer: &Printer) {
    for (machine, series) in machines.iter().zip(series).filter(|(_, series)| !series.is_empty()) {
        tell_series(machine, series, printer);
        printer.note(&format!("the lock of {} holds only the torch stack", machine.name));
    }
    print_framework_notes(series, true, printer);
}

fn tell_series(machine: &Machine, series: &[Series], printer: &Printer) {
    for one in series {
        printer.out("");
        report::series(printer, one, &machine.host);
    }
}

fn print_framework_notes(series: &[Vec<Series>], with_torch: bool, printer: &Printer) {
    if series.iter().any(|series| series.len() + usize::from(with_torch) > 1) {
        printer.note(
            "each framework is checked alone: the registry does not know whether their packages fit together",
        );
    }
    let mut asks: Vec<(&str, &str)> = series
        .iter()
        .flatten()
        .filter_map(|one| Some((one.ask.as_deref()?.split('[').next()?, one.ask.as_deref()?)))
        .collect();
    asks.sort_unstable();
    asks.dedup();
    for (bare, ask) in asks {
        printer.note(&format!("`{bare}` does not install CUDA in these releases; `{ask}` does"));
    }
}
