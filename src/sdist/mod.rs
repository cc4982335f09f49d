//! Reads the metadata of a source distribution from its archive or folder. Nothing in it is run.
//!
//! Three answers are told apart ([`MetadataFrom`]): the requirements are stated statically (`exact`); or its author's
//! build wrote them into the archive (`as-published`) and nothing in `setup.py` makes them depend on the machine; or
//! they cannot be known ([`SourceFacts::unknown`]). The facts and measurements behind the rules are in
//! `docs/sources.md`.

mod archive;
mod declared;
mod evaluate;
mod kind;
mod published;
mod pyproject;
mod setup_py;
mod slice;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{Read, Seek};

use pep440_rs::Version;
use sha2::{Digest, Sha256};

use crate::model::metadata::CoreMetadata;
use crate::model::metadata::SourceRequirements;
use crate::model::source::{MetadataFrom, SourceFacts};
use crate::model::text::{clean, normalized_name, requirement_name};

pub use archive::Contents;
use evaluate::Argument;
use pyproject::Pyproject;
use setup_py::SetupPy;

/// The metadata of a source tree: headers as in a wheel's METADATA, and what is known of its build.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SourceTree {
    /// `Name`, `Version`, `Requires-Python`, `Requires-Dist` and `Provides-Extra`.
    pub headers: String,
    /// What is known of its build.
    pub facts: SourceFacts,
}

/// Why a source tree cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Its version is not the same on every machine, or not to be had without running something.
    #[error("the version of `{0}` is computed by its build")]
    ComputedVersion(String),
    /// Another reason, one phrase.
    #[error("{0}")]
    Other(String),
}

impl From<&str> for Unreadable {
    fn from(why: &str) -> Unreadable {
        Unreadable::Other(why.to_owned())
    }
}

/// An archive that cannot be read, with the reader's reason.
fn unreadable(error: &dyn std::error::Error) -> Unreadable {
    Unreadable::Other(format!(
        "the archive cannot be read: {}",
        crate::model::text::clean(&error.to_string(), 120)
    ))
}

/// How often the files of a tree are asked for more: a file may name another one.
const MAX_ROUNDS: usize = 4;

/// Reads an archive, `.zip` by its name or gzipped tar.
///
/// # Errors
/// If the archive is damaged, exceeds a limit, has entries outside its folder, or has no metadata.
pub fn read_archive(mut archive: impl Read + Seek, filename: &str) -> Result<SourceTree, Unreadable> {
    let mut files_of = |wanted: &BTreeSet<String>| {
        archive.rewind().map_err(|e| unreadable(&e))?;
        match filename.ends_with(".zip") {
            true => Contents::of_zip(&mut archive, wanted),
            false => Contents::of_tar(&mut archive, wanted),
        }
    };
    let mut wanted = BTreeSet::new();
    let mut contents = files_of(&wanted)?;
    for _ in 0..MAX_ROUNDS {
        let more = self::wanted(&contents);
        if more.is_subset(&wanted) {
            break;
        }
        wanted.extend(more);
        contents = files_of(&wanted)?;
    }
    read(&contents)
}

/// The name that a tree states.
pub fn name(contents: &Contents) -> Option<String> {
    if let Some(published) = published::read(contents) {
        return Some(published.name);
    }
    let pyproject = Pyproject::parse(contents.text("pyproject.toml").unwrap_or_default()).ok()?;
    let files = |path: &str| contents.text(path);
    let setup_py =
        contents.text("setup.py").map(|text| SetupPy::parse(text, &files, &|name| contents.has_module(name)));
    declared::of(contents, &pyproject, setup_py.as_ref()).name
}

/// What a tree requires by its `pyproject.toml`, `setup.cfg` and `setup.py`, whatever its version is.
///
/// # Errors
/// Why it is not known.
pub fn stated(contents: &Contents) -> Result<SourceRequirements, String> {
    let pyproject = match contents.text("pyproject.toml") {
        Some(text) => Pyproject::parse(text).map_err(|e| e.to_string())?,
        None => Pyproject::default(),
    };
    let files = |path: &str| contents.text(path);
    let setup_py =
        contents.text("setup.py").map(|text| SetupPy::parse(text, &files, &|name| contents.has_module(name)));
    match declared::of(contents, &pyproject, setup_py.as_ref()).requirements {
        Ok(stated) => Ok(stated),
        Err(_) if requires_nothing(contents, &pyproject, setup_py.as_ref()) => {
            Ok(SourceRequirements::default())
        }
        Err(why) => Err(why),
    }
}

