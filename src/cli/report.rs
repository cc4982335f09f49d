//! The answer of `resolve` as text.

use std::collections::BTreeMap;

use super::printer::{ANSWER, DIM, Printer, wrap};
use crate::lockfile::Target;
use crate::model::capability::ComputeCapability;
use crate::model::conda::{CUDNN, NCCL};
use crate::model::evidence::Evidence;
use crate::model::host::Host;
use crate::model::part::Part;
use crate::model::request::Request;
use crate::model::solution::{ChosenPackage, DriverMode, Envelope, Framework, Series, Solution, Stack};
use crate::model::source::{BuildKind, MetadataFrom, SourceBuild};
use crate::model::variant::is_cuda;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::conda_builds::PYTORCH;
use crate::registry::{COMPANIONS, Registry};

/// Limit of requested packages that are listed; the rest is counted.
const MAX_REQUESTED_ROWS: usize = 12;

/// `host   NVIDIA H200 (9.0), driver 580.159.04 (CUDA 13.0), glibc 2.39     [nvml]`
pub(super) fn host_line(host: &Host, registry: &Registry) -> String {
    let mut parts = Vec::new();
    match &host.gpus {
        None => parts.push("GPU unspecified".to_owned()),
        Some(gpus) if gpus.is_empty() => parts.push("no NVIDIA GPU".to_owned()),
        Some(gpus) => {
            let mut counted: Vec<(String, usize)> = Vec::new();
            for gpu in gpus {
                let label = gpu.label();
                match counted.iter_mut().find(|(l, _)| *l == label) {
                    Some((_, n)) => *n += 1,
                    None => counted.push((label, 1)),
                }
            }
            parts.extend(
                counted.into_iter().map(|(label, n)| if n > 1 { format!("{n}x {label}") } else { label }),
            );
        }
    }
    match &host.driver {
        Some(driver) => {
            let cuda = driver
                .cuda
                .as_ref()
                .map(ToString::to_string)
                .or_else(|| registry.cuda_of_driver(&driver.version).map(|cuda| cuda.to_string()));
            let cuda = cuda.map(|c| format!(" (CUDA {c})")).unwrap_or_default();
            let compat = driver.compat.as_ref().map(|c| format!(" with cuda-compat {c}")).unwrap_or_default();
            parts.push(format!("driver {}{cuda}{compat}", driver.version));
        }
        None if !host.has_no_gpu() => parts.push("driver unspecified".to_owned()),
        None => {}
    }
    match &host.system.libc {
        Some(libc) => parts.push(libc.to_string()),
        None => parts.push(host.system.platform.to_string()),
    }
    let found = host
        .driver
        .as_ref()
        .map(|d| &d.found_by)
        .or_else(|| host.gpus.iter().flatten().next().map(|g| &g.found_by))
        .unwrap_or(&host.system.found_by)
        .to_string();
    format!("{} [{}]", parts.join(", "), found.trim_matches(['[', ']']))
}

/// Says that the line of torch's builds for a GPU of the machine has ended, with `-v` also who says so; `None` if it has not, as far
/// as is known.
pub(super) fn last_build(host: &Host, registry: &Registry, printer: &Printer) -> Option<String> {
    let gpus = host.gpus.iter().flatten();
    let ended = gpus.filter_map(|gpu| Some((gpu, registry.last_build(gpu.capability?)?)));
    let (gpu, row) = ended.min_by_key(|(gpu, _)| gpu.capability)?;
    let source = match printer.verbose {
        true => format!(" [{}]", registry.source_text(&row.source)),
        false => String::new(),
    };
    Some(format!(
        "torch {} is the last series with builds ({}) for {}: newer ones have no code below compute capability {}{source}",
        row.torch,
        row.variant,
        gpu.label(),
        row.capability_below
    ))
}

