//! `envlock probe`

use std::path::Path;

use crate::cli::args::ProbeArgs;
use crate::cli::printer::{DIM, Printer};
use crate::model::host::{Host, HostJson};
use crate::model::saved_host::{SavedHost, Unstated};
use crate::probe::host_file;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::{Global, MachineOptions};
use crate::session::{chosen_host, drift, files, settings, write};

/// What is saved of a described machine: what the file states, with what options change. Facts that nobody stated are left
/// out.
fn described(args: &MachineOptions, host: &Host) -> Result<SavedHost, Failure> {
    let unstated = Unstated { compat: true, platform: args.platform.is_none() && args.glibc.is_none() };
    let mut saved = match &args.host {
        Some(path) => chosen_host::read_saved_host(path)?,
        None => SavedHost { unstated, ..host.clone().into() },
    };
    if args.driver.is_some() {
        saved.host.driver.clone_from(&host.driver);
        saved.unstated.compat = true;
    }
    if !args.gpu.is_empty() {
        saved.host.gpus.clone_from(&host.gpus);
        saved.modes.clear();
    }
    if args.platform.is_some() || args.glibc.is_some() {
        saved.host.system.clone_from(&host.system);
        saved.unstated.platform = false;
    }
    Ok(saved)
}

pub(super) fn run(global: &Global, args: &ProbeArgs, printer: &Printer) -> Result<u8, Failure> {
    let registry = settings::registry_here(global)?;
    let is_described = args.host.describe_a_machine();
    if is_described && args.prefix.is_some() {
        return Err(Failure::usage(
            "`--prefix` is an environment of this machine, which is not the described one",
        ));
    }
    let host = match is_described {
        true => chosen_host::described(&args.host, &registry, &[])?,
        false => chosen_host::probed(&registry, &[])?,
    };
    let saved = match is_described {
        true => described(&args.host, &host)?,
        false => drift::now(host.clone(), args.prefix.as_deref())?,
    };
    if args.save.as_deref() == Some(Path::new("-")) {
        printer.raw(&host_file::render(&saved));
        return Ok(exit::YES);
    }
    if let Some(path) = &args.save {
        files::refuse_foreign(path, host_file::MARK, args.force)?;
        write::folder_for(path)?;
        write::write(path, &host_file::render(&saved))?;
    }
    if printer.json {
        printer.json(&HostJson::from(&host));
        return Ok(exit::YES);
    }
    let found = |by: &str| printer.paint(DIM, &format!("[{by}]"));
    match &host.driver {
        Some(driver) => {
            let cuda = driver.cuda.as_ref().map(|c| format!(" (CUDA {c})")).unwrap_or_default();
            printer.out(&format!(
                "driver  {}{cuda}     {}",
                driver.version,
                found(&driver.found_by.to_string())
            ));
        }
        None if host.has_no_gpu() => printer.out("driver  none"),
        None => printer.out("driver  unknown"),
    }
    match &host.gpus {
        None => printer.out("gpus    unknown"),
        Some(gpus) if gpus.is_empty() => printer.out("gpus    no NVIDIA GPU found"),
        Some(gpus) => {
            for gpu in gpus {
                let memory = gpu.memory_mib.map(|m| format!(", {m} MiB")).unwrap_or_default();
                printer.out(&format!(
                    "gpu {}   {}{memory}     {}",
                    gpu.index,
                    gpu.label(),
                    found(&gpu.found_by.to_string())
                ));
            }
        }
    }
    let libc = host.system.libc.as_ref().map_or("libc unknown".to_owned(), ToString::to_string);
    printer.out(&format!(
        "system  {}, {libc}     {}",
        host.system.platform,
        found(&host.system.found_by.to_string())
    ));
    for note in &host.notes {
        printer.note(&note.to_string());
    }
    if let Some(path) = &args.save {
        printer.out(&format!("wrote   {}", path.display()));
    }
    Ok(exit::YES)
}
