//! What the writers of all formats share: why a lock cannot be written to one, which packages are written and how they are
//! pinned, and the line by which a file of envlock's is known.

use std::fmt::Write as _;

use crate::lockfile::Target;
use crate::model::conda::CONDA_FORGE;
use crate::model::index_owner::PYTORCH;
use crate::model::level::Level;
use crate::model::listing::{Listing, in_folder};
use crate::model::secrets::secret_parameter;
use crate::model::solution::{ChosenFile, ChosenPackage};
use crate::model::source::Source;
use crate::model::text::{channel_without_secrets, without_logins};
use crate::model::wheel::Python;

/// The start of every environment.yml that envlock writes.
pub const ENVIRONMENT_MARK: &str = "# Written by envlock as environment.yml";
/// The start of the line of a requirements.txt that names its extras and groups.
pub const REQUIREMENTS_OPTIONS: &str = "# Exported with";
/// The start of every requirements.txt that envlock writes.
pub const REQUIREMENTS_MARK: &str = "# Written by envlock as requirements.txt";
/// The start of every pylock.toml that envlock writes.
pub const PYLOCK_MARK: &str = "# Written by envlock as pylock.toml";

/// Why a lock cannot be exported to a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Nothing can be installed from a stack-only lock.
    #[error("the lock was made with `--stack-only`: it has no files to install")]
    StackOnly,
    /// A package without a file cannot be installed.
    #[error("the lock has no file for `{0}`")]
    NoFiles(String),
    /// A package of a conda channel, which the format cannot have.
    #[error("the lock takes `{0}` from a conda channel, which this format cannot express")]
    Conda(String),
    /// The lock has no conda packages, and the format has nothing else.
    #[error("the lock has no conda packages")]
    NoConda,
    /// A package that the format cannot express.
    #[error("the lock takes `{package}` from {from}, which this format cannot express")]
    Unsupported {
        /// The package.
        package: String,
        /// What it comes from.
        from: &'static str,
    },
    /// A file without a hash cannot be pinned.
    #[error("the index states no SHA-256 for `{0}`, so it cannot be pinned by hash")]
    NoHash(String),
    /// A framework that needs CUDA from the base image, but no base image is named.
    #[error("{package} opens {needs} by name and does not contain them: the base image must have them")]
    NoBase {
        /// The package.
        package: String,
        /// What it opens.
        needs: String,
    },
    /// A target that is not for Linux cannot be exported for a container.
    #[error("the target is for {0}, but a container needs a Linux target")]
    NotLinux(String),
    /// An invalid name of a base image.
    #[error("`{0}` is not an image name")]
    NotABase(String),
    /// An index whose addresses of files hold a token or a signature.
    #[error(
        "the index `{index}` gives addresses with a token or signature for the files of `{package}`, which are not written"
    )]
    Signed {
        /// The package.
        package: String,
        /// The index.
        index: String,
    },
    /// An index without a URL.
    #[error("the lock takes `{package}` from the index `{index}`, which has no URL")]
    NoAddress {
        /// The package.
        package: String,
        /// The index.
        index: String,
    },
}

/// The start of every requirements-build.txt that envlock writes.
pub const REQUIREMENTS_BUILD_MARK: &str = "# Written by envlock as requirements-build.txt";
/// The start of every build-constraints.txt that envlock writes.
pub const BUILD_CONSTRAINTS_MARK: &str = "# Written by envlock as build-constraints.txt";

/// The first Python whose pip has `--build-constraint`: pip 25.3 requires Python 3.9.
const PIP_CONSTRAINS_BUILDS: Python = Python { minor: 9, patch: None };

/// Whether pip has `--build-constraint` for the Python of a target.
pub(crate) fn pip_constrains_builds(target: &Target) -> bool {
    target.python >= PIP_CONSTRAINS_BUILDS
}

/// The packages that are always installed, checked to be installable.
pub(crate) fn installable(target: &Target) -> Result<Vec<&ChosenPackage>, ExportError> {
    check(target)?;
    Ok(target.installed_always().collect())
}

/// The channels of a target's conda packages by name; `conda-forge` has the Python of one without.
pub(crate) fn channels(target: &Target) -> Vec<&str> {
    let mut out: Vec<&str> = Vec::new();
    for package in &target.conda {
        if !out.contains(&package.channel.as_str()) {
            out.push(&package.channel);
        }
    }
    if out.is_empty() {
        out.push(CONDA_FORGE);
    }
    out
}

