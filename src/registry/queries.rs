//! Queries on the registry's rows.

use std::collections::BTreeMap;

use pep440_rs::Version;
use semver::Version as Semver;
use serde::de::DeserializeOwned;

use super::conda_builds::{OF_CHANNEL, PYTORCH};
use super::rows::*;
use super::schema;
use super::{DriverCuda, Registry};
use crate::model::capability::{CodeTargets, ComputeCapability};
use crate::model::metadata::CoreMetadata;
use crate::model::platform::{Os, Platform};
use crate::model::text::requirement_name;
use crate::model::version::DottedVersion;

/// Names of projects, the most downloaded first.
const POPULAR: &str = include_str!("../../registry/popular.txt");

impl Registry {
    /// Whether it has a row of a release of torch, torchvision or torchaudio on a platform.
    pub fn has_release(&self, package: &str, version: &Version, platform: Platform) -> bool {
        self.releases(package, platform).any(|known| known == version)
    }

    /// The oldest release of torch, torchvision or torchaudio in the registry on a platform.
    pub fn oldest_release(&self, package: &str, platform: Platform) -> Option<Version> {
        self.releases(package, platform).min().cloned()
    }

    /// The newest such release.
    pub fn newest_release(&self, package: &str, platform: Platform) -> Option<Version> {
        self.releases(package, platform).max().cloned()
    }

    fn releases<'a>(&'a self, package: &'a str, platform: Platform) -> impl Iterator<Item = &'a Version> {
        let builds = self.builds().iter().filter(move |build| build.platform == platform);
        let builds = builds.filter_map(move |build| match package {
            "torch" => Some(&build.version),
            _ => build.companion(package),
        });
        let rows = self.companions().iter();
        let rows = rows.filter(move |row| row.package == package && row.platform == platform);
        builds.chain(rows.map(|row| &row.version))
    }

    /// The files whose path starts with `prefix`.
    pub(super) fn texts<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a super::RegistryFile> {
        self.parts.files.iter().filter(move |f| f.path.starts_with(prefix))
    }

    /// The rows of checked files. Embedded data is checked by a test, external data by `from_files`.
    fn rows<F: DeserializeOwned, T>(&self, prefix: &str, rows: impl Fn(F) -> Vec<T>) -> Vec<T> {
        let parse = |text: &str| toml::from_str::<F>(text).expect("the registry was checked");
        self.texts(prefix).flat_map(|file| rows(parse(&file.text))).collect()
    }

    pub(super) fn file<F: DeserializeOwned>(&self, path: &str) -> Option<F> {
        self.texts(path).next().map(|f| toml::from_str(&f.text).expect("the registry was checked"))
    }

    /// Format version and date.
    pub fn meta(&self) -> &Meta {
        self.parts.meta.get_or_init(|| self.file("registry.toml").expect("the registry was checked"))
    }

    /// Every torch build, oldest version first.
    pub fn builds(&self) -> &[Build] {
        if let Some(stack) = &self.stack {
            return &stack.builds;
        }
        self.parts.builds.get_or_init(|| {
            let mut builds: Vec<Build> = self.rows("torch/", |f: schema::TorchFile| f.build);
            sort_builds(&mut builds);
            builds
        })
    }

    /// Packages that are released with torch.
    pub fn companions(&self) -> &[Companion] {
        if let Some(stack) = &self.stack {
            return &stack.companions;
        }
        self.parts.companions.get_or_init(|| {
            let mut rows: Vec<Companion> =
                self.rows("companions.toml", |f: schema::CompanionsFile| f.companion);
            sort_companions(&mut rows);
            rows
        })
    }

    /// The builds of TensorFlow, JAX and similar frameworks, sorted by package and CUDA.
    pub fn frameworks(&self) -> &[FrameworkBuild] {
        self.parts.frameworks.get_or_init(|| {
            let mut rows: Vec<FrameworkBuild> = self.rows("frameworks/", |f: schema::FrameworkFile| f.build);
            rows.sort_by_key(|r| {
                (
                    r.package.clone(),
                    r.cuda.clone(),
                    r.cudnn.clone(),
                    r.versions.to_string(),
                    r.platform.to_string(),
                )
            });
            rows
        })
    }

