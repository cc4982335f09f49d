//! Causes from the registry's rules: what a log line means, given the other facts.

use std::collections::BTreeSet;

use super::cause::{Cause, evidence_of};
use super::facts::Event;
use super::fields::installer;
use super::fix;
use super::mechanics::is_cuda_major;
use super::situation::Situation;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;
use crate::model::variant::CPU;
use crate::model::version::public;
use crate::registry::{Build, Cited, Condition, ErrorAnswer, ErrorRule, Mechanics, Offer, Predicate};

/// The causes of all rules that match a line, and what lines say after which the program goes on.
pub(super) fn causes(situation: &Situation<'_>) -> (Vec<Cause>, Vec<Cause>) {
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    for (i, rule) in situation.registry.errors().iter().enumerate() {
        let events: Vec<&Event> = situation.facts.events.iter().filter(|event| event.rule == i).collect();
        if events.is_empty() {
            continue;
        }
        let meaning = meaning(situation, rule, &events);
        // If other facts decided the meaning, the alternatives do not apply.
        let others: &[_] = if meaning.weight > rule.answer.weight { &[] } else { &rule.others };
        let others = others.iter().filter(|(conditions, _)| {
            conditions.iter().all(|condition| holds(situation, condition, &events))
        });
        let answers = std::iter::once(&meaning).chain(others.map(|(_, answer)| answer));
        for (place, answer) in answers.enumerate() {
            let mut cause = Cause::new(&rule.id, answer.component, answer.weight);
            cause.message =
                filled(situation, &answer.cause, &events).unwrap_or_else(|| rule.answer.cause.clone());
            let fixes = answer.fix.iter();
            let fixes = fixes.filter_map(|fix| fix.map(|text| filled(situation, text, &events)));
            cause.fix = fixes.map(|fix| fix::for_setup(situation, fix)).collect();
            for offer in &answer.offer {
                match offer {
                    // Without driver and GPU, suggesting the newest build would be wrong.
                    Offer::Torch | Offer::NativeTorch
                        if !knows_machine(situation)
                            && (answer.offer.contains(&Offer::Driver) || answer.weight < PROBABLE) =>
                    {
                        cause.fix.push(Fix::command_that("nvidia-smi", ADD_MACHINE_FACTS));
                    }
                    Offer::Torch | Offer::NativeTorch if uses_other_framework(situation) => {}
                    Offer::Torch => cause.fix.extend(fix::install(situation)),
                    Offer::NativeTorch => cause.fix.extend(fix::install_native(situation)),
                    Offer::Driver => cause.fix.push(fix::newer_driver(situation, None)),
                }
            }
            without_leading_or(&mut cause.fix);
            if place == 0 && cause.fix.is_empty() {
                cause.fix = fix::first_step(situation, cause.component);
            }
            cause.evidence = evidence_of(&events);
            cause.check = if place == 0 { rule.check.clone() } else { None };
            if rule.is_notice { &mut notices } else { &mut out }.push(cause);
        }
    }
    (out, notices)
}

/// An alternative whose first one is left out is none: `or use another release`.
fn without_leading_or(fixes: &mut [Fix]) {
    if let Some(Fix::Advice(text)) = fixes.first_mut()
        && let Some(rest) = text.strip_prefix("or ")
    {
        *text = rest.to_owned();
    }
}

/// From this confidence on, a build is offered even if the machine is unknown.
const PROBABLE: f64 = 0.6;

/// The request for the facts that are needed to choose a build.
const ADD_MACHINE_FACTS: &str = "add its output to the text: driver and GPU determine the build";

/// Whether the text names a driver or a GPU.
fn knows_machine(situation: &Situation<'_>) -> bool {
    situation.host().driver.is_some() || !situation.gpus().is_empty()
}

