//! Builds of torch that may exist although no row has them: what the data does not know is no "no".

use std::fmt;

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};
use version_ranges::Ranges;

use super::code::UnknownGpu;
use super::variant::ImpossibleVariant;
use super::{Needs, Policy, Violation};
use crate::model::host::Host;
use crate::model::platform::Platform;
use crate::model::project::specifiers_allow;
use crate::model::request::{Limit, Request};
use crate::model::variant::{CPU, Variant};
use crate::model::version::{DottedRange, DottedVersion};
use crate::model::wheel::Python;
use crate::registry::{Build, Cited, Registry};

/// What no row says of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Whether it exists.
    Build,
    /// Whether it exists: all known builds of the release are for the CPU.
    CudaBuild,
    /// For which GPUs it has code, or which driver its CUDA needs.
    Needs,
    /// Whether a release that is newer than all known ones runs.
    Newer,
    /// Whether it runs: it is older than all that the registry is about.
    Older,
    /// Whether its code runs on a GPU of a compute capability that no row is about.
    Gpu,
}

/// A build of torch that the request may mean and of which too little is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadBuild {
    /// What is not known.
    pub what: Unread,
    /// The release, if the request pins one.
    pub version: Option<Version>,
    /// The bounds of the request on its releases instead: `>=2.99`; empty if there are none.
    pub bounds: String,
    /// The CUDA variant, if the request pins one.
    pub variant: Option<String>,
    /// The limit on its CUDA, if the request has one instead.
    pub cuda: Option<String>,
    /// For which platform.
    pub platform: Platform,
    /// Of known builds, the newest whose GPU code nobody read, as `registry learn` takes it: `2.9.1+cu126`.
    pub newest: Option<Version>,
    /// Of a release that is older than all known ones, the oldest of those.
    pub known_from: Option<Version>,
}

impl UnreadBuild {
    /// A known build whose GPU code nobody read.
    pub(super) fn of(build: &Build) -> UnreadBuild {
        UnreadBuild {
            what: Unread::Needs,
            version: Some(build.version.clone()),
            bounds: String::new(),
            variant: Some(build.variant.clone()),
            cuda: None,
            platform: build.platform,
            newest: Some(build.version_on_index()),
            known_from: None,
        }
    }

    /// The commands that read it, as a hint.
    pub fn how_to_read(&self) -> String {
        let platform = match self.platform {
            Platform::LINUX_X86_64 => String::new(),
            other => format!(" --platform {other}"),
        };
        if self.what == Unread::Newer {
            return "`envlock resolve` reads what its indexes have".to_owned();
        }
        if let (Some(oldest), None) = (&self.known_from, &self.version) {
            return format!(
                "`envlock resolve` reads what its indexes have, and `torch>={oldest}` asks for one that is known"
            );
        }
        // No wheel says which driver its CUDA needs.
        if self.what == Unread::Gpu || self.what == Unread::Needs && self.newest.is_none() {
            return "`envlock registry update` looks for newer data".to_owned();
        }
        if let Some(newest) = &self.newest {
            let index = if newest.is_local() { "the pytorch index" } else { "PyPI" };
            return format!("`envlock registry learn torch=={newest}{platform}` reads the build of {index}");
        }
        match (&self.version, &self.variant) {
            (Some(version), Some(variant)) => format!(
                "`envlock registry learn torch=={version}+{variant}{platform}` reads the build of the pytorch index"
            ),
            (Some(version), None) => {
                format!("`envlock registry learn torch=={version}{platform}` reads the release of PyPI")
            }
            (None, _) => "`envlock resolve` reads what its indexes have".to_owned(),
        }
    }
}

