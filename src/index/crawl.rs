//! Answers needs concurrently and prefetches.
//!
//! The solver's next requests are mostly predictable: the newest matching release, its METADATA, the
//! pages of its dependencies. The crawl follows this guess while responses arrive, so a whole closure
//! takes the time of its longest dependency chain instead of one round trip per level and solve.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pep440_rs::VersionSpecifiers;
use pep508_rs::ExtraName;
use reqwest::header;
use sha2::{Digest, Sha256};
use url::Url;

use super::cache::{self, CachedPage};
use super::guess::Job;
use super::http::{Http, Limit, headers};
use super::{Fetched, Guess, IndexClient, IndexError, local, remote_wheel, sdists, simple};
use crate::model::listing::{Listing, local_path};
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, RawFile, ReleaseFile};
use crate::model::solution::Need;
use crate::model::text::clean;

/// Maximum number of concurrent requests.
pub(super) const CONCURRENCY: usize = 32;
/// After this many needs for ever older releases of a project, METADATA of older releases is prefetched, twice as
/// many each time.
const BACKTRACK_PREFETCH_AFTER: u32 = 3;
/// Maximum number of releases prefetched at once.
const MAX_AHEAD: usize = 64;

const ACCEPT: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01";

/// The result of a job.
enum Done {
    Page(String, String, Option<Arc<ProjectPage>>, Vec<VersionSpecifiers>, Vec<ExtraName>),
    Metadata(String, Box<ReleaseFile>, Result<Arc<CoreMetadata>, String>, Vec<ExtraName>),
}

pub(super) fn run(
    client: &IndexClient,
    needs: &[Need],
    guess: Option<&Guess>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Fetched>, IndexError> {
    let mut crawl = Crawl {
        client,
        guess,
        queue: VecDeque::new(),
        asked: HashSet::new(),
        needed: needs.iter().cloned().collect(),
        out: Vec::new(),
        done: 0,
    };
    crawl.start(needs)?;
    // The cache needs no runtime, and often answers everything.
    crawl.answer_from_cache(progress)?;
    if crawl.queue.is_empty() {
        return Ok(crawl.out);
    }
    let (http, runtime) = client.http()?;
    runtime.block_on(crawl.answer_from_network(http, progress))?;
    Ok(crawl.out)
}

struct Crawl<'c> {
    client: &'c IndexClient,
    guess: Option<&'c Guess>,
    queue: VecDeque<Job>,
    asked: HashSet<(String, String)>,
    needed: BTreeSet<Need>,
    out: Vec<Fetched>,
    done: usize,
}

