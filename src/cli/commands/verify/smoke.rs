//! The smoke test as `verify` runs and tells it.

use std::path::Path;
use std::time::Duration;

use super::Judged;
use crate::cli::args::SmokeChoice;
use crate::cli::printer::Printer;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::installed::{Distribution, Installed};
use crate::model::version::{DottedVersion, cudnn_of_integer};
use crate::smoke::{self, Check, Devices, End, Framework, SPEED, SmokeOutcome};
use crate::verify::Area;

/// How long a layer of the smoke test may take; `ENVLOCK_SMOKE_TIMEOUT` changes it.
const SMOKE_LIMIT_S: u64 = 300;

/// What to ask when cuDNN is on and does nothing: whether this build has it, and what its settings are.
const WHAT_SWITCHES_CUDNN: &str =
    "python -c 'import torch; print(torch.backends.cudnn.enabled); print(torch.__config__.show())'";

/// Runs the layers on what was judged clean.
pub(super) fn run(prefix: &Path, judged: &Judged, choice: SmokeChoice, printer: &Printer) -> SmokeOutcome {
    let Judged { installed, native, machine, .. } = judged;
    let has_gpus = machine.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty()) && !judged.given_no_gpu;
    let built: Vec<(Framework, Built)> = frameworks(installed)
        .into_iter()
        .map(|framework| (framework, built(framework, installed, &judged.locked_frameworks)))
        .collect();
    let seconds =
        std::env::var("ENVLOCK_SMOKE_TIMEOUT").ok().and_then(|t| t.parse().ok()).unwrap_or(SMOKE_LIMIT_S);
    let library = |start: &str| {
        let objects = native.process.iter().flat_map(|process| &process.objects);
        let found = objects.filter(|o| o.soname.as_deref().is_some_and(|soname| soname.starts_with(start)));
        found.map(|object| object.file.clone()).next()
    };
    let plan = smoke::Plan {
        prefix: prefix.to_path_buf(),
        python: installed.python.map(|p| p.minor),
        limit: Duration::from_secs(seconds),
        program: std::env::current_exe().unwrap_or_else(|_| "envlock".into()),
        runtime: library("libcudart.so."),
        cublas: library("libcublas.so."),
        cudnn: library("libcudnn.so."),
        frameworks: devices(&built, choice, has_gpus),
        visible: judged.visible.clone(),
        triton: installed.distributions.iter().any(|d| d.name == "triton"),
    };
    let bar = printer.progress("smoke test");
    bar.enable_steady_tick(Duration::from_millis(100));
    let outcome = smoke::run(&plan, &mut |layer| bar.set_message(format!("smoke test: {layer}")));
    bar.finish_and_clear();
    #[cfg(unix)]
    if let End::Interrupted(signal) = outcome.end {
        // Everything is put away: now the signal does what it would have done.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    outcome
}

/// The frameworks that are installed, each once.
pub(super) fn frameworks(installed: &Installed) -> Vec<Framework> {
    let mut found = Vec::new();
    for (package, framework) in Framework::ALL {
        if installed.distributions.iter().any(|d| d.name == package) && !found.contains(&framework) {
            found.push(framework);
        }
    }
    found
}

/// What a framework was built for, as far as its files tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Built {
    Cuda,
    Cpu,
    Unknown,
}

