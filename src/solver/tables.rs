//! The candidates of a problem: what the registry, the host and the request offer, numbered.
//!
//! Virtual facts (driver, GPU, libc) have exactly one candidate, so a dependency on one is either
//! everything or nothing; everything else is a list in ascending order.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::MarkerEnvironment;
use version_ranges::Ranges;

use super::closure::Candidate;
use super::{Depth, Inputs};
use crate::compatibility::{self, CPU, DriverFit, DriverSpan, Policy, cudnn_drops, required_driver, served};
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::{Gpu, Host};
use crate::model::metadata::marker_environment;
use crate::model::platform::{Libc, Os, Platform};
use crate::model::request::{Preferences, Request};
use crate::model::solution::Need;
use crate::model::version::DottedVersion;
use crate::model::wheel::Python;
use crate::registry::{Advisory, Build, COMPANIONS, Effect, Registry};

/// A set of candidate ordinals.
pub(super) type Set = Ranges<u32>;

/// The packages whose builds differ by CUDA flavour and that the registry knows build by build.
pub const STACK_PACKAGES: [&str; 3] = ["torch", "torchaudio", "torchvision"];

/// Packages that come from the pytorch sub-index together with a build from there.
pub(super) const FOLLOWS_BUILD: &str = "triton";

pub(super) fn is_stack_package(name: &str) -> bool {
    STACK_PACKAGES.contains(&name)
}

/// One CUDA flavour.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VariantRow {
    pub name: String,
    pub cuda: Option<semver::Version>,
}

/// One build of a stack package.
#[derive(Debug, Clone)]
pub(super) struct BuildRow<'a> {
    pub version: Version,
    /// Ordinal of the version among the package's versions.
    pub version_ordinal: u32,
    pub variant: u32,
    pub index: u32,
    pub on_pypi: bool,
    /// Ordinal of its cuDNN; 0 for none.
    pub cudnn: u32,
    /// torch's own row.
    pub torch: Option<&'a Build>,
    /// A companion's requirement on torch, as ordinals of torch versions.
    pub torch_set: Option<Set>,
    pub torch_requirement: Option<String>,
    pub targets: Option<CodeTargets>,
    /// Which of [`Tables::kinds`] the targets are; builds share few lists of targets.
    pub kind: usize,
    /// Bit `n` is set where Python 3.n has a wheel, by tags and requires-python.
    pub pythons: u64,
    pub source: Vec<String>,
}

impl BuildRow<'_> {
    /// The version as its index has it: the pytorch index says the flavour in a local segment, PyPI does not.
    pub fn version_on_index(&self, variant: Option<&str>) -> Version {
        let local = variant.filter(|_| !self.on_pypi);
        let full = local.and_then(|variant| format!("{}+{variant}", self.version).parse().ok());
        full.unwrap_or_else(|| self.version.clone())
    }
}

/// A stack package's versions and builds.
#[derive(Debug, Default)]
pub(super) struct StackTable<'a> {
    pub versions: Vec<Version>,
    /// Sorted by version.
    pub builds: Vec<BuildRow<'a>>,
    /// The builds of each version.
    pub spans: Vec<std::ops::Range<u32>>,
}

impl<'a> StackTable<'a> {
    /// The builds of a version.
    pub fn builds_of(&self, version: u32) -> &[BuildRow<'a>] {
        let span = &self.spans[version as usize];
        &self.builds[span.start as usize..span.end as usize]
    }

    fn push(&mut self, mut row: BuildRow<'a>) {
        if self.versions.last() != Some(&row.version) {
            self.versions.push(row.version.clone());
            self.spans.push(self.builds.len() as u32..self.builds.len() as u32);
        }
        row.version_ordinal = self.versions.len() as u32 - 1;
        self.builds.push(row);
        if let Some(span) = self.spans.last_mut() {
            span.end = self.builds.len() as u32;
        }
    }
}

