//! The rules by brute force: every combination of Python, torch build and companion builds is tried.

use envlock::model::capability::{CodeTarget, ComputeCapability, TargetScope};
use envlock::model::host::Host;
use envlock::model::platform::{Libc, Os};
use envlock::model::request::{PythonAllowed, Request};
use envlock::model::version::DottedVersion;
use envlock::registry::{Build, COMPANIONS, Registry};
use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;
use semver::Version as Semver;

/// The newest series of Python 3 that was released two years before the date of the shipped registry, 2026-11-21.
const SETTLED: u32 = 13;

/// A combination that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub torch: Version,
    pub variant: String,
    pub index: String,
    /// The Python series, as minor.
    pub python: u32,
    /// Companions that were asked for, in alphabetical order.
    pub companions: Vec<(String, Version)>,
    /// What is compared first to last; greater is better.
    rank: (Version, bool, bool, bool, Option<Semver>, (bool, i64), Vec<Version>),
}

/// One build of a companion: version, flavour, index, what it asks of torch, its code.
struct CompanionBuild {
    version: Version,
    variant: String,
    index: String,
    torch: Option<VersionSpecifiers>,
    targets: Option<(Vec<CodeTarget>, Vec<CodeTarget>)>,
}

/// The rules of one question, tried on every combination.
pub struct BruteForce<'a> {
    pub registry: &'a Registry,
    pub host: &'a Host,
    pub request: &'a Request,
}

/// The dots of a version as numbers, compared one by one: not the program's own comparison.
fn numbers(version: &DottedVersion) -> Vec<u64> {
    let mut list: Vec<u64> = version.as_str().split('.').map(|n| n.parse().unwrap()).collect();
    while list.last() == Some(&0) {
        list.pop();
    }
    list
}

fn at_least(have: &DottedVersion, need: &DottedVersion) -> bool {
    numbers(have) >= numbers(need)
}