/// `the registry has no row of torch 2.9.0 cu129 for linux-x86_64, which may exist`.
impl fmt::Display for UnreadBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Unread::Newer, Some(newest)) = (self.what, &self.version) {
            let platform = self.platform;
            return write!(
                f,
                "a torch newer than {newest}, the newest in the registry for {platform}, may run"
            );
        }
        if let Some(oldest) = &self.known_from {
            write!(f, "the registry begins with torch {oldest}, and older releases may run: ")?;
        }
        f.write_str(match self.what {
            Unread::Older => "torch",
            Unread::Build | Unread::Newer => "the registry has no row of torch",
            Unread::CudaBuild => "the registry has no row of a CUDA build of torch",
            Unread::Gpu => "nothing is known of a GPU of this machine, on which it may run: torch",
            Unread::Needs => "the registry does not say which GPUs and drivers these builds run on: torch",
        })?;
        match &self.version {
            Some(version) => write!(f, " {version}")?,
            None => f.write_str(&self.bounds)?,
        }
        if let Some(variant) = &self.variant {
            write!(f, " {variant}")?;
        }
        if let Some(cuda) = &self.cuda {
            write!(f, " with CUDA {cuda}")?;
        }
        write!(f, " for {}", self.platform)?;
        f.write_str(match self.what {
            Unread::Needs | Unread::Gpu | Unread::Older => "",
            Unread::Build | Unread::CudaBuild | Unread::Newer => ", which may exist",
        })
    }
}

/// The build that a refused request may mean, if a row of it could change the answer, where no index was asked: a known one of
/// which facts are missing, or one that no row has.
pub fn unread_build(registry: &Registry, host: &Host, request: &Request) -> Option<UnreadBuild> {
    let lacking = Asked::new(registry, host, request, false)?.lacking();
    lacking.or_else(|| unread_release(registry, host, request, false))
}

/// The build that a refused request may mean and that no row has.
///
/// PyPI's files of a release are read where they matter, so only two kinds are open then (`has_read_index`): a release that neither
/// a row nor PyPI's page has, and a variant of the pytorch index that no row of the release has.
pub fn unread_release(
    registry: &Registry,
    host: &Host,
    request: &Request,
    has_read_index: bool,
) -> Option<UnreadBuild> {
    let asked = Asked::new(registry, host, request, has_read_index)?;
    asked.newer().or_else(|| asked.absent())
}

/// What a request asks of torch, on a machine.
struct Asked<'a> {
    registry: &'a Registry,
    host: &'a Host,
    request: &'a Request,
    /// Whether PyPI's page was read.
    has_read_index: bool,
    bounds: VersionSpecifiers,
    /// The release, if the bounds pin one.
    pinned: Option<Version>,
    /// The releases that the bounds admit.
    releases: Ranges<Version>,
    /// The variant, if an option or a local version pins one.
    variant: Option<String>,
    pythons: Vec<Python>,
}

/// How a build fares on the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fares {
    Runs,
    NotKnown,
    Not,
}

