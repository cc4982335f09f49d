//! Tells the payloads of GPU code from the rest of a library that is read as a stream: nothing reads them, and they are
//! most of the bytes of CUDA's libraries. A copy without them needs a tenth of the space.

use super::fatbin::{CONTAINER_HEADER, ENTRY_HEADER, MAGIC, field};

/// A part of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'b> {
    /// Bytes that matter.
    Bytes(&'b [u8]),
    /// That many bytes of a payload.
    Payload(u64),
}

/// Splits the bytes of a library into [`Part`]s. Bytes that only look like GPU code are kept as they are.
#[derive(Debug, Default)]
pub struct WithoutPayloads {
    /// Bytes that were not told apart yet.
    held: Vec<u8>,
    /// Bytes of the present payload that are still to come.
    payload: u64,
    /// Bytes of the present container that are still to come, without the present payload; `None` outside containers.
    container: Option<u64>,
}

impl WithoutPayloads {
    /// Takes the next bytes of the library, and gives the parts that are known.
    pub fn feed(&mut self, mut bytes: &[u8], give: &mut dyn FnMut(Part<'_>)) {
        if self.held.is_empty() {
            bytes = self.skipped(bytes, give);
        }
        if bytes.is_empty() {
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let mut rest = held.as_slice();
        while let Some(after) = self.step(rest, give) {
            rest = self.skipped(after, give);
        }
        self.held = rest.to_vec();
    }

    /// The end of the library: gives the bytes that are left.
    pub fn finish(self, give: &mut dyn FnMut(Part<'_>)) {
        if !self.held.is_empty() {
            give(Part::Bytes(&self.held));
        }
    }

    /// What follows the present payload.
    fn skipped<'b>(&mut self, bytes: &'b [u8], give: &mut dyn FnMut(Part<'_>)) -> &'b [u8] {
        let count = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len());
        if count > 0 {
            self.payload -= count as u64;
            give(Part::Payload(count as u64));
        }
        &bytes[count..]
    }

    /// Gives the first part of `bytes` and returns what follows it; `None` if it takes more bytes to know.
    fn step<'b>(&mut self, bytes: &'b [u8], give: &mut dyn FnMut(Part<'_>)) -> Option<&'b [u8]> {
        if bytes.is_empty() || self.payload > 0 {
            return None;
        }
        let Some(left) = self.container else { return self.outside(bytes, give) };
        if left < ENTRY_HEADER as u64 {
            // The end of the container is padding.
            self.container = None;
            return Some(bytes);
        }
        if bytes.len() < ENTRY_HEADER {
            return None;
        }
        let header = u64::from(field::<u32>(bytes, 4).unwrap_or_default());
        let payload = field::<u64>(bytes, 8).unwrap_or_default();
        let size = header.checked_add(payload).filter(|size| *size <= left);
        let (Some(size), true) = (size, header >= ENTRY_HEADER as u64 && header <= MAX_HEADER) else {
            // Damaged, which is for the reader of the copy to say.
            self.container = None;
            give(Part::Bytes(&bytes[..ENTRY_HEADER]));
            return Some(&bytes[ENTRY_HEADER..]);
        };
        let header = header as usize;
        if bytes.len() < header {
            return None;
        }
        give(Part::Bytes(&bytes[..header]));
        self.container = Some(left - size);
        self.payload = payload;
        Some(&bytes[header..])
    }

    /// As [`WithoutPayloads::step`], outside containers.
    fn outside<'b>(&mut self, bytes: &'b [u8], give: &mut dyn FnMut(Part<'_>)) -> Option<&'b [u8]> {
        let start = memchr::memmem::find(bytes, &MAGIC);
        // The end may be the start of a container's magic.
        let before = start.unwrap_or(bytes.len().saturating_sub(MAGIC.len() - 1));
        if before > 0 {
            give(Part::Bytes(&bytes[..before]));
            return Some(&bytes[before..]);
        }
        if start.is_none() || bytes.len() < CONTAINER_HEADER {
            return None;
        }
        let header = usize::from(field::<u16>(bytes, 6).unwrap_or_default());
        let body = field::<u64>(bytes, 8).unwrap_or_default();
        let taken = if field::<u16>(bytes, 4) == Some(1) && header == CONTAINER_HEADER {
            self.container = Some(body);
            CONTAINER_HEADER
        } else {
            MAGIC.len()
        };
        give(Part::Bytes(&bytes[..taken]));
        Some(&bytes[taken..])
    }
}

/// Largest header of an entry, in bytes, with its name and options; real ones have 64 to some hundred.
const MAX_HEADER: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fatbin::{read, tests::entry};
    use super::*;

    /// The copy of some bytes, which come in pieces, with zeros for the payloads.
    fn copy(bytes: &[u8], piece: usize) -> (Vec<u8>, u64) {
        let (mut out, mut left_out) = (Vec::new(), 0);
        let mut give = |part: Part<'_>| match part {
            Part::Bytes(bytes) => out.extend_from_slice(bytes),
            Part::Payload(count) => {
                left_out += count;
                out.resize(out.len() + usize::try_from(count).unwrap(), 0);
            }
        };
        let mut stream = WithoutPayloads::default();
        bytes.chunks(piece).for_each(|piece| stream.feed(piece, &mut give));
        stream.finish(&mut give);
        (out, left_out)
    }

    fn container(entries: &[Vec<u8>]) -> Vec<u8> {
        let body = entries.concat();
        let mut out = MAGIC.to_vec();
        out.extend([1, 0, 16, 0]);
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
        out
    }

    #[test]
    fn the_copy_reads_like_the_library() {
        let code = [
            container(&[entry(2, 80, 0, (0, 0)), entry(1, 90, 0, (8, 7))]),
            container(&[entry(2, 120, 0, (0, 0))]),
        ]
        .concat();
        for piece in [1, 3, 16, 64, 1000] {
            let library = [b"ELF and code".to_vec(), code.clone(), vec![7; 200]].concat();
            let (copied, left_out) = copy(&library, piece);
            assert_eq!((copied.len(), left_out), (library.len(), 24), "{piece}");
            assert_eq!(read(&copied[12..12 + code.len()]), read(&code));
            assert_eq!(
                (&copied[..12], &copied[copied.len() - 200..]),
                (&library[..12], &library[library.len() - 200..])
            );
        }
    }

    proptest! {
        /// Whatever the bytes: nothing is lost, and what is no payload is as it was.
        #[test]
        fn bytes_stay_in_their_places(parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            Just(MAGIC.to_vec()),
            Just(vec![1, 0, 16, 0]),
            Just(200u64.to_le_bytes().to_vec()),
            Just(entry(2, 80, 0, (0, 0))),
        ], 0..20), piece in 1usize..100) {
            let bytes = parts.concat();
            let (copied, left_out) = copy(&bytes, piece);
            prop_assert_eq!(copied.len(), bytes.len());
            let changed = copied.iter().zip(&bytes).filter(|(a, b)| a != b).count() as u64;
            prop_assert!(changed <= left_out);
            prop_assert_eq!(&copy(&bytes, bytes.len().max(1)).0, &copied);
        }
    }
}
