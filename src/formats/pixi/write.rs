//! pixi's `pixi.toml`: the machine that is needed, Python from conda-forge, every locked package from its index.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::formats::written::{ExportError, address, beside_conda, channels, extra_indexes, in_two_steps};
use crate::lockfile::Target;
use crate::model::listing::{Listing, is_local, local_path};
use crate::model::solution::ChosenPackage;
use crate::model::source::Source;
use crate::model::text::toml_string;

/// The start of every pixi.toml that envlock writes.
pub const PIXI_MARK: &str = "# Written by envlock as pixi.toml";

/// The manifest of a target, for pixi 0.71 and newer, whose platforms state the machine.
///
/// `name` is the name of the workspace, `cuda` the CUDA version (`12.0`) of the oldest driver that the target runs with.
///
/// # Errors
/// See [`ExportError`].
pub fn pixi(
    target: &Target,
    name: &str,
    cuda: Option<&str>,
    addresses: &[(String, String)],
) -> Result<String, ExportError> {
    let packages = beside_conda(target)?;
    let (_, built) = in_two_steps(&packages);
    let mut out = format!(
        "{PIXI_MARK}, from envlock.lock; change the manifest and run `envlock resolve`.\n\
         # `pixi install` locks these versions in pixi.lock; `envlock verify --prefix .pixi/envs/default` compares.\n\n\
         [workspace]\nname = {}\nchannels = [{}]\nrequires-pixi = \">=0.71\"\n",
        toml_string(name),
        channels(target).into_iter().map(toml_string).collect::<Vec<_>>().join(", ")
    );
    let mut machine = vec![format!("platform = \"{}\"", target.platform.conda_subdir())];
    machine.extend(cuda.map(|cuda| format!("cuda = {}", toml_string(cuda))));
    machine.extend(target.envelope.glibc.as_ref().map(|glibc| format!("glibc = \"{glibc}\"")));
    let _ = writeln!(out, "platforms = [{{ {} }}]", machine.join(", "));
    let python = match target.patches.is_all() {
        true => format!("{}.*", target.python),
        false => target.patches.of_series(target.python.minor),
    };
    out.push_str("\n[dependencies]\n");
    if !target.conda.iter().any(|package| package.name == "python") {
        let _ = writeln!(out, "python = {}", toml_string(&python));
    }
    for package in &target.conda {
        let version = toml_string(&format!("=={}", package.version));
        let (build, channel) = (toml_string(&package.build), toml_string(&package.channel));
        let spec = format!("{{ version = {version}, build = {build}, channel = {channel} }}");
        let _ = writeln!(out, "{} = {spec}", toml_string(&package.name));
    }
    let mut libraries: Vec<&str> =
        target.frameworks.iter().flat_map(|framework| &framework.conda).map(String::as_str).collect();
    libraries.sort_unstable();
    libraries.dedup();
    for library in libraries {
        // `cudatoolkit=11.2` is any 11.2 for conda, `cudnn>=8.6,<9` a range.
        let at = library.find(['=', '<', '>']).unwrap_or(library.len());
        let (name, version) = library.split_at(at);
        let version = match version.strip_prefix('=') {
            Some(series) => format!("{series}.*"),
            None if version.is_empty() => "*".to_owned(),
            None => version.to_owned(),
        };
        let _ = writeln!(out, "{} = {}", toml_string(name), toml_string(&version));
    }
    let mut options = String::new();
    if !built.is_empty() {
        let names: Vec<String> = built.iter().map(|package| toml_string(&package.name)).collect();
        let _ = writeln!(options, "no-build-isolation = [{}]", names.join(", "));
    }
    let lists = lists(&packages, addresses)?;
    if !lists.is_empty() {
        let _ = writeln!(options, "find-links = [{}]", lists.join(", "));
    }
    if !options.is_empty() {
        let _ = write!(out, "\n[pypi-options]\n{options}");
    }
    if !packages.is_empty() {
        out.push_str("\n[pypi-dependencies]\n");
    }
    let lines: Result<BTreeMap<&str, String>, ExportError> = packages
        .iter()
        .map(|package| Ok((package.name.as_str(), requirement(package, addresses)?)))
        .collect();
    for (name, requirement) in lines? {
        let _ = writeln!(out, "{} = {requirement}", toml_string(name));
    }
    Ok(out)
}

/// The lists of files that packages come from, as pixi's `find-links` has them.
fn lists(packages: &[&ChosenPackage], addresses: &[(String, String)]) -> Result<Vec<String>, ExportError> {
    let mut out = Vec::new();
    for (index, package) in extra_indexes(packages) {
        let address = address(addresses, index, package)?;
        if Listing::of_address(&address) == Listing::Links {
            let path = local_path(&address).map(|path| path.to_string_lossy().into_owned());
            let key = if is_local(&address) { "path" } else { "url" };
            out.push(format!("{{ {key} = {} }}", toml_string(path.as_ref().unwrap_or(&address))));
        }
    }
    Ok(out)
}

/// What pixi requires of a package.
fn requirement(package: &ChosenPackage, addresses: &[(String, String)]) -> Result<String, ExportError> {
    let version = toml_string(&format!("=={}", package.version));
    Ok(match &package.source {
        Source::Index(index) if index == "pypi" => version,
        Source::Index(index) => {
            let address = address(addresses, index, &package.name)?;
            if Listing::of_address(&address) == Listing::Links {
                return Ok(version);
            }
            format!("{{ version = {version}, index = {} }}", toml_string(&address))
        }
        Source::Url(url) => format!("{{ url = {} }}", toml_string(url)),
        Source::Git { repository, commit, subdirectory } => {
            let folder =
                subdirectory.as_ref().map(|folder| format!(", subdirectory = {}", toml_string(folder)));
            let (repository, commit) = (toml_string(repository), toml_string(commit));
            format!("{{ git = {repository}, rev = {commit}{} }}", folder.unwrap_or_default())
        }
        Source::Path(path) => format!("{{ path = {} }}", toml_string(path)),
    })
}
