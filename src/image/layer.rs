//! Reads a layer: unpacks it, hashes it, and applies its members.

use std::io::{Error, Read, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use sha2::{Digest, Sha256};

use super::Progress;
use super::archive::Blob;
use super::merged::Layer;
use crate::tarball::Members;

/// Maximum size of an unpacked layer, in bytes.
const MAX_UNPACKED: u64 = 256 << 30;
/// A layer of more than this many bytes must not be packed more than [`MAX_RATIO`] to one: real ones with many zeros are.
const GRACE: u64 = 4 << 30;
/// How many bytes one packed byte may become.
const MAX_RATIO: u64 = 400;
/// Size of the pieces that are hashed, in bytes, and how many wait.
const PIECE: usize = 1 << 18;
const WAITING: usize = 8;
/// Largest window of zstd, as a power of two in bytes: what `zstd -d` takes without an option.
const MAX_WINDOW: u32 = 27;

/// What was read of a layer.
pub(super) struct ReadLayer {
    /// The digest of the layer as it lies in the archive.
    pub digest: String,
    /// The digest of the unpacked layer.
    pub diff_id: String,
    /// The size of the unpacked layer, in bytes.
    pub unpacked: u64,
}

/// Reads a layer and applies its members. `left`: how many bytes the image may still unpack to.
///
/// # Errors
/// When it cannot be read, is cut off, damaged or a bomb, or a member has no place.
pub(super) fn read(
    blob: Blob,
    mut layer: Layer<'_>,
    left: u64,
    progress: &dyn Progress,
) -> Result<ReadLayer> {
    let size = blob.size;
    let limit = unpacked_limit(size).min(left);
    let counted = Counted { inner: blob.reader, count: 0, progress };
    let mut packed = std::io::BufReader::with_capacity(PIECE, Hashed::new(counted));
    let start = std::io::BufRead::fill_buf(&mut packed)?;
    let kind = match start {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        // A frame that is skipped, which parallel writers put first (RFC 8878, section 3.1.2).
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            return Err(Error::other("it is packed by xz, which is not read"));
        }
        [b'B', b'Z', b'h', ..] => return Err(Error::other("it is packed by bzip2, which is not read")),
        _ => Packing::None,
    };
    let (packed, diff_id, unpacked) = match kind {
        Packing::None => {
            let (packed, unpacked) = apply(packed, limit, &mut layer)?;
            (packed, None, unpacked)
        }
        Packing::Gzip => {
            let unpacking = Hashed::new(flate2::bufread::MultiGzDecoder::new(packed));
            let (unpacking, unpacked) = apply(unpacking, limit, &mut layer)?;
            let (unpacking, diff_id) = unpacking.finish();
            (unpacking.into_inner(), Some(diff_id), unpacked)
        }
        Packing::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            decoder.window_log_max(MAX_WINDOW)?;
            let (unpacking, unpacked) = apply(Hashed::new(decoder), limit, &mut layer)?;
            let (unpacking, diff_id) = unpacking.finish();
            (unpacking.finish(), Some(diff_id), unpacked)
        }
    };
    let mut hashed = packed.into_inner();
    // What follows the packed data is part of the digest.
    std::io::copy(&mut hashed, &mut std::io::sink())?;
    let (counted, digest) = hashed.finish();
    if counted.count < size {
        return Err(Error::other("the archive is cut off"));
    }
    Ok(ReadLayer { diff_id: diff_id.unwrap_or_else(|| digest.clone()), digest, unpacked })
}

/// How a layer is packed, by its first bytes: media types are not always right.
enum Packing {
    None,
    Gzip,
    Zstd,
}

/// Applies the members of an unpacked layer of at most `limit` bytes, and reads it to its end.
fn apply<R: Read>(unpacked: R, limit: u64, layer: &mut Layer<'_>) -> Result<(R, u64)> {
    let limited = Limited { inner: unpacked, left: limit };
    let mut members = Members::new(std::io::BufReader::with_capacity(PIECE, limited));
    while let Some(member) = members.member()? {
        layer.apply(&member, &mut members)?;
    }
    let mut rest = members.into_inner();
    std::io::copy(&mut rest, &mut std::io::sink())?;
    let limited = rest.into_inner();
    Ok((limited.inner, limit - limited.left))
}

/// How many bytes may be unpacked from so many packed ones.
pub(super) fn unpacked_limit(packed: u64) -> u64 {
    GRACE.max(packed.saturating_mul(MAX_RATIO)).min(MAX_UNPACKED)
}

/// The error of what is unpacked beyond [`unpacked_limit`].
pub(super) fn bomb() -> Error {
    Error::other("it unpacks to far more than its size: not read further")
}

/// A reader that fails after a number of bytes.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(bomb)?;
        Ok(count)
    }
}

/// A reader that tells how far it is.
struct Counted<'p, R> {
    inner: R,
    count: u64,
    progress: &'p dyn Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        self.progress.read(self.count);
        Ok(count)
    }
}

/// A reader whose bytes are hashed by a thread of its own: hashing takes as long as unpacking.
struct Hashed<R> {
    inner: R,
    piece: Vec<u8>,
    /// Full pieces go there, and come back empty.
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    hasher: JoinHandle<String>,
}

impl<R> Hashed<R> {
    fn new(inner: R) -> Hashed<R> {
        let (full, received) = sync_channel::<Vec<u8>>(WAITING);
        let (give_back, empty) = sync_channel::<Vec<u8>>(WAITING + 2);
        let hasher = std::thread::spawn(move || {
            let mut hasher = Sha256::new();
            for mut piece in received {
                hasher.update(&piece);
                piece.clear();
                // Nobody waits for it at the end.
                let _ = give_back.try_send(piece);
            }
            format!("sha256:{}", hex::encode(hasher.finalize()))
        });
        Hashed { inner, piece: Vec::with_capacity(PIECE), full, empty, hasher }
    }

    fn send(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(PIECE));
        let piece = std::mem::replace(&mut self.piece, next);
        // The thread ends only after this end is dropped.
        let _ = self.full.send(piece);
    }

    /// The reader, and the digest of what was read.
    fn finish(mut self) -> (R, String) {
        self.send();
        drop(self.full);
        (self.inner, self.hasher.join().unwrap_or_default())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.inner.read(buffer)?;
        self.piece.extend_from_slice(&buffer[..count]);
        if self.piece.len() >= PIECE {
            self.send();
        }
        Ok(count)
    }
}