    fn container_rows(&self) -> &ContainerRows {
        self.parts.containers.get_or_init(|| {
            let file: Option<schema::ContainersFile> = self.file("containers.toml");
            let (images, never) = file.map_or_else(Default::default, |file| (file.image, file.never));
            ContainerRows {
                images: sorted(images, |r: &Image| (r.repository.clone(), r.tag.clone())),
                never: sorted(never, |r: &NonexistentImage| (r.repository.clone(), r.tag.clone())),
            }
        })
    }

    /// Container images, by repository and tag.
    pub fn images(&self) -> &[Image] {
        &self.container_rows().images
    }

    /// Tags that are mentioned in articles but never existed.
    pub fn nonexistent_images(&self) -> &[NonexistentImage] {
        &self.container_rows().never
    }

    fn cuda(&self) -> &CudaRows {
        self.parts.cuda.get_or_init(|| {
            let file: schema::CudaFile = self.file("cuda.toml").expect("the registry was checked");
            CudaRows {
                compatibility: sorted(file.minor_version_compatibility, |r: &MinorVersionCompatibility| {
                    r.cuda_major
                }),
                last_builds: sorted(file.last_build, |r: &LastBuild| r.capability_below),
                runtime_packages: sorted(file.runtime_package, |r: &RuntimePackage| r.package.clone()),
                toolkits: sorted(file.toolkit, |r: &ToolkitDriver| r.version.clone()),
                targets: sorted(file.targets, |r: &ToolkitTargets| r.cuda.clone()),
            }
        })
    }

    fn drivers(&self) -> &DriverRows {
        self.parts.drivers.get_or_init(|| {
            let file: schema::DriversFile = self.file("drivers.toml").expect("the registry was checked");
            DriverRows {
                branches: sorted(file.branch, |r: &Branch| r.branch),
                architectures: sorted(file.architecture, |r: &Architecture| r.capabilities.clone()),
                forward: sorted(file.forward_compatibility, |r: &ForwardCompatibility| r.cuda.clone()),
            }
        })
    }

    fn cudnn(&self) -> &CudnnRows {
        self.parts.cudnn.get_or_init(|| {
            let file: schema::CudnnFile = self.file("cudnn.toml").expect("the registry was checked");
            CudnnRows {
                floors: sorted(file.floor, |r: &CudnnFloor| r.from.clone()),
                releases: sorted(file.release, |r: &CudnnRelease| r.version.clone()),
            }
        })
    }

    /// GPUs by name.
    pub fn gpus(&self) -> &[GpuRow] {
        self.parts.gpus.get_or_init(|| self.rows("gpus.toml", |f: schema::GpusFile| f.gpu))
    }

    /// Minor-version compatibility by CUDA major.
    pub fn minor_version_compatibility(&self) -> &[MinorVersionCompatibility] {
        &self.cuda().compatibility
    }

    /// Toolkits with their drivers, oldest first.
    pub fn toolkits(&self) -> &[ToolkitDriver] {
        &self.cuda().toolkits
    }

