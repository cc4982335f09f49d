//! What is known to fail together, of packages that are locked or installed: torch and what is built for it, by the rows of the
//! registry and by what versions say of the CUDA and the torch that they were built for.

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::VersionOrUrl;

use super::facts::{Facts, Need};
use super::findings::{self, Have, Incompatible};
use super::locked::WrittenBy;
use super::{Area, AreaKind};
use crate::compatibility::stated_cuda;
use crate::model::built_for::BuiltFor;
use crate::model::finding::Finding;
use crate::model::fix::Fix;
use crate::model::installed::{Distribution, Installed};
use crate::model::nvidia::{is_cudnn, is_nccl};
use crate::model::platform::Platform;
use crate::model::requirement::parse_requirement;
use crate::model::text::requirement_name;
use crate::model::variant::cuda_of_variant;
use crate::model::version::{DottedVersion, cuda_short, public};
use crate::registry::{CudaPart, Registry, SameCuda, SameRelease};

/// A package that is locked or installed.
struct Member<'f> {
    name: &'f str,
    version: &'f Version,
    /// The variant of its build, where it is known: `cu128`.
    variant: Option<&'f str>,
    /// Its requirements, where they are known: lines of METADATA or of the lock.
    requires: Vec<&'f str>,
}

impl Member<'_> {
    /// The CUDA that it was built for, by its variant or by its version; major and minor.
    fn cuda(&self) -> Option<(u64, u64)> {
        let by_variant = self.variant.and_then(cuda_of_variant);
        by_variant.or_else(|| stated_cuda(self.version).map(|cuda| (cuda.major, cuda.minor)))
    }

    /// Whether its requirement on a package is known.
    fn requires(&self, name: &str) -> bool {
        self.requires.iter().any(|line| requirement_name(line) == name)
    }
}

/// The packages of one environment.
struct Members<'f> {
    all: Vec<Member<'f>>,
    registry: &'f Registry,
    platform: Platform,
    have: Have,
    /// What is installed, if anything is: commands for it repair what was found.
    installed: Option<&'f Installed>,
}

/// What the packages are known to do to each other; `None`: nothing.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let members = Members::of(facts)?;
    let locks = || facts.packages.into_iter().chain(facts.stack);
    let is_overridden = |name: &str| locks().flat_map(|locked| &locked.overridden).any(|own| own == name);
    let mut found = members.requirements(facts.has(Need::Lock), &is_overridden);
    // An installed torch says itself what it requires.
    if members.installed.is_none() {
        found.extend(members.pins_of_torch(&is_overridden));
    }
    found.extend(members.advisories(facts));
    found.extend(facts.registry.same_cuda().iter().filter_map(|row| members.other_cuda(row)));
    found.extend(facts.registry.same_releases().iter().filter_map(|row| members.other_release(row)));
    found.extend(members.two_cudas());
    found.extend(members.other_cudnn());
    (!found.is_empty()).then(|| Area { findings: found, ..Area::of(AreaKind::Packages) })
}

/// The package whose releases a package is held against: torch, unless a row of the registry names another one.
fn paired_with<'r>(registry: &'r Registry, name: &str, version: &Version) -> &'r str {
    registry.pair(name, &public(version)).map_or("torch", |row| row.with.as_str())
}

/// Whether what an installed package requires of another one is judged here, beside a lock.
pub(super) fn is_judged(registry: &Registry, own: &Distribution, required: &str) -> bool {
    own.version.valid().is_some_and(|version| paired_with(registry, &own.name, version) == required)
}

/// The torch that a version names: `2.8.3+cu12torch2.9`.
fn torch_of_name(version: &Version) -> Option<VersionSpecifiers> {
    BuiltFor::of(version)?.requirement().strip_prefix("torch")?.parse().ok()
}

