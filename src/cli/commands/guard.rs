//! `envlock guard`: a preflight snippet for a training script.

use crate::cli::args::{GlobalArgs, GuardArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::printer::Printer;
use crate::cli::settings::Project;
use crate::cli::{files, lock, write};
use crate::export;

pub(super) fn run(global: &GlobalArgs, args: &GuardArgs, printer: &Printer) -> Result<u8, CliError> {
    let project = Project::find(global, true)?;
    let lock = lock::read(&project)?.ok_or_else(lock::missing)?;
    lock::warn_if_stale(&project, &lock, &project.registry(global)?, printer);
    let target = lock::target(&lock, args.target.as_deref())?;
    if lock.targets.len() > 1 && args.target.is_none() {
        printer.note(&format!(
            "the guard is for the target `{}` alone: on the machines of another one it stops the program; `--target NAME` writes the guard of another",
            target.name
        ));
    }
    let snippet = export::guard(target).map_err(CliError::export)?;
    if printer.json {
        printer.json(&serde_json::json!({ "target": target.name, "python": snippet }));
    } else if let Some(path) = &args.output {
        files::refuse_foreign(path, export::GUARD_MARK, args.force)?;
        write::write(path, &snippet)?;
        printer.note(&format!("wrote {}", path.display()));
    } else {
        printer.raw(&snippet);
    }
    Ok(exit::YES)
}
