//! Parses ELF files: names, search paths, symbols, sections. Files are memory-mapped: only the pages with headers of
//! a large library are read.

use std::path::Path;

use memmap2::Advice;
use object::elf;
use object::read::SectionIndex;
use object::read::elf::{
    Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _,
};

use super::guarded_map::GuardedMap;
use super::symbol_table::Symbols;
use super::tree::{FileTree, Kind};

/// A 64-bit file of any byte order.
type Header = elf::FileHeader64<object::Endianness>;

/// Maximum number of sections; linkers create some dozens.
const MAX_SECTIONS: usize = 65_536;
/// Maximum number of `DT_NEEDED` entries.
const MAX_NEEDED: usize = 4_096;
/// Maximum number of symbol versions; libc has some hundred.
const MAX_VERSIONS: usize = 4_096;
/// Maximum length of a symbol version, in bytes.
const MAX_VERSION: usize = 256;
/// Maximum length of a name or search path, in bytes.
const MAX_STRING: usize = 64 << 10;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file could not be opened or mapped.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is not a 64-bit ELF file.
    #[error("not a 64-bit ELF file")]
    NotElf,
    /// It is for another architecture than the program.
    #[error("it is for {0}")]
    Machine(String),
    /// Its headers are invalid.
    #[error("damaged ELF file: {0}")]
    Damaged(&'static str),
}

/// A memory-mapped file.
pub(super) struct Mapped(GuardedMap);

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a regular file.
    pub fn open(tree: &dyn FileTree, path: &Path) -> Result<Mapped, ElfError> {
        let about = tree.about(path)?;
        if about.kind == Kind::File && about.size < 64 {
            return Err(ElfError::NotElf);
        }
        let map = GuardedMap::new(&tree.open(path)?)?;
        // Headers are far apart: readahead would load large parts of the file.
        let _ = map.advise(Advice::Random);
        Ok(Mapped(map))
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Starts to read a range of the file in the background.
    pub fn read_ahead(&self, range: (usize, usize)) {
        // Only an advice: without it, the pages are read when they are used.
        let _ = self.0.advise_range(Advice::WillNeed, range.0, range.1);
    }
}

/// A parsed ELF file.
pub(super) struct Elf<'d> {
    data: &'d [u8],
    endian: object::Endianness,
    header: &'d Header,
    sections: Option<SectionTable<'d, Header>>,
    /// SONAME, search paths and dependencies, from the dynamic segment.
    pub dynamic: Dynamic,
}

/// Whether what the loader maps lies in the file, and no zeros stand where section headers must be. A download that was
/// cut off and filled up, or a block of zeros from a full disk, leaves a file of the right size. The loader does not read
/// section headers: a packed library may have none, or state some outside the file.
#[expect(clippy::map_err_ignore, reason = "the parser has one reason to refuse: its own message says it")]
fn check_whole(
    header: &Header,
    endian: object::Endianness,
    data: &[u8],
    sections: Option<&SectionTable<'_, Header>>,
) -> Result<(), ElfError> {
    let segments = header
        .program_headers(endian, data)
        .map_err(|_| ElfError::Damaged("its program headers lie outside the file"))?;
    let is_outside = |segment: &elf::ProgramHeader64<object::Endianness>| {
        let end = segment.p_offset(endian).checked_add(segment.p_filesz(endian));
        segment.p_type(endian) == elf::PT_LOAD && end.is_none_or(|end| end > data.len() as u64)
    };
    if segments.iter().any(is_outside) {
        return Err(ElfError::Damaged("it is truncated: a segment lies outside the file"));
    }
    let names = header.shstrndx(endian, data).ok().filter(|index| *index != 0);
    let names = sections.zip(names).and_then(|(all, index)| all.section(SectionIndex(index as usize)).ok());
    if names.is_some_and(|names| names.sh_type(endian) == elf::SHT_NULL) {
        return Err(ElfError::Damaged("zeros stand where its section headers must be"));
    }
    Ok(())
}