/// The packages of PyPI that are always installed, beside those of conda, checked to be installable.
pub(crate) fn beside_conda(target: &Target) -> Result<Vec<&ChosenPackage>, ExportError> {
    check_files(target)?;
    Ok(target.installed_always().collect())
}

/// Checks that all packages can be installed, and that none is conda's.
pub(crate) fn check(target: &Target) -> Result<(), ExportError> {
    match target.conda.first() {
        Some(package) => Err(ExportError::Conda(package.name.clone())),
        None => check_files(target),
    }
}

/// Checks that the packages of PyPI can be installed: by hash, or from git or a folder.
pub(crate) fn check_files(target: &Target) -> Result<(), ExportError> {
    if target.level == Level::Stack {
        return Err(ExportError::StackOnly);
    }
    for package in &target.packages {
        if matches!(package.source, Source::Git { .. } | Source::Path(_)) {
            continue;
        }
        if package.files.is_empty() {
            return Err(ExportError::NoFiles(package.name.clone()));
        }
        if let Some(file) = package.files.iter().find(|f| f.sha256.is_none()) {
            return Err(ExportError::NoHash(file.name.clone()));
        }
    }
    Ok(())
}

/// The packages without a hash: pip checks the hashes of all packages or of none.
pub(crate) fn without_hash<'p>(packages: &[&'p ChosenPackage]) -> Vec<&'p str> {
    let has_none = |p: &&&ChosenPackage| p.files.iter().all(|file| file.sha256.is_none());
    packages.iter().filter(has_none).map(|package| package.name.as_str()).collect()
}

/// The packages that are installed in one step, and those that are built after them.
pub(crate) fn in_two_steps<'p>(
    packages: &[&'p ChosenPackage],
) -> (Vec<&'p ChosenPackage>, Vec<&'p ChosenPackage>) {
    packages.iter().partition(|package| !package.is_built_after_others())
}

/// Whether a package comes from the pytorch index: `pytorch/cu126`.
pub(crate) fn is_from_pytorch(package: &ChosenPackage) -> bool {
    package.source.index().and_then(|index| index.split('/').next()) == Some(PYTORCH)
}

/// The indexes other than `pypi` and `pytorch` that packages come from, each with one of its packages, sorted.
pub(crate) fn extra_indexes<'p>(packages: &[&'p ChosenPackage]) -> Vec<(&'p str, &'p str)> {
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

/// The address of a file on its index, for a file that is committed.
///
/// # Errors
/// When the index has none, or one with a token or signature.
pub(crate) fn address_of_file(
    package: &ChosenPackage,
    index: &str,
    stated: Option<String>,
) -> Result<String, ExportError> {
    let (package, index) = (package.name.clone(), index.to_owned());
    match stated {
        None => Err(ExportError::NoAddress { package, index }),
        // In a parameter, or as conda's servers have it: `/t/TOKEN/`.
        Some(url)
            if secret_parameter(&url).is_some() || channel_without_secrets(&url) != without_logins(&url) =>
        {
            Err(ExportError::Signed { package, index })
        }
        Some(url) => Ok(url),
    }
}

/// Says that pip may take a package of an index from another one, where no hash keeps it from that.
pub(crate) fn open_indexes(out: &mut String, packages: &[&ChosenPackage], start: &str) {
    if let Some((index, package)) = extra_indexes(packages).first() {
        let _ = writeln!(
            out,
            "{start} Without hashes pip may take {package}, which is of the index `{index}`, from any of the indexes: `envlock sync` does not."
        );
    }
}

/// The requirement of a package for pip and uv, and the hashes of the files that may be installed.
///
/// Packages of the pytorch index are pinned by URL: uv uses the first index that has the name, and the pytorch index
/// carries old copies of packages from other indexes.
pub(crate) fn pinned<'p>(
    package: &'p ChosenPackage,
    addresses: &[(String, String)],
) -> Result<(String, Vec<&'p str>), ExportError> {
    let hashes = |files: &'p [ChosenFile]| files.iter().filter_map(|f| f.sha256.as_deref()).collect();
    match &package.source {
        Source::Url(url) => return Ok((format!("{} @ {url}", package.name), hashes(&package.files))),
        git @ Source::Git { .. } => return Ok((format!("{} @ {git}", package.name), Vec::new())),
        Source::Path(path) => return Ok((format!("./{path}"), hashes(&package.files))),
        Source::Index(_) => {}
    }
    match (package.files.first(), package.source.index()) {
        (Some(file), Some(index)) if is_from_pytorch(package) => {
            let folder = address(addresses, index, &package.name)?;
            let name = percent_encoding::utf8_percent_encode(&file.name, IN_FILE_NAMES);
            let requirement = format!("{} @ {}/{name}", package.name, folder.trim_end_matches('/'));
            Ok((requirement, hashes(std::slice::from_ref(file))))
        }
        // pip would take another index's file of that name and version, and refuse its hash.
        (Some(file), Some(index)) if let Some(place) = file_in_folder(addresses, index, package, file) => {
            let requirement = match place.contains("://") {
                true => format!("{} @ {place}", package.name),
                false => place,
            };
            Ok((requirement, hashes(std::slice::from_ref(file))))
        }
        _ => Ok((format!("{}=={}", package.name, package.version), hashes(&package.files))),
    }
}

