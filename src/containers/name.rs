//! Finds an image by name: `pytorch/pytorch:2.5.0-cuda12.4-cudnn9-runtime`, with or without a registry host.

use crate::model::text::clean;
use crate::registry::{Cited, Image, Registry};

/// Maximum number of similar tags that are listed.
const MAX_SIMILAR_TAGS: usize = 3;

/// Why no image is found for a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is not a valid image name.
    #[error("`{0}` is not an image name")]
    NotAName(String),
    /// The registry has no images of this repository.
    #[error("unknown image repository `{repository}`; known repositories: {known}")]
    UnknownRepository {
        /// The repository.
        repository: String,
        /// The known repositories.
        known: String,
    },
    /// The tag never existed, or is not in the registry.
    #[error("`{repository}{}{tag}` {why}", if tag.is_empty() { "" } else { ":" })]
    NoSuchTag {
        /// Whether the registry knows that the tag never existed; otherwise nothing is known of it.
        never_existed: bool,
        /// The repository.
        repository: String,
        /// The tag.
        tag: String,
        /// Why there is none.
        why: String,
        /// The names of the most similar images.
        near: Vec<String>,
    },
}

/// Finds the image of a name.
///
/// # Errors
/// See [`NameError`].
pub fn find<'r>(registry: &'r Registry, text: &str) -> Result<&'r Cited<Image>, NameError> {
    let (repository, tag) = parts(text).ok_or_else(|| NameError::NotAName(clean(text, 120)))?;
    let of_repository: Vec<&Cited<Image>> =
        registry.images().iter().filter(|image| image.repository == repository).collect();
    if of_repository.is_empty() {
        let mut known: Vec<&str> = registry.images().iter().map(|image| image.repository.as_str()).collect();
        known.dedup();
        return Err(NameError::UnknownRepository { repository, known: known.join(", ") });
    }
    // NVIDIA's release `24.05` is the tag `24.05-py3`.
    let same = |image: &&Cited<Image>| image.tag == tag || image.tag.strip_suffix("-py3") == Some(&tag);
    if let Some(image) = of_repository.iter().copied().find(same) {
        return Ok(image);
    }
    let never = registry.nonexistent_images().iter().find(|n| n.repository == repository && n.tag == tag);
    let why = match never {
        Some(never) => format!("never existed: {}", never.reason),
        None if text.contains('@') && tag.is_empty() => {
            "has only a digest: its contents are unknown".to_owned()
        }
        None if tag.is_empty() || tag == "latest" => {
            "names no release: `latest` changes over time".to_owned()
        }
        None => "is not in the registry: its contents are unknown".to_owned(),
    };
    let near = nearest(&of_repository, &tag);
    Err(NameError::NoSuchTag { never_existed: never.is_some(), repository, tag, why, near })
}

/// Repository and tag of a name, without the host of Docker Hub and without a digest.
fn parts(text: &str) -> Option<(String, String)> {
    let name = text.trim().split('@').next()?;
    let (repository, tag) = match name.rsplit_once(':') {
        // A colon before the last slash belongs to a port.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (name, ""),
    };
    let repository = ["docker.io/", "index.docker.io/", "library/"]
        .iter()
        .fold(repository, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    let fits = |text: &str, more: &[u8]| {
        text.len() <= 200 && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    let plain = repository
        .split('/')
        .all(|part| !part.is_empty() && part.starts_with(|c: char| c.is_ascii_alphanumeric()));
    (plain && fits(repository, b"/._-:") && fits(tag, b"._-"))
        .then(|| (repository.to_owned(), tag.to_owned()))
}

/// The most similar tags: the framework's version weighs most, then the other parts.
fn nearest(images: &[&Cited<Image>], tag: &str) -> Vec<String> {
    let wanted: Vec<&str> = tag.split('-').collect();
    let score = |image: &Cited<Image>| -> usize {
        let words: Vec<&str> = image.tag.split('-').collect();
        let alike = |place: usize| match (wanted.get(place), words.get(place)) {
            (Some(a), Some(b)) => {
                a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count() + usize::from(a == b) * 4
            }
            _ => 0,
        };
        (0..wanted.len().max(words.len())).map(|place| alike(place) * if place == 0 { 4 } else { 1 }).sum()
    };
    let mut ranked: Vec<(usize, &Cited<Image>)> = images.iter().map(|image| (score(image), *image)).collect();
    // Ties: the newest first, compared as numbers.
    let numbers = |tag: &str| -> Vec<u64> {
        tag.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| numbers(&b.1.tag).cmp(&numbers(&a.1.tag))));
    ranked
        .into_iter()
        .take(MAX_SIMILAR_TAGS)
        .map(|(_, image)| format!("{}:{}", image.repository, image.tag))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, expected) in [
            (
                "pytorch/pytorch:2.5.0-cuda12.4-cudnn9-runtime",
                Some(("pytorch/pytorch", "2.5.0-cuda12.4-cudnn9-runtime")),
            ),
            ("docker.io/pytorch/pytorch:2.5.0", Some(("pytorch/pytorch", "2.5.0"))),
            ("nvcr.io/nvidia/pytorch:24.05-py3@sha256:ab", Some(("nvcr.io/nvidia/pytorch", "24.05-py3"))),
            ("localhost:5000/x", Some(("localhost:5000/x", ""))),
            ("pytorch/pytorch", Some(("pytorch/pytorch", ""))),
            ("", None),
            ("a b", None),
            ("/x", None),
            ("x:y;rm", None),
        ] {
            let found = parts(text);
            assert_eq!(found.as_ref().map(|(r, t)| (r.as_str(), t.as_str())), expected, "{text}");
        }
    }

    #[test]
    fn tags_that_never_were() {
        let registry = crate::registry::frozen();
        for (text, near) in [
            (
                "pytorch/pytorch:2.5.0-cuda12.1-cudnn8-runtime",
                "pytorch/pytorch:2.5.0-cuda12.1-cudnn9-runtime",
            ),
            ("pytorch/pytorch:2.8.0-cuda11.8-cudnn8-devel", "pytorch/pytorch:2.8.0-cuda12"),
        ] {
            let Err(NameError::NoSuchTag { why, near: found, .. }) = find(&registry, text) else {
                panic!("{text}")
            };
            assert!(why.starts_with("never existed"), "{why}");
            assert!(found[0].starts_with(near), "{text}: {found:?}");
        }
        assert!(find(&registry, "nvcr.io/nvidia/pytorch:24.05").is_ok());
    }
}
