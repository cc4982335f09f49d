//! Reads the shared libraries in a wheel. Each is unpacked to a temporary file, one at a time: a library has headers
//! at both ends, and compressed data can only be read forwards.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::elf::{Elf, ElfError, Mapped};
use super::library::{Detail, of_elf};
use super::tree::ThisMachine;
use crate::model::library::Library;
use crate::model::text::clean;

/// Maximum size of a library in a wheel, in bytes; torch's largest has 1.2 GB.
const MAX_LIBRARY: u64 = 8 << 30;
/// Maximum total size of a wheel's libraries, in bytes.
const MAX_TOTAL: u64 = 64 << 30;
/// Maximum compression ratio; wheels reach 8. A higher ratio is treated as a zip bomb.
const MAX_RATIO: u64 = 200;
/// The compression ratio is not checked up to this size, in bytes.
const RATIO_UNCHECKED_UP_TO: u64 = 64 << 20;
/// Maximum number of files in a wheel; torch has 14,000.
const MAX_MEMBERS: usize = 500_000;

/// Why a wheel could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// The wheel could not be read, or a temporary file could not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not a valid wheel.
    #[error("not a valid wheel: {0}")]
    NotAWheel(String),
    /// A file in the wheel is invalid.
    #[error("`{member}` {why}")]
    Member {
        /// The file inside the wheel.
        member: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file in the wheel could not be unpacked: the server stopped, the compressed data are damaged, or the disk is full.
    #[error("`{member}` cannot be unpacked: {cause}")]
    Unpack {
        /// The file inside the wheel.
        member: String,
        /// What the reader, the decompressor or the disk said.
        cause: String,
    },
}

/// Reads the shared libraries of a wheel for which `wanted` returns true. `progress` receives the unpacked and total
/// bytes.
///
/// # Errors
/// See [`WheelError`]. Files that have a library's name but are not ELF files are skipped.
pub fn wheel<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    wanted: &dyn Fn(&str) -> bool,
    detail: Detail,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Library>, WheelError> {
    let mut out = Vec::new();
    each_library(archive, wanted, progress, &mut |name, elf| {
        let Ok(elf) = elf else { return };
        let path = Path::new(name);
        out.push(Library { path: name.to_owned(), ..of_elf(elf, path, path, detail) });
    })?;
    Ok(out)
}

/// Reads the shared libraries of a wheel for which `wanted` returns true, one after the other. `progress` as in [`wheel`].
///
/// # Errors
/// Those of [`wheel`].
pub(super) fn each_library<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    wanted: &dyn Fn(&str) -> bool,
    progress: &mut dyn FnMut(u64, u64),
    read: &mut dyn FnMut(&str, Result<&Elf<'_>, &ElfError>),
) -> Result<(), WheelError> {
    let not_a_wheel = |e: zip::result::ZipError| WheelError::NotAWheel(clean(&e.to_string(), 120));
    let mut libraries = Vec::new();
    for (index, name) in libraries_of(archive, wanted) {
        let member = archive.by_index_raw(index).map_err(not_a_wheel)?;
        libraries.push((index, member.size(), member.compressed_size(), clean(&name, 300)));
    }
    let total = libraries.iter().fold(0u64, |sum, (_, size, ..)| sum.saturating_add(*size));
    let packed_in_all = libraries.iter().fold(0u64, |sum, (_, _, packed, _)| sum.saturating_add(*packed));
    if total > MAX_TOTAL || (total > RATIO_UNCHECKED_UP_TO && total / packed_in_all.max(1) > MAX_RATIO) {
        return Err(WheelError::NotAWheel("the declared size of its libraries is too large".to_owned()));
    }
    let mut before = 0;
    for (index, size, packed, name) in libraries {
        let broken = |why| WheelError::Member { member: name.clone(), why };
        if size > MAX_LIBRARY || (size > RATIO_UNCHECKED_UP_TO && size / packed.max(1) > MAX_RATIO) {
            return Err(broken("declares a size that is too large"));
        }
        let mut member = archive.by_index(index).map_err(|e| unpack(&name, &e))?;
        let mut file = tempfile::NamedTempFile::new()?;
        // Skips files without the ELF magic.
        let mut magic = [0; 4];
        let is_elf = match member.read_exact(&mut magic) {
            Ok(()) => magic == *b"\x7fELF",
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(e) => return Err(unpack(&name, &e)),
        };
        if !is_elf {
            before += size;
            continue;
        }
        io::Write::write_all(&mut file, &magic)?;
        let written = copy(&mut member.take(size.saturating_sub(4).saturating_add(1)), &mut file, |done| {
            progress(before + done, total);
        });
        let written = written.map_err(|e| unpack(&name, &e))?;
        if written + 4 != size {
            return Err(broken("differs in size from the wheel's directory"));
        }
        before += size;
        file.seek(SeekFrom::Start(0))?;
        match Mapped::open(&ThisMachine, file.path()) {
            Ok(mapped) => read(&name, Elf::parse(mapped.bytes()).as_ref()),
            Err(ElfError::NotElf) => {}
            Err(why) => return Err(WheelError::Io(io::Error::other(why.to_string()))),
        }
    }
    Ok(())
}

