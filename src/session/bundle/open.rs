//! A bundle that is there: read, and held against the lock.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::pack::{self, NotUnpacked};
use super::{is_archive, needs_of, shown};
use crate::bundle::{self, BundledFile, Content, Fault, Manifest, There};
use crate::index::sha256_of;
use crate::lockfile::{self, Lockfile};
use crate::model::text::{clean, shell_word};
use crate::registry::signed;
use crate::session::failure::Failure;
use crate::session::scratch::Scratch;
use crate::session::threads::in_threads;
use crate::session::{exit, files};

/// A bundle. That of an archive lies in a folder that is removed with the value.
pub(crate) struct OpenBundle {
    /// The folder.
    pub folder: PathBuf,
    pub manifest: Manifest,
    /// How it was named.
    pub shown: String,
    _unpacked: Option<Scratch>,
}

/// The SHA-256 of a text.
pub(super) fn digest_of(text: &[u8]) -> String {
    hex::encode(Sha256::digest(text))
}

/// The error of what is no bundle.
fn unusable(path: &Path, why: &str) -> Failure {
    Failure::input(format!("`{}` is not a bundle that can be used: {why}", shown(path)))
        .hint("`envlock bundle -o DIR` writes one, where there is a network")
}

/// An archive, unpacked into a folder of this run.
fn unpacked(archive: &Path) -> Result<Scratch, Failure> {
    let folder = Scratch::new("bundle")?;
    match pack::unpack(archive, folder.path()) {
        Ok(()) => Ok(folder),
        Err(NotUnpacked::Archive(why)) => Err(unusable(archive, &why)),
        Err(NotUnpacked::Place(error)) => Err(folder.failed(&error)),
    }
}

impl OpenBundle {
    /// Opens a bundle: a folder, or an archive. `key`: the file of the public key that must have signed it.
    ///
    /// # Errors
    /// When it cannot be read, is not complete, or is not signed by the key.
    pub fn open(path: &Path, key: Option<&Path>) -> Result<OpenBundle, Failure> {
        let unpacked = match is_archive(path) {
            true => Some(unpacked(path)?),
            false => None,
        };
        let folder = unpacked.as_ref().map_or_else(|| path.to_owned(), |folder| pack::root(folder.path()));
        let text = match files::read(&folder.join(bundle::MANIFEST)) {
            Ok(Some(text)) => text,
            Ok(None) if folder.is_dir() => {
                return Err(unusable(path, &format!("it has no `{}`", bundle::MANIFEST)));
            }
            Ok(None) => return Err(unusable(path, "it does not exist")),
            Err(error) => return Err(unusable(path, &error.message)),
        };
        if let Some(key) = key {
            check_signature(&folder, &text, key).map_err(|why| {
                Failure::input(format!("`{}` is not used: {why}", shown(path))).hint(
                    "`--pubkey` takes the file of the public key, as `minisign -G` writes it; `envlock bundle --sign` signs a bundle",
                )
            })?;
        }
        let manifest = Manifest::parse(&text)
            .map_err(|why| unusable(path, &format!("`{}`: {why}", bundle::MANIFEST)))?;
        Ok(OpenBundle { folder, manifest, shown: shown(path), _unpacked: unpacked })
    }

