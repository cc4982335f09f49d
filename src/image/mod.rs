//! Container images as files: archives of `docker save`, OCI layouts, SIF and SquashFS files. Their layers are read as one
//! file system, without extracting or running anything: the tree is in memory, and the contents that are read later lie in
//! one private temporary file.
//!
//! Sources: the OCI image and distribution specifications (layout, index, manifest, configuration, layers with whiteouts), and
//! Docker's image specification 1.2 for `manifest.json`.

mod archive;
mod documents;
mod layer;
mod merged;
mod needed_files;
mod sif;
mod squashfs;
mod startup;
mod unpack;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::inspect::{Linked, Opened};
use crate::model::platform::Platform;
use crate::model::text::clean;

pub use documents::Config;
pub use merged::Merged;

use archive::Archive;
use documents::Described;
use squashfs::SquashFs;

/// What kind of file an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An archive of `docker save` or an OCI layout: layers, with documents that describe them.
    Layers,
    /// Apptainer's and Singularity's.
    Sif,
    /// A file system alone: Enroot's.
    SquashFs,
}

/// An image that was read.
#[derive(Debug)]
pub struct Image {
    /// What kind of file it is.
    pub format: Format,
    /// The digest of its manifest, `sha256:...`; `None` for an archive that has none.
    pub manifest_digest: Option<String>,
    /// The digest of its configuration, which is Docker's image ID; `None` for one that has none.
    pub config_digest: Option<String>,
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
    /// It is no image of a kind that is read.
    #[error("`{0}` is neither an archive of `docker save`, an OCI layout nor a SIF or SquashFS file: {1}")]
    NotAnImage(String, String),
    /// It contains this many images, with their names.
    #[error("it contains {0} images: {1}")]
    Several(usize, String),
    /// It contains no image.
    #[error("it contains no image")]
    Empty,
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
    match format_of(path) {
        Format::Layers => read_layers(path, choice, progress),
        format => {
            let shown = || clean(&path.display().to_string(), 200);
            read_file_system(path, format, choice, progress).map_err(|why| match why {
                Unread::Image(error) => error,
                Unread::File(why) => ImageError::File(shown(), why.to_string()),
            })
        }
    }
}

/// The kind of file that an image is, by its first bytes. What cannot be read counts as layers, which are read next.
fn format_of(path: &Path) -> Format {
    let mut start = Vec::new();
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = File::open(path)
    {
        let _ = file.take(64).read_to_end(&mut start);
    }
    match start {
        start if start.starts_with(&squashfs::MAGIC) => Format::SquashFs,
        start if start.get(sif::MAGIC_AT..).is_some_and(|rest| rest.starts_with(&sif::MAGIC)) => Format::Sif,
        _ => Format::Layers,
    }
}

/// Why a file system could not be read.
enum Unread {
    Image(ImageError),
    File(std::io::Error),
}

impl From<std::io::Error> for Unread {
    fn from(error: std::io::Error) -> Unread {
        Unread::File(error)
    }
}

/// Reads a SIF or SquashFS file.
fn read_file_system(
    path: &Path,
    format: Format,
    choice: &Choice,
    progress: &dyn Progress,
) -> Result<Image, Unread> {
    let file = File::open(path)?;
    let (part, architecture) = match format {
        Format::Sif => {
            let sif = sif::read(file)?;
            (sif.system, sif.architecture)
        }
        _ => (Opened::whole(file)?, String::new()),
    };
    let named = choice.tag.as_ref().map(|tag| format!("named `{}`", clean(tag, 100)));
    let stated = Config { architecture: architecture.clone(), os: "linux".to_owned(), ..Config::default() };
    let other =
        choice.platform.filter(|wanted| stated.platform().is_some_and(|platform| platform != *wanted));
    if let Some(wanted) = named.or(other.map(|wanted| format!("for {wanted}"))) {
        let has = stated
            .platform()
            .map_or("one without a name".to_owned(), |platform| format!("one for {platform}"));
        return Err(Unread::Image(ImageError::NoSuch(wanted, has)));
    }
    let system = SquashFs::new(part, progress)?;
    progress.layer(1, 1, system.size());
    let mut merged = Merged::new()?;
    let unpacked = system.apply(&mut merged.layer(0, None))?;
    for at in merged.layers_to_read_again()? {
        system.apply(&mut merged.again(at))?;
    }
    merged.finish()?;
    let spooled = merged.spooled();
    let tree = Linked::of(merged);
    let config = startup::config(&tree, architecture);
    Ok(Image {
        format,
        manifest_digest: None,
        config_digest: None,
        config,
        tree,
        layers: 1,
        unpacked,
        spooled,
    })
}

/// Reads an archive or a layout.
fn read_layers(path: &Path, choice: &Choice, progress: &dyn Progress) -> Result<Image, ImageError> {
    let archive = Archive::open(path)?;
    let Described { manifest_digest, config_digest, config, diff_ids, layers } =
        documents::describe(&archive, choice)?;
    let mut merged =
        Merged::new().map_err(|why| ImageError::File("the temporary file".to_owned(), why.to_string()))?;
    // What may be unpacked in all, by what arrived: a layer that is listed several times counts once.
    let mut firsts: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for (at, stated) in layers.iter().enumerate() {
        firsts.entry(&stated.file).and_modify(|(_, is_repeated)| *is_repeated = true).or_insert((at, false));
    }
    let mut packed = 0_u64;
    for file in firsts.keys() {
        packed = packed.saturating_add(archive.blob(file)?.size);
    }
    let limit = layer::unpacked_limit(packed);
    let mut unpacked = 0;
    for (at, stated) in layers.iter().enumerate() {
        let blob = archive.blob(&stated.file)?;
        progress.layer(at + 1, layers.len(), blob.size);
        let first = firsts.get(stated.file.as_str()).filter(|first| first.1).map(|first| first.0);
        let read = layer::read(blob, merged.layer(at, first), limit - unpacked, progress)
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
    let of_all = |why: std::io::Error| ImageError::Layer(layers.len(), layers.len(), why.to_string());
    for at in merged.layers_to_read_again().map_err(of_all)? {
        let blob = archive.blob(&layers[at].file)?;
        progress.layer(at + 1, layers.len(), blob.size);
        layer::read(blob, merged.again(at), limit, progress)
            .map_err(|why| ImageError::Layer(at + 1, layers.len(), why.to_string()))?;
    }
    merged.finish().map_err(|why| ImageError::File("the temporary file".to_owned(), why.to_string()))?;
    let spooled = merged.spooled();
    let layers = layers.len();
    let (format, config_digest) = (Format::Layers, Some(config_digest));
    Ok(Image {
        format,
        manifest_digest,
        config_digest,
        config,
        tree: Linked::of(merged),
        layers,
        unpacked,
        spooled,
    })
}
