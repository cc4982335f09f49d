//! `envlock why PKG`, `envlock why --not SPEC`.

use serde_json::json;

use crate::cli::args::WhyArgs;
use crate::cli::conflict;
use crate::cli::printer::{DIM, Printer, wrap};
use crate::cli::report::{self, label};
use crate::lockfile::MachineNeed;
use crate::model::conflict::{Party, ReasonKind};
use crate::model::level::Level;
use crate::model::text::clean;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::why::not::{NotAnswer, Outcome};
use crate::session::why::package::{Needed, Newer, PackageAnswer};
use crate::session::why::{About, Why, WhyOptions, why};

pub(super) fn run(global: &Global, args: &WhyArgs, printer: &Printer) -> Result<u8, Failure> {
    let about = match (&args.package, &args.not) {
        (_, Some(spec)) => About::Requirement(spec),
        (Some(name), None) => About::Package(name),
        (None, None) => return Err(Failure::usage("name a package, or a requirement with `--not`")),
    };
    let asked = WhyOptions { about, target: args.target.as_deref(), index_url: args.index_url.as_deref() };
    let answers = why(global, &asked, printer)?;
    if printer.json {
        printer.json(&json!({ "targets": answers }));
    } else {
        for (i, answer) in answers.iter().enumerate() {
            report::heading(printer, &answer.target, answers.len() > 1, i);
            match &answer.why {
                Why::Package(answer) => print_package(answer, printer),
                Why::Machine(need) => print_need(need, printer),
                Why::Not(answer) => print_not(answer, printer),
            }
        }
    }
    // Something is proved impossible only if it is impossible on every target.
    let status = answers.iter().map(|answer| match &answer.why {
        Why::Not(answer) => answer.exit(),
        Why::Package(_) | Why::Machine(_) => exit::YES,
    });
    Ok(status.max().unwrap_or(exit::YES))
}

fn print_package(answer: &PackageAnswer, p: &Printer) {
    let reason = &answer.reason;
    p.out(&format!("{} {}, from {}: {reason}", answer.name, answer.version_with_variant, answer.source));
    p.out("");
    if let Some(asked) = &answer.asked {
        p.out(&format!("{}{}  [{}]", label(p, "requested"), asked.requirement, asked.origin));
    } else if answer.chain.len() > 2 {
        p.out(&format!("{}{}", label(p, "required via"), wrap(&answer.chain.join(" -> "), 15)));
    }
    let needed_by = answer.needed_by.iter().map(|needed| {
        let Needed { name, version, requirement, .. } = needed;
        let requirement = clean(requirement, 80);
        match needed.is_declared {
            true => format!("{name} {version} requires {requirement}"),
            false => format!("{name} {version} needs {requirement}, which its metadata does not state"),
        }
    });
    rows(p, "required by", needed_by);
    for text in &answer.machine {
        rows(p, "machine", [text.clone()]);
    }
    match &answer.newer {
        Newer::Fits(version, others) => {
            let with = match others.as_slice() {
                [] => String::new(),
                list => format!(", with {}", list.join(", ")),
            };
            let alone = if answer.alone { " on this target (the others were not tried)" } else { "" };
            // Installers take one only where it is asked for.
            let is_early = version.any_prerelease();
            let early = if is_early { ", a pre-release," } else { "" };
            rows(p, "newer", [format!("{version}{early} would fit{alone}{with}")]);
            if others.is_empty() && !answer.alone && !is_early {
                p.hint(&format!("take it with `envlock resolve --upgrade={}`", answer.name));
            }
        }
        Newer::Unknown(why) => rows(p, "newer", [format!("not checked: {why}")]),
        Newer::No(reasons) => {
            // That no newer release exists is not a reason against one.
            let own = [Party::package(&answer.name)];
            let against = reasons.iter().filter(|r| r.kind != ReasonKind::Available || r.parties != own);
            let against: Vec<String> = against.map(|r| r.text.clone()).collect();
            match against.is_empty() {
                true => rows(p, "newer", ["none, this is the newest release".to_owned()]),
                false => rows(p, "newer", against),
            }
        }
    }
}

fn print_not(answer: &NotAnswer, p: &Printer) {
    let met = match &answer.outcome {
        Outcome::Met { by, .. } => by,
        Outcome::Conflict(conflict) => {
            p.out(&format!("`{}` is impossible:", answer.spec));
            p.out("");
            return conflict::causes(conflict, &answer.request, (Level::Full, None), p);
        }
    };
    p.out(&format!("`{}` is possible{}", answer.spec, met.text));
    for failure in &met.fails {
        p.warning(failure);
    }
    if met.is_locked {
        p.out("it is what the lock has");
    } else if met.can_be_added {
        p.hint(&format!("add it with `envlock add '{}'`", answer.spec));
    }
}

/// Prints what a lock requires of a part of the machine.
fn print_need(need: &MachineNeed, p: &Printer) {
    let Some(needs) = &need.needs else {
        p.out(&format!("nothing in this lock requires {}", need.name));
        return;
    };
    p.out(needs);
    p.out("");
    let mut before = None;
    for because in &need.reasons {
        let kind = if before == Some(because.kind) { "" } else { because.kind.label() };
        before = Some(because.kind);
        p.out(&format!("{}{}", label(p, kind), wrap(&because.text, 15)));
        if let Some(source) = &because.source {
            let source = format!("[{}]", report::short_source(source));
            p.out(&format!("{}{}", label(p, ""), p.paint(DIM, &wrap(&source, 15))));
        }
    }
}

/// Prints rows; the first has the label.
fn rows(p: &Printer, name: &str, texts: impl IntoIterator<Item = String>) {
    for (i, text) in texts.into_iter().enumerate() {
        p.out(&format!("{}{}", label(p, if i == 0 { name } else { "" }), wrap(&text, 15)));
    }
}
