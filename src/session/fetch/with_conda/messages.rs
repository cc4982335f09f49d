//! What is said of a stack from channels: conflicts about its builds, and notes about a solution.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use crate::compatibility::Misfit;
use crate::conda::{Records, Stack, StackChoice};
use crate::lockfile;
use crate::model::conflict::{Change, Conflict, Party, Reason, ReasonKind};
use crate::model::level::Level;
use crate::model::request::Request;
use crate::model::solution::{ChosenPackage, Note, Solution};
use crate::model::text::clean;
use crate::model::variant::CPU;
use crate::registry::Registry;
use crate::registry::conda_builds::{OF_CHANNEL, PYTORCH};

/// A conflict about builds in channels, with those that are left out because their code is not known.
pub(super) fn with_unknown(
    mut conflict: Conflict,
    stack: &Stack,
    records: &Records,
    channels: &[String],
) -> Conflict {
    let channels = channels.join(", ");
    let mut left_out: Vec<String> = Vec::new();
    if records.is_unread(PYTORCH) {
        left_out.push(format!(
            "some records of pytorch in {channels} cannot be used: no hash, no size, or another form"
        ));
    }
    if let Some(newest) = stack.unknown.last() {
        let more = match stack.unknown.len() - 1 {
            0 => String::new(),
            1 => " and another version".to_owned(),
            n => format!(" and {n} more versions"),
        };
        left_out.push(format!(
            "which GPUs the builds for CUDA of pytorch {newest}{more} in {channels} run on is not in envlock's data"
        ));
    }
    if !left_out.is_empty() {
        conflict.headline = "no build of torch in the channels is known to run on this machine".to_owned();
    }
    let told = left_out.into_iter().map(|text| Reason::fact(text).about_package("torch").by(OF_CHANNEL));
    conflict.because(told)
}

/// Who asks for a package: the shortest way from a request, each requirement as it is written.
fn asked_by(package: &str, packages: &[ChosenPackage], request: &Request) -> Vec<Reason> {
    let asked = request.requirements.iter().map(|user| user.name().to_owned()).collect();
    let Some(chain) = lockfile::chain(packages, &asked, package) else { return Vec::new() };
    let of = |name: &str| packages.iter().find(|package| package.name == name);
    let needs = |pair: &[&str]| {
        let from = of(pair[0])?;
        let edge = from.requires.iter().find(|edge| edge.to == pair[1])?;
        let text = format!("{} {} needs {}", from.name, from.version, clean(&edge.requirement, 120));
        let parties = pair.iter().map(|name| Party::package(*name));
        Some(Reason::fact(text).about(parties).by("its metadata"))
    };
    let first = request.requirements.iter().find(|user| {
        let name = user.name();
        chain.first() == Some(&name)
    });
    let is_asked = first.map(|user| {
        let text = format!("you require {}", user.line());
        Reason::asked(&user.origin, user.bounds_above(), text).about_package(user.name())
    });
    let mut out: Vec<Reason> = chain.windows(2).rev().filter_map(needs).collect();
    out.extend(is_asked);
    out
}

/// A conflict with a package of PyPI whose wheel has code that is not built for the torch, or the CUDA, that conda installs.
pub(super) fn not_built_for(
    package: &ChosenPackage,
    (what, source): (String, &str),
    headline: &str,
    (solution, request): (&Solution, &Request),
) -> Conflict {
    let shown = format!("{} {}", package.name, package.version);
    let from = if package.source.is_direct() { "" } else { " of PyPI" };
    let party = Party::package(package.name.as_str());
    let code = Reason::fact(format!("the wheel of {shown} has {what}"));
    let mut reasons = vec![code.about([party.clone(), Party::package("torch")]).by(source)];
    let asked = asked_by(&package.name, &solution.packages, request);
    let without = asked.last().and_then(|reason| reason.parties.first()).map(|party| {
        let change = Change::WithoutRequest(party.as_str().to_owned());
        solution.reached_by(change, party.clone(), Level::Stack)
    });
    reasons.extend(asked);
    if let Some(origin) = &request.conda.stack {
        reasons.push(Reason::asked(origin, false, "you take torch from conda-forge").about([party]));
    }
    Conflict::of(format!("{shown}{from} {headline}")).because(reasons).with_ways(without)
}

