//! HTTP requests: retries with backoff, redirects that never send credentials to another origin, limits of size and
//! time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::{self, HeaderMap, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::credentials::{Credentials, without_login};
use super::simple;
use crate::model::listing::local_path;

pub(super) const ATTEMPTS: u32 = 4;
/// A larger body is spooled to disk, or waits until fewer such bodies are in memory. In bytes.
const LARGE: u64 = 4 << 20;
/// How many large bodies are in memory at the same time.
const LARGE_AT_ONCE: usize = 2;
/// The slowest transfer that is not ended, in bytes a second over the time limit.
const SLOWEST: u64 = 1_000;
/// How long a question waits whose answer is only a note.
const GLANCE: Duration = Duration::from_secs(5);
const MAX_REDIRECTS: usize = 8;

/// The HTTP client.
pub(super) struct Http {
    client: reqwest::Client,
    /// Pause before the first retry; doubled each time.
    pub(super) pause: Duration,
    /// Time limit of the headers, of each read, and of a transfer slower than [`SLOWEST`].
    timeout: Duration,
    large: Arc<Semaphore>,
}

/// How large a body may be, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Up to this size it stays in memory; a larger one goes to a temporary file.
    memory: u64,
    /// A larger one is refused.
    total: u64,
}

impl Limit {
    /// A body that stays in memory.
    pub const fn memory(total: u64) -> Limit {
        Limit { memory: total, total }
    }

    /// A body that goes to a temporary file unless it is small.
    pub const fn disk(total: u64) -> Limit {
        Limit { memory: LARGE, total }
    }

    /// A range of up to `range` bytes, which stays in memory, from a server that may send the whole file instead.
    pub const fn range(range: u64, total: u64) -> Limit {
        Limit { memory: range, total }
    }
}

/// The body of a response, at its start.
#[derive(Debug)]
pub(super) enum Body {
    Memory(io::Cursor<Vec<u8>>),
    /// Too large to hold in memory.
    Disk(BufReader<File>),
}

impl Body {
    /// The body as bytes, wherever it is.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn into_bytes(self) -> io::Result<Vec<u8>> {
        match self {
            Body::Memory(bytes) => Ok(bytes.into_inner()),
            Body::Disk(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }

    /// The body as a file that is deleted when closed.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn into_file(self) -> io::Result<File> {
        match self {
            Body::Memory(bytes) => super::small_file(bytes.get_ref()),
            Body::Disk(file) => Ok(file.into_inner()),
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Body::Memory(bytes) => bytes.read(buffer),
            Body::Disk(file) => file.read(buffer),
        }
    }
}

impl Seek for Body {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Body::Memory(bytes) => bytes.seek(to),
            Body::Disk(file) => file.seek(to),
        }
    }
}

/// A response with its body.
#[derive(Debug)]
pub(super) struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Body,
    /// The body's length.
    pub length: u64,
    /// The URL after redirects, without login.
    pub url: Url,
    /// Held as long as a large body is in memory.
    _large: Option<OwnedSemaphorePermit>,
}

impl Response {
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }
}

impl Http {
    pub fn new(certificates: &[PathBuf], timeout_s: u64) -> Result<Http, String> {
        // Fails only if a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("envlock/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(timeout_s.min(30)))
            .read_timeout(Duration::from_secs(timeout_s))
            .http2_adaptive_window(true);
        let mut extra = Vec::new();
        for path in certificates {
            let pem = fs_err::read(path).map_err(|e| e.to_string())?;
            let bundle = reqwest::Certificate::from_pem_bundle(&pem)
                .map_err(|e| format!("`{}` has no valid PEM certificates: {e}", path.display()))?;
            extra.extend(bundle);
        }
        if !extra.is_empty() {
            builder = builder.tls_certs_merge(extra);
        }
        let client = builder.build().map_err(|e| format!("cannot set up HTTPS: {e}"))?;
        let timeout = Duration::from_secs(timeout_s);
        let large = Arc::new(Semaphore::new(LARGE_AT_ONCE));
        Ok(Http { client, pause: Duration::from_millis(200), timeout, large })
    }

