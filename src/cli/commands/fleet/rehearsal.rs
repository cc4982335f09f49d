//! What a change does to a fleet, as text, JSON and Markdown.

use serde_json::{Value, json};

use super::report::named;
use crate::cli::markdown::{cell, table};
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::fleet::{Effect, Fare, Outcome, node_list};
use crate::model::count::Count;
use crate::session::fleet::{OfLock, Rehearsed};
use crate::verify::Verdict;

/// The column of the text behind an effect.
const INDENT: usize = 11;

pub(super) fn json(printer: &Printer, answer: &Rehearsed) {
    let fare = |fare: &Fare| json!({ "verdict": fare.verdict, "line": fare.line, "path": fare.path });
    // Of nodes on which nothing changes only the verdict is the same.
    let verdict = |fare: &Fare| json!({ "verdict": fare.verdict, "line": null, "path": null });
    let outcome = |outcome: &Outcome| {
        let fare = if outcome.effect == Effect::Same { &verdict as &dyn Fn(&Fare) -> Value } else { &fare };
        json!({
            "effect": outcome.effect, "nodes": answer.nodes(outcome),
            "before": fare(&outcome.before), "after": fare(&outcome.after),
        })
    };
    let lock = |lock: &OfLock| {
        let (before, after) = answer.runs(lock);
        json!({
            "file": lock.file, "against": lock.against, "runs_on": { "before": before, "after": after },
            "outcomes": lock.outcomes.iter().map(outcome).collect::<Vec<Value>>(),
        })
    };
    let unanswered: Vec<Value> =
        answer.unanswered.iter().map(|one| json!({ "node": one.node, "why": one.why })).collect();
    printer.json(&json!({
        "change": { "driver": answer.driver.as_ref().map(ToString::to_string), "gpus": answer.gpus, "nodes": answer.changed },
        "nodes": all(answer),
        "locks": answer.locks.iter().map(lock).collect::<Vec<Value>>(),
        "drain": answer.drain, "first": { "nodes": answer.first, "smallest": answer.is_smallest },
        "unanswered": unanswered,
    }));
}

/// The number of nodes that answered.
fn all(answer: &Rehearsed) -> usize {
    answer.classes.iter().map(|class| class.nodes.len()).sum()
}

/// `driver 620.70.06 on 4 of 5 nodes`
fn headline(answer: &Rehearsed) -> String {
    let mut what: Vec<String> = answer.driver.iter().map(|driver| format!("driver {driver}")).collect();
    if let Some(gpus) = &answer.gpus {
        what.push(if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(", ") });
    }
    let nodes = Count(all(answer)).of("node");
    match what.is_empty() {
        true => {
            let locks = Count(answer.locks.len()).word("another lock", "other locks");
            format!("{locks} on {} of {nodes}", answer.concerned)
        }
        false => format!("{} on {} of {nodes}", what.join(" and "), answer.changed),
    }
}

/// How a lock fares: by which code it runs, or why it does not.
fn told(fare: &Fare) -> String {
    match (&fare.path, fare.verdict) {
        (Some(path), _) => path.to_string(),
        (None, Verdict::Ok) => format!("runs: {}", fare.line),
        (None, _) => fare.line.clone(),
    }
}

fn word(effect: Effect) -> (anstyle::Style, &'static str) {
    match effect {
        Effect::Stops => (ERROR, "stops"),
        Effect::NotKnown => (WARN, "not known"),
        Effect::Starts => (GOOD, "starts"),
        Effect::Unclear => (WARN, "unclear"),
        Effect::Path => (WARN, "changed"),
        Effect::Same => (GOOD, "same"),
    }
}