impl<'f> Members<'f> {
    /// What is installed; without an environment, what is locked.
    fn of(facts: &Facts<'f>) -> Option<Members<'f>> {
        let (registry, platform) = (facts.registry, facts.platform()?);
        if let Some(contents) = facts.contents {
            let installed = contents.installed;
            let own = installed.distributions.iter().filter_map(|own| {
                Some(Member {
                    name: &own.name,
                    version: own.version.valid()?,
                    variant: own.variant.as_deref(),
                    requires: own.requires.iter().map(String::as_str).collect(),
                })
            });
            let visible = installed.visible.iter().filter_map(|seen| {
                let version = seen.version.valid()?;
                Some(Member { name: &seen.name, version, variant: None, requires: Vec::new() })
            });
            let all = own.chain(visible).collect();
            return Some(Members {
                all,
                registry,
                platform,
                have: Have::Installed,
                installed: Some(installed),
            });
        }
        let locked = facts.packages?;
        let of_package = |package: &'f crate::model::solution::ChosenPackage| Member {
            name: &package.name,
            version: &package.version,
            variant: package.variant.as_deref(),
            requires: package.requires.iter().map(|edge| edge.requirement.as_str()).collect(),
        };
        let have = match locked.by {
            WrittenBy::Envlock => Have::Locked,
            WrittenBy::OtherTool => Have::LockedElsewhere,
        };
        let all = locked.target.packages.iter().map(of_package).collect();
        let platform = locked.target.platform;
        Some(Members { all, registry, platform, have, installed: None })
    }

