//! Downloads wheels that are read as a whole, a few at a time.

use futures_util::stream::{self, StreamExt as _};
use reqwest::header;
use url::Url;

use super::http::Http;
use super::{IndexClient, IndexError, remote_wheel, simple, small_file};
use crate::model::project::ReleaseFile;
use crate::model::text::clean;

/// How many wheels are downloaded at the same time.
const AT_ONCE: usize = 6;

/// See [`IndexClient::download_each`].
pub(super) fn download_each(
    client: &IndexClient,
    files: &[&ReleaseFile],
    done: &mut dyn FnMut(usize, Result<std::fs::File, String>),
) -> Result<(), IndexError> {
    if let (Some(file), true) = (files.first(), client.config.offline) {
        return Err(IndexError::Offline { what: clean(&file.filename, 120) });
    }
    let (http, runtime) = client.http()?;
    runtime.block_on(async {
        let each =
            files.iter().enumerate().map(|(at, file)| async move { (at, wheel(client, http, file).await) });
        let mut running = stream::iter(each).buffer_unordered(AT_ONCE);
        while let Some((at, file)) = running.next().await {
            done(at, file);
        }
    });
    Ok(())
}

async fn wheel(client: &IndexClient, http: &Http, file: &ReleaseFile) -> Result<std::fs::File, String> {
    let url = Url::parse(&file.url).map_err(|_| "its URL is not valid".to_owned())?;
    // Bodies with a lower limit stay in memory.
    let limit =
        file.size.unwrap_or(remote_wheel::MAX_WHEEL).clamp(simple::MAX_PAGE + 1, remote_wheel::MAX_WHEEL);
    let mut answer = http.get(&url, &client.credentials, &header::HeaderMap::new(), limit).await?;
    if answer.status != 200 {
        return Err(format!("the server answered {}", answer.status));
    }
    if let Some(stated) = &file.sha256 {
        let found = remote_wheel::digest(&mut answer).map_err(|failure| failure.to_string())?;
        if found != *stated {
            return Err("its SHA-256 differs from the index".to_owned());
        }
    }
    match answer.file {
        Some(file) => Ok(file),
        None => small_file(&answer.body).map_err(|error| error.to_string()),
    }
}
