//! Fixes: the newest torch that the GPUs and the driver of the facts can run, solved from the registry, as a command of
//! the installer in use.

use pep440_rs::Version;

use super::facts::Event;
use super::place::for_setup;
use super::situation::{Situation, series};
use super::{libraries, repair, who};
use crate::compatibility::{Policy, UnknownGpu};
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::host::{Driver, Host};
use crate::model::index_owner::local_of;
use crate::model::platform::Os;
use crate::model::request::{
    Limit, Origin, Preferences, PythonAllowed, PythonRequest, Request, UserRequirement,
};
use crate::model::solution::{Answer, Solution};
use crate::model::surroundings::Surrounding;
use crate::model::version::{DottedVersion, cuda_short, cuda_version, public};
use crate::registry::{COMPANIONS, Offer};
use crate::solver::solve_stack;

/// conda's torch packages, which must be removed before pip installs torch.
const CONDA_TORCH_PACKAGES: [&str; 7] =
    ["pytorch", "torchvision", "torchaudio", "pytorch-cuda", "pytorch-mutex", "cudatoolkit", "cpuonly"];

/// Why the machine's facts are asked for.
pub(super) const ADD_MACHINE_FACTS: &str = "add its output to the text: driver and GPU determine the build";

/// The commands that install a torch that works on the machine; empty if there is none. Also empty for Jetson, whose
/// builds are NVIDIA's, and for macOS, which has no CUDA.
pub(super) fn install(situation: &Situation<'_>) -> Vec<Fix> {
    install_for(situation, situation.host(), Policy::Minor)
}

/// The same with a CUDA that the driver is not older than.
pub(super) fn install_native(situation: &Situation<'_>) -> Vec<Fix> {
    install_for(situation, situation.host(), Policy::Native)
}

/// The same beside another driver than that of the facts.
pub(super) fn install_beside(situation: &Situation<'_>, version: DottedVersion) -> Vec<Fix> {
    let driver = Driver { version, cuda: None, compat: None, found_by: "the fix".into() };
    install_for(situation, Host { driver: Some(driver), ..situation.host() }, Policy::Minor)
}

/// ` --index-url URL` of a build that PyPI does not have: of `pytorch/cu126`.
pub(super) fn index_option(situation: &Situation<'_>, index: &str) -> String {
    match index.split_once('/') {
        Some((_, variant)) => format!(" --index-url {}/{variant}", situation.pytorch_index),
        None => String::new(),
    }
}

fn install_for(situation: &Situation<'_>, host: Host, policy: Policy) -> Vec<Fix> {
    if situation.facts.is_in(Surrounding::Jetson) || situation.facts.is_in(Surrounding::Macos) {
        return Vec::new();
    }
    // No build is known to run there, and none not to.
    if let Some(gpu) = UnknownGpu::of(situation.registry, &host).filter(|gpu| gpu.capability.is_some()) {
        return vec![Fix::command_that("envlock registry update", gpu.to_string())];
    }
    let Some(solution) = solved(situation, &host, policy) else { return Vec::new() };
    let Some(stack) = &solution.stack else { return Vec::new() };
    // The build that failed is not the fix; the GPU decides which one is.
    let own = situation.facts.torch.as_deref().and_then(|torch| torch.parse::<Version>().ok());
    let is_own = own.is_some_and(|own| public(&own) == stack.version && local_of(&own) == stack.variant);
    if is_own && situation.gpus().is_empty() {
        return vec![Fix::command_that("nvidia-smi", ADD_MACHINE_FACTS)];
    }
    let mut packages = format!("torch=={}", stack.version);
    for (name, version) in &stack.companions {
        packages.push_str(&format!(" {name}=={version}"));
    }
    let index = index_option(situation, &stack.index);
    let mut out = Vec::new();
    let by_conda: Vec<&str> =
        CONDA_TORCH_PACKAGES.into_iter().filter(|name| is_of_conda(situation, name)).collect();
    if by_conda.first() == Some(&"pytorch") {
        // torch's conda channel ended with 2.5.1; conda's and pip's packages must not be mixed.
        out.push(Fix::command(format!("conda remove --yes {}", by_conda.join(" "))));
    }
    let why = match (&stack.cuda, stack.variant.as_str()) {
        (Some(cuda), _) => {
            format!("CUDA {}.{}{}", cuda.major, cuda.minor, runs_on(situation, &host, &solution))
        }
        (None, _) => "CPU build: no CUDA build runs on this machine".to_owned(),
    };
    out.push(for_setup(situation, Fix::command_that(format!("pip install {packages}{index}"), why)));
    out
}

/// The package that brings a missing library, or where it comes from elsewhere.
pub(super) fn library(situation: &Situation<'_>, events: &[&Event]) -> Vec<Fix> {
    match libraries::bring(situation, events) {
        found if !found.is_empty() => found,
        _ => repair::of(situation, Offer::Library, events),
    }
}

