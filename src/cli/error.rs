//! Failures as people and programs see them: one sentence, one hint, one exit code.

use super::printer::Printer;

/// The exit codes of the contract.
pub mod exit {
    /// Solved, as locked, no cause found.
    pub const YES: u8 = 0;
    /// Conflict, differs, a cause was found; a requested name that no index has.
    pub const NO: u8 = 1;
    /// Usage, unreadable input, an impossible host, network.
    pub const CANNOT_ANSWER: u8 = 2;
    /// Ended by an interrupt, as a shell reports it: 128 and the signal's number.
    pub const INTERRUPTED: u8 = 130;
}

/// Why a command could not answer.
#[derive(Debug)]
pub(super) struct CliError {
    /// A word for programs: `usage`, `input`, `network`, `host`, `files`.
    pub code: &'static str,
    /// What failed, literals in backticks.
    pub message: String,
    /// The command or step that helps.
    pub hint: Option<String>,
    /// The exit code.
    pub exit: u8,
}

impl CliError {
    pub fn new(code: &'static str, message: impl Into<String>) -> CliError {
        CliError { code, message: message.into(), hint: None, exit: exit::CANNOT_ANSWER }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it: as JSON on stdout with `--json`, as text on stderr always without.
    pub fn print(&self, printer: &Printer) {
        if printer.json {
            let document = serde_json::json!({
                "error": { "code": self.code, "message": self.message, "hint": self.hint }
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
        CliError::new("files", error.to_string())
    }
}

impl From<crate::lockfile::LockError> for CliError {
    fn from(error: crate::lockfile::LockError) -> Self {
        CliError::new("lock", error.to_string()).hint(error.hint())
    }
}

impl From<crate::export::ExportError> for CliError {
    fn from(error: crate::export::ExportError) -> Self {
        let hint = match &error {
            crate::export::ExportError::StackOnly => Some("run `envlock resolve` without `--stack-only`"),
            crate::export::ExportError::NoHash(_) => None,
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
        CliError { hint: hint.map(str::to_owned), ..CliError::new("export", error.to_string()) }
    }
}