/// A problem ready to search.
pub(super) struct Problem<'a> {
    pub registry: &'a Registry,
    pub universe: &'a super::Universe,
    pub host: &'a Host,
    pub request: &'a Request,
    pub preferences: &'a Preferences,
    pub depth: Depth,
    /// Requested packages must be the newest that any of these series could have.
    pub newest_on: Option<&'a [Python]>,
    /// In the search for a proof: versions of torch of which one stands for several.
    pub alike: Option<super::alike::Alike>,
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
    pub runtimes: Vec<super::runtime::RuntimeRow<'a>>,
    /// Advisories that constrain.
    pub advisories: Vec<&'a Advisory>,
    pub(super) sets: RefCell<HashMap<(Arc<str>, String), Set>>,
    /// Candidates by package, as far as they were asked for.
    pub(super) listed: RefCell<HashMap<String, Rc<[Candidate<'a>]>>>,
    pub(super) needs: RefCell<BTreeSet<Need>>,
}

/// The candidates that only the registry and the platform decide: numbered once, shared by all the
/// problems of a solve (one per Python series, one per relaxation) and by all solves of a command.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    /// The distinct lists of code targets.
    pub kinds: Vec<CodeTargets>,
    /// Sets of versions by stack package and specifier.
    pub(super) version_sets: RefCell<HashMap<(Arc<str>, String), Set>>,
    pub variants: Vec<VariantRow>,
    pub cudnn: Vec<Option<DottedVersion>>,
    pub indexes: Vec<String>,
    pub stack: BTreeMap<&'static str, StackTable<'a>>,
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
        let runtimes = super::runtime::rows(inputs, &capabilities);
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

