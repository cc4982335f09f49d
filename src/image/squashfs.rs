//! Reads a SquashFS 4.0 file system: what Apptainer puts into SIF files, and Enroot's images.
//!
//! Sources: the kernel's Documentation/filesystems/squashfs.rst, and `squashfs_fs.h` of squashfs-tools 4.6. Written here, not
//! taken from backhand 0.25.5: that keeps every fragment in memory, follows folders by recursion, panics on forged lengths,
//! and reads Enroot's LZO by a library under the GPL.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Error, Read, Result};
use std::rc::Rc;

use bytes::Buf as _;

use super::Progress;
use super::layer::{bomb, unpacked_limit};
use super::merged::Layer;
use super::unpack::Compressor;
use crate::inspect::Opened;
use crate::model::text::clean;
use crate::tarball::{Kind, Member};

/// How the file begins, as a little-endian number.
pub(super) const MAGIC: [u8; 4] = *b"hsqs";
/// Length of the superblock, in bytes.
const SUPERBLOCK: usize = 96;
/// Maximum length of an unpacked block of metadata, in bytes.
const METADATA: usize = 8_192;
/// Sizes of a block of data, in bytes.
const BLOCKS: std::ops::RangeInclusive<u32> = 4_096..=1 << 20;
/// The bit of a metadata block's length, and of a data block's size, that says that it is not packed.
const METADATA_PLAIN: u16 = 1 << 15;
const DATA_PLAIN: u32 = 1 << 24;
/// In place of the number of a fragment: the file has none.
const NO_FRAGMENT: u32 = u32::MAX;
/// Entries of the fragment table in one block of metadata.
const FRAGMENTS_PER_BLOCK: u64 = 512;
/// A listing states three bytes more than it has, for `.` and `..`.
const DOTS: u64 = 3;
/// How many unpacked blocks of metadata and of fragments stay in memory: files beside each other share them.
const METADATA_KEPT: usize = 128;
const FRAGMENTS_KEPT: usize = 8;
/// Maximum length of a link's target, in bytes, as in Linux.
const MAX_TARGET: u32 = 4_096;
/// Maximum size of all files of a file system together, in bytes.
const MAX_SIZE: u64 = 1 << 50;

/// A SquashFS file system in a file.
pub(super) struct SquashFs<'p> {
    part: Opened,
    progress: &'p dyn Progress,
    /// How many bytes of data were read, and how many may still be unpacked.
    read: Cell<u64>,
    left: Cell<u64>,
    compressor: Compressor,
    block_size: u32,
    root: Reference,
    inodes: u64,
    folders: u64,
    fragment_table: u64,
    fragment_count: u32,
    metadata: RefCell<Recent<(Rc<Vec<u8>>, u64)>>,
    fragments: RefCell<Recent<Rc<Vec<u8>>>>,
}

/// Where an inode lies: the position of its block of metadata in the table of inodes, and its own in the unpacked block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Reference {
    block: u64,
    offset: u16,
}

/// A file, as far as it matters.
struct Inode {
    mode: u32,
    modified: u64,
    links: u32,
    what: What,
}

enum What {
    /// Where the listing lies in the table of folders, and its length in bytes.
    Folder(Reference, u64),
    File(Content),
    Link(Vec<u8>),
    Other,
}

/// Where the content of a file lies.
struct Content {
    size: u64,
    start: u64,
    /// The number of the fragment that its end lies in, and where.
    fragment: Option<(u32, u32)>,
    /// Where the sizes of its blocks begin: behind the inode.
    sizes: Position,
}

/// A position in metadata: that of the block in the file, and in the unpacked block.
#[derive(Clone, Copy)]
struct Position {
    block: u64,
    offset: usize,
}

