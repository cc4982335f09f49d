//! What an image says of itself as a whole: is it the locked one, and does a machine have what its variables demand?

use std::path::PathBuf;

use crate::containers;
use crate::image::{Format, Image};
use crate::lockfile::Lockfile;
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::session::chosen_host;
use crate::session::failure::Failure;
use crate::session::lock;
use crate::verify::findings::{self, NotJudged, WrongPlatform};
use crate::verify::{Area, AreaKind};

/// What may keep the programs of an image from running at all.
pub(crate) struct Doubts {
    /// A folder that the user of the image's programs may not be able to enter.
    pub closed: Option<PathBuf>,
    /// The platform of its interpreter, if that can be read.
    pub python: Option<Platform>,
    /// Whether all of it was searched for environments.
    pub is_searched: bool,
    /// The environment that was taken, where it has several and which one the program runs in is not known.
    pub taken: Option<PathBuf>,
}

/// Judges an image by the digests that targets of a lock name, and for a machine by its `NVIDIA_REQUIRE_*` variables. `None`
/// if there is nothing to judge.
///
/// # Errors
/// When the lock has no target of that name.
pub(crate) fn judge(
    image: &Image,
    lock: Option<&Lockfile>,
    target: Option<&str>,
    machine: Option<&Host>,
    doubts: Doubts,
    registry: &Registry,
) -> Result<Option<Area>, Failure> {
    let mut area = Area::of(AreaKind::Image);
    if let (Some(python), Some(stated)) = (doubts.python, image.config.platform())
        && python != stated
    {
        area.findings.push(findings::wrong_platform(WrongPlatform::Stated(python, stated)));
    }
    if let Some(folder) = doubts.closed {
        let (user, folder) = (clean(&image.config.user, 60), clean(&folder.display().to_string(), 200));
        let why = format!(
            "programs run as user {user}, and not everybody may enter {folder}, which the interpreter is in"
        );
        area.findings.push(findings::not_judged(NotJudged::Image(why), false));
    }
    if !doubts.is_searched {
        let why = "it has more files and folders than are searched for environments";
        area.findings.push(findings::not_judged(NotJudged::Image(why.to_owned()), false));
    }
    if let Some(taken) = doubts.taken {
        let (taken, program) = (taken.display().to_string(), image.config.command.join(" "));
        let why = format!(
            "which of its environments `{}` runs in is not known: {} is judged",
            clean(&program, 80),
            clean(&taken, 200)
        );
        area.findings.push(findings::not_judged(NotJudged::Image(why), false));
    }
    let mut said = Vec::new();
    let targets = match lock {
        Some(lock) => lock::targets(lock, target)?,
        None => Vec::new(),
    };
    let pinned: Vec<_> = targets.iter().filter_map(|target| Some((target, target.image.as_ref()?))).collect();
    let stated: Vec<&str> =
        [&image.manifest_digest, &image.config_digest].into_iter().flatten().map(String::as_str).collect();
    let is_stated = |pin: &str| stated.contains(&pin);
    match pinned.iter().find(|(_, pin)| is_stated(pin.as_str())).or(pinned.first()) {
        Some((target, pin)) if is_stated(pin.as_str()) => {
            said.push(format!("the one of target {}", target.name))
        }
        Some((target, pin)) if image.manifest_digest.is_some() => {
            area.findings.push(findings::wrong_image(&target.name, pin, &stated));
        }
        Some((target, pin)) => {
            let file = match image.format {
                Format::Layers => "the archive",
                Format::Sif => "a SIF file",
                Format::SquashFs => "a SquashFS file",
            };
            let why = format!(
                "{file} does not state the digest of a manifest, so that it cannot be compared with the image {pin} of target {}",
                target.name
            );
            area.findings.push(findings::not_judged(NotJudged::Image(why), false));
        }
        None => {}
    }
    if let Some(machine) = machine {
        let demands = containers::demands(&image.config.variables, machine, registry);
        let shown = has(machine, registry);
        for demand in demands {
            match demand.is_met {
                Some(true) => said.push(format!("the machine meets {}", demand.variable)),
                Some(false) => {
                    area.findings.push(findings::image_requirement(&demand.variable, &demand.value, &shown));
                }
                None => {
                    let why = format!(
                        "whether the machine has what the image demands (`{}`) is not known",
                        demand.value
                    );
                    area.findings.push(findings::not_judged(NotJudged::Image(why), false));
                }
            }
        }
    }
    area.summary = said.join("; ");
    Ok((!said.is_empty() || !area.findings.is_empty()).then_some(area))
}

/// The facts of a machine that an image can demand: `driver 535.129.03 (CUDA 12.2), NVIDIA A100 (8.0)`.
fn has(machine: &Host, registry: &Registry) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(driver) = &machine.driver {
        let cuda = registry.cuda_of_driver(&driver.version).map(|cuda| format!(" (CUDA {cuda})"));
        parts.push(format!("driver {}{}", driver.version, cuda.unwrap_or_default()));
    }
    let mut gpus: Vec<String> = machine.gpus.iter().flatten().map(|gpu| gpu.label()).collect();
    gpus.dedup();
    parts.extend(gpus);
    parts.join(", ")
}

/// The machine of a host file, completed.
///
/// # Errors
/// When the file cannot be read, or the machine is impossible.
pub(crate) fn machine(path: &std::path::Path, registry: &Registry) -> Result<Host, Failure> {
    chosen_host::finish(chosen_host::read_host_file(path)?, registry)
}
