//! Fixes: the newest torch that the GPUs and the driver of the facts can run, solved from the registry, as a command of
//! the installer in use.

use pep440_rs::Version;

use super::facts::Event;
use super::place::for_setup;
use super::situation::{Situation, series};
use super::{file_owner, repair, who};
use crate::compatibility::UnknownGpu;
use crate::model::capability::Via;
use crate::model::component::Component;
use crate::model::fix::Fix;
use crate::model::host::{Driver, Host};
use crate::model::platform::Os;
use crate::model::request::{
    Limit, Origin, Preferences, PythonAllowed, PythonRequest, Request, UserRequirement,
};
use crate::model::solution::{Answer, Coverage, Solution, Stack};
use crate::model::surroundings::Surrounding;
use crate::model::version::{DottedVersion, cuda_short, cuda_version, public};
use crate::registry::{COMPANIONS, Offer};
use crate::solver::solve_stack;

/// conda's torch packages, which must be removed before pip installs torch.
const CONDA_TORCH_PACKAGES: [&str; 7] =
    ["pytorch", "torchvision", "torchaudio", "pytorch-cuda", "pytorch-mutex", "cudatoolkit", "cpuonly"];

/// Why the machine's facts are asked for.
pub(super) const ADD_MACHINE_FACTS: &str = "add its output to the text: driver and GPU determine the build";

/// What a torch has to be besides working on the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The installed release in another build if one works, else the newest.
    Working,
    /// The same, with a CUDA that the driver is not older than.
    Native,
    /// Newer than the installed release, which is at fault itself.
    Newer,
}

/// The commands that install a torch that works on the machine; empty if there is none, as on macOS, which has no CUDA. On
/// Jetson, whose builds are NVIDIA's, `[[repair]]` rows give them.
pub(super) fn install(situation: &Situation<'_>, wanted: Wanted) -> Vec<Fix> {
    install_for(situation, situation.host(), wanted)
}

/// The same beside another driver than that of the facts.
pub(super) fn install_beside(situation: &Situation<'_>, version: DottedVersion) -> Vec<Fix> {
    let driver = Driver { version, cuda: None, compat: None, found_by: "the fix".into() };
    install_for(situation, Host { driver: Some(driver), ..situation.host() }, Wanted::Working)
}

/// ` --index-url URL` of a build that PyPI does not have: of `pytorch/cu126`.
pub(super) fn index_option(situation: &Situation<'_>, index: &str) -> String {
    match index.split_once('/') {
        Some((_, variant)) => format!(" --index-url {}/{variant}", situation.pytorch_index),
        None => String::new(),
    }
}

fn install_for(situation: &Situation<'_>, host: Host, wanted: Wanted) -> Vec<Fix> {
    if situation.facts.is_in(Surrounding::Jetson) || situation.facts.is_in(Surrounding::Macos) {
        return repair::of(situation, Offer::Torch, &[]);
    }
    // No build is known to run there, and none not to.
    if let Some(gpu) = UnknownGpu::of(situation.registry, &host).filter(|gpu| gpu.capability.is_some()) {
        return vec![Fix::command_that("envlock registry update", gpu.to_string())];
    }
    let Some(solution) = solved(situation, &host, wanted) else { return no_build(situation, host) };
    let Some(stack) = &solution.stack else { return Vec::new() };
    // The build that failed is not the fix; the GPU decides which one is.
    if is_installed(situation, stack) && situation.gpus().is_empty() {
        return vec![Fix::command_that("nvidia-smi", ADD_MACHINE_FACTS)];
    }
    let packages = packages(situation, stack);
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
    out.push(for_setup(situation, Fix::command_that(format!("pip install {packages}"), why)));
    out
}

