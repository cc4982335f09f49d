//! conda's packages of torch as builds: `conda.toml` has what their records do not say.

use pep440_rs::{Version, VersionSpecifiers};
use semver::Version as Semver;

use super::rows::CondaCxx11Abi;
use super::{Build, COMPANIONS, Cited, Companion, CondaBuild, Registry};
use crate::model::conda::{CONDA_FORGE, cuda_of_build, is_cpu_build, lowest, name_of_spec, recipe_build};
use crate::model::evidence::Evidence;
use crate::model::platform::Platform;
use crate::model::source::CondaPackage;
use crate::model::variant::{CPU, Variant};

/// conda's name of torch.
pub const PYTORCH: &str = "pytorch";
/// The source of what is read from a channel's records; no row of the registry has it.
pub const OF_CHANNEL: &str = "the records of the channel";

/// A package of torch in a channel, as a build.
#[derive(Debug, Clone)]
pub enum CondaBuildOf {
    /// A build.
    Known(Box<Cited<Build>>),
    /// A build for CUDA of which it is not known which GPUs its code runs on.
    UnknownCode,
    /// The build string or the version is of another form than those of conda-forge.
    Other,
}

impl Registry {
    /// What is known of the GPU code of conda packages.
    pub fn conda_builds(&self) -> &[Cited<CondaBuild>] {
        self.rows(&self.parts.tables.conda_builds)
    }

    /// Whether conda-forge's build of a package uses the C++11 ABI of libstdc++; `None` if unknown.
    pub fn cxx11_abi_of_conda(&self, package: &str, version: &Version) -> Option<bool> {
        let is_meant = |row: &&Cited<CondaCxx11Abi>| row.package == package && row.versions.contains(version);
        self.rows(&self.parts.tables.conda_abis).iter().find(is_meant).map(|row| row.cxx11_abi)
    }

    /// What is known of the GPU code of a conda package, by its version, the CUDA that it is for and the recipe's build number.
    pub fn conda_build(
        &self,
        package: &str,
        version: &str,
        cuda: &Semver,
        (number, platform): (u32, Platform),
    ) -> Option<&Cited<CondaBuild>> {
        self.conda_builds().iter().find(|row| {
            row.package == package
                && row.version == version
                && (row.cuda.major, row.cuda.minor) == (cuda.major, cuda.minor)
                && row.platform == platform
                && row.builds.contains(&number)
        })
    }

    /// What is known of a conda package of torch for CUDA.
    fn row_of_conda(&self, package: &CondaPackage, platform: Platform) -> Option<&Cited<CondaBuild>> {
        let (major, minor) = cuda_of_build(&package.build)?;
        // Other channels build by other recipes.
        let number = recipe_build(&package.build).filter(|_| package.channel == CONDA_FORGE)?;
        self.conda_build(PYTORCH, &package.version, &Semver::new(major, minor, 0), (number, platform))
    }

    /// The major version of the cuDNN that a conda package of torch links; `None` if unknown.
    pub fn cudnn_of_conda(&self, package: &CondaPackage, platform: Platform) -> Option<u64> {
        self.row_of_conda(package, platform)?.cudnn
    }

