//! `envlock selftest --gpu`: whether the GPUs of this machine do what the compatibility data says.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::cli::printer::{DIM, ERROR, GOOD, Printer, wrap};
use crate::model::capability::{CodeTarget, ComputeCapability};
use crate::model::host::Host;
use crate::model::kernel_outcome::{DriverDevice, Kernel, Outcome};
use crate::model::smoke_test::End;
use crate::probe::{Surroundings, each_source};
use crate::registry::Registry;
use crate::session::Interface as _;
use crate::session::chosen_host;
use crate::session::exit;
use crate::session::failure::{Failure, FailureKind};
use crate::session::options::Global;
use crate::session::settings::Project;
use crate::session::variables;
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

pub(super) fn run(global: &Global, printer: &Printer) -> Result<u8, Failure> {
    let project = Project::find(global, false)?;
    let registry = project.registry(global)?;
    let program = std::env::current_exe().map_err(|error| Failure::files(error.to_string()))?;
    let prebuilt = kernels::all().map_err(Failure::files)?;
    let all: Vec<Kernel> = prebuilt.into_iter().map(|prebuilt| prebuilt.kernel).collect();
    let progress = printer.progress("loading kernels");
    let (devices, end) = crate::smoke::selftest(&program, LIMIT);
    progress.finish_and_clear();
    let around = Surroundings { root: chosen_host::root(), variable: &|name| variables::text(name) };
    let sources = each_source(&around);
    let machine = chosen_host::probed(&registry, &[])?;
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
    if tested.is_empty() {
        let why = stopped.unwrap_or_else(|| "CUDA shows no GPU".to_owned());
        return Err(Failure::new(FailureKind::NoGpu, format!("no kernel was loaded: {why}"))
            .hint("`envlock verify --only machine` looks for the cause"));
    }
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
    if let Some(why) = &stopped {
        printer.error(&format!("the test ended early: {why}"), None);
    }
    Ok(if differences == 0 && stopped.is_none() { exit::YES } else { exit::NO })
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

/// The kernels: with `-v` one on each line, else those of one form and result.
fn table(kernels: &[Tried], printer: &Printer) -> String {
    let mut groups: Vec<(&Tried, Vec<&Tried>)> = Vec::new();
    for tried in kernels {
        let is_same = |(first, _): &&mut (&Tried, Vec<&Tried>)| {
            !printer.verbose
                && (first.form, first.expected, short_of(&first.seen))
                    == (tried.form, tried.expected, short_of(&tried.seen))
        };
        match groups.iter_mut().find(is_same) {
            Some((_, all)) => all.push(tried),
            None => groups.push((tried, vec![tried])),
        }
    }
    groups.sort_by_key(|(first, _)| (first.form, first.expected));
    let mut out = String::new();
    let head = format!("  {:<5} {:<12} {:<24} for", "form", "expected", "seen");
    let _ = writeln!(out, "{}", printer.paint(DIM, &head));
    for (first, all) in &groups {
        let elsewhere = |target: &str| {
            groups.iter().any(|(other, tried)| {
                other.form == first.form
                    && !std::ptr::eq(*other, *first)
                    && tried.iter().any(|t| t.target == target)
            })
        };
        let line = format!(
            "{} {:<5} {:<12} {:<24} ",
            mark(first.agrees, printer),
            first.form,
            words(first.expected),
            short_of(&first.seen),
        );
        let _ = writeln!(out, "{line}{}", wrap(&targets(all, &elsewhere, printer.verbose), 46));
    }
    out
}

/// `9.0 9.0a`, with the CUDA releases of a target that other groups have too: `7.5 (CUDA 13.1 to 13.5)`.
fn targets(all: &[&Tried], elsewhere: &dyn Fn(&str) -> bool, each: bool) -> String {
    let mut named: Vec<(&str, Vec<&str>)> = Vec::new();
    for tried in all {
        match named.iter_mut().find(|(target, _)| *target == tried.target) {
            Some((_, cuda)) => cuda.push(&tried.cuda),
            None => named.push((&tried.target, vec![&tried.cuda])),
        }
    }
    let order = |target: &str| target.parse::<CodeTarget>().ok();
    named.sort_by_key(|(target, _)| order(target));
    let texts = named.iter().map(|(target, cuda)| match cuda.as_slice() {
        [one] if each || elsewhere(target) => format!("{target} (CUDA {one})"),
        [first, .., last] if each || elsewhere(target) => format!("{target} (CUDA {first} to {last})"),
        _ => (*target).to_owned(),
    });
    texts.collect::<Vec<_>>().join(" ")
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

fn short_of(outcome: &Outcome) -> String {
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
