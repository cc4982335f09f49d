//! The data and a machine as if what no row says ran: a refusal that does not hold there rests on what is not known, and is no "no".

use super::code::{compiles_for, knows_capability};
use super::driver::UnknownFloor;
use super::runtime::cuda_runtime;
use super::unread::UnreadBuild;
use crate::model::capability::{CodeTarget, CodeTargets, TargetScope};
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::solution::Solution;
use crate::registry::{Build, Cited, Registry};

/// The data in which builds of torch whose code nobody read have code for the GPUs of a machine, where their toolkit compiles for
/// them.
pub fn with_assumed_code<'h>(registry: &Registry, hosts: impl Iterator<Item = &'h Host>) -> Registry {
    let gpus = hosts.flat_map(|host| host.gpus.iter().flatten()).filter_map(|gpu| gpu.capability);
    let gpus: Vec<_> = gpus.filter(|gpu| !registry.tegra().without_wheels.contains(gpu)).collect();
    let assumed = |mut build: Cited<Build>| {
        if let (None, Some(cuda)) = (&build.targets, &build.cuda) {
            let made = gpus.iter().filter(|gpu| compiles_for(registry, cuda, **gpu) != Some(false));
            let sass = made.map(|gpu| CodeTarget { capability: *gpu, scope: TargetScope::Exact }).collect();
            build.targets = Some(CodeTargets { sass, ptx: Vec::new() });
        }
        build
    };
    registry.with_builds(registry.builds().iter().cloned().map(assumed).collect())
}

/// A machine without the GPUs of which nothing is known; one whose GPUs are open if those are all.
pub fn without_unknown_gpus(registry: &Registry, mut host: Host) -> Host {
    let Some(gpus) = &mut host.gpus else { return host };
    let has_gpus = !gpus.is_empty();
    gpus.retain(|gpu| gpu.capability.is_some_and(|capability| knows_capability(registry, capability)));
    if has_gpus && gpus.is_empty() {
        host.gpus = None;
    }
    host
}

/// What is not known of an answer that only these assumptions give.
pub fn assumed_in(registry: &Registry, solution: &Solution, platform: Platform) -> Option<Assumed> {
    let stack = solution.stack.as_ref();
    let build = stack.and_then(|stack| registry.build(&stack.version, &stack.variant, platform));
    let unread = build.filter(|build| build.cuda.is_some() && build.targets.is_none());
    let of_frameworks = solution.frameworks.iter().map(|framework| &framework.cuda);
    let runtime = cuda_runtime(registry, &solution.packages).map(|(_, cuda)| cuda);
    let cuda = of_frameworks.chain(stack.and_then(|stack| stack.cuda.as_ref())).chain(&runtime);
    let floor = || UnknownFloor::of(registry, cuda, platform).map(Assumed::Floor);
    unread.map(|build| Assumed::Build(UnreadBuild::of(build))).or_else(floor)
}

/// What an answer takes for granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assumed {
    /// That the code of a build runs.
    Build(UnreadBuild),
    /// That the driver is new enough.
    Floor(UnknownFloor),
}
