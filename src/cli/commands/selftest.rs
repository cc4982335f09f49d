//! `envlock selftest --gpu`: whether the GPUs of this machine do what the compatibility data says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::cli::args::GlobalArgs;
use crate::cli::error::{CliError, Failure};
use crate::cli::exit;
use crate::cli::host;
use crate::cli::printer::{DIM, ERROR, GOOD, Printer, wrap};
use crate::cli::settings::Project;
use crate::model::capability::ComputeCapability;
use crate::model::host::Host;
use crate::model::selftest::{DriverDevice, Kernel, Outcome};
use crate::model::smoke::End;
use crate::probe::{Surroundings, each_source};
use crate::registry::Registry;
use crate::smoke::kernels;
use crate::verify::selftest::{Expected, Fact, agrees, expected, facts};

/// The time for all kernels on all GPUs.
const LIMIT: Duration = Duration::from_secs(300);

/// What one GPU did.
#[derive(Debug, Serialize)]
struct Tested {
    index: u32,
    name: String,
    capability: String,
    facts: Vec<Fact>,
    kernels: Vec<Tried>,
}

/// A kernel on a GPU.
#[derive(Debug, Serialize)]
struct Tried {
    form: &'static str,
    target: String,
    cuda: String,
    expected: Expected,
    seen: Outcome,
    /// `null` where nothing is expected.
    agrees: Option<bool>,
}

impl Tested {
    fn differences(&self) -> usize {
        let facts = self.facts.iter().filter(|fact| !fact.agrees).count();
        facts + self.kernels.iter().filter(|tried| tried.agrees == Some(false)).count()
    }
}

pub(super) fn run(global: &GlobalArgs, printer: &Printer) -> Result<u8, CliError> {
    let project = Project::find(global, false)?;
    let registry = project.registry(global)?;
    let program = std::env::current_exe().map_err(|error| CliError::files(error.to_string()))?;
    let prebuilt = kernels::all().map_err(CliError::files)?;
    let all: Vec<Kernel> = prebuilt.into_iter().map(|prebuilt| prebuilt.kernel).collect();
    let progress = printer.progress("loading kernels");
    let (devices, end) = crate::smoke::selftest(&program, LIMIT);
    progress.finish_and_clear();
    let around = Surroundings { root: host::root(), variable: &|name| std::env::var(name).ok() };
    let sources = each_source(&around);
    let machine = host::probed(&registry, &[])?;
    let tested: Vec<Tested> = devices
        .iter()
        .map(|device| Tested {
            index: device.index,
            name: device.name.clone(),
            capability: device.capability.clone(),
            facts: facts(device, &sources),
            kernels: tried(device, &all, &machine, &registry),
        })
        .collect();
    let stopped = stopped(&end);
    let differences: usize = tested.iter().map(Tested::differences).sum();
    match printer.json {
        true => printer.json(&serde_json::json!({
            "driver": machine.driver.as_ref().map(|driver| driver.version.to_string()),
            "gpus": tested,
            "differences": differences,
            "stopped": stopped,
        })),
        false => show(&tested, &machine, printer),
    }
    match (tested.is_empty(), stopped) {
        (true, why) => {
            let why = why.unwrap_or_else(|| "CUDA shows no GPU".to_owned());
            Err(CliError::new(Failure::NoGpu, format!("no kernel was loaded: {why}"))
                .hint("`envlock verify --only machine` looks for the cause"))
        }
        (false, Some(why)) => {
            printer.error(&format!("the test ended early: {why}"), None);
            Ok(exit::NO)
        }
        (false, None) => Ok(if differences == 0 { exit::YES } else { exit::NO }),
    }
}

fn tried(device: &DriverDevice, all: &[Kernel], machine: &Host, registry: &Registry) -> Vec<Tried> {
    let Ok(capability) = device.capability.parse::<ComputeCapability>() else { return Vec::new() };
    let pairs = all.iter().zip(&device.outcomes);
    pairs
        .map(|(kernel, seen)| {
            let expected = expected(registry, machine, capability, kernel);
            Tried {
                form: kernel.form_name(),
                target: kernel.target.to_string(),
                cuda: format!("{}.{}", kernel.cuda.major, kernel.cuda.minor),
                expected,
                agrees: agrees(expected, seen),
                seen: seen.clone(),
            }
        })
        .collect()
}

