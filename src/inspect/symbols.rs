//! Undefined symbols of a simulated process: those that no loaded library defines, so that an import fails.
//!
//! The loader searches the global scope and the library's own dependencies; here, every object of the process counts, and
//! a library that a package may load itself. So a symbol that is reported is defined nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use object::elf;

use super::elf::{Elf, Mapped};
use super::loader::Loader;
use super::symbol_table::{Symbols, Use};
use super::tree::FileTree;
use crate::model::native::{OwnLibrary, Stale, UndefinedSymbols};
use crate::model::process::Object;

/// Maximum number of undefined symbols of one library that are looked at.
const MAX_UNDEFINED: usize = 200_000;
/// Maximum number of symbols of one library that are searched for in the whole environment.
const MAX_UNRESOLVED: usize = 2_000;

/// The libraries of packages in the process with undefined symbols, in load order.
pub(super) fn undefined(
    tree: &dyn FileTree,
    loader: &Loader<'_>,
    own: &[OwnLibrary],
    threads: usize,
) -> Vec<UndefinedSymbols> {
    let objects = &loader.process().objects;
    let owner: BTreeMap<&Path, &OwnLibrary> = own.iter().map(|own| (own.file.as_path(), own)).collect();
    let mapped: Vec<Option<Mapped>> =
        objects.iter().map(|object| Mapped::open(tree, &object.file).ok()).collect();
    let parsed: Vec<Option<Elf<'_>>> =
        mapped.iter().map(|mapped| Elf::parse(mapped.as_ref()?.bytes()).ok()).collect();
    // Look-ups jump through the tables: read ahead, a cold disk does not fetch each page alone.
    for (mapped, elf) in mapped.iter().zip(&parsed) {
        let (Some(mapped), Some(elf)) = (mapped, elf) else { continue };
        elf.symbol_ranges().into_iter().for_each(|range| mapped.read_ahead(range));
    }
    let tables: Vec<Option<Symbols<'_, '_>>> = parsed.iter().map(|elf| elf.as_ref()?.symbols()).collect();
    // What a library without a readable table defines is unknown.
    let Some(tables) = tables.into_iter().collect::<Option<Vec<Symbols<'_, '_>>>>() else {
        return Vec::new();
    };
    // A missing library of a package may define what its other libraries require.
    let incomplete: BTreeSet<&str> = objects
        .iter()
        .enumerate()
        .filter_map(|(at, object)| Some((at, owner.get(object.file.as_path())?)))
        .filter(|(at, _)| loader.dependencies(*at).is_none())
        .map(|(_, library)| library.package.as_str())
        .collect();
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, UndefinedSymbols)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(object) = objects.get(at) else { return };
                    let Some(library) = owner.get(object.file.as_path()) else { continue };
                    let Some(needs) = loader.dependencies(at) else { continue };
                    if incomplete.contains(library.package.as_str()) {
                        continue;
                    }
                    let search = Search { tree, loader, tables: &tables, own, at, needs };
                    if let Some(undefined) = search.undefined(library)
                        && let Ok(mut found) = found.lock()
                    {
                        found.push((at, undefined));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, undefined)| undefined).collect()
}

/// The search for the symbols of one object.
struct Search<'a> {
    tree: &'a dyn FileTree,
    loader: &'a Loader<'a>,
    tables: &'a [Symbols<'a, 'a>],
    own: &'a [OwnLibrary],
    at: usize,
    /// The objects that it depends on.
    needs: Vec<usize>,
}