impl Crawl<'_> {
    fn start(&mut self, needs: &[Need]) -> Result<(), IndexError> {
        for need in needs {
            match need {
                Need::Page { index, project } => {
                    let specifiers = self.wanted(project);
                    self.push(Job::Page {
                        index: index.clone(),
                        project: project.clone(),
                        specifiers,
                        extras: Vec::new(),
                    });
                }
                Need::Metadata { index, project, filename } => {
                    let file = self.find_file(index, project, filename)?;
                    let older = self.read_ahead(index, project, &file);
                    for file in std::iter::once(file).chain(older) {
                        let (index, file) = (index.clone(), Box::new(file));
                        self.push(Job::Metadata { index, file, extras: Vec::new() });
                    }
                }
            }
        }
        Ok(())
    }

    /// The older releases that a backtracking solver will need next.
    ///
    /// Each new METADATA restarts the solve: without prefetching, a hundred releases cost a hundred solves.
    fn read_ahead(&self, index: &str, project: &str, needed: &ReleaseFile) -> Vec<ReleaseFile> {
        let Some(guess) = self.guess else { return Vec::new() };
        let Ok(mut backtracking) = self.client.backtracking.lock() else { return Vec::new() };
        let last = (needed.version().clone(), 0);
        let (version, times) = backtracking.entry((index.to_owned(), project.to_owned())).or_insert(last);
        // Only needs for ever older releases mean backtracking.
        if needed.version() >= version {
            return Vec::new();
        }
        *times += 1;
        version.clone_from(needed.version());
        let Some(step) = times.checked_sub(BACKTRACK_PREFETCH_AFTER - 1) else { return Vec::new() };
        let count = 2usize.saturating_pow(step + 1).min(MAX_AHEAD);
        drop(backtracking);
        let page = self.client.read_before(index, project);
        let page = page.map(|page| guess.before_cutoff(index, project, page));
        page.map(|page| guess.older(&page, needed, count)).unwrap_or_default()
    }

    fn wanted(&self, project: &str) -> Vec<VersionSpecifiers> {
        self.guess
            .iter()
            .flat_map(|g| &g.wanted)
            .filter(|(name, _)| name == project)
            .map(|(_, s)| s.clone())
            .collect()
    }

    /// The file of a metadata need, from its project page, which was read before.
    fn find_file(&self, index: &str, project: &str, filename: &str) -> Result<ReleaseFile, IndexError> {
        let page = self.client.read_before(index, project);
        page.as_ref().and_then(|page| page.find(filename)).cloned().ok_or_else(|| IndexError::Request {
            what: crate::model::text::clean(filename, 120),
            index: index.to_owned(),
            why: "the project page was not read".to_owned(),
        })
    }

    fn push(&mut self, job: Job) {
        let key = match &job {
            Job::Page { index, project, .. } => (index.clone(), project.clone()),
            Job::Metadata { index, file, .. } => (index.clone(), format!("file {}", file.filename)),
        };
        if self.asked.insert(key) {
            self.queue.push_back(job);
        }
    }

    /// Answers queued jobs from the cache; the remaining ones need the network.
    fn answer_from_cache(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), IndexError> {
        let mut left = VecDeque::new();
        while let Some(job) = self.queue.pop_front() {
            match self.cached(&job)? {
                Some(done) => self.finish(done),
                None => left.push_back(job),
            }
            progress(self.done, self.done + self.queue.len() + left.len());
        }
        self.queue = left;
        Ok(())
    }

    fn cached(&self, job: &Job) -> Result<Option<Done>, IndexError> {
        let offline = self.client.config.offline;
        match job {
            Job::Page { index, project, specifiers, extras } => {
                let at_hand = match self.client.page_at_hand(index, project) {
                    Ok(page) => page,
                    Err(_) if !self.is_needed(job) => return Ok(Some(absent(job))),
                    Err(error) => return Err(error),
                };
                match at_hand {
                    Some(page) => Ok(Some(Done::Page(
                        index.clone(),
                        project.clone(),
                        Some(page),
                        specifiers.clone(),
                        extras.clone(),
                    ))),
                    None if offline && self.is_needed(job) => {
                        Err(IndexError::Offline { what: project.clone() })
                    }
                    None if offline => Ok(Some(absent(job))),
                    None => Ok(None),
                }
            }
            Job::Metadata { index, file, extras } => match self.client.metadata_at_hand(index, file) {
                Some(metadata) => Ok(Some(Done::Metadata(
                    index.clone(),
                    file.clone(),
                    metadata.map(Arc::new),
                    extras.clone(),
                ))),
                None if offline && self.is_needed(job) => {
                    Err(IndexError::Offline { what: file.filename.clone() })
                }
                None if offline => Ok(Some(absent(job))),
                None => Ok(None),
            },
        }
    }

    fn is_needed(&self, job: &Job) -> bool {
        self.needed.iter().any(|need| match (need, job) {
            (Need::Page { index, project }, Job::Page { index: i, project: p, .. }) => {
                index == i && project == p
            }
            (Need::Metadata { index, filename, .. }, Job::Metadata { index: i, file, .. }) => {
                index == i && *filename == file.filename
            }
            _ => false,
        })
    }

    async fn answer_from_network(
        &mut self,
        http: &Http,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), IndexError> {
        let client = self.client;
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < CONCURRENCY
                && let Some(job) = self.queue.pop_front()
            {
                // A prefetch job added later may be in the cache.
                match self.cached(&job)? {
                    Some(done) => self.finish(done),
                    None => running.push(async move { (fetch(client, http, &job).await, job) }),
                }
            }
            progress(self.done, self.done + self.queue.len() + running.len());
            let Some((result, job)) = running.next().await else {
                return Ok(());
            };
            match result {
                Ok(done) => self.finish(done),
                // A failed prefetch is not an error.
                Err(error) if self.is_needed(&job) => return Err(error),
                Err(_) => self.done += 1,
            }
        }
    }

    /// Stores an answer, and queues prefetch jobs that follow from it.
    fn finish(&mut self, done: Done) {
        self.done += 1;
        match done {
            Done::Page(index, project, page, specifiers, extras) => {
                if let Some(page) = &page {
                    self.client.keep_page(&index, &project, page);
                }
                if let (Some(page), Some(guess)) = (&page, self.guess)
                    && let Some(file) =
                        guess.file(&guess.before_cutoff(&index, &project, page.clone()), &specifiers)
                {
                    self.push(Job::Metadata { index: index.clone(), file: Box::new(file.clone()), extras });
                }
                let known = page.is_some() || self.is_needed_page(&index, &project);
                if known {
                    self.out.push(Fetched::Page { index, project, page });
                }
            }
            Done::Metadata(index, file, metadata, extras) => {
                if let (Ok(metadata), Some(guess)) = (&metadata, self.guess) {
                    for job in guess.follow(metadata, &extras) {
                        self.push(job);
                    }
                }
                self.out.push(Fetched::Metadata { index, filename: file.filename, metadata });
            }
        }
    }

    fn is_needed_page(&self, index: &str, project: &str) -> bool {
        self.needed.contains(&Need::Page { index: index.to_owned(), project: project.to_owned() })
    }
}

