//! The machine code in the environment's libraries against the GPUs of the machine.

use super::{Area, finding};
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::{Gpu, Host};
use crate::model::library::DeviceCode;
use crate::model::native::{Native, OwnLibrary};
use crate::model::text::clean;
use crate::model::version::cuda_short;
use crate::registry::Registry;

/// Of so many containers or more, code for a GPU in one alone is a helper, not the library: torch 2.15.0's MAGMA
/// has 7.5 in 1 of 33 and fails on it, cuSPARSELt 0.7.1 in 1 of 795. Real support starts at 3 in 100 (cuBLASLt
/// 12.8, 6.1). A library with fewer containers may keep its kernels in a form of its own (cuFFT has one, for 5.2).
const CONTAINERS_THAT_TELL: usize = 10;

pub(super) fn check(native: &Native, host: &Host, registry: &Registry) -> Area {
    let mut area = Area { name: "gpu code".into(), ..Area::default() };
    let with_code: Vec<&OwnLibrary> = native.own.iter().filter(|own| own.library.device.is_some()).collect();
    for own in &with_code {
        let fault = own.library.device.as_ref().and_then(|code| code.fault.as_ref());
        if let Some(fault) = fault {
            area.findings.push(Finding {
                r#where: Some(clean(&own.library.path, 200)),
                ..finding(
                    Code::UnreadableGpuCode,
                    Severity::Warning,
                    format!("the GPU code of {} could not be read whole: {fault}", own.library.path),
                )
            });
        }
    }
    let torch = torch_targets(native);
    let gpus: Vec<(&Gpu, ComputeCapability)> =
        host.gpus.iter().flatten().filter_map(|gpu| Some((gpu, gpu.capability?))).collect();
    if gpus.is_empty() {
        area.summary = match &torch {
            Some(targets) => format!("torch has code for {targets}"),
            None => of_largest(&with_code).unwrap_or_default(),
        };
        return area;
    }
    let mut told: Vec<ComputeCapability> = Vec::new();
    for (gpu, capability) in gpus {
        // One of several equal cards speaks for all.
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
            n => format!("{n} libraries of {} packages looked at for {}", packages.len(), all.join(", ")),
        };
    }
    area
}

/// What torch's own kernels were compiled for: the list in `libtorch_python.so`, else the usual targets of
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

