//! Causes in packages that do not go together.

use pep440_rs::Version;

use super::cause;
use crate::diagnose::cause::{Cause, Evidence};
use crate::diagnose::facts::{Event, Fact};
use crate::diagnose::fix;
use crate::diagnose::place::for_setup;
use crate::diagnose::situation::{Situation, is_cuda_major};
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::version::cuda_short;
use crate::registry::{Advisory, Cited};

/// torchvision installed with a torch that it was not built for.
pub(super) fn wrong_pair(s: &Situation<'_>) -> Option<Cause> {
    let torch: Version = s.facts.plain_torch()?.parse().ok()?;
    let (found, _) = s.facts.packages.get("torchvision")?;
    let vision: Version = found.split('+').next()?.parse().ok()?;
    let row = s.registry.companion("torchvision", &vision)?;
    let wants = row.torch.as_ref()?;
    if wants.contains(&torch) {
        return None;
    }
    let text = format!("torchvision {vision} requires torch{wants}, but torch {torch} is installed");
    let confidence = if s.facts.events.is_empty() { 0.6 } else { 0.7 };
    let rests_on = [Fact::Torch, Fact::Torchvision];
    let mut cause =
        cause(s, ("torchvision-pair", Component::TorchvisionPairing), confidence, text, &rests_on);
    let build = s.build();
    if let Some((build, vision)) = build.and_then(|build| Some((build, build.companion("torchvision")?))) {
        // From the index that has its build for the same CUDA.
        let index = fix::index_option(s, &build.index());
        let command = format!("pip install torchvision=={vision}{index}");
        let fix = Fix::command_that(command, format!("built for torch {torch}"));
        cause.fix.push(for_setup(s, fix));
    }
    Some(cause)
}

/// A package that requires another torch than the installed one, by what the metadata of its releases say.
pub(super) fn required_pair(s: &Situation<'_>) -> Option<Cause> {
    let torch: Version = s.facts.plain_torch()?.parse().ok()?;
    let wrong = |(name, (stated, _)): (&String, &(String, String))| {
        let version = stated.parse::<Version>().ok()?.without_local();
        let row = s.registry.pair(name, &version).filter(|row| row.with == "torch")?;
        (!row.requires.contains(&torch)).then(|| (name.clone(), version, row.requires.to_string()))
    };
    let (name, version, requires) = s.facts.packages.iter().find_map(wrong)?;
    let requires = requires.replace(' ', "");
    let text = format!("{name} {version} requires torch{requires}, but torch {torch} is installed");
    // Not that a library is missing: then the package is of another CUDA.
    let is_of_it = |event: &Event| {
        let text = event.text.to_lowercase();
        text.contains(&name) && !text.contains("cannot open shared object")
    };
    let is_at_fault = s.facts.events.iter().any(is_of_it);
    let confidence = if is_at_fault { 0.93 } else { 0.55 };
    let mut cause = cause(s, ("torch-pair", Component::ExtensionAbi), confidence, text, &[Fact::Torch]);
    let said = s.facts.said_of.get(&name);
    cause.evidence.extend(said.map(|said| Evidence::new(said.line, &said.text)));
    let command = format!("pip install {name}=={version}");
    cause.fix.push(for_setup(
        s,
        Fix::command_that(command, format!("brings the torch that it requires: {requires}")),
    ));
    Some(cause)
}

/// jaxlib installed with a CUDA plugin of another release.
pub(super) fn plugin_pair(s: &Situation<'_>) -> Option<Cause> {
    let version = |name: &str| -> Option<Version> { s.facts.packages.get(name)?.0.parse().ok() };
    let jaxlib = version("jaxlib")?;
    let (name, plugin) =
        ["jax-cuda12-plugin", "jax-cuda13-plugin"].iter().find_map(|name| Some((*name, version(name)?)))?;
    // A plugin can have post releases: `0.12.0.1` belongs to `0.12.0`.
    if plugin.release().iter().take(3).eq(jaxlib.release().iter().take(3)) {
        return None;
    }
    let text = format!("jaxlib {jaxlib} and {name} {plugin} must be the same release");
    let rests_on = [Fact::Jaxlib, Fact::JaxPlugin];
    let mut cause = cause(s, ("jax-plugin-pair", Component::InstallMix), 0.82, text, &rests_on);
    let extra = name.trim_start_matches("jax-").trim_end_matches("-plugin");
    let fix = Fix::command(format!("pip install --upgrade \"jax[{extra}]\""));
    cause.fix.push(for_setup(s, fix));
    Some(cause)
}

