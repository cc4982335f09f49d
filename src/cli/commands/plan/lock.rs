//! `envlock plan --lock FILE`: whether the environments of a lock, of any tool, run on a machine.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::cli::args::PlanArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::report;
use crate::containers::Verdict;
use crate::formats::{self, ForeignLock, Judged, Tool, WithoutCuda};
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::model::wheel::Python;
use crate::registry::Registry;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::lock::{self, AnyLock};
use crate::verify::findings::{self, WrongPlatform};
use crate::verify::{self, Area};

/// Number of environments that are named in one line.
const SHOWN_NAMES: usize = 6;

/// An environment of the lock, or several that are judged alike.
#[derive(Debug, Serialize)]
struct Answer {
    names: Vec<String>,
    python: Option<String>,
    frameworks: Vec<String>,
    packages: usize,
    verdict: Verdict,
    summary: String,
    /// The driver that it needs, where the machine's is not stated.
    needs_driver: Option<DottedVersion>,
    findings: Vec<Finding>,
}

impl Answer {
    /// The findings that are shown.
    fn told(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.severity != Severity::Info || finding.code == Code::NotJudged)
    }

    fn fix(&self) -> Option<String> {
        self.told().find_map(|finding| finding.fix.as_ref()).map(ToString::to_string)
    }
}

pub(super) fn run(
    path: &Path,
    args: &PlanArgs,
    host: &Host,
    registry: &Registry,
    printer: &Printer,
) -> Result<u8, Failure> {
    let file = clean(&path.display().to_string(), 200);
    let (tool, mut answers) = match lock::read_any(path)? {
        AnyLock::Own(own) => ("envlock", of_own(&own, args, host, registry)?),
        AnyLock::Foreign(foreign) => (foreign.tool.name(), of_foreign(&foreign, args, host, registry)?),
    };
    // Where some environments have a framework, the others say nothing about GPUs.
    if args.target.is_none() && answers.iter().any(|answer| !answer.frameworks.is_empty()) {
        answers.retain(|answer| !answer.frameworks.is_empty());
    }
    let answers = folded(answers);
    let has = |verdict| answers.iter().any(|answer| answer.verdict == verdict);
    let (verdict, code) = match () {
        () if has(Verdict::Runs) => (Verdict::Runs, exit::YES),
        () if has(Verdict::Unknown) => (Verdict::Unknown, exit::NOT_KNOWN),
        () => (Verdict::DoesNotRun, exit::NO),
    };
    if printer.json {
        printer.json(&json!({
            "lock": { "file": file, "tool": tool }, "verdict": verdict, "environments": answers,
        }));
        return Ok(code);
    }
    if !printer.quiet {
        printer.out(&format!("lock   {file} ({tool})"));
        printer.out(&format!("host   {}", wrap(&report::host_line(host, registry), 7)));
        printer.out("");
    }
    for answer in &answers {
        show(printer, answer);
    }
    // Environments of one lock usually need the same change. A target that runs is the one for this machine; the
    // environments of another tool's lock are not each for a machine.
    let is_locked_for = tool == "envlock" && verdict == Verdict::Runs;
    let unanswered = answers.iter().filter(|_| !is_locked_for);
    let mut fixes: Vec<String> = unanswered.filter_map(Answer::fix).collect();
    fixes.dedup();
    for fix in fixes {
        printer.out("");
        printer.out(&wrap(&format!("fix: {fix}"), 5));
    }
    Ok(code)
}

fn of_own(own: &Lockfile, args: &PlanArgs, host: &Host, registry: &Registry) -> Result<Vec<Answer>, Failure> {
    let targets = lock::targets(own, args.target.as_deref())?;
    let answer = |target: &Target| {
        let mut answer = answer(target, verify::check_host(target, host, registry, false), host, &[]);
        let is_unknown = verify::unknown_need(target, registry).is_some();
        if answer.verdict == Verdict::Runs && is_unknown && !host.has_no_gpu() {
            answer.verdict = Verdict::Unknown;
        }
        answer
    };
    Ok(targets.into_iter().map(answer).collect())
}

