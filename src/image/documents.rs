//! The documents of an image: index, manifest and configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::archive::Archive;
use super::{Choice, ImageError};
use crate::model::platform::{Arch, Os, Platform};
use crate::model::text::clean;

/// Maximum size of a document, in bytes. Registries refuse manifests above 4 MiB.
const MAX_DOCUMENT: u64 = 4 << 20;
/// Maximum depth of an index in an index.
const MAX_DEPTH: usize = 4;
/// Maximum number of descriptors of an archive's indexes: names of images, and platforms.
const MAX_DESCRIPTORS: usize = 10_000;
/// Maximum number of layers. Docker's storage takes 127.
const MAX_LAYERS: usize = 1_000;
/// Maximum number of images that an error names.
const NAMED: usize = 8;
/// The annotation with a manifest's reference name (OCI image specification, annotations).
const REFERENCE: &str = "org.opencontainers.image.ref.name";

/// What the programs of an image are started with.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `amd64`, `arm64`: the processor, as Go names it.
    pub architecture: String,
    /// `linux`.
    pub os: String,
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
    /// The folder that programs start in.
    pub working_folder: String,
    /// The user that programs run as; empty for root.
    pub user: String,
    /// The program that is started with its arguments: the entry point and the command.
    pub command: Vec<String>,
}

impl Config {
    /// Its platform; `None` if envlock does not know it.
    pub fn platform(&self) -> Option<Platform> {
        let arch = match self.architecture.as_str() {
            "amd64" => Arch::X86_64,
            "arm64" => Arch::Aarch64,
            _ => return None,
        };
        (self.os == "linux").then_some(Platform { os: Os::Linux, arch })
    }
}

/// An image as its documents describe it.
pub(super) struct Described {
    pub manifest_digest: Option<String>,
    pub config_digest: String,
    pub config: Config,
    /// The digests of the unpacked layers, in order.
    pub diff_ids: Vec<String>,
    pub layers: Vec<StatedLayer>,
}

