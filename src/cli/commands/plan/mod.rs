//! `envlock plan`: every torch build that a machine can run, from the registry only; with `--lock`, whether a lock runs.

mod lock;

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::cli::args::PlanArgs;
use crate::cli::printer::{DIM, ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::report;
use crate::compatibility::{UnreadBuild, unread_build};
use crate::containers::{self, NameError, Verdict};
use crate::explorer;
use crate::model::count::Count;
use crate::model::evidence::Evidence;
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::request::{Limit, Origin, Preferences, Request};
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::session::Interface as _;
use crate::session::data_folder;
use crate::session::exit;
use crate::session::failure::{Failure, FailureKind};
use crate::session::options::{Global, MachineOptions};
use crate::session::settings::Project;
use crate::session::{chosen_host, files, only, settings, write};
use crate::solver::{Catalogue, Inputs, Memory, Plan, PlanOut, PlanRow, Universe, plan};

/// Rows that are shown without `-v`.
const SHOWN: usize = 16;

pub(super) fn run(global: &Global, args: &PlanArgs, printer: &Printer) -> Result<u8, Failure> {
    let project = Project::find(global, false)?;
    let registry = project.registry(global)?;
    if let Some(path) = &args.html {
        return page(path, args, &registry, printer);
    }
    let of_project = project.manifest.map(|manifest| manifest.request).unwrap_or_default();
    let ignored = of_project.ignored_gpus;
    let host = match args.host.describe_a_machine() {
        true => chosen_host::described(&args.host, &registry, &ignored)?,
        false => chosen_host::probed(&registry, &ignored)?,
    };
    if let Some(path) = &args.lock {
        return lock::run(path, args, &host, &registry, printer);
    }
    if let Some(name) = &args.image {
        return image(name, &host, &registry, printer);
    }
    let request = request(args, &registry)?;
    let found = plan(&Inputs {
        catalogue: &Catalogue::new(&registry, host.system.platform),
        universe: &Universe::default(),
        memory: &Memory::default(),
        host: &host,
        request: &request,
        preferences: &Preferences::default(),
    });
    let unread = found.runs.is_empty().then(|| unread_build(&registry, &host, &request, false)).flatten();
    if printer.json {
        let unknown = unread.as_ref().map(ToString::to_string);
        printer.json(&json!({ "runs": found.runs, "out": found.out, "unknown": unknown }));
    } else {
        let asked = (args.torch.as_deref(), args.variant.as_deref());
        show(printer, (&found, unread.as_ref()), asked, &host, &registry);
        data_folder::age(&registry).iter().for_each(|text| printer.note(text));
        if of_project.conda.stack.is_some() {
            printer.note("these are the builds of PyPI and the pytorch index; the torch of this project comes from conda-forge");
        }
    }
    Ok(match (found.runs.is_empty(), unread) {
        (false, _) => exit::YES,
        (true, Some(_)) => exit::NOT_KNOWN,
        (true, None) => exit::NO,
    })
}

/// Writes the compatibility explorer.
fn page(path: &Path, args: &PlanArgs, registry: &Registry, printer: &Printer) -> Result<u8, Failure> {
    let MachineOptions { host, gpu, driver, glibc, platform } = &args.host;
    if host.is_some() || !gpu.is_empty() || driver.is_some() || glibc.is_some() {
        return Err(Failure::usage("the page of `--html` answers for every machine of a platform")
            .hint("leave out the machine: GPU and driver are chosen on the page"));
    }
    let platform = match platform {
        Some(_) => chosen_host::described(&args.host, registry, &[])?.system.platform,
        None => Platform::LINUX_X86_64,
    };
    files::refuse_others(path, &|text| text.contains(explorer::MARK), args.force)?;
    write::write(path, &explorer::page(registry, platform))?;
    if printer.json {
        printer.json(&json!({ "written": path, "platform": platform }));
    } else {
        printer.note(&format!("wrote {}", path.display()));
    }
    Ok(exit::YES)
}

/// What an image contains.
#[derive(Serialize)]
struct ImageView<'r> {
    name: String,
    framework: &'r str,
    version: Option<&'r String>,
    cuda: Option<&'r DottedVersion>,
    cudnn: Option<&'r DottedVersion>,
    evidence: Evidence,
}

