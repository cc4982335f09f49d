//! A channel's packages of torch, torchvision and torchaudio as builds that envlock's solver chooses among, like those of
//! PyPI.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::solve::{Records, unmet};
use crate::model::conda::name_of_spec;
use crate::model::platform::Platform;
use crate::model::project::{ProjectPage, RawFile};
use crate::model::source::CondaPackage;
use crate::model::timestamp::Timestamp;
use crate::model::variant::cuda_of_variant;
use crate::registry::conda_builds::{CondaBuildOf, PYTORCH, companion_of_conda, python_of, variant_of_build};
use crate::registry::conda_names::framework_of;
use crate::registry::{Build, COMPANIONS, Cited, Companion, Registry};

/// A build of torch for one Python: what a solve chooses, and what is left out where the channel cannot install it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackChoice {
    /// torch's version.
    pub version: Version,
    /// `cu129`, `cpu`.
    pub variant: String,
    /// The series of Python, 13 of 3.13.
    pub python: u32,
}

/// The builds of the stack in channels.
#[derive(Debug, Default)]
pub struct Stack {
    /// Builds of torch.
    pub builds: Vec<Cited<Build>>,
    /// Builds of torchvision and torchaudio.
    pub companions: Vec<Cited<Companion>>,
    /// The versions of builds for CUDA whose GPU code is not known.
    pub unknown: BTreeSet<Version>,
    /// By PyPI's name of the package: the version, the series of Python, the package.
    packages: Vec<(&'static str, Version, Option<u32>, CondaPackage)>,
}

impl Stack {
    /// The builds in some records. Those that are left out, and those that the specs of a request exclude, are not there.
    pub fn of(
        records: &Records,
        registry: &Registry,
        platform: Platform,
        left_out: &BTreeSet<StackChoice>,
        specs: &[&str],
    ) -> Stack {
        let mut out = Stack::default();
        let of_stack = |name: &str| name == PYTORCH || COMPANIONS.contains(&name);
        let admitted: Vec<(&str, BTreeSet<(String, String)>)> = specs
            .iter()
            .filter(|spec| of_stack(name_of_spec(spec)))
            .map(|spec| {
                let all = records.matching(spec).unwrap_or_default().into_iter();
                (name_of_spec(spec), all.map(|one| (one.channel, one.file)).collect())
            })
            .collect();
        // torch's library, and the metapackages that choose a build.
        let is_beside =
            |name: &str| !of_stack(name) && framework_of(name).is_some_and(|one| one.framework == "torch");
        let beside: Vec<Vec<CondaPackage>> = specs
            .iter()
            .filter(|spec| is_beside(name_of_spec(spec)))
            .map(|spec| records.matching(spec).unwrap_or_default())
            .collect();
        let goes_beside = |package: &CondaPackage| {
            let together = |own: &CondaPackage| unmet(&[package.clone(), own.clone()]).is_empty();
            package.name != PYTORCH || beside.iter().all(|all| all.is_empty() || all.iter().any(together))
        };
        let is_asked = |package: &CondaPackage| {
            let key = (package.channel.clone(), package.file.clone());
            goes_beside(package)
                && admitted.iter().all(|(name, files)| *name != package.name || files.contains(&key))
        };
        // By version and variant: builds of several recipes are one candidate, as good as the worst of them.
        let mut found: BTreeMap<(Version, String), Cited<Build>> = BTreeMap::new();
        for package in records.of(PYTORCH).into_iter().filter(|package| is_asked(package)) {
            let build = match registry.build_of_conda(&package, platform) {
                CondaBuildOf::Known(build) => *build,
                CondaBuildOf::UnknownCode => {
                    out.unknown.extend(package.version.parse::<Version>());
                    continue;
                }
                CondaBuildOf::Other => continue,
            };
            // Without its Python it cannot be said which wheels of PyPI fit it.
            let Some(python) = python_of(&package) else { continue };
            let choice =
                StackChoice { version: build.version.clone(), variant: build.variant.clone(), python };
            if left_out.contains(&choice) {
                continue;
            }
            out.packages.push(("torch", build.version.clone(), Some(python), package));
            match found.get_mut(&(choice.version.clone(), choice.variant.clone())) {
                Some(known) => join(known, &build),
                None => {
                    found.insert((choice.version, choice.variant), build);
                }
            }
        }
        out.builds = found.into_values().collect();
        for name in COMPANIONS {
            let mut rows: BTreeMap<(Version, String), Cited<Companion>> = BTreeMap::new();
            for package in records.of(name).into_iter().filter(|package| is_asked(package)) {
                let Some(row) = companion_of_conda(&package, platform) else { continue };
                let variant = row.variant.clone().unwrap_or_default();
                out.packages.push((name, row.version.clone(), python_of(&package), package));
                // Builds of one release for several releases of torch: conda's half decides.
                rows.entry((row.version.clone(), variant))
                    .and_modify(|known| {
                        known.torch = known.torch.take().filter(|own| Some(own) == row.torch.as_ref())
                    })
                    .or_insert(row);
            }
            out.companions.extend(rows.into_values());
        }
        out
    }