fn absent(job: &Job) -> Done {
    match job {
        Job::Page { index, project, specifiers, extras } => {
            Done::Page(index.clone(), project.clone(), None, specifiers.clone(), extras.clone())
        }
        Job::Metadata { index, file, extras } => {
            Done::Metadata(index.clone(), file.clone(), Err("not in the cache".to_owned()), extras.clone())
        }
    }
}

async fn fetch(client: &IndexClient, http: &Http, job: &Job) -> Result<Done, IndexError> {
    match job {
        Job::Page { index, project, specifiers, extras } => {
            let page = fetch_page(client, http, index, project).await?;
            Ok(Done::Page(index.clone(), project.clone(), page, specifiers.clone(), extras.clone()))
        }
        Job::Metadata { index, file, extras } => {
            let metadata = fetch_metadata(client, http, index, file).await?;
            Ok(Done::Metadata(index.clone(), file.clone(), metadata, extras.clone()))
        }
    }
}

async fn fetch_page(
    client: &IndexClient,
    http: &Http,
    index: &str,
    project: &str,
) -> Result<Option<Arc<ProjectPage>>, IndexError> {
    client.reads.page().map_err(IndexError::Limit)?;
    let url = client.page_url(index, project)?;
    let address = cached_as(&url, project);
    let cached = client.cache.page(&address);
    let mut ask = headers(&[(header::ACCEPT, ACCEPT)]);
    if let Some(entry) = &cached {
        if let Some(etag) = &entry.etag {
            ask.extend(headers(&[(header::IF_NONE_MATCH, etag)]));
        }
        if let Some(date) = &entry.last_modified {
            ask.extend(headers(&[(header::IF_MODIFIED_SINCE, date)]));
        }
    }
    let failed =
        |why: String| IndexError::Request { what: format!("`{project}`"), index: index.to_owned(), why };
    let answer =
        http.get(&url, &client.credentials, &ask, Limit::memory(simple::MAX_PAGE)).await.map_err(failed)?;
    let fresh_until = cache::fresh_until(answer.header(header::CACHE_CONTROL));
    match (answer.status, cached) {
        (304, Some(entry)) => {
            let entry = CachedPage { fresh_until, ..entry };
            client.cache.store_page(&address, &entry);
            Ok(Some(Arc::new(entry.page)))
        }
        (200, _) => {
            let kind = answer.header(header::CONTENT_TYPE).unwrap_or("").to_owned();
            let etag = answer.header(header::ETAG).map(str::to_owned);
            let last_modified = answer.header(header::LAST_MODIFIED).map(str::to_owned);
            let body = answer.body.into_bytes().map_err(|e| failed(e.to_string()))?;
            let files: Vec<RawFile> = simple::parse(&body, &kind, &answer.url).map_err(|why| {
                IndexError::Format { what: format!("`{project}`"), index: index.to_owned(), why }
            })?;
            let entry = CachedPage {
                etag,
                last_modified,
                fresh_until,
                page: ProjectPage::from_files(project, files),
            };
            client.reads.page_bytes(entry.page.as_bytes().len() as u64).map_err(IndexError::Limit)?;
            client.cache.store_page(&address, &entry);
            Ok(Some(Arc::new(entry.page)))
        }
        // It would have the files of all projects.
        (404 | 410, _) if Listing::of_address(url.as_str()) == Listing::Links => {
            Err(failed(format!("the server answered {}", answer.status)))
        }
        // The pytorch index answers 403 for projects that it does not have.
        (404 | 410, _) => Ok(None),
        (403, _) if index.starts_with("pytorch/") => Ok(None),
        (401 | 403, _) => {
            let unread = client.credentials.unread().map(|why| format!("; {}", clean(why, 200)));
            let unread = unread.unwrap_or_default();
            Err(failed(format!("the server answered {}: check the credentials{unread}", answer.status)))
        }
        (status, _) => Err(failed(format!("the server answered {status}"))),
    }
}

