//! Queries on the registry's rows.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use pep440_rs::Version;
use semver::Version as Semver;

use super::conda_builds::OF_CHANNEL;
use super::rows::*;
use super::table::Row;
use super::{Cited, DriverCuda, Registry, embedded};
use crate::model::capability::{CodeTargets, ComputeCapability};
use crate::model::platform::{Os, Platform};
use crate::model::version::{DottedVersion, minor_line};
use crate::model::wheel::Python;

/// How far above the newest major version of the compute capability one may be that no row is about yet: NVIDIA leaves numbers
/// out (9, 10, 12).
const NEXT_MAJORS: u8 = 3;

impl Registry {
    /// Whether it has a row of a release of torch, torchvision or torchaudio on a platform.
    pub fn has_release(&self, package: &str, version: &Version, platform: Platform) -> bool {
        releases(self.builds(), self.companions(), package, platform).any(|known| known == version)
    }

    /// Whether all is known of what PyPI has of a release of torch, torchvision or torchaudio for a platform.
    pub fn has_release_of_pypi(&self, package: &str, version: &Version, platform: Platform) -> bool {
        // Companions that only a build of torch names are not: their own requirements are not known.
        if package != "torch" {
            let mut rows = self.companions().iter().filter(|row| row.package == package);
            return rows.any(|row| row.version == *version && row.platform == platform);
        }
        let mut builds =
            self.builds().iter().filter(|row| row.version == *version && row.platform == platform);
        builds.any(|row| row.on_pypi && (row.cuda.is_none() || row.targets.is_some()))
    }

    /// The oldest release of torch, torchvision or torchaudio from which on the registry is about a platform: an older one that was
    /// read from its wheel says nothing of those between.
    pub fn oldest_release(&self, package: &str, platform: Platform) -> Option<Version> {
        if self.has_stack_of_channels() {
            return releases(self.builds(), self.companions(), package, platform).min().cloned();
        }
        let tables = &self.parts.tables;
        releases(self.rows(&tables.builds), self.rows(&tables.companions), package, platform).min().cloned()
    }

    /// The releases of torch that its rows are about, on any platform; without those that were read from wheels.
    pub fn listed_releases(&self) -> impl Iterator<Item = &Version> {
        self.rows(&self.parts.tables.builds).iter().map(|build| &build.version)
    }

    /// The newest such release.
    pub fn newest_release(&self, package: &str, platform: Platform) -> Option<Version> {
        releases(self.builds(), self.companions(), package, platform).max().cloned()
    }