/// `locked` are the packages with the frameworks' code for GPUs that the lock has, torch's aside.
fn built(framework: Framework, installed: &Installed, locked: &[String]) -> Built {
    let has = |wanted: &dyn Fn(&str) -> bool| installed.distributions.iter().any(|d| wanted(&d.name));
    match framework {
        Framework::Torch => {
            let torch = installed.distributions.iter().find(|d| d.name == "torch");
            let has_cuda =
                |d: &Distribution| d.libraries.iter().any(|path| path.ends_with("/libtorch_cuda.so"));
            match torch.map(|d| (d.variant.as_deref(), has_cuda(d))) {
                Some((Some(variant), _)) if variant.starts_with("cu") => Built::Cuda,
                // A build of somebody's own says no flavour.
                Some((None, true)) => Built::Cuda,
                Some((Some("cpu"), _)) => Built::Cpu,
                _ => Built::Unknown,
            }
        }
        // One package serves both; what the lock says of it is what is meant.
        Framework::Tensorflow if has(&|name| name == "tensorflow-gpu") => Built::Cuda,
        Framework::Tensorflow if has(&|name| name == "tensorflow-cpu") => Built::Cpu,
        Framework::Tensorflow if locked.iter().any(|name| name == "tensorflow") => Built::Cuda,
        Framework::Tensorflow => Built::Unknown,
        // Its code for GPUs is a package of its own.
        Framework::Jax if has(&|name| name.starts_with("jax-cuda")) => Built::Cuda,
        Framework::Jax => Built::Cpu,
    }
}

/// Where each framework has to run. A GPU that is here and that a framework built for it does not see is a finding, not
/// a reason to compute on the CPU; a framework built for the CPU does so by right.
fn devices(built: &[(Framework, Built)], choice: SmokeChoice, has_gpus: bool) -> Vec<(Framework, Devices)> {
    let any_for_gpu = built.iter().any(|(_, built)| *built != Built::Cpu);
    let of = |built: Built| match (choice, built) {
        (SmokeChoice::Cpu, _) => Devices::Cpu,
        (SmokeChoice::Cuda, Built::Cpu) if any_for_gpu => Devices::Cpu,
        // Of builds for the CPU alone, that they see no GPU is the answer.
        (SmokeChoice::Cuda, _) => Devices::Cuda,
        (_, Built::Cpu) => Devices::Cpu,
        (_, Built::Cuda) if has_gpus => Devices::Cuda,
        _ => Devices::Auto,
    };
    built.iter().map(|(framework, built)| (*framework, of(*built))).collect()
}

/// That torch ran with another cuDNN than the lock has: whatever the files say, this one was loaded.
fn other_cudnn(outcome: &SmokeOutcome, locked: &DottedVersion) -> Option<String> {
    let check = outcome.checks.iter().find(|check| check.name == "cudnn" && check.layer == "torch")?;
    let loaded = cudnn_of_integer(check.detail.strip_prefix("cuDNN ")?.trim().parse().ok()?)?;
    // The lock has four parts, the library says three.
    let same = locked.as_str() == loaded || locked.as_str().starts_with(&format!("{loaded}."));
    (!same).then(|| format!("torch ran with cuDNN {loaded}, and the lock has {locked}"))
}

/// What asks a framework itself why a check failed.
fn what_to_ask(check: &Check) -> Option<String> {
    let command = match (check.name.as_str(), check.layer.as_str()) {
        ("device", "torch") => "python -c 'import torch; torch.cuda.init()'",
        ("device", "tensorflow") => {
            "python -c 'import tensorflow as tf; print(tf.config.list_physical_devices(\"GPU\"))'"
        }
        ("device", "jax") => "python -c 'import jax; print(jax.devices(\"cuda\"))'",
        ("init" | "device", _) => "nvidia-smi",
        _ => return None,
    };
    Some(command.to_owned())
}

