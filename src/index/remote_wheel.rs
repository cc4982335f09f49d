//! Reads METADATA from a wheel on a server: from its tail by HTTP range requests, or from the whole file if the
//! server does not support ranges.

use std::io::{self, Read, Seek, SeekFrom};

use reqwest::header;
use sha2::{Digest, Sha256};
use url::Url;

use super::credentials::Credentials;
use super::http::{Http, Limit, headers};
use crate::model::project::ReleaseFile;
use crate::model::text::normalized_name;

/// Size of the first range in bytes: contains the zip directory and usually METADATA.
const TAIL: u64 = 64 << 10;
/// Maximum size of METADATA, in bytes.
pub(super) const MAX_METADATA: u64 = 16 << 20;
/// Maximum number of bytes read from one wheel by range requests.
const MAX_RANGES: u64 = 64 << 20;
/// Maximum size of a wheel that is downloaded completely, in bytes.
pub(super) const MAX_WHEEL: u64 = 4 << 30;

/// Why a wheel could not be read; one phrase each.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request failed; a later run may succeed.
    Transport(String),
    /// The server sent an invalid wheel: the release is unusable.
    Content(String),
}

impl Failure {
    fn status(status: u16) -> Failure {
        Failure::Transport(format!("the server answered {status}"))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Transport(why) | Failure::Content(why) => f.write_str(why),
        }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Transport(why)
    }
}

/// The METADATA text of a wheel.
///
/// # Errors
/// See [`Failure`].
pub(super) async fn metadata(
    http: &Http,
    credentials: &Credentials,
    file: &ReleaseFile,
) -> Result<Vec<u8>, Failure> {
    let url = Url::parse(&file.url).map_err(|e| format!("the wheel's URL is not valid: {e}"))?;
    let range = format!("bytes=-{TAIL}");
    let first = http
        .get(
            &url,
            credentials,
            &headers(&[(header::RANGE, &range), (header::ACCEPT_ENCODING, "identity")]),
            Limit::disk(MAX_WHEEL),
        )
        .await?;
    match first.status {
        206 => by_ranges(http, credentials, &url, file, first).await,
        200 => whole(first, file),
        416 => {
            let all = http.get(&url, credentials, &header::HeaderMap::new(), Limit::disk(MAX_WHEEL)).await?;
            if all.status == 200 { whole(all, file) } else { Err(Failure::status(all.status)) }
        }
        status => Err(Failure::status(status)),
    }
}

async fn by_ranges(
    http: &Http,
    credentials: &Credentials,
    url: &Url,
    file: &ReleaseFile,
    first: super::http::Response,
) -> Result<Vec<u8>, Failure> {
    let (start, total) = content_range(&first)?;
    if start == 0 && total == first.length {
        return whole(first, file);
    }
    // More than was asked for would be held in memory.
    if first.length > TAIL {
        return Err(Failure::Content("the server sent other bytes than the requested range".to_owned()));
    }
    let tail = first.body.into_bytes().map_err(unreadable)?;
    let directory = directory_start(&tail).filter(|at| *at < start);
    let mut sparse = SparseFile { total, position: 0, chunks: vec![(start, tail)], missing: directory };
    let mut size = TAIL;
    for _ in 0..16 {
        if sparse.missing.is_some_and(|at| at < start && Some(at) == directory) {
            // The zip directory of a wheel with thousands of files is longer than the tail: fetch the rest
            // in one request.
            size = start - directory.unwrap_or(start);
            if size > MAX_RANGES {
                return Err(Failure::Content("the wheel's zip directory is too large".to_owned()));
            }
            sparse.fetch(http, credentials, url, size).await?;
            size = TAIL;
        }
        sparse.missing = None;
        match extract(&mut sparse, project_of(file)) {
            Ok(metadata) => return Ok(metadata),
            Err(why) => {
                if sparse.missing.is_none() {
                    return Err(why);
                }
                sparse.fetch(http, credentials, url, size).await?;
                size *= 2;
            }
        }
    }
    Err(Failure::Content("reading METADATA of the wheel needs too many requests".to_owned()))
}

fn whole(mut answer: super::http::Response, file: &ReleaseFile) -> Result<Vec<u8>, Failure> {
    if let Some(expected) = &file.sha256
        && digest(&mut answer)? != *expected
    {
        return Err(Failure::Content("the wheel's SHA-256 differs from the index".to_owned()));
    }
    extract(answer.body, project_of(file))
}

/// SHA-256 of a body.
pub(super) fn digest(answer: &mut super::http::Response) -> Result<String, Failure> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = answer.body.read(&mut buffer).map_err(unreadable)?;
        if n == 0 {
            break;
        }
        hasher.update(&buffer[..n]);
    }
    answer.body.rewind().map_err(unreadable)?;
    Ok(hex::encode(hasher.finalize()))
}

/// A read error of the local temporary file, which is not a fault of the wheel.
fn unreadable(error: io::Error) -> Failure {
    Failure::Transport(format!("cannot read the downloaded file ({error})"))
}

/// Downloads a wheel for its size and SHA-256, for indexes that state no hash.
///
/// # Errors
/// See [`Failure`].
pub(super) async fn measure(
    http: &Http,
    credentials: &Credentials,
    file: &ReleaseFile,
) -> Result<(u64, String), Failure> {
    let url = Url::parse(&file.url).map_err(|e| format!("the wheel's URL is not valid: {e}"))?;
    let mut answer = http.get(&url, credentials, &header::HeaderMap::new(), Limit::disk(MAX_WHEEL)).await?;
    if answer.status != 200 {
        return Err(Failure::status(answer.status));
    }
    Ok((answer.length, digest(&mut answer)?))
}

