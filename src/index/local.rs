//! Lists of files on this machine: a folder of wheels and source distributions, or a page of links in a file.
//!
//! They are read in each run, without the network and without the cache.

use std::path::Path;

use url::Url;

use super::simple;
use crate::model::metadata::CoreMetadata;
use crate::model::project::{RawFile, ReleaseFile};
use crate::model::text::clean;
use crate::sdist;

/// The maximum number of entries of a folder.
const MAX_ENTRIES: usize = 100_000;

/// The files of a folder, or of a page of links.
///
/// # Errors
/// What cannot be read, one phrase.
pub(super) fn files(place: &Path) -> Result<Vec<RawFile>, String> {
    if place.is_file() { links(place) } else { entries(place) }
}

/// The files of a page of links.
fn links(page: &Path) -> Result<Vec<RawFile>, String> {
    let size = fs_err::metadata(page).map_err(|e| e.to_string())?.len();
    if size > simple::MAX_PAGE {
        return Err(format!("`{}` is larger than {} MiB", shown(page), simple::MAX_PAGE >> 20));
    }
    let body = fs_err::read(page).map_err(|e| e.to_string())?;
    simple::parse(&body, "text/html", &address(page)?).map_err(|why| format!("`{}`: {why}", shown(page)))
}

/// The files of a folder.
fn entries(folder: &Path) -> Result<Vec<RawFile>, String> {
    let mut out = Vec::new();
    for (count, entry) in fs_err::read_dir(folder).map_err(|e| e.to_string())?.enumerate() {
        if count == MAX_ENTRIES {
            return Err(format!("`{}` has more than {MAX_ENTRIES} entries", shown(folder)));
        }
        let path = entry.map_err(|e| e.to_string())?.path();
        let Some(filename) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let metadata = match fs_err::metadata(&path) {
            Ok(metadata) => metadata,
            // A link to a file that is gone, or to itself, is no file.
            Err(_) if path.is_symlink() => continue,
            Err(error) => return Err(error.to_string()),
        };
        if metadata.is_file() {
            let (filename, url) = (filename.to_owned(), address(&path)?.into());
            out.push(RawFile { filename, url, size: Some(metadata.len()), ..RawFile::default() });
        }
    }
    Ok(out)
}

/// The metadata of a wheel or source distribution on this machine.
///
/// # Errors
/// Why it cannot be used, one phrase.
pub(super) fn metadata(path: &Path, file: &ReleaseFile) -> Result<CoreMetadata, String> {
    let opened = super::open_file(path).map_err(|e| e.to_string())?;
    match file.wheel() {
        Some(_) => super::metadata_of_wheel(opened, &file.filename),
        None => sdist::read_archive(opened, &file.filename)
            .map_err(|unreadable| unreadable.to_string())
            .and_then(super::sdists::metadata),
    }
}

fn address(path: &Path) -> Result<Url, String> {
    let invalid = || format!("`{}` is not an absolute path", shown(path));
    Url::from_file_path(path).map_err(|()| invalid())
}

fn shown(path: &Path) -> String {
    clean(&path.to_string_lossy(), 200)
}
