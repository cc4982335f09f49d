//! The pages and metadata fetched so far, by index.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::metadata::CoreMetadata;
use crate::model::project::ProjectPage;
use crate::model::solution::Need;
use crate::model::source::Source;

/// Fetched pages and metadata. An absent entry was not fetched yet; a `None` page means that the index does not
/// have the project.
#[derive(Debug, Default, Clone)]
pub struct Universe {
    /// By index, then project.
    pages: HashMap<String, HashMap<String, Option<Arc<ProjectPage>>>>,
    /// By index, then file name.
    metadata: HashMap<String, HashMap<String, Result<Arc<CoreMetadata>, String>>>,
    direct: HashMap<String, Source>,
}

/// The name of the index that a package of a direct reference seems to come from.
pub const DIRECT: &str = "direct";

impl Universe {
    /// Adds a project's page; `None` if the index does not have the project.
    pub fn add_page(&mut self, index: &str, project: &str, page: Option<Arc<ProjectPage>>) {
        self.pages.entry(index.to_owned()).or_default().insert(project.to_owned(), page);
    }

    /// Adds a wheel's metadata, or why it cannot be used.
    pub fn add_metadata(&mut self, index: &str, filename: &str, metadata: Result<Arc<CoreMetadata>, String>) {
        self.metadata.entry(index.to_owned()).or_default().insert(filename.to_owned(), metadata);
    }

    /// Adds the package of a direct reference: its only release, and where it comes from.
    pub fn add_direct(&mut self, name: &str, source: Source, page: ProjectPage, metadata: CoreMetadata) {
        let files = page.releases().iter().flat_map(|release| page.files(release));
        let filename = files.map(|file| file.filename.clone()).next().unwrap_or_default();
        self.add_metadata(DIRECT, &filename, Ok(Arc::new(metadata)));
        self.add_page(DIRECT, name, Some(Arc::new(page)));
        self.direct.insert(name.to_owned(), source);
    }

    /// Where a package comes from, if a direct reference names it.
    pub fn direct(&self, name: &str) -> Option<&Source> {
        self.direct.get(name)
    }

    /// A page, if it was fetched: inner `None` if the index does not have the project.
    pub fn page(&self, index: &str, project: &str) -> Option<Option<&Arc<ProjectPage>>> {
        self.pages.get(index)?.get(project).map(Option::as_ref)
    }

    /// A wheel's metadata, if it was fetched.
    pub fn metadata(&self, index: &str, filename: &str) -> Option<Result<&Arc<CoreMetadata>, &str>> {
        self.metadata.get(index)?.get(filename).map(|r| r.as_ref().map_err(String::as_str))
    }

    /// Whether a need was already fetched.
    pub fn has(&self, need: &Need) -> bool {
        match need {
            Need::Page { index, project } => self.page(index, project).is_some(),
            Need::Metadata { index, filename, .. } => self.metadata(index, filename).is_some(),
        }
    }

    /// The indexes that were asked for `project` and do not have it, sorted.
    pub fn indexes_without(&self, project: &str) -> Vec<&str> {
        let is_absent = |pages: &HashMap<_, Option<_>>| pages.get(project).is_some_and(Option::is_none);
        let absent = self.pages.iter().filter(|(_, pages)| is_absent(pages));
        let mut indexes: Vec<&str> = absent.map(|(index, _)| index.as_str()).collect();
        indexes.sort_unstable();
        indexes
    }

    /// The indexes whose page of `project` was fetched.
    pub fn indexes_with<'a>(&'a self, project: &str) -> impl Iterator<Item = &'a str> {
        let has_page = move |pages: &HashMap<_, Option<_>>| pages.get(project).is_some_and(Option::is_some);
        self.pages.iter().filter(move |(_, pages)| has_page(pages)).map(|(index, _)| index.as_str())
    }
}
