//! Checks the machine against the envelope in the lock: platform, C library, driver, GPUs.

use super::findings::{self, DriverTooNew, NotCovered, NotJudged, WrongPlatform};
use super::{Area, AreaKind};
use crate::compatibility::{AskedDriver, glibc_suffices};
use crate::model::capability::ComputeCapability;
use crate::model::finding::{Code, Finding};
use crate::model::host::Host;
use crate::model::host_note::HostNote;
use crate::model::platform::Libc;
use crate::model::solution::Envelope;
use crate::model::version::DottedVersion;

/// Whether the compute capabilities in an envelope are those that the code supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GpuCode {
    /// They are.
    Known,
    /// The code was not read: only the driver is checked.
    Unknown,
}

/// Drivers that an envelope rests on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Drivers<'d> {
    /// The first driver that also runs the stack's PTX.
    pub native: Option<&'d DottedVersion>,
    /// The newest that a conda package asks for.
    pub asked: Option<&'d AskedDriver>,
}

/// Checks whether a machine meets an envelope.
pub fn check(
    envelope: &Envelope,
    uses_cuda: bool,
    drivers: Drivers<'_>,
    code: GpuCode,
    host: &Host,
    require_gpu: bool,
) -> Area {
    let mut found = Vec::new();
    let mut well = Vec::new();
    if envelope.platform != host.system.platform {
        found.push(findings::wrong_platform(WrongPlatform::Locked(envelope.platform, host.system.platform)));
    }
    if let (Some(need), None) = (&envelope.glibc, &host.system.libc) {
        well.push(format!("glibc unknown, >= {need} is needed"));
    }
    if let (Some(need), Some(have @ (Libc::Glibc(_) | Libc::Musl(_)))) = (&envelope.glibc, &host.system.libc)
    {
        if glibc_suffices(Some(have), need) {
            well.push(format!("{have} >= {need}"));
        } else {
            found.push(findings::libc_too_old(have, need));
        }
    }
    if uses_cuda {
        gpus((envelope, code), drivers, host, require_gpu, &mut found, &mut well);
        found.extend(compat(host));
    }
    Area { kind: AreaKind::Host, findings: found, summary: well.join(", "), as_locked: None }
}

fn gpus(
    (envelope, code): (&Envelope, GpuCode),
    drivers: Drivers<'_>,
    host: &Host,
    require_gpu: bool,
    found: &mut Vec<Finding>,
    well: &mut Vec<String>,
) {
    let Drivers { native, asked } = drivers;
    let gpus = match &host.gpus {
        None => {
            found.push(findings::not_judged(NotJudged::GpusUnknown, require_gpu));
            return;
        }
        Some(gpus) if gpus.is_empty() => {
            found.push(findings::not_judged(NotJudged::NoGpu, require_gpu));
            if require_gpu {
                well.insert(0, "no NVIDIA GPU".to_owned());
            }
            return;
        }
        Some(gpus) => gpus,
    };
    // The user-mode driver determines the CUDA version, the kernel module which GPUs are supported.
    let driver = host.driver.as_ref().map(crate::model::host::Driver::user_mode);
    let kernel = host.driver.as_ref().map(|d| &d.version);
    let reaches = |floor: &DottedVersion| host.driver.as_ref().and_then(|driver| driver.reaches(floor));
    if driver.is_none() {
        found.push(findings::not_judged(NotJudged::DriverUnknown, require_gpu));
    }
    if code == GpuCode::Unknown {
        if let (Some(driver), Some(lowest)) = (driver, &envelope.driver) {
            match reaches(lowest) {
                Some(true) => well.insert(0, format!("driver {driver} >= {lowest}")),
                Some(false) => found.push(findings::driver_too_old(driver, lowest, "CUDA", asked)),
                None => found.push(open_branch(driver, lowest, require_gpu)),
            }
        }
        return;
    }
    // Below the lowest minimum no GPU would do.
    let too_old_for_all = |found: &mut Vec<Finding>| {
        if let (Some(driver), Some(lowest)) = (driver, &envelope.driver)
            && reaches(lowest) == Some(false)
            && !found.iter().any(|f| f.code == Code::DriverTooOld)
        {
            found.push(findings::driver_too_old(driver, lowest, "every GPU", asked));
        }
    };
    // Equal GPUs get one finding.
    let mut judged: Vec<(String, Option<ComputeCapability>)> = Vec::new();
    for gpu in gpus {
        let label = gpu.label();
        if judged.contains(&(label.clone(), gpu.capability)) {
            continue;
        }
        judged.push((label.clone(), gpu.capability));
        let Some(capability) = gpu.capability else {
            found.push(findings::not_judged(NotJudged::CapabilityUnknown(label), require_gpu));
            too_old_for_all(found);
            continue;
        };
        let Some(row) = envelope.coverage.iter().find(|c| c.compute_capability == capability) else {
            let covered: Vec<String> =
                envelope.coverage.iter().map(|c| c.compute_capability.to_string()).collect();
            found.push(findings::gpu_not_covered(&label, NotCovered::Code(&covered)));
            too_old_for_all(found);
            continue;
        };
        let Some(driver) = driver else { continue };
        let reached = row.driver_min.as_ref().map(|min| (min, reaches(min)));
        if let Some((min, Some(false))) = reached {
            found.push(findings::driver_too_old(driver, min, &label, asked));
        } else if let Some((min, None)) = reached {
            found.push(open_branch(driver, min, require_gpu));
        } else if let (Some(below), Some(kernel)) = (&row.driver_below, kernel)
            && kernel >= below
        {
            found.push(findings::driver_too_new(&DriverTooNew::Envelope {
                driver: kernel.clone(),
                below: below.clone(),
                gpu: label,
            }));
        } else {
            let min =
                row.driver_min.as_ref().map(|m| format!(", driver {driver} >= {m}")).unwrap_or_default();
            well.insert(0, format!("{label}{min}"));
        }
    }
    if let (Some(driver), Some(native)) = (driver, native)
        && reaches(native) == Some(false)
        && !found.iter().any(|f| [Code::DriverTooOld, Code::NotJudged].contains(&f.code))
    {
        found.push(findings::compatibility_mode(driver, native));
    }
}

