//! Causes from the compatibility data: checks the versions, compute capabilities and drivers of the facts against the
//! registry, independent of error messages. New releases need only new registry rows.

mod driver_causes;
mod pairs;

use super::cause::{Cause, Evidence, evidence_of_facts};
use super::facts::Fact;
use super::fields::visible_releases::{asked_build, asked_release};
use super::fix::{self, Wanted};
use super::situation::Situation;
use crate::compatibility::{cudnn_drops, served};
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;
use crate::model::variant::CPU;
use crate::model::version::{DottedVersion, cuda_short};

/// All causes from the compatibility data.
pub(super) fn causes(situation: &Situation<'_>) -> Vec<Cause> {
    let judges = [
        driver_causes::driver_below_floor,
        driver_causes::driver_of_other_gpus,
        driver_causes::asked_above_driver,
        gpu_not_covered,
        cudnn_below_gpu,
        cpu_build,
        driver_causes::driver_not_working,
        driver_causes::not_available,
        not_importable,
        pairs::wrong_pair,
        pairs::required_pair,
        pairs::plugin_pair,
        pairs::tensorflow_libraries,
        pairs::two_majors,
        pairs::known_pair,
        unknown_variant,
        unknown_build,
        other_than_asked,
        two_pythons,
    ];
    judges.iter().filter_map(|judge| judge(situation)).collect()
}

/// A cause with its message, and the facts that it is based on.
fn cause(
    situation: &Situation<'_>,
    (code, component): (&str, Component),
    confidence: f64,
    message: String,
    rests_on: &[Fact],
) -> Cause {
    let evidence = evidence_of_facts(situation.facts, rests_on);
    Cause { message, evidence, has_numbers: true, ..Cause::new(code, component, confidence) }
}

/// torch's own kernels have no code for a GPU.
fn gpu_not_covered(s: &Situation<'_>) -> Option<Cause> {
    if s.covers() != Some(false) {
        return None;
    }
    let Some(build) = s.build() else {
        let (row, (name, capability)) = s.beyond_toolkit()?;
        let gpu = name.as_deref().unwrap_or("the GPU");
        let text = format!(
            "torch was built with CUDA {}, which makes code for compute capability {} to {}; {gpu} has {capability}",
            cuda_short(&row.cuda),
            row.min,
            row.max
        );
        let confidence = if s.facts.events.is_empty() { 0.5 } else { 0.85 };
        let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Gpu, Fact::Capability];
        let mut cause = cause(s, ("gpu-not-covered", Component::GpuArch), confidence, text, &rests_on);
        cause.fix.extend(fix::install(s, Wanted::Working));
        return Some(cause);
    };
    let named = |(name, capability): &(Option<String>, _)| match name {
        Some(name) => format!("{name} has compute capability {capability}"),
        None => format!("the GPU has compute capability {capability}"),
    };
    let targets = build.targets.as_ref()?;
    let is_out = |gpu: &&(Option<String>, _)| served(s.registry, targets, gpu.1).is_none();
    let out: Vec<&(Option<String>, _)> = s.gpus().iter().filter(is_out).collect();
    let gpus: Vec<String> = out.iter().copied().map(named).collect();
    let codes: Vec<String> =
        build.targets.iter().flat_map(|t| &t.sass).map(|t| t.capability.to_string()).collect();
    let text = format!(
        "torch {}+{} has code for {}; {}",
        build.version,
        build.variant,
        codes.join(" "),
        gpus.join(", ")
    );
    let component = if s.other_variant_has_code() { Component::TorchBuild } else { Component::GpuArch };
    // Without an error message, that GPU may not be in use.
    let confidence = if s.facts.events.is_empty() { 0.55 } else { 0.87 };
    let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Capability];
    let mut cause = cause(s, ("gpu-not-covered", component), confidence, text, &rests_on);
    // The line of a GPU without code, not that of the first one.
    let lines = out.iter().filter_map(|(name, _)| s.said_of_gpu(name.as_ref()?));
    cause.evidence.extend(lines.map(|said| Evidence::new(said.line, &said.text)));
    cause.fix.extend(fix::install(s, Wanted::Working));
    Some(cause)
}

/// The cuDNN of the process no longer supports a GPU.
fn cudnn_below_gpu(s: &Situation<'_>) -> Option<Cause> {
    let cudnn: DottedVersion = s.facts.cudnn.as_ref()?.parse().ok()?;
    let dropped = |capability| cudnn_drops(s.registry, Some(&cudnn), capability);
    let (name, capability) = s.gpus().iter().find(|(_, capability)| dropped(*capability).is_some())?;
    let floor = dropped(*capability)?;
    let gpu = name.as_deref().unwrap_or("the GPU");
    let text = format!("cuDNN {cudnn} requires compute capability >= {}; {gpu} has {capability}", floor.min);
    let mut cause = cause(
        s,
        ("cudnn-below-gpu", Component::Cudnn),
        0.82,
        text,
        &[Fact::Cudnn, Fact::Gpu, Fact::Capability],
    );
    cause.fix.extend(fix::install(s, Wanted::Working));
    Some(cause)
}