/// The outcome as an area of the report.
pub(super) fn area(outcome: &SmokeOutcome, locked_cudnn: Option<&DottedVersion>) -> Area {
    let problem = |code: Code, message: String| Finding {
        code,
        severity: Severity::Error,
        message,
        fix: None,
        r#where: None,
    };
    let failed = outcome.checks.iter().filter(|check| !check.passed);
    let mut findings: Vec<Finding> = failed
        .map(|check| {
            let message = format!(
                "{} on {}: {}",
                check.name,
                check.device,
                crate::model::text::clean(&check.detail, 300)
            );
            if check.name.starts_with(SPEED) || (check.name == "cudnn" && check.layer == "torch") {
                Finding { fix: Some(WHAT_SWITCHES_CUDNN.to_owned()), ..problem(Code::CudnnNotUsed, message) }
            } else {
                Finding { fix: what_to_ask(check), ..problem(Code::SmokeFailed, message) }
            }
        })
        .collect();
    findings.extend(
        locked_cudnn
            .and_then(|locked| other_cudnn(outcome, locked))
            .map(|text| problem(Code::SmokeFailed, text)),
    );
    let says = outcome.cudnn_says.as_ref().map(|line| format!("; cuDNN's log: `{line}`")).unwrap_or_default();
    if let Some(last) = findings.last_mut() {
        last.message.push_str(&says);
    }
    match &outcome.end {
        End::Done => {}
        End::Crashed { layer, what } => findings
            .push(problem(Code::SmokeCrashed, format!("the smoke test stopped at {layer}: {what}{says}"))),
        End::TimedOut { layer, seconds } => {
            let message = format!("the smoke test did not end in {seconds} s; it was at {layer}");
            let fix = format!(
                "give it longer with ENVLOCK_SMOKE_TIMEOUT={}, and look at `dmesg` meanwhile",
                seconds * 3
            );
            findings.push(Finding { fix: Some(fix), ..problem(Code::SmokeTimeout, message) });
        }
        End::Interrupted(_) => {
            findings.push(problem(Code::SmokeCrashed, "the smoke test was interrupted".to_owned()));
        }
        End::NotStarted(why) => {
            findings.push(problem(Code::SmokeCrashed, format!("the smoke test did not start: {why}")))
        }
    }
    Area { name: "smoke".into(), findings, summary: summary(outcome) }
}

/// What ran, a sentence for each framework: `torch 2.9.1+cu128: conv forward+backward on cuda:0, fp32 error 3e-06,
/// cuDNN 4.1x`. What went wrong is said by the findings.
fn summary(outcome: &SmokeOutcome) -> String {
    let mut sentences: Vec<String> = Vec::new();
    for import in outcome.checks.iter().filter(|check| check.name == "import") {
        let of = |name: &str, field: &dyn Fn(&str) -> Option<f64>| -> Vec<f64> {
            let here = outcome.checks.iter().filter(|check| check.layer == import.layer && check.passed);
            here.filter(|check| check.name.starts_with(name))
                .filter_map(|check| field(&check.detail))
                .collect()
        };
        let mut sentence = crate::model::text::clean(&import.detail, 80);
        let errors = of("conv-fp32", &|detail| number(detail.strip_prefix("relative error ")?));
        if let Some(worst) = errors.iter().copied().reduce(f64::max) {
            let checks = outcome.checks.iter().filter(|check| check.layer == import.layer);
            let mut devices = checks.filter(|check| check.name == "conv-fp32").map(|check| &check.device);
            let on = match (errors.len(), devices.next()) {
                (1, Some(device)) => crate::model::text::clean(device, 20),
                (count, _) => format!("{count} GPUs"),
            };
            sentence.push_str(&format!(": conv forward+backward on {on}, fp32 error {worst:.0e}"));
        }
        let ratios = of(SPEED, &|detail| number(detail.strip_prefix("cuDNN ")?));
        if let (Some(least), Some(most)) =
            (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max))
        {
            let text = if most - least < 0.05 {
                format!("{most:.1}x")
            } else {
                format!("{least:.1}x to {most:.1}x")
            };
            sentence.push_str(&format!(", cuDNN {text}"));
        }
        sentences.push(sentence);
    }
    match &outcome.end {
        End::Crashed { layer, .. } | End::TimedOut { layer, .. } => {
            sentences.push(format!("stopped at {layer}"))
        }
        End::Done | End::NotStarted(_) | End::Interrupted(_) => {}
    }
    sentences.join(". ")
}

