//! Whether an installed package is the locked one: one answer for `verify` and `sync`.

use std::collections::BTreeSet;

use pep440_rs::Version;

use crate::model::installed::{Distribution, InstalledVersion};
use crate::model::solution::{ChosenFile, ChosenPackage};
use crate::model::source::Source;
use crate::model::wheel::WheelName;

/// Packages that tools put into environments, so they are neither extra nor removed.
pub const PREINSTALLED_PACKAGES: [&str; 4] = ["pip", "setuptools", "wheel", "uv"];

/// How an installed package differs from the locked one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Another version.
    Version,
    /// The same version from another commit of its repository.
    Commit {
        /// The installed commit.
        installed: String,
        /// The locked commit.
        locked: String,
    },
    /// The same version with other METADATA than the locked file's.
    Metadata,
    /// The same version from a file of another hash.
    File,
    /// A build for another CUDA variant: installed, locked.
    Variant(String, String),
}

/// How an installed package differs from the locked one; empty if it is the locked one, as far as its files tell.
pub fn differences(locked: &ChosenPackage, installed: &Distribution) -> Vec<Difference> {
    let mut found = Vec::new();
    if !same_version(&locked.version, &installed.version) {
        found.push(Difference::Version);
    } else if let Some(other) = other_commit(locked, installed) {
        found.push(other);
    } else if is_other_file(locked, installed) {
        found.push(Difference::File);
    } else if let (Some(expected), Some(digest)) = (&locked.metadata_sha256, &installed.metadata_sha256)
        && expected != digest
        // What a build writes is not known before it is run.
        && locked.build.is_none()
        && !is_of_another_file(locked, installed)
    {
        found.push(Difference::Metadata);
    }
    if let (Some(expected), Some(variant)) = (&locked.variant, &installed.variant)
        && expected != variant
    {
        found.push(Difference::Variant(variant.clone(), expected.clone()));
    }
    found
}

/// PEP 440 equality; local versions are compared only if the lock has one.
pub fn same_version(locked: &Version, installed: &InstalledVersion) -> bool {
    installed.valid().is_some_and(|installed| {
        locked == installed || (!locked.is_local() && *locked == installed.clone().without_local())
    })
}

/// Whether a package of a repository was installed from another commit.
fn other_commit(locked: &ChosenPackage, installed: &Distribution) -> Option<Difference> {
    let Source::Git { commit, .. } = &locked.source else { return None };
    let direct = installed.direct.as_ref()?;
    // Installed from a folder or a file, it is not from the repository at all.
    let own = direct.commit.as_ref().unwrap_or(&direct.url);
    (!own.eq_ignore_ascii_case(commit))
        .then(|| Difference::Commit { installed: own.clone(), locked: commit.clone() })
}

/// Whether `direct_url.json` has the hash of a file that is none of the locked ones, which all have theirs.
fn is_other_file(locked: &ChosenPackage, installed: &Distribution) -> bool {
    let recorded = installed.direct.as_ref().and_then(|direct| direct.sha256.as_ref());
    let hashes: Option<Vec<&String>> = locked.files.iter().map(|file| file.sha256.as_ref()).collect();
    let known = recorded.zip(hashes.filter(|hashes| !hashes.is_empty()));
    known.is_some_and(|(own, hashes)| !hashes.iter().any(|locked| locked.eq_ignore_ascii_case(own)))
}

/// Whether the installed wheel is another locked file of the package than the one whose METADATA is locked: a release can
/// have wheels with different METADATA.
fn is_of_another_file(locked: &ChosenPackage, installed: &Distribution) -> bool {
    let tags_of = |file: &ChosenFile| -> BTreeSet<String> {
        let Ok(wheel) = file.name.parse::<WheelName>() else { return BTreeSet::new() };
        wheel.tags().collect()
    };
    let tags: BTreeSet<String> = installed.tags.iter().cloned().collect();
    let mut files = locked.files.iter().map(tags_of);
    let is_chosen = files.next().is_some_and(|chosen| chosen == tags);
    !is_chosen && files.any(|other| other == tags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::installed::DirectOrigin;

    #[test]
    fn a_file_of_another_hash_is_another_file() {
        let file = |sha256: &str| ChosenFile {
            name: "a-1-py3-none-any.whl".to_owned(),
            sha256: Some(sha256.to_owned()),
            hash_computed: false,
            size: None,
        };
        let locked = ChosenPackage {
            name: "a".to_owned(),
            version: "1".parse().unwrap(),
            source: Source::Index("pypi".to_owned()),
            build: None,
            groups: Vec::new(),
            files: vec![file("aa"), file("bb")],
            metadata_sha256: None,
            requires: Vec::new(),
            reason: crate::model::choice::Choice::Newest,
            targets: None,
            variant: None,
        };
        for (recorded, differs) in
            [(None, false), (Some("bb"), false), (Some("AA"), false), (Some("cc"), true)]
        {
            let direct = DirectOrigin { sha256: recorded.map(str::to_owned), ..DirectOrigin::default() };
            let installed =
                Distribution { direct: Some(direct), version: "1".into(), ..Distribution::default() };
            assert_eq!(differences(&locked, &installed).contains(&Difference::File), differs, "{recorded:?}");
        }
    }

    #[test]
    fn a_local_version_counts_only_where_the_lock_has_one() {
        for (locked, installed, same) in [
            ("2.9.1", "2.9.1", true),
            ("2.9.1", "2.9.1+cu128", true),
            ("2.9.1+cu126", "2.9.1", false),
            ("1.0", "1.0.0", true),
            ("1.0", "1.1", false),
            ("1.0", "not a version", false),
        ] {
            assert_eq!(
                same_version(&locked.parse().unwrap(), &installed.into()),
                same,
                "{locked} {installed}"
            );
        }
    }
}