fn project_of(file: &ReleaseFile) -> &str {
    file.wheel().map_or("", |wheel| &wheel.project)
}

/// The METADATA of the wheel's own `.dist-info` folder.
pub(super) fn extract<R: Read + Seek>(reader: R, project: &str) -> Result<Vec<u8>, Failure> {
    let mut archive = zip::ZipArchive::new(reader)
        .map_err(|e| Failure::Content(format!("the wheel is not a zip archive: {e}")))?;
    let wanted = normalized_name(project);
    let mut folders: Vec<String> = archive
        .file_names()
        .filter_map(Result::ok)
        .filter_map(|name| Some(name.split_once('/')?.0.strip_suffix(".dist-info")?.to_owned()))
        .collect();
    folders.sort_unstable();
    folders.dedup();
    // Installers refuse it too: which of the two they would read is open.
    let stem = match folders.as_slice() {
        [stem] => stem,
        [] => return Err(Failure::Content("the wheel has no METADATA".to_owned())),
        _ => return Err(Failure::Content("the wheel has two .dist-info folders".to_owned())),
    };
    if stem.split_once('-').is_none_or(|(project, _)| normalized_name(project) != wanted) {
        return Err(Failure::Content("the wheel has no METADATA".to_owned()));
    }
    let name = format!("{stem}.dist-info/METADATA");
    let entry = archive
        .by_name(&name)
        .map_err(|e| Failure::Content(format!("the wheel's METADATA cannot be read: {e}")))?;
    if entry.size() > MAX_METADATA {
        return Err(Failure::Content("the wheel's METADATA is too large".to_owned()));
    }
    let mut out = Vec::new();
    entry
        .take(MAX_METADATA)
        .read_to_end(&mut out)
        .map_err(|e| Failure::Content(format!("the wheel's METADATA cannot be decompressed: {e}")))?;
    Ok(out)
}

/// Start and total of a Content-Range header: (100, 200) for `bytes 100-199/200`. Checks the length of the body.
#[expect(clippy::map_err_ignore, reason = "every part that is not a number is refused alike")]
pub(super) fn content_range(answer: &super::http::Response) -> Result<(u64, u64), Failure> {
    let wrong = || Failure::Transport("the server sent no valid Content-Range header".to_owned());
    let text = answer.header(header::CONTENT_RANGE).ok_or_else(wrong)?;
    let (span, total) = text.strip_prefix("bytes ").and_then(|t| t.split_once('/')).ok_or_else(wrong)?;
    let (start, end) = span.split_once('-').ok_or_else(wrong)?;
    let parse = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong());
    let (start, end, total) = (parse(start)?, parse(end)?, parse(total)?);
    if end < start || end >= total || end - start + 1 != answer.length {
        return Err(Failure::Content("the server sent other bytes than the requested range".to_owned()));
    }
    Ok((start, total))
}

/// A partially fetched file. Reading another part fails and stores its position in `missing`.
struct SparseFile {
    total: u64,
    position: u64,
    chunks: Vec<(u64, Vec<u8>)>,
    missing: Option<u64>,
}

impl SparseFile {
    /// Fetches `size` bytes from the missing position.
    async fn fetch(
        &mut self,
        http: &Http,
        credentials: &Credentials,
        url: &Url,
        size: u64,
    ) -> Result<(), Failure> {
        let Some(from) = self.missing else { return Ok(()) };
        let end = (from + size - 1).min(self.total.saturating_sub(1));
        if self.chunks.iter().map(|c| c.1.len() as u64).sum::<u64>() > MAX_RANGES {
            return Err(Failure::Content("reading METADATA of the wheel needs too many bytes".to_owned()));
        }
        let range = format!("bytes={from}-{end}");
        let answer = http
            .get(
                url,
                credentials,
                &headers(&[(header::RANGE, &range), (header::ACCEPT_ENCODING, "identity")]),
                Limit::memory(MAX_RANGES),
            )
            .await?;
        if answer.status != 206 {
            return Err(Failure::Transport(format!(
                "the server answered {} to a range request after serving another",
                answer.status
            )));
        }
        let (start, total) = content_range(&answer)?;
        if start != from || total != self.total {
            return Err(Failure::Content("the server sent other bytes than the requested range".to_owned()));
        }
        self.chunks.push((start, answer.body.into_bytes().map_err(unreadable)?));
        Ok(())
    }
}

/// The offset of the zip directory, from the record at the end of the file.
fn directory_start(tail: &[u8]) -> Option<u64> {
    let at = tail.windows(4).rposition(|w| w == b"PK\x05\x06")?;
    let bytes: [u8; 4] = tail.get(at + 16..at + 20)?.try_into().ok()?;
    let offset = u32::from_le_bytes(bytes);
    // All ones means zip64: the offset is in another record, which the zip reader finds.
    (offset != u32::MAX).then_some(u64::from(offset))
}

impl Read for SparseFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.total || buffer.is_empty() {
            return Ok(0);
        }
        for (start, bytes) in &self.chunks {
            if let Some(offset) = self.position.checked_sub(*start)
                && let Some(rest) = usize::try_from(offset).ok().and_then(|o| bytes.get(o..))
                && !rest.is_empty()
            {
                let n = rest.len().min(buffer.len());
                buffer[..n].copy_from_slice(&rest[..n]);
                self.position += n as u64;
                return Ok(n);
            }
        }
        self.missing = Some(self.position);
        Err(io::Error::other("not fetched yet"))
    }
}

impl Seek for SparseFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(n) => i128::from(n),
            SeekFrom::End(n) => i128::from(self.total) + i128::from(n),
            SeekFrom::Current(n) => i128::from(self.position) + i128::from(n),
        };
        self.position = u64::try_from(target).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        Ok(self.position)
    }
}