impl<'a> Asked<'a> {
    /// `None` if torch is not asked for, or nothing that could exist is asked for.
    fn new(
        registry: &'a Registry,
        host: &'a Host,
        request: &'a Request,
        has_read_index: bool,
    ) -> Option<Asked<'a>> {
        let bounds = request.bounds_on("torch")?;
        if registry.has_stack_of_channels() {
            return None;
        }
        let pin = bounds.iter().find(|one| {
            matches!(one.operator(), Operator::Equal | Operator::ExactEqual)
                && bounds.iter().all(|other| other.contains(one.version()))
        });
        let pin = pin.map(|pin| pin.version().clone());
        let releases = releases_of(&bounds);
        // Bounds that exclude each other admit no release, whatever there is.
        (!releases.is_empty()).then(|| Asked {
            registry,
            host,
            request,
            has_read_index,
            bounds,
            pinned: pin.map(Version::without_local),
            releases,
            // `2.9.0+cu129` pins both.
            variant: request.pinned_variant("torch"),
            pythons: request.pythons(registry.pythons()),
        })
    }

    fn platform(&self) -> Platform {
        self.host.system.platform
    }

    fn admits(&self, index: &str) -> bool {
        self.request.only_index.as_ref().is_none_or(|only| only.value.admits(index))
    }

    /// The known builds of the releases that are asked for.
    fn of_release(&self) -> impl DoubleEndedIterator<Item = &'a Cited<Build>> {
        let is_admitted = |version: &Version| match &self.pinned {
            Some(pinned) => version == pinned,
            None => self.bounds.contains(version),
        };
        let platform = self.platform();
        self.registry.builds().iter().filter(move |b| b.platform == platform && is_admitted(&b.version))
    }

    /// Whether a build of such a release is within the other limits of the request.
    fn is_meant(&self, build: &Build) -> bool {
        let cuda = self.request.cuda.as_ref().map(|limit| &limit.value);
        self.variant.as_ref().is_none_or(|variant| build.variant == *variant)
            && (build.on_pypi && self.admits("pypi") || build.on_pytorch_index && self.admits("pytorch"))
            && cuda.is_none_or(|range| build.cuda.as_ref().is_some_and(|cuda| range.contains(cuda)))
    }

    fn fits_python(&self, build: &Build) -> bool {
        fits_one(build, &self.pythons)
    }

    fn fares(&self, build: &Cited<Build>) -> Fares {
        let found = Needs::of_torch(build).violations(self.registry, self.host, Policy::of(self.request));
        match found.iter().all(Violation::is_unknown) {
            _ if found.is_empty() => Fares::Runs,
            true => Fares::NotKnown,
            false => Fares::Not,
        }
    }

    fn told(&self, what: Unread) -> UnreadBuild {
        let has_bounds = self.pinned.is_none() && !self.bounds.is_empty();
        let cuda = self.request.cuda.as_ref().filter(|_| self.variant.is_none());
        UnreadBuild {
            what,
            version: self.pinned.clone(),
            bounds: if has_bounds { self.bounds.to_string() } else { String::new() },
            variant: self.variant.clone(),
            cuda: cuda.map(|limit| limit.value.to_string()),
            platform: self.platform(),
            newest: None,
            known_from: None,
        }
    }

    /// A known build of which facts are missing.
    fn lacking(&self) -> Option<UnreadBuild> {
        let has_unknown_gpu = UnknownGpu::of(self.registry, self.host).is_some();
        // What its code is does not matter for a Python that it has no wheel for.
        let meant = || self.of_release().filter(|build| self.is_meant(build) && self.fits_python(build));
        let build = meant().rfind(|build| self.fares(build) == Fares::NotKnown)?;
        // Where one runs, something else stands against the request.
        if meant().any(|build| self.fares(build) == Fares::Runs) {
            return None;
        }
        let what = if has_unknown_gpu { Unread::Gpu } else { Unread::Needs };
        let newest = build.targets.is_none().then(|| build.version_on_index());
        Some(UnreadBuild { newest, ..self.told(what) })
    }

    /// A release that is newer than all known ones: it may be for newer Pythons and with newer libraries, but not for older drivers
    /// or GPUs.
    fn newer(&self) -> Option<UnreadBuild> {
        let newest = self.registry.newest_release("torch", self.platform())?;
        let of_newest = || self.of_release().filter(|build| build.version == newest);
        let is_open = !self.has_read_index
            && self.pinned.is_none()
            && !self.releases.is_disjoint(&Ranges::strictly_higher_than(newest.clone()));
        let known_python = of_newest().flat_map(|build| build.pythons.iter().flatten()).max()?;
        let is_for_newer_python = self.pythons.iter().any(|python| python.minor > *known_python);
        let is_with_newer = is_for_newer_python || self.needs_newer_library();
        let is_of_index = |build: &Build| {
            build.on_pypi && self.admits("pypi") || build.on_pytorch_index && self.admits("pytorch")
        };
        let is_of_variant = |build: &Build| self.variant.as_ref().is_none_or(|own| build.variant == *own);
        let mut would_run = of_newest().filter(|build| is_of_index(build) && is_of_variant(build));
        (is_open && is_with_newer && would_run.any(|build| self.fares(build) == Fares::Runs))
            .then(|| UnreadBuild { version: Some(newest.clone()), ..self.told(Unread::Newer) })
    }

    /// Whether the limits on CUDA, cuDNN and NCCL admit no release that a known build has, and one that is newer than those.
    fn needs_newer_library(&self) -> bool {
        let is_beyond = |limit: &Option<Limit<DottedRange>>, own: fn(&Build) -> Option<&DottedVersion>| {
            let known = || self.of_release().filter_map(|build| own(build));
            limit.as_ref().is_some_and(|limit| {
                let admits_known = known().any(|version| limit.value.contains(version));
                !admits_known && known().max().is_none_or(|newest| limit.value.admits_above(newest))
            })
        };
        let no_build = || !self.of_release().any(|build| self.is_meant(build));
        is_beyond(&self.request.cudnn, |build| build.cudnn.as_ref())
            || is_beyond(&self.request.nccl, |build| build.nccl.as_ref())
            || no_build() && could_run_newer(self.registry, self.host, self.request)
    }

    /// A build that no row has.
    fn absent(&self) -> Option<UnreadBuild> {
        let (registry, host) = (self.registry, self.host);
        let has_release = self.of_release().next().is_some();
        // Other builds of a release are for the same Pythons.
        if has_release && !self.of_release().any(|build| self.fits_python(build)) {
            return None;
        }
        let admits_pytorch = self.admits("pytorch");
        // A release of which no row is PyPI's. What was read of it is a row.
        let has_pypi =
            |release: &Version| self.of_release().any(|build| build.version == *release && build.on_pypi);
        let lacks_pypi = !self.has_read_index
            && self.admits("pypi")
            && self.of_release().any(|build| !has_pypi(&build.version));
        let oldest = registry.oldest_release("torch", self.platform());
        let known_from =
            oldest.filter(|oldest| self.releases.is_disjoint(&Ranges::higher_than(oldest.clone())));
        let is_older = known_from.is_some();
        let may_exist = match (has_release, &self.variant) {
            // The page of PyPI says nothing of the builds on the pytorch index.
            (false, _) => !self.has_read_index || admits_pytorch,
            (true, Some(variant)) => {
                admits_pytorch && !self.of_release().any(|build| build.variant == *variant) || lacks_pypi
            }
            // Rows of one index alone: the other may have more.
            (true, None) if lacks_pypi => true,
            (true, None) => {
                // One that PyPI has too says nothing of the others there, which matter where it does not run.
                let runs = |build: &Cited<Build>| self.fares(build) == Fares::Runs;
                let with_cuda = || self.of_release().filter(|build| build.variant != CPU);
                let is_of_pytorch = |build: &Cited<Build>| build.on_pytorch_index && !build.on_pypi;
                let is_of_one_release = self.pinned.is_some()
                    && (with_cuda().all(|build| !build.on_pytorch_index || build.on_pypi && !runs(build))
                        || self.of_release().all(is_of_pytorch));
                // Rows without CUDA do not prove that there is none.
                !self.has_read_index && admits_pytorch && (is_of_one_release || with_cuda().next().is_none())
            }
        };
        // No known build is for the CUDA that is asked for, and another variant may be.
        let for_cuda = self.request.cuda.is_some()
            && self.variant.is_none()
            && admits_pytorch
            && !self.of_release().any(|build| self.is_meant(build))
            && (could_run_newer(registry, host, self.request)
                || self.pinned.is_some() && could_run_other(registry, host, self.request));
        let is_of_cpu = |build: &Cited<Build>| build.variant == CPU;
        let has_cpu_builds = self.variant.is_none() && has_release && self.of_release().all(is_of_cpu);
        let what = match has_cpu_builds {
            _ if is_older => Unread::Older,
            true => Unread::CudaBuild,
            false => Unread::Build,
        };
        let could_run = || {
            let impossible = |variant| ImpossibleVariant::of(registry, host, variant);
            self.variant.as_deref().and_then(impossible).is_none()
        };
        (for_cuda || may_exist && could_run()).then(|| UnreadBuild { known_from, ..self.told(what) })
    }
}

