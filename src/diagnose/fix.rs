//! Ways out: the newest torch that the GPUs and the driver of the facts can run, solved by the registry, as a command
//! of the installer that is at work.

use super::situation::Situation;
use crate::model::fix::Fix;
use crate::model::request::{Origin, Preferences, PythonAllowed, PythonRequest, Request, UserRequirement};
use crate::model::solution::{Answer, Solution};
use crate::model::surroundings::Surrounding;
use crate::model::version::{DottedVersion, cuda_short, cuda_version};
use crate::model::wheel::Python;
use crate::registry::COMPANIONS;
use crate::solver::solve_stack;

/// conda's packages that belong to torch: what pip installs must not stand beside them.
const OF_CONDA: [&str; 7] =
    ["pytorch", "torchvision", "torchaudio", "pytorch-cuda", "pytorch-mutex", "cudatoolkit", "cpuonly"];

/// The commands that install what works on the machine; none where nothing does, or where another place has the
/// builds: a Jetson's are NVIDIA's, and a Mac has no CUDA.
pub(super) fn install(situation: &Situation<'_>) -> Vec<Fix> {
    if situation.facts.is_in(Surrounding::Jetson) || situation.facts.is_in(Surrounding::Macos) {
        return Vec::new();
    }
    let Some(solution) = solved(situation) else { return Vec::new() };
    let Some(stack) = &solution.stack else { return Vec::new() };
    let mut packages = format!("torch=={}", stack.version);
    for (name, version) in &stack.companions {
        packages.push_str(&format!(" {name}=={version}"));
    }
    let index = match stack.index.split_once('/') {
        Some((_, variant)) => format!(" --index-url {}/{variant}", situation.pytorch_index),
        None => String::new(),
    };
    let mut out = Vec::new();
    let by_conda: Vec<&str> = OF_CONDA.into_iter().filter(|name| is_of_conda(situation, name)).collect();
    if by_conda.first() == Some(&"pytorch") {
        // conda's channel of torch ended with 2.5.1; its packages and pip's must not meet.
        out.push(Fix::command(format!("conda remove --yes {}", by_conda.join(" "))));
    }
    let why = match (&stack.cuda, stack.variant.as_str()) {
        (Some(cuda), _) => format!("CUDA {}.{}{}", cuda.major, cuda.minor, runs_on(situation, &solution)),
        (None, _) => "for the CPU: no build for CUDA runs here".to_owned(),
    };
    out.push(for_setup(situation, Fix::command_that(format!("pip install {packages}{index}"), why)));
    out
}

/// `, has code for 6.1, runs on driver 535.54.03`.
fn runs_on(situation: &Situation<'_>, solution: &Solution) -> String {
    let mut out = String::new();
    let mut capabilities: Vec<_> = situation.gpus().iter().map(|(_, capability)| *capability).collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    if !capabilities.is_empty() {
        let names: Vec<String> = capabilities.iter().map(ToString::to_string).collect();
        out.push_str(&format!(", code for {}", names.join(" ")));
    }
    let driver = situation.host().driver;
    match (driver, &situation.facts.driver, &solution.envelope.driver) {
        (Some(driver), Some(_), _) => out.push_str(&format!(", runs on driver {}", driver.version)),
        (Some(_), None, _) => {
            let cuda = situation.facts.driver_cuda.as_deref().and_then(|cuda| cuda_version(cuda).ok());
            let cuda = cuda.map(|cuda| cuda_short(&cuda)).unwrap_or_default();
            out.push_str(&format!(", runs on a driver for CUDA {cuda}"));
        }
        (None, _, Some(floor)) => out.push_str(&format!(", needs driver >= {floor}")),
        (None, _, None) => {}
    }
    out
}

/// A solution for the facts' GPUs, driver and Python; for another Python where theirs has none.
fn solved(situation: &Situation<'_>) -> Option<Solution> {
    let ask = |name: &str| -> Option<UserRequirement> {
        Some(UserRequirement { requirement: name.parse().ok()?, origin: Origin::Question })
    };
    let mut request = Request { requirements: vec![ask("torch")?], ..Request::default() };
    for name in COMPANIONS {
        if situation.facts.packages.contains_key(name) {
            request.requirements.extend(ask(name));
        }
    }
    request.python = situation.facts.python.as_ref().and_then(|text| {
        let python = series(text)?;
        Some(PythonRequest {
            allowed: PythonAllowed::Exact(python),
            text: format!("3.{}", python.minor),
            origin: Origin::Question,
        })
    });
    let host = situation.host();
    loop {
        if let Answer::Solution(solution) =
            solve_stack(situation.registry, &host, &request, &Preferences::default())
        {
            return Some(*solution);
        }
        // Without a companion, then on any Python.
        if request.requirements.len() > 1 {
            request.requirements.pop();
        } else {
            request.python.take()?;
        }
    }
}

/// The series of `3.11.4` or `3.8 (64-bit runtime)`.
fn series(text: &str) -> Option<Python> {
    let mut parts = text.split('.');
    let digits = |part: &str| -> Option<u32> {
        part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    (parts.next()?.trim() == "3").then_some(())?;
    Some(Python::new(digits(parts.next()?)?))
}

/// Whether conda's list has a package; pip's has no build string.
fn is_of_conda(situation: &Situation<'_>, name: &str) -> bool {
    situation.facts.packages.get(name).is_some_and(|(_, build)| {
        name == "pytorch" || build.contains("py3") || build.contains("py_") || build.contains("cu")
    })
}

/// A command of pip as the installer at work spells it.
pub(super) fn for_setup(situation: &Situation<'_>, fix: Fix) -> Fix {
    match fix {
        Fix::Command { command, why } => Fix::Command { command: spelt(situation, command), why },
        advice => advice,
    }
}

fn spelt(situation: &Situation<'_>, command: String) -> String {
    if !command.starts_with("pip ") {
        return command;
    }
    if situation.facts.is_in(Surrounding::Uv) {
        let command = command.replace("pip ", "uv pip ");
        // uv asks no question, and calls the option to install anew by another name.
        return command.replace(" -y ", " ").replace("--force-reinstall", "--reinstall");
    }
    if situation.facts.is_in(Surrounding::Windows) {
        return command.replacen("pip ", "python -m pip ", 1).replace(" && pip ", " && python -m pip ");
    }
    command
}

/// How the driver is made newer where the program runs.
pub(super) fn newer_driver(situation: &Situation<'_>, floor: Option<&DottedVersion>) -> Fix {
    let to = floor.map(|floor| format!(" to {floor} or newer")).unwrap_or_default();
    let facts = situation.facts;
    Fix::advice(if facts.is_in(Surrounding::Wsl) {
        format!("update the NVIDIA driver of Windows{to}, not inside WSL; then `wsl --shutdown`")
    } else if facts.is_in(Surrounding::Windows) {
        format!("update the NVIDIA driver{to}")
    } else if facts.is_in(Surrounding::Container) {
        format!("update the NVIDIA driver of the host{to}; the container takes the host's")
    } else {
        format!("update the NVIDIA driver on the host{to}; containers share it")
    })
}
