//! Whether the indexes state the hashes that a lock has.

use super::Target;
use crate::model::project::ProjectPage;

/// A locked file that its index states otherwise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum HashDifference {
    /// The index does not have it.
    #[error("the index `{index}` does not have `{file}`")]
    Absent {
        /// The file.
        file: String,
        /// The index.
        index: String,
    },
    /// The index states another hash. Which of the two is right is not known.
    #[error("the lock and the index `{index}` disagree on `{file}`: SHA-256 {locked} and {stated}")]
    Other {
        /// The file.
        file: String,
        /// The index.
        index: String,
        /// The hash in the lock.
        locked: String,
        /// The hash on the index.
        stated: String,
    },
}

/// The files to compare: index, project, file, hash. Build requirements are of the index `pypi`.
fn files(target: &Target) -> impl Iterator<Item = (&str, &str, &str, Option<&str>)> {
    let of_index = target.packages.iter().filter_map(|package| Some((package.source.index()?, package)));
    let locked = of_index.flat_map(|(index, package)| {
        let files = package.files.iter();
        files.map(move |file| (index, package.name.as_str(), file.name.as_str(), file.sha256.as_deref()))
    });
    let builds = target.packages.iter().filter_map(|package| package.build.as_ref());
    let required = builds.flat_map(|build| &build.requires);
    locked.chain(required.map(|r| ("pypi", r.name.as_str(), r.file.as_str(), Some(r.sha256.as_str()))))
}

/// The pages that a comparison needs: index and project.
pub fn pages_of_files(target: &Target) -> Vec<(&str, &str)> {
    let mut pages: Vec<(&str, &str)> = files(target).map(|(index, project, ..)| (index, project)).collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

/// The locked files that the indexes state otherwise, and the number of files whose hash the index does not state.
pub fn compare_hashes<'p>(
    target: &Target,
    page: impl Fn(&str, &str) -> Option<&'p ProjectPage>,
) -> (Vec<HashDifference>, usize) {
    let (mut out, mut unstated) = (Vec::new(), 0);
    for (index, project, file, locked) in files(target) {
        let (index_name, name) = (index.to_owned(), file.to_owned());
        let Some(found) = page(index, project).and_then(|page| page.find(file)) else {
            out.push(HashDifference::Absent { file: name, index: index_name });
            continue;
        };
        match (locked, &found.sha256) {
            (Some(locked), Some(stated)) if locked != stated => out.push(HashDifference::Other {
                file: name,
                index: index_name,
                locked: locked.to_owned(),
                stated: stated.clone(),
            }),
            (Some(_), Some(_)) => {}
            _ => unstated += 1,
        }
    }
    out.sort();
    out.dedup();
    (out, unstated)
}
