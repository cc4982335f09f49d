//! conda-forge's pytorch and torchvision as builds that the solver chooses among, like those of PyPI: which GPUs their code
//! runs on comes from the registry, everything else from the records.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{Version, VersionSpecifiers};
use semver::Version as Semver;

use super::solve::Records;
use crate::model::conda::{cuda_of_build, is_cpu_build, name_of_spec, recipe_build};
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;
use crate::model::source::CondaPackage;
use crate::model::version::DottedVersion;
use crate::registry::{Build, Companion, Registry};

/// conda-forge's name of torch.
pub const PYTORCH: &str = "pytorch";
/// conda-forge's names of the stack's packages, and PyPI's.
pub const STACK: [(&str, &str); 3] =
    [(PYTORCH, "torch"), ("torchvision", "torchvision"), ("torchaudio", "torchaudio")];
/// The source of what is read from a channel's records.
const OF_CHANNEL: &str = "conda-channel";

/// The builds of the stack in channels.
#[derive(Debug, Default)]
pub struct Stack {
    /// Builds of torch.
    pub builds: Vec<Build>,
    /// Builds of torchvision and torchaudio.
    pub companions: Vec<Companion>,
    /// CUDA builds of pytorch whose GPU code the registry does not know, by version: they are not chosen for a GPU.
    pub unknown: BTreeSet<String>,
    /// The files of those builds.
    pub unknown_files: BTreeSet<String>,
}

/// The name that variants of PyPI's builds have: `cu129`, `cpu`.
pub fn variant(build: &str) -> Option<String> {
    match cuda_of_build(build) {
        Some((major, minor)) => Some(format!("cu{major}{minor}")),
        None => is_cpu_build(build).then(|| "cpu".to_owned()),
    }
}

/// The match spec of a build: `pytorch ==2.9.1 cuda129*`.
pub fn spec(package: &str, version: &str, variant: &str) -> String {
    match variant.strip_prefix("cu") {
        Some(digits) => format!("{package} =={version} *cuda{digits}*"),
        None => format!("{package} =={version} *cpu*"),
    }
}

impl Stack {
    /// The builds in some records, without the files that are left out.
    pub fn of(
        records: &Records,
        registry: &Registry,
        platform: Platform,
        left_out: &BTreeMap<String, String>,
    ) -> Stack {
        let mut out = Stack::default();
        // By version and variant: builds of more recipes are one candidate, as good as the worst of them.
        let mut found: BTreeMap<(Version, String), Build> = BTreeMap::new();
        for package in records.of(PYTORCH).iter().filter(|package| !left_out.contains_key(&package.file)) {
            let Some(build) = build(package, registry, platform) else {
                if cuda_of_build(&package.build).is_some() {
                    out.unknown.insert(package.version.clone());
                    out.unknown_files.insert(package.file.clone());
                }
                continue;
            };
            match found.get_mut(&(build.version.clone(), build.variant.clone())) {
                Some(known) => join(known, build),
                None => {
                    found.insert((build.version.clone(), build.variant.clone()), build);
                }
            }
        }
        out.builds = found.into_values().collect();
        for (name, _) in &STACK[1..] {
            let all = records.of(name);
            let of_name = all.iter().filter(|package| !left_out.contains_key(&package.file));
            let mut rows: BTreeMap<(Version, String), Companion> = BTreeMap::new();
            for row in of_name.filter_map(|package| companion(package, platform)) {
                let variant = row.variant.clone().unwrap_or_default();
                rows.insert((row.version.clone(), variant), row);
            }
            out.companions.extend(rows.into_values());
        }
        out
    }
}

/// The row of one package of pytorch; `None` for a CUDA build that the registry does not know, and for builds of others.
pub fn build(package: &CondaPackage, registry: &Registry, platform: Platform) -> Option<Build> {
    let version: Version = package.version.parse().ok()?;
    let variant = variant(&package.build)?;
    let cuda = cuda_of_build(&package.build).map(|(major, minor)| Semver::new(major, minor, 0));
    let row = match &cuda {
        None => None,
        Some(cuda) => {
            let number = recipe_build(&package.build)?;
            Some(registry.conda_build(PYTORCH, &package.version, cuda, (number, platform))?)
        }
    };
    let source = row.map_or_else(|| vec![OF_CHANNEL.to_owned()], |row| row.source.clone());
    Some(Build {
        version,
        variant,
        platform,
        on_pypi: true,
        on_pytorch_index: false,
        cudnn: lowest(package, &["cudnn", "libcudnn"]).filter(|_| cuda.is_some()),
        nccl: lowest(package, &["nccl"]).filter(|_| cuda.is_some()),
        cuda,
        triton: None,
        targets: row.map(|row| row.targets.clone()),
        targets_evidence: row.map(|row| row.evidence),
        pythons: python(package).map(|minor| vec![minor]),
        requires_python: None,
        glibc: lowest(package, &["__glibc"]),
        wheel_bytes: None,
        torchvision: None,
        torchaudio: None,
        evidence: Evidence::Measured,
        source,
        yanked: None,
    })
}

/// Joins two builds of one version and variant.
fn join(known: &mut Build, other: Build) {
    known.pythons = match (known.pythons.take(), other.pythons) {
        (Some(mut all), Some(more)) => {
            all.extend(more);
            all.sort_unstable();
            all.dedup();
            Some(all)
        }
        _ => None,
    };
    // What all of them have.
    if let (Some(targets), Some(others)) = (&mut known.targets, &other.targets) {
        targets.sass.retain(|target| others.sass.contains(target));
        targets.ptx.retain(|target| others.ptx.contains(target));
    }
    known.cudnn = known.cudnn.take().min(other.cudnn);
    known.glibc = known.glibc.take().max(other.glibc);
}

