//! Imports an installed environment, for `init --from-prefix`. What it was asked for becomes the requirements; the other
//! packages become constraints to their installed version.

use std::path::Path;

use crate::formats::Imported;
use crate::inspect;
use crate::lockfile::PREINSTALLED_PACKAGES;
use crate::model::installed::{Distribution, Installed};
use crate::model::text::requirement_name;
use crate::registry::STACK_PACKAGES;
use crate::session::chosen_host;
use crate::session::failure::Failure;
use crate::session::variables;
use crate::verify::requested;

/// Reads an environment without running anything.
pub(crate) fn read(folder: &Path) -> Result<Imported, Failure> {
    let mut installed =
        inspect::read(&inspect::ThisMachine, folder, inspect::Depth::Sizes).map_err(|error| {
            Failure::input(error.to_string()).hint("name the folder of a venv or a conda environment")
        })?;
    installed.visible = inspect::visible(&inspect::ThisMachine, &installed, &chosen_host::root(), &|name| {
        variables::text(name)
    });
    let origin = folder.display().to_string();
    // A release of that name on an index would be another package.
    let (direct, of_index): (Vec<Distribution>, Vec<Distribution>) =
        installed.distributions.into_iter().partition(|d| d.direct.is_some());
    let installed = Installed { distributions: of_index, ..installed };
    let roots = requested(&installed, chosen_host::seen().system.platform);
    let mut out = Imported::default();
    out.python = installed.python.map(|python| python.to_string());
    for distribution in &installed.distributions {
        let name = distribution.name.as_str();
        let root = roots.iter().find(|root| root.name == name);
        let is_required = || {
            let lines = installed.distributions.iter().flat_map(|d| &d.requires);
            lines.map(|line| requirement_name(line)).any(|other| other == name)
        };
        if PREINSTALLED_PACKAGES.contains(&name) && !is_required() {
            continue;
        }
        // The CUDA variant is imported once, as a limit of the stack.
        let version = match distribution.version.valid() {
            Some(version) if STACK_PACKAGES.contains(&name) => version.clone().without_local().to_string(),
            Some(version) => version.to_string(),
            None => distribution.version.to_string(),
        };
        match root {
            Some(root) if !root.extras.is_empty() => {
                let extras: Vec<&str> = root.extras.iter().map(String::as_str).collect();
                out.push(&format!("{name}[{}]=={version}", extras.join(",")), &origin)?;
            }
            Some(_) => out.push(&format!("{name}=={version}"), &origin)?,
            None if STACK_PACKAGES.contains(&name) => out.push(&format!("{name}=={version}"), &origin)?,
            None => out.constraints.push(format!("{name}=={version}")),
        }
        if name == "torch" {
            out.limits.extend(distribution.variant.clone().map(|variant| ("variant", variant)));
        }
    }
    // Packages of the base Python that the environment's packages require: the lock names the versions that are imported.
    let required: Vec<String> = installed
        .distributions
        .iter()
        .flat_map(|distribution| &distribution.requires)
        .map(|line| requirement_name(line))
        .collect();
    for visible in installed.visible.iter().filter(|visible| required.contains(&visible.name)) {
        out.constraints.extend(visible.version.valid().map(|version| format!("{}=={version}", visible.name)));
    }
    for distribution in &direct {
        out.leave_out(&format!("{} (installed from a URL, a repository or a folder)", distribution.name));
    }
    if out.requirements.is_empty() {
        return Err(Failure::usage(format!("nothing is installed in `{origin}`")));
    }
    Ok(out)
}
