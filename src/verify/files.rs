//! Compares the files on disk with RECORD.

use super::findings::{self, FileGroup};
use super::{Area, AreaKind};
use crate::model::installed::{FileFault, Installed};
use crate::model::text::clean;

/// Maximum number of files named in one finding; the rest are counted.
const MAX_NAMED: usize = 3;

/// `locked`: whether a package is in the lock. Of two packages that record a file, the fix keeps the locked one.
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
                    altered.add(path, format!(" has {found} bytes, RECORD says {recorded}"));
                }
                FileFault::Unreadable(path, why) => altered.add(path, format!(" cannot be read: {why}")),
                FileFault::Hash(path) => altered.add(path, " has a different SHA-256 than RECORD".to_owned()),
                FileFault::OwnedTwice(path, other) => {
                    other_owner = Some(other.clone());
                    twice.add(path, String::new());
                }
            }
        }
        wrong += missing.0.len() + altered.0.len();
        let missing = missing.message(name, "missing");
        found.extend(missing.map(|group| findings::missing_file(group, name, installed)));
        let altered = altered.message(name, "different from RECORD");
        found.extend(altered.map(|group| findings::altered_file(group, name, installed)));
        if let Some(other) = other_owner {
            let (keep, remove) =
                if locked(name) && !locked(&other) { (name, &other) } else { (&other, name) };
            let twice = twice.message(name, &format!("also recorded by {other} (one overwrote the other)"));
            found.extend(twice.map(|group| findings::file_owned_twice(group, keep, remove, installed)));
        }
    }
    let summary = if wrong == 0 {
        format!("{} present, sizes as recorded", thousands(installed.files_seen))
    } else {
        format!("{} checked, {} missing or altered", thousands(installed.files_seen), thousands(wrong))
    };
    Area { kind: AreaKind::Files, findings: found, summary }
}

/// Files with the same fault, each with a detail for the message.
#[derive(Default)]
struct Group(Vec<(String, String)>);

impl Group {
    fn add(&mut self, path: &str, detail: String) {
        self.0.push((clean(path, 160), detail));
    }

    /// One message for all files, libraries first; `None` for an empty group.
    fn message(mut self, package: &str, what: &str) -> Option<FileGroup> {
        self.0.sort_by_key(|(path, _)| !path.contains(".so"));
        let first = self.0.first()?.0.clone();
        let text = match self.0.as_slice() {
            [(path, detail)] if detail.is_empty() => format!("{path} of {package} is {what}"),
            [(path, detail)] => format!("{path} of {package}{detail}"),
            many => {
                let named: Vec<String> =
                    many.iter().take(MAX_NAMED).map(|(p, d)| format!("{p}{d}")).collect();
                let more = many.len().saturating_sub(MAX_NAMED);
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
        assert_eq!(area.findings[0].message, "10 files of a are missing: f0; f1; f2, and 7 more");
        assert_eq!(thousands(1234567), "1,234,567");
    }
}
