//! The state of the machine: what would keep a program from running on it today.

use super::{Area, finding};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::machine_state::{CardState, ComputeMode, DeviceFiles, MachineState};

/// Of a card with less than this share of its memory free, most programs will not get enough.
const LITTLE_FREE: u64 = 10;

/// Judges the state of a machine that has GPUs. `needs_gpu` tells whether anything here would use them, `require_gpu`
/// whether that they cannot be used is a fault.
pub(super) fn check(state: &MachineState, host: &Host, needs_gpu: bool, require_gpu: bool) -> Area {
    let mut area = Area { name: "machine".into(), ..Area::default() };
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
    let missing = state.device_files.map(|files| missing_files(&files)).unwrap_or_default();
    if state.was_given_no_gpu() {
        // The driver is the host's. A container that is built, or that only resolves, needs none of its GPUs.
        area.findings.push(tell(
            if require_gpu { Code::NoDeviceFiles } else { Code::NotJudged },
            if require_gpu { Severity::Error } else { Severity::Info },
            "the host has a driver, and this container was given no GPU: there is no /dev/nvidia* in it"
                .to_owned(),
            Some(IN_A_CONTAINER),
        ));
    } else if !missing.is_empty() && needs_gpu {
        let fix = match (&state.container, host.has_no_gpu()) {
            (Some(_), _) => IN_A_CONTAINER,
            _ => "run `nvidia-modprobe -u -c 0`, or start `nvidia-persistenced`",
        };
        area.findings.push(tell(
            Code::NoDeviceFiles,
            Severity::Error,
            format!("the driver is loaded, and {} is not there: CUDA sees no GPU", missing.join(", ")),
            Some(fix),
        ));
    }
    // Where there is no device file at all this was said.
    if let Some(devices) = state.container.as_ref().and_then(|c| c.visible_devices.as_deref())
        && ["void", "none"].contains(&devices)
        && !state.was_given_no_gpu()
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

/// What gives a container its GPUs.
const IN_A_CONTAINER: &str = "start the container with `--gpus all` (or the CDI device `nvidia.com/gpu=all`)";

fn missing_files(files: &DeviceFiles) -> Vec<&'static str> {
    let both = [(files.control, "/dev/nvidiactl"), (files.unified_memory, "/dev/nvidia-uvm")];
    let missing = both.iter().filter(|(there, _)| !there).map(|(_, name)| *name);
    missing.chain((files.cards == 0).then_some("/dev/nvidia0")).collect()
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
        // NVIDIA's own advice for MPS: its server has the card, and shares it.
        (Some(ComputeMode::Exclusive), _) if card.may_be_mps => {}
        (Some(ComputeMode::Exclusive), n) if n > 0 => tell(
            Code::ComputeMode,
            Severity::Error,
            "is in an exclusive compute mode and a program has it: the next one is refused (error 46)"
                .to_owned(),
            Some("wait for the other program, or nvidia-smi -c DEFAULT"),
        ),
        _ => {}
    }
    if card.remapping_failed == Some(true) {
        let text = "has no spare memory rows left for those that went bad: it has to be replaced".to_owned();
        tell(
            Code::MemoryErrors,
            Severity::Error,
            text,
            Some("take it out of service (`nvidia-smi -q -d ROW_REMAPPER`)"),
        );
    }
    if let Some(errors) = card.uncorrected_errors.filter(|n| *n > 0) {
        let times = if errors == 1 { "error" } else { "errors" };
        let text = format!("has had {errors} uncorrected memory {times} since the driver was loaded");
        // From Ampere on an error ends the program that had it, and its row is replaced: the next one runs.
        let severity = if card.remapping_failed.is_some() { Severity::Warning } else { Severity::Error };
        tell(
            Code::MemoryErrors,
            severity,
            text,
            Some("reset it (`nvidia-smi -r`); if they come back it is broken"),
        );
    }
    if card.retirement_pending == Some(true) {
        let text = "has memory that waits for a reset to be taken out of use".to_owned();
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
        let users = match (card.processes, card.programs.as_slice()) {
            (Some(n), programs) if programs.len() == n && n > 0 => {
                format!("; {} use it", programs.join(", "))
            }
            (Some(n), programs) if !programs.is_empty() => {
                format!("; {n} programs use it, {} among them", programs.join(", "))
            }
            (Some(n), _) => format!("; {n} programs use it"),
            (None, _) => String::new(),
        };
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
    use crate::model::machine_state::{Container, Fabric};
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
            (card(&|c| c.remapping_failed = Some(true)), &[Code::MemoryErrors]),
            (card(&|c| c.remapping_failed = Some(false)), &[]),
            (
                card(&|c| {
                    (c.compute_mode, c.processes) = (Some(ComputeMode::Exclusive), Some(1));
                    c.may_be_mps = true;
                }),
                &[],
            ),
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
            let codes: Vec<Code> = check(&state, &host, true, true).findings.iter().map(|f| f.code).collect();
            assert_eq!(codes, expected, "{state:?}");
        }
        // What a container without GPUs is called, by what is asked of it.
        let given_none = MachineState {
            device_files: Some(DeviceFiles { control: false, unified_memory: false, cards: 0 }),
            container: Some(Container { visible_devices: None }),
            ..MachineState::default()
        };
        let partly = MachineState {
            device_files: Some(DeviceFiles { control: true, unified_memory: false, cards: 1 }),
            ..given_none.clone()
        };
        for (state, needs_gpu, require_gpu, expected) in [
            (&given_none, true, false, Some((Code::NotJudged, Severity::Info))),
            (&given_none, true, true, Some((Code::NoDeviceFiles, Severity::Error))),
            (&partly, true, false, Some((Code::NoDeviceFiles, Severity::Error))),
            (&partly, false, false, None),
        ] {
            let found = check(state, &host, needs_gpu, require_gpu).findings;
            assert_eq!(found.first().map(|f| (f.code, f.severity)), expected, "{state:?}");
        }
        // An error in memory ends a program; only without spare rows it stays.
        let contained = card(&|c| (c.uncorrected_errors, c.remapping_failed) = (Some(1), Some(false)));
        assert_eq!(check(&contained, &host, true, false).findings[0].severity, Severity::Warning);
    }
}
