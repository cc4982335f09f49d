//! The members of a tar archive, read as a stream under limits: the library's own reader would hold a long name of any size
//! in memory.

use std::io::{Error, Read, Result, Seek};

use tar::{EntryType, Header, PaxExtensions};

/// Maximum size of a long name or of the pax records of a member, in bytes.
const MAX_NAME: u64 = 1 << 20;
/// Size of a block, in bytes: headers are one, contents are padded to it.
const BLOCK: u64 = 512;

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symlink, with its target as written.
    Symlink(Vec<u8>),
    /// A second name of an earlier file, with that file's path.
    HardLink(Vec<u8>),
    /// A file of which only the parts that are not zeros are in the archive, in pax form; its whole size in bytes.
    Sparse(u64),
    /// A device or a pipe.
    Other,
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path as written.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Size of its content, in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was changed, in seconds since 1970.
    pub modified: u64,
}

/// Reads the members of an archive one after the other.
pub struct Members<R> {
    archive: R,
    /// Bytes of the present member that were not read.
    left: u64,
    /// Zeros after its content.
    padding: u64,
}

impl<R: Read> Members<R> {
    /// The members of an archive.
    pub fn new(archive: R) -> Members<R> {
        Members { archive, left: 0, padding: 0 }
    }

    /// The next member; `None` at the end of the archive. What was not read of the one before is skipped.
    ///
    /// # Errors
    /// When the archive cannot be read, is cut off or damaged.
    pub fn member(&mut self) -> Result<Option<Member>> {
        let (mut long_path, mut long_link, mut pax) = (None, None, Pax::default());
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size().map_err(|e| damaged(&format!("a size is not a number: {e}")))?;
            let kind = header.entry_type();
            self.enter(size);
            match kind {
                EntryType::GNULongName => long_path = Some(self.name()?),
                EntryType::GNULongLink => long_link = Some(self.name()?),
                EntryType::XHeader => pax = Pax::of(&self.records()?)?,
                // Holds for all members, of which no writer of layers or packages says anything that is read here.
                EntryType::XGlobalHeader => {}
                _ => {
                    let path = pax.sparse_path.take().or(pax.path.take()).or(long_path.take());
                    let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
                    let link = pax.link.take().or(long_link.take());
                    let link = link.or_else(|| header.link_name_bytes().map(|bytes| bytes.into_owned()));
                    let kind = match kind {
                        _ if pax.is_sparse => Kind::Sparse(pax.real_size.unwrap_or(size)),
                        // Old archives mark a folder by a slash alone.
                        EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => Kind::Folder,
                        EntryType::Regular | EntryType::Continuous => Kind::File,
                        EntryType::Directory => Kind::Folder,
                        EntryType::Symlink => Kind::Symlink(link.unwrap_or_default()),
                        EntryType::Link => Kind::HardLink(link.unwrap_or_default()),
                        EntryType::GNUSparse => {
                            return Err(damaged("it has a sparse file of GNU tar's old form"));
                        }
                        _ => Kind::Other,
                    };
                    // Only files have content, whatever size the header of another member states.
                    let size = match kind {
                        Kind::File | Kind::Sparse(_) | Kind::Other => pax.size.unwrap_or(size),
                        _ => 0,
                    };
                    self.enter(size);
                    return Ok(Some(Member {
                        path,
                        kind,
                        size,
                        mode: header.mode().unwrap_or(0o644) & 0o7777,
                        modified: pax.modified.or(header.mtime().ok()).unwrap_or(0),
                    }));
                }
            }
        }
    }

    fn enter(&mut self, size: u64) {
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK;
    }

    /// The next header, after the rest of the present member.
    fn header(&mut self) -> Result<Option<Header>> {
        let rest = self.left.checked_add(self.padding).ok_or_else(|| damaged("a size is too large"))?;
        let skipped = std::io::copy(&mut (&mut self.archive).take(rest), &mut std::io::sink())?;
        if skipped < self.left {
            return Err(damaged("it is cut off"));
        }
        self.enter(0);
        let mut block = [0; BLOCK as usize];
        let mut filled = 0;
        while filled < block.len() {
            match self.archive.read(&mut block[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        // An archive ends with blocks of zeros; some writers leave them out.
        if filled == 0 || (filled == block.len() && block.iter().all(|byte| *byte == 0)) {
            return Ok(None);
        }
        if filled < block.len() {
            return Err(damaged("it is cut off"));
        }
        let header = Header::from_byte_slice(&block).clone();
        let field = 148..156;
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if field.contains(&at) { u32::from(b' ') } else { u32::from(*byte) })
            .sum();
        match header.cksum().is_ok_and(|stated| stated == sum) {
            true => Ok(Some(header)),
            false => Err(damaged("a header's checksum is wrong")),
        }
    }

    /// The content of the present member as a name.
    fn name(&mut self) -> Result<Vec<u8>> {
        let mut name = self.records()?;
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
        Ok(name)
    }

    fn records(&mut self) -> Result<Vec<u8>> {
        if self.left > MAX_NAME {
            return Err(damaged("a name is longer than 1 MiB"));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The reader of the archive.
    pub fn into_inner(self) -> R {
        self.archive
    }
}

impl<R: Read + Seek> Members<R> {
    /// The next member, as [`Members::member`]; the rest of the one before is skipped without reading it.
    ///
    /// # Errors
    /// As [`Members::member`]. An archive that is cut off in the last member is not noticed.
    pub fn member_by_seeking(&mut self) -> Result<Option<Member>> {
        let rest = self.left.checked_add(self.padding).and_then(|rest| i64::try_from(rest).ok());
        self.archive.seek_relative(rest.ok_or_else(|| damaged("a size is too large"))?)?;
        self.enter(0);
        self.member()
    }

    /// Where the archive's reader is: after [`Members::member`], where the content of the member begins, in bytes.
    ///
    /// # Errors
    /// When the reader does not know.
    pub fn position(&mut self) -> Result<u64> {
        self.archive.stream_position()
    }
}

/// Reads the content of the present member.
impl<R: Read> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        match self.archive.read(&mut buffer[..wanted])? {
            0 => Err(damaged("it is cut off")),
            n => {
                self.left -= n as u64;
                Ok(n)
            }
        }
    }
}

/// The pax records that say something about a member.
#[derive(Default)]
struct Pax {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    modified: Option<u64>,
    is_sparse: bool,
    /// The name and the size of a sparse file; its member has others.
    sparse_path: Option<Vec<u8>>,
    real_size: Option<u64>,
}

impl Pax {
    fn of(records: &[u8]) -> Result<Pax> {
        let mut out = Pax::default();
        for record in PaxExtensions::new(records) {
            let record = record.map_err(|e| damaged(&format!("its pax records are not valid: {e}")))?;
            let value = record.value_bytes();
            let text = || std::str::from_utf8(value).ok();
            match record.key_bytes() {
                b"path" => out.path = Some(value.to_vec()),
                b"linkpath" => out.link = Some(value.to_vec()),
                b"size" => {
                    let size = text().and_then(|text| text.parse().ok());
                    out.size = Some(size.ok_or_else(|| damaged("a size is no number"))?);
                }
                b"mtime" => out.modified = text().and_then(|text| text.split('.').next()?.parse().ok()),
                key if key.starts_with(b"GNU.sparse.") => {
                    out.is_sparse = true;
                    match key {
                        b"GNU.sparse.name" => out.sparse_path = Some(value.to_vec()),
                        b"GNU.sparse.realsize" | b"GNU.sparse.size" => {
                            out.real_size = text().and_then(|text| text.parse().ok());
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Ok(out)
    }
}

fn damaged(why: &str) -> Error {
    Error::other(format!("the archive is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with long names, written by the library.
    fn archive() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut add = |path: &str, kind: EntryType, link: Option<&str>, data: &[u8]| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(data.len() as u64);
            header.set_mode(0o755);
            header.set_mtime(7);
            match link {
                Some(link) => builder.append_link(&mut header, path, link).unwrap(),
                None => builder.append_data(&mut header, path, data).unwrap(),
            }
        };
        add("a/", EntryType::Directory, None, b"");
        add(&format!("a/{}", "n".repeat(300)), EntryType::Regular, None, b"content");
        add("a/link", EntryType::Symlink, Some(&"t".repeat(300)), b"");
        add("a/hard", EntryType::Link, Some("a/x"), b"");
        add("a/last", EntryType::Regular, None, &[9; 1000]);
        builder.append_pax_extensions([("size", b"600".as_slice()), ("path", b"b/pax")]).unwrap();
        let mut header = Header::new_ustar();
        header.set_size(0);
        header.set_entry_type(EntryType::Regular);
        header.set_cksum();
        let mut out = builder.into_inner().unwrap();
        out.truncate(out.len() - 1024);
        out.extend_from_slice(header.as_bytes());
        out.extend([5; 1024]);
        out
    }

    #[test]
    fn names_of_any_length_and_sizes_of_pax() {
        let archive = [archive(), vec![0; 1024]].concat();
        let mut members = Members::new(archive.as_slice());
        let mut seen = Vec::new();
        while let Some(member) = members.member().unwrap() {
            let mut content = Vec::new();
            if member.size < 1000 {
                members.read_to_end(&mut content).unwrap();
            }
            seen.push((String::from_utf8(member.path).unwrap(), member.kind, content.len()));
        }
        let expected = [
            ("a/".to_owned(), Kind::Folder, 0),
            (format!("a/{}", "n".repeat(300)), Kind::File, 7),
            ("a/link".to_owned(), Kind::Symlink(vec![b't'; 300]), 0),
            ("a/hard".to_owned(), Kind::HardLink(b"a/x".to_vec()), 0),
            ("a/last".to_owned(), Kind::File, 0),
            ("b/pax".to_owned(), Kind::File, 600),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_damaged_archive_is_an_error() {
        let good = archive();
        for length in [100, 512 + 100, good.len() - 700] {
            let mut members = Members::new(&good[..length]);
            let mut result = members.member();
            while let Ok(Some(_)) = result {
                result = members.member();
            }
            assert!(result.is_err(), "{length}");
        }
        let mut other = good;
        other[3] ^= 1;
        assert!(Members::new(other.as_slice()).member().is_err());
    }
}
