//! The dynamic symbols of an ELF file, looked up as the dynamic loader does: by the GNU hash table.

use std::collections::{HashMap, HashSet};

use object::Endianness;
use object::elf;
use object::read::SymbolIndex;
use object::read::elf::{
    GnuHashTable, HashTable, Rela as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable, VersionTable,
};

/// A 64-bit file of any byte order.
type Header = elf::FileHeader64<Endianness>;
type Symbol = elf::Sym64<Endianness>;

/// Longest chain of a hash table; linkers make chains of a few symbols. In a malicious file, each look-up would read
/// the whole table.
const MAX_CHAIN: usize = 4_096;

/// The hash table of a file.
enum Hash<'d> {
    Gnu(GnuHashTable<'d, Header>),
    /// The table of the System V ABI, which older linkers write.
    SystemV(HashTable<'d, Header>),
}

/// The dynamic symbols of a file.
pub(super) struct Symbols<'s, 'd> {
    data: &'d [u8],
    endian: Endianness,
    machine: elf::Machine,
    sections: &'s SectionTable<'d, Header>,
    table: SymbolTable<'d, Header>,
    hash: Hash<'d>,
}

/// How an undefined symbol is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Only by calls through the procedure linkage table, which may be resolved at the first call.
    Calls,
    /// By data, which is resolved when the library is loaded.
    Data,
}

impl<'s, 'd> Symbols<'s, 'd> {
    /// The symbols of a parsed file; `None` if its tables are invalid.
    pub fn of(
        data: &'d [u8],
        endian: Endianness,
        machine: elf::Machine,
        sections: &'s SectionTable<'d, Header>,
    ) -> Option<Symbols<'s, 'd>> {
        let table = sections.symbols(endian, data, elf::SHT_DYNSYM).ok()?;
        // A shift of 32 bits or more would overflow in the `object` crate; no linker writes one.
        let header = sections.gnu_hash_header(endian, data).ok()?;
        if header.is_some_and(|header| header.bloom_shift.get(endian) >= 32) {
            return None;
        }
        let gnu = sections.gnu_hash(endian, data).ok()?.map(|(hash, _)| Hash::Gnu(hash));
        let system_v = || Some(Hash::SystemV(sections.hash(endian, data).ok()??.0));
        // The loader needs one of the two, so a library without both cannot be loaded.
        let hash = gnu.or_else(system_v)?;
        if let Some(header) = header {
            let (_, section) =
                sections.iter().enumerate().find(|(_, s)| s.sh_type(endian) == elf::SHT_GNU_HASH)?;
            let bytes = section.data(endian, data).ok()?;
            let start = 16
                + 8 * header.bloom_count.get(endian) as usize
                + 4 * header.bucket_count.get(endian) as usize;
            if has_long_chain(bytes.get(start..)?, endian) {
                return None;
            }
        }
        Some(Symbols { data, endian, machine, sections, table, hash })
    }

    /// The symbol of a name, if the file defines it.
    pub fn defined(&self, name: &[u8]) -> Option<&'d Symbol> {
        self.defined_by_hash(name, elf::gnu_hash(name))
    }

    /// As [`Symbols::defined`], with the GNU hash of the name.
    pub fn defined_by_hash(&self, name: &[u8], gnu: u32) -> Option<&'d Symbol> {
        let none = VersionTable::default();
        let found = match &self.hash {
            Hash::Gnu(table) => table.find(self.endian, name, gnu, None, &self.table, &none),
            Hash::SystemV(table) => table.find(self.endian, name, elf::hash(name), None, &self.table, &none),
        };
        let is_defined = |symbol: &&Symbol| symbol.st_shndx(self.endian) != elf::SHN_UNDEF;
        found.map(|(_, symbol)| symbol).filter(is_defined)
    }

    /// Its undefined global symbols. Weak symbols are omitted: they may stay undefined.
    pub fn undefined(&self) -> impl Iterator<Item = (SymbolIndex, &'d [u8])> {
        let wanted = |symbol: &Symbol| {
            symbol.st_shndx(self.endian) == elf::SHN_UNDEF && symbol.st_bind() == elf::STB_GLOBAL
        };
        let all = self.table.enumerate().filter(move |(_, symbol)| wanted(symbol));
        all.filter_map(|(index, symbol)| Some((index, self.name(symbol)?)))
            .filter(|(_, name)| !name.is_empty())
    }

    /// How its relocations use the symbols of a list. Symbols without a relocation are not used.
    pub fn uses(&self, of: &HashSet<SymbolIndex>) -> HashMap<SymbolIndex, Use> {
        let mut out: HashMap<SymbolIndex, Use> = HashMap::new();
        for section in self.sections.iter() {
            let Ok(Some((entries, _))) = section.rela(self.endian, self.data) else { continue };
            for entry in entries {
                let Some(symbol) = entry.symbol(self.endian, false).filter(|symbol| of.contains(symbol))
                else {
                    continue;
                };
                let kind = entry.r_type(self.endian, false);
                let is_call = match self.machine {
                    elf::EM_X86_64 => kind == elf::R_X86_64_JUMP_SLOT,
                    elf::EM_AARCH64 => kind == elf::R_AARCH64_JUMP_SLOT,
                    _ => false,
                };
                let used = if is_call { Use::Calls } else { Use::Data };
                let known = out.entry(symbol).or_insert(used);
                *known = (*known).max(used);
            }
        }
        out
    }

    /// The file and the version that an undefined symbol is bound to: `libcudart.so.12`, `libcudart.so.12`.
    pub fn bound_to(&self, symbol: SymbolIndex) -> Option<(String, Vec<u8>)> {
        let versions = self.sections.versions(self.endian, self.data).ok()??;
        let index = versions.version_index(self.endian, symbol);
        let version = versions.version(index.index()).ok()??;
        Some((String::from_utf8_lossy(version.file()?).into_owned(), version.name().to_vec()))
    }

    fn name(&self, symbol: &Symbol) -> Option<&'d [u8]> {
        symbol.name(self.endian, self.table.strings()).ok()
    }
}

/// Whether the values of a GNU hash table have a chain that no linker makes. The last value of a chain is odd.
fn has_long_chain(values: &[u8], endian: Endianness) -> bool {
    use object::endian::Endian as _;
    let mut length = 0;
    for value in values.chunks_exact(4) {
        let value = endian.read_u32([value[0], value[1], value[2], value[3]]);
        length = if value & 1 == 1 { 0 } else { length + 1 };
        if length > MAX_CHAIN {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains() {
        let values = |odd_at: usize, count: usize| -> Vec<u8> {
            (0..count).flat_map(|i| u32::from(i == odd_at).to_le_bytes()).collect()
        };
        assert!(!has_long_chain(&values(10, 100), Endianness::Little));
        assert!(has_long_chain(&values(10_000, 10_001), Endianness::Little));
        assert!(!has_long_chain(&[], Endianness::Little));
    }
}
