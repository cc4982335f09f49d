//! Imports requirements from other tools' files and from environments, for `init --from` and `--from-prefix`.

mod channel;
mod conda;
mod conda_lock;
mod indexes;
mod kept;
mod lock;
pub(crate) mod manifest_text;
mod match_spec;
mod pixi;
mod poetry;
pub(crate) mod prefix;
mod pyproject;
mod reference;
mod requirements;
mod setup;
mod translated;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::Failure;
use super::files;
use crate::model::request::UserRequirement;
use crate::model::secrets::shown_requirement;
use crate::model::text::clean;
pub(crate) use kept::CondaPart;
use kept::Kept;

/// Imported requirements, in the terms of envlock.toml.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    /// The name of the project, if the file states one.
    pub name: Option<String>,
    /// The limit on Python.
    pub python: Option<String>,
    /// Requirements, as written and parsed.
    pub requirements: Vec<(String, UserRequirement)>,
    /// Constraints: they limit versions, but do not require a package.
    pub constraints: Vec<String>,
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
}

/// Which optional requirements of a file to import.
#[derive(Debug, Default, Clone)]
pub(crate) struct Optional {
    /// Extras by name.
    pub extras: Vec<String>,
    /// Dependency groups by name.
    pub groups: Vec<String>,
    /// All extras.
    pub all_extras: bool,
    /// Which packages a conda file becomes.
    pub conda: CondaPart,
}

impl Imported {
    /// Adds what another file imports.
    pub fn join(&mut self, other: Imported) {
        self.python = self.python.take().or(other.python);
        for (text, parsed) in other.requirements {
            if !self.requirements.iter().any(|(own, _)| *own == text) {
                self.requirements.push((text, parsed));
            }
        }
        self.constraints.extend(other.constraints);
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
    fn limit(&mut self, key: &'static str, value: String) {
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
    fn push(&mut self, text: &str, origin: &str) -> Result<(), Failure> {
        let parsed = UserRequirement::parse(text, origin.into())
            .map_err(|e| Failure::input(format!("{}: {e}", clean(origin, 80))))?;
        let text = text.trim();
        if !self.requirements.iter().any(|(own, _)| own == text) {
            self.requirements.push((text.to_owned(), parsed));
        }
        Ok(())
    }

    /// Adds a requirement or a direct reference; paths are relative to `base`.
    fn push_line(&mut self, line: &str, base: &Path, origin: &str) -> Result<(), Failure> {
        if line.contains("${") {
            self.leave_out_because(line, "it has an environment variable");
            return Ok(());
        }
        match reference::push(self, line, base, origin)? {
            true => Ok(()),
            false => self.push(line, origin),
        }
    }

    fn leave_out(&mut self, what: &str) {
        self.left_out
            .push(format!("`{}` is not supported in envlock.toml", clean(&shown_requirement(what), 80)));
    }

    /// Leaves out the hashes of a file, once for all.
    fn leave_out_hashes(&mut self) {
        let text = "`--hash`: the lock has the hashes that the index states";
        if !self.left_out.iter().any(|known| known == text) {
            self.left_out.push(text.to_owned());
        }
    }

    fn leave_out_because(&mut self, what: &str, why: &str) {
        self.left_out.push(format!("`{}`: {}", clean(&shown_requirement(what), 80), clean(why, 200)));
    }

    /// Leaves out extras (`--extra`) or groups (`--group`) that were not asked for: many of them in one line.
    fn leave_out_parts(&mut self, table: &str, kind: &str, option: &str, names: &[&str]) {
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

/// Whether a file lists packages of conda: an environment file, a manifest or lock of pixi, a lock of conda-lock.
pub(crate) fn is_of_conda(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    name.ends_with(".yml") || name.ends_with(".yaml") || name.starts_with("pixi.")
}

/// Reads a file in the format that its name implies. `folder` is that of the manifest.
pub(crate) fn read(file: &Path, folder: &Path, optional: &Optional) -> Result<Imported, Failure> {
    let out = Imported { folder: folder.to_owned(), ..Imported::default() };
    let base = reference::folder_of(file);
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let extension = file.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
    match (name.as_str(), extension.as_str()) {
        (_, "txt" | "in") => requirements::read(out, file),
        (name, "lock") if lock::NAMES.contains(&name) => lock::read(out, file, name, &base, optional),
        (name, "lock" | "yml" | "yaml") if let Some(tool) = conda_lock::tool(name) => {
            conda_lock::read(out, tool, file, (name, &base), optional.conda)
        }
        ("pixi.toml", _) => pixi::read(out, &text(file)?, (&name, &base), optional),
        ("setup.py" | "setup.cfg", _) if file.is_file() => setup::read(out, &base, &name, optional),
        (_, "toml") => {
            let text = text(file)?;
            let mut read = pyproject::read(out, &text, &name, &base, optional)?;
            pixi::add_of_pyproject(&mut read, &text, (&name, &base), optional.conda)?;
            match read.requirements.is_empty() && lock::is_of_workspace(&text) {
                true => Err(lock::workspace_without_requirements()),
                false => Ok(read),
            }
        }
        (_, "yml" | "yaml") => conda::environment(out, &text(file)?, &name, &base, optional.conda),
        _ if !file.exists() => Err(absent(file)),
        _ => Err(Failure::usage(format!("`{}` has an unsupported format", clean(&name, 80))).hint(
            "supported are requirements.txt, pyproject.toml (PEP 621, uv, poetry), uv.lock, poetry.lock, setup.py, setup.cfg, environment.yml, pixi.toml, pixi.lock, conda-lock.yml",
        )),
    }
}

/// The text of a file by its byte order mark, which PowerShell writes, else UTF-8.
fn text(file: &Path) -> Result<String, Failure> {
    let bytes = files::read_bytes(file)?.ok_or_else(|| absent(file))?;
    let shown = || clean(&file.display().to_string(), 200);
    decoded(&bytes).ok_or_else(|| Failure::input(format!("`{}` is not UTF-8 text", shown())))
}

fn absent(file: &Path) -> Failure {
    Failure::input(format!("`{}` does not exist", clean(&file.display().to_string(), 200)))
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

/// A TOML document that cannot be read, with its line.
fn unreadable(name: &str, text: &str, error: &toml::de::Error) -> Failure {
    let start = error.span().map_or(0, |s| s.start.min(text.len()));
    let line = text[..start].matches('\n').count() + 1;
    Failure::input(format!("{}:{line}: {}", clean(name, 80), clean(error.message(), 200)))
}