/// Prints the solved stack, one row per part with its reason.
pub(super) fn solution(printer: &Printer, s: &Solution, request: &Request, host: &Host, python: &str) {
    let mut rows = stack_rows(printer, s, host);
    let reason = |name: &str| {
        s.packages.iter().find(|p| p.name == name).map(|p| p.reason.to_string()).unwrap_or_default()
    };
    for framework in &s.frameworks {
        rows.extend(framework_rows(printer, framework, &s.envelope, host, &reason(&framework.package)));
    }
    let bound = s.patches.specifiers(s.python.minor).map(|bound| format!("; {bound}")).unwrap_or_default();
    rows.push(("python".into(), s.python.to_string(), format!("{python}{bound}")));
    if !printer.verbose {
        rows.extend(requested_rows(s, request));
    }
    let is_of_stack =
        |name: &str| [PYTORCH, NCCL].contains(&name) || CUDNN.contains(&name) || COMPANIONS.contains(&name);
    for spec in request.conda.specs.iter().filter(|spec| s.stack.is_none() || !is_of_stack(spec.name())) {
        let found = s.conda.iter().find(|package| package.name.eq_ignore_ascii_case(spec.name()));
        rows.extend(found.map(|p| (p.name.clone(), p.version.clone(), format!("from {}", p.channel))));
    }
    printer.out("");
    print_rows(printer, &rows);
    if printer.verbose {
        let listed: Vec<_> = s.packages.iter().filter(|p| !has_own_row(s, &p.name)).collect();
        printer.out("");
        let width = listed.iter().map(|p| p.name.len()).max().unwrap_or(0);
        for p in listed {
            printer.out(&format!("  {:<width$}  {:<12}  {} [{}]", p.name, p.version, p.reason, p.source));
        }
    }
    printer.out("");
    // A build for CUDA computes on the CPU of a machine without a GPU.
    let also =
        if host.has_no_gpu() && s.envelope.driver.is_some() { "; without a GPU on the CPU" } else { "" };
    let machines = format!("{}{also}", runs_on(&s.envelope));
    printer.out(&format!("{}{}", label(printer, "runs on"), wrap(&machines, 15)));
    if let Some(text) = from_source(s) {
        printer.out(&format!("{}{}", label(printer, "from source"), wrap(&text, 15)));
    }
    if let Some(text) = on_demand(s) {
        printer.out(&format!("{}{}", label(printer, "on demand"), wrap(&text, 15)));
    }
}

/// The rows of the stack: the framework with what it is built for, and its companions.
fn stack_rows(printer: &Printer, s: &Solution, host: &Host) -> Vec<(String, String, String)> {
    let Some(stack) = &s.stack else { return Vec::new() };
    let mut rows = Vec::new();
    let reason = |name: &str| {
        s.packages.iter().find(|p| p.name == name).map(|p| p.reason.to_string()).unwrap_or_default()
    };
    let of_conda = |names: &[&str]| {
        let package = s.conda.iter().find(|package| names.contains(&package.name.as_str()));
        package.map(|package| format!("from {}", package.channel))
    };
    let by_channel = of_conda(&[PYTORCH]).filter(|_| s.packages.iter().all(|p| p.name != "torch"));
    let is_of_conda = by_channel.is_some();
    rows.push((
        stack.framework.clone(),
        format!("{}+{}", stack.version, stack.variant),
        torch_reason(stack, host, &by_channel.unwrap_or_else(|| reason("torch"))),
    ));
    if let Some(cuda) = &stack.cuda {
        rows.push((
            "cuda".into(),
            cuda_short(cuda),
            driver_reason(printer, stack.driver_mode, stack.native_driver.as_ref(), &s.envelope, host),
        ));
    }
    let pinned = |what: &str| format!("pinned by {what}");
    let chosen = |names: &[&str]| of_conda(names).filter(|_| is_of_conda).unwrap_or_else(|| pinned("torch"));
    if let Some(cudnn) = &stack.cudnn {
        rows.push(("cudnn".into(), cudnn.to_string(), chosen(&CUDNN)));
    }
    if let Some(nccl) = &stack.nccl {
        rows.push(("nccl".into(), nccl.to_string(), chosen(&[NCCL])));
    }
    match s.packages.iter().find(|p| p.name == "triton") {
        Some(triton) => rows.push(("triton".into(), triton.version.to_string(), triton.reason.to_string())),
        // With newer Pythons torch 2.2 and 2.3 do not require it.
        None => {
            let has_files = s.packages.iter().any(|p| !p.files.is_empty());
            if let Some(triton) = stack.triton.as_ref().filter(|_| !has_files && !is_of_conda) {
                rows.push(("triton".into(), triton.clone(), pinned("torch")));
            }
        }
    }
    for (name, version) in &stack.companions {
        let by_channel = of_conda(&[name.as_str()]).filter(|_| is_of_conda);
        rows.push((name.clone(), version.to_string(), by_channel.unwrap_or_else(|| reason(name))));
    }
    rows
}

