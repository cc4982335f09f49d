//! The machine against the envelope: platform, C library, driver, GPUs.

use super::{Area, finding};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::platform::Libc;
use crate::model::solution::Envelope;
use crate::model::version::DottedVersion;

/// Judges a machine by what a stack needs. `native` is the driver from which on its PTX runs too.
pub fn check(
    envelope: &Envelope,
    uses_cuda: bool,
    native: Option<&DottedVersion>,
    host: &Host,
    require_gpu: bool,
) -> Area {
    let mut findings = Vec::new();
    let mut well = Vec::new();
    if envelope.platform != host.system.platform {
        findings.push(finding(
            Code::WrongPlatform,
            Severity::Error,
            format!("the lock is for {}, this machine is {}", envelope.platform, host.system.platform),
        ));
    }
    if let (Some(need), Some(Libc::Glibc(have))) = (&envelope.glibc, &host.system.libc) {
        if have < need {
            findings.push(finding(
                Code::LibcTooOld,
                Severity::Error,
                format!("glibc {have} is older than the {need} that the wheels need"),
            ));
        } else {
            well.push(format!("glibc {have} >= {need}"));
        }
    }
    if uses_cuda {
        gpus(envelope, native, host, require_gpu, &mut findings, &mut well);
    }
    Area { name: "host".into(), findings, summary: well.join(", ") }
}

fn gpus(
    envelope: &Envelope,
    native: Option<&DottedVersion>,
    host: &Host,
    require_gpu: bool,
    findings: &mut Vec<Finding>,
    well: &mut Vec<String>,
) {
    let unjudged = if require_gpu { Severity::Error } else { Severity::Info };
    let mut not_judged = |what: &str| {
        findings.push(finding(Code::NotJudged, unjudged, what.to_owned()));
    };
    let gpus = match &host.gpus {
        None => {
            not_judged(
                "the GPUs of this machine are unknown, so neither they nor the driver could be judged",
            );
            return;
        }
        Some(gpus) if gpus.is_empty() => {
            not_judged("no NVIDIA GPU here: driver and GPU code could not be judged");
            return;
        }
        Some(gpus) => gpus,
    };
    // What runs CUDA is the user-mode driver; what knows the GPU is the kernel module.
    let driver = host.driver.as_ref().map(crate::model::host::Driver::user_mode);
    let kernel = host.driver.as_ref().map(|d| &d.version);
    if driver.is_none() {
        not_judged("the driver is unknown, so it could not be judged");
    }
    for gpu in gpus {
        let Some(capability) = gpu.capability else {
            findings.push(finding(
                Code::NotJudged,
                unjudged,
                format!("the compute capability of {} is unknown", gpu.label()),
            ));
            continue;
        };
        let Some(row) = envelope.coverage.iter().find(|c| c.compute_capability == capability) else {
            let covered: Vec<String> =
                envelope.coverage.iter().map(|c| c.compute_capability.to_string()).collect();
            findings.push(Finding {
                fix: Some("envlock resolve --redetect".to_owned()),
                r#where: Some(gpu.label()),
                ..finding(
                    Code::GpuNotCovered,
                    Severity::Error,
                    format!("{} is not covered: the stack serves {}", gpu.label(), covered.join(" ")),
                )
            });
            continue;
        };
        let Some(driver) = driver else { continue };
        if let Some(min) = &row.driver_min
            && driver < min
        {
            findings.push(Finding {
                fix: Some(format!(
                    "update the NVIDIA driver on the host to {min} or newer, or `envlock resolve --redetect`"
                )),
                ..finding(
                    Code::DriverTooOld,
                    Severity::Error,
                    format!("driver {driver} is below {min}, which {} needs for this stack", gpu.label()),
                )
            });
        } else if let (Some(below), Some(kernel)) = (&row.driver_below, kernel)
            && kernel >= below
        {
            findings.push(finding(
                Code::DriverTooNew,
                Severity::Error,
                format!("driver {kernel} no longer knows {}: it needs a driver before {below}", gpu.label()),
            ));
        } else {
            let min =
                row.driver_min.as_ref().map(|m| format!(", driver {driver} >= {m}")).unwrap_or_default();
            well.insert(0, format!("{}{min}", gpu.label()));
        }
    }
    if let (Some(driver), Some(native)) = (driver, native)
        && driver < native
        && !findings.iter().any(|f| f.code == Code::DriverTooOld)
    {
        findings.push(finding(
            Code::CompatibilityMode,
            Severity::Info,
            format!("compatibility mode: driver {driver} is below {native}; machine code runs, PTX of this toolkit does not"),
        ));
    }
}

/// What the probe noted of the GPUs that programs will not see, or not as one would think.
pub(super) fn notes(host: &Host) -> Vec<Finding> {
    let of = |note: &String| {
        if note.starts_with("CUDA_VISIBLE_DEVICES") {
            let severity = if host.has_no_gpu() { Severity::Warning } else { Severity::Info };
            return Some(finding(Code::HiddenGpus, severity, note.clone()));
        }
        let told = note.contains("its driver is not loaded") || note.starts_with("the cuda-compat");
        told.then(|| finding(Code::NotJudged, Severity::Info, note.clone()))
    };
    host.notes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::capability::{ComputeCapability, Via};
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
            (Some("570.26"), Some(Some((8, 0))), "2.17", &[Code::LibcTooOld]),
            (None, Some(None), "2.35", &[Code::NotJudged]),
            (None, None, "2.35", &[Code::NotJudged]),
            (None, Some(Some((8, 0))), "2.35", &[Code::NotJudged]),
        ];
        let native = "570.26".parse().unwrap();
        for (driver, gpu, glibc, expected) in table {
            let area = check(&envelope(), true, Some(&native), &host(*driver, *gpu, glibc), false);
            let codes: Vec<Code> = area.findings.iter().map(|f| f.code).collect();
            assert_eq!(codes, *expected, "{driver:?} {gpu:?} {glibc}");
        }
        let strict = check(&envelope(), true, None, &host(None, Some(None), "2.35"), true);
        assert!(strict.has_errors());
        assert!(check(&envelope(), false, None, &host(None, Some(None), "2.35"), true).findings.is_empty());
    }
}
