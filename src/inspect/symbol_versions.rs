//! Symbol versions that the objects of a process require but the files that the loader takes do not define.
//!
//! The loader checks them at start. With an older libstdc++ before the newer one in the search path, it fails with
//! `version 'GLIBCXX_3.4.29' not found (required by ...)`.

use std::collections::{BTreeMap, BTreeSet};

use super::elf::{Elf, Mapped};
use super::tree::FileTree;
use crate::model::native::MissingVersion;
use crate::model::process::Process;

/// The missing symbol versions: one entry for each pair of requiring object and file.
pub(super) fn missing(tree: &dyn FileTree, process: &Process) -> Vec<MissingVersion> {
    let mut defined: BTreeMap<usize, Option<BTreeSet<Vec<u8>>>> = BTreeMap::new();
    let mut out = Vec::new();
    for (by, object) in process.objects.iter().enumerate() {
        let Ok(mapped) = Mapped::open(tree, &object.file) else { continue };
        let Ok(elf) = Elf::parse(mapped.bytes()) else { continue };
        for (file, versions) in elf.versions_needed() {
            let serves = |o: &crate::model::process::Object| {
                o.name.as_bytes() == file || o.soname.as_ref().is_some_and(|soname| soname.as_bytes() == file)
            };
            let Some(of) = process.objects.iter().position(serves) else { continue };
            let known = defined.entry(of).or_insert_with(|| {
                let mapped = Mapped::open(tree, &process.objects[of].file).ok()?;
                let defined = Elf::parse(mapped.bytes()).ok()?.versions_defined();
                Some(defined.into_iter().map(<[u8]>::to_vec).collect())
            });
            // For a library without versions, the loader only warns.
            let Some(known) = known.as_ref().filter(|known| !known.is_empty()) else { continue };
            let absent: Vec<&[u8]> =
                versions.into_iter().filter(|version| !known.contains(*version)).collect();
            if let Some(last) = absent.iter().max_by_key(|version| numbers(version)) {
                out.push(MissingVersion {
                    by,
                    of,
                    version: crate::model::text::clean(&String::from_utf8_lossy(last), 80),
                    count: absent.len(),
                });
            }
        }
    }
    out
}

/// The symbol versions that a library requires, by file, and those that it defines.
///
/// # Errors
/// When the bytes are not an ELF file that the loader accepts.
pub fn of_bytes(bytes: &[u8]) -> Result<(Vec<(String, Vec<String>)>, Vec<String>), super::ElfError> {
    let elf = Elf::parse(bytes)?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let needed = elf.versions_needed().into_iter();
    let needed = needed.map(|(file, names)| (text(file), names.into_iter().map(text).collect()));
    Ok((needed.collect(), elf.versions_defined().into_iter().map(text).collect()))
}

/// The sort key of a symbol version: `GLIBCXX_3.4.9` comes before `GLIBCXX_3.4.30`.
fn numbers(version: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(version);
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}
