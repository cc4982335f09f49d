//! Recorded files against the disk.

use super::findings::{self, FileGroup};
use super::{Area, AreaKind};
use crate::model::installed::{FileFault, Installed};
use crate::model::text::clean;

/// No more files are named in one finding; the rest is counted.
const MOST: usize = 3;

/// `locked` tells whether a package is in the lock: of two that own a file, the other one goes.
pub(super) fn check(installed: &Installed, locked: &dyn Fn(&str) -> bool) -> Area {
    let mut found = Vec::new();
    let mut wrong = 0;
    for distribution in &installed.distributions {
        let name = &distribution.name;
        let conda = distribution.installer.as_deref() == Some("conda");
        if !distribution.record_readable && !conda {
            found.push(findings::unreadable_record(name, &distribution.dist_info));
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
        let missing = missing.told(name, "gone");
        found.extend(missing.map(|group| findings::missing_file(group, name, installed)));
        let altered = altered.told(name, "not as recorded");
        found.extend(altered.map(|group| findings::altered_file(group, name, installed)));
        if let Some(other) = other_owner {
            let (stays, goes) = if locked(name) && !locked(&other) { (name, &other) } else { (&other, name) };
            let twice = twice.told(name, &format!("also {other}'s, so one overwrote the other"));
            found.extend(twice.map(|group| findings::file_owned_twice(group, stays, goes, installed)));
        }
    }
    let summary = if wrong == 0 {
        format!("{} present, sizes as recorded", thousands(installed.files_seen))
    } else {
        format!("{} looked at, {} not as recorded", thousands(installed.files_seen), thousands(wrong))
    };
    Area { kind: AreaKind::Files, findings: found, summary }
}

/// Files with the same fault, and what is to say of each.
#[derive(Default)]
struct Group(Vec<(String, String)>);

impl Group {
    fn add(&mut self, path: &str, detail: String) {
        self.0.push((clean(path, 160), detail));
    }

    /// One sentence about them, libraries first, and the first file; nothing where there is none.
    fn told(mut self, package: &str, what: &str) -> Option<FileGroup> {
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
        Some(FileGroup { text, first })
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
