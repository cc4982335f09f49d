//! `verify --host`: checks the lock for other machines, which host files describe.

use std::cmp::Reverse;
use std::path::Path;

use serde_json::json;

use super::{formats, output};
use crate::cli::args::VerifyArgs;
use crate::cli::printer::{ERROR, GOOD, Printer, WARN};
use crate::foreign::{self, ForeignLock};
use crate::lockfile::{Lockfile, Target};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::{Gpu, Host};
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::clock;
use crate::session::error::CliError;
use crate::session::exit;
use crate::session::files;
use crate::session::host;
use crate::session::lock;
use crate::session::options::ReportFormat;
use crate::verify::findings::{self, DriverTooNew, NotJudged, WrongPlatform};
use crate::verify::{self, Area, AreaKind, Verdict};

/// What may run on a machine.
pub(in crate::cli::commands) enum Candidates<'l> {
    Targets(Vec<&'l Target>),
    /// The environments of another tool's lock, or the one of this name.
    Foreign(&'l ForeignLock, Option<&'l str>),
}

impl<'l> Candidates<'l> {
    /// The target that `--target` names; without it, any target of the lock may fit the node.
    pub fn of_own(lock: &'l Lockfile, args: &VerifyArgs) -> Result<Candidates<'l>, CliError> {
        Ok(Candidates::Targets(match &args.target {
            Some(name) => vec![lock::target(lock, Some(name))?],
            None => verify::candidates(lock, args.require_gpu),
        }))
    }
}

/// `verify --host` without a prefix: whether the lock runs on the machines.
pub(super) fn judge(
    path: &Path,
    candidates: &Candidates<'_>,
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
        return Err(CliError::input(format!("`{}` contains no host files", path.display()))
            .hint("write one on each node with `envlock probe --save NODE.toml`"));
    }
    let format = output::format(args, printer)?;
    let (mut any_error, mut any_unknown, mut unreadable) = (false, false, false);
    let mut documents = Vec::new();
    let mut areas = Vec::new();
    let mut nodes: Vec<(String, Verdict, Area)> = Vec::new();
    for file in &paths {
        let refused = |finding: Finding| Area { findings: vec![finding], ..Area::of(AreaKind::Host) };
        let described = host::read_host_file(file).and_then(|host| host::without(host, ignored, registry));
        let is_of_libc = described.as_ref().is_ok_and(has_other_libc);
        let has_no_gpu = described.as_ref().is_ok_and(Host::has_no_gpu);
        let mut is_read = true;
        let area = match described.map(|host| host::finish(host, registry)) {
            Ok(Ok(machine)) => best_on(&machine, candidates, registry, args.require_gpu),
            Ok(Err(error)) => refused(impossible(is_of_libc, error)),
            // One file that cannot be read must not hide the verdicts on the others.
            Err(error) if paths.len() > 1 => {
                (unreadable, is_read) = (true, false);
                refused(findings::not_judged(NotJudged::HostFile(error.message), true))
            }
            Err(error) => return Err(error),
        };
        any_error |= area.has_errors();
        let verdict = match is_read {
            true => Verdict::of(&area.findings, has_no_gpu),
            false => Verdict::Unknown,
        };
        any_unknown |= verdict == Verdict::Unknown;
        if matches!(format, ReportFormat::Line | ReportFormat::Prometheus) {
            let node =
                crate::model::text::clean(&file.file_stem().unwrap_or_default().to_string_lossy(), 100);
            // Two names that are equal once cleaned are told apart by a number.
            let same = nodes
                .iter()
                .filter(|(known, ..)| *known == node || known.starts_with(&format!("{node}~")))
                .count();
            let node = if same == 0 { node } else { format!("{node}~{}", same + 1) };
            nodes.push((node, verdict, area));
            continue;
        }
        if matches!(format, ReportFormat::Github | ReportFormat::Junit | ReportFormat::Sarif) {
            let name = crate::model::text::clean(&file.display().to_string(), 200);
            let of_node = |finding: Finding| Finding {
                message: match finding.message.contains(&name) {
                    true => finding.message,
                    false => format!("{name}: {}", finding.message),
                },
                r#where: Some(name.clone()),
                ..finding
            };
            let findings = area.findings.into_iter().map(of_node).collect();
            areas.push(Area { kind: AreaKind::HostFile(name.clone()), findings, ..area });
            continue;
        }
        if format == ReportFormat::Json {
            documents.push(
                json!({ "file": file.display().to_string(), "verdict": verdict, "findings": area.findings }),
            );
        } else {
            let why = area
                .findings
                .iter()
                .max_by_key(|f| f.severity)
                .map_or(area.summary.clone(), |f| f.message.clone());
            let word = match verdict {
                Verdict::Ok => printer.paint(GOOD, "yes"),
                Verdict::Differs => printer.paint(ERROR, "no "),
                Verdict::Unknown => printer.paint(WARN, "unknown"),
            };
            let name = crate::model::text::clean(&file.display().to_string(), 200);
            // One line for each node, not wrapped, because scripts read it.
            printer.out(&format!("{word}  {name}  {why}"));
        }
    }
    let put = |text: &str| output::put(text, args, printer);
    let answers: Vec<formats::Answer<'_>> = nodes
        .iter()
        .map(|(node, verdict, area)| formats::Answer {
            node: Some(node),
            verdict: *verdict,
            areas: std::slice::from_ref(area),
        })
        .collect();
    match format {
        ReportFormat::Text => {}
        ReportFormat::Json => {
            let document = json!({
                "verdict": match (any_error, any_unknown) {
                    (true, _) => Verdict::Differs,
                    (_, true) => Verdict::Unknown,
                    _ => Verdict::Ok,
                },
                "findings": [], "smoke": null, "hosts": documents,
            });
            output::put_json(&document, args, printer)?;
        }
        ReportFormat::Github => put(&formats::github(&areas, |_| None))?,
        ReportFormat::Junit => put(&formats::junit(&areas, formats::VERIFY))?,
        ReportFormat::Sarif => {
            let lock = files::lock_in_repository(Path::new("."));
            put(&formats::sarif(&areas, |_| lock.clone()))?;
        }
        ReportFormat::Line => put(&answers.iter().map(formats::line).collect::<String>())?,
        ReportFormat::Prometheus => {
            put(&formats::prometheus(&answers, &[("question", "host")], clock::now().seconds()))?;
        }
    }
    Ok(match (unreadable, any_error) {
        (true, _) => exit::CANNOT_ANSWER,
        (_, true) => exit::NO,
        _ if any_unknown => exit::NOT_KNOWN,
        _ => exit::YES,
    })
}

