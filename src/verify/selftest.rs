//! Whether GPUs do with prebuilt kernels what `compatibility` says.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compatibility::{Needs, Policy, Violation};
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::{Driver, Gpu, Host};
use crate::model::kernel_outcome::{DriverDevice, Kernel, Outcome};
use crate::registry::Registry;

/// What `compatibility` says of a kernel on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// It runs.
    Runs,
    /// Its code is not for the GPU.
    NoCode,
    /// The driver is older than the CUDA release of its PTX.
    PtxTooNew,
    /// The driver is below the floor of its CUDA release. The runtime refuses such a driver before any code is loaded;
    /// what the driver itself does with the code is not stated anywhere.
    NotStated,
}

/// What `compatibility` says of a kernel on a GPU of `capability` with the driver of `host`.
pub fn expected(
    registry: &Registry,
    host: &Host,
    capability: ComputeCapability,
    kernel: &Kernel,
) -> Expected {
    let target = vec![kernel.target];
    let targets = match kernel.form {
        Via::Sass => CodeTargets { sass: target, ptx: Vec::new() },
        Via::Ptx => CodeTargets { sass: Vec::new(), ptx: target },
    };
    let needs = Needs {
        cuda: Some(&kernel.cuda),
        cudnn: None,
        targets: Some(&targets),
        glibc: None,
        platform: host.system.platform,
        source: &[],
    };
    let gpu = Gpu::of_capability(capability, "driver");
    let host = Host { gpus: Some(vec![gpu]), ..host.clone() };
    let violations = needs.violations(registry, &host, Policy::Minor);
    let any = |is: fn(&Violation<'_>) -> bool| violations.iter().any(is);
    if any(|violation| matches!(violation, Violation::NoCode(_))) {
        Expected::NoCode
    } else if any(|violation| matches!(violation, Violation::PtxTooNew(_))) {
        Expected::PtxTooNew
    } else if violations.is_empty() {
        Expected::Runs
    } else {
        Expected::NotStated
    }
}

/// Whether the GPU did what was expected; `None` where nothing is.
pub fn agrees(expected: Expected, seen: &Outcome) -> Option<bool> {
    match (expected, seen) {
        (_, Outcome::Wrong | Outcome::Failed(_)) => Some(false),
        (Expected::NotStated, _) => None,
        (Expected::Runs, seen) => Some(*seen == Outcome::Ran),
        (Expected::NoCode | Expected::PtxTooNew, seen) => Some(matches!(seen, Outcome::Refused(_))),
    }
}

/// A fact of a GPU, as each source states it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// `name`, `capability`, `memory-mib`, `uuid`, `driver`, `cuda`.
    pub fact: &'static str,
    /// By the name of the source; a source that does not state it is missing.
    pub by: BTreeMap<&'static str, String>,
    /// Whether all say the same.
    pub agrees: bool,
}

/// The name of the driver API among the sources.
pub const DRIVER_API: &str = "driver API";

