//! The sizes and hashes of files whose index does not state them.

use std::collections::HashMap;

use futures_util::StreamExt as _;
use url::Url;

use super::crawl::{CONCURRENCY, identity};
use super::{IndexClient, IndexError, remote_wheel};
use crate::model::listing::local_path;
use crate::model::project::ReleaseFile;
use crate::model::solution::Need;

/// See [`IndexClient::sizes`].
pub(super) fn sizes(client: &IndexClient, files: &[Need]) -> HashMap<String, u64> {
    let mut found = HashMap::new();
    let mut unknown: Vec<(String, ReleaseFile)> = Vec::new();
    for need in files {
        let Need::Metadata { index, project, filename } = need else { continue };
        let key = (index.clone(), project.clone());
        let page = client.pages.lock().ok().and_then(|pages| pages.get(&key).cloned());
        let Some(file) = page.as_ref().and_then(|p| p.find(filename)) else { continue };
        if let Some(path) = local_path(&file.url) {
            found.extend(fs_err::metadata(path).map(|metadata| (filename.clone(), metadata.len())));
            continue;
        }
        match client.cache.size(&identity(index, file)) {
            Some(size) => {
                found.insert(filename.clone(), size);
            }
            None => unknown.push((index.clone(), file.clone())),
        }
    }
    if unknown.is_empty() || client.config.offline {
        return found;
    }
    let Ok((http, runtime)) = client.http() else { return found };
    let answers = runtime.block_on(
        futures_util::stream::iter(unknown.iter().map(|(index, file)| async move {
            let url = Url::parse(&file.url).ok()?;
            let size = http.size(&url, &client.credentials).await?;
            client.cache.store_size(&identity(index, file), size);
            Some((file.filename.clone(), size))
        }))
        .buffer_unordered(CONCURRENCY)
        .collect::<Vec<_>>(),
    );
    found.extend(answers.into_iter().flatten());
    found
}

/// See [`IndexClient::measure`]. Downloads one file after the other.
pub(super) fn measure(
    client: &IndexClient,
    files: &[Need],
    progress: &mut dyn FnMut(usize, usize),
) -> Result<HashMap<String, (u64, String)>, IndexError> {
    let mut found = HashMap::new();
    for (done, need) in files.iter().enumerate() {
        progress(done, files.len());
        let Need::Metadata { index, project, filename } = need else { continue };
        let key = (index.clone(), project.clone());
        let page = client.pages.lock().ok().and_then(|pages| pages.get(&key).cloned());
        let Some(file) = page.as_ref().and_then(|p| p.find(filename)) else { continue };
        // A file on this machine may be another one by now.
        let is_local = local_path(&file.url).is_some();
        if let Some(known) = client.cache.measured(&identity(index, file)).filter(|_| !is_local) {
            found.insert(filename.clone(), known);
            continue;
        }
        if client.config.offline && !is_local {
            return Err(IndexError::Offline { what: filename.clone() });
        }
        let (http, runtime) = client.http()?;
        let measured =
            runtime.block_on(remote_wheel::measure(http, &client.credentials, file)).map_err(|failure| {
                let what = format!("`{}`", crate::model::text::clean(filename, 120));
                match failure {
                    remote_wheel::Failure::Transport(why) => {
                        IndexError::Request { what, index: index.clone(), why }
                    }
                    remote_wheel::Failure::Content(why) => {
                        IndexError::Format { what, index: index.clone(), why: why.to_owned() }
                    }
                }
            })?;
        if !is_local {
            client.cache.store_measured(&identity(index, file), &measured);
        }
        found.insert(filename.clone(), measured);
    }
    Ok(found)
}
