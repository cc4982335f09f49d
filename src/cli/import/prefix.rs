//! An installed environment, for `init --from-prefix`: what nothing else needs is asked for, the rest is
//! bounded to what is there.

use std::collections::BTreeSet;
use std::path::Path;

use super::Imported;
use crate::cli::error::CliError;
use crate::inspect;
use crate::model::text::requirement_name;
use crate::registry::STACK_PACKAGES;
use crate::verify::FURNITURE;

/// Reads an environment; nothing of it is run.
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
        if FURNITURE.contains(&name) && !needed.contains(name) {
            continue;
        }
        // The flavour is asked for once, as the stack's.
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
