//! Causes from the compatibility data: checks the versions, compute capabilities and drivers of the facts against the
//! registry, independent of error messages. New releases need only new registry rows.

use super::cause::{Cause, evidence_of_facts};
use super::facts::Fact;
use super::fix;
use super::situation::Situation;
use crate::compatibility::{CPU, cudnn_drops};
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::surroundings::Surrounding;
use crate::model::version::{DottedVersion, cuda_short};

/// All causes from the compatibility data.
pub(super) fn causes(situation: &Situation<'_>) -> Vec<Cause> {
    let judges = [
        driver_below_floor,
        asked_above_driver,
        gpu_not_covered,
        cudnn_below_gpu,
        cpu_build,
        driver_not_working,
        not_available,
        not_importable,
        wrong_pair,
        plugin_pair,
        tensorflow_libraries,
        two_majors,
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

/// The driver is below the floor of the CUDA that torch was built with.
fn driver_below_floor(s: &Situation<'_>) -> Option<Cause> {
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
    cause.fix.extend(fix::install(s));
    cause.fix.push(fix::newer_driver(s, Some(&floor)));
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
fn asked_above_driver(s: &Situation<'_>) -> Option<Cause> {
    let [(major, minor)] = s.facts.asked_cuda.as_slice() else { return None };
    if s.facts.available == Some(true) || s.facts.build_cuda().is_some() {
        return None;
    }
    let asked = semver::Version::new((*major).into(), (*minor).into(), 0);
    let (_, floor, driver) = s.driver_floor_of(asked)?;
    if driver >= floor {
        return None;
    }
    let text = format!(
        "the command asks for CUDA {major}.{minor}, which needs driver >= {floor}; the driver {}",
        said_of_driver(s, &driver)
    );
    let rests_on = [Fact::AskedCuda, Fact::Driver, Fact::DriverCuda];
    let mut cause = cause(s, ("asked-above-driver", Component::Driver), 0.75, text, &rests_on);
    cause.fix.extend(fix::install(s));
    cause.fix.push(fix::newer_driver(s, Some(&floor)));
    Some(cause)
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
        cause.fix.extend(fix::install(s));
        return Some(cause);
    };
    let named = |(name, capability): (Option<String>, _)| match name {
        Some(name) => format!("{name} has compute capability {capability}"),
        None => format!("the GPU has compute capability {capability}"),
    };
    let gpus: Vec<String> = s.gpus().iter().cloned().map(named).collect();
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
    let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Gpu, Fact::Capability];
    let mut cause = cause(s, ("gpu-not-covered", component), confidence, text, &rests_on);
    cause.fix.extend(fix::install(s));
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
    cause.fix.extend(fix::install(s));
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
        let is_asked = s.facts.said.get(&Fact::Available).is_some_and(|said| said.text.starts_with("False"));
        if s.facts.available != Some(false) || s.facts.no_driver_seen || !is_asked {
            return None;
        }
        let text = format!(
            "torch {torch} is a build without CUDA: it uses no GPU, whether the machine has one or not"
        );
        let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Available];
        let mut cause = cause(s, ("cpu-build", Component::TorchBuild), 0.5, text, &rests_on);
        cause.check = Some("nvidia-smi".to_owned());
        cause.fix.extend(fix::install(s));
        return Some(cause);
    }
    let text = format!("torch {torch} is a CPU build, but the machine has a GPU");
    let rests_on = [Fact::Torch, Fact::TorchCuda, Fact::Gpu, Fact::Driver];
    let mut cause = cause(s, ("cpu-build", Component::TorchBuild), 0.86, text, &rests_on);
    cause.fix.extend(fix::install(s));
    Some(cause)
}

