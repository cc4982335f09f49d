//! The Python in an archive, as python-build-standalone packs it: what it is, and unpacked for this user.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::model::platform::{Arch, Os, Platform};
use crate::session::data_folder;
use crate::session::failure::{Failure, FailureKind};

/// What an archive has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed {
    /// The series: 12 of Python 3.12.
    pub minor: u32,
    /// Where its program runs.
    pub platform: Platform,
}

/// Maximum size of all files of a Python, in bytes, and their number: an `install_only` archive has 100 MB and 5,000.
const MAX_BYTES: u64 = 4 << 30;
const MAX_FILES: usize = 200_000;

/// What an archive `NAME.tar.gz` has: the series of its `bin/python3.N`, and the system of that program.
pub(super) fn look(archive: &Path) -> Result<Packed, String> {
    let told = |error: std::io::Error| error.to_string();
    let file = fs_err::File::open(archive).map_err(told)?;
    let mut members = tar::Archive::new(GzDecoder::new(BufReader::new(file)).take(MAX_BYTES));
    for member in members.entries().map_err(told)?.take(MAX_FILES) {
        let mut member = member.map_err(told)?;
        let path = member.path().map_err(told)?.into_owned();
        let Some(minor) = series_of(&path).filter(|_| member.header().entry_type().is_file()) else {
            continue;
        };
        let mut head = [0; 20];
        member.read_exact(&mut head).map_err(told)?;
        let platform = platform_of(&head).ok_or_else(|| format!("`{}` is no program", path.display()))?;
        return Ok(Packed { minor, platform });
    }
    Err("it has no `bin/python3.N`".to_owned())
}

/// 12 for `python/bin/python3.12`.
fn series_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_prefix("python3.")?;
    let folder = path.parent()?.file_name()?;
    name.parse().ok().filter(|_| folder == "bin")
}

/// The platform of a program by its first 20 bytes: ELF's machine, or the processor of a Mach-O file.
fn platform_of(head: &[u8; 20]) -> Option<Platform> {
    const MACH_O_64: [u8; 4] = [0xcf, 0xfa, 0xed, 0xfe];
    let (os, arch) = match (&head[..4], head[18], head[4..8].try_into().map(u32::from_le_bytes)) {
        (b"\x7fELF", 62, _) => (Os::Linux, Arch::X86_64),
        (b"\x7fELF", 183, _) => (Os::Linux, Arch::Aarch64),
        (magic, _, Ok(0x0100_0007)) if magic == MACH_O_64 => (Os::Macos, Arch::X86_64),
        (magic, _, Ok(0x0100_000c)) if magic == MACH_O_64 => (Os::Macos, Arch::Aarch64),
        _ => return None,
    };
    Some(Platform { os, arch })
}

/// The interpreter of a bundled archive, unpacked once into the data folder: environments keep needing it.
///
/// # Errors
/// When the archive is damaged or no Python, or nothing can be written.
pub(crate) fn unpacked(archive: &Path, hash: &str, name: &str) -> Result<PathBuf, Failure> {
    let failed = |why: String| {
        Failure::new(FailureKind::Installer, format!("the bundle's Python `{name}` cannot be used: {why}"))
            .hint("`--python PATH` names another one")
    };
    let packed = look(archive).map_err(failed)?;
    let folder = data_folder::pythons()?;
    let place = folder.join(hash);
    if !place.is_dir() {
        let part = tempfile::Builder::new().prefix("part-").tempdir_in(&folder)?;
        unpack(archive, part.path()).map_err(failed)?;
        // Another process may have been faster.
        if fs_err::rename(part.path(), &place).is_err() && !place.is_dir() {
            return Err(failed(format!("`{}` cannot be written", place.display())));
        }
    }
    let program = Path::new("bin").join(format!("python3.{}", packed.minor));
    let folders = fs_err::read_dir(&place)?.filter_map(Result::ok).map(|entry| entry.path());
    let mut places = std::iter::once(place.clone()).chain(folders).map(|folder| folder.join(&program));
    places.find(|path| path.is_file()).ok_or_else(|| failed(format!("it has no `{}`", program.display())))
}

/// Unpacks an archive: files, folders and links, none of which leads out of the folder.
fn unpack(archive: &Path, folder: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let file = fs_err::File::open(archive).map_err(told)?;
    let mut members = tar::Archive::new(GzDecoder::new(BufReader::new(file)).take(MAX_BYTES));
    for (i, member) in members.entries().map_err(told)?.enumerate() {
        let mut member = member.map_err(told)?;
        let path = member.path().map_err(told)?.into_owned();
        let shown = || crate::model::text::clean(&path.display().to_string(), 200);
        let kind = member.header().entry_type();
        if i >= MAX_FILES || !(kind.is_file() || kind.is_dir() || kind.is_symlink() || kind.is_hard_link()) {
            return Err(format!("its member `{}` is neither a file nor a link, or one too many", shown()));
        }
        let target = member.link_name().map_err(told)?;
        if kind.is_symlink() && target.is_none_or(|target| leads_out(&path, &target)) {
            return Err(format!("its link `{}` leads out of it", shown()));
        }
        if !member.unpack_in(folder).map_err(told)? {
            return Err(format!("its member `{}` lies outside of it", shown()));
        }
    }
    Ok(())
}

/// Whether a link leads out of the folder that it is unpacked into.
fn leads_out(link: &Path, target: &Path) -> bool {
    use std::path::Component::{CurDir, Normal, ParentDir};
    let mut depth = link.components().filter(|part| matches!(part, Normal(_))).count().saturating_sub(1);
    for part in target.components() {
        match part {
            Normal(_) => depth += 1,
            ParentDir if depth > 0 => depth -= 1,
            CurDir => {}
            _ => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_by_its_place_and_its_program() {
        for (path, expected) in [
            ("python/bin/python3.12", Some(12)),
            ("bin/python3.9", Some(9)),
            ("python/bin/python3", None),
            ("python/bin/python3.13t", None),
            ("python/lib/python3.12", None),
            ("python3.12", None),
        ] {
            assert_eq!(series_of(Path::new(path)), expected, "{path}");
        }
        let elf = |machine: u8| {
            let mut head = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\0\0";
            head[18] = machine;
            platform_of(&head).map(|platform| platform.to_string())
        };
        assert_eq!(elf(62).as_deref(), Some("linux-x86_64"));
        assert_eq!(elf(183).as_deref(), Some("linux-aarch64"));
        assert_eq!(elf(8), None);
        let mac = *b"\xcf\xfa\xed\xfe\x0c\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(platform_of(&mac).unwrap().to_string(), "macos-arm64");
    }

    #[test]
    fn links_stay_in_their_folder() {
        for (link, target, out) in [
            ("python/bin/python3", "python3.12", false),
            ("python/lib/libpython3.so", "../bin/../lib/x", false),
            ("python/bin/x", "../../../etc/passwd", true),
            ("python/bin/x", "/etc/passwd", true),
            ("x", "..", true),
        ] {
            assert_eq!(leads_out(Path::new(link), Path::new(target)), out, "{link} -> {target}");
        }
    }
}
