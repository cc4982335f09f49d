//! `--only-index`: the indexes and conda channels that packages may come from, and no others.

use std::fmt;
use std::str::FromStr;

use super::text::clean;

/// Names of indexes and of conda channels: `pypi`, `pypi,conda-forge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Only {
    names: Vec<String>,
}

/// Why a text is no list of names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no index: write names with commas between, such as `pypi,conda-forge`")]
pub struct InvalidOnly(String);

impl Only {
    /// PyPI alone.
    pub fn pypi() -> Only {
        Only { names: vec!["pypi".to_owned()] }
    }

    /// The names, as they were written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether an index is one of them: `pytorch` admits `pytorch/cu126`.
    pub fn admits(&self, index: &str) -> bool {
        let family = index.split('/').next().unwrap_or(index);
        self.names().any(|name| name == index || name == family)
    }

    /// Whether a conda channel is one of them.
    pub fn has_channel(&self, channel: &str) -> bool {
        self.names().any(|name| name == channel)
    }

    /// Those that are no channels; `None` if there are none.
    pub fn without(&self, channels: &[String]) -> Option<Only> {
        let names: Vec<String> = self.names.iter().filter(|name| !channels.contains(name)).cloned().collect();
        (!names.is_empty()).then_some(Only { names })
    }

    /// These and more names.
    pub fn with(&self, more: &[String]) -> Only {
        let mut names = self.names.clone();
        names.extend(more.iter().filter(|name| !self.names.contains(name)).cloned());
        Only { names }
    }

    /// As the subject of a sentence: `the index pypi`, `the indexes pypi and corp`.
    pub fn in_words(&self) -> String {
        match self.names.as_slice() {
            [one] => format!("the index {one}"),
            many => format!("the indexes {}", many.join(" and ")),
        }
    }
}

impl FromStr for Only {
    type Err = InvalidOnly;

    fn from_str(text: &str) -> Result<Only, InvalidOnly> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match names.iter().any(String::is_empty) {
            true => Err(InvalidOnly(clean(text, 60))),
            false => Ok(Only { names }),
        }
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_admit() {
        let both: Only = "pypi, conda-forge".parse().unwrap();
        assert_eq!(both.to_string(), "pypi,conda-forge");
        assert!(both.admits("pypi") && both.has_channel("conda-forge") && !both.admits("pytorch/cu126"));
        assert_eq!(both.without(&["conda-forge".to_owned()]), Some(Only::pypi()));
        assert_eq!(Only::pypi().without(&["pypi".to_owned()]), None);
        assert_eq!(Only::pypi().with(&["conda-forge".to_owned(), "pypi".to_owned()]), both);
        let pytorch: Only = "pytorch".parse().unwrap();
        assert!(pytorch.admits("pytorch/cu126") && !pytorch.admits("pypi"));
        let variant: Only = "pytorch/cu126".parse().unwrap();
        assert!(variant.admits("pytorch/cu126") && !variant.admits("pytorch/cu118"));
        for text in ["", "pypi,", " , "] {
            assert!(text.parse::<Only>().is_err(), "{text}");
        }
    }
}
