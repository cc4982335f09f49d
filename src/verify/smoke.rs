//! The smoke test: the device that each framework has to use, and findings from the outcome.

use super::findings::{self, Stopped};
use super::{Area, AreaKind};
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::model::installed::{Distribution, Installed};
use crate::model::smoke_test::{Check, Devices, End, Framework, SPEED, SmokeOutcome};
use crate::model::variant::{CPU, is_cuda};
use crate::model::version::{DottedVersion, cudnn_of_integer};

/// The devices that the user requests for the smoke test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Every GPU, or the CPU if there is none.
    Auto,
    /// The CPU.
    Cpu,
    /// Every GPU.
    Cuda,
}

/// The devices that each installed framework has to use. `locked`: the locked packages that contain GPU code of a
/// framework other than torch.
pub fn plan(
    installed: &Installed,
    locked: &[String],
    wanted: Wanted,
    has_gpus: bool,
) -> Vec<(Framework, Devices)> {
    let built: Vec<(Framework, Built)> = frameworks(installed)
        .into_iter()
        .map(|framework| (framework, built(framework, installed, locked)))
        .collect();
    devices(&built, wanted, has_gpus)
}

/// Whether a package is a framework that the smoke test imports: torch, TensorFlow, JAX.
pub fn is_framework(package: &str) -> bool {
    Framework::ALL.iter().any(|(name, _)| *name == package)
}

/// The installed frameworks, without duplicates.
pub fn frameworks(installed: &Installed) -> Vec<Framework> {
    let mut found = Vec::new();
    for (package, framework) in Framework::ALL {
        if installed.distributions.iter().any(|d| d.name == package) && !found.contains(&framework) {
            found.push(framework);
        }
    }
    found
}

/// What a framework was built for, according to its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Built {
    Cuda,
    Cpu,
    Unknown,
}

/// What a framework was built for. `locked` as in [`plan`].
fn built(framework: Framework, installed: &Installed, locked: &[String]) -> Built {
    let has = |wanted: &dyn Fn(&str) -> bool| installed.distributions.iter().any(|d| wanted(&d.name));
    match framework {
        Framework::Torch => {
            let torch = installed.distributions.iter().find(|d| d.name == "torch");
            let has_cuda =
                |d: &Distribution| d.libraries.iter().any(|path| path.ends_with("/libtorch_cuda.so"));
            match torch.map(|d| (d.variant.as_deref(), has_cuda(d))) {
                Some((Some(variant), _)) if is_cuda(variant) => Built::Cuda,
                // A custom build has no variant.
                Some((None, true)) => Built::Cuda,
                Some((Some(CPU), _)) => Built::Cpu,
                _ => Built::Unknown,
            }
        }
        // `tensorflow` supports CPU and CUDA; the lock tells which one is intended.
        Framework::Tensorflow if has(&|name| name == "tensorflow-gpu") => Built::Cuda,
        Framework::Tensorflow if has(&|name| name == "tensorflow-cpu") => Built::Cpu,
        Framework::Tensorflow if locked.iter().any(|name| name == "tensorflow") => Built::Cuda,
        Framework::Tensorflow => Built::Unknown,
        // JAX's GPU code is in separate packages.
        Framework::Jax if has(&|name| name.starts_with("jax-cuda")) => Built::Cuda,
        Framework::Jax => Built::Cpu,
    }
}

/// The devices that each framework has to use. A framework built for CUDA must not fall back to the CPU on a machine
/// with GPUs.
fn devices(built: &[(Framework, Built)], choice: Wanted, has_gpus: bool) -> Vec<(Framework, Devices)> {
    let any_for_gpu = built.iter().any(|(_, built)| *built != Built::Cpu);
    let of = |built: Built| match (choice, built) {
        (Wanted::Cpu, _) => Devices::Cpu,
        (Wanted::Cuda, Built::Cpu) if any_for_gpu => Devices::Cpu,
        // If all builds are for the CPU, the request for CUDA has to fail: they see no GPU.
        (Wanted::Cuda, _) => Devices::Cuda,
        (_, Built::Cpu) => Devices::Cpu,
        (_, Built::Cuda) if has_gpus => Devices::Cuda,
        _ => Devices::Auto,
    };
    built.iter().map(|(framework, built)| (*framework, of(*built))).collect()
}

/// A message if torch loaded another cuDNN than the locked one.
fn other_cudnn(outcome: &SmokeOutcome, locked: &DottedVersion) -> Option<String> {
    let check = outcome.checks.iter().find(|check| check.name == "cudnn" && check.layer == "torch")?;
    let loaded: DottedVersion = cudnn_of_integer(check.figure? as u32)?.parse().ok()?;
    // The locked version has four parts, the library's has three.
    let same = locked.starts_with(&loaded);
    (!same).then(|| format!("torch loaded cuDNN {loaded}, the lock has {locked}"))
}

