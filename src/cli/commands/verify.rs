//! `envlock verify`: read, judge, and when the files are right, run.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::args::{GlobalArgs, SmokeChoice, VerifyArgs, VerifyFormat};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::settings::{self, Project};
use crate::cli::{host, lock};
use crate::inspect;
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::installed::Installed;
use crate::model::native::Native;
use crate::registry::Registry;
use crate::smoke::{self, Devices, End, SmokeOutcome};
use crate::solver::envelope_of;
use crate::verify::{self, Area};

/// How long the smoke test may take; `ENVLOCK_SMOKE_TIMEOUT` changes it.
const SMOKE_LIMIT_S: u64 = 300;

pub(super) fn run(global: &GlobalArgs, args: &VerifyArgs, printer: &Printer) -> Result<u8, CliError> {
    let start = Instant::now();
    let project = Project::find(global, true)?;
    let registry = settings::registry(global)?;
    let lock = lock::read(&project)?;
    if let Some(lock) = &lock {
        lock::warn_if_stale(&project, lock, &registry, printer);
    }
    let ignored = project.manifest.as_ref().map(|m| m.request.ignored_gpus.clone()).unwrap_or_default();
    if let (Some(path), None) = (&args.host, &args.prefix) {
        let lock = lock.ok_or_else(lock::missing)?;
        // Without a name, any target of the lock may serve the node.
        let targets = match &args.target {
            Some(name) => vec![lock::target(&lock, Some(name))?],
            None => lock.targets.iter().collect(),
        };
        return judge_hosts(path, &targets, &ignored, &registry, args, printer);
    }
    let prefix =
        inspect::find_prefix(args.prefix.as_deref(), &|name| std::env::var(name).ok()).ok_or_else(|| {
            CliError::new("usage", "no environment is active")
                .hint("name one with `--prefix DIR`, or activate it first")
        })?;
    let machine = match &args.host {
        Some(path) => {
            let described = host::without(host::read_host_file(path)?, &ignored, &registry)?;
            host::finish(described, &registry)?
        }
        None => host::probed(&registry, &ignored)?,
    };
    let depth = if args.deep { inspect::Depth::Hashes } else { inspect::Depth::Sizes };
    let installed = inspect::read(&prefix, depth).map_err(|e| CliError::new("input", e.to_string()))?;
    let target = match (&lock, &args.target) {
        (None, _) => None,
        (Some(lock), Some(name)) => Some(lock::target(lock, Some(name))?),
        (Some(lock), None) => verify::installed_target(lock, &installed),
    };
    let mut areas = match target {
        Some(target) => verify::against_lock(target, &machine, &installed, args.require_gpu),
        None => on_its_own(&registry, &machine, &installed, args.require_gpu),
    };
    let root: PathBuf = std::env::var_os("ENVLOCK_SYSROOT").map_or_else(|| "/".into(), Into::into);
    let traces = inspect::traces(&installed, &root, &|name| std::env::var(name).ok());
    areas.push(verify::install(&installed, &traces, &registry, &|name| {
        target.is_none_or(|target| target.package(name).is_some())
    }));
    let around = inspect::loader::Surroundings {
        root,
        library_path: std::env::var("LD_LIBRARY_PATH").ok(),
        preload: std::env::var("LD_PRELOAD").ok(),
        working_folder: std::env::current_dir().unwrap_or_default(),
    };
    let native = inspect::native(&installed, &around, registry.opened_by_name());
    areas.extend(verify::native(&native, &installed, &machine, &registry));
    // Of a described machine nobody knows what it is doing.
    if args.host.is_none() {
        let state = host::state();
        // Beside the host, whose state it is.
        areas.splice(1..1, verify::machine(&state, &machine));
    }
    let static_ms = start.elapsed().as_millis();
    // Running code from files that are wrong would prove nothing.
    let has_torch = installed.distributions.iter().any(|d| d.name == "torch");
    let wanted = match args.smoke {
        SmokeChoice::Off => false,
        SmokeChoice::Auto => has_torch,
        SmokeChoice::Cpu | SmokeChoice::Cuda => true,
    };
    let run_it = wanted && !areas.iter().any(Area::has_errors);
    let outcome = run_it.then(|| run_smoke(&prefix, &installed, &native, &machine, args.smoke, printer));
    if let Some(outcome) = &outcome {
        areas.push(smoke_area(outcome));
    }
    let report = Report { areas: &areas, outcome: outcome.as_ref(), args, printer };
    match if printer.json { VerifyFormat::Json } else { args.format } {
        VerifyFormat::Json => report.json(),
        VerifyFormat::Github => report.github(),
        VerifyFormat::Text => {
            report.text(&prefix, &installed, &against(lock.as_ref(), target), start, static_ms)
        }
    }
    Ok(if areas.iter().any(Area::has_errors) { exit::NO } else { exit::YES })
}