/// A layer as the manifest states it.
pub(super) struct StatedLayer {
    /// Its file in the archive.
    pub file: String,
    /// Its digest as it lies in the archive; `None` where only the unpacked one is stated.
    pub digest: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IndexDocument {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    platform: Option<StatedPlatform>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    urls: Option<Vec<String>>,
}

#[derive(Deserialize, Clone)]
struct StatedPlatform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
struct ManifestDocument {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct ConfigDocument {
    architecture: String,
    os: String,
    #[serde(default)]
    config: Option<StartDocument>,
    rootfs: RootfsDocument,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct StartDocument {
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    working_dir: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RootfsDocument {
    diff_ids: Vec<String>,
}

/// A row of Docker's `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerRow {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Reads the documents of the chosen image.
///
/// # Errors
/// When the archive has none, several that fit the choice, or they cannot be read or disagree.
pub(super) fn describe(archive: &Archive, choice: &Choice) -> Result<Described, ImageError> {
    // An archive of a newer `docker save` is both; the OCI layout states more digests.
    if archive.has("index.json") {
        return of_layout(archive, choice);
    }
    if archive.has("manifest.json") {
        // skopeo's folders have a manifest of that name, which is an object.
        let bytes = archive.bytes("manifest.json", MAX_DOCUMENT)?;
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{') {
            return Err(ImageError::NotAnImage(
                "the folder".to_owned(),
                "it is of skopeo's format `dir:`; copy it to `oci:FOLDER` instead".to_owned(),
            ));
        }
        return of_docker(archive, choice);
    }
    Err(ImageError::NotAnImage(
        "the archive".to_owned(),
        "it has neither index.json nor manifest.json at its top".to_owned(),
    ))
}

fn of_layout(archive: &Archive, choice: &Choice) -> Result<Described, ImageError> {
    let index: IndexDocument = parse("index.json", &archive.bytes("index.json", MAX_DOCUMENT)?)?;
    let mut collected = Collected { archive, found: Vec::new(), indexes: BTreeSet::new(), count: 0 };
    for descriptor in index.manifests {
        collected.add(descriptor, None, MAX_DEPTH)?;
    }
    let found = collected.found;
    let chosen = choose(&found, choice)?;
    let bytes = verified(archive, &chosen.descriptor.digest)?;
    let manifest: ManifestDocument = parse(&chosen.descriptor.digest, &bytes)?;
    let config = verified(archive, &manifest.config.digest)?;
    let document: ConfigDocument = parse(&manifest.config.digest, &config)?;
    let mut layers = Vec::new();
    for layer in &manifest.layers {
        let file = file_of(&layer.digest)?;
        let is_foreign = layer.media_type.contains("foreign")
            || layer.media_type.contains("nondistributable")
            || layer.urls.as_ref().is_some_and(|urls| !urls.is_empty());
        if is_foreign && !archive.has(&file) {
            let why = "it is a foreign layer, which the archive only names; pull the image with its layers";
            return Err(ImageError::File(file, why.to_owned()));
        }
        layers.push(StatedLayer { file, digest: Some(layer.digest.clone()) });
    }
    finished(Some(chosen.descriptor.digest.clone()), manifest.config.digest, document, layers)
}

/// An image of a layout: its manifest, and the reference name.
struct Found {
    descriptor: Descriptor,
    name: Option<String>,
}

/// The images of a layout so far.
struct Collected<'a> {
    archive: &'a Archive,
    found: Vec<Found>,
    /// The indexes that were read, each with the name that it gives its images.
    indexes: BTreeSet<(String, Option<String>)>,
    /// How many descriptors were met.
    count: usize,
}

impl Collected<'_> {
    /// Adds the images that a descriptor stands for: one, or those of an index, which is read once.
    fn add(&mut self, descriptor: Descriptor, name: Option<&str>, depth: usize) -> Result<(), ImageError> {
        let failed = |why: &str| ImageError::File(clean(&descriptor.digest, 100), why.to_owned());
        self.count += 1;
        if self.count > MAX_DESCRIPTORS {
            return Err(failed(&format!("the indexes name more than {MAX_DESCRIPTORS} images")));
        }
        let own = descriptor.annotations.as_ref().and_then(|list| list.get(REFERENCE)).map(String::as_str);
        let name = own.or(name).map(str::to_owned);
        let is_index =
            descriptor.media_type.contains("image.index") || descriptor.media_type.contains("manifest.list");
        if is_index {
            if depth == 0 {
                return Err(failed("its indexes are nested too deep"));
            }
            if self.indexes.insert((descriptor.digest.clone(), name.clone())) {
                let bytes = verified(self.archive, &descriptor.digest)?;
                let index: IndexDocument = parse(&descriptor.digest, &bytes)?;
                for inner in index.manifests {
                    self.add(inner, name.as_deref(), depth - 1)?;
                }
            }
            return Ok(());
        }
        // BuildKit's attestations are manifests that are no images.
        let is_image = descriptor.platform.as_ref().is_none_or(|platform| platform.os != "unknown");
        // An index may name images of other platforms that were not saved.
        if is_image && file_of(&descriptor.digest).is_ok_and(|file| self.archive.has(&file)) {
            self.found.push(Found { descriptor, name });
        }
        Ok(())
    }
}

/// The only image that fits.
fn choose<'f>(found: &'f [Found], choice: &Choice) -> Result<&'f Found, ImageError> {
    let is_of = |platform: &StatedPlatform, wanted: Platform| {
        let config = Config {
            architecture: platform.architecture.clone(),
            os: platform.os.clone(),
            ..Config::default()
        };
        config.platform() == Some(wanted)
    };
    let fits = |found: &&Found| {
        let by_name =
            choice.tag.as_ref().is_none_or(|tag| found.name.as_ref().is_some_and(|name| is_named(name, tag)));
        let by_platform = choice
            .platform
            .is_none_or(|wanted| found.descriptor.platform.as_ref().is_none_or(|own| is_of(own, wanted)));
        by_name && by_platform
    };
    let mut fitting: Vec<&Found> = found.iter().filter(fits).collect();
    // Several names of one image are one image.
    fitting.sort_by(|a, b| a.descriptor.digest.cmp(&b.descriptor.digest));
    fitting.dedup_by(|a, b| a.descriptor.digest == b.descriptor.digest);
    let label = |found: &&Found| {
        let platform = found.descriptor.platform.as_ref().map(|p| format!("{}/{}", p.os, p.architecture));
        let words: Vec<String> = found.name.iter().cloned().chain(platform).collect();
        match words.is_empty() {
            true => clean(&found.descriptor.digest, 80),
            false => clean(&words.join(" "), 120),
        }
    };
    match fitting.as_slice() {
        [only] => Ok(only),
        [] => Err(no_such(choice, found.iter().map(|found| label(&found)).collect())),
        several => Err(ImageError::Several(several.len(), named(several.iter().map(label)))),
    }
}

fn no_such(choice: &Choice, has: Vec<String>) -> ImageError {
    let platform = choice.platform.map(|platform| platform.to_string());
    let asked: Vec<String> =
        choice.tag.iter().cloned().chain(platform).map(|word| format!("`{}`", clean(&word, 100))).collect();
    match has.is_empty() {
        true => ImageError::Empty,
        false => ImageError::NoSuch(asked.join(" for "), named(has.into_iter())),
    }
}

