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
    /// Without one, the loader finds no symbol in the file.
    hash: Option<Hash<'d>>,
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
        let content = |kind| {
            let section = sections.iter().find(|section| section.sh_type(endian) == kind)?;
            section.data(endian, data).ok()
        };
        // A shift of 32 bits or more would overflow in the `object` crate; no linker writes one.
        let header = sections.gnu_hash_header(endian, data).ok()?;
        if header.is_some_and(|header| header.bloom_shift.get(endian) >= 32) {
            return None;
        }
        if let Some(header) = header {
            let (bloom, buckets) = (header.bloom_count.get(endian), header.bucket_count.get(endian));
            let values = content(elf::SHT_GNU_HASH)?.get(16 + 8 * bloom as usize + 4 * buckets as usize..)?;
            if has_long_chain(values, endian) {
                return None;
            }
        } else if content(elf::SHT_HASH).is_some_and(|table| has_long_system_v_chain(table, endian)) {
            return None;
        }
        let gnu = sections.gnu_hash(endian, data).ok()?.map(|(hash, _)| Hash::Gnu(hash));
        let system_v = || Some(Hash::SystemV(sections.hash(endian, data).ok()??.0));
        let hash = gnu.or_else(system_v);
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
        let found = match self.hash.as_ref()? {
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

    /// The names of its undefined global symbols, up to a number of bytes. The second value is `false` if there are more: in a
    /// malicious file each name is as long as the table of names.
    pub fn undefined_names(&self, limit: usize) -> (Vec<&'d [u8]>, bool) {
        let mut left = limit;
        let mut out = Vec::new();
        for (_, name) in self.undefined() {
            let Some(less) = left.checked_sub(name.len() + 1) else { return (out, false) };
            left = less;
            out.push(name);
        }
        (out, true)
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

    /// The file and the version that undefined symbols of a list are bound to: `libc.so.6`, `GLIBC_2.34`.
    pub fn bound_to(&self, of: &HashSet<SymbolIndex>) -> HashMap<SymbolIndex, (String, &'d [u8])> {
        let Ok(Some(versions)) = self.sections.versions(self.endian, self.data) else {
            return HashMap::new();
        };
        let bound = |symbol: &SymbolIndex| {
            let index = versions.version_index(self.endian, *symbol).index();
            let version = versions.version(index).ok()??;
            Some((*symbol, (String::from_utf8_lossy(version.file()?).into_owned(), version.name())))
        };
        of.iter().filter_map(bound).collect()
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

/// The same for a table of the System V ABI: numbers of buckets and chains, the first symbol of each bucket, and for each
/// symbol the next one.
fn has_long_system_v_chain(table: &[u8], endian: Endianness) -> bool {
    use object::endian::Endian as _;
    let words: Vec<usize> = table
        .chunks_exact(4)
        .map(|word| endian.read_u32([word[0], word[1], word[2], word[3]]) as usize)
        .collect();
    let [buckets, count, rest @ ..] = words.as_slice() else { return false };
    let Some((buckets, chains)) = rest.split_at_checked(*buckets) else { return true };
    let chains = &chains[..chains.len().min(*count)];
    // Each symbol is in one chain, so walking all of them takes one step for each symbol.
    let mut left = chains.len();
    for first in buckets {
        let next = |at: &usize| chains.get(*at).copied().filter(|next| *next != 0);
        let length = std::iter::successors(Some(*first), next).take(MAX_CHAIN.min(left) + 2).count();
        if length > MAX_CHAIN || length > left + 1 {
            return true;
        }
        left -= length - 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_v_chains() {
        let table = |buckets: &[u32], chains: &[u32]| -> Vec<u8> {
            let head = [buckets.len() as u32, chains.len() as u32];
            head.iter().chain(buckets).chain(chains).flat_map(|word| word.to_le_bytes()).collect()
        };
        let long: Vec<u32> = (0..10_000u32).map(|at| (at + 1) % 10_000).collect();
        let is_long = |table: &[u8]| has_long_system_v_chain(table, Endianness::Little);
        assert!(!is_long(&table(&[1, 0], &[0, 2, 0])));
        assert!(is_long(&table(&[1], &long)));
        // A circle.
        assert!(is_long(&table(&[1], &[0, 2, 1])));
        assert!(is_long(&table(&[1, 1], &[])[..8]));
        assert!(!is_long(&[]));
    }

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
