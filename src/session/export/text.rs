//! The text of a target in a format.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::{ExportOptions, Format, schedule};
use crate::bundle::{BundledFile, Role, from_one_folder, is_source};
use crate::export;
use crate::formats::write;
use crate::lockfile::{Lockfile, Target};
use crate::model::listing::in_folder;
use crate::model::project::ProjectPage;
use crate::model::solution::Need;
use crate::model::text::{clean, shell_word};
use crate::model::version::cuda_short;
use crate::registry::Registry;
use crate::session::Interface;
use crate::session::bundle::OpenBundle;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings::{self, Project};
use crate::session::{fetch, files, project_lock, requirements};

/// A target in a format.
pub(super) fn rendered(
    global: &Global,
    options: &ExportOptions,
    project: &Project,
    (lock, target): (&Lockfile, &Target),
    interface: &dyn Interface,
) -> Result<String, Failure> {
    let addresses = || settings::indexes(project, options.index_url.as_deref()).0;
    Ok(match options.format {
        Format::Environment => {
            let name = project_lock::environment_name(project, lock, target);
            write::conda_environment(target, &name, &addresses(), options.loose)?
        }
        Format::CondaExplicit => {
            let name = project_lock::environment_name(project, lock, target);
            write::conda_explicit(target, &name, &settings::conda_channel_alias())?
        }
        Format::Requirements => {
            let name = options.output.as_deref().and_then(|path| path.file_name());
            let name = name.map_or(files::REQUIREMENTS.into(), |name| name.to_string_lossy());
            let text = match &options.bundle {
                None => write::requirements(target, &addresses(), &name)?,
                Some(bundle) => of_bundle(bundle, project, (lock, target), &name)?,
            };
            // Another command without the target would write another target's.
            let named = options.target.as_ref().filter(|_| lock.targets.len() > 1);
            let of_target = named.map(|name| format!(" --target {}", shell_word(name))).unwrap_or_default();
            with_options(&text, &format!("{of_target}{}", options.parts.options()))
        }
        Format::RequirementsBuild => {
            write::requirements_to_build(target, &addresses())?.ok_or_else(|| {
                Failure::usage("no locked package is built against a framework")
                    .hint("`envlock export requirements.txt` has all packages")
            })?
        }
        Format::BuildConstraints => write::build_constraints(target)?.ok_or_else(|| {
            Failure::usage("no locked package is built from source, so there is nothing to constrain")
        })?,
        Format::Pylock => {
            let pages = pages(global, options, project, target, interface)?;
            let addresses = addresses();
            let in_own_folder = |index: &str, file: &str| {
                let (_, address) = addresses.iter().find(|(name, _)| name == index)?;
                in_folder(address, file)
            };
            write::pylock(target, &|index, project, file| {
                in_own_folder(index, file).or_else(|| url_in(&pages, index, project, file))
            })?
        }
        Format::PixiLock => {
            // Nothing is asked of the index for what cannot be expressed.
            if target.conda.is_empty() {
                return Err(write::ExportError::NoConda.into());
            }
            let pages = pages(global, options, project, target, interface)?;
            let (indexes, _) = settings::indexes(project, options.index_url.as_deref());
            let pypi = indexes.iter().find(|(name, _)| name == "pypi").map(|(_, address)| address.as_str());
            let places = write::Places {
                channel_alias: &settings::conda_channel_alias(),
                pypi,
                file: &|index, project, file| url_in(&pages, index, project, file),
            };
            in_newest_pixi_format(&write::pixi_lock(target, &places)?)?
        }
        Format::Dockerfile => dockerfile(options, project, (lock, target), interface)?,
        Format::Pixi => {
            // The declared `__cuda` is the least that a machine must have.
            let registry = project.registry(global)?;
            let driver = target.envelope.driver.as_ref();
            let cuda =
                driver.and_then(|driver| registry.cuda_of_driver(driver)).map(|known| cuda_short(known.cuda));
            let name = project_lock::environment_name(project, lock, target);
            write::pixi(target, &name, cuda.as_deref(), &addresses())?
        }
        Format::Uv => uv(options, project, target, &addresses(), interface)?,
        Format::Github => {
            let named = options.target.is_some().then_some(target);
            let folder = files::in_repository(&project.folder);
            let on_runner = export::for_a_runner(lock, named).unwrap_or(target);
            let reads =
                answered_files(project, lock, folder.as_deref(), &project.registry(global)?, interface)?;
            export::github(lock, on_runner, folder.as_deref(), (&reads, &options.parts.options()))
        }
        Format::PreCommit => {
            let folder = files::in_repository(&project.folder);
            let reads =
                answered_files(project, lock, folder.as_deref(), &project.registry(global)?, interface)?;
            export::pre_commit(folder.as_deref(), &reads)
        }
        Format::Kubernetes | Format::Slurm | Format::Htcondor => {
            schedule::rendered(global, options, project, (lock, target))?
        }
        Format::Devcontainer => {
            let name = project_lock::environment_name(project, lock, target);
            export::devcontainer(lock, target, &name, &options.parts.options())?
        }
    })
}