/// The releases that bounds admit. `==2.9.1+cu126` is one of release 2.9.1.
fn releases_of(bounds: &VersionSpecifiers) -> Ranges<Version> {
    let plain = |one: &VersionSpecifier| match one.operator() {
        Operator::Equal if one.version().is_local() => {
            VersionSpecifier::equals_version(one.version().clone().without_local())
        }
        _ => one.clone(),
    };
    Ranges::from(bounds.iter().map(plain).collect::<VersionSpecifiers>())
}

/// Whether a build has a wheel for one of these Pythons, as far as its row says.
fn fits_one(build: &Build, pythons: &[Python]) -> bool {
    let fits = |python: &&Python| {
        build.pythons.as_ref().is_none_or(|minors| minors.contains(&python.minor))
            && build.requires_python.as_ref().is_none_or(|range| specifiers_allow(range, **python))
    };
    pythons.iter().any(|python| fits(&python))
}

/// Whether the limit on CUDA admits one that is newer than that of every known build, and that the machine could run: later
/// releases may be built with it. Those between the known ones have no builds.
fn could_run_newer(registry: &Registry, host: &Host, request: &Request) -> bool {
    let Some(limit) = &request.cuda else { return false };
    let platform = host.system.platform;
    let of_builds = registry.builds().iter().filter(|build| build.platform == platform);
    let Some(newest) = of_builds.filter_map(|build| build.cuda.as_ref()).max() else { return true };
    let next = (1..=9).map(|step| semver::Version::new(newest.major, newest.minor + step, 0));
    let mut next = next.chain([semver::Version::new(newest.major + 1, 0, 0)]);
    next.any(|cuda| {
        let variant = Variant::Cuda(cuda.major, cuda.minor).to_string();
        limit.value.contains(&cuda) && ImpossibleVariant::of(registry, host, &variant).is_none()
    })
}

