//! The smoke test: layer by layer from the driver up to a convolution of the framework and a compiled kernel,
//! each in a child process with a time limit. The first layer that fails ends the chain and is named.
//!
//! A crash, an abort or a hang is an outcome, never this program's own failure. The layers below the framework
//! are this program itself, started anew ([`native::run`]); those above are scripts for the environment's
//! Python.

mod child;
mod cudnn_log;
pub mod native;
mod speed;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::smoke::{Check, Devices, End, Framework, SPEED, SmokeOutcome};

/// What every script starts with.
const SKELETON: &str = include_str!("scripts/skeleton.py");
/// The frameworks' own parts, run in the environment.
const TORCH: &str = include_str!("scripts/torch.py");
const TENSORFLOW: &str = include_str!("scripts/tensorflow.py");
const JAX: &str = include_str!("scripts/jax.py");
/// The layer of compiled kernels.
const COMPILE: &str = include_str!("scripts/compile.py");
/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The environment.
    pub prefix: PathBuf,
    /// Its Python series' minor, where known.
    pub python: Option<u32>,
    /// How long one layer may take.
    pub limit: Duration,
    /// This program's own file: it is started for the native layers.
    pub program: PathBuf,
    /// The environment's own libcudart, where it has one.
    pub runtime: Option<PathBuf>,
    /// The environment's own libcublas.
    pub cublas: Option<PathBuf>,
    /// The environment's own libcudnn.
    pub cudnn: Option<PathBuf>,
    /// The frameworks that are installed, each with where it has to run: one built for the CPU may stand beside one
    /// built for CUDA.
    pub frameworks: Vec<(Framework, Devices)>,
    /// Whether torch compiles kernels by Triton here.
    pub triton: bool,
    /// What `CUDA_VISIBLE_DEVICES` has to be, where not every GPU is meant.
    pub visible: Option<String>,
}

/// A layer that hung is given so long with cuDNN's log on.
const AGAIN: Duration = Duration::from_secs(60);

/// The variable that tells CUDA which GPUs there are.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Puts the layer's name before the step that was reached in it: `torch, conv-fp32 on cuda:0`.
fn within(mut end: End, name: &str) -> End {
    if let End::Crashed { layer, .. } | End::TimedOut { layer, .. } = &mut end
        && layer.split(' ').next() != Some(name)
    {
        *layer = format!("{name}, {layer}");
    }
    end
}

/// What a child writes as it goes: a crash leaves what was reached.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    checks: Vec<Check>,
    #[serde(default)]
    compared: Vec<speed::Compared>,
    reached: Reached,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Reached {
    layer: String,
    device: Option<String>,
}

/// A layer, from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Driver,
    Runtime,
    Cublas,
    Cudnn,
    Framework(Framework, Devices),
    Compile,
}

/// The Python of an environment.
pub fn interpreter(prefix: &Path) -> Option<PathBuf> {
    ["bin/python", "bin/python3", "python.exe", "Scripts/python.exe"]
        .iter()
        .map(|p| prefix.join(p))
        .find(|p| p.exists())
}

/// Runs the layers. `tell` is given the name of each before it starts.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> SmokeOutcome {
    let mut outcome = SmokeOutcome { checks: Vec::new(), end: End::Done, cudnn_says: None };
    // Made absolute: the test runs in a folder of its own, where a relative prefix leads nowhere.
    let prefix = std::path::absolute(&plan.prefix).unwrap_or_else(|_| plan.prefix.clone());
    let Some(python) = interpreter(&prefix) else {
        outcome.end = End::NotStarted(format!("`{}` has no Python", plan.prefix.display()));
        return outcome;
    };
    let interrupts = child::Interrupts::watch();
    for layer in layers(plan) {
        tell(layer.name());
        // A fresh folder: nothing of the current one can shadow torch.
        let folder = match tempfile::Builder::new().prefix("envlock-smoke-").tempdir() {
            Ok(folder) => folder,
            Err(error) => {
                outcome.end = End::NotStarted(error.to_string());
                return outcome;
            }
        };
        let out = folder.path().join("out.json");
        let again = || layer.command(plan, &python, folder.path(), &out);
        let command = match again() {
            Ok(command) => command,
            Err(error) => {
                outcome.end = End::NotStarted(error.to_string());
                return outcome;
            }
        };
        let mut left = child::run(command, folder.path(), &out, plan.limit, &interrupts);
        left.checks.extend(left.compared.drain(..).filter_map(speed_check));
        // A child says which step it was at; what the reader is told is the layer.
        left.checks.iter_mut().for_each(|check| layer.name().clone_into(&mut check.layer));
        let failed = left.end != End::Done || left.checks.iter().any(|check| !check.passed);
        if failed
            && layer != Layer::Driver
            && concerns_cudnn(&left)
            && let Ok(mut command) = again()
        {
            command.envs(cudnn_log::VARIABLES);
            let second = child::run(command, folder.path(), &out, plan.limit.min(AGAIN), &interrupts);
            outcome.cudnn_says = cudnn_log::failing_call(&second.stderr);
        }
        outcome.checks.extend(left.checks);
        outcome.end = within(left.end, layer.name());
        if failed {
            break;
        }
    }
    // One that came as the last child ended is not lost.
    if let Some(signal) = interrupts.came() {
        outcome.end = End::Interrupted(signal);
    }
    outcome
}