fn is_short(name: &[u8]) -> bool {
    name.len() <= MAX_VERSION
}

/// Values of the dynamic segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dynamic {
    pub soname: Option<String>,
    pub needed: Vec<String>,
    pub rpath: Vec<String>,
    pub runpath: Vec<String>,
    /// `DF_1_NODEFLIB`: the default folders are not searched for its dependencies.
    pub no_default_folders: bool,
}

impl<'d> Elf<'d> {
    /// Parses a file's headers.
    ///
    /// # Errors
    /// See [`ElfError`].
    #[expect(clippy::map_err_ignore, reason = "the parser has one reason to refuse: its own message says it")]
    pub fn parse(data: &'d [u8]) -> Result<Elf<'d>, ElfError> {
        let header = Header::parse(data).map_err(|_| ElfError::NotElf)?;
        let endian = header.endian().map_err(|_| ElfError::NotElf)?;
        // A library without section headers can still be loaded.
        let sections = header.sections(endian, data).ok().filter(|s| !s.is_empty());
        check_whole(header, endian, data, sections.as_ref())?;
        if sections.as_ref().is_some_and(|s| s.len() > MAX_SECTIONS) {
            return Err(ElfError::Damaged("too many sections"));
        }
        let mut parsed = Elf { data, endian, header, sections, dynamic: Dynamic::default() };
        parsed.dynamic = parsed.read_dynamic()?;
        Ok(parsed)
    }

    /// The architecture, `x86_64`.
    pub fn machine(&self) -> String {
        match self.header.e_machine(self.endian) {
            elf::EM_X86_64 => "x86_64".to_owned(),
            elf::EM_AARCH64 => "aarch64".to_owned(),
            other => format!("ELF machine {}", other.0),
        }
    }

    /// The content of a section by name.
    pub fn section(&self, name: &str) -> Option<&'d [u8]> {
        let (_, section) = self.sections.as_ref()?.section_by_name(self.endian, name.as_bytes())?;
        section.data(self.endian, self.data).ok()
    }

    /// Where the tables for symbol look-ups are in the file: offsets and lengths.
    pub fn symbol_ranges(&self) -> Vec<(usize, usize)> {
        let wanted = [".gnu.hash", ".dynsym", ".dynstr"].iter();
        let ranges = wanted.filter_map(|name| {
            let (_, section) = self.sections.as_ref()?.section_by_name(self.endian, name.as_bytes())?;
            let (offset, size) = section.file_range(self.endian)?;
            Some((usize::try_from(offset).ok()?, usize::try_from(size).ok()?))
        });
        let in_file = |(offset, size): &(usize, usize)| {
            offset.checked_add(*size).is_some_and(|end| end <= self.data.len())
        };
        ranges.filter(in_file).collect()
    }

    /// Its dynamic symbols; `None` if it has no section headers or no valid table.
    pub fn symbols(&self) -> Option<Symbols<'_, 'd>> {
        let machine = self.header.e_machine(self.endian);
        Symbols::of(self.data, self.endian, machine, self.sections.as_ref()?)
    }

    /// The value of a defined data symbol of four bytes.
    pub fn number(&self, symbol: &str) -> Option<u32> {
        let symbol = self.symbols()?.defined(symbol.as_bytes())?;
        let bytes = self.at_address(symbol.st_value(self.endian), 4)?;
        Some(u32::from_le_bytes(*bytes.first_chunk()?))
    }

    /// The required symbol versions, by the file that has to define them. Weak versions are omitted: they may be
    /// missing.
    pub fn versions_needed(&self) -> Vec<(&'d [u8], Vec<&'d [u8]>)> {
        let mut out: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
        let Some(sections) = &self.sections else { return out };
        let Ok(Some((mut needs, link))) = sections.gnu_verneed(self.endian, self.data) else { return out };
        let Ok(strings) = sections.strings(self.endian, self.data, link) else { return out };
        // One limit for all entries: in a malicious file they may share chains.
        let mut left = MAX_VERSIONS;
        while let Ok(Some((need, mut names))) = needs.next() {
            let mut versions = Vec::new();
            while let (Ok(Some(name)), true) = (names.next(), left > 0) {
                left -= 1;
                let is_weak = name.vna_flags.get(self.endian) & elf::VER_FLG_WEAK != elf::VersionFlags(0);
                versions
                    .extend(name.name(self.endian, strings).ok().filter(|name| !is_weak && is_short(name)));
            }
            out.extend(
                need.file(self.endian, strings).ok().filter(|file| is_short(file)).map(|f| (f, versions)),
            );
            if left == 0 {
                break;
            }
            left -= 1;
        }
        out
    }

