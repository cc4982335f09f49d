//! The answer about a fleet, as text and as JSON.

use serde_json::json;

use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::report;
use crate::fleet::node_list;
use crate::model::count::Count;
use crate::model::host::HostJson;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::session::fleet::{Fleet, Unanswered};
use crate::verify::Verdict;

/// The column of the text behind a verdict.
const INDENT: usize = 9;

pub(super) fn json(printer: &Printer, fleet: &Fleet) {
    let locks: Vec<serde_json::Value> = fleet
        .judged
        .iter()
        .map(|lock| {
            let classes: Vec<serde_json::Value> = lock
                .verdicts
                .iter()
                .zip(&fleet.classes)
                .map(|(verdict, class)| {
                    json!({
                        "nodes": class.nodes, "verdict": verdict.verdict, "line": verdict.line,
                        "path": verdict.path, "findings": verdict.findings, "driver": verdict.driver.as_ref().map(|driver| driver.min.to_string()),
                        "driver_below": verdict.driver.as_ref().and_then(|driver| Some(driver.below.as_ref()?.to_string())),
                    })
                })
                .collect();
            json!({ "file": lock.file, "classes": classes })
        })
        .collect();
    let unanswered: Vec<serde_json::Value> =
        fleet.unanswered.iter().map(|one| json!({ "node": one.node, "why": one.why })).collect();
    let kinds: Vec<serde_json::Value> = fleet
        .classes
        .iter()
        .map(|class| json!({ "nodes": class.nodes, "host": HostJson::from(&class.host) }))
        .collect();
    let environment = fleet.environment.as_ref().map(|own| {
        let classes: Vec<serde_json::Value> = own
            .classes
            .iter()
            .map(|class| {
                json!({
                    "nodes": class.nodes, "verdict": class.verdict, "line": class.line,
                    "findings": class.findings,
                })
            })
            .collect();
        json!({ "prefix": own.prefix, "classes": classes })
    });
    printer.json(&json!({
        "kinds": kinds, "locks": locks, "environment": environment, "unanswered": unanswered,
        "differences": fleet.differences,
    }));
}

pub(super) fn text(printer: &Printer, fleet: &Fleet, registry: &Registry) {
    let nodes: usize = fleet.classes.iter().map(|class| class.nodes.len()).sum();
    printer.out(&format!(
        "{} of {}, {} without an answer",
        Count(nodes).of("node"),
        Count(fleet.classes.len()).of("kind"),
        fleet.unanswered.len()
    ));
    let at =
        |text: &str, indent: usize| printer.out(&format!("{}{}", " ".repeat(indent), wrap(text, indent)));
    if fleet.judged.is_empty() {
        for class in &fleet.classes {
            printer.out("");
            at(&named(&class.nodes, printer), 0);
            at(&report::host_line(&class.host, registry), INDENT);
        }
    }
    if fleet.judged.len() > 1 {
        matrix(printer, fleet);
    }
    for lock in &fleet.judged {
        printer.out("");
        printer.out(&wrap(&format!("lock {}", lock.file), 5));
        for (verdict, class) in lock.verdicts.iter().zip(&fleet.classes) {
            let (style, word) = shown(verdict.verdict);
            let word = printer.paint(style, &format!("{word:<INDENT$}"));
            printer.out(&format!("{word}{}", named(&class.nodes, printer)));
            at(&verdict.line, INDENT);
            if let Some(driver) = &verdict.driver {
                let below =
                    driver.below.as_ref().map(|below| format!(", below {below},")).unwrap_or_default();
                at(&format!("with driver {} or newer{below} they would run it", driver.min), INDENT);
            }
        }
    }
    if let Some(own) = &fleet.environment {
        printer.out("");
        at(&format!("environment {}", clean(&own.prefix, 200)), 0);
        for class in &own.classes {
            let (style, word) = shown(class.verdict);
            let word = printer.paint(style, &format!("{word:<INDENT$}"));
            printer.out(&format!("{word}{}", named(&class.nodes, printer)));
            at(&class.line, INDENT);
        }
    }
    if !fleet.differences.is_empty() {
        printer.out("");
        printer.out("differences");
    }
    for difference in &fleet.differences {
        for (place, value) in difference.values.iter().enumerate() {
            let label = if place == 0 { difference.fact } else { "" };
            let text = format!("{}: {}", value.value, named(&value.nodes, printer));
            printer.out(&format!("  {label:<13}{}", wrap(&text, 15)));
        }
    }
    if !fleet.unanswered.is_empty() {
        printer.out("");
        printer.out("without an answer");
        for (why, nodes) in by_reason(&fleet.unanswered) {
            at(&format!("{}: {why}", named(&nodes, printer)), 2);
        }
    }
}

