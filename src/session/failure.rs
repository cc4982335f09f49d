//! Errors of commands: a message, a hint and an exit code.

use std::iter;

use super::exit;
use crate::formats::write::ExportError;
use crate::model::secrets::masked;

/// The kind of an error; its code in `--json` is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
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
    /// A signal ended an installer: what it was doing is half done.
    Killed,
    /// No environment is named, active or found.
    Environment,
    /// No GPU that CUDA shows.
    NoGpu,
    /// A search ended at its limit of steps or time, or a bug in envlock.
    Internal,
    /// A wheel without GPU code, for which there is no registry row.
    NoCode,
}

impl FailureKind {
    /// The code in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::Usage => "usage",
            FailureKind::Input => "input",
            FailureKind::Files => "files",
            FailureKind::Lock => "lock",
            FailureKind::Host => "host",
            FailureKind::Registry | FailureKind::UnknownRow => "registry",
            FailureKind::Export => "export",
            FailureKind::Network => "network",
            FailureKind::Installer | FailureKind::Killed => "installer",
            FailureKind::Environment => "environment",
            FailureKind::NoGpu => "no-gpu",
            FailureKind::Internal => "internal",
            FailureKind::NoCode => "no-gpu-code",
        }
    }

    fn exit(self) -> u8 {
        match self {
            FailureKind::Network
            | FailureKind::Environment
            | FailureKind::UnknownRow
            | FailureKind::NoGpu => exit::NOT_KNOWN,
            _ => exit::CANNOT_ANSWER,
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.full())]
pub struct Failure {
    /// The kind of error.
    pub code: FailureKind,
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
pub struct Place {
    /// From the project's folder: `pyproject.toml`.
    pub file: String,
    /// The first is 1.
    pub line: Option<usize>,
}

/// What is said of a search that ended at its limit.
pub(crate) const TOO_LONG: &str =
    "the search ended at its limit: neither an answer nor a proof that there is none was found";

impl Failure {
    pub(crate) fn new(code: FailureKind, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), excerpt: None, hint: None, exit: code.exit(), place: None }
    }

    /// A signal ended a program. An interrupt ends the run as the person asked.
    pub(crate) fn killed(program: &str, signal: i32) -> Failure {
        match signal {
            exit::SIGINT => {
                Failure { exit: exit::INTERRUPTED, ..Failure::new(FailureKind::Killed, "interrupted") }
            }
            _ => Failure::new(FailureKind::Killed, format!("signal {signal} ended `{program}`")),
        }
    }

    /// Whether a signal ended the program that failed.
    pub(crate) fn is_killed(&self) -> bool {
        self.code == FailureKind::Killed
    }

    /// Shows the line of the file that is at fault.
    pub(crate) fn showing(mut self, line: usize, text: &str) -> Failure {
        let text = masked(text);
        self.excerpt = Some(format!("   |\n{line:>3}| {text}\n   |"));
        self
    }

    /// The error with the file that is at fault.
    pub(crate) fn at(mut self, file: impl Into<String>, line: Option<usize>) -> Failure {
        self.place = Some(Place { file: file.into(), line });
        self
    }

    /// The message with the line of a file that it shows.
    pub fn full(&self) -> String {
        let excerpt = self.excerpt.iter().map(|excerpt| format!("\n{excerpt}"));
        iter::once(self.message.clone()).chain(excerpt).collect()
    }

    /// Invalid arguments.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    /// An input that cannot be read.
    pub(crate) fn input(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Input, message)
    }

    /// A file that cannot be read or written.
    pub(crate) fn files(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Files, message)
    }

    /// A lock that is missing or cannot be read.
    pub(crate) fn lock(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Lock, message)
    }

    /// An impossible or unknown machine.
    pub(crate) fn host(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Host, message)
    }

    /// Compatibility data that are invalid or incomplete.
    pub(crate) fn registry(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Registry, message)
    }

    /// A lock that cannot be exported.
    pub(crate) fn export(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Export, message)
    }

    /// An index that does not answer.
    pub(crate) fn network(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Network, message)
    }

    /// A search that ended at its limit of steps or time, without an answer or a proof that there is none.
    pub(crate) fn too_long() -> Failure {
        Failure::internal(TOO_LONG).hint("name a version of one or two packages, or a Python with `--python`")
    }

    /// A bug, or a limit.
    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Internal, message)
    }

    /// The failure with the step that helps.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
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

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // fs-err's messages name the file.
        Failure::files(error.to_string())
    }
}

impl From<crate::lockfile::LockError> for Failure {
    fn from(error: crate::lockfile::LockError) -> Self {
        Failure::lock(error.to_string()).hint(error.hint()).at(crate::lockfile::FILE, None)
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let hint = match &error {
            ExportError::StackOnly => Some("run `envlock resolve` without `--stack-only`"),
            ExportError::NoHash(_) => None,
            ExportError::Signed { .. } => {
                Some("`envlock export requirements.txt` names the packages by hash alone")
            }
            ExportError::Conda(_) => Some(
                "`envlock export environment.yml` has both halves, `envlock export conda-explicit` that of conda",
            ),
            ExportError::NoConda => {
                Some("name some under `[conda]` in envlock.toml: `dependencies = [\"ffmpeg\"]`")
            }
            ExportError::Unsupported { .. } => Some("`envlock sync` installs it"),
            ExportError::NoFiles(_) => Some("recreate the lock with `envlock resolve --upgrade`"),
            ExportError::NoBase { .. } => Some(
                "pass `--base IMAGE` with an image that has these libraries, or export `environment.yml` for conda",
            ),
            ExportError::NotLinux(_) => Some("export a target for Linux: `--target NAME`"),
            ExportError::NotABase(_) => {
                Some("pass a name with a tag or a digest: `python:3.12-slim`, `IMAGE@sha256:...`")
            }
            ExportError::NoAddress { .. } => Some("name the index in envlock.toml, or pass `--index-url`"),
        };
        Failure { hint: hint.map(str::to_owned), ..Failure::export(error.to_string()) }
    }
}
