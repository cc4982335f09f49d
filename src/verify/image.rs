//! What an image says of itself as a whole: is it the locked one, and does the machine have what its variables demand?

use super::facts::{Facts, ImageFacts};
use super::findings::{self, NotJudged, WrongPlatform};
use super::{Area, AreaKind};
use crate::containers;
use crate::model::finding::Finding;
use crate::model::host::Host;
use crate::model::text::clean;
use crate::registry::Registry;

/// Judges an image by the digests that targets of a lock name, and for a machine by its `NVIDIA_REQUIRE_*` variables. `None`
/// if there is nothing to judge.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let image = facts.image?;
    let mut found = Vec::new();
    if let (Some(python), Some(stated)) = (image.python, image.stated)
        && python != stated
    {
        found.push(findings::wrong_platform(WrongPlatform::Stated(python, stated)));
    }
    found.extend(image.doubts().map(|why| findings::not_judged(NotJudged::Image(why), false)));
    let mut said = Vec::new();
    image.digests(&mut found, &mut said);
    if let Some(machine) = facts.machine {
        image.demands(machine, facts.registry, &mut found, &mut said);
    }
    (!said.is_empty() || !found.is_empty()).then(|| Area {
        findings: found,
        summary: said.join("; "),
        ..Area::of(AreaKind::Image)
    })
}

impl ImageFacts<'_> {
    /// What may keep its programs from running at all, or the answer from being about them; one sentence each.
    fn doubts(&self) -> impl Iterator<Item = String> {
        let closed = self.closed.as_ref().map(|folder| {
            let (user, folder) = (clean(self.user, 60), clean(&folder.display().to_string(), 200));
            format!(
                "programs run as user {user}, and not everybody may enter {folder}, which the interpreter is in"
            )
        });
        let unsearched = (!self.is_searched)
            .then(|| "it has more files and folders than are searched for environments".to_owned());
        let taken = self.taken.as_ref().map(|taken| {
            let (taken, program) = (taken.display().to_string(), self.command.join(" "));
            format!(
                "which of its environments `{}` runs in is not known: {} is judged",
                clean(&program, 80),
                clean(&taken, 200)
            )
        });
        closed.into_iter().chain(unsearched).chain(taken)
    }

    /// Whether it is the image that a target names.
    fn digests(&self, found: &mut Vec<Finding>, said: &mut Vec<String>) {
        let stated: Vec<&str> = self.manifest_digest.into_iter().chain(self.config_digest).collect();
        let is_stated = |pin: &str| stated.contains(&pin);
        let named = self.pinned.iter().find(|(_, pin)| is_stated(pin.as_str())).or(self.pinned.first());
        match named {
            Some((target, pin)) if is_stated(pin.as_str()) => {
                said.push(format!("the one of target {target}"))
            }
            Some((target, pin)) if self.manifest_digest.is_some() => {
                found.push(findings::wrong_image(target, pin, &stated));
            }
            Some((target, pin)) => {
                let why = format!(
                    "{} does not state the digest of a manifest, so that it cannot be compared with the image {pin} of target {target}",
                    self.file
                );
                found.push(findings::not_judged(NotJudged::Image(why), false));
            }
            None => {}
        }
    }

    /// Whether a machine has what its variables demand.
    fn demands(&self, machine: &Host, registry: &Registry, found: &mut Vec<Finding>, said: &mut Vec<String>) {
        let shown = has(machine, registry);
        for demand in containers::demands(self.variables, machine, registry) {
            match demand.is_met {
                Some(true) => said.push(format!("the machine meets {}", demand.variable)),
                Some(false) => {
                    found.push(findings::image_requirement(&demand.variable, &demand.value, &shown));
                }
                None => {
                    let why = format!(
                        "whether the machine has what the image demands (`{}`) is not known",
                        demand.value
                    );
                    found.push(findings::not_judged(NotJudged::Image(why), false));
                }
            }
        }
    }
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
