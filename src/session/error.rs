//! Errors of commands: a message, a hint and an exit code.

use std::iter;

use super::exit;
use crate::model::secrets::masked;

/// The kind of an error; its code in `--json` is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Invalid arguments.
    Usage,
    /// An input that cannot be read or parsed.
    Input,
    /// A file that cannot be read or written, or that envlock did not write.
    Files,
    /// The lock is missing or cannot be read.
    Lock,
    /// An impossible machine, or one that the registry does not know.
    Host,
    /// The compatibility data is invalid or incomplete.
    Registry,
    /// The registry does not have a required row, and reading wheels is disabled.
    UnknownRow,
    /// The lock cannot be exported to a format.
    Export,
    /// An index that does not answer.
    Network,
    /// An installer failed, or it or the locked Python is missing.
    Installer,
    /// No environment is named, active or found.
    Environment,
    /// No GPU that CUDA shows.
    NoGpu,
    /// The step limit was exceeded, or a bug in envlock.
    Internal,
    /// A wheel without GPU code, for which there is no registry row.
    NoCode,
}

impl Failure {
    /// The code in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::Usage => "usage",
            Failure::Input => "input",
            Failure::Files => "files",
            Failure::Lock => "lock",
            Failure::Host => "host",
            Failure::Registry | Failure::UnknownRow => "registry",
            Failure::Export => "export",
            Failure::Network => "network",
            Failure::Installer => "installer",
            Failure::Environment => "environment",
            Failure::NoGpu => "no-gpu",
            Failure::Internal => "internal",
            Failure::NoCode => "no-gpu-code",
        }
    }

    fn exit(self) -> u8 {
        match self {
            Failure::Network | Failure::Environment | Failure::UnknownRow | Failure::NoGpu => exit::NOT_KNOWN,
            _ => exit::CANNOT_ANSWER,
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CliError {
    /// The kind of error.
    pub code: Failure,
    /// What failed, with literals in backticks.
    pub message: String,
    /// The line of a file that is at fault, shown below the message.
    pub excerpt: Option<String>,
    /// The command or step that fixes it.
    pub hint: Option<String>,
    /// The exit code.
    pub exit: u8,
    /// The file of the project that is at fault, where one is.
    pub place: Option<Place>,
}

/// A file of the project, with a line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// From the project's folder: `pyproject.toml`.
    pub file: String,
    /// The first is 1.
    pub line: Option<usize>,
}

impl CliError {
    pub fn new(code: Failure, message: impl Into<String>) -> CliError {
        CliError { code, message: message.into(), excerpt: None, hint: None, exit: code.exit(), place: None }
    }

    /// Shows the line of the file that is at fault.
    pub fn showing(mut self, line: usize, text: &str) -> CliError {
        let text = masked(text);
        self.excerpt = Some(format!("   |\n{line:>3}| {text}\n   |"));
        self
    }

    /// The error with the file that is at fault.
    pub fn at(mut self, file: impl Into<String>, line: Option<usize>) -> CliError {
        self.place = Some(Place { file: file.into(), line });
        self
    }

    /// The message with the line of a file that it shows.
    pub fn full(&self) -> String {
        let excerpt = self.excerpt.iter().map(|excerpt| format!("\n{excerpt}"));
        iter::once(self.message.clone()).chain(excerpt).collect()
    }

    pub fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Usage, message)
    }

    pub fn input(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Input, message)
    }

    pub fn files(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Files, message)
    }

    pub fn lock(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Lock, message)
    }

    pub fn host(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Host, message)
    }

    pub fn registry(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Registry, message)
    }

    pub fn export(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Export, message)
    }

    pub fn network(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Network, message)
    }

    pub fn internal(message: impl Into<String>) -> CliError {
        CliError::new(Failure::Internal, message)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }

    /// The error as JSON.
    pub fn document(&self) -> serde_json::Value {
        serde_json::json!({
            "error": { "code": self.code.as_str(), "message": self.full(), "hint": self.hint }
        })
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        // fs-err's messages name the file.
        CliError::files(error.to_string())
    }
}

impl From<crate::lockfile::LockError> for CliError {
    fn from(error: crate::lockfile::LockError) -> Self {
        CliError::lock(error.to_string()).hint(error.hint()).at(crate::lockfile::FILE, None)
    }
}

impl From<crate::export::ExportError> for CliError {
    fn from(error: crate::export::ExportError) -> Self {
        let hint = match &error {
            crate::export::ExportError::StackOnly => Some("run `envlock resolve` without `--stack-only`"),
            crate::export::ExportError::NoHash(_) => None,
            crate::export::ExportError::Conda(_) => Some(
                "`envlock export environment.yml` has both halves, `envlock export conda-explicit` that of conda",
            ),
            crate::export::ExportError::NoConda => {
                Some("name some under `[conda]` in envlock.toml: `dependencies = [\"ffmpeg\"]`")
            }
            crate::export::ExportError::Unsupported { .. } => Some("`envlock sync` installs it"),
            crate::export::ExportError::NoFiles(_) => {
                Some("recreate the lock with `envlock resolve --upgrade`")
            }
            crate::export::ExportError::NoBase { .. } => Some(
                "pass `--base IMAGE` with an image that has these libraries, or export `environment.yml` for conda",
            ),
            crate::export::ExportError::NotLinux(_) => Some("export a target for Linux: `--target NAME`"),
            crate::export::ExportError::NotABase(_) => {
                Some("pass a name with a tag or a digest: `python:3.12-slim`, `IMAGE@sha256:...`")
            }
            crate::export::ExportError::NoAddress { .. } => {
                Some("name the index in envlock.toml, or pass `--index-url`")
            }
        };
        CliError { hint: hint.map(str::to_owned), ..CliError::export(error.to_string()) }
    }
}
