//! `envlock diagnose [FILE|-]`: prints the cause of a failure in a log or a dump, and the fix.

use crate::cli::args::DiagnoseArgs;
use crate::cli::printer::{DIM, ERROR, GOOD, Printer, wrap};
use crate::diagnose::{Cause, Diagnosis, SURE, Verdict};
use crate::model::fix::Fix;
use crate::model::text::clean;
use crate::registry::{Registry, explain};
use crate::session::Interface as _;
use crate::session::diagnose;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::learned_rows;
use crate::session::options::Global;
use crate::session::settings;

pub(super) fn run(global: &Global, args: &DiagnoseArgs, printer: &Printer) -> Result<u8, Failure> {
    let registry = learned_rows::with_rows_of_stack(global, settings::registry_here(global)?);
    if let Some(code) = &args.explain {
        return explained(code, &registry, printer);
    }
    let diagnosis = diagnose::diagnose(global, (args.file.as_deref(), args.here), &registry)?;
    if printer.json {
        printer.json(&diagnosis);
    } else {
        print_text(printer, &diagnosis);
        if let Some(what) = diagnose::in_project(global, &diagnosis) {
            printer.hint(&format!("this project has a lock: {what}"));
        }
    }
    Ok(match diagnosis.verdict {
        Verdict::Problem => exit::NO,
        Verdict::Healthy => exit::YES,
        Verdict::Unknown => exit::NOT_KNOWN,
    })
}

/// Explains the code of a cause by its rule, or by the page that explains the findings of `verify` and what is derived.
fn explained(code: &str, registry: &Registry, printer: &Printer) -> Result<u8, Failure> {
    let text = match explain::rule(registry, code) {
        Some(rule) => Some(explain::text(registry, rule)),
        None => explain::of_page(include_str!("../../../docs/diagnostics.md"), code)
            .or_else(|| explain::of_component(registry, code)),
    };
    let Some(text) = text else {
        let near = explain::nearest(registry, code);
        let hint = (!near.is_empty()).then(|| format!("near it: `{}`", near.join("`, `")));
        return Err(Failure {
            exit: exit::NO,
            hint,
            ..Failure::input(format!("no cause has the code `{}`", clean(code, 80)))
        });
    };
    match printer.json {
        true => printer.json(&serde_json::json!({ "code": code, "text": text })),
        false => printer.raw(&text),
    }
    Ok(exit::YES)
}

/// `sure`, `probable`, `possible`.
fn sureness(confidence: f64) -> &'static str {
    match confidence {
        c if c >= SURE => "sure",
        c if c >= 0.6 => "probable",
        _ => "possible",
    }
}

/// Width of the left column.
const INDENT: usize = 7;

fn print_text(p: &Printer, diagnosis: &Diagnosis) {
    let name =
        |text: &str| format!("{}{}", p.paint(DIM, text), " ".repeat(INDENT.saturating_sub(text.len())));
    let line = |label: &str, text: &str| p.out(&format!("{}{}", name(label), wrap(text, INDENT)));
    let Some((first, others)) = diagnosis.causes.split_first() else {
        match diagnosis.verdict {
            Verdict::Healthy => p.out(&format!("{} no problem found", p.paint(GOOD, "healthy"))),
            Verdict::Problem | Verdict::Unknown => {
                p.out("unknown: no known cause found");
                for (i, evidence) in diagnosis.unexplained.iter().enumerate() {
                    let text = format!("line {}  {}", evidence.line, evidence.text);
                    line(if i == 0 { "seen" } else { "" }, &text);
                }
                for (i, text) in diagnosis.excluded.iter().enumerate() {
                    line(if i == 0 { "fine" } else { "" }, text);
                }
                if let Some(command) = diagnosis.ask {
                    p.hint(&format!("add the output of `{command}` to the text, and ask again"));
                }
            }
        }
        return;
    };
    let sure = |cause: &Cause| format!("({}, {})", cause.component, sureness(cause.confidence));
    let title = wrap(&format!("{} {}", first.message, sure(first)), INDENT);
    p.out(&format!("{}  {}", p.paint(ERROR, "cause"), title));
    let width = first.evidence.iter().map(|e| e.line.to_string().len()).max().unwrap_or(0);
    for (i, evidence) in first.evidence.iter().enumerate() {
        let text = match evidence.decoded.as_slice() {
            [] => evidence.text.clone(),
            decoded => format!("{} [{}]", evidence.text, decoded.join("; ")),
        };
        let head = format!("line {:<width$}  ", evidence.line);
        p.out(&format!(
            "{}{head}{}",
            name(if i == 0 { "seen" } else { "" }),
            wrap(&text, INDENT + head.len())
        ));
    }
    for (i, fix) in first.fix.iter().enumerate() {
        let label = if i == 0 { "fix" } else { "" };
        match fix {
            // A command stays on one line so that it can be copied; its explanation follows below.
            Fix::Command { command, why } => {
                p.out(&format!("{}{command}", name(label)));
                if let Some(why) = why {
                    line("", &format!("({why})"));
                }
            }
            Fix::Advice(text) => line(label, text),
        }
    }
    let others: Vec<&Cause> = others.iter().filter(|other| other.confidence >= 0.4).take(2).collect();
    for (i, other) in others.iter().enumerate() {
        line(if i == 0 { "or" } else { "" }, &format!("{} {}", other.message, sure(other)));
        let fixes = if first.confidence < 0.85 { 1 } else { 0 };
        for fix in other.fix.iter().take(fixes) {
            p.out(&format!("{}{fix}", name("")));
        }
    }
    if let Some(check) = &first.check
        && (!others.is_empty() || first.confidence < 0.85)
    {
        p.out(&format!("{}{check}", name("check")));
    }
}