impl<'a> Tables<'a> {
    /// Numbers what the registry has for a platform.
    pub fn new(registry: &'a Registry, platform: Platform) -> Rc<Tables<'a>> {
        let rows: Vec<&Build> =
            registry.builds().iter().filter(|b| b.platform == platform && b.yanked.is_none()).collect();
        let mut tables = Tables::default();
        let mut cudnn: BTreeSet<Option<DottedVersion>> = BTreeSet::from([None]);
        let mut sub_indexes: BTreeSet<String> = BTreeSet::new();
        for row in &rows {
            if !tables.variants.iter().any(|v| v.name == row.variant) {
                tables.variants.push(VariantRow { name: row.variant.clone(), cuda: row.cuda.clone() });
            }
            cudnn.insert(row.cudnn.clone());
            if !row.on_pypi {
                sub_indexes.insert(row.index());
            }
        }
        tables.variants.sort_by(|a, b| a.cuda.cmp(&b.cuda));
        tables.cudnn = cudnn.into_iter().collect();
        tables.indexes = std::iter::once("pypi".to_owned()).chain(sub_indexes).collect();
        tables.number_torch(&rows);
        for companion in COMPANIONS {
            tables.number_companion(registry, platform, companion, &rows);
        }
        Rc::new(tables)
    }

    fn number_torch(&mut self, rows: &[&'a Build]) {
        let mut table = StackTable::default();
        for row in rows {
            table.push(BuildRow {
                version: row.version.clone(),
                version_ordinal: 0,
                variant: self.variant_ordinal(&row.variant),
                index: self.index_ordinal(&row.index()),
                on_pypi: row.on_pypi,
                cudnn: position(&self.cudnn, &row.cudnn),
                torch: Some(row),
                torch_set: None,
                torch_requirement: None,
                kind: self.kind(row.targets.as_ref()),
                targets: row.targets.clone(),
                pythons: python_bits(row, rows),
                source: row.source.clone(),
            });
        }
        self.stack.insert("torch", table);
    }

    fn kind(&mut self, targets: Option<&CodeTargets>) -> usize {
        let Some(targets) = targets else { return 0 };
        self.kinds.iter().position(|k| k == targets).unwrap_or_else(|| {
            self.kinds.push(targets.clone());
            self.kinds.len() - 1
        })
    }

    /// A companion's builds: those PyPI carries, and those built beside the torch builds of the
    /// pytorch index.
    fn number_companion(
        &mut self,
        registry: &'a Registry,
        platform: Platform,
        name: &'static str,
        rows: &[&'a Build],
    ) {
        // (version, variant, index) -> (requirement on torch, targets, sources)
        type Key = (Version, u32, u32);
        let mut found: BTreeMap<Key, (Option<VersionSpecifiers>, Option<CodeTargets>, Vec<String>)> =
            BTreeMap::new();
        for row in rows {
            let Some(version) = row.companion(name) else { continue };
            let companion = registry.companion(name, version);
            if companion.is_some_and(|c| c.yanked.is_some()) {
                continue;
            }
            let requirement = companion
                .map(|c| c.torch.clone())
                .unwrap_or_else(|| format!("=={}", row.version).parse().ok());
            let own = companion.filter(|c| {
                row.on_pypi && c.platform == row.platform && c.variant.as_deref() == Some(&row.variant)
            });
            let key = (version.clone(), self.variant_ordinal(&row.variant), self.index_ordinal(&row.index()));
            found.entry(key).or_insert((
                requirement,
                own.and_then(|c| c.targets.clone()),
                row.source.clone(),
            ));
        }
        for companion in registry.companions() {
            if companion.package != name || companion.platform != platform || companion.yanked.is_some() {
                continue;
            }
            let Some(variant) =
                companion.variant.as_ref().and_then(|v| self.variants.iter().position(|row| &row.name == v))
            else {
                continue;
            };
            found.insert(
                (companion.version.clone(), variant as u32, 0),
                (companion.torch.clone(), companion.targets.clone(), companion.source.clone()),
            );
        }
        let torch = self.stack["torch"].versions.clone();
        let mut table = StackTable::default();
        for ((version, variant, index), (requirement, targets, source)) in found {
            let set = requirement.as_ref().map(|spec| ordinals(torch.len(), |i| spec.contains(&torch[i])));
            table.push(BuildRow {
                version_ordinal: 0,
                version,
                variant,
                index,
                on_pypi: index == 0,
                cudnn: 0,
                torch: None,
                torch_set: set,
                torch_requirement: requirement.map(|r| r.to_string()),
                kind: self.kind(targets.as_ref()),
                targets,
                pythons: u64::MAX,
                source,
            });
        }
        self.stack.insert(name, table);
    }

    fn variant_ordinal(&self, name: &str) -> u32 {
        self.variants.iter().position(|v| v.name == name).unwrap_or(0) as u32
    }

    fn index_ordinal(&self, name: &str) -> u32 {
        self.indexes.iter().position(|i| i == name).unwrap_or(0) as u32
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

/// The Python series of a torch row as bits.
fn python_bits(row: &Build, all: &[&Build]) -> u64 {
    // Builds of one version share their requires-python; a row that does not say it borrows it.
    let sibling = || all.iter().find(|b| b.version == row.version && b.requires_python.is_some());
    let requires = row.requires_python.as_ref().or_else(|| sibling()?.requires_python.as_ref());
    (0..64u32)
        .filter(|minor| row.pythons.as_ref().is_none_or(|list| list.contains(minor)))
        .filter(|minor| {
            requires.is_none_or(|r| crate::model::project::specifiers_allow(r, Python::new(*minor)))
        })
        .fold(0, |bits, minor| bits | 1 << minor)
}

/// The ordinals below `count` for which `keep` holds, as intervals; everything when all do.
pub(super) fn ordinals(count: usize, mut keep: impl FnMut(usize) -> bool) -> Set {
    let mut intervals: Vec<(Bound<u32>, Bound<u32>)> = Vec::new();
    let mut start = None;
    for i in 0..=count {
        match (i < count && keep(i), start) {
            (true, None) => start = Some(i as u32),
            (false, Some(from)) => {
                intervals.push((Bound::Included(from), Bound::Excluded(i as u32)));
                start = None;
            }
            _ => {}
        }
    }
    let all = (Bound::Included(0), Bound::Excluded(count as u32));
    if count > 0 && intervals == [all] { Set::full() } else { intervals.into_iter().collect() }
}

/// Everything or nothing: a dependency on a fact that has one candidate.
pub(super) fn fact(holds: bool) -> Set {
    if holds { Set::full() } else { Set::empty() }
}

fn position<T: PartialEq>(list: &[T], item: &T) -> u32 {
    list.iter().position(|i| i == item).unwrap_or(0) as u32
}
