//! `resolve -r FILE`: a requirements file as the request of a folder without a manifest.

use std::path::PathBuf;

use crate::cli::args::{GlobalArgs, ResolveArgs};
use crate::cli::error::CliError;
use crate::cli::import::{self, Imported, Optional, manifest_text};
use crate::cli::manifest;
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::model::text::shell_word;

/// A project whose manifest is the files' content. Nothing of it is written: the lock holds the request.
pub(super) fn project(
    global: &GlobalArgs,
    args: &ResolveArgs,
    printer: &Printer,
) -> Result<Project, CliError> {
    let project = Project::find(global, false)?;
    let first = &args.requirements[0];
    if project.manifest.is_some() {
        return Err(CliError::usage("`-r` cannot be given if there is an envlock.toml").hint(format!(
            "import the file instead: `envlock init --force --from {}`, which keeps the other tables",
            shell_word(&first.display().to_string())
        )));
    }
    let mut all = Imported { folder: project.folder.clone(), ..Imported::default() };
    for file in &args.requirements {
        let one = import::read(file, &project.folder, &Optional::default())?;
        all.join(one);
    }
    for text in &args.packages {
        all.requirements.push((text.clone(), settings::requirement(text)?));
    }
    manifest_text::warn(&all, printer);
    let text = manifest_text::of(all, &project.folder, &manifest_text::Own::default());
    let name = first.file_name().map_or(PathBuf::new(), PathBuf::from).display().to_string();
    let manifest = manifest::parse(&text, &name)?;
    Ok(Project { manifest: Some(manifest), reads: args.requirements.clone(), ..project })
}
