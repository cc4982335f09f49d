//! Imports an installed environment, for `init --from-prefix`. Packages that no other package requires become
//! requirements; the others become constraints to their installed version.

use std::collections::BTreeSet;
use std::path::Path;

use super::Imported;
use crate::cli::error::CliError;
use crate::inspect;
use crate::model::text::requirement_name;
use crate::registry::STACK_PACKAGES;
use crate::verify::PREINSTALLED_PACKAGES;

/// Reads an environment without running anything.
pub(in crate::cli) fn read(folder: &Path) -> Result<Imported, CliError> {
    let installed = inspect::read(folder, inspect::Depth::Sizes).map_err(|error| {
        CliError::input(error.to_string()).hint("name the folder of a venv or a conda environment")
    })?;
    let origin = folder.display().to_string();
    let needed: BTreeSet<String> = installed
        .distributions
        .iter()
        .flat_map(|d| d.requires.iter().map(move |line| (d, line)))
        .map(|(d, line)| (d, requirement_name(line)))
        .filter(|(d, name)| *name != d.name)
        .map(|(_, name)| name)
        .collect();
    let mut out = Imported { python: installed.python.map(|p| p.to_string()), ..Imported::default() };
    for distribution in &installed.distributions {
        let name = distribution.name.as_str();
        if PREINSTALLED_PACKAGES.contains(&name) && !needed.contains(name) {
            continue;
        }
        // The CUDA variant is imported once, as a limit of the stack.
        let pinned = match distribution.version.valid() {
            Some(version) => format!("{name}=={}", version.clone().without_local()),
            None => format!("{name}=={}", distribution.version),
        };
        if STACK_PACKAGES.contains(&name) || !needed.contains(name) {
            out.push(&pinned, &origin)?;
        } else {
            out.constraints.push(pinned);
        }
        if name == "torch" {
            out.limits.extend(distribution.variant.clone().map(|variant| ("variant", variant)));
        }
    }
    if out.requirements.is_empty() {
        return Err(CliError::usage(format!("nothing is installed in `{origin}`")));
    }
    Ok(out)
}
