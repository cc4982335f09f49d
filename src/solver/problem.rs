//! A problem ready to search: what is asked, the machine, and the candidates of both.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use pep508_rs::MarkerEnvironment;

use super::inputs::{Depth, Inputs};
use super::tables::{BuildRow, RuntimeRow, Set, Tables, VariantRow, ordinals, runtime_rows};
use super::universe::Universe;
use crate::compatibility::{self, CPU, DriverFit, DriverSpan, Policy, cudnn_drops, required_driver, served};
use crate::model::capability::{ComputeCapability, Via};
use crate::model::host::{Gpu, Host};
use crate::model::metadata::marker_environment;
use crate::model::platform::{Libc, Os, Platform};
use crate::model::project::{ProjectPage, Release};
use crate::model::request::{Preferences, Request};
use crate::model::solution::Need;
use crate::model::version::DottedVersion;
use crate::model::wheel::Python;
use crate::registry::{Advisory, Effect, Registry};

/// A candidate of an ordinary package: a release on an index.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'p> {
    pub index: &'p str,
    pub page: &'p Arc<ProjectPage>,
    pub release: &'p Release,
}

/// In the search for a proof: which version of torch stands for which, because nothing in the problem tells them
/// apart.
pub(super) struct Alike {
    /// For each version the newest that is like it.
    pub stands_for: Vec<u32>,
}

impl Alike {
    /// The versions that stand for all.
    pub fn representatives(&self) -> Set {
        ordinals(self.stands_for.len(), |v| self.stands_for[v] == v as u32)
    }

    /// The versions that a version stands for, itself among them.
    pub fn all(&self, version: u32) -> impl Iterator<Item = u32> {
        (0..self.stands_for.len() as u32)
            .filter(move |v| *v == version || self.stands_for[*v as usize] == version)
    }
}

/// A problem ready to search.
pub(super) struct Problem<'a> {
    pub registry: &'a Registry,
    pub universe: &'a Universe,
    pub host: &'a Host,
    pub request: &'a Request,
    pub preferences: &'a Preferences,
    pub depth: Depth,
    /// Requested packages must be the newest that any of these series could have.
    pub newest_on: Option<&'a [Python]>,
    /// In the search for a proof: versions of torch of which one stands for several.
    pub alike: Option<Alike>,
    pub platform: Platform,
    pub libc: Option<Libc>,
    /// GPUs with a known capability.
    pub gpus: Vec<(&'a Gpu, ComputeCapability)>,
    pub pythons: Vec<Python>,
    pub environments: Vec<MarkerEnvironment>,
    tables: Rc<Tables<'a>>,
    /// What the host's driver is to each flavour.
    flavours: Vec<DriverFit>,
    /// How each kind of targets serves each GPU, by machine code or PTX.
    coverage: Vec<Vec<Option<Via>>>,
    /// What frameworks beside torch were built for.
    pub runtimes: Vec<RuntimeRow<'a>>,
    /// Advisories that constrain.
    pub advisories: Vec<&'a Advisory>,
    pub(super) sets: RefCell<HashMap<(Arc<str>, String), Set>>,
    /// Candidates by package, as far as they were asked for.
    pub(super) listed: RefCell<HashMap<String, Rc<[Candidate<'a>]>>>,
    pub(super) needs: RefCell<BTreeSet<Need>>,
}

impl<'a> std::ops::Deref for Problem<'a> {
    type Target = Tables<'a>;

    fn deref(&self) -> &Tables<'a> {
        &self.tables
    }
}

impl<'a> Problem<'a> {
    /// A problem for the given Python series over shared tables.
    pub fn new(
        inputs: &Inputs<'a>,
        tables: &Rc<Tables<'a>>,
        depth: Depth,
        pythons: Vec<Python>,
    ) -> Problem<'a> {
        let platform = inputs.host.system.platform;
        let gpus: Vec<(&Gpu, ComputeCapability)> =
            inputs.host.gpus.iter().flatten().filter_map(|g| Some((g, g.capability?))).collect();
        let registry = inputs.catalogue.registry;
        let coverage = tables
            .kinds
            .iter()
            .map(|kind| gpus.iter().map(|(_, c)| served(registry, kind, *c)).collect())
            .collect();
        let policy = Policy::of(inputs.request);
        let fit = |v: &VariantRow| DriverFit::of(registry, inputs.host, v.cuda.as_ref(), policy);
        let flavours = tables.variants.iter().map(fit).collect();
        let capabilities: Vec<ComputeCapability> = gpus.iter().map(|(_, c)| *c).collect();
        let runtimes = runtime_rows(registry, inputs.host, inputs.request, &capabilities);
        Problem {
            registry,
            universe: inputs.universe,
            host: inputs.host,
            request: inputs.request,
            preferences: inputs.preferences,
            depth,
            newest_on: None,
            alike: None,
            platform,
            libc: inputs.host.system.libc.clone(),
            gpus,
            flavours,
            coverage,
            runtimes,
            environments: pythons.iter().map(|p| marker_environment(*p, platform)).collect(),
            pythons,
            tables: tables.clone(),
            advisories: inputs
                .catalogue
                .registry
                .advisories()
                .iter()
                .filter(|a| matches!(a.effect, Effect::Constrain(_)))
                .filter(|a| a.platform.is_none_or(|p| p == platform))
                .collect(),
            sets: RefCell::default(),
            listed: RefCell::default(),
            needs: RefCell::default(),
        }
    }
}

