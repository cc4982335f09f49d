//! A bundle as one archive, `NAME.tar`: not compressed, because wheels are.

use std::io::{BufRead as _, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

use crate::bundle::{self, Manifest, Role};
use crate::model::text::clean;
use crate::session::failure::Failure;

/// The first files of the archive, so that a reader has them before the large ones.
const HEAD: [&str; 3] = [bundle::MANIFEST, bundle::SIGNATURE, bundle::LOCK];

/// Packs a bundle's folder. The same content has the same bytes.
pub(super) fn pack(folder: &Path, manifest: &Manifest, archive: &Path) -> Result<(), Failure> {
    let part = super::with_suffix(archive, ".part");
    let mut builder = tar::Builder::new(BufWriter::new(fs_err::File::create(&part)?));
    let mut places: Vec<String> = manifest.files.iter().map(bundle::BundledFile::place).collect();
    places.sort();
    places.dedup();
    let programs: Vec<String> = manifest
        .files
        .iter()
        .filter(|file| file.role == Role::Program)
        .map(bundle::BundledFile::place)
        .collect();
    // What an older bundle has is not there, and not each bundle is signed.
    let is_there = |place: &String| folder.join(place).is_file();
    for place in HEAD.map(str::to_owned).into_iter().chain(places).filter(is_there) {
        let file = fs_err::File::open(folder.join(&place))?;
        let mut header = tar::Header::new_gnu();
        header.set_size(file.metadata()?.len());
        header.set_mode(if programs.contains(&place) { 0o755 } else { 0o644 });
        header.set_mtime(0);
        builder.append_data(&mut header, &place, file)?;
    }
    builder.into_inner()?.flush()?;
    fs_err::rename(&part, archive)?;
    Ok(())
}

/// Why an archive was not unpacked.
pub(super) enum NotUnpacked {
    /// It is no archive of a bundle, or not whole.
    Archive(String),
    /// What it has could not be written.
    Place(std::io::Error),
}

/// Unpacks an archive into an empty folder. Its members are regular files with plain relative paths: anything else is refused, before
/// something is written for it.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<(), NotUnpacked> {
    let told = |error: std::io::Error| NotUnpacked::Archive(error.to_string());
    let file = fs_err::File::open(archive).map_err(told)?;
    if !file.metadata().map_err(told)?.is_file() {
        return Err(NotUnpacked::Archive("it is not a regular file".to_owned()));
    }
    let not_whole =
        |error: std::io::Error| NotUnpacked::Archive(format!("it is no tar archive, or not whole: {error}"));
    let mut members = tar::Archive::new(BufReader::new(file));
    for member in members.entries().map_err(told)? {
        let mut member = member.map_err(not_whole)?;
        let path = member.path().map_err(told)?.into_owned();
        if member.header().entry_type().is_dir() {
            continue;
        }
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !member.header().entry_type().is_file() || !is_plain {
            let shown = clean(&path.display().to_string(), 200);
            return Err(NotUnpacked::Archive(format!(
                "its member `{shown}` is not a file with a plain path"
            )));
        }
        let place = folder.join(&path);
        // A second member of one name would replace the first.
        if fs_err::symlink_metadata(&place).is_ok() {
            let shown = clean(&path.display().to_string(), 200);
            return Err(NotUnpacked::Archive(format!("it has two members `{shown}`")));
        }
        if let Some(parent) = place.parent() {
            fs_err::create_dir_all(parent).map_err(NotUnpacked::Place)?;
        }
        let mut out = fs_err::File::create_new(&place).map_err(NotUnpacked::Place)?;
        copy(&mut member, &mut out).map_err(|error| match error {
            NotCopied::Read(error) => not_whole(error),
            NotCopied::Written(error) => NotUnpacked::Place(error),
        })?;
    }
    // Behind the end there is padding: anything else is in no member, and nobody would look at it.
    let mut rest = members.into_inner();
    loop {
        let bytes = rest.fill_buf().map_err(told)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(NotUnpacked::Archive("something follows the end of the archive".to_owned()));
        }
        match bytes.len() {
            0 => return Ok(()),
            length => rest.consume(length),
        }
    }
}

enum NotCopied {
    Read(std::io::Error),
    Written(std::io::Error),
}

/// Copies, and says which side failed.
fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<(), NotCopied> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer).map_err(NotCopied::Read)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length]).map_err(NotCopied::Written)?,
        }
    }
}

/// The folder of a bundle in what was unpacked: that itself, or the only folder in it, as `tar cf NAME.tar FOLDER` packs one.
pub(super) fn root(unpacked: &Path) -> PathBuf {
    let mut entries = fs_err::read_dir(unpacked).into_iter().flatten().filter_map(Result::ok);
    match (entries.next(), entries.next()) {
        (Some(only), None) if only.path().join(bundle::MANIFEST).is_file() => only.path(),
        _ => unpacked.to_owned(),
    }
}

/// What the end of a name says of a compression: wheels are compressed, and a bundle is not again.
const COMPRESSED: [&str; 9] = ["gz", "tgz", "bz2", "xz", "txz", "zst", "tzst", "zip", "7z"];

/// The archive that a bundle is packed into, if its place is one.
///
/// # Errors
/// When it is a compressed one, or a file that is no bundle would be replaced.
pub(super) fn archive_of(place: &Path) -> Result<Option<&Path>, Failure> {
    let end = place.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if COMPRESSED.contains(&end.as_str()) {
        let text = format!("a bundle is a folder or `NAME.tar`, and `{}` names neither", super::shown(place));
        return Err(Failure::usage(text).hint("leave out the compression: wheels are compressed already"));
    }
    let is_archive = end == "tar" && !place.is_dir();
    if place.is_file() && !(is_archive && is_bundle(place)) {
        let text = format!("`{}` is there, and is no bundle", super::shown(place));
        return Err(Failure::files(text).hint("name another place with `-o`, or remove the file"));
    }
    Ok(is_archive.then_some(place))
}

/// Lays out what an earlier archive has, so that it is not downloaded again. Files that an interrupted run left come first.
///
/// # Errors
/// When it cannot be written.
pub(super) fn unpack_earlier(archive: Option<&Path>, folder: &Path) -> Result<(), Failure> {
    let Some(archive) = archive.filter(|archive| archive.is_file()) else { return Ok(()) };
    if fs_err::read_dir(folder)?.next().is_some() {
        return Ok(());
    }
    match unpack(archive, folder) {
        // What there is of a damaged one is held against the hashes.
        Ok(()) | Err(NotUnpacked::Archive(_)) => Ok(()),
        Err(NotUnpacked::Place(error)) => Err(error.into()),
    }
}

/// Whether an archive begins with a manifest.
fn is_bundle(archive: &Path) -> bool {
    let Ok(file) = fs_err::File::open(archive) else { return false };
    let mut members = tar::Archive::new(BufReader::new(file));
    let first = members.entries().ok().and_then(|mut entries| entries.next()?.ok());
    first.is_some_and(|first| first.path().is_ok_and(|path| *path == *Path::new(bundle::MANIFEST)))
}
