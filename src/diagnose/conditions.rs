//! Whether the conditions of a row hold for the facts.

use super::facts::Event;
use super::fields::visible_releases;
use super::file_owner;
use super::memory::Report;
use super::situation::Situation;
use super::who;
use crate::model::variant::CPU;
use crate::model::version::public;
use crate::registry::{Condition, Mechanics, Predicate};

/// Whether a condition holds for the facts, and for the lines that a rule matched.
pub(super) fn holds(situation: &Situation<'_>, condition: &Condition, events: &[&Event]) -> bool {
    let facts = situation.facts;
    let is = match &condition.predicate {
        Predicate::Surrounding(surrounding) => facts.is_in(*surrounding),
        Predicate::Seen(id) => {
            facts.events.iter().any(|event| situation.registry.errors()[event.rule].id == *id)
        }
        Predicate::Says(words) => {
            facts.events.iter().any(|event| event.text.to_lowercase().contains(words.as_str()))
        }
        Predicate::Line(words) => events.iter().any(|event| {
            let line = event.text.to_lowercase();
            words.iter().any(|word| line.contains(word.as_str()))
        }),
        Predicate::Import(words) => events.iter().any(|event| {
            let statement = event.statement.to_lowercase();
            words.iter().any(|word| statement.contains(word.as_str()))
        }),
        Predicate::Package(name, specifiers) => {
            let stated = facts.packages.get(name).map(|(version, _)| version.clone());
            let text = stated.or_else(|| match name.as_str() {
                "torch" => facts.torch.clone(),
                "python" => facts.python.clone(),
                "cuda" => facts.build_cuda(),
                "driver-cuda" => situation.driver_cuda(),
                _ => None,
            });
            let version = text.and_then(|text| text.parse::<pep440_rs::Version>().ok());
            version.is_some_and(|version| specifiers.contains(&version))
        }
        Predicate::Mechanics(question) => match question {
            Mechanics::CodeForGpu => situation.covers() == Some(true),
            Mechanics::NoCodeForGpu => situation.covers() == Some(false),
            Mechanics::ReleaseOffered => {
                let asked = events.iter().find_map(|event| visible_releases::asked_release(&event.text));
                asked.is_some_and(|release| facts.offered_torch.iter().any(|own| public(own) == release))
            }
            Mechanics::OtherVariantHasCode => situation.other_variant_has_code(),
            Mechanics::OtherVariantIsNewer => situation.other_variant_is_newer(),
            Mechanics::FailedKnown => who::failed(situation, events).is_some(),
            Mechanics::GpuKnown => !situation.gpus().is_empty(),
            Mechanics::DriverKnown => situation.host().driver.is_some(),
            Mechanics::RecentDriver => situation.has_recent_driver(),
            Mechanics::TwoCudaMajors => situation.has_two_cuda_majors(),
            Mechanics::ToolkitIsThere => situation.toolkit_is_there(),
            Mechanics::LibraryIsThere => situation.library_is_there(),
            Mechanics::MemoryBeyondCard => Report::of(events).is_some_and(|report| report.is_beyond_card()),
            Mechanics::MemoryHeldByOthers => {
                Report::of(events).is_some_and(|report| report.is_held_by_others())
            }
            Mechanics::MemoryShared => Report::of(events).is_some_and(|report| report.is_shared()),
            Mechanics::AsBuiltFor => facts.is_as_built_for == Some(true),
            Mechanics::LibraryOfTorchsCuda => file_owner::is_of_torchs_cuda(situation, events),
            Mechanics::MemoryInPieces => Report::of(events).is_some_and(|report| report.is_in_pieces()),
            Mechanics::OthersOfTorchsCuda => situation.others_of_torchs_cuda(),
            Mechanics::CpuTorch => facts.variant().as_deref() == Some(CPU),
            Mechanics::CudaTorch => facts.build_cuda().is_some(),
            Mechanics::OtherModule => events.iter().any(|event| is_other_module(&event.text)),
        },
    };
    is != condition.negated
}

/// Whether the file at the end of `cannot import name 'x' from 'y' (/home/me/y.py)` is not in the folder of Python's own
/// modules.
fn is_other_module(line: &str) -> bool {
    let Some((_, file)) = line.split_once("' (") else { return false };
    let file = file.trim_end().trim_end_matches(')').to_lowercase().replace('\\', "/");
    let is_file = file.ends_with(".py") && (file.starts_with('/') || file.contains(":/"));
    // On Windows, Python's own modules are in `Lib`.
    let own: &[&str] = if file.starts_with('/') { &["/lib/python3", "/lib64/python3"] } else { &["/lib/"] };
    let is_own = own.iter().any(|folder| file.contains(folder));
    is_file && (!is_own || file.contains("/site-packages/") || file.contains("/dist-packages/"))
}
