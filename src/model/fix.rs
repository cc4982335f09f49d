//! A fix: a shell command, or advice.

use std::fmt;

use serde::{Serialize, Serializer};

/// A fix for a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// A command line that can be copied into a shell.
    Command {
        /// The command line.
        command: String,
        /// A short note on its effect or on what to check.
        why: Option<String>,
    },
    /// A sentence about what to do.
    Advice(String),
}

/// The prefix of a command in the registry's data, as in a terminal session.
const MARK: &str = "$ ";
/// The separator between a command and its note.
const WHY: &str = "   # ";

impl Fix {
    /// A command line.
    pub fn command(command: impl Into<String>) -> Fix {
        Fix::Command { command: command.into(), why: None }
    }

    /// A command line with a note.
    pub fn command_that(command: impl Into<String>, why: impl Into<String>) -> Fix {
        Fix::Command { command: command.into(), why: Some(why.into()) }
    }

    /// Advice, as a sentence.
    pub fn advice(text: impl Into<String>) -> Fix {
        Fix::Advice(text.into())
    }

    /// Parses a fix in the registry's data: `$ pip install x   # installs it`, or a sentence.
    pub fn parse(text: &str) -> Fix {
        match text.strip_prefix(MARK) {
            None => Fix::advice(text),
            Some(line) => match line.split_once(WHY) {
                Some((command, why)) => Fix::command_that(command, why),
                None => Fix::command(line),
            },
        }
    }

    /// Replaces each part with the result of `text`; `None` if `text` returns `None` for one of them.
    pub fn map(&self, mut text: impl FnMut(&str) -> Option<String>) -> Option<Fix> {
        Some(match self {
            Fix::Advice(advice) => Fix::Advice(text(advice)?),
            Fix::Command { command, why } => Fix::Command {
                command: text(command)?,
                why: match why {
                    Some(why) => Some(text(why)?),
                    None => None,
                },
            },
        })
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fix::Command { command, why: None } => f.write_str(command),
            Fix::Command { command, why: Some(why) } => write!(f, "{command}{WHY}{why}"),
            Fix::Advice(text) => f.write_str(text),
        }
    }
}

impl Serialize for Fix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Fix;

    #[test]
    fn commands_have_a_mark_in_the_data() {
        let command = Fix::parse("$ pip install x   # brings it");
        assert_eq!(command, Fix::command_that("pip install x", "brings it"));
        assert_eq!(command.to_string(), "pip install x   # brings it");
        assert_eq!(Fix::parse("reboot the machine"), Fix::advice("reboot the machine"));
    }
}
