//! Causes in the driver: too old for torch's CUDA or for the GPU, too new for the GPU, or not working.

use super::cause;
use crate::compatibility::{DriverSpan, Policy};
use crate::diagnose::cause::Cause;
use crate::diagnose::facts::Fact;
use crate::diagnose::fix::{self, Wanted};
use crate::diagnose::situation::Situation;
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;
use crate::model::version::DottedVersion;

/// The driver is below the floor of the CUDA that torch was built with.
pub(super) fn driver_below_floor(s: &Situation<'_>) -> Option<Cause> {
    if s.facts.available == Some(true) {
        return None;
    }
    let (cuda, floor, driver) = s.driver_floor()?;
    if driver >= floor {
        return None;
    }
    let text = format!(
        "torch was built with CUDA {}.{}, which needs driver >= {floor}; the driver {}",
        cuda.major,
        cuda.minor,
        said_of_driver(s, &driver)
    );
    let component =
        if s.facts.is_in(Surrounding::TorchReplaced) { Component::InstallMix } else { Component::Driver };
    let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Driver, Fact::DriverCuda];
    let mut cause = cause(s, ("driver-below-floor", component), 0.88, text, &rests_on);
    cause.fix.extend(fix::install(s, Wanted::Working));
    // Another build of torch alone would leave the others without their CUDA.
    let place = if s.others_of_torchs_cuda() { 0 } else { cause.fix.len() };
    // The last branch for the GPU may be older.
    let supports = |(_, capability): &(Option<String>, _)| {
        DriverSpan::of(s.registry, *capability).below.is_none_or(|below| floor.major() < below.major())
    };
    if s.gpus().iter().all(supports) {
        cause.fix.insert(place, fix::newer_driver(s, Some(&floor)));
    }
    Some(cause)
}

/// What the text says of the driver: its version, or the CUDA that it supports.
fn said_of_driver(s: &Situation<'_>, driver: &DottedVersion) -> String {
    match (&s.facts.driver, &s.facts.driver_cuda) {
        (None, Some(cuda)) => format!("supports CUDA {cuda}"),
        _ => format!("is {driver}"),
    }
}

/// The driver is below the floor of the CUDA that the installer's command asks for; what it installed is not known.
pub(super) fn asked_above_driver(s: &Situation<'_>) -> Option<Cause> {
    let [(major, minor)] = s.facts.asked_cuda.as_slice() else { return None };
    if s.facts.available == Some(true) || s.facts.build_cuda().is_some() {
        return None;
    }
    let asked = semver::Version::new(*major, *minor, 0);
    let (_, floor, driver) = s.driver_floor_of(asked, Policy::Minor)?;
    if driver >= floor {
        return None;
    }
    let text = format!(
        "the command asks for CUDA {major}.{minor}, which needs driver >= {floor}; the driver {}",
        said_of_driver(s, &driver)
    );
    let rests_on = [Fact::AskedCuda, Fact::Driver, Fact::DriverCuda];
    let mut cause = cause(s, ("asked-above-driver", Component::Driver), 0.75, text, &rests_on);
    cause.fix.extend(fix::install(s, Wanted::Working));
    cause.fix.push(fix::newer_driver(s, Some(&floor)));
    Some(cause)
}

/// The driver does not support a GPU: it is older than the GPU, or newer than the last branch for it.
pub(super) fn driver_of_other_gpus(s: &Situation<'_>) -> Option<Cause> {
    if s.facts.available == Some(true) {
        return None;
    }
    let driver = s.host().driver?.version;
    let beside = |(name, capability): &(Option<String>, _)| {
        let gpu = match name {
            Some(name) => name.clone(),
            None => format!("a GPU of compute capability {capability}"),
        };
        let span = DriverSpan::of(s.registry, *capability);
        if let Some(from) = span.from.as_ref().filter(|from| driver.major() < from.major()) {
            let text = format!("{gpu} needs driver >= {from}; the driver {}", said_of_driver(s, &driver));
            let mut fix = vec![fix::newer_driver(s, Some(from))];
            if s.facts.torch.is_some() && s.covers() != Some(true) {
                fix.extend(fix::install_beside(s, from.clone()));
            }
            return Some((text, fix));
        }
        let last = s.registry.architecture(*capability)?.last_branch.filter(|_| span.ends_before(&driver))?;
        let text = format!(
            "the last driver branch that supports {gpu} is {last}; the driver {}",
            said_of_driver(s, &driver)
        );
        let step = format!("install the newest driver of branch {last}, the last one for {gpu}");
        Some((text, vec![Fix::advice(step)]))
    };
    let (text, fix) = s.gpus().iter().find_map(beside)?;
    let rests_on = [Fact::Gpu, Fact::Capability, Fact::Driver, Fact::DriverCuda];
    let mut cause = cause(s, ("driver-of-other-gpus", Component::Driver), 0.86, text, &rests_on);
    cause.fix.extend(fix);
    Some(cause)
}