    /// The rows of a table; those of the program are read on first use.
    pub(super) fn rows<'r, R: Row>(&self, table: &'r OnceLock<Vec<Cited<R>>>) -> &'r [Cited<R>] {
        table.get_or_init(|| {
            let mut rows = embedded::rows();
            R::arrange(&mut rows);
            rows
        })
    }

    /// Format version and date.
    pub fn meta(&self) -> &Meta {
        self.parts.meta.get_or_init(|| {
            let schema: String = embedded::value("registry.toml", "schema").unwrap_or_default();
            let date: Option<String> = embedded::value("registry.toml", "date");
            Meta::new(&schema, date.as_deref(), self.sources()).expect("the registry was checked")
        })
    }

    /// Every torch build, oldest version first.
    pub fn builds(&self) -> &[Cited<Build>] {
        match &self.stack {
            Some(stack) => &stack.builds,
            None => self.rows(&self.parts.tables.builds),
        }
    }

    /// Packages that are released with torch.
    pub fn companions(&self) -> &[Cited<Companion>] {
        match &self.stack {
            Some(stack) => &stack.companions,
            None => self.rows(&self.parts.tables.companions),
        }
    }

    /// The builds of TensorFlow, JAX and similar frameworks, sorted by package and CUDA.
    pub fn frameworks(&self) -> &[Cited<FrameworkBuild>] {
        match &self.stack {
            Some(stack) if !stack.frameworks.is_empty() => &stack.frameworks,
            _ => self.rows(&self.parts.tables.frameworks),
        }
    }

    /// Container images, by repository and tag.
    pub fn images(&self) -> &[Cited<Image>] {
        self.rows(&self.parts.tables.images)
    }

    /// Tags that are mentioned in articles but never existed.
    pub fn nonexistent_images(&self) -> &[Cited<NonexistentImage>] {
        self.rows(&self.parts.tables.never)
    }

    /// GPUs by name.
    pub fn gpus(&self) -> &[Cited<GpuRow>] {
        self.rows(&self.parts.tables.gpus)
    }

    /// Minor-version compatibility by CUDA major.
    pub fn minor_version_compatibility(&self) -> &[Cited<MinorVersionCompatibility>] {
        self.rows(&self.parts.tables.minor_versions)
    }

    /// Toolkits with their drivers, oldest first.
    pub fn toolkits(&self) -> &[Cited<ToolkitDriver>] {
        self.rows(&self.parts.tables.toolkits)
    }

    /// The row of a package on PyPI that is the CUDA runtime.
    pub fn runtime_package(&self, package: &str) -> Option<&Cited<RuntimePackage>> {
        self.rows(&self.parts.tables.runtime_packages).iter().find(|row| row.package == package)
    }

    /// The CUDA version of a package on PyPI that is the CUDA runtime; `None` of others.
    pub fn cuda_of_runtime(&self, package: &str, version: &Version) -> Option<Semver> {
        match version.release() {
            // Stubs that reserve a name are 0.0.1.
            [major, minor, ..] if *major > 0 && self.runtime_package(package).is_some() => {
                Some(Semver::new(*major, *minor, 0))
            }
            _ => None,
        }
    }

    /// The compute capabilities that toolkits can compile for.
    pub fn toolkit_targets(&self) -> &[Cited<ToolkitTargets>] {
        self.rows(&self.parts.tables.toolkit_targets)
    }

    /// The last series of torch with builds for a compute capability, if newer ones have none. One whose builds have no code
    /// for it either is not its last.
    pub fn last_build(&self, capability: ComputeCapability) -> Option<&Cited<LastBuild>> {
        let runs = |row: &&Cited<LastBuild>| {
            let mut builds = self
                .builds()
                .iter()
                .filter(|build| build.variant == row.variant && series(&build.version) == row.torch);
            builds.any(|build| {
                let targets = build.targets.as_ref();
                targets.is_some_and(|own| own.covers(capability, |one| self.is_tegra(one)).is_some())
            })
        };
        let rows = self.rows(&self.parts.tables.last_builds).iter();
        let below = rows.filter(|row| capability < row.capability_below).filter(runs);
        below.min_by_key(|row| row.capability_below)
    }

    /// Whether a row says that the series of a release is the last with builds of a variant: it has one then.
    pub fn ends_with(&self, version: &Version, variant: &str) -> bool {
        let mut rows = self.rows(&self.parts.tables.last_builds).iter();
        rows.any(|row| row.variant == variant && row.torch == series(version))
    }

    /// Driver branches, oldest first.
    pub fn branches(&self) -> &[Cited<Branch>] {
        self.rows(&self.parts.tables.branches)
    }

    /// GPU architectures.
    pub fn architectures(&self) -> &[Cited<Architecture>] {
        self.rows(&self.parts.tables.architectures)
    }

    /// cuDNN releases.
    pub fn cudnn_releases(&self) -> &[Cited<CudnnRelease>] {
        self.rows(&self.parts.tables.cudnn_releases)
    }

    /// Python series (minor numbers) that a solve can choose, oldest first.
    pub fn pythons(&self) -> &[u32] {
        let rows = || self.rows(&self.parts.tables.pythons);
        self.parts.minors.get_or_init(|| rows().iter().map(|row| row.version.minor).collect())
    }

    /// Whether a Python series was released at least two years before the registry's date; also one of which that is not
    /// known.
    pub fn is_settled(&self, python: Python) -> bool {
        let rows = || self.rows(&self.parts.tables.pythons).iter();
        let settled = self.parts.settled.get_or_init(|| {
            let date = &self.meta().date;
            rows().filter(|row| row.is_settled_on(date)).map(|row| row.version.minor).collect()
        });
        settled.contains(&python.minor) || !rows().any(|row| row.version.minor == python.minor)
    }

    /// Advisories.
    pub fn advisories(&self) -> &[Cited<Advisory>] {
        self.rows(&self.parts.tables.advisories)
    }

    /// Changes of C interfaces.
    pub fn abi_breaks(&self) -> &[Cited<AbiBreak>] {
        self.rows(&self.parts.tables.abi_breaks)
    }

    /// Source texts by id.
    pub fn sources(&self) -> &BTreeMap<String, String> {
        self.parts.sources.get_or_init(|| embedded::value("sources.toml", "sources").unwrap_or_default())
    }

    /// The first source of a row, as text.
    pub fn source_text(&self, ids: &[String]) -> String {
        let text = |id: &String| match id == OF_CHANNEL {
            true => Some(id.clone()),
            false => self.sources().get(id).cloned(),
        };
        ids.first().and_then(text).unwrap_or_default()
    }

    /// The data on Tegra (Jetson).
    pub fn tegra(&self) -> &Cited<Tegra> {
        &self.rows(&self.parts.tables.tegra)[0]
    }

    /// How names that machines print differ from those of products.
    pub fn gpu_names(&self) -> Option<&Cited<GpuNames>> {
        self.rows(&self.parts.tables.gpu_names).first()
    }

    /// The libraries of others that wheels bring along.
    pub fn bundled_libraries(&self) -> &[Cited<BundledLibrary>] {
        self.rows(&self.parts.tables.bundled_libraries)
    }

    /// The labels of Kubernetes nodes by which clouds name GPUs.
    pub fn node_labels(&self) -> &[Cited<NodeLabel>] {
        self.rows(&self.parts.tables.node_labels)
    }

    /// The makers of GPUs that run no CUDA.
    pub(super) fn other_makers(&self) -> &[Cited<OtherMaker>] {
        self.rows(&self.parts.tables.other_makers)
    }

    /// Whether a capability is that of a Tegra (Jetson).
    pub fn is_tegra(&self, capability: ComputeCapability) -> bool {
        self.tegra().capabilities.contains(&capability)
    }

    /// Whether a cuda-compat release supports a kernel module: its row has the module's branch. `None` if it is newer than
    /// the rows.
    pub fn compat_supports(&self, compat: &DottedVersion, kernel: &DottedVersion) -> Option<bool> {
        let Some(DriverCuda { cuda, newer_branch }) = self.cuda_of_driver(compat) else { return Some(false) };
        let rows = self.forward_compatibility().iter();
        let mut rows =
            rows.filter(|row| (row.cuda.major, row.cuda.minor) == (cuda.major, cuda.minor)).peekable();
        let is_known = newer_branch.is_none() && rows.peek().is_some();
        is_known.then(|| rows.any(|row| row.bases.contains(&kernel.major())))
    }

    /// cuda-compat packages, oldest CUDA first.
    pub fn forward_compatibility(&self) -> &[Cited<ForwardCompatibility>] {
        self.rows(&self.parts.tables.forward)
    }

    /// The rules for log lines, those of codes among them, sorted by id.
    pub fn errors(&self) -> &[Cited<ErrorRule>] {
        self.parts.rules.get_or_init(|| {
            let families = self.rows(&self.parts.tables.codes).iter();
            let of_codes = families.flat_map(|family| {
                let rule =
                    |rule: &ErrorRule| Cited::new(rule.clone(), family.evidence, family.source.clone());
                family.rules.iter().map(rule).collect::<Vec<_>>()
            });
            let mut rules: Vec<Cited<ErrorRule>> =
                self.rows(&self.parts.tables.errors).iter().cloned().chain(of_codes).collect();
            rules.sort_by(|a, b| a.id.cmp(&b.id));
            rules
        })
    }

    /// The packages with their own GPU code.
    pub fn extensions(&self) -> &[Cited<Extension>] {
        self.rows(&self.parts.tables.extensions)
    }

    /// The package of Debian that brings a library of the system.
    pub fn debian_package_of(&self, library: &str) -> Option<&str> {
        let mut rows = self.rows(&self.parts.tables.system_libraries).iter();
        rows.find(|row| row.name == library).map(|row| row.debian.as_str())
    }

    /// The fixes of offers, by what the facts say.
    pub fn repairs(&self) -> &[Cited<Repair>] {
        self.rows(&self.parts.tables.repairs)
    }

    /// The words by which `diagnose` reads lines.
    pub fn words(&self, of: WordsOf) -> &[String] {
        let row = self.rows(&self.parts.tables.words).iter().find(|row| row.of == of);
        row.map_or(&[], |row| &row.words)
    }

    /// The words that indicate surroundings.
    pub fn surroundings(&self) -> &[Cited<SurroundingWords>] {
        self.rows(&self.parts.tables.surroundings)
    }

    /// The architecture of a compute capability.
    pub fn architecture(&self, capability: ComputeCapability) -> Option<&Cited<Architecture>> {
        self.architectures().iter().find(|a| a.capabilities.contains(&capability))
    }

    /// Whether GPUs of a compute capability may exist: an architecture, Tegra or product has it, it is newer than those of its
    /// major version, or no row is about that.
    pub fn may_exist(&self, capability: ComputeCapability) -> bool {
        let architectures = self.architectures().iter().flat_map(|row| &row.capabilities);
        let products = self.gpus().iter().map(|row| &row.capability);
        let known: Vec<_> = architectures.chain(&self.tegra().capabilities).chain(products).collect();
        let mut of_major = known.iter().filter(|own| own.major == capability.major).peekable();
        let newest = known.iter().map(|own| own.major).max().unwrap_or_default();
        match of_major.peek() {
            Some(_) => known.contains(&&capability) || of_major.all(|own| own.minor < capability.minor),
            None => capability.major <= newest + NEXT_MAJORS,
        }
    }

    /// The first driver branch that no longer supports a capability, if the last one is documented.
    pub fn driver_below(&self, capability: ComputeCapability) -> Option<DottedVersion> {
        let last = self.architecture(capability)?.last_branch?;
        let next = self
            .branches()
            .iter()
            .map(|b| b.branch)
            .filter(|b| *b > last)
            .min()
            .unwrap_or(last.saturating_add(1));
        next.to_string().parse().ok()
    }

    /// The newest CUDA that a driver supports natively.
    pub fn cuda_of_driver(&self, driver: &DottedVersion) -> Option<DriverCuda<'_>> {
        let branches = self.branches();
        let known = branches.iter().rev().find(|b| b.branch <= driver.major())?;
        let newest = branches.last().map(|newest| newest.branch);
        let newer_branch = Some(driver.major()).filter(|branch| Some(*branch) > newest);
        Some(DriverCuda { cuda: &known.cuda, newer_branch })
    }

    /// The drivers in cuda.toml for an operating system, oldest first.
    fn known_drivers(&self, os: Os) -> Vec<&DottedVersion> {
        let by_major = self.minor_version_compatibility().iter();
        let by_major = by_major.filter_map(|row| match os {
            Os::Windows => row.windows.as_ref(),
            _ => Some(&row.linux),
        });
        let toolkits = self.toolkits().iter();
        let toolkits = toolkits.filter_map(|row| match os {
            Os::Windows => row.windows.as_ref(),
            _ => row.linux.as_ref(),
        });
        let mut all: Vec<&DottedVersion> = by_major.chain(toolkits).collect();
        all.sort();
        all
    }

    /// The oldest release of a driver branch in cuda.toml: the meaning of a bare `535`. `None` if no release of the branch is
    /// known, and there is such a branch or it is newer than all.
    ///
    /// # Errors
    /// There is no such branch: the nearest known ones below and above.
    pub fn oldest_of_branch(&self, branch: u32, os: Os) -> Result<Option<DottedVersion>, Vec<u32>> {
        let known = self.known_drivers(os);
        if let Some(oldest) = known.iter().find(|driver| driver.major() == branch) {
            return Ok(Some((*oldest).clone()));
        }
        let branches = self.branches();
        if branches.iter().any(|row| row.branch == branch)
            || branches.last().is_some_and(|newest| newest.branch < branch)
        {
            return Ok(None);
        }
        let below = known.iter().rev().map(|driver| driver.major()).find(|known| *known < branch);
        let above = known.iter().map(|driver| driver.major()).find(|known| *known > branch);
        Err(below.into_iter().chain(above).collect())
    }

    /// The lowest compute capability that a cuDNN release supports, with its sources.
    pub fn cudnn_floor(&self, version: &DottedVersion) -> Option<&Cited<CudnnFloor>> {
        self.rows(&self.parts.tables.cudnn_floors)
            .iter()
            .filter(|f| &f.from <= version)
            .max_by(|a, b| a.from.cmp(&b.from))
    }

    /// The variant and device code of a companion's PyPI wheel.
    pub fn companion(&self, package: &str, version: &Version) -> Option<&Cited<Companion>> {
        self.companions().iter().find(|c| c.package == package && &c.version == version)
    }

    /// The build with an exact version, variant and platform.
    pub fn build(&self, version: &Version, variant: &str, platform: Platform) -> Option<&Cited<Build>> {
        self.builds().iter().find(|b| &b.version == version && b.variant == variant && b.platform == platform)
    }

    /// The build of a release of a framework other than torch.
    pub fn framework(
        &self,
        package: &str,
        version: &Version,
        platform: Platform,
    ) -> Option<&Cited<FrameworkBuild>> {
        self.frameworks().iter().find(|row| row.platform == platform && row.is_of(package, version))
    }

    /// The build of a release of a framework other than torch; of one that no row is about, the known ones that it may be like:
    /// the nearest older one, and the nearest newer one.
    pub fn frameworks_like(
        &self,
        package: &str,
        version: &Version,
        platform: Platform,
    ) -> Vec<&Cited<FrameworkBuild>> {
        if let Some(own) = self.framework(package, version, platform) {
            return vec![own];
        }
        let first = |row: &&Cited<FrameworkBuild>| row.versions.iter().map(|one| one.version().clone()).min();
        let of_package = self.frameworks().iter();
        let of_package = of_package.filter(|row| row.package == package && row.platform == platform);
        let (older, newer): (Vec<_>, Vec<_>) =
            of_package.partition(|row| first(row).is_some_and(|first| first < *version));
        older.into_iter().max_by_key(first).into_iter().chain(newer.into_iter().min_by_key(first)).collect()
    }

    /// Whether no row is about a release of a package that is a framework other than torch.
    pub fn is_unread_framework(&self, package: &str, version: &Version, platform: Platform) -> bool {
        self.framework(package, version, platform).is_none()
            && !self.frameworks_like(package, version, platform).is_empty()
    }

    /// Known device code of a package, for the lock.
    pub fn targets_of(
        &self,
        package: &str,
        version: &Version,
        variant: Option<&str>,
        platform: Platform,
    ) -> Option<(CodeTargets, crate::model::evidence::Evidence)> {
        if package == "torch" {
            let build = self.build(version, variant?, platform)?;
            Some((build.targets.clone()?, build.targets_evidence?))
        } else if let Some(row) = self.framework(package, version, platform) {
            Some((row.targets.clone(), row.targets_evidence))
        } else {
            let row = self.companion(package, version);
            let row = row.filter(|row| row.platform == platform && row.variant.as_deref() == variant);
            let of_wheel = row.and_then(|row| Some((row.targets.clone()?, row.evidence)));
            let of_source = || {
                let mut rows = self.rows(&self.parts.tables.source_code).iter();
                let row = rows.find(|row| row.package == package && row.versions.contains(version))?;
                Some((row.targets.clone(), row.evidence))
            };
            of_wheel.or_else(of_source)
        }
    }
}

/// The releases of torch, torchvision or torchaudio that rows are about, or name as built with a torch.
fn releases<'r>(
    builds: &'r [Cited<Build>],
    companions: &'r [Cited<Companion>],
    package: &'r str,
    platform: Platform,
) -> impl Iterator<Item = &'r Version> {
    let builds = builds.iter().filter(move |build| build.platform == platform);
    let builds = builds.filter_map(move |build| match package {
        "torch" => Some(&build.version),
        _ => build.companion(package),
    });
    let is_meant = move |row: &&Cited<Companion>| row.package == package && row.platform == platform;
    builds.chain(companions.iter().filter(is_meant).map(|row| &row.version))
}

/// The series of a release: `2.14` of 2.14.1.
fn series(version: &Version) -> String {
    minor_line(version).iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}
