//! Unpacks a block of a SquashFS file, by one of its compressors. What a block may become is limited by the buffer.

use std::io::{Error, Read, Result};

/// How the blocks of a file are packed (`squashfs_fs.h` of squashfs-tools, compression ids).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor {
    Gzip,
    /// Enroot's default.
    Lzo,
    Xz,
    Lz4,
    Zstd,
}

/// Maximum memory of xz, in KiB: a block is at most 1 MiB, and its dictionary no larger than its file asked for.
const XZ_MEMORY: u32 = 64 << 10;

impl Compressor {
    /// The compressor of an id; `None` for those that are not read.
    pub fn of(id: u16) -> Option<Compressor> {
        match id {
            1 => Some(Compressor::Gzip),
            3 => Some(Compressor::Lzo),
            4 => Some(Compressor::Xz),
            5 => Some(Compressor::Lz4),
            6 => Some(Compressor::Zstd),
            _ => None,
        }
    }

    /// Unpacks a block of at most `limit` bytes.
    ///
    /// # Errors
    /// When it is damaged, or larger.
    pub fn unpack(self, packed: &[u8], limit: usize) -> Result<Vec<u8>> {
        let all = |reader: &mut dyn Read| {
            let mut out = Vec::with_capacity(limit);
            reader.take(limit as u64 + 1).read_to_end(&mut out)?;
            match out.len() <= limit {
                true => Ok(out),
                false => Err(damaged("larger than a block")),
            }
        };
        match self {
            Compressor::Gzip => all(&mut flate2::bufread::ZlibDecoder::new(packed)),
            Compressor::Zstd => all(&mut zstd::stream::read::Decoder::with_buffer(packed)?),
            Compressor::Xz => all(&mut lzma_rust2::XzReader::new_mem_limit(packed, false, XZ_MEMORY)),
            Compressor::Lzo => into_buffer(limit, |out| {
                lzokay::decompress::decompress(packed, out).map_err(|why| damaged(&why.to_string()))
            }),
            Compressor::Lz4 => into_buffer(limit, |out| {
                lz4_flex::block::decompress_into(packed, out).map_err(|why| damaged(&why.to_string()))
            }),
        }
    }
}

/// What a function writes into a buffer of `limit` bytes; it returns how many.
fn into_buffer(limit: usize, unpack: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut out = vec![0; limit];
    let count = unpack(&mut out)?;
    out.truncate(count);
    Ok(out)
}

fn damaged(why: &str) -> Error {
    Error::other(format!("a packed block is damaged: {why}"))
}