/// The files of a tree that it takes to know what it declares, and that were not read: a list of requirements, a module
/// with the version. None where PKG-INFO says it.
pub fn wanted(contents: &Contents) -> BTreeSet<String> {
    let pyproject = match contents.text("pyproject.toml").map(Pyproject::parse) {
        Some(Ok(pyproject)) => pyproject,
        Some(Err(_)) => return BTreeSet::new(),
        None => Pyproject::default(),
    };
    if published::read(contents).is_some() {
        return BTreeSet::new();
    }
    let files = |path: &str| contents.text(path);
    let setup_py =
        contents.text("setup.py").map(|text| SetupPy::parse(text, &files, &|name| contents.has_module(name)));
    declared::of(contents, &pyproject, setup_py.as_ref()).wanted
}

/// Reads a source tree.
///
/// # Errors
/// If it has neither metadata nor a static `[project]`.
pub fn read(contents: &Contents) -> Result<SourceTree, Unreadable> {
    let pyproject = match contents.text("pyproject.toml") {
        Some(text) => Pyproject::parse(text)?,
        None => Pyproject::default(),
    };
    let files = |path: &str| contents.text(path);
    let setup_py =
        contents.text("setup.py").map(|text| SetupPy::parse(text, &files, &|name| contents.has_module(name)));
    let published = published::read(contents);
    let declared = declared::of(contents, &pyproject, setup_py.as_ref());
    let mut lines = Vec::new();
    let mut unknown = None;
    let (name, version) = identity(&published, &declared)?;
    let mut metadata_from = MetadataFrom::Exact;
    let python;
    let extras;
    let is_contradicted = |p: &published::Published| {
        let stated = pyproject.project.as_ref().is_some_and(|project| !project.requires.is_empty());
        let wrote = published::requirements(p, contents).is_some_and(|wrote| !wrote.lines.is_empty());
        p.requires.is_empty() && (stated || wrote)
    };
    if let Some(exact) = published.as_ref().filter(|p| p.is_static && !is_contradicted(p)) {
        lines.clone_from(&exact.requires);
        extras = exact.extras.clone();
        python = exact.requires_python.clone();
    } else if let Some(project) =
        pyproject.project.as_ref().filter(|p| p.states_requirements && !pyproject.has_backend_path)
    {
        lines.clone_from(&project.requires);
        extras = project.extras.clone();
        python = project.requires_python.clone();
    } else {
        metadata_from = MetadataFrom::AsPublished;
        let wrote = published.as_ref().and_then(|p| Some((p, published::requirements(p, contents)?)));
        if let Some((published, wrote)) = wrote {
            unknown = setup_py.as_ref().and_then(|setup| setup.doubt(&wrote.lines));
            lines = wrote.lines;
            extras = wrote.extras;
            python = published.requires_python.clone();
        } else if published::has_list(contents) {
            unknown = Some("its requires.txt is malformed".to_owned());
            extras = Vec::new();
            python = None;
        } else {
            match declared.requirements {
                Ok(stated) => {
                    metadata_from = MetadataFrom::Exact;
                    // A build here may have another version than the published one.
                    let computes_version =
                        |setup: &&SetupPy| published.is_some() && setup.version == Argument::Unknown;
                    unknown = setup_py.as_ref().filter(computes_version).and_then(|setup| setup.doubt(&[]));
                    lines = stated.lines;
                    extras = stated.extras;
                    python = published.and_then(|p| p.requires_python).or(stated.requires_python);
                }
                Err(_) if requires_nothing(contents, &pyproject, setup_py.as_ref()) => {
                    extras = Vec::new();
                    python = published.and_then(|p| p.requires_python);
                }
                Err(why) => {
                    unknown = Some(why);
                    extras = Vec::new();
                    python = published.and_then(|p| p.requires_python);
                }
            }
        }
    }
    let mut headers = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let mut header = |key: &str, value: &str| {
        let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        headers.push_str(&format!("{key}: {value}\n"));
    };
    if let Some(python) = python {
        header("Requires-Python", &python);
    }
    for line in &lines {
        header("Requires-Dist", line);
    }
    for extra in &extras {
        header("Provides-Extra", extra);
    }
    // Only setuptools runs `setup.py`; other projects carry one for old tools.
    let runs = setup_py.as_ref().filter(|_| pyproject.is_of_setuptools());
    let is_own = |name: &str| contents.has_module(name.split('.').next().unwrap_or(name));
    let mut modules = runs.map(SetupPy::modules).unwrap_or_default();
    modules.retain(|module| !is_own(module));
    let mut requires = pyproject.build_requires();
    requires.extend(runs.map(|setup| setup.setup_requires.clone()).unwrap_or_default());
    // Where the build requires versioneer, it may import that one instead of the copy.
    let is_required = requires.iter().any(|line| requirement_name(line) == "versioneer");
    let versioneer = contents.text(archive::VERSIONEER).filter(|_| !is_required);
    let mut uses = runs.map(|setup| setup.uses_with(versioneer)).unwrap_or_default();
    let changes_path =
        |setup: &SetupPy| ["sys.path", "addsitedir", "chdir"].iter().any(|word| setup.text.contains(word));
    let has_other_path = runs.is_some_and(changes_path);
    let may_be_own = |name: &String| {
        let module = name.split('.').next().unwrap_or(name);
        is_own(module) || has_other_path && contents.has_module_below(module)
    };
    uses.retain(|names| !names.iter().any(may_be_own));
    let facts = SourceFacts {
        metadata_from,
        kind: kind::of(contents, &pyproject, setup_py.as_ref()),
        needs: kind::frameworks(&pyproject, setup_py.as_ref()),
        requires,
        modules,
        uses,
        unknown,
        fetches: kind::fetches(&pyproject, setup_py.as_ref()),
        index: kind::index_of_stub(&pyproject),
    };
    Ok(SourceTree { headers, facts })
}

