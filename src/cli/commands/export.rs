//! `envlock export`

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum as _;

use crate::cli::args::{ExportArgs, ExportFormat};
use crate::cli::printer::Printer;
use crate::export;
use crate::formats;
use crate::lockfile::{Lockfile, Target};
use crate::model::owner::Owner;
use crate::model::project::ProjectPage;
use crate::model::solution::Need;
use crate::model::text::{clean, shell_word};
use crate::model::version::cuda_short;
use crate::registry::Registry;
use crate::session::Interface as _;
use crate::session::error::Failure;
use crate::session::exit;
use crate::session::options::Global;
use crate::session::settings::{self, Project};
use crate::session::{fetch, files, lock, requirements, write};

pub(super) fn run(global: &Global, args: &ExportArgs, printer: &Printer) -> Result<u8, Failure> {
    let project = Project::find(global, true)?;
    let lock = lock::read(&project)?.ok_or_else(lock::missing)?;
    lock::warn_if_stale(&project, &lock, &project.registry(global)?, printer);
    refuse_held(&lock, args.format)?;
    if args.loose && args.format != ExportFormat::Environment {
        return Err(Failure::usage("`--loose` is for `environment.yml`").hint("remove it"));
    }
    let lock = match args.format {
        // It says itself which packages belong to which extras and groups.
        ExportFormat::Pylock if args.parts.is_empty() => lock,
        ExportFormat::Pylock => {
            return Err(Failure::usage("pylock.toml has all extras and groups, with markers").hint(
                "name them where it is installed: `uv pip sync --extra NAME --group NAME pylock.toml`",
            ));
        }
        ExportFormat::Uv if args.parts.is_empty() => lock,
        ExportFormat::Uv => {
            return Err(Failure::usage("uv locks all extras and groups, whatever is installed")
                .hint("name them where they are installed: `uv sync --extra NAME --group NAME`"));
        }
        _ => lock::with_parts(lock, &args.parts)?,
    };
    if let (true, Some(folder)) = (args.all_targets, &args.output) {
        fs_err::create_dir_all(folder)?;
        for (i, target) in lock.targets.iter().enumerate() {
            let text = rendered(global, args, &project, (&lock, target), printer)?;
            save(&folder.join(file_of(args.format, target, i == 0)), &text, args, printer)?;
        }
        return Ok(exit::YES);
    }
    let target = lock::target(&lock, args.target.as_deref())?;
    let text = rendered(global, args, &project, (&lock, target), printer)?;
    match &args.output {
        None => printer.raw(&text),
        Some(path) => save(path, &text, args, printer)?,
    }
    Ok(exit::YES)
}

/// Refuses formats that list packages, where another tool's lock holds them.
fn refuse_held(lock: &Lockfile, format: ExportFormat) -> Result<(), Failure> {
    let Some(held) = &lock.packages_in else { return Ok(()) };
    let needs_none = [ExportFormat::Github, ExportFormat::PreCommit, ExportFormat::Devcontainer];
    if needs_none.contains(&format) {
        return Ok(());
    }
    let hint = match held.owner {
        Owner::Uv => "uv exports them: `uv export --format requirements.txt` or `pylock.toml`",
        Owner::Pixi => "pixi exports them: `pixi workspace export conda-environment`",
    };
    Err(Failure::export(format!("`{}` holds the packages", held.owner.file())).hint(hint))
}

/// The file of a target: the format's own name for the first, `requirements.cluster.txt` for another one.
fn file_of(format: ExportFormat, target: &Target, is_first: bool) -> String {
    let value = format.to_possible_value();
    let name = match format {
        ExportFormat::Pixi => "pixi.toml".to_owned(),
        ExportFormat::CondaExplicit => "conda-explicit.txt".to_owned(),
        _ => value.as_ref().map_or("lock", |value| value.get_name()).to_owned(),
    };
    match (is_first, name.rsplit_once('.')) {
        (true, _) => name,
        (false, Some((stem, extension))) => format!("{stem}.{}.{extension}", target.name),
        (false, None) => format!("{name}.{}", target.name),
    }
}

