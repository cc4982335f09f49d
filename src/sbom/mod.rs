//! A bill of materials: the packages, the libraries of others inside them, and what they need of a machine. What is inside comes
//! from the content of the files and from the bills that wheels bring along (PEP 770).

mod cyclonedx;
mod identify;
mod merge;
mod stated;

pub use cyclonedx::document;
pub use identify::{Identified, Of, identify, is_module, is_of_others};
pub use merge::{Part, parts};
pub use stated::{Stated, stated};

use crate::model::licence::Licence;
use crate::model::solution::Envelope;

/// What is described: a project, or wheels.
#[derive(Debug, Clone)]
pub struct Bill {
    /// Its name.
    pub name: String,
    /// The packages, sorted by name.
    pub packages: Vec<Package>,
    /// What they need of a machine, where a lock says it.
    pub envelope: Option<Envelope>,
    /// The names of the packages that the project asks for.
    pub roots: Vec<String>,
}

/// A package.
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// Normalized name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its type in package URLs: `pypi`, `conda`.
    pub kind: &'static str,
    /// The files that are locked: name, address where it is known, SHA-256.
    pub files: Vec<File>,
    /// What its metadata say of the licence.
    pub licence: Licence,
    /// The compute capabilities that it has machine code or PTX for: `sass 8.0`, `ptx 9.0`.
    pub gpu_code: Vec<String>,
    /// The names of the packages that it requires.
    pub requires: Vec<String>,
    /// What is inside it.
    pub parts: Vec<Part>,
}

/// A file of a package.
#[derive(Debug, Clone)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its address, without credentials.
    pub url: Option<String>,
    /// SHA-256 in hexadecimal.
    pub sha256: Option<String>,
}
