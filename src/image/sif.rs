//! Finds the file system in a SIF file, the image format of Apptainer and Singularity.
//!
//! Source: sylabs/sif, `pkg/sif/sif.go`, `descriptor.go` and `arch.go`: a header of 128 bytes, descriptors of 585 bytes,
//! little-endian and without padding.

use std::fs::File;
use std::io::{Error, Result};

use super::squashfs::{Fields, read_at};
use crate::inspect::Opened;

/// What stands behind the 32 bytes of the launch script.
pub(super) const MAGIC: [u8; 10] = *b"SIF_MAGIC\0";
/// Where it stands.
pub(super) const MAGIC_AT: usize = 32;
/// Length of the header, in bytes.
const HEADER: usize = 128;
/// Length of a descriptor, in bytes.
const DESCRIPTOR: usize = 585;
/// Maximum number of descriptors; Apptainer makes 48.
const MAX_DESCRIPTORS: i64 = 4_096;
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
    read_at(&file, &mut header, 0).map_err(|_| damaged("it is cut off"))?;
    let mut fields = Fields(&header[MAGIC_AT + MAGIC.len()..]);
    let (_version, arch) = (fields.take::<3>()?, fields.take::<3>()?);
    let (_id, _created, _modified, _free) =
        (fields.take::<16>()?, fields.u64()?, fields.u64()?, fields.u64()?);
    let (total, at) = (fields.u64()? as i64, fields.u64()?);
    if !(0..=MAX_DESCRIPTORS).contains(&total) {
        return Err(damaged("the number of its descriptors is impossible"));
    }
    let mut system = None;
    for number in 0..total as u64 {
        let mut bytes = [0; DESCRIPTOR];
        let at = number.checked_mul(DESCRIPTOR as u64).and_then(|offset| at.checked_add(offset));
        read_at(&file, &mut bytes, at.ok_or_else(|| damaged("its descriptors lie outside of it"))?)
            .map_err(|_| damaged("it is cut off"))?;
        let mut fields = Fields(&bytes);
        let (kind, is_used) = (fields.u32()? as i32, fields.take::<1>()? != [0]);
        let (_number, _group, _linked) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (start, length) = (fields.u64()?, fields.u64()?);
        // What is specific to the kind is at the end: file system, purpose.
        let mut specific = Fields(&bytes[DESCRIPTOR - 384..]);
        let (format, purpose) = (specific.u32()?, specific.u32()?);
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
fn architecture(code: [u8; 3]) -> &'static str {
    match &code {
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
