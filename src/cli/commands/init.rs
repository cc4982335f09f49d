//! `envlock init`

use crate::cli::args::{GlobalArgs, InitArgs, SolveArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::import::{self, Imported, Optional, manifest_text};
use crate::cli::printer::Printer;
use crate::cli::settings::Project;
use crate::cli::{files, manifest, write};

pub(super) fn run(global: &GlobalArgs, args: &InitArgs, printer: &Printer) -> Result<u8, CliError> {
    let folder = match &global.project {
        Some(folder) => folder.clone(),
        None => std::env::current_dir()?,
    };
    let path = folder.join(files::MANIFEST);
    if path.exists() && !args.force {
        return Err(CliError::files(format!("`{}` already exists", path.display()))
            .hint("edit it, or pass `--force` to replace it"));
    }
    let from = match (&args.from, &args.from_prefix) {
        (Some(file), _) => {
            let (extras, groups) = (args.extra.clone(), args.group.clone());
            import::read(file, &folder, &Optional { extras, groups, all_extras: args.all_extras })?
        }
        (None, Some(folder)) => import::prefix::read(folder)?,
        (None, None) => Imported::default(),
    };
    manifest_text::warn(&from, printer);
    let is_new = args.from.is_none() && args.from_prefix.is_none();
    let own = manifest_text::Own { torch: args.torch.as_deref(), python: args.python.as_deref(), is_new };
    let text = manifest_text::of(from, &folder, &own);
    // The written manifest must be readable.
    manifest::parse(&text, files::MANIFEST)?;
    write::write(&path, &text)?;
    if args.from_prefix.is_none() || args.no_lock {
        printer.out(&format!("wrote {}", path.display()));
        printer.hint("run `envlock resolve`");
        return Ok(exit::YES);
    }
    // The manifest is kept even if it cannot be locked: it still lists what is installed.
    printer.note(&format!("wrote {}", path.display()));
    let project = Project::with_manifest(folder, files::MANIFEST, &text)?;
    let solve = SolveArgs {
        host: args.host.clone(),
        index_url: args.index_url.clone(),
        redetect: true,
        force: args.force,
        ..SolveArgs::default()
    };
    super::resolve::run_in(global, &project, &[], &solve, None, printer)
}
