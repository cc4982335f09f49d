//! Source distributions, and the files of direct references: downloaded, hashed and read.

use reqwest::header;
use url::Url;

use super::http::{Http, Limit};
use super::{IndexClient, IndexError, remote_wheel};
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, RawFile, ReleaseFile};
use crate::sdist::{self, SourceTree};

/// Maximum size of a source distribution that is downloaded for its metadata, in bytes.
const MAX_SOURCE: u64 = 1 << 30;

/// Downloads a source distribution and reads what it says. The outer error is a failed request.
pub(super) async fn fetch(
    client: &IndexClient,
    http: &Http,
    file: &ReleaseFile,
) -> Result<Result<SourceTree, String>, String> {
    let url = Url::parse(&file.url).map_err(|e| format!("its URL is not valid: {e}"))?;
    if file.size.is_some_and(|size| size > MAX_SOURCE) {
        return Ok(Err(format!("it is larger than {} MiB", MAX_SOURCE >> 20)));
    }
    let mut answer =
        http.get(&url, &client.credentials, &header::HeaderMap::new(), Limit::disk(MAX_SOURCE)).await?;
    if answer.status != 200 {
        return Err(format!("the server answered {}", answer.status));
    }
    if let Some(stated) = &file.sha256 {
        let found = remote_wheel::digest(&mut answer).map_err(|failure| failure.to_string())?;
        if found != *stated {
            return Ok(Err("its SHA-256 differs from the index".to_owned()));
        }
    }
    let tree = sdist::read_archive(answer.body, &file.filename);
    Ok(tree.map_err(|unreadable| unreadable.to_string()))
}

/// The metadata of a source tree as the solver reads it.
pub(super) fn metadata(tree: SourceTree) -> Result<CoreMetadata, String> {
    tree.metadata().map_err(|unreadable| unreadable.to_string())
}

/// See [`IndexClient::read_direct`].
pub(super) fn read_direct(
    client: &IndexClient,
    name: &str,
    url: &str,
    sha256: Option<&str>,
) -> Result<(CoreMetadata, RawFile), IndexError> {
    let shown = crate::model::text::without_logins(&crate::model::text::clean(url, 200));
    let wrong = |why: String| IndexError::Direct { url: shown.clone(), why };
    let failed = |why: String| IndexError::Setup(format!("cannot read `{shown}`: {why}"));
    if client.config.offline {
        return Err(IndexError::Offline { what: shown.clone() });
    }
    let address = Url::parse(url).map_err(|e| wrong(format!("its URL is not valid: {e}")))?;
    let last = address.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
    let filename = percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned();
    let mut raw = RawFile {
        filename: filename.clone(),
        url: url.to_owned(),
        sha256: sha256.map(str::to_owned),
        ..RawFile::default()
    };
    let page = ProjectPage::from_files(name, [raw.clone()]);
    let is_wheel = filename.ends_with(".whl");
    if is_wheel && page.find(&filename).is_none() {
        return Err(wrong(format!("it is not a wheel of `{name}`")));
    }
    let (http, runtime) = client.http()?;
    if let (true, Some(file), true) = (is_wheel, page.find(&filename), sha256.is_some()) {
        let text = runtime.block_on(remote_wheel::metadata(http, &client.credentials, file));
        let text = text.map_err(|failure| match failure {
            remote_wheel::Failure::Transport(why) => failed(why),
            remote_wheel::Failure::Content(why) => wrong(why),
        })?;
        return Ok((super::metadata_of_text(&text).map_err(wrong)?, raw));
    }
    let limit = if is_wheel { remote_wheel::MAX_WHEEL } else { MAX_SOURCE };
    let none = header::HeaderMap::new();
    let mut answer = runtime
        .block_on(http.get(&address, &client.credentials, &none, Limit::disk(limit)))
        .map_err(failed)?;
    if answer.status != 200 {
        return Err(failed(format!("the server answered {}", answer.status)));
    }
    let found = remote_wheel::digest(&mut answer).map_err(|failure| failed(failure.to_string()))?;
    if sha256.is_some_and(|stated| stated != found) {
        return Err(wrong("its SHA-256 is not the one that the reference states".to_owned()));
    }
    (raw.sha256, raw.size) = (Some(found), Some(answer.length));
    let metadata = match is_wheel {
        true => super::metadata_of_wheel(answer.body, &filename),
        false => {
            sdist::read_archive(answer.body, &filename).map_err(|e| e.to_string()).and_then(self::metadata)
        }
    }
    .map_err(wrong)?;
    if !is_wheel {
        // The archive of a tag is named after the repository.
        raw.filename = format!("{}-{}.tar.gz", metadata.name, metadata.version);
    }
    Ok((metadata, raw))
}