/// What the environment is held against, in words.
fn against(lock: Option<&Lockfile>, target: Option<&Target>) -> String {
    match (lock, target) {
        (Some(lock), Some(target)) if lock.targets.len() > 1 => {
            format!("lock envlock.lock, target {}", target.name)
        }
        (Some(_), _) => "lock envlock.lock".to_owned(),
        (None, _) => "no lock: judged by itself and this machine".to_owned(),
    }
}

/// Without a lock: what the installed torch needs, by the registry.
fn on_its_own(registry: &Registry, machine: &Host, installed: &Installed, require_gpu: bool) -> Vec<Area> {
    let torch = installed.distributions.iter().find(|d| d.name == "torch");
    let build = torch.and_then(|d| {
        let version: pep440_rs::Version = d.version.parse().ok()?;
        registry.build(&version.without_local(), d.variant.as_deref()?, machine.system.platform)
    });
    let envelope = build.map(|b| envelope_of(registry, b));
    let native = build
        .and_then(|b| b.cuda.as_ref())
        .and_then(|c| registry.native_driver(c, machine.system.platform.os))
        .map(|(v, _)| v);
    verify::without_lock(registry, envelope.as_ref(), native.as_ref(), machine, installed, require_gpu)
}

fn run_smoke(
    prefix: &Path,
    installed: &Installed,
    native: &Native,
    machine: &Host,
    choice: SmokeChoice,
    printer: &Printer,
) -> SmokeOutcome {
    let devices = match choice {
        SmokeChoice::Cpu => Devices::Cpu,
        SmokeChoice::Cuda => Devices::Cuda,
        // A GPU that is there and that torch does not see is a finding, not a reason for the CPU.
        _ if machine.gpus.as_ref().is_some_and(|g| !g.is_empty()) && cuda_build(installed) => Devices::Cuda,
        _ => Devices::Auto,
    };
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
        devices,
        limit: Duration::from_secs(seconds),
        program: std::env::current_exe().unwrap_or_else(|_| "envlock".into()),
        runtime: library("libcudart.so."),
        cudnn: library("libcudnn.so."),
        triton: installed.distributions.iter().any(|d| d.name == "triton"),
    };
    let bar = printer.progress("smoke test");
    bar.enable_steady_tick(Duration::from_millis(100));
    let outcome = smoke::run(&plan, &mut |layer| bar.set_message(format!("smoke test: {layer}")));
    bar.finish_and_clear();
    outcome
}

fn cuda_build(installed: &Installed) -> bool {
    installed
        .distributions
        .iter()
        .any(|d| d.name == "torch" && d.variant.as_deref().is_some_and(|v| v.starts_with("cu")))
}

