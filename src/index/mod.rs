//! Client for package indexes: reads project pages and wheel metadata.
//!
//! Reads the simple API (PEP 503 HTML, PEP 691 JSON) and wheel METADATA (PEP 658, else by HTTP range
//! from the wheel's tail, else the whole wheel), concurrently, with retries, a disk cache and an
//! offline mode. Independent of the solver: it answers [`Need`]s and prefetches by a [`Guess`].

mod cache;
mod cache_contents;
mod channels;
mod crawl;
mod credentials;
mod downloads;
mod guess;
mod http;
mod local;
pub mod locate;
mod measured;
mod ranged;
mod reads;
mod remote_wheel;
mod sdists;
mod simple;
mod wheels;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::model::listing::{Listing, local_path};
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, RawFile};
use crate::model::solution::Need;

pub use cache::Cache;
pub use channels::ChannelFolder;
pub use downloads::{Download, NotDownloaded, sha256_of};
pub use guess::Guess;
pub use ranged::RemoteFile;
pub use simple::parse as files_of_page;
pub use wheels::Wheel;

/// Configuration of the index client.
#[derive(Debug, Clone)]
pub struct IndexConfig {
    /// Name and URL of each index: a simple API, a page of links, or a folder (`file:///srv/wheels`). For `pytorch`, the
    /// variant is appended to the URL (`pytorch/cu126`).
    pub addresses: Vec<(String, String)>,
    /// The cache folder.
    pub cache_dir: PathBuf,
    /// Use only the cache.
    pub offline: bool,
    /// The netrc file, if any.
    pub netrc: Option<PathBuf>,
    /// Extra certificate authorities (PEM files).
    pub certificates: Vec<PathBuf>,
    /// Read timeout of a request, in seconds.
    pub timeout_s: u64,
    /// When no conda channel is waited for any longer; `None`: as long as it sends.
    pub until: Option<Instant>,
}

/// An answered need.
#[derive(Debug, Clone)]
pub enum Fetched {
    /// A project page; `None` if the index does not have the project.
    Page {
        /// Index name.
        index: String,
        /// Project.
        project: String,
        /// The page.
        page: Option<Arc<ProjectPage>>,
    },
    /// METADATA of a wheel, or why it cannot be used.
    Metadata {
        /// Index name.
        index: String,
        /// Wheel file name.
        filename: String,
        /// The metadata.
        metadata: Result<Arc<CoreMetadata>, String>,
    },
}

/// Why the index could not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// No URL is configured for the index.
    #[error("no URL is configured for the index `{0}`")]
    NoAddress(String),
    /// Not in the cache, and `--offline` is given.
    #[error("`{what}` is not in the cache, and `--offline` is given")]
    Offline {
        /// Project or file.
        what: String,
    },
    /// The request failed after all retries.
    #[error("cannot read {what} from the index `{index}`: {why}")]
    Request {
        /// Project or file.
        what: String,
        /// Index name.
        index: String,
        /// The last failure, without credentials.
        why: String,
    },
    /// A folder or page on this machine that cannot be read.
    #[error("cannot read the files of the index `{index}`: {why}")]
    Local {
        /// Index name.
        index: String,
        /// The failure, with the path.
        why: String,
    },
    /// A conda channel did not answer after all retries.
    #[error("cannot read {what} from the channel `{channel}`: {why}")]
    Channel {
        /// The file.
        what: String,
        /// The channel's name.
        channel: String,
        /// The last failure, without credentials.
        why: String,
    },
    /// The response does not have the expected format.
    #[error("the index `{index}` returned an invalid response for {what}: {why}")]
    Format {
        /// Project or file.
        what: String,
        /// Index name.
        index: String,
        /// What is wrong.
        why: String,
    },
    /// A file that a direct reference names is not what it should be.
    #[error("`{url}` cannot be used: {why}")]
    Direct {
        /// Its URL, without login.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The run has read as much as a run may.
    #[error("{0}")]
    Limit(String),
    /// The client could not be set up, or a file could not be downloaded.
    #[error("{0}")]
    Setup(String),
}

impl IndexError {
    /// The index that failed, if the error is about one.
    pub fn index(&self) -> Option<&str> {
        match self {
            IndexError::NoAddress(index)
            | IndexError::Local { index, .. }
            | IndexError::Request { index, .. }
            | IndexError::Format { index, .. } => Some(index),
            IndexError::Offline { .. }
            | IndexError::Channel { .. }
            | IndexError::Direct { .. }
            | IndexError::Limit(_)
            | IndexError::Setup(_) => None,
        }
    }
}

/// Pages by index and project.
type Pages = std::collections::HashMap<(String, String), Arc<ProjectPage>>;