impl Search<'_> {
    fn undefined(&self, library: &OwnLibrary) -> Option<UndefinedSymbols> {
        let table = &self.tables[self.at];
        let mut last = self.at;
        let mut unresolved = Vec::new();
        for (index, name) in table.undefined().take(MAX_UNDEFINED) {
            let hash = elf::gnu_hash(name);
            // Most symbols come from where the one before came from.
            let near = [last, self.at, 0].into_iter().chain(self.needs.iter().copied());
            let found = near
                .chain(0..self.tables.len())
                .find(|at| self.tables[*at].defined_by_hash(name, hash).is_some());
            match found {
                Some(at) => last = at,
                None => unresolved.push((index, name)),
            }
        }
        if unresolved.is_empty() {
            return None;
        }
        unresolved.truncate(MAX_UNRESOLVED);
        let indexes = unresolved.iter().map(|(index, _)| *index).collect();
        let (uses, bound) = (table.uses(&indexes), table.bound_to(&indexes));
        // A library that is opened at run time may leave calls unresolved until the first one.
        let least = if self.loader.is_opened_lazily(self.at) { Use::Data } else { Use::Calls };
        unresolved.retain(|(index, _)| uses.get(index).is_some_and(|used| *used >= least));
        // A missing version of a symbol is reported for the whole library.
        let mut defined: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
        unresolved.retain(|(index, _)| {
            let Some((file, version)) = bound.get(index) else { return true };
            let versions = defined.entry(file).or_insert_with(|| self.versions_defined(file));
            versions.is_empty() || versions.iter().any(|known| known == version)
        });
        let elsewhere = self.defined_elsewhere(&unresolved);
        let mut stale = None;
        unresolved.retain(|(index, name)| match elsewhere.get(name) {
            Some(other) => {
                let is_stale = self.stale(other);
                stale = stale.take().or(is_stale.clone());
                // Otherwise the package may load the other library itself.
                is_stale.is_some()
            }
            None => {
                stale = stale
                    .take()
                    .or_else(|| self.stale_outside(bound.get(index).map(|(file, _)| file.as_str()), name));
                true
            }
        });
        let (_, first) = unresolved.first()?;
        Some(UndefinedSymbols {
            package: library.package.clone(),
            path: library.library.path.clone(),
            file: library.file.clone(),
            count: unresolved.len(),
            example: crate::model::text::clean(&String::from_utf8_lossy(first), 160),
            of_torch: unresolved.iter().any(|(_, name)| is_torch_symbol(name)),
            stale,
            imported: false,
        })
    }

    /// The loaded object of a name.
    fn object(&self, name: &str) -> Option<&Object> {
        let mut objects = self.loader.process().objects.iter();
        objects.find(|object| object.name == name || object.soname.as_deref() == Some(name))
    }

    /// The symbol versions that the loaded object of a name defines.
    fn versions_defined(&self, name: &str) -> Vec<Vec<u8>> {
        let Some(mapped) = self.object(name).and_then(|object| Mapped::open(self.tree, &object.file).ok())
        else {
            return Vec::new();
        };
        let defined = Elf::parse(mapped.bytes())
            .map(|elf| elf.versions_defined().into_iter().map(<[u8]>::to_vec).collect());
        defined.unwrap_or_default()
    }

    /// The libraries of the environment outside the process that define symbols of a list.
    fn defined_elsewhere<'n>(
        &self,
        names: &[(object::read::SymbolIndex, &'n [u8])],
    ) -> BTreeMap<&'n [u8], &OwnLibrary> {
        let mut out = BTreeMap::new();
        if names.is_empty() {
            return out;
        }
        let loaded: BTreeSet<&PathBuf> =
            self.loader.process().objects.iter().map(|object| &object.file).collect();
        for library in self.own.iter().filter(|library| !loaded.contains(&library.file)) {
            let Ok(mapped) = Mapped::open(self.tree, &library.file) else { continue };
            let Ok(elf) = Elf::parse(mapped.bytes()) else { continue };
            let Some(table) = elf.symbols() else { continue };
            for (_, name) in names {
                if !out.contains_key(name) && table.defined(name).is_some() {
                    out.insert(*name, library);
                }
            }
        }
        out
    }

    /// The loaded library outside the environment that has to define a symbol: by the symbol's version, or its namespace.
    fn stale_outside(&self, bound_to: Option<&str>, name: &[u8]) -> Option<Stale> {
        let file = bound_to.or_else(|| is_of_cpp(name).then_some("libstdc++.so.6"))?;
        self.outside(self.object(file)?, None)
    }

    /// The loaded library that stands in the place of another one of the environment.
    fn stale(&self, other: &OwnLibrary) -> Option<Stale> {
        self.outside(self.object(other.library.soname.as_deref()?)?, Some(other.file.clone()))
    }

    /// An object from outside the environment. With two packages that have a library of one name, the order of the imports
    /// decides which one is loaded.
    fn outside(&self, object: &Object, instead_of: Option<PathBuf>) -> Option<Stale> {
        let is_own = self.own.iter().any(|own| own.file == object.file);
        (!is_own).then(|| Stale { loaded: object.file.clone(), instead_of })
    }
}

