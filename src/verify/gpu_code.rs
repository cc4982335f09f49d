//! Checks whether the environment's libraries have GPU code for the machine's GPUs.

use super::facts::{Contents, Facts};
use super::findings::{self, CodeHole, Hole, HoleEffect, NoKernel, PtxTooNew};
use super::{Area, AreaKind};
use crate::compatibility::{containers_serving, served};
use crate::model::capability::{CodeTarget, CodeTargets, ComputeCapability, Via};
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::model::host::{Gpu, Host};
use crate::model::installed::Installed;
use crate::model::library::DeviceCode;
use crate::model::native::{Native, OwnLibrary};
use crate::model::nvidia::is_of_nvidia;
use crate::model::version::cuda_short;
use crate::registry::Registry;

/// In a library with at least this many fatbin containers, code for a GPU in only one container is a helper, not
/// support. Measured: torch 2.15.0's MAGMA has 7.5 in 1 of 33 and fails on it, cuSPARSELt 0.7.1 in 1 of 795; real
/// support starts at 3 in 100 (cuBLASLt 12.8, 6.1). A library with fewer containers may store its kernels in its own
/// format (cuFFT has one container, for 5.2).
const MIN_CONTAINERS_TO_JUDGE: usize = 10;
/// A target in at least one of this many containers is supported; see [`MIN_CONTAINERS_TO_JUDGE`].
const MIN_SHARE: usize = 40;

/// Checks whether the libraries have code for the machine's GPUs.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let (Contents { installed, native, .. }, host) = (facts.contents?, facts.machine?);
    let area = of_libraries(native, installed, host, facts.registry);
    // Without a framework there may be nothing to say.
    (native.process.is_some() || !area.findings.is_empty() || !area.summary.is_empty()).then_some(area)
}

fn of_libraries(native: &Native, installed: &Installed, host: &Host, registry: &Registry) -> Area {
    let mut area = Area::of(AreaKind::GpuCode);
    let with_code: Vec<&OwnLibrary> = native.own.iter().filter(|own| own.library.device.is_some()).collect();
    for own in &with_code {
        if let Some(fault) = own.library.device.as_ref().and_then(|code| code.fault) {
            let fix = Fix::command(findings::reinstall(installed, &own.package, false));
            area.findings.push(findings::unreadable_gpu_code(&own.library.path, fault, fix));
        }
    }
    let torch = torch_targets(native);
    let gpus: Vec<(&Gpu, ComputeCapability)> =
        host.gpus.iter().flatten().filter_map(|gpu| Some((gpu, gpu.capability?))).collect();
    if gpus.is_empty() {
        area.summary = match &torch {
            Some(targets) => format!("torch has code for {targets}; no GPU here"),
            None => of_largest(&with_code).unwrap_or_default(),
        };
        return area;
    }
    let mut told: Vec<ComputeCapability> = Vec::new();
    for (gpu, capability) in gpus {
        // GPUs of one compute capability give the same findings.
        if told.contains(&capability) {
            continue;
        }
        told.push(capability);
        let judge = Judge { gpu, capability, host, registry };
        if let Some(torch) = &torch {
            area.findings.extend(judge.torch(torch, native));
        }
        for own in &with_code {
            area.findings.extend(judge.library(own));
        }
    }
    if !area.has_errors() {
        let mut packages: Vec<&str> = with_code.iter().map(|own| own.package.as_str()).collect();
        packages.dedup();
        packages.sort_unstable();
        packages.dedup();
        let all: Vec<String> = told.iter().map(ToString::to_string).collect();
        area.summary = match with_code.len() {
            0 => String::new(),
            n => format!("{n} libraries of {} packages checked for {}", packages.len(), all.join(", ")),
        };
    }
    area
}

/// The targets of torch's own kernels: the list in `libtorch_python.so`, else the most frequent set of targets in
/// `libtorch_cuda.so`.
fn torch_targets(native: &Native) -> Option<CodeTargets> {
    let own =
        |name: &str| native.own.iter().find(|own| own.package == "torch" && own.library.path.ends_with(name));
    let list = own("/libtorch_python.so").and_then(|own| own.library.arch_list.clone());
    list.or_else(|| {
        let device = ["/libtorch_cuda.so", "/libtorch_cuda_cu.so"]
            .iter()
            .find_map(|name| own(name)?.library.device.as_ref())?;
        let (shape, _) = device.shapes.first()?;
        Some(CodeTargets { sass: shape.sass.clone(), ptx: shape.ptx.clone() })
    })
}

/// The targets of the library with the most fatbin containers, NVIDIA's excluded: for a framework other than torch.
fn of_largest(with_code: &[&OwnLibrary]) -> Option<String> {
    let own = with_code.iter().filter(|own| !is_of_nvidia(&own.package));
    let own = own.max_by_key(|own| own.library.device.as_ref().map(|code| code.containers))?;
    let code = own.library.device.as_ref()?;
    // Kernels for one GPU stand in containers of their own, so no container has all targets.
    let is_supported = |n: usize| n * MIN_SHARE >= code.containers;
    let of = |counts: Vec<(CodeTarget, usize)>| -> Vec<CodeTarget> {
        counts.into_iter().filter(|(_, n)| is_supported(*n)).map(|(target, _)| target).collect()
    };
    let targets = CodeTargets { sass: of(code.counts(|s| &s.sass)), ptx: of(code.counts(|s| &s.ptx)) };
    Some(format!("{} has code for {targets}", own.package))
}

struct Judge<'a> {
    gpu: &'a Gpu,
    capability: ComputeCapability,
    host: &'a Host,
    registry: &'a Registry,
}

