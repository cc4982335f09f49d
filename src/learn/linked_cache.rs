//! What the machine code of wheels links outside them, read once for each wheel and kept by its hash.
//!
//! The folder is untrusted: a file is used only if it has the form that is written here.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use super::{LearnError, kept_file};
use crate::inspect;
use crate::model::linked::{Linked, LinkedLibrary};
use crate::model::text::is_line;

/// Limit on the size of a kept file, in bytes: a library with its needs has some hundred.
const MAX_KEPT: u64 = 16 << 20;

/// The folder of what was read.
#[derive(Debug, Clone)]
pub struct LinkedStore {
    folder: PathBuf,
}

impl LinkedStore {
    /// The store below a cache folder, which may not exist yet.
    pub fn new(cache: &Path) -> LinkedStore {
        LinkedStore { folder: cache.join("learned").join("linked").join("v2") }
    }

    /// What was kept of the wheel with this SHA-256, 64 hexadecimal digits.
    pub fn get(&self, sha256: &str) -> Option<Linked> {
        let linked: Linked = serde_json::from_str(&kept_file::read(&self.path(sha256)?, MAX_KEPT)?).ok()?;
        let is_clean = |own: &LinkedLibrary| {
            own.needed.iter().chain(&own.shims).chain([&own.path]).all(|name| is_line(name))
        };
        linked.libraries.iter().all(is_clean).then_some(linked)
    }

    /// Keeps what was read. Write errors are ignored: the next run is only slower.
    pub fn keep(&self, sha256: &str, linked: &Linked) {
        let (Some(path), Ok(text)) = (self.path(sha256), serde_json::to_vec(linked)) else { return };
        if text.len() as u64 <= MAX_KEPT {
            let _ = kept_file::write(&path, &text);
        }
    }

    fn path(&self, sha256: &str) -> Option<PathBuf> {
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit());
        is_hash.then(|| self.folder.join(format!("{sha256}.json")))
    }
}

/// Reads what the libraries of a wheel link.
///
/// # Errors
/// When the wheel cannot be read.
pub fn linked<R: Read + Seek>(reader: R) -> Result<Linked, LearnError> {
    Ok(inspect::linked(&mut inspect::open_wheel(reader)?, &mut |_, _| {})?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::linked::TorchSymbols;

    #[test]
    fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = LinkedStore::new(folder.path());
        let hash = "0123456789abcdef".repeat(4);
        let linked = Linked {
            libraries: vec![LinkedLibrary {
                path: "a/_C.so".to_owned(),
                needed: vec!["libc10.so".to_owned()],
                torch: Some(TorchSymbols { old_abi: false, cxx11_abi: true }),
                shims: vec!["torch_from_blob".to_owned()],
                one_of: None,
            }],
        };
        assert_eq!(store.get(&hash), None);
        store.keep(&hash, &linked);
        assert_eq!(store.get(&hash), Some(linked.clone()));
        let path = store.path(&hash).unwrap();
        let forged = serde_json::to_string(&linked).unwrap().replace("libc10.so", "a\\nb");
        for damaged in ["", "{}", "{\"libraries\": 1}", "{\"libraries\": [{\"path\": \"x\"}]}", &forged] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(store.get(&hash), None, "{damaged}");
        }
        store.keep("../x", &linked);
        assert_eq!(store.get("../x"), None);
    }
}
