//! The pages and metadata that are known so far, by index, and those that can be had without waiting.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use elsa::{FrozenMap, FrozenVec};

use crate::model::metadata::CoreMetadata;
use crate::model::project::{ProjectPage, ReleaseFile};
use crate::model::solution::Need;
use crate::model::source::Source;
use crate::model::timestamp::Timestamp;

/// Data that can be had without waiting, such as the fresh entries of a cache. An answer must not change during a run:
/// a solve reads it once, and reasons with it from then on.
pub trait AtHand {
    /// A project's page on an index.
    fn page(&self, index: &str, project: &str) -> Option<Arc<ProjectPage>>;
    /// The metadata of a file, or why it cannot be used.
    fn metadata(&self, index: &str, file: &ReleaseFile) -> Option<Result<Arc<CoreMetadata>, String>>;
    /// Whether [`AtHand::metadata`] will probably have it.
    fn has_metadata(&self, index: &str, file: &ReleaseFile) -> bool;
}

/// Known pages and metadata. An absent entry was not fetched yet; a `None` page means that the index does not have the
/// project.
///
/// Entries are added and never changed, so a search that finds more data at hand goes on with the data it has seen.
#[derive(Default)]
pub struct Universe<'s> {
    indexes: FrozenVec<Box<OfIndex>>,
    direct: HashMap<String, Source>,
    at_hand: Option<Box<dyn AtHand + 's>>,
}

/// What is known of one index.
struct OfIndex {
    name: String,
    /// By project.
    pages: FrozenMap<String, Box<Option<Arc<ProjectPage>>>>,
    /// Pages as they were before a time, by project.
    #[expect(
        clippy::redundant_allocation,
        reason = "candidates refer to pages as `Arc`s, and a map of these lends what they hold"
    )]
    before: FrozenMap<(String, Timestamp), Box<Arc<ProjectPage>>>,
    /// By file name: the metadata, or why it cannot be used.
    metadata: FrozenMap<String, Box<Result<Arc<CoreMetadata>, String>>>,
}

/// The name of the index that a package of a direct reference seems to come from.
pub const DIRECT: &str = "direct";

impl<'s> Universe<'s> {
    /// Nothing is known yet; what a solve needs is first looked for at hand.
    pub fn beside(at_hand: impl AtHand + 's) -> Universe<'s> {
        Universe { at_hand: Some(Box::new(at_hand)), ..Universe::default() }
    }

    /// Adds a project's page; `None` if the index does not have the project. A page that is known stays.
    pub fn add_page(&self, index: &str, project: &str, page: Option<Arc<ProjectPage>>) {
        self.of_index_or_new(index).pages.insert(project.to_owned(), Box::new(page));
    }

    /// Adds a wheel's metadata, or why it cannot be used. Metadata that is known stays.
    pub fn add_metadata(&self, index: &str, filename: &str, metadata: Result<Arc<CoreMetadata>, String>) {
        self.of_index_or_new(index).metadata.insert(filename.to_owned(), Box::new(metadata));
    }

    /// Adds the package of a direct reference: its releases, which is one unless conda may install several, with the metadata of
    /// each file by its name; and where it comes from.
    pub fn add_direct(
        &mut self,
        name: &str,
        source: Source,
        page: ProjectPage,
        metadata: impl IntoIterator<Item = (String, Arc<CoreMetadata>)>,
    ) {
        for (filename, metadata) in metadata {
            self.add_metadata(DIRECT, &filename, Ok(metadata));
        }
        self.add_page(DIRECT, name, Some(Arc::new(page)));
        self.direct.insert(name.to_owned(), source);
    }

    /// Where a package comes from, if a direct reference names it.
    pub fn direct(&self, name: &str) -> Option<&Source> {
        self.direct.get(name)
    }

    /// A page, if it is known: inner `None` if the index does not have the project.
    pub fn known_page(&self, index: &str, project: &str) -> Option<Option<&Arc<ProjectPage>>> {
        self.of_index(index)?.pages.get(project).map(Option::as_ref)
    }

    /// A page, if it is known or at hand: inner `None` if the index does not have the project.
    pub fn page(&self, index: &str, project: &str) -> Option<Option<&Arc<ProjectPage>>> {
        self.known_page(index, project).or_else(|| {
            let page = self.at_hand.as_ref()?.page(index, project)?;
            self.add_page(index, project, Some(page));
            self.known_page(index, project)
        })
    }

    /// A known page as it was before a time.
    pub fn page_before(&self, index: &str, project: &str, at: Timestamp) -> Option<&Arc<ProjectPage>> {
        let page = self.known_page(index, project)??;
        let before = &self.of_index(index)?.before;
        let key = (project.to_owned(), at);
        Some(before.get(&key).unwrap_or_else(|| before.insert(key, Box::new(Arc::new(page.before(at))))))
    }

    /// The metadata of a file, if it is known or at hand.
    pub fn metadata(&self, index: &str, file: &ReleaseFile) -> Option<Result<&Arc<CoreMetadata>, &str>> {
        let known = || self.of_index(index)?.metadata.get(&file.filename);
        let found = known().or_else(|| {
            let metadata = self.at_hand.as_ref()?.metadata(index, file)?;
            self.add_metadata(index, &file.filename, metadata);
            known()
        });
        found.map(|metadata| metadata.as_ref().map_err(String::as_str))
    }

    /// Whether the metadata of a file is known, or is probably at hand.
    pub fn has_metadata(&self, index: &str, file: &ReleaseFile) -> bool {
        self.of_index(index).is_some_and(|of| of.metadata.get(&file.filename).is_some())
            || self.at_hand.as_ref().is_some_and(|at_hand| at_hand.has_metadata(index, file))
    }

    /// Whether what is needed is known.
    pub fn has(&self, need: &Need) -> bool {
        match need {
            Need::Page { index, project } => self.known_page(index, project).is_some(),
            Need::Metadata { index, filename, .. } => {
                self.of_index(index).is_some_and(|of| of.metadata.get(filename).is_some())
            }
        }
    }

    /// The indexes that were asked for `project` and do not have it.
    pub fn indexes_without(&self, project: &str) -> BTreeSet<&str> {
        self.indexes(|index| matches!(self.known_page(index, project), Some(None)))
    }

    /// The indexes whose page of `project` is known.
    pub fn indexes_with(&self, project: &str) -> BTreeSet<&str> {
        self.indexes(|index| matches!(self.known_page(index, project), Some(Some(_))))
    }

    fn indexes(&self, is_meant: impl Fn(&str) -> bool) -> BTreeSet<&str> {
        self.indexes.iter().map(|of| of.name.as_str()).filter(|name| is_meant(name)).collect()
    }

    fn of_index(&self, name: &str) -> Option<&OfIndex> {
        self.indexes.iter().find(|of| of.name == name)
    }

    fn of_index_or_new(&self, name: &str) -> &OfIndex {
        self.of_index(name).unwrap_or_else(|| {
            let (pages, before, metadata) = (FrozenMap::new(), FrozenMap::new(), FrozenMap::new());
            self.indexes.push_get(Box::new(OfIndex { name: name.to_owned(), pages, before, metadata }))
        })
    }
}

impl std::fmt::Debug for Universe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Universe").field("indexes", &self.indexes.len()).finish_non_exhaustive()
    }
}