/// The cache key of a project's page: its URL, and the project, since a page of links lists the files of several.
fn cached_as(url: &Url, project: &str) -> String {
    let mut url = super::credentials::without_login(url);
    if Listing::of_address(url.as_str()) == Listing::Links {
        url.set_fragment(Some(project));
    }
    url.into()
}

/// The cache key of a wheel's METADATA: index, URL and hash, if the index states one. Includes the index, so that an
/// index cannot supply the METADATA of another index's file.
pub(super) fn identity(index: &str, file: &ReleaseFile) -> String {
    format!("{index} {} {}", file.url, file.sha256.as_deref().unwrap_or(""))
}

impl IndexClient {
    /// A project's page that was read in this run, else a fresh one of the cache (with `--offline` any).
    ///
    /// A run reads each page once: a page must not change between two rounds of a solve.
    ///
    /// # Errors
    /// If the index has no URL.
    pub fn page_at_hand(&self, index: &str, project: &str) -> Result<Option<Arc<ProjectPage>>, IndexError> {
        if let Some(page) = self.read_before(index, project) {
            return Ok(Some(page));
        }
        if let Some(place) = self.local(index)? {
            let page = self.page_in(&place, index, project)?;
            self.keep_page(index, project, &page);
            return Ok(Some(page));
        }
        let address = cached_as(&self.page_url(index, project)?, project);
        let cached = self.cache.page(&address).filter(|entry| self.config.offline || entry.is_fresh());
        let page = cached.map(|entry| Arc::new(entry.page));
        if let Some(page) = &page {
            self.keep_page(index, project, page);
        }
        Ok(page)
    }

    /// The cached METADATA of a wheel, if its hash matches the one that the index states; that of a source
    /// distribution, or why it has none. That of a file on this machine is read from it.
    pub fn metadata_at_hand(&self, index: &str, file: &ReleaseFile) -> Option<Result<CoreMetadata, String>> {
        if let Some(path) = local_path(&file.url) {
            return Some(local::metadata(&path, file));
        }
        if file.wheel().is_none() {
            let tree = self.cache.source(&identity(index, file))?;
            return Some(tree.and_then(sdists::metadata));
        }
        let cached = self.cache.metadata(&identity(index, file))?;
        file.metadata_sha256.as_ref().is_none_or(|stated| *stated == cached.sha256).then_some(Ok(cached))
    }