impl BruteForce<'_> {
    /// All specifiers of the request on a package, bounds among them.
    fn specifiers<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s VersionSpecifiers> {
        let all = self.request.requirements.iter().chain(&self.request.constraints);
        all.filter(move |r| r.requirement.name.as_ref() as &str == name).filter_map(|r| {
            match &r.requirement.version_or_url {
                Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
                _ => None,
            }
        })
    }

    fn asks_for(&self, name: &str) -> bool {
        self.request.requirements.iter().any(|r| r.requirement.name.as_ref() as &str == name)
    }

    fn no_gpu(&self) -> bool {
        self.host.gpus.as_ref().is_some_and(Vec::is_empty)
    }

    fn capabilities(&self) -> Vec<ComputeCapability> {
        self.host.gpus.iter().flatten().filter_map(|g| g.capability).collect()
    }

    fn wants_cpu(&self) -> bool {
        self.no_gpu() || self.request.variant.as_ref().is_some_and(|v| v.value == "cpu")
    }

    /// The driver that came with a toolkit series.
    fn own_driver(&self, cuda: &Semver) -> Option<DottedVersion> {
        let series: Vec<_> = self
            .registry
            .toolkits()
            .iter()
            .filter(|t| t.version.major == cuda.major && t.version.minor == cuda.minor)
            .collect();
        let windows = self.host.system.platform.os == Os::Windows;
        let first = series.into_iter().min_by_key(|t| t.version.clone());
        let stated = first.and_then(|t| if windows { t.windows.clone() } else { t.linux.clone() });
        if stated.is_some() || cuda.major < 11 {
            return stated;
        }
        // A driver is native for every CUDA up to that of its branch.
        let newer = self
            .registry
            .branches()
            .iter()
            .filter(|branch| (branch.cuda.major, branch.cuda.minor) >= (cuda.major, cuda.minor));
        newer.map(|branch| branch.branch).min()?.to_string().parse().ok()
    }

    /// The lowest driver that a flavour needs under this request.
    fn floor(&self, cuda: &Semver) -> Option<DottedVersion> {
        let by_major =
            self.registry.minor_version_compatibility().iter().find(|r| r.cuda_major == cuda.major);
        match by_major {
            Some(row) if self.request.native_driver_only.is_none() => {
                let floor = match self.host.system.platform.os {
                    Os::Windows => row.windows.clone(),
                    _ => Some(row.linux.clone()),
                };
                floor.into_iter().chain(self.own_driver(cuda)).min()
            }
            _ => self.own_driver(cuda),
        }
    }

    /// Whether the driver runs the toolkit's PTX too; an open driver counts as new enough.
    pub fn native(&self, cuda: Option<&Semver>) -> bool {
        match (&self.host.driver, cuda) {
            (Some(driver), Some(cuda)) => {
                self.own_driver(cuda).is_some_and(|own| at_least(&driver.version, &own))
            }
            _ => true,
        }
    }

    pub fn driver_allows(&self, cuda: &Semver) -> bool {
        let branches = self.registry.architectures().iter();
        let of = |c: ComputeCapability| branches.clone().find(|a| a.capabilities.contains(&c));
        match &self.host.driver {
            None => self.capabilities().into_iter().all(|c| {
                // Some driver must be new enough for the flavour and not too new for the GPU.
                let last = of(c).and_then(|a| a.last_branch);
                match (self.floor(cuda), last) {
                    (Some(floor), Some(last)) => floor.major() <= last,
                    _ => true,
                }
            }),
            Some(_) if self.no_gpu() => true,
            Some(driver) => {
                let known = self.capabilities().into_iter().all(|c| {
                    of(c).and_then(|a| a.first_branch).is_none_or(|first| driver.version.major() >= first)
                });
                known && self.floor(cuda).is_some_and(|floor| at_least(&driver.version, &floor))
            }
        }
    }

    /// Whether code serves a GPU: machine code of its major from its minor up, `a` exactly, `f` its
    /// family, Tegra apart from the rest; PTX of anything not above it where the driver compiles it, for Tegra that of Tegra.
    pub fn serves(
        &self,
        sass: &[CodeTarget],
        ptx: &[CodeTarget],
        gpu: ComputeCapability,
        native: bool,
    ) -> bool {
        let kin = |t: &CodeTarget| self.registry.is_tegra(t.capability) == self.registry.is_tegra(gpu);
        let same_major = |t: &CodeTarget| t.capability.major == gpu.major && t.capability.minor <= gpu.minor;
        let by_sass = sass.iter().filter(|t| kin(t)).any(|t| match t.scope {
            TargetScope::Exact => t.capability == gpu,
            _ => same_major(t),
        });
        let is_tegra = |capability| self.registry.is_tegra(capability);
        let fits = |t: &&CodeTarget| !is_tegra(gpu) || is_tegra(t.capability);
        let by_ptx = ptx.iter().filter(fits).any(|t| match t.scope {
            TargetScope::Exact => t.capability == gpu,
            TargetScope::Family => same_major(t),
            TargetScope::Generation => t.capability <= gpu,
        });
        by_sass || (by_ptx && native)
    }

    fn index_allowed(&self, index: &str) -> bool {
        let Some(only) = &self.request.only_index else { return true };
        only.value.names().any(|name| name == index || index.split('/').next() == Some(name))
    }

    /// Whether machine and request leave a torch build; Python apart.
    fn torch_allowed(&self, build: &Build) -> bool {
        let r = self.request;
        let limits = r.variant.as_ref().is_none_or(|l| l.value == build.variant)
            && r.cuda.as_ref().is_none_or(|l| build.cuda.as_ref().is_some_and(|c| l.value.contains(c)))
            && r.cudnn.as_ref().is_none_or(|l| build.cudnn.as_ref().is_some_and(|v| l.value.contains(v)))
            && r.nccl.as_ref().is_none_or(|l| build.nccl.as_ref().is_some_and(|v| l.value.contains(v)));
        let glibc = match (&build.glibc, &self.host.system.libc) {
            (Some(need), Some(Libc::Glibc(have))) => at_least(have, need),
            _ => true,
        };
        let hardware = match &build.cuda {
            None => self.wants_cpu() || (self.capabilities().is_empty() && self.host.driver.is_none()),
            Some(cuda) => {
                let native = self.native(Some(cuda));
                self.driver_allows(cuda)
                    && self.capabilities().into_iter().all(|gpu| {
                        build.targets.as_ref().is_some_and(|t| self.serves(&t.sass, &t.ptx, gpu, native))
                    })
            }
        };
        let cudnn = build.cudnn.as_ref().is_none_or(|version| {
            let Some(floor) = self.registry.cudnn_floor(version) else { return true };
            self.capabilities().into_iter().all(|c| c >= floor.min)
        });
        build.platform == self.host.system.platform
            && build.yanked.is_none()
            && self.index_allowed(&build.index())
            && self.specifiers("torch").all(|s| s.contains(&build.version))
            && limits
            && glibc
            && hardware
            && cudnn
    }

    /// The series for which a torch build has a wheel; `Requires-Python` is shared by a version's builds.
    fn pythons(&self, build: &Build) -> Vec<u32> {
        let siblings = self.registry.builds().iter();
        let requires = build.requires_python.as_ref().or_else(|| {
            siblings
                .filter(|b| b.version == build.version && b.platform == build.platform)
                .find_map(|b| b.requires_python.as_ref())
        });
        let series_allowed = |specifiers: &VersionSpecifiers, minor: u32| {
            [0u64, 99].iter().any(|patch| specifiers.contains(&Version::new([3, u64::from(minor), *patch])))
        };
        let asked = |minor: u32| match self.request.python.as_ref().map(|p| &p.allowed) {
            None => true,
            Some(PythonAllowed::Exact(python)) => python.minor == minor,
            Some(PythonAllowed::Range(range)) => series_allowed(range, minor),
        };
        let known = self.registry.pythons().iter().copied();
        known
            .filter(|minor| build.pythons.as_ref().is_none_or(|list| list.contains(minor)))
            .filter(|minor| requires.is_none_or(|r| series_allowed(r, *minor)))
            .filter(|minor| asked(*minor))
            .collect()
    }

    /// Every build of a companion: what PyPI carries by its own row, and what stands beside torch builds.
    fn companion_builds(&self, name: &str) -> Vec<CompanionBuild> {
        let platform = self.host.system.platform;
        let rows = || self.registry.companions().iter().filter(|c| c.package == name);
        let mut out: Vec<CompanionBuild> = Vec::new();
        for row in rows().filter(|c| c.platform == platform && c.yanked.is_none()) {
            let Some(variant) = row.variant.clone() else { continue };
            out.push(CompanionBuild {
                version: row.version.clone(),
                variant,
                index: "pypi".to_owned(),
                torch: row.torch.clone(),
                targets: row.targets.clone().map(|t| (t.sass, t.ptx)),
            });
        }
        let builds = self.registry.builds().iter();
        for build in builds.filter(|b| b.platform == platform && b.yanked.is_none()) {
            let Some(version) = build.companion(name) else { continue };
            let row = rows().find(|c| c.version == *version);
            let there = out
                .iter()
                .any(|c| (&c.version, &c.variant, &c.index) == (version, &build.variant, &build.index()));
            if there || row.is_some_and(|c| c.yanked.is_some()) {
                continue;
            }
            let torch = match row {
                Some(row) => row.torch.clone(),
                None => Some(format!("=={}", build.version).parse().unwrap()),
            };
            out.push(CompanionBuild {
                version: version.clone(),
                variant: build.variant.clone(),
                index: build.index(),
                torch,
                targets: None,
            });
        }
        out
    }

    /// The newest release of a companion that goes with a torch build.
    fn companion_for(&self, name: &str, torch: &Build) -> Option<Version> {
        let native = self.native(torch.cuda.as_ref());
        self.companion_builds(name)
            .into_iter()
            .filter(|c| c.variant == torch.variant && c.index == torch.index())
            .filter(|c| c.torch.as_ref().is_none_or(|s| s.contains(&torch.version)))
            .filter(|c| self.specifiers(name).all(|s| s.contains(&c.version)))
            .filter(|c| {
                let code = c.targets.as_ref().filter(|_| torch.cuda.is_some());
                code.is_none_or(|(sass, ptx)| {
                    self.capabilities().into_iter().all(|gpu| self.serves(sass, ptx, gpu, native))
                })
            })
            .map(|c| c.version)
            .max()
    }

    /// Every combination that runs, each with the newest companions.
    pub fn choices(&self) -> Vec<Choice> {
        let mut out = Vec::new();
        for build in self.registry.builds() {
            if !self.torch_allowed(build) {
                continue;
            }
            let asked: Vec<&str> = COMPANIONS.into_iter().filter(|name| self.asks_for(name)).collect();
            let companions: Option<Vec<(String, Version)>> = asked
                .iter()
                .map(|name| Some(((*name).to_owned(), self.companion_for(name, build)?)))
                .collect();
            let Some(companions) = companions else { continue };
            for python in self.pythons(build) {
                let rank = (
                    build.version.clone(),
                    build.cuda.is_none() == self.wants_cpu(),
                    build.on_pypi,
                    self.native(build.cuda.as_ref()),
                    build.cuda.clone(),
                    // A newer one is for what needs it, the oldest first.
                    if python <= SETTLED { (true, i64::from(python)) } else { (false, -i64::from(python)) },
                    companions.iter().map(|c| c.1.clone()).collect(),
                );
                out.push(Choice {
                    torch: build.version.clone(),
                    variant: build.variant.clone(),
                    index: build.index(),
                    python,
                    companions: companions.clone(),
                    rank,
                });
            }
        }
        out
    }

    /// The best of them: newest torch; the machine's kind of build, PyPI's, native, newest CUDA; newest
    /// Python; newest companions.
    pub fn best(&self) -> Option<Choice> {
        self.choices().into_iter().max_by(|a, b| a.rank.cmp(&b.rank))
    }
}
