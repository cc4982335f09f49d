//! What a solution still needs from the indexes: sizes and hashes that their pages do not state.

use indicatif::ProgressBar;

use crate::index::{IndexClient, IndexError};
use crate::model::solution::{Need, Note, Solution};
use crate::solver::Universe;

/// That the pytorch index lacks builds which the registry lists: a mirror without them, or a mistyped address.
pub(super) fn missing_builds(universe: &Universe<'_>) -> Option<Note> {
    let indexes = universe.indexes_without("torch");
    let variants: Vec<&str> = indexes.iter().filter_map(|index| index.strip_prefix("pytorch/")).collect();
    let newest = variants.last()?;
    let more = match variants.len() - 1 {
        0 => String::new(),
        n => format!(" and {n} more variants"),
    };
    Some(Note {
        text: format!(
            "the index pytorch has no torch for {newest}{more} at the address in use: these builds were left out"
        ),
        source: None,
    })
}

/// Adds missing file sizes: HTML index pages have none, and the lock has the size of each chosen file.
pub(super) fn fill_sizes(client: &IndexClient, solution: &mut Solution) {
    let unsized_files: Vec<Need> = solution
        .packages
        .iter()
        .filter_map(|p| {
            let file = p.files.first().filter(|f| f.size.is_none())?;
            Some(Need::Metadata {
                index: p.source.index()?.to_owned(),
                project: p.name.clone(),
                filename: file.name.clone(),
            })
        })
        .collect();
    if unsized_files.is_empty() {
        return;
    }
    let sizes = client.sizes(&unsized_files);
    for file in solution.packages.iter_mut().filter_map(|p| p.files.first_mut()) {
        file.size = file.size.or_else(|| sizes.get(&file.name).copied());
    }
}

/// Adds missing hashes: if an index has none, downloads the files and hashes them.
pub(super) fn fill_hashes(
    client: &IndexClient,
    solution: &mut Solution,
    bar: &ProgressBar,
) -> Result<(), IndexError> {
    let unhashed: Vec<Need> = solution
        .packages
        .iter()
        .flat_map(|p| p.files.iter().filter(|f| f.sha256.is_none()).map(move |f| (p, f)))
        .filter_map(|(p, f)| {
            Some(Need::Metadata {
                index: p.source.index()?.to_owned(),
                project: p.name.clone(),
                filename: f.name.clone(),
            })
        })
        .collect();
    if unhashed.is_empty() {
        return Ok(());
    }
    bar.set_message("hashing files (the index has no hashes)");
    let measured = client.measure(&unhashed, &mut super::onward(bar))?;
    for file in solution.packages.iter_mut().flat_map(|p| &mut p.files).filter(|f| f.sha256.is_none()) {
        if let Some((size, digest)) = measured.get(&file.name) {
            file.size = Some(*size);
            file.sha256 = Some(digest.clone());
            file.hash_computed = true;
        }
    }
    Ok(())
}
