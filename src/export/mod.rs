//! A lock in the formats that installers read, one format per file.

mod conda_env;
mod dockerfile;
pub mod graph;
mod guard;
mod pylock;
mod requirements;

pub use conda_env::{conda_environment, environment_name};
pub use dockerfile::dockerfile;
pub use guard::guard;
pub use pylock::pylock;
pub use requirements::requirements;

use crate::lockfile::Target;
use crate::model::level::Level;
use crate::model::solution::{ChosenFile, ChosenPackage};
use crate::model::source::Source;

/// How an environment.yml of envlock's begins.
pub const ENVIRONMENT_MARK: &str = "# Written by envlock as environment.yml";
/// How a requirements.txt of envlock's begins.
pub const REQUIREMENTS_MARK: &str = "# Written by envlock as requirements.txt";
/// How a pylock.toml of envlock's begins.
pub const PYLOCK_MARK: &str = "# Written by envlock as pylock.toml";

/// How a Dockerfile of envlock's begins.
pub const DOCKERFILE_MARK: &str = "# Written by envlock as Dockerfile";

/// A lock that cannot be written in a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Nothing can be installed from a stack-only lock.
    #[error("the lock was made with `--stack-only`: it has no files to install")]
    StackOnly,
    /// A package without a file cannot be installed.
    #[error("the lock has no file of `{0}`")]
    NoFiles(String),
    /// A package from elsewhere than an index's wheels.
    #[error("the lock takes `{package}` from {from}; this envlock exports wheels of indexes only")]
    Unsupported {
        /// The package.
        package: String,
        /// What it comes from.
        from: &'static str,
    },
    /// A file without a hash cannot be pinned.
    #[error("the index states no SHA-256 for `{0}`, so it cannot be pinned by hash")]
    NoHash(String),
    /// A framework that takes CUDA from the image, and no image is named.
    #[error("{package} opens {needs} by name and brings neither: the base has to have them")]
    NoBase {
        /// The package.
        package: String,
        /// What it opens.
        needs: String,
    },
    /// A container for another system than Linux.
    #[error("the target is for {0}, and containers are made for Linux here")]
    NotLinux(String),
    /// A base that is no image's name.
    #[error("`{0}` is no image name")]
    NotABase(String),
    /// An index without an address.
    #[error("the lock takes `{package}` from the index `{index}`, which has no address")]
    NoAddress {
        /// The package.
        package: String,
        /// The index.
        index: String,
    },
}

/// The packages to install, checked to be installable by hash.
fn installable(target: &Target) -> Result<&[ChosenPackage], ExportError> {
    if target.level == Level::Stack {
        return Err(ExportError::StackOnly);
    }
    if let Some(package) = target.conda.first() {
        return Err(ExportError::Unsupported { package: package.name.clone(), from: "a conda channel" });
    }
    for package in &target.packages {
        let from = match &package.source {
            _ if package.build.is_some() => Some("a source distribution"),
            Source::Index(_) => None,
            Source::Url(_) => Some("an address"),
            Source::Git { .. } => Some("git"),
            Source::Path(_) => Some("a folder"),
        };
        if let Some(from) = from {
            return Err(ExportError::Unsupported { package: package.name.clone(), from });
        }
        if package.files.is_empty() {
            return Err(ExportError::NoFiles(package.name.clone()));
        }
        if let Some(file) = package.files.iter().find(|f| f.sha256.is_none()) {
            return Err(ExportError::NoHash(file.name.clone()));
        }
    }
    Ok(&target.packages)
}

/// The index that carries builds of torch by CUDA variant.
const PYTORCH: &str = "pytorch";

/// Whether a package comes from the pytorch index: `pytorch/cu126`.
fn is_from_pytorch(package: &ChosenPackage) -> bool {
    package.source.index().and_then(|index| index.split('/').next()) == Some(PYTORCH)
}

/// The indexes beside `pypi` and `pytorch` that packages come from, each with one of them, sorted.
fn extra_indexes(packages: &[ChosenPackage]) -> Vec<(&str, &str)> {
    let mut indexes: Vec<(&str, &str)> = packages
        .iter()
        .filter(|p| !is_from_pytorch(p))
        .filter_map(|p| Some((p.source.index()?, p.name.as_str())))
        .filter(|(index, _)| *index != "pypi")
        .collect();
    indexes.sort_unstable();
    indexes.dedup_by_key(|(index, _)| *index);
    indexes
}

/// A package as pip and uv ask for it, and the hashes of the files that may be taken.
///
/// Packages of the pytorch index are named by address: uv takes the first index that has a name at all, and that
/// index carries old copies of packages from elsewhere.
fn pinned<'p>(
    package: &'p ChosenPackage,
    addresses: &[(String, String)],
) -> Result<(String, Vec<&'p str>), ExportError> {
    let hashes = |files: &'p [ChosenFile]| files.iter().filter_map(|f| f.sha256.as_deref()).collect();
    match (package.files.first(), package.source.index()) {
        (Some(file), Some(index)) if is_from_pytorch(package) => {
            let folder = address(addresses, index, &package.name)?;
            let name = percent_encoding::utf8_percent_encode(&file.name, IN_FILE_NAMES);
            let requirement = format!("{} @ {}/{name}", package.name, folder.trim_end_matches('/'));
            Ok((requirement, hashes(std::slice::from_ref(file))))
        }
        _ => Ok((format!("{}=={}", package.name, package.version), hashes(&package.files))),
    }
}

/// What is escaped in a file's name that becomes part of an address: all but RFC 3986's unreserved characters.
const IN_FILE_NAMES: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The address of an index by name; `pytorch/cu126` is below `pytorch`.
fn address(addresses: &[(String, String)], index: &str, package: &str) -> Result<String, ExportError> {
    let (family, variant) = index.split_once('/').map_or((index, None), |(f, v)| (f, Some(v)));
    addresses
        .iter()
        .find(|(name, _)| name == family)
        // The files are committed: a login in an address stays out of them.
        .map(|(name, address)| (name, crate::model::text::without_logins(address)))
        .map(|(_, address)| match variant {
            Some(variant) => format!("{}/{variant}", address.trim_end_matches('/')),
            None => address,
        })
        .ok_or_else(|| ExportError::NoAddress { package: package.to_owned(), index: index.to_owned() })
}