fn unpack(member: &str, error: &dyn std::error::Error) -> WheelError {
    WheelError::Unpack { member: member.to_owned(), cause: clean(&error.to_string(), 160) }
}

/// Opens a wheel as a zip archive.
///
/// # Errors
/// When it is not a zip archive, or has too many files.
pub fn open_wheel<R: Read + Seek>(reader: R) -> Result<zip::ZipArchive<R>, WheelError> {
    let not_a_wheel = |e: zip::result::ZipError| match e {
        zip::result::ZipError::Io(error) => WheelError::Io(error),
        other => WheelError::NotAWheel(clean(&other.to_string(), 120)),
    };
    let archive = zip::ZipArchive::new(reader).map_err(not_a_wheel)?;
    if archive.len() > MAX_MEMBERS {
        return Err(WheelError::NotAWheel("it has too many files".to_owned()));
    }
    Ok(archive)
}

/// Index and name of the libraries for which `wanted` returns true. Reads only the zip directory.
fn libraries_of<R: Read + Seek>(
    archive: &zip::ZipArchive<R>,
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<(usize, String)> {
    let names = archive.file_names().enumerate();
    // Names that are not valid text are skipped.
    let known = names.filter_map(|(index, name)| Some((index, name.ok()?.into_owned())));
    known.filter(|(_, name)| is_library(name) && wanted(name)).collect()
}

/// The number of libraries for which `wanted` returns true, and their compressed size in bytes.
///
/// # Errors
/// When a member cannot be found.
pub fn size_of_libraries<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<(usize, u64), WheelError> {
    let found = libraries_of(archive, wanted);
    let mut packed = 0u64;
    for (index, name) in &found {
        let broken = |_| WheelError::Member { member: clean(name, 300), why: "cannot be found" };
        packed = packed.saturating_add(archive.by_index_raw(*index).map_err(broken)?.compressed_size());
    }
    Ok((found.len(), packed))
}

/// A text file in a wheel; `None` if the wheel does not have it.
///
/// # Errors
/// When it is larger than `limit` bytes, or cannot be unpacked.
pub fn text_of_wheel<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    name: &str,
    limit: u64,
) -> Result<Option<String>, WheelError> {
    let broken = |why| WheelError::Member { member: clean(name, 300), why };
    let member = match archive.by_name(name) {
        Ok(member) => member,
        Err(zip::result::ZipError::FileNotFound) => return Ok(None),
        Err(zip::result::ZipError::Io(error)) => return Err(WheelError::Io(error)),
        Err(error) => return Err(unpack(&clean(name, 300), &error)),
    };
    if member.size() > limit {
        return Err(broken("is too large"));
    }
    let mut bytes = Vec::new();
    member.take(limit).read_to_end(&mut bytes).map_err(|e| unpack(&clean(name, 300), &e))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The place, the name and the unpacked size of each file in a wheel, by the zip directory.
pub fn members_of_wheel<R: Read + Seek>(archive: &mut zip::ZipArchive<R>) -> Vec<(usize, String, u64)> {
    let names = archive.file_names().enumerate();
    let known: Vec<(usize, String)> =
        names.filter_map(|(index, name)| Some((index, name.ok()?.into_owned()))).collect();
    let sized = known.into_iter().filter_map(|(index, name)| {
        let size = archive.by_index_raw(index).ok()?.size();
        Some((index, name, size))
    });
    sized.collect()
}

/// The content of a file in a wheel, by its place.
///
/// # Errors
/// When it is larger than `limit` bytes, or cannot be unpacked.
pub fn bytes_of_wheel<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    index: usize,
    limit: u64,
) -> Result<Vec<u8>, WheelError> {
    let member = archive.by_index(index).map_err(|error| unpack("a file", &error))?;
    let mut bytes = Vec::new();
    let read = member.take(limit + 1).read_to_end(&mut bytes).map_err(|error| unpack("a file", &error))?;
    match read as u64 > limit {
        true => Err(WheelError::Member { member: "a file".to_owned(), why: "is too large" }),
        false => Ok(bytes),
    }
}

