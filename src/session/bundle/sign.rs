//! Who answers for a bundle: its manifest, signed with a secret key of minisign.

use std::io::Cursor;
use std::path::Path;

use minisign::{ErrorKind, SecretKey, SecretKeyBox};

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
        let sealed = || SecretKeyBox::from_string(&text).map_err(|why| wrong(why.to_string()));
        match sealed()?.into_unencrypted_secret_key() {
            Ok(key) => return Ok(Signer(key)),
            // It has no password, and is not as the library reads such keys: those of `minisign -G -W` are not.
            Err(why) if matches!(why.kind(), ErrorKind::Verify) => {
                return Err(wrong("it has no password, and such a key is not read here".to_owned())
                    .hint("bundle into a folder and sign afterwards: `minisign -S -m DIR/bundle.toml`"));
            }
            Err(_) => {}
        }
        let password = interface.secret(&format!("password of `{}`: ", shown(path))).ok_or_else(|| {
            wrong("it has a password, and no terminal is here to ask for it".to_owned())
                .hint("bundle into a folder and sign afterwards: `minisign -S -m DIR/bundle.toml`")
        })?;
        let key = sealed()?.into_secret_key(Some(password)).map_err(|why| wrong(why.to_string()))?;
        Ok(Signer(key))
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
