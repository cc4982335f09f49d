//! The wheel that carries signed data: pure data, for every Python.

use std::io::{Cursor, Read, Seek, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;

use super::{MAX_PAYLOAD, Statement};
use crate::model::text::clean;

/// The module in the wheel.
const MODULE: &str = "envlock_gpu_registry";
/// Size limit of a signature, in bytes; minisign's have 400.
const MAX_SIGNATURE: u64 = 8 << 10;

/// What a data wheel holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataWheel {
    /// The files of the registry; see [`super::payload`].
    pub payload: Vec<u8>,
    /// Their signature.
    pub signature: String,
}

/// Why a file is no data wheel.
#[derive(Debug, thiserror::Error)]
pub enum WheelFault {
    /// It is no zip archive, or a damaged one.
    #[error("it is no wheel: {0}")]
    Archive(#[from] zip::result::ZipError),
    /// A member cannot be read.
    #[error("`{0}` in it cannot be read: {1}")]
    Member(String, String),
}

/// The name of the wheel: `envlock_gpu_registry-2026.11.27-py3-none-any.whl`.
pub fn file_name(statement: &Statement) -> String {
    format!("{MODULE}-{}-py3-none-any.whl", statement.version())
}

/// Reads a data wheel.
///
/// # Errors
/// It is none.
pub fn read(from: impl Read + Seek) -> Result<DataWheel, WheelFault> {
    let mut archive = zip::ZipArchive::new(from)?;
    let payload = member(&mut archive, "registry.json", MAX_PAYLOAD)?;
    Ok(DataWheel { payload, signature: signature_in(&mut archive)? })
}

/// Reads the signature alone.
pub(super) fn signature(from: impl Read + Seek) -> Result<String, WheelFault> {
    signature_in(&mut zip::ZipArchive::new(from)?)
}

fn signature_in<R: Read + Seek>(archive: &mut zip::ZipArchive<R>) -> Result<String, WheelFault> {
    const NAME: &str = "registry.json.minisig";
    let bytes = member(archive, NAME, MAX_SIGNATURE)?;
    String::from_utf8(bytes).map_err(|e| WheelFault::Member(format!("{MODULE}/{NAME}"), e.to_string()))
}

/// A member of the module, of at most so many bytes.
fn member<R: Read + Seek>(
    archive: &mut zip::ZipArchive<R>,
    name: &str,
    limit: u64,
) -> Result<Vec<u8>, WheelFault> {
    let name = format!("{MODULE}/{name}");
    let fault = |why: String| WheelFault::Member(name.clone(), clean(&why, 160));
    let entry = archive.by_name(&name).map_err(|e| fault(e.to_string()))?;
    let mut bytes = Vec::new();
    entry.take(limit + 1).read_to_end(&mut bytes).map_err(|e| fault(e.to_string()))?;
    match bytes.len() as u64 > limit {
        true => Err(fault(format!("it has more than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// The wheel of signed data, the same bytes for the same data.
///
/// # Errors
/// The archive cannot be written.
pub fn write(data: &DataWheel, statement: &Statement) -> Result<Vec<u8>, zip::result::ZipError> {
    let version = statement.version();
    let info = format!("{MODULE}-{version}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.1\nName: {}\nVersion: {version}\nSummary: Compatibility data of envlock, {}\n\
         License: MIT OR Apache-2.0\nRequires-Python: >=3.8\n\n\
         `envlock registry update` reads it. Nothing imports it.\n",
        super::PROJECT,
        statement.date
    );
    let wheel = "Wheel-Version: 1.0\nGenerator: envlock\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let mut members: Vec<(String, &[u8])> = vec![
        (format!("{MODULE}/__init__.py"), b""),
        (format!("{MODULE}/registry.json"), &data.payload),
        (format!("{MODULE}/registry.json.minisig"), data.signature.as_bytes()),
        (format!("{info}/METADATA"), metadata.as_bytes()),
        (format!("{info}/WHEEL"), wheel.as_bytes()),
    ];
    let line = |(name, bytes): &(String, &[u8])| {
        format!("{name},sha256={},{}\n", URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)), bytes.len())
    };
    let record = format!("{}{info}/RECORD,,\n", members.iter().map(line).collect::<String>());
    members.push((format!("{info}/RECORD"), record.as_bytes()));
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        // Files that say nothing of their mode cannot be read once they are unpacked.
        archive.start_file(name, SimpleFileOptions::default().unix_permissions(0o644))?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}
