//! What would work: the newest torch that the GPUs and the driver of the facts can run, solved by the registry.

use super::facts::Facts;
use crate::model::capability::ComputeCapability;
use crate::model::host::{Driver, Gpu, Host};
use crate::model::platform::{Arch, Os, Platform};
use crate::model::request::{Preferences, Request, UserRequirement};
use crate::model::solution::Answer;
use crate::registry::Registry;
use crate::solver::solve_stack;

/// Where the pytorch index is unless somebody moved it.
const PYTORCH_INDEX: &str = "https://download.pytorch.org/whl";

/// The machine that facts describe; GPUs that the registry does not know are left out.
pub(super) fn host(facts: &Facts, registry: &Registry) -> Host {
    let platform = Platform {
        os: if facts.hints.windows { Os::Windows } else { Os::Linux },
        arch: if facts.os.as_ref().is_some_and(|os| os.contains("aarch64")) {
            Arch::Aarch64
        } else {
            Arch::X86_64
        },
    };
    let mut host = Host::open(platform, "the text");
    let gpus: Vec<Gpu> = capabilities(facts, registry)
        .into_iter()
        .enumerate()
        .map(|(i, (name, capability))| Gpu {
            index: i as u32,
            name,
            capability: Some(capability),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "the text".to_owned(),
        })
        .collect();
    host.gpus = (!gpus.is_empty()).then_some(gpus);
    let by_cuda = || {
        let cuda = crate::model::version::cuda_version(facts.driver_cuda.as_deref()?).ok()?;
        registry.driver_of_cuda(&cuda)
    };
    let version = facts.driver.as_ref().and_then(|v| v.parse().ok()).or_else(by_cuda);
    host.driver =
        version.map(|version| Driver { version, cuda: None, compat: None, found_by: "the text".to_owned() });
    host
}

/// The GPUs of the facts with their capabilities, as far as the registry knows them.
pub(super) fn capabilities(facts: &Facts, registry: &Registry) -> Vec<(Option<String>, ComputeCapability)> {
    let mut out: Vec<(Option<String>, ComputeCapability)> = Vec::new();
    for name in &facts.gpus {
        // `NVIDIA GeForce RTX 3090 Laptop GPU`, `Tesla V100-SXM2-32GB`: what is not found whole is tried shorter.
        let mut words: Vec<&str> = name.split(' ').collect();
        while !words.is_empty() {
            if let Ok(found) = registry.find_gpu(&words.join(" ")) {
                out.push((Some(found.name), found.capability));
                break;
            }
            words.pop();
        }
    }
    if out.is_empty()
        && let Some(capability) = facts.capability.as_ref().and_then(|c| c.parse().ok())
    {
        out.push((None, capability));
    }
    out
}

/// The command that installs what works on the machine; nothing where nothing does.
pub(super) fn install(facts: &Facts, registry: &Registry) -> Option<String> {
    let mut request = Request::default();
    request
        .requirements
        .push(UserRequirement { requirement: "torch".parse().ok()?, origin: "diagnose".to_owned() });
    let Answer::Solution(solution) =
        solve_stack(registry, &host(facts, registry), &request, &Preferences::default())
    else {
        return None;
    };
    let stack = solution.stack?;
    Some(match stack.index.split_once('/') {
        Some((_, variant)) => {
            format!("pip install torch=={} --index-url {PYTORCH_INDEX}/{variant}", stack.version)
        }
        None => format!("pip install torch=={}", stack.version),
    })
}
