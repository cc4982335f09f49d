//! What `plan` prints of the builds of torch that a machine can run.

use serde_json::json;

use crate::cli::printer::{DIM, Printer, wrap};
use crate::cli::report;
use crate::compatibility::Open;
use crate::model::count::Count;
use crate::model::host::Host;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::session::Interface as _;
use crate::session::data_folder;
use crate::session::exit;
use crate::session::plan::{PlanOptions, Planned};
use crate::solver::{Plan, PlanOut, PlanRow};

/// Rows that are shown without `-v`.
const SHOWN: usize = 16;

/// Prints them, and returns the exit code.
pub(super) fn tell(
    planned: &Planned,
    (plan, unread, is_of_channels): (&Plan, Option<&Open>, bool),
    options: &PlanOptions,
    printer: &Printer,
) -> u8 {
    if printer.json {
        let unknown = unread.map(ToString::to_string);
        printer.json(&json!({ "runs": plan.runs, "out": plan.out, "unknown": unknown }));
    } else {
        let asked = (options.torch.as_deref(), options.variant.as_deref());
        show(printer, (plan, unread), asked, &planned.host, &planned.registry);
        data_folder::age(&planned.registry).iter().for_each(|text| printer.note(text));
        if is_of_channels {
            printer.note("these are the builds of PyPI and the pytorch index; the torch of this project comes from conda-forge");
        }
    }
    match (plan.runs.is_empty(), unread) {
        (false, _) => exit::YES,
        (true, Some(_)) => exit::NOT_KNOWN,
        (true, None) => exit::NO,
    }
}

/// `asked`, `variant`: the builds that are asked about, if not all.
fn show(
    printer: &Printer,
    (plan, unread): (&Plan, Option<&Open>),
    (asked, variant): (Option<&str>, Option<&str>),
    host: &Host,
    registry: &Registry,
) {
    printer.out(&format!("host   {}", wrap(&report::host_line(host, registry), 7)));
    printer.out("");
    let named = asked.map_or_else(|| "torch".to_owned(), |text| format!("`{}`", clean(text, 80)));
    match (plan.runs.is_empty(), plan.out.is_empty()) {
        (false, _) => rows(printer, &plan.runs, asked.is_some()),
        (true, _) if unread.is_some() => {
            printer.out(&format!("not known whether a build of {named} runs on this machine"));
        }
        (true, false) => printer.out(&format!("no known build of {named} runs on this machine")),
        (true, true) => {
            let platform = host.system.platform;
            let of_variant = variant.map(|variant| format!("{} ", clean(variant, 20))).unwrap_or_default();
            printer.out(&format!("envlock's data has no {of_variant}build of {named} for {platform}"));
        }
    }
    if let Some(unread) = unread {
        printer.out(&format!("{}{}", report::label(printer, "unknown"), wrap(&unread.to_string(), 15)));
        printer.hint(&unread.how_to_read());
    } else if plan.runs.is_empty() && asked.is_some() {
        printer.hint("without a requirement, `envlock plan` lists the builds that run there");
    }
    printer.out("");
    // It is obvious that CPU builds are excluded on a machine with a GPU, where others run.
    let is_told = |out: &&PlanOut| plan.runs.is_empty() || !out.builds.iter().all(|b| b.variant == "cpu");
    let told = plan.out.iter().filter(is_told);
    for (i, out) in told.enumerate() {
        printer.out(&format!(
            "{}{}",
            report::label(printer, if i == 0 { "excluded" } else { "" }),
            why_out(out)
        ));
    }
    if let Some(text) = report::last_build(host, registry, printer) {
        printer.out(&format!("{}{}", report::label(printer, "ends"), wrap(&text, 15)));
    }
    let tegra = registry.tegra();
    if host.gpus.iter().flatten().any(|g| g.capability.is_some_and(|c| tegra.capabilities.contains(&c))) {
        printer.out(&format!("{}{}", report::label(printer, "Jetson"), wrap(&tegra.note, 15)));
    }
}

/// Prints the table; without `-v`, the newest build of each version and at most [`SHOWN`] rows. `with_oldest`: the last row is
/// the oldest version, the smallest step from what a project has.
fn rows(printer: &Printer, runs: &[PlanRow], with_oldest: bool) {
    let mut shown: Vec<&PlanRow> = Vec::new();
    for row in runs {
        let another = shown.last().is_some_and(|last| last.torch == row.torch);
        if printer.verbose || !another {
            shown.push(row);
        }
    }
    let mut is_gap_before_last = false;
    if !printer.verbose && shown.len() > SHOWN {
        let oldest = shown.last().copied().filter(|_| with_oldest);
        is_gap_before_last = oldest.is_some();
        shown.truncate(SHOWN - usize::from(is_gap_before_last));
        shown.extend(oldest);
    }
    let hidden = runs.len() - shown.len();
    let builds = Count(hidden).word("build", "builds");
    let cells = |row: &PlanRow| {
        let dash = || "-".to_owned();
        [
            row.torch.clone(),
            row.variant.clone(),
            row.cudnn.as_ref().map_or_else(dash, ToString::to_string),
            row.index.clone(),
            row.driver_mode.map_or_else(
                || row.driver_min.as_ref().map_or_else(dash, |v| format!(">= {v}")),
                |m| m.to_string(),
            ),
            row.evidence.to_string(),
        ]
    };
    let head = ["torch", "variant", "cudnn", "index", "driver", "evidence"].map(str::to_owned);
    let table: Vec<[String; 6]> = std::iter::once(head).chain(shown.iter().map(|r| cells(r))).collect();
    let width = |column: usize| table.iter().map(|r| r[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for (i, row) in table.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
        let line = format!("  {}", cells.join("  ")).trim_end().to_owned();
        if is_gap_before_last && i + 1 == table.len() {
            let text =
                format!("  ... {hidden} more {builds}; `-v` or `--json` shows all; the oldest version:");
            printer.out(&printer.paint(DIM, &text));
        }
        printer.out(&if i == 0 { printer.paint(DIM, &line) } else { line });
    }
    if hidden > 0 && !is_gap_before_last {
        let text = format!("  and {hidden} more {builds}; `-v` or `--json` shows all");
        printer.out(&printer.paint(DIM, &text));
    }
}

/// `has no code for NVIDIA V100 (7.0): cu132 of 2.12.0 to 2.15.0, cu130 of ...`
fn why_out(out: &PlanOut) -> String {
    let flavours: Vec<String> = out
        .builds
        .iter()
        .map(|b| {
            let spans: Vec<String> = b
                .spans
                .iter()
                .map(|(oldest, newest)| match oldest == newest {
                    true => oldest.clone(),
                    false => format!("{oldest} to {newest}"),
                })
                .collect();
            match spans.is_empty() {
                true => b.variant.clone(),
                false => format!("{} of {}", b.variant, spans.join(" and ")),
            }
        })
        .collect();
    wrap(&format!("{}: {}", out.reason, flavours.join(", ")), 15)
}
