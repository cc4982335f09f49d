//! A refused request as text: the reasons, the changes that work, and hints.

use std::collections::BTreeSet;

use super::printer::{DIM, GOOD, Printer, wrap};
use super::report::short_source;
use super::view::Resolution;
use crate::model::conflict::{Change, Conflict, Party, Reason, ReasonKind, RefusedTarget, WayOut};
use crate::model::host::Host;
use crate::model::level::Level;
use crate::model::request::Request;
use crate::model::text::clean;
use crate::session::Interface as _;
use crate::session::{chosen_host, exit};

/// Requested names that are not packages on PyPI, or not the intended ones. Shown only if the request failed,
/// because another index may have a package of that name.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("pytorch", "on PyPI it is called `torch`"),
    ("cuda", "it comes with torch; limit it with `cuda = \"12.6\"` under `[stack]`, or `--variant cu126`"),
    (
        "cudatoolkit",
        "it comes with torch; limit it with `cuda = \"12.6\"` under `[stack]`, or `--variant cu126`",
    ),
    ("cudnn", "it comes with torch; limit it with `cudnn = \"9\"` under `[stack]`"),
];

/// The maximum number of other targets without a solution that are named.
const MAX_TARGETS: usize = 5;

/// What stands before a command that takes a way out: on a line of its own, never wrapped, to be copied.
const COMMAND: &str = "      ";

/// Prints a conflict with its hints; returns the exit code. `asked`: how much of the graph. `machines`: those of the solve, by
/// name.
pub(super) fn refuse<'m>(
    conflict: &Conflict,
    request: &Request,
    asked: Level,
    machines: impl IntoIterator<Item = (&'m str, &'m Host)>,
    printer: &Printer,
) -> u8 {
    if printer.json {
        printer.json(&Resolution::conflict(conflict));
        return exit::NO;
    }
    printer.refusal(&conflict.headline);
    printer.out("");
    let machines: Vec<(&str, &Host)> = machines.into_iter().collect();
    // The other targets may refuse it.
    let of_target = (machines.len() > 1).then_some(conflict.target.as_str());
    causes(conflict, request, (asked, of_target), printer);
    let has_others = asked == Level::Full && request.has_others();
    let is_of_stack = |way: &WayOut| is_of_stack(way, asked, has_others);
    // Else the changes do not depend on what it did not say; where it is not allowed, allowing it may be one.
    let is_open = conflict.would_work_if.is_empty()
        || conflict.would_work_if.iter().any(is_of_stack)
        || request.only_index.is_some();
    if !conflict.silent.is_empty() && has_others && is_open {
        let names = conflict.silent.join(", ");
        printer
            .note(&format!("without an answer of the index {names}: there may be other causes and ways out"));
    }
    if conflict.cut {
        printer.note("the search for causes and ways out ended at its limit: there may be others");
    }
    if !conflict.resolves_all.is_empty() {
        printer.hint("apply one of the last changes: each removes every cause");
    } else if !conflict.also.is_empty() && !conflict.would_work_if.is_empty() {
        printer.hint("apply one of the first changes and run the command again: it names what is left");
    } else if conflict.would_work_if.iter().any(|w| w.party == Party::Driver) {
        printer.hint("apply one of these changes, or update the driver on the host (containers share it)");
    } else if conflict
        .would_work_if
        .iter()
        .any(|w| w.party != Party::Gpu && w.command.is_none() && w.edit.is_none() && !w.is_of_one_target)
    {
        printer.hint("apply one of these changes to the request");
    } else if conflict.would_work_if.iter().all(|way| way.party == Party::Gpu)
        && (conflict.would_work_if.len() > 1 || conflict.would_work_if.iter().any(|w| w.set.is_some()))
    {
        printer.hint("run on one of these GPUs, or exclude a GPU with `ignore-gpus` under `[stack]`");
    }
    let of_hardware = |parties: &[Party]| parties.contains(&Party::Driver) || parties.contains(&Party::Gpu);
    let is_of_index = request.find("torch").is_some() && request.conda.stack.is_none();
    if conflict.reasons.iter().any(|r| of_hardware(&r.parties)) && is_of_index {
        let at_fault = machines.into_iter().find(|(name, _)| *name == conflict.target);
        let options = at_fault.map(|(_, host)| chosen_host::as_options(host)).unwrap_or_default();
        printer.hint(&format!("`envlock plan -v{options}` lists every build that can run"));
    }
    let mut told = BTreeSet::new();
    for reason in conflict.also.iter().chain([conflict]).flat_map(|conflict| &conflict.reasons) {
        if let ReasonKind::NoProject { nearest: Some(nearest), command } = &reason.kind {
            printer.hint(&match command {
                Some(command) => format!("did you mean `{nearest}`: `{command}`"),
                None => format!("did you mean `{nearest}`?"),
            });
        }
        if let ReasonKind::Stub { packages, index } = &reason.kind
            && told.insert(index)
        {
            printer.hint(&of_stub_index(packages, index));
        }
        // Several releases of one package, and one table.
        if let ReasonKind::UnknownMetadata { package } = &reason.kind
            && told.insert(package)
        {
            printer.hint(&format!(
                "state what `{package}` requires in envlock.toml: a table `[[metadata]]` with `name = \"{package}\"` and `requires-dist = [...]`"
            ));
        }
    }
    for (name, meant) in OTHER_NAMES.iter().filter(|(name, _)| request.find(name).is_some()) {
        printer.hint(&format!("`{name}`: {meant}"));
    }
    exit::NO
}