impl<'p> SquashFs<'p> {
    /// The file system in a part of a file.
    ///
    /// # Errors
    /// When it is none, of another version, packed by what is not read, or its tables lie outside of it.
    pub fn new(part: Opened, progress: &'p dyn Progress) -> Result<SquashFs<'p>> {
        let mut bytes = [0; SUPERBLOCK];
        if part.size < SUPERBLOCK as u64 {
            return Err(damaged("it is cut off"));
        }
        read_at(&part.file, &mut bytes, part.start)?;
        let mut fields = &bytes[MAGIC.len()..];
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::other("it is no SquashFS file system"));
        }
        let (_inode_count, _modified) = (fields.try_get_u32_le()?, fields.try_get_u32_le()?);
        let (block_size, fragment_count) = (fields.try_get_u32_le()?, fields.try_get_u32_le()?);
        let (compressor, _log, _flags, _ids) = (
            fields.try_get_u16_le()?,
            fields.try_get_u16_le()?,
            fields.try_get_u16_le()?,
            fields.try_get_u16_le()?,
        );
        let version = (fields.try_get_u16_le()?, fields.try_get_u16_le()?);
        let root = Reference::of(fields.try_get_u64_le()?);
        let (used, _id_table, _attributes) =
            (fields.try_get_u64_le()?, fields.try_get_u64_le()?, fields.try_get_u64_le()?);
        let (inodes, folders, fragment_table) =
            (fields.try_get_u64_le()?, fields.try_get_u64_le()?, fields.try_get_u64_le()?);
        if version != (4, 0) {
            return Err(Error::other(format!("SquashFS {}.{} is not read, only 4.0", version.0, version.1)));
        }
        let Some(compressor) = Compressor::of(compressor) else {
            return Err(Error::other(format!("its compressor (number {compressor}) is not read")));
        };
        if !BLOCKS.contains(&block_size) || !block_size.is_power_of_two() {
            return Err(damaged("its block size is impossible"));
        }
        if used > part.size {
            return Err(damaged("it is cut off"));
        }
        let part = Opened { size: used, ..part };
        Ok(SquashFs {
            part,
            progress,
            read: Cell::new(0),
            left: Cell::new(unpacked_limit(used)),
            compressor,
            block_size,
            root,
            inodes,
            folders,
            fragment_table,
            fragment_count,
            metadata: RefCell::new(Recent::new(METADATA_KEPT)),
            fragments: RefCell::new(Recent::new(FRAGMENTS_KEPT)),
        })
    }

    /// Its size in the file, in bytes.
    pub fn size(&self) -> u64 {
        self.part.size
    }

    /// Applies every file as a member of a layer. Returns the size of their contents, in bytes.
    ///
    /// # Errors
    /// When it is damaged, a folder contains itself, or a limit is reached.
    pub fn apply(&self, layer: &mut Layer<'_>) -> Result<u64> {
        let mut total = 0_u64;
        let mut seen = HashSet::from([self.root]);
        // The first name of a file with several.
        let mut names: HashMap<Reference, Vec<u8>> = HashMap::new();
        let What::Folder(listing, length) = self.inode(self.root)?.what else {
            return Err(damaged("its root is no folder"));
        };
        let mut left = vec![(Vec::new(), listing, length)];
        while let Some((folder, listing, length)) = left.pop() {
            let from = left.len();
            self.entries(listing, length, &mut |name, reference| {
                let path = [folder.as_slice(), b"/", name].concat();
                let inode = self.inode(reference)?;
                let member = |kind, size| Member {
                    path: path.clone(),
                    kind,
                    size,
                    mode: inode.mode,
                    modified: inode.modified,
                };
                match inode.what {
                    What::Folder(listing, length) => {
                        if !seen.insert(reference) {
                            return Err(damaged("a folder is in two places"));
                        }
                        layer.apply(&member(Kind::Folder, 0), &mut std::io::empty())?;
                        left.push((path, listing, length));
                    }
                    What::File(content) => {
                        if inode.links > 1 {
                            if let Some(first) = names.get(&reference) {
                                let member = member(Kind::HardLink(first.clone()), 0);
                                return layer.apply(&member, &mut std::io::empty());
                            }
                            names.insert(reference, path.clone());
                        }
                        let size = content.size;
                        total = total
                            .checked_add(size)
                            .filter(|total| *total <= MAX_SIZE)
                            .ok_or_else(|| damaged("its files have more bytes than a disk"))?;
                        layer.apply(&member(Kind::File, size), &mut Blocks::of(self, content))?;
                    }
                    What::Link(target) => {
                        layer.apply(&member(Kind::Symlink(target), 0), &mut std::io::empty())?;
                    }
                    What::Other => layer.apply(&member(Kind::Other, 0), &mut std::io::empty())?,
                }
                Ok(())
            })?;
            // In the order that they were written in: their contents lie one behind the other.
            left[from..].reverse();
        }
        Ok(total)
    }

    /// Gives each entry of a listing: its name and its inode.
    fn entries(
        &self,
        listing: Reference,
        length: u64,
        give: &mut dyn FnMut(&[u8], Reference) -> Result<()>,
    ) -> Result<()> {
        let mut metadata = self.at(self.folders, listing)?.take(length.saturating_sub(DOTS));
        while metadata.limit() > 0 {
            let (count, block, _number) =
                (u32_of(&mut metadata)?, u32_of(&mut metadata)?, u32_of(&mut metadata)?);
            // A header is for one entry more than it states, and for 256 at most.
            if count >= 256 {
                return Err(damaged("a listing is impossible"));
            }
            for _ in 0..=count {
                let offset = u16_of(&mut metadata)?;
                let (_number, _kind) = (u16_of(&mut metadata)?, u16_of(&mut metadata)?);
                let mut name = vec![0; usize::from(u16_of(&mut metadata)?) + 1];
                metadata.read_exact(&mut name)?;
                if name.contains(&b'/')
                    || name.contains(&0)
                    || [b".".as_slice(), b".."].contains(&name.as_slice())
                {
                    let name = clean(&String::from_utf8_lossy(&name), 200);
                    return Err(damaged(&format!("`{name}` is no name of a file")));
                }
                give(&name, Reference { block: block.into(), offset })?;
            }
        }
        Ok(())
    }

    /// Reads an inode.
    fn inode(&self, reference: Reference) -> Result<Inode> {
        let mut metadata = self.at(self.inodes, reference)?;
        let m = &mut metadata;
        let (kind, mode, _user, _group) = (u16_of(m)?, u16_of(m)?, u16_of(m)?, u16_of(m)?);
        let (modified, _number) = (u32_of(m)?, u32_of(m)?);
        let mut links = 1;
        let what = match kind {
            1 => {
                let (block, _links) = (u32_of(m)?, u32_of(m)?);
                let (length, offset) = (u16_of(m)?, u16_of(m)?);
                What::Folder(Reference { block: block.into(), offset }, length.into())
            }
            8 => {
                let (_links, length, block, _parent) = (u32_of(m)?, u32_of(m)?, u32_of(m)?, u32_of(m)?);
                let (_indexes, offset) = (u16_of(m)?, u16_of(m)?);
                What::Folder(Reference { block: block.into(), offset }, length.into())
            }
            2 => {
                let (start, fragment, offset, size) = (u32_of(m)?, u32_of(m)?, u32_of(m)?, u32_of(m)?);
                let fragment = (fragment != NO_FRAGMENT).then_some((fragment, offset));
                let sizes = m.position();
                What::File(Content { size: size.into(), start: start.into(), fragment, sizes })
            }
            9 => {
                let (start, size, _holes) = (u64_of(m)?, u64_of(m)?, u64_of(m)?);
                links = u32_of(m)?;
                let (fragment, offset, _attributes) = (u32_of(m)?, u32_of(m)?, u32_of(m)?);
                let fragment = (fragment != NO_FRAGMENT).then_some((fragment, offset));
                What::File(Content { size, start, fragment, sizes: m.position() })
            }
            3 | 10 => {
                let (_links, length) = (u32_of(m)?, u32_of(m)?);
                if length > MAX_TARGET {
                    return Err(damaged(&format!("the target of a link is longer than {MAX_TARGET} bytes")));
                }
                let mut target = vec![0; length as usize];
                m.read_exact(&mut target)?;
                What::Link(target)
            }
            4..=7 | 11..=14 => What::Other,
            _ => return Err(damaged("an inode is of no known kind")),
        };
        Ok(Inode { mode: u32::from(mode) & 0o7777, modified: modified.into(), links, what })
    }

    /// A reader of metadata, of a table from a reference on.
    fn at(&self, table: u64, reference: Reference) -> Result<Metadata<'_, 'p>> {
        let block =
            table.checked_add(reference.block).ok_or_else(|| damaged("a table lies outside of it"))?;
        Metadata::at(self, Position { block, offset: reference.offset.into() })
    }

    /// The block of metadata at a position of the file, unpacked, and the position of the next.
    fn metadata(&self, at: u64) -> Result<(Rc<Vec<u8>>, u64)> {
        if let Some(known) = self.metadata.borrow_mut().get(at) {
            return Ok(known);
        }
        let mut length = [0; 2];
        self.read_at(at, &mut length)?;
        let length = u16::from_le_bytes(length);
        let mut bytes = vec![0; usize::from(length & !METADATA_PLAIN)];
        if bytes.is_empty() || bytes.len() > METADATA {
            return Err(damaged("a block of metadata is impossible"));
        }
        self.read_at(at + 2, &mut bytes)?;
        let next = at + 2 + bytes.len() as u64;
        let bytes = match length & METADATA_PLAIN == 0 {
            true => self.compressor.unpack(&bytes, METADATA)?,
            false => bytes,
        };
        let block = (Rc::new(bytes), next);
        self.metadata.borrow_mut().put(at, block.clone());
        Ok(block)
    }

    /// A fragment: a block that has the ends of several files.
    fn fragment(&self, number: u32) -> Result<Rc<Vec<u8>>> {
        if number >= self.fragment_count {
            return Err(damaged("a file has a fragment that does not exist"));
        }
        if let Some(known) = self.fragments.borrow_mut().get(number.into()) {
            return Ok(known);
        }
        let number = u64::from(number);
        let mut pointer = [0; 8];
        let pointers = self.fragment_table.checked_add(number / FRAGMENTS_PER_BLOCK * 8);
        self.read_at(pointers.ok_or_else(|| damaged("a table lies outside of it"))?, &mut pointer)?;
        let offset = usize::try_from(number % FRAGMENTS_PER_BLOCK * 16).unwrap_or(usize::MAX);
        let mut entry = Metadata::at(self, Position { block: u64::from_le_bytes(pointer), offset })?;
        let (start, size) = (u64_of(&mut entry)?, u32_of(&mut entry)?);
        let block = Rc::new(self.data(start, size, self.block_size as usize)?);
        // Files that use fragments in turn have them unpacked again.
        self.left.set(self.left.get().checked_sub(block.len() as u64).ok_or_else(bomb)?);
        self.fragments.borrow_mut().put(number, Rc::clone(&block));
        Ok(block)
    }

    /// A block of data: `size` as the tables state it, `limit` its unpacked size in bytes.
    fn data(&self, start: u64, size: u32, limit: usize) -> Result<Vec<u8>> {
        let length = size & !DATA_PLAIN;
        if length > self.block_size {
            return Err(damaged("a block is larger than the block size"));
        }
        let mut bytes = vec![0; length as usize];
        self.read_at(start, &mut bytes)?;
        self.read.set(self.read.get() + u64::from(length));
        self.progress.read(self.read.get());
        match size & DATA_PLAIN == 0 {
            true => self.compressor.unpack(&bytes, limit),
            false => Ok(bytes),
        }
    }

    /// Reads bytes at a position of the file system.
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        match at.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.part.size) {
            true => read_at(&self.part.file, bytes, self.part.start + at),
            false => Err(damaged("it refers to a place outside of it")),
        }
    }
}

