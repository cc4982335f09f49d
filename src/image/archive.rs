//! The files of an archive: those of a folder (an OCI layout), or the members of a tar archive, which is not extracted.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::ImageError;
use crate::model::text::clean;
use crate::tarball::{Kind, Members};

/// Maximum number of files of an archive: some for each layer.
const MAX_FILES: usize = 100_000;
/// Maximum number of links from one file to another.
const MAX_LINKS: usize = 8;
/// How gzip and zstd files begin.
const COMPRESSED: [&[u8]; 2] = [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd]];

/// An archive with an image.
pub(super) enum Archive {
    /// A folder.
    Folder(PathBuf),
    /// A tar file: where each member lies in it, and the links.
    Tar { path: PathBuf, files: HashMap<String, (u64, u64)>, links: HashMap<String, String> },
}

/// A file of an archive.
pub(super) struct Blob {
    pub reader: std::io::Take<File>,
    /// Its size, in bytes.
    pub size: u64,
}

impl Archive {
    /// Opens an archive.
    ///
    /// # Errors
    /// When it is neither a folder nor a tar file.
    pub fn open(path: &Path) -> Result<Archive, ImageError> {
        let shown = clean(&path.display().to_string(), 200);
        let no_image = |why: &str| ImageError::NotAnImage(shown.clone(), why.to_owned());
        let metadata =
            std::fs::metadata(path).map_err(|why| ImageError::File(shown.clone(), why.to_string()))?;
        if metadata.is_dir() {
            return Ok(Archive::Folder(path.to_path_buf()));
        }
        if !metadata.is_file() {
            return Err(no_image("it is neither a file nor a folder"));
        }
        let mut file = File::open(path).map_err(|why| ImageError::File(shown.clone(), why.to_string()))?;
        let mut start = Vec::new();
        let begun = (&mut file).take(4).read_to_end(&mut start).and_then(|_| file.seek(SeekFrom::Start(0)));
        begun.map_err(|why| ImageError::File(shown.clone(), why.to_string()))?;
        if COMPRESSED.iter().any(|magic| start.starts_with(magic)) {
            return Err(no_image("it is compressed as a whole; unpack it first with `gzip -d` or `zstd -d`"));
        }
        let (mut files, mut links) = (HashMap::new(), HashMap::new());
        let mut members = Members::new(file);
        loop {
            match members.member_by_seeking() {
                Ok(None) => break,
                Err(why) if files.is_empty() => return Err(no_image(&why.to_string())),
                Err(why) => return Err(ImageError::File(shown, why.to_string())),
                Ok(Some(_)) if files.len() + links.len() >= MAX_FILES => {
                    return Err(no_image(&format!("it has more than {MAX_FILES} files")));
                }
                Ok(Some(member)) => {
                    let name = plain(&String::from_utf8_lossy(&member.path));
                    match member.kind {
                        Kind::File => {
                            let start = members
                                .position()
                                .map_err(|why| ImageError::File(shown.clone(), why.to_string()))?;
                            files.insert(name, (start, member.size));
                        }
                        // `docker save` wrote a layer that two images share once.
                        Kind::Symlink(target) => {
                            let target = beside(&name, &String::from_utf8_lossy(&target));
                            links.insert(name, target);
                        }
                        Kind::HardLink(target) => {
                            links.insert(name, plain(&String::from_utf8_lossy(&target)));
                        }
                        Kind::Folder | Kind::Sparse(_) | Kind::Other => {}
                    }
                }
            }
        }
        Ok(Archive::Tar { path: path.to_path_buf(), files, links })
    }

    /// Whether it has a file.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Archive::Folder(folder) => inside(folder, name).is_some_and(|path| path.is_file()),
            Archive::Tar { files, .. } => self.target(name).is_some_and(|name| files.contains_key(name)),
        }
    }

    /// Opens a file of it.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn blob(&self, name: &str) -> Result<Blob, ImageError> {
        let failed = |why: std::io::Error| ImageError::File(clean(name, 200), why.to_string());
        let absent = || ImageError::File(clean(name, 200), "it is not in the archive".to_owned());
        match self {
            Archive::Folder(folder) => {
                let path = inside(folder, name).ok_or_else(absent)?;
                let metadata = std::fs::metadata(&path).map_err(|why| match why.kind() {
                    std::io::ErrorKind::NotFound => absent(),
                    _ => failed(why),
                })?;
                // Opening a named pipe would block.
                if !metadata.is_file() {
                    return Err(failed(std::io::Error::other("not a regular file")));
                }
                let size = metadata.len();
                Ok(Blob { reader: File::open(path).map_err(failed)?.take(size), size })
            }
            Archive::Tar { path, files, .. } => {
                let (start, size) = *self.target(name).and_then(|name| files.get(name)).ok_or_else(absent)?;
                let mut file = File::open(path).map_err(failed)?;
                file.seek(SeekFrom::Start(start)).map_err(failed)?;
                Ok(Blob { reader: file.take(size), size })
            }
        }
    }

    /// The bytes of a file that is at most `limit` bytes long.
    ///
    /// # Errors
    /// As [`Archive::blob`]; when it is larger, or cut off.
    pub fn bytes(&self, name: &str, limit: u64) -> Result<Vec<u8>, ImageError> {
        let failed = |why: &str| ImageError::File(clean(name, 200), why.to_owned());
        let mut blob = self.blob(name)?;
        if blob.size > limit {
            return Err(failed(&format!("it is larger than {} MiB", limit >> 20)));
        }
        let mut bytes = Vec::new();
        blob.reader.read_to_end(&mut bytes).map_err(|why| failed(&why.to_string()))?;
        match bytes.len() as u64 == blob.size {
            true => Ok(bytes),
            false => Err(failed("the archive is cut off")),
        }
    }

    /// The file that a name stands for, with links followed.
    fn target<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        let Archive::Tar { files, links, .. } = self else { return None };
        let mut name = name;
        for _ in 0..MAX_LINKS {
            if files.contains_key(name) {
                return Some(name);
            }
            name = links.get(name)?;
        }
        None
    }
}

/// A file of a folder; `None` if its name, or a link, leads out of the folder. Names stand in documents of the image.
fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let real = folder.join(plain(name)).canonicalize().ok()?;
    real.starts_with(folder.canonicalize().ok()?).then_some(real)
}

/// A path without `.` and empty parts, and with `..` resolved in the archive.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The path that a link in an archive leads to.
fn beside(link: &str, target: &str) -> String {
    match link.rsplit_once('/') {
        Some((folder, _)) if !target.starts_with('/') => plain(&format!("{folder}/{target}")),
        _ => plain(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_archive() {
        for (link, target, expected) in [
            ("a/layer.tar", "../b/layer.tar", "b/layer.tar"),
            ("a/layer.tar", "../../../../etc/passwd", "etc/passwd"),
            ("a/layer.tar", "/etc/passwd", "etc/passwd"),
            ("layer.tar", "./x//y", "x/y"),
        ] {
            assert_eq!(beside(link, target), expected, "{link} {target}");
        }
    }
}
