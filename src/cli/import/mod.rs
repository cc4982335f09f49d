//! Imports requirements from other tools' files and from environments, for `init --from` and `--from-prefix`.

mod conda;
pub(super) mod prefix;
mod pyproject;
mod requirements;

use std::path::Path;

use super::error::CliError;
use super::files;
use crate::model::request::UserRequirement;
use crate::model::text::clean;

/// Imported requirements, in the terms of envlock.toml.
#[derive(Debug, Default)]
pub(super) struct Imported {
    /// The limit on Python.
    pub python: Option<String>,
    /// Requirements, as written and parsed.
    pub requirements: Vec<(String, UserRequirement)>,
    /// Constraints: they limit versions, but do not require a package.
    pub constraints: Vec<String>,
    /// Limits of the stack: `cuda`, `cudnn`, `variant`.
    pub limits: Vec<(&'static str, String)>,
    /// Items that envlock.toml does not support.
    pub left_out: Vec<String>,
    /// Whether one of them configures an index.
    pub left_out_index: bool,
}

impl Imported {
    /// Adds a requirement; `origin` is the file.
    fn push(&mut self, text: &str, origin: &str) -> Result<(), CliError> {
        let parsed = UserRequirement::parse(text, origin.into())
            .map_err(|e| CliError::input(format!("{}: {e}", clean(origin, 80))))?;
        self.requirements.push((text.trim().to_owned(), parsed));
        Ok(())
    }

    fn leave_out(&mut self, what: &str) {
        self.left_out.push(clean(what, 80));
    }

    /// Leaves out an item that configures an index.
    fn leave_out_index(&mut self, what: &str) {
        self.left_out_index = true;
        self.leave_out(what);
    }

    /// Leaves out an option of a requirements file. `option` is its first word, with or without `=VALUE`.
    fn leave_out_option(&mut self, option: &str) {
        let name = option.split('=').next().unwrap_or(option);
        match name {
            "-i" | "--index-url" | "--extra-index-url" | "--no-index" | "-f" | "--find-links" => {
                self.leave_out_index(option);
            }
            _ => self.leave_out(option),
        }
    }
}

/// Reads a file in the format that its name implies.
pub(super) fn read(file: &Path) -> Result<Imported, CliError> {
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let extension = file.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
    match (name.as_str(), extension.as_str()) {
        (_, "txt" | "in") => requirements::read(file),
        ("pixi.toml", _) => conda::pixi(&text(file)?, &name),
        (_, "toml") => pyproject::read(&text(file)?, &name),
        (_, "yml" | "yaml") => conda::environment(&text(file)?, &name),
        _ => Err(CliError::usage(format!("`{}` has an unsupported format", clean(&name, 80))).hint(
            "supported are requirements.txt, pyproject.toml (PEP 621, uv, poetry), environment.yml, pixi.toml",
        )),
    }
}

fn text(file: &Path) -> Result<String, CliError> {
    files::read(file)?.ok_or_else(|| CliError::input(format!("`{}` does not exist", file.display())))
}

/// A TOML document that cannot be read, with its line.
fn unreadable(name: &str, text: &str, error: &toml::de::Error) -> CliError {
    let start = error.span().map_or(0, |s| s.start.min(text.len()));
    let line = text[..start].matches('\n').count() + 1;
    CliError::input(format!("{}:{line}: {}", clean(name, 80), clean(error.message(), 200)))
}