/// Characters that are escaped in a file name within a URL: all but the unreserved characters of RFC 3986.
const IN_FILE_NAMES: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The URL of an index by name; `pytorch/cu126` is below `pytorch`.
pub(crate) fn address(
    addresses: &[(String, String)],
    index: &str,
    package: &str,
) -> Result<String, ExportError> {
    let (family, variant) = index.split_once('/').map_or((index, None), |(f, v)| (f, Some(v)));
    addresses
        .iter()
        .find(|(name, _)| name == family)
        // The exported files are committed, so credentials are removed from the URL.
        .map(|(name, address)| (name, without_logins(address)))
        .map(|(_, address)| match variant {
            Some(variant) => format!("{}/{variant}", address.trim_end_matches('/')),
            None => address,
        })
        .ok_or_else(|| ExportError::NoAddress { package: package.to_owned(), index: index.to_owned() })
}

/// Where a file of an index that is a folder is: `./wheels/demo-1.0-py3-none-any.whl`.
fn file_in_folder(
    addresses: &[(String, String)],
    index: &str,
    package: &ChosenPackage,
    file: &ChosenFile,
) -> Option<String> {
    in_folder(&address(addresses, index, &package.name).ok()?, &file.name)
}

/// The option of pip and uv that names an index: `--extra-index-url https://corp.example/simple`, `--find-links
/// https://corp.example/links.html`. None for a folder, whose files are named one by one.
pub(crate) fn index_option(
    addresses: &[(String, String)],
    index: &str,
    package: &str,
) -> Result<Option<String>, ExportError> {
    let address = address(addresses, index, package)?;
    Ok(match Listing::of_address(&address) {
        Listing::Index => Some(format!("--extra-index-url {address}")),
        Listing::Links if in_folder(&address, "").is_some() => None,
        Listing::Links => Some(format!("--find-links {address}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::choice::Choice;

    fn package(index: &str) -> ChosenPackage {
        ChosenPackage {
            name: "corp-a".to_owned(),
            version: "2.0".parse().unwrap(),
            source: Source::Index(index.to_owned()),
            build: None,
            groups: Vec::new(),
            files: Vec::new(),
            metadata_sha256: None,
            requires: Vec::new(),
            reason: Choice::Newest,
            targets: None,
            variant: None,
        }
    }

    #[test]
    fn addresses_with_a_token_are_not_written() {
        for (url, is_written) in [
            ("https://h/a-1-py3-none-any.whl?X-Amz-Signature=0123456789abcdef&Expires=5", false),
            ("https://h/t/tk-0123456789/a-1-py3-none-any.whl", false),
            ("https://h/packages/ab/cd/a-1-py3-none-any.whl#sha256=0123456789abcdef", true),
        ] {
            let found = address_of_file(&package("corp"), "corp", Some(url.to_owned()));
            assert_eq!(found.is_ok(), is_written, "{url}: {found:?}");
        }
    }

    #[test]
    fn packages_that_another_index_may_give_are_named() {
        let said = |index: &str| {
            let mut out = String::new();
            open_indexes(&mut out, &[&package(index)], "#");
            out
        };
        assert!(
            said("corp").contains("pip may take corp-a, which is of the index `corp`"),
            "{}",
            said("corp")
        );
        assert_eq!([said("pypi"), said("pytorch/cu126")], ["", ""]);
    }
}