/// Where packages are of which an index has stubs only.
fn of_stub_index(packages: &[String], index: &str) -> String {
    let quoted: Vec<String> = packages.iter().map(|name| format!("\"{name}\"")).collect();
    let name = index.split("//").last().and_then(|rest| rest.split('/').next()).unwrap_or("other");
    format!(
        "the stubs name an index that has the packages: a table `[[index]]` in envlock.toml with `name = \"{}\"`, `url = \"{index}\"` and `packages = [{}]` takes them from there",
        name.replace('.', "-"),
        quoted.join(", ")
    )
}

/// Prints every cause of a conflict, each with the changes that remove it, and those that remove all of them. `asked`: how
/// much of the graph. `of_target`: the one for which changes were solved, of several.
pub(super) fn causes(
    conflict: &Conflict,
    request: &Request,
    (asked, of_target): (Level, Option<&str>),
    printer: &Printer,
) {
    let of_target = of_target.map(|name| format!(" for target `{}`", clean(name, 40))).unwrap_or_default();
    let nothing = match conflict.also.is_empty() {
        true => "none of the changes that were tried makes it work",
        false => "none of the changes that were tried removes this cause alone",
    };
    // Where an index did not answer.
    let has_others = asked == Level::Full && request.has_others();
    let is_of_stack = |way: &WayOut| is_of_stack(way, asked, has_others);
    let is_of_stack_alone = conflict.also.is_empty() && conflict.would_work_if.iter().all(is_of_stack);
    let mut all = conflict.would_work_if.iter().chain(&conflict.resolves_all);
    let has_command = all.any(|way| way.command.is_some());
    // A command is about all that was asked.
    let rest = match has_command && (is_of_stack_alone || !of_target.is_empty()) {
        true if of_target.is_empty() => "; the command asks for the rest, too",
        true => "; the command asks for every target",
        false => "",
    };
    let heading = match conflict.also.is_empty() {
        false => format!("ways out of this, each of them solved{of_target} with the rest out of the way:"),
        true if is_of_stack_alone => format!("ways out, each of them solved for the stack{of_target}{rest}:"),
        true => format!("ways out, each of them solved{of_target}{rest}:"),
    };
    let marked = |way: &WayOut| is_of_stack(way) && !is_of_stack_alone;
    let words = Words { heading: &heading, nothing, marks: &marked };
    reasons(printer, &conflict.reasons);
    // Many causes that one change removes are one cause to the reader: a cutoff, the index.
    let is_one = |way: &WayOut| {
        let is_small = !matches!(way.change, Change::Together(_) | Change::WithoutRequest(_));
        is_small && way.party != Party::Gpu
    };
    let is_folded = conflict.also.len() > 1 && !printer.verbose && conflict.resolves_all.iter().any(is_one);
    if is_folded {
        printer.out("");
        let text =
            format!("{} more causes, which the same change removes (`-v` lists them)", conflict.also.len());
        printer.out(&wrap(&text, 0));
    } else {
        ways_out(printer, &conflict.would_work_if, conflict.into(), words);
    }
    for other in conflict.also.iter().filter(|_| !is_folded) {
        printer.out("");
        printer.out("also impossible, with that out of the way:");
        printer.out("");
        // A fact that both rest on is told once.
        let is_new = |reason: &&Reason| {
            let is_asked = matches!(reason.kind, ReasonKind::Asked { .. });
            is_asked || !conflict.reasons.iter().any(|told| told.text == reason.text)
        };
        let more: Vec<Reason> = other.reasons.iter().filter(is_new).cloned().collect();
        let is_fact = |reason: &Reason| !matches!(reason.kind, ReasonKind::Asked { .. });
        reasons(printer, if more.iter().any(is_fact) { &more } else { &other.reasons });
        ways_out(printer, &other.would_work_if, conflict.into(), words);
    }
    if !conflict.resolves_all.is_empty() {
        ways_out(
            printer,
            &conflict.resolves_all,
            conflict.into(),
            Words {
                heading: &format!("ways out of all of it, each of them solved{of_target}{rest}:"),
                ..words
            },
        );
    }
    other_targets(&conflict.other_targets, printer);
}

