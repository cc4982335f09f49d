//! Checks the current state of the machine: what prevents a program from running.

use super::facts::Facts;
use super::findings::{self, DeviceFilesGone, MemoryFault, Mismatch, NoDriver, NotAnswering, NotJudged};
use super::{Area, AreaKind};
use crate::model::finding::{Code, Finding};
use crate::model::host::Host;
use crate::model::machine_state::{CardState, ComputeMode, MachineState, Management};

/// Percentage of free GPU memory below which a warning is given.
const LITTLE_FREE: u64 = 10;

/// Checks what keeps an environment's programs from running now. `None` if there are neither NVIDIA GPUs nor findings.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let area = for_environment(facts.state?, facts.uses_cuda(), facts.demands.gpu);
    (!facts.state?.cards.is_empty() || !area.findings.is_empty()).then_some(area)
}

/// `needs_gpu`: whether something installed or locked uses GPUs; `require_gpu`: whether a missing GPU is an error.
fn for_environment(state: &MachineState, needs_gpu: bool, require_gpu: bool) -> Area {
    let mut area = Area::of(AreaKind::Machine);
    let found = &mut area.findings;
    faults_of_driver(state, Asked::Environment { needs_gpu }, found);
    let missing = missing_files(state);
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
    if state.docker_sees_gpus == Some(false) {
        found.push(findings::containers_without_gpus());
    }
    for card in &state.cards {
        faults_of_card(card, Asked::Environment { needs_gpu }, found);
        use_of_card(card, found);
    }
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

/// Checks whether a machine is sound, whatever runs on it: the driver is loaded, its halves agree, every GPU answers, and none
/// waits for a reset. Only this may take a machine out of service. It is the question where there is no environment.
pub(super) fn sound(facts: &Facts<'_>) -> Option<Area> {
    // A GPU that a lock needs is missed by the check of the host.
    let require_gpu = facts.demands.gpu && facts.stack.is_none();
    let (state, machine) = (facts.state?, facts.machine?);
    facts.contents.is_none().then(|| of_machine(state, machine, require_gpu))
}

fn of_machine(state: &MachineState, host: &Host, require_gpu: bool) -> Area {
    let mut area = Area::of(AreaKind::Machine);
    let found = &mut area.findings;
    faults_of_driver(state, Asked::Soundness, found);
    let in_container = state.container.is_some();
    let missing = missing_files(state);
    let given_none = state.container_has_no_devices();
    if given_none {
        found.push(findings::not_judged(NotJudged::ContainerWithoutGpus, require_gpu));
    } else if !missing.is_empty() && !in_container {
        found.push(findings::no_device_files(DeviceFilesGone::Some { missing, in_container }));
    }
    state.cards.iter().for_each(|card| faults_of_card(card, Asked::Soundness, found));
    // A driver without GPUs is a machine without GPUs, unless the GPUs could not be counted.
    let is_loaded = state.device_files.is_some();
    let says_nothing = !given_none && !area.has_errors() && state.cards.is_empty();
    let found = &mut area.findings;
    match &state.management {
        Management::NotAsked(why) if is_loaded && says_nothing => {
            found.push(findings::not_judged(NotJudged::NoManagement(why.clone()), require_gpu));
        }
        Management::NotThere if is_loaded && says_nothing && !host.has_no_gpu() => {
            let why = "NVML is not installed".to_owned();
            found.push(findings::not_judged(NotJudged::NoManagement(why), require_gpu));
        }
        _ if says_nothing && host.gpus.is_none() => {
            found.push(findings::not_judged(NotJudged::GpusUnknown, require_gpu));
        }
        _ if says_nothing && require_gpu => {
            found.push(findings::not_judged(NotJudged::NoGpu, true));
        }
        _ => {}
    }
    area.summary = match (&host.driver, state.cards.len()) {
        _ if area.has_errors() || area.findings.iter().any(|f| f.code == Code::NotJudged) => String::new(),
        (Some(driver), 1) => format!("driver {}, 1 GPU answers", driver.version),
        (Some(driver), n) if n > 1 => format!("driver {}, {n} GPUs answer", driver.version),
        (Some(driver), _) => format!("driver {}, no NVIDIA GPU", driver.version),
        (None, _) => "no NVIDIA GPU".to_owned(),
    };
    area
}

/// Which question a fault answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Whether an environment runs.
    Environment {
        /// Whether something installed or locked uses GPUs.
        needs_gpu: bool,
    },
    /// Whether the machine is sound.
    Soundness,
}

/// What is wrong with the driver and its access to the GPUs.
fn faults_of_driver(state: &MachineState, asked: Asked, found: &mut Vec<Finding>) {
    let (needs_gpu, is_soundness) = match asked {
        Asked::Environment { needs_gpu } => (needs_gpu, false),
        Asked::Soundness => (true, true),
    };
    if state.library_and_module_disagree {
        found.push(findings::driver_mismatch(Mismatch::ReportedByNvml));
    }
    if !state.unclaimed.is_empty() && needs_gpu {
        match state.device_files.is_some() {
            false => {
                let none = NoDriver::Loaded { required: is_soundness };
                found.push(findings::driver_not_loaded(&state.unclaimed, none));
            }
            // A driver is loaded, and does not support, or has lost, some of the GPUs.
            true => found.push(findings::driver_not_loaded(&state.unclaimed, NoDriver::ForSome)),
        }
    }
    if state.has_device_files()
        && state.device_files.is_some()
        && let Management::Fails(why) = &state.management
    {
        found.push(findings::gpu_not_answering(NotAnswering::NotStarting(why)));
    }
    if let Management::Hangs(why) = &state.management {
        found.push(findings::gpu_not_answering(NotAnswering::Hangs(why)));
    }
    if !state.silent.is_empty() {
        found.push(findings::gpu_not_answering(NotAnswering::Gpus(&state.silent)));
    }
    if state.fabric.is_some_and(|fabric| fabric.manager_runs == Some(false)) {
        found.push(findings::fabric_manager());
    }
}