impl Problem<'_> {
    /// The host's operating system.
    pub fn os(&self) -> Os {
        self.platform.os
    }

    /// Whether the machine is known to have no GPU, or the CPU flavour is pinned: then a CPU build
    /// is preferred.
    pub fn prefers_cpu(&self) -> bool {
        self.host.has_no_gpu() || self.request.variant.as_ref().is_some_and(|v| v.value == CPU)
    }

    /// Whether a CPU build would be no answer: GPUs or a driver are known to be there.
    pub fn wants_gpu_build(&self) -> bool {
        !self.prefers_cpu() && (!self.gpus.is_empty() || self.host.driver.is_some())
    }

    /// Whether the host's driver runs machine code of a flavour.
    pub fn driver_suffices(&self, variant: u32) -> bool {
        self.flavours[variant as usize].suffices
    }

    /// Whether the flavour's own driver, or a newer one, is there: then its PTX runs too. Open
    /// drivers count as native.
    pub fn is_native(&self, variant: u32) -> bool {
        self.flavours[variant as usize].native
    }

    /// Whether every driver that a flavour needs is too new for a GPU: only asked where the driver
    /// is open, else the host itself is impossible.
    pub fn driver_outlives_gpu(&self, variant: u32, capability: ComputeCapability) -> bool {
        let cuda = self.variants[variant as usize].cuda.as_ref();
        cuda.is_some_and(|cuda| self.cuda_outlives_gpu(cuda, capability))
    }

    /// The same of a CUDA release.
    pub fn cuda_outlives_gpu(&self, cuda: &semver::Version, capability: ComputeCapability) -> bool {
        if self.host.driver.is_some() {
            return false;
        }
        let floor = required_driver(self.registry, cuda, self.os(), self.policy());
        floor.is_some_and(|floor| DriverSpan::of(self.registry, capability).ends_before(&floor.value))
    }

    /// How new the driver has to be for the request.
    pub fn policy(&self) -> Policy {
        Policy::of(self.request)
    }

    /// Whether GPU number `gpu` is a party against this build: torch's own kernels decide always, a
    /// companion's where its targets are known. Unknown targets serve none knowingly.
    pub fn gpu_excludes(&self, build: &BuildRow<'_>, gpu: usize) -> bool {
        if self.variants[build.variant as usize].cuda.is_none() {
            return build.torch.is_some() && !self.prefers_cpu();
        }
        match &build.targets {
            None => build.torch.is_some(),
            Some(_) => match self.coverage[build.kind][gpu] {
                None => true,
                Some(Via::Sass) => false,
                Some(Via::Ptx) => !self.is_native(build.variant),
            },
        }
    }

    /// Whether driver, GPUs, cuDNN, libc, allowed indexes and Pythons leave a torch build possible.
    pub fn machine_allows(&self, build: &BuildRow<'_>) -> bool {
        let cpu = self.variants[build.variant as usize].cuda.is_none();
        self.driver_suffices(build.variant)
            && !(cpu && self.wants_gpu_build())
            && self.index_allowed(&self.indexes[build.index as usize])
            && (0..self.gpus.len()).all(|i| {
                let capability = self.gpus[i].1;
                !self.gpu_excludes(build, i)
                    && self.cudnn_serves(build.cudnn, capability)
                    && !self.driver_outlives_gpu(build.variant, capability)
            })
            && build.torch.and_then(|t| t.glibc.as_ref()).is_none_or(|need| self.glibc_suffices(need))
            && self.pythons.iter().any(|p| build.pythons >> p.minor.min(63) & 1 == 1)
    }

    /// Whether a cuDNN release serves a capability.
    pub fn cudnn_serves(&self, cudnn: u32, capability: ComputeCapability) -> bool {
        cudnn_drops(self.registry, self.cudnn[cudnn as usize].as_ref(), capability).is_none()
    }

    /// Whether the host's libc is at least `need`; open or unlike libc limits nothing here.
    pub fn glibc_suffices(&self, need: &DottedVersion) -> bool {
        compatibility::glibc_suffices(self.libc.as_ref(), need)
    }

    /// The Python series (ordinals) that a torch row has wheels for.
    pub fn build_pythons(&self, build: &BuildRow<'_>) -> Set {
        ordinals(self.pythons.len(), |i| {
            let python = self.pythons[i];
            let by_series = build.pythons >> python.minor.min(63) & 1 == 1;
            // A named patch release is held against requires-python itself.
            by_series
                && (python.patch.is_none()
                    || build
                        .torch
                        .and_then(|t| t.requires_python.as_ref())
                        .is_none_or(|r| crate::model::project::specifiers_allow(r, python)))
        })
    }
}
