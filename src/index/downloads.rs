//! Downloads files to where they belong, each whole and with its hash, and goes on where an interrupted run ended.

use std::cell::RefCell;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;
use futures_util::stream;
use reqwest::header;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::IndexClient;
use super::http::{self, ATTEMPTS, Failure, Http, describe};
use crate::model::listing::local_path;
use crate::model::text::{clean, without_logins};

/// How many files are downloaded at the same time.
const AT_ONCE: usize = 6;
/// Maximum size of a file whose size nobody states, in bytes.
const MAX_FILE: u64 = 16 << 30;

/// A file to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Its address.
    pub url: String,
    /// Where it belongs; the folder is there.
    pub path: PathBuf,
    /// Its SHA-256.
    pub sha256: String,
    /// Its size in bytes, if it is known.
    pub size: Option<u64>,
}

/// A file that could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot download `{name}`: {why}")]
pub struct NotDownloaded {
    /// The file's name.
    pub name: String,
    /// Why, one phrase.
    pub why: String,
    /// Whether the server sent another content than the lock has.
    pub is_changed: bool,
}

/// Bytes that arrived, for whoever shows the progress.
type Progress<'p> = RefCell<&'p mut dyn FnMut(u64)>;

/// See [`IndexClient::download_to`].
pub(super) fn run(
    client: &IndexClient,
    files: &[Download],
    progress: &mut dyn FnMut(u64),
) -> Result<(), NotDownloaded> {
    let name = |file: &Download| {
        let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
        clean(&name.unwrap_or_default(), 200)
    };
    let failed = |file: &Download, (why, is_changed): (String, bool)| NotDownloaded {
        name: name(file),
        why: without_logins(&why),
        is_changed,
    };
    let progress = Progress::new(progress);
    let (local, remote): (Vec<&Download>, Vec<&Download>) =
        files.iter().partition(|file| local_path(&file.url).is_some());
    for file in local {
        copy(file, &progress).map_err(|why| failed(file, why))?;
    }
    let Some(first) = remote.first() else { return Ok(()) };
    if client.is_offline() {
        return Err(failed(first, ("nothing is downloaded with `--offline`".to_owned(), false)));
    }
    let (http, runtime) = client.http().map_err(|error| failed(first, (error.to_string(), false)))?;
    let each = remote.iter().map(|file| {
        let progress = &progress;
        async move { (file, fetch(client, http, file, progress).await) }
    });
    let mut worst = None;
    runtime.block_on(async {
        let mut running = stream::iter(each).buffer_unordered(AT_ONCE);
        while let Some((file, result)) = running.next().await {
            if let Err(why) = result {
                worst = Some(failed(file, why));
                break;
            }
        }
    });
    worst.map_or(Ok(()), Err)
}

/// Where a file is while it arrives.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    path.with_file_name(name)
}

/// A file of this machine.
fn copy(file: &Download, progress: &Progress<'_>) -> Result<(), (String, bool)> {
    let told = |error: io::Error| (error.to_string(), false);
    let from = local_path(&file.url).expect("a file on this machine");
    let part = part_of(&file.path);
    super::open_file(&from).map_err(told)?;
    let bytes = fs_err::copy(&from, &part).map_err(told)?;
    progress.borrow_mut()(bytes);
    finish(file, &part)
}

async fn fetch(
    client: &IndexClient,
    http: &Http,
    file: &Download,
    progress: &Progress<'_>,
) -> Result<(), (String, bool)> {
    let url = Url::parse(&file.url).map_err(|error| (format!("its URL is not valid: {error}"), false))?;
    let part = part_of(&file.path);
    let mut pause = http.pause;
    let mut last = String::new();
    // A part that an interrupted run left may be of another content, and a proxy may mix up answers.
    let mut is_first = true;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        match once(client, http, &url, (file, &part), progress).await {
            Ok(()) => match finish(file, &part) {
                Err((why, true)) if is_first => (last, is_first) = (why, false),
                done => return done,
            },
            Err(Failure::Final(why)) => return Err((why, false)),
            Err(Failure::Passing(why)) => last = why,
        }
    }
    Err((format!("{last} ({ATTEMPTS} attempts)"), false))
}

/// One request: for the whole file, or for the rest of it.
async fn once(
    client: &IndexClient,
    http: &Http,
    url: &Url,
    (file, part): (&Download, &Path),
    progress: &Progress<'_>,
) -> Result<(), Failure> {
    let disk = |error: io::Error| Failure::Final(error.to_string());
    let mut out = fs_err::OpenOptions::new().create(true).append(true).open(part).map_err(disk)?;
    let mut have = out.metadata().map_err(disk)?.len();
    if file.size.is_some_and(|size| have > size) {
        out.set_len(0).map_err(disk)?;
        have = 0;
    }
    if file.size == Some(have) && have > 0 {
        return Ok(());
    }
    let range = format!("bytes={have}-");
    let mut list = vec![(header::ACCEPT_ENCODING, "identity")];
    list.extend((have > 0).then_some((header::RANGE, range.as_str())));
    let (mut response, _) = http.open(url, &client.credentials, &http::headers(&list)).await?;
    match response.status().as_u16() {
        206 if have > 0 && starts_at(&response, have) => progress.borrow_mut()(have),
        206 => {
            out.set_len(0).map_err(disk)?;
            return Err(Failure::Passing("the server sent another part of the file".to_owned()));
        }
        200 => {
            // A server without ranges sends the whole file.
            out.set_len(0).map_err(disk)?;
            have = 0;
        }
        416 => {
            out.set_len(0).map_err(disk)?;
            return Err(Failure::Passing("the server does not have the rest of the file".to_owned()));
        }
        status if status == 429 || status >= 500 => {
            return Err(Failure::Passing(format!("the server answered {status}")));
        }
        status => return Err(Failure::Final(format!("the server answered {status}"))),
    }
    let limit = file.size.unwrap_or(MAX_FILE);
    let mut pace = http.pace();
    while let Some(chunk) = response.chunk().await.map_err(|error| Failure::Passing(describe(&error)))? {
        have += chunk.len() as u64;
        if have > limit {
            let _ = out.set_len(0);
            return Err(Failure::Final("it is larger than the lock states".to_owned()));
        }
        pace.add(chunk.len())?;
        out.write_all(&chunk).map_err(disk)?;
        progress.borrow_mut()(chunk.len() as u64);
    }
    Ok(())
}

/// Whether a partial answer is the rest from a byte on.
fn starts_at(response: &reqwest::Response, at: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_none_or(|range| range.starts_with(&format!("bytes {at}-")))
}

/// Puts a file where it belongs, if it has its hash.
fn finish(file: &Download, part: &Path) -> Result<(), (String, bool)> {
    let told = |error: io::Error| (error.to_string(), false);
    let found = sha256_of(part).map_err(told)?;
    if found != file.sha256 {
        // What an interrupted run left may be of another content: the next run begins anew.
        let _ = fs_err::remove_file(part);
        return Err(("its SHA-256 is not the one that is locked".to_owned(), true));
    }
    fs_err::rename(part, &file.path).map_err(told)
}

/// The SHA-256 of a file.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = fs_err::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}