fn smoke_area(outcome: &SmokeOutcome) -> Area {
    let problem = |code: Code, message: String| Finding {
        code,
        severity: Severity::Error,
        message,
        fix: None,
        r#where: None,
    };
    let mut findings: Vec<Finding> = outcome
        .checks
        .iter()
        .filter(|c| !c.passed)
        .map(|c| {
            problem(
                Code::SmokeFailed,
                format!("{} on {}: {}", c.name, c.device, crate::model::text::clean(&c.detail, 160)),
            )
        })
        .collect();
    let says = outcome.cudnn_says.as_ref().map(|line| format!("; cuDNN's log: `{line}`")).unwrap_or_default();
    if let Some(last) = findings.last_mut() {
        last.message.push_str(&says);
    }
    match &outcome.end {
        End::Done => {}
        End::Crashed { layer, what } => findings
            .push(problem(Code::SmokeCrashed, format!("the smoke test stopped at {layer}: {what}{says}"))),
        End::TimedOut { layer, seconds } => {
            findings.push(problem(
                Code::SmokeTimeout,
                format!("the smoke test did not end in {seconds} s; it was at {layer}"),
            ));
        }
        End::NotStarted(why) => {
            findings.push(problem(Code::SmokeCrashed, format!("the smoke test did not start: {why}")))
        }
    }
    let summary = outcome
        .checks
        .iter()
        .filter(|c| c.name.starts_with("conv"))
        .map(|c| format!("{} on {}: {}", c.name, c.device, crate::model::text::clean(&c.detail, 80)))
        .collect::<Vec<_>>()
        .join("; ");
    Area { name: "smoke", findings, summary }
}

/// `verify --host` without a prefix: will this lock run on that node?
fn judge_hosts(
    path: &Path,
    targets: &[&Target],
    ignored: &[String],
    registry: &Registry,
    args: &VerifyArgs,
    printer: &Printer,
) -> Result<u8, CliError> {
    let mut paths = Vec::new();
    if path.is_dir() {
        for entry in fs_err::read_dir(path)? {
            let file = entry?.path();
            if file.extension().is_some_and(|e| e == "toml") {
                paths.push(file);
            }
        }
        paths.sort();
    } else {
        paths.push(path.to_path_buf());
    }
    if paths.is_empty() {
        return Err(CliError::new("input", format!("`{}` holds no host files", path.display()))
            .hint("write one on each node with `envlock probe --save NODE.toml`"));
    }
    let as_json = printer.json || args.format == VerifyFormat::Json;
    let (mut any_error, mut unreadable) = (false, false);
    let mut documents = Vec::new();
    for file in &paths {
        let refused = |code: Code, error: CliError| Area {
            name: "host",
            findings: vec![Finding {
                code,
                severity: Severity::Error,
                message: error.message,
                fix: error.hint,
                r#where: None,
            }],
            summary: String::new(),
        };
        let described = host::read_host_file(file).and_then(|host| host::without(host, ignored, registry));
        let area = match described.map(|host| host::finish(host, registry)) {
            Ok(Ok(machine)) => best_on(&machine, targets, args.require_gpu),
            Ok(Err(error)) => refused(Code::DriverTooNew, error),
            // One file that cannot be read must not hide the verdicts on the others.
            Err(error) if paths.len() > 1 => {
                unreadable = true;
                refused(Code::NotJudged, error)
            }
            Err(error) => return Err(error),
        };
        any_error |= area.has_errors();
        let verdict = if area.has_errors() { "differs" } else { "ok" };
        if as_json {
            documents.push(
                json!({ "file": file.display().to_string(), "verdict": verdict, "findings": area.findings }),
            );
        } else {
            let why = area
                .findings
                .iter()
                .max_by_key(|f| f.severity)
                .map_or(area.summary.clone(), |f| f.message.clone());
            let word =
                if area.has_errors() { printer.paint(ERROR, "no ") } else { printer.paint(GOOD, "yes") };
            let name = crate::model::text::clean(&file.display().to_string(), 200);
            // One line for each node, however long: it is read by scripts.
            printer.out(&format!("{word}  {name}  {why}"));
        }
    }
    if as_json {
        printer.json(&json!({
            "verdict": if any_error { "differs" } else { "ok" },
            "findings": [], "smoke": null, "hosts": documents,
        }));
    }
    Ok(match (unreadable, any_error) {
        (true, _) => exit::CANNOT_ANSWER,
        (_, true) => exit::NO,
        _ => exit::YES,
    })
}