/// A CUDA build on a machine where CUDA is not available.
pub(super) fn driver_not_working(s: &Situation<'_>) -> Option<Cause> {
    if s.facts.available != Some(false) {
        return None;
    }
    if s.facts.is_in(Surrounding::Jetson) {
        let text =
            "this torch build does not support Jetson; use NVIDIA's build for the board's JetPack".to_owned();
        let rests_on = [Fact::Torch, Fact::Available];
        let mut cause = cause(s, ("jetson-build", Component::TorchBuild), 0.8, text, &rests_on);
        cause.fix.extend(fix::install(s, Wanted::Working));
        return Some(cause);
    }
    // What a build for ROCm lacks, its own messages say.
    let is_rocm_build = s.facts.torch.as_ref().is_some_and(|torch| torch.contains("rocm"));
    if s.facts.is_in(Surrounding::Rocm) && !is_rocm_build {
        let text = "this torch is not a ROCm build".to_owned();
        return Some(cause(
            s,
            ("rocm-build", Component::TorchBuild),
            0.7,
            text,
            &[Fact::Torch, Fact::Available],
        ));
    }
    if s.facts.build_cuda().is_none() || s.facts.is_in(Surrounding::Macos) {
        return None;
    }
    let (text, confidence) = match (s.facts.no_driver_seen, s.facts.driver.is_some()) {
        (true, false) => ("no NVIDIA driver or GPU found on this machine", 0.7),
        (_, true) => ("CUDA does not start: the driver is in a bad state, or the GPUs are hidden", 0.45),
        _ => return None,
    };
    let rests_on = [Fact::Available, Fact::NoDriver, Fact::Driver];
    let mut cause =
        cause(s, ("driver-not-working", Component::Driver), confidence, text.to_owned(), &rests_on);
    let then = "then check dmesg and CUDA_VISIBLE_DEVICES, and reboot";
    cause.fix.push(Fix::command_that("nvidia-smi", then));
    Some(cause)
}

/// An answer of `torch.cuda.is_available()` alone: a CPU build and a driver that does not work say the same.
pub(super) fn not_available(s: &Situation<'_>) -> Option<Cause> {
    let f = s.facts;
    let is_alone = f.torch.is_none() && f.driver.is_none() && f.gpus.is_empty() && !f.no_driver_seen;
    let is_asked = f.available == Some(false) && is_alone && f.build_cuda().is_none();
    if !is_asked || f.is_in(Surrounding::Macos) || f.is_in(Surrounding::Jetson) || f.is_in(Surrounding::Rocm)
    {
        return None;
    }
    let text = "torch finds no GPU: it is a build without CUDA, or the driver does not work".to_owned();
    let (component, text) = match f.is_in(Surrounding::Container) {
        true => (
            Component::Container,
            "torch finds no GPU: the container was given none, or torch is a build without CUDA".to_owned(),
        ),
        false => (Component::TorchBuild, text),
    };
    let mut cause = cause(s, ("cuda-not-available", component), 0.4, text, &[Fact::Available]);
    let command = "python -c 'import torch; print(torch.__version__, torch.version.cuda)'; nvidia-smi";
    cause.check = Some(command.to_owned());
    cause.fix.push(Fix::command_that(
        command,
        "`None` is a build without CUDA; an error of nvidia-smi is the driver's",
    ));
    Some(cause)
}
