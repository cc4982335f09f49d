//! A conda package of a lock, and what it asks of the machine.

use std::collections::BTreeSet;

use crate::formats::document::invalid;
use crate::formats::error::ForeignError;
use crate::model::conda::{CONDA_FORGE, cuda_of_build, is_cpu_build, last_part_of_channel, recipe_build};
use crate::model::platform::Platform;
use crate::model::text::clean;
use crate::model::wheel::Python;

/// The name of the record that stands for what the platform of a lock itself must have.
pub(in crate::formats) const PLATFORM: &str = "__platform";

/// A conda package of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CondaRecord {
    /// conda's name.
    pub name: String,
    /// conda's version.
    pub version: String,
    /// The build string: `cuda129_mkl_py312_h6bb0a4e_304`.
    pub build: String,
    /// The last word of its channel: `conda-forge` also of a mirror.
    pub channel: String,
    /// What it requires of the machine, as match specs on virtual packages: `__cuda >=12`.
    pub requires: Vec<String>,
    /// What it excludes, likewise.
    pub constrains: Vec<String>,
}

impl CondaRecord {
    /// Whether it is a package, and not what the platform of the lock must have.
    pub fn is_package(&self) -> bool {
        self.name != PLATFORM
    }

    /// A record. The file's name has what the lock does not state.
    pub(in crate::formats) fn new(
        address: &str,
        (name, version, build): (Option<&str>, Option<&str>, Option<&str>),
        requires: &[String],
        constrains: &[String],
    ) -> Result<CondaRecord, ForeignError> {
        let file = crate::formats::document::file_name(address);
        let stem = file.strip_suffix(".conda").or_else(|| file.strip_suffix(".tar.bz2")).unwrap_or_default();
        let mut parts = stem.rsplitn(3, '-');
        let (of_build, of_version, of_name) = (parts.next(), parts.next(), parts.next());
        let known = |stated: Option<&str>, of_file: Option<&str>| {
            let text = stated.or(of_file).filter(|text| !text.is_empty())?;
            let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-+!".contains(c));
            (is_plain && text.len() <= 128).then(|| text.to_owned())
        };
        let (Some(name), Some(version)) = (known(name, of_name), known(version, of_version)) else {
            return Err(invalid("conda", address));
        };
        let of_machine = |all: &[String]| {
            all.iter().filter(|spec| spec.starts_with("__")).map(|spec| clean(spec, 120)).collect()
        };
        Ok(CondaRecord {
            name,
            version,
            build: known(build, of_build).unwrap_or_default(),
            channel: clean(
                last_part_of_channel(address.rsplit_once('/').map_or("", |(above, _)| above)),
                100,
            ),
            requires: of_machine(requires),
            constrains: of_machine(constrains),
        })
    }

    /// The CUDA version that its build string names.
    pub fn cuda(&self) -> Option<(u64, u64)> {
        cuda_of_build(&self.build)
    }

    /// The recipe's build number of a conda-forge build for CUDA. Other channels build by other recipes.
    pub fn recipe_build(&self) -> Option<u32> {
        recipe_build(&self.build).filter(|_| self.channel == CONDA_FORGE)
    }

    /// Whether its build string names a CPU build.
    pub fn is_for_cpu(&self) -> bool {
        is_cpu_build(&self.build)
    }
}

/// The Python that conda installs; PyPI packages do not come without it.
pub(in crate::formats) fn python(conda: &[CondaRecord]) -> Python {
    let python = conda.iter().find(|record| record.name == "python");
    let series = python.and_then(|python| {
        let mut parts = python.version.splitn(3, '.');
        let (major, minor) = (parts.next()?, parts.next()?);
        (major == "3").then(|| minor.parse().ok())?
    });
    series.map_or(crate::formats::document::NEWEST, Python::new)
}

/// That a lock has nothing for a platform that envlock knows.
pub(in crate::formats) fn other_platforms(subdirs: BTreeSet<&str>) -> ForeignError {
    let names: Vec<String> = subdirs.into_iter().take(10).map(|subdir| clean(subdir, 40)).collect();
    ForeignError::OtherPlatforms(names.join(", "))
}

/// The platform of a conda subdir.
pub(in crate::formats) fn platform(subdir: &str) -> Option<Platform> {
    let name = match subdir {
        "linux-64" => "linux-x86_64",
        "linux-aarch64" => "linux-aarch64",
        "osx-64" => "macos-x86_64",
        "osx-arm64" => "macos-aarch64",
        "win-64" => "windows-x86_64",
        "win-arm64" => "windows-aarch64",
        _ => return None,
    };
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_out_of_file_names() {
        let of = |address: &str| CondaRecord::new(address, (None, None, None), &[], &[]);
        let pytorch =
            of("https://host/conda-forge/linux-64/pytorch-2.9.1-cuda129_mkl_py312_h6bb0a4e_301.conda")
                .unwrap();
        assert_eq!((pytorch.name.as_str(), pytorch.version.as_str()), ("pytorch", "2.9.1"));
        assert_eq!((pytorch.channel.as_str(), pytorch.recipe_build()), ("conda-forge", Some(1)));
        let fork =
            of("https://host/fork/linux-64/pytorch-2.9.1-cuda129_mkl_py312_h6bb0a4e_301.conda").unwrap();
        assert_eq!((fork.channel.as_str(), fork.recipe_build()), ("fork", None));
        assert_eq!((pytorch.cuda(), pytorch.is_for_cpu()), (Some((12, 9)), false));
        let old = of("x/pytorch-1.13.1-py3.10_cuda11.7_cudnn8.5.0_0.tar.bz2").unwrap();
        assert_eq!(old.cuda(), Some((11, 7)));
        let cpu = of("x/pytorch-2.10.0-cpu_mkl_py313_h1_100.conda").unwrap();
        assert_eq!((cpu.cuda(), cpu.is_for_cpu()), (None, true));
        assert!(of("x/nothing.txt").is_err() && of("x/a b-1-0.conda").is_err() && of("").is_err());
    }
}
