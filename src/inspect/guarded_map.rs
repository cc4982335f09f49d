//! A memory-mapped file that may be truncated while it is read. Reading a page that is no longer in the file raises
//! SIGBUS, which would end the program; here the page reads as zeros, and the parser finds the file damaged.

use memmap2::{Mmap, MmapOptions};

use super::tree::Opened;

/// A read-only map of a file.
pub(super) struct GuardedMap {
    map: Mmap,
    #[cfg(unix)]
    slot: Option<usize>,
}

impl GuardedMap {
    /// Maps a file.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub fn new(opened: &Opened) -> std::io::Result<GuardedMap> {
        let size = usize::try_from(opened.size).map_err(std::io::Error::other)?;
        // SAFETY: the map is read-only, and a page that disappears from the file is replaced by zeros (below). Another
        // process may still change bytes while they are read: the parsers check what they use where they read it.
        let map = unsafe { MmapOptions::new().offset(opened.start).len(size).map(&opened.file) }?;
        #[cfg(unix)]
        let slot = guard::add(map.as_ptr() as usize, map.len());
        Ok(GuardedMap {
            map,
            #[cfg(unix)]
            slot,
        })
    }
}

impl std::ops::Deref for GuardedMap {
    type Target = Mmap;

    fn deref(&self) -> &Mmap {
        &self.map
    }
}

#[cfg(unix)]
impl Drop for GuardedMap {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            guard::remove(slot);
        }
    }
}

#[cfg(unix)]
mod guard {
    use std::sync::Once;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// How many maps can be guarded at the same time. Further maps are not guarded.
    const SLOTS: usize = 256;

    /// Start and length of a guarded map; a start of 0 is a free slot.
    struct Slot {
        start: AtomicUsize,
        length: AtomicUsize,
    }

    static GUARDED: [Slot; SLOTS] =
        [const { Slot { start: AtomicUsize::new(0), length: AtomicUsize::new(0) } }; SLOTS];
    static PAGE: AtomicUsize = AtomicUsize::new(4096);

    pub fn add(start: usize, length: usize) -> Option<usize> {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install);
        let slot = GUARDED.iter().position(|slot| {
            slot.start.compare_exchange(0, start, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        })?;
        GUARDED[slot].length.store(length, Ordering::SeqCst);
        Some(slot)
    }

    pub fn remove(slot: usize) {
        GUARDED[slot].length.store(0, Ordering::SeqCst);
        GUARDED[slot].start.store(0, Ordering::SeqCst);
    }

    fn install() {
        // SAFETY: `sysconf` has no preconditions. All zeros is a valid `sigaction`, which is then given a handler that
        // only calls async-signal-safe functions.
        unsafe {
            if let Ok(size) = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)) {
                PAGE.store(size, Ordering::SeqCst);
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = replace_by_zeros as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    }

    /// Replaces the rest of a guarded map by zeros. Elsewhere the signal keeps its default action.
    extern "C" fn replace_by_zeros(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid `info`. Only `mmap` and `signal` are called. The pages that are replaced lie
        // in a read-only map that is still registered, from the page that faulted to the end of the map.
        unsafe {
            let address = (*info).si_addr() as usize;
            for slot in &GUARDED {
                let (start, length) = (slot.start.load(Ordering::SeqCst), slot.length.load(Ordering::SeqCst));
                if start == 0 || address < start || address >= start + length {
                    continue;
                }
                let page = address & !(PAGE.load(Ordering::SeqCst) - 1);
                let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
                let rest = start + length - page;
                let mapped = libc::mmap(page as *mut libc::c_void, rest, libc::PROT_READ, flags, -1, 0);
                if mapped != libc::MAP_FAILED {
                    return;
                }
            }
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::{GuardedMap, Opened};

    fn opened(path: &std::path::Path) -> Opened {
        Opened::whole(std::fs::File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn a_file_that_is_truncated_while_it_is_read_reads_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library.so");
        fs_err::write(&path, vec![7u8; 1 << 20]).unwrap();
        let map = GuardedMap::new(&opened(&path)).unwrap();
        assert_eq!((map[0], map[(1 << 20) - 1]), (7, 7));
        fs_err::OpenOptions::new().write(true).open(&path).unwrap().set_len(5000).unwrap();
        assert_eq!(map[4000], 7);
        assert_eq!(map[1 << 19], 0, "no longer in the file");
        assert!(map[8192..].iter().all(|byte| *byte == 0));
        drop(map);
        // The slot is free again, and another map is not touched by it.
        fs_err::write(&path, vec![9u8; 9000]).unwrap();
        let map = GuardedMap::new(&opened(&path)).unwrap();
        assert!(map.iter().all(|byte| *byte == 9));
    }
}