/// What the library of a framework beside torch that has the most code has it for.
fn of_largest(with_code: &[&OwnLibrary]) -> Option<String> {
    let own = with_code.iter().filter(|own| !own.package.starts_with("nvidia-"));
    let own = own.max_by_key(|own| own.library.device.as_ref().map(|code| code.containers))?;
    let (shape, _) = own.library.device.as_ref()?.shapes.first()?;
    let targets = CodeTargets { sass: shape.sass.clone(), ptx: shape.ptx.clone() };
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
        match targets.covers(self.capability, |c| self.registry.is_tegra(c)) {
            Some(Via::Sass) => None,
            Some(Via::Ptx) => {
                let own = native.own.iter().find(|own| own.library.path.ends_with("/libtorch_cuda.so"));
                let code = own.and_then(|own| own.library.device.as_ref());
                Some(self.compiled("torch", code.unwrap_or(&DeviceCode::default())))
            }
            None => Some(Finding {
                fix: Some("envlock resolve --redetect".to_owned()),
                r#where: Some("torch".to_owned()),
                ..finding(
                    Code::NoKernelImage,
                    Severity::Error,
                    format!(
                        "torch has no code for {label}: its kernels were compiled for {targets}; the first one ends with `no kernel image is available`"
                    ),
                )
            }),
        }
    }

    /// The CUDA from which on drivers compile a library's PTX for the GPU, and this driver's, where that is older.
    fn too_new(&self, code: &DeviceCode) -> Option<(String, String)> {
        let fits = code.ptx_isa.iter().filter(|(target, _)| target.ptx_covers(self.capability));
        let isa = fits.map(|(_, isa)| *isa).min()?;
        let has = self.host.driver.as_ref().and_then(|d| self.registry.cuda_of_driver(d.user_mode()))?;
        let newest =
            || self.registry.newest_ptx_isa().filter(|known| isa > known.isa).map(|known| &known.cuda);
        match (self.registry.cuda_of_ptx_isa(isa), newest()) {
            (Some(needs), _) if (has.major, has.minor) < (needs.major, needs.minor) => {
                Some((cuda_short(needs), cuda_short(has)))
            }
            // A language newer than every one that is known is compiled by newer drivers alone.
            (None, Some(known)) if (has.major, has.minor) <= (known.major, known.minor) => {
                Some((format!("after {}", cuda_short(known)), cuda_short(has)))
            }
            _ => None,
        }
    }

    /// A library that has PTX alone for the GPU.
    fn compiled(&self, name: &str, code: &DeviceCode) -> Finding {
        let label = self.gpu.label();
        if let Some((needs, has)) = self.too_new(code) {
            let text = format!(
                "{name} has only PTX for {label}, which a driver compiles from CUDA {needs} on; this one is of CUDA {has} (error 222)"
            );
            return Finding {
                fix: Some("update the NVIDIA driver on the host".to_owned()),
                r#where: Some(name.to_owned()),
                ..finding(Code::NoKernelImage, Severity::Error, text)
            };
        }
        Finding {
            r#where: Some(name.to_owned()),
            ..finding(
                Code::CompiledAtFirstUse,
                Severity::Warning,
                format!(
                    "{name} has only PTX for {label}: the driver compiles it at the first use, which takes minutes once"
                ),
            )
        }
    }

    /// A library beside torch's own kernels.
    fn library(&self, own: &OwnLibrary) -> Option<Finding> {
        let code = own.library.device.as_ref()?;
        let path = &own.library.path;
        // torch's own are judged by its list; what is read of them here is a union.
        if own.package == "torch" && !path.ends_with("libtorch_cuda_linalg.so") || code.containers == 0 {
            return None;
        }
        let served = code.serves(self.capability, &|c| self.registry.is_tegra(c));
        let covered = served.sass + served.ptx;
        let of_nvidia = own.package.starts_with("nvidia-");
        if !of_nvidia && own.package != "torch" && served.sass == 0 && served.ptx > 0 {
            let name = path.rsplit('/').next().unwrap_or(path);
            let found = self.compiled(&format!("{name} of {}", own.package), code);
            let decides = own.package == "torchvision";
            return match found.code {
                // It runs, after a while.
                Code::CompiledAtFirstUse => Some(Finding { severity: Severity::Info, ..found }),
                _ if decides => Some(found),
                // Whether anybody calls it is not known.
                _ => Some(Finding { code: Code::GpuCodeHole, severity: Severity::Warning, ..found }),
            };
        }
        // An extension of a package is its code, however little; NVIDIA's libraries are many things.
        let is_extension = !of_nvidia && own.package != "torch" && covered == 0;
        if !is_extension && (covered > 1 || code.containers < CONTAINERS_THAT_TELL) {
            return None;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let decides = own.package == "torchvision" && path.starts_with("torchvision/") && is_extension;
        let what = match own.package == "torch" {
            true => "; linear algebra that torch sends to MAGMA is expected to fail",
            false if is_extension => "; its kernels end with `no kernel image is available`",
            false => "; it was not made for this GPU",
        };
        Some(Finding {
            r#where: Some(clean(path, 200)),
            ..finding(
                if decides { Code::NoKernelImage } else { Code::GpuCodeHole },
                if decides { Severity::Error } else { Severity::Warning },
                format!(
                    "{name} of {} has code for {} in {} of its {} containers{what}",
                    own.package,
                    self.gpu.label(),
                    covered,
                    code.containers
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::platform::Platform;

    /// PTX of a language that is newer than every known one is compiled by drivers newer than the newest known, and by
    /// none before.
    #[test]
    fn ptx_newer_than_what_is_known() {
        let registry = Registry::embedded();
        let newest = registry.newest_ptx_isa().unwrap();
        let of_newest = registry.driver_of_cuda(&newest.cuda).unwrap();
        let gpu = Gpu {
            index: 0,
            name: None,
            capability: Some(ComputeCapability::new(9, 0)),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "test".to_owned(),
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
            let found_by = "test".to_owned();
            host.driver = Some(crate::model::host::Driver { version, cuda: None, compat: None, found_by });
            let capability = ComputeCapability::new(9, 0);
            let judge = Judge { gpu: &gpu, capability, host: &host, registry: &registry };
            assert_eq!(judge.too_new(&code(isa)).is_some(), too_new, "{driver} {isa:?}");
        }
    }
}