/// The verdict of the target that serves a node best: the first one without errors, else the first.
fn best_on(machine: &Host, targets: &[&Target], require_gpu: bool) -> Area {
    let mut areas: Vec<Area> = targets
        .iter()
        .map(|target| {
            let mut area = verify::check_host(target, machine, require_gpu);
            if targets.len() > 1 {
                area.summary = format!("{}: {}", target.name, area.summary);
            }
            area
        })
        .collect();
    let best = areas.iter().position(|area| !area.has_errors()).unwrap_or(0);
    areas.swap_remove(best)
}

struct Report<'r> {
    areas: &'r [Area],
    outcome: Option<&'r SmokeOutcome>,
    args: &'r VerifyArgs,
    printer: &'r Printer,
}

impl Report<'_> {
    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.areas.iter().flat_map(|a| &a.findings)
    }

    fn json(&self) {
        let differs = self.areas.iter().any(Area::has_errors);
        let smoke = self.outcome.map(|o| {
            json!({ "ran": !matches!(o.end, End::NotStarted(_)), "passed": o.passed(), "checks": o.checks })
        });
        self.printer.json(&json!({
            "verdict": if differs { "differs" } else { "ok" },
            "findings": self.findings().collect::<Vec<_>>(),
            "smoke": smoke,
            "hosts": [],
        }));
    }

    /// Workflow commands; line breaks and percent signs are escaped, control characters gone.
    fn github(&self) {
        for f in self.findings() {
            let level = match f.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "notice",
            };
            let message = crate::model::text::clean(&f.message, 400).replace('%', "%25");
            self.printer.out(&format!("::{level} title=envlock {}::{message}", f.code.as_str()));
        }
    }

    fn text(&self, prefix: &Path, installed: &Installed, against: &str, start: Instant, static_ms: u128) {
        let p = self.printer;
        let python = installed.python.map(|v| format!(" (Python {v})")).unwrap_or_default();
        p.out(&format!("environment {}{python}, {against}", prefix.display()));
        for area in self.areas {
            let word = if area.has_errors() {
                p.paint(ERROR, "differs")
            } else if area.findings.iter().any(|f| f.severity == Severity::Warning) {
                p.paint(WARN, "warns  ")
            } else {
                p.paint(GOOD, "ok     ")
            };
            p.out(&format!("  {:<10}  {word}  {}", area.name, wrap(&area.summary, 23)));
        }
        let errors = self.findings().filter(|f| f.severity == Severity::Error).count();
        let mut findings: Vec<&Finding> =
            self.findings().filter(|f| f.severity != Severity::Info || !p.quiet).collect();
        findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
        for (i, f) in findings.iter().enumerate() {
            let (word, style) = match f.severity {
                Severity::Error => ("error", ERROR),
                Severity::Warning => ("warning", WARN),
                Severity::Info => ("info", GOOD),
            };
            p.out("");
            let head = format!("{word}[{}]:", f.code.as_str());
            let text = wrap(&format!("{head} {}", f.message), 2);
            p.out(&format!("{}{}", p.paint(style, &head), &text[head.len()..]));
            // One fix for a row of findings is said once, after the last of them.
            let next_fix = findings.get(i + 1).and_then(|next| next.fix.as_ref());
            if let Some(fix) = f.fix.as_ref().filter(|fix| next_fix != Some(*fix)) {
                p.out(&format!("fix: {fix}"));
            }
        }
        p.out("");
        let total = start.elapsed().as_secs_f64();
        let smoke = match (self.outcome, errors) {
            (None, 0) if self.args.smoke == SmokeChoice::Auto => "; no torch here: no smoke test",
            (None, 0) => "; smoke test off",
            (None, _) if self.args.smoke != SmokeChoice::Off => "; smoke test not run",
            _ => "",
        };
        if errors == 0 {
            p.out(&format!("{}, {total:.1} s (static part {static_ms} ms){smoke}", p.paint(GOOD, "clean")));
        } else {
            p.out(&format!("{errors} error{}{smoke}", if errors == 1 { "" } else { "s" }));
        }
    }
}
