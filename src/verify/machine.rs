//! The state of the machine: what would keep a program from running on it today.

use super::{Area, finding};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::machine_state::{CardState, ComputeMode, MachineState};

/// Of a card with less than this share of its memory free, most programs will not get enough.
const LITTLE_FREE: u64 = 10;

/// Judges the state of a machine that has GPUs.
pub(super) fn check(state: &MachineState, host: &Host) -> Area {
    let mut area = Area { name: "machine", ..Area::default() };
    let tell = |code, severity, message: String, fix: Option<&str>| Finding {
        fix: fix.map(str::to_owned),
        ..finding(code, severity, message)
    };
    if state.library_and_module_disagree {
        area.findings.push(tell(
            Code::DriverMismatch,
            Severity::Error,
            "the driver's library and its kernel module are of different releases: NVML and CUDA do not start"
                .to_owned(),
            Some("reboot, or unload and load the nvidia modules; in a container use the host's library"),
        ));
    }
    if let Some(files) = state.device_files {
        let missing: Vec<&str> =
            [(files.control, "/dev/nvidiactl"), (files.unified_memory, "/dev/nvidia-uvm")]
                .iter()
                .filter(|(there, _)| !there)
                .map(|(_, name)| *name)
                .chain((files.cards == 0).then_some("/dev/nvidia0"))
                .collect();
        if !missing.is_empty() {
            let fix = match (&state.container, host.has_no_gpu()) {
                (Some(_), _) => {
                    "start the container with `--gpus all` (or the CDI device `nvidia.com/gpu=all`)"
                }
                _ => "run `nvidia-modprobe -u -c 0`, or start `nvidia-persistenced`",
            };
            area.findings.push(tell(
                Code::NoDeviceFiles,
                Severity::Error,
                format!("the driver is loaded, and {} is not there: CUDA sees no GPU", missing.join(", ")),
                Some(fix),
            ));
        }
    }
    if let Some(devices) = state.container.as_ref().and_then(|c| c.visible_devices.as_deref())
        && ["void", "none"].contains(&devices)
    {
        area.findings.push(tell(
            Code::NoDeviceFiles,
            Severity::Warning,
            format!("the container was started with NVIDIA_VISIBLE_DEVICES={devices}: it is given no GPU"),
            Some("start it with `--gpus all`"),
        ));
    }
    if state.fabric.is_some_and(|fabric| fabric.manager_runs == Some(false)) {
        area.findings.push(tell(
            Code::FabricManager,
            Severity::Error,
            "the machine has NVSwitches, and nv-fabricmanager does not run: CUDA ends with error 802"
                .to_owned(),
            Some("systemctl start nvidia-fabricmanager (of the driver's own version)"),
        ));
    }
    if state.docker_sees_gpus == Some(false) {
        area.findings.push(tell(
            Code::ContainersWithoutGpus,
            Severity::Info,
            "Docker is here without NVIDIA's runtime or a CDI description: containers get no GPU".to_owned(),
            Some("install nvidia-container-toolkit, then `nvidia-ctk runtime configure --runtime=docker`"),
        ));
    }
    state.cards.iter().for_each(|card| self::card(card, &mut area.findings));
    if area.findings.is_empty() && !state.cards.is_empty() {
        let free: Vec<String> = state
            .cards
            .iter()
            .filter_map(|card| card.memory_mib)
            .map(|(free, total)| format!("{free} of {total} MiB free"))
            .collect();
        area.summary = free.join(", ");
    }
    area
}