/// A bundle in a folder, whole, whose files an installer finds.
fn folder_of_bundle(
    path: &Path,
    project: &Project,
    (lock, target): (&Lockfile, &Target),
) -> Result<OpenBundle, Failure> {
    let bundle = OpenBundle::open(path, None)?;
    if path.is_file() {
        return Err(Failure::usage("an installer looks for files in folders, and the bundle is an archive")
            .hint("unpack it: `mkdir DIR && tar -C DIR -xf FILE`"));
    }
    bundle.whole((lock, &fs_err::read(project.lock_path())?), &[&target.name])?;
    Ok(bundle)
}

/// A Dockerfile, whose files come from the indexes or from a bundle.
fn dockerfile(
    options: &ExportOptions,
    project: &Project,
    (lock, target): (&Lockfile, &Target),
    interface: &dyn Interface,
) -> Result<String, Failure> {
    let base = options.base.as_deref();
    warn_about_base_image(base, target, interface);
    match &options.bundle {
        None => Ok(export::dockerfile(target, base, None)?),
        Some(path) => dockerfile_of_bundle(path, project, (lock, target), base),
    }
}

/// A Dockerfile whose files come from a bundle below the folder of the lock, which is the build context.
fn dockerfile_of_bundle(
    path: &Path,
    project: &Project,
    (lock, target): (&Lockfile, &Target),
    base: Option<&str>,
) -> Result<String, Failure> {
    let bundle = folder_of_bundle(path, project, (lock, target))?;
    let (folder, context) = (fs_err::canonicalize(path)?, fs_err::canonicalize(&project.folder)?);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let inner = folder.strip_prefix(&context).ok().and_then(|path| path.to_str());
    let inner = inner.filter(|path| !path.is_empty() && path.chars().all(is_plain)).ok_or_else(|| {
        let shown = clean(&path.display().to_string(), 200);
        Failure::usage(format!(
            "`{shown}` is not below the folder of the lock, from which an image is built, by a plain name"
        ))
        .hint("put the bundle beside envlock.lock: `envlock bundle`")
    })?;
    let files: Vec<&BundledFile> = bundle.manifest.of_target(&target.name).collect();
    let built: Vec<&BundledFile> = files.iter().copied().filter(|file| file.role == Role::Built).collect();
    let part = from_one_folder(target.clone(), &built);
    if let Some(source) = part.packages.iter().find(|package| is_source(package)) {
        return Err(Failure::export(format!(
            "the bundle has `{}` as source, and an image has no compiler",
            source.name
        ))
        .hint("`envlock bundle --build` builds its wheel"));
    }
    let bundle = export::BundleInContext { path: inner, files: &files };
    Ok(export::dockerfile(&part, base, Some(bundle))?)
}

