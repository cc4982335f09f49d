//! The machine to work with: described by options, by a manifest's target or a host file; kept from the lock; or
//! probed.

use std::path::PathBuf;
use std::time::Duration;

use super::failure::Failure;
use super::files;
use super::manifest::{TargetRow, TargetTable};
use crate::compatibility::{ImpossibleHost, check_host, completed, without_ignored};
use crate::model::host::{Driver, Gpu, Host};
use crate::model::host_note::HostNote;
use crate::model::machine_state::{MachineState, Management};
use crate::model::platform::{Libc, Platform};
use crate::model::saved_host::SavedHost;
use crate::model::text::{clean, shell_word};
use crate::probe::{Surroundings, host_file, probe};
use crate::registry::{GpuLookupError, Registry};
use crate::session::options::MachineOptions;
use crate::session::variables;

/// The machine that options describe, without the ignored GPUs.
pub(crate) fn described(
    args: &MachineOptions,
    registry: &Registry,
    ignored: &[String],
) -> Result<Host, Failure> {
    finish(without(as_described(args, registry)?, ignored, registry)?, registry)
}

/// The machine that options describe, with all its GPUs.
pub(crate) fn as_described(args: &MachineOptions, registry: &Registry) -> Result<Host, Failure> {
    let mut host = match &args.host {
        Some(path) => read_host_file(path)?,
        None => Host::open(Platform::LINUX_X86_64, "described"),
    };
    if let Some(text) = &args.platform {
        host.system.platform = text.parse().map_err(|e| usage(&e))?;
        host.system.found_by = "--platform".into();
    }
    if let Some(text) = &args.glibc {
        host.system.libc = Some(Libc::Glibc(text.parse().map_err(|e| usage(&e))?));
        let both = if args.platform.is_some() { "--platform, --glibc" } else { "--glibc" };
        host.system.found_by = both.into();
    }
    if let Some(text) = &args.driver {
        set_driver(&mut host, text, "--driver", registry)?;
    }
    if !args.gpu.is_empty() {
        host.gpus = Some(gpus(&args.gpu, "--gpu", registry)?);
    }
    Ok(host)
}

/// The driver that an option names: a whole version, or a branch, which means its oldest known release.
///
/// # Errors
/// It is no version of a driver, or a branch that does not exist.
pub(crate) fn driver_named(text: &str, origin: &str, registry: &Registry) -> Result<Driver, Failure> {
    let mut host = Host::open(Platform::LINUX_X86_64, origin);
    set_driver(&mut host, text, origin, registry)?;
    host.driver.ok_or_else(|| Failure::usage(format!("`{}` is not a driver version", clean(text, 40))))
}

/// The machine that a `[target.NAME]` table describes.
///
/// # Errors
/// A table that is not valid, with its line.
pub(crate) fn from_table(row: &TargetRow, registry: &Registry) -> Result<Host, Failure> {
    machine_of(&row.table, &row.place, &format!("[target.{}]", row.name), registry)
}

/// The machine that a table describes, which is called `origin`.
///
/// # Errors
/// A table that is not valid, with its place.
pub(crate) fn machine_of(
    table: &TargetTable,
    place: &str,
    origin: &str,
    registry: &Registry,
) -> Result<Host, Failure> {
    let described = described_by(table, origin, registry);
    described.map_err(|error| Failure { message: format!("{place}: {origin}: {}", error.message), ..error })
}

fn described_by(table: &TargetTable, origin: &str, registry: &Registry) -> Result<Host, Failure> {
    let mut host = Host::open(Platform::LINUX_X86_64, origin);
    if let Some(text) = &table.platform {
        host.system.platform = text.parse().map_err(|e| usage(&e))?;
    }
    if let Some(text) = &table.glibc {
        host.system.libc = Some(Libc::Glibc(text.parse().map_err(|e| usage(&e))?));
    }
    if let Some(text) = &table.driver {
        set_driver(&mut host, text, origin, registry)?;
    }
    if let Some(list) = &table.gpus {
        host.gpus = Some(gpus(list, origin, registry)?);
    }
    finish(host, registry)
}

/// This machine, without the ignored GPUs.
pub(crate) fn probed(registry: &Registry, ignored: &[String]) -> Result<Host, Failure> {
    finish(without(seen(), ignored, registry)?, registry)
}