/// What follows `_Z` in a mangled name, and the mark of virtual tables and type information: `_ZTVN5torch...`.
fn encoded(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b"_Z")?;
    let kinds = [&b"TV"[..], b"TI", b"TS", b"TT"];
    Some(kinds.iter().find_map(|kind| rest.strip_prefix(*kind)).unwrap_or(rest))
}

/// Whether a mangled name belongs to the C++ standard library: namespace `std`, which the ABI abbreviates, or `__cxxabiv1`.
fn is_of_cpp(name: &[u8]) -> bool {
    let Some(rest) = encoded(name) else { return name.starts_with(b"__cxa_") };
    let rest = rest.strip_prefix(b"N").unwrap_or(rest);
    let rest = rest.strip_prefix(b"K").unwrap_or(rest);
    [&b"St"[..], b"Sa", b"Ss", b"Sb", b"Si", b"So", b"Sd", b"10__cxxabiv1"]
        .iter()
        .any(|part| rest.starts_with(part))
}

/// Whether a mangled name belongs to torch's namespaces: `c10`, `at`, `torch`, `caffe2`.
pub(super) fn is_torch_symbol(name: &[u8]) -> bool {
    let Some(rest) = encoded(name) else { return false };
    // In a nested name, what qualifies the method comes first: `NKR3c10...` is `const &`.
    let nested = rest.strip_prefix(b"N").map(|rest| {
        let qualifiers = rest.iter().take_while(|c| b"rVKRO".contains(c)).count();
        &rest[qualifiers..]
    });
    let spelled: [&[u8]; 4] = [b"3c10", b"2at", b"5torch", b"6caffe2"];
    let is_nested = nested.is_some_and(|rest| spelled.iter().any(|part| rest.starts_with(part)));
    // The C++ code of torch's Python types has no namespace: `_Z16THPVariable_WrapN2at10TensorBaseE`.
    let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
    is_nested || (digits > 0 && rest[digits..].starts_with(b"THP"))
}

#[cfg(test)]
mod tests {
    use super::is_torch_symbol;

    #[test]
    fn symbols_of_torch() {
        for (name, expected) in [
            ("_ZN3c105known4callEv", true),
            ("_ZNK2at6Tensor3addERKS0_", true),
            ("_ZTVN5torch8autograd4NodeE", true),
            ("_ZNKR3c108ArrayRef3getEv", true),
            ("_ZNO3c108optional5valueEv", true),
            ("_ZTIN3c1015TensorImplE", true),
            ("_Z16THPVariable_WrapN2at10TensorBaseE", true),
            ("_Z4mineN2at6TensorE", false),
            ("_ZNSt6vectorIN2at6TensorEE4sizeEv", false),
            ("memcpy", false),
            ("_Z", false),
        ] {
            assert_eq!(is_torch_symbol(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn symbols_of_the_standard_library() {
        for (name, expected) in [
            ("_ZSt17__throw_bad_allocv", true),
            ("_ZNKSt10filesystem7__cxx114path5_List5beginEv", true),
            ("_ZTTNSt7__cxx1119basic_istringstreamIwSt11char_traitsIwESaIwEEE", true),
            ("_ZNK10__cxxabiv120__si_class_type_info11__do_upcastE", true),
            ("_ZNSaIcEC1Ev", true),
            ("__cxa_throw", true),
            ("_ZN3c105known4callEv", false),
            ("malloc", false),
        ] {
            assert_eq!(super::is_of_cpp(name.as_bytes()), expected, "{name}");
        }
    }
}