/// That a GPU is required and the machine has none, or whether it has is not known.
pub(super) fn required_gpu(host: &Host) -> Option<Finding> {
    match &host.gpus {
        None => Some(findings::not_judged(NotJudged::GpusUnknown, true)),
        Some(gpus) if gpus.is_empty() => Some(findings::not_judged(NotJudged::NoGpu, true)),
        Some(_) => None,
    }
}

/// Only the branch of a driver is known, and a release of that branch is needed.
fn open_branch(driver: &DottedVersion, need: &DottedVersion, require_gpu: bool) -> Finding {
    findings::not_judged(NotJudged::DriverBranch(driver.clone(), need.clone()), require_gpu)
}

/// A cuda-compat that is installed and does not work there: whether programs load it is not known of a described machine.
fn compat(host: &Host) -> impl Iterator<Item = Finding> {
    let notes = host.notes.iter().filter(|note| matches!(note, HostNote::CompatUnsupported { .. }));
    notes.map(|note| findings::not_judged(NotJudged::Note(note.clone()), false))
}

/// Findings for the probe's notes about hidden or unusable GPUs.
pub(super) fn notes(host: &Host) -> Vec<Finding> {
    let of = |note: &HostNote| match note {
        HostNote::VisibleDevices { .. } => Some(findings::hidden_gpus(note, host.has_no_gpu())),
        HostNote::NoAccess { .. } => Some(findings::hidden_gpus(note, true)),
        HostNote::DriverNotLoaded => Some(findings::not_judged(NotJudged::Note(note.clone()), false)),
        _ => None,
    };
    host.notes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::capability::Via;
    use crate::model::host::{Driver, Gpu};
    use crate::model::platform::Platform;
    use crate::model::solution::Coverage;

    fn envelope() -> Envelope {
        let row = |major, minor, below: Option<&str>| Coverage {
            compute_capability: ComputeCapability::new(major, minor),
            via: Via::Sass,
            driver_min: Some("525.60.13".parse().unwrap()),
            driver_below: below.map(|b| b.parse().unwrap()),
        };
        Envelope {
            driver: Some("525.60.13".parse().unwrap()),
            coverage: vec![row(7, 0, Some("590")), row(8, 0, None)],
            glibc: Some("2.28".parse().unwrap()),
            platform: Platform::LINUX_X86_64,
        }
    }

    fn host(driver: Option<&str>, gpu: Option<Option<(u8, u8)>>, glibc: &str) -> Host {
        let mut host = Host::open(Platform::LINUX_X86_64, "t");
        host.system.libc = Some(Libc::Glibc(glibc.parse().unwrap()));
        host.driver = driver.map(|v| Driver {
            version: v.parse().unwrap(),
            cuda: None,
            compat: None,
            found_by: "t".into(),
        });
        host.gpus = gpu.map(|g| {
            g.map(|(major, minor)| Gpu {
                index: 0,
                name: None,
                capability: Some(ComputeCapability::new(major, minor)),
                memory_mib: None,
                uuid: None,
                pci_id: None,
                found_by: "t".into(),
            })
            .into_iter()
            .collect()
        });
        host
    }

    #[test]
    fn verdicts() {
        type Row = (Option<&'static str>, Option<Option<(u8, u8)>>, &'static str, &'static [Code]);
        let table: &[Row] = &[
            (Some("570.26"), Some(Some((8, 0))), "2.35", &[]),
            (Some("535.54.03"), Some(Some((8, 0))), "2.35", &[Code::CompatibilityMode]),
            (Some("470.57.02"), Some(Some((8, 0))), "2.35", &[Code::DriverTooOld]),
            (Some("595.45.04"), Some(Some((7, 0))), "2.35", &[Code::DriverTooNew]),
            (Some("570.26"), Some(Some((9, 0))), "2.35", &[Code::GpuNotCovered]),
            (Some("470.57.02"), Some(Some((9, 0))), "2.35", &[Code::GpuNotCovered, Code::DriverTooOld]),
            (Some("570.26"), Some(Some((8, 0))), "2.17", &[Code::LibcTooOld]),
            (None, Some(None), "2.35", &[Code::NotJudged]),
            (None, None, "2.35", &[Code::NotJudged]),
            (None, Some(Some((8, 0))), "2.35", &[Code::NotJudged]),
        ];
        let native = "570.26".parse().unwrap();
        for (driver, gpu, glibc, expected) in table {
            let area = check(
                &envelope(),
                true,
                Drivers { native: Some(&native), asked: None },
                GpuCode::Known,
                &host(*driver, *gpu, glibc),
                false,
            );
            let codes: Vec<Code> = area.findings.iter().map(|f| f.code).collect();
            assert_eq!(codes, *expected, "{driver:?} {gpu:?} {glibc}");
        }
        let strict = check(
            &envelope(),
            true,
            Drivers::default(),
            GpuCode::Known,
            &host(None, Some(None), "2.35"),
            true,
        );
        assert!(strict.has_errors());
        assert!(
            check(
                &envelope(),
                false,
                Drivers::default(),
                GpuCode::Known,
                &host(None, Some(None), "2.35"),
                true
            )
            .findings
            .is_empty()
        );
    }
}