    /// The build that a conda package of torch is.
    pub fn build_of_conda(&self, package: &CondaPackage, platform: Platform) -> CondaBuildOf {
        let Ok(version) = package.version.parse::<Version>() else { return CondaBuildOf::Other };
        let Some(variant) = variant_of_build(&package.build) else { return CondaBuildOf::Other };
        let cuda = cuda_of_build(&package.build).map(|(major, minor)| Semver::new(major, minor, 0));
        let row = self.row_of_conda(package, platform);
        if cuda.is_some() && row.is_none() {
            return CondaBuildOf::UnknownCode;
        }
        let mut source = vec![OF_CHANNEL.to_owned()];
        source.extend(row.iter().flat_map(|row| row.source.clone()));
        let build = Build {
            version,
            variant,
            platform,
            // It takes the place of PyPI's builds: the solver knows no more preferred index.
            on_pypi: true,
            on_pytorch_index: false,
            // Which release of these is installed is not decided by the build.
            cudnn: None,
            nccl: None,
            cuda,
            triton: None,
            targets: row.map(|row| row.targets.clone()),
            targets_source: Vec::new(),
            targets_evidence: row.map(|row| row.evidence),
            pythons: python_of(package).map(|minor| vec![minor]),
            requires_python: None,
            wheels_inferred: false,
            // Records of 2024 and before may not state it.
            glibc: lowest(&package.depends, "__glibc").max(row.and_then(|row| row.glibc.clone())),
            wheel_bytes: None,
            torchvision: None,
            torchaudio: None,
            yanked: None,
        };
        CondaBuildOf::Known(Box::new(Cited::new(build, Evidence::Measured, source)))
    }
}

/// A conda package of torchvision or torchaudio, with the torch that it requires; `None` for others.
pub fn companion_of_conda(package: &CondaPackage, platform: Platform) -> Option<Cited<Companion>> {
    let name = COMPANIONS.into_iter().find(|name| *name == package.name)?;
    let torch = package.depends.iter().find_map(|spec| {
        let bounds = spec.strip_prefix(PYTORCH)?.strip_prefix(' ')?;
        specifiers(bounds.split(' ').next()?)
    });
    let companion = Companion {
        package: name.to_owned(),
        version: package.version.parse().ok()?,
        torch: Some(torch?),
        variant: Some(variant_of_build(&package.build)?),
        targets: None,
        links_cuda: Vec::new(),
        platform,
        yanked: None,
    };
    Some(Cited::new(companion, Evidence::Documented, vec![OF_CHANNEL.to_owned()]))
}

/// The name that such a variant of PyPI's builds has: `cu129`, `cpu`.
pub fn variant_of_build(build: &str) -> Option<String> {
    match cuda_of_build(build) {
        Some((major, minor)) => Some(Variant::Cuda(major, minor).to_string()),
        None => is_cpu_build(build).then(|| CPU.to_owned()),
    }
}

/// conda's bounds as Python's: `>=2.9.1,<2.10.0a0`. `None` for other forms.
fn specifiers(bounds: &str) -> Option<VersionSpecifiers> {
    let is_bound = |bound: &str| [">=", "<=", "==", ">", "<"].iter().any(|sign| bound.starts_with(sign));
    bounds.split(',').all(is_bound).then(|| bounds.parse().ok()).flatten()
}