/// The first names of a list, and that there are more.
fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = if names.len() > NAMED { ", ..." } else { "" };
    names.take(NAMED).collect::<Vec<_>>().join(", ") + more
}

/// Whether a reference name is the asked one: all of it, or its tag.
fn is_named(name: &str, asked: &str) -> bool {
    name == asked || name.rsplit_once(':').is_some_and(|(_, tag)| tag == asked)
}

fn of_docker(archive: &Archive, choice: &Choice) -> Result<Described, ImageError> {
    let rows: Vec<DockerRow> = parse("manifest.json", &archive.bytes("manifest.json", MAX_DOCUMENT)?)?;
    let tags = |row: &DockerRow| row.repo_tags.clone().unwrap_or_default();
    let label = |row: &DockerRow| tags(row).first().cloned().unwrap_or_else(|| row.config.clone());
    let fits = |row: &&DockerRow| {
        choice.tag.as_ref().is_none_or(|asked| tags(row).iter().any(|tag| is_named(tag, asked)))
    };
    let fitting: Vec<&DockerRow> = rows.iter().filter(fits).collect();
    let row = match fitting.as_slice() {
        [only] => only,
        [] => return Err(no_such(choice, rows.iter().map(|row| clean(&label(row), 120)).collect())),
        several => {
            let names = named(several.iter().map(|row| clean(&label(row), 120)));
            return Err(ImageError::Several(several.len(), names));
        }
    };
    let bytes = archive.bytes(&row.config, MAX_DOCUMENT)?;
    let digest = digest_of(&bytes);
    // Its name is its digest: `HEX.json`, or `blobs/sha256/HEX`.
    let name = row.config.rsplit('/').next().unwrap_or_default();
    let stated = format!("sha256:{}", name.strip_suffix(".json").unwrap_or(name));
    if stated != digest {
        return Err(ImageError::Digest(clean(&row.config, 200), clean(&stated, 80), digest));
    }
    let document: ConfigDocument = parse(&row.config, &bytes)?;
    let layers = row.layers.iter().map(|file| StatedLayer { file: file.clone(), digest: None }).collect();
    let described = finished(None, digest, document, layers)?;
    match choice.platform.filter(|wanted| described.config.platform() != Some(*wanted)) {
        Some(_) => {
            let has =
                format!("{}/{}", clean(&described.config.os, 20), clean(&described.config.architecture, 20));
            Err(no_such(choice, vec![has]))
        }
        None => Ok(described),
    }
}

fn finished(
    manifest_digest: Option<String>,
    config_digest: String,
    document: ConfigDocument,
    layers: Vec<StatedLayer>,
) -> Result<Described, ImageError> {
    let diff_ids = document.rootfs.diff_ids;
    if diff_ids.len() != layers.len() {
        let why = format!("it states {} layers, and the manifest {}", diff_ids.len(), layers.len());
        return Err(ImageError::File(config_digest, why));
    }
    if layers.len() > MAX_LAYERS {
        let why = format!("the image has more than {MAX_LAYERS} layers");
        return Err(ImageError::File(config_digest, why));
    }
    let start = document.config.unwrap_or_default();
    let variables = start.env.unwrap_or_default();
    let variables = variables.iter().filter_map(|line| line.split_once('='));
    let config = Config {
        architecture: document.architecture,
        os: document.os,
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        user: start.user.unwrap_or_default(),
        command: [start.entrypoint, start.cmd].into_iter().flatten().flatten().collect(),
        working_folder: start
            .working_dir
            .filter(|folder| folder.starts_with('/'))
            .unwrap_or_else(|| "/".to_owned()),
    };
    Ok(Described { manifest_digest, config_digest, config, diff_ids, layers })
}

/// The file of a digest in an OCI layout.
fn file_of(digest: &str) -> Result<String, ImageError> {
    let hex = digest.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.bytes().all(is_hex));
    hex.map(|hex| format!("blobs/sha256/{hex}")).ok_or_else(|| {
        ImageError::File(
            clean(digest, 100),
            "only digests of the form `sha256:` and 64 digits are read".to_owned(),
        )
    })
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

/// The bytes of a document whose digest was compared.
fn verified(archive: &Archive, digest: &str) -> Result<Vec<u8>, ImageError> {
    let file = file_of(digest)?;
    let bytes = archive.bytes(&file, MAX_DOCUMENT)?;
    let found = digest_of(&bytes);
    match found == digest {
        true => Ok(bytes),
        false => Err(ImageError::Digest(file, digest.to_owned(), found)),
    }
}

fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn parse<'d, T: Deserialize<'d>>(name: &str, bytes: &'d [u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes)
        .map_err(|why| ImageError::File(clean(name, 200), clean(&why.to_string(), 200)))
}