impl Reference {
    /// A reference as it is written: 48 bits of the block, 16 of the offset.
    fn of(number: u64) -> Reference {
        Reference { block: (number >> 16) & 0xffff_ffff, offset: (number & 0xffff) as u16 }
    }
}

/// A reader of metadata, over the limits of its blocks.
struct Metadata<'s, 'p> {
    system: &'s SquashFs<'p>,
    at: u64,
    block: Rc<Vec<u8>>,
    next: u64,
    offset: usize,
}

impl<'s, 'p> Metadata<'s, 'p> {
    fn at(system: &'s SquashFs<'p>, position: Position) -> Result<Metadata<'s, 'p>> {
        let (block, next) = system.metadata(position.block)?;
        Ok(Metadata { system, at: position.block, block, next, offset: position.offset })
    }

    fn position(&self) -> Position {
        Position { block: self.at, offset: self.offset }
    }
}

impl Read for Metadata<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.offset >= self.block.len() {
            // An offset beyond its block leads nowhere; one at its end to the next.
            if self.offset > self.block.len() {
                return Err(damaged("a reference leads out of its block"));
            }
            (self.at, self.offset) = (self.next, 0);
            (self.block, self.next) = self.system.metadata(self.at)?;
        }
        let rest = &self.block[self.offset..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.offset += count;
        Ok(count)
    }
}