    /// GET with retries on transient failures: connection errors, timeouts, 429 and 5xx, truncated bodies.
    /// A file on this machine is opened.
    ///
    /// # Errors
    /// The last failure, one phrase.
    pub async fn get(
        &self,
        url: &Url,
        credentials: &Credentials,
        headers: &HeaderMap,
        limit: Limit,
    ) -> Result<Response, String> {
        if let Some(path) = local_path(url.as_str()) {
            return opened(&path, url, limit);
        }
        let mut pause = self.pause;
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            match self.once(url, credentials, headers, limit).await {
                Ok(answer) if answer.status == 429 || answer.status >= 500 => {
                    last = format!("the server answered {}", answer.status);
                }
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(why)) => return Err(why),
                Err(Failure::Passing(why)) => last = why,
            }
        }
        Err(format!("{last} ({ATTEMPTS} attempts)"))
    }

    /// The size of a file in bytes, by HEAD; `None` if the server does not send it.
    pub async fn size(&self, url: &Url, credentials: &Credentials) -> Option<u64> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(self.pause * (1 << attempt)).await;
            }
            let mut request =
                self.client.head(without_login(url)).header(header::ACCEPT_ENCODING, "identity");
            if let Some(login) = credentials.login(url) {
                request = request.basic_auth(&login.user, Some(&login.password));
            }
            let Ok(Ok(response)) = tokio::time::timeout(self.timeout, request.send()).await else { continue };
            let told =
                response.headers().get(header::CONTENT_LENGTH).filter(|_| response.status().is_success());
            return told?.to_str().ok()?.parse().ok();
        }
        None
    }

    /// Whether a server has a file, in one short request; `None` if it does not say.
    pub async fn has(&self, url: &Url, credentials: &Credentials) -> Option<bool> {
        let first_byte = headers(&[(header::RANGE, "bytes=0-0"), (header::ACCEPT_ENCODING, "identity")]);
        let request = self.once(url, credentials, &first_byte, Limit::memory(simple::MAX_PAGE));
        match tokio::time::timeout(GLANCE.min(self.timeout), request).await.ok()? {
            Ok(answer) if matches!(answer.status, 200 | 206) => Some(true),
            Ok(answer) if matches!(answer.status, 404 | 410) => Some(false),
            _ => None,
        }
    }

    async fn once(
        &self,
        url: &Url,
        credentials: &Credentials,
        headers: &HeaderMap,
        limit: Limit,
    ) -> Result<Response, Failure> {
        let (response, url) = self.open(url, credentials, headers).await?;
        self.read(response, url, limit).await
    }

    /// Sends a request and follows redirects. Returns the response before its body, and the URL that it is from, without login.
    #[expect(clippy::map_err_ignore, reason = "the elapsed timer says no more")]
    pub(super) async fn open(
        &self,
        url: &Url,
        credentials: &Credentials,
        headers: &HeaderMap,
    ) -> Result<(reqwest::Response, Url), Failure> {
        let login = credentials.login(url);
        let home = origin(url);
        let mut current = without_login(url);
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.client.get(current.clone()).headers(headers.clone());
            if let Some(login) = &login
                && origin(&current) == home
            {
                request = request.basic_auth(&login.user, Some(&login.password));
            }
            let response = tokio::time::timeout(self.timeout, request.send())
                .await
                .map_err(|_| Failure::Passing(format!("no answer within {} s", self.timeout.as_secs())))?
                .map_err(|e| Failure::Passing(describe(&e)))?;
            if response.status().is_redirection()
                && let Some(target) = response.headers().get(header::LOCATION)
            {
                let next = target
                    .to_str()
                    .ok()
                    .and_then(|t| current.join(t).ok())
                    .ok_or_else(|| Failure::Final("redirect to an invalid URL".to_owned()))?;
                if current.scheme() == "https" && next.scheme() != "https" {
                    return Err(Failure::Final("redirect from https to http refused".to_owned()));
                }
                current = without_login(&next);
                continue;
            }
            return Ok((response, current));
        }
        Err(Failure::Final("too many redirects".to_owned()))
    }

    /// Watches that a transfer is not too slow.
    pub(super) fn pace(&self) -> Pace {
        Pace { limit: self.timeout, since: Instant::now(), bytes: 0 }
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        url: Url,
        limit: Limit,
    ) -> Result<Response, Failure> {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let too_large = || Failure::Final(format!("the response is larger than {} MiB", limit.total >> 20));
        if response.content_length().is_some_and(|n| n > limit.total) {
            return Err(too_large());
        }
        let mut spool = tempfile::SpooledTempFile::new(usize::try_from(limit.memory).unwrap_or(usize::MAX));
        let mut length = 0u64;
        let mut large = None;
        let mut pace = self.pace();
        let disk = |e: std::io::Error| Failure::Final(format!("cannot store the response ({e})"));
        while let Some(chunk) = response.chunk().await.map_err(|e| Failure::Passing(describe(&e)))? {
            length += chunk.len() as u64;
            if length > limit.total {
                return Err(too_large());
            }
            pace.add(chunk.len())?;
            if length > LARGE && length <= limit.memory && large.is_none() {
                large = Arc::clone(&self.large).acquire_owned().await.ok();
                pace.since = Instant::now();
            }
            spool.write_all(&chunk).map_err(disk)?;
        }
        spool.seek(SeekFrom::Start(0)).map_err(disk)?;
        let body = match spool.into_inner() {
            tempfile::SpooledData::InMemory(cursor) => Body::Memory(cursor),
            tempfile::SpooledData::OnDisk(file) => Body::Disk(BufReader::new(file)),
        };
        Ok(Response { status, headers, body, length, url, _large: large })
    }
}

