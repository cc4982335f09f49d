//! The disk cache: project pages with their HTTP validators, by URL, and METADATA by index and wheel.
//!
//! Every entry is written to a temporary file and renamed, so that concurrent processes or a full disk
//! never leave a partial entry. A damaged entry counts as absent.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::model::metadata::CoreMetadata;
use crate::model::project::ProjectPage;
use crate::sdist::SourceTree;

/// The version of the rules by which source distributions are read. It is part of the path, so that new rules read
/// them again.
const SOURCES: &str = "8";

/// Maximum time in seconds for which a page is used without revalidation, even if the server allows more.
const MAX_FRESH_S: u64 = 600;

/// The cache folder.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A cached page with its HTTP validators.
#[derive(Debug)]
pub(super) struct CachedPage {
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    /// Time until which the page is used without revalidation, in seconds since the epoch.
    pub fresh_until: u64,
    pub page: ProjectPage,
}

impl CachedPage {
    /// Whether the page can be used without asking the server.
    pub fn is_fresh(&self) -> bool {
        self.fresh_until > now()
    }
}

/// A cached document of a conda channel.
#[derive(Debug)]
pub(super) struct CachedDocument {
    pub etag: Option<String>,
    /// As that of a page.
    pub fresh_until: u64,
    pub text: Bytes,
}

impl CachedDocument {
    /// Whether it can be used without asking the server.
    pub fn is_fresh(&self) -> bool {
        self.fresh_until > now()
    }
}