/// Prints what an image contains and whether the machine can run it.
fn image(name: &str, host: &Host, registry: &Registry, printer: &Printer) -> Result<u8, Failure> {
    let image = match containers::find(registry, name) {
        Ok(image) => image,
        Err(error @ NameError::NotAName(_)) => return Err(Failure::usage(error.to_string())),
        // The registry cannot answer for this image, so this is an error.
        Err(error @ NameError::UnknownRepository { .. }) => {
            return Err(Failure::new(FailureKind::UnknownRow, error.to_string()));
        }
        Err(error) => {
            let (near, code) = match &error {
                NameError::NoSuchTag { near, never_existed: true, .. } => (near.clone(), exit::NO),
                NameError::NoSuchTag { near, .. } => (near.clone(), exit::NOT_KNOWN),
                _ => (Vec::new(), exit::NOT_KNOWN),
            };
            if printer.json {
                let error = json!({ "code": "image", "message": error.to_string(), "hint": near.first() });
                printer.json(&json!({ "image": null, "error": error, "near": near }));
            } else {
                printer.out(&wrap(&error.to_string(), 0));
                for (i, name) in near.iter().enumerate() {
                    printer.out(&format!(
                        "{}{name}",
                        report::label(printer, if i == 0 { "nearest" } else { "" })
                    ));
                }
            }
            return Ok(code);
        }
    };
    let judged = containers::judge(registry, image, host);
    let code = match judged.verdict {
        Verdict::Runs => exit::YES,
        Verdict::DoesNotRun => exit::NO,
        Verdict::Unknown => exit::NOT_KNOWN,
    };
    let seen = ImageView {
        name: format!("{}:{}", image.repository, image.tag),
        framework: &image.framework,
        version: image.version.as_ref(),
        cuda: image.cuda.as_ref(),
        cudnn: image.cudnn.as_ref(),
        evidence: image.evidence,
    };
    if printer.json {
        printer.json(&json!({ "image": seen, "verdict": judged.verdict, "reasons": judged.reasons }));
        return Ok(code);
    }
    let line = |name: &str, text: &str| {
        printer.out(&format!("{}{}", report::label(printer, name), wrap(text, 15)));
    };
    line("host", &report::host_line(host, registry));
    line("image", &seen.name);
    let unknown = || "unknown".to_owned();
    line("inside", &format!("{} {}", seen.framework, seen.version.map_or_else(unknown, ToString::to_string)));
    line("", &format!("CUDA {}", seen.cuda.map_or_else(unknown, ToString::to_string)));
    line("", &format!("cuDNN {}", seen.cudnn.map_or_else(unknown, ToString::to_string)));
    line("source", &registry.source_text(&image.source));
    let (style, verdict) = match judged.verdict {
        Verdict::Runs => (GOOD, "this machine can run it"),
        Verdict::DoesNotRun => (ERROR, "this machine cannot run it"),
        Verdict::Unknown => (WARN, "unknown: not everything could be checked"),
    };
    printer.out("");
    printer.out(&printer.paint(style, verdict));
    for reason in &judged.reasons {
        printer.out(&format!("  {}", wrap(reason, 2)));
    }
    Ok(code)
}

fn request(args: &PlanArgs, registry: &Registry) -> Result<Request, Failure> {
    let usage = |message: String| Failure::usage(message);
    let mut request = Request::default();
    let torch = settings::requirement(args.torch.as_deref().unwrap_or("torch"))?;
    if torch.name() != "torch" {
        let name = torch.name().to_owned();
        return Err(usage(format!("`plan` lists builds of torch, not of `{name}`")));
    }
    request.requirements.push(torch);
    if let Some(text) = &args.python {
        request.python = Some(settings::python(text)?);
        settings::check_python(request.python.as_ref(), registry)?;
    }
    let variant = args.variant.clone();
    request.variant = variant.map(|value| Limit { value, origin: Origin::Option("--variant") });
    request.only_index = args.only_index.as_deref().map(only::parse).transpose()?;
    Ok(request)
}

