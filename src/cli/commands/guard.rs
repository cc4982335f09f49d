//! `envlock guard`: a preflight snippet for a training script.

use crate::cli::args::GuardArgs;
use crate::cli::printer::Printer;
use crate::export;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings::Project;
use crate::session::{files, project_lock, write};

pub(super) fn run(global: &Global, args: &GuardArgs, printer: &Printer) -> Result<u8, Failure> {
    let project = Project::find(global, true)?;
    let lock = project_lock::read(&project)?.ok_or_else(project_lock::missing)?;
    project_lock::warn_if_stale(&project, &lock, &project.registry(global)?, printer);
    let target = project_lock::target(&lock, args.target.as_deref())?;
    if lock.targets.len() > 1 && args.target.is_none() {
        printer.note(&format!(
            "the guard is for the target `{}` alone: on the machines of another one it stops the program; `--target NAME` writes the guard of another",
            target.name
        ));
    }
    let snippet = export::guard(target).map_err(Failure::export)?;
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