/// The root of the file system that is looked at: `/`, or `ENVLOCK_SYSROOT`.
pub(crate) fn root() -> PathBuf {
    variables::raw("ENVLOCK_SYSROOT").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

/// This machine as probed, with all its GPUs.
pub(crate) fn seen() -> Host {
    probe(&Surroundings { root: root(), variable: &|name| variables::text(name) })
}

/// The state and the facts of this machine, whatever variables hide from programs. NVIDIA's management library may hang with
/// a GPU that was lost: after `ENVLOCK_DRIVER_TIMEOUT` seconds (default 40) it counts as failed.
pub(crate) fn soundness_facts() -> (MachineState, Host) {
    /// They tell programs what to use, and nothing about the machine.
    const HIDING: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "CONDA_OVERRIDE_CUDA"];
    let unmasked = |name: &str| match HIDING.contains(&name) {
        true => None,
        false => variables::text(name),
    };
    let seconds = variables::number("ENVLOCK_DRIVER_TIMEOUT").unwrap_or(40);
    let (answer, answered) = std::sync::mpsc::channel();
    // A thread that hangs ends with the process.
    std::thread::spawn(move || {
        let around = || Surroundings { root: root(), variable: &unmasked };
        let _ = answer.send((crate::probe::state(&around()), probe(&around())));
    });
    answered.recv_timeout(Duration::from_secs(seconds)).unwrap_or_else(|_| {
        let why = format!("it did not answer within {seconds} s");
        let state = MachineState { management: Management::Hangs(why), ..MachineState::default() };
        (state, bare())
    })
}

/// This machine without driver and GPUs, as if nothing were known of them.
pub(crate) fn bare() -> Host {
    Host { driver: None, gpus: None, system: crate::probe::system(), notes: Vec::new() }
}

/// How the GPUs of this machine are set.
pub(crate) fn modes() -> std::collections::BTreeMap<u32, crate::model::saved_host::GpuMode> {
    crate::probe::modes(&Surroundings { root: root(), variable: &|name| variables::text(name) })
}

/// The current state of this machine.
pub(crate) fn state() -> MachineState {
    crate::probe::state(&Surroundings { root: root(), variable: &|name| variables::text(name) })
}

/// A sampler of this machine's GPUs; `None` without NVML.
pub(crate) fn sampler() -> Option<crate::probe::Sampler> {
    crate::probe::Sampler::new(&Surroundings { root: root(), variable: &|name| variables::text(name) })
}

/// A machine without the GPUs that the manifest ignores ([`without_ignored`]).
///
/// # Errors
/// A name that is not a known GPU.
pub(crate) fn without(host: Host, ignored: &[String], registry: &Registry) -> Result<Host, Failure> {
    without_ignored(host, ignored, registry).map_err(|error| {
        let error = gpu_error(&error);
        Failure { message: format!("`ignore-gpus`: {}", error.message), ..error }
    })
}

/// The machine of a host file.
pub(crate) fn read_host_file(path: &std::path::Path) -> Result<Host, Failure> {
    read_saved_host(path).map(|saved| saved.host)
}

/// A host file with all that it keeps.
pub(crate) fn read_saved_host(path: &std::path::Path) -> Result<SavedHost, Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!("`{}` is a folder, not a host file", path.display()))
            .hint("name one host file; `envlock verify --host DIR` judges a lock for all in a folder"));
    }
    let text = files::read(path)?.ok_or_else(|| {
        Failure::input(format!("`{}` does not exist", path.display()))
            .hint("write one with `envlock probe --save host.toml`")
    })?;
    let name = path.display().to_string();
    host_file::parse_saved(&text, &name).map_err(|why| Failure::input(format!("{name}: {why}")))
}

/// Fills in what the registry knows (see [`filled`]) and rejects an impossible machine.
pub(crate) fn finish(host: Host, registry: &Registry) -> Result<Host, Failure> {
    let host = filled(host, registry)?;
    check_host(registry, &host).map_err(|why| {
        Failure::host(why.to_string()).hint(match why {
            ImpossibleHost::Libc { .. } => {
                "remove the C library version, or set the platform that it belongs to"
            }
            ImpossibleHost::AppleSilicon { .. } => {
                "a target for a Mac states its `platform` alone; the GPUs are those of another target"
            }
            ImpossibleHost::DriverBeyondGpu { .. } => {
                "check the driver and the GPU; this GPU needs an older driver branch"
            }
        })
    })?;
    Ok(host)
}

/// Fills in what the registry knows of a machine ([`completed`]).
///
/// # Errors
/// A CUDA release without a known driver.
pub(crate) fn filled(host: Host, registry: &Registry) -> Result<Host, Failure> {
    completed(host, registry)
        .map_err(|error| Failure::host(error.to_string()).hint("name the driver with `--driver`"))
}

