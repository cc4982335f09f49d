//! An installed environment, for `init --from-prefix`: what nothing else needs is asked for, the rest is
//! bounded to what is there.

use std::collections::BTreeSet;
use std::path::Path;

use super::Imported;
use crate::cli::error::CliError;
use crate::inspect;
use crate::solver::STACK_PACKAGES;

/// Packages that come with an environment and that nobody asks for.
const FURNITURE: [&str; 4] = ["pip", "setuptools", "wheel", "uv"];

/// Reads an environment; nothing of it is run.
pub(in crate::cli) fn read(folder: &Path) -> Result<Imported, CliError> {
    let prefix = inspect::find_prefix(Some(folder), &|_| None).ok_or_else(|| {
        CliError::new("usage", format!("`{}` is no Python environment", folder.display()))
            .hint("name the folder of a venv or a conda environment")
    })?;
    let installed = inspect::read(&prefix, inspect::Depth::Sizes)
        .map_err(|error| CliError::new("input", error.to_string()))?;
    let origin = folder.display().to_string();
    let needed: BTreeSet<String> = installed
        .distributions
        .iter()
        .flat_map(|d| d.requires.iter().map(move |line| (d, line)))
        .filter_map(|(d, line)| {
            let end =
                line.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(line.len());
            let name = crate::model::text::normalized_name(&line[..end]);
            (name != d.name).then_some(name)
        })
        .collect();
    let mut out = Imported { python: installed.python.map(|p| p.to_string()), ..Imported::default() };
    for distribution in &installed.distributions {
        let name = distribution.name.as_str();
        if FURNITURE.contains(&name) && !needed.contains(name) {
            continue;
        }
        // The flavour is asked for once, as the stack's.
        let version = distribution.version.split('+').next().unwrap_or(&distribution.version);
        let pinned = format!("{name}=={version}");
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
        return Err(CliError::new("usage", format!("nothing is installed in `{origin}`")));
    }
    Ok(out)
}