/// Whether the limit on CUDA admits a variant of another release that the machine could run.
fn could_run_other(registry: &Registry, host: &Host, request: &Request) -> bool {
    let Some(limit) = &request.cuda else { return false };
    let of_platform = registry.builds().iter().filter(|build| build.platform == host.system.platform);
    let mut within =
        of_platform.filter(|build| build.cuda.as_ref().is_some_and(|cuda| limit.value.contains(cuda)));
    within.any(|build| ImpossibleVariant::of(registry, host, &build.variant).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::host::Driver;
    use crate::model::request::{Limit, Origin, PythonRequest, UserRequirement};

    fn machine(gpu: &str, driver: &str, platform: Platform) -> Host {
        let mut host = Host::open(platform, "t");
        host.driver =
            Some(Driver { version: driver.parse().unwrap(), cuda: None, compat: None, found_by: "t".into() });
        host.gpus = Some(vec![crate::model::host::Gpu {
            index: 0,
            name: None,
            capability: Some(gpu.parse().unwrap()),
            memory_mib: None,
            uuid: None,
            pci_id: None,
            found_by: "t".into(),
        }]);
        host
    }

    #[test]
    fn what_no_row_says_is_open_unless_cuda_decides() {
        use Unread::{Build, Needs, Newer, Older};
        let registry = crate::registry::frozen();
        let arm: Platform = "linux-aarch64".parse().unwrap();
        let x86 = Platform::LINUX_X86_64;
        for (torch, variant, gpu, driver, platform, expected) in [
            // A variant, a release and a nightly that no row has.
            ("torch==2.9.0", Some("cu129"), "9.0", "550.163.01", x86, Some(Build)),
            ("torch==2.9.0+cu129", None, "9.0", "550.163.01", x86, Some(Build)),
            ("torch==2.99.0", None, "9.0", "580.65.06", x86, Some(Build)),
            ("torch==2.6.0.dev20241112", Some("cu124"), "9.0", "550.54.15", x86, Some(Build)),
            // The release is for newer Pythons, whatever its builds are.
            ("torch==2.9.0 --python 3.8", Some("cu129"), "9.0", "550.163.01", x86, None),
            // The driver is below the floor of CUDA 12, and CUDA 13 does not compile for Volta.
            ("torch==2.9.0", Some("cu129"), "8.0", "470.57.02", x86, None),
            ("torch==2.99.0", Some("cu130"), "7.0", "580.65.06", x86, None),
            // A row has it.
            ("torch==2.9.1", Some("cu128"), "9.0", "580.65.06", x86, None),
            // A newer release may be for a newer Python, but not for an older machine.
            ("torch>=2.14 --python 3.18", None, "9.0", "580.65.06", x86, Some(Newer)),
            ("torch --python 3.18", None, "9.0", "580.65.06", x86, Some(Newer)),
            ("torch>=2.14 --python 3.7", None, "9.0", "580.65.06", x86, None),
            ("torch>=2.14,<2.15 --python 3.18", None, "9.0", "580.65.06", x86, None),
            ("torch>=2.14 --python 3.18", None, "3.7", "470.57.02", x86, None),
            // Two pins of one build.
            ("torch==2.99.0 --also torch==2.99.0+cu130", None, "9.0", "580.65.06", x86, Some(Build)),
            // Nobody read for which GPUs these builds have code; none has code for Orin.
            ("torch==2.9.1", None, "9.0", "580.65.06", arm, Some(Needs)),
            ("torch==2.9.1", Some("cu126"), "8.7", "580.65.06", arm, None),
        ] {
            let (torch, also) = torch.split_once(" --also ").map_or((torch, None), |(a, b)| (a, Some(b)));
            let (torch, python) = torch.split_once(" --python ").unwrap_or((torch, ">=3.8"));
            let request = Request {
                requirements: [Some(torch), also]
                    .into_iter()
                    .flatten()
                    .map(|line| UserRequirement::parse(line, Origin::Question).unwrap())
                    .collect(),
                python: Some(PythonRequest::parse(python, Origin::Question).unwrap()),
                variant: variant.map(|v| Limit { value: v.to_owned(), origin: Origin::Question }),
                ..Request::default()
            };
            let host = machine(gpu, driver, platform);
            let found = unread_build(&registry, &host, &request);
            let shown = format!("{torch} {variant:?} on {gpu}, {driver}, {platform}: {found:?}");
            assert_eq!(found.map(|build| build.what), expected, "{shown}");
        }
        // Bounds that exclude each other admit no release that may exist.
        let request = Request {
            requirements: vec![UserRequirement::parse("torch>=2.99,<2.98", Origin::Question).unwrap()],
            ..Request::default()
        };
        assert_eq!(unread_build(&registry, &machine("9.0", "580.65.06", x86), &request), None);
        // What PyPI does not have may be on the pytorch index.
        for (torch, only, expected) in [
            ("torch==2.99.0", None, Some(Build)),
            ("torch>=2.99", None, Some(Build)),
            ("torch==2.99.0", Some("pypi"), None),
            ("torch<1.8", None, Some(Older)),
            // Where PyPI was read, its builds are known.
            ("torch>=2.9", None, None),
        ] {
            let request = Request {
                requirements: vec![UserRequirement::parse(torch, Origin::Question).unwrap()],
                only_index: only.map(|only| Limit { value: only.parse().unwrap(), origin: Origin::Question }),
                ..Request::default()
            };
            let found = unread_release(&registry, &machine("9.0", "580.65.06", x86), &request, true);
            assert_eq!(found.map(|build| build.what), expected, "{torch} {only:?}");
        }
    }
}
