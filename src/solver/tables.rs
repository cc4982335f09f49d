//! The numbered candidates of a problem, from the registry, the host and the request.
//!
//! Virtual facts (driver, GPU, libc) have exactly one candidate, so a dependency on one is either the full or the
//! empty set. The candidates of all other nodes are in ascending order.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use pep440_rs::{Version, VersionSpecifiers};

use crate::compatibility::{DriverFit, Needs, Policy};
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::request::Request;
use crate::model::version::DottedVersion;
use crate::model::wheel::Python;
use crate::registry::{Build, COMPANIONS, Cited, Companion, FrameworkBuild, Registry, STACK_PACKAGES};

pub(super) use super::set::Set;

/// The package that is taken from the same pytorch sub-index as the torch build.
pub(super) const TRITON_PACKAGE: &str = "triton";

pub(super) fn is_stack_package(name: &str) -> bool {
    STACK_PACKAGES.contains(&name)
}

/// One CUDA variant.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VariantRow {
    pub name: String,
    pub cuda: Option<semver::Version>,
}

/// One build of a stack package.
#[derive(Debug, Clone)]
pub(super) struct BuildRow<'a> {
    pub version: Version,
    /// The ordinal of the version among the package's versions.
    pub version_ordinal: u32,
    pub variant: u32,
    pub index: u32,
    pub on_pypi: bool,
    /// The ordinal of its cuDNN; 0 for none.
    pub cudnn: u32,
    /// The registry row; torch only.
    pub torch: Option<&'a Cited<Build>>,
    /// A companion's requirement on torch, as ordinals of torch versions.
    pub torch_set: Option<Set>,
    pub torch_requirement: Option<String>,
    pub targets: Option<CodeTargets>,
    /// The index of the targets in [`Tables::kinds`]; most builds share their list of targets.
    pub kind: usize,
    /// Bit `n` is set if Python 3.n has a wheel, by tags and Requires-Python.
    pub pythons: u64,
    pub source: Vec<String>,
}

impl BuildRow<'_> {
    /// The version on its index: the pytorch index has the variant as local version, PyPI does not.
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

/// The candidates that depend only on the registry and the platform. They are numbered once and shared by all
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

impl<'a> Tables<'a> {
    /// Numbers the registry's candidates for a platform.
    pub fn new(registry: &'a Registry, platform: Platform) -> Rc<Tables<'a>> {
        let rows: Vec<&Cited<Build>> =
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

    fn number_torch(&mut self, rows: &[&'a Cited<Build>]) {
        let mut table = StackTable::default();
        let mut pythons = PythonBits::default();
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
                pythons: pythons.of(row, rows),
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

    /// Adds a companion's builds: those on PyPI, and those released with the torch builds of the pytorch index.
    fn number_companion(
        &mut self,
        registry: &'a Registry,
        platform: Platform,
        name: &'static str,
        rows: &[&'a Cited<Build>],
    ) {
        // (version, variant, index) -> (requirement on torch, targets, sources)
        type Key = (Version, u32, u32);
        let mut found: BTreeMap<Key, (Option<VersionSpecifiers>, Option<CodeTargets>, Vec<String>)> =
            BTreeMap::new();
        let mut known: BTreeMap<&Version, &Cited<Companion>> = BTreeMap::new();
        for companion in registry.companions().iter().filter(|companion| companion.package == name) {
            known.entry(&companion.version).or_insert(companion);
        }
        for row in rows {
            let Some(version) = row.companion(name) else { continue };
            let companion = known.get(version).copied();
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
        // The builds of a release have the same bounds.
        let mut sets: HashMap<VersionSpecifiers, Set> = HashMap::new();
        for ((version, variant, index), (requirement, targets, source)) in found {
            let set = requirement.as_ref().map(|spec| match sets.get(spec) {
                Some(set) => set.clone(),
                None => {
                    let set = ordinals(torch.len(), |i| spec.contains(&torch[i]));
                    sets.insert(spec.clone(), set.clone());
                    set
                }
            });
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

/// The Python series of torch rows as bits. Most rows share their `Requires-Python` with many others.
#[derive(Default)]
struct PythonBits {
    allowed: HashMap<String, u64>,
}

impl PythonBits {
    fn of(&mut self, row: &Cited<Build>, all: &[&Cited<Build>]) -> u64 {
        // Builds of one version share their Requires-Python; a row without it takes it from another build.
        let sibling = || all.iter().find(|b| b.version == row.version && b.requires_python.is_some());
        let requires = row.requires_python.as_ref().or_else(|| sibling()?.requires_python.as_ref());
        let listed = row.pythons.as_ref().map_or(u64::MAX, |list| bits(|minor| list.contains(&minor)));
        let allowed = requires.map_or(u64::MAX, |requires| {
            let allows = |minor| crate::model::project::specifiers_allow(requires, Python::new(minor));
            *self.allowed.entry(requires.to_string()).or_insert_with(|| bits(allows))
        });
        listed & allowed
    }
}

/// Bit `n` is set if something holds for Python 3.n.
fn bits(holds: impl Fn(u32) -> bool) -> u64 {
    (0..64).filter(|minor| holds(*minor)).fold(0, |bits, minor| bits | 1 << minor)
}

/// The ordinals below `count` for which `keep` holds, as intervals; the full set if it holds for all.
pub(super) fn ordinals(count: usize, mut keep: impl FnMut(usize) -> bool) -> Set {
    let kept: Set = (0..count).filter(|i| keep(*i)).map(|i| i as u32).collect();
    if count > 0 && kept == Set::between(0, count as u32) { Set::full() } else { kept }
}

/// The full set if `holds`, otherwise the empty set: a dependency on a fact, which has one candidate.
pub(super) fn fact(holds: bool) -> Set {
    if holds { Set::full() } else { Set::empty() }
}

fn position<T: PartialEq>(list: &[T], item: &T) -> u32 {
    list.iter().position(|i| i == item).unwrap_or(0) as u32
}

/// A framework's registry row with its compatibility with the machine.
#[derive(Debug)]
pub(super) struct RuntimeRow<'a> {
    pub build: &'a Cited<FrameworkBuild>,
    pub flavour: DriverFit,
    /// How its code supports each GPU; `None` without code.
    pub coverage: Vec<Option<Via>>,
}

/// The framework rows for the host's platform.
pub(super) fn runtime_rows<'a>(
    registry: &'a Registry,
    host: &Host,
    request: &Request,
    gpus: &[ComputeCapability],
) -> Vec<RuntimeRow<'a>> {
    let platform = host.system.platform;
    let policy = Policy::of(request);
    let of_platform = registry.frameworks().iter().filter(|build| build.platform == platform);
    let mut fits: BTreeMap<&semver::Version, DriverFit> = BTreeMap::new();
    of_platform
        .map(|build| {
            let needs = Needs::of_framework(build);
            let fit = || DriverFit::of(registry, host, Some(&build.cuda), policy);
            RuntimeRow {
                build,
                flavour: *fits.entry(&build.cuda).or_insert_with(fit),
                coverage: gpus.iter().map(|c| needs.serves(registry, *c)).collect(),
            }
        })
        .collect()
}