/// A target in a format.
fn rendered(
    global: &Global,
    args: &ExportArgs,
    project: &Project,
    (lock, target): (&Lockfile, &Target),
    printer: &Printer,
) -> Result<String, Failure> {
    let addresses = || settings::indexes(project, args.index_url.as_deref()).0;
    Ok(match args.format {
        ExportFormat::Environment => {
            let name = lock::environment_name(project, lock, target);
            formats::write::conda_environment(target, &name, &addresses(), args.loose)?
        }
        ExportFormat::CondaExplicit => {
            let name = lock::environment_name(project, lock, target);
            formats::write::conda_explicit(target, &name, &settings::conda_channel_alias())?
        }
        ExportFormat::Requirements => {
            let text = formats::write::requirements(target, &addresses())?;
            // Another command without the target would write another target's.
            let named = args.target.as_ref().filter(|_| lock.targets.len() > 1);
            let of_target = named.map(|name| format!(" --target {}", shell_word(name))).unwrap_or_default();
            with_options(&text, &format!("{of_target}{}", args.parts.options()))
        }
        ExportFormat::RequirementsBuild => formats::write::requirements_to_build(target, &addresses())?
            .ok_or_else(|| {
                Failure::usage("no locked package is built against a framework")
                    .hint("`envlock export requirements.txt` has all packages")
            })?,
        ExportFormat::BuildConstraints => formats::write::build_constraints(target)?.ok_or_else(|| {
            Failure::usage("no locked package is built from source, so there is nothing to constrain")
        })?,
        ExportFormat::Pylock => {
            let pages = pages(global, args, project, target, printer)?;
            formats::write::pylock(target, &|index, project, file| url_in(&pages, index, project, file))?
        }
        ExportFormat::PixiLock => {
            // Nothing is asked of the index for what cannot be expressed.
            if target.conda.is_empty() {
                return Err(formats::write::ExportError::NoConda.into());
            }
            let pages = pages(global, args, project, target, printer)?;
            let (indexes, _) = settings::indexes(project, args.index_url.as_deref());
            let pypi = indexes.iter().find(|(name, _)| name == "pypi").map(|(_, address)| address.as_str());
            let places = formats::write::Places {
                channel_alias: &settings::conda_channel_alias(),
                pypi,
                file: &|index, project, file| url_in(&pages, index, project, file),
            };
            in_newest_pixi_format(&formats::write::pixi_lock(target, &places)?)?
        }
        ExportFormat::Dockerfile => {
            let base = args.base.as_deref();
            warn_about_base_image(base, target, printer);
            export::dockerfile(target, base)?
        }
        ExportFormat::Pixi => {
            // The declared `__cuda` is the least that a machine must have.
            let registry = project.registry(global)?;
            let driver = target.envelope.driver.as_ref();
            let cuda =
                driver.and_then(|driver| registry.cuda_of_driver(driver)).map(|known| cuda_short(known.cuda));
            let name = lock::environment_name(project, lock, target);
            formats::write::pixi(target, &name, cuda.as_deref(), &addresses())?
        }
        ExportFormat::Uv => uv(args, project, target, &addresses(), printer)?,
        ExportFormat::Github => {
            let named = args.target.is_some().then_some(target);
            let folder = files::in_repository(&project.folder);
            let on_runner = export::for_a_runner(lock, named).unwrap_or(target);
            let reads =
                answered_files(project, lock, folder.as_deref(), &project.registry(global)?, printer)?;
            export::github(lock, on_runner, folder.as_deref(), (&reads, &args.parts.options()))
        }
        ExportFormat::PreCommit => {
            let folder = files::in_repository(&project.folder);
            let reads =
                answered_files(project, lock, folder.as_deref(), &project.registry(global)?, printer)?;
            export::pre_commit(folder.as_deref(), &reads)
        }
        ExportFormat::Devcontainer => {
            let name = lock::environment_name(project, lock, target);
            export::devcontainer(lock, target, &name, &args.parts.options())?
        }
    })
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
    format!("{head}{}{options}\n{rest}", formats::write::REQUIREMENTS_OPTIONS)
}