/// Copies in chunks and reports the bytes copied to `tell`.
fn copy(from: &mut impl Read, to: &mut impl io::Write, mut tell: impl FnMut(u64)) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return Ok(done);
        }
        to.write_all(&buffer[..n])?;
        done += n as u64;
        tell(done);
    }
}

/// Whether a file has the name of a shared library: `libx.so`, `libx.so.12`, `x.cpython-311-x86_64-linux-gnu.so`.
pub fn is_library(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.ends_with(".so")
        || file.split_once(".so.").is_some_and(|(_, tail)| tail.split('.').all(is_number_of_release))
}

/// Digits, and a letter where a project names releases so: `1`, `1k` of OpenSSL's 1.1.1k.
fn is_number_of_release(part: &str) -> bool {
    let digits = part.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(part);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn names_of_libraries() {
        for yes in [
            "libcrypto-5409cd36.so.1.1.1k",
            "torch/lib/libc10.so",
            "a/libx.so.12",
            "libx.so.12.8.1",
            "_C.cpython-311.so",
        ] {
            assert!(is_library(yes), "{yes}");
        }
        for no in ["a.so.py", "x.solution", "so", "libx.so.d/x.py", "a.py"] {
            assert!(!is_library(no), "{no}");
        }
    }

    fn all(file: std::fs::File) -> Result<Vec<Library>, WheelError> {
        wheel(&mut open_wheel(file)?, &|_| true, Detail::All, &mut |_, _| {})
    }

    fn write(members: &[(&str, &[u8])]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = zip::ZipWriter::new(&mut file);
        for (name, bytes) in members {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap();
        file
    }

    #[test]
    fn other_files_are_skipped_and_bombs_are_refused() {
        let bomb = vec![0; RATIO_UNCHECKED_UP_TO as usize + 1];
        let read = |members: &[(&str, &[u8])]| all(write(members).reopen().unwrap());
        assert_eq!(read(&[("a.py", b"x"), ("a.so", b"text"), ("b.so", b"\x7fELF")]).unwrap(), []);
        assert!(matches!(read(&[("../../b.so", &bomb)]), Err(WheelError::NotAWheel(_))));
        let mut none = tempfile::NamedTempFile::new().unwrap();
        none.write_all(b"not a zip").unwrap();
        assert!(matches!(all(none.reopen().unwrap()), Err(WheelError::NotAWheel(_))));
    }
}
