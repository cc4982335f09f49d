//! `sbom`: a bill of materials of a lock and its environment, or of wheels.

mod of_environment;
mod wheels;

use std::path::PathBuf;

use super::Interface;
use super::failure::Failure;
use super::options::Global;
use super::project_lock;
use super::settings::{self, Project};
use super::verify;
use crate::lockfile::{self, Target};
use crate::model::count::Count;
use crate::model::library::Library;
use crate::model::licence::Licence;
use crate::model::solution::ChosenPackage;
use crate::model::source::{CondaPackage, Source};
use crate::registry::Registry;
use crate::sbom::{Bill, File, Identified, Of, Package, Stated, identify, is_module, is_of_others};

/// What a bill is made of.
#[derive(Debug)]
pub struct SbomOptions {
    /// Wheels, in place of a lock.
    pub wheels: Vec<PathBuf>,
    /// The target of the lock.
    pub target: Option<String>,
    /// The environment whose files are read.
    pub prefix: Option<PathBuf>,
}

/// Maximum size of METADATA and of a bill, in bytes.
const MAX_TEXT: u64 = 16 << 20;

/// What is read of a package's files.
#[derive(Default)]
struct Contents {
    licence: Licence,
    files: Vec<Identified>,
    bills: Vec<Stated>,
}

/// The bill of a project's lock with what is in its environment, or of wheels.
///
/// # Errors
/// When there is no lock, or a file cannot be read.
pub(crate) fn sbom(
    global: &Global,
    options: &SbomOptions,
    interface: &dyn Interface,
) -> Result<Bill, Failure> {
    if !options.wheels.is_empty() {
        return wheels::bill(&settings::registry_here(global)?, &options.wheels, interface);
    }
    let project = Project::find(global, true)?;
    let registry = project.registry(global)?;
    let lock = project_lock::read(&project)?.ok_or_else(project_lock::missing)?;
    project_lock::warn_if_stale(&project, &lock, &registry, interface);
    let target = project_lock::target(&lock, options.target.as_deref())?;
    let mut packages: Vec<Package> =
        target.packages.iter().map(|package| locked(package, target, &registry)).collect();
    packages.extend(target.conda.iter().map(of_conda));
    match verify::environment(options.prefix.as_deref(), global) {
        Ok(environment) => of_environment::fill(&registry, &environment.prefix, &mut packages, interface)?,
        Err(error) if options.prefix.is_some() => return Err(error),
        Err(error) => interface.note(&format!(
            "the libraries inside the packages and their licences are not listed: {}",
            error.message
        )),
    }
    packages.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    let request = lockfile::read_request(&lock.request).unwrap_or_default();
    let name = project.manifest.as_ref().and_then(|manifest| manifest.name.clone());
    let folder = || project.folder.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Bill {
        name: crate::model::text::clean(&name.or_else(folder).unwrap_or_else(|| "project".to_owned()), 100),
        roots: request.requirements.iter().map(|one| one.name().to_owned()).collect(),
        envelope: Some(target.envelope.clone()),
        packages,
    })
}

/// A locked package.
fn locked(package: &ChosenPackage, target: &Target, registry: &Registry) -> Package {
    let address = match &package.source {
        Source::Url(url) => Some(url.clone()),
        Source::Git { .. } => Some(package.source.to_string()),
        Source::Index(_) | Source::Path(_) => None,
    };
    let file = |file: &crate::model::solution::ChosenFile| File {
        name: file.name.clone(),
        url: address.clone(),
        sha256: file.sha256.clone(),
    };
    let of_row = || {
        let stack = target.stack.as_ref().filter(|stack| stack.framework == package.name)?;
        registry.build(&stack.version, &stack.variant, target.platform)?.targets.as_ref()
    };
    let code = package.targets.as_ref().map(|(targets, _)| targets).or_else(of_row);
    let sass = code.iter().flat_map(|code| &code.sass).map(|target| format!("sass {target}"));
    let ptx = code.iter().flat_map(|code| &code.ptx).map(|target| format!("ptx {target}"));
    Package {
        name: package.name.clone(),
        version: package.version_with_variant(),
        kind: "pypi",
        files: package.files.iter().map(file).collect(),
        gpu_code: sass.chain(ptx).collect(),
        requires: package.requires.iter().map(|edge| edge.to.clone()).collect(),
        ..Package::default()
    }
}

/// A locked package of conda.
fn of_conda(package: &CondaPackage) -> Package {
    let name = |spec: &String| spec.split_whitespace().next().unwrap_or_default().to_owned();
    Package {
        name: package.name.clone(),
        version: package.version.clone(),
        kind: "conda",
        files: vec![File { name: package.file.clone(), url: None, sha256: Some(package.sha256.clone()) }],
        requires: package.depends.iter().map(name).collect(),
        ..Package::default()
    }
}

/// Whether the content of a library says more than its name.
fn is_read(registry: &Registry, path: &str, size: u64) -> bool {
    /// Modules and libraries above that are not read: the largest real library of others has 120 MB.
    const LARGEST: u64 = 256 << 20;
    size <= LARGEST
        && (is_module(path)
            || is_of_others(path)
            || !identify(registry, Of { name: "", version: "" }, path, &[]).is_empty())
}

/// Adds what a library of CUDA says of its version where only code says it.
fn with_version_in_code(
    mut files: Vec<Identified>,
    read: impl FnOnce() -> Option<Library>,
) -> Vec<Identified> {
    if let [file] = files.as_mut_slice()
        && !file.is_static
        && !file.versions.iter().any(|(_, from)| *from == "content")
        && let Some(version) = read().and_then(|library| library.version)
    {
        file.versions.push((version.text, if version.from == "file name" { "file name" } else { "content" }));
    }
    files
}

/// Says how much was found.
fn tell(packages: &[Package], interface: &dyn Interface) {
    let parts: usize = packages.iter().map(|package| package.parts.len()).sum();
    interface.note(&format!(
        "{} inside {}",
        Count(parts).of("component"),
        Count(packages.len()).of("package")
    ));
}
