//! The registry as signed data, which travels faster than programs: a wheel with all its files, and a signature in
//! minisign's format. The signature's trusted comment states the date, the format and the digest, and is signed too.

mod data_wheel;
mod payload;
mod statement;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{Read, Seek};

use minisign_verify::{PublicKey, Signature};

use super::{Problem, Registry, RegistryFile};
use crate::model::text::clean;
pub use data_wheel::{DataWheel, WheelFault, file_name, read, write};
pub use payload::{MAX_PAYLOAD, payload};
pub use statement::Statement;

/// The project of the data wheels.
pub const PROJECT: &str = "envlock-gpu-registry";

/// The public keys of releases, one a line with its purpose: `active`, `reserve`.
const KEYS: &str = include_str!("../../../registry/keys.txt");

/// The keys that the data of releases are signed with; none in a build without release keys.
pub fn release_keys() -> Vec<PublicKey> {
    let keys = KEYS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    keys.filter_map(|(_, key)| PublicKey::from_base64(key.trim()).ok()).collect()
}

/// Reads a public key as `minisign` writes it.
///
/// # Errors
/// What is wrong with it.
pub fn key(text: &str) -> Result<PublicKey, String> {
    PublicKey::decode(text).map_err(|e| format!("it is no public key of minisign: {e}"))
}

/// Why data is refused.
#[derive(Debug)]
pub enum Refusal {
    /// The signature is not that of one of the keys.
    Signature(String),
    /// The signed statement cannot be read.
    Statement(String),
    /// The rows have a format that this program does not read.
    Format(String),
    /// The data is not what the statement says.
    Contents(String),
    /// The rows have mistakes.
    Problems(Vec<Problem>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Signature(why) => write!(f, "the signature does not hold: {why}"),
            Refusal::Statement(why) => write!(f, "the signed statement cannot be read: {why}"),
            Refusal::Format(why) | Refusal::Contents(why) => f.write_str(why),
            Refusal::Problems(problems) => {
                let first = problems.first().map(ToString::to_string).unwrap_or_default();
                write!(f, "its rows have {} problems, the first: {}", problems.len(), clean(&first, 300))
            }
        }
    }
}

impl DataWheel {
    /// What is stated of the data, if one of the keys signed it.
    ///
    /// # Errors
    /// The signature does not hold, or states what cannot be read.
    pub fn verified(&self, keys: &[PublicKey]) -> Result<Statement, Refusal> {
        let signature = Signature::decode(&self.signature)
            .map_err(|e| Refusal::Signature(format!("it is not in minisign's format: {e}")))?;
        let holds = |key: &PublicKey| key.verify(&self.payload, &signature, false);
        let mut why = "no key is known".to_owned();
        for key in keys {
            match holds(key) {
                Ok(()) => return statement_of(&signature),
                Err(error) => why = error.to_string(),
            }
        }
        Err(Refusal::Signature(why))
    }

    /// The registry, if it is what a statement says.
    ///
    /// # Errors
    /// The format is not read by this program, the data is another, or a row has a mistake.
    pub fn registry(&self, statement: &Statement) -> Result<Registry, Refusal> {
        if !super::Meta::understands(&statement.schema) {
            return Err(Refusal::Format(format!(
                "the data has format {}, which this envlock ({}) does not read",
                statement.schema,
                env!("CARGO_PKG_VERSION")
            )));
        }
        let files = payload::files(&self.payload).map_err(Refusal::Contents)?;
        let registry = Registry::from_files(files).map_err(Refusal::Problems)?;
        let own = Statement::of(&registry);
        if own != *statement {
            return Err(Refusal::Contents(format!("the statement says `{statement}`, the data are `{own}`")));
        }
        Ok(registry)
    }
}

/// What the signature in a data wheel states, without asking who made it, and without unpacking the data.
///
/// # Errors
/// It is no data wheel, or the statement cannot be read.
pub fn stated(from: impl Read + Seek) -> Result<Statement, String> {
    let text = data_wheel::signature(from).map_err(|e| e.to_string())?;
    let signature = Signature::decode(&text).map_err(|e| format!("its signature cannot be read: {e}"))?;
    statement_of(&signature).map_err(|why| why.to_string())
}

fn statement_of(signature: &Signature) -> Result<Statement, Refusal> {
    signature.trusted_comment().parse().map_err(Refusal::Statement)
}

/// The files of a registry as they travel, and the statement to sign with them.
pub fn to_sign(registry: &Registry) -> (Vec<u8>, Statement) {
    (payload(registry.files()), Statement::of(registry))
}

/// A file for a payload.
fn file((path, text): (String, String)) -> RegistryFile {
    RegistryFile { path: path.into(), text: text.into() }
}
