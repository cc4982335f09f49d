//! What the libraries of a wheel link outside the wheel: the names in their dynamic sections, and of torch the functions
//! that they use.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Seek};

use cpp_demangle::{DemangleOptions, DemangleWrite, Symbol};

use super::alternatives;
use super::elf::ElfError;
use super::symbols::is_torch_symbol;
use super::wheel_file::{WheelError, each_library};
use crate::model::linked::{Linked, LinkedLibrary, TorchSymbols, is_core_of_torch};
use crate::model::text::is_line;

/// Maximum size of the names of the undefined symbols of one library, in bytes: those of a large one take some MB.
const MAX_UNDEFINED: usize = 64 << 20;
/// Maximum length of the name of a library that another one needs, in bytes: that of a file name.
const MAX_NAME: usize = 255;
/// Maximum size of the names that are kept of a wheel, in bytes.
const MAX_NAMES: usize = 8 << 20;
/// Maximum length of a mangled name that is read, in bytes.
const MAX_MANGLED: usize = 4 << 10;
/// Maximum length of a name in full, in bytes: a few substitutions multiply it.
const MAX_DEMANGLED: usize = 16 << 10;
/// Maximum number of names that are demangled of one wheel. Only those are that may have a string of the old ABI, up to the first.
const MAX_DEMANGLED_NAMES: usize = 2_000;

/// Reads what the libraries of a wheel link. `progress` receives the unpacked and total bytes.
///
/// # Errors
/// See [`WheelError`]; also when one of its libraries is damaged, and when they need too many others.
pub fn linked<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Linked, WheelError> {
    let mut libraries: Vec<LinkedLibrary> = Vec::new();
    let mut own: BTreeSet<String> = BTreeSet::new();
    let (mut names_left, mut demangled_left) = (MAX_NAMES, MAX_DEMANGLED_NAMES);
    let (mut has_too_many, mut damaged) = (false, None);
    let is_name = |name: &&String| name.len() <= MAX_NAME && is_line(name);
    each_library(archive, &|_| true, progress, &mut |path, elf| {
        let elf = match elf {
            Ok(elf) => elf,
            // Of another kind, as a library for Windows or of 32 bits.
            Err(ElfError::NotElf) => return,
            Err(_) => return damaged = damaged.take().or(Some(path.to_owned())),
        };
        let needed: Vec<String> = elf.dynamic.needed.iter().filter(is_name).cloned().collect();
        let table = elf.symbols();
        let (used, is_whole) =
            table.as_ref().map_or((Vec::new(), true), |t| t.undefined_names(MAX_UNDEFINED));
        has_too_many |= !is_whole;
        let shims = shims(&used);
        let size = path.len() + needed.iter().chain(&shims).map(String::len).sum::<usize>();
        has_too_many |= size > names_left;
        names_left = names_left.saturating_sub(size);
        if has_too_many {
            return;
        }
        own.extend(path.rsplit('/').next().map(str::to_owned));
        own.extend(elf.dynamic.soname.iter().filter(is_name).cloned());
        let torch = symbols_of_torch(&used, &mut demangled_left);
        libraries.push(LinkedLibrary { path: path.to_owned(), needed, torch, shims, one_of: None });
    })?;
    if let Some(member) = damaged {
        return Err(WheelError::Member { member, why: "is damaged" });
    }
    if has_too_many || demangled_left == 0 {
        return Err(WheelError::NotAWheel("its libraries use too many names of others".to_owned()));
    }
    let paths: Vec<String> = libraries.iter().map(|library| library.path.clone()).collect();
    let brings_torch = own.iter().any(|name| is_core_of_torch(name));
    for (library, one_of) in libraries.iter_mut().zip(alternatives::groups(&paths)) {
        library.needed.retain(|name| !own.contains(name));
        if brings_torch {
            (library.torch, library.shims) = (None, Vec::new());
        }
        library.one_of = one_of;
    }
    Ok(Linked { libraries })
}