/// Sets the driver of a described machine: a whole version, or a branch, which means its oldest known release.
fn set_driver(host: &mut Host, text: &str, origin: &str, registry: &Registry) -> Result<(), Failure> {
    let mut version: crate::model::version::DottedVersion = text
        .parse()
        .map_err(|e| usage(&e).hint("pass the version that `nvidia-smi` shows, such as `535.129.03`"))?;
    if version.major() < 100 {
        return Err(Failure::usage(format!("`{}` is not a driver version", clean(text, 40)))
            .hint("a driver version looks like `535.129.03`; `12.2` is a CUDA version"));
    }
    let branch = version.major();
    if version.as_str() == branch.to_string() {
        let oldest = registry.oldest_of_branch(branch, host.system.platform.os).map_err(|neighbours| {
            let names: Vec<String> = neighbours.iter().map(|n| format!("`{n}`")).collect();
            Failure::host(format!("no release of the driver branch `{branch}` is known")).hint(format!(
                "the nearest branches with a known release are {}; or pass a full version such as `535.129.03`",
                names.join(" and ")
            ))
        })?;
        // A branch without a known release is open within it.
        if let Some(release) = oldest {
            host.notes.push(HostNote::BranchResolved { branch, release: release.clone() });
            version = release;
        }
    }
    host.driver = Some(Driver { version, cuda: None, compat: None, found_by: origin.into() });
    Ok(())
}

/// A machine as the options that describe it: ` --gpu 'NVIDIA H100' --driver 580.65.06`.
pub(crate) fn as_options(host: &Host) -> String {
    let mut out = String::new();
    match host.gpus.as_deref() {
        None => {}
        Some([]) => out.push_str(" --gpu none"),
        Some(gpus) => {
            let mut names: Vec<String> = Vec::new();
            for gpu in gpus {
                let name = gpu.name.clone().or_else(|| gpu.capability.map(|c| c.to_string()));
                names.extend(name.filter(|name| !names.contains(name)));
            }
            names.iter().for_each(|name| out.push_str(&format!(" --gpu {}", shell_word(name))));
        }
    }
    if let Some(driver) = &host.driver {
        out.push_str(&format!(" --driver {}", driver.version));
    }
    if let Some(Libc::Glibc(version)) = &host.system.libc {
        out.push_str(&format!(" --glibc {version}"));
    }
    if host.system.platform != Platform::LINUX_X86_64 {
        out.push_str(&format!(" --platform {}", host.system.platform));
    }
    out
}

/// The GPUs that options or a table name: products, compute capabilities, or `none`.
///
/// # Errors
/// A name that the registry does not know.
pub(crate) fn gpus(names: &[String], origin: &str, registry: &Registry) -> Result<Vec<Gpu>, Failure> {
    if let [one] = names
        && one == "none"
    {
        return Ok(Vec::new());
    }
    if names.iter().any(|name| name == "none") {
        return Err(Failure::usage(
            "`none` is a machine without a GPU and cannot be combined with other GPUs",
        )
        .hint("remove `none`, or pass only `none`"));
    }
    names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let (label, capability) = match name.parse() {
                Ok(capability) if registry.may_exist(capability) => (None, capability),
                Ok(capability) => {
                    return Err(Failure::host(format!(
                        "no GPU of compute capability `{capability}` is known"
                    ))
                    .hint("`envlock registry show gpu NAME` shows the capability of a product"));
                }
                Err(_) => {
                    let found = registry.find_gpu(name).map_err(|e| gpu_error(&e))?;
                    (Some(found.name), found.capability)
                }
            };
            Ok(Gpu {
                index: i as u32,
                name: label,
                capability: Some(capability),
                memory_mib: None,
                uuid: None,
                pci_id: None,
                found_by: origin.into(),
            })
        })
        .collect()
}

fn gpu_error(error: &GpuLookupError) -> Failure {
    let hint = match error {
        GpuLookupError::Unknown { nearest, .. } => format!(
            "the nearest names are {}; or pass its compute capability, as in `--gpu 8.6`: on its machine \
             `nvidia-smi --query-gpu=compute_cap --format=csv` prints it",
            nearest.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
        ),
        GpuLookupError::OfOtherMaker { instead, .. } => format!("for builds that need no GPU: {instead}"),
        GpuLookupError::DisplayProfile { .. } => {
            "if CUDA works in this guest, pass the board's compute capability, as in `--gpu 8.6`".to_owned()
        }
        GpuLookupError::Ambiguous { .. } => {
            "pass the compute capability of the one that is meant, or its full name if they differ".to_owned()
        }
    };
    Failure::host(error.to_string()).hint(hint)
}

fn usage(error: &crate::model::version::InvalidVersion) -> Failure {
    Failure::usage(error.to_string())
}