/// That the machine code of some wheels was not read, one note for each reason.
pub(super) fn unread(packages: &[(&ChosenPackage, String)]) -> Vec<Note> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (package, why) in packages {
        by_reason.entry(why).or_default().push(&package.name);
    }
    let note = |(why, names): (&str, Vec<&str>)| Note {
        text: format!("the libraries that {} links were not read ({why})", names.join(", ")),
        source: None,
    };
    by_reason.into_iter().map(note).collect()
}

/// That machine code uses functions of a torch that is not stated.
pub(super) fn of_unstated_torch(packages: &[&ChosenPackage]) -> Option<Note> {
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let text = format!(
        "the release of torch that {} was built with is not stated, and torch's C++ functions differ between releases",
        names.join(", ")
    );
    (!names.is_empty()).then_some(Note { text, source: None })
}

/// That a wheel needs CUDA beside a torch for the CPU.
pub(super) fn without_cuda(package: &ChosenPackage, misfit: &Misfit) -> Note {
    let text = format!(
        "{} {} has {misfit}, and nothing in the environment brings CUDA: what needs it cannot be loaded",
        package.name, package.version
    );
    Note { text, source: None }
}

/// A conflict about builds for the CPU alone: conda has those for CUDA, and does not install them.
pub(super) fn without_gpu(conflict: &mut Conflict, stack: &Stack, channels: &[String]) {
    let is_of_torch = |party: &Party| party.as_str() == "torch";
    // Where torch has no part in it, neither have its builds.
    if !conflict.reasons.iter().any(|reason| reason.parties.iter().any(is_of_torch)) {
        return;
    }
    conflict
        .reasons
        .retain(|reason| reason.kind != ReasonKind::Available || !reason.parties.iter().any(is_of_torch));
    let versions: BTreeSet<String> = stack.builds.iter().map(|build| build.version.to_string()).collect();
    let shown = match versions.is_empty() {
        true => "there is none".to_owned(),
        false => versions.into_iter().collect::<Vec<_>>().join(", "),
    };
    let text = format!(
        "of torch's builds for the CPU in {}: {shown}; conda installs those for CUDA only where there is a GPU",
        channels.join(", ")
    );
    let reason = Reason::fact(text).about([Party::package("torch"), Party::Gpu]).by(OF_CHANNEL);
    conflict.reasons.insert(0, reason);
}

/// That packages of PyPI bring libraries of CUDA that conda installs as well.
pub(super) fn twice(solution: &Solution, registry: &Registry) -> Option<Note> {
    let brings =
        |package: &&ChosenPackage| !registry.cuda_libraries_of(&package.name, &package.version).is_empty();
    let of_pypi: Vec<&ChosenPackage> = solution.packages.iter().filter(brings).collect();
    let first = of_pypi.first()?;
    let (named, verb) = match of_pypi.len() {
        1 => (format!("{} {}", first.name, first.version), "brings"),
        _ => (of_pypi.iter().map(|own| own.name.as_str()).collect::<Vec<_>>().join(", "), "bring"),
    };
    let has_cuda = solution.conda.iter().any(|package| package.name == "cuda-version");
    let text = format!(
        "{} of PyPI {verb} libraries of CUDA that conda installs too: which of them a program loads depends on what it imports first",
        clean(&named, 200)
    );
    has_cuda.then_some(Note { text, source: None })
}

/// That a newer build was not looked at.
pub(super) fn newer_unknown(
    unknown: &BTreeSet<Version>,
    choice: &StackChoice,
    request: &Request,
) -> Option<Note> {
    let mut asked = request.requirements.iter().chain(&request.constraints);
    let admits = |version: &&Version| {
        asked.all(|user| {
            user.name() != "torch" || user.specifiers().is_none_or(|bounds| bounds.contains(version))
        })
    };
    let newest = unknown
        .last()
        .filter(admits)
        .filter(|version| **version > choice.version && choice.variant != CPU)?;
    let text = format!(
        "pytorch {newest} of the channel is newer: which GPUs its builds for CUDA run on is not in envlock's data, so it is not chosen"
    );
    Some(Note { text, source: None })
}