/// The HTTP client and its runtime.
struct Network {
    http: http::Http,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Network {
    fn drop(&mut self) {
        // An unneeded DNS lookup may still block for seconds: do not wait for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Client for package indexes.
pub struct IndexClient {
    config: IndexConfig,
    cache: Cache,
    credentials: credentials::Credentials,
    network: std::sync::OnceLock<Network>,
    /// What this run may still read.
    reads: reads::Reads,
    /// Pages read in this run. They do not depend on a writable cache folder.
    pages: std::sync::Mutex<Pages>,
    /// By index and project: the oldest release whose METADATA was needed, and how often the need was for an older
    /// release than before. Shows that the solver is backtracking through the releases.
    backtracking: std::sync::Mutex<HashMap<(String, String), (pep440_rs::Version, u32)>>,
    /// Indexes that do not serve METADATA files which their pages do not announce.
    without_metadata: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

impl IndexClient {
    /// Creates a client without using network or cache.
    pub fn new(config: IndexConfig) -> IndexClient {
        IndexClient {
            cache: Cache::new(&config.cache_dir),
            credentials: credentials::Credentials::new(config.netrc.clone(), &config.addresses),
            network: std::sync::OnceLock::new(),
            reads: reads::Reads::default(),
            pages: std::sync::Mutex::default(),
            backtracking: std::sync::Mutex::default(),
            without_metadata: std::sync::Mutex::default(),
            config,
        }
    }

    fn serves_metadata(&self, index: &str) -> bool {
        self.without_metadata.lock().is_ok_and(|set| !set.contains(index))
    }

    fn disable_unannounced_metadata(&self, index: &str) {
        if let Ok(mut set) = self.without_metadata.lock() {
            set.insert(index.to_owned());
        }
    }

    /// The address of an index: the URL that is configured for it, or that of the sub-index.
    fn address(&self, index: &str) -> Result<String, IndexError> {
        let (family, variant) = index.split_once('/').map_or((index, None), |(f, v)| (f, Some(v)));
        let configured = self.config.addresses.iter().find(|(name, _)| name == family);
        let (_, base) = configured.ok_or_else(|| IndexError::NoAddress(index.to_owned()))?;
        Ok(match variant {
            Some(variant) => format!("{}/{variant}", base.trim_end_matches('/')),
            None => base.clone(),
        })
    }

    /// The folder or file on this machine that an index is, if it is none on a server.
    fn local(&self, index: &str) -> Result<Option<PathBuf>, IndexError> {
        Ok(local_path(&self.address(index)?))
    }

    /// The URL of the page that lists the files of a project: its own, or that of all of them.
    fn page_url(&self, index: &str, project: &str) -> Result<url::Url, IndexError> {
        let address = self.address(index)?;
        let text = match Listing::of_address(&address) {
            Listing::Index => format!("{}/{project}/", address.trim_end_matches('/')),
            Listing::Links => address,
        };
        url::Url::parse(&text).map_err(|why| {
            IndexError::Setup(format!(
                "the URL of the index `{index}` is not valid ({why}): `{}`",
                crate::model::text::without_logins(&crate::model::text::clean(&text, 200))
            ))
        })
    }

    /// Answers needs, and prefetches what `guess` predicts. `progress` receives the number of finished
    /// requests and of all requests so far.
    ///
    /// # Errors
    /// The first need that could not be answered. A failed prefetch is not an error.
    pub fn fetch(
        &self,
        needs: &[Need],
        guess: Option<&Guess>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Fetched>, IndexError> {
        crawl::run(self, needs, guess, progress)
    }

    /// The HTTP client and its runtime, set up at first use.
    fn http(&self) -> Result<(&http::Http, &tokio::runtime::Runtime), IndexError> {
        let network = match self.network.get() {
            Some(network) => network,
            None => {
                let http = http::Http::new(&self.config.certificates, self.config.timeout_s)
                    .map_err(IndexError::Setup)?;
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|e| IndexError::Setup(format!("cannot start the network runtime: {e}")))?;
                self.network.get_or_init(|| Network { http, runtime: Some(runtime) })
            }
        };
        let runtime = network.runtime.as_ref().expect("taken only when dropped");
        Ok((&network.http, runtime))
    }

    /// Downloads a file into a temporary file that is deleted when closed.
    ///
    /// # Errors
    /// With `--offline`, and when the server does not send the file.
    pub fn download(&self, address: &str) -> Result<std::fs::File, IndexError> {
        self.download_up_to(address, remote_wheel::MAX_WHEEL)
    }

    /// [`IndexClient::download`] of at most so many bytes.
    ///
    /// # Errors
    /// As there, and for a larger file.
    pub fn download_up_to(&self, address: &str, limit: u64) -> Result<std::fs::File, IndexError> {
        let shown = crate::model::text::without_logins(&crate::model::text::clean(address, 200));
        let failed = |why: String| IndexError::Setup(format!("cannot read `{shown}`: {why}"));
        if let Some(path) = local_path(address) {
            return open_file(&path).map(Into::into).map_err(|e| failed(e.to_string()));
        }
        if self.config.offline {
            return Err(IndexError::Offline { what: shown });
        }
        let url = url::Url::parse(address).map_err(|e| failed(e.to_string()))?;
        let (http, runtime) = self.http()?;
        let headers = reqwest::header::HeaderMap::new();
        let answer = runtime
            .block_on(http.get(&url, &self.credentials, &headers, http::Limit::disk(limit)))
            .map_err(failed)?;
        if answer.status != 200 {
            return Err(failed(format!("the server answered {}", answer.status)));
        }
        answer.body.into_file().map_err(|e| failed(e.to_string()))
    }

    /// Downloads wheels, a few at the same time, each into a temporary file. `done` receives the number of each wheel, and the file
    /// if its hash is the one that the index states, else why there is none.
    pub fn download_each(
        &self,
        wheels: &[Wheel<'_>],
        done: &mut dyn FnMut(usize, Result<std::fs::File, String>),
    ) {
        wheels::download_each(self, wheels, done);
    }

    /// Downloads files to where they belong, a few at the same time. What an interrupted run had of a file is kept beside it
    /// (`NAME.part`), and only the rest is asked for. A file is there only if its content has its hash. `progress` receives the
    /// number of bytes that arrived.
    ///
    /// # Errors
    /// The first file that could not be had; what is on its way beside it is finished before.
    pub fn download_to(
        &self,
        files: &[Download],
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), NotDownloaded> {
        downloads::run(self, files, progress)
    }

    /// Whether nothing is read from the network.
    pub fn is_offline(&self) -> bool {
        self.config.offline
    }

    /// The folder of the cache.
    pub fn cache_dir(&self) -> &std::path::Path {
        &self.config.cache_dir
    }

    /// Whether a server has a file; `None` with `--offline`, and if the server does not say it at once.
    pub fn has(&self, address: &str) -> Option<bool> {
        if self.config.offline {
            return None;
        }
        let url = url::Url::parse(address).ok()?;
        let (http, runtime) = self.http().ok()?;
        runtime.block_on(http.has(&url, &self.credentials))
    }

    /// The metadata of a wheel or source distribution at a URL, and the file as an index page would list it. A wheel is
    /// read by ranges if the reference states its hash, else downloaded and hashed.
    ///
    /// # Errors
    /// With `--offline`, if the server does not answer, and if the file is not what the reference states.
    pub fn read_direct(
        &self,
        name: &str,
        url: &str,
        sha256: Option<&str>,
    ) -> Result<(CoreMetadata, RawFile), IndexError> {
        sdists::read_direct(self, name, url, sha256)
    }

    /// Sizes in bytes, by file name, of files whose pages do not state them: from the cache, or by HEAD
    /// requests. Unknown sizes are omitted.
    pub fn sizes(&self, files: &[Need]) -> std::collections::HashMap<String, u64> {
        measured::sizes(self, files)
    }

    /// Size and SHA-256, by file name, of files whose index states no hash. Downloads each file.
    ///
    /// # Errors
    /// The first file that could not be downloaded.
    pub fn measure(
        &self,
        files: &[Need],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<std::collections::HashMap<String, (u64, String)>, IndexError> {
        measured::measure(self, files, progress)
    }
}

/// The metadata of a wheel on this machine.
///
/// # Errors
/// What is wrong with it, one phrase.
pub fn metadata_of_wheel(
    wheel: impl std::io::Read + std::io::Seek,
    filename: &str,
) -> Result<CoreMetadata, String> {
    let name = filename.parse::<crate::model::wheel::WheelName>().map_err(|e| e.to_string())?;
    let text = remote_wheel::extract(wheel, &name.project).map_err(|failure| failure.to_string())?;
    metadata_of_text(&text)
}

/// The METADATA of a wheel on this machine as text.
///
/// # Errors
/// What is wrong with the wheel, one phrase.
pub fn metadata_text_of_wheel(
    wheel: impl std::io::Read + std::io::Seek,
    filename: &str,
) -> Result<String, String> {
    let name = filename.parse::<crate::model::wheel::WheelName>().map_err(|e| e.to_string())?;
    let text = remote_wheel::extract(wheel, &name.project).map_err(|failure| failure.to_string())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Parses the bytes of a METADATA file.
fn metadata_of_text(text: &[u8]) -> Result<CoreMetadata, String> {
    use sha2::{Digest as _, Sha256};
    let digest = hex::encode(Sha256::digest(text));
    // A login in a requirement goes no further.
    let text = crate::model::text::without_logins(&String::from_utf8_lossy(text));
    CoreMetadata::parse(&text, digest).map_err(|e| e.to_string())
}

/// Opens a file on this machine; a pipe or a device would be waited for.
fn open_file(path: &std::path::Path) -> std::io::Result<fs_err::File> {
    match fs_err::metadata(path)?.is_file() {
        true => fs_err::File::open(path),
        false => Err(std::io::Error::other(format!("`{}` is not a file", path.display()))),
    }
}

/// Writes bytes to an unnamed temporary file and rewinds it.
fn small_file(bytes: &[u8]) -> std::io::Result<std::fs::File> {
    use std::io::{Seek as _, Write as _};
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