/// The functions of torch that a library uses, by the strings that they take. `left`: how many names may be demangled.
fn symbols_of_torch(used: &[&[u8]], left: &mut usize) -> Option<TorchSymbols> {
    let mut out: Option<TorchSymbols> = None;
    for name in used.iter().filter(|name| is_torch_symbol(name)) {
        let known = out.get_or_insert_default();
        known.cxx11_abi |= has_cxx11_string(name);
        if !known.old_abi && may_have_old_string(name) && *left > 0 {
            *left -= 1;
            known.old_abi = has_old_string(name);
        }
    }
    out
}

/// The functions of torch's stable C interface among the symbols that a library uses.
fn shims(used: &[&[u8]]) -> Vec<String> {
    let is_one = |name: &&&[u8]| {
        name.len() <= MAX_NAME && (name.starts_with(b"torch_") || name.starts_with(b"aoti_torch_"))
    };
    let names = used.iter().filter(is_one).filter_map(|name| std::str::from_utf8(name).ok());
    let mut out: Vec<String> = names.filter(|name| is_line(name)).map(str::to_owned).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Whether a mangled name has a string of the C++11 ABI: in namespace `std::__cxx11`, or by the tag of what is returned.
fn has_cxx11_string(mangled: &[u8]) -> bool {
    [&b"7__cxx11"[..], b"B5cxx11"].iter().any(|part| memchr::memmem::find(mangled, part).is_some())
}

/// Whether a mangled name has the letters that stand for `std::string` or `std::basic_string`; an identifier may have them too.
fn may_have_old_string(mangled: &[u8]) -> bool {
    [&b"Ss"[..], b"Sb"].iter().any(|part| memchr::memmem::find(mangled, part).is_some())
}

/// Whether a mangled name has a string as libstdc++ had them before C++11.
fn has_old_string(mangled: &[u8]) -> bool {
    let text = demangled(mangled).unwrap_or_default();
    ["std::string", "std::basic_string<"].iter().any(|name| text.contains(name))
}

/// A name in full; `None` if it is not one, or too long.
fn demangled(mangled: &[u8]) -> Option<String> {
    let mut text = Bounded(String::new());
    // `DemangleOptions` limits the recursion.
    let symbol = Symbol::new(Some(mangled).filter(|name| name.len() <= MAX_MANGLED)?).ok()?;
    symbol.structured_demangle(&mut text, &DemangleOptions::new()).ok()?;
    Some(text.0)
}

/// A text up to a limit.
struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_abi_of_strings() {
        let (old, new, none) = ((true, false), (false, true), (false, false));
        for (name, expected) in [
            ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", old),
            ("_ZN5torch3jit4callESbIwSt11char_traitsIwESaIwEE", old),
            (
                "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
                new,
            ),
            ("_ZN5torch3jit17parseSchemaOrNameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb", new),
            ("_ZN3c107ClassSs4callEv", none),
            ("_ZN2at5SbfooERKS0_", none),
            ("_ZNK2at6Tensor3addERKS0_", none),
            ("_ZTIN3c1015TensorImplE", none),
            ("_ZN3c10", none),
            ("_ZN5torch4nameB5cxx11Ev", new),
        ] {
            let name = name.as_bytes();
            let old = may_have_old_string(name) && has_old_string(name);
            assert_eq!((old, has_cxx11_string(name)), expected, "{}", String::from_utf8_lossy(name));
        }
    }

    /// Each level doubles the name in full.
    #[test]
    fn names_that_explode_are_left_out() {
        let mut levels = "_ZN3c101fE1a1pIS0_S0_E".to_owned();
        let mut lengths = Vec::new();
        for level in 1..12 {
            levels.push_str(&format!("S{level}_IS{level}_S{level}_E"));
            lengths.push(demangled(format!("{levels}Ss").as_bytes()).map(|text| text.len()));
        }
        // What can be told in full is within the limit, and what cannot is not told.
        assert!(lengths.iter().flatten().all(|length| *length <= MAX_DEMANGLED), "{lengths:?}");
        assert!(lengths[0].is_some() && lengths.last().unwrap().is_none(), "{lengths:?}");
        for name in [format!("_ZN3c10{}E", "1a".repeat(MAX_MANGLED)), format!("_ZN3c10{}", "P".repeat(4000))]
        {
            assert_eq!(demangled(name.as_bytes()), None);
        }
    }
}