/// What is left where no build of the data runs with the GPUs, whatever the driver and the releases that were asked for.
fn no_build(situation: &Situation<'_>, host: Host) -> Vec<Fix> {
    let [(name, capability), ..] = situation.gpus() else { return Vec::new() };
    let Some(torch) = "torch".parse().ok() else { return Vec::new() };
    let requirements = vec![UserRequirement::new(torch, Origin::Question)];
    let (host, request) = (Host { driver: None, ..host }, Request { requirements, ..Request::default() });
    let answer = solve_stack(situation.registry, &host, &request, &Preferences::default());
    if let Answer::Solution(solution) = answer
        && solution.stack.is_some_and(|stack| stack.cuda.is_some())
    {
        return Vec::new();
    }
    let gpu = name.as_deref().unwrap_or("the GPU");
    let text = format!(
        "no build of torch in the data runs with {gpu} (compute capability {capability}): use another GPU, or the CPU, with \
         `pip install torch --index-url {}/cpu`",
        situation.pytorch_index
    );
    vec![Fix::advice(text)]
}

/// The release of torch that the text says is installed.
fn installed_release(situation: &Situation<'_>) -> Option<Version> {
    situation.facts.plain_torch()?.parse().ok()
}

/// Whether a build is the one that the text says is installed; that of PyPI if it does not say the variant.
fn is_installed(situation: &Situation<'_>, stack: &Stack) -> bool {
    let is_variant = match situation.facts.variant() {
        Some(variant) => variant == stack.variant,
        None => stack.index == "pypi",
    };
    is_variant && installed_release(situation).is_some_and(|own| public(&own) == stack.version)
}

/// What `pip install` is given: `torch==2.11.0 torchvision==0.26.0 --index-url URL`.
fn packages(situation: &Situation<'_>, stack: &Stack) -> String {
    let is_same_release = installed_release(situation).is_some_and(|own| own == stack.version);
    let companions = stack.companions.iter().map(|(name, version)| (name.as_str(), version));
    let all = || std::iter::once(("torch", &stack.version)).chain(companions.clone());
    let join = |local: &str| {
        let pins: Vec<String> = all().map(|(name, version)| format!("{name}=={version}{local}")).collect();
        pins.join(" ")
    };
    if !is_same_release {
        return format!("{}{}", join(""), index_option(situation, &stack.index));
    }
    // pip takes another build of the installed release for installed already: the local version tells them apart.
    let build = situation.registry.build(&stack.version, &stack.variant, situation.platform());
    match build.is_some_and(|build| build.on_pytorch_index) {
        true => {
            let index = index_option(situation, &format!("pytorch/{}", stack.variant));
            format!("{}{index}", join(&format!("+{}", stack.variant)))
        }
        false => format!("--force-reinstall {}", join("")),
    }
}

/// What helps where a program misses a library of another CUDA than the one that is here.
const OTHER_CUDA: &str = "the missing library is of another CUDA major version than the one that is here: install the program's build \
    for this CUDA, or take the folders of the other CUDA off the loader's path (`LD_LIBRARY_PATH`)";

/// Where a missing library comes from: a `[[repair]]` row about the program that failed, the package that brings it, or any
/// other row.
pub(super) fn library(situation: &Situation<'_>, events: &[&Event]) -> Vec<Fix> {
    let own = repair::of_failed(situation, Offer::Library, events);
    if own.is_none() && file_owner::is_of_other_cuda(situation, events) {
        return match repair::of(situation, Offer::Extension, events) {
            found if !found.is_empty() => found,
            _ => vec![Fix::advice(OTHER_CUDA)],
        };
    }
    let brought = || file_owner::bring(situation, events);
    own.or_else(|| Some(brought()).filter(|found| !found.is_empty()))
        .unwrap_or_else(|| repair::of(situation, Offer::Library, events))
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
        Component::TorchvisionPairing => match repair::of(situation, Offer::Companions, events) {
            found if !found.is_empty() => found,
            _ => step(
                "pip uninstall -y torchvision torchaudio && pip install torchvision torchaudio \"torch==$(python -c 'import torch; print(torch.__version__)')\"",
                "the releases for the installed torch, from the index that torch is from",
            ),
        },
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
    match situation.facts.python.as_deref().and_then(series) {
        // Where no build has wheels for the Python of the text, another Python is part of the fix.
        Some(python) if python != solution.python => {
            out.push_str(&format!(", needs Python {}", solution.python));
        }
        Some(_) => {}
        None => out.push_str(&of_pythons(situation, solution).unwrap_or_default()),
    }
    // The newest build has no code for older GPUs.
    if capabilities.is_empty() {
        out.push_str("; the GPU is not known: an older one may need another build");
    }
    // Of a text without a list of packages, nobody knows whether they are installed.
    if situation.facts.packages.is_empty() {
        out.push_str("; with torchvision and torchaudio where they are installed");
    }
    out
}