/// The content of a file, block by block.
struct Blocks<'s, 'p> {
    system: &'s SquashFs<'p>,
    content: Content,
    /// The sizes of its blocks that follow; read only when the content is.
    sizes: Option<Metadata<'s, 'p>>,
    /// Where the next block begins.
    start: u64,
    /// Bytes of the file that were not unpacked.
    left: u64,
    block: Vec<u8>,
    offset: usize,
}

impl<'s, 'p> Blocks<'s, 'p> {
    fn of(system: &'s SquashFs<'p>, content: Content) -> Blocks<'s, 'p> {
        let (start, left) = (content.start, content.size);
        Blocks { system, content, sizes: None, start, left, block: Vec::new(), offset: 0 }
    }

    /// Unpacks the next block.
    fn next(&mut self) -> Result<()> {
        let wanted = self.left.min(self.system.block_size.into());
        let length = usize::try_from(wanted).unwrap_or(usize::MAX);
        self.system.left.set(self.system.left.get().checked_sub(wanted).ok_or_else(bomb)?);
        let block = match self.content.fragment.filter(|_| wanted < self.system.block_size.into()) {
            Some((number, offset)) => {
                let fragment = self.system.fragment(number)?;
                let from = offset as usize;
                let part = from.checked_add(length).and_then(|to| fragment.get(from..to));
                part.ok_or_else(|| damaged("a file ends outside of its fragment"))?.to_vec()
            }
            None => {
                let sizes = match &mut self.sizes {
                    Some(sizes) => sizes,
                    none => none.insert(Metadata::at(self.system, self.content.sizes)?),
                };
                match u32_of(sizes)? {
                    // A block of zeros is not written.
                    0 => vec![0; length],
                    size => {
                        let block = self.system.data(self.start, size, length)?;
                        self.start += u64::from(size & !DATA_PLAIN);
                        block
                    }
                }
            }
        };
        if block.len() != length {
            return Err(damaged("a block has another length than its file states"));
        }
        self.left -= wanted;
        (self.block, self.offset) = (block, 0);
        Ok(())
    }
}