/// The first step where a rule knows no fix: the command that shows the component's state.
pub(super) fn first_step(situation: &Situation<'_>, component: Component, events: &[&Event]) -> Vec<Fix> {
    let step = |command: &str, why: &str| vec![for_setup(situation, Fix::command_that(command, why))];
    match component {
        Component::Driver => {
            step("nvidia-smi", "shows the driver, the newest CUDA that it runs, and the GPUs")
        }
        Component::Container => repair::of(situation, Offer::Container, events),
        Component::PathShadowing => step(
            "env -u LD_LIBRARY_PATH python ...",
            "if that works, a folder in LD_LIBRARY_PATH has the other library: take it out where it is set",
        ),
        Component::InstallMix => step("pip check", "names the packages whose versions do not go together"),
        Component::CudaRuntime | Component::Cudnn => match library(situation, events) {
            found if !found.is_empty() => found,
            _ if who::failed(situation, events).is_some() => repair::of(situation, Offer::Extension, events),
            _ if situation.platform().os == Os::Windows => {
                step("pip list", "shows the CUDA libraries of this environment, those named nvidia-*")
            }
            _ => step("pip list | grep -i nvidia", "shows the CUDA libraries of this environment"),
        },
        Component::Nccl => step(
            "NCCL_DEBUG=INFO ...",
            "run it again so: NCCL then says which call, interface or peer failed",
        ),
        Component::TorchvisionPairing => step(
            "pip uninstall -y torchvision torchaudio && pip install torchvision torchaudio \"torch==$(python -c 'import torch; print(torch.__version__)')\"",
            "the releases for the installed torch, from the index that torch is from",
        ),
        Component::ExtensionAbi => match repair::of(situation, Offer::Extension, events) {
            found if !found.is_empty() => found,
            _ => {
                vec![Fix::advice("install the build of the package for the installed torch, CUDA and Python")]
            }
        },
        Component::GpuArch
        | Component::TorchBuild
        | Component::Python
        | Component::Glibc
        | Component::Other => Vec::new(),
    }
}

/// `, code for 6.1, runs on driver 535.54.03`.
fn runs_on(situation: &Situation<'_>, host: &Host, solution: &Solution) -> String {
    let mut out = String::new();
    let mut capabilities: Vec<_> = situation.gpus().iter().map(|(_, capability)| *capability).collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    if !capabilities.is_empty() {
        let names: Vec<String> = capabilities.iter().map(ToString::to_string).collect();
        out.push_str(&format!(", code for {}", names.join(" ")));
    }
    match (&host.driver, &situation.facts.driver, &solution.envelope.driver) {
        (Some(driver), Some(_), _) => out.push_str(&format!(", runs on driver {}", driver.version)),
        (Some(_), None, _) => {
            let cuda = situation.facts.driver_cuda.as_deref().and_then(|cuda| cuda_version(cuda).ok());
            let cuda = cuda.map(|cuda| cuda_short(&cuda)).unwrap_or_default();
            out.push_str(&format!(", runs on a driver that supports CUDA {cuda}"));
        }
        (None, _, Some(floor)) => out.push_str(&format!(", needs driver >= {floor}")),
        (None, _, None) => {}
    }
    // Where no build has wheels for the Python of the text, another Python is part of the fix.
    let of_text = situation.facts.python.as_deref().and_then(series);
    if of_text.is_some_and(|python| python != solution.python) {
        out.push_str(&format!(", needs Python {}", solution.python));
    }
    // The newest build has no code for older GPUs.
    if capabilities.is_empty() {
        out.push_str("; the GPU is not known: an older one may need another build");
    }
    out
}

/// A solution for the GPUs, driver and Python of the facts; for another Python if there is none for theirs.
fn solved(situation: &Situation<'_>, host: &Host, policy: Policy) -> Option<Solution> {
    let ask = |name: &str| -> Option<UserRequirement> {
        Some(UserRequirement::new(name.parse().ok()?, Origin::Question))
    };
    // What pip does not see for this Python cannot be installed.
    let offered = situation.facts.offered_torch.iter().max();
    let torch = offered.map_or("torch".to_owned(), |newest| format!("torch<={}", public(newest)));
    let mut request = Request { requirements: vec![ask(&torch)?], ..Request::default() };
    for name in COMPANIONS {
        if situation.facts.packages.contains_key(name) {
            request.requirements.extend(ask(name));
        }
    }
    request.native_driver_only =
        (policy == Policy::Native).then_some(Limit { value: (), origin: Origin::Question });
    request.python = situation.facts.python.as_ref().and_then(|text| {
        let python = series(text)?;
        Some(PythonRequest {
            allowed: PythonAllowed::Exact(python),
            text: format!("3.{}", python.minor),
            origin: Origin::Question,
        })
    });
    loop {
        if let Answer::Solution(solution) =
            solve_stack(situation.registry, host, &request, &Preferences::default())
        {
            return Some(*solution);
        }
        // Retry with fewer companions, then with any Python.
        if request.requirements.len() > 1 {
            request.requirements.pop();
        } else {
            request.python.take()?;
        }
    }
}

/// Whether conda installed a package, by its build string, which pip's lists do not have.
fn is_of_conda(situation: &Situation<'_>, name: &str) -> bool {
    situation.facts.packages.get(name).is_some_and(|(_, build)| {
        name == "pytorch" || build.contains("py3") || build.contains("py_") || build.contains("cu")
    })
}

/// The advice to update the driver, for the system that the program runs on.
pub(super) fn newer_driver(situation: &Situation<'_>, floor: Option<&DottedVersion>) -> Fix {
    let to = floor.map(|floor| format!(" to {floor} or newer")).unwrap_or_default();
    let facts = situation.facts;
    Fix::advice(if facts.is_in(Surrounding::Wsl) {
        format!("update the NVIDIA driver on Windows{to}, not inside WSL; then run `wsl --shutdown`")
    } else if facts.is_in(Surrounding::Windows) {
        format!("update the NVIDIA driver{to}")
    } else if facts.is_in(Surrounding::Container) {
        format!("update the NVIDIA driver on the host{to}; the container uses the host's driver")
    } else {
        format!("update the NVIDIA driver on the host{to}; containers share it")
    })
}
