//! A bundle as one archive, `NAME.tar`: not compressed, because wheels are.

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Component, Path};

use tempfile::TempDir;

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

/// Unpacks an archive into a folder of its own. Its members are regular files with plain relative paths: anything else is
/// refused, before something is written for it.
pub(super) fn unpack(archive: &Path) -> Result<TempDir, String> {
    let told = |error: std::io::Error| error.to_string();
    let folder = tempfile::Builder::new().prefix("envlock-bundle-").tempdir().map_err(told)?;
    let file = fs_err::File::open(archive).map_err(told)?;
    if !file.metadata().map_err(told)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut members = tar::Archive::new(BufReader::new(file));
    for member in members.entries().map_err(told)? {
        let mut member = member.map_err(|error| format!("it is no tar archive, or not whole: {error}"))?;
        let path = member.path().map_err(told)?.into_owned();
        if member.header().entry_type().is_dir() {
            continue;
        }
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !member.header().entry_type().is_file() || !is_plain {
            let shown = clean(&path.display().to_string(), 200);
            return Err(format!("its member `{shown}` is not a file with a plain path"));
        }
        let place = folder.path().join(&path);
        if let Some(parent) = place.parent() {
            fs_err::create_dir_all(parent).map_err(told)?;
        }
        // A second member of one name would replace the first.
        let mut out = fs_err::File::create_new(&place).map_err(told)?;
        std::io::copy(&mut member, &mut out).map_err(told)?;
    }
    // Behind the end there is padding: anything else is in no member, and nobody would look at it.
    let mut rest = members.into_inner();
    loop {
        let bytes = rest.fill_buf().map_err(told)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Err("something follows the end of the archive".to_owned());
        }
        match bytes.len() {
            0 => return Ok(folder),
            length => rest.consume(length),
        }
    }
}
