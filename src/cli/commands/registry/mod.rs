//! `envlock registry lint|show|learn|update|pack`: the compatibility data.

mod learn;
mod pack;
mod update;

use crate::cli::args::RegistryCommand;
use crate::cli::printer::Printer;
use crate::registry::{Registry, show};
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings;

pub(super) fn run(global: &Global, command: &RegistryCommand, printer: &Printer) -> Result<u8, Failure> {
    match command {
        RegistryCommand::Lint => lint(global, printer),
        RegistryCommand::Learn(args) => learn::run(global, args, printer),
        RegistryCommand::Update(args) => update::run(global, args, printer),
        RegistryCommand::Pack(args) => pack::run(global, args, printer),
        RegistryCommand::Show { subject: None, .. } => in_use(global, printer),
        RegistryCommand::Show { subject: Some(subject), which } => {
            let registry = settings::registry(global)?;
            let text = match subject.as_str() {
                "torch" => show::torch(&registry, which.as_deref()),
                "gpu" => {
                    let Some(name) = which else {
                        return Err(Failure::usage("no GPU is named")
                            .hint("run `envlock registry show gpu \"RTX 4090\"`"));
                    };
                    let found = registry
                        .find_gpu(name)
                        .map_err(|e| Failure { exit: exit::NO, ..Failure::registry(e.to_string()) })?;
                    show::gpu(&registry, &found)
                }
                "driver" => show::drivers(&registry, which.as_deref()),
                other => {
                    return Err(Failure::usage(format!(
                        "unknown subject `{}`",
                        crate::model::text::clean(other, 40)
                    ))
                    .hint("use `torch VERSION`, `gpu NAME` or `driver BRANCH`"));
                }
            };
            if text.is_empty() {
                let which = which.as_deref().unwrap_or("");
                return Err(Failure {
                    exit: exit::NO,
                    ..Failure::registry(format!(
                        "the registry has no {subject} `{}`",
                        crate::model::text::clean(which, 40)
                    ))
                });
            }
            if printer.json {
                printer.json(
                    &serde_json::json!({ "subject": subject, "lines": text.lines().collect::<Vec<_>>() }),
                );
            } else {
                printer.raw(&text);
            }
            Ok(exit::YES)
        }
    }
}

/// Which data are used.
fn in_use(global: &Global, printer: &Printer) -> Result<u8, Failure> {
    let registry = settings::registry(global)?;
    let meta = registry.meta();
    let (builds, gpus, sources) = (registry.builds().len(), registry.gpus().len(), registry.sources().len());
    let of = match &global.registry {
        Some(folder) if folder.as_os_str() != settings::EMBEDDED => folder.display().to_string(),
        _ if registry.digest() == Registry::embedded().digest() => "the program's own".to_owned(),
        _ => "from `registry update`".to_owned(),
    };
    match printer.json {
        true => printer.json(&serde_json::json!({
            "date": meta.date, "schema": meta.schema.to_string(), "sha256": registry.digest(), "from": of,
        })),
        false => {
            printer.out(&format!("registry {}, {of}", meta.date));
            printer.out(&format!("  rows    {builds} torch builds, {gpus} GPUs, {sources} sources"));
            printer.out(&format!("  format  {}", meta.schema));
            printer.out(&format!("  sha256  {}", registry.digest()));
        }
    }
    Ok(exit::YES)
}

fn lint(global: &Global, printer: &Printer) -> Result<u8, Failure> {
    let folder = global.registry.as_ref().filter(|folder| folder.as_os_str() != settings::EMBEDDED);
    let is_own = folder.is_none();
    let checked = match folder {
        Some(folder) => Registry::linted(settings::registry_files(folder)?),
        None => Registry::linted(Registry::embedded().files().to_vec()),
    };
    if printer.json {
        let problems: Vec<String> =
            checked.as_ref().err().into_iter().flatten().map(ToString::to_string).collect();
        printer.json(&serde_json::json!({ "problems": problems }));
        return Ok(if problems.is_empty() { exit::YES } else { exit::NO });
    }
    match checked {
        Ok(registry) => {
            let own = if is_own { "the program's own: " } else { "" };
            printer.out(&format!(
                "{own}{} torch builds, {} GPUs, {} sources: no problems",
                registry.builds().len(),
                registry.gpus().len(),
                registry.sources().len()
            ));
            Ok(exit::YES)
        }
        Err(problems) => {
            for problem in &problems {
                printer.out(&problem.to_string());
            }
            Ok(exit::NO)
        }
    }
}
