//! What is signed: all files of a registry, as a JSON object of texts by path.

use std::collections::BTreeMap;

use crate::model::text::clean;
use crate::registry::RegistryFile;

/// Size limit of the data, in bytes; the registry has 1 MB.
pub const MAX_PAYLOAD: u64 = 32 << 20;
/// Maximum number of files.
const MAX_FILES: usize = 2_000;

/// The files as bytes, the same for the same files.
pub fn payload(files: &[RegistryFile]) -> Vec<u8> {
    let texts: BTreeMap<&str, &str> = files.iter().map(|file| (&*file.path, &*file.text)).collect();
    serde_json::to_vec(&texts).expect("texts are JSON")
}

/// The files in such bytes.
pub(super) fn files(payload: &[u8]) -> Result<Vec<RegistryFile>, String> {
    let texts: BTreeMap<String, String> =
        serde_json::from_slice(payload).map_err(|e| format!("the data cannot be read: {e}"))?;
    if texts.len() > MAX_FILES {
        return Err(format!("the data has {} files, more than {MAX_FILES}", texts.len()));
    }
    let is_path = |path: &str| {
        let is_part = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        path.ends_with(".toml") && path.split('/').all(is_part)
    };
    match texts.keys().find(|path| !is_path(path)) {
        Some(path) => Err(format!("`{}` is not the path of a registry file", clean(path, 80))),
        None => Ok(texts.into_iter().map(super::file).collect()),
    }
}
