//! What a file of a project requires, by the format that its name implies.

use std::path::Path;

use super::imported::{Context, ImportError, Imported, Optional, absent, folder_of};
use super::{conda, lock_pins, pixi, pyproject, requirements, setup};
use crate::model::text::clean;

/// Whether a file lists packages of conda: an environment file, a manifest or lock of pixi, a lock of conda-lock.
pub fn is_of_conda(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    name.ends_with(".yml") || name.ends_with(".yaml") || name.starts_with("pixi.")
}

/// Reads a file in the format that its name implies. `folder` is that of the manifest.
///
/// # Errors
/// When it cannot be read, or lacks an extra or group that is asked for.
pub fn import(
    context: Context<'_>,
    file: &Path,
    folder: &Path,
    optional: &Optional,
) -> Result<Imported, ImportError> {
    let out = Imported::into_folder(folder);
    let base = folder_of(file);
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let extension = file.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
    let place = (name.as_str(), base.as_path());
    match (name.as_str(), extension.as_str()) {
        (_, "txt" | "in") => requirements::read(out, context, file),
        (name, "lock") if lock_pins::python::NAMES.contains(&name) => lock_pins::python::read(out, context, file, place, optional),
        (name, "lock" | "yml" | "yaml") if let Some(tool) = lock_pins::conda_locks::tool(name) => {
            lock_pins::conda_locks::read(out, context, (tool, file), place, optional)
        }
        ("pixi.toml", _) => pixi::read(out, context, &context.text(file)?, place, optional),
        ("setup.py" | "setup.cfg", _) if context.files.is_file(file) => {
            setup::read(out, context, place, optional)
        }
        (_, "toml") => {
            let text = context.text(file)?;
            let mut read = pyproject::read(out, context, &text, place, optional)?;
            pixi::add_of_pyproject(&mut read, context, &text, place, optional)?;
            match read.requirements.is_empty() && lock_pins::python::is_of_workspace(&text) {
                true => Err(lock_pins::python::workspace_without_requirements()),
                false => Ok(read),
            }
        }
        (_, "yml" | "yaml") => conda::environment(out, context, &context.text(file)?, place, optional.conda),
        _ if !(context.files.is_file(file) || context.files.is_folder(file)) => Err(absent(file)),
        _ => Err(ImportError::usage(format!("`{}` has an unsupported format", clean(&name, 80))).hint(
            "supported are requirements.txt, pyproject.toml (PEP 621, uv, poetry), uv.lock, poetry.lock, setup.py, setup.cfg, environment.yml, pixi.toml, pixi.lock, conda-lock.yml",
        )),
    }
}
