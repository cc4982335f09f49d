//! `diagnose --explain`: what a cause means, by its rule.

use std::fmt::Write as _;

use super::rows::{Condition, ErrorAnswer, Mechanics, Offer, Predicate};
use super::{Cited, ErrorRule, Registry};
use crate::model::fix::Fix;

/// The rule whose code is this one, or that a message of these words is found by. A code of NVIDIA's libraries may be written as
/// in C: `CUDNN_STATUS_NOT_SUPPORTED`.
pub fn rule<'r>(registry: &'r Registry, code: &str) -> Option<&'r Cited<ErrorRule>> {
    let (words, id) = (code.trim().to_lowercase(), code.trim().to_lowercase().replace('_', "-"));
    let rules = registry.errors();
    let by_message =
        || rules.iter().find(|rule| rule.alternatives.iter().any(|all| *all == [words.as_str()]));
    rules.iter().find(|rule| rule.id == id).or_else(by_message)
}

/// The causes of a component, each with its code: what stands in brackets behind a cause.
pub fn of_component(registry: &Registry, component: &str) -> Option<String> {
    let component = component.trim().to_lowercase().replace('_', "-");
    let is_of = |rule: &&Cited<ErrorRule>| rule.answer.component.to_string() == component;
    let rules: Vec<String> = registry
        .errors()
        .iter()
        .filter(is_of)
        .map(|rule| format!("{}: {}\n", rule.id, rule.answer.cause))
        .collect();
    (!rules.is_empty()).then(|| format!("{component}, the causes by their codes:\n\n{}", rules.concat()))
}

/// The codes nearest to one that no rule has.
pub fn nearest(registry: &Registry, code: &str) -> Vec<String> {
    let wanted = code.trim().to_lowercase().replace('_', "-");
    let distance = |rule: &Cited<ErrorRule>| {
        (!rule.id.contains(&wanted), strsim::levenshtein(&rule.id, &wanted), rule.id.clone())
    };
    let mut near: Vec<_> = registry.errors().iter().map(distance).collect();
    near.sort();
    near.into_iter().take(3).map(|(_, _, id)| id).collect()
}

/// What a page says of a code: its section, or its row of a table. For codes that no rule has.
pub fn of_page(page: &str, code: &str) -> Option<String> {
    let wanted = code.trim().to_lowercase();
    let mut lines = page.lines();
    if lines.by_ref().any(|line| line.strip_prefix("## ") == Some(wanted.as_str())) {
        let section: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
        return Some(format!("{wanted}\n\n{}\n", section.join("\n").trim()));
    }
    let row = page.lines().find_map(|line| line.strip_prefix(&format!("| `{wanted}` | ")))?;
    let (component, cause) = row.trim_end_matches(" |").split_once(" | ")?;
    Some(format!("{wanted}\n\n{cause} ({component})\n"))
}

/// A rule as text, one paragraph for each meaning.
pub fn text(registry: &Registry, rule: &Cited<ErrorRule>) -> String {
    let mut out = format!("{}\n", rule.id);
    // The same cause, with another component at fault.
    let is_same = |conditions: &[Condition], other: &ErrorAnswer| {
        conditions.is_empty()
            && other.cause == rule.answer.cause
            && other.fix.is_empty()
            && other.offer.is_empty()
    };
    let also = rule.others.iter().filter(|(conditions, other)| is_same(conditions, other));
    let also: String = also.map(|(_, other)| format!(" or {}", other.component)).collect();
    describe(&rule.answer, ("", &also), &mut out);
    for case in &rule.cases {
        let conditions: Vec<String> = case.conditions.iter().map(in_words).collect();
        let answer = ErrorAnswer {
            component: case.component.unwrap_or(rule.answer.component),
            cause: case.cause.clone().unwrap_or_else(|| rule.answer.cause.clone()),
            fix: case.fix.clone().unwrap_or_else(|| rule.answer.fix.clone()),
            offer: case.offer.clone().unwrap_or_else(|| rule.answer.offer.clone()),
            weight: case.weight.unwrap_or(rule.answer.weight),
        };
        describe(&answer, (&format!("if {}: ", conditions.join(" and ")), ""), &mut out);
    }
    for (conditions, answer) in rule.others.iter().filter(|(conditions, other)| !is_same(conditions, other)) {
        let conditions: Vec<String> = conditions.iter().map(in_words).collect();
        let when = match conditions.is_empty() {
            true => "or: ".to_owned(),
            false => format!("or, if {}: ", conditions.join(" and ")),
        };
        describe(answer, (&when, ""), &mut out);
    }
    let _ = writeln!(out, "\nfound by a line with");
    for alternative in &rule.alternatives {
        let _ = writeln!(out, "  {}", alternative.join(" ... "));
    }
    if rule.is_notice {
        let _ = writeln!(out, "\na notice: the program goes on after such a line");
    }
    if let Some(check) = &rule.check {
        let _ = writeln!(out, "\ntold apart by\n  $ {}", check.trim_start_matches("$ "));
    }
    let _ = writeln!(out, "\n{}:", rule.evidence);
    for id in &rule.source {
        let _ = writeln!(out, "  {}", registry.sources().get(id).map_or(id.as_str(), String::as_str));
    }
    out
}