    /// The row of a package on PyPI that is the CUDA runtime.
    pub fn runtime_package(&self, package: &str) -> Option<&RuntimePackage> {
        self.cuda().runtime_packages.iter().find(|row| row.package == package)
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
    pub fn toolkit_targets(&self) -> &[ToolkitTargets] {
        &self.cuda().targets
    }

    /// The last series of torch with builds for a compute capability, if newer ones have none.
    pub fn last_build(&self, capability: ComputeCapability) -> Option<&LastBuild> {
        let rows = self.cuda().last_builds.iter().filter(|row| capability < row.capability_below);
        rows.min_by_key(|row| row.capability_below)
    }

    /// Driver branches, oldest first.
    pub fn branches(&self) -> &[Branch] {
        &self.drivers().branches
    }

    /// GPU architectures.
    pub fn architectures(&self) -> &[Architecture] {
        &self.drivers().architectures
    }

    /// cuDNN releases.
    pub fn cudnn_releases(&self) -> &[CudnnRelease] {
        &self.cudnn().releases
    }

    /// Python series (minor numbers) that a solve can choose, oldest first.
    pub fn pythons(&self) -> &[u32] {
        self.parts.pythons.get_or_init(|| {
            let rows = self.rows("python.toml", |f: schema::PythonsFile| f.python);
            let mut minors: Vec<u32> = rows.iter().map(|row| row.version.minor).collect();
            minors.sort_unstable();
            minors
        })
    }

    /// Advisories.
    pub fn advisories(&self) -> &[Advisory] {
        self.parts.advisories.get_or_init(|| self.rows("advisories/", |f: schema::AdvisoriesFile| f.advisory))
    }

    /// Changes of C interfaces.
    pub fn abi_breaks(&self) -> &[AbiBreak] {
        self.parts
            .abi_breaks
            .get_or_init(|| self.rows("advisories/", |f: schema::AdvisoriesFile| f.abi_break))
    }

    /// Source texts by id.
    pub fn sources(&self) -> &BTreeMap<String, String> {
        self.parts.sources.get_or_init(|| {
            let file: schema::SourcesFile = self.file("sources.toml").expect("the registry was checked");
            file.sources
        })
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
    pub fn tegra(&self) -> &Tegra {
        &self.gpus_head().tegra
    }

    /// How names that machines print differ from those of products.
    pub fn gpu_names(&self) -> Option<&GpuNames> {
        self.gpus_head().names.as_ref()
    }

    fn gpus_head(&self) -> &schema::GpusFile {
        self.parts.gpus_head.get_or_init(|| {
            // These tables are at the top of gpus.toml, before the rows: do not parse the rest of the file.
            let text = self.texts("gpus.toml").next().map_or("", |f| &f.text);
            let head = text.find("[[gpu]]").map_or(text, |end| &text[..end]);
            toml::from_str(head).expect("the registry was checked")
        })
    }

    /// Whether a capability is that of a Tegra (Jetson).
    pub fn is_tegra(&self, capability: ComputeCapability) -> bool {
        self.tegra().capabilities.contains(&capability)
    }

    /// The lowest driver that runs machine code built with a toolkit, and its sources: the minor-version compatibility
    /// floor of the major, or the toolkit's own driver if there is none or it is older (CUDA 11.0 came before the floor).
    pub fn driver_floor(&self, cuda: &Semver, os: Os) -> Option<(DottedVersion, &[String])> {
        let by_major = self.minor_version_compatibility().iter().find(|row| row.cuda_major == cuda.major);
        let by_major = by_major.and_then(|row| {
            let driver = if os == Os::Windows { row.windows.clone() } else { Some(row.linux.clone()) };
            Some((driver?, row.source.as_slice()))
        });
        match (by_major, self.native_driver(cuda, os)) {
            (Some(floor), Some(own)) => Some(if own.0 < floor.0 { own } else { floor }),
            (floor, own) => floor.or(own),
        }
    }

    /// The first driver of a toolkit series (`12.8`), the lowest that also runs its PTX, and its sources. Where no row states
    /// one for the system, the first branch whose own CUDA is as new: a driver is native for every CUDA up to its own.
    pub fn native_driver(&self, cuda: &Semver, os: Os) -> Option<(DottedVersion, &[String])> {
        let series = |version: &Semver| (version.major, version.minor);
        let toolkits = self.toolkits().iter().filter(|t| series(&t.version) == series(cuda));
        let stated = toolkits.min_by(|a, b| a.version.cmp(&b.version)).and_then(|t| {
            let driver = if os == Os::Windows { &t.windows } else { &t.linux };
            driver.clone().map(|v| (v, t.source.as_slice()))
        });
        let of_branch = || {
            let first = self.branches().iter().find(|branch| series(&branch.cuda) >= series(cuda))?;
            // Before CUDA 11 toolkits and branches were not released together.
            (cuda.major >= 11).then_some(())?;
            Some((first.branch.to_string().parse().ok()?, first.source.as_slice()))
        };
        stated.or_else(of_branch)
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
    pub fn forward_compatibility(&self) -> &[ForwardCompatibility] {
        &self.drivers().forward
    }

    fn packages(&self) -> &PackageRows {
        self.parts.packages.get_or_init(|| {
            let Some(file) = self.file::<schema::PackagesFile>("packages.toml") else {
                return PackageRows::default();
            };
            PackageRows {
                sources: sorted(file.source_package, |r: &SourcePackage| r.package.clone()),
                modules: sorted(file.build_module, |r: &BuildModule| r.module.clone()),
                backports: sorted(file.backport, |r: &Backport| r.package.clone()),
                removed: sorted(file.removed, |r: &Removed| r.name.clone()),
                python_limits: sorted(file.python_limit, |r: &PythonLimit| r.package.clone()),
                undeclared: sorted(file.undeclared, |r: &Undeclared| r.package.clone()),
                conda: sorted(file.conda, |r: &CondaName| r.name.clone()),
                prebuilt: file.prebuilt,
                cxx11_abi: file.cxx11_abi,
            }
        })
    }

    /// What is known of building a release, beyond its archive.
    pub fn source_package(&self, package: &str, version: &Version) -> Option<&SourcePackage> {
        self.packages().sources.iter().find(|row| row.is_about(package, version))
    }

    /// What a package of conda-forge is on PyPI, if that is not what [`super::conda_names`] says.
    pub fn conda_name(&self, name: &str) -> Option<&CondaName> {
        self.packages().conda.iter().find(|row| row.name == name)
    }

    /// What a build requires that imports a module.
    pub fn build_module(&self, module: &str) -> Option<&BuildModule> {
        self.packages().modules.iter().find(|row| row.module == module)
    }

    /// Whether a project of PyPI is one of those that are downloaded most (`registry/popular.txt`).
    pub fn is_popular(&self, name: &str) -> bool {
        POPULAR.lines().any(|line| line == name)
    }

    /// The package whose name is nearest to one that no index has, if it differs by a slip of the fingers: of the registry, or of
    /// the projects that are downloaded most (`registry/popular.txt`).
    pub fn nearest_package(&self, name: &str) -> Option<String> {
        let sources = self.packages().sources.iter().map(|row| row.package.as_str());
        let stack = super::STACK_PACKAGES.into_iter();
        let companions = self.companions().iter().map(|row| row.package.as_str());
        let frameworks = self.frameworks().iter().map(|row| row.package.as_str());
        let names = stack.chain(companions).chain(frameworks).chain(sources);
        let popular = POPULAR.lines().filter(|line| !line.starts_with('#'));
        // Short names differ by one or two letters from many.
        let most = if name.len() < 8 { 1 } else { 2 };
        let is_near_in_length = |known: &&str| known.len().abs_diff(name.len()) <= most;
        let near = names.chain(popular).filter(is_near_in_length);
        let near = near.map(|known| (strsim::damerau_levenshtein(known, name), known));
        // Of equals the first: what is downloaded most.
        let (distance, nearest) = near.min_by_key(|(distance, _)| *distance)?;
        (distance > 0 && distance <= most && name.len() >= 5).then(|| nearest.to_owned())
    }

    /// The limit on Python that a release should have stated.
    pub fn python_limit(&self, package: &str, version: &Version) -> Option<&PythonLimit> {
        let mut rows = self.packages().python_limits.iter().filter(|row| row.package == package);
        rows.find(|row| row.versions.contains(version))
    }

    /// What a release needs and its metadata does not require.
    pub fn undeclared(&self, package: &str, version: &Version) -> Vec<String> {
        let rows = self.packages().undeclared.iter().filter(|row| row.package == package);
        let of_release = rows
            .filter(|row| row.versions.contains(version))
            .map(|row| row.requires.replace("{version}", &version.to_string()));
        let advisories = self.advisories().iter().filter(|row| row.needed && row.package == package);
        let of_advisories = advisories
            .filter(|row| row.versions.contains(version))
            .filter_map(|row| row.effect.requirement())
            .map(ToString::to_string);
        of_advisories.chain(of_release).collect()
    }

    /// The frameworks without which a source distribution cannot be built, and which it does not require.
    pub fn undeclared_frameworks(&self, metadata: &CoreMetadata) -> Vec<String> {
        let Some(facts) = &metadata.source else { return Vec::new() };
        let row = self.source_package(metadata.name.as_ref(), &metadata.version);
        let needs = row.and_then(|row| row.build_needs.as_ref()).unwrap_or(&facts.needs);
        let is_declared = |name: &str| metadata.lines().any(|line| requirement_name(line) == name);
        needs.iter().filter(|name| facts.certainly_imports(name) && !is_declared(name)).cloned().collect()
    }

    /// The backport that a package is, if it is one.
    pub fn backport(&self, package: &str) -> Option<&Backport> {
        self.packages().backports.iter().find(|row| row.package == package)
    }

    /// The wheels that a project publishes for a release, outside the index.
    pub fn prebuilt(&self, package: &str, version: &Version) -> Option<&Prebuilt> {
        self.packages().prebuilt.iter().find(|row| row.package == package && row.versions.contains(version))
    }

    /// Whether a build of torch uses the C++11 ABI; `None` if unknown. With the builds of channels, one of conda-forge.
    pub fn cxx11_abi(&self, torch: &Version, variant: &str, platform: Platform) -> Option<bool> {
        if self.has_stack_of_channels() {
            return self.cxx11_abi_of_conda(PYTORCH, torch);
        }
        let is_meant = |row: &&Cxx11Abi| {
            row.torch.contains(torch)
                && row.platform.is_none_or(|of| of == platform)
                && (row.variants.is_empty() || row.variants.iter().any(|name| name == variant))
        };
        self.packages().cxx11_abi.iter().find(is_meant).map(|row| row.cxx11_abi)
    }

    /// What the standard library lost that a dotted name needs.
    pub fn removed(&self, name: &str) -> Option<&Removed> {
        self.packages().removed.iter().find(|row| row.has(name))
    }

    fn error_rows(&self) -> &ErrorRows {
        self.parts.errors.get_or_init(|| {
            let file: schema::ErrorsFile = self.file("errors.toml").expect("the registry was checked");
            let more = self.rows("errors/", |file: schema::ErrorRulesFile| {
                let of_codes = file.codes.into_iter().flat_map(|family| family.rules);
                file.error.into_iter().chain(of_codes).collect()
            });
            let mut rules = file.error;
            rules.extend(more);
            rules.sort_by(|a, b| a.id.cmp(&b.id));
            ErrorRows { rules, surroundings: sorted(file.surroundings, |r: &SurroundingWords| r.surrounding) }
        })
    }

    /// The rules for log lines, sorted by id.
    pub fn errors(&self) -> &[ErrorRule] {
        &self.error_rows().rules
    }

    /// The words that indicate surroundings.
    pub fn surroundings(&self) -> &[SurroundingWords] {
        &self.error_rows().surroundings
    }

    /// The architecture of a compute capability.
    pub fn architecture(&self, capability: ComputeCapability) -> Option<&Architecture> {
        self.architectures().iter().find(|a| a.capabilities.contains(&capability))
    }

    /// Whether any architecture, Tegra or product has a compute capability.
    pub fn knows_capability(&self, capability: ComputeCapability) -> bool {
        self.architecture(capability).is_some()
            || self.is_tegra(capability)
            || self.gpus().iter().any(|g| g.capability == capability)
    }

    /// The first driver branch that no longer supports a capability, if the last one is documented.
    pub fn driver_below(&self, capability: ComputeCapability) -> Option<DottedVersion> {
        let last = self.architecture(capability)?.last_branch?;
        let next = self.branches().iter().map(|b| b.branch).filter(|b| *b > last).min().unwrap_or(last + 1);
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

    /// A driver that reports this CUDA version: the first driver of the toolkit series.
    pub fn driver_of_cuda(&self, cuda: &Semver) -> Option<DottedVersion> {
        self.native_driver(cuda, Os::Linux).map(|(v, _)| v).or_else(|| {
            self.branches()
                .iter()
                .find(|b| (b.cuda.major, b.cuda.minor) == (cuda.major, cuda.minor))
                .and_then(|b| b.branch.to_string().parse().ok())
        })
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
    pub fn cudnn_floor(&self, version: &DottedVersion) -> Option<&CudnnFloor> {
        self.cudnn().floors.iter().filter(|f| &f.from <= version).max_by(|a, b| a.from.cmp(&b.from))
    }

    /// The variant and device code of a companion's PyPI wheel.
    pub fn companion(&self, package: &str, version: &Version) -> Option<&Companion> {
        self.companions().iter().find(|c| c.package == package && &c.version == version)
    }

    /// The build with an exact version, variant and platform.
    pub fn build(&self, version: &Version, variant: &str, platform: Platform) -> Option<&Build> {
        self.builds().iter().find(|b| &b.version == version && b.variant == variant && b.platform == platform)
    }

    /// The build of a release of a framework other than torch.
    pub fn framework(&self, package: &str, version: &Version, platform: Platform) -> Option<&FrameworkBuild> {
        self.frameworks().iter().find(|row| row.platform == platform && row.is_of(package, version))
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
            Some((row.targets.clone()?, row.targets_evidence?))
        } else {
            let row = self.companion(package, version)?;
            (row.platform == platform && row.variant.as_deref() == variant)
                .then(|| row.targets.clone().map(|t| (t, row.evidence)))
                .flatten()
        }
    }
}

/// The rows sorted by a key.
pub(super) fn sorted<T, K: Ord>(mut rows: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    rows.sort_by_key(key);
    rows
}
