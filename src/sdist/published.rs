//! What the author's build wrote into a source distribution: `PKG-INFO` and `*.egg-info/requires.txt`.

use super::archive::Contents;
use crate::model::metadata::SourceRequirements;
use crate::model::text::normalized_name;

/// PKG-INFO.
#[derive(Debug, Clone)]
pub(super) struct Published {
    pub name: String,
    pub version: String,
    pub requires_python: Option<String>,
    pub requires: Vec<String>,
    pub extras: Vec<String>,
    /// Metadata 2.2 or newer (PEP 643), and nothing that a solve reads is `Dynamic`.
    pub is_static: bool,
    /// The requirements are `Dynamic`: an empty list means nothing.
    is_list_dynamic: bool,
}

/// Reads PKG-INFO: that of the tree, else that of its egg-info.
pub(super) fn read(contents: &Contents) -> Option<Published> {
    let own = contents.text("PKG-INFO");
    own.or_else(|| contents.egg_info().find(|(path, _)| path.ends_with("/PKG-INFO")).map(|(_, text)| text))
        .and_then(parse)
}

fn parse(text: &str) -> Option<Published> {
    let mut out = Published {
        name: String::new(),
        version: String::new(),
        requires_python: None,
        requires: Vec::new(),
        extras: Vec::new(),
        is_static: false,
        is_list_dynamic: false,
    };
    let mut dynamic = false;
    let mut format = None;
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            _ if line.starts_with([' ', '\t']) => {
                if let Some((_, value)) = headers.last_mut() {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            }
            Some((key, value)) => headers.push((key.to_ascii_lowercase(), value.trim().to_owned())),
            None => {}
        }
    }
    for (key, value) in headers {
        match key.as_str() {
            "metadata-version" => format = version_of(&value),
            "name" => out.name = value,
            "version" => out.version = value,
            "requires-python" => out.requires_python = Some(value),
            "requires-dist" => out.requires.push(value),
            "provides-extra" => out.extras.push(value),
            // setuptools writes `requires-dist`, the specification `Requires-Dist`.
            "dynamic" => {
                let value = value.to_ascii_lowercase();
                out.is_list_dynamic |= value == "requires-dist";
                dynamic |= ["requires-dist", "provides-extra", "requires-python"].contains(&value.as_str());
            }
            _ => {}
        }
    }
    out.is_static = !dynamic && format.is_some_and(|format| format >= (2, 2));
    (!out.name.is_empty() && !out.version.is_empty()).then_some(out)
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The requirements that the author's build wrote. `None` if it wrote no list, or one that cannot be read: an egg-info folder without a
/// `requires.txt` means that there are none, its absence means nothing.
pub(super) fn requirements(published: &Published, contents: &Contents) -> Option<SourceRequirements> {
    if !published.requires.is_empty() {
        let (lines, extras) = (published.requires.clone(), published.extras.clone());
        return Some(SourceRequirements { lines, extras, requires_python: None });
    }
    let of_project = |path: &str| {
        let folder = path.rsplit('/').nth(1).and_then(|folder| folder.strip_suffix(".egg-info"));
        folder.is_some_and(|name| {
            let name = name.split_once('-').map_or(name, |(name, _)| name);
            normalized_name(name) == normalized_name(&published.name)
        })
    };
    let files: Vec<(&str, &str)> = contents.egg_info().filter(|(path, _)| of_project(path)).collect();
    if let Some((_, text)) = files.iter().find(|(path, _)| path.ends_with("/requires.txt")) {
        return requires_txt(text);
    }
    if published.is_list_dynamic && files.is_empty() {
        return None;
    }
    let wrote_lists = !files.is_empty() || published.is_newer_than_setuptools_lists(contents);
    wrote_lists.then(SourceRequirements::default)
}

/// Whether there is a `requires.txt`.
pub(super) fn has_list(contents: &Contents) -> bool {
    contents.egg_info().any(|(path, _)| path.ends_with("/requires.txt"))
}

impl Published {
    /// Whether the tool that wrote PKG-INFO always writes the requirements into it: any build backend other than
    /// setuptools and distutils, which have a `setup.py` or a `setup.cfg`.
    fn is_newer_than_setuptools_lists(&self, contents: &Contents) -> bool {
        contents.text("pyproject.toml").is_some_and(|text| text.contains("build-backend"))
            && contents.text("setup.py").is_none()
            && contents.text("setup.cfg").is_none()
    }
}

/// Reads `requires.txt` of an egg-info folder: requirements, and below `[extra:marker]` those of an extra, under a
/// marker, or both. `None` if a section does not end.
pub(super) fn requires_txt(text: &str) -> Option<SourceRequirements> {
    let mut out = SourceRequirements::default();
    let mut suffix = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(section) = line.strip_prefix('[') else {
            let line = match (line.split_once(';'), suffix.is_empty()) {
                (_, true) => line.to_owned(),
                (None, false) => format!("{line}; {suffix}"),
                (Some((requirement, own)), false) => {
                    format!("{}; ({}) and {suffix}", requirement.trim(), own.trim())
                }
            };
            out.lines.push(line);
            continue;
        };
        let section = section.strip_suffix(']')?;
        let (extra, marker) = section.split_once(':').unwrap_or((section, ""));
        if !extra.is_empty() {
            out.extras.push(extra.to_owned());
        }
        suffix = match (extra.is_empty(), marker.is_empty()) {
            (true, true) => return None,
            (true, false) => format!("({marker})"),
            (false, true) => format!("extra == '{extra}'"),
            (false, false) => format!("({marker}) and extra == '{extra}'"),
        };
    }
    out.extras.dedup();
    Some(out)
}
