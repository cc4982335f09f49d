//! The package index as an edge: pages and wheel metadata in, plain values out.
//!
//! Reads the simple API (PEP 503 HTML, PEP 691 JSON) and wheel METADATA (PEP 658, else by HTTP range
//! from the wheel's tail, else the whole wheel), concurrently, with retries, a disk cache and an
//! offline mode. Nothing here knows the solver: it answers [`Need`]s and reads ahead by a [`Guess`].

mod cache;
mod crawl;
mod credentials;
mod guess;
mod http;
pub mod locate;
mod ranged;
mod remote_wheel;
mod simple;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::model::metadata::CoreMetadata;
use crate::model::project::ProjectPage;
use crate::model::solution::Need;

use cache::Cache;
pub use guess::Guess;

/// Where indexes are and how to reach them.
#[derive(Debug, Clone)]
pub struct IndexConfig {
    /// Address of the simple API of each index by name; `pytorch` is a base to which the variant is
    /// added (`pytorch/cu126`).
    pub addresses: Vec<(String, String)>,
    /// The cache folder.
    pub cache_dir: PathBuf,
    /// Answer from the cache alone.
    pub offline: bool,
    /// The netrc file, if any.
    pub netrc: Option<PathBuf>,
    /// Extra certificate authorities (PEM files).
    pub certificates: Vec<PathBuf>,
    /// How long one request may take without a byte, in seconds.
    pub timeout_s: u64,
}

/// An answered need.
#[derive(Debug, Clone)]
pub enum Fetched {
    /// A page; `None` when the index has no such project.
    Page {
        /// Index name.
        index: String,
        /// Project.
        project: String,
        /// The page.
        page: Option<Arc<ProjectPage>>,
    },
    /// A METADATA, or why it cannot be used.
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
    /// No address is configured for the index.
    #[error("no address is known for the index `{0}`")]
    NoAddress(String),
    /// Not in the cache, and the network is off.
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
        /// The last failure, without addresses' credentials.
        why: String,
    },
    /// The answer is not what the format says.
    #[error("the index `{index}` answered {what} with {why}")]
    Format {
        /// Project or file.
        what: String,
        /// Index name.
        index: String,
        /// What is wrong.
        why: String,
    },
    /// The cache or client could not be set up.
    #[error("{0}")]
    Setup(String),
}

impl IndexError {
    /// The index that failed, where one did.
    pub fn index(&self) -> Option<&str> {
        match self {
            IndexError::NoAddress(index)
            | IndexError::Request { index, .. }
            | IndexError::Format { index, .. } => Some(index),
            IndexError::Offline { .. } | IndexError::Setup(_) => None,
        }
    }
}

/// Pages by index and project.
type Pages = std::collections::HashMap<(String, String), Arc<ProjectPage>>;

/// What talks to the network.
struct Network {
    http: http::Http,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Network {
    fn drop(&mut self) {
        // A name look-up that nobody waits for any more may hang for seconds; the answer is there.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Reads indexes.
pub struct IndexClient {
    config: IndexConfig,
    cache: Cache,
    credentials: credentials::Credentials,
    network: std::sync::OnceLock<Network>,
    /// Pages of this run: a cache folder that cannot be written only makes things slower.
    pages: std::sync::Mutex<Pages>,
    /// The oldest release of a project whose METADATA was needed, and how often it was an older one than before: who
    /// goes on so is walking back through its releases.
    walks: std::sync::Mutex<HashMap<(String, String), (pep440_rs::Version, u32)>>,
    /// Indexes that do not serve METADATA files unless their pages say so.
    without_metadata: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

impl IndexClient {
    /// A client; touches neither network nor cache yet.
    pub fn new(config: IndexConfig) -> IndexClient {
        IndexClient {
            cache: Cache::new(&config.cache_dir),
            credentials: credentials::Credentials::new(config.netrc.clone(), &config.addresses),
            network: std::sync::OnceLock::new(),
            pages: std::sync::Mutex::default(),
            walks: std::sync::Mutex::default(),
            without_metadata: std::sync::Mutex::default(),
            config,
        }
    }

    fn serves_metadata(&self, index: &str) -> bool {
        self.without_metadata.lock().is_ok_and(|set| !set.contains(index))
    }

    fn no_untold_metadata(&self, index: &str) {
        if let Ok(mut set) = self.without_metadata.lock() {
            set.insert(index.to_owned());
        }
    }

    /// The address of a project's page on an index.
    fn page_url(&self, index: &str, project: &str) -> Result<url::Url, IndexError> {
        let (family, variant) = index.split_once('/').map_or((index, None), |(f, v)| (f, Some(v)));
        let base = self
            .config
            .addresses
            .iter()
            .find(|(name, _)| name == family)
            .map(|(_, address)| address.trim_end_matches('/'))
            .ok_or_else(|| IndexError::NoAddress(index.to_owned()))?;
        let text = match variant {
            Some(variant) => format!("{base}/{variant}/{project}/"),
            None => format!("{base}/{project}/"),
        };
        url::Url::parse(&text).map_err(|_| {
            IndexError::Setup(format!(
                "the address of the index `{index}` is not a URL: `{}`",
                crate::model::text::without_logins(&crate::model::text::clean(&text, 200))
            ))
        })
    }

    /// Answers needs, and what the guess says will be needed next. `progress` is told how many
    /// requests are done and how many are known.
    ///
    /// # Errors
    /// The first need that could not be answered; what was only guessed never fails.
    pub fn fetch(
        &self,
        needs: &[Need],
        guess: Option<&Guess>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Fetched>, IndexError> {
        crawl::run(self, needs, guess, progress)
    }

    /// The HTTP client and the runtime that its connections live on, set up when first needed.
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

    /// A file at an address, whole, in a temporary file that is gone when it is closed.
    ///
    /// # Errors
    /// Without a network, and when the server does not send it.
    pub fn download(&self, address: &str) -> Result<std::fs::File, IndexError> {
        let shown = crate::model::text::without_logins(&crate::model::text::clean(address, 200));
        let failed = |why: String| IndexError::Setup(format!("cannot read `{shown}`: {why}"));
        if self.config.offline {
            return Err(IndexError::Offline { what: shown });
        }
        let url = url::Url::parse(address).map_err(|e| failed(e.to_string()))?;
        let (http, runtime) = self.http()?;
        let headers = reqwest::header::HeaderMap::new();
        let answer = runtime
            .block_on(http.get(&url, &self.credentials, &headers, remote_wheel::MAX_WHEEL))
            .map_err(failed)?;
        if answer.status != 200 {
            return Err(failed(format!("status {}", answer.status)));
        }
        match answer.file {
            Some(file) => Ok(file),
            None => small_file(&answer.body).map_err(|e| failed(e.to_string())),
        }
    }

    /// The sizes in bytes of files whose pages do not state them, by file name: asked from the server,
    /// or the cache. What cannot be told is left out.
    pub fn sizes(&self, files: &[Need]) -> std::collections::HashMap<String, u64> {
        crawl::sizes(self, files)
    }

    /// Size and SHA-256 of files whose index states no hash, by file name: each is read whole.
    ///
    /// # Errors
    /// The first file that could not be read.
    pub fn measure(
        &self,
        files: &[Need],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<std::collections::HashMap<String, (u64, String)>, IndexError> {
        crawl::measure(self, files, progress)
    }
}

/// Bytes as an unnamed temporary file, at its start.
fn small_file(bytes: &[u8]) -> std::io::Result<std::fs::File> {
    use std::io::{Seek as _, Write as _};
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
