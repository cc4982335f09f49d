//! Failures as people and programs see them: one sentence, one hint, one exit code.

use super::exit;
use super::printer::Printer;

/// What kind of failure it is, as a word that programs can rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Arguments that cannot be meant.
    Usage,
    /// A file that cannot be read or understood.
    Input,
    /// A file that cannot be read or written, or that envlock did not write.
    Files,
    /// The lock is missing or cannot be read.
    Lock,
    /// A machine that cannot be, or that is not known.
    Host,
    /// The compatibility data is wrong, or does not have what is needed.
    Registry,
    /// A row that is needed is not known, and may not be read now.
    UnknownRow,
    /// The lock cannot be written in a format.
    Export,
    /// An index that does not answer.
    Network,
    /// No environment to look at.
    Environment,
    /// The search was given up, or envlock is at fault.
    Internal,
    /// A wheel without GPU code, of which no row can be made.
    NoCode,
}

impl Failure {
    /// The word in `--json`.
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
            Failure::Environment => "environment",
            Failure::Internal => "internal",
            Failure::NoCode => "no-gpu-code",
        }
    }

    fn exit(self) -> u8 {
        match self {
            Failure::Network | Failure::Environment | Failure::UnknownRow => exit::NOT_KNOWN,
            _ => exit::CANNOT_ANSWER,
        }
    }
}

/// Why a command could not answer.
#[derive(Debug)]
pub(super) struct CliError {
    /// What kind of failure.
    pub code: Failure,
    /// What failed, literals in backticks.
    pub message: String,
    /// The command or step that helps.
    pub hint: Option<String>,
    /// The exit code.
    pub exit: u8,
}

impl CliError {
    pub fn new(code: Failure, message: impl Into<String>) -> CliError {
        CliError { code, message: message.into(), hint: None, exit: code.exit() }
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

    /// Prints it: as JSON on stdout with `--json`, as text on stderr always without.
    pub fn print(&self, printer: &Printer) {
        if printer.json {
            let document = serde_json::json!({
                "error": { "code": self.code.as_str(), "message": self.message, "hint": self.hint }
            });
            printer.json(&document);
        } else {
            printer.error(&self.message, self.hint.as_deref());
        }
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
        CliError::lock(error.to_string()).hint(error.hint())
    }
}

impl From<crate::export::ExportError> for CliError {
    fn from(error: crate::export::ExportError) -> Self {
        let hint = match &error {
            crate::export::ExportError::StackOnly => Some("run `envlock resolve` without `--stack-only`"),
            crate::export::ExportError::NoHash(_) => None,
            crate::export::ExportError::Unsupported { .. } => Some("update envlock"),
            crate::export::ExportError::NoFiles(_) => {
                Some("make the lock again with `envlock resolve --upgrade`")
            }
            crate::export::ExportError::NoBase { .. } => Some(
                "`--base IMAGE`, one with these libraries; or `envlock export environment.yml` for conda",
            ),
            crate::export::ExportError::NotLinux(_) => Some("export a target for Linux: `--target NAME`"),
            crate::export::ExportError::NotABase(_) => {
                Some("a name with a tag or a digest: `python:3.12-slim`, `IMAGE@sha256:...`")
            }
            crate::export::ExportError::NoAddress { .. } => {
                Some("name the index in envlock.toml, or pass `--index-url`")
            }
        };
        CliError { hint: hint.map(str::to_owned), ..CliError::export(error.to_string()) }
    }
}
