//! `plan`: what runs on a machine, from the registry alone: builds of torch, an image, a lock; or a page that answers for every
//! machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::failure::{Failure, FailureKind};
use super::options::{Global, MachineOptions};
use super::settings::Project;
use super::verify::{Locks, lock_on_machine};
use super::{chosen_host, files, learned_rows, manifest, only, project_lock, settings, write};
use crate::compatibility::Open;
use crate::containers::{self, Judgement, NameError};
use crate::explorer;
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::request::{Limit, Origin, Request};
use crate::registry::{Cited, Image, Registry};
use crate::solver::{Catalogue, Plan, open_question, plan as plan_builds};

/// The options of `plan`.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Requirement on torch.
    pub torch: Option<String>,
    /// The container image that is asked about.
    pub image: Option<String>,
    /// The lock that is asked about.
    pub lock: Option<PathBuf>,
    /// Where the page is written that answers for every machine.
    pub html: Option<PathBuf>,
    /// A file that envlock did not write is replaced.
    pub force: bool,
    /// Environment, extra or target of the lock.
    pub target: Option<String>,
    /// The machine.
    pub host: MachineOptions,
    /// Python version.
    pub python: Option<String>,
    /// CUDA variant.
    pub variant: Option<String>,
    /// The indexes whose builds are meant.
    pub only_index: Option<String>,
}

/// What was asked about, judged for a machine.
pub(crate) struct Planned {
    /// The machine; of a page, any of this platform.
    pub host: Host,
    pub registry: Registry,
    pub answer: Answer,
}

/// The answer, by what was asked.
pub(crate) enum Answer {
    /// The builds of torch.
    Builds {
        plan: Plan,
        /// A build that may run and of which too little is known, where none is known to run.
        unread: Option<Open>,
        /// Whether the project takes torch from conda-forge.
        is_of_channels: bool,
    },
    /// The environments of a lock.
    Lock(PathBuf, Locks),
    /// A container image.
    Image(Box<Cited<Image>>, Judgement),
    /// An image that the data does not have.
    NoImage {
        message: String,
        near: Vec<String>,
        /// Whether there never was one of that name.
        never_existed: bool,
    },
    /// The page was written to this file.
    Page(PathBuf),
}

/// Judges what is asked about for a machine.
///
/// # Errors
/// When an option cannot be read, or what is asked about.
pub(crate) fn plan(global: &Global, options: &PlanOptions) -> Result<Planned, Failure> {
    let project = Project::find(global, false)?;
    let mut registry = project.registry(global)?;
    if let Some(path) = &options.html {
        let host = page(path, options, &registry)?;
        return Ok(Planned { host, registry, answer: Answer::Page(path.clone()) });
    }
    let own_indexes = project.manifest.iter().flat_map(|manifest| &manifest.indexes);
    let own_indexes: Vec<String> = own_indexes.map(|(name, _)| name.clone()).collect();
    let of_project = project.manifest.map(|manifest| manifest.request).unwrap_or_default();
    let host = match options.host.describe_a_machine() {
        true => chosen_host::described(&options.host, &registry, &of_project.ignored_gpus)?,
        false => chosen_host::probed(&registry, &of_project.ignored_gpus)?,
    };
    let answer = match (&options.lock, &options.image) {
        (Some(path), _) => {
            let asked = (options.target.as_deref(), options.python.as_deref());
            let lock = project_lock::read_any(path)?;
            registry = learned_rows::with_rows_of(global, registry, &|name| lock.mentions(name));
            Answer::Lock(path.clone(), lock_on_machine(&lock, asked, &host, &registry)?)
        }
        (None, Some(name)) => image(name, &host, &registry)?,
        (None, None) => {
            registry = learned_rows::with_rows_of_stack(global, registry);
            let request = request(options, &registry, &own_indexes)?;
            builds(&request, &host, &registry, of_project.conda.stack.is_some())?
        }
    };
    Ok(Planned { host, registry, answer })
}

