//! What a reader of a project's files may look at besides the file that it reads, and why it cannot read it.

use std::path::{Path, PathBuf};

use crate::model::metadata::SourceRequirements;
use crate::model::secrets::masked;
use crate::model::text::clean;
use crate::model::timestamp::Timestamp;

/// Files beside the one that is read: a requirements file names others, a lock has its manifest beside it.
pub trait Files {
    /// The bytes of a file; `None` if it is not there.
    ///
    /// # Errors
    /// When it cannot be read.
    fn bytes(&self, file: &Path) -> Result<Option<Vec<u8>>, ImportError>;
    /// Whether a file is there.
    fn is_file(&self, path: &Path) -> bool;
    /// Whether a folder is there.
    fn is_folder(&self, path: &Path) -> bool;
    /// The folders in a folder.
    fn folders_in(&self, folder: &Path) -> Vec<PathBuf>;
    /// A path from the root of the file system; links are not followed.
    fn absolute(&self, path: &Path) -> PathBuf;
    /// What the source tree in a folder requires, without running anything of it.
    ///
    /// # Errors
    /// Why it is not known.
    fn requirements_of(&self, folder: &Path) -> Result<SourceRequirements, String>;
    /// The name of the project whose source tree is in a folder.
    ///
    /// # Errors
    /// Why it is not known.
    fn name_of(&self, folder: &Path) -> Result<String, String>;
}

/// What every import is given.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// The files beside the one that is read.
    pub files: &'c dyn Files,
    /// The time now: `exclude-newer` may be relative to it.
    pub now: Timestamp,
    /// What the names of conda's channels are appended to: an address below it is the name of a channel.
    pub channel_alias: &'c str,
}

impl Context<'_> {
    /// The text of a file by its byte order mark, which PowerShell writes, else UTF-8.
    ///
    /// # Errors
    /// When it is not there, cannot be read, or is no text.
    pub fn text(&self, file: &Path) -> Result<String, ImportError> {
        let bytes = self.files.bytes(file)?.ok_or_else(|| absent(file))?;
        let shown = || clean(&file.display().to_string(), 200);
        decoded(&bytes).ok_or_else(|| ImportError::input(format!("`{}` is not UTF-8 text", shown())))
    }

    /// The path of a place from a folder: `./libs/own`, `../own`.
    pub fn path_from(&self, place: &Path, folder: &Path) -> String {
        path_from(&self.files.absolute(place), &self.files.absolute(folder))
    }
}

/// The path of a place from a folder, both from the root: `./libs/own`, `../own`.
pub fn path_from(place: &Path, folder: &Path) -> String {
    let plain = |path: &Path| -> Vec<String> {
        let mut parts = Vec::new();
        for part in path.components() {
            match part {
                std::path::Component::ParentDir => {
                    parts.pop();
                }
                std::path::Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
                _ => {}
            }
        }
        parts
    };
    let (place, folder) = (plain(place), plain(folder));
    let common = place.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let up = folder.len() - common;
    let mut parts = vec![if up == 0 { ".".to_owned() } else { vec![".."; up].join("/") }];
    parts.extend(place[common..].iter().cloned());
    parts.join("/")
}

/// Why a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError {
    /// Whether something was asked for that the file does not have, and not the file is at fault.
    pub is_usage: bool,
    /// What failed, with the file.
    pub message: String,
    /// The step that helps.
    pub hint: Option<String>,
}

impl ImportError {
    /// A file that is not as it should be.
    pub fn input(message: impl Into<String>) -> ImportError {
        ImportError { is_usage: false, message: message.into(), hint: None }
    }

    /// Something was asked for that is not there.
    pub fn usage(message: impl Into<String>) -> ImportError {
        ImportError { is_usage: true, ..ImportError::input(message) }
    }

    /// The error of a file as a whole, with the line of another one that includes it.
    #[must_use]
    pub(in crate::formats) fn included_at(self, place: &str) -> ImportError {
        ImportError { message: format!("{}: {}", clean(place, 80), self.message), ..self }
    }

    /// The error with the step that helps.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> ImportError {
        ImportError { hint: Some(hint.into()), ..self }
    }
}

/// That a file is not there.
pub(in crate::formats) fn absent(file: &Path) -> ImportError {
    ImportError::input(format!("`{}` does not exist", clean(&masked(&file.display().to_string()), 200)))
}

/// A TOML document that cannot be read, with its line.
pub(in crate::formats) fn unreadable(name: &str, text: &str, error: &toml::de::Error) -> ImportError {
    let start = error.span().map_or(0, |s| s.start.min(text.len()));
    let line = text[..start].matches('\n').count() + 1;
    ImportError::input(format!("{}:{line}: {}", clean(name, 80), clean(error.message(), 200)))
}

/// The text of UTF-8, or of UTF-16 with a byte order mark.
fn decoded(bytes: &[u8]) -> Option<String> {
    let units = |big: bool| {
        let unit = move |pair: &[u8]| match big {
            true => u16::from_be_bytes([pair[0], pair[1]]),
            false => u16::from_le_bytes([pair[0], pair[1]]),
        };
        bytes[2..].chunks_exact(2).map(unit).collect::<Vec<u16>>()
    };
    match bytes {
        [0xFF, 0xFE, ..] => String::from_utf16(&units(false)).ok(),
        [0xFE, 0xFF, ..] => String::from_utf16(&units(true)).ok(),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// Files of a test, by their paths.
#[cfg(test)]
#[derive(Default)]
pub(in crate::formats) struct Texts(std::collections::BTreeMap<PathBuf, &'static str>);

#[cfg(test)]
impl Texts {
    pub fn of(files: &[(&str, &'static str)]) -> Texts {
        Texts(files.iter().map(|(path, text)| (PathBuf::from(path), *text)).collect())
    }
}

#[cfg(test)]
impl Files for Texts {
    fn bytes(&self, file: &Path) -> Result<Option<Vec<u8>>, ImportError> {
        Ok(self.0.get(file).map(|text| text.as_bytes().to_vec()))
    }

    fn is_file(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.0.keys().any(|file| file != path && file.starts_with(path))
    }

    fn folders_in(&self, folder: &Path) -> Vec<PathBuf> {
        let inside = self.0.keys().filter_map(|file| Some((file, file.strip_prefix(folder).ok()?)));
        let below = inside.filter(|(_, rest)| rest.components().count() > 1);
        let folders = below.filter_map(|(_, rest)| Some(folder.join(rest.components().next()?)));
        folders.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        Path::new("/").join(path)
    }

    fn requirements_of(&self, _: &Path) -> Result<SourceRequirements, String> {
        Err("nothing is there".to_owned())
    }

    fn name_of(&self, _: &Path) -> Result<String, String> {
        Err("nothing is there".to_owned())
    }
}

/// A context in which there is no other file.
#[cfg(test)]
pub(in crate::formats) fn nothing() -> Context<'static> {
    static NOTHING: Texts = Texts(std::collections::BTreeMap::new());
    Context {
        files: &NOTHING,
        now: Timestamp::from_seconds(1_790_000_000),
        channel_alias: crate::model::conda::CONDA_CHANNELS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_manifest() {
        for (place, folder, expected) in [
            ("/a/b/c", "/a/b", "./c"),
            ("/a/b", "/a/b", "."),
            ("/a/x/../d", "/a/b", "../d"),
            ("/c", "/a/b", "../../c"),
        ] {
            assert_eq!(path_from(Path::new(place), Path::new(folder)), expected, "{place}");
        }
    }
}
