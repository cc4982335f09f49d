//! The records of conda channels: `repodata.json` of a platform folder, compressed where the channel has it so, with the
//! disk cache and offline mode of the package indexes.
//!
//! Source of the addresses: conda's manual, "Channels"; CEP 16 describes the records.

use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use reqwest::header::{ETAG, IF_NONE_MATCH};

use super::cache::{CachedDocument, fresh_until};
use super::http::{Limit, headers};
use super::{IndexClient, IndexError};

/// Maximum size of the file as it is sent, in bytes.
const MAX_SENT: u64 = 512 << 20;
/// Maximum size of the records, in bytes.
const MAX_RECORDS: u64 = 1 << 30;

/// The names of the file, the one that is asked for first at the front.
const NAMES: [&str; 2] = ["repodata.json.zst", "repodata.json"];

/// What a channel has for a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelFolder {
    /// The text of its records.
    Records(Bytes),
    /// The channel has no such folder.
    Absent,
    /// The server answered 403: access is refused, or it is a server of static files that has no such folder.
    Refused,
}

impl IndexClient {
    /// The records of a channel's platform folder. `alias` is the address that the channel's name is appended to.
    ///
    /// # Errors
    /// When the server does not answer or sends more than a limit, and with `--offline` when the cache does not have the answer.
    pub fn repodata(&self, alias: &str, channel: &str, subdir: &str) -> Result<ChannelFolder, IndexError> {
        let (mut is_refused, mut absent) = (false, 0);
        for name in NAMES {
            let address = format!("{}/{channel}/{subdir}/{name}", alias.trim_end_matches('/'));
            let cached = self.cache.document(&address);
            if let Some(cached) = cached.as_ref().filter(|cached| cached.is_fresh() || self.config.offline) {
                // An empty one stands for a file that was not there.
                if cached.text.is_empty() {
                    absent += 1;
                    continue;
                }
                return Ok(ChannelFolder::Records(cached.text.clone()));
            }
            if self.config.offline {
                continue;
            }
            let request = |why: String| IndexError::Channel {
                what: format!("`{subdir}/{name}`"),
                channel: channel.to_owned(),
                why,
            };
            let url = url::Url::parse(&address).map_err(|error| request(error.to_string()))?;
            let mut ask = reqwest::header::HeaderMap::new();
            if let Some(etag) = cached.as_ref().and_then(|cached| cached.etag.as_deref()) {
                ask.extend(headers(&[(IF_NONE_MATCH, etag)]));
            }
            let (http, runtime) = self.http()?;
            let answer = http.get(&url, &self.credentials, &ask, Limit::disk(MAX_SENT));
            let until = self.config.until;
            let answer = runtime.block_on(async {
                match until.map(tokio::time::Instant::from_std) {
                    Some(until) => tokio::time::timeout_at(until, answer)
                        .await
                        .unwrap_or_else(|_| Err("no answer in the time that it was given".to_owned())),
                    None => answer.await,
                }
            });
            let answer = answer.map_err(request)?;
            let fresh = fresh_until(answer.header(reqwest::header::CACHE_CONTROL));
            match (answer.status, cached) {
                (304, Some(cached)) => return Ok(ChannelFolder::Records(cached.text)),
                (200, _) => {}
                (403, _) => {
                    is_refused = true;
                    continue;
                }
                (404 | 410, Some(cached)) if cached.text.is_empty() => continue,
                (404 | 410, _) => {
                    let absent = CachedDocument { etag: None, fresh_until: 0, text: Bytes::new() };
                    self.cache.store_document(&address, &absent);
                    continue;
                }
                (status, _) => return Err(request(format!("the server answered {status}"))),
            }
            let etag = answer.header(ETAG).map(str::to_owned);
            let text = read(answer.body, name.ends_with(".zst"), answer.length).map_err(request)?;
            self.cache
                .store_document(&address, &CachedDocument { etag, fresh_until: fresh, text: text.clone() });
            return Ok(ChannelFolder::Records(text));
        }
        match self.config.offline {
            _ if is_refused => Ok(ChannelFolder::Refused),
            true if absent < NAMES.len() => Err(IndexError::Offline { what: format!("{channel}/{subdir}") }),
            _ => Ok(ChannelFolder::Absent),
        }
    }
}

/// How many times as large as what is sent the records may be.
const MAX_RATIO: u64 = 50;
/// From here on the ratio counts, in bytes.
const SMALL: u64 = 16 << 20;

/// The text of a file of `length` bytes, within [`MAX_RECORDS`] and [`MAX_RATIO`]. Hundreds of MiB are mapped from a file: a solve
/// reads a part of them.
fn read(sent: impl Read, is_compressed: bool, length: u64) -> Result<Bytes, String> {
    let limit = MAX_RECORDS.min(SMALL.saturating_add(length.saturating_mul(MAX_RATIO)));
    let failed = |error: std::io::Error| format!("it cannot be read ({error})");
    let mut sent: Box<dyn Read> = match is_compressed {
        true => Box::new(zstd::stream::read::Decoder::new(sent).map_err(failed)?.take(limit + 1)),
        false => Box::new(sent.take(limit + 1)),
    };
    let mut start = Vec::new();
    sent.by_ref().take(SMALL).read_to_end(&mut start).map_err(failed)?;
    if (start.len() as u64) < SMALL {
        return Ok(start.into());
    }
    let spooled = |sent: &mut dyn Read, start: &[u8]| -> std::io::Result<(std::fs::File, u64)> {
        let mut file = super::small_file(start)?;
        file.seek(SeekFrom::End(0))?;
        let more = std::io::copy(sent, &mut file)?;
        Ok((file, start.len() as u64 + more))
    };
    let (file, size) = spooled(&mut sent, &start).map_err(failed)?;
    if size > limit {
        return Err(format!("it is larger than {} MiB", limit >> 20));
    }
    // SAFETY: the file has no name, so that nobody else writes to it.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(failed)?;
    Ok(Bytes::from_owner(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_or_not() {
        let packed = zstd::encode_all(&b"{}"[..], 3).unwrap();
        assert_eq!(&read(&packed[..], true, 10).unwrap()[..], b"{}");
        assert_eq!(&read(&b"{}"[..], false, 2).unwrap()[..], b"{}");
        assert!(read(&b"{}"[..], true, 2).unwrap_err().contains("cannot be read"));
    }
}