fn of_foreign(
    foreign: &ForeignLock,
    args: &PlanArgs,
    host: &Host,
    registry: &Registry,
) -> Result<Vec<Answer>, Failure> {
    let platform = host.system.platform;
    let series =
        |text: &str| text.parse::<Python>().map_err(|error| Failure::usage(format!("--python: {error}")));
    let python = args.python.as_deref().map(series).transpose()?;
    let mut environments = foreign.environments(platform, python);
    if environments.is_empty() {
        let has: Vec<String> = foreign.platforms().iter().map(ToString::to_string).collect();
        let text = match has.is_empty() {
            true => "the lock has no environment".to_owned(),
            false => format!("the lock has no environment for {platform}, only for {}", has.join(", ")),
        };
        return Ok(vec![Answer {
            names: vec!["every environment".to_owned()],
            python: None,
            frameworks: Vec::new(),
            packages: 0,
            verdict: Verdict::DoesNotRun,
            summary: String::new(),
            needs_driver: None,
            findings: vec![findings::wrong_platform(WrongPlatform::NoFile(text))],
        }]);
    }
    if let Some(name) = &args.target {
        let names: Vec<String> = environments.iter().map(|environment| environment.name.clone()).collect();
        environments.retain(|environment| environment.name == *name);
        if environments.is_empty() {
            return Err(Failure::usage(format!("the lock has no environment `{}`", clean(name, 40)))
                .hint(format!("it has {}", quoted(&names))));
        }
    }
    let is_other =
        |one: &formats::Environment, python: Python| one.has_python() && one.python.minor != python.minor;
    if let Some(python) = python.filter(|python| environments.iter().all(|one| is_other(one, *python))) {
        let locked: BTreeSet<String> = environments.iter().map(|one| one.python.to_string()).collect();
        let locked = locked.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!(
            "`--python {python}`: the environments of the lock are for Python {locked}"
        )));
    }
    let of = |environment: &formats::Environment| {
        let judged: Judged = formats::judge(environment, platform, registry);
        let area = verify::foreign_host(&judged, host, false);
        let mut answer = answer(&judged.target, area, host, &judged.without_cuda);
        // Pins without files fit many Pythons.
        let is_open = foreign.tool == Tool::Requirements && python.is_none();
        if is_open || !environment.has_python() {
            answer.python = None;
        }
        answer.packages += judged.conda.iter().filter(|record| record.is_package()).count();
        if answer.verdict == Verdict::Runs && !judged.unknown.is_empty() && !host.has_no_gpu() {
            answer.verdict = Verdict::Unknown;
        }
        if answer.frameworks.is_empty() && !judged.unknown.is_empty() {
            answer.frameworks.extend(judged.target.package("torch").map(|p| format!("torch {}", p.version)));
        }
        answer
    };
    Ok(environments.iter().map(of).collect())
}

fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", clean(name, 60))).collect();
    quoted.join(", ")
}

/// The answer for a target. `others`: its frameworks that use no NVIDIA GPU.
fn answer(target: &Target, area: Area, host: &Host, others: &[WithoutCuda]) -> Answer {
    let torch = target.stack.as_ref().map(|stack| format!("torch {} {}", stack.version, stack.variant));
    let more = target.frameworks.iter().map(|framework| {
        let cuda = format!("CUDA {}.{}", framework.cuda.major, framework.cuda.minor);
        format!("{} {} ({cuda})", framework.package, framework.version)
    });
    // A CPU build of torch is its stack as well.
    let is_new = |other: &&WithoutCuda| target.stack.is_none() || other.name != "torch";
    let others: Vec<String> = others.iter().filter(is_new).map(|other| other.framework.clone()).collect();
    Answer {
        names: vec![target.name.clone()],
        python: Some(target.python.to_string()),
        frameworks: torch.into_iter().chain(more).chain(others).collect(),
        packages: target.packages.len(),
        verdict: if area.has_errors() { Verdict::DoesNotRun } else { Verdict::Runs },
        // What is not said of the machine limits nothing; what the environment needs is told.
        needs_driver: target.envelope.driver.clone().filter(|_| host.driver.is_none() && !host.has_no_gpu()),
        summary: area.summary,
        findings: area.findings,
    }
}

/// One answer for all environments that are judged alike.
fn folded(answers: Vec<Answer>) -> Vec<Answer> {
    let mut out: Vec<Answer> = Vec::new();
    for answer in answers {
        let is_alike = |known: &&mut Answer| {
            (&known.frameworks, known.verdict, &known.findings, &known.python)
                == (&answer.frameworks, answer.verdict, &answer.findings, &answer.python)
        };
        match out.iter_mut().find(is_alike) {
            Some(known) => known.names.extend(answer.names),
            None => out.push(answer),
        }
    }
    out
}

fn show(printer: &Printer, answer: &Answer) {
    /// The column of the text behind the verdict.
    const INDENT: usize = 9;
    let (style, word) = match answer.verdict {
        Verdict::Runs => (GOOD, "yes"),
        Verdict::DoesNotRun => (ERROR, "no"),
        Verdict::Unknown => (WARN, "unknown"),
    };
    let frameworks = match answer.frameworks.is_empty() {
        true => "torch, TensorFlow and JAX are not in it".to_owned(),
        false => answer.frameworks.join(", "),
    };
    let shown = answer.names.len().min(SHOWN_NAMES);
    let names: Vec<String> = answer.names[..shown].iter().map(|name| clean(name, 60)).collect();
    let more = match answer.names.len() - shown {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let python = answer.python.as_ref().map(|python| format!("; Python {python}")).unwrap_or_default();
    let head = format!("{}{more}: {frameworks}{python}", names.join(", "));
    printer.out(&format!("{}{}", printer.paint(style, &format!("{word:<INDENT$}")), wrap(&head, INDENT)));
    let indented = |text: &str| printer.out(&format!("{}{}", " ".repeat(INDENT), wrap(text, INDENT)));
    let mut told = answer.told().peekable();
    match &answer.needs_driver {
        Some(driver) => indented(&format!("it needs driver >= {driver}")),
        None if told.peek().is_none() && !answer.summary.is_empty() => indented(&answer.summary),
        None => {}
    }
    for finding in told {
        indented(&finding.message);
    }
}