/// `extra gpu: 3 packages; group dev: 12`: what an installation without extras and groups leaves out.
fn on_demand(s: &Solution) -> Option<String> {
    let mut counts: BTreeMap<&Part, usize> = BTreeMap::new();
    for part in s.packages.iter().flat_map(|package| &package.groups) {
        *counts.entry(part).or_default() += 1;
    }
    let shown: Vec<String> = counts
        .iter()
        .enumerate()
        .map(|(i, (part, count))| match (i, count) {
            (0, 1) => format!("{part}: 1 package"),
            (0, _) => format!("{part}: {count} packages"),
            _ => format!("{part}: {count}"),
        })
        .collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

/// `rouge-score 0.1.2 (newest with a wheel: 0.0.4); requirements as published`: what is built, and how far its
/// requirements are known.
fn from_source(s: &Solution) -> Option<String> {
    let built: Vec<(&ChosenPackage, &SourceBuild)> =
        s.packages.iter().filter_map(|p| Some((p, p.build.as_ref()?))).collect();
    let describe = |(package, build): &(&ChosenPackage, &SourceBuild)| {
        let mut details: Vec<String> = match build.kind {
            BuildKind::Pure => Vec::new(),
            BuildKind::Native => vec!["compiled".to_owned()],
            BuildKind::Cuda => vec!["compiled with the CUDA toolkit".to_owned()],
        };
        if !build.needs.is_empty() {
            details.push(format!("its build imports {}", build.needs.join(", ")));
        }
        details.extend(build.newest_wheel.as_ref().map(|version| format!("newest with a wheel: {version}")));
        let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
        format!("{} {}{details}", package.name, package.version)
    };
    let list: Vec<String> = built.iter().map(describe).collect();
    let as_published = built.iter().filter(|(_, b)| b.metadata_from == MetadataFrom::AsPublished).count();
    let known = match as_published {
        0 => String::new(),
        n if n == built.len() => "; requirements as published".to_owned(),
        n => format!("; requirements of {n} as published"),
    };
    (!list.is_empty()).then(|| format!("{}{known}", list.join(", ")))
}

/// The requested packages that are not part of the stack.
fn requested_rows(s: &Solution, request: &Request) -> Vec<(String, String, String)> {
    let mut rows: Vec<_> = s
        .packages
        .iter()
        .filter(|p| !has_own_row(s, &p.name) && request.find(&p.name).is_some())
        .map(|p| (p.name.clone(), p.version.to_string(), p.reason.to_string()))
        .collect();
    if rows.len() > MAX_REQUESTED_ROWS {
        let rest = rows.len() - (MAX_REQUESTED_ROWS - 1);
        rows.truncate(MAX_REQUESTED_ROWS - 1);
        rows.push(("and".to_owned(), format!("{rest} more"), "`-v` lists all packages".to_owned()));
    }
    rows
}

/// Whether a package has its own row in the stack.
fn has_own_row(s: &Solution, name: &str) -> bool {
    s.frameworks.iter().any(|x| x.package == name)
        || s.stack
            .as_ref()
            .is_some_and(|x| x.framework == name || name == "triton" || x.companions.contains_key(name))
}

/// A label in the left column.
/// The line above the answer for one of several targets.
pub(super) fn heading(printer: &Printer, target: &Target, several: bool, position: usize) {
    if several && !printer.json {
        if position > 0 {
            printer.out("");
        }
        printer.out(&format!("target {}", target.name));
    }
}

pub(super) fn label(printer: &Printer, text: &str) -> String {
    format!("{}{}", printer.paint(DIM, text), " ".repeat(15usize.saturating_sub(text.len())))
}

/// What a target has in common with one that was printed: everything but the machine. Its GPUs are named if the build has
/// code for others there.
pub(super) fn same_as(printer: &Printer, name: &str, s: &Solution, host: &Host) {
    let code = s.stack.as_ref().and_then(|stack| code_for(stack, host));
    let code = code.map(|code| format!("; torch has {code}")).unwrap_or_default();
    printer.out("");
    printer.out(&format!("  {}", wrap(&format!("the same as for {name}{code}"), 2)));
}

/// `code for 8.0, 9.0`, of a CUDA build on a machine with known GPUs.
fn code_for(stack: &Stack, host: &Host) -> Option<String> {
    let mut covered: Vec<ComputeCapability> =
        host.gpus.iter().flatten().filter_map(|g| g.capability).collect();
    covered.sort();
    covered.dedup();
    let list: Vec<String> = covered.iter().map(ToString::to_string).collect();
    (is_cuda(&stack.variant) && !list.is_empty()).then(|| format!("code for {}", list.join(", ")))
}

fn torch_reason(stack: &Stack, host: &Host, reason: &str) -> String {
    let mut text = reason.to_owned();
    if let Some(code) = code_for(stack, host) {
        text.push_str(&format!("; {code}"));
    }
    match stack.evidence {
        Evidence::Inferred => text.push_str(" (inferred: not read from the wheel)"),
        Evidence::Documented => text.push_str(" (documented)"),
        Evidence::Measured => {}
    }
    text
}

/// A framework other than torch: its package, and the CUDA and cuDNN that it was built with.
fn framework_rows(
    printer: &Printer,
    framework: &Framework,
    envelope: &Envelope,
    host: &Host,
    reason: &str,
) -> Vec<(String, String, String)> {
    let driver =
        driver_reason(printer, framework.driver_mode, framework.native_driver.as_ref(), envelope, host);
    let mut rows = vec![(framework.package.clone(), framework.version.to_string(), reason.to_owned())];
    rows.extend(cuda_rows(&framework.cuda, framework.cudnn.as_ref(), framework.cuda_from_system, &driver));
    rows
}

/// The CUDA and cuDNN rows of a framework other than torch.
fn cuda_rows(
    cuda: &semver::Version,
    cudnn: Option<&DottedVersion>,
    from_system: bool,
    driver: &str,
) -> Vec<(String, String, String)> {
    let from = if from_system { "from conda or the system" } else { "from its packages" };
    let mut rows = vec![("  cuda".to_owned(), cuda_short(cuda), format!("{from}; {driver}"))];
    rows.extend(cudnn.map(|cudnn| ("  cudnn".to_owned(), format!(">= {cudnn}"), from.to_owned())));
    rows
}

/// Prints a series of a framework's releases and what it requires.
pub(super) fn series(printer: &Printer, s: &Series, host: &Host) {
    let driver = driver_reason(printer, s.driver_mode, s.native_driver.as_ref(), &s.envelope, host);
    let newest = "newest requested series of the registry that this machine can run".to_owned();
    let mut rows = vec![(s.package.clone(), s.releases.clone(), newest)];
    rows.extend(cuda_rows(&s.cuda, s.cudnn.as_ref(), s.cuda_from_system, &driver));
    if !s.conda.is_empty() {
        rows.push(("  conda".to_owned(), s.conda.join(" "), "packages from conda-forge".to_owned()));
    }
    rows.push(("python".to_owned(), "unknown".to_owned(), "depends on the wheels on the index".to_owned()));
    print_rows(printer, &rows);
    printer.out("");
    printer.out(&format!("{}{}", label(printer, "runs on"), wrap(&runs_on(&s.envelope), 15)));
}

/// Prints name, version and reason in columns.
fn print_rows(printer: &Printer, rows: &[(String, String, String)]) {
    let width = rows.iter().map(|r| r.0.len()).max().unwrap_or(0).max(12);
    let middle = rows.iter().map(|r| r.1.len()).max().unwrap_or(0).max(11);
    for (name, version, why) in rows {
        let indent = 2 + width + 2 + middle + 2;
        // The answer is what one looks for; why it is so comes after it.
        let version = printer.paint(ANSWER, &format!("{version:<middle$}"));
        printer.out(&format!("  {name:<width$}  {version}  {}", wrap(why, indent)));
    }
}

fn driver_reason(
    printer: &Printer,
    mode: Option<DriverMode>,
    native: Option<&DottedVersion>,
    envelope: &Envelope,
    host: &Host,
) -> String {
    let shown = |driver: Option<&DottedVersion>| driver.map_or("unknown".to_owned(), ToString::to_string);
    let (floor, native_driver) = (shown(envelope.driver.as_ref()), shown(native));
    match (mode, &host.driver) {
        // The driver is in the line of the host, and this is how most machines run.
        (Some(DriverMode::Compatibility), Some(_)) if !printer.verbose => {
            format!("runs with driver >= {floor}")
        }
        (Some(DriverMode::Compatibility), Some(_)) if native.is_none() => {
            format!("by minor-version compatibility (driver >= {floor}), which is normal")
        }
        (Some(DriverMode::Compatibility), Some(_)) => format!(
            "by minor-version compatibility (driver >= {floor}), which is normal; only PTX that this CUDA makes needs driver >= {native_driver}"
        ),
        (Some(DriverMode::Native), _) => format!("native: driver >= {native_driver}"),
        _ if host.has_no_gpu() => "unused: no GPU".to_owned(),
        _ if envelope.driver.is_none() => "the lowest driver is not known".to_owned(),
        _ if native.is_none() => format!("needs driver >= {floor}; the native driver is not known"),
        _ => format!("needs driver >= {floor}; native with driver >= {native_driver}"),
    }
}

/// `driver >= 580.65.06, compute capability 7.5, 8.0, 9.0, glibc >= 2.28, linux-x86_64`
pub(super) fn runs_on(envelope: &Envelope) -> String {
    let mut parts: Vec<String> = envelope.driver.iter().map(|driver| format!("driver >= {driver}")).collect();
    // GPUs with the lowest minimum first, then each group with limits of its own.
    let mut groups: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for row in &envelope.coverage {
        let above = row.driver_min.as_ref().filter(|min| Some(*min) != envelope.driver.as_ref());
        let above = above.map(|min| format!(">= {min}"));
        let below = row.driver_below.as_ref().map(|below| format!("< {below}"));
        let limits: Vec<String> = above.into_iter().chain(below).collect();
        let limits = (!limits.is_empty()).then(|| limits.join(", "));
        let capability = row.compute_capability.to_string();
        match groups.iter_mut().find(|(known, _)| *known == limits) {
            Some((_, capabilities)) => capabilities.push(capability),
            None => groups.push((limits, vec![capability])),
        }
    }
    groups.sort_by_key(|(limits, _)| limits.is_some());
    for (i, (limits, capabilities)) in groups.iter().enumerate() {
        let what = if i == 0 { "compute capability " } else { "" };
        let limits = limits.as_ref().map(|limits| format!(" with driver {limits}")).unwrap_or_default();
        parts.push(format!("{what}{}{limits}", capabilities.join(", ")));
    }
    parts.extend(envelope.glibc.iter().map(|glibc| format!("glibc >= {glibc}")));
    parts.push(envelope.platform.to_string());
    parts.join("; ")
}

/// A shortened source; the registry has the full text.
pub(super) fn short_source(source: &str) -> String {
    const LINE: usize = 90;
    let first = source.split([';', '(']).next().unwrap_or(source);
    let first = crate::model::text::clean(first.trim(), 400);
    // At most a line, and whole words.
    let end = first.char_indices().take_while(|(at, _)| *at <= LINE).filter(|(_, c)| *c == ' ').last();
    match end {
        Some((end, _)) if first.len() > LINE => format!("{} ...", first[..end].trim_end_matches(',')),
        _ => crate::model::text::clean(&first, LINE),
    }
}
