//! `Read` and `Seek` for a file on a server, by HTTP range requests in bounded memory. If the server does not support
//! ranges, or stops to, the whole file is downloaded into a temporary file.

use std::io::{self, Read, Seek, SeekFrom};

use reqwest::header;
use url::Url;

use super::http::{Body, Limit, Response, headers};
use super::remote_wheel::{MAX_WHEEL, content_range};
use super::{IndexClient, IndexError};
use crate::model::text::{clean, without_logins};

/// Size of the first range in bytes: the end of the file, where the zip directory is.
const TAIL: u64 = 256 << 10;
/// Size of a range after a seek, in bytes; doubled while reading continues.
const FIRST: u64 = 64 << 10;
/// Maximum size of a range, in bytes.
const LARGEST: u64 = 8 << 20;

/// A file on a server.
pub struct RemoteFile<'c> {
    source: Source<'c>,
    /// Bytes downloaded so far.
    fetched: u64,
}

enum Source<'c> {
    Whole(Body),
    Ranges(Ranges<'c>),
}

struct Ranges<'c> {
    client: &'c IndexClient,
    url: Url,
    total: u64,
    position: u64,
    /// The end of the file.
    tail: Piece,
    /// The last range fetched.
    window: Piece,
    next: u64,
}

#[derive(Default)]
struct Piece {
    start: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn at(&self, position: u64) -> Option<&[u8]> {
        let offset = usize::try_from(position.checked_sub(self.start)?).ok()?;
        self.bytes.get(offset..).filter(|rest| !rest.is_empty())
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl IndexClient {
    /// Opens a file on a server.
    ///
    /// # Errors
    /// With `--offline`, and when the server does not send the file.
    pub fn open(&self, address: &str) -> Result<RemoteFile<'_>, IndexError> {
        let shown = without_logins(&clean(address, 200));
        let failed = |why: String| IndexError::Setup(format!("cannot read `{shown}`: {why}"));
        if self.config.offline {
            return Err(IndexError::Offline { what: shown });
        }
        let url = Url::parse(address).map_err(|e| failed(e.to_string()))?;
        let answer = self.range(&url, &format!("bytes=-{TAIL}")).map_err(failed)?;
        match answer.status {
            206 => {
                let (start, total) = content_range(&answer).map_err(|e| failed(e.to_string()))?;
                let fetched = answer.length;
                // More than was asked for would be held in memory.
                if start + fetched != total || fetched > TAIL {
                    return Err(failed("the server sent other bytes than the requested range".to_owned()));
                }
                let bytes = answer.body.into_bytes().map_err(|e| failed(e.to_string()))?;
                let tail = Piece { start, bytes };
                let ranges = Ranges {
                    client: self,
                    url,
                    total,
                    position: 0,
                    tail,
                    window: Piece::default(),
                    next: FIRST,
                };
                Ok(RemoteFile { source: Source::Ranges(ranges), fetched })
            }
            200 => Ok(RemoteFile { fetched: answer.length, source: Source::Whole(answer.body) }),
            status => Err(failed(format!("the server answered {status}"))),
        }
    }

    fn range(&self, url: &Url, range: &str) -> Result<Response, String> {
        let (http, runtime) = self.http().map_err(|e| e.to_string())?;
        let headers = headers(&[(header::RANGE, range), (header::ACCEPT_ENCODING, "identity")]);
        runtime.block_on(http.get(url, &self.credentials, &headers, Limit::range(LARGEST, MAX_WHEEL)))
    }
}

impl RemoteFile<'_> {
    /// The file's size in bytes, if the server supports ranges.
    pub fn size(&self) -> Option<u64> {
        match &self.source {
            Source::Whole(_) => None,
            Source::Ranges(ranges) => Some(ranges.total),
        }
    }

    /// Bytes downloaded so far.
    pub fn fetched(&self) -> u64 {
        self.fetched
    }
}

impl Ranges<'_> {
    /// Fetches a range from the current position. Returns the bytes that were downloaded, and the whole file if the
    /// server sent that.
    fn fetch(&mut self) -> io::Result<(u64, Option<Body>)> {
        // Sequential reads fetch more and more at once, a seek fetches little.
        self.next = if self.position == self.window.end() { (self.next * 2).min(LARGEST) } else { FIRST };
        let start = self.position;
        let end = (start + self.next).min(self.total) - 1;
        let answer =
            self.client.range(&self.url, &format!("bytes={start}-{end}")).map_err(io::Error::other)?;
        let length = answer.length;
        match answer.status {
            206 => {}
            200 if length == self.total => {
                let mut whole = answer.body;
                whole.seek(SeekFrom::Start(start))?;
                return Ok((length, Some(whole)));
            }
            200 => {
                return Err(io::Error::other(format!(
                    "the server sent a file of {length} bytes, and said before that it has {}",
                    self.total
                )));
            }
            status => {
                return Err(io::Error::other(format!(
                    "the server answered {status} to a range request after serving another"
                )));
            }
        }
        let (from, total) = content_range(&answer).map_err(|e| io::Error::other(e.to_string()))?;
        if from != start || total != self.total || length > end - start + 1 {
            return Err(io::Error::other("the server sent other bytes than the requested range"));
        }
        self.window = Piece { start, bytes: answer.body.into_bytes()? };
        Ok((length, None))
    }
}

impl Read for RemoteFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ranges = match &mut self.source {
            Source::Whole(file) => return file.read(buffer),
            Source::Ranges(ranges) => ranges,
        };
        if ranges.position >= ranges.total || buffer.is_empty() {
            return Ok(0);
        }
        if ranges.tail.at(ranges.position).is_none() && ranges.window.at(ranges.position).is_none() {
            let (length, whole) = ranges.fetch()?;
            self.fetched += length;
            if let Some(mut whole) = whole {
                let n = whole.read(buffer)?;
                self.source = Source::Whole(whole);
                return Ok(n);
            }
        }
        let here = ranges.tail.at(ranges.position).or_else(|| ranges.window.at(ranges.position));
        let here = here.ok_or_else(|| io::Error::other("the server sent an empty range"))?;
        let n = here.len().min(buffer.len());
        buffer[..n].copy_from_slice(&here[..n]);
        ranges.position += n as u64;
        Ok(n)
    }
}

impl Seek for RemoteFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let ranges = match &mut self.source {
            Source::Whole(file) => return file.seek(to),
            Source::Ranges(ranges) => ranges,
        };
        let target = match to {
            SeekFrom::Start(n) => i128::from(n),
            SeekFrom::End(n) => i128::from(ranges.total) + i128::from(n),
            SeekFrom::Current(n) => i128::from(ranges.position) + i128::from(n),
        };
        ranges.position =
            u64::try_from(target).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        Ok(ranges.position)
    }
}