/// The number that a text begins with.
fn number(text: &str) -> Option<f64> {
    let end = text.find([',', 'x', ' ']).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_framework_was_built_for() {
        let installed = |name: &str, variant: Option<&str>, libraries: &[&str]| Installed {
            distributions: vec![Distribution {
                name: name.to_owned(),
                variant: variant.map(str::to_owned),
                libraries: libraries.iter().map(|path| (*path).to_owned()).collect(),
                ..Distribution::default()
            }],
            ..Installed::default()
        };
        let (torch, tensorflow, jax) = (Framework::Torch, Framework::Tensorflow, Framework::Jax);
        let locked = ["tensorflow".to_owned()];
        let table = [
            (torch, installed("torch", Some("cu128"), &[]), &[][..], Built::Cuda),
            (torch, installed("torch", Some("cpu"), &[]), &[], Built::Cpu),
            (torch, installed("torch", None, &["torch/lib/libtorch_cuda.so"]), &[], Built::Cuda),
            (torch, installed("torch", None, &["torch/lib/libtorch.so"]), &[], Built::Unknown),
            (torch, installed("torch", Some("rocm6.4"), &[]), &[], Built::Unknown),
            (jax, installed("jax-cuda13-plugin", None, &[]), &[], Built::Cuda),
            (jax, installed("jax", None, &[]), &[], Built::Cpu),
            (tensorflow, installed("tensorflow-gpu", None, &[]), &[], Built::Cuda),
            (tensorflow, installed("tensorflow-cpu", None, &[]), &[], Built::Cpu),
            (tensorflow, installed("tensorflow", None, &[]), &locked, Built::Cuda),
            (tensorflow, installed("tensorflow", None, &[]), &[], Built::Unknown),
        ];
        for (framework, installed, locked, expected) in table {
            assert_eq!(built(framework, &installed, locked), expected, "{installed:?}");
        }
    }

    #[test]
    fn where_each_framework_runs() {
        use Built::{Cpu, Cuda, Unknown};
        let (torch, jax) = (Framework::Torch, Framework::Jax);
        let table = [
            // What torch and JAX were built for, the choice, whether GPUs are here; where they run.
            (Cuda, Cpu, SmokeChoice::Auto, true, Devices::Cuda, Devices::Cpu),
            (Cuda, Cuda, SmokeChoice::Auto, true, Devices::Cuda, Devices::Cuda),
            (Cpu, Cuda, SmokeChoice::Auto, true, Devices::Cpu, Devices::Cuda),
            (Cuda, Cuda, SmokeChoice::Auto, false, Devices::Auto, Devices::Auto),
            (Unknown, Cpu, SmokeChoice::Auto, true, Devices::Auto, Devices::Cpu),
            (Cuda, Cpu, SmokeChoice::Cuda, false, Devices::Cuda, Devices::Cpu),
            (Cpu, Cpu, SmokeChoice::Cuda, true, Devices::Cuda, Devices::Cuda),
            (Cuda, Cuda, SmokeChoice::Cpu, true, Devices::Cpu, Devices::Cpu),
        ];
        for (of_torch, of_jax, choice, has_gpus, on_torch, on_jax) in table {
            let got = devices(&[(torch, of_torch), (jax, of_jax)], choice, has_gpus);
            assert_eq!(
                got,
                [(torch, on_torch), (jax, on_jax)],
                "{of_torch:?} {of_jax:?} {choice:?} {has_gpus}"
            );
        }
    }

    #[test]
    fn cudnn_that_was_loaded_is_held_against_the_lock() {
        let outcome = |detail: &str| SmokeOutcome {
            checks: vec![Check {
                name: "cudnn".into(),
                layer: "torch".into(),
                device: "cuda".into(),
                passed: true,
                detail: detail.into(),
            }],
            end: End::Done,
            cudnn_says: None,
        };
        let locked: DottedVersion = "9.10.2.21".parse().unwrap();
        for (detail, differs) in
            [("cuDNN 91002", false), ("cuDNN 90501", true), ("cuDNN 8907", true), ("cuDNN None", false)]
        {
            let area = area(&outcome(detail), Some(&locked));
            assert_eq!(!area.findings.is_empty(), differs, "{detail}");
        }
        assert!(area(&outcome("cuDNN 90501"), None).findings.is_empty());
    }
}