/// `asked`, `variant`: the builds that are asked about, if not all.
fn show(
    printer: &Printer,
    (plan, unread): (&Plan, Option<&UnreadBuild>),
    (asked, variant): (Option<&str>, Option<&str>),
    host: &Host,
    registry: &Registry,
) {
    printer.out(&format!("host   {}", wrap(&report::host_line(host, registry), 7)));
    printer.out("");
    let named = asked.map_or_else(|| "torch".to_owned(), |text| format!("`{}`", clean(text, 80)));
    match (plan.runs.is_empty(), plan.out.is_empty()) {
        (false, _) => rows(printer, &plan.runs, asked.is_some()),
        (true, _) if unread.is_some() => {
            printer.out(&format!("not known whether a build of {named} runs on this machine"));
        }
        (true, false) => printer.out(&format!("no known build of {named} runs on this machine")),
        (true, true) => {
            let platform = host.system.platform;
            let of_variant = variant.map(|variant| format!("{} ", clean(variant, 20))).unwrap_or_default();
            printer.out(&format!("envlock's data has no {of_variant}build of {named} for {platform}"));
        }
    }
    if let Some(unread) = unread {
        printer.out(&format!("{}{}", report::label(printer, "unknown"), wrap(&unread.to_string(), 15)));
        printer.hint("`envlock registry learn URL` reads the wheel of a build; `envlock resolve` reads releases of PyPI");
    } else if plan.runs.is_empty() && asked.is_some() {
        printer.hint("without a requirement, `envlock plan` lists the builds that run there");
    }
    printer.out("");
    // It is obvious that CPU builds are excluded on a machine with a GPU, where others run.
    let is_told = |out: &&PlanOut| plan.runs.is_empty() || !out.builds.iter().all(|b| b.variant == "cpu");
    let told = plan.out.iter().filter(is_told);
    for (i, out) in told.enumerate() {
        printer.out(&format!(
            "{}{}",
            report::label(printer, if i == 0 { "excluded" } else { "" }),
            why_out(out)
        ));
    }
    if let Some(text) = report::last_build(host, registry) {
        printer.out(&format!("{}{}", report::label(printer, "ends"), wrap(&text, 15)));
    }
    let tegra = registry.tegra();
    if host.gpus.iter().flatten().any(|g| g.capability.is_some_and(|c| tegra.capabilities.contains(&c))) {
        printer.out(&format!("{}{}", report::label(printer, "Jetson"), wrap(&tegra.note, 15)));
    }
}

/// Prints the table; without `-v`, the newest build of each version and at most [`SHOWN`] rows. `with_oldest`: the last row is
/// the oldest version, the smallest step from what a project has.
fn rows(printer: &Printer, runs: &[PlanRow], with_oldest: bool) {
    let mut shown: Vec<&PlanRow> = Vec::new();
    for row in runs {
        let another = shown.last().is_some_and(|last| last.torch == row.torch);
        if printer.verbose || !another {
            shown.push(row);
        }
    }
    let mut is_gap_before_last = false;
    if !printer.verbose && shown.len() > SHOWN {
        let oldest = shown.last().copied().filter(|_| with_oldest);
        is_gap_before_last = oldest.is_some();
        shown.truncate(SHOWN - usize::from(is_gap_before_last));
        shown.extend(oldest);
    }
    let hidden = runs.len() - shown.len();
    let builds = Count(hidden).word("build", "builds");
    let cells = |row: &PlanRow| {
        let dash = || "-".to_owned();
        [
            row.torch.clone(),
            row.variant.clone(),
            row.cudnn.as_ref().map_or_else(dash, ToString::to_string),
            row.index.clone(),
            row.driver_mode.map_or_else(
                || row.driver_min.as_ref().map_or_else(dash, |v| format!(">= {v}")),
                |m| m.to_string(),
            ),
            row.evidence.to_string(),
        ]
    };
    let head = ["torch", "variant", "cudnn", "index", "driver", "evidence"].map(str::to_owned);
    let table: Vec<[String; 6]> = std::iter::once(head).chain(shown.iter().map(|r| cells(r))).collect();
    let width = |column: usize| table.iter().map(|r| r[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for (i, row) in table.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
        let line = format!("  {}", cells.join("  ")).trim_end().to_owned();
        if is_gap_before_last && i + 1 == table.len() {
            let text =
                format!("  ... {hidden} more {builds}; `-v` or `--json` shows all; the oldest version:");
            printer.out(&printer.paint(DIM, &text));
        }
        printer.out(&if i == 0 { printer.paint(DIM, &line) } else { line });
    }
    if hidden > 0 && !is_gap_before_last {
        let text = format!("  and {hidden} more {builds}; `-v` or `--json` shows all");
        printer.out(&printer.paint(DIM, &text));
    }
}

/// `has no code for NVIDIA V100 (7.0): cu132 of 2.12.0 to 2.15.0, cu130 of ...`
fn why_out(out: &PlanOut) -> String {
    let flavours: Vec<String> = out
        .builds
        .iter()
        .map(|b| {
            let spans: Vec<String> = b
                .spans
                .iter()
                .map(|(oldest, newest)| match oldest == newest {
                    true => oldest.clone(),
                    false => format!("{oldest} to {newest}"),
                })
                .collect();
            format!("{} of {}", b.variant, spans.join(" and "))
        })
        .collect();
    wrap(&format!("{}: {}", out.reason, flavours.join(", ")), 15)
}
