//! Downloads wheels that are read as a whole, a few at a time.

use futures_util::future::join_all;
use reqwest::header;
use url::Url;

use super::http::{Http, Limit};
use super::{IndexClient, remote_wheel, simple};
use crate::model::listing::local_path;
use crate::model::project::ReleaseFile;

/// How many wheels are downloaded at the same time.
const AT_ONCE: usize = 6;

/// A wheel to be downloaded.
#[derive(Debug, Clone, Copy)]
pub struct Wheel<'f> {
    /// The file, as its index lists it.
    pub file: &'f ReleaseFile,
    /// The largest size, in bytes, whatever the index states.
    pub limit: u64,
}

/// See [`IndexClient::download_each`].
pub(super) fn download_each(
    client: &IndexClient,
    wheels: &[Wheel<'_>],
    done: &mut dyn FnMut(usize, Result<std::fs::File, String>),
) {
    let (http, runtime) = match client.http() {
        Ok(_)
            if client.config.offline && wheels.iter().all(|wheel| local_path(&wheel.file.url).is_none()) =>
        {
            let each = 0..wheels.len();
            return each.for_each(|at| done(at, Err("nothing is downloaded with `--offline`".to_owned())));
        }
        Ok(network) => network,
        Err(error) => return (0..wheels.len()).for_each(|at| done(at, Err(error.to_string()))),
    };
    for (part, wheels) in wheels.chunks(AT_ONCE).enumerate() {
        // They are read when all of a part are there: a transfer that is not attended would seem to stand still.
        let until = client.config.until.map(tokio::time::Instant::from_std);
        let in_time = async |wheel| match until {
            Some(until) => tokio::time::timeout_at(until, download(client, http, wheel))
                .await
                .unwrap_or_else(|_| Err("no answer in the time that it was given".to_owned())),
            None => download(client, http, wheel).await,
        };
        let files = runtime.block_on(join_all(wheels.iter().map(in_time)));
        for (at, file) in files.into_iter().enumerate() {
            done(part * AT_ONCE + at, file);
        }
    }
}

async fn download(client: &IndexClient, http: &Http, wheel: &Wheel<'_>) -> Result<std::fs::File, String> {
    let &Wheel { file, limit } = wheel;
    let url = Url::parse(&file.url).map_err(|e| format!("its URL is not valid: {e}"))?;
    let largest = limit.min(remote_wheel::MAX_WHEEL);
    let limit = file.size.unwrap_or(largest).min(largest);
    // Nothing more is downloaded when the run's limit is reached.
    client.reads.wheel_bytes(0)?;
    // A server that sends more than the index states is told by the length.
    let at_most = Limit::disk(limit.max(simple::MAX_PAGE));
    let mut answer = http.get(&url, &client.credentials, &header::HeaderMap::new(), at_most).await?;
    if answer.status != 200 {
        return Err(format!("the server answered {}", answer.status));
    }
    client.reads.wheel_bytes(answer.length)?;
    if answer.length > limit {
        return Err(match file.size {
            Some(stated) if stated <= largest => "it is larger than the index states".to_owned(),
            _ => format!("it is larger than {} MiB", limit >> 20),
        });
    }
    if let Some(stated) = &file.sha256 {
        let found = remote_wheel::digest(&mut answer).map_err(|failure| failure.to_string())?;
        if found != *stated {
            return Err("its SHA-256 differs from the index".to_owned());
        }
    }
    answer.body.into_file().map_err(|error| error.to_string())
}