/// Whether nothing in a tree of setuptools could state a requirement. distutils wrote PKG-INFO without them, so that its
/// archives have no list.
fn requires_nothing(contents: &Contents, pyproject: &Pyproject, setup_py: Option<&SetupPy>) -> bool {
    let cfg = contents.text("setup.cfg").unwrap_or_default();
    let states = |word: &&str| cfg.contains(*word);
    setup_py.is_some_and(|setup| setup.requires_nothing)
        && pyproject.is_of_setuptools()
        && !["install_requires", "extras_require", "requires-dist", "requires_dist", "[metadata]\nrequires"]
            .iter()
            .any(states)
}

/// Name and version: as published, else as declared.
fn identity(
    published: &Option<published::Published>,
    declared: &declared::Declared,
) -> Result<(String, String), Unreadable> {
    if let Some(published) = published {
        return Ok((published.name.clone(), published.version.clone()));
    }
    let Some(name) = declared.name.clone() else {
        return Err(
            "it has neither PKG-INFO nor a `pyproject.toml`, `setup.cfg` or `setup.py` that states its name"
                .into(),
        );
    };
    let Some(version) = declared.version.as_deref().map(str::trim) else {
        return Err(Unreadable::ComputedVersion(clean(&name, 60)));
    };
    let Ok(version) = version.parse::<Version>() else {
        return Err(Unreadable::Other(format!("`{}` is not a version", clean(version, 60))));
    };
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c)) {
        return Err(Unreadable::Other(format!("`{}` is not a name", clean(&name, 60))));
    }
    let version = version.to_string();
    Ok((name, version))
}

impl SourceTree {
    /// The metadata as the solver reads it.
    ///
    /// # Errors
    /// If name or version is not valid.
    pub fn metadata(self) -> Result<CoreMetadata, Unreadable> {
        let digest = hex::encode(Sha256::digest(&self.headers));
        let mut parsed =
            CoreMetadata::parse(&self.headers, digest).map_err(|e| Unreadable::Other(e.to_string()))?;
        parsed.source = Some(self.facts);
        Ok(parsed)
    }

    /// Whether the tree is of this project.
    pub fn is_of(&self, project: &str) -> bool {
        let stated = self.headers.lines().find_map(|line| line.strip_prefix("Name: "));
        stated.is_some_and(|name| normalized_name(name.trim()) == normalized_name(project))
    }
}
