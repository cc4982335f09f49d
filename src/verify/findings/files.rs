//! Recorded files against the disk.

use super::{finding, reinstall};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::installed::Installed;
use crate::model::text::shell_word;

/// Files of a package with the same fault: a sentence about them, and the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileGroup {
    /// The sentence.
    pub text: String,
    /// The first file, below site-packages.
    pub first: String,
}

/// A package's RECORD is missing or cannot be read.
pub fn unreadable_record(name: &str, dist_info: &str) -> Finding {
    let text = format!("{name} has no readable RECORD: its files could not be checked");
    finding(Code::UnreadableRecord, Severity::Warning, text).at(dist_info)
}

/// Files that an installed package records are gone.
pub fn missing_file(group: FileGroup, name: &str, installed: &Installed) -> Finding {
    finding(Code::MissingFile, Severity::Error, group.text)
        .at(group.first)
        .fixed_by(Fix::command(reinstall(installed, name)))
}

/// Files whose size or hash is not the recorded one.
pub fn altered_file(group: FileGroup, name: &str, installed: &Installed) -> Finding {
    finding(Code::AlteredFile, Severity::Error, group.text)
        .at(group.first)
        .fixed_by(Fix::command(reinstall(installed, name)))
}

/// Two packages own the same files: the one that stays is installed anew.
pub fn file_owned_twice(group: FileGroup, stays: &str, goes: &str, installed: &Installed) -> Finding {
    let fix = format!("pip uninstall -y {} && {}", shell_word(goes), reinstall(installed, stays));
    finding(Code::FileOwnedTwice, Severity::Error, group.text).at(group.first).fixed_by(Fix::command(fix))
}
