//! What is read of a container image and judged of it, for a machine and a lock, without running anything of it.

mod environments;
mod program;
mod reading;
pub(crate) mod types;

use std::path::{Path, PathBuf};

use environments::{closed_to_user, environments_to_judge, with_defaults};
pub(crate) use types::ImageOptions;

use super::Interface;
use super::chosen_host;
use super::failure::Failure;
use super::learned_rows;
use super::project_lock::{self, AnyLock};
use super::settings::{self, Project};
use super::verify::{self, Against, Judged, Place, Question};
use crate::image::{Format, Image};
use crate::inspect::{self, Environments};
use crate::model::finding::Severity;
use crate::model::solution::Envelope;
use crate::session::options::Global;
use crate::verify::{
    self as checks, Area, Facts, ImageFacts, Verdict, envelope_of_installed, smoke::frameworks,
};

/// An environment of an image.
pub(crate) struct InImage {
    /// Its folder, as the image's programs see it.
    pub prefix: PathBuf,
    pub judged: Judged,
    /// What its frameworks need from a machine.
    pub needs: Option<Envelope>,
}

/// What was found in an image.
pub(crate) struct ImageAnswer {
    pub image: Image,
    /// Every environment.
    pub found: Environments,
    /// The verdict on the image as a whole.
    pub whole: Option<Area>,
    pub judged: Vec<InImage>,
    /// Whether it was compared with a lock.
    pub has_lock: bool,
}

impl ImageAnswer {
    /// Everything that was judged.
    pub fn areas(&self) -> impl Iterator<Item = &Area> {
        self.whole.iter().chain(self.judged.iter().flat_map(|one| &one.judged.areas))
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        let mut areas = self.areas();
        match self.judged.is_empty() {
            true => Verdict::Unknown,
            false if areas.any(|area| area.findings.iter().any(|f| f.severity == Severity::Error)) => {
                Verdict::Differs
            }
            false => Verdict::Ok,
        }
    }
}

/// Reads an image and judges it.
///
/// # Errors
/// When the image, the lock or the host file cannot be read.
pub(crate) fn judge(
    global: &Global,
    options: &ImageOptions,
    interface: &dyn Interface,
) -> Result<ImageAnswer, Failure> {
    let lock = options.lock.as_deref().map(project_lock::read_any).transpose()?;
    let mentions = |name: &str| lock.as_ref().is_some_and(|lock| lock.mentions(name));
    let registry = learned_rows::with_rows_of(global, settings::registry_here(global)?, &mentions);
    let image = reading::read(options, interface)?;
    let place =
        Place::rooted(&image.tree, with_defaults(&image), PathBuf::from(&image.config.working_folder))
            .stating(image.config.platform());
    let command = &image.config.command;
    let found = inspect::environments(&image.tree);
    let mut judged = Vec::new();
    let chosen = environments_to_judge(&place, command, &found, options);
    let project = Project {
        folder: options.lock.as_deref().and_then(Path::parent).unwrap_or(Path::new(".")).to_path_buf(),
        manifest: None,
        reads: Vec::new(),
        is_all_read: false,
        is_beside: false,
    };
    for prefix in &chosen {
        let question = Question {
            place: &place,
            prefix,
            read: None,
            host: options.host.as_deref(),
            target: options.target.as_deref(),
            deep: false,
            require_gpu: false,
            parts: None,
            without_machine: options.host.is_none(),
            exact: false,
            stale: None,
        };
        let against = match (&lock, &options.lock) {
            (Some(AnyLock::Own(lock)), _) => Against::Lock(lock),
            (Some(AnyLock::Foreign(lock)), Some(path)) => Against::Foreign(lock, path),
            _ => Against::Nothing,
        };
        let one = verify::judge(&question, &project, against, &registry)?;
        let platform = one.machine.system.platform;
        let needs = envelope_of_installed(&registry, &one.installed, platform);
        judged.push(InImage { prefix: prefix.clone(), judged: one, needs });
    }
    // Without a framework there is nothing that this tool knows more of than others.
    if judged.iter().any(|one| !frameworks(&one.judged.installed).is_empty()) && options.prefix.is_none() {
        judged.retain(|one| lock.is_some() || !frameworks(&one.judged.installed).is_empty());
    }
    let machine = options.host.as_deref().map(|path| {
        let described = chosen_host::read_host_file(path)?;
        chosen_host::finish(described, &registry)
    });
    let machine = machine.transpose()?;
    let pinned = match &lock {
        Some(AnyLock::Own(lock)) => project_lock::targets(lock, options.target.as_deref())?,
        _ => Vec::new(),
    };
    let is_open = options.prefix.is_none()
        && lock.is_some()
        && found.found.len() > 1
        && !command.is_empty()
        && !program::is_followed(&place, command);
    let facts = ImageFacts {
        file: match image.format {
            Format::Layers => "the archive",
            Format::Sif => "a SIF file",
            Format::SquashFs => "a SquashFS file",
        },
        manifest_digest: image.manifest_digest.as_deref(),
        config_digest: image.config_digest.as_deref(),
        pinned: pinned
            .iter()
            .filter_map(|target| Some((target.name.as_str(), target.image.as_ref()?)))
            .collect(),
        stated: image.config.platform(),
        python: chosen.first().and_then(|prefix| place.system(prefix)).map(|system| system.platform),
        user: &image.config.user,
        command,
        variables: &image.config.variables,
        closed: chosen.first().and_then(|prefix| closed_to_user(&place, &image, prefix)),
        is_searched: found.is_complete || options.prefix.is_some(),
        taken: chosen.first().filter(|_| is_open).cloned(),
    };
    let base = Facts { image: Some(&facts), machine: machine.as_ref(), ..Facts::none(&registry) };
    let whole = checks::judge(&base).into_iter().next();
    Ok(ImageAnswer { image, found, whole, judged, has_lock: lock.is_some() })
}
