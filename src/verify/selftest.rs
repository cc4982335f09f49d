//! Whether GPUs do with prebuilt kernels what `compatibility` says.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::compatibility::{Needs, Policy, Violation};
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::{Driver, Gpu, Host};
use crate::model::selftest::{DriverDevice, Kernel, Outcome};
use crate::registry::Registry;

/// What `compatibility` says of a kernel on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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
        unread_code_covers_none: true,
        glibc: None,
        platform: host.system.platform,
        source: &[],
    };
    let gpu = Gpu {
        index: 0,
        name: None,
        capability: Some(capability),
        memory_mib: None,
        uuid: None,
        pci_id: None,
        found_by: "driver".into(),
    };
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