/// Time until which an answer with this `Cache-Control` header is fresh, in seconds since the epoch.
pub(super) fn fresh_until(cache_control: Option<&str>) -> u64 {
    let mut directives = cache_control.into_iter().flat_map(|header| header.split(','));
    let max_age: Option<u64> =
        directives.find_map(|directive| directive.trim().strip_prefix("max-age=")?.parse().ok());
    now() + max_age.unwrap_or(0).min(MAX_FRESH_S)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

impl Cache {
    /// The version of the layout. It is part of the path, so a new layout starts with an empty cache.
    pub(super) const LAYOUT: &str = "v7";

    /// The cache in `dir`. Creates nothing.
    pub fn new(dir: &Path) -> Cache {
        // A subfolder, in case the cache folder is a home folder by mistake.
        Cache { root: dir.join("index").join(Cache::LAYOUT) }
    }

    /// Its folder, with what other versions of the layout wrote.
    pub fn folder(&self) -> &Path {
        self.root.parent().expect("a layout has a folder of its own")
    }

    /// Whether an entry is one that this version reads.
    pub(super) fn is_of_this_layout(&self, path: &Path) -> bool {
        let sources = self.root.join("sources");
        path.starts_with(&self.root)
            && (!path.starts_with(&sources) || path.starts_with(sources.join(SOURCES)))
    }

    fn page_path(&self, address: &str) -> PathBuf {
        self.root.join("pages").join(key(address))
    }

    fn metadata_path(&self, identity: &str) -> PathBuf {
        self.root.join("metadata").join(key(identity))
    }

    pub(super) fn page(&self, address: &str) -> Option<CachedPage> {
        let entry = contents(&self.page_path(address)).ok()?;
        let end = entry.iter().position(|b| *b == b'\n')?;
        let mut fields = std::str::from_utf8(&entry[..end]).ok()?.split('\t');
        let optional = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        let etag = optional(fields.next()?);
        let last_modified = optional(fields.next()?);
        let fresh_until = fields.next()?.parse().ok()?;
        Some(CachedPage {
            etag,
            last_modified,
            fresh_until,
            page: ProjectPage::parse(entry.slice(end + 1..))?,
        })
    }

    pub(super) fn store_page(&self, address: &str, entry: &CachedPage) {
        let flat = |s: &Option<String>| s.as_deref().unwrap_or("").replace(['\t', '\n', '\r'], " ");
        let head = format!("{}\t{}\t{}\n", flat(&entry.etag), flat(&entry.last_modified), entry.fresh_until);
        self.store(&self.page_path(address), &[head.as_bytes(), entry.page.as_bytes()]);
    }

    pub(super) fn document(&self, address: &str) -> Option<CachedDocument> {
        let entry = contents(&self.document_path(address)).ok()?;
        let end = entry.iter().position(|b| *b == b'\n')?;
        let (etag, fresh_until) = std::str::from_utf8(&entry[..end]).ok()?.split_once('\t')?;
        let etag = (!etag.is_empty()).then(|| etag.to_owned());
        Some(CachedDocument { etag, fresh_until: fresh_until.parse().ok()?, text: entry.slice(end + 1..) })
    }

    pub(super) fn store_document(&self, address: &str, entry: &CachedDocument) {
        let etag = entry.etag.as_deref().unwrap_or("").replace(['\t', '\n', '\r'], " ");
        let head = format!("{etag}\t{}\n", entry.fresh_until);
        self.store(&self.document_path(address), &[head.as_bytes(), &entry.text]);
    }

    fn document_path(&self, address: &str) -> PathBuf {
        self.root.join("channels").join(key(address))
    }

    /// METADATA of a wheel; `identity` is the key of index and wheel.
    pub(super) fn metadata(&self, identity: &str) -> Option<CoreMetadata> {
        let entry = contents(&self.metadata_path(identity)).ok()?;
        let (digest, headers) = std::str::from_utf8(&entry).ok()?.split_once('\n')?;
        (digest.len() == 64).then_some(())?;
        CoreMetadata::parse(headers, digest.to_owned()).ok()
    }

    /// Whether there is an entry for the METADATA of a wheel, or for a source distribution.
    pub(super) fn has_metadata(&self, identity: &str, is_wheel: bool) -> bool {
        if is_wheel { self.metadata_path(identity).exists() } else { self.source_path(identity).exists() }
    }

    pub(super) fn store_metadata(&self, identity: &str, digest: &str, text: &str) {
        let headers = CoreMetadata::headers(text);
        self.store(&self.metadata_path(identity), &[digest.as_bytes(), b"\n", headers.as_bytes()]);
    }

    /// What a source distribution says, or why it cannot be read.
    pub(super) fn source(&self, identity: &str) -> Option<Result<SourceTree, String>> {
        serde_json::from_slice(&fs_err::read(self.source_path(identity)).ok()?).ok()
    }

    pub(super) fn store_source(&self, identity: &str, tree: &Result<SourceTree, String>) {
        if let Ok(text) = serde_json::to_vec(tree) {
            self.store(&self.source_path(identity), &[&text]);
        }
    }

    fn source_path(&self, identity: &str) -> PathBuf {
        self.root.join("sources").join(SOURCES).join(key(identity))
    }

    /// The size in bytes of a file whose page does not state it.
    pub(super) fn size(&self, identity: &str) -> Option<u64> {
        fs_err::read_to_string(self.root.join("sizes").join(key(identity))).ok()?.trim().parse().ok()
    }

    pub(super) fn store_size(&self, identity: &str, size: u64) {
        self.store(&self.root.join("sizes").join(key(identity)), &[size.to_string().as_bytes()]);
    }

    /// Size in bytes and SHA-256 of a file that was downloaded.
    pub(super) fn measured(&self, identity: &str) -> Option<(u64, String)> {
        let text = fs_err::read_to_string(self.root.join("measured").join(key(identity))).ok()?;
        let (size, digest) = text.trim().split_once(' ')?;
        (digest.len() == 64).then_some((size.parse().ok()?, digest.to_owned()))
    }

    pub(super) fn store_measured(&self, identity: &str, (size, digest): &(u64, String)) {
        self.store(&self.root.join("measured").join(key(identity)), &[format!("{size} {digest}").as_bytes()]);
    }

    /// Writes an entry atomically. Write errors are ignored: without the cache, the next run is only
    /// slower.
    fn store(&self, path: &Path, parts: &[&[u8]]) {
        let write = || -> std::io::Result<()> {
            let folder = path.parent().expect("entries stand in a folder");
            fs_err::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            for part in parts {
                file.write_all(part)?;
            }
            file.persist(path).map_err(|e| e.error)?;
            Ok(())
        };
        let _ = write();
    }
}

/// Minimum size in bytes for memory-mapping an entry: a solve reads only a small part of large pages.
const MAPPED: u64 = 64 << 10;

/// A file's contents.
fn contents(path: &Path) -> std::io::Result<Bytes> {
    let mut file = fs_err::File::open(path)?;
    let length = file.metadata()?.len();
    if length < MAPPED {
        let mut bytes = vec![0; length as usize];
        file.read_exact(&mut bytes)?;
        return Ok(bytes.into());
    }
    // SAFETY: an entry is never modified in place. It is replaced by a rename, which keeps the mapped file
    // intact until it is unmapped.
    let map = unsafe { memmap2::Mmap::map(file.file()) }?;
    Ok(Bytes::from_owner(map))
}

fn key(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::project::RawFile;

    #[test]
    fn pages_and_metadata_come_back_and_damage_counts_as_absent() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        assert!(cache.page("a").is_none());
        let page = ProjectPage::from_files(
            "demo",
            [RawFile {
                filename: "demo-1-py3-none-any.whl".into(),
                url: "http://h/x".into(),
                ..RawFile::default()
            }],
        );
        let entry = CachedPage { etag: Some("\"x\"".into()), last_modified: None, fresh_until: 7, page };
        cache.store_page("a", &entry);
        let back = cache.page("a").unwrap();
        assert_eq!((back.etag.as_deref(), back.fresh_until), (Some("\"x\""), 7));
        assert_eq!(back.page.as_bytes(), entry.page.as_bytes());
        fs_err::write(cache.page_path("a"), "half").unwrap();
        assert!(cache.page("a").is_none());
        cache.store_metadata("k", &"0".repeat(64), "Name: a\nVersion: 1\n\nlong description");
        assert_eq!(cache.metadata("k").unwrap().version.to_string(), "1");
        let written = fs_err::read_to_string(cache.metadata_path("k")).unwrap();
        assert!(!written.contains("long description"));
    }
}
