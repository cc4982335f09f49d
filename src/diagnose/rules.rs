//! Causes from the registry's rules: what a log line means, given the other facts.

use semver::Version as Semver;

use super::cause::{Cause, evidence_of};
use super::conditions::holds;
use super::facts::Event;
use super::fix::{self, Wanted};
use super::place::for_setup;
use super::placeholders::filled;
use super::repair;
use super::situation::Situation;
use crate::compatibility::Policy;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;
use crate::model::version::cuda_version;
use crate::registry::{Cited, ErrorAnswer, ErrorRule, Offer};

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
            cause.fix = fixes.map(|fix| for_setup(situation, fix)).collect();
            for offer in &answer.offer {
                match offer {
                    // Without driver and GPU, suggesting the newest build would be wrong.
                    Offer::Torch | Offer::NativeTorch | Offer::NewerTorch
                        if !knows_machine(situation)
                            && (answer.offer.contains(&Offer::Driver) || answer.weight < PROBABLE) =>
                    {
                        cause.fix.push(Fix::command_that("nvidia-smi", fix::ADD_MACHINE_FACTS));
                    }
                    Offer::Torch | Offer::NativeTorch | Offer::NewerTorch
                        if uses_other_framework(situation, &events) => {}
                    Offer::Torch => cause.fix.extend(fix::install(situation, Wanted::Working)),
                    Offer::NativeTorch => cause.fix.extend(fix::install(situation, Wanted::Native)),
                    Offer::NewerTorch => cause.fix.extend(fix::install(situation, Wanted::Newer)),
                    Offer::Driver => {
                        // What a container requires is the driver's own CUDA.
                        let of_line = || situation.driver_floor_of(required_cuda(&events)?, Policy::Native);
                        let floors = of_line().or_else(|| situation.driver_floor());
                        let below = floors.filter(|(_, floor, driver)| driver < floor);
                        let floor = below.map(|(_, floor, _)| floor);
                        cause.fix.push(fix::newer_driver(situation, floor.as_ref()));
                    }
                    Offer::Library => cause.fix.extend(fix::library(situation, &events)),
                    Offer::Container | Offer::Toolkit | Offer::Companions | Offer::Extension => {
                        cause.fix.extend(repair::of(situation, *offer, &events));
                    }
                }
            }
            without_leading_or(&mut cause.fix);
            if place == 0 && cause.fix.is_empty() {
                cause.fix = fix::first_step(situation, cause.component, &events);
            }
            cause.evidence = evidence_of(&events);
            cause.check = if place == 0 { rule.check.clone() } else { None };
            if rule.is_notice { &mut notices } else { &mut out }.push(cause);
        }
    }
    (out, notices)
}

/// The CUDA that a container requires: `unsatisfied condition: cuda>=12.8`.
fn required_cuda(events: &[&Event]) -> Option<Semver> {
    let required = |event: &&Event| {
        let lower = event.text.to_lowercase();
        let (_, rest) = lower.split_once("unsatisfied condition: cuda")?;
        let rest = rest.trim_start_matches([' ', '>', '=']);
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        cuda_version(rest[..end].trim_end_matches('.')).ok()
    };
    events.iter().find_map(required)
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

/// Whether the text names a driver or a GPU.
fn knows_machine(situation: &Situation<'_>) -> bool {
    situation.host().driver.is_some() || !situation.gpus().is_empty()
}

/// Whether the text is about TensorFlow, JAX or another CUDA program, and not about torch: then a torch build does not help.
fn uses_other_framework(situation: &Situation<'_>, events: &[&Event]) -> bool {
    let facts = situation.facts;
    if events.iter().any(|event| event.text.to_lowercase().contains("torch")) {
        return false;
    }
    let others = facts.is_in(Surrounding::Tensorflow) || facts.is_in(Surrounding::Jax);
    (others || facts.is_in(Surrounding::OtherProgram)) && facts.torch.is_none() && facts.torch_cuda.is_none()
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