/// Whether the text is about TensorFlow or JAX and not about torch: then a torch build does not help.
fn uses_other_framework(situation: &Situation<'_>) -> bool {
    let facts = situation.facts;
    let others = facts.is_in(Surrounding::Tensorflow) || facts.is_in(Surrounding::Jax);
    others && facts.torch.is_none() && facts.torch_cuda.is_none()
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

/// The rule's answer, with the changes of the first case whose conditions hold.
fn meaning(situation: &Situation<'_>, rule: &Cited<ErrorRule>, events: &[&Event]) -> ErrorAnswer {
    let mut answer = rule.answer.clone();
    let fits = |case: &&crate::registry::ErrorCase| {
        case.conditions.iter().all(|condition| holds(situation, condition, events))
            && case.cause.as_ref().is_none_or(|cause| filled(situation, cause, events).is_some())
    };
    if let Some(case) = rule.cases.iter().find(fits).cloned() {
        answer.component = case.component.unwrap_or(answer.component);
        answer.cause = case.cause.unwrap_or(answer.cause);
        answer.fix = case.fix.unwrap_or(answer.fix);
        answer.offer = case.offer.unwrap_or(answer.offer);
        answer.weight = case.weight.unwrap_or(answer.weight);
    }
    answer
}

fn holds(situation: &Situation<'_>, condition: &Condition, events: &[&Event]) -> bool {
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
            let stated = facts.packages.get(name).map(|(version, _)| version.as_str());
            let torch = || facts.torch.as_deref().filter(|_| name == "torch");
            let python = || facts.python.as_deref().filter(|_| name == "python");
            let version = stated
                .or_else(torch)
                .or_else(python)
                .and_then(|text| text.parse::<pep440_rs::Version>().ok());
            version.is_some_and(|version| specifiers.contains(&version))
        }
        Predicate::Mechanics(question) => match question {
            Mechanics::CodeForGpu => situation.covers() == Some(true),
            Mechanics::NoCodeForGpu => situation.covers() == Some(false),
            Mechanics::ReleaseOffered => {
                let asked = events.iter().find_map(|event| installer::asked_release(&event.text));
                asked.is_some_and(|release| facts.offered_torch.iter().any(|own| public(own) == release))
            }
            Mechanics::OtherVariantHasCode => situation.other_variant_has_code(),
            Mechanics::OtherVariantIsNewer => situation.other_variant_is_newer(),
            Mechanics::GpuKnown => !situation.gpus().is_empty(),
            Mechanics::DriverKnown => situation.host().driver.is_some(),
            Mechanics::RecentDriver => situation.has_recent_driver(),
            Mechanics::TwoCudaMajors => situation.has_two_cuda_majors(),
            Mechanics::LibraryIsThere => situation.library_is_there(),
            Mechanics::CpuTorch => facts.variant().as_deref() == Some(CPU),
            Mechanics::CudaTorch => facts.build_cuda().is_some(),
            Mechanics::OtherModule => events.iter().any(|event| is_other_module(&event.text)),
        },
    };
    is != condition.negated
}

/// A text with its placeholders filled in; `None` if one is unknown. Values are parsed versions and known names, never
/// text from the input.
fn filled(situation: &Situation<'_>, template: &str, events: &[&Event]) -> Option<String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('{') {
        let (name, tail) = tail.split_once('}')?;
        out.push_str(before);
        out.push_str(&value(situation, name, events)?);
        rest = tail;
    }
    out.push_str(rest);
    Some(out)
}