/// A CUDA build on a machine where CUDA is not available.
fn driver_not_working(s: &Situation<'_>) -> Option<Cause> {
    if s.facts.available != Some(false) {
        return None;
    }
    if s.facts.is_in(Surrounding::Jetson) {
        let text =
            "this torch build does not support Jetson; use NVIDIA's build for the board's JetPack".to_owned();
        return Some(cause(
            s,
            ("jetson-build", Component::TorchBuild),
            0.8,
            text,
            &[Fact::Torch, Fact::Available],
        ));
    }
    if s.facts.is_in(Surrounding::Rocm) {
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
        (_, true) => (
            "the versions are compatible, but CUDA does not start: the driver is in a bad state, or the GPUs are hidden",
            0.45,
        ),
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
fn not_available(s: &Situation<'_>) -> Option<Cause> {
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

/// torchvision installed with a torch that it was not built for.
fn wrong_pair(s: &Situation<'_>) -> Option<Cause> {
    let torch: pep440_rs::Version = s.facts.plain_torch()?.parse().ok()?;
    let (found, _) = s.facts.packages.get("torchvision")?;
    let vision: pep440_rs::Version = found.split('+').next()?.parse().ok()?;
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
    let beside = s.build().and_then(|build| build.companion("torchvision"));
    if let Some(vision) = beside {
        let command = format!("pip install torchvision=={vision}");
        let fix = Fix::command_that(command, format!("built for torch {torch}"));
        cause.fix.push(fix::for_setup(s, fix));
    }
    Some(cause)
}

/// jaxlib installed with a CUDA plugin of another release.
fn plugin_pair(s: &Situation<'_>) -> Option<Cause> {
    let version = |name: &str| -> Option<pep440_rs::Version> { s.facts.packages.get(name)?.0.parse().ok() };
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
    cause.fix.push(fix::for_setup(s, fix));
    Some(cause)
}

/// TensorFlow could not load a CUDA or cuDNN library: names the versions that it loads.
fn tensorflow_libraries(s: &Situation<'_>) -> Option<Cause> {
    let rule = |event: &super::facts::Event| s.registry.errors()[event.rule].id.as_str();
    let missed = s.facts.events.iter().map(rule).find_map(|id| match id {
        "cuda-library-missing" | "tensorflow-registers-no-gpu" => Some(Component::CudaRuntime),
        "cudnn-missing" | "cudnn-runtime-older" => Some(Component::Cudnn),
        _ => None,
    })?;
    let version: pep440_rs::Version = s.facts.packages.get("tensorflow")?.0.parse().ok()?;
    let numbers: Vec<String> = version.release().iter().map(ToString::to_string).collect();
    let version: pep440_rs::Version = numbers.join(".").parse().ok()?;
    let row = s.registry.framework("tensorflow", &version, s.platform())?;
    let cudnn = row.cudnn.as_ref().map(|v| format!(" and cuDNN {v}")).unwrap_or_default();
    let text = format!(
        "tensorflow {version} was built with CUDA {}{cudnn} and requires these versions",
        cuda_short(&row.cuda)
    );
    let mut cause = cause(s, ("tensorflow-libraries", missed), 0.84, text, &[Fact::Tensorflow]);
    if let Some(ask) = &row.ask {
        let fix = Fix::command_that(format!("pip install \"{ask}=={version}\""), "installs them");
        cause.fix.push(fix::for_setup(s, fix));
    } else if !row.conda.is_empty() {
        let quoted =
            |spec: &String| if spec.contains(['<', '>']) { format!("\"{spec}\"") } else { spec.clone() };
        let specs: Vec<String> = row.conda.iter().map(quoted).collect();
        cause.fix.push(Fix::command(format!("conda install -c conda-forge {}", specs.join(" "))));
    }
    Some(cause)
}

/// Packages of one library for two CUDA majors, which install files into the same directory.
fn two_majors(s: &Situation<'_>) -> Option<Cause> {
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
        cause.fix.push(fix::for_setup(s, uninstall));
        let install = Fix::command(format!("pip install --force-reinstall nvidia-{library}-cu{mine}"));
        cause.fix.push(fix::for_setup(s, install));
    }
    Some(cause)
}

/// An installer was pointed to an index for a variant that torch was never built for.
fn unknown_variant(s: &Situation<'_>) -> Option<Cause> {
    let known = |variant: &String| s.registry.builds().iter().any(|build| build.variant == *variant);
    let variant = s.facts.index_variants.iter().find(|variant| !known(variant))?;
    let text = format!("torch has no `{variant}` build: the installer chose another build, or none");
    let mut cause = cause(s, ("no-such-flavour", Component::TorchBuild), 0.86, text, &[Fact::IndexVariant]);
    cause.fix.extend(fix::install(s));
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
            let parts: Vec<u32> = cuda.to_string().split('.').filter_map(|part| part.parse().ok()).collect();
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
    cause.fix.extend(fix::install(s));
    Some(cause)
}

/// An installer was asked for a variant that this release of torch does not have.
fn unknown_build(s: &Situation<'_>) -> Option<Cause> {
    let asked = s.facts.events.iter().find_map(|event| {
        let tail = &event.text[event.text.find("torch==")? + "torch==".len()..];
        let end =
            tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '+')).unwrap_or(tail.len());
        let (version, variant) = tail[..end].split_once('+')?;
        Some((version.parse::<pep440_rs::Version>().ok()?, variant.to_owned(), event))
    });
    let (version, variant, event) = asked?;
    let builds = s.registry.builds().iter().filter(|build| build.version == version);
    let known: std::collections::BTreeSet<&str> = builds.map(|build| build.variant.as_str()).collect();
    if known.is_empty() || known.contains(variant.as_str()) || !crate::compatibility::is_cuda(&variant) {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let text = format!("torch {version} has no `{variant}` build; it has {}", known.join(", "));
    let mut cause = cause(s, ("no-such-build", Component::TorchBuild), 0.88, text, &[]);
    cause.evidence = super::cause::evidence_of(&[event]);
    cause.fix.extend(fix::install(s));
    Some(cause)
}

/// Whether the registry has a CUDA major.
pub(super) fn is_cuda_major(registry: &crate::registry::Registry, major: u32) -> bool {
    registry.minor_version_compatibility().iter().any(|row| row.cuda_major == u64::from(major))
}