    /// Whether the cache has an entry for the METADATA of a file.
    pub fn has_metadata_at_hand(&self, index: &str, file: &ReleaseFile) -> bool {
        local_path(&file.url).is_some()
            || self.cache.has_metadata(&identity(index, file), file.wheel().is_some())
    }
}

impl IndexClient {
    fn read_before(&self, index: &str, project: &str) -> Option<Arc<ProjectPage>> {
        let key = (index.to_owned(), project.to_owned());
        self.pages.lock().ok()?.get(&key).cloned()
    }

    /// A project's page of the files in a folder.
    fn page_in(&self, place: &Path, index: &str, project: &str) -> Result<Arc<ProjectPage>, IndexError> {
        let files = local::files(place).map_err(|why| IndexError::Local { index: index.to_owned(), why })?;
        Ok(Arc::new(ProjectPage::from_files(project, files)))
    }

    fn keep_page(&self, index: &str, project: &str, page: &Arc<ProjectPage>) {
        if let Ok(mut pages) = self.pages.lock() {
            pages.insert((index.to_owned(), project.to_owned()), page.clone());
        }
    }
}

async fn fetch_metadata(
    client: &IndexClient,
    http: &Http,
    index: &str,
    file: &ReleaseFile,
) -> Result<Result<Arc<CoreMetadata>, String>, IndexError> {
    let failed = |why: String| IndexError::Request {
        what: format!("the metadata of `{}`", crate::model::text::clean(&file.filename, 120)),
        index: index.to_owned(),
        why,
    };
    client.reads.metadata().map_err(IndexError::Limit)?;
    if file.wheel().is_none() {
        return match sdists::fetch(client, http, file).await {
            Ok(tree) => {
                client.cache.store_source(&identity(index, file), &tree);
                Ok(tree.and_then(sdists::metadata).map(Arc::new))
            }
            Err(why) => Err(failed(why)),
        };
    }
    let mut body = None;
    // Mirrors often serve METADATA files that their pages do not announce: try once per index.
    let untold = !file.has_metadata && client.serves_metadata(index);
    if (file.has_metadata || untold)
        && let Ok(url) = Url::parse(&format!("{}.metadata", file.url))
    {
        let answer = http
            .get(
                &url,
                &client.credentials,
                &header::HeaderMap::new(),
                Limit::memory(remote_wheel::MAX_METADATA),
            )
            .await
            .map_err(failed)?;
        let status = answer.status;
        let sent = answer.body.into_bytes().map_err(|e| failed(e.to_string()))?;
        let is_metadata = status == 200 && sent.starts_with(b"Metadata-Version:");
        if untold && !is_metadata {
            client.disable_unannounced_metadata(index);
        }
        if is_metadata || (status == 200 && file.has_metadata) {
            let found = hex::encode(Sha256::digest(&sent));
            if let Some(expected) = &file.metadata_sha256
                && *expected != found
            {
                return Ok(Err("its SHA-256 differs from the index".to_owned()));
            }
            body = Some(sent);
        }
    }
    let body = match body {
        Some(body) => body,
        None => match remote_wheel::metadata(http, &client.credentials, file).await {
            Ok(body) => body,
            Err(remote_wheel::Failure::Content(what)) => return Ok(Err(what)),
            Err(remote_wheel::Failure::Transport(why)) => return Err(failed(why)),
        },
    };
    let digest = hex::encode(Sha256::digest(&body));
    // A login in a requirement goes no further.
    let text = crate::model::text::without_logins(&String::from_utf8_lossy(&body));
    Ok(match CoreMetadata::parse(&text, digest.clone()) {
        Ok(metadata) => {
            client.cache.store_metadata(&identity(index, file), &digest, &text);
            Ok(Arc::new(metadata))
        }
        Err(error) => Err(error.to_string()),
    })
}