/// Whether a machine's C library is of another operating system.
pub(in crate::cli::commands) fn has_other_libc(host: &Host) -> bool {
    host.system.libc.as_ref().is_some_and(|libc| libc.os() != host.system.platform.os)
}

/// A machine that cannot be: its C library is of another system, or its driver is too new for a GPU.
pub(in crate::cli::commands) fn impossible(has_other_libc: bool, error: CliError) -> Finding {
    match has_other_libc {
        true => findings::wrong_platform(WrongPlatform::NoFile(error.message)),
        false => findings::driver_too_new(&DriverTooNew::Described(error.message)),
    }
}

/// The verdict of the best target for a node: the first one without errors, else the one that lacks least.
pub(in crate::cli::commands) fn best_on(
    machine: &Host,
    candidates: &Candidates<'_>,
    registry: &Registry,
    require_gpu: bool,
) -> Area {
    let checked = |name: &str, target: &Target, area: Area| Checked {
        name: name.to_owned(),
        driver: needed_driver(target, machine),
        distance: target.host.distance(machine),
        area,
    };
    let mut all: Vec<Checked> = match candidates {
        Candidates::Targets(targets) => {
            let check = |target: &&Target| {
                checked(&target.name, target, verify::check_host(target, machine, registry, require_gpu))
            };
            targets.iter().map(check).collect()
        }
        Candidates::Foreign(lock, name) => {
            let platform = machine.system.platform;
            let mut all = lock.environments(platform, None);
            all.retain(|environment| name.is_none_or(|name| environment.name == name));
            let check = |environment: &foreign::Environment| {
                let judged = foreign::judge(environment, platform, registry);
                checked(
                    &environment.name,
                    &judged.target,
                    verify::foreign_host(&judged, machine, require_gpu),
                )
            };
            all.iter().map(check).collect()
        }
    };
    let several = all.len() > 1;
    if all.is_empty() {
        let text = format!("the lock has no environment for {}", machine.system.platform);
        let finding = findings::wrong_platform(WrongPlatform::NoFile(text));
        return Area { findings: vec![finding], ..Area::of(AreaKind::Host) };
    }
    // Of those that run, and of those that do not, the one for this system, then the one for such GPUs; then, a driver is
    // easier to change than a GPU or a system, and an older one than a newer; then the one for the nearest driver.
    let lacks = |one: &Checked| {
        let errors = || one.area.findings.iter().filter(|finding| finding.severity == Severity::Error);
        let other = errors().filter(|finding| finding.code != Code::DriverTooOld).count();
        let (other_gpus, newer, older) = one.distance.clone();
        let refused = errors().count() > 0;
        let of_other_system = errors().any(|finding| finding.code == Code::WrongPlatform);
        // What runs needs nothing.
        let needs = refused.then(|| (other, one.driver.is_none(), one.driver.clone()));
        (refused, of_other_system, other_gpus, needs, newer, older)
    };
    all.sort_by_cached_key(lacks);
    let Checked { name, area, .. } = all.swap_remove(0);
    if !several {
        return area;
    }
    let summary = match area.summary.is_empty() {
        true => name.clone(),
        false => format!("{name}: {}", area.summary),
    };
    let named =
        |finding: Finding| Finding { message: format!("target {name}: {}", finding.message), ..finding };
    let findings = area.findings.into_iter().map(named).collect();
    Area { summary, findings, ..area }
}

/// A target, held against a machine.
struct Checked {
    name: String,
    area: Area,
    /// How far the machine is from the one that it is for.
    distance: (bool, bool, Reverse<Option<DottedVersion>>),
    /// The driver that it needs there.
    driver: Option<DottedVersion>,
}

/// The lowest driver with which a target would run on a machine's GPUs: of those whose capability is not known, the lowest
/// with which it runs on any. `None` if no driver would do, or none is needed.
pub(in crate::cli::commands) fn needed_driver(target: &Target, machine: &Host) -> Option<DottedVersion> {
    let of_gpu = |gpu: &Gpu| match gpu.capability {
        None => target.envelope.driver.clone(),
        Some(capability) => {
            let row = target.envelope.coverage.iter().find(|row| row.compute_capability == capability)?;
            row.driver_min.clone()
        }
    };
    let rows = machine.gpus.iter().flatten().map(of_gpu);
    rows.collect::<Option<Vec<_>>>()?.into_iter().max()
}