/// Requirements whose files come from a bundle alone.
fn of_bundle(
    path: &Path,
    project: &Project,
    (lock, target): (&Lockfile, &Target),
    name: &str,
) -> Result<String, Failure> {
    let bundle = folder_of_bundle(path, project, (lock, target))?;
    let files: Vec<&BundledFile> = bundle.manifest.of_target(&target.name).collect();
    if let Some(pack) = files.iter().find(|file| file.role == Role::Git) {
        return Err(Failure::export(format!(
            "`{}` is a commit of git, which is no file for an installer",
            pack.name
        ))
        .hint("`envlock sync --bundle` installs it"));
    }
    let built: Vec<&BundledFile> = files.iter().copied().filter(|file| file.role == Role::Built).collect();
    let text = write::requirements(&from_one_folder(target.clone(), &built), &[], name)?;
    let mut options = String::from("--no-index\n");
    for file in files {
        if matches!(file.role, Role::Package | Role::Build | Role::Built) {
            let place = std::path::absolute(bundle.place(file))?;
            let folder = place.parent().unwrap_or(&place);
            // Of a path, installers take what stands before a space.
            let address = url::Url::from_directory_path(folder)
                .map_err(|()| Failure::internal("an absolute path has an address"))?;
            options.push_str(&format!("--find-links {address}\n"));
        }
    }
    let head: usize = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
    Ok(format!("{}{options}{}", &text[..head], &text[head..]))
}

/// A pixi.lock in the format that pixi writes now, below the line that says who wrote it.
#[cfg(feature = "conda")]
fn in_newest_pixi_format(text: &str) -> Result<String, Failure> {
    let (head, lock) = text.split_once('\n').unwrap_or(("", text));
    let lock = crate::conda::in_newest_format(lock).map_err(|error| Failure::input(error.to_string()))?;
    Ok(format!("{head}\n{lock}"))
}

/// Only a build with conda has the newer format; newer programs read the older one.
#[cfg(not(feature = "conda"))]
fn in_newest_pixi_format(text: &str) -> Result<String, Failure> {
    Ok(text.to_owned())
}

/// A requirements file with the options that chose its packages, for the command that writes it anew.
fn with_options(text: &str, options: &str) -> String {
    if options.is_empty() {
        return text.to_owned();
    }
    let head: usize = text.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
    let (head, rest) = text.split_at(head);
    format!("{head}{}{options}\n{rest}", write::REQUIREMENTS_OPTIONS)
}

/// The requirements files that a lock without a manifest answers, as paths from the repository's root: those that it was made
/// from, else requirements.txt if it does, else another one beside the lock.
fn answered_files(
    project: &Project,
    lock: &Lockfile,
    folder: Option<&str>,
    registry: &Registry,
    interface: &dyn Interface,
) -> Result<Vec<String>, Failure> {
    if files::manifest_in(&project.folder).is_some() {
        return Ok(Vec::new());
    }
    let prefix = folder.map(|folder| format!("{}/", folder.trim_end_matches('/'))).unwrap_or_default();
    if !requirements::remembered(&project.folder, lock).is_empty() {
        return Ok(lock.files.iter().map(|name| format!("{prefix}{name}")).collect());
    }
    let mut names = files::requirements_files(&project.folder);
    names.retain(|name| {
        let text = files::read(&project.folder.join(name)).ok().flatten();
        text.is_some_and(|text| !text.starts_with(write::REQUIREMENTS_MARK))
    });
    let Some(name) = names.iter().find(|name| answers(project, lock, name, registry)) else {
        interface.note(match names.is_empty() {
            true => "no manifest is here: `resolve --locked` in it compares the lock with itself alone",
            false => "none of the requirements files here asks for what the lock has: where one was edited since, run `envlock resolve -r FILE`, then export again; where the lock answers several, add `-r FILE` for each to `resolve --locked` in what is exported, which else compares the lock with itself alone",
        });
        return Ok(Vec::new());
    };
    Ok(vec![format!("{prefix}{name}")])
}