/// The row of one package of torchvision or torchaudio.
fn companion(package: &CondaPackage, platform: Platform) -> Option<Companion> {
    let torch = package.depends.iter().find_map(|spec| {
        let bounds = spec.strip_prefix(PYTORCH)?.strip_prefix(' ')?;
        let bounds = bounds.split(' ').next()?;
        specifiers(bounds)
    });
    let (_, name) = STACK.iter().find(|(conda, _)| *conda == package.name)?;
    Some(Companion {
        package: (*name).to_owned(),
        version: package.version.parse().ok()?,
        torch: Some(torch?),
        variant: Some(variant(&package.build)?),
        targets: None,
        links_cuda: Vec::new(),
        platform,
        yanked: None,
        evidence: Evidence::Measured,
        source: vec![OF_CHANNEL.to_owned()],
    })
}

/// conda's bounds as Python's: `>=2.9.1,<2.10.0a0`. `None` for other forms.
fn specifiers(bounds: &str) -> Option<VersionSpecifiers> {
    let is_bound = |bound: &str| [">=", "<=", "==", ">", "<"].iter().any(|sign| bound.starts_with(sign));
    bounds.split(',').all(is_bound).then(|| bounds.parse().ok()).flatten()
}

/// The series of a package's Python: of `python_abi 3.13.* *_cp313`, or `python >=3.12,<3.13.0a0`.
pub fn python(package: &CondaPackage) -> Option<u32> {
    let of = |name: &'static str| package.depends.iter().filter(move |spec| name_of_spec(spec) == name);
    let minor = |text: &str| -> Option<u32> {
        let text = text.trim_start_matches(['>', '=', '<', ' ']);
        text.strip_prefix("3.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let of_abi = of("python_abi").find_map(|spec| minor(spec.split(' ').nth(1)?));
    let of_python = of("python").find_map(|spec| {
        let bounds = spec.split(' ').nth(1)?;
        let (low, high) = bounds.split_once(',')?;
        let (low, high) = (minor(low)?, minor(high)?);
        (high == low + 1).then_some(low)
    });
    of_abi.or(of_python)
}

/// The lowest version of a package that another one requires: `9.10.2.21` of `cudnn >=9.10.2.21,<10.0a0`.
pub fn lowest(package: &CondaPackage, names: &[&str]) -> Option<DottedVersion> {
    let specs = package.depends.iter().filter(|spec| names.contains(&name_of_spec(spec)));
    let bounds = specs.filter_map(|spec| {
        let bound = spec.split([' ', ',']).find_map(|part| part.strip_prefix(">="))?;
        bound.parse::<DottedVersion>().ok()
    });
    bounds.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(build: &str, depends: &[&str]) -> CondaPackage {
        CondaPackage {
            name: "pytorch".into(),
            version: "2.9.1".into(),
            build: build.into(),
            channel: "conda-forge".into(),
            subdir: "linux-64".into(),
            file: format!("pytorch-2.9.1-{build}.conda"),
            sha256: String::new(),
            md5: String::new(),
            size: 1,
            depends: depends.iter().map(|spec| (*spec).to_owned()).collect(),
            constrains: Vec::new(),
        }
    }

    #[test]
    fn what_a_record_tells_of_a_build() {
        let registry = Registry::embedded();
        let depends = [
            "__cuda",
            "__glibc >=2.17,<3.0.a0",
            "cudnn >=9.10.2.21,<10.0a0",
            "libcudnn >=9.8",
            "python >=3.13,<3.14.0a0",
        ];
        let own = package("cuda129_mkl_py313_ha91d441_301", &depends);
        let build = build(&own, &registry, Platform::LINUX_X86_64).unwrap();
        assert_eq!((build.variant.as_str(), build.pythons), ("cu129", Some(vec![13])));
        assert_eq!(build.cudnn.unwrap().as_str(), "9.10.2.21");
        assert!(build.targets.unwrap().sass.iter().any(|target| target.to_string() == "7.0"));
        let cpu = package("cpu_mkl_py314_hf472749_104", &["python_abi 3.14.* *_cp314", "python"]);
        let cpu = super::build(&cpu, &registry, Platform::LINUX_X86_64).unwrap();
        assert_eq!((cpu.variant.as_str(), cpu.pythons, cpu.targets), ("cpu", Some(vec![14]), None));
        // A recipe's build that the registry does not have.
        let unknown = package("cuda129_mkl_py313_ha91d441_377", &depends);
        assert!(super::build(&unknown, &registry, Platform::LINUX_X86_64).is_none());
        assert_eq!(spec("pytorch", "2.9.1", "cu129"), "pytorch ==2.9.1 *cuda129*");
        assert_eq!(spec("pytorch", "2.9.1", "cpu"), "pytorch ==2.9.1 *cpu*");
    }

    #[test]
    fn bounds() {
        for (text, expected) in [
            (">=2.9.1,<2.10.0a0", Some(">=2.9.1, <2.10.0a0")),
            ("*", None),
            ("2.9.*", None),
            (">=2.9.1", Some(">=2.9.1")),
        ] {
            assert_eq!(specifiers(text).map(|s| s.to_string()).as_deref(), expected, "{text}");
        }
    }
}
