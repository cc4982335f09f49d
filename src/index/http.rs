//! One request: retries with backoff, redirects that keep credentials at home, bodies under limits.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderValue};
use url::Url;

use super::credentials::{Credentials, without_login};
use super::simple;

const ATTEMPTS: u32 = 4;
/// Whole wheels are larger than memory should hold: of them, this many bytes are.
const IN_MEMORY: usize = 16 << 20;
const MAX_REDIRECTS: usize = 8;

/// The HTTP client.
pub(super) struct Http {
    client: reqwest::Client,
    /// First pause between attempts; doubled each time.
    pause: Duration,
}

/// An answer whose body was read.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body; empty where it went to `file`.
    pub body: Vec<u8>,
    /// A body too large to hold in memory, rewound to its start.
    pub file: Option<std::fs::File>,
    /// The body's length.
    pub length: u64,
    /// The address that answered, after redirects, without login.
    pub url: Url,
}

impl Answer {
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }
}

impl Http {
    pub fn new(certificates: &[PathBuf], timeout_s: u64) -> Result<Http, String> {
        // Fails only when a provider is installed already.
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
                .map_err(|_| format!("`{}` holds no certificates", path.display()))?;
            extra.extend(bundle);
        }
        if !extra.is_empty() {
            builder = builder.tls_certs_merge(extra);
        }
        let client = builder.build().map_err(|e| format!("cannot set up HTTPS: {e}"))?;
        Ok(Http { client, pause: Duration::from_millis(200) })
    }

    /// GET with retries on what may pass: connection failures, timeouts, 429 and 5xx, cut bodies.
    ///
    /// # Errors
    /// One phrase about the last failure.
    pub async fn get(
        &self,
        url: &Url,
        credentials: &Credentials,
        headers: &HeaderMap,
        limit: u64,
    ) -> Result<Answer, String> {
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
        Err(format!("{last}, {ATTEMPTS} times"))
    }

    /// The size of a file, by HEAD; `None` where the server does not tell.
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
            let Ok(response) = request.send().await else { continue };
            let told =
                response.headers().get(header::CONTENT_LENGTH).filter(|_| response.status().is_success());
            return told?.to_str().ok()?.parse().ok();
        }
        None
    }

    async fn once(
        &self,
        url: &Url,
        credentials: &Credentials,
        headers: &HeaderMap,
        limit: u64,
    ) -> Result<Answer, Failure> {
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
            let response = request.send().await.map_err(|e| Failure::Passing(describe(&e)))?;
            if response.status().is_redirection()
                && let Some(target) = response.headers().get(header::LOCATION)
            {
                let next = target
                    .to_str()
                    .ok()
                    .and_then(|t| current.join(t).ok())
                    .ok_or_else(|| Failure::Final("a redirect to no address".to_owned()))?;
                if current.scheme() == "https" && next.scheme() != "https" {
                    return Err(Failure::Final("a redirect from https to http".to_owned()));
                }
                current = without_login(&next);
                continue;
            }
            return read(response, current, limit).await;
        }
        Err(Failure::Final("too many redirects".to_owned()))
    }
}

/// Reads a body: into memory where the limit is that of a page, else from [`IN_MEMORY`] on to disk.
async fn read(mut response: reqwest::Response, url: Url, limit: u64) -> Result<Answer, Failure> {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    if response.content_length().is_some_and(|n| n > limit) {
        return Err(Failure::Final(format!("a body of more than {} MB", limit >> 20)));
    }
    let in_memory = if limit <= simple::MAX_PAGE { usize::MAX } else { IN_MEMORY };
    let mut spool = tempfile::SpooledTempFile::new(in_memory);
    let mut length = 0u64;
    let disk = |e: std::io::Error| Failure::Final(format!("a body that cannot be kept ({e})"));
    while let Some(chunk) = response.chunk().await.map_err(|e| Failure::Passing(describe(&e)))? {
        length += chunk.len() as u64;
        if length > limit {
            return Err(Failure::Final(format!("a body of more than {} MB", limit >> 20)));
        }
        spool.write_all(&chunk).map_err(disk)?;
    }
    spool.seek(SeekFrom::Start(0)).map_err(disk)?;
    let (body, file) = match spool.into_inner() {
        tempfile::SpooledData::InMemory(cursor) => (cursor.into_inner(), None),
        tempfile::SpooledData::OnDisk(file) => (Vec::new(), Some(file)),
    };
    Ok(Answer { status, headers, body, file, length, url })
}

enum Failure {
    /// Worth another attempt.
    Passing(String),
    /// Will not change.
    Final(String),
}

fn origin(url: &Url) -> (String, Option<String>, Option<u16>) {
    (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
}

/// An error of reqwest in a few words, without the address (which may hold credentials).
fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let what = if error.is_connect() {
        "cannot connect"
    } else if error.is_body() || error.is_decode() {
        "the body broke off"
    } else {
        "the request failed"
    };
    format!("{what} ({})", crate::model::text::clean(&innermost.to_string(), 120))
}

/// Headers of one value each.
pub(super) fn headers(list: &[(header::HeaderName, &str)]) -> HeaderMap {
    list.iter().filter_map(|(name, value)| Some((name.clone(), HeaderValue::from_str(value).ok()?))).collect()
}