/// A CPU build on a machine with a GPU.
fn cpu_build(s: &Situation<'_>) -> Option<Cause> {
    if s.facts.variant().as_deref() != Some(CPU) || s.facts.is_in(Surrounding::Macos) {
        return None;
    }
    let has_gpu = !s.facts.gpus.is_empty() || s.facts.driver.is_some();
    let torch = s.facts.torch.as_deref().unwrap_or_default();
    if !has_gpu && !s.facts.is_in(Surrounding::Jetson) {
        // Whether there is a GPU is not said, and that CUDA is not available is.
        let is_asked = s.facts.said.get(&Fact::Available).is_some_and(|said| {
            // An answer of a person or a program, not the line of a collector.
            said.text.starts_with("False") || said.text.contains("is_available")
        });
        if s.facts.available != Some(false) || s.facts.no_driver_seen || !is_asked {
            return None;
        }
        let text = format!(
            "torch {torch} is a build without CUDA: it uses no GPU, whether the machine has one or not"
        );
        let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Available];
        let mut cause = cause(s, ("cpu-build", Component::TorchBuild), 0.5, text, &rests_on);
        cause.check = Some("nvidia-smi".to_owned());
        cause.fix.extend(fix::install(s, Wanted::Working));
        return Some(cause);
    }
    let text = format!("torch {torch} is a CPU build, but the machine has a GPU");
    let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Gpu, Fact::Driver];
    let mut cause = cause(s, ("cpu-build", Component::TorchBuild), 0.86, text, &rests_on);
    cause.fix.extend(fix::install(s, Wanted::Working));
    Some(cause)
}

/// The collector could not import torch.
fn not_importable(s: &Situation<'_>) -> Option<Cause> {
    if !s.facts.torch_not_importable {
        return None;
    }
    let text = "torch is not installed in this environment, or cannot be imported".to_owned();
    let mut cause = cause(s, ("torch-not-importable", Component::Other), 0.5, text, &[Fact::NotImportable]);
    cause.fix.push(Fix::command_that("python -c 'import torch'", "shows the error"));
    Some(cause)
}

/// Modules of two Python series in one traceback that ends in an error of an import.
fn two_pythons(s: &Situation<'_>) -> Option<Cause> {
    let (one, other) = s.facts.two_pythons.as_ref()?;
    let text = format!(
        "one program imports modules of Python {one} and of Python {other}: a path of another Python comes first (PYTHONPATH, the user site), and its compiled modules cannot be loaded"
    );
    let mut cause = cause(s, ("two-pythons", Component::PathShadowing), 0.8, text, &[Fact::TwoPythons]);
    cause.fix.push(Fix::command_that(
        "python -c 'import sys; print(sys.version, sys.path)'",
        "shows which paths are searched",
    ));
    cause.fix.push(Fix::command_that("PYTHONNOUSERSITE=1 PYTHONPATH= python ...", "runs without them"));
    Some(cause)
}

/// An installer was pointed to an index for a variant that torch was never built for.
fn unknown_variant(s: &Situation<'_>) -> Option<Cause> {
    let known = |variant: &String| s.registry.builds().iter().any(|build| build.variant == *variant);
    let variant = s.facts.index_variants.iter().find(|variant| !known(variant))?;
    let text = format!("torch has no `{variant}` build: the installer chose another build, or none");
    let mut cause = cause(s, ("no-such-flavour", Component::TorchBuild), 0.86, text, &[Fact::IndexVariant]);
    cause.fix.extend(fix::install(s, Wanted::Working));
    Some(cause)
}

/// The torch in place was built with another CUDA than the one that the installer's command asks for.
fn other_than_asked(s: &Situation<'_>) -> Option<Cause> {
    // Of several commands, none says which one was meant.
    let [(major, minor)] = s.facts.asked_cuda.as_slice() else { return None };
    let torch = s.facts.plain_torch()?;
    let built = match s.facts.variant().as_deref() {
        Some(CPU) => "without CUDA".to_owned(),
        _ => {
            let cuda: DottedVersion = s.facts.build_cuda()?.parse().ok()?;
            let parts: Vec<u64> = cuda.to_string().split('.').filter_map(|part| part.parse().ok()).collect();
            if parts.starts_with(&[*major, *minor]) || parts.len() < 2 {
                return None;
            }
            format!("with CUDA {}.{}", parts[0], parts[1])
        }
    };
    let text = format!(
        "the command asks for CUDA {major}.{minor}, and torch {torch} is a build {built}: the installer chose \
         another build, or this is another environment"
    );
    let rests_on = [Fact::AskedCuda, Fact::Torch, Fact::TorchCuda];
    let mut cause = cause(s, ("other-than-asked", Component::TorchBuild), 0.45, text, &rests_on);
    cause.check = Some("python -c 'import torch; print(torch.__file__, torch.version.cuda)'".to_owned());
    cause.fix.extend(fix::install(s, Wanted::Working));
    Some(cause)
}

/// An installer was asked for a variant that this release of torch does not have.
fn unknown_build(s: &Situation<'_>) -> Option<Cause> {
    // The index of one variant asks for it as well as `+cu126` does, where pip saw other releases there.
    let of_index = match s.facts.index_variants.as_slice() {
        [one] if !s.facts.offered_torch.is_empty() => Some(one),
        _ => None,
    };
    let asked = s.facts.events.iter().find_map(|event| {
        let of_event = || Some((asked_release(&event.text)?, of_index?.clone()));
        let (version, variant) = asked_build(&event.text).or_else(of_event)?;
        Some((version, variant, event))
    });
    let (version, variant, event) = asked?;
    let builds = s.registry.builds().iter().filter(|build| build.version == version);
    let known: std::collections::BTreeSet<&str> = builds.map(|build| build.variant.as_str()).collect();
    if known.is_empty() || known.contains(variant.as_str()) || !crate::model::variant::is_cuda(&variant) {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let text = format!("torch {version} has no `{variant}` build; it has {}", known.join(", "));
    let mut cause = cause(s, ("no-such-build", Component::TorchBuild), 0.88, text, &[]);
    cause.evidence = super::cause::evidence_of(&[event]);
    cause.fix.extend(fix::install(s, Wanted::Working));
    Some(cause)
}