/// The series of a package's Python: of `python_abi 3.13.* *_cp313`, or `python >=3.12,<3.13.0a0`.
pub fn python_of(package: &CondaPackage) -> Option<u32> {
    let of = |name: &'static str| package.depends.iter().filter(move |spec| name_of_spec(spec) == name);
    let minor = |text: &str| -> Option<u32> {
        let text = text.trim_start_matches(['>', '=', '<', ' ']);
        text.strip_prefix("3.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let of_abi = of("python_abi").find_map(|spec| minor(spec.split(' ').nth(1)?));
    let of_python = of("python").find_map(|spec| {
        let (low, high) = spec.split(' ').nth(1)?.split_once(',')?;
        let (low, high) = (minor(low)?, minor(high)?);
        (high.checked_sub(1) == Some(low)).then_some(low)
    });
    of_abi.or(of_python)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, build: &str, depends: &[&str]) -> CondaPackage {
        CondaPackage {
            name: name.into(),
            version: "2.9.1".into(),
            build: build.into(),
            channel: "conda-forge".into(),
            subdir: "linux-64".into(),
            file: format!("{name}-2.9.1-{build}.conda"),
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
        let of = |build: &str, depends: &[&str]| {
            registry.build_of_conda(&package(PYTORCH, build, depends), Platform::LINUX_X86_64)
        };
        let depends = ["__cuda", "__glibc >=2.17,<3.0.a0", "python >=3.13,<3.14.0a0"];
        let CondaBuildOf::Known(own) = of("cuda129_mkl_py313_ha91d441_301", &depends) else { panic!() };
        assert_eq!((own.variant.as_str(), own.pythons.clone()), ("cu129", Some(vec![13])));
        assert_eq!(own.glibc.clone().unwrap().as_str(), "2.17");
        assert!(own.targets.as_ref().unwrap().sass.iter().any(|target| target.to_string() == "7.0"));
        // What the record does not say.
        let CondaBuildOf::Known(own) = of("cuda129_mkl_py313_ha91d441_301", &depends[2..]) else { panic!() };
        assert_eq!(own.glibc.clone().unwrap().as_str(), "2.17");
        let cudnn = |build| registry.cudnn_of_conda(&package(PYTORCH, build, &[]), Platform::LINUX_X86_64);
        assert_eq!(cudnn("cuda129_mkl_py313_ha91d441_301"), Some(9));
        assert_eq!(
            (cudnn("cuda129_mkl_py313_ha91d441_377"), cudnn("cpu_mkl_py314_hf472749_104")),
            (None, None)
        );
        let of_abi = ["python_abi 3.14.* *_cp314", "python"];
        let CondaBuildOf::Known(cpu) = of("cpu_mkl_py314_hf472749_104", &of_abi) else { panic!() };
        assert_eq!(
            (cpu.variant.as_str(), cpu.pythons.clone(), cpu.targets.clone()),
            ("cpu", Some(vec![14]), None)
        );
        // A recipe's build that the registry does not have, and one of another channel.
        assert!(matches!(of("cuda129_mkl_py313_ha91d441_377", &depends), CondaBuildOf::UnknownCode));
        assert!(matches!(of("py3.12_cuda12.4_cudnn9.1.0_0", &depends), CondaBuildOf::UnknownCode));
        assert!(matches!(of("hip_py313_0", &depends), CondaBuildOf::Other));
    }

    /// What the rows say is what the real records say.
    #[test]
    fn rows_and_records_agree() {
        let registry = Registry::embedded();
        let records = include_str!("../../tests/fixtures/conda/conda-forge/linux-64/repodata.json");
        let records: serde_json::Value = serde_json::from_str(records).unwrap();
        let mut seen = 0;
        for record in records["packages.conda"].as_object().unwrap().values() {
            let text = |key: &str| record[key].as_str().unwrap().to_owned();
            let depends: Vec<&str> =
                record["depends"].as_array().unwrap().iter().map(|spec| spec.as_str().unwrap()).collect();
            let own =
                CondaPackage { version: text("version"), ..package(&text("name"), &text("build"), &depends) };
            if own.name != PYTORCH {
                continue;
            }
            let Some(row) = registry.row_of_conda(&own, Platform::LINUX_X86_64) else { continue };
            assert_eq!(row.glibc, lowest(&own.depends, "__glibc"), "{}", own.build);
            let cudnn = own.depends.iter().find(|spec| spec.starts_with("cudnn ")).unwrap();
            assert!(cudnn.contains(&format!(">={}.", row.cudnn.unwrap())), "{cudnn}");
            seen += 1;
        }
        assert!(seen >= 2, "{seen}");
    }

    #[test]
    fn companions() {
        let depends = ["pytorch * cuda*", "pytorch >=2.9.1,<2.10.0a0", "python_abi 3.13.* *_cp313"];
        let of = |name: &str, depends: &[&str]| {
            let row =
                companion_of_conda(&package(name, "cuda129_py313_h1_0", depends), Platform::LINUX_X86_64)?;
            Some((row.variant.clone()?, row.torch.clone()?.to_string()))
        };
        let expected = Some(("cu129".to_owned(), ">=2.9.1, <2.10.0a0".to_owned()));
        assert_eq!(of("torchvision", &depends), expected);
        assert_eq!(of("torchvision", &["pytorch * cuda*"]), None);
        assert_eq!(of("numpy", &depends), None);
    }
}
