//! Frameworks other than torch in the graph: the CUDA that a release of TensorFlow or of JAX's plugin uses, and its
//! driver and GPU requirements. Also packages that exclude each other because they install the same file.

use std::sync::Arc;

use pep440_rs::Version;
use pep508_rs::VersionOrUrl;

use super::node::Node;
use super::problem::Problem;
use super::tables::{RuntimeRow, Set, is_stack_package, ordinals};
use crate::compatibility::{DriverFit, Policy, cuda_of_package, cudnn_drops, served};
use crate::model::built_for::BuiltFor;
use crate::model::capability::Via;
use crate::model::solution::{ChosenPackage, Note};
use crate::model::version::{DottedVersion, public};
use crate::registry::{Cited, Companion, CudaFrom, CudnnFloor, Registry, SameFile};

/// The name of NVIDIA's cuDNN packages, without the CUDA major.
const CUDNN_PACKAGES: &str = "nvidia-cudnn-cu";

impl<'a> Problem<'a> {
    /// The registry row of a release with one extra or without extras; `None` if it does not use CUDA.
    fn runtime_row(&self, package: &str, version: &Version, extra: Option<&str>) -> Option<u32> {
        if self.prefers_cpu() {
            return None;
        }
        let fits = |row: &RuntimeRow<'_>| {
            row.build.is_of(package, version)
                && match (&row.build.cuda_from, extra) {
                    (CudaFrom::Extra(name), Some(extra)) => name == extra,
                    (CudaFrom::Extra(_), None) => false,
                    (CudaFrom::System | CudaFrom::Packages, extra) => extra.is_none(),
                }
        };
        self.runtimes.iter().position(fits).map(|i| i as u32)
    }

    /// The machine requirements of a package release, and its conflicts with packages that install the same files.
    pub fn runtime_dependencies(
        &self,
        package: &str,
        version: &Version,
        extra: Option<&str>,
    ) -> Vec<(Node, Set)> {
        let mut out = Vec::new();
        if let Some(row) = self.runtime_row(package, version, extra) {
            out.push((Node::Runtime(Arc::from(package)), Set::singleton(row)));
        }
        if extra.is_some() {
            return out;
        }
        if !self.machine_allows_cuda_of(package, version) {
            out.push((Node::Driver, Set::empty()));
        }
        if let Some(floor) = self.cudnn_package_floor(package, version) {
            let below = (0..self.machine.gpus.len()).filter(|i| self.machine.gpus[*i].1 < floor.min);
            out.extend(below.map(|i| (Node::Gpu(i), Set::empty())));
        }
        let without_code =
            (0..self.machine.gpus.len()).filter(|i| self.package_excludes(package, version, *i));
        out.extend(without_code.map(|i| (Node::Gpu(i), Set::empty())));
        if !self.asked.admits.other_cuda
            && let Some(builds) = self.builds_it_is_for(package, version)
        {
            self.memory.leave_out_other_cuda();
            out.push((Node::build("torch"), builds));
        }
        for (i, row) in self.registry.same_files().iter().enumerate().filter(|(_, row)| !row.is_tolerated) {
            if let Some(place) = place_in(row, package, version) {
                out.push((Node::SameFile(i), Set::singleton(place as u32)));
            }
        }
        out
    }

    /// Whether the machine's driver suffices for a package that is the CUDA runtime. Others have none to suffice for.
    fn machine_allows_cuda_of(&self, package: &str, version: &Version) -> bool {
        if self.prefers_cpu() {
            return true;
        }
        let cuda = cuda_of_package(self.registry, package, version);
        let policy = Policy::of(self.asked.request);
        DriverFit::of(self.registry, self.machine.host, cuda.as_ref(), policy).suffices
    }

    /// The lowest compute capability that a cuDNN package supports.
    pub fn cudnn_package_floor(&self, package: &str, version: &Version) -> Option<&'a Cited<CudnnFloor>> {
        if !package.starts_with(CUDNN_PACKAGES) {
            return None;
        }
        let version: DottedVersion = version.to_string().parse().ok()?;
        self.registry.cudnn_floor(&version)
    }

    /// The builds of torch that bring the CUDA runtime which a package links, and have the C++ ABI that it was built
    /// for; `None` if nothing is known of it, or there is no torch beside it.
    pub fn builds_it_is_for(&self, package: &str, version: &Version) -> Option<Set> {
        if self.prefers_cpu() || is_stack_package(package) {
            return None;
        }
        let in_name = BuiltFor::of(version);
        let row = self.companion_here(package, version);
        let has_torch =
            in_name.is_some() || row.is_some_and(|row| row.torch.is_some()) || self.is_requested("torch");
        let majors = self.linked_cuda(package, version);
        let abi = in_name.and_then(|built| built.cxx11_abi);
        let table = self.stack.get("torch").filter(|_| has_torch && (!majors.is_empty() || abi.is_some()))?;
        Some(ordinals(table.builds.len(), |i| {
            let build = &table.builds[i];
            let variant = &self.variants[build.variant as usize];
            let brings = |cuda: &semver::Version| majors.contains(&cuda.major);
            let fits_cuda = majors.is_empty() || variant.cuda.as_ref().is_some_and(brings);
            let has = || self.registry.cxx11_abi(&build.version, &variant.name, self.machine.platform);
            fits_cuda && abi.is_none_or(|wanted| has().is_none_or(|has| has == wanted))
        }))
    }

    /// The CUDA majors whose runtime the GPU libraries of a package link: from the registry, else from its version.
    pub fn linked_cuda(&self, package: &str, version: &Version) -> Vec<u64> {
        match self.companion_here(package, version).filter(|row| !row.links_cuda.is_empty()) {
            Some(row) => row.links_cuda.clone(),
            None => BuiltFor::of(version).and_then(|built| built.cuda_major).into_iter().collect(),
        }
    }

    fn companion_here(&self, package: &str, version: &Version) -> Option<&'a Cited<Companion>> {
        self.registry.companion(package, version).filter(|row| row.platform == self.machine.platform)
    }

    /// Whether a package that is not a framework is known to have no code for GPU number `gpu`. The CUDA version of its
    /// PTX is unknown, so PTX counts as supported on any driver.
    pub fn package_excludes(&self, package: &str, version: &Version, gpu: usize) -> bool {
        if self.prefers_cpu() || self.registry.framework(package, version, self.machine.platform).is_some() {
            return false;
        }
        let targets = self.registry.targets_of(package, version, None, self.machine.platform);
        let capability = self.machine.gpus[gpu].1;
        targets.is_some_and(|(targets, _)| served(self.registry, &targets, capability).is_none())
    }

    /// Whether the machine satisfies the CUDA requirements of a release with one extra or without extras.
    pub fn machine_allows_runtime(&self, package: &str, version: &Version, extra: Option<&str>) -> bool {
        self.machine_allows_cuda_of(package, version)
            && self
                .runtime_row(package, version, extra)
                .is_none_or(|row| self.row_dependencies(row).is_empty())
    }

    /// The requirements of a row that the machine does not satisfy.
    pub fn row_dependencies(&self, row: u32) -> Vec<(Node, Set)> {
        let runtime = &self.runtimes[row as usize];
        let mut out = Vec::new();
        if !runtime.flavour.suffices {
            out.push((Node::Driver, Set::empty()));
        }
        let outlived = (0..self.machine.gpus.len())
            .filter(|i| self.machine.cuda_too_new_for_gpu(&runtime.build.cuda, self.machine.gpus[*i].1));
        out.extend(outlived.map(|i| (Node::Gpu(i), Set::empty())));
        let excluded = (0..self.machine.gpus.len()).filter(|i| self.runtime_excludes(row, *i));
        out.extend(excluded.map(|i| (Node::Gpu(i), Set::empty())));
        out
    }

    /// Whether a row does not support GPU number `gpu`: it has no code for it, or cuDNN does not support it. The cuDNN
    /// that the row was built with is the oldest that it accepts.
    pub fn runtime_excludes(&self, row: u32, gpu: usize) -> bool {
        let runtime = &self.runtimes[row as usize];
        let by_code = match runtime.coverage[gpu] {
            None => true,
            Some(Via::Sass) => false,
            Some(Via::Ptx) => !runtime.flavour.native,
        };
        by_code || self.runtime_cudnn_excludes(row, gpu)
    }

    /// Whether the cuDNN that a row was built with no longer supports a GPU.
    pub fn runtime_cudnn_excludes(&self, row: u32, gpu: usize) -> bool {
        let cudnn = self.runtimes[row as usize].build.cudnn.as_ref();
        cudnn_drops(self.registry, cudnn, self.machine.gpus[gpu].1).is_some()
    }
}

/// One note for each file that several of the locked packages install.
pub(super) fn notes_of_files(registry: &Registry, packages: &[ChosenPackage]) -> Vec<Note> {
    let of_row = |row: &Cited<SameFile>| {
        let owners: Vec<&ChosenPackage> = packages
            .iter()
            .filter(|package| place_in(row, &package.name, &package.version).is_some())
            .collect();
        let named = |package: &&ChosenPackage| format!("{} {}", package.name, public(&package.version));
        let (last, first) = owners.split_last().filter(|(_, first)| !first.is_empty())?;
        let first: Vec<String> = first.iter().map(named).collect();
        let text = format!(
            "{} and {} install the same files, such as `{}`: the one installed last overwrites the others; require one of them",
            first.join(", "),
            named(last),
            row.file
        );
        Some(Note { text, source: Some(registry.source_text(&row.source)) })
    };
    registry.same_files().iter().filter(|row| row.is_tolerated).filter_map(of_row).collect()
}

/// The index of a package among those that install a file.
fn place_in(row: &Cited<SameFile>, package: &str, version: &Version) -> Option<usize> {
    row.packages.iter().position(|requirement| {
        requirement.name.as_ref() as &str == package
            && match &requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers.contains(version),
                _ => true,
            }
    })
}
