//! `pixi.lock` and `conda-lock.yml`, and the manifest beside them: what is required stands there, and the lock bounds the
//! versions of what is a Python package.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pep440_rs::Version;
use serde::Deserialize;

use super::{bound, is_of_a_build, leave_out_several};
use crate::formats::conda::{self, CondaRecord};
use crate::formats::foreign_lock::ForeignLock;
use crate::formats::imported::{Context, ImportError, Imported, Optional};
use crate::formats::types::Tool;
use crate::formats::{pixi, pyproject};
use crate::model::conda::CONDA_FORGE;
use crate::model::platform::{Arch, Os, Platform};
use crate::model::source::Source;
use crate::model::text::{clean, normalized_name};
use crate::registry::STACK_PACKAGES;
use crate::registry::conda_names::pypi_name;

/// The tool of a lock by the file's name.
pub(in crate::formats) fn tool(name: &str) -> Option<Tool> {
    Tool::of(name, "").filter(|tool| matches!(tool, Tool::Pixi | Tool::CondaLock))
}

/// Reads a lock and the manifest in its folder.
///
/// # Errors
/// When one of them is not there or cannot be read.
pub(in crate::formats) fn read(
    out: Imported,
    context: Context<'_>,
    (tool, file): (Tool, &Path),
    (name, base): (&str, &Path),
    optional: &Optional,
) -> Result<Imported, ImportError> {
    let document = context.text(file)?;
    let lock = ForeignLock::parse(tool, &document).map_err(|error| {
        ImportError::input(format!(
            "`{}` cannot be read as a lock of {}: {error}",
            clean(name, 80),
            tool.name()
        ))
    })?;
    let manifests = match tool {
        Tool::Pixi => vec![PathBuf::from("pixi.toml"), PathBuf::from("pyproject.toml")],
        _ => sources(&document),
    };
    let is_manifest = |path: &PathBuf| {
        let is_of_other =
            path.ends_with("pyproject.toml") && !context.text(path).is_ok_and(|own| pixi::is_in(&own));
        context.files.is_file(path) && !is_of_other
    };
    let stated = manifests.iter().map(|manifest| base.join(manifest)).find(is_manifest);
    let Some(stated) = stated else {
        let hint = match tool {
            Tool::Pixi => {
                "that is in `pixi.toml`, or `[tool.pixi]` of `pyproject.toml`; neither is beside it"
                    .to_owned()
            }
            _ => {
                let wanted = manifests.iter().map(|m| format!("`{}`", clean(&m.to_string_lossy(), 80)));
                format!("that is in {}, which is not beside it", wanted.collect::<Vec<_>>().join(" or "))
            }
        };
        return Err(ImportError::input(format!(
            "`{}` does not say what the project requires",
            clean(name, 80)
        ))
        .hint(hint));
    };
    let stated_name = stated.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut out = match tool {
        Tool::Pixi if stated.ends_with("pyproject.toml") => {
            let own = context.text(&stated)?;
            let mut out = pyproject::read(out, context, &own, (&stated_name, base), &Optional::default())?;
            pixi::add_of_pyproject(&mut out, context, &own, (&stated_name, base), optional)?;
            out
        }
        Tool::Pixi => {
            let optional = Optional {
                conda: optional.conda,
                environment: optional.environment.clone(),
                ..Optional::default()
            };
            pixi::read(out, context, &context.text(&stated)?, (&stated_name, base), &optional)?
        }
        _ => conda::environment(out, context, &context.text(&stated)?, (&stated_name, base), optional.conda)?,
    };
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |name: String, version: Version| {
        if !is_of_a_build(&name) {
            // `+cu128` is chosen for the hardware.
            versions.entry(normalized_name(&name)).or_default().insert(version.without_local().to_string());
        }
    };
    // A package has another version on another platform; envlock locks for Linux first.
    let linux = Platform { os: Os::Linux, arch: Arch::X86_64 };
    let platforms = lock.platforms();
    let platform =
        platforms.iter().copied().find(|platform| *platform == linux).or(platforms.first().copied());
    for environment in platform.into_iter().flat_map(|platform| lock.environments(platform, None)) {
        for package in environment.packages {
            if matches!(package.source, Source::Index(_)) {
                add(package.name, package.version);
            }
        }
        for record in environment.conda.iter().filter(|record| is_python(record)) {
            let Some(name) = pypi_name(CONDA_FORGE, &record.name) else { continue };
            // conda builds torchvision anew for other releases of torch than PyPI's pairs.
            if STACK_PACKAGES.contains(&name.as_str()) {
                continue;
            }
            if let Ok(version) = record.version.parse::<Version>() {
                add(name, version);
            }
        }
    }
    let several = bound(&mut out, versions);
    leave_out_several(&mut out, &several, name);
    Ok(out)
}

/// Whether a conda package holds a Python package: its build names a Python (`py312h68727a3_0`, `pyhd8ed1ab_1`,
/// `cuda129_mkl_py312_h6bb0a4e_304`).
fn is_python(record: &CondaRecord) -> bool {
    record.is_package()
        && record
            .build
            .split('_')
            .any(|part| part.starts_with("py") && part.len() > 2 && !part.starts_with("pypy"))
}

/// The files that a `conda-lock.yml` was made from.
fn sources(document: &str) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct Lock {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        sources: Vec<String>,
    }
    let read: Option<Lock> = serde_saphyr::from_str(document).ok();
    let own = read.into_iter().flat_map(|lock| lock.metadata.sources);
    let is_near = |path: &PathBuf| {
        let is_yml = path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml");
        path.is_relative() && is_yml && !path.components().any(|part| part == std::path::Component::ParentDir)
    };
    let mut out: Vec<PathBuf> = own.map(PathBuf::from).filter(is_near).collect();
    out.extend(
        (!out.iter().any(|own| own.ends_with("environment.yml"))).then(|| PathBuf::from("environment.yml")),
    );
    out
}