fn value(situation: &Situation<'_>, name: &str, events: &[&Event]) -> Option<String> {
    let facts = situation.facts;
    // Only values that are also in the registry are used in commands.
    let known = |major: u32| is_cuda_major(situation.registry, major).then_some(major);
    let named = || events.iter().find_map(|event| cuda_major_in(&event.text)).and_then(known);
    let major = || {
        let by_build = facts.build_cuda().and_then(|cuda| cuda.split('.').next()?.parse::<u32>().ok());
        by_build.map_or_else(named, known)
    };
    let version = |text: &String| text.parse::<crate::model::version::DottedVersion>().ok();
    match name {
        "torch" => {
            let version: pep440_rs::Version = facts.plain_torch()?.parse().ok()?;
            let is_known = situation.registry.builds().iter().any(|build| build.version == version);
            is_known.then(|| version.to_string())
        }
        // What an installer did not find, if such a build exists.
        "asked-torch" | "asked-variant" => {
            let (version, variant) = events.iter().find_map(|event| installer::asked_build(&event.text))?;
            let is_it = |build: &&Cited<Build>| build.version == version && build.variant == variant;
            situation.registry.builds().iter().find(is_it)?;
            Some(if name == "asked-torch" { version.to_string() } else { variant })
        }
        "asked-pythons" => {
            let version = events.iter().find_map(|event| installer::asked_release(&event.text))?;
            let of = situation
                .registry
                .builds()
                .iter()
                .filter(|build| build.version == version && build.platform == situation.platform());
            let minors: BTreeSet<u32> =
                of.filter_map(|build| build.pythons.as_ref()).flatten().copied().collect();
            // Then the Python is not why.
            let own = facts.python.as_deref().and_then(fix::series);
            if own.is_some_and(|own| minors.contains(&own.minor)) {
                return None;
            }
            let (first, last) = (minors.first()?, minors.last()?);
            Some(format!("torch {version} has wheels for Python 3.{first} to 3.{last}"))
        }
        // A release that has no build for the platform, and the last one that has.
        "asked-platform" => {
            let version = events.iter().find_map(|event| installer::asked_release(&event.text))?;
            let builds = || situation.registry.builds().iter();
            let platform = situation.platform();
            let is_here = builds().any(|build| build.version == version && build.platform == platform);
            let is_known = builds().any(|build| build.version == version);
            let of_platform = builds().filter(|build| build.platform == platform);
            let last = of_platform.map(|build| &build.version).max().filter(|_| is_known && !is_here)?;
            Some(format!(
                "torch {version} has no wheel for {platform}, for which torch {last} is the last one"
            ))
        }
        "pytorch-index" => Some(situation.pytorch_index.to_owned()),
        "cuda" => facts.build_cuda().as_ref().and_then(version).map(|v| v.to_string()),
        "cuda-major" => major().map(|major| major.to_string()),
        "cuda-suffix" => major().map(suffix),
        // From the missing library's name, independent of torch's CUDA.
        "named-suffix" => named().map(suffix),
        "driver" => facts.driver.as_ref().and_then(version).map(|v| v.to_string()),
        "driver-cuda" => facts.driver_cuda.as_ref().and_then(version).map(|v| v.to_string()),
        "cudnn" => facts.cudnn.as_ref().and_then(version).map(|v| v.to_string()),
        "extension" => events.iter().find_map(|event| extension_in(&event.text)).map(str::to_owned),
        "gpu" => situation.gpus().iter().find_map(|(name, _)| name.clone()),
        _ => None,
    }
}

/// The suffix of NVIDIA's package names: empty from CUDA 13 on.
fn suffix(major: u32) -> String {
    if major < 13 { format!("-cu{major}") } else { String::new() }
}

/// The CUDA major in the name of a CUDA library: `libnvJitLink.so.12`, `cublas64_12.dll`, `cudart64_110.dll`.
fn cuda_major_in(line: &str) -> Option<u32> {
    let lower = line.to_lowercase();
    let number = |name: &str| -> Option<u32> {
        let tail = &lower[lower.find(name)? + name.len()..];
        tail.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    let names =
        ["libnvjitlink.so.", "libcudart.so.", "libcublas.so.", "libcublaslt.so.", "cublas64_", "cublaslt64_"];
    let major = names.iter().find_map(|name| number(name));
    // Up to CUDA 11, cudart's name on Windows includes the minor: `110`.
    let major = major.or_else(|| number("cudart64_").map(|n| if n >= 100 { n / 10 } else { n }));
    major.filter(|major| (11..=30).contains(major))
}

/// The package of the extension whose module or file is in a line.
fn extension_in(line: &str) -> Option<&'static str> {
    const EXTENSIONS: [(&str, &str); 12] = [
        ("flash_attn", "flash-attn"),
        ("xformers", "xformers"),
        ("vllm", "vllm"),
        ("detectron2", "detectron2"),
        ("mmcv", "mmcv"),
        ("torch_scatter", "torch-scatter"),
        ("torch_sparse", "torch-sparse"),
        ("exllamav2", "exllamav2"),
        ("natten", "natten"),
        ("causal_conv1d", "causal-conv1d"),
        ("mamba_ssm", "mamba-ssm"),
        ("torchcodec", "torchcodec"),
    ];
    let lower = line.to_lowercase();
    EXTENSIONS.iter().find(|(word, _)| lower.contains(word)).map(|(_, package)| *package)
}
