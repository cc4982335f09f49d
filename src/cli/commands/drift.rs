//! `envlock drift OLD [NEW]`: prints what changed on a machine since a host file was saved.

use crate::cli::args::DriftArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::drift::Change;
use crate::model::finding::Severity;
use crate::model::text::clean;
use crate::session::drift;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;

pub(super) fn run(global: &Global, args: &DriftArgs, printer: &Printer) -> Result<u8, Failure> {
    let changes = drift::changes(global, &args.old, args.new.as_deref(), args.prefix.as_deref())?;
    match printer.json {
        true => printer.json(&serde_json::json!({ "changes": changes })),
        false => tell(&changes, printer),
    }
    let any_error = changes.iter().any(|change| change.severity == Severity::Error);
    Ok(if any_error { exit::NO } else { exit::YES })
}

fn tell(changes: &[Change], p: &Printer) {
    if changes.is_empty() {
        return p.out("nothing changed");
    }
    for change in changes {
        let (word, style) = match change.severity {
            Severity::Error => ("error", ERROR),
            Severity::Warning => ("warning", WARN),
            Severity::Info => ("info", GOOD),
        };
        let shown =
            |text: &Option<String>| text.as_ref().map_or_else(|| "none".to_owned(), |text| clean(text, 300));
        let head = format!("{word}:");
        let text = format!(
            "{head} {}: {} -> {}: {}",
            clean(&change.fact, 100),
            shown(&change.before),
            shown(&change.after),
            clean(&change.effect, 400)
        );
        p.out(&format!("{}{}", p.paint(style, &head), &wrap(&text, 2)[head.len()..]));
    }
}
