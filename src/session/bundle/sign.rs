//! Who answers for a bundle: its manifest, signed with a secret key of minisign.

use std::io::Cursor;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minisign::{SecretKey, SecretKeyBox};

use super::shown;
use crate::session::failure::Failure;
use crate::session::{Interface, files};

/// A secret key that was read.
pub(super) struct Signer(SecretKey);

impl Signer {
    /// Reads a key. The password of one that has one is asked for on the terminal.
    ///
    /// # Errors
    /// When it cannot be read, is no such key, or its password is another or cannot be asked for.
    pub fn open(path: &Path, interface: &dyn Interface) -> Result<Signer, Failure> {
        let wrong = |why: String| Failure::input(format!("`{}` cannot sign: {why}", shown(path)));
        let text = files::read(path)?.ok_or_else(|| wrong("it does not exist".to_owned()))?;
        let key = bytes_of(&text).ok_or_else(|| wrong("it is no secret key of minisign".to_owned()))?;
        if is_plain(&key) {
            return SecretKey::from_bytes(&key).map(Signer).map_err(|why| wrong(why.to_string()));
        }
        let password = interface.secret(&format!("password of `{}`: ", shown(path))).ok_or_else(|| {
            wrong("it has a password, and no terminal is here to ask for it".to_owned())
                .hint("bundle into a folder and sign afterwards: `minisign -S -m DIR/bundle.toml`")
        })?;
        let sealed = SecretKeyBox::from_string(&text).map_err(|why| wrong(why.to_string()))?;
        sealed.into_secret_key(Some(password)).map(Signer).map_err(|why| wrong(why.to_string()))
    }

    /// The signature of a manifest, as a file. `lock` is the SHA-256 of the lock, which the trusted comment states.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn sign(&self, manifest: &str, lock: &str) -> Result<String, Failure> {
        let comment = format!("envlock bundle, lock sha256={lock}");
        minisign::sign(None, &self.0, Cursor::new(manifest), Some(&comment), None)
            .map(minisign::SignatureBox::into_string)
            .map_err(|why| Failure::internal(format!("the manifest cannot be signed: {why}")))
    }
}

/// The bytes of a secret key in minisign's file: a comment, and the key in base64 on the line below. `None` if it is none.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    /// The algorithms of signature, key derivation and checksum, salt and limits, the key's number, the key, and its checksum.
    const LENGTH: usize = 3 * 2 + 32 + 2 * 8 + 8 + 64 + 32;
    BASE64_STANDARD.decode(text.lines().nth(1)?.trim()).ok().filter(|key| key.len() == LENGTH)
}

/// Whether a key has no password: it names no key derivation. minisign writes no checksum for such a key, and the library
/// would refuse it for that.
fn is_plain(key: &[u8]) -> bool {
    key[2..4] == [0, 0]
}