impl Judge<'_> {
    fn torch(&self, targets: &CodeTargets, native: &Native) -> Option<Finding> {
        let label = self.gpu.label();
        match served(self.registry, targets, self.capability) {
            Some(Via::Sass) => None,
            Some(Via::Ptx) => {
                let own = native.own.iter().find(|own| own.library.path.ends_with("/libtorch_cuda.so"));
                let code = own.and_then(|own| own.library.device.as_ref());
                let code = code.cloned().unwrap_or_default();
                Some(match self.too_new("torch", &code) {
                    Some(ptx) => findings::no_kernel_image(&label, &NoKernel::PtxTooNew(ptx)),
                    None => findings::compiled_at_first_use("torch", &label, true),
                })
            }
            None => Some(findings::no_kernel_image(&label, &NoKernel::Torch(targets.clone()))),
        }
    }

    /// The library's PTX for the GPU, if the driver is too old to compile it.
    fn too_new(&self, library: &str, code: &DeviceCode) -> Option<PtxTooNew> {
        let fits = code.ptx_isa.iter().filter(|(target, _)| target.ptx_covers(self.capability));
        let isa = fits.map(|(_, isa)| *isa).min()?;
        let has = self.host.driver.as_ref().and_then(|d| self.registry.cuda_of_driver(d.user_mode()))?;
        // A driver newer than the registry may compile every version.
        let has = Some(has.cuda).filter(|_| !has.is_bound())?;
        let newest =
            || self.registry.newest_ptx_isa().filter(|known| isa > known.isa).map(|known| &known.cuda);
        let needs = match (self.registry.cuda_of_ptx_isa(isa), newest()) {
            (Some(needs), _) if (has.major, has.minor) < (needs.major, needs.minor) => {
                format!("{} or newer", cuda_short(needs))
            }
            // Only drivers newer than the registry compile a PTX version that the registry does not know.
            (None, Some(known)) if (has.major, has.minor) <= (known.major, known.minor) => {
                format!("newer than {}", cuda_short(known))
            }
            _ => return None,
        };
        Some(PtxTooNew { library: library.to_owned(), needs, has: cuda_short(has) })
    }

    /// Checks a library other than torch's own.
    fn library(&self, own: &OwnLibrary) -> Option<Finding> {
        let code = own.library.device.as_ref()?;
        let path = &own.library.path;
        // torch's other libraries are checked by the list of targets; MAGMA's targets differ from it.
        if own.package == "torch" && !path.ends_with("libtorch_cuda_linalg.so") || code.containers == 0 {
            return None;
        }
        let served = containers_serving(self.registry, code, self.capability);
        let covered = served.sass + served.ptx;
        let of_nvidia = is_of_nvidia(&own.package);
        let label = self.gpu.label();
        let name = path.rsplit('/').next().unwrap_or(path);
        if !of_nvidia && own.package != "torch" && served.sass == 0 && served.ptx > 0 {
            let library = format!("{name} of {}", own.package);
            return Some(match self.too_new(&library, code) {
                None => findings::compiled_at_first_use(&library, &label, false),
                Some(ptx) if own.package == "torchvision" => {
                    findings::no_kernel_image(&label, &NoKernel::PtxTooNew(ptx))
                }
                // It is unknown whether the program uses this library.
                Some(ptx) => findings::gpu_code_hole(&label, &Hole::PtxTooNew(ptx)),
            });
        }
        // For an extension, no code at all is conclusive even with few containers. NVIDIA's libraries may have other
        // forms of code.
        let is_extension = !of_nvidia && own.package != "torch" && covered == 0;
        if !is_extension && (covered > 1 || code.containers < MIN_CONTAINERS_TO_JUDGE) {
            return None;
        }
        let decides = own.package == "torchvision" && path.starts_with("torchvision/") && is_extension;
        let hole = CodeHole {
            path: path.clone(),
            package: own.package.clone(),
            covered,
            containers: code.containers,
            effect: match own.package == "torch" {
                true => HoleEffect::LinearAlgebra,
                false if is_extension => HoleEffect::NoKernelImage,
                false => HoleEffect::NotBuiltForGpu,
            },
        };
        Some(match decides {
            true => findings::no_kernel_image(&label, &NoKernel::Hole(hole)),
            false => findings::gpu_code_hole(&label, &Hole::Code(hole)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatibility::driver_of_cuda;
    use crate::model::platform::Platform;

    /// PTX with an ISA version newer than the registry's needs a driver newer than every known one.
    #[test]
    fn ptx_newer_than_what_is_known() {
        let registry = crate::registry::frozen();
        let newest = registry.newest_ptx_isa().unwrap();
        let of_newest = driver_of_cuda(&registry, &newest.cuda).unwrap();
        let gpu = Gpu {
            index: 0,
            name: None,
            capability: Some(ComputeCapability::new(9, 0)),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "test".into(),
        };
        let mut host = Host::open(Platform::LINUX_X86_64, "test");
        let code = |isa| DeviceCode { ptx_isa: vec![("9.0".parse().unwrap(), isa)], ..DeviceCode::default() };
        let after = (newest.isa.0, newest.isa.1 + 1);
        for (driver, isa, too_new) in [
            (of_newest.clone(), newest.isa, false),
            (of_newest, after, true),
            ("535.129.03".parse().unwrap(), (8, 7), true),
            ("535.129.03".parse().unwrap(), (8, 0), false),
        ] {
            let version = driver.clone();
            let found_by = "test".into();
            host.driver = Some(crate::model::host::Driver { version, cuda: None, compat: None, found_by });
            let capability = ComputeCapability::new(9, 0);
            let judge = Judge { gpu: &gpu, capability, host: &host, registry: &registry };
            assert_eq!(judge.too_new("x", &code(isa)).is_some(), too_new, "{driver} {isa:?}");
        }
    }
}