/// Why the child ended early, if it did.
fn stopped(end: &End) -> Option<String> {
    match end {
        End::Done => None,
        End::Crashed { layer, what } => Some(format!("{layer}: {what}")),
        End::TimedOut { layer, seconds } => Some(format!("{layer}: no answer in {seconds} s")),
        End::NotStarted(why) => Some(why.clone()),
        End::Interrupted(signal) => Some(format!("signal {signal}")),
    }
}

fn show(tested: &[Tested], machine: &Host, printer: &Printer) {
    for gpu in tested {
        let driver = machine.driver.as_ref().map_or_else(String::new, |d| format!(", driver {}", d.version));
        printer
            .out(&format!("GPU {}: {}, compute capability {}{driver}", gpu.index, gpu.name, gpu.capability));
        printer.out("");
        for fact in gpu.facts.iter().filter(|fact| !fact.agrees || printer.verbose) {
            let by: Vec<String> =
                fact.by.iter().map(|(source, value)| format!("{value} ({source})")).collect();
            printer.out(&format!(
                "  {} {}: {}",
                mark(Some(fact.agrees), printer),
                fact.fact,
                wrap(&by.join(", "), 6)
            ));
        }
        printer.out(&table(&gpu.kernels, printer));
        let (all, differ) = (gpu.kernels.len() + gpu.facts.len(), gpu.differences());
        printer.out(&match differ {
            0 => format!("{}: {all} facts and kernels are as the data says", printer.paint(GOOD, "same")),
            _ => format!("{}: {differ} of {all} facts and kernels", printer.paint(ERROR, "different")),
        });
    }
}

/// The kernels, those of one kind and result on one line.
fn table(kernels: &[Tried], printer: &Printer) -> String {
    let mut lines: BTreeMap<(&str, usize), (&Tried, Vec<&str>)> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for tried in kernels {
        let place = order.iter().position(|target| *target == tried.target).unwrap_or_else(|| {
            order.push(&tried.target);
            order.len() - 1
        });
        let same = lines.iter().find(|((form, at), (other, _))| {
            *form == tried.form
                && at / 1000 == place
                && other.expected == tried.expected
                && other.seen == tried.seen
        });
        let key = match same {
            Some((key, _)) => *key,
            None => {
                let mut next = place * 1000;
                while lines.contains_key(&(tried.form, next)) {
                    next += 1;
                }
                (tried.form, next)
            }
        };
        lines.entry(key).or_insert_with(|| (tried, Vec::new())).1.push(&tried.cuda);
    }
    let mut out = String::new();
    let head = format!("  {:<6} {:<7} {:<23} {:<12} seen", "form", "target", "CUDA", "expected");
    let _ = writeln!(out, "{}", printer.paint(DIM, &head));
    for ((form, _), (tried, cuda)) in &lines {
        let _ = writeln!(
            out,
            "{} {form:<6} {:<7} {:<23} {:<12} {}",
            mark(tried.agrees, printer),
            tried.target,
            cuda.join(" "),
            words(tried.expected),
            seen(&tried.seen),
        );
    }
    out
}

fn mark(agrees: Option<bool>, printer: &Printer) -> String {
    match agrees {
        Some(true) => " ".to_owned(),
        Some(false) => printer.paint(ERROR, "x"),
        None => printer.paint(DIM, "?"),
    }
}

fn words(expected: Expected) -> &'static str {
    match expected {
        Expected::Runs => "runs",
        Expected::NoCode => "no code",
        Expected::PtxTooNew => "PTX too new",
        Expected::NotStated => "-",
    }
}

fn seen(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ran => "ran".to_owned(),
        Outcome::Wrong => "wrong result".to_owned(),
        Outcome::Refused(why) => short(why),
        Outcome::Failed(why) => format!("failed: {}", short(why)),
    }
}

/// `cuModuleLoadData returned 209 (CUDA_ERROR_NO_BINARY_FOR_GPU)` as `NO_BINARY_FOR_GPU`.
fn short(why: &str) -> String {
    let name = why.rsplit_once('(').and_then(|(_, name)| name.strip_suffix(')'));
    name.map_or_else(|| why.to_owned(), |name| name.trim_start_matches("CUDA_ERROR_").to_owned())
}
