//! Checks the current state of the machine: what prevents a program from running.

use super::findings::{self, DeviceFilesGone, MemoryFault, Mismatch, NotJudged};
use super::{Area, AreaKind};
use crate::model::finding::Finding;
use crate::model::machine_state::{CardState, ComputeMode, DeviceFiles, MachineState};

/// Percentage of free GPU memory below which a warning is given.
const LITTLE_FREE: u64 = 10;

/// Checks the state of a machine. `needs_gpu`: whether something installed or locked uses GPUs; `require_gpu`:
/// whether a missing GPU is an error.
pub(super) fn check(state: &MachineState, needs_gpu: bool, require_gpu: bool) -> Area {
    let mut area = Area::of(AreaKind::Machine);
    let found = &mut area.findings;
    if state.library_and_module_disagree {
        found.push(findings::driver_mismatch(Mismatch::ReportedByNvml));
    }
    let missing = state.device_files.map(|files| missing_files(&files)).unwrap_or_default();
    if state.container_has_no_devices() {
        // /sys and /proc show the host's driver. A container that is being built or only resolves needs no GPU.
        found.push(match require_gpu {
            true => findings::no_device_files(DeviceFilesGone::ContainerGivenNone),
            false => findings::not_judged(NotJudged::ContainerWithoutGpus, false),
        });
    } else if !missing.is_empty() && needs_gpu {
        let in_container = state.container.is_some();
        found.push(findings::no_device_files(DeviceFilesGone::Some { missing, in_container }));
    }
    // A container without any device file is already reported.
    if let Some(devices) = state.container.as_ref().and_then(|c| c.visible_devices.as_deref())
        && ["void", "none"].contains(&devices)
        && !state.container_has_no_devices()
    {
        found.push(findings::no_device_files(DeviceFilesGone::SwitchedOff(devices.to_owned())));
    }
    if state.fabric.is_some_and(|fabric| fabric.manager_runs == Some(false)) {
        found.push(findings::fabric_manager());
    }
    if state.docker_sees_gpus == Some(false) {
        found.push(findings::containers_without_gpus());
    }
    state.cards.iter().for_each(|card| self::card(card, found));
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

fn missing_files(files: &DeviceFiles) -> Vec<&'static str> {
    let both = [(files.control, "/dev/nvidiactl"), (files.unified_memory, "/dev/nvidia-uvm")];
    let missing = both.iter().filter(|(there, _)| !there).map(|(_, name)| *name);
    missing.chain((files.cards == 0).then_some("/dev/nvidia0")).collect()
}

fn card(card: &CardState, found: &mut Vec<Finding>) {
    let name = match &card.name {
        Some(name) => format!("GPU {} ({name})", card.index),
        None => format!("GPU {}", card.index),
    };
    match (card.compute_mode, card.processes.unwrap_or_default()) {
        (Some(ComputeMode::Prohibited), _) => found.push(findings::compute_mode(&name, false)),
        // NVIDIA recommends exclusive mode for MPS: the MPS server shares the GPU.
        (Some(ComputeMode::Exclusive), _) if card.may_be_mps => {}
        (Some(ComputeMode::Exclusive), n) if n > 0 => found.push(findings::compute_mode(&name, true)),
        _ => {}
    }
    if card.remapping_failed == Some(true) {
        found.push(findings::memory_errors(&name, MemoryFault::NoSpareRows));
    }
    if let Some(errors) = card.uncorrected_errors.filter(|n| *n > 0) {
        // From Ampere on, an error ends only the affected program, and the row is remapped.
        let contained = card.remapping_failed.is_some();
        found.push(findings::memory_errors(&name, MemoryFault::Uncorrected { errors, contained }));
    }
    if card.retirement_pending == Some(true) {
        found.push(findings::memory_errors(&name, MemoryFault::RetirementPending));
    }
    if card.mig == Some(true) {
        found.push(findings::mig_enabled(&name));
    }
    if let Some((free, total)) = card.memory_mib
        && total > 0
        && free * 100 / total < LITTLE_FREE
    {
        found.push(findings::little_memory(&name, (free, total), card.processes, &card.programs));
    }
    if card.persistence == Some(false) && card.processes == Some(0) {
        found.push(findings::persistence_off(&name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::finding::{Code, Severity};
    use crate::model::machine_state::{Container, Fabric};

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
        for (state, expected) in table {
            let codes: Vec<Code> = check(&state, true, true).findings.iter().map(|f| f.code).collect();
            assert_eq!(codes, expected, "{state:?}");
        }
        // A container without GPUs, by requirement.
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
            let found = check(state, needs_gpu, require_gpu).findings;
            assert_eq!(found.first().map(|f| (f.code, f.severity)), expected, "{state:?}");
        }
        // A contained memory error is a warning.
        let contained = card(&|c| (c.uncorrected_errors, c.remapping_failed) = (Some(1), Some(false)));
        assert_eq!(check(&contained, true, false).findings[0].severity, Severity::Warning);
    }
}