/// What the driver API and the sources of `probe` say of a GPU. A source that does not show the GPU says nothing.
pub fn facts(device: &DriverDevice, sources: &[(&'static str, Option<Driver>, Vec<Gpu>)]) -> Vec<Fact> {
    let digits = |uuid: &str| uuid.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase();
    // `GPU-` has no hexadecimal digit, `MIG-` neither.
    let same = |gpu: &&Gpu| match (&gpu.uuid, &device.uuid) {
        (Some(uuid), Some(own)) => digits(uuid) == *own,
        _ => gpu.index == device.index,
    };
    let mut facts: BTreeMap<&'static str, BTreeMap<&'static str, String>> = BTreeMap::new();
    let mut state = |source, fact, value: Option<String>| {
        if let Some(value) = value {
            facts.entry(fact).or_default().insert(source, value);
        }
    };
    state(DRIVER_API, "name", Some(device.name.clone()));
    state(DRIVER_API, "capability", Some(device.capability.clone()));
    state(DRIVER_API, "memory-mib", Some(device.memory_mib.to_string()));
    state(DRIVER_API, "uuid", device.uuid.clone());
    state(DRIVER_API, "cuda", Some(device.cuda.clone()));
    for (source, driver, gpus) in sources {
        let Some(gpu) = gpus.iter().find(same) else { continue };
        state(source, "name", gpu.name.clone());
        state(source, "capability", gpu.capability.map(|capability| capability.to_string()));
        state(source, "memory-mib", gpu.memory_mib.map(|memory| memory.to_string()));
        state(source, "uuid", gpu.uuid.as_deref().map(digits));
        state(source, "driver", driver.as_ref().map(|driver| driver.version.to_string()));
        let cuda = driver.as_ref().and_then(|driver| driver.cuda.as_ref());
        state(source, "cuda", cuda.map(ToString::to_string));
    }
    facts.into_iter().map(|(fact, by)| Fact { fact, agrees: is_one(fact, &by), by }).collect()
}

/// Whether the values are one. The driver API counts the memory without what the driver keeps for itself.
fn is_one(fact: &str, by: &BTreeMap<&'static str, String>) -> bool {
    let of = |is_driver: bool| by.iter().filter(move |(source, _)| (**source == DRIVER_API) == is_driver);
    let mut others = of(false).map(|(_, value)| value);
    let Some(first) = others.next() else { return true };
    if others.any(|value| value != first) {
        return false;
    }
    let Some((_, own)) = of(true).next() else { return true };
    match (fact, first.parse::<u64>(), own.parse::<u64>()) {
        ("memory-mib", Ok(all), Ok(usable)) => usable <= all && usable >= all - all / 10,
        _ => own == first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::platform::Platform;

    /// What a GPU did, seen on a machine: `envlock selftest --gpu --json`, by outcome.
    #[derive(serde::Deserialize)]
    struct Seen {
        capability: ComputeCapability,
        driver: String,
        cuda: String,
        outcomes: BTreeMap<String, Vec<String>>,
    }

    /// `PTX 9.0a of CUDA 12.0`
    fn kernel(text: &str) -> Kernel {
        let words: Vec<&str> = text.split(' ').collect();
        let [form, target, "of", "CUDA", cuda] = words[..] else { panic!("{text}") };
        let form = if form == "PTX" { Via::Ptx } else { Via::Sass };
        let cuda = crate::model::version::cuda_version(cuda).unwrap();
        let kernel = Kernel { form, target: target.parse().unwrap(), cuda };
        assert_eq!(kernel.to_string(), text);
        kernel
    }

    #[test]
    fn a_gpu_did_what_is_expected() {
        let registry = crate::registry::frozen();
        let seen = include_str!("../../tests/fixtures/selftest/h200.json");
        let seen: Seen = serde_json::from_str(seen).unwrap();
        let mut host = Host::open(Platform::LINUX_X86_64, "a run");
        host.driver = Some(Driver {
            version: seen.driver.parse().unwrap(),
            cuda: seen.cuda.parse().ok(),
            compat: None,
            found_by: "nvml".into(),
        });
        for (outcome, kernels) in &seen.outcomes {
            let outcome = match outcome.as_str() {
                "ran" => Outcome::Ran,
                status => Outcome::Refused(status.to_owned()),
            };
            for text in kernels {
                let expected = expected(&registry, &host, seen.capability, &kernel(text));
                assert_eq!(agrees(expected, &outcome), Some(true), "{text}: {expected:?}, {outcome:?}");
            }
        }
    }

    #[test]
    fn sources_are_compared() {
        let device = DriverDevice {
            index: 0,
            name: "NVIDIA H200".into(),
            capability: "9.0".into(),
            memory_mib: 143_155,
            uuid: Some("c93167f714398c94a2af3f167c9495af".into()),
            cuda: "13.0".into(),
            outcomes: Vec::new(),
        };
        let gpu = |name: &str, memory| Gpu {
            index: 3,
            name: Some(name.into()),
            capability: Some(ComputeCapability::new(9, 0)),
            memory_mib: Some(memory),
            uuid: Some("GPU-c93167f7-1439-8c94-a2af-3f167c9495af".into()),
            pci_id: None,
            found_by: "nvml".into(),
        };
        let differ = |gpus: Vec<Gpu>| {
            let all = facts(&device, &[("NVML", None, gpus)]);
            all.into_iter().filter(|fact| !fact.agrees).map(|fact| fact.fact).collect::<Vec<_>>()
        };
        assert!(differ(vec![gpu("NVIDIA H200", 143_771)]).is_empty());
        assert!(differ(Vec::new()).is_empty(), "a source that does not show the GPU says nothing");
        assert_eq!(differ(vec![gpu("NVIDIA H100", 81_559)]), ["memory-mib", "name"]);
    }
}
