//! Wheels that projects publish outside the index, one for each torch: offered where a solution would compile.

use crate::index::IndexClient;
use crate::model::platform::Platform;
use crate::model::request::Request;
use crate::model::solution::{ChosenPackage, Note, Solution};
use crate::model::source::BuildKind;
use crate::registry::conda_builds::PYTORCH;
use crate::registry::{PrebuiltFor, Registry};

/// A note for each package of a solution that is compiled and whose project publishes wheels. Its server is asked for
/// the wheel, unless the request names the only index that may be asked.
pub(crate) fn offers(
    solution: &Solution,
    request: &Request,
    platform: Platform,
    client: &IndexClient,
    registry: &Registry,
) -> Vec<Note> {
    let compiled = solution.packages.iter().filter(|package| {
        !package.source.is_direct()
            && package.build.as_ref().is_some_and(|build| build.kind == BuildKind::Cuda)
    });
    let offer = |package: &ChosenPackage| {
        let stack = solution.stack.as_ref()?;
        let row = registry.prebuilt(&package.name, &package.version)?;
        let cuda_major = stack.cuda.as_ref()?.major;
        let url = row.url(&PrebuiltFor {
            version: &package.version,
            torch: &stack.version,
            cuda_major,
            cxx11_abi: match solution.conda.iter().any(|package| package.name == PYTORCH) {
                true => registry.cxx11_abi_of_conda(PYTORCH, &stack.version)?,
                false => registry.cxx11_abi(&stack.version, &stack.variant, platform)?,
            },
            python: solution.python,
            platform,
        })?;
        let has = if request.only_index.is_some() { None } else { client.has(&url) };
        let (name, version) = (&package.name, &package.version);
        // Without a space, so that the reference stays on one line.
        let add = format!("`envlock add \"{name}@{url}\"`");
        let text = match has {
            Some(true) => format!(
                "{name} {version} would be compiled; its project has a wheel for this torch, CUDA and Python: {add}"
            ),
            Some(false) => format!(
                "{name} {version} is compiled: its project has no wheel of it for torch {}, CUDA {cuda_major} and \
                 Python {}",
                stack.version, solution.python
            ),
            None => format!(
                "{name} {version} would be compiled; its project may have a wheel for this torch, CUDA and Python \
                 (not checked): {add}"
            ),
        };
        Some(Note { text, source: None })
    };
    compiled.filter_map(offer).collect()
}