/// Nodes as a list that fits into a line; `-v` and `--json` have all of them.
pub(super) fn named(nodes: &[String], p: &Printer) -> String {
    /// Maximum length of a list.
    const LINE: usize = 52;
    let list = node_list(nodes);
    if p.verbose || list.chars().count() <= LINE {
        return list;
    }
    if let [one] = nodes {
        return one.clone();
    }
    // Cut behind a number or a name; an open bracket stays open, so that nobody reads the start of a list as a node.
    match list.char_indices().take(LINE).filter(|(_, c)| *c == ',').last() {
        Some((cut, _)) => {
            let start = &list[..cut];
            let is_open = start.matches('[').count() > start.matches(']').count();
            format!("{start},...{} ({} nodes)", if is_open { "]" } else { "" }, nodes.len())
        }
        None => format!("{},... ({} nodes)", nodes[0], nodes.len()),
    }
}

fn shown(verdict: Verdict) -> (anstyle::Style, &'static str) {
    match verdict {
        Verdict::Ok => (GOOD, "yes"),
        Verdict::Differs => (ERROR, "no"),
        Verdict::Unknown => (WARN, "unknown"),
    }
}

/// Which locks run where: a row for each class of nodes, a column for each lock.
fn matrix(printer: &Printer, fleet: &Fleet) {
    printer.out("");
    for (place, lock) in fleet.judged.iter().enumerate() {
        printer.out(&format!("  {:<2} {}", place + 1, lock.file));
    }
    printer.out("");
    /// Locks in a row of the table: 26 columns for the nodes, nine for each.
    const IN_A_ROW: usize = 6;
    for (part, locks) in fleet.judged.chunks(IN_A_ROW).enumerate() {
        if part > 0 {
            printer.out("");
        }
        let first = part * IN_A_ROW + 1;
        let numbers: String = (first..first + locks.len()).map(|n| format!("{n:<9}")).collect();
        printer.out(format!("  {:<24}{numbers}", "").trim_end());
        for (place, class) in fleet.classes.iter().enumerate() {
            let words = locks.iter().enumerate().map(|(at, lock)| {
                let (style, word) = shown(lock.verdicts[place].verdict);
                let width = if at + 1 == locks.len() { 0 } else { 9 };
                printer.paint(style, &format!("{word:<width$}"))
            });
            let words: String = words.collect();
            let nodes = named(&class.nodes, printer);
            // A long list has its own line.
            if nodes.chars().count() > 22 {
                printer.out(&format!("  {}", wrap(&nodes, 2)));
                printer.out(&format!("  {:<24}{words}", ""));
            } else {
                printer.out(&format!("  {nodes:<24}{words}"));
            }
        }
    }
}

/// The nodes without an answer, by the reason.
pub(super) fn by_reason(unanswered: &[Unanswered]) -> Vec<(&str, Vec<String>)> {
    let mut out: Vec<(&str, Vec<String>)> = Vec::new();
    for one in unanswered {
        match out.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, nodes)) => nodes.push(one.node.clone()),
            None => out.push((&one.why, vec![one.node.clone()])),
        }
    }
    out
}
