//! Parses `/etc/ld.so.cache`, the loader's index of system libraries (glibc's format 1.1).

use std::path::PathBuf;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// The old format; files of old glibc have both, the old one first.
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
/// Size of the new format's header, in bytes.
const HEADER: usize = 48;
/// Size of an entry in the new format, in bytes.
const ENTRY: usize = 24;
/// Maximum size of the cache that is read, in bytes.
pub(super) const MAX_CACHE: u64 = 64 << 20;

/// One entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The SONAME.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// The entries for an architecture, in the order of the file; empty if the file cannot be parsed.
pub(super) fn parse(bytes: &[u8], machine: &str) -> Vec<Entry> {
    // Low byte: glibc's ABI (3); next byte: the architecture.
    let wanted: u32 = match machine {
        "x86_64" => 0x0303,
        "aarch64" => 0x0a03,
        _ => return Vec::new(),
    };
    let Some(start) = start(bytes) else { return Vec::new() };
    let cache = &bytes[start..];
    let word = |at: usize| Some(u32::from_le_bytes(*cache.get(at..)?.first_chunk()?));
    let text = |at: u32| -> Option<String> {
        let tail = cache.get(at as usize..)?;
        let end = memchr::memchr(0, &tail[..tail.len().min(4096)])?;
        String::from_utf8(tail[..end].to_vec()).ok()
    };
    let count = word(MAGIC.len()).unwrap_or_default() as usize;
    let mut out = Vec::new();
    for i in 0..count.min(cache.len() / ENTRY) {
        let at = HEADER + i * ENTRY;
        let (Some(flags), Some(key), Some(value)) = (word(at), word(at + 4), word(at + 8)) else { break };
        if flags & 0xffff != wanted {
            continue;
        }
        if let (Some(name), Some(path)) = (text(key), text(value)) {
            out.push(Entry { name, path: PathBuf::from(path) });
        }
    }
    out
}

fn start(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(MAGIC) {
        return Some(0);
    }
    // The new format follows the old entries of 12 bytes each, aligned to 8.
    let count =
        u32::from_le_bytes(*bytes.strip_prefix(OLD_MAGIC).and(bytes.get(12..))?.first_chunk()?) as usize;
    let at = count.checked_mul(12)?.checked_add(16)?.next_multiple_of(8);
    bytes.get(at..)?.starts_with(MAGIC).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with one entry for each architecture.
    fn cache() -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(2u32.to_le_bytes());
        out.resize(HEADER, 0);
        let strings = (HEADER + 2 * ENTRY) as u32;
        for flags in [0x0303u32, 0x0a03] {
            out.extend(flags.to_le_bytes());
            out.extend(strings.to_le_bytes());
            out.extend((strings + 8).to_le_bytes());
            out.extend([0; 12]);
        }
        out.extend(b"liba.so\0/lib/liba.so\0");
        out
    }

    #[test]
    fn entries_of_one_processor() {
        let expected = [Entry { name: "liba.so".into(), path: "/lib/liba.so".into() }];
        assert_eq!(parse(&cache(), "x86_64"), expected);
        assert_eq!(parse(&cache(), "riscv"), []);
        let mut old = OLD_MAGIC.to_vec();
        old.resize(12, 0);
        old.extend(1u32.to_le_bytes());
        old.resize(32, 0);
        old.extend(cache());
        assert_eq!(parse(&old, "aarch64"), expected);
    }

    #[test]
    fn cut_off_and_overlong() {
        let whole = cache();
        for length in 0..whole.len() {
            parse(&whole[..length], "x86_64");
        }
        let mut many = whole.clone();
        many[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parse(&many, "x86_64").len(), 1);
        let mut old = OLD_MAGIC.to_vec();
        old.resize(12, 0);
        old.extend(u32::MAX.to_le_bytes());
        assert_eq!(parse(&old, "x86_64"), []);
    }
}
