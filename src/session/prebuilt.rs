//! Wheels that projects publish outside the index, one for each torch: offered where a solution would compile.

use pep440_rs::Version;

use super::learning::{self, PYPI};
use crate::index::IndexClient;
use crate::model::platform::Platform;
use crate::model::project::Release;
use crate::model::request::Request;
use crate::model::solution::{ChosenPackage, Note, Solution};
use crate::model::source::BuildKind;
use crate::model::timestamp::Timestamp;
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
        let day = |name: &str, version: &Version| first_day(client, name, version);
        let is_older = has.is_none()
            && day(name, version)
                .zip(day(&stack.framework, &stack.version))
                .is_some_and(|(own, torch)| own < torch);
        let text = match has {
            // Projects build wheels when they make a release: an address would be a guess.
            None if is_older => format!(
                "{name} {version} would be compiled; it was released before {} {}, so that its project seldom has a \
                 wheel for that (not checked)",
                stack.framework, stack.version
            ),
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

/// When the first file of a release was put on the index pypi; `None` where that is not known.
fn first_day(client: &IndexClient, name: &str, version: &Version) -> Option<Timestamp> {
    let page = learning::page(client, PYPI, name).ok()??;
    let is_it =
        |release: &&Release| release.version.clone().without_local() == version.clone().without_local();
    page.releases().iter().find(is_it).and_then(|release| page.first_upload(release))
}