    /// The pages of the packages, as an index would have them: one wheel for each package and Python. The names of the files
    /// stand beside their versions.
    pub fn pages(
        &self,
    ) -> impl Iterator<Item = (&'static str, ProjectPage, BTreeMap<String, &Version>)> + '_ {
        std::iter::once("torch").chain(COMPANIONS).map(|name| {
            let own = self.packages.iter().filter(move |(of, ..)| *of == name);
            let mut files: BTreeMap<String, RawFile> = BTreeMap::new();
            let mut versions: BTreeMap<String, &Version> = BTreeMap::new();
            for (_, version, python, package) in own {
                let tag = python.map_or("py3".to_owned(), |minor| format!("cp3{minor}"));
                let filename = format!("{name}-{version}-{tag}-none-any.whl");
                let file = RawFile {
                    filename: filename.clone(),
                    sha256: Some(package.sha256.clone()),
                    size: Some(package.size),
                    // `exclude-newer` does not bound conda packages, which is said.
                    uploaded: Some(Timestamp::from_seconds(0)),
                    ..RawFile::default()
                };
                versions.insert(filename.clone(), version);
                files.insert(filename, file);
            }
            (name, ProjectPage::from_files(name, files.into_values()), versions)
        })
    }

    /// The part that is left of one choice.
    pub fn only(&self, choice: &StackChoice) -> (Vec<Cited<Build>>, Vec<Cited<Companion>>) {
        let of = |build: &&Cited<Build>| build.version == choice.version && build.variant == choice.variant;
        let mut builds: Vec<Cited<Build>> = self.builds.iter().filter(of).cloned().collect();
        builds.iter_mut().for_each(|build| build.pythons = Some(vec![choice.python]));
        let companions = self.companions.iter().filter(|row| row.variant.as_ref() == Some(&choice.variant));
        (builds, companions.cloned().collect())
    }
}

/// The match spec of a package of the stack: `pytorch ==2.9.1 *cuda129*`.
pub fn spec(package: &str, version: &Version, variant: &str) -> String {
    match cuda_of_variant(variant) {
        Some((major, minor)) => format!("{package} =={version} *cuda{major}{minor}*"),
        None => format!("{package} =={version} *cpu*"),
    }
}

/// Whether a build string is of a variant.
pub fn is_of_variant(build: &str, variant: &str) -> bool {
    variant_of_build(build).as_deref() == Some(variant)
}

/// Joins two builds of one version and variant.
fn join(known: &mut Build, other: &Build) {
    if let (Some(all), Some(more)) = (&mut known.pythons, &other.pythons) {
        all.extend(more);
        all.sort_unstable();
        all.dedup();
    }
    // What all of them have.
    if let (Some(targets), Some(others)) = (&mut known.targets, &other.targets) {
        targets.sass.retain(|target| others.sass.contains(target));
        targets.ptx.retain(|target| others.ptx.contains(target));
    }
    known.glibc = known.glibc.take().max(other.glibc.clone());
}
