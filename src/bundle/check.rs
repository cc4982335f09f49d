//! A bundle held against its manifest and a lock.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::{BundledFile, Manifest, Role};
use super::wanted::{Commit, Needs, Wanted, is_wheel_of};

/// What is wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It was made for another lock.
    Foreign {
        /// SHA-256 of the lock that it was made for.
        of: String,
        /// SHA-256 of the lock that is here.
        here: String,
    },
    /// Its copy of the lock is not the one that it was made for.
    LockChanged,
    /// It has no copy of the lock.
    NoLock,
    /// It was not made for a target of the lock.
    NoTarget(String),
    /// It says that it was made for a target that the lock does not have.
    UnknownTarget(String),
    /// A file that the lock needs is not in the manifest.
    NotListed(String),
    /// The manifest calls a file a package that the lock does not have.
    NotLocked(String),
    /// A file is not there.
    Missing(String),
    /// What has its name is no regular file: a link, a folder, a pipe.
    NoFile(String),
    /// A file has another content.
    Changed(String),
    /// A file has another size than the manifest says, and the content that it says.
    Size(String),
    /// A file that the manifest does not list.
    Extra(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Foreign { of, here } => write!(
                f,
                "it was made for another lock (sha256 {}), and the one here has {}",
                &of[..of.len().min(12)],
                &here[..here.len().min(12)]
            ),
            Fault::NoLock => f.write_str("it has no copy of envlock.lock"),
            Fault::LockChanged => f.write_str("its copy of envlock.lock was changed"),
            Fault::NoTarget(name) => write!(f, "it was not made for the target `{name}`"),
            Fault::NotListed(name) => write!(f, "`{name}`, which the lock needs, is not in its manifest"),
            Fault::NotLocked(name) => {
                write!(f, "`{name}` is listed as a package, and the lock does not have it")
            }
            Fault::Missing(name) => write!(f, "`{name}` is missing"),
            Fault::NoFile(name) => write!(f, "`{name}` is a link or a special file, and no regular file"),
            Fault::Changed(name) => write!(f, "`{name}` was changed: its content does not have the hash"),
            Fault::Size(name) => write!(f, "the manifest states another size of `{name}`"),
            Fault::UnknownTarget(name) => {
                write!(f, "it was made for the target `{name}`, which the lock does not have")
            }
            Fault::Extra(name) => write!(f, "`{name}` is there, and its manifest does not list it"),
        }
    }
}

/// What is there: each file below `files`, by its place. `None` for what is no regular file.
pub type There = BTreeMap<String, Option<Content>>;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

/// What is wrong with a bundle, the gravest first. `lock` is the SHA-256 of the lock that is here; `needs` is what the
/// targets that are asked about need; `own_lock` is the SHA-256 of the bundle's copy.
pub fn check(
    manifest: &Manifest,
    (lock, own_lock): (&str, Option<&str>),
    (targets, needs): (&[&str], &Needs),
    there: &There,
) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    if manifest.lock != lock {
        // Nothing else that could be said of it would help.
        return vec![Fault::Foreign { of: manifest.lock.clone(), here: lock.to_owned() }];
    }
    match own_lock {
        None => faults.push(Fault::NoLock),
        Some(own) if own != lock => faults.push(Fault::LockChanged),
        Some(_) => {}
    }
    let has = |name: &&&str| !manifest.targets.iter().any(|own| own == **name);
    faults.extend(targets.iter().filter(has).map(|name| Fault::NoTarget((*name).to_owned())));
    let key = |name: &str, sha256: &str, role: Role| (sha256.to_owned(), name.to_owned(), role);
    let listed: BTreeSet<_> =
        manifest.files.iter().map(|own| key(&own.name, &own.sha256, own.role)).collect();
    let wanted = &needs.files;
    let needed: BTreeSet<_> = wanted.iter().map(|own| key(&own.name, &own.sha256, own.role)).collect();
    let is_listed = |own: &&Wanted| !listed.contains(&key(&own.name, &own.sha256, own.role));
    faults.extend(wanted.iter().filter(is_listed).map(|own| Fault::NotListed(own.name.clone())));
    // A commit's packfile is known by its name: the commit vouches for the content.
    let packs: BTreeSet<String> = needs.commits.iter().map(Commit::file).collect();
    let has_pack =
        |name: &&String| manifest.files.iter().any(|own| own.role == Role::Git && own.name == **name);
    faults.extend(packs.iter().filter(|name| !has_pack(name)).map(|name| Fault::NotListed(name.clone())));
    // Other targets may need what these do not.
    let is_of_these = |own: &&BundledFile| own.targets.iter().all(|name| targets.contains(&name.as_str()));
    let is_of_lock = |own: &&BundledFile| {
        matches!(own.role, Role::Package | Role::Build | Role::Built | Role::Conda | Role::Git)
    };
    let is_built =
        |file: &str| needs.sources.iter().any(|(name, version)| is_wheel_of(file, (name, version)));
    let is_foreign = |own: &&BundledFile| match own.role {
        Role::Git => !packs.contains(&own.name),
        Role::Built => !is_built(&own.name),
        role => !needed.contains(&key(&own.name, &own.sha256, role)),
    };
    let foreign = manifest.files.iter().filter(is_of_lock).filter(is_of_these).filter(is_foreign);
    faults.extend(foreign.map(|own| Fault::NotLocked(own.name.clone())));
    let mut places: BTreeSet<String> = BTreeSet::new();
    for file in &manifest.files {
        let place = file.place();
        match there.get(&place) {
            None => faults.push(Fault::Missing(file.name.clone())),
            Some(None) => faults.push(Fault::NoFile(file.name.clone())),
            Some(Some(own)) if own.sha256 != file.sha256 => faults.push(Fault::Changed(file.name.clone())),
            Some(Some(own)) if own.size != file.size => faults.push(Fault::Size(file.name.clone())),
            Some(_) => {}
        }
        places.insert(place);
    }
    // What an older bundle had, and nothing else in its place.
    let is_left = |place: &str, content: &Option<Content>| {
        let hash = place.split('/').nth(1).unwrap_or_default();
        content.as_ref().is_some_and(|own| own.sha256 == hash && manifest.superseded.contains(hash))
    };
    let extra = there.iter().filter(|(place, own)| !places.contains(*place) && !is_left(place, own));
    faults.extend(extra.map(|(place, _)| Fault::Extra(place.clone())));
    faults.sort();
    faults.dedup();
    faults
}