fn builds(
    request: &Request,
    host: &Host,
    registry: &Registry,
    is_of_channels: bool,
) -> Result<Answer, Failure> {
    let plan = plan_builds(&Catalogue::new(registry, host.system.platform), host, request);
    let unread = plan.runs.is_empty().then(|| open_question(registry, host, request, false)).flatten();
    Ok(Answer::Builds { plan, unread, is_of_channels })
}

fn request(options: &PlanOptions, registry: &Registry, own_indexes: &[String]) -> Result<Request, Failure> {
    let mut request = Request::default();
    let torch = settings::requirement(options.torch.as_deref().unwrap_or("torch"))?;
    if torch.name() != "torch" {
        return Err(Failure::usage(format!("`plan` lists builds of torch, not of `{}`", torch.name())));
    }
    request.requirements.push(torch);
    if let Some(text) = &options.python {
        request.python = Some(settings::python(text)?);
        settings::check_python(request.python.as_ref(), registry)?;
    }
    let variant = options.variant.clone();
    request.variant = variant.map(|value| Limit { value, origin: Origin::Option("--variant") });
    request.only_index = options.only_index.as_deref().map(only::parse).transpose()?;
    only::check(&request, |name| {
        manifest::BUILT_IN.contains(&name) || own_indexes.iter().any(|own| own == name)
    })?;
    Ok(request)
}

/// Writes the compatibility explorer, which opens with the machine that options describe, else with this one if it has a GPU of
/// NVIDIA. Returns the machine.
fn page(path: &Path, options: &PlanOptions, registry: &Registry) -> Result<Host, Failure> {
    if options.host.glibc.is_some() {
        return Err(
            Failure::usage("the page of `--html` answers for every glibc").hint("leave out `--glibc`")
        );
    }
    let (machine, example) = match options.host.describe_a_machine() {
        true => {
            let machine = chosen_host::described(&options.host, registry, &[])?;
            check_example(&machine, registry)?;
            (machine.clone(), Some(machine))
        }
        false => {
            let seen = Some(chosen_host::seen())
                .filter(|seen| seen.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty()));
            (Host::open(Platform::LINUX_X86_64, "the page"), seen)
        }
    };
    files::refuse_others(path, &|text| text.contains(explorer::MARK), options.force)?;
    write::write(path, &explorer::page(registry, machine.system.platform, example.as_ref()))?;
    Ok(machine)
}

/// The page opens with one kind of GPU, which it has to be about.
fn check_example(machine: &Host, registry: &Registry) -> Result<(), Failure> {
    let gpus = machine.gpus.iter().flatten();
    let kinds: BTreeSet<_> = gpus.filter_map(|gpu| gpu.capability).collect();
    if kinds.len() > 1 {
        return Err(Failure::usage("the page of `--html` is about machines with one kind of GPU")
            .hint("name one `--gpu`; `envlock plan` without `--html` takes several"));
    }
    match kinds.first().filter(|own| !explorer::has_capability(registry, **own)) {
        None => Ok(()),
        Some(own) => {
            Err(Failure::usage(format!("the page of `--html` has no row about compute capability {own}"))
                .hint("`envlock registry show` lists the data that are used"))
        }
    }
}

fn image(name: &str, host: &Host, registry: &Registry) -> Result<Answer, Failure> {
    match containers::find(registry, name) {
        Ok(image) => {
            let judged = containers::judge(registry, image, host);
            Ok(Answer::Image(Box::new(image.clone()), judged))
        }
        Err(error @ NameError::NotAName(_)) => Err(Failure::usage(error.to_string())),
        // The registry cannot answer for this image, so this is an error.
        Err(error @ NameError::UnknownRepository { .. }) => {
            Err(Failure::new(FailureKind::UnknownRow, error.to_string()))
        }
        Err(error) => {
            let (near, never_existed) = match &error {
                NameError::NoSuchTag { near, never_existed, .. } => (near.clone(), *never_existed),
                _ => (Vec::new(), false),
            };
            Ok(Answer::NoImage { message: error.to_string(), near, never_existed })
        }
    }
}
