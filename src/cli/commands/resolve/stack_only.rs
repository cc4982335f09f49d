//! `--stack-only` for TensorFlow and JAX: the registry has series of releases, and nothing is locked.

use crate::cli::printer::{Printer, wrap};
use crate::cli::report::{self, label};
use crate::cli::view::Resolution;
use crate::model::request::Request;
use crate::model::solution::Series;
use crate::model::variant::CPU;
use crate::session::Interface as _;
use crate::session::resolve::machines::Machine;
use crate::session::resolve::{Prepared, ResolveRun};

/// Prints the answer if torch is not requested.
pub(super) fn tell(prepared: &Prepared<'_>, series: &[Vec<Series>], printer: &Printer) {
    let Prepared { machines, asked, .. } = prepared;
    let ResolveRun { request, registry, .. } = asked;
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
    note_limits(request, printer);
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

/// Notes that limits under `[stack]` apply to torch only. Called if another framework is in the answer.
pub(super) fn note_limits(request: &Request, printer: &Printer) {
    let limits = [
        ("cuda", request.cuda.is_some()),
        ("cudnn", request.cudnn.is_some()),
        ("variant", request.variant.as_ref().is_some_and(|v| v.value != CPU)),
    ];
    let given: Vec<String> =
        limits.iter().filter(|(_, given)| *given).map(|(name, _)| format!("`{name}`")).collect();
    if !given.is_empty() {
        let limits = given.join(", ");
        printer.note(&format!("only torch is limited by {limits}, not TensorFlow or JAX"));
    }
}
