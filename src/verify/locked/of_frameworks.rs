//! TensorFlow, JAX and others in another tool's lock, and the libraries of CUDA beside torch.

use pep440_rs::Version;
use semver::Version as Semver;
use version_ranges::Ranges;

use super::of_torch::built;
use super::{Locked, NoCuda, with_command};
use crate::compatibility::{Policy, envelope_of_framework, required_driver, unknown_cuda_user};
use crate::formats::Environment;
use crate::model::evidence::Evidence;
use crate::model::nvidia::{is_cublas, is_cuda_runtime};
use crate::model::platform::Platform;
use crate::model::solution::{ChosenPackage, Envelope, Framework};
use crate::model::version::{DottedVersion, public};
use crate::registry::{CudaFrom, Registry};

impl Locked<'_> {
    /// TensorFlow, JAX and others from PyPI.
    pub(super) fn other_frameworks(
        &mut self,
        environment: &Environment,
        registry: &Registry,
        platform: Platform,
    ) -> Vec<Envelope> {
        let has = |is: fn(&str) -> bool| self.target.packages.iter().any(|package| is(&package.name));
        let (brings_cuda, brings_cublas) = (has(is_cuda_runtime), has(is_cublas));
        let mut envelopes = Vec::new();
        let packages = self.target.packages.clone();
        for package in &packages {
            let version = public(&package.version);
            let Some(row) = registry.framework(&package.name, &version, platform) else { continue };
            let theirs = environment.packages.iter().find(|theirs| theirs.name == package.name);
            if theirs.is_some_and(|theirs| theirs.is_built(environment.python, platform)) {
                self.unknown.push(built(&package.name, &version));
                continue;
            }
            let uses_cuda = match row.cuda_from {
                CudaFrom::Packages => true,
                CudaFrom::Extra(_) => brings_cuda,
                CudaFrom::System => true,
            };
            if !uses_cuda && environment.with_extras.contains(&package.name) {
                self.unknown.push(unread_extra(&package.name, &version));
                continue;
            }
            if !uses_cuda {
                let ask = row.ask.clone().unwrap_or_else(|| package.name.clone());
                let cuda = format!("{}.{}", row.cuda.major, row.cuda.minor);
                self.no_cuda(
                    &row.framework,
                    format!("{} {version}", package.name),
                    NoCuda::NoPackages { cuda, ask },
                );
                continue;
            }
            let from_system = row.cuda_from == CudaFrom::System;
            let by_conda =
                self.conda.iter().any(|record| record.name == "cudatoolkit" || record.name == "cuda-version");
            // JAX's plugin is also installed for a CUDA of the machine.
            let is_local = row.cuda_from == CudaFrom::Packages && !brings_cublas;
            if (from_system || is_local) && !by_conda {
                let (cuda, cudnn) = (&row.cuda, row.cudnn.as_ref());
                let cudnn = cudnn.map(|cudnn| format!(" and cuDNN {cudnn}")).unwrap_or_default();
                self.unknown.push(format!(
                    "{} {version} uses the CUDA {}.{}{cudnn} of the machine: whether they are installed is not known",
                    package.name, cuda.major, cuda.minor
                ));
            }
            self.target.to_mut().frameworks.push(framework(
                (&row.framework, &package.name, version),
                &row.cuda,
                (row.cudnn.clone(), from_system),
                row.evidence,
                (registry, platform),
            ));
            envelopes.push(envelope_of_framework(registry, row));
        }
        envelopes
    }

    /// TensorFlow and JAX that no row is about: builds for the CPU, or releases that are not known.
    pub(super) fn without_row(&mut self, environment: &Environment, registry: &Registry, platform: Platform) {
        let packages = self.target.packages.clone();
        let of = |name: &str| packages.iter().find(|package| package.name == name);
        if let Some(cpu) = of("tensorflow-cpu").or_else(|| of("tensorflow-intel")) {
            self.no_cuda("tensorflow", format!("{} {}", cpu.name, cpu.version), NoCuda::CpuBuild);
        }
        if let Some(package) = of("tensorflow")
            && registry.framework("tensorflow", &public(&package.version), platform).is_none()
        {
            // What a release is that nobody listed is not known without a GPU either.
            self.unlisted.push(not_in_data(registry, package, platform));
        }
        let is_plugin = |package: &&ChosenPackage| package.name.starts_with("jax-cuda");
        if let Some(jax) = of("jaxlib").or_else(|| of("jax"))
            && packages.iter().find(is_plugin).is_none()
        {
            match jax.version.is_local() {
                _ if environment.with_extras.iter().any(|name| name == "jax") => {
                    self.unknown.push(unread_extra("jax", &public(&jax.version)));
                }
                true => self.unknown.push(format!("{} {} is not in envlock's data", jax.name, jax.version)),
                false if is_newer_than_rows(registry, "jax", &jax.version) => {
                    self.unlisted.push(format!("{} {} is not in envlock's data", jax.name, jax.version));
                }
                false => {
                    let ask = "jax[cuda12]".to_owned();
                    self.no_cuda("jax", format!("{} {}", jax.name, jax.version), NoCuda::NoPlugin { ask });
                }
            }
        }
        let known = |name: &str| self.target.frameworks.iter().any(|framework| framework.package == name);
        let unknown = packages
            .iter()
            .find(|package| is_plugin(package) && package.name.contains("plugin") && !known(&package.name));
        if let Some(plugin) = unknown {
            self.unknown.push(not_in_data(registry, plugin, platform));
        }
    }

    /// Without a framework, other packages may use CUDA.
    pub(super) fn without_framework(&mut self, registry: &Registry) {
        let has_framework = self.target.stack.is_some()
            || !self.target.frameworks.is_empty()
            || !self.without_cuda.is_empty()
            || !self.unknown.is_empty()
            || !self.unlisted.is_empty();
        if !has_framework {
            self.unknown.extend(unknown_cuda_user(registry, &self.target.packages));
        }
    }
}

/// That no row is about a release, and what reads one.
fn not_in_data(registry: &Registry, package: &ChosenPackage, platform: Platform) -> String {
    let version = public(&package.version);
    let command = match registry.is_unread_framework(&package.name, &version, platform) {
        true => with_command(&package.name, &version.to_string(), platform),
        false => String::new(),
    };
    format!("{} {} for {platform} is not in envlock's data{command}", package.name, package.version)
}

/// Whether a release is newer than all that the rows of a framework are about.
fn is_newer_than_rows(registry: &Registry, framework: &str, version: &Version) -> bool {
    let from_it_on = Ranges::higher_than(public(version));
    let mut rows = registry.frameworks().iter().filter(|row| row.framework == framework);
    rows.all(|row| Ranges::from(row.versions.clone()).is_disjoint(&from_it_on))
}

/// That a lock of pins alone may lack what an extra requires.
fn unread_extra(name: &str, version: &Version) -> String {
    format!(
        "{name} {version} is required with extras, and what they require is not in the lock: whether CUDA packages are installed is not known"
    )
}

/// A framework other than torch.
pub(super) fn framework(
    (name, package, version): (&str, &str, Version),
    cuda: &Semver,
    (cudnn, cuda_from_system): (Option<DottedVersion>, bool),
    evidence: Evidence,
    (registry, platform): (&Registry, Platform),
) -> Framework {
    Framework {
        name: name.to_owned(),
        package: package.to_owned(),
        version,
        cuda: cuda.clone(),
        cudnn,
        cuda_from_system,
        conda: Vec::new(),
        evidence,
        driver_mode: None,
        native_driver: required_driver(registry, cuda, platform.os, Policy::Native)
            .map(|driver| driver.value),
    }
}