    /// What is wrong with it: for a lock, with the text that it has on disk, and some of its targets. Every file is hashed.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn faults(
        &self,
        (lock, lock_text): (&Lockfile, &[u8]),
        targets: &[&str],
    ) -> Result<Vec<Fault>, Failure> {
        let own = fs_err::read(self.folder.join(bundle::LOCK)).ok().map(|text| digest_of(&text));
        let needs = needs_of(lock, targets)?;
        let here = digest_of(lock_text);
        let mut faults =
            bundle::check(&self.manifest, (&here, own.as_deref()), (targets, &needs), &self.there()?);
        if self.manifest.lock == here {
            let unknown = self.manifest.targets.iter().filter(|name| lock.target(Some(name)).is_none());
            faults.extend(unknown.map(|name| Fault::UnknownTarget(clean(name, 100))));
        }
        faults.sort();
        Ok(faults)
    }

    /// Every file but the manifest, the lock and the signature, with its content.
    fn there(&self) -> Result<There, Failure> {
        let mut paths: Vec<(String, PathBuf)> = Vec::new();
        let mut folders = vec![(String::new(), self.folder.clone())];
        while let Some((prefix, folder)) = folders.pop() {
            for entry in fs_err::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_own = [bundle::MANIFEST, bundle::LOCK, bundle::SIGNATURE].contains(&name.as_str());
                if prefix.is_empty() && is_own && entry.file_type()?.is_file() {
                    continue;
                }
                let place = format!("{prefix}{name}");
                match entry.file_type()?.is_dir() {
                    true => folders.push((format!("{place}/"), entry.path())),
                    false => paths.push((place, entry.path())),
                }
            }
        }
        let about = |(place, path): &(String, PathBuf)| {
            let about = fs_err::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file);
            // What cannot be read does not have the content.
            let content =
                about.map(|about| Content { sha256: sha256_of(path).unwrap_or_default(), size: about.len() });
            (clean(place, 400), content)
        };
        Ok(in_threads(&paths, &about).into_iter().collect())
    }

    /// Refuses a bundle that is not whole, before anything is installed.
    ///
    /// # Errors
    /// The faults, with exit code 1.
    pub fn whole(&self, lock: (&Lockfile, &[u8]), targets: &[&str]) -> Result<(), Failure> {
        let faults = self.faults(lock, targets)?;
        let Some(first) = faults.first() else { return Ok(()) };
        let more = match faults.len() - 1 {
            0 => String::new(),
            1 => "; 1 more".to_owned(),
            more => format!("; {more} more"),
        };
        let failure = Failure::input(format!("the bundle `{}` is not used: {first}{more}", self.shown));
        Err(Failure { exit: exit::NO, ..failure }
            .hint(format!("`envlock verify --bundle {}` lists all", shell_word(&self.shown))))
    }

    /// The command that makes it whole.
    pub fn command(&self) -> String {
        let signs = if self.folder.join(bundle::SIGNATURE).exists() { " --sign KEY" } else { "" };
        format!("envlock bundle -o {}{signs}", shell_word(&self.shown))
    }

    /// The lock that is in it, for a folder without one, and its text.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn own_lock(&self) -> Result<(Lockfile, Vec<u8>), Failure> {
        let text = files::read(&self.folder.join(bundle::LOCK))?
            .ok_or_else(|| unusable(Path::new(&self.shown), &format!("it has no `{}`", bundle::LOCK)))?;
        Ok((lockfile::parse(&text)?, text.into_bytes()))
    }

    /// The hashes of its files that a newer bundle does not have.
    pub fn superseded_by(&self, files: &[BundledFile]) -> BTreeSet<String> {
        let newer: BTreeSet<&str> = files.iter().map(|file| file.sha256.as_str()).collect();
        let own = self
            .manifest
            .files
            .iter()
            .map(|file| file.sha256.clone())
            .chain(self.manifest.superseded.clone());
        own.filter(|hash| !newer.contains(hash.as_str())).collect()
    }

    /// Where a file of it is.
    pub fn place(&self, file: &BundledFile) -> PathBuf {
        self.folder.join(file.place())
    }
}

/// Holds the manifest's signature against a public key.
fn check_signature(folder: &Path, text: &str, key: &Path) -> Result<(), String> {
    let read = |path: &Path| files::read(path).map_err(|error| error.message);
    let key_text =
        read(key)?.ok_or_else(|| format!("`{}` does not exist", clean(&key.display().to_string(), 200)))?;
    let key = signed::key(&key_text)?;
    let signature = read(&folder.join(bundle::SIGNATURE))?
        .ok_or_else(|| format!("it is not signed: it has no `{}`", bundle::SIGNATURE))?;
    let signature = minisign_verify::Signature::decode(&signature)
        .map_err(|error| format!("`{}` is no signature of minisign: {error}", bundle::SIGNATURE))?;
    key.verify(text.as_bytes(), &signature, false)
        .map_err(|error| format!("its manifest is not signed by this key: {error}"))
}
