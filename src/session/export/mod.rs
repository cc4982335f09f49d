//! `export`: a lock in the format of another tool.

mod format;
mod save;
mod schedule;
mod text;

use std::path::PathBuf;

pub use format::{About, Format};
use save::save;
pub use schedule::ScheduleOptions;
use text::rendered;

use super::Interface;
use super::failure::Failure;
use super::options::{Global, Parts};
use super::project_lock;
use super::settings::Project;
use crate::lockfile::{Lockfile, Target};
use crate::model::owner::Owner;

/// What is exported, and where to.
#[derive(Debug)]
pub struct ExportOptions {
    /// The format.
    pub format: Format,
    /// The file, or the folder for all targets; the text is returned without one.
    pub output: Option<PathBuf>,
    /// The target of the lock.
    pub target: Option<String>,
    /// Whether each target gets a file.
    pub all_targets: bool,
    /// Extras and groups.
    pub parts: Parts,
    /// Whether the builds of conda packages are left out.
    pub loose: bool,
    /// The base image of a Dockerfile.
    pub base: Option<String>,
    /// The address of the index `pypi`.
    pub index_url: Option<String>,
    /// Whether a file that envlock did not write is replaced.
    pub force: bool,
    /// The bundle that the files come from.
    pub bundle: Option<PathBuf>,
    /// What a scheduler is asked for.
    pub schedule: ScheduleOptions,
}

/// Exports the lock of a project. Returns the text where no file is named.
///
/// # Errors
/// When there is no lock, the format cannot have what is locked, or a file cannot be written.
pub(crate) fn export(
    global: &Global,
    options: &ExportOptions,
    interface: &dyn Interface,
) -> Result<Option<String>, Failure> {
    let project = Project::find(global, true)?;
    let lock = project_lock::read(&project)?.ok_or_else(project_lock::missing)?;
    project_lock::warn_if_stale(&project, &lock, &project.registry(global)?, interface);
    refuse_held(&lock, options.format)?;
    if options.loose && options.format != Format::Environment {
        return Err(Failure::usage("`--loose` is for `environment.yml`").hint("remove it"));
    }
    if options.bundle.is_some() && !matches!(options.format, Format::Requirements | Format::Dockerfile) {
        return Err(Failure::usage("`--bundle` is for `requirements.txt` and `Dockerfile`").hint("remove it"));
    }
    options.schedule.refuse_elsewhere(options.format)?;
    let lock = match options.format {
        // It says itself which packages belong to which extras and groups.
        Format::Pylock if options.parts.is_empty() => lock,
        Format::Pylock => {
            return Err(Failure::usage("pylock.toml has all extras and groups, with markers").hint(
                "name them where it is installed: `uv pip sync --extra NAME --group NAME pylock.toml`",
            ));
        }
        Format::Uv if options.parts.is_empty() => lock,
        Format::Uv => {
            return Err(Failure::usage("uv locks all extras and groups, whatever is installed")
                .hint("name them where they are installed: `uv sync --extra NAME --group NAME`"));
        }
        _ => project_lock::with_parts(lock, &options.parts)?,
    };
    if let (true, Some(folder)) = (options.all_targets, &options.output) {
        fs_err::create_dir_all(folder)?;
        for (i, target) in lock.targets.iter().enumerate() {
            let text = rendered(global, options, &project, (&lock, target), interface)?;
            save(&folder.join(file_of(options.format, target, i == 0)), &text, options, interface)?;
        }
        return Ok(None);
    }
    let target = project_lock::target(&lock, options.target.as_deref())?;
    let text = rendered(global, options, &project, (&lock, target), interface)?;
    match &options.output {
        None => return Ok(Some(text)),
        Some(path) => save(path, &text, options, interface)?,
    }
    Ok(None)
}

/// Refuses formats that list packages, where another tool's lock holds them.
fn refuse_held(lock: &Lockfile, format: Format) -> Result<(), Failure> {
    let Some(held) = &lock.packages_in else { return Ok(()) };
    use Format::{Devcontainer, Github, Htcondor, Kubernetes, PreCommit, Slurm};
    let needs_none = [Github, PreCommit, Devcontainer, Kubernetes, Slurm, Htcondor];
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
fn file_of(format: Format, target: &Target, is_first: bool) -> String {
    let name = format.about().file.to_owned();
    match (is_first, name.rsplit_once('.')) {
        (true, _) => name,
        (false, Some((stem, extension))) => format!("{stem}.{}.{extension}", target.name),
        (false, None) => format!("{name}.{}", target.name),
    }
}
