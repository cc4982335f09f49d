//! What the libraries of a wheel link outside the wheel: the names in their dynamic sections, and of torch the functions
//! that they use.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Read, Seek};

use cpp_demangle::{DemangleOptions, DemangleWrite, Symbol};

use super::alternatives;
use super::elf::Elf;
use super::symbols::is_of_torch;
use super::wheel::{WheelError, each_library};
use crate::model::linked::{self, Linked, LinkedLibrary, TorchSymbols};

/// Maximum number of undefined symbols of one library that are looked at.
const MAX_SYMBOLS: usize = 200_000;
/// Maximum length of a mangled name that is read, in bytes.
const MAX_MANGLED: usize = 4 << 10;
/// Maximum length of a name in full, in bytes: a few substitutions multiply it.
const MAX_DEMANGLED: usize = 64 << 10;

/// Reads what the libraries of a wheel link. `progress` receives the unpacked and total bytes.
///
/// # Errors
/// See [`WheelError`]. A file with the name of a library that the loader does not accept links nothing.
pub fn linked<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Linked, WheelError> {
    let mut libraries: Vec<LinkedLibrary> = Vec::new();
    let mut own: BTreeSet<String> = BTreeSet::new();
    each_library(archive, &|_| true, progress, &mut |name, elf| {
        own.extend(name.rsplit('/').next().map(str::to_owned));
        own.extend(elf.dynamic.soname.clone());
        libraries.push(LinkedLibrary {
            path: name.to_owned(),
            needed: elf.dynamic.needed.clone(),
            torch: symbols_of_torch(elf),
            one_of: None,
        });
    })?;
    let paths: Vec<String> = libraries.iter().map(|library| library.path.clone()).collect();
    let brings_torch = own.iter().any(|name| linked::is_of_torch(name));
    for (library, one_of) in libraries.iter_mut().zip(alternatives::groups(&paths)) {
        library.needed.retain(|name| !own.contains(name));
        library.torch = library.torch.filter(|_| !brings_torch);
        library.one_of = one_of;
    }
    Ok(Linked { libraries })
}

/// The functions of torch that a library uses, by the strings that they take.
fn symbols_of_torch(elf: &Elf<'_>) -> Option<TorchSymbols> {
    let table = elf.symbols()?;
    let mut out: Option<TorchSymbols> = None;
    for (_, name) in table.undefined().take(MAX_SYMBOLS).filter(|(_, name)| is_of_torch(name)) {
        let found = strings_of(name);
        let known = out.get_or_insert_default();
        known.old_abi |= found.old_abi;
        known.cxx11_abi |= found.cxx11_abi;
        if known.old_abi && known.cxx11_abi {
            break;
        }
    }
    out
}

/// The strings in a mangled name.
fn strings_of(mangled: &[u8]) -> TorchSymbols {
    let mut text = Bounded(String::new());
    // `DemangleOptions` limits the recursion.
    let symbol = Symbol::new(mangled.get(..MAX_MANGLED).unwrap_or(mangled));
    let is_whole = mangled.len() <= MAX_MANGLED
        && symbol.is_ok_and(|symbol| symbol.structured_demangle(&mut text, &DemangleOptions::new()).is_ok());
    if !is_whole {
        return TorchSymbols::default();
    }
    TorchSymbols {
        old_abi: ["std::string", "std::basic_string<"].iter().any(|name| text.0.contains(name)),
        cxx11_abi: ["std::__cxx11::", "[abi:cxx11]"].iter().any(|name| text.0.contains(name)),
    }
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
            (
                "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
                new,
            ),
            ("_ZN5torch3jit17parseSchemaOrNameERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb", new),
            ("_ZN3c1019ClassSs8_3Foo4callEv", none),
            ("_ZNK2at6Tensor3addERKS0_", none),
            ("_ZTIN3c1015TensorImplE", none),
            ("_ZN3c10", none),
            ("_ZN5torch4nameB5cxx11Ev", new),
        ] {
            let found = strings_of(name.as_bytes());
            assert_eq!((found.old_abi, found.cxx11_abi), expected, "{name}");
        }
    }

    /// Each level doubles the name in full.
    #[test]
    fn names_that_explode_are_left_out() {
        let mut name = "_ZN3c101fI1aS_".to_owned();
        for i in 0..60 {
            name.push_str(&format!("1bIS{i}_S{i}_E"));
        }
        name.push_str("EvE");
        let long = format!("_ZN3c10{}E", "1a".repeat(MAX_MANGLED));
        for name in [name, long, "_ZN3c10".repeat(5000), format!("_ZN3c10{}", "P".repeat(4000))] {
            let found = strings_of(name.as_bytes());
            assert!(!found.old_abi && !found.cxx11_abi);
        }
    }
}