/// TensorFlow could not load a CUDA or cuDNN library: names the versions that it loads.
pub(super) fn tensorflow_libraries(s: &Situation<'_>) -> Option<Cause> {
    let rule = |event: &Event| s.registry.errors()[event.rule].id.as_str();
    let missed = s.facts.events.iter().map(rule).find_map(|id| match id {
        "cuda-library-missing" | "tensorflow-registers-no-gpu" => Some(Component::CudaRuntime),
        "cudnn-missing" | "cudnn-runtime-older" => Some(Component::Cudnn),
        _ => None,
    })?;
    let version: Version = s.facts.packages.get("tensorflow")?.0.parse().ok()?;
    let numbers: Vec<String> = version.release().iter().map(ToString::to_string).collect();
    let version: Version = numbers.join(".").parse().ok()?;
    let row = s.registry.framework("tensorflow", &version, s.platform())?;
    let cudnn = row.cudnn.as_ref().map(|v| format!(" and cuDNN {v}")).unwrap_or_default();
    let text = format!(
        "tensorflow {version} was built with CUDA {}{cudnn} and requires these versions",
        cuda_short(&row.cuda)
    );
    let mut cause = cause(s, ("tensorflow-libraries", missed), 0.84, text, &[Fact::Tensorflow]);
    if let Some(ask) = &row.ask {
        let fix = Fix::command_that(format!("pip install \"{ask}=={version}\""), "installs them");
        cause.fix.push(for_setup(s, fix));
    } else if !row.conda.is_empty() {
        let quoted =
            |spec: &String| if spec.contains(['<', '>']) { format!("\"{spec}\"") } else { spec.clone() };
        let specs: Vec<String> = row.conda.iter().map(quoted).collect();
        cause.fix.push(Fix::command(format!("conda install -c conda-forge {}", specs.join(" "))));
    }
    Some(cause)
}

/// Packages of one library for two CUDA majors, which install files into the same directory.
pub(super) fn two_majors(s: &Situation<'_>) -> Option<Cause> {
    if s.facts.events.is_empty() {
        return None;
    }
    let majors = |library: &str| -> Vec<u32> {
        let names = s.facts.packages.keys();
        let ends =
            names.filter_map(|name| name.strip_prefix("nvidia-")?.strip_prefix(library)?.strip_prefix("-cu"));
        // Only known majors: package names in commands are built from them.
        ends.filter_map(|major| major.parse().ok())
            .filter(|major| is_cuda_major(s.registry, *major))
            .collect()
    };
    let (library, found) = ["nccl", "cudnn"]
        .iter()
        .map(|library| (library, majors(library)))
        .find(|(_, found)| found.len() > 1)?;
    let names: Vec<String> = found.iter().map(|major| format!("nvidia-{library}-cu{major}")).collect();
    let text = format!(
        "{} install into the same directory: the one installed last overwrote the other",
        names.join(" and ")
    );
    let mut cause = cause(s, ("two-cuda-majors", Component::InstallMix), 0.8, text, &[Fact::NvidiaPackage]);
    let mine: Option<u32> = s.facts.build_cuda().and_then(|cuda| cuda.split('.').next()?.parse().ok());
    if let Some(mine) = mine.filter(|mine| found.contains(mine)) {
        let others: Vec<String> =
            found.iter().filter(|m| **m != mine).map(|major| format!("nvidia-{library}-cu{major}")).collect();
        let uninstall = Fix::command(format!("pip uninstall -y {}", others.join(" ")));
        cause.fix.push(for_setup(s, uninstall));
        let install = Fix::command(format!("pip install --force-reinstall nvidia-{library}-cu{mine}"));
        cause.fix.push(for_setup(s, install));
    }
    Some(cause)
}

/// Two packages of which one does not work beside the other, by the advisories.
pub(super) fn known_pair(s: &Situation<'_>) -> Option<Cause> {
    let version = |name: &str| -> Option<Version> {
        let text = match name {
            "torch" => s.facts.plain_torch()?,
            name => s.facts.packages.get(name)?.0.split('+').next()?,
        };
        text.parse().ok()
    };
    let applies = |row: &&Cited<Advisory>| {
        let Some(other) = row.effect.requirement().map(|requirement| requirement.name.as_ref()) else {
            return false;
        };
        let is_here = row.platform.is_none_or(|platform| platform == s.platform());
        let pair = version(&row.package).zip(version(other));
        is_here
            && row.capabilities.is_empty()
            && pair.is_some_and(|(own, of_other)| row.excludes(&own, other, &of_other))
    };
    let row = s.registry.advisories().iter().find(applies)?;
    let requirement = row.effect.requirement()?;
    let (own, other) = (row.package.as_str(), requirement.name.as_ref());
    let text = format!("{}; {own} {} and {other} {} are installed", row.text, version(own)?, version(other)?);
    let is_abi = s.registry.abi_breaks().iter().any(|row| row.package == other);
    let component = if is_abi { Component::ExtensionAbi } else { Component::InstallMix };
    // What fails is the bridge between the two; without an error message about it, it may not be in use.
    let is_at_fault = s.facts.events.iter().any(|event| event.text.to_lowercase().contains(own));
    // torch stays.
    let pin = s.pin_for_torch(own).filter(|_| other == "torch");
    let confidence = if is_at_fault && pin.is_some() { 0.93 } else { 0.55 };
    let mut cause = cause(s, ("known-pair", component), confidence, text, &[]);
    let lines = [own, other].into_iter().filter_map(|name| s.facts.said_of.get(name));
    cause.evidence = lines.map(|said| Evidence::new(said.line, &said.text)).collect();
    let fix = match pin {
        Some(pin) => Fix::command_that(format!("pip install \"{pin}\""), "goes with the installed torch"),
        None => Fix::command_that(format!("pip install \"{requirement}\""), format!("goes with this {own}")),
    };
    cause.fix.push(for_setup(s, fix));
    Some(cause)
}
