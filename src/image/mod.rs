//! Container images as files: archives of `docker save` and OCI layouts. Their layers are read as one file system, without
//! extracting or running anything: the tree is in memory, and the contents that are read later lie in one private temporary
//! file.
//!
//! Sources: the OCI image and distribution specifications (layout, index, manifest, configuration, layers with whiteouts), and
//! Docker's image specification 1.2 for `manifest.json`.

mod archive;
mod documents;
mod kept;
mod layer;
mod merged;

use std::path::Path;

use crate::inspect::Linked;
use crate::model::platform::Platform;

pub use documents::Config;
pub use merged::Merged;

use archive::Archive;
use documents::Described;

/// An image that was read.
#[derive(Debug)]
pub struct Image {
    /// The digest of its manifest, `sha256:...`; `None` for an archive that has none.
    pub manifest_digest: Option<String>,
    /// The digest of its configuration, which is Docker's image ID.
    pub config_digest: String,
    /// What its programs are started with.
    pub config: Config,
    /// Its files.
    pub tree: Linked<Merged>,
    /// How many layers it has.
    pub layers: usize,
    /// The size of its unpacked layers, in bytes.
    pub unpacked: u64,
    /// The space that the temporary file takes on disk, in bytes.
    pub spooled: u64,
}

/// Which image of an archive is read.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The tag or reference name.
    pub tag: Option<String>,
    /// The platform.
    pub platform: Option<Platform>,
}

/// Why an image could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It is neither an archive of `docker save` nor an OCI layout.
    #[error("`{0}` is neither an archive of `docker save` nor an OCI layout: {1}")]
    NotAnImage(String, String),
    /// It contains several images, with their names.
    #[error("it contains {} images: {}", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    /// It contains no image of that name or platform; those that it has.
    #[error("it contains no image {0}; it has {1}")]
    NoSuch(String, String),
    /// A file of the archive cannot be read, with its name.
    #[error("cannot read `{0}`: {1}")]
    File(String, String),
    /// The bytes are not those that the digest is of: name, stated, found.
    #[error("`{0}` has digest {2}, not {1} as stated: the archive is damaged or was changed")]
    Digest(String, String, String),
    /// A layer cannot be read, with its number and the number of layers.
    #[error("layer {0} of {1}: {2}")]
    Layer(usize, usize, String),
}

/// What is read of an image so far, for display.
pub trait Progress {
    /// A layer begins: its number from 1, how many there are, and its size in the archive in bytes.
    fn layer(&self, number: usize, of: usize, size: u64);
    /// Bytes of the layer that were read.
    fn read(&self, bytes: u64);
}

/// Reads an image. Digests that the archive states are compared with what is read.
///
/// # Errors
/// When it is no image, damaged, or exceeds a limit.
pub fn read(path: &Path, choice: &Choice, progress: &dyn Progress) -> Result<Image, ImageError> {
    let archive = Archive::open(path)?;
    let Described { manifest_digest, config_digest, config, diff_ids, layers } =
        documents::describe(&archive, choice)?;
    let mut merged =
        Merged::new().map_err(|why| ImageError::File("the temporary file".to_owned(), why.to_string()))?;
    let mut unpacked = 0;
    for (at, stated) in layers.iter().enumerate() {
        let blob = archive.blob(&stated.file)?;
        progress.layer(at + 1, layers.len(), blob.size);
        let read = layer::read(blob, merged.layer(at), progress)
            .map_err(|why| ImageError::Layer(at + 1, layers.len(), why.to_string()))?;
        if let Some(digest) = stated.digest.as_ref().filter(|digest| **digest != read.digest) {
            return Err(ImageError::Digest(stated.file.clone(), digest.clone(), read.digest));
        }
        if let Some(diff_id) = diff_ids.get(at).filter(|diff_id| **diff_id != read.diff_id) {
            let name = format!("{}, unpacked", stated.file);
            return Err(ImageError::Digest(name, diff_id.clone(), read.diff_id));
        }
        unpacked += read.unpacked;
    }
    for at in merged.layers_to_read_again() {
        let blob = archive.blob(&layers[at].file)?;
        progress.layer(at + 1, layers.len(), blob.size);
        layer::read(blob, merged.again(at), progress)
            .map_err(|why| ImageError::Layer(at + 1, layers.len(), why.to_string()))?;
    }
    merged.finish().map_err(|why| ImageError::File("the temporary file".to_owned(), why.to_string()))?;
    let spooled = merged.spooled();
    let layers = layers.len();
    Ok(Image { manifest_digest, config_digest, config, tree: Linked::of(merged), layers, unpacked, spooled })
}
