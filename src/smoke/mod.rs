//! The smoke test: layers from the driver up to a convolution of the framework and a compiled kernel, each in a child
//! process with a time limit. The first layer that fails ends the test.
//!
//! A crash, an abort or a hang of a layer is an outcome, not a failure of envlock. The layers below the framework run
//! envlock itself ([`native::run`]); the others run scripts in the environment's Python.

mod child;
mod cudnn_log;
mod kernel_run;
pub mod kernels;
pub mod native;
mod speed;

#[cfg(unix)]
pub(crate) use child::is_ignored;
pub use kernel_run::selftest;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::kernel_outcome::DriverDevice;
use crate::model::smoke_test::{Check, Devices, End, Framework, SPEED, SmokeOutcome};

/// The common start of all scripts.
const SKELETON: &str = include_str!("scripts/skeleton.py");
/// The scripts of the frameworks, run in the environment.
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
    /// The minor version of its Python, if known.
    pub python: Option<u32>,
    /// Time limit of one layer.
    pub limit: Duration,
    /// envlock's executable, which runs the native layers.
    pub program: PathBuf,
    /// The environment's libcudart, if it has one.
    pub runtime: Option<PathBuf>,
    /// The environment's libcublas, if it has one.
    pub cublas: Option<PathBuf>,
    /// The environment's libcudnn, if it has one.
    pub cudnn: Option<PathBuf>,
    /// The installed frameworks, each with the devices that it has to use: one may be built for the CPU and another
    /// for CUDA.
    pub frameworks: Vec<(Framework, Devices)>,
    /// Whether torch can compile kernels with Triton.
    pub triton: bool,
    /// The value for `CUDA_VISIBLE_DEVICES`, if not every GPU is tested.
    pub visible: Option<String>,
}

/// Time limit for the second run of a failed layer, with cuDNN's log enabled.
const RETRY_LIMIT: Duration = Duration::from_secs(60);

/// The variable that limits which GPUs CUDA shows.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Prefixes the reached step with the layer's name: `torch, conv-fp32 on cuda:0`.
fn within(mut end: End, name: &str) -> End {
    if let End::Crashed { layer, .. } | End::TimedOut { layer, .. } = &mut end
        && layer.split(' ').next() != Some(name)
    {
        *layer = format!("{name}, {layer}");
    }
    end
}

/// The document that a child rewrites after each step, so that a crash preserves the state.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    checks: Vec<Check>,
    #[serde(default)]
    compared: Vec<speed::Compared>,
    #[serde(default)]
    devices: Vec<DriverDevice>,
    reached: Reached,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Reached {
    layer: String,
    device: Option<String>,
}

/// The layers, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Driver,
    Runtime,
    Cublas,
    Cudnn,
    Framework(Framework, Devices),
    Compile,
}

/// The Python interpreter of an environment.
pub fn interpreter(prefix: &Path) -> Option<PathBuf> {
    ["bin/python", "bin/python3", "python.exe", "Scripts/python.exe"]
        .iter()
        .map(|p| prefix.join(p))
        .find(|p| p.exists())
}

/// Runs the layers. `tell` receives the name of each layer before it starts.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> SmokeOutcome {
    let mut outcome = SmokeOutcome { checks: Vec::new(), end: End::Done, cudnn_says: None };
    // The test runs in another folder, so a relative prefix must become absolute.
    let prefix = std::path::absolute(&plan.prefix).unwrap_or_else(|_| plan.prefix.clone());
    let Some(python) = interpreter(&prefix) else {
        outcome.end = End::NotStarted(format!("`{}` has no Python", plan.prefix.display()));
        return outcome;
    };
    let interrupts = child::Interrupts::watch();
    for layer in layers(plan) {
        tell(layer.name());
        // In a new folder, no file can shadow torch.
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
        // The child records the step; the report needs the layer.
        left.checks.iter_mut().for_each(|check| layer.name().clone_into(&mut check.layer));
        let failed = left.end != End::Done || left.checks.iter().any(|check| !check.passed);
        if failed
            && layer != Layer::Driver
            && concerns_cudnn(&left)
            && let Ok(mut command) = again()
        {
            command.envs(cudnn_log::VARIABLES);
            let second = child::run(command, folder.path(), &out, plan.limit.min(RETRY_LIMIT), &interrupts);
            outcome.cudnn_says = cudnn_log::failing_call(&second.stderr);
        }
        outcome.checks.extend(left.checks);
        outcome.end = within(left.end, layer.name());
        if failed {
            break;
        }
    }
    // A signal may have arrived while the last child ended.
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
        // -P keeps the script's folder off sys.path. Python before 3.11 does not have it; the folder contains no
        // other module.
        if plan.python.is_none_or(|minor| minor >= 11) {
            command.arg("-P");
        }
        // By default, JAX and TensorFlow allocate most of the GPU's memory, which fails beside a running training.
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

/// The check for a comparison with and without cuDNN; `None` if it has no times.
fn speed_check(compared: speed::Compared) -> Option<Check> {
    let compared = compared.bounded();
    let judged = compared.judge()?;
    Some(Check {
        name: format!("{SPEED}{}", compared.case),
        layer: String::new(),
        passed: judged.verdict != speed::CudnnUse::NotUsed,
        detail: compared.describe(&judged),
        figure: Some(judged.ratio).filter(|ratio| ratio.is_finite()),
        device: compared.device,
    })
}

/// Whether a failure may involve cuDNN.
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