/// The driver's device files that are missing. Where the first CUDA program makes them, none is.
fn missing_files(state: &MachineState) -> Vec<&'static str> {
    let Some(files) = state.device_files.filter(|_| !state.device_files_on_demand) else { return Vec::new() };
    let both = [(files.control, "/dev/nvidiactl"), (files.unified_memory, "/dev/nvidia-uvm")];
    let missing = both.iter().filter(|(there, _)| !there).map(|(_, name)| *name);
    missing.chain((files.cards == 0).then_some("/dev/nvidia0")).collect()
}

fn name(card: &CardState) -> String {
    match &card.name {
        Some(name) => format!("GPU {} ({name})", card.index),
        None => format!("GPU {}", card.index),
    }
}

/// What is wrong with a GPU, whatever runs on it.
fn faults_of_card(card: &CardState, asked: Asked, found: &mut Vec<Finding>) {
    let name = name(card);
    if card.compute_mode == Some(ComputeMode::Prohibited) {
        found.push(findings::compute_mode(&name, false));
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
        let required = asked == Asked::Soundness;
        found.push(findings::memory_errors(&name, MemoryFault::RetirementPending { required }));
    }
}

/// How a GPU is used: what matters to a program that starts now, and changes with the programs that run.
fn use_of_card(card: &CardState, found: &mut Vec<Finding>) {
    let name = name(card);
    // NVIDIA recommends exclusive mode for MPS: the MPS server shares the GPU.
    let is_exclusive = card.compute_mode == Some(ComputeMode::Exclusive) && !card.may_be_mps;
    if is_exclusive && card.processes.unwrap_or_default() > 0 {
        found.push(findings::compute_mode(&name, true));
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
    use crate::model::machine_state::{Container, DeviceFiles, Fabric};
    use crate::model::platform::Platform;
    use crate::verify::Verdict;

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
            (MachineState { device_files_on_demand: true, ..files(false, false, 0) }, &[]),
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
            let codes: Vec<Code> =
                for_environment(&state, true, true).findings.iter().map(|f| f.code).collect();
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
            let found = for_environment(state, needs_gpu, require_gpu).findings;
            assert_eq!(found.first().map(|f| (f.code, f.severity)), expected, "{state:?}");
        }
        // Asked whether the machine is sound, what programs do plays no part.
        let one = |change: &dyn Fn(&mut MachineState)| {
            let mut state = MachineState {
                management: Management::Answers,
                device_files: Some(DeviceFiles { control: true, unified_memory: true, cards: 1 }),
                ..card(&|_| {})
            };
            change(&mut state);
            state
        };
        let with_gpus = |gpus| Host { gpus, ..Host::open(Platform::LINUX_X86_64, "t") };
        let (none, unknown) = (with_gpus(Some(Vec::new())), with_gpus(None));
        let bus = || vec!["0000:3b:00.0".to_owned()];
        let (yes, no, not_known) = (Verdict::Ok, Verdict::Differs, Verdict::Unknown);
        let soundness: Vec<(MachineState, &Host, Verdict, &str)> = vec![
            (MachineState::default(), &none, yes, ""),
            (MachineState::default(), &unknown, not_known, "not-judged"),
            (one(&|_| {}), &unknown, yes, ""),
            (one(&|s| s.cards[0].compute_mode = Some(ComputeMode::Prohibited)), &none, no, "compute-mode"),
            (
                one(&|s| {
                    (s.cards[0].compute_mode, s.cards[0].processes) = (Some(ComputeMode::Exclusive), Some(1))
                }),
                &none,
                yes,
                "",
            ),
            (one(&|s| s.cards[0].memory_mib = Some((1, 81_920))), &none, yes, ""),
            (one(&|s| s.cards[0].mig = Some(true)), &none, yes, ""),
            (one(&|s| s.cards[0].retirement_pending = Some(true)), &none, no, "memory-errors"),
            (one(&|s| s.silent = bus()), &none, no, "gpu-not-answering"),
            (one(&|s| s.unclaimed = bus()), &none, yes, "driver-not-loaded"),
            (one(&|s| (s.unclaimed, s.device_files) = (bus(), None)), &none, no, "driver-not-loaded"),
            (
                one(&|s| (s.management, s.cards) = (Management::Fails("x".into()), Vec::new())),
                &unknown,
                no,
                "gpu-not-answering",
            ),
            (
                one(&|s| (s.management, s.cards) = (Management::NotAsked("x".into()), Vec::new())),
                &unknown,
                not_known,
                "not-judged",
            ),
            (
                one(&|s| (s.management, s.cards) = (Management::NotThere, Vec::new())),
                &unknown,
                not_known,
                "not-judged",
            ),
            (given_none.clone(), &unknown, not_known, "not-judged"),
            (partly.clone(), &unknown, not_known, "not-judged"),
        ];
        for (state, host, expected, code) in soundness {
            let found = of_machine(&state, host, false).findings;
            assert_eq!(Verdict::of(&found, false), expected, "{state:?} {found:?}");
            assert_eq!(found.first().map_or("", |f| f.code.as_str()), code, "{state:?}");
        }
        assert!(of_machine(&MachineState::default(), &none, true).has_errors());
        // A contained memory error is a warning.
        let contained = card(&|c| (c.uncorrected_errors, c.remapping_failed) = (Some(1), Some(false)));
        assert_eq!(for_environment(&contained, true, false).findings[0].severity, Severity::Warning);
    }
}
