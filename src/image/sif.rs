//! Finds the file system in a SIF file, the image format of Apptainer and Singularity.
//!
//! Source: sylabs/sif, `pkg/sif/sif.go`, `descriptor.go` and `arch.go`: a header of 128 bytes, descriptors of 585 bytes,
//! little-endian and without padding.

use std::fs::File;
use std::io::{Error, Result};

use bytes::Buf as _;

use super::squashfs::read_at;
use crate::inspect::Opened;

/// What stands behind the 32 bytes of the launch script.
pub(super) const MAGIC: [u8; 10] = *b"SIF_MAGIC\0";
/// Where it stands.
pub(super) const MAGIC_AT: usize = 32;
/// Length of the header, in bytes.
const HEADER: usize = 128;
/// Where the code of the processor stands in it, behind magic and version, and the number of descriptors.
const ARCH_AT: usize = 45;
const TOTAL_AT: usize = 88;
/// Length of a descriptor, in bytes.
const DESCRIPTOR: usize = 585;
/// Maximum number of descriptors; Apptainer makes 48.
const MAX_DESCRIPTORS: u64 = 4_096;
/// Kinds of data: a partition, the index of an OCI image.
const PARTITION: i32 = 0x4004;
const OCI_INDEX: i32 = 0x400a;

/// A SIF file.
pub(super) struct Sif {
    /// The part of the file with the system's file system.
    pub system: Opened,
    /// The processor, as Go names it; empty if the file does not say.
    pub architecture: String,
}

/// Finds the partition of the system.
///
/// # Errors
/// When the file is damaged or has none, or when it is encrypted, of another kind than SquashFS, or changed by an overlay.
pub(super) fn read(file: File) -> Result<Sif> {
    let size = file.metadata()?.len();
    let mut header = [0; HEADER];
    read_at(&file, &mut header, 0).map_err(|e| damaged(&format!("its header cannot be read: {e}")))?;
    let arch = &header[ARCH_AT..ARCH_AT + 3];
    let mut fields = &header[TOTAL_AT..];
    let (total, at) = (fields.try_get_u64_le()?, fields.try_get_u64_le()?);
    if total > MAX_DESCRIPTORS {
        return Err(damaged("the number of its descriptors is impossible"));
    }
    let mut system = None;
    for number in 0..total {
        let mut bytes = [0; DESCRIPTOR];
        let at = number.checked_mul(DESCRIPTOR as u64).and_then(|offset| at.checked_add(offset));
        read_at(&file, &mut bytes, at.ok_or_else(|| damaged("its descriptors lie outside of it"))?)
            .map_err(|e| damaged(&format!("its descriptors cannot be read: {e}")))?;
        let mut fields = bytes.as_slice();
        let (kind, is_used) = (fields.try_get_i32_le()?, fields.try_get_u8()? != 0);
        let (_number, _group, _linked) =
            (fields.try_get_u32_le()?, fields.try_get_u32_le()?, fields.try_get_u32_le()?);
        let (start, length) = (fields.try_get_u64_le()?, fields.try_get_u64_le()?);
        // What is specific to the kind is at the end: file system, purpose.
        let mut specific = &bytes[DESCRIPTOR - 384..];
        let (format, purpose) = (specific.try_get_u32_le()?, specific.try_get_u32_le()?);
        match (kind, format, purpose) {
            _ if !is_used => {}
            (OCI_INDEX, ..) => {
                return Err(Error::other(
                    "it contains an OCI image (an OCI-SIF of Singularity), which is not read",
                ));
            }
            (PARTITION, _, 4) => {
                return Err(Error::other("it has an overlay, which is not read and may change the image"));
            }
            (PARTITION, 1, 2) => {
                let end = start.checked_add(length).filter(|end| *end <= size);
                end.ok_or_else(|| damaged("it is cut off"))?;
                system = Some((start, length));
            }
            (PARTITION, 5, 2) => return Err(Error::other("its file system is encrypted")),
            (PARTITION, _, 2) => {
                return Err(Error::other(
                    "its file system is not SquashFS (an old ext3 image), which is not read",
                ));
            }
            _ => {}
        }
    }
    let (start, size) = system.ok_or_else(|| damaged("it has no partition with a system"))?;
    Ok(Sif { system: Opened { file, start, size }, architecture: architecture(arch).to_owned() })
}

/// The processor of a code, as Go names it.
fn architecture(code: &[u8]) -> &'static str {
    match code {
        b"01\0" => "386",
        b"02\0" => "amd64",
        b"03\0" => "arm",
        b"04\0" => "arm64",
        b"05\0" => "ppc64",
        b"06\0" => "ppc64le",
        b"11\0" => "s390x",
        b"12\0" => "riscv64",
        b"13\0" => "loong64",
        _ => "",
    }
}

fn damaged(why: &str) -> Error {
    Error::other(format!("the SIF file is damaged: {why}"))
}
