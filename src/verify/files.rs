//! Recorded files against the disk.

use super::{Area, finding};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::installed::{FileFault, Installed};
use crate::model::text::{clean, shell_word};

/// No more files are named in one finding; the rest is counted.
const MOST: usize = 3;

/// `locked` tells whether a package is in the lock: of two that own a file, the other one goes.
pub(super) fn check(installed: &Installed, locked: &dyn Fn(&str) -> bool) -> Area {
    let mut findings = Vec::new();
    let mut wrong = 0;
    for distribution in &installed.distributions {
        let name = &distribution.name;
        let conda = distribution.installer.as_deref() == Some("conda");
        if !distribution.record_readable && !conda {
            findings.push(Finding {
                r#where: Some(distribution.dist_info.clone()),
                ..finding(
                    Code::UnreadableRecord,
                    Severity::Warning,
                    format!("{name} has no readable RECORD: its files could not be checked"),
                )
            });
        }
        let mut missing = Group::default();
        let mut altered = Group::default();
        let mut twice = Group::default();
        let mut other_owner = None;
        for fault in &distribution.faults {
            match fault {
                FileFault::Missing(path) => missing.add(path, String::new()),
                FileFault::Size(path, recorded, found) => {
                    altered.add(path, format!(" has {found} bytes, {recorded} are recorded"));
                }
                FileFault::Unreadable(path, why) => altered.add(path, format!(" cannot be read: {why}")),
                FileFault::Hash(path) => {
                    altered.add(path, " has another SHA-256 than is recorded".to_owned())
                }
                FileFault::OwnedTwice(path, other) => {
                    other_owner = Some(other.clone());
                    twice.add(path, String::new());
                }
            }
        }
        wrong += missing.0.len() + altered.0.len();
        let reinstall = |name: &str| super::packages::reinstall(installed, name);
        let mut tell = |code: Code, group: Group, what: &str, fix: String| {
            if let Some((text, first)) = group.tell(name, what) {
                findings.push(Finding {
                    fix: Some(fix),
                    r#where: Some(first),
                    ..finding(code, Severity::Error, text)
                });
            }
        };
        tell(Code::MissingFile, missing, "gone", reinstall(name));
        tell(Code::AlteredFile, altered, "not as recorded", reinstall(name));
        if let Some(other) = other_owner {
            let (stays, goes) = if locked(name) && !locked(&other) { (name, &other) } else { (&other, name) };
            tell(
                Code::FileOwnedTwice,
                twice,
                &format!("also {other}'s, so one overwrote the other"),
                format!("pip uninstall -y {} && {}", shell_word(goes), reinstall(stays)),
            );
        }
    }
    let summary = if wrong == 0 {
        format!("{} present, sizes as recorded", thousands(installed.files_seen))
    } else {
        format!("{} looked at, {} not as recorded", thousands(installed.files_seen), thousands(wrong))
    };
    Area { name: "files".into(), findings, summary }
}

/// Files with the same fault, and what is to say of each.
#[derive(Default)]
struct Group(Vec<(String, String)>);

impl Group {
    fn add(&mut self, path: &str, detail: String) {
        self.0.push((clean(path, 160), detail));
    }

    /// One sentence about them, libraries first, and the first file.
    fn tell(mut self, package: &str, what: &str) -> Option<(String, String)> {
        self.0.sort_by_key(|(path, _)| !path.contains(".so"));
        let first = self.0.first()?.0.clone();
        let text = match self.0.as_slice() {
            [(path, detail)] if detail.is_empty() => format!("{path} of {package} is {what}"),
            [(path, detail)] => format!("{path} of {package}{detail}"),
            many => {
                let named: Vec<String> = many.iter().take(MOST).map(|(p, d)| format!("{p}{d}")).collect();
                let more = many.len().saturating_sub(MOST);
                let tail = if more > 0 { format!(", and {more} more") } else { String::new() };
                format!("{} files of {package} are {what}: {}{tail}", many.len(), named.join("; "))
            }
        };
        Some((text, first))
    }
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::installed::Distribution;

    #[test]
    fn many_faults_are_counted() {
        let installed = Installed {
            distributions: vec![Distribution {
                name: "a".into(),
                record_readable: true,
                faults: (0..10).map(|i| FileFault::Missing(format!("f{i}"))).collect(),
                ..Distribution::default()
            }],
            ..Installed::default()
        };
        let area = check(&installed, &|_| true);
        assert_eq!(area.findings.len(), 1);
        assert_eq!(area.findings[0].message, "10 files of a are gone: f0; f1; f2, and 7 more");
        assert_eq!(thousands(1234567), "1,234,567");
    }
}