/// A file on this machine, as a server would send it.
fn opened(path: &Path, url: &Url, limit: Limit) -> Result<Response, String> {
    let file = super::open_file(path).map_err(|e| e.to_string())?;
    let length = file.metadata().map_err(|e| e.to_string())?.len();
    if length > limit.total {
        return Err(format!("the file is larger than {} MiB", limit.total >> 20));
    }
    let body = Body::Disk(BufReader::new(file.into()));
    Ok(Response { status: 200, headers: HeaderMap::new(), body, length, url: url.clone(), _large: None })
}

/// Ends a transfer that is slower than [`SLOWEST`] over a time limit.
pub(super) struct Pace {
    limit: Duration,
    since: Instant,
    bytes: u64,
}

impl Pace {
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes as u64;
        let elapsed = self.since.elapsed();
        if elapsed < self.limit {
            return Ok(());
        }
        if self.bytes < SLOWEST * elapsed.as_secs() {
            let limit = self.limit.as_secs();
            return Err(Failure::Final(format!(
                "the server sends less than 1 kB/s for {limit} s (limit: `ENVLOCK_HTTP_TIMEOUT`)"
            )));
        }
        (self.since, self.bytes) = (Instant::now(), 0);
        Ok(())
    }
}

pub(super) enum Failure {
    /// Transient: worth a retry.
    Passing(String),
    /// Permanent.
    Final(String),
}

fn origin(url: &Url) -> (String, Option<String>, Option<u16>) {
    (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
}

/// A short text for a reqwest error, without the URL, which may contain credentials.
pub(super) fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "the request timed out".to_owned();
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let what = if error.is_connect() {
        "cannot connect"
    } else if error.is_body() || error.is_decode() {
        "the response was incomplete"
    } else {
        "the request failed"
    };
    format!("{what} ({})", crate::model::text::clean(&innermost.to_string(), 120))
}

/// A header map from names and values; invalid values are omitted.
pub(super) fn headers(list: &[(header::HeaderName, &str)]) -> HeaderMap {
    list.iter().filter_map(|(name, value)| Some((name.clone(), HeaderValue::from_str(value).ok()?))).collect()
}