/// The command that makes a framework show why a check failed.
fn what_to_ask(check: &Check) -> Option<Fix> {
    let command = match (check.name.as_str(), check.layer.as_str()) {
        ("device", "torch") => "python -c 'import torch; torch.cuda.init()'",
        ("device", "tensorflow") => {
            "python -c 'import tensorflow as tf; print(tf.config.list_physical_devices(\"GPU\"))'"
        }
        ("device", "jax") => "python -c 'import jax; print(jax.devices(\"cuda\"))'",
        ("init" | "device", _) => "nvidia-smi",
        _ => return None,
    };
    Some(Fix::command(command))
}

/// The outcome as an area of the report.
pub fn check(outcome: &SmokeOutcome, locked_cudnn: Option<&DottedVersion>) -> Area {
    let mut found: Vec<Finding> = outcome.checks.iter().filter(|check| !check.passed).map(failed).collect();
    let other = locked_cudnn.and_then(|locked| other_cudnn(outcome, locked));
    found.extend(other.map(|text| findings::smoke_failed(text, None)));
    let says = outcome.cudnn_says.as_ref().map(|line| format!("; cuDNN's log: `{line}`")).unwrap_or_default();
    if let Some(last) = found.last_mut() {
        last.message.push_str(&says);
    }
    match &outcome.end {
        End::Done => {}
        End::Crashed { layer, what } => {
            let what = format!("{what}{says}");
            found.push(findings::smoke_crashed(&Stopped::At { layer: layer.clone(), what }));
        }
        End::TimedOut { layer, seconds } => found.push(findings::smoke_timeout(layer, *seconds)),
        End::Interrupted(_) => found.push(findings::smoke_crashed(&Stopped::Interrupted)),
        End::NotStarted(why) => found.push(findings::smoke_crashed(&Stopped::NotStarted(why.clone()))),
    }
    Area { kind: AreaKind::Smoke, findings: found, summary: summary(outcome), as_locked: None }
}

fn failed(check: &Check) -> Finding {
    let detail = crate::model::text::clean(&check.detail, 300);
    let text = format!("{} on {}: {detail}", check.name, check.device);
    match check.name.starts_with(SPEED) || (check.name == "cudnn" && check.layer == "torch") {
        true => findings::cudnn_not_used(text),
        false => findings::smoke_failed(text, what_to_ask(check)),
    }
}

/// One sentence for each framework: `torch 2.9.1+cu128: conv forward+backward on cuda:0, fp32 error 3e-06,
/// cuDNN 4.1x`.
fn summary(outcome: &SmokeOutcome) -> String {
    let mut sentences: Vec<String> = Vec::new();
    for import in outcome.checks.iter().filter(|check| check.name == "import") {
        let of = |name: &str| -> Vec<f64> {
            let here = outcome.checks.iter().filter(|check| check.layer == import.layer && check.passed);
            here.filter(|check| check.name.starts_with(name)).filter_map(|check| check.figure).collect()
        };
        let mut sentence = crate::model::text::clean(&import.detail, 80);
        let errors = of("conv-fp32");
        if let Some(worst) = errors.iter().copied().reduce(f64::max) {
            let checks = outcome.checks.iter().filter(|check| check.layer == import.layer);
            let mut devices = checks.filter(|check| check.name == "conv-fp32").map(|check| &check.device);
            let on = match (errors.len(), devices.next()) {
                (1, Some(device)) => crate::model::text::clean(device, 20),
                (count, _) => format!("{count} GPUs"),
            };
            sentence.push_str(&format!(": conv forward+backward on {on}, fp32 error {worst:.0e}"));
        }
        let ratios = of(SPEED);
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
            // Builds of torch and JAX, the user's choice, whether there are GPUs; expected devices of torch and JAX.
            (Cuda, Cpu, Wanted::Auto, true, Devices::Cuda, Devices::Cpu),
            (Cuda, Cuda, Wanted::Auto, true, Devices::Cuda, Devices::Cuda),
            (Cpu, Cuda, Wanted::Auto, true, Devices::Cpu, Devices::Cuda),
            (Cuda, Cuda, Wanted::Auto, false, Devices::Auto, Devices::Auto),
            (Unknown, Cpu, Wanted::Auto, true, Devices::Auto, Devices::Cpu),
            (Cuda, Cpu, Wanted::Cuda, false, Devices::Cuda, Devices::Cpu),
            (Cpu, Cpu, Wanted::Cuda, true, Devices::Cuda, Devices::Cuda),
            (Cuda, Cuda, Wanted::Cpu, true, Devices::Cpu, Devices::Cpu),
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
    fn loaded_cudnn_is_compared_with_the_lock() {
        let outcome = |figure: Option<f64>| SmokeOutcome {
            checks: vec![Check {
                name: "cudnn".into(),
                layer: "torch".into(),
                device: "cuda".into(),
                passed: true,
                detail: String::new(),
                figure,
            }],
            end: End::Done,
            cudnn_says: None,
        };
        let locked: DottedVersion = "9.10.2.21".parse().unwrap();
        for (figure, differs) in
            [(Some(91002.0), false), (Some(90501.0), true), (Some(8907.0), true), (None, false)]
        {
            let area = check(&outcome(figure), Some(&locked));
            assert_eq!(!area.findings.is_empty(), differs, "{figure:?}");
        }
        assert!(check(&outcome(Some(90501.0)), None).findings.is_empty());
    }
}