/// `, for Python 3.11 to 3.15`: those that the build has wheels for.
fn of_pythons(situation: &Situation<'_>, solution: &Solution) -> Option<String> {
    let stack = solution.stack.as_ref()?;
    // The installed release runs on the installed Python.
    if installed_release(situation).is_some_and(|own| own == stack.version) {
        return None;
    }
    let build = situation.registry.build(&stack.version, &stack.variant, situation.platform())?;
    let minors = build.pythons.as_ref()?;
    Some(format!(", for Python 3.{} to 3.{}", minors.iter().min()?, minors.iter().max()?))
}

/// A solution for the GPUs, driver and Python of the facts: another build of the installed release if one works, which
/// leaves the other packages as they are; else the newest, for another Python if there is none for theirs.
fn solved(situation: &Situation<'_>, host: &Host, wanted: Wanted) -> Option<Solution> {
    let solve = |request: &Request| {
        let answer = solve_stack(situation.registry, host, request, &Preferences::default());
        match answer {
            Answer::Solution(solution) => Some(*solution),
            _ => None,
        }
    };
    let own = installed_release(situation);
    // What pip does not see for this Python cannot be installed.
    let offered = &situation.facts.offered_torch;
    let is_offered = |own: &Version| offered.is_empty() || offered.iter().any(|one| public(one) == *own);
    let is_other = |solution: &Solution| {
        solution.stack.as_ref().is_some_and(|stack| stack.cuda.is_some() && !is_installed(situation, stack))
    };
    let same_release = own.as_ref().filter(|own| wanted != Wanted::Newer && is_offered(own));
    // PTX alone is compiled at the first start, and cuDNN and cuBLAS of that CUDA know the GPU as little.
    let has_machine_code = |solution: &Solution| {
        let covers = |capability| {
            let is_it = |own: &&Coverage| own.compute_capability == capability;
            solution.envelope.coverage.iter().find(is_it).is_none_or(|own| own.via == Via::Sass)
        };
        situation.gpus().iter().all(|(_, capability)| covers(*capability))
    };
    let same_release = same_release.and_then(|own| {
        let solution = solve(&request(situation, &format!("torch=={own}"), wanted)?)?;
        (is_other(&solution) && has_machine_code(&solution)).then_some(solution)
    });
    if same_release.is_some() {
        return same_release;
    }
    let torch = match (offered.iter().max(), own) {
        (Some(newest), _) => format!("torch<={}", public(newest)),
        (None, Some(own)) if wanted == Wanted::Newer => format!("torch>{own}"),
        (None, _) => "torch".to_owned(),
    };
    let mut request = request(situation, &torch, wanted)?;
    loop {
        if let Some(solution) = solve(&request) {
            return Some(solution);
        }
        // Retry with fewer companions, then with any Python.
        if request.requirements.len() > 1 {
            request.requirements.pop();
        } else {
            request.python.take()?;
        }
    }
}

/// A request for a torch, the companions that are installed, and the Python of the text.
fn request(situation: &Situation<'_>, torch: &str, wanted: Wanted) -> Option<Request> {
    let ask = |name: &str| -> Option<UserRequirement> {
        Some(UserRequirement::new(name.parse().ok()?, Origin::Question))
    };
    let mut request = Request { requirements: vec![ask(torch)?], ..Request::default() };
    for name in COMPANIONS {
        if situation.facts.packages.contains_key(name) {
            request.requirements.extend(ask(name));
        }
    }
    request.native_driver_only =
        (wanted == Wanted::Native).then_some(Limit { value: (), origin: Origin::Question });
    request.python = situation.facts.python.as_ref().and_then(|text| {
        let python = series(text)?;
        Some(PythonRequest {
            allowed: PythonAllowed::Exact(python),
            text: format!("3.{}", python.minor),
            origin: Origin::Question,
        })
    });
    Some(request)
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