impl Read for Blocks<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.offset == self.block.len() {
            if self.left == 0 {
                return Ok(0);
            }
            self.next()?;
        }
        let count = (self.block.len() - self.offset).min(buffer.len());
        buffer[..count].copy_from_slice(&self.block[self.offset..self.offset + count]);
        self.offset += count;
        Ok(count)
    }
}

/// The blocks that were asked for last.
struct Recent<T> {
    blocks: Vec<(u64, T)>,
    limit: usize,
}

impl<T: Clone> Recent<T> {
    fn new(limit: usize) -> Recent<T> {
        Recent { blocks: Vec::new(), limit }
    }

    fn get(&mut self, key: u64) -> Option<T> {
        let at = self.blocks.iter().rposition(|(known, _)| *known == key)?;
        // The one asked for last is the last.
        self.blocks[at..].rotate_left(1);
        self.blocks.last().map(|(_, block)| block.clone())
    }

    fn put(&mut self, key: u64, block: T) {
        if self.blocks.len() >= self.limit {
            self.blocks.remove(0);
        }
        self.blocks.push((key, block));
    }
}

fn u16_of(reader: &mut impl Read) -> Result<u16> {
    bytes(reader).map(u16::from_le_bytes)
}

fn u32_of(reader: &mut impl Read) -> Result<u32> {
    bytes(reader).map(u32::from_le_bytes)
}

fn u64_of(reader: &mut impl Read) -> Result<u64> {
    bytes(reader).map(u64::from_le_bytes)
}

fn bytes<const N: usize>(reader: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Fills a buffer from a position of a file, whose own position other readers may share.
pub(super) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
    }
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < bytes.len() {
            match std::os::windows::fs::FileExt::seek_read(file, &mut bytes[done..], at + done as u64)? {
                0 => return Err(Error::from(std::io::ErrorKind::UnexpectedEof)),
                count => done += count,
            }
        }
        Ok(())
    }
}

fn damaged(why: &str) -> Error {
    Error::other(format!("the file system is damaged: {why}"))
}