/// The requirements files that a lock without a manifest answers, as paths from the repository's root: those that it was made
/// from, else requirements.txt if it does, else another one beside the lock.
fn answered_files(
    project: &Project,
    lock: &Lockfile,
    folder: Option<&str>,
    registry: &Registry,
    printer: &Printer,
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
        text.is_some_and(|text| !text.starts_with(formats::write::REQUIREMENTS_MARK))
    });
    let Some(name) = names.iter().find(|name| answers(project, lock, name, registry)) else {
        printer.note(match names.is_empty() {
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
    args: &ExportArgs,
    project: &Project,
    target: &Target,
    addresses: &[(String, String)],
    printer: &Printer,
) -> Result<String, Failure> {
    let append = "`envlock export uv >> pyproject.toml` appends the tables";
    if args.output.as_ref().and_then(|path| path.file_name()).is_some_and(|name| name == "pyproject.toml") {
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
    let tables = formats::write::uv(target, addresses, &overrides)?;
    if request.is_some_and(|request| !request.metadata.is_empty()) {
        printer.warning("uv does not know what `[[metadata]]` of the manifest states");
        printer.hint("state it in `[[tool.uv.dependency-metadata]]` too");
    }
    let there = files::read(&project.folder.join("pyproject.toml"))?.unwrap_or_default();
    let parses = |text: &str| text.parse::<toml::Table>().is_ok();
    if parses(&there) && !parses(&format!("{there}\n{tables}")) {
        return Err(Failure::input("pyproject.toml has tables of uv that these would define a second time")
            .hint("remove what was appended before, or `[tool.uv]` and `[tool.uv.sources]`, whose other keys go into the new tables"));
    }
    Ok(tables)
}

fn save(path: &Path, text: &str, args: &ExportArgs, printer: &Printer) -> Result<(), Failure> {
    let mark = match args.format {
        ExportFormat::Environment => formats::write::ENVIRONMENT_MARK,
        ExportFormat::Requirements => formats::write::REQUIREMENTS_MARK,
        ExportFormat::RequirementsBuild => formats::write::REQUIREMENTS_BUILD_MARK,
        ExportFormat::BuildConstraints => formats::write::BUILD_CONSTRAINTS_MARK,
        ExportFormat::CondaExplicit => formats::write::EXPLICIT_MARK,
        ExportFormat::Pylock => formats::write::PYLOCK_MARK,
        ExportFormat::Dockerfile => export::DOCKERFILE_MARK,
        ExportFormat::Uv => formats::write::UV_MARK,
        ExportFormat::Pixi => formats::write::PIXI_MARK,
        ExportFormat::PixiLock => formats::write::PIXI_LOCK_MARK,
        ExportFormat::Github => export::GITHUB_MARK,
        ExportFormat::PreCommit => export::PRE_COMMIT_MARK,
        ExportFormat::Devcontainer => export::DEVCONTAINER_MARK,
    };
    files::refuse_foreign(path, mark, args.force)?;
    let formats = [ExportFormat::Github, ExportFormat::PreCommit, ExportFormat::Devcontainer];
    // A link stays one. A pipe or a device has nothing to keep, and reading one may wait for ever.
    let is_link = fs_err::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
    let real = fs_err::canonicalize(path).ok().filter(|_| is_link && path.is_file());
    let path = real.as_deref().unwrap_or(path);
    if !args.force
        && formats.contains(&args.format)
        && path.is_file()
        && let Some(there) = files::read(path)?.filter(|there| there != text)
    {
        let shown = clean(&path.display().to_string(), 200);
        if export::is_edited(&there) {
            return Err(Failure::files(format!("`{shown}` was edited since envlock wrote it")).hint(
                "leave out `-o` to see what would be written, and take over what you want; `--force` replaces the file",
            ));
        }
        // What is not edited may be that of another project.
        if let (Some(own), Some(other)) = (command_of(text), command_of(&there))
            && own != other
        {
            let hint = match args.format {
                ExportFormat::PreCommit => {
                    "add this hook below it: without `-o` it is printed; `--force` replaces the file"
                }
                _ => "give this one a file of its own; `--force` replaces the file",
            };
            return Err(
                Failure::files(format!("`{shown}` belongs to another project of this repository")).hint(hint)
            );
        }
    }
    // `.github/workflows`, `.devcontainer`: a project without one gets it.
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs_err::create_dir_all(folder)?;
    }
    write::write(path, text)?;
    printer.note(&format!("wrote {}", path.display()));
    if let Some(reader) = reader_of(path).filter(|_| args.format == ExportFormat::Requirements) {
        printer.warning(&format!(
            "`{reader}` names this file: a build backend that reads its requirements there cannot read hashes"
        ));
        printer.hint("export it under another name (`-o requirements.lock.txt`), and keep the file that the build reads");
    }
    Ok(())
}

/// The command of an exported file that checks the lock, without its options: it names the project.
fn command_of(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.contains(" resolve --locked"))?;
    let command = line.trim_start().split_once(": ")?.1;
    command.split(" resolve --locked").next()
}

/// The file beside an exported one that names it, and from which a build backend may read requirements.
fn reader_of(path: &Path) -> Option<&'static str> {
    let folder = path.parent()?;
    let name = path.file_name()?.to_str()?;
    ["setup.py", "setup.cfg", "pyproject.toml"].into_iter().find(|reader| {
        let text = files::read(&folder.join(reader)).ok().flatten().unwrap_or_default();
        // The name alone, not as the end of another one.
        text.match_indices(name).any(|(at, _)| text[..at].ends_with(['"', '\'', '/', ' ', '[', '=', ':']))
    })
}

/// Warns about a base image with its own cuDNN, which the loader may find first, with another Python, or without
/// a digest.
fn warn_about_base_image(base: Option<&str>, target: &Target, printer: &Printer) {
    let Some(base) = base else { return };
    if base.contains("cudnn") && target.frameworks.iter().all(|x| !x.cuda_from_system) {
        printer.warning("the base image contains cuDNN, and the wheels install a second copy");
        printer.hint("use a base image without `cudnn` in its tag, or omit `--base`");
    }
    let python = base.strip_prefix("python:").and_then(|tag| tag.split(['-', '@']).next());
    let series = target.python.to_string();
    if python.is_some_and(|found| found != series && !found.starts_with(&format!("{series}."))) {
        printer.warning(&format!("the lock is for Python {series}, but the base image has another"));
    }
    if !base.contains("@sha256:") {
        printer.note("a tag can change; pin the base image with `IMAGE@sha256:...`");
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
    args: &ExportArgs,
    project: &Project,
    target: &Target,
    printer: &Printer,
) -> Result<Pages, Failure> {
    let client = fetch::client(global, project, args.index_url.as_deref())?;
    let needs: Vec<Need> = target
        .packages
        .iter()
        .filter_map(|p| Some(Need::Page { index: p.source.index()?.to_owned(), project: p.name.clone() }))
        .collect();
    let bar = printer.progress("reading URLs from the index");
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