fn layers(plan: &Plan) -> Vec<Layer> {
    let frameworks =
        plan.frameworks.iter().map(|(framework, devices)| Layer::Framework(*framework, *devices));
    let on_gpu = |wanted: Option<Framework>| {
        plan.frameworks.iter().any(|(framework, devices)| {
            *devices == Devices::Cuda && wanted.is_none_or(|wanted| wanted == *framework)
        })
    };
    if !on_gpu(None) {
        return frameworks.collect();
    }
    let mut layers = vec![Layer::Driver];
    layers.extend(plan.runtime.is_some().then_some(Layer::Runtime));
    for (layer, library) in [(Layer::Cublas, &plan.cublas), (Layer::Cudnn, &plan.cudnn)] {
        layers.extend((plan.runtime.is_some() && library.is_some()).then_some(layer));
    }
    layers.extend(frameworks);
    layers.extend((plan.triton && on_gpu(Some(Framework::Torch))).then_some(Layer::Compile));
    layers
}

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Layer::Driver => "driver",
            Layer::Runtime => "runtime",
            Layer::Cublas => "cublas",
            Layer::Cudnn => "cudnn",
            Layer::Framework(Framework::Torch, _) => "torch",
            Layer::Framework(Framework::Tensorflow, _) => "tensorflow",
            Layer::Framework(Framework::Jax, _) => "jax",
            Layer::Compile => "compile",
        }
    }

    fn command(self, plan: &Plan, python: &Path, folder: &Path, out: &Path) -> std::io::Result<Command> {
        let script = match self {
            Layer::Framework(Framework::Torch, _) => TORCH,
            Layer::Framework(Framework::Tensorflow, _) => TENSORFLOW,
            Layer::Framework(Framework::Jax, _) => JAX,
            Layer::Compile => COMPILE,
            Layer::Driver | Layer::Runtime | Layer::Cublas | Layer::Cudnn => {
                let mut command = Command::new(&plan.program);
                command.arg(native::COMMAND).arg(self.name()).arg(out);
                let library = match self {
                    Layer::Cublas => &plan.cublas,
                    Layer::Cudnn => &plan.cudnn,
                    _ => &None,
                };
                command.args(plan.runtime.iter().chain(library));
                if let Some(list) = &plan.visible {
                    command.env(VISIBLE, list);
                }
                return Ok(command);
            }
        };
        let file = folder.join("envlock_smoke.py");
        fs_err::write(&file, format!("{SKELETON}\n{script}"))?;
        let mut command = Command::new(python);
        // -P keeps the script's folder off sys.path; Pythons before 3.11 do not have it, and the folder
        // holds nothing else.
        if plan.python.is_none_or(|minor| minor >= 11) {
            command.arg("-P");
        }
        // JAX and TensorFlow take most of a card's memory at the start; whoever trains beside us has it already.
        command.env("XLA_PYTHON_CLIENT_PREALLOCATE", "false").env("TF_FORCE_GPU_ALLOW_GROWTH", "true");
        if let Some(list) = &plan.visible {
            command.env(VISIBLE, list);
        }
        command.arg(&file).arg(out).arg(match self {
            Layer::Framework(_, Devices::Auto) => "auto",
            Layer::Framework(_, Devices::Cpu) => "cpu",
            _ => "cuda",
        });
        Ok(command)
    }
}

/// A comparison with cuDNN and without it as a check; `None` where it has no times.
fn speed_check(compared: speed::Compared) -> Option<Check> {
    let compared = compared.bounded();
    let judged = compared.judge()?;
    Some(Check {
        name: format!("{SPEED}{}", compared.case),
        layer: String::new(),
        passed: judged.verdict != speed::Verdict::NotUsed,
        detail: compared.told(&judged),
        figure: Some(judged.ratio).filter(|ratio| ratio.is_finite()),
        device: compared.device,
    })
}

/// Whether a failure is in cuDNN or in what uses it.
fn concerns_cudnn(left: &child::Left) -> bool {
    let words = |text: &str| text.to_lowercase().contains("cudnn") || text.contains("conv");
    match &left.end {
        End::Crashed { layer, what } => words(layer) || words(what),
        End::TimedOut { layer, .. } => words(layer),
        End::NotStarted(_) | End::Interrupted(_) => false,
        End::Done => left.checks.iter().any(|check| !check.passed && words(&check.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain() {
        let plan = |devices, runtime: bool, cudnn: bool, triton| Plan {
            prefix: "/x".into(),
            python: Some(12),
            visible: None,
            limit: Duration::from_secs(1),
            program: "/bin/envlock".into(),
            runtime: runtime.then(|| "/libcudart.so.12".into()),
            cublas: cudnn.then(|| "/libcublas.so.12".into()),
            cudnn: cudnn.then(|| "/libcudnn.so.9".into()),
            frameworks: vec![(Framework::Torch, devices), (Framework::Jax, Devices::Cpu)],
            triton,
        };
        let names = |plan: Plan| layers(&plan).into_iter().map(Layer::name).collect::<Vec<_>>().join(" ");
        assert_eq!(
            names(plan(Devices::Cuda, true, true, true)),
            "driver runtime cublas cudnn torch jax compile"
        );
        assert_eq!(names(plan(Devices::Cuda, false, true, false)), "driver torch jax");
        assert_eq!(names(plan(Devices::Auto, true, true, true)), "torch jax");
    }
}