fn card(card: &CardState, findings: &mut Vec<Finding>) {
    let name = match &card.name {
        Some(name) => format!("GPU {} ({name})", card.index),
        None => format!("GPU {}", card.index),
    };
    let mut tell = |code, severity, text: String, fix: Option<&str>| {
        findings.push(Finding {
            fix: fix.map(str::to_owned),
            r#where: Some(name.clone()),
            ..finding(code, severity, format!("{name} {text}"))
        });
    };
    match (card.compute_mode, card.processes.unwrap_or_default()) {
        (Some(ComputeMode::Prohibited), _) => tell(
            Code::ComputeMode,
            Severity::Error,
            "is in the compute mode `prohibited`: no program may use it".to_owned(),
            Some("nvidia-smi -c DEFAULT"),
        ),
        (Some(ComputeMode::Exclusive), n) if n > 0 => tell(
            Code::ComputeMode,
            Severity::Error,
            "is in an exclusive compute mode and a program has it: the next one is refused (error 46)"
                .to_owned(),
            Some("wait for the other program, or nvidia-smi -c DEFAULT"),
        ),
        _ => {}
    }
    if let Some(errors) = card.uncorrected_errors.filter(|n| *n > 0) {
        let times = if errors == 1 { "error" } else { "errors" };
        let text = format!("has had {errors} uncorrected memory {times} since the driver was loaded");
        tell(
            Code::MemoryErrors,
            Severity::Error,
            text,
            Some("reset it (`nvidia-smi -r`); if they come back it is broken"),
        );
    }
    if card.retirement_pending == Some(true) {
        let text = "has memory pages that wait for a reset to be taken out of use".to_owned();
        tell(Code::MemoryErrors, Severity::Warning, text, Some("nvidia-smi -r, when no program uses it"));
    }
    if card.mig == Some(true) {
        let text = "is split into MIG instances: a program sees one of them, by its UUID".to_owned();
        tell(
            Code::MigEnabled,
            Severity::Info,
            text,
            Some("CUDA_VISIBLE_DEVICES=MIG-... (`nvidia-smi -L` lists them)"),
        );
    }
    if let Some((free, total)) = card.memory_mib
        && total > 0
        && free * 100 / total < LITTLE_FREE
    {
        let users = card.processes.map(|n| format!("; {n} programs use it")).unwrap_or_default();
        tell(Code::LittleMemory, Severity::Warning, format!("has {free} of {total} MiB free{users}"), None);
    }
    if card.persistence == Some(false) && card.processes == Some(0) {
        let text = "is not in persistence mode: the driver loads anew for each program, which takes seconds"
            .to_owned();
        tell(Code::PersistenceOff, Severity::Info, text, Some("systemctl enable --now nvidia-persistenced"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine_state::{Container, DeviceFiles, Fabric};
    use crate::model::platform::Platform;

    #[test]
    fn states() {
        let fine = CardState {
            compute_mode: Some(ComputeMode::Default),
            memory_mib: Some((80_000, 81_920)),
            persistence: Some(true),
            processes: Some(0),
            uncorrected_errors: Some(0),
            ..CardState::default()
        };
        let card = |change: &dyn Fn(&mut CardState)| {
            let mut card = fine.clone();
            change(&mut card);
            MachineState { cards: vec![card], ..MachineState::default() }
        };
        let files = |control, unified_memory, cards| MachineState {
            device_files: Some(DeviceFiles { control, unified_memory, cards }),
            ..MachineState::default()
        };
        let fabric =
            |manager_runs| MachineState { fabric: Some(Fabric { manager_runs }), ..MachineState::default() };
        let void = Container { visible_devices: Some("void".into()) };
        let table: Vec<(MachineState, &[Code])> = vec![
            (MachineState::default(), &[]),
            (card(&|_| {}), &[]),
            (card(&|c| c.compute_mode = Some(ComputeMode::Prohibited)), &[Code::ComputeMode]),
            (card(&|c| c.compute_mode = Some(ComputeMode::Exclusive)), &[]),
            (
                card(&|c| (c.compute_mode, c.processes) = (Some(ComputeMode::Exclusive), Some(1))),
                &[Code::ComputeMode],
            ),
            (card(&|c| c.uncorrected_errors = Some(3)), &[Code::MemoryErrors]),
            (card(&|c| c.retirement_pending = Some(true)), &[Code::MemoryErrors]),
            (card(&|c| c.mig = Some(true)), &[Code::MigEnabled]),
            (card(&|c| c.memory_mib = Some((8_000, 81_920))), &[Code::LittleMemory]),
            (card(&|c| c.persistence = Some(false)), &[Code::PersistenceOff]),
            (files(true, true, 1), &[]),
            (files(true, false, 1), &[Code::NoDeviceFiles]),
            (files(false, false, 0), &[Code::NoDeviceFiles]),
            (fabric(Some(true)), &[]),
            (fabric(None), &[]),
            (fabric(Some(false)), &[Code::FabricManager]),
            (
                MachineState { docker_sees_gpus: Some(false), ..MachineState::default() },
                &[Code::ContainersWithoutGpus],
            ),
            (MachineState { container: Some(void), ..MachineState::default() }, &[Code::NoDeviceFiles]),
            (
                MachineState { library_and_module_disagree: true, ..MachineState::default() },
                &[Code::DriverMismatch],
            ),
        ];
        let host = Host::open(Platform::LINUX_X86_64, "test");
        for (state, expected) in table {
            let codes: Vec<Code> = check(&state, &host).findings.iter().map(|f| f.code).collect();
            assert_eq!(codes, expected, "{state:?}");
        }
    }
}