    fn find(&self, name: &str) -> Option<&Member<'f>> {
        self.all.iter().find(|member| member.name == name)
    }

    /// The command that installs a requirement, or what to lock in its place.
    fn install(&self, requirement: &str) -> Fix {
        match (self.installed, self.have) {
            (Some(installed), _) => Fix::command(findings::install(installed, [requirement])),
            (None, Have::Locked) => Fix::command("envlock resolve"),
            (None, _) => Fix::advice(format!("lock `{requirement}`, or another release of one of the two")),
        }
    }

    /// What packages are known to require: by a row of the registry, or by the torch that a version names.
    fn requirements(&self, has_lock: bool, is_overridden: &dyn Fn(&str) -> bool) -> Vec<Finding> {
        let of = |member: &Member<'_>| {
            let with = paired_with(self.registry, member.name, member.version);
            // Without a lock, what METADATA says of it is judged with all other requirements. It does not say what a version names.
            let is_judged = self.installed.is_some() && !has_lock && member.requires(with);
            let by_row = || self.wanted(member, with).filter(|_| !is_judged);
            let wanted = torch_of_name(member.version).or_else(by_row)?;
            let other = self.find(with).filter(|_| !is_overridden(with))?;
            if wanted.contains(&public(other.version)) {
                return None;
            }
            let line = format!("{with}{}", wanted.to_string().replace(", ", ","));
            let by = format!("{} {}", member.name, member.version);
            let broken = [(by.as_str(), line.clone())];
            let found = findings::broken_requirement(
                &broken,
                (with, Some(other.version)),
                self.have,
                self.install(&line),
            );
            Some(Finding { r#where: Some(member.name.to_owned()), ..found })
        };
        self.all.iter().filter(|member| member.name != "torch").filter_map(of).collect()
    }

    /// The triton, NCCL, cuDNN and CUDA runtime that a build of torch requires, where a lock has others.
    fn pins_of_torch(&self, is_overridden: &dyn Fn(&str) -> bool) -> Vec<Finding> {
        let build = self.find("torch").and_then(|torch| {
            let build = self.registry.build(&public(torch.version), torch.variant?, self.platform)?;
            build.cuda.is_some().then_some((torch, build))
        });
        let Some((torch, build)) = build else { return Vec::new() };
        // A row may have fewer numbers than the package.
        let exactly = |version: &DottedVersion| format!("=={version}.*");
        let wanted = |name: &str| match name {
            "triton" => build.triton.clone(),
            _ if is_nccl(name) => build.nccl.as_ref().map(exactly),
            // Another major is said as that.
            _ if is_cudnn(name) => build.cudnn.as_ref().map(exactly),
            _ => None,
        };
        let runtime = |member: &Member<'_>| {
            let (own, cuda) =
                (self.registry.cuda_of_runtime(member.name, member.version)?, build.cuda.as_ref()?);
            // One of another name is beside torch's own: it names its CUDA major version where NVIDIA's package does.
            let with_major = format!("nvidia-cuda-runtime-cu{}", cuda.major);
            let is_torchs = match self.registry.cuda_of_runtime(&with_major, member.version) {
                Some(_) => member.name == with_major,
                None => own.major == cuda.major || member.name == "nvidia-cuda-runtime",
            };
            is_torchs.then(|| format!("=={}.*", cuda_short(cuda)))
        };
        let of = |member: &Member<'_>| {
            let text =
                wanted(member.name).or_else(|| runtime(member)).filter(|_| !is_overridden(member.name))?;
            let specifiers: VersionSpecifiers = text.parse().ok()?;
            let is_other_major = || {
                let major = build.cudnn.as_ref().map(|cudnn| u64::from(cudnn.major()));
                is_cudnn(member.name) && member.version.release().first().copied() != major
            };
            if specifiers.contains(member.version) || is_other_major() {
                return None;
            }
            let by = format!("torch {}", torch.version);
            let line = format!("{}{text}", member.name);
            let broken = [(by.as_str(), line.clone())];
            let found = findings::broken_requirement(
                &broken,
                (member.name, Some(member.version)),
                self.have,
                self.install(&line),
            );
            Some(Finding { r#where: Some("torch".to_owned()), ..found })
        };
        self.all.iter().filter_map(of).collect()
    }

    /// The releases of a package that another one is known to require: by the lock, else by a row of the registry.
    fn wanted(&self, member: &Member<'_>, with: &str) -> Option<VersionSpecifiers> {
        let version = public(member.version);
        let stated = member.requires.iter().filter(|line| requirement_name(line) == with);
        let mut stated = stated.filter_map(|line| match parse_requirement(line).ok()?.version_or_url? {
            VersionOrUrl::VersionSpecifier(specifiers) => Some(specifiers),
            VersionOrUrl::Url(_) => None,
        });
        let by_companion = || {
            let row = self.registry.companion(member.name, &version);
            row.filter(|row| row.platform == self.platform)?.torch.clone()
        };
        let by_pair = || Some(self.registry.pair(member.name, &version)?.requires.clone());
        stated.next().or_else(by_companion).or_else(by_pair)
    }

    /// What advisories exclude.
    fn advisories(&self, facts: &Facts<'_>) -> Vec<Finding> {
        let capabilities = || {
            let gpus = facts.machine.iter().flat_map(|machine| machine.gpus.iter().flatten());
            gpus.filter_map(|gpu| gpu.capability)
        };
        let mut found = Vec::new();
        let rows = self.registry.advisories().iter();
        for advisory in rows.filter(|row| row.applies_to(self.platform, capabilities())) {
            let Some(requirement) = advisory.effect.requirement() else { continue };
            let name: &str = requirement.name.as_ref();
            let own = self.find(&advisory.package);
            let applies = own.is_some_and(|own| advisory.versions.contains(own.version));
            let Some(VersionOrUrl::VersionSpecifier(specifiers)) = &requirement.version_or_url else {
                continue;
            };
            let have = self.find(name).map(|other| other.version);
            let is_unclear = || self.installed.is_some_and(|installed| installed.has_unclear_version(name));
            let fails = match have {
                Some(have) => !specifiers.contains(have),
                // A lock may leave to the environment what only a part needs: setuptools comes with many.
                None => advisory.needed && !is_unclear() && (self.installed.is_some() || !advisory.partial),
            };
            if applies && fails {
                let word = self.have.word();
                let found_is = have.map_or(format!("is not {word}"), |have| format!("{have} is {word}"));
                let text = format!("{}; {name} {found_is}", advisory.text);
                let fix = self.install(&requirement.to_string());
                let why =
                    if advisory.partial { Incompatible::InPart(text) } else { Incompatible::Known(text) };
                found.push(findings::known_incompatible(why, name, fix));
            }
        }
        found
    }

    /// A package beside another release of the package that it works with. `0.6.0` and `0.6.0.post1` are one release.
    fn other_release(&self, row: &SameRelease) -> Option<Finding> {
        let (own, other) = (self.find(&row.package)?, self.find(&row.r#as)?);
        let differs = own.version.release() != other.version.release();
        let text = format!(
            "{} {} and {} {} are of different releases: {}",
            row.package, own.version, row.r#as, other.version, row.effect
        );
        let fix = self.install(&format!("{}=={}", row.package, other.version));
        differs.then(|| findings::known_incompatible(Incompatible::Known(text), &row.package, fix))
    }

    /// A package that is built for another CUDA version than torch, and whose import raises for it.
    fn other_cuda(&self, row: &SameCuda) -> Option<Finding> {
        let (torch, other) = (self.find("torch")?, self.find(&row.package)?);
        let (own, its) = (torch.cuda()?, other.cuda()?);
        let differs = match row.part {
            CudaPart::Major => own.0 != its.0,
            CudaPart::Minor => own != its,
        };
        let text = format!(
            "{} {} is built for CUDA {}.{}, torch {} for CUDA {}.{}: importing {0} raises an error",
            row.package, other.version, its.0, its.1, torch.version, own.0, own.1
        );
        let verb = if self.installed.is_some() { "install" } else { "lock" };
        let fix =
            format!("{verb} torch and {} built for the same CUDA version, or leave {0} out", row.package);
        differs
            .then(|| findings::known_incompatible(Incompatible::Known(text), &row.package, Fix::advice(fix)))
    }

    /// A cuDNN of another major than the one that torch was built with: an override can replace it.
    fn other_cudnn(&self) -> Option<Finding> {
        let torch = self.find("torch")?;
        let build = self.registry.build(&public(torch.version), torch.variant?, self.platform)?;
        let wanted = build.cudnn.as_ref().filter(|_| build.cuda.is_some())?.major();
        let own = self.all.iter().find(|member| is_cudnn(member.name))?;
        let has = own.version.release().first().copied();
        let text = format!(
            "{} {} is {}, torch {} was built with cuDNN {wanted}",
            own.name,
            own.version,
            self.have.word(),
            torch.version
        );
        let fix = self.install(&format!("{}=={wanted}.*", own.name));
        let is_other = has != Some(u64::from(wanted));
        is_other.then(|| findings::known_incompatible(Incompatible::Known(text), own.name, fix))
    }

    /// Packages whose version says that they were built for another CUDA major than torch. Where a version names a torch too, the
    /// package uses torch's CUDA, and does not load.
    fn two_cudas(&self) -> Vec<Finding> {
        let Some((torch, own)) = self.find("torch").and_then(|torch| Some((torch, torch.cuda()?))) else {
            return Vec::new();
        };
        let has_row = |name: &str| self.registry.same_cuda().iter().any(|row| row.package == name);
        let others = self.all.iter().filter(|member| member.name != "torch" && !has_row(member.name));
        let of = |member: &Member<'_>| {
            let its = stated_cuda(member.version).filter(|its| its.major != own.0)?;
            let uses_torch = BuiltFor::of(member.version).is_some() || member.requires("torch");
            let (torch, own, cuda) = (torch.version, own.0, its.major);
            let fix = format!("take a build of {} for CUDA {own}, or of torch for CUDA {cuda}", member.name);
            let why = Incompatible::OtherCuda { version: member.version, cuda, torch, own, uses_torch };
            Some(findings::known_incompatible(why, member.name, Fix::advice(fix)))
        };
        others.filter_map(of).collect()
    }
}