/// Prints the headline of each other target without a solution.
fn other_targets(others: &[RefusedTarget], printer: &Printer) {
    let shown = if printer.verbose { others.len() } else { MAX_TARGETS };
    for (place, RefusedTarget { target, headline }) in others.iter().take(shown).enumerate() {
        if place == 0 {
            printer.out("");
        }
        printer.out(&wrap(&format!("target `{}`, too: {headline}", clean(target, 40)), 2));
    }
    if others.len() > shown {
        printer.out(&format!("{} more targets, too (`-v` names them)", others.len() - shown));
    }
}

/// Whether a change was solved for the stack where more was asked: other packages, or what another index than PyPI has, whose rows
/// state no requirements.
fn is_of_stack(way: &WayOut, asked: Level, has_others: bool) -> bool {
    let is_elsewhere = way.index.as_deref().is_some_and(|index| index != "pypi");
    asked == Level::Full && way.level == Level::Stack && (has_others || is_elsewhere)
}

/// Prints the facts, each with its source.
fn reasons(printer: &Printer, reasons: &[Reason]) {
    for reason in reasons {
        let source = if reason.source.is_empty() {
            String::new()
        } else {
            format!("  [{}]", short_source(&reason.source))
        };
        let one_line = format!("  {}{source}", reason.text);
        if one_line.chars().count() <= 80 {
            printer.out(&one_line);
        } else {
            printer.out(&format!("  {}", wrap(&reason.text, 4)));
            if !source.is_empty() {
                printer.out(&format!("    {}", printer.paint(DIM, &wrap(source.trim(), 4))));
            }
        }
    }
}

/// What kept the search for ways out from its end.
#[derive(Clone, Copy)]
struct Unknown<'c> {
    /// The indexes that did not answer.
    silent: &'c [String],
    /// Its limit.
    cut: bool,
}

impl<'c> From<&'c Conflict> for Unknown<'c> {
    fn from(conflict: &'c Conflict) -> Unknown<'c> {
        Unknown { silent: &conflict.silent, cut: conflict.cut }
    }
}

/// What is said around the changes of a cause.
#[derive(Clone, Copy)]
struct Words<'w> {
    /// Says how far they were solved.
    heading: &'w str,
    /// Where there are none.
    nothing: &'w str,
    /// Which are marked as solved for the stack: the heading does not say it of all.
    marks: &'w dyn Fn(&WayOut) -> bool,
}

/// Prints the changes that make the request work.
fn ways_out(printer: &Printer, ways: &[WayOut], unknown: Unknown<'_>, words: Words<'_>) {
    printer.out("");
    if ways.is_empty() {
        printer.out(&match unknown.silent {
            [] if unknown.cut => "no way out was found within the limit of the search".to_owned(),
            [] => words.nothing.to_owned(),
            names => {
                let names = names.join(", ");
                wrap(&format!("no way out is known: the index {names} did not answer, so its packages could not be tried"), 0)
            }
        });
        return;
    }
    printer.out(words.heading);
    // Other GPUs are the last thing that one has.
    let is_hard = |way: &&WayOut| matches!(way.change, Change::OtherGpu(_));
    let has_easier = !printer.verbose && ways.iter().any(|way| way.command.is_some());
    let ways: Vec<&WayOut> = ways.iter().filter(|way| !(has_easier && is_hard(way))).collect();
    let lengths = ways.iter().map(|w| w.change.to_string().chars().count());
    let width = lengths.filter(|length| *length <= 40).max().unwrap_or(0).max(24);
    for way in ways {
        let mut gives = way.gives.clone();
        if (words.marks)(way) {
            gives.push_str(" (solved for the stack)");
        }
        if way.is_of_one_target {
            gives.push_str(" (not for every target)");
        }
        let change = way.change.to_string();
        let length = change.chars().count();
        if gives.is_empty() {
            printer.out(&format!("  {}", wrap(&change, 4)));
        } else if length > width && length + gives.chars().count() > 76 {
            printer.out(&format!("  {}", wrap(&change, 4)));
            let gives = printer.paint(GOOD, &wrap(&gives, width + 4)).to_string();
            printer.out(&format!("{:1$}{gives}", "", width + 4));
        } else {
            printer.out(&format!("  {change:<width$}  {}", printer.paint(GOOD, &wrap(&gives, width + 4))));
        }
        if let Some(set) = &way.set {
            printer.out(&format!("    {}", printer.paint(DIM, &clean(set, 1000))));
        }
        if let Some(command) = &way.command {
            printer.out(&format!("{COMMAND}{}", printer.command(command)));
        } else if let Some(edit) = &way.edit {
            printer.out(&format!("{COMMAND}{edit}"));
        }
    }
}