/// What stays: `runs on 5 nodes as before, on 2 not`.
fn unchanged(lock: &OfLock, answer: &Rehearsed) -> Option<String> {
    let count = |verdict| {
        let same = lock.outcomes.iter().filter(|one| one.effect == Effect::Same);
        let of = same.filter(|one| one.after.verdict == verdict).flat_map(|one| &one.classes);
        of.map(|class| answer.classes[*class].nodes.len()).sum::<usize>()
    };
    let told = [(Verdict::Ok, "yes"), (Verdict::Differs, "no"), (Verdict::Unknown, "not known")];
    let parts = told.map(|(verdict, word)| (count(verdict), word));
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{word} on {}", Count(*count).of("node")))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The title of a lock: its file, the one before, and on how many nodes it runs.
fn title(lock: &OfLock, answer: &Rehearsed) -> (String, String) {
    let (before, after) = answer.runs(lock);
    let all = all(answer);
    let runs = match before == after {
        true => format!("runs on {after} of {}", Count(all).of("node")),
        false => format!("runs on {before} of {} now, on {after} then", Count(all).of("node")),
    };
    let file = match &lock.against {
        Some(old) => format!("{} in place of {old}", lock.file),
        None => lock.file.clone(),
    };
    (file, runs)
}

pub(super) fn text(printer: &Printer, answer: &Rehearsed) {
    let at =
        |text: &str, indent: usize| printer.out(&format!("{}{}", " ".repeat(indent), wrap(text, indent)));
    at(&headline(answer), 0);
    for lock in &answer.locks {
        let (file, runs) = title(lock, answer);
        printer.out("");
        at(&format!("lock {file}: {runs}"), 0);
        for outcome in lock.outcomes.iter().filter(|outcome| outcome.effect != Effect::Same) {
            let (style, word) = word(outcome.effect);
            let word = printer.paint(style, &format!("{word:<INDENT$}"));
            printer.out(&format!("{word}{}", named(&answer.nodes(outcome), printer)));
            at(&format!("now:  {}", told(&outcome.before)), INDENT);
            at(&format!("then: {}", told(&outcome.after)), INDENT);
        }
        if let Some(same) = unchanged(lock, answer) {
            let word = printer.paint(GOOD, &format!("{:<INDENT$}", "as before"));
            printer.out(&format!("{word}{}", wrap(&same, INDENT)));
        }
    }
    if !answer.first.is_empty() {
        printer.out("");
    }
    for (what, nodes, why) in advice(answer) {
        at(&format!("{what}: {}", named(nodes, printer)), 0);
        at(&why, INDENT);
    }
    if !answer.unanswered.is_empty() {
        printer.out("");
        printer.out("without an answer");
        for (why, nodes) in super::report::by_reason(&answer.unanswered) {
            at(&format!("{}: {why}", named(&nodes, printer)), 2);
        }
    }
}

/// Which nodes to drain, and on which to try it: what, the nodes, why.
fn advice(answer: &Rehearsed) -> Vec<(&'static str, &[String], String)> {
    let mut out: Vec<(&'static str, &[String], String)> = Vec::new();
    if !answer.drain.is_empty() {
        let count = Count(answer.drain.len()).of("node");
        let (what, why) = match answer.driver.is_none() && answer.gpus.is_none() {
            true => ("not on", "there the lock runs now, and the new one does not, or is not known to"),
            false => ("drain first", "there a lock runs now, and then does not, or is not known to"),
        };
        out.push((what, &answer.drain, format!("{count}: {why}")));
    }
    if !answer.first.is_empty() {
        let why = match (answer.first.len(), answer.is_smallest) {
            (1, _) => "it alone shows every change".to_owned(),
            (count, true) => {
                format!("these {count} show every change on every kind of GPU, and no fewer do")
            }
            (count, false) => format!("these {count} show every change on every kind of GPU; fewer may do"),
        };
        out.push(("try it on", &answer.first, why));
    }
    out
}

/// A document for a pull request or a ticket.
pub(super) fn markdown(printer: &Printer, answer: &Rehearsed) {
    let mut out = format!("## {}\n\n", cell(&headline(answer)));
    let rows: Vec<Vec<String>> = answer
        .locks
        .iter()
        .map(|lock| {
            let (before, after) = answer.runs(lock);
            let count = |effect| {
                let of = lock.outcomes.iter().filter(|outcome| outcome.effect == effect);
                let count: usize = of.map(|outcome| answer.nodes(outcome).len()).sum();
                if count == 0 { "-".to_owned() } else { count.to_string() }
            };
            vec![
                cell(&title(lock, answer).0),
                before.to_string(),
                after.to_string(),
                count(Effect::Stops),
                count(Effect::NotKnown),
                count(Effect::Starts),
                count(Effect::Unclear),
                count(Effect::Path),
            ]
        })
        .collect();
    let head = ["lock", "nodes now", "nodes then", "stops", "not known", "starts", "unclear", "changed"];
    out.push_str(&table(&head, &rows));
    for lock in &answer.locks {
        let changed = lock.outcomes.iter().filter(|outcome| outcome.effect != Effect::Same);
        let mut rows: Vec<Vec<String>> = changed
            .map(|outcome| {
                let nodes = node_list(&answer.nodes(outcome));
                let (_, word) = word(outcome.effect);
                vec![
                    format!("**{word}**"),
                    cell(&nodes),
                    cell(&told(&outcome.before)),
                    cell(&told(&outcome.after)),
                ]
            })
            .collect();
        if !rows.is_empty() {
            let same = unchanged(lock, answer);
            rows.extend(
                same.map(|same| vec!["as before".to_owned(), cell(&same), String::new(), String::new()]),
            );
            out.push_str(&format!("\n### {}\n\n", cell(&title(lock, answer).0)));
            out.push_str(&table(&["effect", "nodes", "now", "then"], &rows));
        }
    }
    for (what, nodes, why) in advice(answer) {
        out.push_str(&format!("\n**{what}:** {} ({why})\n", cell(&node_list(nodes))));
    }
    if !answer.unanswered.is_empty() {
        let rows: Vec<Vec<String>> = super::report::by_reason(&answer.unanswered)
            .iter()
            .map(|(why, nodes)| vec![cell(&node_list(nodes)), cell(why)])
            .collect();
        out.push_str(&format!("\n### Without an answer\n\n{}", table(&["nodes", "why"], &rows)));
    }
    printer.raw(&out);
}