    /// The symbol versions that it defines.
    pub fn versions_defined(&self) -> Vec<&'d [u8]> {
        let mut out: Vec<&[u8]> = Vec::new();
        let Some(sections) = &self.sections else { return out };
        let Ok(Some((mut definitions, link))) = sections.gnu_verdef(self.endian, self.data) else {
            return out;
        };
        let Ok(strings) = sections.strings(self.endian, self.data, link) else { return out };
        for _ in 0..MAX_VERSIONS {
            let Ok(Some((_, mut names))) = definitions.next() else { break };
            // The first name is the version itself, the others are its parents.
            if let Ok(Some(name)) = names.next() {
                out.extend(name.name(self.endian, strings).ok().filter(|name| is_short(name)));
            }
        }
        out
    }

    /// Bytes by their virtual address.
    fn at_address(&self, address: u64, length: u64) -> Option<&'d [u8]> {
        let segments = self.header.program_headers(self.endian, self.data).ok()?;
        segments
            .iter()
            .filter(|s| s.p_type(self.endian) == elf::PT_LOAD)
            .find_map(|s| s.data_range(self.endian, self.data, address, length).ok().flatten())
    }

    #[expect(clippy::map_err_ignore, reason = "the parser has one reason to refuse: its own message says it")]
    fn read_dynamic(&self) -> Result<Dynamic, ElfError> {
        let damaged = |_| ElfError::Damaged("its program headers lie outside the file");
        let segments = self.header.program_headers(self.endian, self.data).map_err(damaged)?;
        let mut out = Dynamic::default();
        let Some(entries) = segments.iter().find_map(|s| s.dynamic(self.endian, self.data).transpose())
        else {
            return Ok(out);
        };
        let entries = entries.map_err(|_| ElfError::Damaged("its dynamic segment lies outside the file"))?;
        let value = |wanted| {
            let entry = entries.iter().find(|d| d.d_tag(self.endian) == wanted);
            entry.map(|d| d.d_val(self.endian))
        };
        let strings = value(elf::DT_STRTAB)
            .zip(value(elf::DT_STRSZ))
            .and_then(|(at, size)| self.at_address(at, size))
            .ok_or(ElfError::Damaged("its dynamic strings lie outside the file"))?;
        let text = |offset: u64| -> Option<String> {
            let tail = strings.get(usize::try_from(offset).ok()?..)?;
            let end = memchr::memchr(0, &tail[..tail.len().min(MAX_STRING)])?;
            Some(String::from_utf8_lossy(&tail[..end]).into_owned())
        };
        let path = |offset: u64| -> Vec<String> {
            let joined = text(offset).unwrap_or_default();
            joined.split(':').map(str::to_owned).collect()
        };
        for entry in entries {
            let value = entry.d_val(self.endian);
            match entry.d_tag(self.endian) {
                elf::DT_NULL => break,
                elf::DT_NEEDED if out.needed.len() < MAX_NEEDED => out.needed.extend(text(value)),
                elf::DT_SONAME => out.soname = text(value),
                elf::DT_RPATH => out.rpath = path(value),
                elf::DT_RUNPATH => out.runpath = path(value),
                elf::DT_FLAGS_1 => out.no_default_folders = value & elf::DF_1_NODEFLIB.0 != 0,
                _ => {}
            }
        }
        if !out.runpath.is_empty() {
            out.rpath.clear();
        }
        Ok(out)
    }
}
