//! What is imported from a file of another tool, in the terms of envlock.toml.

mod context;
mod indexes;
mod reference;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use crate::model::request::UserRequirement;
use crate::model::secrets::shown_requirement;
use crate::model::text::clean;
pub use context::{Context, Files, ImportError, path_from};
#[cfg(test)]
pub(super) use context::{Texts, nothing};
pub(super) use context::{absent, unreadable};
pub(super) use indexes::pytorch_index;
pub(super) use reference::{extras_of, folder_of};

/// Imported requirements, in the terms of envlock.toml.
#[derive(Debug, Default)]
pub struct Imported {
    /// The name of the project, if the file states one.
    pub name: Option<String>,
    /// The limit on Python.
    pub python: Option<String>,
    /// Requirements, as written and parsed.
    pub requirements: Vec<(String, UserRequirement)>,
    /// Constraints: they limit versions, but do not require a package.
    pub constraints: Vec<String>,
    /// The file and line of constraints of requirements files: `cons.txt:3`.
    pub places: BTreeMap<String, String>,
    /// What replaces the requirements of packages on these names.
    pub overrides: Vec<String>,
    /// Until when files are candidates.
    pub exclude_newer: Option<String>,
    /// Limits of the stack: `cuda`, `cudnn`, `variant`.
    pub limits: Vec<(&'static str, String)>,
    /// Items that envlock.toml does not support.
    pub left_out: Vec<String>,
    /// Whether one of them configures an index.
    pub left_out_index: bool,
    /// The CUDA variants whose builds the file takes from the pytorch index; empty for that index as a whole.
    pub pytorch_index: Option<BTreeSet<String>>,
    /// Whether a URL had a login, which was left out.
    pub has_login: bool,
    /// What is kept as conda packages.
    pub conda: Option<Kept>,
    /// The folder of the manifest, to which paths are relative.
    pub folder: PathBuf,
    /// The texts of the requirements: a second one of the same text says nothing new.
    known: HashSet<String>,
}

/// Maximum number of requirements that are imported.
const MAX_REQUIREMENTS: usize = 50_000;

/// Which optional requirements of a file to import.
#[derive(Debug, Default, Clone)]
pub struct Optional {
    /// Extras by name.
    pub extras: Vec<String>,
    /// Dependency groups by name.
    pub groups: Vec<String>,
    /// The environment of a pixi manifest; `default` if none is named.
    pub environment: Option<String>,
    /// All extras.
    pub all_extras: bool,
    /// Which packages a conda file becomes.
    pub conda: CondaPart,
}

/// Which packages a conda file becomes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum CondaPart {
    /// Those of PyPI where all of them are there, else conda's.
    #[default]
    Auto,
    /// conda's.
    Conda,
    /// PyPI's, without what is not there.
    Pypi,
}

/// What is kept as conda packages.
#[derive(Debug, Default, PartialEq)]
pub struct Kept {
    /// The channels, the most preferred first.
    pub channels: Vec<String>,
    /// Match specs.
    pub specs: Vec<String>,
    /// Whether torch comes from conda-forge.
    pub has_stack: bool,
}

impl Imported {
    /// Nothing yet, for the manifest in a folder.
    pub fn into_folder(folder: &Path) -> Imported {
        Imported { folder: folder.to_owned(), ..Imported::default() }
    }

    /// Adds what another file imports.
    pub fn join(&mut self, other: Imported) {
        self.python = self.python.take().or(other.python);
        for (text, parsed) in other.requirements {
            if self.known.insert(text.clone()) {
                self.requirements.push((text, parsed));
            }
        }
        self.constraints.extend(other.constraints);
        self.places.extend(other.places);
        self.overrides.extend(other.overrides);
        self.exclude_newer = self.exclude_newer.take().or(other.exclude_newer);
        other.limits.into_iter().for_each(|(key, value)| self.limit(key, value));
        self.left_out.extend(other.left_out);
        self.left_out_index |= other.left_out_index;
        if let Some(variants) = other.pytorch_index {
            self.pytorch_index.get_or_insert_default().extend(variants);
        }
        self.has_login |= other.has_login;
        self.conda = self.conda.take().or(other.conda);
    }

    /// Adds a limit of the stack. `[stack]` has one of each: a second one that says something else is left out.
    pub(in crate::formats) fn limit(&mut self, key: &'static str, value: String) {
        let known = self.limits.iter().find(|(own, _)| *own == key).map(|(_, value)| value.clone());
        match known {
            None => self.limits.push((key, value)),
            Some(known) if known == value => {}
            Some(known) => {
                self.leave_out_because(
                    &format!("{key} {value}"),
                    &format!("the file also has {key} {known}"),
                );
            }
        }
    }

    /// Adds a requirement; `origin` is the file.
    ///
    /// # Errors
    /// When it is none.
    pub fn push(&mut self, text: &str, origin: &str) -> Result<(), ImportError> {
        let parsed = UserRequirement::parse(text, origin.into())
            .map_err(|e| ImportError::input(format!("{}: {e}", clean(origin, 80))))?;
        let text = text.trim();
        if self.known.insert(text.to_owned()) {
            self.requirements.push((text.to_owned(), parsed));
        }
        match self.requirements.len() > MAX_REQUIREMENTS {
            true => Err(ImportError::input(format!(
                "{}: more than {MAX_REQUIREMENTS} requirements",
                clean(origin, 80)
            ))),
            false => Ok(()),
        }
    }

    /// Adds a requirement or a direct reference; paths are relative to `base`.
    pub(in crate::formats) fn push_line(
        &mut self,
        context: Context<'_>,
        line: &str,
        base: &Path,
        origin: &str,
    ) -> Result<(), ImportError> {
        if line.contains("${") {
            self.leave_out_because(line, "it has an environment variable");
            return Ok(());
        }
        match reference::push(self, context, line, (base, origin))? {
            true => Ok(()),
            false => self.push(line, origin),
        }
    }

    /// Takes note of something that envlock.toml has no word for.
    pub fn leave_out(&mut self, what: &str) {
        self.left_out
            .push(format!("`{}` is not supported in envlock.toml", clean(&shown_requirement(what), 80)));
    }

    /// Leaves out the hashes of a file, once for all.
    pub(in crate::formats) fn leave_out_hashes(&mut self) {
        let text = "`--hash`: the lock has the hashes that the index states";
        if !self.left_out.iter().any(|known| known == text) {
            self.left_out.push(text.to_owned());
        }
    }

    pub(in crate::formats) fn leave_out_because(&mut self, what: &str, why: &str) {
        self.left_out.push(format!("`{}`: {}", clean(&shown_requirement(what), 80), clean(why, 200)));
    }

    /// Leaves out extras (`--extra`) or groups (`--group`) that were not asked for: many of them in one line.
    pub(in crate::formats) fn leave_out_parts(
        &mut self,
        table: &str,
        kind: &str,
        option: &str,
        names: &[&str],
    ) {
        /// Up to this many have a line each.
        const FEW: usize = 3;
        /// How many are named in one line.
        const NAMED: usize = 8;
        if names.len() <= FEW {
            for name in names {
                self.leave_out_because(
                    &format!("{table} {name}"),
                    &format!("{kind}; `{option} {name}` imports it"),
                );
            }
            return;
        }
        let more = if names.len() > NAMED { ", ..." } else { "" };
        let list = names[..names.len().min(NAMED)].join(", ");
        let text = format!("{} of {table}: {list}{more}; `{option} NAME` imports one", names.len());
        self.left_out.push(clean(&text, 300));
    }
}