/// A meaning, with the words before it and those after its component.
fn describe(answer: &ErrorAnswer, (when, also): (&str, &str), out: &mut String) {
    let _ = writeln!(out, "\n{when}{} ({}{also})", answer.cause, answer.component);
    for fix in &answer.fix {
        let _ = match fix {
            Fix::Command { command, why: None } => writeln!(out, "  $ {command}"),
            Fix::Command { command, why: Some(why) } => writeln!(out, "  $ {command}   # {why}"),
            Fix::Advice(text) => writeln!(out, "  {text}"),
        };
    }
    for offer in &answer.offer {
        let _ = writeln!(
            out,
            "  {}",
            match offer {
                Offer::Torch => "a torch that runs on the GPUs and the driver in the text, solved for them",
                Offer::NativeTorch =>
                    "a torch with a CUDA that the driver is not older than, solved for them",
                Offer::NewerTorch => "a newer torch for the GPUs, the driver and the Python in the text",
                Offer::Driver => "a driver that is new enough for the torch in the text",
                Offer::Container => "how a container gets GPUs, for the engine in the text",
                Offer::Toolkit => "the CUDA toolkit that builds for the torch in the text",
                Offer::Library => "where the library in the line comes from",
                Offer::Companions => "the companions of the installed torch",
                Offer::Extension => "the build of the program that failed",
            }
        );
    }
}

/// A condition as part of a sentence.
fn in_words(condition: &Condition) -> String {
    let quoted =
        |words: &[String]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
    let text = match &condition.predicate {
        Predicate::Surrounding(surrounding) => format!("the text shows {surrounding}"),
        Predicate::Seen(id) => format!("`{id}` is found too"),
        Predicate::Says(words) => format!("a line has `{words}`"),
        Predicate::Line(words) => format!("the line has {}", quoted(words)),
        Predicate::Import(words) => format!("the import above it is of {}", quoted(words)),
        Predicate::Package(name, versions) => format!("the text names {name} {versions}"),
        Predicate::Mechanics(mechanics) => of_mechanics(*mechanics).to_owned(),
    };
    if condition.negated { format!("not ({text})") } else { text }
}

fn of_mechanics(mechanics: Mechanics) -> &'static str {
    match mechanics {
        Mechanics::CodeForGpu => "torch has code for every GPU",
        Mechanics::NoCodeForGpu => "torch has no code for a GPU",
        Mechanics::OtherVariantHasCode => "another build of torch has code for the newer GPU",
        Mechanics::ReleaseOffered => "the installer lists the release without the build",
        Mechanics::OtherVariantIsNewer => "another build of torch has code for newer GPUs",
        Mechanics::FailedKnown => "the package with GPU code that failed is known",
        Mechanics::GpuKnown => "a GPU is known",
        Mechanics::DriverKnown => "the driver's version is known",
        Mechanics::RecentDriver => "the driver is recent",
        Mechanics::TwoCudaMajors => "packages for two CUDA majors are installed",
        Mechanics::ToolkitIsThere => "a toolkit of torch's CUDA is named",
        Mechanics::LibraryIsThere => "the missing library is elsewhere in the text",
        Mechanics::MemoryBeyondCard => "one allocation asks for more memory than the GPU has",
        Mechanics::MemoryHeldByOthers => "other processes hold the memory",
        Mechanics::MemoryShared => "other processes hold memory too",
        Mechanics::AsBuiltFor => "torch and Python are those that it was built for",
        Mechanics::LibraryOfTorchsCuda => "the missing library is of torch's CUDA",
        Mechanics::MemoryInPieces => "torch has reserved enough memory, in pieces",
        Mechanics::OthersOfTorchsCuda => "another package is a build for torch's CUDA",
        Mechanics::CpuTorch => "torch is a CPU build",
        Mechanics::CudaTorch => "torch is a CUDA build",
        Mechanics::OtherModule => "a file stands in the place of a module of Python",
    }
}
