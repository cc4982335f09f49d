//! Versions of symbols: what each object of a process asks for of the files that would serve it.
//!
//! The loader checks this before a single function runs: `version 'GLIBCXX_3.4.29' not found (required by ...)` is what
//! an older libstdc++ in front of the newer one ends with.

use std::collections::{BTreeMap, BTreeSet};

use super::elf::{Elf, Mapped};
use crate::model::native::MissingVersion;
use crate::model::process::Process;

/// What objects ask for and the file that was taken for the name does not define, an entry for each pair of them.
pub(super) fn missing(process: &Process) -> Vec<MissingVersion> {
    let mut defined: BTreeMap<usize, Option<BTreeSet<Vec<u8>>>> = BTreeMap::new();
    let mut out = Vec::new();
    for (by, object) in process.objects.iter().enumerate() {
        let Ok(mapped) = Mapped::open(&object.file) else { continue };
        let Ok(elf) = Elf::parse(mapped.bytes()) else { continue };
        for (file, versions) in elf.versions_needed() {
            let serves = |o: &crate::model::process::Object| {
                o.name.as_bytes() == file || o.soname.as_ref().is_some_and(|soname| soname.as_bytes() == file)
            };
            let Some(of) = process.objects.iter().position(serves) else { continue };
            let known = defined.entry(of).or_insert_with(|| {
                let mapped = Mapped::open(&process.objects[of].file).ok()?;
                let defined = Elf::parse(mapped.bytes()).ok()?.versions_defined();
                Some(defined.into_iter().map(<[u8]>::to_vec).collect())
            });
            // A library without any versions serves all: the loader says so and goes on.
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

/// The versions of symbols that a library asks for, by file, and those that it defines.
///
/// # Errors
/// When the bytes are no ELF file that a loader would take.
pub fn of_bytes(bytes: &[u8]) -> Result<(Vec<(String, Vec<String>)>, Vec<String>), super::ElfError> {
    let elf = Elf::parse(bytes)?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let needed = elf.versions_needed().into_iter();
    let needed = needed.map(|(file, names)| (text(file), names.into_iter().map(text).collect()));
    Ok((needed.collect(), elf.versions_defined().into_iter().map(text).collect()))
}

/// `GLIBCXX_3.4.9` comes before `GLIBCXX_3.4.30`.
fn numbers(version: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(version);
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}