/// Whether a lock is what a requirements file asks for.
fn answers(project: &Project, lock: &Lockfile, name: &str, registry: &Registry) -> bool {
    let files = [project.folder.join(name)];
    matches!(requirements::difference(&project.folder, &files, (lock, registry)), Ok(None))
}

/// The tables for uv, where they can be appended to the project's pyproject.toml.
fn uv(
    options: &ExportOptions,
    project: &Project,
    target: &Target,
    addresses: &[(String, String)],
    interface: &dyn Interface,
) -> Result<String, Failure> {
    let append = "`envlock export uv >> pyproject.toml` appends the tables";
    if options.output.as_ref().and_then(|path| path.file_name()).is_some_and(|name| name == "pyproject.toml")
    {
        return Err(
            Failure::usage("the tables for uv are a part of pyproject.toml, not all of it").hint(append)
        );
    }
    let request = project.manifest.as_ref().map(|manifest| &manifest.request);
    let overrides: Vec<String> = request
        .into_iter()
        .flat_map(|request| &request.overrides)
        .map(|one| one.requirement.to_string())
        .collect();
    let tables = write::uv(target, addresses, &overrides)?;
    if request.is_some_and(|request| !request.metadata.is_empty()) {
        interface.warning("uv does not know what `[[metadata]]` of the manifest states");
        interface.hint("state it in `[[tool.uv.dependency-metadata]]` too");
    }
    let there = files::read(&project.folder.join("pyproject.toml"))?.unwrap_or_default();
    let parses = |text: &str| text.parse::<toml::Table>().is_ok();
    if parses(&there) && !parses(&format!("{there}\n{tables}")) {
        return Err(Failure::input("pyproject.toml has tables of uv that these would define a second time")
            .hint("remove what was appended before, or `[tool.uv]` and `[tool.uv.sources]`, whose other keys go into the new tables"));
    }
    Ok(tables)
}

/// Warns about a base image with its own cuDNN, which the loader may find first, with another Python, or without
/// a digest.
fn warn_about_base_image(base: Option<&str>, target: &Target, interface: &dyn Interface) {
    let Some(base) = base else { return };
    if base.contains("cudnn") && target.frameworks.iter().all(|x| !x.cuda_from_system) {
        interface.warning("the base image contains cuDNN, and the wheels install a second copy");
        interface.hint("use a base image without `cudnn` in its tag, or omit `--base`");
    }
    let python = base.strip_prefix("python:").and_then(|tag| tag.split(['-', '@']).next());
    let series = target.python.to_string();
    if python.is_some_and(|found| found != series && !found.starts_with(&format!("{series}."))) {
        interface.warning(&format!("the lock is for Python {series}, but the base image has another"));
    }
    if !base.contains("@sha256:") {
        interface.note("a tag can change; pin the base image with `IMAGE@sha256:...`");
    }
}

/// The pages of an index, by index and project.
type Pages = HashMap<(String, String), Arc<ProjectPage>>;

/// The URL of a file.
fn url_in(pages: &Pages, index: &str, project: &str, file: &str) -> Option<String> {
    pages.get(&(index.to_owned(), project.to_owned()))?.find(file).map(|found| found.url.clone())
}

/// The pages of the locked packages: a lock has no URLs of files.
fn pages(
    global: &Global,
    options: &ExportOptions,
    project: &Project,
    target: &Target,
    interface: &dyn Interface,
) -> Result<Pages, Failure> {
    let client = fetch::client(global, project, options.index_url.as_deref())?;
    let needs: Vec<Need> = target
        .packages
        .iter()
        .filter_map(|p| Some(Need::Page { index: p.source.index()?.to_owned(), project: p.name.clone() }))
        .collect();
    let bar = interface.progress("reading URLs from the index");
    let fetched = client
        .fetch(&needs, None, &mut |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        })
        .map_err(|e| fetch::index_error(&e, None))?;
    bar.finish_and_clear();
    let mut pages = Pages::new();
    for answer in fetched {
        if let crate::index::Fetched::Page { index, project, page: Some(page) } = answer {
            pages.insert((index, project), page);
        }
    }
    Ok(pages)
}
